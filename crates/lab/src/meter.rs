//! Counting what a load does: latencies, and the longest times in which nothing happened.
//!
//! Invariants:
//! - a stall is the time between two completions in a row, or between the first and the beginning,
//!   or since the last: none is missed because the load ended in it.

use std::fmt;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// Latencies above are counted as this: longer than any host waits.
const LATENCY_MAX: Duration = Duration::from_secs(600);
/// Significant decimal digits of latencies.
const PRECISION: u8 = 3;

/// Latencies of commands, to a thousandth, in microseconds.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_max(LATENCY_MAX.as_micros() as u64, PRECISION);
        Self(histogram.expect("the bounds are sound"))
    }
}

impl Latencies {
    /// Counts one command.
    pub fn record(&mut self, latency: Duration) {
        let latency = latency.min(LATENCY_MAX).as_micros() as u64;
        self.0.saturating_record(latency.max(1));
    }

    /// Adds what another has counted.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all have the same bounds");
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency that `percent` per cent of the commands did not exceed.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Duration {
        Duration::from_micros(self.0.value_at_percentile(percent))
    }

    /// The longest.
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_micros(self.0.max())
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> Duration {
        Duration::from_nanos((self.0.mean() * 1e3) as u64)
    }

    /// Latencies and how many commands had them, by rising latency: for plots.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        self.0.iter_recorded().map(|value| {
            let latency = Duration::from_micros(value.value_iterated_to());
            (latency, value.count_at_value())
        })
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "p50 {:.2?}, p99 {:.2?}, p99.9 {:.2?}, max {:.2?}",
            self.percentile(50.0),
            self.percentile(99.0),
            self.percentile(99.9),
            self.max()
        )
    }
}

/// The longest time between two completions.
#[derive(Clone, Copy, Debug)]
pub struct StallMeter {
    last: Instant,
    longest: Duration,
    longest_from: Instant,
    completions: u64,
}

impl StallMeter {
    /// Begins to count.
    #[must_use]
    pub const fn new(now: Instant) -> Self {
        Self {
            last: now,
            longest: Duration::ZERO,
            longest_from: now,
            completions: 0,
        }
    }

    /// A command was completed.
    pub fn completed(&mut self, now: Instant) {
        *self = Self {
            last: now,
            completions: self.completions + 1,
            ..self.at(now)
        };
    }

    /// Forgets stalls so far, not completions. What is under way counts from here on.
    pub const fn restart(&mut self, now: Instant) {
        self.last = now;
        self.longest = Duration::ZERO;
        self.longest_from = now;
    }

    /// Completions so far.
    #[must_use]
    pub const fn completions(&self) -> u64 {
        self.completions
    }

    /// The longest stall up to `now`, the one under way included.
    #[must_use]
    pub fn longest(&self, now: Instant) -> Duration {
        self.at(now).longest
    }

    /// When that began.
    #[must_use]
    pub fn longest_from(&self, now: Instant) -> Instant {
        self.at(now).longest_from
    }

    fn at(&self, now: Instant) -> Self {
        let gap = now.saturating_duration_since(self.last);
        if gap > self.longest {
            Self {
                longest: gap,
                longest_from: self.last,
                ..*self
            }
        } else {
            *self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_counts_wherever_it_is() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut meter = StallMeter::new(start);
        assert_eq!(meter.longest(at(2)), Duration::from_secs(2), "before");
        for seconds in [1, 2, 5, 6] {
            meter.completed(at(seconds));
        }
        assert_eq!(meter.longest(at(6)), Duration::from_secs(3), "between");
        assert_eq!(meter.longest_from(at(6)), at(2));
        assert_eq!(meter.longest(at(16)), Duration::from_secs(10), "after");
        assert_eq!(meter.longest_from(at(16)), at(6));
        meter.restart(at(17));
        assert_eq!(meter.longest(at(18)), Duration::from_secs(1));
        assert_eq!(meter.completions(), 4);
    }

    #[test]
    fn percentiles() {
        let mut latencies = Latencies::default();
        (1..=1000).for_each(|micros| latencies.record(Duration::from_micros(micros)));
        let mut more = Latencies::default();
        more.record(Duration::from_secs(3600));
        latencies.add(&more);
        assert_eq!(latencies.count(), 1001);
        assert_eq!(latencies.percentile(50.0), Duration::from_micros(501));
        assert!(latencies.max() >= LATENCY_MAX);
        assert_eq!(
            latencies.buckets().map(|(_, count)| count).sum::<u64>(),
            1001
        );
    }
}
