//! For how long hosts stand still when something happens to a node: its death, its freeze, its planned
//! maintenance, and the death of each member of etcd in turn, the leader among them.
//!
//! `cargo bench -p holdfast-e2e --bench stalls -- [DEATHS [FREEZES [MAINTENANCES [ETCD-ROUNDS]]]]`: medians
//! and worst cases, in milliseconds. Nothing is judged here but that no byte is wrong; docs/hacking.md says
//! what was found.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use holdfast_e2e::figures::say;
use holdfast_e2e::host::Host;
use holdfast_e2e::machines::{Machines, Role, on_machines};
use holdfast_e2e::process::wait_until;
use holdfast_e2e::{Demo, DemoOptions, cli, scenario};
use holdfast_lab::verify::{LoadConfig, PathChoice};
use serde_json::Value;

/// What is looked at after each event: longer than any stall.
const AFTERWARDS: Duration = Duration::from_secs(4);
const PATIENCE: Duration = Duration::from_secs(400);
/// A host gives a command up after this.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(2);

fn main() -> Result<()> {
    let arguments = std::env::args().skip(1).filter(|it| it != "--bench");
    let counts: Vec<usize> = arguments
        .map(|it| it.parse().context("the arguments are numbers of rounds"))
        .collect::<Result<_>>()?;
    let count = |place: usize, usually| counts.get(place).copied().unwrap_or(usually);
    let (deaths, freezes, maintenances) = (count(0, 20), count(1, 10), count(2, 10));
    say("what            count  median ms  worst ms")?;
    scenario(DemoOptions::default(), |demo| {
        by_any_path(demo, "primary killed", deaths, |demo, node| {
            demo.kill(node)?;
            sleep(AFTERWARDS);
            demo.start_node(node).map(drop)
        })?;
        // Workers on the frozen node's path have to wait; the others have not.
        in_turn(
            demo,
            PathChoice::Own,
            "primary frozen",
            freezes,
            |demo, node| {
                demo.freeze(node)?;
                sleep(AFTERWARDS);
                demo.thaw(node)
            },
        )?;
        by_any_path(demo, "maintenance", maintenances, |demo, node| {
            ask(demo, &["node", "maintenance", "on", node])?;
            sleep(AFTERWARDS);
            ask(demo, &["node", "maintenance", "off", node])
        })
    });
    let rounds = count(3, 4);
    on_machines([Role::Node; 3], |machines| {
        members_of_etcd(machines, rounds)
    });
    Ok(())
}

fn by_any_path(
    demo: &mut Demo,
    what: &str,
    rounds: usize,
    happens: impl Fn(&mut Demo, &str) -> Result<()>,
) -> Result<()> {
    in_turn(demo, PathChoice::Any, what, rounds, happens)
}

/// Lets something happen to whoever leads, again and again, under load.
fn in_turn(
    demo: &mut Demo,
    paths: PathChoice,
    what: &str,
    rounds: usize,
    happens: impl Fn(&mut Demo, &str) -> Result<()>,
) -> Result<()> {
    if rounds == 0 {
        return Ok(());
    }
    let host = Host::open_with(demo, "demo", |config| {
        config.command_timeout = COMMAND_TIMEOUT;
    })?;
    let mut ledger = host.ledger(1);
    // An earlier load may have been here.
    host.clear(&mut ledger)?;
    let load = host.load(ledger, config(paths));
    let mut stalls = Vec::new();
    for _ in 0..rounds {
        demo.wait_until_whole("demo", PATIENCE)?;
        host.wait_for_all_paths()?;
        load.wait_for(300)?;
        let node = demo.primary("demo")?;
        load.restart_stalls();
        happens(demo, &node)?;
        stalls.push(load.report().longest_stall);
    }
    demo.wait_until_whole("demo", PATIENCE)?;
    host.wait_for_all_paths()?;
    let (_, mut ledger) = load.stop()?;
    host.verify(&mut ledger)?;
    tell(what, stalls)
}

fn members_of_etcd(machines: &mut Machines, rounds: usize) -> Result<()> {
    if rounds == 0 {
        return Ok(());
    }
    machines.wait_for_nodes(0, 3)?;
    let api = machines.api(0);
    let create = ["volume", "create", "data", "1GiB", "--policy", "mirror2"];
    let _: Value = cli::json(&api, &create)?;
    let list: Value = cli::json(&api, &["volume", "list"])?;
    let target = list["volumes"][0]["target"].as_str();
    let target = target.context("the list says which target a volume is")?;
    let host = Host::open_at(target, machines.portals(), |_| ())?;
    let load = host.load(host.ledger(1), config(PathChoice::Any));
    let mut stalls = Vec::new();
    for _ in 0..rounds {
        for place in 0..3 {
            load.wait_for(300)?;
            load.restart_stalls();
            let before = machines.etcd_pid(place)?;
            machines.kill_etcd(place)?;
            sleep(AFTERWARDS);
            wait_until("etcd is started again", PATIENCE, || {
                Ok(machines.etcd_runs(place) && machines.etcd_pid(place)? != before)
            })?;
            stalls.push(load.report().longest_stall);
        }
    }
    let (_, mut ledger) = load.stop()?;
    host.verify(&mut ledger)?;
    tell("etcd killed", stalls)
}

fn config(paths: PathChoice) -> LoadConfig {
    LoadConfig {
        depth: 12,
        paths,
        ..LoadConfig::default()
    }
}

fn ask(demo: &Demo, arguments: &[&str]) -> Result<()> {
    let _: Value = cli::json(demo.api(), arguments)?;
    Ok(())
}

fn tell(what: &str, mut stalls: Vec<Duration>) -> Result<()> {
    stalls.sort_unstable();
    let (count, median) = (stalls.len(), stalls[stalls.len() / 2]);
    let worst = stalls.last().context("something happened")?;
    let (median, worst) = (median.as_millis(), worst.as_millis());
    say(&format!("{what:<14}  {count:>5}  {median:>9}  {worst:>8}"))
}
