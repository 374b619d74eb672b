//! Scrubs of real nodes: blocks that went bad on several of them are found and mended, though nobody reads
//! them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_e2e::damage::Device;
use holdfast_e2e::demo_file::{FindingsShow, VolumeShow};
use holdfast_e2e::host::Host;
use holdfast_e2e::{Demo, DemoOptions, cli, scenario};
use holdfast_lab::verify::LoadConfig;
use serde_json::Value;

/// Whole pages of 256 KiB each.
const PAGES: u64 = 32;
const PAGE_SECTORS: u64 = 512;
const COMMANDS: u64 = 500;
/// For what was written to be brought to its place.
const DESTAGE_PATIENCE: Duration = Duration::from_secs(30);
const SYNC_PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn bad_blocks_on_all_nodes_are_found_and_mended_by_a_scrub() {
    scenario(DemoOptions::default(), |demo| {
        let nodes = filled(demo)?;
        let mut spoiled = 0;
        for (which, node) in nodes.iter().enumerate() {
            for device in Device::of(demo, node)? {
                for slot in device.used_slots()? {
                    // Each page on one node at most.
                    match (slot.key.page.0 % 8, which) {
                        (0, 0) | (1, 1) => drop(device.spoil_block(slot, slot.key.page.0)?),
                        (2, 0) | (3, 1) => device.spoil_slot(slot)?,
                        _ => {}
                    }
                }
            }
            let bad = bad_blocks(demo, node)?;
            ensure!(bad >= 4 * 65, "{node} has only {bad} bad blocks");
            spoiled += bad;
        }
        demo.start_again()?;
        demo.wait_until_whole("demo", SYNC_PATIENCE)?;
        let found = scrub(demo)?;
        let status: Value = cli::json(demo.api(), &["status"])?;
        let alerts = status["alerts"].to_string();
        for node in &nodes {
            let is_told = alerts.contains(node.as_str()) && alerts.contains("from other copies");
            ensure!(is_told, "{node} has just mended blocks: {alerts}");
        }
        ensure!(
            found.bad_blocks == spoiled,
            "{spoiled} were spoiled: {found:?}"
        );
        let wrong = found.unmended_blocks + found.differing_blocks + found.skipped_blocks;
        ensure!(wrong == 0, "{found:?}");
        let all = 2 * (PAGES + 1) * PAGE_SECTORS * 512;
        ensure!(found.bytes_read == all, "{found:?}");

        let again = scrub(demo)?;
        let nothing = FindingsShow {
            bytes_read: all,
            ..FindingsShow::default()
        };
        ensure!(again == nothing, "it is mended for good: {again:?}");
        demo.stop()?;
        for node in &nodes {
            ensure!(
                bad_blocks(demo, node)? == 0,
                "{node} has bad blocks on its medium"
            );
        }
        demo.start_again()?;
        let host = Host::open(demo, "demo")?;
        for page in 0..PAGES {
            let read = host
                .disk()
                .read(page * PAGE_SECTORS, PAGE_SECTORS as u32, 0);
            let read = host.run(read)?.data_in.concat();
            ensure!(read == content(page), "page {page} is wrong");
        }
        Ok(())
    });
}

/// Hosts write meanwhile: what is newer on one node for a moment does not count as different.
#[test]
fn a_scrub_beside_a_load_finds_nothing() {
    scenario(DemoOptions::default(), |demo| {
        let host = Host::open(demo, "demo")?;
        let load = host.load(host.ledger(1), LoadConfig::default());
        load.wait_for(COMMANDS)?;
        for _ in 0..3 {
            let found = scrub(demo)?;
            let wrong = found.bad_blocks + found.differing_blocks + found.unmended_blocks;
            ensure!(wrong == 0, "{found:?}");
            ensure!(found.bytes_read > 0, "there is something to read");
        }
        let (_, mut ledger) = load.stop()?;
        host.verify(&mut ledger)
    });
}

fn content(page: u64) -> Vec<u8> {
    vec![page as u8 + 1; PAGE_SECTORS as usize * 512]
}

/// Writes pages, and stops the cluster when they are in their places and nowhere else. Returns the nodes
/// that have them, whoever leads first.
fn filled(demo: &mut Demo) -> Result<Vec<String>> {
    let host = Host::open(demo, "demo")?;
    for page in 0..PAGES {
        let data = content(page).into();
        host.run(host.disk().write(page * PAGE_SECTORS, data, 0))?;
    }
    drop(host);
    let volume = demo.volume("demo")?;
    let slice = volume.slices.first().context("a volume has slices")?;
    let mut nodes = slice.in_sync.clone();
    nodes.sort_by_key(|node| Some(node) != slice.primary.as_ref());
    for node in &nodes {
        Device::wait_for_pages(demo, node, PAGES as u32, DESTAGE_PATIENCE)?;
    }
    scrub(demo)?;
    // A journal tells of what it knows to be in its place only with what comes next.
    let host = Host::open(demo, "demo")?;
    host.run(
        host.disk()
            .write(PAGES * PAGE_SECTORS, content(PAGES).into(), 0),
    )?;
    drop(host);
    for node in &nodes {
        Device::wait_for_pages(demo, node, PAGES as u32 + 1, DESTAGE_PATIENCE)?;
    }
    demo.stop()?;
    Ok(nodes)
}

/// Scrubs the volume to the end, and tells what was found.
fn scrub(demo: &Demo) -> Result<FindingsShow> {
    let volume: VolumeShow = cli::json(demo.api(), &["volume", "scrub", "demo", "--wait"])?;
    let last = volume.scrub.last.context("it has ended")?;
    Ok(last.findings)
}

/// Blocks that are bad on the medium of a node that is off.
fn bad_blocks(demo: &Demo, node: &str) -> Result<u64> {
    let directory = demo.path(node);
    let directory = directory.to_str().context("a path is text")?;
    let report: Value = cli::json(demo.api(), &["inspect", "--verify", directory])?;
    let verified = &report["stores"][0]["verified"];
    let bad = verified["bad_blocks"].as_u64();
    bad.with_context(|| format!("find bad blocks in {report}"))
}
