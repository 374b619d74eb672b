//! Files damaged by hand, and a node that comes back empty though its record says that it has
//! everything: reads are right, and what can be repaired is; what cannot is an error for exactly
//! the block that is lost.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use holdfast_e2e::damage::Device;
use holdfast_e2e::host::Host;
use holdfast_e2e::{Demo, DemoOptions, scenario};
use holdfast_lab::multipath::{CommandError, Problem};
use holdfast_lab::verify::{Ledger, LoadConfig};

const SYNC_PATIENCE: Duration = Duration::from_secs(60);
/// For what was written to be brought to its place.
const DESTAGE_PATIENCE: Duration = Duration::from_secs(30);
const COMMANDS: u64 = 2000;
/// Logical blocks in a block.
const SECTORS: u64 = 8;
/// Logical blocks in a page.
const PAGE_SECTORS: u64 = 512;

#[test]
fn spoiled_pages_and_entries_are_read_from_elsewhere_and_repaired() {
    scenario(DemoOptions::default(), |demo| {
        let mut ledger = loaded(demo)?;
        let (node, other) = replicas(demo)?;
        demo.stop()?;
        let mut count = 0;
        for device in Device::of(demo, &node)? {
            for (index, slot) in device.used_slots()?.into_iter().enumerate() {
                match index % 4 {
                    0 if slot.mask != 0 => drop(device.spoil_block(slot, index as u32)?),
                    1 => device.spoil_slot(slot)?,
                    2 => device.spoil_entry(slot, &[index / 4 % 2])?,
                    3 => device.spoil_entry(slot, &[0, 1])?,
                    _ => {}
                }
                count += 1;
            }
        }
        ensure!(count > 8, "only {count} pages to spoil");
        demo.start_again()?;
        Host::open(demo, "demo")?.verify(&mut ledger)?;
        demo.wait_until_whole("demo", SYNC_PATIENCE)?;
        // What was repaired is on the medium, and needs nobody else any more.
        serve_alone(demo, &other, &mut ledger)
    });
}

#[test]
fn a_journal_spoiled_in_the_middle_loses_nothing() {
    scenario(DemoOptions::default(), |demo| {
        let host = Host::open(demo, "demo")?;
        let load = host.load(host.ledger(1), LoadConfig::default());
        load.wait_for(COMMANDS)?;
        let (node, other) = replicas(demo)?;
        demo.kill_everything()?;
        let (_, mut ledger) = load.abandon()?;
        drop(host);
        for device in Device::of(demo, &node)? {
            device.spoil_journal(256 << 10)?;
        }
        demo.start_again()?;
        Host::open(demo, "demo")?.verify(&mut ledger)?;
        demo.wait_until_whole("demo", SYNC_PATIENCE)?;
        serve_alone(demo, &other, &mut ledger)
    });
}

#[test]
fn a_node_that_comes_back_empty_is_not_believed() {
    scenario(DemoOptions::default(), |demo| {
        let mut ledger = loaded(demo)?;
        let (node, other) = replicas(demo)?;
        // Everything at once, so that the record goes on naming the node as in sync.
        demo.kill_everything()?;
        demo.empty_node(&node)?;
        demo.start_again()?;
        Host::open(demo, "demo")?.verify(&mut ledger)?;
        demo.wait_until_whole("demo", SYNC_PATIENCE)?;
        serve_alone(demo, &other, &mut ledger)
    });
}

#[test]
fn without_a_good_copy_the_block_is_an_error_and_no_other() {
    let options = DemoOptions {
        volumes: vec!["single:4GiB:none"],
        ..DemoOptions::default()
    };
    scenario(options, |demo| {
        let host = Host::open(demo, "single")?;
        // Eight whole pages.
        let content = |page: u64| vec![page as u8 + 1; PAGE_SECTORS as usize * 512];
        for page in 0..8 {
            host.run(
                host.disk()
                    .write(page * PAGE_SECTORS, content(page).into(), 0),
            )?;
        }
        let volume = demo.volume("single")?;
        let node = volume.slices[0]
            .in_sync
            .first()
            .context("it has a replica")?;
        Device::wait_for_pages(demo, node, 8, DESTAGE_PATIENCE)?;
        drop(host);
        demo.stop()?;
        let mut spoiled = None;
        for device in Device::of(demo, node)? {
            let slots = device.used_slots()?;
            let slot = slots.iter().find(|slot| slot.key.page.0 == 5);
            if let Some(slot) = slot {
                spoiled = Some(device.spoil_block(*slot, 17)?);
            }
        }
        let block = u64::from(spoiled.context("find page 5 on the medium")?);
        demo.start_again()?;
        let host = Host::open(demo, "single")?;
        let lost = 5 * PAGE_SECTORS + block * SECTORS;
        for page in 0..8 {
            for first in (page * PAGE_SECTORS..(page + 1) * PAGE_SECTORS).step_by(8) {
                let result = host.run(host.disk().read(first, SECTORS as u32, page as usize));
                if first == lost {
                    check_lost(result.map(|_| ()), lost)?;
                } else {
                    let found = result?.data_in.concat();
                    ensure!(found == content(page)[..4096], "block at {first} is wrong");
                }
            }
        }
        // Written anew, it is there again.
        host.run(host.disk().write(lost, vec![9; 4096].into(), 0))?;
        let found = host.run(host.disk().read(lost, SECTORS as u32, 1))?;
        ensure!(
            found.data_in.concat() == vec![9; 4096],
            "the block is lost still"
        );
        Ok(())
    });
}

/// MEDIUM ERROR, UNRECOVERED READ ERROR, with the block's address.
fn check_lost(result: Result<(), CommandError>, address: u64) -> Result<()> {
    let Err(CommandError::Refused {
        problem: Problem::Sense(sense),
        ..
    }) = result
    else {
        bail!("a lost block reads as {result:?}");
    };
    ensure!(
        (sense.key, sense.additional()) == (3, 0x1100),
        "a lost block is refused with {sense}"
    );
    let information = sense.information.context("the sense data has an address")?;
    ensure!(
        (address..address + SECTORS).contains(&information),
        "the lost block is at {address}, the sense data says {information}"
    );
    Ok(())
}

/// A volume with verified data on it, at rest.
fn loaded(demo: &Demo) -> Result<Ledger> {
    let host = Host::open(demo, "demo")?;
    let config = LoadConfig {
        depth: 16,
        unmaps: 1,
        write_sames: 1,
        ..LoadConfig::default()
    };
    let load = host.load(host.ledger(1), config);
    load.wait_for(COMMANDS)?;
    let (_, ledger) = load.stop()?;
    Ok(ledger)
}

/// The two nodes that hold the slice, whoever leads it first.
fn replicas(demo: &Demo) -> Result<(String, String)> {
    let volume = demo.volume("demo")?;
    let slice = volume.slices.first().context("a volume has slices")?;
    let primary = slice.primary.clone().context("the slice has a primary")?;
    let other = slice.in_sync.iter().find(|name| **name != primary);
    let other = other.cloned().context("and a secondary")?;
    Ok((primary, other))
}

/// Reads everything while node `other` is dead.
fn serve_alone(demo: &mut Demo, other: &str, ledger: &mut Ledger) -> Result<()> {
    // From the medium, not from what is in memory since the repair.
    demo.stop()?;
    demo.start_again()?;
    let host = Host::open(demo, "demo")?;
    demo.kill(other)?;
    host.verify(ledger)
}
