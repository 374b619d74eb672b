//! What the primary knows of another replica, and the stream of entries to it.
//!
//! Invariants:
//! - nothing is sent to a member before it has begun the epoch on the link that is up now;
//! - what it acknowledged in an earlier epoch, or over an earlier link, does not count.

use holdfast_model::record::{Record, SliceRecord};
use holdfast_model::{Entry, Epoch, Incarnation, NodeId, Sequence, StoreId};
use holdfast_stdx::{Duration, Instant};
use holdfast_wire::{Begin, Prepare, Prepared, Refused, Role as BeginRole};

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::catch_up::CatchUp;
use crate::timing::{LINK_DOWN, SILENT};
use crate::{Context, Replica, Role};

/// What the member is to be.
#[derive(Debug)]
enum Part {
    InSync,
    Joining(CatchUp),
}

/// How far the stream to it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    /// The link is down.
    Down { since: Instant },
    /// It was told to begin the epoch.
    Greeted {
        since: Instant,
        incarnation: Incarnation,
    },
    /// It has begun.
    Begun { incarnation: Incarnation },
}

/// Another replica, seen from the primary.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) store: StoreId,
    part: Part,
    stream: Stream,
    acknowledged: Sequence,
    pub(crate) stable: Sequence,
    /// When the entries that it has not acknowledged were sent.
    unanswered: VecDeque<(Sequence, Instant)>,
    /// The newest heartbeat of ours that it granted the lease for.
    pub(crate) lease_from: Option<Instant>,
    /// Since when it could have granted one.
    lease_due_from: Instant,
    /// Until when it may serve reads.
    pub(crate) read_lease_until: Instant,
    told_committed: Sequence,
    /// Entries that a joining replica has to be sent once it has begun: by then they may be
    /// committed, and gone from the journal.
    backlog: Vec<Entry>,
    /// It said that it will not do.
    refused: bool,
}

impl Member {
    pub(crate) fn in_sync(store: StoreId, now: Instant) -> Self {
        Self::new(store, Part::InSync, now)
    }

    pub(crate) fn joining(store: StoreId, full: bool, now: Instant) -> Self {
        Self::new(store, Part::Joining(CatchUp::new(full)), now)
    }

    fn new(store: StoreId, part: Part, now: Instant) -> Self {
        Self {
            store,
            part,
            stream: Stream::Down { since: now },
            acknowledged: Sequence::ZERO,
            stable: Sequence::ZERO,
            unanswered: VecDeque::new(),
            lease_from: None,
            lease_due_from: now,
            read_lease_until: Instant::ZERO,
            told_committed: Sequence::ZERO,
            backlog: Vec::new(),
            refused: false,
        }
    }

    /// The same replica in the next epoch, which it has not begun yet. One that was joining and
    /// is in sync now has its catching up behind it.
    pub(crate) fn in_next_epoch(self, now: Instant) -> Self {
        let part = match self.part {
            Part::Joining(catch_up) if !catch_up.is_complete() => Part::Joining(catch_up),
            _ => Part::InSync,
        };
        Self {
            stable: self.stable,
            read_lease_until: self.read_lease_until,
            ..Self::new(self.store, part, now)
        }
    }

    pub(crate) fn is_in_sync(&self) -> bool {
        matches!(self.part, Part::InSync)
    }

    pub(crate) fn is_joining(&self) -> bool {
        !self.is_in_sync()
    }

    pub(crate) fn catch_up(&self) -> Option<&CatchUp> {
        match &self.part {
            Part::Joining(catch_up) => Some(catch_up),
            Part::InSync => None,
        }
    }

    pub(crate) fn catch_up_mut(&mut self) -> Option<&mut CatchUp> {
        match &mut self.part {
            Part::Joining(catch_up) => Some(catch_up),
            Part::InSync => None,
        }
    }

    /// Whether nothing commits without it.
    pub(crate) fn is_needed(&self) -> bool {
        self.catch_up().is_none_or(CatchUp::is_needed)
    }

    pub(crate) fn has_begun(&self) -> bool {
        matches!(self.stream, Stream::Begun { .. })
    }

    /// Everything up to here is durable there, in this epoch.
    pub(crate) fn acknowledged(&self) -> Sequence {
        if self.has_begun() {
            self.acknowledged
        } else {
            Sequence::ZERO
        }
    }

    /// For how long it has owed an answer.
    pub(crate) fn silent_for(&self, now: Instant) -> Duration {
        let since = match self.stream {
            Stream::Greeted { since, .. } => Some(since),
            _ => self.unanswered.front().map(|(_, sent)| *sent),
        };
        since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// When it counts as lost, if nothing is heard of it until then.
    pub(crate) fn fails_at(&self) -> Option<Instant> {
        if self.refused {
            return Some(Instant::ZERO);
        }
        let answer = match self.stream {
            Stream::Down { since } => return Some(since + LINK_DOWN),
            Stream::Greeted { since, .. } => Some(since + SILENT),
            Stream::Begun { .. } => self.unanswered.front().map(|(_, sent)| *sent + SILENT),
        };
        let lease = self.is_in_sync().then(|| {
            self.lease_from
                .unwrap_or(Instant::ZERO)
                .max(self.lease_due_from)
                + SILENT
        });
        answer.into_iter().chain(lease).min()
    }

    /// Whether it must be told the committed point, which from then on counts as told.
    pub(crate) fn learns_committed(&mut self, committed: Sequence) -> bool {
        let learns = self.has_begun() && committed > self.told_committed;
        if learns {
            self.told_committed = committed;
        }
        learns
    }

    /// It is not what it is taken for, or will not do.
    pub(crate) fn refuse(&mut self) {
        self.refused = true;
    }

    fn sent(&mut self, now: Instant, entry: &Entry, committed: Sequence) {
        self.unanswered.push_back((entry.sequence, now));
        self.told_committed = self.told_committed.max(committed);
    }

    fn answered(&mut self, prepared: &Prepared) {
        self.acknowledged = self.acknowledged.max(prepared.through);
        self.stable = self.stable.max(prepared.stable);
        while self
            .unanswered
            .front()
            .is_some_and(|(sent, _)| *sent <= prepared.through)
        {
            self.unanswered.pop_front();
        }
    }
}

impl Replica {
    /// Tells a member to begin the epoch, if its link is up.
    pub(crate) fn greet_member(&mut self, context: &mut dyn Context, node: NodeId) {
        let now = context.now();
        let Some(peer) = context.peer(node) else {
            return;
        };
        let stable = self.lowest_stable(context);
        let record = self
            .record
            .as_ref()
            .map(SliceRecord::encode)
            .expect("a primary has one");
        let slice = self.slice;
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let Some(member) = primary.members.get_mut(&node) else {
            return;
        };
        if peer.store != member.store {
            member.refused = true;
            return;
        }
        let role = match &member.part {
            Part::InSync => BeginRole::InSync,
            Part::Joining(catch_up) if catch_up.has_started() => {
                // It lost the link while it was joining: it will have to offer itself again.
                member.refused = true;
                return;
            }
            Part::Joining(catch_up) if catch_up.is_full() => BeginRole::JoiningFull,
            Part::Joining(_) => BeginRole::JoiningFast,
        };
        member.stream = Stream::Greeted {
            since: now,
            incarnation: peer.incarnation,
        };
        member.acknowledged = Sequence::ZERO;
        member.unanswered.clear();
        member.lease_due_from = now;
        member.told_committed = context.committed();
        member.backlog.clear();
        let tail = context.entries_above(context.committed());
        let begin = Begin {
            slice,
            epoch: primary.epoch,
            role,
            committed: context.committed(),
            tail: runs_of(&tail),
            stable,
            record,
        };
        if member.is_joining() {
            member.backlog = tail;
        }
        context.send(node, begin.into());
    }

    pub(crate) fn lose_member_link(&mut self, context: &mut dyn Context, node: NodeId) {
        let now = context.now();
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        primary.offers.remove(&node);
        if let Some(member) = primary.members.get_mut(&node) {
            member.stream = Stream::Down { since: now };
            member.unanswered.clear();
            if let Some(catch_up) = member.catch_up_mut() {
                catch_up.abandon();
                member.refused = true;
            }
        }
        self.release_reservations_of(node);
    }

    /// A member has begun the epoch, or has made entries durable.
    pub(crate) fn handle_prepared(
        &mut self,
        context: &mut dyn Context,
        peer: NodeId,
        prepared: &Prepared,
    ) {
        let last = context.prepared().1;
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        if primary.epoch != prepared.epoch || prepared.through > last {
            return;
        }
        let Some(member) = primary.members.get_mut(&peer) else {
            return;
        };
        match member.stream {
            Stream::Down { .. } => {}
            Stream::Begun { .. } => member.answered(prepared),
            Stream::Greeted { incarnation, .. } => {
                member.stream = Stream::Begun { incarnation };
                member.answered(prepared);
                let joins = member.is_joining();
                self.catch_stream_up(context, peer, prepared.through);
                context.hurry(peer);
                self.retry_reservations(context);
                if joins {
                    self.start_catch_up(context, peer);
                }
            }
        }
    }

    /// Sends a member that has just begun what follows the entries that it agreed to.
    fn catch_stream_up(&mut self, context: &mut dyn Context, node: NodeId, kept: Sequence) {
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let Some(member) = primary.members.get_mut(&node) else {
            return;
        };
        let missing = match member.part {
            // Nothing has been committed without it since it was told to begin.
            Part::InSync => context.entries_above(kept),
            Part::Joining(_) => core::mem::take(&mut member.backlog),
        };
        for entry in missing {
            self.send_entry_to(context, node, &entry);
        }
    }

    /// Sends an entry to every member that has begun.
    pub(crate) fn send_entry(&mut self, context: &mut dyn Context, entry: &Entry) {
        for node in self.member_nodes() {
            self.send_entry_to(context, node, entry);
        }
    }

    fn send_entry_to(&mut self, context: &mut dyn Context, node: NodeId, entry: &Entry) {
        let now = context.now();
        let stable = self.lowest_stable(context);
        let committed = context.committed();
        let slice = self.slice;
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let epoch = primary.epoch;
        let Some(member) = primary.members.get_mut(&node) else {
            return;
        };
        if !member.has_begun() {
            if member.is_joining() && matches!(member.stream, Stream::Greeted { .. }) {
                member.backlog.push(entry.clone());
            }
            return;
        }
        member.sent(now, entry, committed);
        let entry = entry.clone();
        context.send(
            node,
            Prepare {
                slice,
                epoch,
                entry,
                committed,
                stable,
            }
            .into(),
        );
    }

    pub(crate) fn handle_refused(&mut self, peer: NodeId, refused: &Refused) {
        if let Role::Primary(primary) = &mut self.role
            && primary.epoch == refused.epoch
            && let Some(member) = primary.members.get_mut(&peer)
        {
            member.refused = true;
        }
    }
}

/// The runs of entries numbered in the same epoch, each with its last sequence.
fn runs_of(entries: &[Entry]) -> Vec<(Epoch, Sequence)> {
    let mut runs: Vec<(Epoch, Sequence)> = Vec::new();
    for entry in entries {
        match runs.last_mut() {
            Some((epoch, last)) if *epoch == entry.epoch => *last = entry.sequence,
            _ => runs.push((entry.epoch, entry.sequence)),
        }
    }
    runs
}
