//! The report for people at a terminal: columns line up, and nothing depends on colour.

use super::{CheckReport, Report, details, size};
use crate::check::Outcome;

/// Letters of a line, where it can be broken.
const WIDTH: usize = 110;
/// How far what belongs to a line is set in.
const INDENT: usize = 18;

/// The report as text.
#[must_use]
pub fn text(report: &Report) -> String {
    let subject = &report.subject;
    let mut text = format!(
        "Readiness for clusters of hosts: {}, LUN {}\n{} {} {}, {}, blocks of {} bytes\n",
        subject.target,
        subject.lun,
        subject.vendor,
        subject.product,
        subject.revision,
        size(subject.bytes),
        subject.block_length
    );
    if !subject.identifier.is_empty() {
        text.push_str(&format!(
            "identifier {}, serial number {}\n",
            subject.identifier, subject.serial
        ));
    }
    for (number, path) in (1..).zip(&subject.paths) {
        let told = |name: &str, value: Option<u16>| {
            value.map_or_else(String::new, |value| format!(", {name} {value}"))
        };
        text.push_str(&format!(
            "path {number}: {}{}{}\n",
            path.portal,
            told("port", path.relative_port),
            told("group", path.port_group)
        ));
    }
    for (group, checks) in report.groups() {
        text.push_str(&format!("\n{}\n", group.title()));
        for check in checks {
            text.push_str(&lines(check));
        }
    }
    text.push_str("\nHosts\n");
    for verdict in &report.hosts {
        let head = format!("  {:<42}{}", verdict.host.name(), verdict.standing.name());
        text.push_str(&head);
        text.push('\n');
        if !verdict.because.is_empty() {
            push_wrapped(&mut text, "because:", &verdict.because.join(", "));
        }
    }
    text.push_str(&format!(
        "\n{} of {} checks, in {:.1} s, from {} on\n",
        report.counts().summary(),
        report.checks.len(),
        report.took.as_secs_f64(),
        report.began()
    ));
    if report.interrupted {
        text.push_str("the run was interrupted\n");
    }
    if let Some(left) = &report.left_behind {
        text.push_str(&format!("NOT CLEARED UP: {left}\n"));
    }
    text
}

/// One check: its outcome, and what is to be known of it.
fn lines(report: &CheckReport) -> String {
    let check = report.check;
    let mut text = format!(
        "  {:<16}{}: {}\n",
        word(&report.outcome),
        check.id,
        check.title
    );
    for (name, value) in details(&report.outcome) {
        push_wrapped(&mut text, &format!("{name}:"), value);
    }
    if matches!(
        report.outcome,
        Outcome::Failed { .. } | Outcome::Warning { .. }
    ) {
        push_wrapped(&mut text, "demanded:", check.clause);
        push_wrapped(&mut text, "hosts:", check.consequence);
    }
    text
}

/// The outcome in a word; a failure is seen from afar.
const fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Failed { .. } => "FAILED",
        Outcome::NotApplicable { .. } => "not applicable",
        Outcome::NotRun { .. } => "not run",
        other => other.id(),
    }
}

/// A name and what follows it, broken at spaces.
fn push_wrapped(text: &mut String, name: &str, value: &str) {
    let head = format!("{:INDENT$}{name:<10}", "");
    let mut line = head.clone();
    for word in value.split(' ') {
        let is_first = line.len() <= head.len();
        if !is_first && line.chars().count() + 1 + word.chars().count() > WIDTH {
            text.push_str(line.trim_end());
            text.push('\n');
            line = " ".repeat(head.len());
        } else if !is_first {
            line.push(' ');
        }
        line.push_str(word);
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn a_failure_says_everything() {
        let text = text(&sample());
        for part in [
            "Readiness for clusters of hosts: iqn.2026-11.example:disk, LUN 1\n",
            "path 1: 127.0.0.1:3260, port 1\n",
            "\nIdentity\n  FAILED          identity.inquiry: Every path",
            "                  expected: READ (16) by host A: GOOD\n",
            "                  demanded: SPC-4 6.4.2\n",
            "  not applicable  identity.serial: ",
            "  Windows Server failover cluster           NOT READY\n",
            "                  because:  identity.inquiry",
            "NOT CLEARED UP: no session\n",
        ] {
            assert!(text.contains(part), "{part:?} is missing in\n{text}");
        }
    }

    #[test]
    fn long_lines_are_broken_at_spaces() {
        let mut text = String::new();
        push_wrapped(&mut text, "seen:", &"word ".repeat(40));
        assert!(text.lines().count() > 1);
        let width = text.lines().map(str::len).max();
        assert!(width.is_some_and(|width| width <= WIDTH));
        assert!(
            text.lines()
                .all(|line| line.starts_with(&" ".repeat(INDENT)))
        );
    }
}
