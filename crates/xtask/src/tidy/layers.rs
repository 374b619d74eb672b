//! Which crate may know which: the dependency rules of `ARCHITECTURE.md` as a table.
//!
//! Invariants:
//! - a crate that is not in [`TABLE`] does not exist;
//! - a row names what a crate is built on; what those are built on is allowed with them;
//! - pure crates are `no_std`, forbid `unsafe`, and take from outside only [`PURE_EXTERNALS`].

use std::collections::BTreeSet;
use std::path::Path;

use super::source::{Source, line_of};
use super::{File, Finding};
use crate::metadata::Package;

/// What a crate may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Values and machines: no clock, randomness, sockets, files, threads.
    Pure,
    /// Drivers and servers.
    Io,
    /// Tools and tests; nothing that ships depends on them.
    Dev,
}

struct Row {
    name: &'static str,
    kind: Kind,
    on: &'static [&'static str],
}

const fn row(name: &'static str, kind: Kind, on: &'static [&'static str]) -> Row {
    Row { name, kind, on }
}

const TABLE: &[Row] = &[
    row("stdx", Kind::Pure, &[]),
    row("model", Kind::Pure, &["stdx"]),
    row("format", Kind::Pure, &["model"]),
    row("history", Kind::Pure, &["model"]),
    row("identity", Kind::Pure, &["model"]),
    row("wire", Kind::Pure, &["model"]),
    row("scsi", Kind::Pure, &["model"]),
    row("iscsi", Kind::Pure, &["scsi"]),
    row("journal", Kind::Pure, &["format"]),
    row("pages", Kind::Pure, &["format"]),
    row("store", Kind::Pure, &["journal", "pages"]),
    row("replica", Kind::Pure, &["wire"]),
    row(
        "engine",
        Kind::Pure,
        &["iscsi", "store", "replica", "history"],
    ),
    row("control", Kind::Pure, &["model"]),
    row("durable", Kind::Io, &[]),
    row("disk", Kind::Io, &["history"]),
    row("net", Kind::Io, &["engine", "tls"]),
    row("metadata", Kind::Io, &["model", "durable"]),
    row("tls", Kind::Io, &["model", "durable"]),
    row("seal", Kind::Io, &["tls"]),
    row("api", Kind::Io, &["identity", "tls"]),
    row("console", Kind::Io, &[]),
    row("outside", Kind::Io, &[]),
    row("notify", Kind::Io, &["outside"]),
    row("oidc", Kind::Io, &["identity", "outside"]),
    row(
        "node",
        Kind::Io,
        &[
            "engine", "disk", "net", "metadata", "seal", "api", "console", "oidc",
        ],
    ),
    row(
        "controller",
        Kind::Io,
        &[
            "control", "net", "metadata", "seal", "api", "notify", "oidc",
        ],
    ),
    row("tgt", Kind::Io, &[]),
    row("lab", Kind::Io, &["iscsi", "api"]),
    row("certify", Kind::Io, &["lab"]),
    row("holdfast", Kind::Io, &["node", "controller", "certify"]),
    row("sim", Kind::Dev, &["engine", "control", "metadata"]),
    row("fuzz", Kind::Dev, &["iscsi", "wire"]),
    row("e2e", Kind::Dev, &["holdfast", "tgt"]),
    row("xtask", Kind::Dev, &[]),
];

/// Packages from outside that pure crates may use: each works without `std` and without I/O.
const PURE_EXTERNALS: &[&str] = &[
    "argon2",
    "blake3",
    "bytes",
    "crc-fast",
    "md-5",
    "serde",
    "serde_json",
    "sha2",
    "smallvec",
    "thiserror",
    "zerocopy",
];

/// The package that a folder under `crates/` holds.
fn package_name(folder: &str) -> String {
    if folder == "holdfast" {
        "holdfast".into()
    } else {
        format!("holdfast-{folder}")
    }
}

fn find(folder: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == folder)
}

/// The row of one of our packages, by its package name.
fn find_package(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| package_name(row.name) == name)
}

/// Everything that a crate may know: its row, and the rows of those.
fn allowed(row: &Row) -> BTreeSet<&'static str> {
    let mut known = BTreeSet::new();
    let mut waiting: Vec<&'static str> = row.on.to_vec();
    while let Some(name) = waiting.pop() {
        if known.insert(name) {
            let below = find(name).expect("every name in the table has a row");
            waiting.extend(below.on);
        }
    }
    known
}

/// Checks names and dependencies of the workspace's packages.
pub(super) fn check_packages(packages: &[Package], findings: &mut Vec<Finding>) {
    for package in packages {
        let folder = Path::new(&package.manifest_path)
            .parent()
            .and_then(Path::file_name)
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let path = format!("crates/{folder}/Cargo.toml");
        let Some(row) = find(folder) else {
            findings.push(Finding::new(
                &path,
                0,
                "the crate is not in the table of layers (crates/xtask/src/tidy/layers.rs)",
            ));
            continue;
        };
        let expected = package_name(folder);
        if package.name != expected {
            findings.push(Finding::new(
                &path,
                0,
                format!(
                    "the package is {}, its folder says {expected}",
                    package.name
                ),
            ));
        }
        check_dependencies(package, row, &path, findings);
    }
}

fn check_dependencies(package: &Package, row: &Row, path: &str, findings: &mut Vec<Finding>) {
    let allowed = allowed(row);
    for dependency in &package.dependencies {
        let for_tests = dependency.kind.as_deref() == Some("dev");
        let name = dependency.name.as_str();
        let refused = match find_package(name) {
            // Tests may use any crate, but dev crates nobody's but dev: a pure crate's tests run
            // on a machine with everything, its code does not.
            Some(other) if for_tests => row.kind != Kind::Dev && other.kind == Kind::Dev,
            Some(other) => !allowed.contains(other.name),
            None => row.kind == Kind::Pure && !for_tests && !PURE_EXTERNALS.contains(&name),
        };
        if refused {
            let message = format!("{} may not depend on {name}", row.name);
            findings.push(Finding::new(path, 0, message));
        }
    }
}

/// Checks that a manifest takes part in the workspace's lints.
pub(super) fn check_manifest(file: &File, findings: &mut Vec<Finding>) {
    if super::crate_of(&file.path).is_some() && !file.text.contains("[lints]\nworkspace = true\n") {
        let message = "lacks `[lints] workspace = true`";
        findings.push(Finding::new(&file.path, 0, message));
    }
}

/// Checks what a pure crate's sources declare.
pub(super) fn check_source(file: &File, source: &Source, findings: &mut Vec<Finding>) {
    let Some(folder) = super::crate_of(&file.path) else {
        return;
    };
    if find(folder).is_none_or(|row| row.kind != Kind::Pure) {
        return;
    }
    if file.path == format!("crates/{folder}/src/lib.rs") {
        for attribute in ["#![no_std]", "#![forbid(unsafe_code)]"] {
            if !source.code.contains(attribute) {
                let message = format!("a pure crate says {attribute}");
                findings.push(Finding::new(&file.path, 0, message));
            }
        }
    }
    if !file.path.starts_with(&format!("crates/{folder}/src/")) || super::is_test_file(&file.path) {
        return;
    }
    for (at, _) in source.code.match_indices("extern crate std") {
        let line = line_of(&source.code, at);
        if !source.is_test(line) {
            let message = "a pure crate does without std outside its tests";
            findings.push(Finding::new(&file.path, line, message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Dependency;
    use crate::tidy::file;

    fn package(folder: &str, name: &str, dependencies: &[(&str, Option<&str>)]) -> Package {
        Package {
            name: name.into(),
            version: "0.1.0".into(),
            license: Some("Apache-2.0".into()),
            source: None,
            manifest_path: format!("/somewhere/crates/{folder}/Cargo.toml"),
            dependencies: dependencies
                .iter()
                .map(|(name, kind)| Dependency {
                    name: (*name).into(),
                    kind: kind.map(Into::into),
                })
                .collect(),
        }
    }

    fn findings_of(folder: &str, dependencies: &[(&str, Option<&str>)]) -> Vec<Finding> {
        let mut findings = Vec::new();
        let name = package_name(folder);
        check_packages(&[package(folder, &name, dependencies)], &mut findings);
        findings
    }

    #[test]
    fn the_table_has_no_cycle_and_no_unknown_name() {
        for row in TABLE {
            assert!(
                !allowed(row).contains(row.name),
                "{} is below itself",
                row.name
            );
        }
    }

    #[test]
    fn pure_crates_stand_on_pure_crates_only() {
        for row in TABLE.iter().filter(|row| row.kind == Kind::Pure) {
            for name in allowed(row) {
                let below = find(name).expect("every name has a row");
                assert_eq!(below.kind, Kind::Pure, "{} stands on {name}", row.name);
            }
        }
    }

    #[test]
    fn dependencies_go_down_only() {
        assert_eq!(findings_of("store", &[("holdfast-stdx", None)]), []);
        assert_eq!(findings_of("store", &[("holdfast-engine", None)]).len(), 1);
        assert_eq!(findings_of("pages", &[("holdfast-journal", None)]).len(), 1);
        assert_eq!(findings_of("model", &[("holdfast-disk", None)]).len(), 1);
        assert_eq!(
            findings_of("node", &[("holdfast-sim", Some("dev"))]).len(),
            1
        );
        assert_eq!(findings_of("disk", &[("holdfast-model", None)]), []);
    }

    #[test]
    fn pure_crates_take_only_listed_packages_from_outside() {
        assert_eq!(findings_of("wire", &[("thiserror", None)]), []);
        assert_eq!(findings_of("wire", &[("tokio", None)]).len(), 1);
        assert_eq!(findings_of("wire", &[("cc", Some("build"))]).len(), 1);
        assert_eq!(findings_of("wire", &[("proptest", Some("dev"))]), []);
        assert_eq!(
            findings_of("wire", &[("holdfast-sim", Some("dev"))]).len(),
            1
        );
        assert_eq!(findings_of("net", &[("tokio", None)]), []);
    }

    #[test]
    fn unknown_crates_and_wrong_names_are_found() {
        assert_eq!(findings_of("misc", &[]).len(), 1);
        let mut findings = Vec::new();
        check_packages(&[package("model", "model", &[])], &mut findings);
        assert_eq!(findings.len(), 1);
    }

    #[test]
    fn a_pure_crate_says_so() {
        for (path, text, count) in [
            (
                "crates/model/src/lib.rs",
                "#![no_std]\n#![forbid(unsafe_code)]\n",
                0,
            ),
            (
                "crates/model/src/lib.rs",
                "#![no_std]\n// #![forbid(unsafe_code)]\n",
                1,
            ),
            ("crates/model/src/lib.rs", "", 2),
            ("crates/disk/src/lib.rs", "", 0),
            ("crates/model/src/id.rs", "extern crate std;\n", 1),
            (
                "crates/model/src/id.rs",
                "#[cfg(test)]\nextern crate std;\n",
                0,
            ),
            ("crates/model/tests/id.rs", "extern crate std;\n", 0),
        ] {
            let mut findings = Vec::new();
            check_source(&file(path, text), &Source::read(text), &mut findings);
            assert_eq!(findings.len(), count, "{path} {text:?}");
        }
    }

    #[test]
    fn a_manifest_without_the_workspace_lints_is_found() {
        let mut findings = Vec::new();
        let manifest = file("crates/model/Cargo.toml", "[package]\n");
        check_manifest(&manifest, &mut findings);
        assert_eq!(findings.len(), 1);
    }
}
