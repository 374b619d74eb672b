//! How often passwords may be tried: by a user's name, and by where the tries come from.
//!
//! After some failures each further one must wait, twice as long each time. Nobody is locked out for good: whoever tries
//! others' passwords would lock them out.
//!
//! Invariants:
//! - so many names and addresses are kept at most, and the one that was quiet for longest goes first;
//! - what is kept of a failure is forgotten [`FORGOTTEN_AFTER`] after the last one.

use alloc::collections::BTreeMap;
use alloc::string::String;

use holdfast_stdx::{Duration, Instant};

/// Names and addresses that are kept at a time.
pub const TRACKED_MAX: usize = 4096;
/// Failures of a user that are free: people mistype.
const FREE_OF_USER: u32 = 5;
/// Failures from an address that are free: many people may be behind one.
const FREE_OF_ADDRESS: u32 = 20;
/// The first wait.
const WAIT_FIRST: Duration = Duration::from_secs(1);
/// The longest.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// When a failure is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(15 * 60);

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Instant,
}

impl Failures {
    /// Until when the next try must wait.
    fn until(self, free: u32) -> Instant {
        let Some(over) = self.count.checked_sub(free) else {
            return self.last;
        };
        let wait = WAIT_FIRST.saturating_mul(1 << over.min(16));
        self.last + wait.min(WAIT_MAX)
    }
}

/// What is remembered of failures. Names are kept as they were shown, whether there is such a user or not.
#[derive(Debug, Default)]
pub struct Throttle {
    users: BTreeMap<String, Failures>,
    addresses: BTreeMap<String, Failures>,
}

impl Throttle {
    /// Whether a password may be tried now; else how long to wait. A name that is too long to be one is nobody's.
    ///
    /// # Errors
    /// How long.
    pub fn admit(&mut self, user: &str, address: &str, now: Instant) -> Result<(), Duration> {
        for kept in [&mut self.users, &mut self.addresses] {
            kept.retain(|_, failures| now < failures.last + FORGOTTEN_AFTER);
        }
        let of_user = self.users.get(user).map(|it| it.until(FREE_OF_USER));
        let of_address = self.addresses.get(address);
        let of_address = of_address.map(|it| it.until(FREE_OF_ADDRESS));
        match of_user.max(of_address) {
            Some(until) if now < until => Err(until.since(now)),
            _ => Ok(()),
        }
    }

    /// A try has failed.
    pub fn failed(&mut self, user: &str, address: &str, now: Instant) {
        for (kept, key) in [(&mut self.users, user), (&mut self.addresses, address)] {
            if !kept.contains_key(key) && kept.len() >= TRACKED_MAX {
                let quiet = kept.iter().min_by_key(|(_, failures)| failures.last);
                let quiet = quiet.map(|(key, _)| key.clone());
                kept.remove(&quiet.expect("there are many"));
            }
            let failures = kept.entry(key.into()).or_insert(Failures {
                count: 0,
                last: now,
            });
            failures.count = failures.count.saturating_add(1);
            failures.last = now;
        }
    }

    /// A try has succeeded: the user's failures are forgotten, those of the address are not, for who tries others' passwords may
    /// know one.
    pub fn succeeded(&mut self, user: &str) {
        self.users.remove(user);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn some_failures_are_free_and_then_each_costs_twice_as_much() {
        let mut throttle = Throttle::default();
        for _ in 0..4 {
            throttle.failed("ada", "192.0.2.1", at(0));
            assert_eq!(throttle.admit("ada", "192.0.2.1", at(0)), Ok(()));
        }
        let mut waits = [0; 8];
        for wait in &mut waits {
            throttle.failed("ada", "192.0.2.1", at(0));
            *wait = throttle
                .admit("ada", "192.0.2.1", at(0))
                .unwrap_err()
                .as_secs();
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(throttle.admit("ada", "192.0.2.1", at(60)), Ok(()));
        // From elsewhere it is the same user; another user is not kept waiting by it.
        assert!(throttle.admit("ada", "192.0.2.2", at(59)).is_err());
        assert_eq!(throttle.admit("bob", "192.0.2.1", at(0)), Ok(()));
        throttle.succeeded("ada");
        assert_eq!(throttle.admit("ada", "192.0.2.1", at(0)), Ok(()));
    }

    #[test]
    fn whoever_tries_many_users_waits_as_well() {
        let mut throttle = Throttle::default();
        for number in 0..20 {
            assert_eq!(throttle.admit("x", "192.0.2.1", at(0)), Ok(()));
            throttle.failed(&alloc::format!("user{number}"), "192.0.2.1", at(0));
        }
        assert!(throttle.admit("ada", "192.0.2.1", at(0)).is_err());
        // One password that he knows does not help him.
        throttle.succeeded("user1");
        assert!(throttle.admit("ada", "192.0.2.1", at(0)).is_err());
        assert_eq!(throttle.admit("ada", "192.0.2.2", at(0)), Ok(()));
    }

    #[test]
    fn failures_are_forgotten_and_never_many() {
        let mut throttle = Throttle::default();
        for _ in 0..50 {
            throttle.failed("ada", "192.0.2.1", at(0));
        }
        assert_eq!(throttle.admit("ada", "192.0.2.1", at(15 * 60)), Ok(()));
        throttle.failed("ada", "192.0.2.1", at(15 * 60));
        assert_eq!(
            throttle.admit("ada", "192.0.2.1", at(15 * 60)),
            Ok(()),
            "counted anew"
        );
        for number in 0..TRACKED_MAX as u64 + 10 {
            let name = alloc::format!("{number}");
            throttle.failed(&name, &name, at(1000 + number));
        }
        assert_eq!(throttle.users.len(), TRACKED_MAX);
        assert!(!throttle.users.contains_key("ada"), "the oldest goes first");
        assert!(throttle.users.contains_key("20"));
    }
}
