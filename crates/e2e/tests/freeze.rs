//! A node stands still for ten seconds, with its connections open, and goes on: others serve
//! meanwhile, and what still sits in its sockets does no harm.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_e2e::host::Host;
use holdfast_e2e::{Demo, DemoOptions, scenario};
use holdfast_lab::verify::{LoadConfig, PathChoice};

const FREEZE: Duration = Duration::from_secs(10);
const STALL_MAX: Duration = Duration::from_secs(3);
const SYNC_PATIENCE: Duration = Duration::from_secs(60);
/// A host gives a command up after this: some must be repeated elsewhere within the freeze.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(2);

#[test]
fn a_frozen_primary_is_replaced_and_comes_back() {
    scenario(DemoOptions::default(), |demo| {
        let node = demo.primary("demo")?;
        freeze_under_load(demo, &node, |demo| {
            ensure!(demo.primary("demo")? != node, "{node} still leads");
            Ok(())
        })
    });
}

#[test]
fn a_frozen_node_that_holds_only_sessions_holds_nobody_up() {
    scenario(DemoOptions::default(), |demo| {
        let before = demo.volume("demo")?;
        let names = demo.node_names();
        let node = names.iter().find(|name| !before.is_held_by(name));
        let node = node.context("with three nodes and two copies, one holds none")?;
        freeze_under_load(demo, node, |demo| {
            let epochs = demo.volume("demo")?.epochs();
            ensure!(
                epochs == before.epochs(),
                "an epoch has changed for nothing"
            );
            Ok(())
        })
    });
}

fn freeze_under_load(
    demo: &mut Demo,
    node: &str,
    check_meanwhile: impl FnOnce(&Demo) -> Result<()>,
) -> Result<()> {
    let host = Host::open_with(demo, "demo", |config| {
        config.command_timeout = COMMAND_TIMEOUT;
    })?;
    let config = LoadConfig {
        depth: 12,
        // Workers on the frozen node's path have to wait; the others have not.
        paths: PathChoice::Own,
        ..LoadConfig::default()
    };
    let load = host.load(host.ledger(1), config);
    load.wait_for(300)?;
    load.restart_stalls();
    demo.freeze(node)?;
    sleep(FREEZE);
    let report = load.report();
    let checked = check_meanwhile(demo);
    demo.thaw(node)?;
    checked?;
    ensure!(
        report.longest_stall <= STALL_MAX,
        "the freeze of {node} stalled the load: {report}"
    );
    demo.wait_until_whole("demo", SYNC_PATIENCE)?;
    host.wait_for_all_paths()?;
    load.wait_for(300)?;
    let (report, mut ledger) = load.stop()?;
    ensure!(
        report.repeated > 0,
        "nothing was under way at {node}: {report}"
    );
    host.verify(&mut ledger)
}
