//! A node's memory stays within what is stated, however much is asked of it.

use std::time::Duration;

use anyhow::{Result, ensure};
use holdfast_e2e::demo::NODE_MEMORY_MAX;
use holdfast_e2e::host::{Host, HostLoad};
use holdfast_e2e::{DemoOptions, scenario};
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
        for node in demo.node_names() {
            let (now, most) = demo.memory(&node)?;
            ensure!(
                most <= NODE_MEMORY_MAX,
                "{node} has taken {most} bytes, and has {now} now"
            );
            println!("{node}: {} MiB at most", most >> 20);
        }
        Ok(())
    });
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
