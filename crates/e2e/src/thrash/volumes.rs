//! The volumes that are thrashed, and the load on each.
//!
//! Invariants:
//! - between two actions every volume has a load, and nothing else is done to it;
//! - what a load knows is handed to the next one on the same volume.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use holdfast_lab::verify::{Ledger, LoadConfig};
use serde_json::Value;

use super::plan::MACHINES;
use crate::cli;
use crate::host::{Host, HostLoad, check};
use crate::machines::Machines;

/// Names, sizes and policies: two copies of three slices, and three of one.
const VOLUMES: [[&str; 3]; 2] = [["two", "9GiB", "mirror2"], ["three", "1GiB", "mirror3"]];
/// Workers on each volume: enough to keep every path busy, few enough for two cores.
const DEPTH: usize = 6;
/// Pause of each worker between two commands, for the same reason.
const PAUSE: Duration = Duration::from_millis(4);
/// Bytes of a command at most.
const COMMAND_BYTES_MAX: u64 = 64 << 10;
/// A host gives a command up on a path after this.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a host goes on trying: longer than any episode in which nothing serves.
const PATIENCE: Duration = Duration::from_secs(120);

/// What all loads have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) commands: u64,
    pub(super) repeated: u64,
    /// Sectors that were read again and held against what is known.
    pub(super) verified: u64,
}

/// The volumes, each with its load.
pub(super) struct Volumes<'a> {
    loads: Vec<Load<'a>>,
    work: Work,
}

struct Load<'a> {
    host: &'a Host,
    config: LoadConfig,
    running: HostLoad<'a>,
}

/// Makes the volumes, and logs in through every machine.
pub(super) fn open_hosts(machines: &Machines) -> Result<Vec<Host>> {
    let api = machines.api(0);
    machines.wait_for_nodes(0, MACHINES)?;
    for [name, size, policy] in VOLUMES {
        let create = ["volume", "create", name, size, "--policy", policy];
        let _: Value = cli::json(&api, &create)?;
    }
    let list: Value = cli::json(&api, &["volume", "list"])?;
    let listed = list["volumes"].as_array().context("it lists volumes")?;
    let target = |name: &str| {
        let volume = listed.iter().find(|volume| volume["name"] == name);
        let target = volume.and_then(|volume| volume["target"].as_str());
        target.with_context(|| format!("find the target of {name}"))
    };
    let open = |[name, ..]: &[&str; 3]| {
        Host::open_at(target(name)?, machines.portals(), |config| {
            config.command_timeout = COMMAND_TIMEOUT;
            config.patience = PATIENCE;
        })
    };
    VOLUMES.iter().map(open).collect()
}

impl<'a> Volumes<'a> {
    pub(super) fn start(hosts: &'a [Host], seed: u64) -> Self {
        let loads = hosts.iter().zip(seed..).map(|(host, seed)| {
            let config = LoadConfig {
                depth: DEPTH,
                command_bytes_max: COMMAND_BYTES_MAX,
                // A path that does not answer holds its own workers up, as it does hosts.
                paths: holdfast_lab::verify::PathChoice::Own,
                pause: PAUSE,
                seed,
                ..LoadConfig::default()
            };
            let running = host.load(host.ledger(seed), config.clone());
            Load {
                host,
                config,
                running,
            }
        });
        Self {
            loads: loads.collect(),
            work: Work::default(),
        }
    }

    /// Nothing was wrong, and nothing was refused, so far.
    pub(super) fn check(&self) -> Result<()> {
        let mut loads = self.loads.iter();
        loads.try_for_each(|load| check(&load.running.report()))
    }

    /// Waits until each load has completed so many more commands.
    pub(super) fn wait_for(&self, count: u64) -> Result<()> {
        let mut loads = self.loads.iter();
        loads.try_for_each(|load| load.running.wait_for(count))
    }

    pub(super) fn wait_for_all_paths(&self) -> Result<()> {
        let mut loads = self.loads.iter();
        loads.try_for_each(|load| load.host.wait_for_all_paths())
    }

    pub(super) fn restart_stalls(&self) {
        for load in &self.loads {
            load.running.restart_stalls();
        }
    }

    /// The longest time in which one of the volumes completed nothing.
    pub(super) fn longest_stall(&self) -> Duration {
        let stalls = self.loads.iter();
        let stalls = stalls.map(|load| load.running.report().longest_stall);
        stalls.max().unwrap_or_default()
    }

    /// What the loads have to say.
    pub(super) fn describe(&self) -> String {
        let loads = self.loads.iter().zip(VOLUMES);
        let told = loads.map(|(load, [name, ..])| format!("{name}: {}", load.running.report()));
        told.collect()
    }

    /// Stops the loads, reads all that they cover through every path, and starts them again.
    pub(super) fn sweep(&mut self) -> Result<()> {
        let mut loads = Vec::new();
        for load in std::mem::take(&mut self.loads) {
            let Load { host, config, .. } = load;
            let ledger = self.work.finish(host, load.running)?;
            let running = host.load(ledger, config.clone());
            loads.push(Load {
                host,
                config,
                running,
            });
        }
        self.loads = loads;
        Ok(())
    }

    /// Stops the loads, and reads all that they cover through every path.
    pub(super) fn stop(mut self) -> Result<Work> {
        for load in self.loads {
            self.work.finish(load.host, load.running)?;
        }
        Ok(self.work)
    }
}

impl Work {
    /// Stops a load, and reads all that it covers through every path.
    fn finish(&mut self, host: &Host, load: HostLoad<'_>) -> Result<Ledger> {
        let (report, mut ledger) = load.stop()?;
        self.commands += report.completed();
        self.repeated += report.repeated;
        host.wait_for_all_paths()?;
        let began = Instant::now();
        host.verify(&mut ledger)?;
        ensure!(
            began.elapsed() < PATIENCE,
            "reading everything took {:?}",
            began.elapsed()
        );
        self.verified += ledger.layout().sector_count() * host.disk().path_count() as u64;
        Ok(ledger)
    }
}
