//! Devices come and go under load: nothing acknowledged is lost, and the node starts with what it then has.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_e2e::host::{Host, HostLoad};
use holdfast_e2e::process::wait_until;
use holdfast_e2e::{Demo, DemoOptions, cli, scenario};
use holdfast_lab::verify::LoadConfig;
use serde::Deserialize;
use serde_json::Value;

/// The longest stall that devices may cause which come and go.
const STALL_MAX: Duration = Duration::from_secs(3);
/// How long a node that was killed may take to be in sync again, and what is written to be in its place.
const PATIENCE: Duration = Duration::from_secs(60);
/// Larger than the demo's own devices, so that slots are given out there first.
const DEVICE_BYTES: u64 = 8 << 30;

#[derive(Debug, Deserialize)]
struct Devices {
    devices: Vec<Device>,
}

#[derive(Debug, Deserialize)]
struct Device {
    number: u16,
    path: String,
    state: String,
    journal: bool,
    is_absent: bool,
    used_bytes: u64,
}

impl Devices {
    fn numbers(&self) -> Vec<u16> {
        self.devices.iter().map(|device| device.number).collect()
    }

    fn device(&self, number: u16) -> Result<&Device> {
        let mut devices = self.devices.iter();
        let device = devices.find(|device| device.number == number);
        device.with_context(|| format!("no device {number} in {self:?}"))
    }
}

fn ask(demo: &Demo, arguments: &[&str]) -> Result<Devices> {
    let arguments: Vec<&str> = ["device"].iter().chain(arguments).copied().collect();
    cli::json(demo.api(), &arguments)
}

/// What is said when it is refused.
fn refused(demo: &Demo, arguments: &[&str]) -> Result<String> {
    let api = ["--api", demo.api(), "device"];
    let arguments: Vec<&str> = api.iter().chain(arguments).copied().collect();
    cli::fails(1, &arguments)
}

/// A blank device of its own for a node.
fn blank(demo: &Demo, name: &str) -> Result<String> {
    let path = demo.scratch(name);
    File::create(&path)?.set_len(DEVICE_BYTES)?;
    Ok(path.to_str().context("a path in UTF-8")?.to_owned())
}

/// The two nodes that hold the volume's one slice.
fn holders(demo: &Demo) -> Result<[String; 2]> {
    let volume = demo.volume("demo")?;
    let is_holder = |node: &String| volume.is_held_by(node);
    let holders: Vec<String> = demo.node_names().into_iter().filter(is_holder).collect();
    let two = holders.try_into();
    two.map_err(|holders| anyhow::anyhow!("a mirror of two, of one slice: {holders:?}"))
}

/// Writes everywhere, and knows what it wrote.
fn load(host: &Host, depth: usize, seed: u64) -> HostLoad<'_> {
    let config = LoadConfig {
        depth,
        seed,
        ..LoadConfig::default()
    };
    host.load(host.ledger(1), config)
}

/// What was written is there; without the other node too: what this one has moved, and was brought, is right.
fn has_all_of_it(demo: &mut Demo, host: &Host, load: HostLoad, other: &str) -> Result<()> {
    let (_, mut ledger) = load.stop()?;
    host.verify(&mut ledger)?;
    demo.kill(other)?;
    host.verify(&mut ledger)
}

#[test]
fn devices_come_and_go_under_load() {
    let options = DemoOptions {
        device_size: "2GiB",
        volumes: vec!["demo:1GiB:mirror2"],
        ..DemoOptions::default()
    };
    scenario(options, |demo| {
        let [node, other] = &holders(demo)?;
        let second = blank(demo, "second")?;
        let found = ask(demo, &["add", node, &second])?;
        ensure!(found.numbers() == [0, 1], "{found:?}");
        ensure!(found.device(0)?.journal && !found.device(1)?.journal);
        ensure!(found.device(1)?.path == second);

        let host = Host::open(demo, "demo")?;
        let load = load(&host, 12, 1);
        load.wait_for(2000)?;
        load.restart_stalls();
        exchange(demo, &load, node, &second)?;
        let report = load.report();
        ensure!(report.longest_stall <= STALL_MAX, "{report}");
        start_without(demo, node, &second)?;
        load.wait_for(200)?;
        has_all_of_it(demo, &host, load, other)
    });
}

/// A node loses a device while it is off, and gets it back; then it is replaced while it lives; then the new one is
/// gone for good, and replaced as well. All of it under verified load, and at the end the node has all of it.
#[test]
fn devices_are_missing_and_replaced_under_load() {
    let options = DemoOptions {
        device_size: "4GiB",
        // So large that new pages come into being to the end.
        volumes: vec!["demo:1GiB:mirror2"],
        ..DemoOptions::default()
    };
    scenario(options, |demo| {
        let [node, other] = &holders(demo)?;
        let second = blank(demo, "second")?;
        ask(demo, &["add", node, &second])?;
        let host = Host::open(demo, "demo")?;
        let load = load(&host, 8, 2);
        load.wait_for(500)?;
        is_filled(demo, node, 1)?;
        is_missing_and_back(demo, &load, node, &second)?;

        // It lives.
        is_filled(demo, node, 1)?;
        let third = blank(demo, "third")?;
        let found = ask(demo, &["replace", node, &second, &third, "--wait"])?;
        ensure!(found.numbers() == [0, 2], "{found:?}");
        is_filled(demo, node, 2)?;

        // It is dead.
        let missing = restart_without(demo, node, &third, |third| Ok(fs::remove_file(third)?))?;
        ensure!(missing.numbers() == [0, 2], "{missing:?}");
        let refusal = refused(demo, &["drain", node, "2"])?;
        ensure!(refusal.contains("absent"), "{refusal}");
        let fourth = blank(demo, "fourth")?;
        let found = ask(demo, &["replace", node, "2", &fourth, "--wait"])?;
        ensure!(found.numbers() == [0, 3], "{found:?}");
        demo.wait_until_whole("demo", PATIENCE)?;
        load.wait_for(200)?;
        has_all_of_it(demo, &host, load, other)
    });
}

/// The only device of a node is replaced, and the journal with it, while hosts write; and once more, while the node is
/// killed again and again. At the end the node has all of it, on a device that it did not begin with.
#[test]
fn the_journals_device_is_replaced_under_load() {
    let options = DemoOptions {
        device_size: "2GiB",
        volumes: vec!["demo:1GiB:mirror2"],
        ..DemoOptions::default()
    };
    scenario(options, |demo| {
        let [node, other] = &holders(demo)?;
        let host = Host::open(demo, "demo")?;
        let load = load(&host, 12, 3);
        load.wait_for(2000)?;
        let refusal = refused(demo, &["drain", node, "0"])?;
        ensure!(refusal.contains("room"), "{refusal}");
        load.restart_stalls();
        let second = blank(demo, "second")?;
        let found = ask(demo, &["replace", node, "0", &second, "--wait"])?;
        ensure!(
            found.numbers() == [1] && found.device(1)?.journal,
            "{found:?}"
        );
        let report = load.report();
        ensure!(report.longest_stall <= STALL_MAX, "{report}");
        load.wait_for(200)?;

        // It goes on by itself wherever the node is killed.
        let third = blank(demo, "third")?;
        ask(demo, &["replace", node, "1", &third])?;
        for _ in 0..3 {
            demo.kill(node)?;
            demo.start_node(node)?;
            wait_for_devices(demo, node, "its devices are open", |found| {
                !found.devices.is_empty()
            })?;
        }
        let found = wait_for_devices(demo, node, "the second device has left", |found| {
            found.numbers() == [2]
        })?;
        ensure!(
            found.device(2)?.journal && found.device(2)?.path == third,
            "{found:?}"
        );
        start_without_second(demo, node, &second)?;
        load.wait_for(200)?;
        has_all_of_it(demo, &host, load, other)
    });
}

/// The node starts with the third device alone.
fn start_without_second(demo: &mut Demo, node: &str, second: &str) -> Result<()> {
    is_blank(second)?;
    fs::remove_file(second)?;
    demo.kill(node)?;
    demo.start_node(node)?;
    demo.wait_until_whole("demo", PATIENCE)?;
    let found = wait_for_devices(demo, node, "its devices are open", |found| {
        !found.devices.is_empty()
    })?;
    ensure!(found.numbers() == [2], "{found:?}");
    Ok(())
}

fn is_blank(device: &str) -> Result<()> {
    let mut head = [1; 4096];
    File::open(device)?.read_exact(&mut head)?;
    ensure!(head == [0; 4096], "a device that has left is blank");
    Ok(())
}

fn is_filled(demo: &Demo, node: &str, device: u16) -> Result<()> {
    wait_until("the load fills the device", PATIENCE, || {
        Ok(ask(demo, &["list", node])?.device(device)?.used_bytes > 0)
    })
    .map(|_| ())
}

/// The node starts without the device, is brought what was on it, and takes it back when it is there again.
fn is_missing_and_back(demo: &mut Demo, load: &HostLoad, node: &str, second: &str) -> Result<()> {
    let aside = format!("{second}.aside");
    let missing = restart_without(demo, node, second, |second| Ok(fs::rename(second, &aside)?))?;
    ensure!(missing.device(1)?.path == second, "{missing:?}");
    let explained = cli::run(&["--api", demo.api(), "status", "--explain"])?;
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    ensure!(explained.contains("device 1"), "{explained}");
    ensure!(explained.contains("device replace"), "{explained}");
    demo.wait_until_whole("demo", PATIENCE)?;
    load.wait_for(200)?;

    demo.kill(node)?;
    fs::rename(&aside, second)?;
    demo.start_node(node)?;
    wait_for_devices(demo, node, "it is there again", |found| {
        found.device(1).is_ok_and(|it| it.state == "in-use")
    })?;
    demo.wait_until_whole("demo", PATIENCE)?;
    load.wait_for(200)
}

/// Kills the node, takes a device away, and starts the node. Gives its devices, of which that one is missing.
fn restart_without(
    demo: &mut Demo,
    node: &str,
    device: &str,
    take: impl FnOnce(&str) -> Result<()>,
) -> Result<Devices> {
    demo.kill(node)?;
    take(device)?;
    demo.start_node(node)?;
    if !Path::new(device).exists() {
        wait_until("it says that it waits for the device", PATIENCE, || {
            let status: Value = cli::json(demo.api(), &["status"])?;
            let told = format!("it waits for its device {device}");
            let is_told = status["alerts"].to_string().contains(&told);
            Ok(is_told && status["health"] != "healthy" && status["nodes"]["not_ready"] == 1)
        })?;
        let list: Value = cli::json(demo.api(), &["device", "list", node])?;
        let is_told = list["awaited_device"] == device && list["awaited_cause"] == "missing";
        ensure!(is_told, "{list}");
    }
    wait_for_devices(demo, node, "the node does without the device", |found| {
        let mut devices = found.devices.iter();
        devices.any(|it| it.path == device && it.state == "missing" && it.is_absent)
    })
}

/// Waits until the devices of a node that starts are so: as long as it does not answer they are not.
fn wait_for_devices(
    demo: &Demo,
    node: &str,
    what: &str,
    are_so: impl Fn(&Devices) -> bool,
) -> Result<Devices> {
    let mut last = None;
    wait_until(what, PATIENCE, || {
        last = ask(demo, &["list", node]).ok();
        Ok(last.as_ref().is_some_and(&are_so))
    })?;
    last.context("the devices of the node")
}

/// A third device comes, and everything on the second goes there and elsewhere; then the second leaves.
fn exchange(demo: &Demo, load: &HostLoad, node: &str, second: &str) -> Result<()> {
    let refusal = refused(demo, &["drain", node, "0"])?;
    ensure!(refusal.contains("journal"), "{refusal}");
    is_filled(demo, node, 1)?;
    let refusal = refused(demo, &["remove", node, second])?;
    ensure!(refusal.contains("drain it first"), "{refusal}");
    let refusal = refused(demo, &["add", node, second])?;
    ensure!(refusal.contains("in use"), "{refusal}");

    let third = blank(demo, "third")?;
    ask(demo, &["add", node, &third])?;
    let found = ask(demo, &["drain", node, second, "--wait"])?;
    ensure!(found.device(1)?.state == "drained", "{found:?}");
    load.wait_for(200)?;
    let found = ask(demo, &["remove", node, "1"])?;
    ensure!(found.numbers() == [0, 2], "{found:?}");
    ensure!(found.device(2)?.used_bytes > 0, "{found:?}");
    Ok(())
}

/// The node starts with the devices that it has, wherever their paths are written, and without the one
/// that left.
fn start_without(demo: &mut Demo, node: &str, second: &str) -> Result<()> {
    is_blank(second)?;
    fs::remove_file(second)?;
    demo.kill(node)?;
    demo.start_node(node)?;
    demo.wait_until_whole("demo", PATIENCE)?;
    // It may not answer yet.
    wait_for_devices(demo, node, "its devices are open", |found| {
        found.numbers() == [0, 2]
    })
    .map(drop)
}
