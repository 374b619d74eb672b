//! The command line: a contract that other tools rely on.

use std::process::{Command, Output};

fn holdfast_sim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_holdfast-sim"))
        .args(arguments)
        .output()
        .expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it speaks UTF-8")
}

#[test]
fn a_trace_is_the_same_byte_for_byte() {
    let [first, second] = [(); 2].map(|()| holdfast_sim(&["--seed", "5", "--trace"]));
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    let lines = first.stdout.iter().filter(|byte| **byte == b'\n').count();
    assert!(lines > 1000, "{lines} lines");
    assert!(first.stdout == second.stdout, "the traces differ");
    assert!(first.stdout.ends_with(b"\n"), "the last line is whole");
}

#[test]
fn many_seeds_are_counted() {
    for (range, passed) in [
        ("2..4", 2),
        ("7..7", 0),
        ("18446744073709551614..18446744073709551615", 1),
    ] {
        let output = holdfast_sim(&["--seeds", range]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let expected = format!("{passed} of {passed} seeds passed\n");
        assert_eq!(text(&output.stdout), expected);
    }
}

#[test]
fn a_profile_makes_another_run_of_a_seed() {
    let lines = |profile| {
        let output = holdfast_sim(&["--seed", "5", "--profile", profile]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        output.stderr
    };
    assert!(lines("short") != lines("beyond"));
}

#[test]
fn a_summary_is_gone_on_from() {
    let folder = std::env::temp_dir().join(format!("holdfast-sim-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("there is a place for files");
    let file = folder.join("summary.json");
    let file = file.to_str().expect("its name is text");
    let json = |range: &str| {
        let output = holdfast_sim(&["--seeds", range, "--json", "--resume", file]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let summary = serde_json::from_slice(&output.stdout);
        summary.expect("the summary is JSON")
    };
    let first: serde_json::Value = json("2..4");
    assert_eq!((&first["next"], &first["passed"]), (&4.into(), &2.into()));
    let second: serde_json::Value = json("2..5");
    assert_eq!((&second["next"], &second["passed"]), (&5.into(), &3.into()));
    let steps = |summary: &serde_json::Value| summary["steps"].as_u64();
    assert!(steps(&second) > steps(&first));
    // Another range is another campaign.
    let output = holdfast_sim(&["--seeds", "3..5", "--resume", file]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("hint: "));
    std::fs::remove_dir_all(&folder).expect("they are ours");
}

#[test]
fn what_was_never_reached_is_listed() {
    let output = holdfast_sim(&["--seeds", "2..4", "--coverage"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    assert!(told.contains("never reached:\n"), "{told}");
    assert!(told.ends_with("2 of 2 seeds passed\n"), "{told}");
}

#[test]
fn wrong_arguments_are_a_usage_error() {
    for arguments in [
        &[][..],
        &["--seed"],
        &["--seed", "x"],
        &["--seed", "-1"],
        &["--seeds", "1"],
        &["--seeds", "1..x"],
        &["--seed", "1", "--seeds", "1..2"],
        &["--seeds", "1..2", "--trace"],
        &["--seeds", "1..2", "--jobs", "0"],
        &["--seed", "1", "--json"],
        &["--seed", "1", "--profile", "none"],
        &["--what"],
    ] {
        let output = holdfast_sim(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains("Usage:"), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}
