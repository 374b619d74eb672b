//! The thrasher: machines with networks of their own, verified load on their volumes, and all that can
//! happen to machines, episode after episode.
//!
//! It refuses to help: what does not come back by itself is a failure. It does what a service manager does,
//! which starts a process again that was killed, and no more.
//!
//! Invariants:
//! - everything that is drawn follows from a seed, which is told;
//! - after each episode every machine runs, every volume is protected and every path is up, within a time
//!   that is stated, or the run has failed;
//! - no byte is wrong and no command fails, ever; at the end all that the loads cover is read through every
//!   path, and every block on every device has its checksum;
//! - the memory of a node stays within what is stated, at every moment of every process.

mod act;
pub mod plan;
mod report;
mod volumes;

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use self::plan::{Action, Episode, Kind, MACHINES, Plan, Promise};
pub use self::report::Report;
use self::volumes::{Volumes, open_hosts};
use crate::cli;
use crate::demo::{NODE_MEMORY_MAX, READY_WITHIN};
use crate::host::Host;
use crate::machines::{Machines, name};
use crate::process::wait_until;

/// The longest stall that the failure of one machine may cause: a second as that of any node, and two more
/// where etcd has to find another leader, and nodes another member (docs/deployment.md).
const STALL_PROMISED: Duration = Duration::from_secs(3);
/// What is allowed beyond that: machines that run tests have more to do.
const STALL_SLACK: Duration = Duration::from_secs(1);
/// The longest that a replica may rest before it is taken back, as docs/replication.md says.
const REST_MAX: Duration = Duration::from_secs(300);
/// How long a node that was away for seconds may take to be in sync, as other scenarios have it.
const SYNC_WITHIN: Duration = Duration::from_secs(60);
/// Between two looks at whether all is well: a look takes a process.
const LOOK: Duration = Duration::from_millis(250);
/// Commands that each load must complete after each episode.
const COMMANDS: u64 = 100;
/// Episodes after which everything is read through every path.
const SWEEP_EVERY: u64 = 10;

/// What a run demands.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest stall while one machine fails.
    pub stall_max: Duration,
    /// How soon commands are completed when enough machines are back.
    pub returns_within: Duration,
    /// How soon every volume is protected again.
    pub protected_within: Duration,
    /// Bytes of memory that a node takes at most.
    pub memory_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            stall_max: STALL_PROMISED + STALL_SLACK,
            returns_within: READY_WITHIN + STALL_SLACK,
            protected_within: REST_MAX + SYNC_WITHIN,
            memory_max: NODE_MEMORY_MAX,
        }
    }
}

/// Thrashes machines for so long with what the seed draws, of these kinds or, if none is named, of all; and
/// tells about it on stdout.
///
/// # Errors
/// Something was not as it must be.
pub fn thrash(
    machines: &mut Machines,
    seed: u64,
    duration: Duration,
    kinds: &[Kind],
) -> Result<()> {
    let can_slow = machines.network()?.can_slow();
    if !can_slow {
        say("this kernel has no tbf: cables are not made slow");
    }
    let drawn = if kinds.is_empty() {
        &Kind::ALL[..]
    } else {
        kinds
    };
    let drawn = drawn.iter().copied();
    let drawn = drawn.filter(|kind| can_slow || !kind.needs_slow());
    let deadline = Instant::now() + duration;
    let episodes = Plan::new(seed, drawn.collect()).take_while(|_| Instant::now() < deadline);
    let mut again = format!(
        "cargo run -p holdfast-e2e --example thrash -- {} {seed}",
        duration.as_secs()
    );
    for kind in kinds {
        again.push_str(&format!(" {kind:?}"));
    }
    say(&format!("seed {seed}: {again}"));
    let report = run(machines, seed, episodes, Limits::default())
        .with_context(|| format!("seed {seed} failed; the same again: {again}"))?;
    say(&report.to_string());
    Ok(())
}

/// Carries episodes out, one after the other.
///
/// # Errors
/// Something was not as it must be.
pub fn run(
    machines: &mut Machines,
    seed: u64,
    episodes: impl Iterator<Item = Episode>,
    limits: Limits,
) -> Result<Report> {
    let hosts = open_hosts(machines)?;
    let report = run_with(machines, &hosts, seed, episodes, limits)?;
    drop(hosts);
    look_into_devices(machines)?;
    Ok(report)
}

fn run_with(
    machines: &mut Machines,
    hosts: &[Host],
    seed: u64,
    episodes: impl Iterator<Item = Episode>,
    limits: Limits,
) -> Result<Report> {
    let mut thrasher = Thrasher {
        volumes: Volumes::start(hosts, seed),
        report: Report::new(seed),
        began: Instant::now(),
        machines,
        limits,
    };
    thrasher.settle(None)?;
    for (episode, number) in episodes.zip(1..) {
        thrasher
            .experience(&episode, number)
            .with_context(|| format!("episode {number}: {episode}"))?;
    }
    thrasher.volumes.sweep().context("at the end")?;
    thrasher.settle(None).context("at the end")?;
    let Thrasher {
        volumes,
        mut report,
        ..
    } = thrasher;
    report.loads = volumes.stop()?;
    Ok(report)
}

/// Stops every machine, and holds every block on its device against its checksum.
fn look_into_devices(machines: &mut Machines) -> Result<()> {
    for place in 0..MACHINES {
        machines.stop(place)?;
    }
    for place in 0..MACHINES {
        let device = machines.device(place);
        let device = device.to_str().context("paths here are UTF-8")?;
        let look: Value = cli::json(&machines.api(place), &["inspect", "--verify", device])?;
        ensure!(
            look["stores"][0]["sound"] == true,
            "the device of {} is damaged: {look:#}",
            name(place)
        );
    }
    Ok(())
}

/// A run under way.
struct Thrasher<'a> {
    machines: &'a mut Machines,
    volumes: Volumes<'a>,
    report: Report,
    began: Instant,
    limits: Limits,
}

impl Thrasher<'_> {
    fn experience(&mut self, episode: &Episode, number: u64) -> Result<()> {
        let elapsed = self.began.elapsed().as_secs();
        say(&format!("{elapsed:5} s  {number:4}  {episode}"));
        self.volumes.restart_stalls();
        let begun = Instant::now();
        for action in &episode.actions {
            self.act(*action)
                .with_context(|| format!("do {action:?}"))?;
        }
        let over = begun.elapsed();
        let healthy = self.settle(Some(episode.kind))?;
        let stall = self.volumes.longest_stall();
        self.report.note(episode.kind, stall, healthy);
        say(&format!(
            "{:5} s        stalled for {stall:.1?} at most, healthy after {healthy:.1?}",
            self.began.elapsed().as_secs()
        ));
        let stall_max = match episode.promise {
            Promise::Serves => self.limits.stall_max,
            Promise::Returns => over + self.limits.returns_within,
        };
        ensure!(
            stall <= stall_max,
            "hosts waited for {stall:?}, and for {stall_max:?} at most is allowed:\n{}",
            self.volumes.describe()
        );
        let is_damaged = |action: &Action| matches!(action, Action::Damage(..));
        if number.is_multiple_of(SWEEP_EVERY) || episode.actions.iter().any(is_damaged) {
            self.volumes.sweep()?;
            // What was found bad while it was read is being mended.
            self.settle(None)?;
        }
        Ok(())
    }

    /// Waits until all is as it was before, without a hand. Returns how long that took.
    fn settle(&mut self, kind: Option<Kind>) -> Result<Duration> {
        let began = Instant::now();
        self.volumes.check()?;
        self.volumes.wait_for(COMMANDS)?;
        let api = self.apis();
        let (machines, within) = (&mut *self.machines, self.limits.protected_within);
        wait_until("all is well by itself", within, || {
            machines.check_running()?;
            let is_well = (0..MACHINES).all(|place| machines.etcd_runs(place))
                && cli::json(&api, &["status"]).is_ok_and(|status| is_well(&status));
            if !is_well {
                std::thread::sleep(LOOK);
            }
            Ok(is_well)
        })
        .with_context(|| {
            let told = cli::run(&["--api", &api, "status", "--explain"]);
            let told = told.map(|told| String::from_utf8_lossy(&told.stdout).into_owned());
            format!("after {kind:?}: {}", told.unwrap_or_default())
        })?;
        self.volumes.wait_for_all_paths()?;
        for place in 0..MACHINES {
            self.note_memory(place)?;
        }
        self.volumes.check()?;
        Ok(began.elapsed())
    }

    /// Looks at a node's memory; it is the most that its process ever had.
    fn note_memory(&mut self, place: usize) -> Result<()> {
        if let Some(most) = self.machines.memory(place)? {
            self.report.note_memory(place, most);
            let allowed = self.limits.memory_max;
            ensure!(
                most <= allowed,
                "{} has taken {most} bytes of memory, and {allowed} are allowed",
                name(place)
            );
        }
        Ok(())
    }

    /// The APIs of all nodes, to be tried in turn.
    fn apis(&self) -> String {
        let apis: Vec<String> = (0..MACHINES)
            .map(|place| self.machines.api(place))
            .collect();
        apis.join(",")
    }
}

fn is_well(status: &Value) -> bool {
    status["health"] == "healthy"
        && status["protection"]["protected"] == true
        && status["nodes"]["up"] == MACHINES
        && status["alerts"]
            .as_array()
            .is_some_and(|alerts| alerts.iter().all(is_of_mended_blocks))
}

/// What was damaged is found whenever somebody reads it, and is told for some seconds after it has been mended.
fn is_of_mended_blocks(alert: &Value) -> bool {
    let detail = alert["detail"].as_str();
    detail.is_some_and(|detail| {
        detail.contains("were bad, and fetched") || detail.contains("was bad, and fetched")
    })
}

/// Says something to whoever watches.
fn say(text: &str) {
    // Whoever has stopped to listen does not stop the run.
    let _ = writeln!(io::stdout(), "{text}");
}
