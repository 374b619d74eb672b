//! The primary: numbers writes, sends them to all, commits what all have, and decides who is in.
//!
//! Invariants:
//! - an entry commits when it is durable here and at every in-sync replica that has begun the
//!   epoch, and no replica that was left out may still serve reads; what hosts want commits in no fewer copies
//!   than the record asks for;
//! - as long as it is not known how a change ended, both configurations' rules hold: a replica that may
//!   be in sync by now is needed for commits, and may lead once the lease here has ended;
//! - it serves reads only while every in-sync replica grants it the lease;
//! - it serves at all only once its epoch's first entry is committed;
//! - one change of configuration is under way at a time.

mod admission;
mod catch_up;
mod change;
mod copies;
mod lease;
mod member;
mod settle;
mod sources;
mod status;
mod wish;
mod write_kind;

use alloc::collections::{BTreeMap, VecDeque};

use holdfast_model::record::{Membership, SliceRecord};
use holdfast_model::{Change as EntryChange, CommandId, Entry, Epoch, NodeId, Sequence};
use holdfast_stdx::{Instant, SmallVec};
use holdfast_wire::{Commit, OutcomeCode, Resign};

use admission::Admission;
pub use admission::{Operation, Prospect, Terms};
pub use catch_up::Progress;
use change::Offer;
pub(crate) use change::{Change, Kind};
use member::Member;
pub use write_kind::WriteKind;

use crate::conduct::Fault;
use crate::state::{Standing, State};
use crate::timing::{DRIFT, LEASE, TELL_COMMITTED};
use crate::{Context, Milestone, Replica, Role, Wait};

/// How far a clean stop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopping {
    No,
    /// The note that everything is committed is on its way to the disk.
    Noting,
    /// It is durable; the lease is given up.
    Done,
}

/// Leading an epoch.
#[derive(Debug)]
pub(crate) struct Primary {
    pub(crate) epoch: Epoch,
    /// When the primary before it handed the slice over, if this one leads because of that; or when it began to be led at all.
    handed_at: Option<Instant>,
    /// The epoch has begun here, durably.
    pub(crate) began: bool,
    /// The entry with which the epoch begins, as long as it is not committed.
    first_entry: Option<Sequence>,
    /// The other in-sync replicas, and those that join.
    members: BTreeMap<NodeId, Member>,
    /// Entries that are not durable here, and since when; nothing more than the epoch itself, as long
    /// as that has not begun.
    unfinished: VecDeque<(Sequence, Instant)>,
    /// Numbered, since when, and not committed.
    pending: VecDeque<(Sequence, CommandId, Instant)>,
    /// Commands that have no number and get none, given up or mismatched: told so when everything up to
    /// the sequence is committed.
    settling: VecDeque<(Sequence, CommandId, OutcomeCode)>,
    /// Before this, a replica that was left out may still serve reads: nothing commits.
    commit_gate: Instant,
    /// When members are told of the committed point that have not been by then.
    tell_due: Option<Instant>,
    pub(crate) change: Option<Change>,
    /// A replica that is to go as soon as it may serve no read any more.
    leaving: Option<NodeId>,
    /// Replicas that offered themselves, newest offer each.
    offers: BTreeMap<NodeId, Offer>,
    admission: Admission,
    copies_min: usize,
    /// Nobody is taken out: not all have said yet that they know of nothing newer than the record.
    unconfirmed: bool,
    stopping: Stopping,
}

impl Primary {
    pub(crate) fn is_serving(&self) -> bool {
        self.began && self.first_entry.is_none() && self.stopping != Stopping::Done
    }

    /// The other in-sync replicas.
    pub(crate) fn in_sync_members(&self) -> impl Iterator<Item = (NodeId, &Member)> {
        let members = self.members.iter();
        members
            .filter(|(_, member)| member.is_in_sync())
            .map(|(node, member)| (*node, member))
    }

    /// The replicas without which nothing commits.
    pub(crate) fn needed_members(&self) -> impl Iterator<Item = (NodeId, &Member)> {
        let members = self.members.iter();
        members
            .filter(|(_, member)| member.is_needed())
            .map(|(node, member)| (*node, member))
    }

    /// Whether changes are numbered: from the beginning of the epoch on, for they are committed after
    /// its first entry in any case.
    pub(crate) fn takes_writes(&self) -> bool {
        self.stopping != Stopping::Done
    }

    /// Whether the epoch's first entry is not committed yet.
    pub(crate) fn is_new(&self) -> bool {
        self.first_entry.is_some()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopping == Stopping::Done || !self.began
    }

    /// Whoever the record does not name any more has offered nothing.
    fn forget_unnamed(&mut self, record: &SliceRecord) {
        self.leaving = None;
        let named = |node: &NodeId| record.replica(*node).is_some();
        self.offers.retain(|node, _| named(node));
    }

    /// When the first member counts as lost, if nothing is heard of it until then.
    fn fails_at(&self) -> Option<Instant> {
        self.members.values().filter_map(Member::fails_at).min()
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        // One change at a time: who is lost meanwhile is looked at after it.
        let members = self.fails_at().filter(|_| self.change.is_none());
        let change = self.change.iter().map(|change| change.proposal.retry);
        let gate = (self.commit_gate > Instant::ZERO).then_some(self.commit_gate);
        let admission = self.admission.next_expiry();
        let leaving = self.leaving.and_then(|node| self.members.get(&node));
        let release = leaving.map(|member| member.read_lease_until);
        let release = release.filter(|_| self.change.is_none());
        members
            .into_iter()
            .chain(change)
            .chain(release)
            .chain(gate)
            .chain(self.tell_due)
            .chain(admission)
            .min()
    }
}

impl Replica {
    /// Begins to lead the epoch of the record, which names this replica its primary. After a clean
    /// stop (`resumes`) that epoch is the one in which it stopped.
    pub(crate) fn lead(&mut self, context: &mut dyn Context, resumes: bool) {
        let now = context.now();
        let record = self.record.clone().expect("it leads what a record says");
        let leaves_out_reader =
            matches!(&self.role, Role::Candidate(candidate) if candidate.leaves_out_reader);
        if let Role::Candidate(candidate) = &self.role
            && let Some(deposed) = candidate.deposes
        {
            self.conduct.fault(now, deposed, Fault::Gone);
        }
        if record.preferred != self.me.node {
            self.conduct.is_back_if_in(now, &record);
        }
        let handed_at = match &self.role {
            // Who only follows leads by the word of its primary, and nobody else does.
            Role::Secondary(_) => Some(now),
            Role::Candidate(candidate) => candidate.made_at,
            _ => None,
        };
        let state = self.state.unwrap_or(State::NEW);
        assert!(
            resumes || record.epoch > state.withdrawn,
            "it leads no epoch it withdrew from"
        );
        let prepared = self.begin_leading(context, record.epoch);
        let in_sync = record.in_sync().filter(|node| *node != self.me.node);
        let missed_from = now.max(self.patient_until);
        let members = in_sync.filter_map(|node| {
            let store = record.replica(node)?.store;
            let member = Member::in_sync(store, missed_from);
            Some((node, member.reading_until(now + LEASE + DRIFT)))
        });
        let gate = if leaves_out_reader {
            now + LEASE + DRIFT
        } else {
            Instant::ZERO
        };
        let pending = context.entries_above(context.committed());
        let mut primary = Primary {
            epoch: record.epoch,
            handed_at,
            began: false,
            unfinished: VecDeque::from([(prepared, now)]),
            first_entry: None,
            members: members.collect(),
            pending: pending
                .iter()
                .map(|entry| (entry.sequence, entry.command, now))
                .collect(),
            settling: VecDeque::new(),
            commit_gate: gate,
            tell_due: None,
            change: None,
            leaving: None,
            offers: BTreeMap::new(),
            admission: Admission::default(),
            copies_min: usize::from(record.copies_min),
            unconfirmed: record.is_unconfirmed(),
            stopping: Stopping::No,
        };
        primary.first_entry = Some(prepared.next());
        self.role = Role::Primary(alloc::boxed::Box::new(primary));
        self.adjust_marks();
        self.number(context, CommandId::default(), EntryChange::Nothing);
        for node in self.member_nodes() {
            self.greet_member(context, node);
        }
    }

    /// Records that an epoch begins under this replica, after what is prepared here.
    fn begin_leading(&mut self, context: &mut dyn Context, epoch: Epoch) -> Sequence {
        let state = self.state.unwrap_or(State::NEW);
        assert!(!self.is_damaged(), "who has lost something leads nobody");
        // Whoever leads has all that is committed: what joined before it was in sync is over.
        if matches!(state.standing, Standing::Joining { .. }) {
            let token = context.mend();
            self.waits.push_back((token, Wait::Other));
        }
        let state = State {
            epoch,
            withdrawn: state.withdrawn,
            standing: Standing::Whole,
            clean: None,
            admitting: None,
        };
        self.keep(context, state, Wait::Other);
        let (_, prepared) = context.prepared();
        let token = context.begin_epoch(epoch, prepared);
        self.waits.push_back((token, Wait::Begin(epoch, prepared)));
        prepared
    }

    fn member_nodes(&self) -> SmallVec<[NodeId; 4]> {
        match &self.role {
            Role::Primary(primary) => primary.members.keys().copied().collect(),
            _ => SmallVec::new(),
        }
    }

    /// Gives an entry its number, appends it and sends it to every member that has begun.
    fn number(&mut self, context: &mut dyn Context, command: CommandId, change: EntryChange) {
        let Role::Primary(primary) = &mut self.role else {
            unreachable!("only a primary numbers")
        };
        let (_, prepared) = context.prepared();
        let entry = Entry {
            epoch: primary.epoch,
            sequence: prepared.next(),
            fence: self.fenced.fence,
            command,
            change,
        };
        let now = context.now();
        let sequence = entry.sequence;
        primary.pending.push_back((sequence, command, now));
        primary.unfinished.push_back((sequence, now));
        let members = primary.members.iter();
        let in_sync = members.filter(|(_, member)| member.is_in_sync());
        let in_sync = in_sync.map(|(node, _)| *node);
        primary.admission.note_pages(&entry.change, in_sync);
        if let Some(range) = entry.change.range() {
            self.note_change(sequence, range);
        }
        self.recent.note(now, command, sequence);
        let committed = context.committed();
        let token = context.append(entry.clone(), committed);
        self.waits.push_back((token, Wait::Append(sequence)));
        self.send_entry(context, &entry);
    }

    /// What a primary does after every event.
    pub(crate) fn lead_on(&mut self, context: &mut dyn Context) {
        let durable = self.durable;
        if let Role::Primary(primary) = &mut self.role {
            while primary.began
                && let Some((sequence, _)) = primary.unfinished.front()
                && *sequence <= durable
            {
                primary.unfinished.pop_front();
            }
        }
        self.commit(context);
        self.feed_copies(context);
        self.consider_change(context);
        self.tell_committed(context);
        self.consider_stop(context);
    }

    /// Commits what has become durable everywhere.
    fn commit(&mut self, context: &mut dyn Context) {
        let now = context.now();
        let own = self.durable;
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        if !primary.began || now < primary.commit_gate {
            return;
        }
        primary.commit_gate = Instant::ZERO;
        if primary.lacks_copies() {
            return;
        }
        let completing = primary.completing();
        let members = primary.members.iter();
        let needed = members.filter(|(node, member)| {
            member.is_needed() || completing.is_some_and(|(completed, _)| completed == **node)
        });
        let through = needed
            .map(|(_, member)| member.acknowledged())
            .fold(own, Sequence::min);
        if through <= context.committed() {
            return;
        }
        context.set_committed(through);
        if primary.first_entry.is_some_and(|first| first <= through) {
            primary.first_entry = None;
            let epoch = primary.epoch;
            context.milestone(Milestone::Leads(epoch));
        }
        while let Some((sequence, command, since)) = primary.pending.front().copied()
            && sequence <= through
        {
            primary.pending.pop_front();
            if command != CommandId::default() {
                context.committed_after(now.since(since));
                context.finish(command, OutcomeCode::Done);
            }
        }
        while let Some((sequence, command, outcome)) = primary.settling.front().copied()
            && sequence <= through
        {
            primary.settling.pop_front();
            context.finish(command, outcome);
        }
        let stable = self.lowest_stable(context);
        self.window.advance(stable);
    }

    /// The lowest committed point that the recovery of any in-sync replica is certain to find.
    fn lowest_stable(&self, context: &dyn Context) -> Sequence {
        let Role::Primary(primary) = &self.role else {
            return Sequence::ZERO;
        };
        let members = primary
            .members
            .values()
            .filter(|member| member.is_in_sync());
        members
            .map(|member| member.stable)
            .fold(context.stable(), Sequence::min)
    }

    /// Tells the committed point to members that no prepare has told it to, after a moment in which one may.
    fn tell_committed(&mut self, context: &mut dyn Context) {
        let committed = context.committed();
        if !self.is_telling_due(context.now(), committed) {
            return;
        }
        let stable = self.lowest_stable(context);
        let slice = self.slice;
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let epoch = primary.epoch;
        for (node, member) in &mut primary.members {
            if member.learns_committed(committed) {
                context.send(
                    *node,
                    Commit {
                        slice,
                        epoch,
                        committed,
                        stable,
                    }
                    .into(),
                );
            }
        }
    }

    /// Whether members are to be told of the committed point now. The first time that one lacks it, that is noted.
    fn is_telling_due(&mut self, now: Instant, committed: Sequence) -> bool {
        let Role::Primary(primary) = &mut self.role else {
            return false;
        };
        if let Some(due) = primary.tell_due {
            let is_due = due <= now || self.stopping;
            primary.tell_due = primary.tell_due.filter(|_| !is_due);
            return is_due;
        }
        let mut members = primary.members.values();
        let is_lacking = members.any(|member| member.lacks_committed(committed));
        if is_lacking && !self.stopping {
            primary.tell_due = Some(now + TELL_COMMITTED);
        }
        is_lacking && self.stopping
    }

    /// When the node is to stop: finishes, notes that nothing is open, gives up the lease.
    fn consider_stop(&mut self, context: &mut dyn Context) {
        if !self.stopping {
            return;
        }
        let prepared = context.prepared().1;
        let idle = context.committed() == prepared;
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let quiet = primary.pending.is_empty() && primary.admission.is_empty();
        // Whoever leads next waits for no lease: it does not know whom this one has taken out.
        let unread = !primary.waits_for_readers(context.now());
        let settled = primary.is_serving() && primary.change.is_none() && unread;
        if primary.stopping == Stopping::No && settled && idle && quiet {
            primary.stopping = Stopping::Noting;
            let state = self.state.expect("who leads has kept its state");
            self.keep(
                context,
                State {
                    clean: Some(prepared),
                    ..state
                },
                Wait::Clean,
            );
        }
    }

    /// The note of a clean stop is durable.
    pub(crate) fn clean_stop_kept(&mut self, context: &mut dyn Context) {
        let slice = self.slice;
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        primary.stopping = Stopping::Done;
        let epoch = primary.epoch;
        for (node, member) in &primary.members {
            if member.is_in_sync() {
                context.send(*node, Resign { slice, epoch }.into());
            }
        }
    }

    /// Stops leading, if it did, because another does.
    pub(crate) fn step_down(&mut self, context: &mut dyn Context) {
        if matches!(self.role, Role::Primary(_)) {
            self.retire(context);
            let known = self.record.as_ref();
            let known = known.map_or(Epoch::ZERO, |record| record.epoch);
            context.milestone(Milestone::Deposed(known));
        }
    }

    /// Stops leading: what was not committed is for the next primary to decide.
    pub(crate) fn retire(&mut self, context: &mut dyn Context) {
        if let Role::Primary(primary) = &mut self.role {
            for (_, command, _) in primary.pending.drain(..) {
                if command != CommandId::default() {
                    context.finish(command, OutcomeCode::Deposed);
                }
            }
            for (_, command, _) in primary.settling.drain(..) {
                context.finish(command, OutcomeCode::NotPrimary);
            }
            self.refuse_admitted(context, OutcomeCode::NotPrimary);
            self.role = Role::Outside {
                offer: context.now(),
            };
        }
    }

    /// The change that this primary proposed is the record now: the next epoch begins.
    pub(crate) fn change_done(&mut self, context: &mut dyn Context) {
        let now = context.now();
        if let Role::Primary(primary) = &self.role
            && let Some(change) = &primary.change
            && let Kind::HandOver { to, slow } = change.kind
        {
            self.hand_over(context, to, slow);
            return;
        }
        let record = self.record.clone().expect("a change is a record");
        let state = State {
            epoch: record.epoch,
            admitting: None,
            ..self.state.expect("who leads has kept its state")
        };
        self.keep(context, state, Wait::Other);
        let (_, prepared) = context.prepared();
        let token = context.begin_epoch(record.epoch, prepared);
        self.waits
            .push_back((token, Wait::Begin(record.epoch, prepared)));
        let Role::Primary(primary) = &mut self.role else {
            unreachable!("only a primary has changes")
        };
        let change = primary.change.take().expect("a change was under way");
        primary.epoch = record.epoch;
        primary.unconfirmed = record.is_unconfirmed();
        primary.began = false;
        primary.unfinished.push_front((prepared, now));
        let mut members = BTreeMap::new();
        for replica in record
            .replicas
            .iter()
            .filter(|replica| replica.node != self.me.node)
        {
            let old = primary.members.remove(&replica.node);
            let is_same = |member: &Member| member.store == replica.store;
            let stays =
                replica.membership == Membership::InSync && old.as_ref().is_some_and(is_same);
            if let Some(old) = old.as_ref().filter(|_| !stays) {
                primary.commit_gate = primary.commit_gate.max(old.read_lease_until);
            }
            let old = old.filter(is_same);
            let member = match replica.membership {
                Membership::InSync => match old {
                    Some(old) => old.in_sync_next(now),
                    None => Member::in_sync(replica.store, now),
                },
                Membership::Joining { .. } => match (old.filter(Member::is_joining), change.sync) {
                    (Some(old), _) => old.joining_next(now),
                    (None, Some(sync)) => Member::joining(replica.store, sync, now),
                    (None, None) => unreachable!("nobody else is left joining by a change of ours"),
                },
                Membership::Absent { .. } => continue,
            };
            members.insert(replica.node, member);
        }
        for gone in primary.members.values() {
            primary.commit_gate = primary.commit_gate.max(gone.read_lease_until);
        }
        primary.members = members;
        primary.forget_unnamed(&record);
        primary.admission.members_changed();
        self.announce_change(context, &change);
        self.adjust_marks();
        for node in self.member_nodes() {
            self.greet_member(context, node);
        }
        self.retry_reservations(context);
    }
}
