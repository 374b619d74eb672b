//! What a run came to, and the forms in which it is told.

mod html;
mod json;
mod text;

use std::time::Duration;

use holdfast_lab::Lun;
use jiff::Timestamp;

use crate::check::{Check, Group, Outcome};
use crate::verdict::HostVerdict;

pub use self::html::html;
pub use self::json::json;
pub use self::text::text;

/// What was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The target's iSCSI name.
    pub target: String,
    /// The unit's number there.
    pub lun: u16,
    /// As the target says it.
    pub vendor: String,
    /// As the target says it.
    pub product: String,
    /// As the target says it.
    pub revision: String,
    /// As the target says it; empty if it does not.
    pub serial: String,
    /// The unit's identifier in hexadecimal digits; empty if it has none.
    pub identifier: String,
    /// How large it is.
    pub bytes: u64,
    /// Bytes of a logical block.
    pub block_length: u32,
    /// The ways to it.
    pub paths: Vec<PathReport>,
}

/// A way to the unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathReport {
    /// `host:port` of the portal.
    pub portal: String,
    /// RELATIVE TARGET PORT IDENTIFIER, if it is told.
    pub relative_port: Option<u16>,
    /// TARGET PORT GROUP, if it is told.
    pub port_group: Option<u16>,
}

/// What came of one check.
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// Which.
    pub check: &'static Check,
    /// What came of it.
    pub outcome: Outcome,
    /// How long it took.
    pub took: Duration,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was checked.
    pub subject: Subject,
    /// When it began: milliseconds since 1970.
    pub began_ms: u64,
    /// How long it took.
    pub took: Duration,
    /// All checks, in order.
    pub checks: Vec<CheckReport>,
    /// Which hosts may use the disk.
    pub hosts: Vec<HostVerdict>,
    /// It was interrupted.
    pub interrupted: bool,
    /// What could not be cleared up, if anything.
    pub left_behind: Option<String>,
}

/// How often each outcome came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Passed.
    pub passed: usize,
    /// Warnings.
    pub warnings: usize,
    /// Failed.
    pub failed: usize,
    /// Not applicable.
    pub not_applicable: usize,
    /// Skipped.
    pub skipped: usize,
    /// Not run.
    pub not_run: usize,
}

impl Subject {
    pub(crate) fn new(target: &str, lun: Lun) -> Self {
        Self {
            target: target.to_owned(),
            lun: lun.number().unwrap_or_default(),
            ..Self::default()
        }
    }
}

impl Report {
    /// How often each outcome came about.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for report in &self.checks {
            *match report.outcome {
                Outcome::Passed { .. } => &mut counts.passed,
                Outcome::Warning { .. } => &mut counts.warnings,
                Outcome::Failed { .. } => &mut counts.failed,
                Outcome::NotApplicable { .. } => &mut counts.not_applicable,
                Outcome::Skipped { .. } => &mut counts.skipped,
                Outcome::NotRun { .. } => &mut counts.not_run,
            } += 1;
        }
        counts
    }

    /// When it began, as people read it; what no calendar has stays a number.
    fn began(&self) -> String {
        let time = i64::try_from(self.began_ms).ok();
        let time = time.and_then(|time| Timestamp::from_millisecond(time).ok());
        match time {
            Some(time) => time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
            None => self.began_ms.to_string(),
        }
    }

    /// The checks by group, in order.
    fn groups(&self) -> impl Iterator<Item = (Group, &[CheckReport])> {
        let groups = self
            .checks
            .chunk_by(|one, other| one.check.group == other.check.group);
        groups.map(|group| (group[0].check.group, group))
    }
}

impl Counts {
    /// In words; what did not come about is left out.
    fn summary(self) -> String {
        let named = [
            (self.passed, "passed"),
            (self.warnings, "with a warning"),
            (self.failed, "failed"),
            (self.not_applicable, "not applicable"),
            (self.skipped, "skipped"),
            (self.not_run, "not run"),
        ];
        let named = named.iter().filter(|(count, _)| *count > 0);
        let named: Vec<String> = named
            .map(|(count, name)| format!("{count} {name}"))
            .collect();
        named.join(", ")
    }
}

/// What is told of an outcome, by name: in words for people.
fn details(outcome: &Outcome) -> Vec<(&'static str, &str)> {
    match outcome {
        Outcome::Passed { note } if note.is_empty() => Vec::new(),
        Outcome::Passed { note } => vec![("seen", note)],
        Outcome::Warning { warning } => vec![("warning", warning)],
        Outcome::Failed { expected, seen } => vec![("expected", expected), ("seen", seen)],
        Outcome::NotApplicable { reason }
        | Outcome::Skipped { reason }
        | Outcome::NotRun { reason } => vec![("because", reason)],
    }
}

/// Bytes as people read them.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut text = format!("{bytes} bytes");
    for (power, unit) in (1..).zip(UNITS) {
        let scale = 1_u64 << (10 * power);
        if bytes >= scale {
            let tenths = bytes / (scale / 10);
            text = match tenths % 10 {
                0 => format!("{} {unit}", tenths / 10),
                tenth => format!("{}.{tenth} {unit}", tenths / 10),
            };
        }
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{checks, verdict};

    /// A report with an outcome of each kind, and with what a target would like to have in a browser.
    pub(crate) fn sample() -> Report {
        let outcomes = [
            Outcome::Failed {
                expected: "READ (16) by host A: GOOD".to_owned(),
                seen: "<script>alert('&')</script>".to_owned(),
            },
            Outcome::Warning {
                warning: "\"quoted\" & odd".to_owned(),
            },
            Outcome::NotApplicable {
                reason: "TPGS 00b".to_owned(),
            },
            Outcome::Skipped {
                reason: "one path".to_owned(),
            },
            Outcome::NotRun {
                reason: "interrupted".to_owned(),
            },
        ];
        let passed = || Outcome::Passed {
            note: "all of it".to_owned(),
        };
        let reports = checks::all().enumerate().map(|(index, check)| CheckReport {
            check,
            outcome: outcomes.get(index).cloned().unwrap_or_else(passed),
            took: Duration::from_millis(12),
        });
        let checks: Vec<CheckReport> = reports.collect();
        let outcomes: Vec<_> = checks
            .iter()
            .map(|it| (it.check, it.outcome.clone()))
            .collect();
        Report {
            subject: Subject {
                target: "iqn.2026-11.example:disk".to_owned(),
                lun: 1,
                vendor: "<b>EVIL".to_owned(),
                product: "DISK".to_owned(),
                revision: "1".to_owned(),
                serial: "\"'<>&".to_owned(),
                identifier: "6000".to_owned(),
                bytes: 4 << 30,
                block_length: 512,
                paths: vec![PathReport {
                    portal: "127.0.0.1:3260".to_owned(),
                    relative_port: Some(1),
                    port_group: None,
                }],
            },
            began_ms: 1_795_708_800_000,
            took: Duration::from_millis(61_234),
            hosts: verdict::judge(&outcomes),
            checks,
            interrupted: false,
            left_behind: Some("no session".to_owned()),
        }
    }

    #[test]
    fn outcomes_are_counted() {
        let counts = sample().counts();
        assert_eq!((counts.failed, counts.warnings), (1, 1));
        assert_eq!(counts.passed, checks::all().count() - 5);
        assert!(
            counts
                .summary()
                .ends_with("1 with a warning, 1 failed, 1 not applicable, 1 skipped, 1 not run")
        );
    }

    #[test]
    fn sizes_are_short() {
        for (bytes, text) in [
            (4 << 30, "4 GiB"),
            (64 << 20, "64 MiB"),
            (3 << 29, "1.5 GiB"),
            (512, "512 bytes"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
