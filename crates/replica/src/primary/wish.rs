//! Wishes: where the control plane wants the slice to be, and how the primary gets there.
//!
//! One change at a time: a wished node that the record lacks is named, joins, and catches up like any
//! replica that was away; only when all wished replicas are in sync do the others go, one after the
//! other. A primary that is to go hands over first, and the next one takes it out. A wish that cannot
//! be done leaves the slice as it is.
//!
//! Invariants:
//! - nobody is released before every wished replica is in sync, and answers;
//! - nobody is released while blocks are known to be bad here: the one who goes may hold them;
//! - an in-sync replica is released only when it may serve no read any more, so that nothing waits
//!   for the end of its lease;
//! - a record names a bounded number of replicas.

use alloc::vec::Vec;

use holdfast_model::record::{Membership, REPLICAS_MAX, ReplicaRecord, SliceRecord, WishRecord};
use holdfast_model::{NodeId, Sequence};
use holdfast_stdx::Instant;

use super::change::Kind;
use crate::timing::{JOIN_RETRY, QUICK};
use crate::{Context, Replica, Role};

impl Replica {
    /// Where the slice is to be; `None` if it is well where it is. Whoever leads works towards it.
    pub fn handle_wish(&mut self, context: &mut dyn Context, wish: Option<WishRecord>) {
        let is_meant = |wish: &WishRecord| wish.slice == self.slice && wish.is_sound();
        self.wish = wish.filter(is_meant);
        self.maintain(context);
    }

    /// Something changed that decides who is to lead.
    pub fn look_again(&mut self, context: &mut dyn Context) {
        self.maintain(context);
    }

    /// The one that is to lead whenever it is in sync.
    pub(crate) fn wanted_primary(&self) -> Option<NodeId> {
        let record = self.record.as_ref()?;
        let wished = self.wish.as_ref().map(|wish| wish.preferred);
        let can_lead = |node: &NodeId| record.in_sync().any(|other| other == *node);
        Some(wished.filter(can_lead).unwrap_or(record.preferred))
    }

    /// Sees to it that a wish is looked at again as long as the record lacks a wished node. Whether that is
    /// fit by now its heartbeats tell, and a primary that nobody follows takes no notice of those.
    pub(crate) fn mind_wish(&mut self, now: Instant) {
        let lacks = match (&self.wish, &self.record) {
            (Some(wish), Some(record)) => {
                let mut nodes = wish.nodes.iter();
                nodes.any(|node| record.replica(*node).is_none())
            }
            _ => false,
        };
        let due = self.wish_retry.filter(|due| *due > now);
        self.wish_retry = lacks.then(|| due.unwrap_or(now + JOIN_RETRY));
    }

    /// A wished node that the record does not name, and that is there: it is named next.
    pub(crate) fn due_addition(&self, context: &dyn Context) -> Option<Kind> {
        let (wish, record) = (self.wish.as_ref()?, self.record.as_ref()?);
        let Role::Primary(primary) = &self.role else {
            return None;
        };
        let may =
            record.replicas.len() < REPLICAS_MAX && (primary.is_syncing() || context.may_sync());
        let now = context.now();
        let mut lacking = wish.nodes.iter().filter(|node| {
            let peer = context.peer(**node);
            let quick = peer.is_some_and(|peer| peer.append_age < QUICK);
            record.replica(**node).is_none() && quick && !self.conduct.waits(now, **node)
        });
        let node = lacking.next().filter(|_| may)?;
        Some(Kind::Add(*node))
    }

    /// Whether a replica that was away need not be brought up to date: all that are to hold the slice do,
    /// it is not one of them, and it has nothing that is bad here.
    pub(crate) fn is_needless(&self, context: &dyn Context, node: NodeId) -> bool {
        let (Some(wish), Some(record)) = (&self.wish, &self.record) else {
            return false;
        };
        let in_sync = |wished: &NodeId| record.in_sync().any(|other| other == *wished);
        let arrived = !wish.nodes.contains(&node) && wish.nodes.iter().all(in_sync);
        arrived && context.bad_blocks() == 0
    }

    /// Who goes next, if everything is there that is to stay.
    pub(crate) fn leaving(&self, context: &dyn Context) -> Option<NodeId> {
        let (wish, record) = (self.wish.as_ref()?, self.record.as_ref()?);
        let Role::Primary(primary) = &self.role else {
            return None;
        };
        let now = context.now();
        let stays = |node: &NodeId| wish.nodes.contains(node) || wish.kept.contains(node);
        let is_well = |node: &NodeId| {
            let member = primary.members.get(node);
            *node == self.me.node || member.is_some_and(|it| it.is_in_sync() && it.is_well(now))
        };
        let enough = wish.nodes.len() >= usize::from(record.copies_min).max(1);
        let ready = enough
            && stays(&self.me.node)
            && wish.nodes.iter().all(is_well)
            && context.bad_blocks() == 0;
        // Those that hold least go first.
        let order = |replica: &&ReplicaRecord| match replica.membership {
            Membership::Absent { .. } => 0,
            Membership::Joining { .. } => 1,
            Membership::InSync => 2,
        };
        let others = record.replicas.iter().filter(|it| !stays(&it.node));
        let next = others.min_by_key(order).filter(|_| ready)?;
        Some(next.node)
    }

    /// Takes note of who is to go: it gets no read lease any more.
    pub(crate) fn note_leaving(&mut self, context: &dyn Context) {
        let leaving = self.leaving(context);
        if let Role::Primary(primary) = &mut self.role {
            primary.leaving = leaving;
        }
    }

    /// The release that is due: whoever goes may serve no read any more.
    pub(crate) fn due_release(&self, context: &dyn Context) -> Option<Kind> {
        let Role::Primary(primary) = &self.role else {
            return None;
        };
        let node = primary.leaving?;
        let member = primary.members.get(&node);
        let reads = member.is_some_and(|member| context.now() < member.read_lease_until);
        (!reads).then_some(Kind::Release(node))
    }

    /// The slice is led where it is to be led: the record is to say so.
    pub(crate) fn due_preference(&self, context: &dyn Context) -> Option<Kind> {
        let (wish, record) = (self.wish.as_ref()?, self.record.as_ref()?);
        let is_due = wish.preferred == self.me.node
            && record.preferred != wish.preferred
            && !context.is_spared(self.me.node);
        is_due.then_some(Kind::Prefer)
    }

    /// The hand-over that is due because this node is spared: to a replica that is well, on a node that
    /// is not spared; to the one that is to lead, or else another one for each slice, so that no node
    /// gets them all.
    pub(crate) fn due_yield(&self, context: &dyn Context) -> Option<Kind> {
        let now = context.now();
        if !context.is_spared(self.me.node) {
            return None;
        }
        let wanted = self.wanted_primary();
        let Role::Primary(primary) = &self.role else {
            return None;
        };
        let fit: Vec<NodeId> = primary
            .in_sync_members()
            .filter(|(node, member)| {
                let quick = context.peer(*node).is_some_and(|it| it.append_age < QUICK);
                let slow = self.conduct.was_slow_lately(now, *node);
                quick && !slow && member.is_well(now) && !context.is_spared(*node)
            })
            .map(|(node, _)| node)
            .collect();
        let turn = (self.slice.index as usize).checked_rem(fit.len())?;
        let wanted = wanted.filter(|node| fit.contains(node));
        let to = wanted.unwrap_or(fit[turn]);
        Some(Kind::HandOver { to, slow: false })
    }

    /// Puts what is wished of a record's next configuration into it, as far as it can be there.
    pub(crate) fn apply_wish(
        &self,
        context: &dyn Context,
        record: &mut SliceRecord,
        kind: Kind,
    ) -> Option<()> {
        match kind {
            Kind::Add(node) => {
                let store = context.peer(node)?.store;
                let membership = Membership::Absent {
                    stable: Sequence::ZERO,
                };
                record.replicas.push(ReplicaRecord {
                    node,
                    store,
                    membership,
                });
                record.replicas.sort_by_key(|replica| replica.node);
            }
            Kind::Release(node) => record.replicas.retain(|replica| replica.node != node),
            _ => {}
        }
        if let Some(wish) = &self.wish
            && record.in_sync().any(|node| node == wish.preferred)
        {
            record.preferred = wish.preferred;
        }
        Some(())
    }
}
