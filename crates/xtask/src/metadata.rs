//! What `cargo metadata` says about the packages of the workspace and their dependencies.
//!
//! It refuses to read manifests itself: cargo's reading of them is the one that counts.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::cargo;

/// One package: ours if it has no `source`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Package {
    /// The name that dependents write.
    pub(crate) name: String,
    /// The exact version.
    pub(crate) version: String,
    /// An SPDX expression, if the package states one.
    pub(crate) license: Option<String>,
    /// Where it was fetched from; `None` for a package of this workspace.
    pub(crate) source: Option<String>,
    /// Where its manifest lies.
    pub(crate) manifest_path: String,
    /// What it asks for, of every kind and for every platform.
    pub(crate) dependencies: Vec<Dependency>,
}

/// One line of a manifest's dependency tables.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Dependency {
    /// The package that is asked for.
    pub(crate) name: String,
    /// `None` for a normal dependency, else `dev` or `build`.
    pub(crate) kind: Option<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    target_directory: PathBuf,
}

/// The workspace's own packages, without touching the network.
pub(crate) fn workspace(root: &Path) -> Result<Vec<Package>> {
    query(root, &["--no-deps"]).map(|found| found.packages)
}

/// Where cargo builds.
pub(crate) fn target_directory(root: &Path) -> Result<PathBuf> {
    query(root, &["--no-deps"]).map(|found| found.target_directory)
}

/// All packages that the lock file names, ours included.
pub(crate) fn all(root: &Path) -> Result<Vec<Package>> {
    query(root, &["--locked", "--all-features"]).map(|found| found.packages)
}

fn query(root: &Path, arguments: &[&str]) -> Result<Metadata> {
    let output = cargo::command()
        .args(["metadata", "--format-version", "1"])
        .args(arguments)
        .current_dir(root)
        .output()
        .context("start cargo metadata")?;
    ensure!(
        output.status.success(),
        "cargo metadata failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).context("read the output of cargo metadata")
}
