//! What a node sees while whoever steers is away, and nobody puts down what changes.
//!
//! The nodes that keep copies of the log ask whoever steers for it all the time. One that is told nothing new any more looks itself,
//! and keeps what it sees until somebody steers again. If that is itself, it begins with telling what has changed meanwhile, and when,
//! and for how long something was bad counts for alarms; else whoever steers tells what is different then.
//!
//! Invariants:
//! - nobody looks for it while whoever steers does;
//! - so much is kept at most.

use std::time::Duration;

use holdfast_model::NodeId;
use tokio::time::Instant;

use super::copying::Copied;
use crate::Controller;
use crate::alarms::Heir;
use crate::view::Snapshot;

/// How everything was, at most so many times: nobody is away for longer before somebody else steers. Where it takes longer all the
/// same, what was seen last takes the place of the one before.
const SEEN_MAX: usize = 16;
/// For how long a look of whoever steers is awaited that answers: as many times as there were between its last two, and so long at
/// least. It rests longer after passes that take longer.
const AWAITED_TIMES: u32 = 3;
const AWAITED_MIN: Duration = Duration::from_secs(3);

/// What one that does not steer remembers.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    last: Option<LastLook>,
    /// Whoever steers did not answer since.
    is_silent: bool,
    /// The oldest first.
    seen: Vec<Snapshot>,
    alarms: Heir,
}

/// The last look of whoever steers that is known here.
#[derive(Clone, Copy, Debug)]
struct LastLook {
    leader: NodeId,
    /// When it was, as it says: milliseconds since 1970 (UTC).
    looked_ms: u64,
    /// When that was first heard.
    heard: Instant,
    /// How long it was between that and the one before.
    between: Duration,
}

impl LastLook {
    fn is_overdue(&self, now: Instant) -> bool {
        let awaited = (self.between * AWAITED_TIMES).max(AWAITED_MIN);
        now.duration_since(self.heard) >= awaited
    }
}

impl Witness {
    /// Keeps up with whoever steers; or looks itself, where that does not.
    pub(crate) async fn pass(&mut self, controller: &Controller, leader: NodeId) {
        let copied = controller.copy_events(leader).await;
        if !self.has_to_look(copied, leader, Instant::now()) {
            return;
        }
        let (inventory, reports) = match controller.read_all().await {
            Ok(seen) => seen,
            Err(problem) => {
                tracing::debug!(%problem, "look at the cluster while nobody steers");
                return;
            }
        };
        if !controller.has_gone_back(inventory.revision) {
            self.keep(Snapshot::of(&inventory, &reports));
            self.alarms.look(controller, &inventory, &reports).await;
        }
    }

    fn has_to_look(&mut self, copied: Copied, leader: NodeId, now: Instant) -> bool {
        let last = self.last.filter(|last| last.leader == leader);
        match (copied, last) {
            // What was told before its start is told by one that was started anew, too.
            (Copied::AsOf(looked_ms), Some(last)) if looked_ms <= last.looked_ms => {
                self.is_silent || last.is_overdue(now)
            }
            (Copied::AsOf(looked_ms), last) => {
                let between = last.map(|last| now.duration_since(last.heard));
                *self = Self {
                    last: Some(LastLook {
                        leader,
                        looked_ms,
                        heard: now,
                        between: between.unwrap_or_default(),
                    }),
                    ..Self::default()
                };
                false
            }
            (Copied::NoAnswer, _) => {
                self.is_silent = true;
                true
            }
            (Copied::ByOthers, _) => {
                *self = Self::default();
                false
            }
        }
    }

    fn keep(&mut self, seen: Snapshot) {
        if self.seen.len() >= SEEN_MAX {
            self.seen.pop();
        }
        self.seen.push(seen);
    }

    /// How everything was while nobody put anything down, the oldest first, and what was bad.
    pub(crate) fn into_parts(self) -> (Vec<Snapshot>, Heir) {
        (self.seen, self.alarms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_looked_while_whoever_steers_does_not() {
        let (leader, other) = (NodeId(1), NodeId(2));
        let mut witness = Witness::default();
        let start = Instant::now();
        let mut looks = |copied, leader, seconds| {
            witness.has_to_look(copied, leader, start + Duration::from_secs(seconds))
        };
        assert!(!looks(Copied::AsOf(1000), leader, 1));
        assert!(!looks(Copied::AsOf(2000), leader, 2));
        assert!(!looks(Copied::AsOf(2000), leader, 4), "it may take longer");
        assert!(!looks(Copied::AsOf(3000), leader, 4));
        assert!(looks(Copied::NoAnswer, leader, 5), "it is lost");
        let what = "it is back, and steers no more";
        assert!(looks(Copied::AsOf(3000), leader, 6), "{what}");
        assert!(
            looks(Copied::AsOf(2500), leader, 7),
            "{what}, nor knows all"
        );
        assert!(!looks(Copied::AsOf(9000), leader, 8), "it steers");
        // It was four seconds between its looks.
        assert!(!looks(Copied::AsOf(9000), leader, 19));
        assert!(looks(Copied::AsOf(9000), leader, 20), "it stands still");
        assert!(!looks(Copied::AsOf(900), other, 21), "another one steers");
        assert!(!looks(Copied::AsOf(900), other, 23));
        assert!(looks(Copied::AsOf(900), other, 24));
        assert!(!looks(Copied::ByOthers, other, 25));
    }
}
