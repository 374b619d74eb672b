//! What a node sees while whoever steers is away, and nobody puts down what changes.
//!
//! The nodes that keep copies of the log ask whoever steers for it all the time. One that is told nothing new any more looks itself,
//! and keeps what it sees until somebody steers again. If that is itself, it begins with telling what has changed meanwhile, and when,
//! and for how long something was bad counts for alarms; else whoever steers tells what is different then.
//!
//! Invariants:
//! - nobody looks for it while whoever steers does;
//! - so much is kept at most.

use holdfast_model::NodeId;

use super::copying::Copied;
use crate::Controller;
use crate::alarms::Heir;
use crate::view::Snapshot;

/// How everything was, at most so many times: nobody is away for longer before somebody else steers. Where it takes longer all the
/// same, what was seen last takes the place of the one before.
const SEEN_MAX: usize = 16;
/// Looks of whoever steers that are awaited: a pass may take as long as some answers do.
const MISSED_MAX: u32 = 2;

/// What one that does not steer remembers.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    /// When whoever steers last looked, as it says.
    looked: Option<(NodeId, u64)>,
    /// Times that it has said nothing new since.
    missed: u32,
    /// The oldest first.
    seen: Vec<Snapshot>,
    alarms: Heir,
}

impl Witness {
    /// Keeps up with whoever steers; or looks itself, where that does not.
    pub(crate) async fn pass(&mut self, controller: &Controller, leader: NodeId) {
        let copied = controller.copy_events(leader).await;
        if !self.has_to_look(copied, leader) {
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

    fn has_to_look(&mut self, copied: Copied, leader: NodeId) -> bool {
        match copied {
            Copied::AsOf(looked_ms) if self.looked != Some((leader, looked_ms)) => {
                *self = Self {
                    looked: Some((leader, looked_ms)),
                    ..Self::default()
                };
                false
            }
            // It has been started anew, and steers no more, or stands still.
            Copied::AsOf(_) => {
                self.missed += 1;
                self.missed >= MISSED_MAX
            }
            Copied::NoAnswer => {
                self.missed = MISSED_MAX;
                true
            }
            Copied::ByOthers => {
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
        let mut looks = |copied, leader| witness.has_to_look(copied, leader);
        assert!(!looks(Copied::AsOf(1000), leader));
        assert!(!looks(Copied::AsOf(2000), leader));
        assert!(
            !looks(Copied::AsOf(2000), leader),
            "its pass may take longer"
        );
        assert!(!looks(Copied::AsOf(3000), leader));
        assert!(looks(Copied::NoAnswer, leader), "it is lost");
        assert!(
            looks(Copied::AsOf(3000), leader),
            "it is back, and steers no more"
        );
        assert!(!looks(Copied::AsOf(4000), leader), "it steers");
        assert!(!looks(Copied::AsOf(4000), leader));
        assert!(looks(Copied::AsOf(4000), leader), "it stands still");
        assert!(!looks(Copied::AsOf(900), other), "another one steers");
        assert!(!looks(Copied::ByOthers, other));
    }
}
