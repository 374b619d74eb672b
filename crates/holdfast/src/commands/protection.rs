//! How far the cluster is from being protected, and what that waits for, as people read it.

use std::time::{Duration, SystemTime};

use holdfast_api::documents::{Explanation, Finding, Protection, Remedy, SyncWork, Wait};
use jiff::Timestamp;

use crate::output::bytes;

/// What is waited for, in the one line: the rest is for `--explain`.
const WAITS_MAX: usize = 2;

/// The line that matters most.
pub(crate) fn line(protection: &Protection, now: SystemTime) -> String {
    const AGAIN: &str = "time until every volume is protected again";
    let Protection {
        protected,
        work,
        waits_for,
        ..
    } = protection;
    if *protected {
        return "protected: every volume".to_owned();
    }
    if waits_for.is_empty() {
        return match work.seconds_left {
            Some(seconds) => format!("{AGAIN}: {} ({})", about(seconds), amount(work)),
            None => format!("{AGAIN}: not known yet ({})", amount(work)),
        };
    }
    let first: Vec<String> = waits_for
        .iter()
        .take(WAITS_MAX)
        .map(|one| wait(one, now))
        .collect();
    let more = match waits_for.len() - first.len() {
        0 => String::new(),
        more => format!("; and for {more} more: `holdfast status --explain`"),
    };
    format!("{AGAIN}: unknown: waits for {}{more}", first.join("; for "))
}

/// All that there is to say.
pub(crate) fn explanation(explanation: &Explanation, now: SystemTime) -> String {
    let mut text = line(&explanation.protection, now) + "\n";
    for volume in &explanation.volumes {
        text.push_str(&format!(
            "\nvolume {}: {}\n",
            volume.volume,
            volume.health.as_str()
        ));
        for one in &volume.findings {
            text.push_str(&finding(one, now));
        }
    }
    if !explanation.metadata.is_empty() {
        text.push_str("\nmetadata\n");
    }
    for one in &explanation.metadata {
        text.push_str(&finding(one, now));
    }
    for node in &explanation.nodes {
        text.push_str(&format!("\nnode {}\n", node.node));
        for one in &node.findings {
            text.push_str(&finding(one, now));
        }
    }
    text
}

fn finding(finding: &Finding, now: SystemTime) -> String {
    let slices = match finding.slices {
        0 => String::new(),
        1 => format!("slice {}: ", finding.indexes),
        count => format!("{count} slices ({}): ", finding.indexes),
    };
    let work = finding.work.as_ref();
    let work = work.map(|work| format!(" ({})", amount(work)));
    let mut text = format!("  {slices}{}{}\n", finding.what, work.unwrap_or_default());
    for one in &finding.waits_for {
        text.push_str(&format!("    waits for: {}\n", wait(one, now)));
    }
    for one in &finding.remedies {
        text.push_str(&format!("    you may:   {}\n", remedy(one)));
    }
    if finding.remedies.is_empty() {
        text.push_str("    nothing has to be done\n");
    }
    text
}

fn remedy(remedy: &Remedy) -> String {
    match &remedy.command {
        Some(command) => format!("{}: `{command}`", remedy.what),
        None => remedy.what.clone(),
    }
}

/// What is waited for, and until when.
fn wait(wait: &Wait, now: SystemTime) -> String {
    let Some(seconds) = wait.seconds_left else {
        return wait.what.clone();
    };
    let at = now.checked_add(Duration::from_secs(seconds));
    let at = at.and_then(|at| Timestamp::try_from(at).ok());
    let at = at.map(|at| format!(" (at {} UTC)", at.strftime("%H:%M:%S")));
    format!(
        "{}, in {}{}",
        wait.what,
        span(seconds),
        at.unwrap_or_default()
    )
}

/// What is left to be copied.
pub(crate) fn amount(work: &SyncWork) -> String {
    let mut text = bytes(work.bytes);
    if work.bytes_per_second > 0 {
        text.push_str(&format!(" at {}/s", bytes(work.bytes_per_second)));
    }
    text
}

/// A time that is an estimate.
pub(crate) fn about(seconds: u64) -> String {
    format!("about {}", span(seconds))
}

/// A span of time, as exact as people need it; never less than it is.
pub(crate) fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{} s", seconds.max(1)),
        120..7200 => format!("{} min", seconds.div_ceil(60)),
        7200..172_800 => format!("{} h", seconds.div_ceil(3600)),
        _ => format!("{} days", seconds.div_ceil(86_400)),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_api::documents::{FindingKind, Health, NodeFindings, VolumeFindings};

    use super::*;

    /// 2026-11-22 14:00:00 UTC.
    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_356_000)
    }

    fn work(bytes: u64, bytes_per_second: u64, seconds_left: Option<u64>) -> SyncWork {
        SyncWork {
            replicas: 1,
            bytes,
            bytes_per_second,
            seconds_left,
        }
    }

    fn away() -> Wait {
        Wait {
            what: "n3 to come back; else what it held is rebuilt elsewhere".to_owned(),
            seconds_left: Some(43 * 60),
        }
    }

    #[test]
    fn the_line_says_how_long_or_what_for() {
        let protected = Protection {
            protected: true,
            ..Protection::default()
        };
        assert_eq!(line(&protected, now()), "protected: every volume");
        let syncing = Protection {
            slices: 3,
            work: work(1228 << 20, 8 << 20, Some(154)),
            ..Protection::default()
        };
        assert_eq!(
            line(&syncing, now()),
            "time until every volume is protected again: about 3 min (1.2 GiB at 8 MiB/s)"
        );
        let begins = Protection {
            work: work(1 << 20, 0, None),
            ..Protection::default()
        };
        assert!(line(&begins, now()).ends_with("again: not known yet (1 MiB)"));
        let wait = |what: &str| Wait {
            what: what.to_owned(),
            seconds_left: None,
        };
        let waiting = Protection {
            waits_for: vec![away(), wait("n4 to answer"), wait("n5 to answer")],
            ..Protection::default()
        };
        assert_eq!(
            line(&waiting, now()),
            "time until every volume is protected again: unknown: waits for n3 to come back; else what \
             it held is rebuilt elsewhere, in 43 min (at 14:43:00 UTC); for n4 to answer; and for 1 \
             more: `holdfast status --explain`"
        );
    }

    #[test]
    fn an_explanation_says_what_is_wrong_and_what_helps() {
        let finding = Finding {
            kind: FindingKind::NodeDown,
            health: Health::Degraded,
            what: "n3 is down, and with it one of the copies of mirror2".to_owned(),
            slices: 5,
            indexes: "0-3 7".to_owned(),
            work: Some(work(12 << 20, 0, None)),
            waits_for: vec![away()],
            remedies: vec![
                Remedy {
                    what: "start n3".to_owned(),
                    command: None,
                },
                Remedy {
                    what: "rebuild what silent nodes held sooner".to_owned(),
                    command: Some("holdfast settings set --repair-delay 5m".to_owned()),
                },
            ],
        };
        let whole = Finding {
            slices: 0,
            work: None,
            waits_for: Vec::new(),
            remedies: Vec::new(),
            what: "it has not answered for 9 s".to_owned(),
            ..finding.clone()
        };
        let member = Finding {
            what: "2 of 3 members of etcd answer: c:2379 does not answer".to_owned(),
            ..whole.clone()
        };
        let document = Explanation {
            metadata: vec![member],
            volumes: vec![VolumeFindings {
                volume: "demo".to_owned(),
                health: Health::Degraded,
                findings: vec![finding],
            }],
            nodes: vec![NodeFindings {
                node: "n3".to_owned(),
                findings: vec![whole],
            }],
            ..Explanation::default()
        };
        assert_eq!(
            explanation(&document, now()),
            "time until every volume is protected again: not known yet (0 B)\n\
             \n\
             volume demo: degraded\n\
             \x20 5 slices (0-3 7): n3 is down, and with it one of the copies of mirror2 (12 MiB)\n\
             \x20   waits for: n3 to come back; else what it held is rebuilt elsewhere, in 43 min (at \
             14:43:00 UTC)\n\
             \x20   you may:   start n3\n\
             \x20   you may:   rebuild what silent nodes held sooner: `holdfast settings set \
             --repair-delay 5m`\n\
             \n\
             metadata\n\
             \x20 2 of 3 members of etcd answer: c:2379 does not answer\n\
             \x20   nothing has to be done\n\
             \n\
             node n3\n\
             \x20 it has not answered for 9 s\n\
             \x20   nothing has to be done\n"
        );
    }

    #[test]
    fn spans_are_rounded_up() {
        for (seconds, text) in [
            (0, "1 s"),
            (119, "119 s"),
            (121, "3 min"),
            (7200, "2 h"),
            (172_801, "3 days"),
        ] {
            assert_eq!(span(seconds), text);
        }
    }
}
