//! How often passwords may be tried: by a user's name together with where the tries come from, by the address alone, and by the
//! name alone; and how often what has no user's name, by the address.
//!
//! After some failures each further one must wait, twice as long each time. Nobody is locked out for good: whoever tries
//! others' passwords would lock them out. For the same reason failures from elsewhere do not keep a user waiting where that one
//! has logged in before: counting by the name alone would let anybody who reaches the port keep anybody out (OWASP,
//! "Authentication Cheat Sheet" and "Blocking Brute Force Attacks"). Counting by the address alone would let whoever has many of
//! them try without an end. So the name counts, for those addresses from which it has not logged in.
//!
//! It refuses to keep from where users have logged in over a restart: that would be a list of people's addresses on a disk. Until they
//! have logged in again they wait as others do, a minute at most, and only while somebody tries their passwords.
//!
//! Invariants:
//! - failures from one address keep nobody waiting who comes from another one that knows the user;
//! - so many names and addresses are kept at most, and the one that was quiet for longest goes first;
//! - what is kept of a failure is forgotten [`FORGOTTEN_AFTER`] after the last one.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};

use holdfast_stdx::{Duration, Instant};

/// Names, addresses, and pairs of both, that are kept at a time.
pub const TRACKED_MAX: usize = 4096;
/// Failures of a user from one address that are free: people mistype.
const FREE_OF_PAIR: u32 = 5;
/// Failures from an address that are free: many people may be behind one.
const FREE_OF_ADDRESS: u32 = 20;
/// Failures of a user that are free, from wherever: who has many addresses has no more tries by that.
const FREE_OF_USER: u32 = 20;
/// The first wait.
const WAIT_FIRST: Duration = Duration::from_secs(1);
/// The longest.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// When a failure is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(15 * 60);
/// How long it is known from where a user has logged in: over holidays.
const KNOWN_FOR: Duration = Duration::from_secs(30 * 86_400);

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

/// A user's name, and an address.
type Pair = (String, String);

/// What is remembered of failures. Names are kept as they were shown, whether there is such a user or not.
#[derive(Debug, Default)]
pub struct Throttle {
    pairs: BTreeMap<Pair, Failures>,
    addresses: BTreeMap<String, Failures>,
    users: BTreeMap<String, Failures>,
    /// From where users have logged in, and when last.
    known: BTreeMap<Pair, Instant>,
}

impl Throttle {
    /// Whether a password may be tried now; else how long to wait. A name that is too long to be one is nobody's.
    ///
    /// # Errors
    /// How long.
    pub fn admit(&mut self, user: &str, address: &str, now: Instant) -> Result<(), Duration> {
        forget(&mut self.pairs, now);
        forget(&mut self.addresses, now);
        forget(&mut self.users, now);
        self.known.retain(|_, last| now < *last + KNOWN_FOR);
        let pair = (user.to_string(), address.to_string());
        let is_known = self.known.contains_key(&pair);
        let of_pair = self.pairs.get(&pair).map(|it| it.until(FREE_OF_PAIR));
        let of_address = self.addresses.get(address);
        let of_address = of_address.map(|it| it.until(FREE_OF_ADDRESS));
        let of_user = self.users.get(user).filter(|_| !is_known);
        let of_user = of_user.map(|it| it.until(FREE_OF_USER));
        allowed(of_pair.max(of_address).max(of_user), now)
    }

    /// The same of a try of which no user is known.
    ///
    /// # Errors
    /// How long to wait.
    pub fn admit_address(&mut self, address: &str, now: Instant) -> Result<(), Duration> {
        forget(&mut self.addresses, now);
        let failures = self.addresses.get(address);
        allowed(failures.map(|it| it.until(FREE_OF_ADDRESS)), now)
    }

    /// A try of which no user is known has failed.
    pub fn failed_at_address(&mut self, address: &str, now: Instant) {
        count(&mut self.addresses, address.to_string(), now);
    }

    /// The same of a user of whom something else than a password says who it is: the address counts for nothing.
    ///
    /// # Errors
    /// How long to wait.
    pub fn admit_user(&mut self, user: &str, now: Instant) -> Result<(), Duration> {
        forget(&mut self.users, now);
        let failures = self.users.get(user);
        allowed(failures.map(|it| it.until(FREE_OF_USER)), now)
    }

    /// Such a user has failed.
    pub fn failed_of_user(&mut self, user: &str, now: Instant) {
        count(&mut self.users, user.to_string(), now);
    }

    /// A try has failed.
    pub fn failed(&mut self, user: &str, address: &str, now: Instant) {
        count(
            &mut self.pairs,
            (user.to_string(), address.to_string()),
            now,
        );
        count(&mut self.addresses, address.to_string(), now);
        count(&mut self.users, user.to_string(), now);
    }

    /// A try has succeeded: the user's failures from there are forgotten. Those of the address are not, for who tries others'
    /// passwords may know one; nor those of the user from elsewhere, where somebody else may be at it.
    pub fn succeeded(&mut self, user: &str, address: &str, now: Instant) {
        let pair = (user.to_string(), address.to_string());
        self.pairs.remove(&pair);
        make_room(&mut self.known, &pair, |last| *last);
        self.known.insert(pair, now);
    }

    /// The user has another password, or is known otherwise and was let in: what was tried before counts for nothing, and from where
    /// that one logged in does neither.
    pub fn forgive(&mut self, user: &str) {
        self.users.remove(user);
        self.pairs.retain(|(name, _), _| name != user);
        self.known.retain(|(name, _), _| name != user);
    }
}

/// Forgets failures that are long past.
fn forget<K: Ord>(kept: &mut BTreeMap<K, Failures>, now: Instant) {
    kept.retain(|_, failures| now < failures.last + FORGOTTEN_AFTER);
}

/// Whether nobody waits any more; else how long.
fn allowed(until: Option<Instant>, now: Instant) -> Result<(), Duration> {
    match until {
        Some(until) if now < until => Err(until.since(now)),
        _ => Ok(()),
    }
}

fn count<K: Ord + Clone>(kept: &mut BTreeMap<K, Failures>, key: K, now: Instant) {
    make_room(kept, &key, |failures| failures.last);
    let failures = kept.entry(key).or_insert(Failures {
        count: 0,
        last: now,
    });
    failures.count = failures.count.saturating_add(1);
    failures.last = now;
}

/// Lets go of what was quiet for longest if there is no room for one more.
fn make_room<K: Ord + Clone, V>(kept: &mut BTreeMap<K, V>, key: &K, last: impl Fn(&V) -> Instant) {
    if kept.contains_key(key) || kept.len() < TRACKED_MAX {
        return;
    }
    let quiet = kept.iter().min_by_key(|(_, value)| last(value));
    let quiet = quiet.map(|(key, _)| key.clone());
    kept.remove(&quiet.expect("there are many"));
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
        // Another user is not kept waiting by it, nor is this one elsewhere.
        assert_eq!(throttle.admit("bob", "192.0.2.1", at(0)), Ok(()));
        assert_eq!(throttle.admit("ada", "192.0.2.2", at(0)), Ok(()));
        throttle.succeeded("ada", "192.0.2.1", at(60));
        assert_eq!(throttle.admit("ada", "192.0.2.1", at(60)), Ok(()));
    }

    #[test]
    fn nobody_keeps_a_user_out_where_that_one_is_known() {
        let mut throttle = Throttle::default();
        throttle.succeeded("ada", "192.0.2.1", at(0));
        for number in 0..200 {
            throttle.failed("ada", &alloc::format!("198.51.100.{number}"), at(10));
        }
        // Who has many addresses has no more tries by that.
        let wait = throttle.admit("ada", "203.0.113.1", at(10));
        assert_eq!(wait, Err(WAIT_MAX));
        assert_eq!(throttle.admit("ada", "192.0.2.1", at(10)), Ok(()));
        // That she comes in ends the wait of nobody else.
        throttle.succeeded("ada", "192.0.2.1", at(11));
        assert!(throttle.admit("ada", "203.0.113.1", at(11)).is_err());
        // From there, too, passwords are not tried without an end.
        for _ in 0..5 {
            throttle.failed("ada", "192.0.2.1", at(12));
        }
        assert!(throttle.admit("ada", "192.0.2.1", at(12)).is_err());
        throttle.forgive("ada");
        for address in ["192.0.2.1", "203.0.113.1"] {
            assert_eq!(throttle.admit("ada", address, at(12)), Ok(()));
        }
        // It is not known for ever.
        throttle.succeeded("ada", "192.0.2.1", at(12));
        assert_eq!(throttle.admit("bob", "192.0.2.1", at(31 * 86_400)), Ok(()));
        assert!(throttle.known.is_empty());
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
        throttle.succeeded("user1", "192.0.2.1", at(0));
        assert!(throttle.admit("ada", "192.0.2.1", at(0)).is_err());
        assert_eq!(throttle.admit("ada", "192.0.2.2", at(0)), Ok(()));
    }

    #[test]
    fn whoever_tries_without_a_name_waits_and_nobody_else() {
        let mut throttle = Throttle::default();
        for _ in 0..FREE_OF_ADDRESS {
            assert_eq!(throttle.admit_address("192.0.2.1", at(0)), Ok(()));
            throttle.failed_at_address("192.0.2.1", at(0));
        }
        let wait = throttle.admit_address("192.0.2.1", at(0));
        assert_eq!(wait, Err(WAIT_FIRST));
        assert_eq!(throttle.admit_address("192.0.2.2", at(0)), Ok(()));
        assert_eq!(throttle.admit_address("192.0.2.1", at(1)), Ok(()));
        throttle.failed_at_address("192.0.2.1", at(1));
        assert!(throttle.admit_address("192.0.2.1", at(2)).is_err());
        let later = at(2 + 15 * 60);
        assert_eq!(throttle.admit_address("192.0.2.1", later), Ok(()));
        assert!(throttle.addresses.is_empty());
    }

    #[test]
    fn a_user_who_is_known_otherwise_waits_and_nobody_else_from_there() {
        let mut throttle = Throttle::default();
        for _ in 0..FREE_OF_USER {
            assert_eq!(throttle.admit_user("f7c2-ada", at(0)), Ok(()));
            throttle.failed_of_user("f7c2-ada", at(0));
        }
        assert_eq!(throttle.admit_user("f7c2-ada", at(0)), Err(WAIT_FIRST));
        assert_eq!(throttle.admit_user("f7c2-bob", at(0)), Ok(()));
        assert_eq!(throttle.admit_address("192.0.2.1", at(0)), Ok(()));
        throttle.forgive("f7c2-ada");
        assert_eq!(throttle.admit_user("f7c2-ada", at(0)), Ok(()));
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
        assert_eq!(throttle.pairs.len(), TRACKED_MAX);
        for number in 0..TRACKED_MAX as u64 + 10 {
            throttle.succeeded(&alloc::format!("{number}"), "x", at(1000 + number));
        }
        assert_eq!(throttle.known.len(), TRACKED_MAX);
    }
}
