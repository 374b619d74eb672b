//! The node's clock: `CLOCK_BOOTTIME`, which also runs while the machine is suspended.
//!
//! Invariant: the clock is read after an input has been taken, and never kept over a wait: leases
//! are counted by it.

use holdfast_stdx::Instant;
use rustix::time::{ClockId, clock_gettime};

/// What time it is now.
#[must_use]
pub fn now() -> Instant {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).expect("the machine was started before now");
    let nanoseconds = u64::try_from(time.tv_nsec).expect("nanoseconds count up from zero");
    Instant::from_nanos(seconds * 1_000_000_000 + nanoseconds)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_runs_as_fast_as_the_other_clock() {
        let (begun, other) = (now(), std::time::Instant::now());
        std::thread::sleep(Duration::from_millis(20));
        let (passed, other) = (now().since(begun), other.elapsed());
        assert!(passed >= Duration::from_millis(20));
        assert!(passed <= other + Duration::from_secs(1));
    }
}
