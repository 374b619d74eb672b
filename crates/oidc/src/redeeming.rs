//! Which codes are redeemed just now, and for whom; and which logins have had theirs.
//!
//! Whoever reaches the port may begin a login and bring any code back, and each costs a question to the provider. So one who
//! does that over and over must neither have all the places, nor ask the provider without an end.
//!
//! Invariants:
//! - a login, as its state names it, is redeemed once here, whatever came of that;
//! - [`REDEEMED_MAX`] codes are redeemed at a time, [`OF_ONE_MAX`] for those who come from one machine;
//! - what is remembered is bounded, by number and by time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use holdfast_model::Origin;
use tokio::time::Instant;

use crate::error::LoginError;
use crate::ticket::TICKET_LIFETIME;

/// Codes that are redeemed at a time.
pub(crate) const REDEEMED_MAX: usize = 16;
/// Of these for who comes from one machine, or through one proxy: a provider that answers within 50 ms lets in eighty in a second.
pub(crate) const OF_ONE_MAX: usize = 4;
/// Logins that are known to have been ended: so many within ten minutes, and the oldest goes before its time.
const ENDED_MAX: usize = 4096;

/// What is being redeemed, and what was.
#[derive(Debug, Default)]
pub(crate) struct Redeeming(Mutex<Places>);

#[derive(Debug, Default)]
struct Places {
    taken: BTreeMap<Origin, usize>,
    /// The states of logins that have had their try, from the oldest, and when that was.
    ended: VecDeque<(String, Instant)>,
}

/// A place, until it is let go.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    of: &'a Redeeming,
    origin: Origin,
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
        places.taken.insert(origin, of_one + 1);
        if places.ended.len() >= ENDED_MAX {
            places.ended.pop_front();
        }
        places.ended.push_back((state.to_owned(), now));
        Ok(Place { of: self, origin })
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Duration;

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
            drop(redeeming.take(&number.to_string(), from(1)).unwrap());
        }
        assert_eq!(redeeming.places().ended.len(), ENDED_MAX);
        tokio::time::advance(Duration::from_secs(1)).await;
        let last = redeeming.take("9", from(1));
        assert!(last.is_ok(), "the oldest goes first");
    }
}
