//! Any node may die: under load, nothing acknowledged is lost, nothing wrong is read, and the longest
//! time in which nothing is completed is bounded.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use holdfast_e2e::host::{Host, HostLoad};
use holdfast_e2e::{Demo, DemoOptions, scenario};
use holdfast_lab::verify::LoadConfig;

/// The longest stall that a node's death may cause.
const STALL_MAX: Duration = Duration::from_secs(3);
/// How long the load runs on without the node: longer than the stall could last.
const WITHOUT_NODE: Duration = Duration::from_secs(5);
/// How long a node that was away for a moment may take to be in sync again.
const SYNC_PATIENCE: Duration = Duration::from_secs(60);
/// Commands under way on each volume: enough to keep every path busy, few enough for two cores.
const DEPTH: usize = 12;

#[test]
fn any_node_may_die_under_load() {
    die_in_turn(1);
}

/// Minutes rather than seconds; see docs/hacking.md.
#[test]
#[ignore = "takes ten minutes"]
fn nodes_die_over_and_over() {
    die_in_turn(15);
}

fn die_in_turn(rounds: usize) {
    let options = DemoOptions {
        volumes: vec!["demo:4GiB:mirror2", "big:16GiB:mirror2"],
        ..DemoOptions::default()
    };
    scenario(options, |demo| {
        let hosts = [Host::open(demo, "demo")?, Host::open(demo, "big")?];
        let loads: Vec<HostLoad> = hosts
            .iter()
            .zip(1..)
            .map(|(host, seed)| host.load(host.ledger(seed), config(seed)))
            .collect();
        for _ in 0..rounds {
            for node in demo.node_names() {
                kill_and_bring_back(demo, &loads, &node)?;
            }
        }
        for (load, host) in loads.into_iter().zip(&hosts) {
            let (_, mut ledger) = load.stop()?;
            host.verify(&mut ledger)?;
        }
        Ok(())
    });
}

fn config(seed: u64) -> LoadConfig {
    LoadConfig {
        depth: DEPTH,
        seed,
        ..LoadConfig::default()
    }
}

fn kill_and_bring_back(demo: &mut Demo, loads: &[HostLoad], node: &str) -> Result<()> {
    for load in loads {
        load.wait_for(200)?;
        load.restart_stalls();
    }
    demo.kill(node)?;
    sleep(WITHOUT_NODE);
    for load in loads {
        let report = load.report();
        ensure!(
            report.longest_stall <= STALL_MAX,
            "the death of {node} stalled the load: {report}"
        );
        load.wait_for(100)?;
    }
    demo.start_node(node)?;
    for name in ["demo", "big"] {
        demo.wait_until_whole(name, SYNC_PATIENCE)?;
    }
    for load in loads {
        load.host().wait_for_all_paths()?;
        let report = load.report();
        ensure!(
            report.longest_stall <= STALL_MAX,
            "the return of {node} stalled the load: {report}"
        );
    }
    Ok(())
}
