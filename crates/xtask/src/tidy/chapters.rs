//! Texts of the program that name a document, or a heading of one: `"HEADING" in docs/CHAPTER.md`.
//!
//! People look for what they are told, and the console makes a link of it. Links within documents are for the step `book`.
//!
//! It refuses to look into tests, where names are made up, and at how a sentence goes on after what it names.
//!
//! Invariants:
//! - a document that code or a comment names is there;
//! - a heading that stands before one is among its headings, by what links call it;
//! - headings are named in this one form, which is the one that is looked for.

use std::collections::{BTreeMap, BTreeSet};

use super::source::Source;
use super::{File, Finding, is_test_file};
use crate::book;

const BOOK: &str = "docs/";
const ENDING: &str = ".md";
/// What stands between a heading's last letter and its document.
const OF: &str = "\" in ";

/// Documents by their paths, with what links call their headings.
type Headings<'a> = BTreeMap<&'a str, BTreeSet<String>>;

/// A document that a line names.
#[derive(Debug, PartialEq, Eq)]
struct Named<'a> {
    path: &'a str,
    /// Without its quotes.
    heading: Option<&'a str>,
    /// What the line goes on with.
    rest: &'a str,
}

/// Checks all files of Rust against the documents that there are.
pub(super) fn check(files: &[File], findings: &mut Vec<Finding>) {
    let documents = files
        .iter()
        .filter(|file| file.path.starts_with(BOOK) && file.path.ends_with(ENDING));
    let headings: Headings<'_> = documents
        .map(|file| (file.path.as_str(), book::anchors(&file.text)))
        .collect();
    let sources = files.iter().filter(|file| file.path.ends_with(".rs"));
    for file in sources.filter(|file| !is_test_file(&file.path)) {
        let source = Source::read(&file.text);
        for (line, text) in joined(&file.text) {
            if source.is_test(line) {
                continue;
            }
            let wrong = named(&text)
                .into_iter()
                .filter_map(|it| fault(&it, &headings));
            findings.extend(wrong.map(|message| Finding::new(&file.path, line, message)));
        }
    }
}

/// What is wrong with how a document is named, if anything is.
fn fault(named: &Named<'_>, headings: &Headings<'_>) -> Option<String> {
    let path = named.path;
    let Some(known) = headings.get(path) else {
        return Some(format!("names {path}, which is not there"));
    };
    if let Some(heading) = named.heading {
        let is_known = known.contains(&book::anchor(heading));
        return (!is_known).then(|| format!("names \"{heading}\", which is no heading of {path}"));
    }
    // A heading in brackets, or after a colon, begins as headings do.
    let after = named.rest.strip_prefix(" (");
    let after = after.or_else(|| named.rest.strip_prefix(": "));
    let is_heading = after.is_some_and(|it| it.starts_with(char::is_uppercase));
    is_heading.then(|| format!("names a heading after {path}: write \"HEADING\" in {path}"))
}

/// Lines as they are read, with the number of the first of each (from 1): strings that go on after a backslash are one line, and
/// quotes within them are quotes.
fn joined(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (line, number) in text.lines().zip(1..) {
        let (part, is_cut) = match line.strip_suffix('\\') {
            Some(part) => (part, true),
            None => (line, false),
        };
        let part = part.replace("\\\"", "\"");
        match lines.last_mut().filter(|_| goes_on) {
            Some((_, whole)) => whole.push_str(part.trim_start()),
            None => lines.push((number, part)),
        }
        goes_on = is_cut;
    }
    lines
}

/// The documents that a line names, in order.
fn named(line: &str) -> Vec<Named<'_>> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices(BOOK) {
        let before = &line[..at];
        // One below another directory is a file of that.
        if before.ends_with(|letter: char| letter.is_alphanumeric() || "/.-_".contains(letter)) {
            continue;
        }
        let rest = &line[at + BOOK.len()..];
        let is_of_name =
            |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || "/-".contains(it);
        let length = rest
            .find(|letter| !is_of_name(letter))
            .unwrap_or(rest.len());
        let Some(rest) = rest[length..].strip_prefix(ENDING) else {
            continue;
        };
        let quoted = before.strip_suffix(OF);
        found.push(Named {
            path: &line[at..line.len() - rest.len()],
            heading: quoted.and_then(|it| it.rsplit_once('"')).map(|it| it.1),
            rest,
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    const CHAPTER: &str = "# Day 2\n\n## A disk is lost: `replace`\n";

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        let files = [file("docs/deep/day2.md", CHAPTER), file(path, text)];
        let mut findings = Vec::new();
        check(&files, &mut findings);
        let findings = findings.into_iter();
        findings.map(|it| (it.line, it.message)).collect()
    }

    #[test]
    fn what_is_there_may_be_named() {
        for text in [
            r#"const A: &str = "see \"A disk is lost: replace\" in docs/deep/day2.md.";"#,
            r#"const A: &str = "see docs/deep/day2.md: it tells (docs/deep/day2.md)";"#,
            "const A: &str = \"(\\\"A disk is lost: \\\n     replace\\\" in \\\n     docs/deep/day2.md)\";",
            "/// \"Day 2\" in docs/deep/day2.md, and what is below docs/deep.",
            r#"const A: &str = "other/docs/gone.md, docs/*.md, docs/plan.toml";"#,
        ] {
            assert_eq!(found("crates/a/src/a.rs", text), [], "{text}");
        }
    }

    #[test]
    fn what_is_not_there_is_found() {
        for (text, line, says) in [
            (
                "\nconst A: &str = \"see docs/day2.md\";",
                2,
                "docs/day2.md, which is not there",
            ),
            (
                r#"const A: &str = "\"A disk is gone\" in docs/deep/day2.md";"#,
                1,
                "\"A disk is gone\", which is no heading of docs/deep/day2.md",
            ),
            (
                "const A: &str = \"(\\\"A disk \\\n  is gone\\\" \\\n  in docs/deep/day2.md)\";",
                1,
                "\"A disk is gone\", which",
            ),
            ("//! \"Day 3\" in docs/deep/day2.md", 1, "\"Day 3\""),
            (
                "const A: &str = \"docs/deep/day2.md (Day 2)\";",
                1,
                "write \"HEADING\" in",
            ),
            (
                "const A: &str = \"docs/deep/day2.md: Day 2\";",
                1,
                "write \"HEADING\" in",
            ),
        ] {
            let found = found("crates/a/src/a.rs", text);
            let [(at, message)] = &found[..] else {
                panic!("{text}: {found:?}");
            };
            assert_eq!(*at, line, "{text}");
            assert!(message.contains(says), "{text}: {message}");
        }
    }

    #[test]
    fn tests_may_name_what_they_like() {
        let text = "//! A.\n#[cfg(test)]\nmod tests {\n    // docs/gone.md\n}\n";
        assert_eq!(found("crates/a/src/a.rs", text), []);
        assert_eq!(found("crates/a/tests/a.rs", "//! docs/gone.md\n"), []);
    }
}
