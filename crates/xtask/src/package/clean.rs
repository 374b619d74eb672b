//! The package in a clean Debian, which mmdebstrap makes of this machine's sources in a directory that is removed again.
//!
//! What is looked at: it installs with what it depends on, and enables nothing; the program, its manual pages and completions are there; a cluster runs,
//! and is well; systemd has nothing against the services; an upgrade, a removal and a purge delete nothing of a node's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::demo::Demo;
use crate::process::succeed;

/// What the clean Debian has beside the least: what verifies services, and what shows manual pages.
const INCLUDED: &str = "systemd,man-db,bash-completion";
/// What stands for a node's data, and its configuration.
const KEPT: &[&str] = &[
    "var/lib/holdfast/etcd/data/member",
    "etc/holdfast/node.toml",
];

/// How soon a cluster that serves is well.
const WELL_WITHIN: Duration = Duration::from_secs(30);

/// What the kernel tells, which programs ask for their own path, and much else (`proc(5)`).
const PROC: &str = "proc";

/// The directory, which goes with the run.
struct Clean(PathBuf);

impl Drop for Clean {
    fn drop(&mut self) {
        // What is mounted there is not to be removed: without this it stays.
        let unmounted = Command::new("umount").arg(self.0.join(PROC)).status();
        if unmounted.is_ok_and(|status| status.success()) {
            drop(fs::remove_dir_all(&self.0));
        } else {
            eprintln!("note: {} stays: umount has failed", self.0.display());
        }
    }
}

impl Clean {
    fn make(at: &Path) -> Result<Self> {
        let mut command = Command::new("mmdebstrap");
        command
            .args(["--mode=root", "--variant=minbase", "--quiet"])
            .arg(format!("--include={INCLUDED}"))
            .arg("--aptopt=APT::Install-Recommends \"false\"")
            // Its manual pages are wanted.
            .arg("--dpkgopt=path-include=/usr/share/man/*")
            .arg("")
            .arg(at)
            .args(sources());
        succeed(&mut command)
            .context("`make setup-guest` installs mmdebstrap, which runs as root")?;
        let proc = at.join(PROC);
        succeed(Command::new("mount").args(["-t", PROC, PROC]).arg(proc))?;
        Ok(Self(at.to_owned()))
    }

    /// What a command in it says; it has to end well.
    fn says(&self, words: &[&str]) -> Result<String> {
        let output = Command::new("chroot")
            .arg(&self.0)
            .args(words)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .env("LC_ALL", "C")
            .output()
            .with_context(|| format!("start {words:?}"))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "{words:?} ended with {}: {said}",
            output.status
        );
        Ok(said)
    }
}

/// The files of apt's sources here, of whatever suite they are.
fn sources() -> Vec<PathBuf> {
    let places = ["/etc/apt/sources.list", "/etc/apt/sources.list.d"];
    let [file, directory] = places.map(PathBuf::from);
    let is_there = fs::metadata(&file).is_ok_and(|file| file.len() > 0);
    let mut found: Vec<_> = is_there.then_some(file).into_iter().collect();
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    found.extend(paths.filter(|path| {
        let end = path.extension().and_then(|end| end.to_str());
        matches!(end, Some("list" | "sources"))
    }));
    found.sort();
    found
}

/// Does all of that.
pub(super) fn try_out(package: &Path) -> Result<()> {
    let place = package.with_extension("clean");
    let clean = Clean::make(&place)?;
    fs::copy(package, clean.0.join("holdfast.deb"))?;
    clean.says(&["apt-get", "install", "--yes", "--quiet", "/holdfast.deb"])?;
    let version = clean.says(&["holdfast", "--version"])?;
    ensure!(version.starts_with("holdfast "), "{version}");
    for unit in ["holdfast-node.service", "holdfast-witness.service"] {
        let said = clean.says(&["systemd-analyze", "verify", "--man=no", unit])?;
        ensure!(said.trim().is_empty(), "systemd-analyze: {said}");
        let wants = clean.0.join("etc/systemd/system/multi-user.target.wants");
        ensure!(!wants.join(unit).exists(), "{unit} was enabled");
    }
    for page in ["holdfast", "holdfast-volume-create"] {
        let said = clean.says(&["man", "--warnings", "--pager=cat", page])?;
        ensure!(said.contains("EXIT STATUS"), "{said}");
    }
    let completes = "source /usr/share/bash-completion/bash_completion; _completion_loader holdfast; complete -p holdfast";
    clean.says(&["bash", "-c", completes])?;
    runs(&clean)?;
    keeps_what_is_a_nodes(&clean)?;
    println!("{}: passed in a clean Debian", package.display());
    Ok(())
}

/// A cluster of three nodes runs there, and is well.
fn runs(clean: &Clean) -> Result<()> {
    let (directory, mut command) = (Path::new("/srv/demo"), Command::new("chroot"));
    command.arg(&clean.0).arg("holdfast");
    let demo = Demo::start(&mut command, clean.0.join("srv/demo"), directory)?;
    let told = demo.told()?;
    let mut words = vec!["env".to_owned()];
    for (variable, key) in [
        ("HOLDFAST_API", "api"),
        ("HOLDFAST_CA", "ca"),
        ("HOLDFAST_TOKEN", "token"),
    ] {
        let value = told[key].as_str();
        let value = value.with_context(|| format!("demo.json has no {key}"))?;
        words.push(format!("{variable}={value}"));
    }
    words.extend(["holdfast", "status", "--check"].map(str::to_owned));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let deadline = Instant::now() + WELL_WITHIN;
    while let Err(error) = clean.says(&words) {
        ensure!(
            Instant::now() < deadline,
            "the cluster is not well: {error:#}"
        );
        sleep(Duration::from_secs(1));
    }
    Ok(())
}

/// Neither an upgrade nor a removal, however thorough, takes anything of a node.
fn keeps_what_is_a_nodes(clean: &Clean) -> Result<()> {
    for path in KEPT {
        let path = clean.0.join(path);
        fs::create_dir_all(path.parent().context("a directory")?)?;
        fs::write(path, "kept")?;
    }
    for step in [
        &["dpkg", "--install", "/holdfast.deb"][..],
        &["apt-get", "remove", "--yes", "--quiet", "holdfast"],
        &["apt-get", "purge", "--yes", "--quiet", "holdfast"],
    ] {
        clean.says(step)?;
        for path in KEPT {
            let text = fs::read_to_string(clean.0.join(path));
            ensure!(text.is_ok_and(|it| it == "kept"), "{path} after {step:?}");
        }
    }
    let is_gone = !clean.0.join("usr/bin/holdfast").exists();
    ensure!(is_gone, "the program is there still");
    Ok(())
}
