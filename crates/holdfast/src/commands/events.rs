//! `holdfast events`: what changes, as it does.

use std::time::Duration;

use holdfast_api::documents::{Event, EventKind, EventSeverity};

use super::client;
use super::stalls::utc;
use crate::cli::Global;
use crate::failure::Failure;
use crate::output::Output;

/// Before somebody is asked anew, where a stream has ended.
const PAUSE: Duration = Duration::from_secs(1);

/// Tells each event, until it is interrupted, or nobody answers any more.
pub(crate) async fn follow(global: &Global, output: &Output) -> Result<(), Failure> {
    let client = client(global);
    let mut last: Option<String> = None;
    loop {
        let mut written = Ok(());
        let before = last.clone();
        let tell = |event: Event| {
            let is_known = before.is_some() && event.kind == EventKind::Began;
            if written.is_ok() && !is_known {
                written = output.result(&event, || text(&event));
            }
            last = Some(event.id);
        };
        client.follow(before.as_deref(), tell).await?;
        written?;
        tokio::time::sleep(PAUSE).await;
    }
}

fn text(event: &Event) -> String {
    let severity = match event.severity {
        EventSeverity::Info => "info",
        EventSeverity::Warning => "warning",
        EventSeverity::Error => "error",
    };
    let Event {
        kind,
        subject,
        detail,
        ..
    } = event;
    let at = utc(event.at_ms);
    format!(
        "{at}  {severity:<7}  {:<14}  {subject}: {detail}\n",
        kind.as_str()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let event = Event {
            id: "a-1".to_owned(),
            at_ms: 1_700_000_000_123,
            kind: EventKind::NodeLost,
            severity: EventSeverity::Warning,
            subject: "node n1".to_owned(),
            detail: "down".to_owned(),
            not_before_ms: None,
        };
        let line = "2023-11-14 22:13:20.123  warning  node-lost       node n1: down\n";
        assert_eq!(text(&event), line);
    }
}
