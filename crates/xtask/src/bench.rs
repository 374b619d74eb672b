//! Holdfast beside its peers: builds both sides with optimisation, and runs the bench `peers` of the crate `e2e`, which says what its
//! options are.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::cargo;

/// Runs it with these options.
pub(crate) fn run(root: &Path, options: &[&str]) -> Result<()> {
    let status = cargo::command()
        .args(["bench", "--locked", "-p", "holdfast-e2e"])
        .args(["--bench", "peers", "--"])
        .args(options)
        .current_dir(root)
        .status()
        .context("run cargo")?;
    ensure!(status.success(), "the bench ended with {status}");
    Ok(())
}
