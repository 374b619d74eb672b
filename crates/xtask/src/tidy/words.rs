//! What may not stand in a file: whatever its language, and in Rust.
//!
//! Words that are forbidden are written here in two halves, or this file would break its own rule.

use super::source::{Source, line_of, words};
use super::{File, Finding, crate_of};

/// Paths that exist on somebody's machine only.
const MACHINE_PATHS: &[&str] = &[
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
    concat!("/tm", "p/"),
];
/// A mark for work that must be done before merging.
const FIX: &str = concat!("FIX", "ME");
/// A mark for later work; needs an issue's number.
const LATER: &str = concat!("TO", "DO");
/// The one crate that may leave the safe language.
const UNSAFE_CRATE: &str = "disk";

/// Rules for every text file.
pub(super) fn check_text(file: &File, findings: &mut Vec<Finding>) {
    for (index, line) in file.text.split('\n').enumerate() {
        let mut report = |message: String| {
            findings.push(Finding::new(&file.path, index + 1, message));
        };
        if line.ends_with([' ', '\t', '\r']) {
            report("ends in white space".into());
        }
        for path in MACHINE_PATHS {
            if line
                .match_indices(path)
                .any(|(at, _)| starts_path(line, at))
            {
                report(format!("names a path of one machine ({path}…)"));
            }
        }
        // Rust is looked at more closely; prose may speak of the marks.
        if !file.path.ends_with(".rs") && !file.path.ends_with(".md") {
            marks(line).into_iter().for_each(report);
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        findings.push(Finding::new(&file.path, 0, "lacks the last line's end"));
    }
}

/// Rules for Rust.
pub(super) fn check_source(file: &File, source: &Source, findings: &mut Vec<Finding>) {
    // A module of tests in a file of its own says all that with its name.
    if !file.text.starts_with("//!") && !file.path.ends_with("tests.rs") {
        let message = "does not open with `//!`: what it is, what it refuses, its invariants";
        findings.push(Finding::new(&file.path, 1, message));
    }
    for (index, line) in source.comments.lines().enumerate() {
        for message in marks(line) {
            findings.push(Finding::new(&file.path, index + 1, message));
        }
    }
    let mut report = |at: usize, message: String| {
        let line = line_of(&source.code, at);
        findings.push(Finding::new(&file.path, line, message));
    };
    for name in ["dbg", "todo"] {
        for at in words(&source.code, name) {
            if source.code[at + name.len()..].starts_with('!') {
                report(at, format!("{name}! does not merge"));
            }
        }
    }
    if crate_of(&file.path) != Some(UNSAFE_CRATE) {
        for at in words(&source.code, "unsafe") {
            report(at, format!("unsafe outside crates/{UNSAFE_CRATE}"));
        }
    }
    for at in simulation_switches(&file.text, &source.code) {
        let message = "the daemon and the simulator run the same code: no cfg for simulation";
        report(at, message.into());
    }
}

/// Whether the match at `at` begins a path, rather than being the middle of one.
fn starts_path(line: &str, at: usize) -> bool {
    !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-~/}".contains(c))
}

/// What is wrong with the marks for work to be done in a line.
fn marks(line: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if words(line, FIX).next().is_some() {
        messages.push(format!("{FIX} does not merge"));
    }
    for at in words(line, LATER) {
        let number = line[at + LATER.len()..]
            .strip_prefix("(#")
            .and_then(|rest| rest.split_once(')'))
            .is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        if !number {
            messages.push(format!("{LATER} names its issue: {LATER}(#7)"));
        }
    }
    messages
}

/// Where conditional compilation asks for the simulator.
fn simulation_switches(text: &str, code: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for word in ["cfg", "cfg_attr"] {
        for at in words(code, word) {
            let after = &code[at + word.len()..];
            let after = after.strip_prefix('!').unwrap_or(after);
            if !after.starts_with('(') {
                continue;
            }
            let open = code.len() - after.len();
            let length = condition_length(after);
            // The text, not the code: a feature's name is a string.
            let condition = &text[open..open + length];
            let asks = ["sim", "simulation", "simulator", "madsim", "turmoil"]
                .iter()
                .any(|name| words(condition, name).next().is_some());
            if asks {
                found.push(at);
            }
        }
    }
    found
}

/// Bytes from an opening parenthesis to its closing one.
fn condition_length(code: &str) -> usize {
    let mut depth = 0_i32;
    for (offset, byte) in code.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return offset + 1;
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::file;

    fn text_findings(path: &str, text: &str) -> usize {
        let mut findings = Vec::new();
        check_text(&file(path, text), &mut findings);
        findings.len()
    }

    fn source_findings(path: &str, text: &str) -> usize {
        let mut findings = Vec::new();
        check_source(&file(path, text), &Source::read(text), &mut findings);
        findings.len()
    }

    #[test]
    fn white_space_at_the_end_of_lines_is_found() {
        assert_eq!(text_findings("README.md", "a\nb \nc\t\nd\r\n"), 3);
        assert_eq!(text_findings("README.md", "a\nb"), 1);
        assert_eq!(text_findings("README.md", "a\n\nb\n"), 0);
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        for path in MACHINE_PATHS {
            assert_eq!(text_findings("docs/a.md", &format!("see `{path}x`\n")), 1);
            assert_eq!(
                text_findings("docs/a.md", &format!("see `target{path}x`\n")),
                0
            );
        }
        assert_eq!(text_findings("docs/a.md", "see `/var/lib/holdfast`\n"), 0);
    }

    #[test]
    fn marks_need_an_issue() {
        for (comment, count) in [
            (format!("// {LATER}: later"), 1),
            (format!("// {LATER}(#x)"), 1),
            (format!("// {LATER}(#12): later"), 0),
            (format!("/* {FIX} */"), 1),
            (format!("let a = \"{FIX}\";"), 0),
        ] {
            let text = format!("//! A.\n{comment}\n");
            assert_eq!(
                source_findings("crates/a/src/a.rs", &text),
                count,
                "{comment}"
            );
        }
        assert_eq!(
            text_findings("Makefile", &format!("# {LATER}\n# {FIX}\n")),
            2
        );
        assert_eq!(
            text_findings("docs/a.md", &format!("`{LATER}` only with an issue\n")),
            0
        );
    }

    #[test]
    fn a_module_opens_with_its_contract() {
        assert_eq!(source_findings("crates/a/src/a.rs", "use a;\n"), 1);
        assert_eq!(source_findings("crates/a/src/a.rs", "// no\n"), 1);
        assert_eq!(source_findings("crates/a/src/a.rs", "//! yes\n"), 0);
        assert_eq!(source_findings("crates/a/src/a/tests.rs", "use a;\n"), 0);
        assert_eq!(source_findings("crates/a/tests/a.rs", "use a;\n"), 1);
    }

    #[test]
    fn unsafe_stays_in_its_crate() {
        let text = "//! A.\nfn a() { unsafe { b() } }\n";
        assert_eq!(source_findings("crates/net/src/a.rs", text), 1);
        assert_eq!(source_findings("crates/disk/src/a.rs", text), 0);
        let words_only = "//! unsafe\n#![forbid(unsafe_code)]\nconst A: &str = \"unsafe\";\n";
        assert_eq!(source_findings("crates/net/src/a.rs", words_only), 0);
    }

    #[test]
    fn debugging_and_gaps_do_not_merge() {
        let text = "//! A.\nfn a() { dbg!(1); todo!() }\n";
        assert_eq!(source_findings("crates/a/src/a.rs", text), 2);
        assert_eq!(source_findings("crates/a/src/a.rs", "//! dbg!(1)\n"), 0);
    }

    #[test]
    fn no_code_is_only_for_the_simulator() {
        for (text, count) in [
            ("#[cfg(sim)]\nfn a() {}\n", 1),
            ("#[cfg(not(sim))]\nfn a() {}\n", 1),
            ("#[cfg(feature = \"sim\")]\nfn a() {}\n", 1),
            ("#[cfg_attr(simulation, derive(Debug))]\nstruct A;\n", 1),
            ("const A: bool = cfg!(sim);\n", 1),
            ("#[cfg(test)]\nmod sim {}\n", 0),
            ("#[cfg(feature = \"simd\")]\nfn a() {}\n", 0),
        ] {
            let text = format!("//! A.\n{text}");
            assert_eq!(source_findings("crates/a/src/a.rs", &text), count, "{text}");
        }
    }
}
