//! The network: who reaches whom, and how long it takes.
//!
//! Invariants:
//! - a connection loses nothing and keeps its order: while a place cannot be reached, what is on
//!   its way waits, and arrives late or never;
//! - different connections overtake each other.

use std::collections::BTreeMap;
use std::fmt;

use holdfast_model::NodeId;
use holdfast_stdx::{Duration, Instant, Prng};

/// Where something on the network is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A node.
    Node(NodeId),
    /// A host.
    Host(u16),
    /// The store of the metadata.
    Metadata,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => formatter.pad(&node.to_string()),
            Self::Host(host) => formatter.pad(&format!("h{host}")),
            Self::Metadata => formatter.pad("md"),
        }
    }
}

/// The network.
#[derive(Debug)]
pub(crate) struct Network {
    /// Ways that are cut, each from when on, and how often.
    cuts: BTreeMap<(Place, Place), (Instant, u32)>,
    /// How much longer than usual everything takes at most.
    pub(crate) slowness: Duration,
    prng: Prng,
}

/// The shortest way.
const DELAY_MIN_NANOS: u64 = 20_000;
/// The usual ways.
const DELAY_MAX_NANOS: u64 = 250_000;
/// One message in so many waits for a retransmission.
const LATE_ONE_IN: u64 = 500;
/// Until that.
const LATE_NANOS: u64 = 30_000_000;

impl Network {
    pub(crate) fn new(prng: Prng) -> Self {
        Self {
            cuts: BTreeMap::new(),
            slowness: Duration::ZERO,
            prng,
        }
    }

    /// How long the next message takes.
    pub(crate) fn delay(&mut self) -> Duration {
        let mut nanos = self.prng.between(DELAY_MIN_NANOS, DELAY_MAX_NANOS);
        if self.prng.chance(1, LATE_ONE_IN) {
            nanos += self.prng.below(LATE_NANOS);
        }
        if self.slowness > Duration::ZERO && self.prng.chance(1, 4) {
            nanos += self.prng.below(self.slowness.as_nanos() as u64);
        }
        Duration::from_nanos(nanos)
    }

    /// Cuts a way, in one direction.
    pub(crate) fn cut(&mut self, now: Instant, from: Place, to: Place) {
        self.cuts.entry((from, to)).or_insert((now, 0)).1 += 1;
    }

    /// Mends a way that was cut; true if it is passable now.
    pub(crate) fn mend(&mut self, from: Place, to: Place) -> bool {
        let Some((_, count)) = self.cuts.get_mut(&(from, to)) else {
            return true;
        };
        *count -= 1;
        if *count == 0 {
            self.cuts.remove(&(from, to));
        }
        !self.cuts.contains_key(&(from, to))
    }

    /// Since when the way is cut, if it is.
    pub(crate) fn cut_since(&self, from: Place, to: Place) -> Option<Instant> {
        self.cuts.get(&(from, to)).map(|(since, _)| *since)
    }

    pub(crate) fn passes(&self, from: Place, to: Place) -> bool {
        !self.cuts.contains_key(&(from, to))
    }

    pub(crate) fn passes_both_ways(&self, one: Place, other: Place) -> bool {
        self.passes(one, other) && self.passes(other, one)
    }
}
