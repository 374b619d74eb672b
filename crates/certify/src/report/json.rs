//! The report for programs. Its schema is described in `docs/certify.md`: fields are added, and neither renamed nor
//! given another meaning, without another number of the schema.

use serde::Serialize;

use super::{Counts, Report};
use crate::check::{HostKind, Outcome};

/// The number of the schema.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    subject: SubjectDocument<'a>,
    began_ms: u64,
    took_ms: u64,
    interrupted: bool,
    left_behind: Option<&'a str>,
    summary: Summary,
    hosts: Vec<HostDocument<'a>>,
    checks: Vec<CheckDocument<'a>>,
}

#[derive(Serialize)]
struct SubjectDocument<'a> {
    target: &'a str,
    lun: u16,
    vendor: &'a str,
    product: &'a str,
    revision: &'a str,
    serial: &'a str,
    identifier: &'a str,
    bytes: u64,
    block_length: u32,
    paths: Vec<PathDocument<'a>>,
}

#[derive(Serialize)]
struct PathDocument<'a> {
    portal: &'a str,
    relative_port: Option<u16>,
    port_group: Option<u16>,
}

#[derive(Serialize)]
struct Summary {
    passed: usize,
    warning: usize,
    failed: usize,
    not_applicable: usize,
    skipped: usize,
    not_run: usize,
}

#[derive(Serialize)]
struct HostDocument<'a> {
    host: &'static str,
    name: &'static str,
    standing: &'static str,
    because: &'a [&'static str],
}

#[derive(Serialize)]
struct CheckDocument<'a> {
    id: &'static str,
    group: &'static str,
    title: &'static str,
    does: &'static str,
    clause: &'static str,
    consequence: &'static str,
    required_by: Vec<&'static str>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seen: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    took_ms: u64,
}

/// The report as one JSON value.
///
/// # Panics
/// Never: the document is valid JSON.
#[must_use]
pub fn json(report: &Report) -> String {
    let subject = &report.subject;
    let paths = subject.paths.iter().map(|path| PathDocument {
        portal: &path.portal,
        relative_port: path.relative_port,
        port_group: path.port_group,
    });
    let Counts {
        passed,
        warnings,
        failed,
        not_applicable,
        skipped,
        not_run,
    } = report.counts();
    let document = Document {
        schema: SCHEMA,
        subject: SubjectDocument {
            target: &subject.target,
            lun: subject.lun,
            vendor: &subject.vendor,
            product: &subject.product,
            revision: &subject.revision,
            serial: &subject.serial,
            identifier: &subject.identifier,
            bytes: subject.bytes,
            block_length: subject.block_length,
            paths: paths.collect(),
        },
        began_ms: report.began_ms,
        took_ms: report.took.as_millis() as u64,
        interrupted: report.interrupted,
        left_behind: report.left_behind.as_deref(),
        summary: Summary {
            passed,
            warning: warnings,
            failed,
            not_applicable,
            skipped,
            not_run,
        },
        hosts: hosts(report),
        checks: report.checks.iter().map(check).collect(),
    };
    serde_json::to_string_pretty(&document).expect("the document is valid JSON") + "\n"
}

fn hosts(report: &Report) -> Vec<HostDocument<'_>> {
    let hosts = report.hosts.iter().map(|verdict| HostDocument {
        host: verdict.host.id(),
        name: verdict.host.name(),
        standing: verdict.standing.id(),
        because: &verdict.because,
    });
    hosts.collect()
}

fn check(report: &super::CheckReport) -> CheckDocument<'_> {
    let check = report.check;
    let outcome = &report.outcome;
    let mut document = CheckDocument {
        id: check.id,
        group: check.group.id(),
        title: check.title,
        does: check.does,
        clause: check.clause,
        consequence: check.consequence,
        required_by: check
            .required_by
            .iter()
            .copied()
            .map(HostKind::id)
            .collect(),
        outcome: outcome.id(),
        note: None,
        warning: None,
        expected: None,
        seen: None,
        reason: None,
        took_ms: report.took.as_millis() as u64,
    };
    match outcome {
        Outcome::Passed { note } => document.note = Some(note),
        Outcome::Warning { warning } => document.warning = Some(warning),
        Outcome::Failed { expected, seen } => {
            document.expected = Some(expected);
            document.seen = Some(seen);
        }
        Outcome::NotApplicable { reason }
        | Outcome::Skipped { reason }
        | Outcome::NotRun { reason } => document.reason = Some(reason),
    }
    document
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::tests::sample;
    use super::*;

    #[test]
    fn programs_find_what_the_documentation_says() {
        let value: Value = serde_json::from_str(&json(&sample())).unwrap();
        assert_eq!(value["schema"], 1);
        assert_eq!(value["subject"]["paths"][0]["relative_port"], 1);
        assert_eq!(value["subject"]["paths"][0]["port_group"], Value::Null);
        assert_eq!(value["summary"]["failed"], 1);
        assert_eq!(value["hosts"][0]["host"], "windows-failover-cluster");
        assert_eq!(value["hosts"][0]["standing"], "not-ready");
        let first = &value["checks"][0];
        assert_eq!(first["id"], "identity.inquiry");
        assert_eq!(first["outcome"], "failed");
        assert_eq!(first["seen"], "<script>alert('&')</script>");
        assert!(first.get("reason").is_none());
        assert_eq!(value["checks"][3]["reason"], "one path");
        assert_eq!(value["left_behind"], "no session");
    }
}
