//! Handing a slice over, from one in-sync replica to another, while hosts are served: because the
//! disk here has become slow, or because the slice is to be led there.
//!
//! The primary proposes the next epoch with the other replica as its primary, and serves on. When
//! that is the record it stops, and says so to its heir, behind everything that it sent before. The
//! heir leads from then on. If it never hears, it waits for the lease like any candidate: being named
//! in the record gives no right as long as the one before may still serve.
//!
//! Invariants:
//! - the heir leads only after the primary before it has said that it has stopped;
//! - nobody hands over to a replica that is slow itself, or that was at fault a short while ago;
//! - a slow replica is left out only if enough copies remain, and if nobody else is out for it.

use holdfast_model::record::{Record, SliceRecord};
use holdfast_model::{CommandId, NodeId};
use holdfast_stdx::Instant;
use holdfast_wire::{HandOver, OutcomeCode};

use crate::conduct::Fault;
use crate::primary::{Kind, Operation};
use crate::timing::{LEASE, QUICK, SILENT};
use crate::{Context, Milestone, Replica, Role};

/// Changes that an heir keeps until it leads, at most.
const EARLY_MAX: usize = 4096;

impl Replica {
    /// The hand-over that is due because the disk here is slow with this slice's entries, and others
    /// are not: to the quickest of them.
    pub(crate) fn due_resignation(&self, context: &dyn Context) -> Option<Kind> {
        let now = context.now();
        let Role::Primary(primary) = &self.role else {
            return None;
        };
        let may = primary.append_age(now) >= SILENT
            && primary.has_spare()
            && !self.conduct.is_anybody_out();
        if !may {
            return None;
        }
        let candidates = primary.in_sync_members().filter_map(|(node, member)| {
            let age = context.peer(node)?.append_age;
            let up_to_it = member.is_well(now) && !self.conduct.was_slow_lately(now, node);
            up_to_it.then_some((age, node))
        });
        let (_, to) = candidates.min()?;
        Some(Kind::HandOver { to, slow: true })
    }

    /// The hand-over that is due because another replica is to lead: once it is well, and has been
    /// for a while.
    pub(crate) fn due_return(&self, context: &dyn Context) -> Option<Kind> {
        let now = context.now();
        let to = self.wanted_primary().filter(|to| !context.is_spared(*to))?;
        let Role::Primary(primary) = &self.role else {
            return None;
        };
        let (_, member) = primary.in_sync_members().find(|(node, _)| *node == to)?;
        let is_quick = context.peer(to)?.append_age < QUICK;
        let is_due = is_quick
            && !self.conduct.was_slow_lately(now, to)
            && member.is_well(now)
            && !primary.is_syncing()
            && self.conduct.has_rested(now, to);
        is_due.then_some(Kind::HandOver { to, slow: false })
    }

    /// Takes note of how quick the disks are, here and there.
    pub(crate) fn note_append_ages(&mut self, context: &dyn Context) {
        let now = context.now();
        let own = context.append_age();
        self.conduct.note_append_age(now, self.me.node, own);
        if let Role::Primary(primary) = &self.role {
            for (node, _) in primary.in_sync_members() {
                if let Some(peer) = context.peer(node) {
                    self.conduct.note_append_age(now, node, peer.append_age);
                }
            }
        }
    }

    /// The record names another replica as primary, as this one proposed: stops, and says so.
    pub(crate) fn hand_over(&mut self, context: &mut dyn Context, to: NodeId, slow: bool) {
        let record = self.record.as_ref().expect("it was just agreed on");
        let over = HandOver {
            slice: self.slice,
            epoch: record.epoch,
            record: record.encode(),
            slow,
        };
        context.send(to, over.into());
        context.milestone(Milestone::HandedOver { node: to, slow });
        self.retire(context);
        self.adjust_marks();
        self.take_place(context);
    }

    /// The primary has stopped, in favour of this replica.
    pub(crate) fn handle_hand_over(
        &mut self,
        context: &mut dyn Context,
        peer: NodeId,
        over: &HandOver,
    ) {
        let Ok(record) = SliceRecord::decode(&over.record) else {
            context.reset_link(peer);
            return;
        };
        let mine = record.replica(self.me.node);
        let is_meant = record.slice == self.slice
            && record.epoch == over.epoch
            && record.primary == self.me.node
            && mine.is_some_and(|mine| mine.store == self.me.store);
        if !is_meant {
            context.reset_link(peer);
            return;
        }
        let known = self.record.as_ref().map(|known| known.epoch);
        let withdrawn = self.state.map(|state| state.withdrawn);
        let follows = matches!(&self.role, Role::Secondary(secondary)
            if secondary.begun && secondary.primary == peer
                && secondary.epoch.next() == over.epoch);
        if !follows || known > Some(over.epoch) || withdrawn >= Some(over.epoch) {
            return;
        }
        if over.slow {
            self.conduct.fault(context.now(), peer, Fault::SlowInSync);
        }
        self.record = Some(record);
        self.lead(context, false);
    }

    /// Keeps a change until the primary before this replica has stopped; gives it back if this
    /// replica is nobody's heir.
    pub(crate) fn keep_early(&mut self, operation: Operation) -> Option<Operation> {
        let is_heir = matches!(&self.role, Role::Secondary(secondary) if secondary.is_heir());
        if !is_heir || self.early.len() >= EARLY_MAX {
            return Some(operation);
        }
        self.early.push_back(operation);
        None
    }

    /// Nobody wants a change any more, which came early if it came: it is not taken up.
    pub(crate) fn withdraw_early(&mut self, command: CommandId) {
        self.early
            .retain(|operation| operation.terms.command != command);
    }

    /// Takes up what came early, or gives it back.
    pub(crate) fn consider_early(&mut self, context: &mut dyn Context) {
        if self.early.is_empty() {
            return;
        }
        match &self.role {
            Role::Secondary(secondary) if secondary.is_heir() => {}
            Role::Primary(_) => {
                for operation in core::mem::take(&mut self.early) {
                    self.submit(context, operation);
                }
            }
            _ => {
                for operation in core::mem::take(&mut self.early) {
                    context.finish(operation.terms.command, OutcomeCode::NotPrimary);
                }
            }
        }
    }
}

/// When a lease that was granted last for a heartbeat of `from` is over.
pub(crate) fn lease_end(from: Option<Instant>) -> Instant {
    from.map_or(Instant::ZERO, |from| from + LEASE)
}
