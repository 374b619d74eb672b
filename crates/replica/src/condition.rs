//! Why a replica leads, or does not: for people who ask what is wrong, and what is waited for.
//!
//! Invariants:
//! - nothing here changes anything, or is relied upon by anything else;
//! - a condition is of one moment: what ends by itself within a second is told as well.

use alloc::vec::Vec;

use holdfast_model::record::Membership;
use holdfast_model::{BLOCK_SIZE, NodeId};
use holdfast_stdx::Instant;

use crate::candidate::Candidate;
use crate::primary::Primary;
use crate::{Replica, Role};

/// What a replica is doing, and what keeps it from more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It leads, and serves.
    Leads,
    /// It leads, and no write is committed: these are gone, and too few copies would remain without them.
    Stuck(Vec<NodeId>),
    /// It is to lead, and serves as soon as these have what it has; nobody, if that is its own disk.
    Begins(Vec<NodeId>),
    /// It is in sync, and follows this primary.
    Follows(NodeId),
    /// It wants to lead, as soon as fewer others of this node do.
    Queued,
    /// It wants to lead, and asks how far the others are: these have not said. Or a lease has to end.
    Asks(Vec<NodeId>),
    /// It wants to lead, and lets this one go first, which is further.
    StandsBack(NodeId),
    /// It wants to lead, and its journal ended in a bad group: until it has heard these, or a while has
    /// passed, it cannot know that nothing is missing.
    Doubts(Vec<NodeId>),
    /// It wants to lead, and the metadata has to say whether it does.
    Proposes,
    /// It is being brought up to date by this node.
    Joins(NodeId),
    /// It is not in sync, and offers itself to this primary.
    Offers(NodeId),
    /// It is not in sync, and waits until there is more room on this node: what it was sent found none.
    NoRoom,
    /// Something durable is lost here: it takes part again once it was copied in full.
    Damaged,
    /// A part of it was on a device of this node that is absent: others bring it, or it is there again with the
    /// device.
    Lacks,
    /// The record means another store: the devices here were emptied, replaced or restored since.
    OtherStore,
    /// The newest record has no place for it: what is here is dropped.
    Unnamed,
    /// It knows no record of its slice, or only one from before what it took part in.
    Unrecorded,
}

impl Replica {
    /// How it stands at this moment.
    #[must_use]
    pub fn condition(&self, now: Instant) -> Condition {
        match &self.role {
            Role::Primary(primary) => condition_of_primary(now, primary),
            Role::Secondary(secondary) => Condition::Follows(secondary.primary),
            Role::Joiner(joiner) => Condition::Joins(joiner.primary),
            Role::Candidate(candidate) => self.condition_of_candidate(now, candidate),
            Role::Outside { .. } => self.condition_outside(),
        }
    }

    fn condition_of_candidate(&self, now: Instant, candidate: &Candidate) -> Condition {
        if candidate.is_queued() {
            return Condition::Queued;
        }
        if candidate.proposal.is_some() {
            return Condition::Proposes;
        }
        let fellows = self.fellows().into_iter();
        let unheard: Vec<NodeId> = fellows.filter(|node| !candidate.has_heard(*node)).collect();
        let doubts = self.suspect_until.is_some_and(|until| now < until);
        match candidate.stands_back_for {
            _ if doubts && !unheard.is_empty() => Condition::Doubts(unheard),
            Some(node) => Condition::StandsBack(node),
            None => Condition::Asks(unheard),
        }
    }

    fn condition_outside(&self) -> Condition {
        let Some(record) = &self.record else {
            return Condition::Unrecorded;
        };
        let Some(mine) = record.replica(self.me.node) else {
            return Condition::Unnamed;
        };
        if mine.store != self.me.store {
            Condition::OtherStore
        } else if self.lacks {
            Condition::Lacks
        } else if self.is_damaged() {
            Condition::Damaged
        } else if self.no_room.is_some() {
            Condition::NoRoom
        } else {
            Condition::Offers(record.primary)
        }
    }

    /// For a primary: the replicas that the record names and that are not in sync, with the bytes of
    /// blocks that each lacks; `None` if nobody can tell yet.
    pub(crate) fn lacking(&self) -> Vec<(NodeId, Option<u64>)> {
        let (Role::Primary(_), Some(record)) = (&self.role, &self.record) else {
            return Vec::new();
        };
        let away = record.replicas.iter().filter_map(|replica| {
            let (Membership::Absent { stable } | Membership::Joining { stable }) =
                replica.membership
            else {
                return None;
            };
            let mark = self.marks.get(&(replica.node, replica.store));
            let blocks = mark.and_then(|mark| mark.lacking_since(stable));
            Some((
                replica.node,
                blocks.map(|blocks| blocks * BLOCK_SIZE as u64),
            ))
        });
        away.collect()
    }
}

fn condition_of_primary(now: Instant, primary: &Primary) -> Condition {
    if !primary.is_serving() {
        return Condition::Begins(primary.not_begun());
    }
    let lost = if primary.has_spare() {
        Vec::new()
    } else {
        primary.overdue(now)
    };
    if lost.is_empty() {
        Condition::Leads
    } else {
        Condition::Stuck(lost)
    }
}
