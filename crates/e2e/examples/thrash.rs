//! Thrashes three machines in network namespaces, for as long as one likes:
//! `cargo run -p holdfast-e2e --example thrash -- SECONDS [SEED [KIND...]]`, as root. Kinds of episodes are
//! those of `holdfast_e2e::thrash::plan::Kind`; without any, all.

use std::ffi::OsString;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use holdfast_e2e::machines::on_network;
use holdfast_e2e::thrash::plan::Kind;
use holdfast_e2e::{thrash, world};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (seconds, seed, kinds) = match arguments.as_slice() {
        [seconds] => (seconds, fresh()?, &[][..]),
        [seconds, seed, kinds @ ..] => {
            let seed = seed.parse().context("the seed is a number")?;
            (seconds, seed, kinds)
        }
        _ => bail!("usage: thrash SECONDS [SEED [KIND...]]"),
    };
    let mut chosen = Vec::new();
    for name in kinds {
        let kind = Kind::ALL
            .into_iter()
            .find(|kind| format!("{kind:?}") == *name);
        chosen.push(kind.with_context(|| format!("{name} is none of {:?}", Kind::ALL))?);
    }
    let duration = Duration::from_secs(seconds.parse().context("seconds are a number")?);
    if world::is_inside() {
        on_network(|machines| thrash::thrash(machines, seed, duration, &chosen));
        return Ok(());
    }
    if let Some(reason) = world::missing() {
        bail!("machines need networks of their own: {reason}");
    }
    let inside = [seconds.clone(), seed.to_string()];
    let inside = inside.iter().chain(kinds).map(OsString::from);
    let status = world::enter(&inside.collect::<Vec<_>>())?;
    ensure!(status.success(), "the thrasher ended with {status}");
    Ok(())
}

/// A seed that nobody has seen.
fn fresh() -> Result<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(now.as_millis() as u64)
}
