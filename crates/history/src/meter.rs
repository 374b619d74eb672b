//! Counts of one kind of operation, as it goes on.

use crate::{Latencies, Recorder};

/// What was done of one kind in a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Bytes that were read or written.
    pub bytes: u64,
    /// How long each took; and so, how many there were.
    pub latencies: Latencies,
}

/// Counts operations of one kind.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    bytes: u64,
    latencies: Recorder,
}

impl Meter {
    /// One more has ended, of so many bytes, in so many microseconds.
    pub fn record(&mut self, bytes: u64, microseconds: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.latencies.record(microseconds);
    }

    /// What was done since it was last asked.
    pub fn take(&mut self) -> Done {
        Done {
            bytes: core::mem::take(&mut self.bytes),
            latencies: self.latencies.take(),
        }
    }
}
