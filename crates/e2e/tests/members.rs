//! Nodes are put aside, drained and removed, and die for good, while hosts are served.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_e2e::host::Host;
use holdfast_e2e::process::wait_until;
use holdfast_e2e::{Demo, DemoOptions, cli, scenario};
use holdfast_lab::verify::LoadConfig;
use serde_json::Value;

/// How long a slice may take to move: little is on it.
const MOVE_PATIENCE: Duration = Duration::from_secs(120);
/// The longest stall that planned work may cause, on a machine with nothing else to do.
const PLANNED_STALL: Duration = Duration::from_millis(200);
/// What makes a test fail: machines that run tests have more to do.
const PLANNED_STALL_MAX: Duration = Duration::from_secs(1);

fn config() -> LoadConfig {
    LoadConfig {
        depth: 8,
        ..LoadConfig::default()
    }
}

fn ask(demo: &Demo, arguments: &[&str]) -> Result<Value> {
    cli::json(demo.api(), arguments)
}

fn refused(demo: &Demo, arguments: &[&str]) -> Result<String> {
    cli::fails(1, &[&["--api", demo.api()], arguments].concat())
}

/// Waits until the volume is whole, and a node holds nothing of it.
fn wait_until_gone(demo: &Demo, node: &str) -> Result<()> {
    let what = format!("{node} holds nothing, and the volume is whole");
    wait_until(&what, MOVE_PATIENCE, || {
        let details = ask(demo, &["node", "show", node])?;
        let held = details["slices"]
            .as_array()
            .context("it tells its slices")?;
        let volume = demo.volume("demo")?;
        Ok(held.is_empty() && volume.is_whole(2) && volume.health == "healthy")
    })
    .map(|_| ())
}

/// Tells how long hosts waited at worst; more than `PLANNED_STALL_MAX` is an error.
fn tell_stall(what: &str, stall: Duration) -> Result<()> {
    let aim = if stall <= PLANNED_STALL {
        "within"
    } else {
        "beyond"
    };
    writeln!(
        io::stderr(),
        "longest stall while {what}: {stall:?}, {aim} the aim of {PLANNED_STALL:?}"
    )?;
    ensure!(
        stall <= PLANNED_STALL_MAX,
        "{what} stalled hosts for {stall:?}"
    );
    Ok(())
}

#[test]
fn a_node_is_drained_under_load_and_removed() {
    scenario(DemoOptions::default(), |demo| {
        let host = Host::open(demo, "demo")?;
        let node = demo.primary("demo")?;
        let says = refused(demo, &["node", "remove", &node])?;
        ensure!(says.contains("demo") && says.contains("drain"), "{says}");
        let load = host.load(host.ledger(7), config());
        load.wait_for(200)?;
        load.restart_stalls();
        let drained = ask(demo, &["node", "drain", &node])?;
        ensure!(drained["to_move"]["slices"] == 1, "{drained}");
        let drained = ask(demo, &["node", "drain", &node, "--wait"])?;
        ensure!(drained["replicas"] == 0, "it is over, and not: {drained}");
        wait_until_gone(demo, &node)?;
        tell_stall("a node was drained", load.report().longest_stall)?;
        ensure!(demo.primary("demo")? != node, "{node} leads still");
        ask(demo, &["node", "remove", &node])?;
        let told = format!("{node} says that it was removed");
        let own = demo.file().node(&node)?.api.clone();
        wait_until(&told, MOVE_PATIENCE, || {
            let status: Value = cli::json(&own, &["status"])?;
            let alerts = status["alerts"].to_string();
            Ok(alerts.contains("removed from the cluster"))
        })?;
        wait_until(
            "the cluster is well at the removed node too",
            MOVE_PATIENCE,
            || {
                let status: Value = cli::json(&own, &["status"])?;
                Ok(status["health"] == "healthy")
            },
        )?;
        demo.kill(&node)?;
        load.wait_for(200)?;
        let (_, mut ledger) = load.stop()?;
        host.verify(&mut ledger)?;
        let list = ask(demo, &["node", "list"])?;
        let nodes = list["nodes"].as_array().context("it tells nodes")?;
        ensure!(nodes.iter().all(|it| it["name"] != node.as_str()), "{list}");
        Ok(())
    });
}

#[test]
fn a_node_that_is_gone_for_long_is_rebuilt_elsewhere() {
    scenario(DemoOptions::default(), |demo| {
        let host = Host::open(demo, "demo")?;
        let set = ask(demo, &["settings", "set", "--repair-delay", "5s"])?;
        ensure!(set["repair_delay_seconds"] == 5, "{set}");
        let load = host.load(host.ledger(9), config());
        load.wait_for(200)?;
        let node = demo.primary("demo")?;
        demo.kill(&node)?;
        wait_until_gone(demo, &node)?;
        load.wait_for(200)?;
        let (_, mut ledger) = load.stop()?;
        host.verify(&mut ledger)?;
        // It comes back, and what it had is nobody's any more.
        demo.start_node(&node)?;
        host.wait_for_all_paths()?;
        let volume = demo.volume("demo")?;
        ensure!(
            volume.is_whole(2) && !volume.is_held_by(&node),
            "{volume:?}"
        );
        ask(demo, &["settings", "set", "--repair-delay", "60m"])?;
        host.verify(&mut ledger)
    });
}

#[test]
fn a_node_in_maintenance_leads_nothing_and_nobody_waits() {
    scenario(DemoOptions::default(), |demo| {
        let host = Host::open(demo, "demo")?;
        let load = host.load(host.ledger(11), config());
        load.wait_for(500)?;
        let node = demo.primary("demo")?;
        let volume = demo.volume("demo")?;
        let beside = volume.slices.iter().flat_map(|slice| &slice.in_sync);
        let mut beside = beside.filter(|other| **other != node);
        let beside = beside.next().cloned().context("a mirror has two copies")?;
        load.restart_stalls();
        ask(demo, &["node", "maintenance", "on", &node])?;
        wait_until("another node leads", MOVE_PATIENCE, || {
            Ok(demo.primary("demo")? != node)
        })?;
        load.run_for(Duration::from_secs(2))?;
        tell_stall("a node was put aside", load.report().longest_stall)?;
        let says = refused(demo, &["node", "maintenance", "on", &beside])?;
        ensure!(says.contains("volumes demo"), "{says}");
        load.restart_stalls();
        ask(demo, &["node", "maintenance", "off", &node])?;
        wait_until("it leads again", MOVE_PATIENCE, || {
            Ok(demo.primary("demo")? == node)
        })?;
        load.run_for(Duration::from_secs(2))?;
        tell_stall("a node was taken back", load.report().longest_stall)?;
        let (_, mut ledger) = load.stop()?;
        host.verify(&mut ledger)
    });
}
