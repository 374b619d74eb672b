//! The licences of everything that is linked or run while building and testing.
//!
//! A package passes if its SPDX expression can be satisfied with licences of [`ALLOWED`] alone, or
//! if it stands in [`EXCEPTIONS`] with a reason. Code from outside the package registry (git,
//! foreign paths) does not pass.
//!
//! Where `cargo deny` is installed it judges the same by `deny.toml`, and looks at bans and sources; the two lists of licences are one, or
//! the step fails. It is not asked for advisories, which come from the network.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::cargo;
use crate::metadata::{self, Package};

/// Licences that ask for no more than a notice. Nothing of the GPL family; MPL-2.0 by exception.
const ALLOWED: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    // LLVM's own before 2019; what libfuzzer-sys has of it is run by the fuzzer, and never shipped.
    "NCSA",
    "BSL-1.0",
    "CC0-1.0",
    "0BSD",
    "Unlicense",
    "Unicode-3.0",
    "CDLA-Permissive-2.0",
];

/// Packages that pass whatever they state: name, then why.
const EXCEPTIONS: &[(&str, &str)] = &[];

/// The registry, as cargo names it; mirrors configured by a user keep this name.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// What `cargo deny` goes by.
const DENY: &str = "deny.toml";

/// Checks every package of the lock file.
pub(crate) fn run(root: &Path) -> Result<()> {
    let text = fs::read_to_string(root.join(DENY)).with_context(|| format!("read {DENY}"))?;
    ensure!(
        allowed_by_deny(&text) == ALLOWED,
        "{DENY} allows other licences than crates/xtask/src/licences.rs, or in another order"
    );
    deny(root)?;
    let packages = metadata::all(root)?;
    let findings = check(&packages);
    if findings.is_empty() {
        println!("licences: {} packages pass", packages.len());
        return Ok(());
    }
    for finding in &findings {
        eprintln!("{finding}");
    }
    bail!("{} packages may not be used", findings.len());
}

/// Runs `cargo deny`, if there is one.
fn deny(root: &Path) -> Result<()> {
    let mut command = cargo::command();
    let found = command.args(["deny", "--version"]).output();
    if !found.is_ok_and(|output| output.status.success()) {
        println!("licences: cargo deny is not installed, and did not run");
        return Ok(());
    }
    let status = cargo::command()
        .args(["deny", "--offline", "--locked", "check"])
        .args(["licenses", "bans", "sources"])
        .current_dir(root)
        .status()
        .context("start cargo deny")?;
    ensure!(status.success(), "cargo deny ended with {status}");
    Ok(())
}

/// The licences that `deny.toml` allows: the lines of its list, each with one.
fn allowed_by_deny(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim);
    let list = lines.skip_while(|line| *line != "allow = [").skip(1);
    let list = list.take_while(|line| *line != "]");
    list.filter_map(|line| line.strip_prefix('"')?.strip_suffix("\","))
        .collect()
}

fn check(packages: &[Package]) -> Vec<String> {
    packages.iter().filter_map(refusal).collect()
}

fn refusal(package: &Package) -> Option<String> {
    if EXCEPTIONS.iter().any(|(name, _)| *name == package.name) {
        return None;
    }
    let name = format!("{} {}", package.name, package.version);
    if let Some(source) = package.source.as_deref()
        && source != REGISTRY
    {
        return Some(format!(
            "{name}: comes from {source}, not from the registry"
        ));
    }
    let Some(expression) = package.license.as_deref() else {
        return Some(format!("{name}: states no licence"));
    };
    match satisfied(expression) {
        Some(true) => None,
        Some(false) => Some(format!("{name}: {expression} is not on the list")),
        None => Some(format!("{name}: {expression:?} is no SPDX expression")),
    }
}

/// Whether an SPDX expression can be satisfied by the allowed licences; `None` if it cannot be
/// read. The old form `MIT/Apache-2.0` means OR.
fn satisfied(expression: &str) -> Option<bool> {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let (value, rest) = alternatives(&tokens)?;
    rest.is_empty().then_some(value)
}

/// A value and the tokens after it.
type Parsed<'a> = Option<(bool, &'a [&'a str])>;

fn alternatives<'a>(tokens: &'a [&'a str]) -> Parsed<'a> {
    let (mut value, mut rest) = conjunction(tokens)?;
    while let ["OR", after @ ..] = rest {
        let (other, remaining) = conjunction(after)?;
        value |= other;
        rest = remaining;
    }
    Some((value, rest))
}

fn conjunction<'a>(tokens: &'a [&'a str]) -> Parsed<'a> {
    let (mut value, mut rest) = operand(tokens)?;
    while let ["AND", after @ ..] = rest {
        let (other, remaining) = operand(after)?;
        value &= other;
        rest = remaining;
    }
    Some((value, rest))
}

fn operand<'a>(tokens: &'a [&'a str]) -> Parsed<'a> {
    match tokens {
        ["(", after @ ..] => match alternatives(after)? {
            (value, [")", rest @ ..]) => Some((value, rest)),
            _ => None,
        },
        ["AND" | "OR" | "WITH" | ")", ..] | [] => None,
        [licence, "WITH", exception, rest @ ..] => {
            // An exception only adds permissions: the licence alone may do as well.
            let whole = format!("{licence} WITH {exception}");
            let value = ALLOWED.contains(&whole.as_str()) || ALLOWED.contains(licence);
            Some((value, rest))
        }
        [licence, rest @ ..] => Some((ALLOWED.contains(licence), rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(license: Option<&str>, source: Option<&str>) -> Package {
        Package {
            name: "thing".into(),
            version: "1.0.0".into(),
            license: license.map(Into::into),
            source: source.map(Into::into),
            manifest_path: String::new(),
            dependencies: Vec::new(),
        }
    }

    #[test]
    fn cargo_deny_allows_the_same() {
        let text = fs::read_to_string(crate::root().join(DENY)).unwrap();
        assert_eq!(allowed_by_deny(&text), ALLOWED);
        let other = text.replace("\"MIT\",", "\"MIT\",\n  \"GPL-3.0-only\",");
        assert_ne!(allowed_by_deny(&other), ALLOWED);
    }

    #[test]
    fn expressions_are_evaluated() {
        for allowed in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0-only OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0-only",
            "MIT OR Apache-2.0 AND GPL-3.0-only",
        ] {
            assert_eq!(satisfied(allowed), Some(true), "{allowed}");
        }
        for refused in [
            "GPL-3.0-only",
            "AGPL-3.0-or-later",
            "MPL-2.0",
            "MIT AND GPL-3.0-only",
            "(MIT OR Apache-2.0) AND LGPL-2.1-only",
            "GPL-2.0-only WITH Classpath-exception-2.0",
        ] {
            assert_eq!(satisfied(refused), Some(false), "{refused}");
        }
        for nonsense in [
            "",
            "(MIT",
            "MIT)",
            "MIT OR",
            "AND MIT",
            "MIT Apache-2.0",
            "()",
        ] {
            assert_eq!(satisfied(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn packages_are_refused_for_licence_silence_and_source() {
        assert!(check(&[package(Some("MIT"), Some(REGISTRY))]).is_empty());
        assert!(check(&[package(Some("Apache-2.0"), None)]).is_empty());
        let bad = [
            package(Some("AGPL-3.0-only"), Some(REGISTRY)),
            package(None, Some(REGISTRY)),
            package(Some("MIT"), Some("git+https://example.org/thing")),
        ];
        assert_eq!(check(&bad).len(), 3);
    }
}
