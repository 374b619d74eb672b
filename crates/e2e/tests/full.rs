//! A full pool: the writer is told, readers go on, no replica is dropped, and space that is given
//! back can be written again.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use holdfast_e2e::cli::json;
use holdfast_e2e::demo::TOLD_WITHIN;
use holdfast_e2e::host::Host;
use holdfast_e2e::process::wait_until;
use holdfast_e2e::rival::{Rival, done};
use holdfast_e2e::{Demo, DemoOptions, scenario};
use holdfast_lab::command;
use holdfast_lab::multipath::{CommandError, Problem};
use holdfast_lab::sense::SenseData;
use serde_json::Value;
use tokio::time::sleep;

const MIB: u64 = 1 << 20;
/// Logical blocks in a MiB.
const BLOCKS: u64 = MIB / 512;
/// Pieces of one MiB that are given back at the end.
const GIVEN_BACK: u64 = 64;
/// How soon what is given back is free everywhere: a page that was promised room is for 16 s at most, however
/// soon it is unmapped (nodes say so in their logs). And some more for a busy machine.
const FREE_WITHIN: Duration = Duration::from_secs(20);

#[test]
fn a_full_pool_refuses_writes_and_nothing_else() {
    let options = DemoOptions {
        nodes: 2,
        device_size: "2GiB",
        volumes: vec!["thin:8GiB:mirror2"],
        ..DemoOptions::default()
    };
    scenario(options, |demo| {
        let host = Host::open(demo, "thin")?;
        let file = demo.file();
        let portals: Vec<_> = file.nodes.iter().map(|node| node.portal).collect();
        let watcher = Rival::new(1, &file.volume("thin")?.target, &portals)?;
        let mut known = None;
        wait_until("hosts are told what room there is", TOLD_WITHIN, || {
            known = host.run(resources(&watcher)).ok();
            Ok(known.is_some())
        })?;
        let roomy = known.context("it is known")?;
        ensure!(
            roomy.available > roomy.threshold,
            "there is room: {roomy:?}"
        );
        let mut written = 0;
        let refused = loop {
            match write(&host, written, 1) {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
            ensure!(written < 2048, "more was written than there is room for");
        };
        ensure!(
            written > 256,
            "only {written} MiB of 2 GiB could be written"
        );
        check_refusal(refused)?;
        host.run(is_told(&watcher))?;
        let little = host.run(resources(&watcher))?;
        ensure!(
            little.available <= little.threshold && little.used > roomy.used + 256,
            "hosts are told {little:?}, after {roomy:?}"
        );
        // Whoever asks is told, and so is who reads the log.
        wait_until("the status says that nodes are full", TOLD_WITHIN, || {
            Ok(full_nodes(demo)? == 2)
        })?;
        for node in demo.node_names() {
            let log = fs::read_to_string(demo.path(&node).join("node.log"))?;
            ensure!(log.contains("room is full"), "the log of {node} says {log}");
        }
        let volume = demo.volume("thin")?;
        ensure!(volume.is_whole(2), "a replica was dropped: {volume:?}");
        for index in 0..written {
            check(&host, index, 1)?;
        }
        // What is allocated can be written again.
        write(&host, 0, 2).context("write again what is there")?;
        check(&host, 0, 2)?;
        let lun = host.disk().config().lun;
        let blocks = u32::try_from(GIVEN_BACK * BLOCKS)?;
        let unmap = command::unmap(lun, &[(BLOCKS, blocks)]);
        host.run(host.disk().execute(&unmap, 0))?;
        for index in 0..GIVEN_BACK / 2 {
            write_patiently(&host, 4096 + index)?;
        }
        for index in 0..GIVEN_BACK / 2 {
            check(&host, 4096 + index, 3)?;
        }
        wait_until("no node is full any more", TOLD_WITHIN, || {
            Ok(full_nodes(demo)? == 0)
        })?;
        ensure!(demo.volume("thin")?.is_whole(2), "a replica was dropped");
        Ok(())
    });
}

/// What hosts are told of the space beneath a volume, in MiB.
#[derive(Debug)]
struct Resources {
    available: u32,
    used: u32,
    threshold: u32,
}

/// The Logical Block Provisioning pages (SBC-3): of the log, resource counts; of the mode pages, where the threshold is.
async fn resources(watcher: &Rival) -> Result<Resources> {
    let number = |page: &[u8], at: usize| -> Result<u32> {
        let bytes = page.get(at..at + 4).context("the page is whole")?;
        Ok(u32::from_be_bytes(bytes.try_into()?))
    };
    let log = command::log_sense(watcher.lun(), 0x0C, 64);
    let log = done(watcher.on(0, &log).await).context("LOG SENSE")?;
    let mode = command::mode_sense(watcher.lun(), 0x1C, 0x02, 64);
    let mode = done(watcher.on(0, &mode).await).context("MODE SENSE")?;
    // A header of four bytes; then parameters of four and eight.
    let (available, used) = (number(&log, 8)?, number(&log, 20)?);
    // A header of eight bytes, the page's of four, twelve that are reserved; a descriptor, with its count after four.
    let threshold = number(&mode, 8 + 4 + 12 + 4)?;
    Ok(Resources {
        available,
        used,
        threshold,
    })
}

/// THIN PROVISIONING SOFT THRESHOLD REACHED, once for each of the three at most: what is reached while one is still to be told is
/// told with it.
async fn is_told(watcher: &Rival) -> Result<()> {
    let until = Instant::now() + TOLD_WITHIN;
    let mut told = 0;
    while Instant::now() < until {
        let completion = watcher
            .once(0, &command::test_unit_ready(watcher.lun()))
            .await;
        let completion = completion.context("the path works")?;
        if let Some(sense) = SenseData::parse(&completion.sense) {
            let what = (sense.key, sense.additional());
            ensure!(what == (6, 0x3807), "something else is told: {sense:?}");
            told += 1;
        }
        sleep(Duration::from_millis(100)).await;
    }
    ensure!((1..=3).contains(&told), "it was told {told} times");
    Ok(())
}

/// Nodes without room, by the alerts of `holdfast status`.
fn full_nodes(demo: &Demo) -> Result<usize> {
    let status: Value = json(&demo.file().api, &["status"])?;
    let alerts = status["alerts"].as_array().context("there are alerts")?;
    let is_full = |alert: &&Value| {
        let about_node = alert["subject"]
            .as_str()
            .is_some_and(|it| it.starts_with("node "));
        let detail = alert["detail"].as_str().unwrap_or_default();
        about_node && alert["severity"] == "error" && detail.starts_with("full")
    };
    Ok(alerts.iter().filter(is_full).count())
}

/// DATA PROTECT, SPACE ALLOCATION FAILED WRITE PROTECT.
fn check_refusal(error: CommandError) -> Result<()> {
    match error {
        CommandError::Refused {
            problem: Problem::Sense(sense),
            ..
        } if (sense.key, sense.additional()) == (7, 0x2707) => Ok(()),
        other => bail!("a full pool refuses with {other}"),
    }
}

fn content(index: u64, seed: u64) -> Vec<u8> {
    let word = (seed << 48 | index).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    word.to_le_bytes().repeat(MIB as usize / 8)
}

fn write(host: &Host, index: u64, seed: u64) -> Result<(), CommandError> {
    let data = content(index, seed).into();
    let written = host.disk().write(index * BLOCKS, data, index as usize);
    host.run(written).map(|_| ())
}

/// Space that was given back may take a moment to be free everywhere.
fn write_patiently(host: &Host, index: u64) -> Result<()> {
    wait_until("what was given back is free", FREE_WITHIN, || {
        match write(host, index, 3) {
            Ok(()) => Ok(true),
            Err(error) => check_refusal(error).map(|()| false),
        }
    })?;
    Ok(())
}

fn check(host: &Host, index: u64, seed: u64) -> Result<()> {
    let read = host
        .disk()
        .read(index * BLOCKS, BLOCKS as u32, index as usize);
    let found = host.run(read)?.data_in.concat();
    ensure!(found == content(index, seed), "MiB {index} is wrong");
    Ok(())
}
