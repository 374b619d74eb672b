//! `holdfast retention`: what nodes keep of what they put down, for how long, and how much that may be.

use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use holdfast_api::documents::{KeptHistory, KeptLog, NodeRetention, Retention, RetentionChange};
use holdfast_model::record::{RETENTION_MIB_MAX, RETENTION_MIB_MIN};
use holdfast_tls::DEMO;

use super::client;
use crate::cli::{Global, byte_size};
use crate::failure::Failure;
use crate::output::{Output, bytes, table};

const MIB: u64 = 1 << 20;
/// What follows it is the history's bound.
const HISTORY_BOUND: &str = "history.bytes_max";

#[derive(Debug, Subcommand)]
pub(crate) enum RetentionCommand {
    /// Show what each node keeps of the audit log, of events and of the performance history, and how far back it reaches
    Show,
    /// Change how much a node keeps; nodes follow within some seconds
    Set(RetentionArguments),
}

#[derive(Args, Clone, Copy, Debug)]
#[group(required = true, multiple = true)]
pub(crate) struct RetentionArguments {
    /// How much a node keeps of the audit log at most, from 2MiB to 128MiB, for example 64MiB
    #[arg(long, value_name = "SIZE", value_parser = mib)]
    audit: Option<u32>,
    /// How much a node keeps of the log of events at most, from 2MiB to 128MiB, for example 32MiB
    #[arg(long, value_name = "SIZE", value_parser = mib)]
    events: Option<u32>,
}

/// Whole MiB, as many as may be kept.
fn mib(text: &str) -> Result<u32, String> {
    let bytes = byte_size(text)?;
    if !bytes.is_multiple_of(MIB) {
        return Err("it is whole MiB, for example 64MiB".to_owned());
    }
    let mib = u32::try_from(bytes / MIB).ok();
    let mib = mib.filter(|mib| (RETENTION_MIB_MIN..=RETENTION_MIB_MAX).contains(mib));
    mib.ok_or_else(|| {
        format!(
            "it is {RETENTION_MIB_MIN}MiB to {RETENTION_MIB_MAX}MiB; what is to be kept for longer is copied elsewhere: audit.log and \
             events.log in the nodes' directories"
        )
    })
}

pub(crate) async fn run(
    global: &Global,
    output: &Output,
    command: RetentionCommand,
) -> Result<(), Failure> {
    let client = client(global);
    let retention = match command {
        RetentionCommand::Show => client.retention().await?,
        RetentionCommand::Set(set) => {
            let change = RetentionChange {
                audit_mib: set.audit,
                events_mib: set.events,
            };
            let retention = client.change_retention(change).await?;
            // What each has as its bound is that of before until it has asked.
            return output.result(&retention, || set_text(&retention));
        }
    };
    output.result(&retention, || text(&retention, now_ms()))?;
    if !retention.silent.is_empty() {
        let names = retention.silent.join(", ");
        output.talk(&format!("note: what {names} keeps is not known: no answer"));
    }
    Ok(())
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// What is set.
fn bounds(retention: &Retention) -> String {
    let of_log = |mib: u32| bytes(u64::from(mib) * MIB);
    format!(
        "each node keeps {} of the audit log and {} of events at most",
        of_log(retention.audit_mib),
        of_log(retention.events_mib)
    )
}

fn set_text(retention: &Retention) -> String {
    let bounds = bounds(retention);
    format!("{bounds}, within some seconds: `holdfast retention show`\n")
}

fn text(retention: &Retention, now_ms: u64) -> String {
    let mut text = format!(
        "{}: `holdfast retention set`\n\
         of the performance history as much as its file says: {HISTORY_BOUND}\n\n",
        bounds(retention)
    );
    let rows: Vec<_> = retention
        .nodes
        .iter()
        .flat_map(|node| rows(node, now_ms))
        .collect();
    text.push_str(&table(
        ["NODE", "KEPT", "SIZE", "AT MOST", "REACHES BACK"],
        &rows,
    ));
    text
}

fn rows(node: &NodeRetention, now_ms: u64) -> Vec<[String; 5]> {
    let kept = &node.kept;
    let none = || "-".to_owned();
    let row = |what: &str, size: String, most: String, reach: String| {
        [node.name.clone(), what.to_owned(), size, most, reach]
    };
    let log = |what: &str, kept: &Option<KeptLog>| match kept {
        Some(kept) => row(
            what,
            bytes(kept.bytes),
            bytes(kept.bytes_max),
            reach(kept.oldest_ms, now_ms),
        ),
        None => row(what, none(), none(), none()),
    };
    if kept.node == DEMO.0 {
        return vec![log("audit", &kept.audit)];
    }
    let mut rows = vec![log("audit", &kept.audit), log("events", &kept.events)];
    let Some(history) = &kept.history else {
        rows.push(row("history", none(), none(), none()));
        return rows;
    };
    let KeptHistory {
        bytes: size,
        bytes_max,
        resolutions,
    } = history;
    for (place, it) in resolutions.iter().enumerate() {
        // All of them share one bound.
        let (size, most) = match place {
            0 => (bytes(*size), bytes(*bytes_max)),
            _ => (String::new(), String::new()),
        };
        let most_back = age(it.kept_seconds);
        let back = format!("{} of {most_back}", reach(it.oldest_ms, now_ms));
        rows.push(row(
            &format!("history, {}", step(it.step_seconds)),
            size,
            most,
            back,
        ));
    }
    rows
}

fn step(seconds: u32) -> String {
    match seconds {
        seconds if seconds >= 3600 => format!("{} h", seconds / 3600),
        seconds if seconds >= 60 => format!("{} min", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}

fn reach(oldest_ms: Option<u64>, now_ms: u64) -> String {
    let seconds = oldest_ms.map(|oldest| now_ms.saturating_sub(oldest) / 1000);
    seconds.map_or_else(|| "nothing yet".to_owned(), age)
}

/// A span of time in the largest unit of which it has two.
fn age(seconds: u64) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "min")];
    match units.into_iter().find(|(unit, _)| seconds >= 2 * unit) {
        Some((unit, name)) => format!("{} {name}", seconds / unit),
        None => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_api::documents::{KeptResolution, LocalRetention};

    use super::*;

    #[test]
    fn sizes_are_whole_mebibytes() {
        assert_eq!((mib("2MiB"), mib("128MiB")), (Ok(2), Ok(128)));
        for bad in ["64", "1500KiB", "x", "9999999TiB"] {
            assert!(mib(bad).is_err(), "{bad}");
        }
        for bad in ["1MiB", "129MiB", "1GiB", "4096TiB"] {
            let refused = mib(bad).unwrap_err();
            assert!(refused.starts_with("it is 2MiB to 128MiB"), "{refused}");
        }
    }

    #[test]
    fn what_each_node_keeps_is_told_and_how_far_back_it_reaches() {
        let now_ms = 1_000_000_000;
        let log = |seconds: u64| KeptLog {
            bytes: 3 << 20,
            bytes_max: 64 << 20,
            oldest_ms: Some(now_ms - seconds * 1000),
        };
        let resolution = |step_seconds, kept_seconds, oldest_ms| KeptResolution {
            step_seconds,
            kept_seconds,
            oldest_ms,
        };
        let history = KeptHistory {
            bytes: 100 << 20,
            bytes_max: 512 << 20,
            resolutions: vec![
                resolution(1, 3600, Some(now_ms - 600_000)),
                resolution(300, 30 * 86_400, None),
            ],
        };
        let node = |name: &str, kept| NodeRetention {
            name: name.to_owned(),
            kept,
        };
        let whole = LocalRetention {
            node: 1,
            audit: Some(log(200_000)),
            events: Some(log(90)),
            history: Some(history),
        };
        let demo = LocalRetention {
            audit: Some(log(500)),
            ..LocalRetention::default()
        };
        let shown = text(
            &Retention {
                audit_mib: 64,
                events_mib: 16,
                nodes: vec![
                    node("demo", demo),
                    node("n1", whole),
                    node(
                        "n2",
                        LocalRetention {
                            node: 2,
                            ..LocalRetention::default()
                        },
                    ),
                ],
                ..Retention::default()
            },
            now_ms,
        );
        for line in [
            "keeps 64 MiB of the audit log and 16 MiB of events",
            "history.bytes_max",
            "n1    audit           3 MiB    64 MiB   2 d",
            "n1    events          3 MiB    64 MiB   90 s",
            "n1    history, 1 s    100 MiB  512 MiB  10 min of 60 min",
            "n1    history, 5 min                    nothing yet of 30 d",
            "n2    history         -        -        -",
        ] {
            assert!(shown.contains(line), "{line}: {shown}");
        }
        let set = set_text(&Retention {
            audit_mib: 64,
            events_mib: 16,
            ..Retention::default()
        });
        assert_eq!(
            set,
            "each node keeps 64 MiB of the audit log and 16 MiB of events at most, within some seconds: `holdfast retention show`\n"
        );
        let of_demo: Vec<_> = shown.lines().filter(|it| it.starts_with("demo")).collect();
        assert_eq!(of_demo, ["demo  audit           3 MiB    64 MiB   8 min"]);
    }
}
