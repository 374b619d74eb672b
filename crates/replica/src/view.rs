//! What a replica says of itself: to its node, for routing, and for people.
//!
//! Invariant: nothing here changes anything.

use alloc::vec::Vec;

use holdfast_model::record::SliceRecord;
use holdfast_model::{CommandId, Epoch, NodeId};
use holdfast_stdx::{Duration, Instant};

use crate::{Condition, Progress, Replica, Role};

/// How a replica stands, for people and for routing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The slice's epoch, as far as it is known here.
    pub epoch: Epoch,
    /// Whether this replica leads and serves.
    pub leads: bool,
    /// For replicas that are being brought up to date from here: who, and how far they are.
    pub joining: Vec<(NodeId, Progress)>,
    /// For a primary: the replicas that are not in sync, with the bytes of blocks that each lacks, those
    /// that join among them; `None` if nobody can tell yet.
    pub lacking: Vec<(NodeId, Option<u64>)>,
    /// What it is doing, and what keeps it from more.
    pub condition: Condition,
    /// For how long it has been about to lead what nobody misses yet, because the primary before it hands the slice over while all
    /// is well, from when the record names this one, and anew from when that one has stopped; or because nobody has ever led it.
    /// Nothing where it is not.
    pub handed: Option<Duration>,
}

impl Replica {
    /// Whether a read that is planned now may be answered from the committed contents here. A
    /// secondary must see to it that none of the blocks has an entry not known to be committed.
    #[must_use]
    pub fn may_read(&self, now: Instant) -> bool {
        match &self.role {
            Role::Primary(primary) => primary.may_read(now),
            Role::Secondary(secondary) => secondary.may_read(now),
            _ => false,
        }
    }

    /// Whether this replica leads, and its epoch.
    #[must_use]
    pub fn leads(&self) -> Option<Epoch> {
        match &self.role {
            Role::Primary(primary) if primary.is_serving() => Some(primary.epoch),
            _ => None,
        }
    }

    /// Whether changes may be submitted here: this replica leads, or will in a moment.
    #[must_use]
    pub fn takes_writes(&self) -> bool {
        match &self.role {
            Role::Primary(primary) => primary.takes_writes(),
            Role::Secondary(secondary) => secondary.is_heir(),
            _ => false,
        }
    }

    /// The epoch in which this replica is in sync and has begun.
    #[must_use]
    pub fn in_sync_epoch(&self) -> Option<Epoch> {
        match &self.role {
            Role::Primary(primary) if primary.is_serving() => Some(primary.epoch),
            Role::Secondary(secondary) if secondary.begun => Some(secondary.epoch),
            _ => None,
        }
    }

    /// Whether this replica leads, and brings another one up to date.
    #[must_use]
    pub fn is_syncing(&self) -> bool {
        matches!(&self.role, Role::Primary(primary) if primary.is_syncing())
    }

    /// Whether this replica is on its way to lead: from its withdrawal until its epoch's first entry is
    /// committed.
    #[must_use]
    pub fn is_taking_over(&self) -> bool {
        match &self.role {
            Role::Candidate(candidate) => !candidate.is_queued(),
            Role::Primary(primary) => primary.is_new() && !self.stopping,
            _ => false,
        }
    }

    /// Whether this replica leads in an epoch whose first entry is not committed yet.
    #[must_use]
    pub fn begins_to_lead(&self) -> bool {
        matches!(&self.role, Role::Primary(primary) if !primary.is_serving())
    }

    /// Whether this replica wants to lead as soon as it may, or will if its primary is lost.
    #[must_use]
    pub fn may_have_to_stand(&self) -> bool {
        match &self.role {
            Role::Candidate(candidate) => candidate.is_queued(),
            Role::Secondary(_) => true,
            _ => false,
        }
    }

    /// The other in-sync replicas' nodes, as the record names them.
    #[must_use]
    pub fn fellows(&self) -> Vec<NodeId> {
        let record = self.record.iter();
        record
            .flat_map(SliceRecord::in_sync)
            .filter(|node| *node != self.me.node)
            .collect()
    }

    /// The nodes whose replicas this one brings up to date.
    #[must_use]
    pub fn joiners(&self) -> Vec<NodeId> {
        match &self.role {
            Role::Primary(primary) => primary.joining().iter().map(|(node, _)| *node).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether this replica joins under a primary, in an epoch that has begun here.
    #[must_use]
    pub fn joins_under(&self, primary: NodeId, epoch: Epoch) -> bool {
        matches!(&self.role, Role::Joiner(joiner)
            if joiner.begun && joiner.primary == primary && joiner.epoch == epoch)
    }

    /// The commands that this replica has been asked to do, or has numbered, and that have not
    /// ended.
    #[must_use]
    pub fn commands(&self) -> Vec<CommandId> {
        let early = self.early.iter().map(|operation| operation.terms.command);
        match &self.role {
            Role::Primary(primary) => primary.commands().chain(early).collect(),
            _ => early.collect(),
        }
    }

    fn handed(&self, now: Instant) -> Option<Duration> {
        let since = match &self.role {
            Role::Secondary(secondary) => secondary.heir_since,
            Role::Candidate(candidate) => candidate.made_at,
            Role::Primary(primary) => primary.handed_at(),
            _ => None,
        };
        since.map(|since| now.since(since))
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self, now: Instant) -> Status {
        let joining = match &self.role {
            Role::Primary(primary) => primary.joining(),
            _ => Vec::new(),
        };
        let epoch = self
            .record
            .as_ref()
            .map_or(Epoch::ZERO, |record| record.epoch);
        Status {
            epoch,
            leads: self.leads().is_some(),
            joining,
            lacking: self.lacking(),
            condition: self.condition(now),
            handed: self.handed(now),
        }
    }
}
