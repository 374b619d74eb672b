//! The present etcd, built from its Go modules for the tests: once, into the build directory.
//!
//! It refuses to install anything, and to take another etcd in its place: a test that needs this
//! release fails without it.
//!
//! Invariants:
//! - a program is there whole or not at all;
//! - what is built is named by `crates/xtask/etcd/go.sum`: modules that are not the same are refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::metadata;

/// The module that requires etcd, and its version: `crates/xtask/etcd/go.mod`.
const MODULE: &str = "crates/xtask/etcd";
const REQUIRED: &str = "go.etcd.io/etcd/server/v3 v";
/// What is built: its name, and its package.
const PROGRAMS: &[(&str, &str)] = &[
    ("etcd", "go.etcd.io/etcd/server/v3"),
    ("etcdctl", "go.etcd.io/etcd/etcdctl/v3"),
    ("etcdutl", "go.etcd.io/etcd/etcdutl/v3"),
];
/// Go from this version on fetches the toolchain that a module asks for by itself.
const FETCHES_TOOLCHAINS: (u32, u32) = (1, 21);

/// Builds what is missing.
pub(crate) fn build(root: &Path) -> Result<()> {
    let module = root.join(MODULE);
    let manifest = fs::read_to_string(module.join("go.mod")).context("read go.mod of etcd")?;
    let version = required(&manifest).context("find etcd's version in go.mod")?;
    let folder = metadata::target_directory(root)?.join("etcd").join(version);
    let missing: Vec<_> = PROGRAMS
        .iter()
        .filter(|(name, _)| !folder.join(name).is_file())
        .collect();
    if missing.is_empty() {
        println!("etcd: {version} is built");
        return Ok(());
    }
    let go = go(&module, &manifest)?;
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    for (name, package) in missing {
        println!("etcd: building {name} {version}, which takes some minutes the first time");
        let new = folder.join(format!("{name}.new"));
        let status = Command::new(&go)
            .args(["build", "-trimpath", "-ldflags", "-s -w", "-o"])
            .arg(&new)
            .arg(package)
            .env("CGO_ENABLED", "0")
            .current_dir(&module)
            .status()
            .with_context(|| format!("start {}", go.display()))?;
        ensure!(
            status.success(),
            "go build {package} ended with {status}; modules come through GOPROXY, which the network may \
             refuse"
        );
        fs::rename(&new, folder.join(name)).context("keep what was built")?;
    }
    Ok(())
}

fn required(manifest: &str) -> Option<&str> {
    let mut lines = manifest.lines();
    lines.find_map(|line| line.trim().strip_prefix(REQUIRED))
}

/// The Go to build with.
fn go(module: &Path, manifest: &str) -> Result<PathBuf> {
    let found = Command::new("go").arg("version").output();
    let Ok(found) = found else {
        bail!(
            "Go is not installed, and the tests need an etcd that is built from its Go modules: \
             `apt-get install golang-go`, or https://go.dev/dl"
        );
    };
    let said = String::from_utf8_lossy(&found.stdout);
    let version = version(&said).with_context(|| format!("understand {said:?}"))?;
    if version >= FETCHES_TOOLCHAINS {
        return Ok("go".into());
    }
    let line = manifest.lines().find_map(|line| line.strip_prefix("go "));
    toolchain(module, line.context("find the version of Go in go.mod")?)
}

/// `go version go1.19.8 linux/amd64`
fn version(said: &str) -> Option<(u32, u32)> {
    let version = said.split_whitespace().nth(2)?.strip_prefix("go")?;
    let mut numbers = version.split('.');
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?))
}

/// A newer Go, for one that is too old to fetch it by itself: toolchains are modules as well, and old
/// ones can fetch modules. (They leave out what is not theirs to know: which files are programs.)
fn toolchain(module: &Path, version: &str) -> Result<PathBuf> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => bail!("install Go {version} or later: there is none to fetch for {other}"),
    };
    let name = format!("golang.org/toolchain@v0.0.1-go{version}.linux-{architecture}");
    println!("etcd: fetching Go {version}, because the one installed is older than 1.21");
    // Outside of any module: an old Go refuses one that asks for a newer.
    let outside = module.parent().context("the module lies in a folder")?;
    let fetched = Command::new("go")
        .args(["mod", "download", "-json", &name])
        .env("GO111MODULE", "on")
        .current_dir(outside)
        .output()
        .context("start go")?;
    let said = String::from_utf8_lossy(&fetched.stdout);
    let folder = serde_json::from_slice::<serde_json::Value>(&fetched.stdout)
        .ok()
        .and_then(|found| Some(PathBuf::from(found.get("Dir")?.as_str()?)));
    let Some(folder) = folder else {
        let error = String::from_utf8_lossy(&fetched.stderr);
        bail!("fetch {name}: {said}{error}; install Go {version} or later");
    };
    for programs in ["bin", "pkg/tool"] {
        make_programs(&folder.join(programs))?;
    }
    Ok(folder.join("bin/go"))
}

fn make_programs(folder: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let entries = fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            make_programs(&path)?;
            continue;
        }
        let mode = fs::Permissions::from_mode(0o555);
        fs::set_permissions(&path, mode)
            .with_context(|| format!("make {} a program", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(version("go version go1.19.8 linux/amd64"), Some((1, 19)));
        assert_eq!(version("go version go1.26 linux/arm64"), Some((1, 26)));
        assert_eq!(version("nonsense"), None);
        let manifest = fs::read_to_string(crate::root().join(MODULE).join("go.mod")).unwrap();
        assert!(required(&manifest).is_some());
    }
}
