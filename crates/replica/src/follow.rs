//! What a replica makes of the record: which role it takes, and when it changes.
//!
//! Invariants:
//! - a record older than one that was already followed, in this start or an earlier one, is ignored;
//! - no role survives a restart, but for that of a primary that stopped cleanly;
//! - a replica whose contents are not what the record takes them for never counts as in sync, be it that
//!   something durable is lost, or that a device is absent.

use holdfast_model::record::{EpochGap, Membership, SliceRecord};
use holdfast_model::{Epoch, Sequence};
use holdfast_stdx::Bytes;
use holdfast_wire::JoinRequest;

use crate::candidate::Proposal;
use crate::state::{Standing, State};
use crate::{Context, Milestone, Proposed, Replica, Role, Wait, timing};

impl Replica {
    /// The record as it is, or was a moment ago (`fresh` says which); `None` if there is none any
    /// more.
    pub fn handle_record(
        &mut self,
        context: &mut dyn Context,
        record: Option<SliceRecord>,
        fresh: bool,
    ) {
        self.is_deleted = record.is_none();
        match record {
            None => self.leave(context),
            Some(record) if self.is_from_the_past(&record) => {
                context.milestone(Milestone::MetadataBehind(record.epoch));
            }
            Some(record) if self.is_missed_by(&record) => {
                context.milestone(Milestone::NotKnownOf(record.epoch));
            }
            Some(record) => {
                let known = self
                    .record
                    .as_ref()
                    .map_or(Epoch::ZERO, |known| known.epoch);
                if record.epoch >= known {
                    let newer = record.epoch > known;
                    self.adopt(context, record, newer, fresh);
                }
            }
        }
        self.maintain(context);
    }

    /// Whether a record is older than what this replica has taken part in: then the metadata has gone
    /// back, and its numbers would be given out twice. Nothing is done by it.
    fn is_from_the_past(&self, record: &SliceRecord) -> bool {
        let took_part = |state: &State| state.epoch.max(state.withdrawn);
        let newest = self.state.as_ref().map_or(Epoch::ZERO, took_part);
        self.record.is_none() && record.epoch < newest
    }

    /// Whether a record was made, when the metadata was lost, without what this replica knows: epochs
    /// began in it of which nobody told. Whoever followed the record would lose what was written in them,
    /// unless an operator has given that up.
    fn is_missed_by(&mut self, record: &SliceRecord) -> bool {
        let Some(gap) = self.gap_in(record) else {
            return false;
        };
        let mine = record.replica(self.me.node);
        let counts = mine.is_some_and(|mine| mine.membership == Membership::InSync);
        // It begins with nothing: its points say nothing of what others have.
        self.is_useless |= gap.discards && !counts;
        counts || !gap.discards
    }

    /// The epochs of which nobody told when a record was made again, if one of them has begun here.
    pub(crate) fn gap_in(&self, record: &SliceRecord) -> Option<EpochGap> {
        let begun = self.state?.epoch;
        record.recovery.as_ref()?.gap_of(begun).copied()
    }

    /// A proposal has ended.
    pub fn handle_proposed(&mut self, context: &mut dyn Context, proposed: Proposed) {
        let change = match &mut self.role {
            Role::Candidate(candidate) => candidate.proposal.as_mut(),
            Role::Primary(primary) => primary.change.as_mut().map(|change| &mut change.proposal),
            _ => None,
        };
        let Some(proposal) = change else { return };
        match proposed {
            Proposed::Accepted => {
                let record = proposal.record.clone();
                self.adopt(context, record, true, true);
            }
            Proposed::Rejected | Proposed::Unknown => {
                proposal.unknown = true;
                context.refresh();
            }
        }
        self.maintain(context);
    }

    /// Follows a record that is at least as new as the last.
    fn adopt(&mut self, context: &mut dyn Context, record: SliceRecord, newer: bool, fresh: bool) {
        let ours = |proposal: &Proposal| proposal.is(&record);
        let changes = matches!(&self.role, Role::Primary(primary)
            if primary.change.as_ref().is_some_and(|change| ours(&change.proposal)));
        let promotes = matches!(&self.role, Role::Candidate(candidate)
            if candidate.proposal.as_ref().is_some_and(ours));
        self.record = Some(record);
        if !newer {
            if matches!(self.role, Role::Outside { .. }) {
                self.take_place(context);
            }
            if fresh {
                self.proposal_not_done(context);
            }
            return;
        }
        if changes {
            self.change_done(context);
        } else if promotes {
            self.lead(context, false);
        } else {
            self.adjust_marks();
            self.take_place(context);
        }
    }

    /// The slice is deleted, or has no replica here any more.
    fn leave(&mut self, context: &mut dyn Context) {
        self.step_down(context);
        self.record = None;
        self.role = Role::Outside {
            offer: context.now(),
        };
        self.marks.clear();
        self.begin_later = None;
        self.drop_contents(context);
    }

    /// Drops what is here, if there is anything; true if that has been begun. Until it is done the
    /// store does nothing else for the slice.
    pub(crate) fn drop_contents(&mut self, context: &mut dyn Context) -> bool {
        if self.state.take().is_none() {
            return false;
        }
        self.kept_record = Bytes::new();
        let token = context.drop_contents();
        self.is_useless = false;
        self.lacks = false;
        self.no_room = None;
        self.waits.push_back((token, Wait::Drop));
        self.durable = Sequence::ZERO;
        true
    }

    pub(crate) fn is_dropping(&self) -> bool {
        self.waits.iter().any(|(_, wait)| *wait == Wait::Drop)
    }

    /// Nothing of the slice is here any more: what was asked meanwhile can begin.
    pub(crate) fn dropped(&mut self, context: &mut dyn Context) {
        if let Some((peer, begin)) = self.begin_later.take() {
            self.handle_begin(context, peer, &begin);
        }
    }

    /// Takes the place that the record has for this replica.
    pub(crate) fn take_place(&mut self, context: &mut dyn Context) {
        let now = context.now();
        let record = self.record.as_ref().expect("a place is taken in a record");
        let Some(mine) = record.replica(self.me.node) else {
            self.leave_place(context);
            return;
        };
        let in_sync = mine.membership == Membership::InSync && mine.store == self.me.store;
        let (epoch, primary) = (record.epoch, record.primary);
        if in_sync && self.is_as_recorded() {
            self.no_room = None;
            if primary == self.me.node
                && let Role::Secondary(secondary) = &mut self.role
                && secondary.begun
                && secondary.epoch.next() == epoch
            {
                // The primary hands over. It may serve until it says that it has stopped.
                secondary.heir_since.get_or_insert(now);
            } else if primary == self.me.node {
                // A former primary.
                self.step_down(context);
                self.stand(context, false);
            } else if self.has_withdrawn_from(epoch) {
                // It can take no part in this epoch any more: only the next one helps.
                self.step_down(context);
                self.stand(context, false);
            } else if !self.follows(epoch, primary) {
                self.step_down(context);
                self.follow(context, epoch, primary);
            }
        } else if !self.joins(epoch) {
            // Without a state nothing has been written to it yet, or its primary will know better.
            if in_sync && self.state.is_some() {
                context.milestone(Milestone::NotThatReplica);
            }
            self.step_down(context);
            self.role = Role::Outside { offer: now };
        }
    }

    fn leave_place(&mut self, context: &mut dyn Context) {
        let record = self.record.take();
        self.leave(context);
        self.record = record;
    }

    /// Whether what is here is what a record that names it in sync takes it for. A replica that
    /// was still joining when it last ran has been completed since, or the record would not say
    /// so; one without state has never been written to.
    pub(crate) fn is_as_recorded(&self) -> bool {
        let record = self.record.as_ref().expect("it is compared with a record");
        match &self.state {
            None => record.epoch == Epoch(1),
            Some(_) => !self.is_damaged(),
        }
    }

    /// Whether the contents are nobody's: something durable was lost, or a device is absent.
    pub(crate) fn is_damaged(&self) -> bool {
        self.lacks || self.state.is_some_and(|state| state.is_damaged())
    }

    /// How far the contents can be relied on; nothing if there are none.
    pub(crate) fn standing(&self) -> Option<Standing> {
        let state = self.state?;
        if self.lacks {
            return Some(State::after_loss(Some(state)).standing);
        }
        Some(state.standing)
    }

    fn has_withdrawn_from(&self, epoch: Epoch) -> bool {
        self.state.is_some_and(|state| state.withdrawn >= epoch)
    }

    fn follows(&self, epoch: Epoch, primary: holdfast_model::NodeId) -> bool {
        matches!(&self.role, Role::Secondary(secondary)
            if secondary.epoch == epoch && secondary.primary == primary)
    }

    fn joins(&self, epoch: Epoch) -> bool {
        matches!(&self.role, Role::Joiner(joiner) if joiner.epoch == epoch)
    }

    /// Whether this is a former primary that goes on in its epoch, after a clean stop. Else it needs a new
    /// one.
    pub(crate) fn resumes(&self, context: &dyn Context) -> bool {
        let state = self.state.unwrap_or(State::NEW);
        let record = self.record.as_ref().expect("it is named in a record");
        let prepared = context.prepared().1;
        record.primary == self.me.node
            && state.epoch == record.epoch
            && state.withdrawn < record.epoch
            && state.clean == Some(prepared)
            && context.committed() == prepared
    }

    /// Offers this replica to the primary, when it is time.
    pub(crate) fn offer(&mut self, context: &mut dyn Context) {
        let now = context.now();
        let wants_in = self.wants_in();
        let Role::Outside { offer } = &mut self.role else {
            return;
        };
        if !wants_in || *offer > now {
            return;
        }
        *offer = now + timing::JOIN_RETRY;
        if self.waits_for_room(context) {
            return;
        }
        let primary = self
            .record
            .as_ref()
            .expect("it wants into a record")
            .primary;
        if context.peer(primary).is_none() {
            return;
        }
        let (stable, sync) = match self.standing() {
            None => (Sequence::ZERO, Epoch::ZERO),
            Some(Standing::Whole) => (context.stable(), Epoch::ZERO),
            Some(Standing::Joining { stable, sync }) => (stable, sync),
            Some(Standing::Damaged { stable }) => (stable, Epoch::ZERO),
        };
        // With its device it is whole again. As long as it counts it does not give its place away.
        if self.lacks && self.fills_place() {
            return;
        }
        let (slice, store) = (self.slice, self.me.store);
        // Whoever has nothing may have had something when it last offered itself.
        let usable = self.state.is_some() && !self.is_useless;
        context.send(
            primary,
            JoinRequest {
                slice,
                store,
                stable,
                usable,
                sync,
            }
            .into(),
        );
    }

    /// Whether the record counts the store here as in sync.
    fn fills_place(&self) -> bool {
        let record = self.record.as_ref();
        let mine = record.and_then(|record| record.replica(self.me.node));
        mine.is_some_and(|it| it.membership == Membership::InSync && it.store == self.me.store)
    }

    /// Whether there is somebody to offer this replica to.
    pub(crate) fn wants_in(&self) -> bool {
        !self.stopping
            && self.record.as_ref().is_some_and(|record| {
                record.primary != self.me.node && record.replica(self.me.node).is_some()
            })
    }

    /// The operator wants the node to stop: what can be finished is, and roles are handed over.
    pub fn stop(&mut self, context: &mut dyn Context) {
        self.stopping = true;
        self.maintain(context);
    }

    /// Whether nothing of the slice is here any more, and nothing is on its way to the disk. Such a
    /// replica can be forgotten if no record names it.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.state.is_none() && self.waits.is_empty()
    }

    /// Whether nothing keeps the node from stopping any more.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        match &self.role {
            Role::Primary(primary) => primary.is_stopped(),
            Role::Secondary(secondary) => secondary.is_released(),
            Role::Outside { .. } | Role::Joiner(_) | Role::Candidate(_) => true,
        }
    }
}
