//! What a primary tells of how it stands, and what it waits for.

use alloc::vec::Vec;

use holdfast_model::{CommandId, NodeId};
use holdfast_stdx::{Duration, Instant};

use super::Primary;
use super::member::Member;
use crate::Progress;

impl Primary {
    /// Whether nothing commits because a replica that was left out may still be read.
    pub(crate) fn waits_for_readers(&self, now: Instant) -> bool {
        now < self.commit_gate
    }

    /// Whether a replica is being brought up to date.
    pub(crate) fn is_syncing(&self) -> bool {
        self.members.values().any(Member::is_joining)
    }

    /// How long the disk here has been busy with the oldest of this slice's appends.
    pub(crate) fn append_age(&self, now: Instant) -> Duration {
        let oldest = self.unfinished.front();
        oldest.map_or(Duration::ZERO, |(_, since)| now.since(*since))
    }

    /// The replicas without which the epoch's first entry does not commit, and that do not have it.
    pub(crate) fn not_begun(&self) -> Vec<NodeId> {
        let first = self.first_entry.unwrap_or_default();
        let needed = self.needed_members();
        needed
            .filter(|(_, member)| member.acknowledged() < first)
            .map(|(node, _)| node)
            .collect()
    }

    /// The in-sync replicas that should have been heard of by now.
    pub(crate) fn overdue(&self, now: Instant) -> Vec<NodeId> {
        self.in_sync_members()
            .filter(|(_, member)| member.fails_at().is_some_and(|at| at <= now))
            .map(|(node, _)| node)
            .collect()
    }

    pub(crate) fn joining(&self) -> Vec<(NodeId, Progress)> {
        self.members
            .iter()
            .filter_map(|(node, member)| Some((*node, member.catch_up()?.progress())))
            .collect()
    }

    pub(crate) fn commands(&self) -> impl Iterator<Item = CommandId> {
        let numbered = self.pending.iter().map(|(_, command, _)| *command);
        let named = numbered.filter(|command| *command != CommandId::default());
        named.chain(self.admission.commands())
    }

    /// When the primary before it handed the slice over, or a new slice began to be led, as long as this one begins because of that.
    pub(crate) fn handed_at(&self) -> Option<Instant> {
        self.handed_at.filter(|_| !self.began || self.is_new())
    }
}
