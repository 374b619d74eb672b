//! A node's clock: it runs a little too fast or too slow, and started some time ago.
//!
//! Invariant: it never goes back, and its rate is within [`DRIFT_MAX`] of the true one: what the
//! leases assume of clocks is what is simulated, to the limit.

use holdfast_stdx::{Duration, Instant, Prng};

/// The greatest error of a clock's rate, in millionths: 1/64.
pub const DRIFT_MAX: i64 = 15_625;

const MILLION: u128 = 1_000_000;

/// A clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: u64,
    rate: u64,
    /// For how long it has stood still, in true time.
    stood: u64,
}

impl Clock {
    /// A clock that is `drift` millionths too fast and showed `origin` when true time began.
    #[must_use]
    pub fn new(origin: Instant, drift: i64) -> Self {
        assert!(drift.abs() <= DRIFT_MAX, "clocks drift within their bounds");
        let rate = MILLION as i64 + drift;
        Self {
            origin: origin.as_nanos(),
            rate: rate as u64,
            stood: 0,
        }
    }

    /// It has stood still for so long until now, and goes on.
    pub fn stand(&mut self, span: Duration) {
        self.stood += span.as_nanos() as u64;
    }

    /// A clock as nodes have them: started within the last hours, with a rate of its own.
    pub fn draw(prng: &mut Prng) -> Self {
        let origin = Instant::from_nanos(prng.between(1, 10_000_000_000_000));
        let extreme = prng.chance(1, 4);
        let drift = prng.between(0, 2 * DRIFT_MAX as u64) as i64 - DRIFT_MAX;
        let drift = if extreme {
            DRIFT_MAX * drift.signum()
        } else {
            drift / 16
        };
        Self::new(origin, drift)
    }

    /// What it shows at a true instant.
    #[must_use]
    pub fn shows(&self, instant: Instant) -> Instant {
        let run = instant.as_nanos().saturating_sub(self.stood);
        let run = u128::from(run) * u128::from(self.rate) / MILLION;
        Instant::from_nanos(self.origin.saturating_add(run as u64))
    }

    /// The first true instant at which it shows `shown` or later.
    #[must_use]
    pub fn when(&self, shown: Instant) -> Instant {
        let run = u128::from(shown.as_nanos().saturating_sub(self.origin));
        let instant = (run * MILLION).div_ceil(u128::from(self.rate));
        let instant = u64::try_from(instant).unwrap_or(u64::MAX);
        Instant::from_nanos(instant.saturating_add(self.stood))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_shown_when_it_is_due() {
        let mut prng = Prng::from_seed(1);
        for _ in 0..1000 {
            let clock = Clock::draw(&mut prng);
            let instant = Instant::from_nanos(prng.below(1 << 40));
            let shown = clock.shows(instant);
            let when = clock.when(shown);
            assert!(when <= instant, "not later than it was shown");
            assert!(clock.shows(when) >= shown);
        }
        let mut fast = Clock::new(Instant::ZERO, DRIFT_MAX);
        let second = Instant::from_nanos(1_000_000_000);
        assert_eq!(fast.shows(second), Instant::from_nanos(1_015_625_000));
        fast.stand(Duration::from_secs(2));
        let third = Instant::from_nanos(3_000_000_000);
        assert_eq!(fast.shows(third), Instant::from_nanos(1_015_625_000));
        assert_eq!(fast.when(Instant::from_nanos(1_015_625_000)), third);
    }
}
