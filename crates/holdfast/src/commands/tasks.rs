//! `holdfast tasks`: long work under way.

use holdfast_api::documents::{Task, TaskList};

use super::client;
use super::protection::about;
use crate::cli::Global;
use crate::failure::Failure;
use crate::output::{Output, bytes, table};

/// Lists tasks, or calls one off.
pub(crate) async fn run(
    global: &Global,
    output: &Output,
    cancel: Option<&str>,
) -> Result<(), Failure> {
    let client = client(global);
    if let Some(id) = cancel {
        client.cancel_task(id).await?;
        output.talk(&format!("{id} is called off"));
        return Ok(());
    }
    let list = client.tasks().await?;
    output.result(&list, || text(&list))
}

fn text(list: &TaskList) -> String {
    if list.tasks.is_empty() {
        return "no task is under way\n".to_owned();
    }
    let names = ["TASK", "DONE", "LEFT", "RATE", "TIME LEFT"];
    let rows: Vec<_> = list.tasks.iter().map(row).collect();
    table(names, &rows)
}

fn row(task: &Task) -> [String; 5] {
    let unknown = || "-".to_owned();
    let done = match (task.bytes_done, task.bytes_total) {
        (Some(done), Some(total)) if total > 0 => {
            format!("{}%", u128::from(done) * 100 / u128::from(total))
        }
        _ => unknown(),
    };
    let rate = match task.bytes_per_second {
        0 if task.is_waiting => "waits".to_owned(),
        0 => unknown(),
        rate => format!("{}/s", bytes(rate)),
    };
    [
        task.id.clone(),
        done,
        task.bytes_left.map_or_else(unknown, bytes),
        rate,
        task.seconds_left.map_or_else(unknown, about),
    ]
}

#[cfg(test)]
mod tests {
    use holdfast_api::documents::TaskKind;

    use super::*;

    #[test]
    fn tasks_are_told_with_what_is_left() {
        let sync = Task {
            id: "sync~data~0~n2".to_owned(),
            kind: TaskKind::Sync,
            subject: "slice 0 of volume data, to n2".to_owned(),
            volume: Some("data".to_owned()),
            node: Some("n2".to_owned()),
            is_waiting: false,
            began_seconds: None,
            bytes_done: Some(1 << 30),
            bytes_total: Some(4 << 30),
            bytes_left: Some(3 << 30),
            bytes_per_second: 64 << 20,
            seconds_left: Some(48),
            can_cancel: false,
        };
        let waits = Task {
            id: "sync~data~1~n2".to_owned(),
            is_waiting: true,
            bytes_done: None,
            bytes_total: None,
            bytes_per_second: 0,
            seconds_left: None,
            ..sync.clone()
        };
        let list = TaskList {
            tasks: vec![sync, waits],
            next: None,
        };
        let told = text(&list);
        assert!(
            told.contains("sync~data~0~n2  25%   3 GiB  64 MiB/s"),
            "{told}"
        );
        assert!(
            told.contains("sync~data~1~n2  -     3 GiB  waits     -"),
            "{told}"
        );
        assert_eq!(text(&TaskList::default()), "no task is under way\n");
    }
}
