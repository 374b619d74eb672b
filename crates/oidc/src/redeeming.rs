//! Which codes are redeemed just now, and for whom; and which logins have had theirs.
//!
//! Whoever reaches the port may begin a login and bring any code back, and each costs a question to the provider. So one who
//! does that over and over must neither have all the places, nor ask the provider without an end.
//!
//! Whose code is no good is told to whoever counts guesses ([`LoginError::is_guess`]). What the provider, or what is configured, is to
//! blame for is nobody's guess, and keeps nobody waiting for long: behind a proxy all come from one machine. It is only paced.
//!
//! Invariants:
//! - a login, as its state names it, is redeemed once here, whatever came of that;
//! - of questions that came to nothing, or that nobody waited for, one in [`FRUITLESS_PAUSE`] is asked for those who come from one
//!   machine, after [`FRUITLESS_MAX`] at once;
//! - [`REDEEMED_MAX`] codes are redeemed at a time, [`OF_ONE_MAX`] for those who come from one machine;
//! - what is remembered is bounded, by number and by time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holdfast_model::Origin;
use tokio::time::Instant;

use crate::error::LoginError;
use crate::ticket::TICKET_LIFETIME;

/// Codes that are redeemed at a time.
pub(crate) const REDEEMED_MAX: usize = 16;
/// Of these for who comes from one machine, or through one proxy: a provider that answers within 50 ms lets in eighty in a second.
pub(crate) const OF_ONE_MAX: usize = 4;
/// Questions that may come to nothing without a pause, of those who come from one machine: users try again.
pub(crate) const FRUITLESS_MAX: u32 = 16;
/// What there is between them from then on. When the provider is well again, somebody waits that long at most.
pub(crate) const FRUITLESS_PAUSE: Duration = Duration::from_secs(1);
/// Machines of which that is known. Each is forgotten after [`FRUITLESS_MAX`] pauses; the one that would be soonest goes first.
const PACED_MAX: usize = 4096;
/// Logins that are known to have been ended: so many within ten minutes, and the oldest goes before its time.
const ENDED_MAX: usize = 4096;

/// What is being redeemed, and what was.
#[derive(Debug, Default)]
pub(crate) struct Redeeming(Mutex<Places>);

#[derive(Debug, Default)]
struct Places {
    taken: BTreeMap<Origin, usize>,
    /// When what came to nothing is forgotten: a pause later for each.
    fruitless: BTreeMap<Origin, Instant>,
    /// The states of logins that have had their try, from the oldest, and when that was.
    ended: VecDeque<(String, Instant)>,
}

/// A place, until it is let go.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    of: &'a Redeeming,
    origin: Origin,
    is_fruitless: bool,
}

impl Place<'_> {
    /// The provider has done its part, whether somebody is let in or not. Else the question has come to nothing.
    pub(crate) const fn bears_fruit(&mut self) {
        self.is_fruitless = false;
    }
}

impl Redeeming {
    /// Takes a place for the login of that state, which has no other try from then on.
    ///
    /// # Errors
    /// [`LoginError::Ended`], [`LoginError::Busy`].
    pub(crate) fn take(&self, state: &str, origin: Origin) -> Result<Place<'_>, LoginError> {
        let mut places = self.places();
        let now = Instant::now();
        let is_over = |ended: &(String, Instant)| now.duration_since(ended.1) >= TICKET_LIFETIME;
        while places.ended.front().is_some_and(is_over) {
            places.ended.pop_front();
        }
        if places.ended.iter().any(|(ended, _)| ended == state) {
            return Err(LoginError::Ended);
        }
        let of_one = places.taken.get(&origin).copied().unwrap_or(0);
        if of_one >= OF_ONE_MAX || places.taken.values().sum::<usize>() >= REDEEMED_MAX {
            return Err(LoginError::Busy);
        }
        places.fruitless.retain(|_, forgotten| *forgotten > now);
        let forgotten = places.fruitless.get(&origin);
        if forgotten.is_some_and(|it| *it > now + FRUITLESS_PAUSE * (FRUITLESS_MAX - 1)) {
            return Err(LoginError::Busy);
        }
        places.taken.insert(origin, of_one + 1);
        if places.ended.len() >= ENDED_MAX {
            places.ended.pop_front();
        }
        places.ended.push_back((state.to_owned(), now));
        Ok(Place {
            of: self,
            origin,
            is_fruitless: true,
        })
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    /// One more question for that one has come to nothing.
    fn pace(&mut self, origin: Origin) {
        let now = Instant::now();
        if !self.fruitless.contains_key(&origin) && self.fruitless.len() >= PACED_MAX {
            let soonest = self
                .fruitless
                .iter()
                .min_by_key(|(_, forgotten)| **forgotten);
            let soonest = *soonest.expect("there are many").0;
            self.fruitless.remove(&soonest);
        }
        let forgotten = self.fruitless.entry(origin).or_insert(now);
        *forgotten = (*forgotten).max(now) + FRUITLESS_PAUSE;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut places = self.of.places();
        let left = places.taken.get_mut(&self.origin);
        let left = left.expect("who has a place is counted");
        *left -= 1;
        if *left == 0 {
            places.taken.remove(&self.origin);
        }
        if self.is_fruitless {
            places.pace(self.origin);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn from(number: u32) -> Origin {
        Origin::from(IpAddr::V4(number.into()))
    }

    #[tokio::test]
    async fn who_takes_all_that_he_gets_leaves_places_to_others() {
        let redeeming = Redeeming::default();
        let mut places = Vec::new();
        for number in 0..OF_ONE_MAX {
            places.push(redeeming.take(&format!("mine {number}"), from(1)).unwrap());
        }
        let more = redeeming.take("mine", from(1));
        assert!(matches!(more, Err(LoginError::Busy)));
        for number in places.len()..REDEEMED_MAX {
            let origin = from(2 + number as u32);
            places.push(redeeming.take(&format!("theirs {number}"), origin).unwrap());
        }
        let all = redeeming.take("one more", from(99));
        assert!(matches!(all, Err(LoginError::Busy)));
        // Who was too many may try again, with the same login.
        drop(places.pop());
        redeeming.take("one more", from(99)).unwrap();
        places.clear();
        assert!(redeeming.places().taken.is_empty());
    }

    /// A question for one who comes from there, whose login has another state each time.
    fn asks(redeeming: &Redeeming, origin: Origin, is_fruitless: bool) -> bool {
        static LOGINS: AtomicUsize = AtomicUsize::new(0);
        let login = LOGINS.fetch_add(1, Ordering::Relaxed);
        let Ok(mut place) = redeeming.take(&format!("login {login}"), origin) else {
            return false;
        };
        if !is_fruitless {
            place.bears_fruit();
        }
        true
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_to_nothing_is_paced_and_keeps_nobody_waiting_for_long() {
        let redeeming = Redeeming::default();
        // What bears fruit counts for nothing.
        assert!((0..100).all(|_| asks(&redeeming, from(1), false)));
        let asked = (0..100).filter(|_| asks(&redeeming, from(1), true));
        assert_eq!(asked.count(), FRUITLESS_MAX as usize);
        assert!(asks(&redeeming, from(2), true), "nobody else is paced");
        // However long the provider is down: one each second, and none waits for longer.
        for _ in 0..3600 {
            tokio::time::advance(FRUITLESS_PAUSE).await;
            assert!(asks(&redeeming, from(1), true));
            assert!(!asks(&redeeming, from(1), true));
        }
        tokio::time::advance(FRUITLESS_PAUSE).await;
        assert!((0..100).all(|_| asks(&redeeming, from(1), false)));
        tokio::time::advance(FRUITLESS_PAUSE * FRUITLESS_MAX).await;
        assert!(asks(&redeeming, from(3), true));
        assert_eq!(
            redeeming.places().fruitless.len(),
            1,
            "others are forgotten"
        );
        for number in 0..PACED_MAX as u32 + 10 {
            assert!(asks(&redeeming, from(number), true));
        }
        assert_eq!(redeeming.places().fruitless.len(), PACED_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_login_has_one_try_and_what_is_remembered_is_bounded() {
        let redeeming = Redeeming::default();
        drop(redeeming.take("a", from(1)).unwrap());
        for origin in [1, 2] {
            let again = redeeming.take("a", from(origin));
            assert!(matches!(again, Err(LoginError::Ended)));
        }
        tokio::time::advance(TICKET_LIFETIME).await;
        drop(redeeming.take("b", from(1)).unwrap());
        assert_eq!(redeeming.places().ended.len(), 1, "the ticket has ended");
        for number in 0..ENDED_MAX + 10 {
            redeeming
                .take(&number.to_string(), from(1))
                .unwrap()
                .bears_fruit();
        }
        assert_eq!(redeeming.places().ended.len(), ENDED_MAX);
        tokio::time::advance(Duration::from_secs(1)).await;
        let last = redeeming.take("9", from(1));
        assert!(last.is_ok(), "the oldest goes first");
    }
}
