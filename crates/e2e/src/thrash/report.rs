//! What a run has seen.
//!
//! Invariants:
//! - it only counts: what is too much is judged elsewhere.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use super::plan::{Kind, MACHINES};
use super::volumes::Work;
use crate::machines::name;

/// Counts of a run.
#[derive(Clone, Debug)]
pub struct Report {
    seed: u64,
    began: Instant,
    kinds: BTreeMap<Kind, Seen>,
    memory_max: [u64; MACHINES],
    pub(super) loads: Work,
}

/// What was seen of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    count: u64,
    stall: Duration,
    healthy: Duration,
}

impl Report {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            began: Instant::now(),
            kinds: BTreeMap::new(),
            memory_max: [0; MACHINES],
            loads: Work::default(),
        }
    }

    pub(super) fn note(&mut self, kind: Kind, stall: Duration, healthy: Duration) {
        let seen = self.kinds.entry(kind).or_default();
        seen.count += 1;
        seen.stall = seen.stall.max(stall);
        seen.healthy = seen.healthy.max(healthy);
    }

    pub(super) fn note_memory(&mut self, place: usize, most: u64) {
        self.memory_max[place] = self.memory_max[place].max(most);
    }

    /// Episodes that are over.
    #[must_use]
    pub fn episodes(&self) -> u64 {
        self.kinds.values().map(|seen| seen.count).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Work {
            commands,
            repeated,
            verified,
        } = self.loads;
        writeln!(
            formatter,
            "seed {}: {} episodes in {} s; {commands} commands, {repeated} of them repeated; \
             {verified} sectors read again; nothing lost, no wrong byte, all healthy",
            self.seed,
            self.episodes(),
            self.began.elapsed().as_secs(),
        )?;
        writeln!(
            formatter,
            "{:20}{:>6}{:>16}{:>16}",
            "KIND", "COUNT", "LONGEST STALL", "HEALTHY AFTER"
        )?;
        for (kind, seen) in &self.kinds {
            let [stall, healthy] = [seen.stall, seen.healthy].map(|time| time.as_secs_f64());
            writeln!(
                formatter,
                "{:20}{:>6}{stall:>14.1} s{healthy:>14.1} s",
                format!("{kind:?}"),
                seen.count
            )?;
        }
        write!(formatter, "memory at most:")?;
        for (place, most) in self.memory_max.iter().enumerate() {
            write!(formatter, " {} {} MiB", name(place), most >> 20)?;
        }
        Ok(())
    }
}
