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
        &["--what"],
    ] {
        let output = holdfast_sim(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains("Usage:"), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}
