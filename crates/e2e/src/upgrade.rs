//! A cluster of an earlier version becomes one of this version, node after node, under verified load.
//!
//! It does what `docs/deployment.md` tells an administrator to do, and what happens meanwhile: a node that is
//! killed rather than stopped, one of the old version that dies and comes back, volumes that are made and
//! deleted, a way back that is tried. It prints what it does.
//!
//! Invariants:
//! - no byte is wrong and no command fails, ever; at the end all that the loads cover is read through every
//!   path, every block on every device has its checksum, and a fresh start serves the same;
//! - a program that is too old refuses a node's devices, says what to do, and changes nothing on them.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_lab::verify::LoadConfig;
use holdfast_stdx::crc32c;
use serde_json::Value;

use crate::host::{Host, HostLoad};
use crate::process::wait_until;
use crate::{Demo, DemoOptions, binary, cli, demo};

/// Two slices with two copies, and one with three.
const VOLUMES: [&str; 2] = ["two:5GiB:mirror2", "three:1GiB:mirror3"];
const NAMES: [&str; 2] = ["two", "three"];
/// Workers on each volume, and the pause of each between two commands: enough to keep every path busy,
/// few enough for two cores.
const DEPTH: usize = 8;
const PAUSE: Duration = Duration::from_millis(2);
/// Commands that every load must complete between two steps.
const COMMANDS: u64 = 300;
/// The longest stall that a node may cause that is stopped or killed, as other scenarios have it.
const STALL_MAX: Duration = Duration::from_secs(3);
const SYNC_PATIENCE: Duration = Duration::from_secs(120);
/// How long all may take to be well in the eyes of `holdfast status`.
const WELL_PATIENCE: Duration = Duration::from_secs(60);

/// Begins with the cluster of `old`, ends with one of the binary under test.
///
/// # Panics
/// If anything is not as it should be.
pub fn roll(old: &Path) {
    let options = DemoOptions {
        volumes: VOLUMES.to_vec(),
        cache: None,
        secure: false,
        program: Some(old.to_owned()),
        ..DemoOptions::default()
    };
    demo::scenario(options, |demo| {
        let hosts = [Host::open(demo, NAMES[0])?, Host::open(demo, NAMES[1])?];
        let loads: Vec<HostLoad> = hosts.iter().zip(1..).map(load).collect();
        replace_all(demo, &loads, old)?;
        let mut ledgers = Vec::new();
        for (load, host) in loads.into_iter().zip(&hosts) {
            let (report, mut ledger) = load.stop()?;
            host.verify(&mut ledger)?;
            say(&format!(
                "{} commands, and all is right",
                report.completed()
            ));
            ledgers.push(ledger);
        }
        drop(hosts);
        demo.stop()?;
        for node in demo.node_names() {
            let device = demo.device(&node).display().to_string();
            let found = cli::run(&["inspect", "--verify", &device])?;
            let text = String::from_utf8_lossy(&found.stdout);
            ensure!(
                found.status.success() && text.contains("damage: none"),
                "{text}"
            );
        }
        demo.start_again()?;
        for (name, mut ledger) in NAMES.into_iter().zip(ledgers) {
            demo.wait_until_whole(name, SYNC_PATIENCE)?;
            Host::open(demo, name)?.verify(&mut ledger)?;
        }
        say("it was started anew, and all is right");
        Ok(())
    });
}

fn load((host, seed): (&Host, u64)) -> HostLoad<'_> {
    let config = LoadConfig {
        depth: DEPTH,
        pause: PAUSE,
        seed,
        ..LoadConfig::default()
    };
    host.load(host.ledger(seed), config)
}

fn replace_all(demo: &mut Demo, loads: &[HostLoad], old: &Path) -> Result<()> {
    let new = binary::holdfast()?;
    let nodes = demo.node_names();
    for (place, node) in nodes.iter().enumerate() {
        step(demo, loads, &format!("{node} is replaced"), |demo| {
            if place == 1 {
                demo.kill(node)?;
            } else {
                demo.stop_node(node)?;
            }
            do_without_tls(demo, node, true)?;
            demo.start_node_by(node, &new).map(drop)
        })?;
        volumes_come_and_go(demo, node)?;
        let Some(next) = nodes.get(place + 1) else {
            break;
        };
        step(
            demo,
            loads,
            &format!("{next} of the old version dies and is back"),
            |demo| {
                demo.kill(next)?;
                demo.start_node_by(next, old).map(drop)
            },
        )?;
        step(
            demo,
            loads,
            &format!("{node} is given the old version again"),
            |demo| {
                demo.stop_node(node)?;
                do_without_tls(demo, node, false)?;
                refuses(demo, node, old)?;
                do_without_tls(demo, node, true)?;
                demo.start_node_by(node, &new).map(drop)
            },
        )?;
    }
    // What keeps the metadata and the demo's own API. The nodes go on meanwhile.
    step(demo, loads, "the demo itself is replaced", |demo| {
        demo.kill_parent()?;
        fs::remove_file(demo.path("demo.json"))?;
        demo.set_program(None);
        demo.start_again().map(drop)
    })?;
    wait_until("holdfast status finds nothing wrong", WELL_PATIENCE, || {
        let status: Value = cli::json(demo.api(), &["status"])?;
        Ok(status["health"] == "healthy" && status["protection"]["protected"] == true)
    })?;
    Ok(())
}

/// Does something under load, and waits until every copy is in sync and every path is up.
fn step(
    demo: &mut Demo,
    loads: &[HostLoad],
    what: &str,
    act: impl FnOnce(&mut Demo) -> Result<()>,
) -> Result<()> {
    for load in loads {
        load.wait_for(COMMANDS)?;
        load.restart_stalls();
    }
    act(demo).with_context(|| what.to_owned())?;
    let mut stalls = Vec::new();
    for (name, load) in NAMES.into_iter().zip(loads) {
        demo.wait_until_whole(name, SYNC_PATIENCE)?;
        load.host().wait_for_all_paths()?;
        load.wait_for(COMMANDS)?;
        let report = load.report();
        crate::host::check(&report)?;
        ensure!(report.longest_stall <= STALL_MAX, "{what}: {report}");
        stalls.push(format!("{name} {:?}", report.longest_stall));
    }
    say(&format!("{what}; longest stalls: {}", stalls.join(", ")));
    Ok(())
}

/// Through the API of a node, while the others may be of another version.
fn volumes_come_and_go(demo: &mut Demo, node: &str) -> Result<()> {
    let api = demo.file().node(node)?.api.clone();
    let create = ["volume", "create", "some", "5GiB", "--policy", "mirror3"];
    let _: Value = cli::json(&api, &create)?;
    let _: Value = cli::json(&api, &["volume", "grow", "some", "9GiB"])?;
    // The demo itself, and a node that may be of the other version, know of it.
    let last = demo.file().nodes.last().context("a demo has nodes")?;
    for other in [demo.api(), &last.api] {
        wait_until("the others know of a volume", WELL_PATIENCE, || {
            let list: Value = cli::json(other, &["volume", "list"])?;
            Ok(list.to_string().contains("\"some\""))
        })?;
        let list: Value = cli::json(other, &["node", "list"])?;
        let nodes = list["nodes"].as_array().context("a list of nodes")?;
        ensure!(nodes.iter().all(|node| node["state"] == "up"), "{list}");
    }
    let _: Value = cli::json(&api, &["volume", "delete", "some", "--yes", "--force"])?;
    Ok(())
}

/// What stands in a node's file for a version that wants to be told so, and is not known to those before.
const WITHOUT_TLS: &str = "\n# Of the upgrade.\n[security]\noff = true\n";

/// Says in a node's file that it does without TLS, or no more, unless the old version has said already how it is.
fn do_without_tls(demo: &Demo, node: &str, is_said: bool) -> Result<()> {
    let path = demo.path(node).join("node.toml");
    let text = fs::read_to_string(&path)?;
    let bare = text.replace(WITHOUT_TLS, "");
    if bare.contains("[security]") {
        return Ok(());
    }
    let added = if is_said { WITHOUT_TLS } else { "" };
    Ok(fs::write(&path, bare + added)?)
}

/// The old program refuses the node's devices with words that help, and leaves them as they are.
fn refuses(demo: &Demo, node: &str, old: &Path) -> Result<()> {
    let device = demo.device(node);
    let before = checksum(&device)?;
    let config = demo.path(node).join("node.toml");
    let output = Command::new("timeout")
        .arg("30")
        .arg(old)
        .args(["node", "--config"])
        .arg(&config)
        .env_clear()
        .output()
        .context("start the old program")?;
    let talk = String::from_utf8_lossy(&output.stderr);
    let is_refusal = output.status.code() == Some(1)
        && talk.contains("format version")
        && talk.contains("hint: run the newer program that wrote it");
    ensure!(is_refusal, "{}: {talk}", output.status);
    ensure!(checksum(&device)? == before, "the device was written to");
    Ok(())
}

/// CRC-32C of everything in a sparse file that is no hole, with the places.
fn checksum(path: &Path) -> Result<u32> {
    let mut file = File::open(path)?;
    let mut sums = Vec::new();
    let mut place = 0;
    // At the end, and where nothing but a hole is left, there is no data.
    while let Ok(data) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(place)) {
        let hole = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(data))?;
        file.seek(SeekFrom::Start(data))?;
        let mut bytes = vec![0; (hole - data).min(1 << 20) as usize];
        file.read_exact(&mut bytes)?;
        sums.extend(data.to_le_bytes());
        sums.extend(crc32c(&bytes).to_le_bytes());
        place = data + bytes.len() as u64;
    }
    Ok(crc32c(&sums))
}

fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}
