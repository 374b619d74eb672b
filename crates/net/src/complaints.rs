//! What goes wrong with a peer is said once, not with every attempt.

use std::collections::HashMap;
use std::fmt::Display;

use holdfast_model::NodeId;
use tokio::time::Instant;

use crate::limits::COMPLAINT_PAUSE;

/// Different complaints remembered about one peer; the oldest is forgotten first.
const REMEMBERED_MAX: usize = 8;

/// What was said lately, and about whom. Connections that did not say who they are share a place.
#[derive(Default)]
pub(crate) struct Complaints {
    said: HashMap<Option<NodeId>, Vec<(String, Instant)>>,
}

impl Complaints {
    /// Whether `cause` was not said about this peer for a while; then it is now.
    pub(crate) fn is_news(&mut self, about: Option<NodeId>, cause: &impl Display) -> bool {
        let now = Instant::now();
        let text = cause.to_string();
        let said = self.said.entry(about).or_default();
        said.retain(|(_, when)| now - *when < COMPLAINT_PAUSE);
        if said.iter().any(|(before, _)| *before == text) {
            return false;
        }
        if said.len() == REMEMBERED_MAX {
            said.remove(0);
        }
        said.push((text, now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_cause_is_news_once() {
        let mut complaints = Complaints::default();
        let peer = Some(NodeId(2));
        assert!(complaints.is_news(peer, &"refused"));
        assert!(!complaints.is_news(peer, &"refused"));
        assert!(complaints.is_news(peer, &"timed out"));
        assert!(complaints.is_news(None, &"refused"));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut complaints = Complaints::default();
        for number in 0..100 {
            assert!(complaints.is_news(None, &number));
        }
        assert_eq!(complaints.said[&None].len(), REMEMBERED_MAX);
    }
}
