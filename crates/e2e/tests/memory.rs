//! A node's memory stays within what is stated, however much is asked of it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use holdfast_e2e::demo::NODE_MEMORY_MAX;
use holdfast_e2e::host::{Host, HostLoad};
use holdfast_e2e::raw::RawSession;
use holdfast_e2e::{Demo, DemoOptions, scenario};
use holdfast_lab::verify::LoadConfig;

/// A host on each, with sessions to every node.
const VOLUMES: [&str; 4] = [
    "a:4GiB:mirror2",
    "b:16GiB:mirror3",
    "c:4GiB:mirror3",
    "d:4GiB:none",
];
/// Commands of each host under way: some 256 MiB are asked of three nodes at a time.
const DEPTH: usize = 128;
/// For the load to have filled what it can.
const LOADED: Duration = Duration::from_secs(12);
const SYNC_PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_node_that_is_asked_for_too_much_takes_what_it_said() {
    let options = DemoOptions {
        volumes: VOLUMES.to_vec(),
        ..DemoOptions::default()
    };
    scenario(options, |demo| {
        let names = VOLUMES.map(|volume| &volume[..1]);
        let hosts = names
            .iter()
            .map(|name| Host::open(demo, name))
            .collect::<Result<Vec<_>>>()?;
        let loads: Vec<HostLoad> = hosts
            .iter()
            .zip(1..)
            .map(|(host, seed)| host.load(host.ledger(seed), config(seed)))
            .collect();
        std::thread::sleep(LOADED);
        for load in loads {
            load.wait_for(1)?;
            load.stop()?;
        }
        println!("{} MiB at most", check_memory(demo)? >> 20);
        Ok(())
    });
}

/// A node that works for a third of the time is slow, and never away for so long that it is taken for dead.
const STOPPED: Duration = Duration::from_millis(100);
const RUNNING: Duration = Duration::from_millis(50);

/// Those that lead send it what they are asked to write, and it answers late: what is on its way is bounded.
#[test]
fn a_node_whose_peer_is_slow_takes_what_it_said() {
    let options = DemoOptions {
        volumes: VOLUMES[1..3].to_vec(),
        ..DemoOptions::default()
    };
    scenario(options, |demo| {
        let before = demo.volume("b")?;
        let slow = demo.node_names().pop().context("there are nodes")?;
        ensure!(before.is_held_by(&slow), "a mirror3 is on all nodes");
        let hosts = [Host::open(demo, "b")?, Host::open(demo, "c")?];
        let loads = [1, 2].map(|seed| {
            let host = &hosts[seed - 1];
            host.load(host.ledger(seed as u64), config(seed as u64))
        });
        let end = Instant::now() + LOADED;
        while Instant::now() < end {
            demo.freeze(&slow)?;
            std::thread::sleep(STOPPED);
            demo.thaw(&slow)?;
            std::thread::sleep(RUNNING);
        }
        check_memory(demo)?;
        let after = demo.volume("b")?;
        let mut slices = after.slices.iter();
        ensure!(
            slices.any(|slice| slice.in_sync.contains(&slow)),
            "it counts as dead"
        );
        for (load, host) in loads.into_iter().zip(&hosts) {
            load.wait_for(100)?;
            let (_, mut ledger) = load.stop()?;
            host.verify(&mut ledger)?;
        }
        demo.wait_until_whole("b", SYNC_PATIENCE)?;
        println!("{} MiB at most", check_memory(demo)? >> 20);
        Ok(())
    });
}

/// Sessions of strangers, who fill their windows with writes that begin and never end.
const STRANGERS: u16 = 400;
/// Blocks of such a write: one more than comes with it.
const BLOCKS: u8 = 129;
/// What a stranger sends in one go with each small write, to be thrown away.
const FILLING: usize = 240 << 10;
/// Bytes that a small write begins with.
const SMALL: usize = 2560;

#[test]
fn strangers_who_fill_their_windows_take_no_more() {
    scenario(DemoOptions::default(), |demo| {
        let host = Host::open(demo, "demo")?;
        let load = host.load(host.ledger(1), config(1));
        let target = demo.file().volume("demo")?.target.clone();
        let portals: Vec<_> = demo.file().nodes.iter().map(|node| node.portal).collect();
        let mut sessions = Vec::new();
        let mut sent = 0;
        // Much with each write, at one node.
        for port in 0..STRANGERS {
            if let Ok(mut session) = RawSession::open(portals[0], &target, port)? {
                let data = vec![7; session.immediate_max.min(65_024)];
                sent += fill_window(&mut session, &data, 0)?;
                sessions.push(session);
            }
        }
        // Little with each, and between them what fills the buffers that it comes in, at another.
        for port in 0..STRANGERS / 4 {
            if let Ok(mut session) = RawSession::open(portals[1], &target, port)? {
                let data = vec![7; session.immediate_max.min(SMALL)];
                let filling = FILLING.min(session.segment_max);
                sent += fill_window(&mut session, &data, filling)?;
                sessions.push(session);
            }
        }
        println!("{} sessions sent {} MiB", sessions.len(), sent >> 20);
        ensure!(sessions.len() > usize::from(STRANGERS), "they were let in");
        load.wait_for(100)?;
        check_memory(demo)?;
        drop(sessions);
        load.wait_for(100)?;
        let (_, mut ledger) = load.stop()?;
        host.verify(&mut ledger)
    });
}

fn fill_window(session: &mut RawSession, data: &[u8], filling: usize) -> Result<usize> {
    let mut sent = 0;
    while session.window() > 0 {
        let cdb = [0x2A, 0, 0, 0, 0, 0, 0, 0, BLOCKS, 0];
        let mut bytes = session.command(&cdb, 0x21, u32::from(BLOCKS) * 512, data);
        if filling > 0 {
            bytes.extend(session.nop(&vec![0; filling]));
        }
        session.send(&bytes)?;
        sent += bytes.len();
    }
    Ok(sent)
}

/// The most that a node has taken until now, in bytes.
fn check_memory(demo: &mut Demo) -> Result<u64> {
    let mut most_of_all = 0;
    for node in demo.node_names() {
        let (now, most) = demo.memory(&node)?;
        ensure!(
            most <= NODE_MEMORY_MAX,
            "{node} has taken {most} bytes, and has {now} now"
        );
        most_of_all = most_of_all.max(most);
    }
    Ok(most_of_all)
}

fn config(seed: u64) -> LoadConfig {
    LoadConfig {
        depth: DEPTH,
        reads: 40,
        writes: 60,
        unmaps: 0,
        write_sames: 0,
        command_bytes_max: 1 << 20,
        seed,
        ..LoadConfig::default()
    }
}
