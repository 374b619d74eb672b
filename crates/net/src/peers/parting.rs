//! Lanes that this node ends: with TLS each says so, in the place of what still waits to be sent, so that the other end can tell it
//! from one that was cut on the way. Without TLS there is no such word, and they are closed as they are.
//!
//! Invariants:
//! - what comes over them is dropped;
//! - they are bounded, in number and in time.

use std::rc::Rc;

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::lane::LaneEnd;
use crate::limits::{LAST_WORDS_TIME_MAX, PARTINGS_MAX};
use crate::stream::Stream;

/// Whether the other end is told that a link ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// By a word that whoever is on the way does not have.
    Said,
    /// It is over already.
    Unsaid,
}

impl Word {
    pub(crate) fn of(end: &LaneEnd) -> Self {
        match end {
            LaneEnd::Closed | LaneEnd::Wire(_) | LaneEnd::Full => Self::Said,
            LaneEnd::CutOff | LaneEnd::Socket(_) | LaneEnd::Sealed(_) => Self::Unsaid,
        }
    }
}

/// Those that have not ended yet.
#[derive(Default)]
pub(crate) struct Partings(JoinSet<()>);

impl Partings {
    /// Ends this lane, which nobody else uses any more.
    pub(crate) fn part(&mut self, stream: Rc<Stream>) {
        while self.0.try_join_next().is_some() {}
        if !stream.is_sealed() || self.0.len() >= PARTINGS_MAX {
            return;
        }
        self.0.spawn_local(async move {
            // Who does not hear it in time sees an end without a word.
            let _ = timeout(LAST_WORDS_TIME_MAX, stream.part()).await;
        });
    }

    /// Waits until all have ended.
    pub(crate) async fn ended(&mut self) {
        while self.0.join_next().await.is_some() {}
    }
}
