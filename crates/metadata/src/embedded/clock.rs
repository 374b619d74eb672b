//! The store's time, for leases.
//!
//! Invariants:
//! - it never runs faster than the machine's monotonic clock;
//! - it stands still while the process does: a store that was stopped for a minute must not end the
//!   leases whose keep-alives wait at its door.

use holdfast_stdx::{Duration, Instant};

/// The most that the clock moves between two readings: whoever uses it reads it more often than
/// this while there is a lease.
pub(super) const STEP_MAX: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Clock {
    reading: std::time::Instant,
    now: Instant,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self {
            reading: std::time::Instant::now(),
            now: Instant::ZERO,
        }
    }

    /// The last reading.
    pub(super) fn last(&self) -> Instant {
        self.now
    }

    pub(super) fn now(&mut self) -> Instant {
        let reading = std::time::Instant::now();
        let step = reading.saturating_duration_since(self.reading);
        self.reading = reading;
        self.now += step.min(STEP_MAX);
        self.now
    }
}
