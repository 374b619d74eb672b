use super::*;

/// Printed by iscsi-test-cu 1.19 for suites GetLBAStatus and iSCSIdatasn of tgt 1.0.85.
const FAILURES: &str = "


     CUnit - A unit testing framework for C - Version 2.1-3
     http://cunit.sourceforge.net/


Suite: GetLBAStatus
  Test: Simple ...passed
  Test: BeyondEol ...    [FAILED] GET_LBA_STATUS successful but should have failed with ILLEGAL_REQUEST(0x05)/LBA_OUT_OF_RANGE(0x2100)
FAILED
    1. test_get_lba_status_beyond_eol.c:38  - CU_ASSERT_EQUAL(_r,0)
  Test: UnmapSingle ...    [SKIPPED] Logical unit is fully provisioned. Skipping test
passed

Run Summary:    Type  Total    Ran Passed Failed Inactive
              suites      1      1    n/a      0        0
               tests      3      3      2      1        0
             asserts    516    516    515      1      n/a

Elapsed time =    0.005 seconds
Tests completed with return value: 0
";
const FAILURES_WITHOUT_WORDS: &str = "
Suite: iSCSIdatasn
  Test: iSCSIDataSnInvalid ...FAILED
    1. test_iscsi_datasn_invalid.c:98  - CU_ASSERT_NOT_EQUAL(ret,0)
    2. test_iscsi_datasn_invalid.c:116  - CU_ASSERT_NOT_EQUAL(ret,0)

Run Summary:    Type  Total    Ran Passed Failed Inactive
              suites      1      1    n/a      0        0
               tests      1      1      0      1        0
             asserts      4      4      0      4      n/a
";
/// ModeSense6 of tgt: a warning is no failure.
const WARNINGS: &str = "
Suite: ModeSense6
  Test: AllPages ...passed
  Test: Control ...    [WARNING] BUSY_TIMEOUT_PERIOD is undefined.
passed
  Test: Control-SWP ...    [SKIPPED] SWP is not changeable.
    [SKIPPED] Not at all.
passed

Run Summary:    Type  Total    Ran Passed Failed Inactive
              suites      1      1    n/a      0        0
               tests      3      3      3      0        0
             asserts     36     36     36      0      n/a
";

fn verdicts(text: &str) -> Vec<(String, Verdict)> {
    let outcome = parse(text).unwrap();
    let tests = outcome.tests.into_iter();
    tests.map(|test| (test.name, test.verdict)).collect()
}

#[test]
fn every_kind_of_end_is_read() {
    use Verdict::{Failed, Passed, Skipped};
    let expected = |pairs: &[(&str, Verdict)]| -> Vec<(String, Verdict)> {
        let pairs = pairs.iter();
        pairs
            .map(|(name, verdict)| ((*name).into(), *verdict))
            .collect()
    };
    assert_eq!(
        verdicts(FAILURES),
        expected(&[
            ("GetLBAStatus.Simple", Passed),
            ("GetLBAStatus.BeyondEol", Failed),
            ("GetLBAStatus.UnmapSingle", Skipped),
        ])
    );
    assert_eq!(
        verdicts(FAILURES_WITHOUT_WORDS),
        expected(&[("iSCSIdatasn.iSCSIDataSnInvalid", Failed)])
    );
    assert_eq!(
        verdicts(WARNINGS),
        expected(&[
            ("ModeSense6.AllPages", Passed),
            ("ModeSense6.Control", Passed),
            ("ModeSense6.Control-SWP", Skipped),
        ])
    );
}

#[test]
fn what_is_permitted_is_no_complaint() {
    let outcome = parse(WARNINGS).unwrap();
    assert_eq!(outcome.complaints(&[]).len(), 1);
    assert!(outcome.complaints(&["ModeSense6.Control-SWP"]).is_empty());
    let outcome = parse(FAILURES).unwrap();
    assert_eq!(outcome.complaints(&["GetLBAStatus.BeyondEol"]).len(), 2);
    let failed = &outcome.tests[1];
    assert_eq!(failed.notes.len(), 2, "the command and the assertion");
    assert!(failed.to_string().contains("LBA_OUT_OF_RANGE"));
}

#[test]
fn a_failure_that_counts_as_passed_is_one() {
    let text = WARNINGS.replace("[WARNING]", "[FAILED]");
    let outcome = parse(&text).unwrap();
    assert_eq!(outcome.count(Verdict::Failed), 1);
}

#[test]
fn output_that_was_cut_is_refused() {
    let lines: Vec<&str> = FAILURES.lines().collect();
    let whole = lines
        .iter()
        .position(|line| line.contains("tests "))
        .unwrap();
    for count in 0..=whole {
        assert!(parse(&lines[..count].join("\n")).is_err(), "{count} lines");
    }
    assert!(parse("").is_err());
}

#[test]
fn a_summary_that_does_not_agree_is_refused() {
    for (from, to) in [
        (
            "3      3      2      1        0",
            "4      4      3      1        0",
        ),
        (
            "3      3      2      1        0",
            "4      3      2      1        1",
        ),
        (
            "3      3      2      1        0",
            "3      3      0      3        0",
        ),
        ("3      3      2      1        0", "3      3      2      1"),
        ("Test: Simple", "Test: UnmapSingle"),
    ] {
        let text = FAILURES.replace(from, to);
        assert_ne!(text, FAILURES);
        assert!(parse(&text).is_err(), "{to}");
    }
}

#[test]
fn what_is_said_after_the_last_test_is_not_of_it() {
    let text = "
Suite: TestUnitReady
  Test: Simple ...passed    [SKIPPED] PERSISTENT RESERVE IN is not implemented.

Run Summary:    Type  Total    Ran Passed Failed Inactive
              suites      1      1    n/a      0        0
               tests      1      1      1      0        0
";
    let outcome = parse(text).unwrap();
    assert_eq!(outcome.count(Verdict::Passed), 1);
    assert!(outcome.complaints(&[]).is_empty());
}

#[test]
fn only_the_one_assertion_is_known_to_contradict_the_standard() {
    let failed = |name: &str, notes: &[&str]| {
        let test = TestResult {
            name: name.into(),
            verdict: Verdict::Failed,
            notes: notes.iter().map(|note| (*note).into()).collect(),
        };
        let outcome = Outcome { tests: vec![test] };
        outcome.complaints(&[]).len()
    };
    let known = "1. x.c:1  - CU_FAIL(\"lba offset in first descriptor does not match\")";
    let other = "2. x.c:2  - CU_ASSERT_EQUAL(_r,0)";
    assert_eq!(failed("GetLBAStatus.UnmapSingle", &[known]), 0);
    assert_eq!(failed("GetLBAStatus.UnmapSingle", &[known, other]), 1);
    assert_eq!(failed("GetLBAStatus.UnmapSingle", &[]), 1);
    assert_eq!(failed("GetLBAStatus.Simple", &[known]), 1);
}
