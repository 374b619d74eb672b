//! `holdfast events`: what happened, and what changes, as it does.

use std::time::Duration;

use holdfast_api::documents::{
    EVENTS_MAX, Event, EventKind, EventList, EventPlace, EventQuery, EventSeverity,
};

use super::client;
use super::pieces::milliseconds_ago;
use super::stalls::utc;
use crate::cli::{Global, age};
use crate::failure::Failure;
use crate::output::{Output, table};

/// What was looked at longer ago is told.
const LATE: Duration = Duration::from_secs(4);

#[derive(clap::Args, Debug)]
pub(crate) struct EventArguments {
    /// Tell what changes from now on instead, until interrupted, or nobody answers any more
    #[arg(long, conflicts_with_all = ["since", "severity", "kind", "limit", "after"])]
    follow: bool,
    /// Of the last so many seconds, minutes, hours or days, for example 90s, 15m, 6h, 7d
    #[arg(long, value_name = "AGE", value_parser = age)]
    since: Option<Duration>,
    /// None that matter less
    #[arg(long, default_value = "info")]
    severity: Level,
    /// Of this kind only, for example node-lost
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Option<EventKind>,
    /// How many at most, the newest first
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(EVENTS_MAX)))]
    limit: u32,
    /// Those that come after a piece, which are older: what it said
    #[arg(long, value_name = "CURSOR")]
    after: Option<EventPlace>,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Level {
    Info,
    Warning,
    #[value(alias = "error")]
    Critical,
}

/// How much an event matters, on the scale that alarms have: documents call what is critical an error.
const fn scale(severity: EventSeverity) -> &'static str {
    match severity {
        EventSeverity::Error => "critical",
        EventSeverity::Info | EventSeverity::Warning => severity.as_str(),
    }
}

fn kind(text: &str) -> Result<EventKind, String> {
    let read = serde_json::from_value(text.into());
    match read {
        Ok(EventKind::Other) | Err(_) => {
            let kinds = EventKind::ALL.map(EventKind::as_str).join(", ");
            Err(format!("there is no such kind of event; there are {kinds}"))
        }
        Ok(kind) => Ok(kind),
    }
}

pub(crate) async fn run(
    global: &Global,
    output: &Output,
    arguments: &EventArguments,
) -> Result<(), Failure> {
    if arguments.follow {
        return follow(global, output).await;
    }
    let since_ms = arguments.since.map_or(0, milliseconds_ago);
    let query = EventQuery {
        limit: arguments.limit,
        since_ms,
        until_ms: None,
        severity: match arguments.severity {
            Level::Info => EventSeverity::Info,
            Level::Warning => EventSeverity::Warning,
            Level::Critical => EventSeverity::Error,
        },
        kind: arguments.kind,
        after: arguments.after.clone(),
    };
    let list = client(global).event_log(&query).await?;
    if !list.silent.is_empty() {
        let silent = list.silent.join(", ");
        output.talk(&format!(
            "note: what only {silent} has put down is missing: no answer"
        ));
    }
    let is_newest = arguments.after.is_none();
    if let Some(since) = unwatched(&list, milliseconds_ago(LATE)).filter(|_| is_newest) {
        output.talk(&since);
    }
    output.result(&list, || past(&list))?;
    if let Some(next) = &list.next {
        output.talk(&format!("note: older ones come with --after {next}"));
    }
    Ok(())
}

/// What is said where nobody who answers has looked since `late_ms`, in milliseconds since 1970 (UTC).
fn unwatched(list: &EventList, late_ms: u64) -> Option<String> {
    let is_late = (1..late_ms).contains(&list.looked_ms);
    is_late.then(|| {
        format!(
            "note: what changed after {} is not put down yet, which takes some seconds where the node that did it is lost; \
             `holdfast status` says how it is now",
            utc(list.looked_ms)
        )
    })
}

fn past(list: &EventList) -> String {
    let rows: Vec<_> = list
        .events
        .iter()
        .map(|event| {
            let detail = match event.not_before_ms {
                Some(before) => format!("{} (after {})", event.detail, utc(before)),
                None => event.detail.clone(),
            };
            [
                utc(event.at_ms),
                scale(event.severity).to_owned(),
                event.kind.as_str().to_owned(),
                event.subject.clone(),
                detail,
            ]
        })
        .collect();
    table(["TIME (UTC)", "SEVERITY", "KIND", "ABOUT", "WHAT"], &rows)
}

/// Before somebody is asked anew, where a stream has ended.
const PAUSE: Duration = Duration::from_secs(1);

/// Tells each event, until it is interrupted, or nobody answers any more.
async fn follow(global: &Global, output: &Output) -> Result<(), Failure> {
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
    let severity = scale(event.severity);
    let Event {
        kind,
        subject,
        detail,
        ..
    } = event;
    let at = utc(event.at_ms);
    format!(
        "{at}  {severity:<8}  {:<14}  {subject}: {detail}\n",
        kind.as_str()
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn lost() -> Event {
        Event {
            id: "a-1".to_owned(),
            at_ms: 1_700_000_000_123,
            kind: EventKind::NodeLost,
            severity: EventSeverity::Warning,
            subject: "node n1".to_owned(),
            detail: "down".to_owned(),
            not_before_ms: None,
        }
    }

    #[test]
    fn an_event_is_one_line() {
        let line = "2023-11-14 22:13:20.123  warning   node-lost       node n1: down\n";
        assert_eq!(text(&lost()), line);
        // As alarms say it.
        let critical = Event {
            severity: EventSeverity::Error,
            ..lost()
        };
        let line = "2023-11-14 22:13:20.123  critical  node-lost       node n1: down\n";
        assert_eq!(text(&critical), line);
    }

    #[test]
    fn who_asks_for_a_kind_that_is_none_is_told_which_there_are() {
        for known in EventKind::ALL {
            assert_eq!(kind(known.as_str()), Ok(known));
        }
        let refused = kind("node-gone").unwrap_err();
        assert!(refused.ends_with("alarm-untold, steering"), "{refused}");
        assert!(kind("other").is_err());
    }

    #[test]
    fn that_nobody_has_looked_for_a_while_is_told() {
        let list = |looked_ms| EventList {
            looked_ms,
            ..EventList::default()
        };
        let told = unwatched(&list(1_700_000_000_123), 1_700_000_000_124).unwrap();
        assert!(
            told.contains("changed after 2023-11-14 22:13:20.123 is"),
            "{told}"
        );
        assert_eq!(unwatched(&list(1_700_000_000_124), 1_700_000_000_124), None);
        assert_eq!(
            unwatched(&list(0), 1_700_000_000_124),
            None,
            "it is not known"
        );
    }

    #[test]
    fn what_happened_is_a_table_with_when_it_may_have_been() {
        let list = EventList {
            events: vec![
                lost(),
                Event {
                    not_before_ms: Some(1_700_000_000_000),
                    ..lost()
                },
            ],
            ..EventList::default()
        };
        let told = past(&list);
        let lines: Vec<_> = told.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            [
                "TIME (UTC)               SEVERITY  KIND       ABOUT    WHAT",
                "2023-11-14 22:13:20.123  warning   node-lost  node n1  down",
                "2023-11-14 22:13:20.123  warning   node-lost  node n1  down (after 2023-11-14 22:13:20.000)",
            ]
        );
    }

    #[derive(clap::Parser, Debug)]
    struct Line {
        #[command(flatten)]
        arguments: EventArguments,
    }

    #[test]
    fn what_is_asked_for_is_understood_or_refused() {
        let read = |words: &[&str]| {
            let line = std::iter::once("events").chain(words.iter().copied());
            Line::try_parse_from(line)
        };
        let line = read(&[
            "--since",
            "1d",
            "--kind",
            "node-lost",
            "--severity",
            "warning",
        ]);
        let arguments = line.unwrap().arguments;
        assert_eq!(arguments.kind, Some(EventKind::NodeLost));
        assert_eq!(arguments.since, Some(Duration::from_secs(86_400)));
        assert!(read(&["--follow"]).unwrap().arguments.follow);
        for word in ["critical", "error"] {
            let read = read(&["--severity", word]).unwrap().arguments.severity;
            assert!(matches!(read, Level::Critical), "{word}");
        }
        for wrong in [
            &["--kind", "other"][..],
            &["--kind", "of-tomorrow"],
            &["--severity", "none"],
            &["--limit", "0"],
            &["--limit", "1001"],
            &["--after", "x"],
            &["--follow", "--since", "1d"],
        ] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
