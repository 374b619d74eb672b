//! The secondary: takes entries in order, answers what is durable, grants the lease, and watches
//! whether the primary still lives.
//!
//! Invariants:
//! - it takes prepares only in the epoch that it was told to begin, in sequence order, and answers
//!   none before that has begun durably;
//! - it gives up an entry only where the primary's tail disagrees with it;
//! - it serves reads only under a read lease, counted from a heartbeat of its own.

use holdfast_model::record::{Membership, Record, SliceRecord};
use holdfast_model::{Epoch, NodeId, Sequence};
use holdfast_stdx::{Duration, Instant};
use holdfast_wire::{Begin, Commit, Prepare, Prepared, QueryReply, Refusal, Reserve, Reserved};
use holdfast_wire::{Query, Resign, Role as BeginRole};

use crate::joiner::Joiner;
use crate::state::{Standing, State};
use crate::supply::Supplies;
use crate::timing::{GRACE, JOIN_RETRY, LINK_DOWN};
use crate::{Context, Milestone, Replica, Role, Wait};

/// In sync, following a primary.
#[derive(Debug)]
pub(crate) struct Secondary {
    pub(crate) epoch: Epoch,
    pub(crate) primary: NodeId,
    /// The primary has told it to begin the epoch: entries that come now follow from what is here.
    told: bool,
    /// The epoch has begun here, durably: from now on leases are granted.
    pub(crate) begun: bool,
    /// Since when the record names this replica as the next primary, if it does: it leads when this one has stopped.
    pub(crate) heir_since: Option<Instant>,
    /// The newest heartbeat of ours that the primary is known to have heard.
    proof: Instant,
    read_lease_until: Instant,
    /// What the last answer said to be durable.
    acknowledged: Sequence,
    /// The primary gave up its lease.
    resigned: bool,
    link_lost: bool,
    /// What it copies for the primary.
    pub(crate) supplies: Supplies,
}

impl Secondary {
    fn new(now: Instant, epoch: Epoch, primary: NodeId) -> Self {
        Self {
            epoch,
            primary,
            told: false,
            begun: false,
            heir_since: None,
            proof: now,
            read_lease_until: Instant::ZERO,
            acknowledged: Sequence::ZERO,
            resigned: false,
            link_lost: false,
            supplies: Supplies::default(),
        }
    }

    pub(crate) const fn is_heir(&self) -> bool {
        self.heir_since.is_some()
    }

    pub(crate) fn may_read(&self, now: Instant) -> bool {
        self.begun && now < self.read_lease_until
    }

    pub(crate) fn link_lost(&mut self) {
        self.link_lost = true;
    }

    pub(crate) fn start_anew(&mut self, now: Instant) {
        self.proof = now;
        self.read_lease_until = Instant::ZERO;
    }

    pub(crate) fn claimed(&mut self, echo: Instant, read_lease_us: u32) {
        self.proof = self.proof.max(echo);
        let until = echo + Duration::from_micros(u64::from(read_lease_us));
        self.read_lease_until = self.read_lease_until.max(until);
    }

    /// Whether the primary needs this node no more before both stop.
    pub(crate) fn is_released(&self) -> bool {
        self.resigned || self.link_lost
    }
}

impl Replica {
    pub(crate) fn follow(&mut self, context: &mut dyn Context, epoch: Epoch, primary: NodeId) {
        // A primary that does not know yet that this replica counts reads without its grants: for one lease
        // since it proposed that, which was before now.
        if !matches!(self.role, Role::Secondary(_)) {
            self.last_grant = Some(context.now());
        }
        self.role = Role::Secondary(Secondary::new(context.now(), epoch, primary));
    }

    /// When the secondary takes the primary for lost.
    pub(crate) fn primary_missed_at(&self, secondary: &Secondary) -> Option<Instant> {
        if self.stopping {
            return None;
        }
        if secondary.resigned {
            return Some(Instant::ZERO);
        }
        let patience = if secondary.link_lost {
            2 * LINK_DOWN
        } else {
            GRACE
        };
        let missed = secondary.proof + patience;
        // One that was there is not one that has yet to come back.
        Some(if secondary.begun {
            missed
        } else {
            missed.max(self.patient_until)
        })
    }

    /// Whether the secondary takes the primary for lost.
    pub(crate) fn misses_primary(&self, now: Instant, secondary: &Secondary) -> bool {
        let missed = self.primary_missed_at(secondary);
        missed.is_some_and(|missed| missed <= now)
    }

    pub(crate) fn watch_primary(&mut self, context: &mut dyn Context) {
        let Role::Secondary(secondary) = &self.role else {
            return;
        };
        let was_there = secondary.begun;
        if self.misses_primary(context.now(), secondary) && context.may_stand() {
            self.stand(context, was_there);
        }
    }

    pub(crate) fn handle_begin(&mut self, context: &mut dyn Context, peer: NodeId, begin: &Begin) {
        let Ok(record) = SliceRecord::decode(&begin.record) else {
            context.reset_link(peer);
            return;
        };
        let of_this = record.slice == self.slice && record.epoch == begin.epoch;
        if !of_this || record.primary != peer {
            context.reset_link(peer);
            return;
        }
        let known = self
            .record
            .as_ref()
            .map_or(Epoch::ZERO, |known| known.epoch);
        let (began, withdrawn) = self.state.map_or((Epoch::ZERO, Epoch::ZERO), |state| {
            (state.epoch, state.withdrawn)
        });
        if begin.epoch < began.max(known) || begin.epoch <= withdrawn {
            self.refuse(context, peer, begin.epoch, Refusal::StaleEpoch);
            return;
        }
        if self.gap_in(&record).is_some() && begin.role != BeginRole::JoiningFull {
            context.milestone(Milestone::NotKnownOf(record.epoch));
            self.refuse(context, peer, begin.epoch, Refusal::NotThatReplica);
            return;
        }
        self.hear_of_fence(context, begin.fence);
        // Before anything is looked at, or noted: the store does nothing for the slice until then.
        if self.is_dropping() {
            self.step_down(context);
            self.record = Some(record);
            self.begin_when_dropped(context, peer, begin);
            return;
        }
        let mine = record
            .replica(self.me.node)
            .filter(|mine| mine.store == self.me.store);
        let fits = mine.is_some_and(|mine| match mine.membership {
            Membership::InSync => begin.role == BeginRole::InSync && self.has_all(context, begin),
            Membership::Joining { .. } => begin.role != BeginRole::InSync,
            Membership::Absent { .. } => false,
        });
        let keeps = matches!(
            begin.role,
            BeginRole::JoiningFast | BeginRole::JoiningCompared
        );
        // What the primary counts on was dropped since it was offered: the record did not name this
        // replica for a while.
        let lacks = keeps && self.state.is_none();
        if !fits || lacks || keeps && self.is_beyond(context, begin) {
            self.refuse(context, peer, begin.epoch, Refusal::NotThatReplica);
            return;
        }
        self.step_down(context);
        self.record = Some(record);
        if begin.role == BeginRole::JoiningFull && self.drop_contents(context) {
            self.begin_when_dropped(context, peer, begin);
            return;
        }
        match begin.role {
            BeginRole::InSync => self.begin_in_sync(context, peer, begin),
            role => self.begin_joining(context, peer, begin, role),
        }
        self.adjust_marks();
    }

    fn begin_when_dropped(&mut self, context: &dyn Context, peer: NodeId, begin: &Begin) {
        self.role = Role::Outside {
            offer: context.now() + JOIN_RETRY,
        };
        self.begin_later = Some((peer, begin.clone()));
    }

    /// Whether more is committed here than the primary has ever had: it led without the entries that
    /// its journal had lost, and what is here belongs to another past. Then this replica is none of
    /// its own any more, and joins anew with nothing.
    fn is_beyond(&mut self, context: &mut dyn Context, begin: &Begin) -> bool {
        let beyond = context.committed() > begin.committed;
        if beyond {
            self.record_damage(context, Sequence::ZERO);
            self.is_useless = true;
        }
        beyond
    }

    /// From now on it is said, durably, that the store has lost what it had acknowledged above
    /// `stable`.
    pub(crate) fn record_damage(&mut self, context: &mut dyn Context, stable: Sequence) {
        context.milestone(Milestone::NotThatReplica);
        let state = State {
            standing: Standing::Damaged { stable },
            ..self.state.unwrap_or(State::NEW)
        };
        self.keep(context, state, Wait::Other);
        self.role = Role::Outside {
            offer: context.now(),
        };
    }

    /// Whether everything that is committed is here, as it must be at an in-sync replica. If not,
    /// the store lost what it had acknowledged, and says so from now on.
    fn has_all(&mut self, context: &mut dyn Context, begin: &Begin) -> bool {
        if self.is_damaged() {
            return false;
        }
        if context.prepared().1 >= begin.committed {
            return true;
        }
        let stable = context.stable();
        self.record_damage(context, stable);
        false
    }

    fn begin_in_sync(&mut self, context: &mut dyn Context, peer: NodeId, begin: &Begin) {
        let kept = self.agreed(context, begin);
        let State {
            withdrawn,
            standing,
            ..
        } = self.state.unwrap_or(State::NEW);
        if matches!(standing, Standing::Joining { .. }) {
            let token = context.mend();
            self.waits.push_back((token, Wait::Other));
        }
        let state = State {
            epoch: begin.epoch,
            withdrawn,
            standing: Standing::Whole,
            clean: None,
            admitting: None,
        };
        self.keep(context, state, Wait::Other);
        self.recent.give_up_above(kept);
        // Of whom the record leaves out the others forget nothing: the marks come first.
        self.adjust_marks();
        self.window.advance(begin.stable);
        // What the journal's bad end may have held comes from the primary now.
        self.suspect_until = None;
        let token = context.begin_epoch(begin.epoch, kept);
        self.waits
            .push_back((token, Wait::Begin(begin.epoch, kept)));
        // The primary counts this as told: without it the last entries would stay in doubt here
        // for as long as nobody writes.
        context.set_committed(context.committed().max(begin.committed));
        self.follow(context, begin.epoch, peer);
        if let Role::Secondary(secondary) = &mut self.role {
            secondary.told = true;
        }
    }

    /// The sequence up to which what is here is what the primary has: everything committed, and
    /// what follows as long as it was numbered in the same epoch.
    fn agreed(&self, context: &dyn Context, begin: &Begin) -> Sequence {
        let committed = context.committed().max(begin.committed);
        let mut runs = begin.tail.iter().peekable();
        let mut kept = committed;
        for entry in context.entries_above(committed) {
            while runs.peek().is_some_and(|(_, last)| *last < entry.sequence) {
                runs.next();
            }
            if runs.peek().is_none_or(|(epoch, _)| *epoch != entry.epoch) {
                break;
            }
            kept = entry.sequence;
        }
        kept
    }

    /// The beginning of an epoch is durable.
    pub(crate) fn began(&mut self, context: &mut dyn Context, epoch: Epoch, kept: Sequence) {
        let (primary, acknowledged) = match &mut self.role {
            Role::Secondary(secondary) if secondary.epoch == epoch => {
                secondary.begun = true;
                secondary.acknowledged = kept;
                (secondary.primary, kept)
            }
            Role::Joiner(joiner) if joiner.epoch == epoch => {
                joiner.begun = true;
                joiner.acknowledged = kept;
                (joiner.primary, kept)
            }
            Role::Primary(primary) if primary.epoch == epoch => {
                primary.began = true;
                return;
            }
            _ => return,
        };
        self.send_prepared(context, primary, epoch, acknowledged);
        self.tell_holdings(context);
        context.hurry(primary);
    }

    pub(crate) fn handle_prepare(
        &mut self,
        context: &mut dyn Context,
        peer: NodeId,
        prepare: &Prepare,
    ) {
        if !self.takes_entries_from(peer, prepare.epoch) {
            self.refuse(context, peer, prepare.epoch, Refusal::StaleEpoch);
            return;
        }
        let entry = &prepare.entry;
        let prepared = context.prepared();
        let known = (entry.sequence <= prepared.1)
            .then(|| context.entry(entry.sequence))
            .flatten();
        if known.is_some_and(|known| known != *entry) {
            // Two entries of one number: what is here, or what comes, was never agreed on.
            self.record_damage(context, Sequence::ZERO);
            self.refuse(context, peer, prepare.epoch, Refusal::NotThatReplica);
            return;
        }
        if entry.sequence > prepared.1 {
            let follows = entry.sequence == prepared.1.next() && entry.epoch >= prepared.0;
            if !follows || entry.epoch > prepare.epoch {
                context.reset_link(peer);
                return;
            }
            let range = entry.change.range();
            let has_room = match range {
                Some(range) if entry.change.data_bytes() > 0 => context.reserve(range),
                _ => true,
            };
            if !has_room && matches!(self.role, Role::Joiner(_)) {
                self.refuse_for_room(context, peer, prepare.epoch);
                return;
            }
            if !has_room {
                self.refuse(context, peer, prepare.epoch, Refusal::Failed);
                return;
            }
            self.recent
                .note(context.now(), entry.command, entry.sequence);
            if let Some(range) = range {
                self.note_change(entry.sequence, range);
                if let Role::Joiner(joiner) = &mut self.role {
                    joiner.wrote(range);
                }
            }
            let token = context.append(entry.clone(), prepare.committed.min(prepared.1));
            self.waits.push_back((token, Wait::Append(entry.sequence)));
        }
        self.learn_committed(context, prepare.committed, prepare.stable);
    }

    /// `peer` sends an entry of `epoch` without data that is not here. Over another link it comes with it.
    pub fn handle_entry_without_data(
        &mut self,
        context: &mut dyn Context,
        peer: NodeId,
        epoch: Epoch,
    ) {
        if self.is_deleted {
            return;
        }
        if self.takes_entries_from(peer, epoch) {
            context.reset_link(peer);
        } else {
            self.refuse(context, peer, epoch, Refusal::StaleEpoch);
        }
    }

    /// Whether entries are taken from `peer` in that epoch: also behind its beginning, which need not be durable before, for it is
    /// before them in the journal too.
    fn takes_entries_from(&self, peer: NodeId, epoch: Epoch) -> bool {
        let is_told = matches!(&self.role, Role::Secondary(secondary)
            if secondary.told && secondary.primary == peer && secondary.epoch == epoch);
        is_told || self.takes_from(peer, epoch)
    }

    pub(crate) fn handle_commit(
        &mut self,
        context: &mut dyn Context,
        peer: NodeId,
        commit: &Commit,
    ) {
        if self.takes_from(peer, commit.epoch) {
            self.learn_committed(context, commit.committed, commit.stable);
        }
    }

    fn learn_committed(
        &mut self,
        context: &mut dyn Context,
        committed: Sequence,
        stable: Sequence,
    ) {
        let committed = committed.min(context.prepared().1);
        if committed > context.committed() {
            context.set_committed(committed);
        }
        self.window.advance(stable.min(committed));
    }

    /// Whether `peer` is the primary of the epoch that has begun here.
    pub(crate) fn takes_from(&self, peer: NodeId, epoch: Epoch) -> bool {
        match &self.role {
            Role::Secondary(Secondary {
                primary,
                epoch: own,
                begun,
                ..
            }) => *begun && *primary == peer && *own == epoch,
            Role::Joiner(joiner) => {
                let Joiner {
                    primary,
                    epoch: own,
                    begun,
                    ..
                } = &**joiner;
                *begun && *primary == peer && *own == epoch
            }
            _ => false,
        }
    }

    /// Tells the primary what has become durable since it was last told.
    pub(crate) fn acknowledge(&mut self, context: &mut dyn Context) {
        let durable = self.durable;
        let (primary, epoch, acknowledged) = match &mut self.role {
            Role::Secondary(secondary) if secondary.begun => (
                secondary.primary,
                secondary.epoch,
                &mut secondary.acknowledged,
            ),
            Role::Joiner(joiner) if joiner.begun => {
                (joiner.primary, joiner.epoch, &mut joiner.acknowledged)
            }
            _ => return,
        };
        if durable > *acknowledged {
            *acknowledged = durable;
            self.send_prepared(context, primary, epoch, durable);
        }
    }

    fn send_prepared(
        &self,
        context: &mut dyn Context,
        primary: NodeId,
        epoch: Epoch,
        through: Sequence,
    ) {
        let stable = context.stable();
        context.send(
            primary,
            Prepared {
                slice: self.slice,
                epoch,
                through,
                stable,
            }
            .into(),
        );
    }

    pub(crate) fn handle_reserve(
        &mut self,
        context: &mut dyn Context,
        peer: NodeId,
        reserve: &Reserve,
    ) {
        if self.takes_from(peer, reserve.epoch) {
            let granted = context.reserve(reserve.range);
            let Reserve {
                slice,
                epoch,
                number,
                ..
            } = *reserve;
            context.send(
                peer,
                Reserved {
                    slice,
                    epoch,
                    number,
                    granted,
                }
                .into(),
            );
        } else {
            self.refuse(context, peer, reserve.epoch, Refusal::StaleEpoch);
        }
    }

    /// A candidate asks what is here. Whoever says that it is in sync must be able to say so in the next
    /// epoch, too: one without state would not be believed then, so that it keeps one first.
    pub(crate) fn handle_query(&mut self, context: &mut dyn Context, peer: NodeId, query: &Query) {
        let epoch = query.epoch;
        let is_new = self.state.is_none() && self.is_in_sync_at(epoch);
        let mut waits = self.waits.iter().map(|(_, wait)| *wait);
        if waits.clone().any(|wait| wait == Wait::Answer(peer, epoch)) {
            return;
        }
        if is_new || waits.any(|wait| matches!(wait, Wait::Answer(..))) {
            let state = self.state.unwrap_or(State::NEW);
            self.keep(context, state, Wait::Answer(peer, epoch));
        } else {
            self.answer_query(context, peer, epoch);
        }
    }

    /// Whether this is one of the replicas in sync by the record of an epoch.
    fn is_in_sync_at(&self, epoch: Epoch) -> bool {
        let recorded = self.record.as_ref().is_some_and(|record| {
            record.epoch == epoch
                && record.replica(self.me.node).is_some_and(|mine| {
                    mine.membership == Membership::InSync && mine.store == self.me.store
                })
        });
        recorded && self.is_as_recorded()
    }

    pub(crate) fn answer_query(&self, context: &mut dyn Context, peer: NodeId, epoch: Epoch) {
        let reply = QueryReply {
            slice: self.slice,
            epoch,
            in_sync: self.is_in_sync_at(epoch),
            prepared: context.prepared(),
            committed: context.committed(),
        };
        context.send(peer, reply.into());
    }

    pub(crate) fn handle_resign(
        &mut self,
        context: &mut dyn Context,
        peer: NodeId,
        resign: &Resign,
    ) {
        if let Role::Secondary(secondary) = &mut self.role
            && secondary.primary == peer
            && secondary.epoch == resign.epoch
        {
            secondary.resigned = true;
            self.last_grant = None;
            self.watch_primary(context);
        }
    }
}
