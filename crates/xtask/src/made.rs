//! What the workspace's own programs print.
//!
//! Invariant: they are built as the tests build them. A package by itself has other features than in the workspace, and the
//! workspace other ones without its tests: each time everything would be compiled once more.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo;
use crate::metadata;
use crate::process::printed;

/// Has cargo give everything the features that it has for tests: with an example those of dev-dependencies are among them.
pub(crate) const LIKE_TESTS: [&str; 3] = ["--workspace", "--example", "openapi"];

/// A program of the workspace.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Program {
    /// A binary.
    Bin(&'static str),
    /// An example.
    Example(&'static str),
}

impl Program {
    /// Builds it; where it is then.
    ///
    /// # Errors
    /// It cannot be built.
    pub(crate) fn build(self, root: &Path) -> Result<PathBuf> {
        let (kind, name, folder) = match self {
            Self::Bin(name) => ("--bin", name, "debug"),
            Self::Example(name) => ("--example", name, "debug/examples"),
        };
        let status = cargo::command()
            .args(["build", "--quiet", "--locked"])
            .args(LIKE_TESTS)
            .args([kind, name])
            .current_dir(root)
            .status()
            .context("start cargo")?;
        ensure!(status.success(), "cargo cannot build {name}: {status}");
        Ok(metadata::target_directory(root)?.join(folder).join(name))
    }

    /// Builds it, and runs it: what it prints.
    ///
    /// # Errors
    /// It cannot be built, fails, or prints what is no UTF-8.
    pub(crate) fn print(self, root: &Path, arguments: &[&str]) -> Result<String> {
        printed(
            Command::new(self.build(root)?)
                .args(arguments)
                .current_dir(root),
        )
    }
}
