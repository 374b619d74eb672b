//! Where the binary under test is, and the tool by which an operator speaks to etcd.
//!
//! `HOLDFAST_BIN` names it; otherwise it is built, once in a test's process, with the profile and in
//! the directory of the test itself.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, ensure};

/// The etcd that `cargo xtask etcd` builds: `crates/xtask/etcd/go.mod`.
const ETCD_VERSION: &str = "3.7.3";
/// The variable that names another binary than the one of this tree.
const VARIABLE: &str = "HOLDFAST_BIN";

/// The binary's path, absolute.
///
/// # Errors
/// It cannot be built, or is not there.
pub fn holdfast() -> Result<PathBuf> {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let binary = BINARY.get_or_init(|| find().map_err(|error| format!("{error:#}")));
    binary.clone().map_err(|error| anyhow!(error))
}

/// The `etcdctl` that `cargo xtask etcd` builds, in the build directory that this test runs from.
///
/// # Errors
/// It is not built.
pub fn etcdctl() -> Result<PathBuf> {
    let test = std::env::current_exe().context("find this test")?;
    // This test is TARGET/PROFILE/deps/NAME-HASH.
    let target = test.ancestors().nth(3);
    let target = target.context("find the build directory")?;
    let program = target.join("etcd").join(ETCD_VERSION).join("etcdctl");
    let path = program.display();
    ensure!(program.is_file(), "{path} is missing: `cargo xtask etcd`");
    Ok(program)
}

fn find() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(VARIABLE) {
        let path = PathBuf::from(path);
        ensure!(path.is_absolute(), "{VARIABLE} is an absolute path");
        ensure!(
            path.exists(),
            "{VARIABLE} names nothing: {}",
            path.display()
        );
        return Ok(path);
    }
    // This test is TARGET/PROFILE/deps/NAME-HASH.
    let test = std::env::current_exe().context("find this test")?;
    let profile_directory = test
        .ancestors()
        .nth(2)
        .context("find the test's build directory")?;
    let profile = match profile_directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let target = profile_directory
        .parent()
        .context("find the build directory")?;
    let status = cargo()
        // As a part of the workspace, and with an example of it, it has the features that tests have. By itself it has others,
        // and everything would be compiled once more.
        .args([
            "build",
            "--quiet",
            "--workspace",
            "--bin",
            "holdfast",
            "--example",
            "openapi",
        ])
        .args(["--profile", profile])
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .context("start cargo")?;
    ensure!(status.success(), "cargo cannot build the package holdfast");
    let binary = profile_directory.join("holdfast");
    ensure!(binary.exists(), "the build has no {}", binary.display());
    Ok(binary)
}

/// Cargo, as it would be started from a shell: build scripts ask to run again when what it has told of a package is another, and
/// everything above them is compiled once more.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env!("CARGO"));
    for (name, _) in std::env::vars_os() {
        let is_of_the_package = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        });
        if is_of_the_package {
            command.env_remove(name);
        }
    }
    command
}
