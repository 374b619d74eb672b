//! The reference in `docs/reference`: what can be made from the code is, and is compared by the gate.
//!
//! Commands come from the program's definition, metrics from what a node exposes, alarms from their kinds, the interface from its
//! document. Findings are explained by hand; that none is forgotten is checked.
//!
//! Invariant: only [`write()`] changes a file.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::made::Program;
use crate::openapi::{self, difference};

mod interface;

/// A page, and what prints it.
struct Page {
    path: &'static str,
    made_by: Program,
    arguments: &'static [&'static str],
}

const PAGES: &[Page] = &[
    Page {
        path: "docs/reference/cli.md",
        made_by: Program::Bin("holdfast"),
        arguments: &["man", "--markdown"],
    },
    Page {
        path: "docs/reference/alarms.md",
        made_by: Program::Example("alarms"),
        arguments: &[],
    },
    Page {
        path: "docs/reference/metrics.md",
        made_by: Program::Example("metrics"),
        arguments: &[],
    },
];
/// The page about the REST interface, which is made from the interface's document.
const INTERFACE: &str = "docs/reference/api.md";
/// The page about findings.
const FINDINGS: &str = "docs/reference/findings.md";

/// Fails if a page is not the one that the code makes, or a finding is not explained.
pub(crate) fn check(root: &Path) -> Result<()> {
    for (path, made) in pages(root)? {
        let kept = fs::read_to_string(root.join(path)).with_context(|| format!("read {path}"))?;
        if let Some(difference) = difference(&kept, &made) {
            bail!("{path}: {difference}; `cargo xtask fix` writes it anew");
        }
    }
    let findings =
        fs::read_to_string(root.join(FINDINGS)).with_context(|| format!("read {FINDINGS}"))?;
    let missing = unexplained(&document(root)?, &findings)?;
    ensure!(
        missing.is_empty(),
        "{FINDINGS} does not explain {}: each has a line that begins with \"| `KIND` |\"",
        missing.join(", ")
    );
    Ok(())
}

/// Writes the pages that the code makes, where they are others.
pub(crate) fn write(root: &Path) -> Result<()> {
    for (path, made) in pages(root)? {
        let place = root.join(path);
        if !fs::read_to_string(&place).is_ok_and(|kept| kept == made) {
            fs::write(place, made).with_context(|| format!("write {path}"))?;
        }
    }
    Ok(())
}

/// Each page's path, and what it is to be.
fn pages(root: &Path) -> Result<Vec<(&'static str, String)>> {
    let mut pages = Vec::new();
    for page in PAGES {
        pages.push((page.path, page.made_by.print(root, page.arguments)?));
    }
    pages.push((INTERFACE, interface::page(&document(root)?)?));
    Ok(pages)
}

fn document(root: &Path) -> Result<Value> {
    let text = fs::read_to_string(root.join(openapi::KEPT))
        .with_context(|| format!("read {}", openapi::KEPT))?;
    serde_json::from_str(&text).with_context(|| format!("parse {}", openapi::KEPT))
}

/// The kinds of findings that the page does not explain.
fn unexplained(document: &Value, page: &str) -> Result<Vec<String>> {
    let kinds = &document["components"]["schemas"]["FindingKind"]["enum"];
    let kinds = kinds
        .as_array()
        .context("the document has no kinds of findings")?;
    let kinds = kinds.iter().filter_map(Value::as_str);
    // What a later version says, whatever that will be.
    let kinds = kinds.filter(|kind| *kind != "other");
    let is_missing = |kind: &&str| {
        let begins = format!("| `{kind}` |");
        !page.lines().any(|line| line.starts_with(&begins))
    };
    Ok(kinds.filter(is_missing).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_finding_that_is_not_explained_is_found() {
        let document = json!({"components": {"schemas": {"FindingKind": {"enum": [
            "node-down", "no-room", "other"
        ]}}}});
        let page = "# Findings\n\n| `node-down` | it is off |\n| see `no-room` | |\n";
        assert_eq!(unexplained(&document, page).unwrap(), ["no-room"]);
        assert!(unexplained(&json!({}), page).is_err());
    }
}
