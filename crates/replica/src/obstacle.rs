//! What keeps a replica from serving at a moment: for people who ask why nothing is done.
//!
//! Invariants:
//! - nothing here changes anything, or is relied upon by anything else;
//! - a node that cannot be heard is named before what follows from that.

use holdfast_model::NodeId;
use holdfast_stdx::{Duration, Instant};

use crate::primary::Primary;
use crate::{Replica, Role};

/// A disk that has been at it for so long is worth mentioning; a metadata store that has not answered
/// for so long as well.
pub const TELLING: Duration = Duration::from_millis(50);

/// How another node seems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seeming {
    /// It cannot be reached, or says nothing.
    Lost,
    /// It speaks; its oldest append has been under way for so long.
    There {
        /// For how long.
        append_age: Duration,
    },
}

/// What is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// A node that cannot be heard.
    Node(NodeId),
    /// A lease that has to be given by a node, or to end there.
    Lease(Option<NodeId>),
    /// A node's disk.
    Media(NodeId),
    /// The metadata: a change waits for it.
    Metadata,
    /// A node owes an answer, and nothing is known to be wrong with it.
    Answer(NodeId),
}

impl Replica {
    /// What is in the way of serving now, if anything is; `seeming` tells how other nodes seem.
    pub fn obstacle(&self, now: Instant, seeming: impl Fn(NodeId) -> Seeming) -> Option<Obstacle> {
        match &self.role {
            Role::Outside { .. } | Role::Joiner(_) => None,
            Role::Secondary(secondary) => match seeming(secondary.primary) {
                Seeming::Lost => Some(Obstacle::Node(secondary.primary)),
                Seeming::There { .. } if secondary.is_heir() => {
                    Some(Obstacle::Lease(Some(secondary.primary)))
                }
                Seeming::There { .. } => None,
            },
            Role::Candidate(candidate) => {
                let asked = candidate.proposal.as_ref();
                if asked.is_some_and(|asked| now.since(asked.first_made) >= TELLING) {
                    return Some(Obstacle::Metadata);
                }
                let former = self.record.as_ref().map(|record| record.primary);
                let former = former.filter(|node| *node != self.me.node);
                Some(match former {
                    Some(node) if seeming(node) == Seeming::Lost => Obstacle::Node(node),
                    other => Obstacle::Lease(other),
                })
            }
            Role::Primary(primary) => self.obstacle_of_primary(now, primary, seeming),
        }
    }

    fn obstacle_of_primary(
        &self,
        now: Instant,
        primary: &Primary,
        seeming: impl Fn(NodeId) -> Seeming,
    ) -> Option<Obstacle> {
        let change = primary.change.as_ref();
        if change.is_some_and(|change| now.since(change.proposal.first_made) >= TELLING) {
            return Some(Obstacle::Metadata);
        }
        let needed = || primary.needed_members();
        let lost = needed().find(|(node, _)| seeming(*node) == Seeming::Lost);
        if let Some((node, _)) = lost {
            return Some(Obstacle::Node(node));
        }
        if primary.append_age(now) >= TELLING {
            return Some(Obstacle::Media(self.me.node));
        }
        let silent = needed().find(|(_, member)| member.silent_for(now) >= TELLING);
        if let Some((node, _)) = silent {
            let slow = |append_age| append_age >= TELLING;
            return Some(match seeming(node) {
                Seeming::There { append_age } if slow(append_age) => Obstacle::Media(node),
                _ => Obstacle::Answer(node),
            });
        }
        if primary.waits_for_readers(now) {
            return Some(Obstacle::Lease(None));
        }
        let ungranted = needed().find(|(_, member)| !member.grants(now));
        ungranted.map(|(node, _)| Obstacle::Lease(Some(node)))
    }
}
