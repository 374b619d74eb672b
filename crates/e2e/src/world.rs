//! A world of one's own: this program run once more, with its own network, processes and mounts, all of
//! which the kernel ends with it.
//!
//! It refuses to promise that a machine allows it: [`missing`] says why not.
//!
//! Invariants:
//! - nothing that is made inside outlives the program there, however that ends: it is the first process of
//!   its world, and the kernel ends a world with it;
//! - the program inside ends with the thread that started it;
//! - names inside are seen by nobody else: two worlds do not disturb each other.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::PoisonError;

use anyhow::{Context, Result, ensure};

use crate::binary;
use crate::demo::ONE_AT_A_TIME;

/// Tells the program that it is inside.
const INSIDE: &str = "HOLDFAST_E2E_INSIDE";
/// Names the file by which the inside says that it did what it is for.
const RAN: &str = "HOLDFAST_E2E_RAN";
/// What [`enter`] and what is done inside call.
const PROGRAMS: [&str; 6] = ["setpriv", "unshare", "mount", "ip", "tc", "etcd"];

/// Why there can be no world of one's own here.
#[must_use]
pub fn missing() -> Option<String> {
    if !may_make_namespaces() {
        let says = "only root may have network namespaces, and not in every container";
        return Some(says.to_owned());
    }
    let absent = PROGRAMS.iter().find(|name| find(name).is_none())?;
    Some(format!("there is no program {absent}"))
}

/// Whether this process has the capabilities that namespaces, networks and file systems take.
fn may_make_namespaces() -> bool {
    /// CAP_NET_ADMIN and CAP_SYS_ADMIN, by their numbers in the kernel.
    const NEEDED: u64 = 1 << 12 | 1 << 21;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    effective.is_some_and(|effective| effective & NEEDED == NEEDED)
}

/// Whether this program runs in a world of its own.
#[must_use]
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Runs this program, with these arguments, in a world of its own, and waits until it has ended.
///
/// # Errors
/// It cannot be started.
pub fn enter(arguments: &[OsString]) -> Result<ExitStatus> {
    command(arguments)?.status().context("start unshare")
}

fn command(arguments: &[OsString]) -> Result<Command> {
    ensure!(!is_inside(), "this is the inside");
    let this = std::env::current_exe().context("find this program")?;
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "unshare", "--kill-child=KILL"])
        .args(["--net", "--mount", "--pid", "--fork", "--mount-proc"])
        .arg(this)
        .args(arguments)
        .env(INSIDE, "1")
        .env("PATH", path())
        // Inside there is no network to build anything with.
        .env("HOLDFAST_BIN", binary::holdfast()?)
        .stdin(Stdio::null());
    Ok(command)
}

/// Runs the body of the test of this name, modules and all, in a world of its own. Where there can be none, it says aloud that the
/// test did not run, and why.
///
/// # Panics
/// If the test fails, does not run at all, or leaves something outside.
pub fn test(name: &str, body: impl FnOnce()) {
    if is_inside() {
        body();
        let ran = std::env::var_os(RAN).expect("whoever is outside wants to know");
        fs::write(ran, "").expect("tell the outside that it ran");
        return;
    }
    if let Some(reason) = missing() {
        // To the handle itself: what `eprintln` says in a test that passes nobody sees.
        let said = format!("\n{name} DID NOT RUN: {reason}\n");
        let said = io::stderr().write_all(said.as_bytes());
        said.expect("there is a stderr");
        return;
    }
    let turn = ONE_AT_A_TIME.lock();
    let _turn = turn.unwrap_or_else(PoisonError::into_inner);
    let before = seen_outside().expect("look at the network");
    let folder = tempfile::tempdir().expect("a place for what the inside says");
    let ran = folder.path().join("ran");
    let arguments = ["--exact", name, "--nocapture"].map(OsString::from);
    let mut inside = command(&arguments).expect("find the way into a world of its own");
    let status = inside.env(RAN, &ran).status();
    let status = status.expect("enter a world of its own");
    assert!(status.success(), "{name} ended with {status}");
    // Of a name that is no test's the harness runs nothing, and is content.
    assert!(ran.exists(), "{name} was not run");
    let after = seen_outside().expect("look at the network");
    assert_eq!(after, before, "a world leaves nothing outside");
}

/// The names of links and namespaces that everybody sees.
fn seen_outside() -> Result<BTreeSet<String>> {
    let mut seen = BTreeSet::new();
    for arguments in [&["netns", "list"][..], &["-brief", "link"]] {
        let mut command = Command::new("ip");
        let output = command.args(arguments).env("PATH", path()).output()?;
        let text = String::from_utf8(output.stdout)?;
        let names = text
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        seen.extend(names.map(str::to_owned));
    }
    Ok(seen)
}

/// A file system in memory at `place`, which must be a directory.
///
/// # Errors
/// Outside: it would stay. Or it cannot be mounted.
pub fn mount_memory(place: &Path, bytes: u64) -> Result<()> {
    ensure!(is_inside(), "a file system outside would stay");
    let size = format!("size={bytes}");
    let place = place.as_os_str();
    run("mount", ["-t", "tmpfs", "-o", &size, "tmpfs"], Some(place))
}

/// Another size for a file system in memory, at least what is used of it.
///
/// # Errors
/// It is not one, or has more in it.
pub fn resize_memory(place: &Path, bytes: u64) -> Result<()> {
    let options = format!("remount,size={bytes}");
    run("mount", ["-o", &options], Some(place.as_os_str()))
}

/// Runs a program that must succeed.
///
/// # Errors
/// It does not.
pub(crate) fn run<'a>(
    program: &str,
    arguments: impl IntoIterator<Item = &'a str>,
    last: Option<&OsStr>,
) -> Result<()> {
    let mut command = Command::new(program);
    command.args(arguments).args(last);
    let output = command
        .output()
        .with_context(|| format!("start {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}", said.trim());
    Ok(())
}

/// `PATH`, and where it may lack what only administrators use.
fn path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/sbin");
    path
}

fn find(program: &str) -> Option<PathBuf> {
    let path = path();
    let mut places = std::env::split_paths(&path).map(|directory| directory.join(program));
    places.find(|place| place.is_file())
}
