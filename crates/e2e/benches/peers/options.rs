//! What is asked for on the command line.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_e2e::arguments::Arguments;
use holdfast_model::ByteSize;

use crate::contestants::{CONTESTANTS, ON_DEMAND};
use crate::workloads::{self, WORKLOADS, Workload};

/// More rounds, or longer ones, would take a day.
const ROUNDS_MAX: u32 = 100;
const SECONDS_MAX: u32 = 600;

pub(crate) struct Options {
    pub(crate) rounds: u32,
    pub(crate) duration: Duration,
    pub(crate) workloads: Vec<&'static Workload>,
    pub(crate) contestants: Vec<&'static str>,
    pub(crate) cache: &'static str,
    pub(crate) size: ByteSize,
    pub(crate) json: Option<PathBuf>,
}

impl Options {
    /// # Errors
    /// It is none of what there is.
    pub(crate) fn parse() -> Result<Self> {
        let mut arguments = Arguments::of_process();
        let rounds = arguments.number("--rounds", 5, ROUNDS_MAX)?;
        let duration = arguments.seconds(4, SECONDS_MAX)?;
        let mut only = arguments.all("--only");
        let mut with = arguments.all("--with");
        let cache = arguments.text("--cache");
        let size = match arguments.text("--size") {
            Some(size) => size.parse().with_context(|| format!("--size {size}"))?,
            None => ByteSize(4 << 30),
        };
        let json = arguments.json();
        arguments.end()?;
        let workloads = WORKLOADS.iter().map(|it| (it.name, it));
        if only.is_empty() {
            let names = WORKLOADS.iter().map(|it| it.name);
            let others = names.filter(|it| !workloads::ON_DEMAND.contains(it));
            only.extend(others.map(str::to_owned));
        }
        let contestants = CONTESTANTS.map(|it| (it, it));
        if with.iter().all(|it| ON_DEMAND.contains(&it.as_str())) {
            let others = CONTESTANTS.iter().filter(|it| !ON_DEMAND.contains(it));
            with.extend(others.map(|it| (*it).to_owned()));
        }
        Ok(Self {
            rounds,
            duration,
            workloads: choose(workloads.collect(), &only)?,
            contestants: choose(contestants.into(), &with)?,
            cache: cache.map_or("4608MiB", |it| it.leak()),
            size,
            json,
        })
    }
}

/// Those of `all` that are named, in their order; all, if none is.
fn choose<T>(all: Vec<(&'static str, T)>, named: &[String]) -> Result<Vec<T>> {
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    for name in named {
        let is_known = names.contains(&name.as_str());
        ensure!(is_known, "there is no {name}: {}", names.join(", "));
    }
    let chosen = all.into_iter();
    let chosen = chosen.filter(|(name, _)| named.is_empty() || named.iter().any(|it| it == name));
    Ok(chosen.map(|(_, it)| it).collect())
}
