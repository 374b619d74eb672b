//! A node that was away catches up by what has changed; one that has lost everything, by all that
//! is allocated; and serving goes on meanwhile.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_e2e::host::Host;
use holdfast_e2e::process::wait_until;
use holdfast_e2e::{Demo, DemoOptions, scenario};
use holdfast_lab::verify::layout::Window;
use holdfast_lab::verify::{Ledger, LoadConfig};

const MIB: u64 = 1 << 20;
/// The demo's volume.
const VOLUME_BYTES: u64 = 4 << 30;
/// What is on the volume before.
const FILLED_BYTES: u64 = 256 * MIB;
/// Blocks of 4 KiB that change while the node is away, each in a page of its own.
const CHANGED_BLOCKS: u64 = 512;
const CHANGED_BYTES: u64 = CHANGED_BLOCKS * 4096;
/// "Little more than what changed": the last write before, of which the node may not have been told
/// that it was committed, and the log's own entries.
const SLACK_BYTES: u64 = MIB + MIB / 4;
/// Within which what a node says of itself is true.
const TOLD_WITHIN: Duration = Duration::from_secs(2);
const SYNC_PATIENCE: Duration = Duration::from_secs(120);
const STALL_MAX: Duration = Duration::from_secs(3);

#[test]
fn a_node_catches_up_by_what_has_changed() {
    scenario(DemoOptions::default(), |demo| {
        let host = Host::open(demo, "demo")?;
        fill(&host, 0, FILLED_BYTES / MIB, MIB, 1)?;
        // The secondary first, then whoever is primary then.
        for leads in [false, true] {
            let node = replica(demo, leads)?;
            let before = demo.volume("demo")?.resync.bytes_moved;
            demo.kill(&node)?;
            fill(&host, 4096, CHANGED_BLOCKS, 4096, 2 + u64::from(leads))?;
            demo.start_node(&node)?;
            demo.wait_until_whole("demo", SYNC_PATIENCE)?;
            host.wait_for_all_paths()?;
            let moved = moved_since(demo, before, CHANGED_BYTES)?;
            ensure!(
                moved <= CHANGED_BYTES + SLACK_BYTES,
                "{CHANGED_BYTES} bytes changed, {moved} were moved to {node}"
            );
            // Alone it has to serve what it has caught up with.
            let other = beside_node(demo, &node)?;
            demo.kill(&other)?;
            check(&host, 4096, CHANGED_BLOCKS, 4096, 2 + u64::from(leads))?;
            let slices = demo.volume("demo")?.slices;
            ensure!(
                slices
                    .iter()
                    .all(|slice| slice.primary.as_ref() == Some(&node)),
                "{node} did not serve: {slices:?}"
            );
            demo.start_node(&other)?;
            demo.wait_until_whole("demo", SYNC_PATIENCE)?;
            host.wait_for_all_paths()?;
        }
        Ok(())
    });
}

#[test]
fn a_node_that_lost_everything_gets_all_of_it() {
    scenario(DemoOptions::default(), |demo| {
        let host = Host::open(demo, "demo")?;
        let ledger = host.ledger(5);
        let place = beside(&ledger)?;
        fill(&host, place, FILLED_BYTES / MIB, MIB, 1)?;
        let node = replica(demo, false)?;
        let other = replica(demo, true)?;
        demo.kill(&node)?;
        demo.empty_node(&node)?;
        let before = demo.volume("demo")?.resync.bytes_moved;
        let config = LoadConfig {
            depth: 8,
            ..LoadConfig::default()
        };
        let load = host.load(ledger, config);
        load.wait_for(100)?;
        load.restart_stalls();
        demo.start_node(&node)?;
        demo.wait_until_whole("demo", SYNC_PATIENCE)?;
        let report = load.report();
        ensure!(
            report.longest_stall <= STALL_MAX,
            "syncing stalled the load: {report}"
        );
        moved_since(demo, before, FILLED_BYTES)?;
        host.wait_for_all_paths()?;
        // Now it holds the only copy.
        demo.kill(&other)?;
        load.wait_for(100)?;
        check(&host, place, FILLED_BYTES / MIB, MIB, 1)?;
        let (_, mut ledger) = load.stop()?;
        demo.start_node(&other)?;
        demo.wait_until_whole("demo", SYNC_PATIENCE)?;
        host.wait_for_all_paths()?;
        host.verify(&mut ledger)
    });
}

/// Where `FILLED_BYTES` have room that the load does not touch.
fn beside(ledger: &Ledger) -> Result<u64> {
    let windows = ledger.layout().windows();
    let is_free = |start: &u64| {
        let (first, end) = (start / 512, (start + FILLED_BYTES) / 512);
        let beside = |window: &Window| window.first + window.count <= first || window.first >= end;
        windows.iter().all(beside)
    };
    let places = (0..VOLUME_BYTES / FILLED_BYTES).map(|index| index * FILLED_BYTES);
    places
        .rev()
        .find(is_free)
        .context("find room beside the load")
}

/// The bytes that were moved since they were `before`, at least `expected`: the numbers are a moment
/// older than the record, which says that everybody is in sync.
fn moved_since(demo: &Demo, before: u64, expected: u64) -> Result<u64> {
    let mut moved = 0;
    wait_until("the bytes moved are told", TOLD_WITHIN, || {
        moved = demo.volume("demo")?.resync.bytes_moved - before;
        Ok(moved >= expected)
    })?;
    Ok(moved)
}

/// A node that holds the one slice, and leads it or not.
fn replica(demo: &Demo, leads: bool) -> Result<String> {
    let volume = demo.volume("demo")?;
    let slice = volume.slices.first().context("a volume has slices")?;
    let is_primary = |node: &&String| slice.primary.as_ref() == Some(*node);
    let node = slice.in_sync.iter().find(|node| is_primary(node) == leads);
    node.cloned().context("find the replica")
}

/// The other node that holds the one slice.
fn beside_node(demo: &Demo, node: &str) -> Result<String> {
    let volume = demo.volume("demo")?;
    let slice = volume.slices.first().context("a volume has slices")?;
    let other = slice.in_sync.iter().find(|other| *other != node);
    other.cloned().context("find the other replica")
}

/// The content of piece `index`.
fn piece(index: u64, length: u64, seed: u64) -> Vec<u8> {
    let word = (seed << 48 | index).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    word.to_le_bytes().repeat(length as usize / 8)
}

/// Writes `count` pieces of `length` bytes, each at the beginning of a MiB from `offset` on.
fn fill(host: &Host, offset: u64, count: u64, length: u64, seed: u64) -> Result<()> {
    for index in 0..count {
        let data = piece(index, length, seed).into();
        let first = (offset + index * stride(length)) / 512;
        host.run(host.disk().write(first, data, index as usize))?;
    }
    Ok(())
}

/// Small pieces are a page apart.
fn stride(length: u64) -> u64 {
    length.max(256 << 10)
}

fn check(host: &Host, offset: u64, count: u64, length: u64, seed: u64) -> Result<()> {
    for index in 0..count {
        let first = (offset + index * stride(length)) / 512;
        let read = host
            .disk()
            .read(first, (length / 512) as u32, index as usize);
        let found = host.run(read)?.data_in.concat();
        ensure!(
            found == piece(index, length, seed),
            "piece {index} is wrong"
        );
    }
    Ok(())
}
