//! How long files and functions may be, and the ratchet that holds exceptions.
//!
//! Invariants:
//! - tests count for neither limit;
//! - an exception states the size that the thing has now: it may shrink (and then says so), never
//!   grow, and goes when the thing is within its limit.

use std::collections::BTreeMap;

use super::source::Source;
use super::{File, Finding, RATCHET, is_test_file};

/// Lines of a file, without its tests.
const FILE_LINES_MAX: usize = 600;
/// Lines of a function, from `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

/// Something that has a size: a file, or the longest function of a name in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    File { path: String },
    Function { path: String, name: String },
}

impl Subject {
    fn limit(&self) -> usize {
        match self {
            Subject::File { .. } => FILE_LINES_MAX,
            Subject::Function { .. } => FUNCTION_LINES_MAX,
        }
    }

    fn path(&self) -> &str {
        match self {
            Subject::File { path } | Subject::Function { path, .. } => path,
        }
    }

    fn describe(&self) -> String {
        match self {
            Subject::File { .. } => "the file".into(),
            Subject::Function { name, .. } => format!("function {name}"),
        }
    }
}

/// A measured size.
#[derive(Debug)]
pub(super) struct Size {
    subject: Subject,
    line: usize,
    length: usize,
}

/// The sizes of a file and of its functions.
pub(super) fn measure(file: &File, source: &Source) -> Vec<Size> {
    if is_test_file(&file.path) {
        return Vec::new();
    }
    let mut sizes = vec![Size {
        subject: Subject::File {
            path: file.path.clone(),
        },
        line: 0,
        length: source.lines_without_tests(),
    }];
    for function in source.functions() {
        if !source.is_test(function.line) {
            sizes.push(Size {
                subject: Subject::Function {
                    path: file.path.clone(),
                    name: function.name,
                },
                line: function.line,
                length: function.length,
            });
        }
    }
    sizes
}

/// Compares sizes with their limits and with the exceptions of the ratchet file.
pub(super) fn check(sizes: &[Size], ratchet: Option<&File>, findings: &mut Vec<Finding>) {
    let exceptions = ratchet.map_or_else(BTreeMap::new, |file| parse(&file.text, findings));
    let mut longest: BTreeMap<&Subject, &Size> = BTreeMap::new();
    for size in sizes {
        let entry = longest.entry(&size.subject).or_insert(size);
        if size.length > entry.length {
            *entry = size;
        }
    }
    for (subject, size) in &longest {
        let limit = exceptions
            .get(*subject)
            .map_or(subject.limit(), |(_, length)| *length);
        if size.length > limit {
            let message = format!(
                "{} has {} lines, {limit} are allowed: split it",
                subject.describe(),
                size.length
            );
            findings.push(Finding::new(subject.path(), size.line, message));
        }
    }
    for (subject, (line, length)) in &exceptions {
        let now = longest.get(subject).map_or(0, |size| size.length);
        if now <= subject.limit() {
            let message = "the exception is no longer needed: remove it";
            findings.push(Finding::new(RATCHET, *line, message));
        } else if now < *length {
            let message = format!("the exception may shrink to {now}");
            findings.push(Finding::new(RATCHET, *line, message));
        }
    }
}

/// Reads `lines PATH LENGTH` and `function PATH NAME LENGTH`; `#` begins a comment.
fn parse(text: &str, findings: &mut Vec<Finding>) -> BTreeMap<Subject, (usize, usize)> {
    let mut exceptions = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let content = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = content.split_whitespace().collect();
        let parsed = match words.as_slice() {
            [] => continue,
            ["lines", path, length] => length.parse().ok().map(|length| {
                let path = (*path).into();
                (Subject::File { path }, length)
            }),
            ["function", path, name, length] => length.parse().ok().map(|length| {
                let (path, name) = ((*path).into(), (*name).into());
                (Subject::Function { path, name }, length)
            }),
            _ => None,
        };
        match parsed {
            Some((subject, length)) => {
                exceptions.insert(subject, (index + 1, length));
            }
            None => {
                let message = "is neither `lines PATH LENGTH` nor `function PATH NAME LENGTH`";
                findings.push(Finding::new(RATCHET, index + 1, message));
            }
        }
    }
    exceptions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::file;

    const PATH: &str = "crates/model/src/a.rs";

    fn findings_of(path: &str, text: &str, ratchet: &str) -> Vec<String> {
        let sizes = measure(&file(path, text), &Source::read(text));
        let mut findings = Vec::new();
        check(&sizes, Some(&file(RATCHET, ratchet)), &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    fn function(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    a();\n".repeat(lines - 2))
    }

    #[test]
    fn files_are_limited_without_their_tests() {
        let code = "const A: u8 = 1;\n";
        assert!(findings_of(PATH, &code.repeat(600), "").is_empty());
        assert_eq!(findings_of(PATH, &code.repeat(601), "").len(), 1);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", code.repeat(300));
        assert!(findings_of(PATH, &(code.repeat(400) + &tests), "").is_empty());
        assert!(findings_of("crates/model/src/a/tests.rs", &code.repeat(601), "").is_empty());
        assert!(findings_of("crates/model/tests/a.rs", &code.repeat(601), "").is_empty());
    }

    #[test]
    fn functions_are_limited() {
        assert!(findings_of(PATH, &function(70), "").is_empty());
        let found = findings_of(PATH, &function(71), "");
        assert_eq!(
            found,
            [format!(
                "{PATH}:1: function long has 71 lines, 70 are allowed: split it"
            )]
        );
    }

    #[test]
    fn an_exception_holds_may_shrink_and_goes() {
        let entry = format!("# why\nfunction {PATH} long 80\n");
        assert!(findings_of(PATH, &function(80), &entry).is_empty());
        assert!(findings_of(PATH, &function(81), &entry)[0].contains("80 are allowed"));
        assert!(findings_of(PATH, &function(75), &entry)[0].contains("may shrink to 75"));
        assert!(findings_of(PATH, &function(70), &entry)[0].contains("remove it"));
        let gone = findings_of(PATH, "", "lines crates/model/src/gone.rs 700\n");
        assert_eq!(gone.len(), 1);
    }

    #[test]
    fn a_ratchet_that_cannot_be_read_is_found() {
        assert_eq!(
            findings_of(PATH, "", "lines a.rs many\nnonsense\n").len(),
            2
        );
    }
}
