//! The house rules that compilers do not know; each is a file of its own.
//!
//! It refuses to read anything but text: a tree is a list of paths and contents, so that every
//! rule is shown to bite on a literal one. Findings say where, what, and what to do instead.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::metadata;

mod chapters;
mod layers;
mod sizes;
mod source;
mod unlisted;
mod words;

use source::Source;

/// Directories that hold nothing of ours.
const FOREIGN_DIRECTORIES: &[&str] = &[".git", "target", "node_modules", "dist"];
/// Names and extensions of the files that rules read; all others are data.
const TEXT_ENDINGS: &[&str] = &[
    ".rs",
    ".toml",
    ".md",
    ".txt",
    ".ts",
    ".tsx",
    ".css",
    ".html",
    ".yml",
    ".yaml",
    ".proto",
    "Makefile",
    ".ci/run",
    ".gitignore",
];
/// Where the exceptions to the size limits stand.
const RATCHET: &str = "crates/xtask/ratchet.txt";

/// A text file of the repository.
#[derive(Clone, Debug)]
struct File {
    /// Path from the repository's root, with `/`.
    path: String,
    text: String,
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    path: String,
    /// From 1; zero if the finding is about the file as a whole.
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(formatter, "{}: {}", self.path, self.message)
        } else {
            write!(formatter, "{}:{}: {}", self.path, self.line, self.message)
        }
    }
}

/// Checks the repository at `root`.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut files = Vec::new();
    read_tree(root, "", &mut files)?;
    files.sort_by(|left, right| left.path.cmp(&right.path));
    let packages = metadata::workspace(root)?;

    let mut findings = check(&files);
    layers::check_packages(&packages, &mut findings);
    if findings.is_empty() {
        println!("tidy: {} files pass", files.len());
        return Ok(());
    }
    for finding in &findings {
        eprintln!("{finding}");
    }
    bail!("{} house rules are broken", findings.len());
}

/// All rules over file contents.
fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut sizes = Vec::new();
    for file in files {
        words::check_text(file, &mut findings);
        if file.path.ends_with("/Cargo.toml") {
            layers::check_manifest(file, &mut findings);
        }
        if file.path.ends_with(".rs") {
            let source = Source::read(&file.text);
            words::check_source(file, &source, &mut findings);
            layers::check_source(file, &source, &mut findings);
            sizes.extend(sizes::measure(file, &source));
        }
    }
    let ratchet = files.iter().find(|file| file.path == RATCHET);
    sizes::check(&sizes, ratchet, &mut findings);
    unlisted::check(files, &mut findings);
    chapters::check(files, &mut findings);
    findings
}

fn read_tree(directory: &Path, prefix: &str, files: &mut Vec<File>) -> Result<()> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("list {}", directory.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("list {}", directory.display()))?;
        let Ok(name) = entry.file_name().into_string() else {
            bail!("{}: a name is not UTF-8", directory.display());
        };
        let path = format!("{prefix}{name}");
        let kind = entry
            .file_type()
            .with_context(|| format!("look at {path}"))?;
        if kind.is_dir() && !FOREIGN_DIRECTORIES.contains(&name.as_str()) {
            read_tree(&entry.path(), &format!("{path}/"), files)?;
        } else if kind.is_file() && TEXT_ENDINGS.iter().any(|ending| path.ends_with(ending)) {
            let text = fs::read_to_string(entry.path()).with_context(|| format!("read {path}"))?;
            files.push(File { path, text });
        }
    }
    Ok(())
}

/// The crate that a path lies in, by its folder.
fn crate_of(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.split('/').next()
}

/// Whether a file holds nothing but tests.
fn is_test_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.contains("/tests/") || name == "tests.rs" || name.ends_with("_tests.rs")
}

#[cfg(test)]
fn file(path: &str, text: &str) -> File {
    File {
        path: path.into(),
        text: text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_tree_passes() {
        let tree = [
            file(
                "crates/model/Cargo.toml",
                "[package]\nname = \"holdfast-model\"\n\n[lints]\nworkspace = true\n",
            ),
            file(
                "crates/model/src/lib.rs",
                "//! Nouns.\n#![no_std]\n#![forbid(unsafe_code)]\n\nmod id;\n",
            ),
            file(
                "crates/model/src/id.rs",
                "//! Ids.\n\n/// One.\npub fn one() -> u8 {\n    1\n}\n",
            ),
        ];
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn every_family_of_rules_is_asked() {
        let tree = [
            file("crates/model/Cargo.toml", "[package]\n"),
            file("crates/model/src/lib.rs", "//! Nouns.\n"),
            file("crates/model/src/id.rs", "fn one() {} \n"),
            file(RATCHET, "lines crates/model/src/gone.rs 700\n"),
        ];
        let findings = check(&tree);
        let paths: Vec<&str> = findings
            .iter()
            .map(|finding| finding.path.as_str())
            .collect();
        for family in [
            "crates/model/Cargo.toml",
            "crates/model/src/lib.rs",
            "crates/model/src/id.rs",
            RATCHET,
        ] {
            assert!(
                paths.contains(&family),
                "{family} is not among {findings:?}"
            );
        }
    }

    #[test]
    fn this_repository_is_read_without_what_is_not_ours() {
        let mut files = Vec::new();
        read_tree(&crate::root(), "", &mut files).unwrap();
        assert!(
            files
                .iter()
                .any(|file| file.path == "crates/xtask/src/tidy.rs")
        );
        assert!(files.iter().any(|file| file.path == "Makefile"));
        assert!(!files.iter().any(|file| file.path.starts_with(".git/")));
    }
}
