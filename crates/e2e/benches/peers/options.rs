//! What is asked for on the command line.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use holdfast_e2e::arguments::{self, number};
use holdfast_model::ByteSize;

use crate::contestants::{CONTESTANTS, ON_DEMAND};
use crate::workloads::{WORKLOADS, Workload};

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
        let (mut only, mut with) = (Vec::new(), Vec::new());
        let mut options = Self {
            rounds: 5,
            duration: Duration::from_secs(4),
            workloads: Vec::new(),
            contestants: Vec::new(),
            cache: "4608MiB",
            size: ByteSize(4 << 30),
            json: None,
        };
        for (option, value) in arguments::options()? {
            match option.as_str() {
                "--rounds" => options.rounds = number(&option, &value, ROUNDS_MAX)?,
                "--seconds" => {
                    let seconds = number(&option, &value, SECONDS_MAX)?;
                    options.duration = Duration::from_secs(seconds.into());
                }
                "--only" => only.push(value),
                "--with" => with.push(value),
                "--cache" => options.cache = value.leak(),
                "--size" => {
                    options.size = value.parse().with_context(|| format!("{option} {value}"))?
                }
                "--json" => options.json = Some(value.into()),
                _ => bail!(
                    "there is no {option}: --rounds, --seconds, --only, --with, --cache, --size, --json"
                ),
            }
        }
        let names = WORKLOADS.iter().map(|it| (it.name, it));
        options.workloads = choose(names.collect(), &only)?;
        let names = CONTESTANTS.map(|it| (it, it));
        if with.iter().all(|it| ON_DEMAND.contains(&it.as_str())) {
            let others = CONTESTANTS.iter().filter(|it| !ON_DEMAND.contains(it));
            with.extend(others.map(|it| (*it).to_owned()));
        }
        options.contestants = choose(names.into(), &with)?;
        Ok(options)
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
