//! `iscsi-test-cu`, libiscsi's conformance suite: running it, and reading what it prints.
//!
//! It ends well when it has skipped a test, and prints what it has skipped only among the rest; so
//! its output is read line by line, and held against its own summary.

use std::collections::BTreeSet;
use std::fmt;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// Longest that one suite may take; some wait for seconds on purpose.
const SUITE_PATIENCE: Duration = Duration::from_secs(120);

/// Tests that send what has to be refused, or that are told first that the unit was reset, and report each refusal as if it
/// were a failure. Their assertions alone say how they ended.
const WANTS_REFUSALS: [&str; 4] = [
    "iSCSIdatasn.iSCSIDataSnInvalid",
    "Reserve6.TargetColdReset",
    "Reserve6.TargetWarmReset",
    "Reserve6.LUNReset",
];

/// A test that asks for what the standard forbids, and what it says then: docs/conformance.md.
const CONTRADICTS_STANDARD: (&str, &str) = (
    "GetLBAStatus.UnmapSingle",
    "lba offset in first descriptor does not",
);

/// What became of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passed, all of it.
    Passed,
    /// It passed, but has left something out.
    Skipped,
    /// It failed.
    Failed,
}

/// One test of a suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestResult {
    /// Suite and test, `Read10.Simple`.
    pub name: String,
    /// What became of it.
    pub verdict: Verdict,
    /// What it said.
    pub notes: Vec<String>,
}

/// What a run of the suite printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// All tests, in order.
    pub tests: Vec<TestResult>,
}

impl fmt::Display for TestResult {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {:?}", self.name, self.verdict)?;
        for note in &self.notes {
            write!(formatter, "\n    {note}")?;
        }
        Ok(())
    }
}

/// Whether a test failed by nothing but the one assertion that contradicts the standard.
fn contradicts_standard(test: &TestResult) -> bool {
    let (name, says) = CONTRADICTS_STANDARD;
    let failed = test.notes.iter().filter(|note| note.contains(" - CU_"));
    let mut failed = failed.peekable();
    test.name == name && failed.peek().is_some() && failed.all(|note| note.contains(says))
}

/// Runs suite `suite` (of the family ALL) destructively on the volume `url`.
///
/// # Errors
/// It cannot be run, does not end, ends with a crash, or prints what is not understood.
pub fn run(suite: &str, url: &str) -> Result<Outcome> {
    run_through(suite, &[url])
}

/// The same, on a volume that has several ways to it.
///
/// # Errors
/// As [`run`].
pub fn run_through(suite: &str, urls: &[&str]) -> Result<Outcome> {
    let url = urls.join(" ");
    let start = Instant::now();
    let output = Command::new("timeout")
        .arg(SUITE_PATIENCE.as_secs().to_string())
        .args(["iscsi-test-cu", "--dataloss", "-t"])
        .arg(format!("ALL.{suite}"))
        .args(urls)
        .output()
        .context("run iscsi-test-cu: is libiscsi-bin installed? (`make test` does it)")?;
    ensure!(
        start.elapsed() < SUITE_PATIENCE,
        "{suite} does not end on {url}"
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    // 0: all passed, 1: some did not.
    ensure!(
        matches!(output.status.code(), Some(0 | 1)),
        "{suite} ended with {} on {url}: {text}{said}",
        output.status
    );
    let outcome =
        parse(&text).with_context(|| format!("read what {suite} printed: {text}{said}"))?;
    ensure!(!outcome.tests.is_empty(), "there is no suite {suite}");
    let all_failed_count = outcome.count(Verdict::Failed) == 0;
    ensure!(
        all_failed_count || output.status.code() == Some(1),
        "{suite} ended well on {url}, but a test failed: {text}"
    );
    Ok(outcome)
}

/// The suites that there are, of all families.
///
/// # Errors
/// It cannot be run, or names none.
pub fn suites() -> Result<BTreeSet<String>> {
    let output = Command::new("iscsi-test-cu")
        .arg("--list")
        .output()
        .context("run iscsi-test-cu: is libiscsi-bin installed? (`make test` does it)")?;
    let text = String::from_utf8_lossy(&output.stdout);
    // Families, suites and tests, each with those that it belongs to: those of ALL are all.
    let lines = text.lines().map(str::trim);
    let tests = lines.filter_map(|line| line.strip_prefix("ALL."));
    let suites: BTreeSet<String> = tests
        .filter_map(|test| Some(test.split_once('.')?.0.to_owned()))
        .collect();
    ensure!(!suites.is_empty(), "it names no suite: {text}");
    Ok(suites)
}

impl Outcome {
    /// Tests with that verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        let tests = self.tests.iter();
        tests.filter(|test| test.verdict == verdict).count()
    }

    /// Tests that failed, but for what contradicts the standard, and tests that were skipped though
    /// they are not in `may_skip`.
    #[must_use]
    pub fn complaints(&self, may_skip: &[&str]) -> Vec<&TestResult> {
        let is_fine = |test: &TestResult| match test.verdict {
            Verdict::Passed => true,
            Verdict::Skipped => may_skip.contains(&test.name.as_str()),
            Verdict::Failed => contradicts_standard(test),
        };
        let tests = self.tests.iter();
        tests.filter(|test| !is_fine(test)).collect()
    }
}

/// Reads what iscsi-test-cu prints.
///
/// ```text
/// Suite: Read10
///   Test: Simple ...passed
///   Test: Async ...    [SKIPPED] why
/// passed
///   Test: BeyondEol ...    [FAILED] why
/// FAILED
///     1. file.c:38  - CU_ASSERT_EQUAL(_r,0)
///
/// Run Summary:    Type  Total    Ran Passed Failed Inactive
///               suites      1      1    n/a      0        0
///                tests      3      3      2      1        0
/// ```
///
/// # Errors
/// It is not that, or its summary does not agree with its tests.
pub fn parse(text: &str) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut suite = None;
    let mut open: Option<TestResult> = None;
    let mut summary = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("Suite: ") {
            ensure!(open.is_none(), "a test of the suite before has no end");
            suite = Some(name.trim());
        } else if let Some(rest) = line.strip_prefix("  Test: ") {
            ensure!(open.is_none(), "the test before {rest:?} has no end");
            let suite = suite.context("a test belongs to a suite")?;
            let (name, rest) = rest.split_once(" ...").context("a test has a name")?;
            open = Some(TestResult {
                name: format!("{suite}.{name}"),
                verdict: Verdict::Passed,
                notes: Vec::new(),
            });
            take(rest, &mut open, &mut outcome);
        } else if let Some(counts) = line.trim_start().strip_prefix("tests ") {
            summary = Some(counts.to_owned());
        } else {
            take(line, &mut open, &mut outcome);
        }
    }
    ensure!(open.is_none(), "the last test has no end");
    check_summary(&outcome, &summary.context("there is a summary")?)?;
    Ok(outcome)
}

/// Takes what a test says, or how it ended.
fn take(text: &str, open: &mut Option<TestResult>, outcome: &mut Outcome) {
    // The suite's own cleaning up may speak on the last test's line, after that has ended.
    let ended = match text.split_whitespace().next() {
        Some("passed") => Some(false),
        Some("FAILED") => Some(true),
        _ => None,
    };
    if let Some(failed) = ended {
        if let Some(mut test) = open.take() {
            if failed {
                test.verdict = Verdict::Failed;
            }
            outcome.tests.push(test);
        }
        return;
    }
    let note = text.trim();
    // What follows a test that failed is the list of its assertions.
    let test = open.as_mut().or_else(|| {
        let last = outcome.tests.last_mut();
        last.filter(|test| test.verdict == Verdict::Failed && note.contains(" - CU_"))
    });
    let Some(test) = test.filter(|_| !note.is_empty()) else {
        return;
    };
    if note.contains("[SKIPPED]") && test.verdict == Verdict::Passed {
        test.verdict = Verdict::Skipped;
    }
    // A command that failed where it should not; the suite counts some of these as passed.
    if note.contains("[FAILED]") && !WANTS_REFUSALS.contains(&test.name.as_str()) {
        test.verdict = Verdict::Failed;
    }
    test.notes.push(note.to_owned());
}

/// Total, ran, passed, failed, inactive.
fn check_summary(outcome: &Outcome, counts: &str) -> Result<()> {
    let counts: Vec<usize> = counts
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .with_context(|| format!("read the summary {counts:?}"))?;
    let [total, ran, passed, failed, inactive] = counts[..] else {
        bail!("the summary has five numbers, not {counts:?}");
    };
    ensure!(
        inactive == 0 && total == ran && passed + failed == ran,
        "not every test ran: {counts:?}"
    );
    ensure!(
        ran == outcome.tests.len(),
        "{ran} tests ran, {} were read",
        outcome.tests.len()
    );
    ensure!(
        failed <= outcome.count(Verdict::Failed),
        "{failed} tests failed, fewer were read"
    );
    let distinct: BTreeSet<&str> = outcome.tests.iter().map(|test| &*test.name).collect();
    ensure!(distinct.len() == ran, "a test was read twice");
    Ok(())
}

#[cfg(test)]
mod tests;
