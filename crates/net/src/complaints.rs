//! What goes wrong with a peer is said once, not with every attempt; and what strangers do neither fills the log, nor keeps what
//! is wrong with a node out of it.
//!
//! Invariants:
//! - nobody is complained of more often than a bound within a while, whatever is different in the complaints, and strangers
//!   together no more often than another;
//! - what was left out is counted, and the number told with the next complaint;
//! - what is remembered is bounded: by the nodes that there are, and for the others by a number.

use std::collections::HashMap;
use std::fmt::{self, Display};
use std::mem::discriminant;
use std::net::IpAddr;

use holdfast_model::{NodeId, Origin};
use tokio::time::Instant;

use crate::limits::COMPLAINT_PAUSE;

/// Different complaints about one in a while.
const OF_ONE_MAX: usize = 8;
/// Complaints about all strangers in a while.
const OF_STRANGERS_MAX: usize = 16;
/// Addresses where nodes are that are remembered, beside the nodes themselves: those of a cluster of 64 nodes, and some.
const PLACES_MAX: usize = 128;

/// Who something is said about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum About {
    /// A node that this one dials or has a link to.
    Peer(NodeId),
    /// Whoever connects from where a node is.
    Place(Origin),
    /// Whoever connects from elsewhere.
    Stranger(Origin),
}

/// What was said lately, and about whom.
#[derive(Default)]
pub(crate) struct Complaints {
    said: HashMap<About, Vec<(String, Instant)>>,
    /// When something was said about strangers.
    strangers: Vec<Instant>,
    /// What was new and was not said, since the last time that something was.
    left_out: u64,
}

/// Something may be said; with it, how much was not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct News {
    left_out: u64,
}

impl About {
    /// Whoever connects from an address; whether a node is known to be there.
    pub(crate) fn address(from: IpAddr, is_known: bool) -> Self {
        if is_known {
            Self::Place(from.into())
        } else {
            Self::Stranger(from.into())
        }
    }
}

impl Complaints {
    /// Whether `cause` was not said for a while, and may be: then it is now.
    pub(crate) fn is_news(&mut self, about: About, cause: &impl Display) -> Option<News> {
        let now = Instant::now();
        let is_recent = |when: &Instant| now - *when < COMPLAINT_PAUSE;
        let text = cause.to_string();
        if let Some(said) = self.said.get_mut(&about) {
            said.retain(|(_, when)| is_recent(when));
            if said.iter().any(|(before, _)| *before == text) {
                return None;
            }
        }
        if !self.has_room(about, now) {
            self.left_out += 1;
            return None;
        }
        if let About::Stranger(_) = about {
            self.strangers.push(now);
        }
        self.said.entry(about).or_default().push((text, now));
        let left_out = std::mem::take(&mut self.left_out);
        Some(News { left_out })
    }

    /// Whether one more may be said about them now.
    fn has_room(&mut self, about: About, now: Instant) -> bool {
        let is_recent = |when: &Instant| now - *when < COMPLAINT_PAUSE;
        if self.said.get(&about).map_or(0, Vec::len) >= OF_ONE_MAX {
            return false;
        }
        let max = match about {
            About::Peer(_) => return true,
            About::Place(_) => PLACES_MAX,
            About::Stranger(_) => {
                self.strangers.retain(is_recent);
                if self.strangers.len() >= OF_STRANGERS_MAX {
                    return false;
                }
                OF_STRANGERS_MAX
            }
        };
        self.said.contains_key(&about) || self.make_room(about, max, now)
    }

    /// Forgets, of those of the same kind, whoever has been quiet for a while, if there are as many as there may be; whether there
    /// are fewer now.
    fn make_room(&mut self, like: About, max: usize, now: Instant) -> bool {
        let is_kind = |it: &About| discriminant(it) == discriminant(&like);
        let count = |said: &HashMap<About, _>| said.keys().filter(|it| is_kind(it)).count();
        if count(&self.said) < max {
            return true;
        }
        self.said.retain(|about, said| {
            said.retain(|(_, when)| now - *when < COMPLAINT_PAUSE);
            !is_kind(about) || !said.is_empty()
        });
        count(&self.said) < max
    }
}

impl Display for News {
    /// What is put behind the complaint.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.left_out {
            0 => Ok(()),
            count => write!(formatter, " (left out before: {count} others)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stranger(number: u32) -> About {
        About::address(IpAddr::V4(number.into()), false)
    }

    #[test]
    fn the_same_cause_is_news_once() {
        let mut complaints = Complaints::default();
        let peer = About::Peer(NodeId(2));
        assert!(complaints.is_news(peer, &"refused").is_some());
        assert!(complaints.is_news(peer, &"refused").is_none());
        assert!(complaints.is_news(peer, &"timed out").is_some());
        assert!(complaints.is_news(stranger(1), &"refused").is_some());
        assert!(complaints.is_news(stranger(2), &"refused").is_some());
        assert!(complaints.is_news(stranger(1), &"refused").is_none());
    }

    /// Whoever says something else each time is a flood as well.
    #[test]
    fn one_address_is_complained_of_so_often_and_does_not_hide_another() {
        let mut complaints = Complaints::default();
        let said = (0..100).filter(|it| complaints.is_news(stranger(1), it).is_some());
        assert_eq!(said.count(), OF_ONE_MAX);
        let news = complaints.is_news(stranger(2), &"expired").unwrap();
        let left_out = 100 - OF_ONE_MAX as u64;
        assert_eq!(news, News { left_out });
        let text = format!("expired{news}");
        assert_eq!(text, "expired (left out before: 92 others)");
        assert_eq!(
            complaints.is_news(stranger(2), &"other"),
            Some(News { left_out: 0 })
        );
    }

    #[test]
    fn strangers_neither_flood_the_log_nor_hide_what_is_wrong_with_nodes() {
        let mut complaints = Complaints::default();
        let said = (0..10_000).filter(|it| complaints.is_news(stranger(*it), it).is_some());
        assert_eq!(said.count(), OF_STRANGERS_MAX);
        let known = About::address(IpAddr::V4(7.into()), true);
        assert!(complaints.is_news(known, &"expired").is_some());
        assert!(
            complaints
                .is_news(About::Peer(NodeId(1)), &"expired")
                .is_some()
        );
        let remembered: usize = complaints.said.values().map(Vec::len).sum();
        assert_eq!(remembered, OF_STRANGERS_MAX + 2);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_forgotten() {
        let mut complaints = Complaints::default();
        for number in 0..1000_u32 {
            let place = About::address(IpAddr::V4(number.into()), true);
            let _ = complaints.is_news(place, &"refused");
        }
        assert_eq!(complaints.said.len(), PLACES_MAX);
        let past = Instant::now() - COMPLAINT_PAUSE;
        for (_, when) in complaints.said.values_mut().flatten() {
            *when = past;
        }
        let place = About::address(IpAddr::V4(5000.into()), true);
        assert!(complaints.is_news(place, &"refused").is_some());
        assert_eq!(complaints.said.len(), 1);
    }
}
