//! What the primary knows of another replica, and the stream of entries to it.
//!
//! Invariants:
//! - nothing is sent to a member before it was told to begin the epoch on the link that is up now;
//! - what it acknowledged in an earlier epoch, or over an earlier link, does not count.

use holdfast_model::record::{Record, SliceRecord};
use holdfast_model::{Entry, Epoch, Fence, Incarnation, NodeId, Sequence, StoreId};
use holdfast_stdx::{Duration, Instant};
use holdfast_wire::{Begin, Prepare, Prepared, Refusal, Refused, Role as BeginRole};

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::catch_up::{CatchUp, prepare_catch_up};
use super::change::Sync;
use crate::fence::FENCES_SINCE;
use crate::hand_over::lease_end;
use crate::marks::Marks;
use crate::timing::{LINK_DOWN, SILENT, SILENT_FOR_READS};
use crate::{Context, Peer, Replica, Role};

/// Bytes of entries that a member is sent right behind the beginning of an epoch, at most. It may have
/// them; waiting for it to say so would cost hosts a round trip more.
const EAGER_BYTES_MAX: usize = 1 << 20;

/// Entries on their way to a joining replica, at most: as many as may be under way in all.
const STREAM_ENTRIES_MAX: usize = 4096;
/// Bytes of data in them, at most: two seconds of a gigabit, and little beside what a node may use.
const STREAM_BYTES_MAX: usize = 32 << 20;

/// What the member is to be.
#[derive(Debug)]
enum Part {
    InSync,
    Joining(Box<CatchUp>),
}

/// How far the stream to it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    /// The link is down; at its other end was this start of the node, if it was ever up.
    Down {
        since: Instant,
        incarnation: Option<Incarnation>,
    },
    /// It was told to begin the epoch.
    Greeted {
        since: Instant,
        incarnation: Incarnation,
        /// Entries follow without waiting for its answer.
        eager: bool,
    },
    /// It has begun.
    Begun { incarnation: Incarnation },
}

impl Stream {
    /// The start of the node that it leads to, or led to.
    fn incarnation(self) -> Option<Incarnation> {
        match self {
            Self::Down { incarnation, .. } => incarnation,
            Self::Greeted { incarnation, .. } | Self::Begun { incarnation } => Some(incarnation),
        }
    }
}

/// Why a member counts as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// It is not there, or not what it is taken for.
    Gone,
    /// It is there, and its disk takes too long.
    Slow,
}

/// Another replica, seen from the primary.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) store: StoreId,
    part: Part,
    stream: Stream,
    acknowledged: Sequence,
    pub(crate) stable: Sequence,
    /// The entries that it has not acknowledged: when they were sent, and how much data they carry.
    unanswered: VecDeque<(Sequence, Instant, usize)>,
    /// The sum of that, and of the backlog.
    unanswered_bytes: usize,
    /// It joins, and does not keep up with what is written: it is sent nothing any more.
    cut: bool,
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
    /// It said, in this epoch, that it is not what the record takes it for.
    is_another: bool,
}

impl Member {
    pub(crate) fn in_sync(store: StoreId, now: Instant) -> Self {
        Self::new(store, Part::InSync, now)
    }

    /// The primary before may have let it read until then.
    pub(crate) fn reading_until(self, read_lease_until: Instant) -> Self {
        Self {
            read_lease_until,
            ..self
        }
    }

    pub(crate) fn joining(store: StoreId, sync: Sync, now: Instant) -> Self {
        let catch_up = CatchUp::new(sync.how, sync.epoch);
        // What it offered counts as long as its node runs.
        let stream = Stream::Down {
            since: now,
            incarnation: Some(sync.incarnation),
        };
        Self {
            stream,
            ..Self::new(store, Part::Joining(Box::new(catch_up)), now)
        }
    }

    fn new(store: StoreId, part: Part, now: Instant) -> Self {
        Self {
            store,
            part,
            stream: Stream::Down {
                since: now,
                incarnation: None,
            },
            acknowledged: Sequence::ZERO,
            stable: Sequence::ZERO,
            unanswered: VecDeque::new(),
            unanswered_bytes: 0,
            cut: false,
            lease_from: None,
            lease_due_from: now,
            read_lease_until: Instant::ZERO,
            told_committed: Sequence::ZERO,
            backlog: Vec::new(),
            refused: false,
            is_another: false,
        }
    }

    /// The same replica, in sync in the next epoch, which it has not begun yet.
    pub(crate) fn in_sync_next(self, now: Instant) -> Self {
        Self {
            stable: self.stable,
            read_lease_until: self.read_lease_until,
            ..Self::new(self.store, Part::InSync, now)
        }
    }

    /// The same replica, joining still in the next epoch.
    pub(crate) fn joining_next(self, now: Instant) -> Self {
        let stream = Stream::Down {
            since: now,
            incarnation: self.stream.incarnation(),
        };
        Self {
            stable: self.stable,
            stream,
            ..Self::new(self.store, self.part, now)
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
        self.catch_up().is_none_or(CatchUp::is_complete)
    }

    pub(crate) fn has_begun(&self) -> bool {
        matches!(self.stream, Stream::Begun { .. })
    }

    /// What it is told to begin as, and the epoch in which its sync began.
    fn begins_as(&self, marks: &Marks, node: NodeId) -> (BeginRole, Epoch) {
        let Part::Joining(catch_up) = &self.part else {
            return (BeginRole::InSync, Epoch::ZERO);
        };
        let mark = &marks[&(node, self.store)];
        let role = if catch_up.begins_with_nothing() {
            BeginRole::JoiningFull
        } else if mark.is_filled() {
            BeginRole::JoiningFast
        } else {
            BeginRole::JoiningCompared
        };
        (role, catch_up.sync())
    }

    /// Whether it is of use to copy anything to it.
    pub(crate) fn takes_copies(&self) -> bool {
        self.has_begun() && !self.cut && !self.refused
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
            _ => self.unanswered.front().map(|(_, sent, _)| *sent),
        };
        since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// When it counts as lost, if nothing is heard of it until then.
    pub(crate) fn fails_at(&self) -> Option<Instant> {
        if self.refused || self.cut {
            return Some(Instant::ZERO);
        }
        let answer = match self.stream {
            Stream::Down { since, .. } => return Some(since + LINK_DOWN),
            Stream::Greeted { since, .. } => Some(since + SILENT),
            Stream::Begun { .. } => self.unanswered.front().map(|(_, sent, _)| *sent + SILENT),
        };
        let lease = self.is_in_sync().then(|| {
            self.lease_from
                .unwrap_or(Instant::ZERO)
                .max(self.lease_due_from)
                + SILENT
        });
        answer.into_iter().chain(lease).min()
    }

    /// Whether it counts as lost, and why. `peer` is who is at the other end of the link to it.
    pub(crate) fn loss(&self, now: Instant, peer: Option<Peer>) -> Option<Loss> {
        self.fails_at().filter(|deadline| *deadline <= now)?;
        let disk_is_slow = peer.is_some_and(|peer| peer.append_age >= SILENT_FOR_READS);
        // Of late, and not just once more after it was asked: then it is the link that died.
        let is_heard = self.grants(now);
        let slow = match self.stream {
            _ if self.refused => false,
            _ if self.cut => true,
            Stream::Down { .. } => false,
            Stream::Greeted { .. } => disk_is_slow,
            Stream::Begun { .. } => is_heard || (self.is_joining() && disk_is_slow),
        };
        Some(if slow { Loss::Slow } else { Loss::Gone })
    }

    /// Whether it grants the lease.
    pub(crate) fn grants(&self, now: Instant) -> bool {
        now < lease_end(self.lease_from)
    }

    /// Whether it answers, and grants the lease.
    pub(crate) fn is_well(&self, now: Instant) -> bool {
        self.can_supply(now) && self.grants(now)
    }

    /// Whether it can copy what it has to others.
    pub(crate) fn can_supply(&self, now: Instant) -> bool {
        self.has_begun() && !self.refused && self.silent_for(now) < SILENT_FOR_READS
    }

    /// Whether it has not been told the committed point.
    pub(crate) fn lacks_committed(&self, committed: Sequence) -> bool {
        self.has_begun() && committed > self.told_committed
    }

    /// Whether it must be told the committed point, which from then on counts as told.
    pub(crate) fn learns_committed(&mut self, committed: Sequence) -> bool {
        let learns = self.lacks_committed(committed);
        if learns {
            self.told_committed = committed;
        }
        learns
    }

    /// It is not what it is taken for, or will not do.
    pub(crate) fn refuse(&mut self) {
        self.refused = true;
    }

    /// Whether it counts as in sync, and its copy is gone: its node has another store, in which there is something
    /// that wants to join, or the replica said itself that it is not what it is taken for.
    pub(crate) fn gives_way_to(&self, store: StoreId) -> bool {
        self.is_in_sync() && (self.is_another || self.store != store)
    }

    fn sent(&mut self, now: Instant, entry: &Entry, committed: Sequence) {
        let bytes = entry.change.data_bytes();
        self.unanswered.push_back((entry.sequence, now, bytes));
        self.unanswered_bytes += bytes;
        self.told_committed = self.told_committed.max(committed);
    }

    /// Whether more is on its way to it than a replica may make its primary keep that nothing waits
    /// for: then it is cut off, and its mark carries on.
    fn overflows(&self) -> bool {
        let entries = self.unanswered.len() + self.backlog.len();
        !self.is_needed()
            && (entries > STREAM_ENTRIES_MAX || self.unanswered_bytes > STREAM_BYTES_MAX)
    }

    /// Nothing is on its way to it.
    fn clear_stream(&mut self) {
        self.unanswered.clear();
        self.backlog.clear();
        self.unanswered_bytes = 0;
    }

    fn answered(&mut self, prepared: &Prepared) {
        self.acknowledged = self.acknowledged.max(prepared.through);
        self.stable = self.stable.max(prepared.stable);
        while let Some((sent, _, bytes)) = self.unanswered.front().copied()
            && sent <= prepared.through
        {
            self.unanswered.pop_front();
            self.unanswered_bytes -= bytes;
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
        let (slice, fence) = (self.slice, self.fence());
        // Whoever does not know of fences would go on as if nobody had lost anything: it takes no part any more.
        if fence > Fence::ZERO && peer.version < FENCES_SINCE {
            return;
        }
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let Some(member) = primary.members.get_mut(&node) else {
            return;
        };
        // A joining replica that has restarted may have lost what was copied to it, or what it offered: it
        // knows, and says so when it offers itself anew.
        let known = member.stream.incarnation();
        let restarted = known.is_some_and(|known| known != peer.incarnation);
        if peer.store != member.store || (member.is_joining() && restarted) {
            member.refused = true;
            return;
        }
        // Who refuses says so again, and may not be the one that did.
        (member.refused, member.is_another) = (false, false);
        if member.is_joining() {
            prepare_catch_up(&mut self.marks, context, node, member);
        }
        let (role, sync) = member.begins_as(&self.marks, node);
        let tail = context.entries_above(context.committed());
        let bytes: usize = tail.iter().map(|entry| entry.change.data_bytes()).sum();
        let eager = member.is_in_sync() && bytes <= EAGER_BYTES_MAX;
        member.stream = Stream::Greeted {
            since: now,
            incarnation: peer.incarnation,
            eager,
        };
        member.acknowledged = Sequence::ZERO;
        member.clear_stream();
        member.lease_due_from = now;
        member.told_committed = context.committed();
        let begin = Begin {
            slice,
            epoch: primary.epoch,
            role,
            committed: context.committed(),
            tail: runs_of(&tail),
            stable,
            sync,
            record,
            fence,
        };
        context.send(node, begin.into());
        if member.is_joining() {
            member.backlog = tail;
            member.unanswered_bytes = bytes;
        } else if eager {
            for entry in tail {
                self.send_entry_to(context, node, &entry);
            }
        }
    }

    pub(crate) fn lose_member_link(&mut self, context: &mut dyn Context, node: NodeId) {
        let now = context.now();
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        primary.offers.remove(&node);
        primary.lose_source(node);
        if let Some(member) = primary.members.get_mut(&node) {
            member.stream = Stream::Down {
                since: now,
                incarnation: member.stream.incarnation(),
            };
            member.clear_stream();
            if let Some(catch_up) = member.catch_up_mut() {
                catch_up.pause();
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
            Stream::Begun { .. } => {
                member.answered(prepared);
                let key = (peer, member.store);
                if let Some(mark) = self.marks.get_mut(&key) {
                    mark.has_stable(prepared.stable);
                }
            }
            Stream::Greeted {
                incarnation, eager, ..
            } => {
                member.stream = Stream::Begun { incarnation };
                member.answered(prepared);
                let joins = member.is_joining();
                if !eager {
                    self.catch_stream_up(context, peer, prepared.through);
                }
                context.hurry(peer);
                self.retry_reservations(context);
                if joins {
                    self.start_catch_up(peer);
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
            Part::Joining(_) => {
                let backlog = core::mem::take(&mut member.backlog);
                let bytes: usize = backlog.iter().map(|it| it.change.data_bytes()).sum();
                member.unanswered_bytes -= bytes;
                backlog
            }
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
        match member.stream {
            _ if member.cut => return,
            _ if member.overflows() => {
                member.cut = true;
                member.clear_stream();
                return;
            }
            Stream::Begun { .. } | Stream::Greeted { eager: true, .. } => {}
            Stream::Greeted { .. } if member.is_joining() => {
                member.unanswered_bytes += entry.change.data_bytes();
                member.backlog.push(entry.clone());
                return;
            }
            Stream::Greeted { .. } | Stream::Down { .. } => return,
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
            member.is_another |= refused.refusal == Refusal::NotThatReplica;
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
