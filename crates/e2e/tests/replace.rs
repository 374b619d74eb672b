//! Another authority takes the place of the first one, machine by machine, while hosts write.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_e2e::cli;
use holdfast_e2e::host::Host;
use holdfast_e2e::machines::tls::on_machines_with_tls;
use holdfast_e2e::machines::{Machines, Role};
use holdfast_e2e::process::wait_until;
use holdfast_lab::verify::LoadConfig;
use serde_json::Value;

/// The longest stall that is allowed: no data path has anything to do with it.
const STALL_MAX: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(90);

/// A step on a machine.
fn step(machines: &Machines, place: usize, name: &str) -> Result<()> {
    let config = machines.config(place);
    let config = config.to_str().context("a path of a test is UTF-8")?;
    cli::done(&["security", "replace", name, "--config", config]).map(drop)
}

/// Gives a step as soon as the others are ready.
fn step_when_ready(machines: &Machines, place: usize, name: &str) -> Result<()> {
    let what = format!("{name} on machine {place}");
    let mut last = String::new();
    let waited = wait_until(&what, PATIENCE, || match step(machines, place, name) {
        Ok(()) => Ok(true),
        Err(error) => {
            last = error.to_string();
            Ok(false)
        }
    });
    waited.with_context(|| last).map(drop)
}

fn refused(machines: &Machines, place: usize, name: &str, says: &str) -> Result<()> {
    let config = machines.config(place);
    let config = config.to_str().context("a path of a test is UTF-8")?;
    let said = cli::fails(
        cli::FAILED,
        &["security", "replace", name, "--config", config],
    )?;
    ensure!(said.contains(says), "{says} is not in: {said}");
    Ok(())
}

fn copy_next(from: &Path, to: &Path) -> Result<()> {
    for name in ["authority.next.pem", "authority.next.key"] {
        fs::copy(from.join(name), to.join(name))?;
    }
    Ok(())
}

#[test]
fn an_authority_is_replaced_under_load() {
    on_machines_with_tls([Role::Node; 3], |machines| {
        machines.wait_for_nodes(0, 3)?;
        let api = machines.api(0);
        let create = ["volume", "create", "data", "1GiB", "--policy", "mirror3"];
        let _: Value = cli::json(&api, &create)?;
        let list: Value = cli::json(&api, &["volume", "list"])?;
        let target = list["volumes"][0]["target"].as_str();
        let host = Host::open_at(target.context("a target")?, machines.portals(), |_| ())?;
        machines.wait_until_whole(0, "data", 3)?;
        let load = host.load(host.ledger(5), LoadConfig::default());
        load.wait_for(300)?;
        load.restart_stalls();

        let first = machines.credentials(0);
        let kept = machines.scratch().join("former.pem");
        fs::copy(first.join("authority.pem"), &kept)?;
        let secrets = fs::read(first.join("secrets.key"))?;
        refused(machines, 0, "switch", "no next authority was prepared")?;
        step(machines, 0, "begin")?;
        refused(
            machines,
            0,
            "switch",
            "does not believe the next authority yet",
        )?;
        for place in 1..3 {
            copy_next(&first, &machines.credentials(place))?;
            step(machines, place, "begin")?;
        }
        for place in 0..3 {
            step_when_ready(machines, place, "switch")?;
        }
        for place in 0..3 {
            step_when_ready(machines, place, "finish")?;
        }
        // Who believes the one before only is told so, as soon as all have done it.
        let former = kept.to_str().context("a path of a test is UTF-8")?;
        let said = cli::fails_for_nobody(cli::FAILED, &["--api", &api, "--ca", former, "status"])?;
        ensure!(said.contains("not of the authority"), "{said}");
        // All is as it was: nodes see each other, and etcd is whole.
        wait_until("all is well", PATIENCE, || {
            let Ok(status) = cli::json::<Value>(&api, &["status"]) else {
                return Ok(false);
            };
            Ok(status["health"] == "healthy" && status["metadata_members"]["up"] == 3)
        })?;
        let report = load.report();
        ensure!(
            report.longest_stall <= STALL_MAX,
            "it stalled the load: {report}"
        );
        ensure!(
            fs::read(first.join("secrets.key"))? == secrets,
            "secrets stay open"
        );
        // New links are made with the next authority only: one is stopped, and comes back.
        machines.stop(2)?;
        machines.start(2)?;
        machines.wait_for_nodes(0, 3)?;
        machines.wait_until_whole(0, "data", 3)?;
        let (_, mut ledger) = load.stop()?;
        host.wait_for_all_paths()?;
        host.verify(&mut ledger)
    });
}
