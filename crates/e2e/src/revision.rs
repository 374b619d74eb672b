//! The binary of another commit of this repository, built from a work tree of its own.
//!
//! Invariants:
//! - everything that is written is in the build directory: of commit C the work tree in `revisions/C/tree`,
//!   what is built of it in `revisions/C/target`, and the binary as `revisions/C/holdfast`;
//! - commits share no build directory: cargo goes by times, and would take what was built of a later one;
//! - a binary is there whole or not at all.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::binary::cargo;

/// A commit's full name.
///
/// # Errors
/// There is none of that name.
pub fn commit(name: &str) -> Result<String> {
    let object = format!("{name}^{{commit}}");
    let output = git(&["rev-parse", "--verify", "--quiet", &object])?;
    Ok(output.trim().to_owned())
}

/// What this was built of, or would be now: a commit, and whether there is more.
///
/// # Errors
/// There is no repository.
pub fn described() -> Result<String> {
    let output = git(&["describe", "--always", "--dirty"])?;
    Ok(output.trim().to_owned())
}

/// The binary of a commit, absolute; built unless it has been.
///
/// # Errors
/// There is no such commit, or it cannot be built.
pub fn build(name: &str) -> Result<PathBuf> {
    let commit = commit(name)?;
    let revisions = build_directory()?.join("revisions");
    let tree = revisions.join(&commit).join("tree");
    let binary = revisions.join(&commit).join("holdfast");
    if binary.exists() {
        return Ok(binary);
    }
    if !tree.join("Cargo.toml").exists() {
        let path = tree.to_str().context("the build directory is UTF-8")?;
        // One that somebody has removed by hand is still on git's list.
        git(&["worktree", "prune"])?;
        git(&["worktree", "add", "--quiet", "--detach", path, &commit])?;
    }
    let target = revisions.join(&commit).join("target");
    let status = cargo()
        .args([
            "build",
            "--quiet",
            "--release",
            "--locked",
            "-p",
            "holdfast",
        ])
        .arg("--target-dir")
        .arg(&target)
        .current_dir(&tree)
        .status()
        .context("start cargo")?;
    ensure!(status.success(), "cargo cannot build commit {commit}");
    let new = binary.with_extension("new");
    fs::copy(target.join("release/holdfast"), &new).context("keep the binary")?;
    fs::rename(&new, &binary).context("keep the binary")?;
    Ok(binary)
}

fn git(arguments: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .context("start git")?;
    let talk = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {arguments:?}: {talk}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The build directory of this program, which is TARGET/PROFILE/examples/NAME, or as deep in it.
pub(crate) fn build_directory() -> Result<PathBuf> {
    let program = std::env::current_exe().context("find this program")?;
    let target = program.ancestors().nth(3).map(Path::to_owned);
    target.context("find the build directory")
}
