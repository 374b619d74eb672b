//! What the metrics tell of stalls. Initiators say themselves how they are called: the first few to stall are told apart, the others
//! are counted together.
//!
//! Invariant: however many names hosts make up, labels have a bounded number of values.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use holdfast_api::documents::{LocalStall, StallCause};
use holdfast_model::VolumeId;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::labels::{Cause, Initiator, Volume};
use super::{Seconds, Total};

/// Bounds of the lengths of stalls, in seconds: below the least there are none, 0.5 and 1 are what the
/// death of a node may cost, 3 is a write's lifetime, 30 how long commands are held.
const STALL_BOUNDS: [f64; 9] = [0.15, 0.25, 0.5, 0.75, 1.0, 2.0, 3.0, 10.0, 30.0];

/// Initiators of volumes that are told apart, at most.
pub(super) const INITIATORS_MAX: usize = 256;
/// What the others are called, and those of volumes that have no more room among them: no name of an initiator (RFC 3722).
pub(super) const OTHERS: &str = "(others)";

type StallHistogram = Family<Cause, Histogram, fn() -> Histogram>;

/// What is counted of stalls.
#[derive(Clone, Debug)]
pub(crate) struct Stalls {
    lengths: StallHistogram,
    volume_stalls: Family<Volume, Total>,
    volume_stalled: Family<Volume, Seconds>,
    initiators: Arc<Mutex<BTreeSet<Initiator>>>,
    initiator_stalls: Family<Initiator, Total>,
    initiator_stalled: Family<Initiator, Seconds>,
    lost: Total,
}

impl Default for Stalls {
    fn default() -> Self {
        Self {
            lengths: Family::new_with_constructor(|| Histogram::new(STALL_BOUNDS)),
            volume_stalls: Family::default(),
            volume_stalled: Family::default(),
            initiators: Arc::default(),
            initiator_stalls: Family::default(),
            initiator_stalled: Family::default(),
            lost: Total::default(),
        }
    }
}

impl Stalls {
    pub(super) fn register(&self, registry: &mut Registry) {
        // The first of a cause is a rise from zero: of what was not there before, Prometheus sees no rise.
        for cause in StallCause::ALL.map(StallCause::as_str) {
            drop(self.lengths.get_or_create(&Cause { cause }));
        }
        registry.register_with_unit(
            "stall",
            "Lengths of the times in which commands waited for a volume at this portal and none was done",
            Unit::Seconds,
            self.lengths.clone(),
        );
        registry.register(
            "volume_stalls",
            "Stalls of a volume at this portal",
            self.volume_stalls.clone(),
        );
        registry.register_with_unit(
            "volume_stalled",
            "Time for which a volume was stalled at this portal",
            Unit::Seconds,
            self.volume_stalled.clone(),
        );
        registry.register(
            "initiator_stalls",
            "Stalls of single initiators of a volume at this portal, also while others were served",
            self.initiator_stalls.clone(),
        );
        registry.register_with_unit(
            "initiator_stalled",
            "Time for which single initiators of a volume were stalled at this portal",
            Unit::Seconds,
            self.initiator_stalled.clone(),
        );
        registry.register(
            "stalls_lost",
            "Stalls that came too fast to be kept in the ledger",
            self.lost.clone(),
        );
    }

    /// A stall has ended. Those of single initiators are part of the volume's, or not the volume's at all: they are
    /// counted for themselves.
    pub(crate) fn ended(&self, stall: &LocalStall) {
        let seconds = stall.length_ms as f64 / 1000.0;
        let volume = VolumeId(stall.volume).to_string();
        if let Some(initiator) = &stall.initiator {
            let label = self.initiator(Initiator {
                volume,
                initiator: initiator.clone(),
            });
            self.initiator_stalls.get_or_create(&label).inc();
            self.initiator_stalled.get_or_create(&label).inc_by(seconds);
            return;
        }
        let volume = Volume { volume };
        let cause = Cause {
            cause: stall.cause.as_str(),
        };
        self.lengths.get_or_create(&cause).observe(seconds);
        self.volume_stalls.get_or_create(&volume).inc();
        self.volume_stalled.get_or_create(&volume).inc_by(seconds);
    }

    /// The label for an initiator of a volume: of more than can be told apart it is one for all.
    fn initiator(&self, label: Initiator) -> Initiator {
        let known = self.initiators.lock();
        let mut known = known.unwrap_or_else(PoisonError::into_inner);
        if known.contains(&label) {
            return label;
        }
        if known.len() < INITIATORS_MAX {
            known.insert(label.clone());
            return label;
        }
        Initiator {
            volume: OTHERS.to_owned(),
            initiator: OTHERS.to_owned(),
        }
    }

    /// A stall could not be kept.
    pub(crate) fn lost(&self) {
        self.lost.inc();
    }
}
