//! The documents as a book: whether it is whole, and building it.
//!
//! Building needs mdBook, which is a tool and no dependency: it is installed into the build directory when it is first wanted. What the
//! gate checks needs nothing but the files.
//!
//! Invariants:
//! - every document is a chapter, once, and every chapter is there;
//! - every link to a file of ours leads to one, and to a heading that it has. Those of chapters stay within the book.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo;
use crate::metadata;

/// The book's directory.
const BOOK: &str = "docs";
/// Its table of contents, from there.
const SUMMARY: &str = "SUMMARY.md";
/// Documents that are no chapters, and whose links are looked at as well.
const BESIDE: &[&str] = &["README.md", "ARCHITECTURE.md", "CHANGELOG.md"];
/// Which mdBook builds it.
const MDBOOK: &str = "mdbook@0.5.4";

/// Texts by their paths from the root, with `/`.
type Documents = BTreeMap<String, String>;

/// Fails if the book is not whole.
pub(crate) fn check(root: &Path) -> Result<()> {
    let mut documents = Documents::new();
    read(root, BOOK, &mut documents)?;
    for path in BESIDE {
        let text = fs::read_to_string(root.join(path)).with_context(|| format!("read {path}"))?;
        documents.insert((*path).to_owned(), text);
    }
    let mut findings = chapters(&documents);
    findings.extend(links(&documents, &|path| root.join(path).exists()));
    for finding in &findings {
        eprintln!("{finding}");
    }
    ensure!(
        findings.is_empty(),
        "{} things are wrong with the book",
        findings.len()
    );
    println!("book: {} documents pass", documents.len());
    Ok(())
}

/// Builds it into the build directory.
pub(crate) fn build(root: &Path) -> Result<()> {
    let program = tool(root, MDBOOK)?;
    let made = metadata::target_directory(root)?.join("book");
    let status = Command::new(program)
        .args(["build", BOOK, "--dest-dir"])
        .arg(&made)
        .current_dir(root)
        .status()
        .context("start mdbook")?;
    ensure!(status.success(), "mdbook ended with {status}");
    println!("{}", made.join("index.html").display());
    Ok(())
}

/// The path of a program of this name and version, which is built into the build directory if it is not there.
pub(crate) fn tool(root: &Path, wanted: &str) -> Result<PathBuf> {
    let name = wanted.split('@').next().unwrap_or(wanted);
    let tools = metadata::target_directory(root)?.join("tools");
    let program = tools.join("bin").join(name);
    if !program.exists() {
        println!("installing {wanted} into {}, once", tools.display());
        let status = cargo::command()
            .args(["install", "--locked", "--quiet", wanted, "--root"])
            .arg(&tools)
            .current_dir(root)
            .status()
            .with_context(|| format!("install {wanted}"))?;
        ensure!(status.success(), "installing {wanted} ended with {status}");
    }
    Ok(program)
}

fn read(root: &Path, directory: &str, documents: &mut Documents) -> Result<()> {
    let entries = fs::read_dir(root.join(directory));
    for entry in entries.with_context(|| format!("list {directory}"))? {
        let entry = entry.with_context(|| format!("list {directory}"))?;
        let path = format!("{directory}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            read(root, &path, documents)?;
        } else if path.ends_with(".md") {
            let text = fs::read_to_string(entry.path()).with_context(|| format!("read {path}"))?;
            documents.insert(path, text);
        }
    }
    Ok(())
}

/// What is wrong with the table of contents.
fn chapters(documents: &Documents) -> Vec<String> {
    let place = format!("{BOOK}/{SUMMARY}");
    let Some(summary) = documents.get(&place) else {
        return vec![format!("{place} is missing")];
    };
    let mut findings = Vec::new();
    let mut named = BTreeSet::new();
    for (line, target) in targets(summary) {
        let path = format!("{BOOK}/{target}");
        if !documents.contains_key(&path) {
            findings.push(format!("{place}:{line}: there is no {path}"));
        }
        if !named.insert(path) {
            findings.push(format!("{place}:{line}: {target} is a chapter already"));
        }
    }
    let all = documents.keys().filter(|path| path.starts_with("docs/"));
    let missing = all.filter(|path| **path != place && !named.contains(*path));
    findings.extend(missing.map(|path| format!("{path} is no chapter: name it in {place}")));
    findings
}

/// Links that lead nowhere. `exists` says whether there is a file of this path.
fn links(documents: &Documents, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let headings: BTreeMap<&String, BTreeSet<String>> = documents
        .iter()
        .map(|(path, text)| (path, anchors(text)))
        .collect();
    let mut findings = Vec::new();
    for (from, text) in documents {
        for (line, target) in targets(text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let mut wrong = |why: String| findings.push(format!("{from}:{line}: {target}: {why}"));
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let Some(path) = resolved(from, file) else {
                wrong("leads out of the repository".to_owned());
                continue;
            };
            if !exists(&path) {
                wrong(format!("there is no {path}"));
            } else if from.starts_with("docs/") && !path.starts_with("docs/") {
                wrong("leads out of the book; reference/files.md has samples".to_owned());
            } else if !anchor.is_empty() {
                match headings.get(&path) {
                    Some(known) if known.contains(anchor) => {}
                    Some(_) => wrong(format!("{path} has no such heading")),
                    None => wrong("is no document that has headings".to_owned()),
                }
            }
        }
    }
    findings
}

/// What a link in a document means, from the root: `from` is the document's path.
fn resolved(from: &str, link: &str) -> Option<String> {
    if link.is_empty() {
        return Some(from.to_owned());
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The lines of a text that are prose, from 1, without what is code in them.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut is_code = false;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            return None;
        }
        // Every other part stands between two marks.
        let parts = line.split('`').step_by(2);
        (!is_code).then(|| (number, parts.collect::<Vec<_>>().join("`")))
    })
}

/// Where links lead, with their lines.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let wanted: BTreeMap<usize, String> = prose(text).collect();
    for (line, number) in text.lines().zip(1..) {
        let Some(prose) = wanted.get(&number) else {
            continue;
        };
        for (at, _) in line.match_indices("](") {
            let rest = &line[at + 2..];
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            // Not one that stands in code.
            if prose.contains(&format!("]({target}")) {
                found.push((number, target));
            }
        }
    }
    found
}

/// What links can name in a text: its headings, in the form that both the book and code hosts give them.
pub(crate) fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let mut found = BTreeSet::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        let title = line.trim_start_matches('#');
        let is_heading = !is_code && title.len() < line.len() && title.starts_with(' ');
        if !is_heading {
            continue;
        }
        let name = anchor(title);
        let count = seen.entry(name.clone()).or_insert(0);
        found.insert(match *count {
            0 => name,
            again => format!("{name}-{again}"),
        });
        *count += 1;
    }
    found
}

/// What links call a heading that no other one of its text is like.
pub(crate) fn anchor(title: &str) -> String {
    let letters = title.trim().chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        other if other.is_alphanumeric() => Some(other.to_ascii_lowercase()),
        _ => None,
    });
    letters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents(texts: &[(&str, &str)]) -> Documents {
        let texts = texts.iter();
        texts
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
            .collect()
    }

    fn wrong(texts: &[(&str, &str)]) -> Vec<String> {
        let documents = documents(texts);
        let exists = |path: &str| documents.contains_key(path) || path == "dist/node.toml";
        links(&documents, &exists)
    }

    #[test]
    fn every_document_is_a_chapter_once() {
        let whole = [
            ("docs/SUMMARY.md", "- [A](a.md)\n- [B](deep/b.md)\n"),
            ("docs/a.md", ""),
            ("docs/deep/b.md", ""),
            ("README.md", ""),
        ];
        assert_eq!(chapters(&documents(&whole)), [""; 0]);
        for (summary, says) in [
            ("- [A](a.md)\n", "docs/deep/b.md is no chapter"),
            (
                "- [A](a.md)\n- [A](a.md)\n- [B](deep/b.md)\n",
                "a.md is a chapter already",
            ),
            (
                "- [A](a.md)\n- [B](deep/b.md)\n- [C](c.md)\n",
                "there is no docs/c.md",
            ),
        ] {
            let mut texts = whole;
            texts[0].1 = summary;
            let found = chapters(&documents(&texts));
            assert!(found.len() == 1 && found[0].contains(says), "{found:?}");
        }
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        let target = (
            "docs/deep/b.md",
            "# B\n\n## `code` and: more\n\n## Again\n## Again\n",
        );
        let good = "[1](deep/b.md) [2](deep/b.md#code-and-more) [3](#a) [4](https://a.example/b#c) [5](deep/b.md#again-1)\n# A\n";
        assert_eq!(wrong(&[("docs/a.md", good), target]), [""; 0]);
        // What is code is no link.
        let code = "`[x](gone.md)`\n\n```text\n[x](gone.md)\n```\n";
        assert_eq!(wrong(&[("docs/a.md", code)]), [""; 0]);
        for (text, says) in [
            (
                "[x](gone.md)",
                "docs/a.md:1: gone.md: there is no docs/gone.md",
            ),
            ("[x](deep/b.md#nothing)", "no such heading"),
            ("[x](#nothing)", "no such heading"),
            ("[x](../dist/node.toml)", "out of the book"),
            ("[x](../../etc/passwd)", "out of the repository"),
        ] {
            let found = wrong(&[("docs/a.md", text), target]);
            assert!(found.len() == 1 && found[0].contains(says), "{found:?}");
        }
        assert_eq!(wrong(&[("README.md", "[x](dist/node.toml)")]), [""; 0]);
    }
}
