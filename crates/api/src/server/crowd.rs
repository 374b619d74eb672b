//! What is said of connections that have to go for others.
//!
//! Invariant: of each kind it is said once in [`COMPLAINT_PAUSE`] at most, and then how many have gone since.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use holdfast_model::Origin;
use tokio::time::Instant;

use super::places::{NODES_MAX, UNPROVEN_OF_ORIGIN_MAX};

/// How often it is said at most that somebody has to go.
const COMPLAINT_PAUSE: Duration = Duration::from_secs(60);

/// Those that have gone.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    pub(super) unproven: Gone,
    pub(super) nodes: Gone,
}

/// Those of a kind.
#[derive(Debug, Default)]
pub(super) struct Gone(Mutex<Said>);

#[derive(Debug, Default)]
struct Said {
    last: Option<Instant>,
    /// How many have gone since, without a word.
    left_out: u64,
}

impl Crowd {
    /// One that had not shown who it is was closed, for others.
    pub(super) fn note_unproven(&self, origin: Origin) {
        if let Some(left_out) = self.unproven.count(Instant::now()) {
            tracing::warn!(
                left_out,
                "more API connections of {origin} than {UNPROVEN_OF_ORIGIN_MAX}, or than fit, are there without having shown who they are: the \
                 oldest was closed. Keep what does not belong there from `api.listen`"
            );
        }
    }

    /// One of a node was closed, for another node's.
    pub(super) fn note_node(&self, origin: Origin) {
        if let Some(left_out) = self.nodes.count(Instant::now()) {
            tracing::warn!(
                left_out,
                "more than {NODES_MAX} API connections of nodes are there at once, and none has ended for a while: the oldest of {origin} was \
                 closed, and what it asked is asked again"
            );
        }
    }
}

impl Gone {
    /// Counts one. If it is to be said, how many others have gone without a word.
    fn count(&self, now: Instant) -> Option<u64> {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rests = |last: Instant| now.duration_since(last) < COMPLAINT_PAUSE;
        if said.last.is_some_and(rests) {
            said.left_out += 1;
            return None;
        }
        said.last = Some(now);
        Some(std::mem::take(&mut said.left_out))
    }

    /// How many have gone since the first one, which was told of, as long as that is not told anew.
    #[cfg(test)]
    pub(super) fn counted(&self) -> u64 {
        let said = self.0.lock().unwrap();
        u64::from(said.last.is_some()) + said.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_once_in_a_while_and_how_many_were_left_out() {
        let (gone, begun) = (Gone::default(), Instant::now());
        assert_eq!(gone.count(begun), Some(0));
        let later = begun + COMPLAINT_PAUSE / 2;
        assert_eq!((gone.count(later), gone.count(later)), (None, None));
        assert_eq!(gone.counted(), 3);
        assert_eq!(gone.count(begun + COMPLAINT_PAUSE), Some(2));
    }
}
