//! The same on loop devices, because what nodes get in earnest are block devices and not files; and the
//! same without io_uring, which some systems refuse.
//!
//! Loop devices need root and the kernel's loop devices. Where there can be none it says aloud that it did not
//! run, and why; if there could be some and they cannot be had, it fails.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_e2e::host::Host;
use holdfast_e2e::{Demo, DemoOptions, conformance, image, scenario};
use holdfast_lab::verify::LoadConfig;

const SYNC_PATIENCE: Duration = Duration::from_secs(60);
const STALL_MAX: Duration = Duration::from_secs(3);

/// A file as a block device, for as long as this lives.
struct LoopDevice {
    path: String,
}

impl LoopDevice {
    fn attach(file: &Path) -> Result<Self> {
        let output = losetup(&["--find", "--show", "--direct-io=on"], Some(file))?;
        Ok(Self {
            path: output.trim().to_owned(),
        })
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // In use still, it is detached with its last user.
        let _ = losetup(&["--detach", &self.path], None);
    }
}

fn losetup(arguments: &[&str], file: Option<&Path>) -> Result<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("losetup")
        .args(arguments)
        .args(file)
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .output()
        .context("run losetup")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "losetup {arguments:?}: {said}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Why there can be no loop devices here.
fn missing() -> Option<&'static str> {
    if !Path::new("/dev/loop-control").exists() {
        return Some("the kernel has no loop devices");
    }
    if !rustix::process::geteuid().is_root() {
        return Some("only root may have loop devices");
    }
    None
}

#[test]
fn the_same_on_loop_devices() {
    if let Some(reason) = missing() {
        // To the handle itself: what `eprintln` says in a test that passes nobody sees.
        let said = format!("\nthe_same_on_loop_devices DID NOT RUN: {reason}\n");
        std::io::stderr().write_all(said.as_bytes()).unwrap();
        return;
    }
    scenario(DemoOptions::default(), |demo| {
        demo.stop()?;
        let mut devices = Vec::new();
        for node in demo.node_names() {
            let device = demo.device(&node);
            let backing = demo.path(&node).join("backing");
            fs::rename(&device, &backing)?;
            let loop_device = LoopDevice::attach(&backing)?;
            symlink(&loop_device.path, &device)?;
            devices.push(loop_device);
        }
        demo.start_again()?;
        let result = use_it(demo);
        // The devices are in use until the demo has stopped.
        demo.stop()?;
        drop(devices);
        result
    });
}

#[test]
fn the_same_by_threads() {
    scenario(DemoOptions::default(), |demo| {
        for node in demo.node_names() {
            let path = demo.path(&node).join("node.toml");
            let config = fs::read_to_string(&path)?;
            demo.kill(&node)?;
            fs::write(&path, format!("disk_driver = \"threads\"\n{config}"))?;
            demo.start_node(&node)?;
            demo.wait_until_whole("demo", SYNC_PATIENCE)?;
            let log = fs::read_to_string(demo.path(&node).join("node.log"))?;
            ensure!(log.contains("driven by Threads"), "{node} says {log}");
        }
        use_it(demo)
    });
}

fn use_it(demo: &mut Demo) -> Result<()> {
    let volume = demo.file().volume("demo")?.clone();
    let portal = demo.file().nodes[0].portal;
    let url = image::url(portal, &volume.target, volume.lun);
    let host = Host::open(demo, "demo")?;
    host.wait_for_all_groups(2)?;
    for suite in ["Read10", "Write10", "WriteSame10", "Unmap", "GetLBAStatus"] {
        let outcome = conformance::run(suite, &url)?;
        let complaints = outcome.complaints(&[]);
        ensure!(complaints.is_empty(), "{complaints:?}");
    }
    let config = LoadConfig {
        depth: 12,
        ..LoadConfig::default()
    };
    let mut ledger = host.ledger(1);
    host.clear(&mut ledger)?;
    let load = host.load(ledger, config);
    load.wait_for(500)?;
    load.restart_stalls();
    let primaries = demo.volume("demo")?;
    let node = (*primaries.primaries().first().context("it has a primary")?).to_owned();
    demo.kill(&node)?;
    load.run_for(Duration::from_secs(4))?;
    demo.start_node(&node)?;
    demo.wait_until_whole("demo", SYNC_PATIENCE)?;
    let report = load.report();
    ensure!(report.longest_stall <= STALL_MAX, "{report}");
    host.wait_for_all_paths()?;
    let (_, mut ledger) = load.stop()?;
    host.verify(&mut ledger)
}
