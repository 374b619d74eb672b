//! Machines with networks of their own, and all that can happen to them. What takes minutes here takes hours
//! with the example `thrash`: docs/hacking.md.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use holdfast_e2e::cli;
use holdfast_e2e::host::Host;
use holdfast_e2e::machines::test_on_network;
use holdfast_e2e::process::wait_until;
use holdfast_e2e::thrash::plan::{Action, Episode, Kind, Promise};
use holdfast_e2e::thrash::{Limits, run, thrash};
use serde_json::Value;

/// Which plan the gate follows: a change that fails must not do so by the day on which it is tried.
const SEED: u64 = 1;
/// How long the gate thrashes.
const THRASHED: Duration = Duration::from_secs(120);
/// How long a load goes on beside a stranger: long enough for him to come, and to be seen.
const WITH_STRANGER: Duration = Duration::from_secs(10);
const STRANGER_BYTES: u32 = 1 << 20;
/// How long a volume is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn whatever_happens_nothing_is_lost_and_all_is_well_again() {
    test_on_network(
        "thrash::whatever_happens_nothing_is_lost_and_all_is_well_again",
        |machines| thrash(machines, SEED, THRASHED, &[]),
    );
}

/// An episode of these actions, of which nothing is promised but that all is well in the end.
fn episode(actions: Vec<Action>) -> std::iter::Once<Episode> {
    std::iter::once(Episode {
        kind: Kind::Kill,
        promise: Promise::Returns,
        actions,
    })
}

#[test]
fn what_stays_away_is_found() {
    test_on_network("thrash::what_stays_away_is_found", |machines| {
        let limits = Limits {
            protected_within: Duration::from_secs(8),
            ..Limits::default()
        };
        // Nobody starts it again.
        let outcome = run(machines, 1, episode(vec![Action::Kill(2)]), limits);
        let error = outcome.err().context("the thrasher found nothing")?;
        let said = format!("{error:#}");
        ensure!(said.contains("until all is well by itself"), "{said}");
        Ok(())
    });
}

#[test]
fn what_is_wrong_is_found() {
    test_on_network("thrash::what_is_wrong_is_found", |machines| {
        let (api, portals) = (machines.api(0), machines.portals());
        let stranger = std::thread::spawn(move || write_as_a_stranger(&api, portals));
        let wait = Action::Wait(WITH_STRANGER);
        let outcome = run(machines, 1, episode(vec![wait]), Limits::default());
        let wrote = stranger.join();
        wrote.map_err(|_| anyhow!("the stranger has panicked"))??;
        let error = outcome.err().context("the thrasher found nothing")?;
        let said = format!("{error:#}");
        ensure!(
            said.contains("WRONG") || said.contains("are wrong"),
            "{said}"
        );
        Ok(())
    });
}

/// Writes zeros where a load is at work, as another host: in the volume's last part, once there is something else.
fn write_as_a_stranger(api: &str, portals: Vec<SocketAddr>) -> Result<()> {
    let mut target = None;
    wait_until("there is a volume", PATIENCE, || {
        let Ok(list) = cli::json::<Value>(api, &["volume", "list"]) else {
            return Ok(false);
        };
        target = list["volumes"][0]["target"].as_str().map(str::to_owned);
        Ok(target.is_some())
    })?;
    let target = target.context("it has a target")?;
    let host = Host::open_at(&target, portals, |config| config.host = 1)?;
    let capacity = host.disk().capacity();
    let blocks = STRANGER_BYTES / capacity.block_length;
    let first = capacity.bytes() / u64::from(capacity.block_length) - u64::from(blocks);
    wait_until("the load has been there", PATIENCE, || {
        let there = host.run(host.disk().read(first, blocks, 0))?;
        Ok(there.data_in.iter().flatten().any(|byte| *byte != 0))
    })?;
    let zeros = vec![0; STRANGER_BYTES as usize];
    host.run(host.disk().write(first, zeros.into(), 0))?;
    Ok(())
}
