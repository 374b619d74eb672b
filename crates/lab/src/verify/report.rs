//! What a load has done, and what it has found.
//!
//! Invariants:
//! - all are counted; of violations and failures, the first [`DETAILS_MAX`] are described.

use std::fmt;
use std::time::{Duration, Instant};

use super::ledger::Violation;
use crate::meter::{Latencies, StallMeter};
use crate::multipath::CommandError;

/// Violations, and failures, that are described: one is enough to fail, some show a pattern.
pub const DETAILS_MAX: usize = 16;

/// Kinds of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// READ.
    Read,
    /// WRITE.
    Write,
    /// UNMAP.
    Unmap,
    /// WRITE SAME.
    WriteSame,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Unmap, Self::WriteSame];
}

/// A command that was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What it was.
    pub kind: Kind,
    /// Its first sector.
    pub sector: u64,
    /// How many sectors.
    pub count: u64,
    /// Why.
    pub error: CommandError,
}

/// What was done with one kind of commands.
#[derive(Clone, Debug, Default)]
pub struct KindReport {
    /// Bytes of the commands that were completed.
    pub bytes: u64,
    /// From the first attempt to the answer; counts the commands too.
    pub latencies: Latencies,
}

/// What went through one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathLoad {
    /// Commands that were completed through it.
    pub completed: u64,
    /// The longest time in which none was.
    pub longest_stall: Duration,
}

/// What a load has done.
#[derive(Clone, Debug)]
pub struct LoadReport {
    /// Since it began.
    pub elapsed: Duration,
    /// By kind, in the order of [`Kind::ALL`].
    pub kinds: [KindReport; Kind::ALL.len()],
    /// Commands that were sent more than once.
    pub repeated: u64,
    /// The longest time in which no command was completed on any path.
    pub longest_stall: Duration,
    /// When that began, counted from the load's beginning.
    pub longest_stall_at: Duration,
    /// By path.
    pub paths: Vec<PathLoad>,
    /// Commands that failed.
    pub failed: u64,
    /// The first of them.
    pub failures: Vec<Failure>,
    /// Sectors that held what they must not.
    pub violated: u64,
    /// The first of them.
    pub violations: Vec<Violation>,
    /// The ledger's file could not be written; the load has stopped.
    pub ledger_lost: bool,
}

impl LoadReport {
    /// What was done with one kind of commands.
    #[must_use]
    pub const fn kind(&self, kind: Kind) -> &KindReport {
        &self.kinds[kind as usize]
    }

    /// Commands that were completed.
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.latencies.count()).sum()
    }
}

impl fmt::Display for LoadReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "{} commands in {:.1?}, {} of them repeated, {} failed, {} sectors wrong",
            self.completed(),
            self.elapsed,
            self.repeated,
            self.failed,
            self.violated
        )?;
        writeln!(
            formatter,
            "longest stall {:.3?}, {:.1?} after the beginning",
            self.longest_stall, self.longest_stall_at
        )?;
        for (index, path) in self.paths.iter().enumerate() {
            writeln!(
                formatter,
                "path {index}: {} commands, longest stall {:.3?}",
                path.completed, path.longest_stall
            )?;
        }
        for kind in Kind::ALL {
            let report = self.kind(kind);
            writeln!(
                formatter,
                "{kind:?}: {} commands, {} MiB, {}",
                report.latencies.count(),
                report.bytes >> 20,
                report.latencies
            )?;
        }
        for failure in &self.failures {
            let Failure {
                kind,
                sector,
                count,
                error,
            } = failure;
            writeln!(
                formatter,
                "{kind:?} of {count} sectors from {sector}: {error}"
            )?;
        }
        for violation in &self.violations {
            writeln!(formatter, "WRONG: {violation}")?;
        }
        if self.ledger_lost {
            writeln!(formatter, "the ledger's file could not be written")?;
        }
        Ok(())
    }
}

/// Counts while the load runs.
#[derive(Debug)]
pub(super) struct Tally {
    start: Instant,
    all: StallMeter,
    paths: Vec<StallMeter>,
    kinds: [KindReport; Kind::ALL.len()],
    completions: u64,
    repeated: u64,
    failed: u64,
    failures: Vec<Failure>,
    violated: u64,
    violations: Vec<Violation>,
    ledger_lost: bool,
}

impl Tally {
    pub(super) fn new(path_count: usize, now: Instant) -> Self {
        Self {
            start: now,
            all: StallMeter::new(now),
            paths: vec![StallMeter::new(now); path_count],
            kinds: Default::default(),
            completions: 0,
            repeated: 0,
            failed: 0,
            failures: Vec::new(),
            violated: 0,
            violations: Vec::new(),
            ledger_lost: false,
        }
    }

    pub(super) const fn completions(&self) -> u64 {
        self.completions
    }

    pub(super) fn completed(
        &mut self,
        now: Instant,
        (kind, bytes): (Kind, u64),
        (path, attempts): (usize, u32),
        latency: Duration,
    ) {
        self.all.completed(now);
        self.paths[path].completed(now);
        self.completions += 1;
        self.repeated += u64::from(attempts > 1);
        let report = &mut self.kinds[kind as usize];
        report.bytes += bytes;
        report.latencies.record(latency);
    }

    pub(super) fn failed(&mut self, failure: Failure) {
        self.failed += 1;
        if self.failures.len() < DETAILS_MAX {
            self.failures.push(failure);
        }
    }

    pub(super) fn violated(&mut self, violation: Violation) {
        self.violated += 1;
        if self.violations.len() < DETAILS_MAX {
            self.violations.push(violation);
        }
    }

    pub(super) const fn ledger_lost(&mut self) {
        self.ledger_lost = true;
    }

    pub(super) fn restart_stalls(&mut self, now: Instant) {
        for meter in self.paths.iter_mut().chain([&mut self.all]) {
            meter.restart(now);
        }
    }

    pub(super) fn report(&self, now: Instant) -> LoadReport {
        let at = self.all.longest_from(now);
        LoadReport {
            elapsed: now.saturating_duration_since(self.start),
            kinds: self.kinds.clone(),
            repeated: self.repeated,
            longest_stall: self.all.longest(now),
            longest_stall_at: at.saturating_duration_since(self.start),
            paths: self
                .paths
                .iter()
                .map(|meter| PathLoad {
                    completed: meter.completions(),
                    longest_stall: meter.longest(now),
                })
                .collect(),
            failed: self.failed,
            failures: self.failures.clone(),
            violated: self.violated,
            violations: self.violations.clone(),
            ledger_lost: self.ledger_lost,
        }
    }
}
