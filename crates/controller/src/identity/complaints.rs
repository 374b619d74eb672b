//! What logs are told of logins that fail, where whoever reaches the port may have one fail as often as he likes.
//!
//! Invariants:
//! - so much is said in a minute, and of those who come from one machine less;
//! - what was left out is counted, and the number told with the next one.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_model::Origin;
use tokio::time::Instant;

/// How long what was said counts.
const WHILE: Duration = Duration::from_secs(60);
/// What is said within that.
const SAID_MAX: usize = 16;

/// What was said lately.
#[derive(Debug)]
pub(super) struct Complaints {
    /// What is said in a minute of those who come from one machine.
    of_one_max: usize,
    since: Option<Instant>,
    said: BTreeMap<Origin, usize>,
    left_out: u64,
}

impl Complaints {
    pub(super) const fn new(of_one_max: usize) -> Self {
        Self {
            of_one_max,
            since: None,
            said: BTreeMap::new(),
            left_out: 0,
        }
    }

    /// Whether something may be said of one who comes from there; if so, how much was not since the last that was.
    pub(super) fn may_say(&mut self, origin: Origin) -> Option<u64> {
        if self.since.is_none_or(|since| since.elapsed() >= WHILE) {
            self.since = Some(Instant::now());
            self.said.clear();
        }
        let of_one = self.said.get(&origin).copied().unwrap_or(0);
        if of_one >= self.of_one_max || self.said.values().sum::<usize>() >= SAID_MAX {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        self.said.insert(origin, of_one + 1);
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    const OF_ONE_MAX: usize = 4;

    fn from(number: u32) -> Origin {
        Origin::from(IpAddr::V4(number.into()))
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_floods_the_log_and_nobody_hides_what_another_has() {
        let mut complaints = Complaints::new(OF_ONE_MAX);
        let said = (0..100).filter(|_| complaints.may_say(from(1)).is_some());
        assert_eq!(said.count(), OF_ONE_MAX);
        assert_eq!(complaints.may_say(from(2)), Some(96));
        assert_eq!(complaints.may_say(from(2)), Some(0));
        let said = (3..1000).filter(|it| complaints.may_say(from(*it)).is_some());
        assert_eq!(said.count(), SAID_MAX - OF_ONE_MAX - 2);
        assert!(complaints.said.len() <= SAID_MAX);
        tokio::time::advance(WHILE).await;
        let left_out = 997 - (SAID_MAX - OF_ONE_MAX - 2) as u64;
        assert_eq!(complaints.may_say(from(1)), Some(left_out));
    }
}
