//! How an image is made: what happens to a cluster in it.
//!
//! Invariants:
//! - every kind of thing that a store can hold is in it: pages that are whole, that have holes and bad ends
//!   of blocks, that were taken away; entries that no page has yet; slices of volumes that are gone; a
//!   replica that was copied to, and one that has missed the last writes; a store whose journal has moved
//!   to another device;
//! - commands go one after the other, so that their order is known.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{DEVICE_SIZE, GoldenVolume, Manifest, Sheet, pack};
use crate::host::Host;
use crate::process::wait_until;
use crate::{Demo, DemoOptions, cli, demo};

const NODES: u16 = 3;
/// Names, sizes and policies.
const VOLUMES: [&str; 3] = ["two:48MiB:mirror2", "three:20MiB:mirror3", "one:4MiB:none"];
/// A node's device in its directory, and one that takes its place.
const DEVICE: &str = "device";
const LATER_DEVICE: &str = "later";
/// A volume that is made, written to and deleted.
const DELETED: &str = "gone";
/// Sectors of a page of 256 KiB, and of a block of 4 KiB.
const PAGE: u64 = 512;
const BLOCK: u64 = 8;
const SYNC_PATIENCE: Duration = Duration::from_secs(60);
/// In which nothing happens: what is to be destaged by itself is.
const REST: Duration = Duration::from_secs(3);
/// What every start writes anew, or appends to, and what names paths of where it was made.
const LEFT_OUT: [&str; 9] = [
    "demo.json",
    "devices.toml",
    "node.log",
    "node.log.old",
    "node.pid",
    "node.stderr",
    "node.toml",
    ".holdfast-demo.lock",
    "LOCK",
];

/// A volume that is being written to.
struct Written<'a> {
    host: &'a Host,
    sheet: &'a mut Sheet,
}

impl Written<'_> {
    fn pages(&mut self, first: u64, count: u64) -> Result<()> {
        for page in first..first + count {
            self.sheet.write(self.host, page * PAGE, PAGE)?;
        }
        Ok(())
    }

    fn blocks(&mut self, page: u64, first: u64, count: u64) -> Result<()> {
        let first = page * PAGE + first * BLOCK;
        self.sheet.write(self.host, first, count * BLOCK)
    }

    fn sectors(&mut self, page: u64, first: u64, count: u64) -> Result<()> {
        self.sheet.write(self.host, page * PAGE + first, count)
    }

    fn unmap(&mut self, page: u64, first: u64, count: u64) -> Result<()> {
        self.sheet.unmap(self.host, page * PAGE + first, count)
    }
}

/// Makes an image with a binary, which is that of a commit.
///
/// # Errors
/// Something of it fails.
pub fn make(program: &Path, commit: &str) -> Result<(Manifest, Vec<u8>)> {
    let options = DemoOptions {
        nodes: NODES,
        device_size: DEVICE_SIZE,
        volumes: VOLUMES.to_vec(),
        cache: None,
        secure: false,
        program: Some(program.to_owned()),
        ..DemoOptions::default()
    };
    let mut made = None;
    demo::scenario(options, |demo| {
        let (volumes, away) = live(demo)?;
        demo.kill_everything()?;
        rename_devices(demo)?;
        let manifest = Manifest {
            commit: commit.to_owned(),
            nodes: NODES,
            away: vec![away],
            deleted: vec![DELETED.to_owned()],
            volumes,
        };
        let left_out = |path: &str| {
            let name = path.rsplit('/').next();
            LEFT_OUT.iter().any(|left_out| Some(*left_out) == name)
        };
        made = Some((manifest, pack(&demo.directory(), left_out)?));
        Ok(())
    });
    made.context("a scenario that ends well has made it")
}

/// What happens in an image, until everything is killed. Tells what the volumes hold then, and who was away.
fn live(demo: &mut Demo) -> Result<(Vec<GoldenVolume>, String)> {
    let names = VOLUMES.map(|volume| volume.split(':').next().unwrap_or_default());
    let hosts = names.map(|name| Host::open(demo, name));
    let [two, three, one] = hosts;
    let hosts = [two?, three?, one?];
    let mut sheets = hosts
        .each_ref()
        .map(|host| Sheet::new(host.disk().capacity().bytes(), &[]));
    for (host, sheet) in hosts.iter().zip(&mut sheets) {
        first_writes(&mut Written { host, sheet })?;
    }
    std::thread::sleep(REST);
    // A node that was away, and was brought up to date by what has changed.
    let (primary, secondary) = (demo.primary(names[0])?, demo.secondary(names[0])?);
    demo.kill(&secondary)?;
    for (host, sheet) in hosts.iter().zip(&mut sheets).take(2) {
        second_writes(&mut Written { host, sheet })?;
    }
    demo.start_node(&secondary)?;
    for (place, host) in hosts.iter().enumerate() {
        demo.wait_until_whole(names[place], SYNC_PATIENCE)?;
        host.wait_for_all_paths()?;
        sheets[place].verify(host)?;
    }
    exchange_device(demo, &primary)?;
    come_and_go(demo)?;
    std::thread::sleep(REST);
    // One that is away when everything else is killed, lacks what was written without it, and has some of what
    // was written before that in its journal only.
    let mut written = hosts.iter().zip(&mut sheets);
    let mut written = std::array::from_fn(|_| {
        let (host, sheet) = written.next().expect("three volumes have hosts");
        Written { host, sheet }
    });
    let [two, three, one] = &mut written;
    // The volume that has one copy may have it there.
    last_writes(one)?;
    two.blocks(3, 4, 2)?;
    demo.kill(&secondary)?;
    last_writes(three)?;
    last_writes(two)?;
    let mut volumes = Vec::new();
    for (place, sheet) in sheets.iter().enumerate() {
        let volume = demo.file().volume(names[place])?;
        volumes.push(GoldenVolume {
            name: volume.name.clone(),
            bytes: volume.bytes,
            policy: volume.policy.clone(),
            stretches: sheet.stretches().to_vec(),
        });
    }
    Ok((volumes, secondary))
}

/// Pages that are whole, pages with holes, blocks that were written in part.
fn first_writes(volume: &mut Written<'_>) -> Result<()> {
    volume.pages(0, 3)?;
    volume.blocks(4, 0, 1)?;
    volume.blocks(4, 63, 1)?;
    volume.blocks(5, 10, 20)?;
    volume.sectors(6, 3, 1)?;
    volume.sectors(6, 12, 9)?;
    // Over the end of a page.
    volume.blocks(7, 60, 8)?;
    // A page that is taken away, and a part of one.
    volume.pages(9, 2)?;
    volume.unmap(9, 0, PAGE)?;
    volume.unmap(10, 16, 240)?;
    // A page that is taken away in part, and written to again.
    volume.blocks(10, 5, 2)
}

/// Over what is there, and beside it.
fn second_writes(volume: &mut Written<'_>) -> Result<()> {
    volume.pages(12, 1)?;
    volume.blocks(0, 32, 4)?;
    volume.sectors(1, 511, 2)?;
    volume.unmap(5, 96, 32)
}

/// What no page has yet when everything ends.
fn last_writes(volume: &mut Written<'_>) -> Result<()> {
    volume.blocks(0, 33, 6)?;
    volume.blocks(2, 1, 3)?;
    volume.sectors(4, 511, 1)?;
    volume.blocks(14, 7, 9)?;
    volume.unmap(12, 0, 64)?;
    volume.unmap(1, 0, PAGE)?;
    volume.blocks(1, 20, 1)
}

/// A node's only device is replaced, and the journal with it.
fn exchange_device(demo: &Demo, node: &str) -> Result<()> {
    let bytes = fs::metadata(demo.path(node).join(DEVICE))?.len();
    let path = demo.path(node).join(LATER_DEVICE);
    File::create_new(&path)?.set_len(bytes)?;
    let path = path.to_str().context("a path in UTF-8")?;
    let replace = ["device", "replace", node, "0", path, "--wait"];
    let found: Value = cli::json(demo.api(), &replace)?;
    let left = found["devices"].as_array().map(Vec::len);
    ensure!(left == Some(1), "the first device has left: {found}");
    Ok(())
}

/// Where a node has a later device, it is found where a demo begins with one.
fn rename_devices(demo: &Demo) -> Result<()> {
    for node in demo.node_names() {
        let later = demo.path(&node).join(LATER_DEVICE);
        if later.exists() {
            fs::rename(later, demo.path(&node).join(DEVICE))?;
        }
    }
    Ok(())
}

/// A volume that is made, written to and deleted.
fn come_and_go(demo: &mut Demo) -> Result<()> {
    let api = demo.api().to_owned();
    let create = ["volume", "create", DELETED, "4MiB", "--policy", "mirror2"];
    let _: Value = cli::json(&api, &create)?;
    wait_until("demo.json names the volume", SYNC_PATIENCE, || {
        demo.refresh()?;
        Ok(demo.file().volume(DELETED).is_ok())
    })?;
    let host = Host::open(demo, DELETED)?;
    let mut sheet = Sheet::new(host.disk().capacity().bytes(), &[]);
    let mut volume = Written {
        host: &host,
        sheet: &mut sheet,
    };
    volume.pages(1, 2)?;
    volume.blocks(5, 10, 20)?;
    drop(host);
    let _: Value = cli::json(&api, &["volume", "delete", DELETED, "--yes", "--force"])?;
    let list: Value = cli::json(&api, &["volume", "list"])?;
    ensure!(!list.to_string().contains(DELETED), "it is deleted: {list}");
    Ok(())
}
