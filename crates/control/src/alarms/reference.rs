//! The reference of all alarms in Markdown, made from their kinds.
//!
//! Invariant: each kind is in it, with what is in force where nobody has set it otherwise.

use alloc::format;
use alloc::string::String;

use super::{AlarmKind, AlarmSeverity, AlarmUnit, Direction};

const BEGINNING: &str = "\
# Alarms

<!-- Made from the program: `cargo xtask fix` writes it anew, the gate's step `reference` compares. -->

An alarm is raised when something is wrong for long enough to be told to somebody, and is over by itself when that is not so any more. `holdfast alarm list` and the console show those that
are raised; [mail and webhooks](../notifications.md) tell of both. [Findings](findings.md) say of everything at once what is wrong and what may be done: an alarm is for whoever does not look there.

*Set* raises one: that value, or a worse one, for the time that it has to *hold*. *Clear* ends it: a value better than that, for the same time. Between the two nothing changes, so that what
walks about a limit is told once. `holdfast alarm set KIND` changes all three, or puts a kind off. Times are counted anew when another node takes the steering over.

*Critical*: hosts wait, or the next failure makes them wait. *Warning*: somebody should look, and nothing stands still. A node in maintenance may be down: what volumes and the metadata lack because it is away is no alarm meanwhile. Devices that a node lacks while it runs are. Maintenance that is not ended is told of by [`maintenance-lasts`](#maintenance-lasts).

| alarm | severity | set | clear | hold |
|---|---|---|---|---|
";

/// The page.
#[must_use]
pub fn alarm_reference() -> String {
    let mut page = String::from(BEGINNING);
    for kind in AlarmKind::ALL {
        let (text, threshold) = (kind.text(), kind.threshold());
        let severity = match text.severity {
            AlarmSeverity::Warning => "warning",
            AlarmSeverity::Critical => "critical",
        };
        let (set, clear) = match kind.direction() {
            Direction::Rising => ("≥", "<"),
            Direction::Falling => ("≤", ">"),
        };
        let (set, clear) = match text.unit {
            AlarmUnit::State => (String::from("it is so"), String::from("it is not")),
            unit => {
                let unit = unit_of(unit);
                (
                    format!("{set} {} {unit}", threshold.set()),
                    format!("{clear} {} {unit}", threshold.clear()),
                )
            }
        };
        let hold = threshold.hold_ms() / 1000;
        let code = text.code;
        page.push_str(&format!(
            "| [`{code}`](#{code}) | {severity} | {set} | {clear} | {hold} s |\n"
        ));
    }
    for kind in AlarmKind::ALL {
        let text = kind.text();
        page.push_str(&format!(
            "\n## {}\n\n*{}.* {}\n\n{}\n",
            text.code, text.title, text.meaning, text.action
        ));
    }
    page
}

const fn unit_of(unit: AlarmUnit) -> &'static str {
    match unit {
        AlarmUnit::State => "",
        AlarmUnit::Percent => "%",
        AlarmUnit::Milliseconds => "ms",
        AlarmUnit::Seconds => "s",
        AlarmUnit::Days => "days",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_in_the_list_and_has_a_section() {
        let page = alarm_reference();
        for kind in AlarmKind::ALL {
            let code = kind.text().code;
            assert!(page.contains(&format!("| [`{code}`](#{code}) |")), "{code}");
            assert!(page.contains(&format!("\n## {code}\n")), "{code}");
        }
        assert!(page.contains("| ≤ 30 days | > 31 days | 3600 s |"));
    }
}
