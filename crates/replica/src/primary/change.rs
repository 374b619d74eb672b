//! Changes of configuration: who is taken out, who joins, who has caught up.
//!
//! Invariants:
//! - one change at a time, and until it is known how it ended both configurations' rules hold;
//! - nobody is taken out if too few copies would remain;
//! - one replica at most is out because it was slow, and not for being as slow as the primary;
//! - a replica that has been away joins first, whatever the record says of it;
//! - a place in sync is given to one that joins only if the copy that was meant is gone: the node has another store,
//!   or the replica says so;
//! - a hand-over of which it is not known what became is proposed again only to an heir that is well: the one
//!   here, which may be the last good copy, is left out by it.

use holdfast_model::record::{Membership, ReplicaRecord, SliceRecord};
use holdfast_model::{Epoch, Incarnation, NodeId, Sequence, StoreId};
use holdfast_wire::JoinRequest;

use super::Primary;
use super::member::{Loss, Member};
use crate::candidate::Proposal;
use crate::conduct::Fault;
use crate::state::State;
use crate::timing::SILENT_FOR_READS;
use crate::{Context, Milestone, Replica, Role, Wait};

/// The version of the protocol from which on replicas say what is in their blocks.
const DIGESTS_SINCE: u16 = 2;

/// What a change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Takes a replica out.
    Remove {
        /// Whose.
        node: NodeId,
        /// Why.
        fault: Fault,
    },
    /// Takes a replica in, to be brought up to date.
    Join(NodeId),
    /// A replica has caught up.
    Complete {
        /// Whose.
        node: NodeId,
        /// Who goes at once, and why: it is lost, could not be taken out before, and lacks what the other one has
        /// only been sent.
        instead_of: Option<(NodeId, Fault)>,
    },
    /// Another replica is to lead; the one here is left out if it is slow.
    HandOver {
        /// Whose.
        to: NodeId,
        /// The disk here takes too long.
        slow: bool,
    },
    /// A node is to hold a replica: it is named, with nothing yet.
    Add(NodeId),
    /// A replica is not wanted any more.
    Release(NodeId),
    /// The one that leads is the one that is to lead.
    Prefer,
    /// All who are in sync have begun an epoch of a record that was made when the metadata was lost: they
    /// know of nothing newer.
    Confirm,
}

impl Kind {
    /// Whose part changes, if anybody's: in a hand-over it is that of `own`.
    fn subject(self, own: NodeId) -> Option<NodeId> {
        match self {
            Self::Remove { node, .. } | Self::Join(node) | Self::Complete { node, .. } => {
                Some(node)
            }
            Self::HandOver { .. } => Some(own),
            Self::Add(_) | Self::Release(_) | Self::Prefer | Self::Confirm => None,
        }
    }
}

/// A change under way.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) proposal: Proposal,
    pub(crate) kind: Kind,
    /// How the replica that joins is brought up to date.
    pub(crate) sync: Option<Sync>,
}

/// A replica's offer to join.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    store: StoreId,
    stable: Sequence,
    usable: bool,
    sync: Epoch,
    /// The start of the node that made it: a later one may have lost what it had.
    incarnation: Incarnation,
}

/// What is copied to a replica that joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// What its mark names.
    Marked,
    /// It has no mark: what differs, of the pages that have changed since it had everything up to here.
    Compared {
        /// The point.
        stable: Sequence,
    },
    /// All that is allocated: it begins with nothing.
    Everything,
}

/// How a replica that joins is brought up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sync {
    pub(crate) how: How,
    /// The epoch in which that began.
    pub(crate) epoch: Epoch,
    /// The start of the node that offered itself.
    pub(crate) incarnation: Incarnation,
}

impl Replica {
    pub(crate) fn handle_join_request(
        &mut self,
        context: &dyn Context,
        peer: NodeId,
        request: &JoinRequest,
    ) {
        let Some(there) = context.peer(peer) else {
            return;
        };
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let Some(record) = &self.record else { return };
        if record.replica(peer).is_none() {
            return;
        }
        if let Some(member) = primary.members.get_mut(&peer) {
            // It would not offer itself if it were what it is taken for; unless it has only just
            // been told to begin.
            if member.has_begun() || member.store != request.store {
                member.refuse();
            }
            // If it cannot be taken out, its place is all that there is for it.
            if there.store != request.store || !member.gives_way_to(request.store) {
                return;
            }
        }
        let JoinRequest {
            store,
            stable,
            usable,
            sync,
            ..
        } = *request;
        primary.offers.insert(
            peer,
            Offer {
                store,
                stable,
                usable,
                sync,
                incarnation: there.incarnation,
            },
        );
    }

    /// Proposes the change that is due, if none is under way.
    pub(crate) fn consider_change(&mut self, context: &mut dyn Context) {
        self.note_append_ages(context);
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        if let Some(change) = &mut primary.change {
            change.proposal.pursue(context);
            return;
        }
        if self.stopping {
            return;
        }
        self.note_leaving(context);
        let Role::Primary(primary) = &self.role else {
            return;
        };
        let due = if primary.began {
            self.due_change(context)
        } else {
            self.due_resignation(context)
        };
        let Some(kind) = due else {
            return;
        };
        // The heir waits for no lease, and does not know whom this one has taken out.
        if matches!(kind, Kind::HandOver { .. }) && primary.waits_for_readers(context.now()) {
            return;
        }
        if let Kind::Complete { node, .. } = kind
            && !self.has_noted_admission(context, node)
        {
            return;
        }
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let offer = match kind {
            Kind::Join(node) => primary.offers.remove(&node),
            _ => None,
        };
        self.propose(context, kind, offer);
    }

    /// Whether it is kept, durably, that a replica is about to be counted as in sync; keeps it if not. Once
    /// it counts it may lead without this one ever hearing of it. Should the metadata be lost then, it is
    /// known whom to ask.
    fn has_noted_admission(&mut self, context: &mut dyn Context, node: NodeId) -> bool {
        let state = self.state.expect("who leads has kept its state");
        if state.admitting == Some(node) {
            return !self.waits.iter().any(|(_, wait)| *wait == Wait::Admit);
        }
        let admitting = Some(node);
        self.keep(context, State { admitting, ..state }, Wait::Admit);
        false
    }

    /// How a replica is brought up to date that offers itself: as its mark says, if there is one that
    /// fits; else by what it has, if that is of use.
    fn sync_of(&self, context: &dyn Context, node: NodeId, offer: &Offer, next: Epoch) -> Sync {
        let mark = self.marks.get(&(node, offer.store));
        let fits = mark.is_some_and(|mark| mark.fits(offer.stable, offer.sync));
        let compares = context
            .peer(node)
            .is_some_and(|peer| peer.version >= DIGESTS_SINCE);
        let stable = offer.stable;
        let how = match offer.usable {
            true if fits => How::Marked,
            true if compares => How::Compared { stable },
            _ => How::Everything,
        };
        let goes_on = how == How::Marked && offer.sync != Epoch::ZERO;
        let epoch = if goes_on { offer.sync } else { next };
        Sync {
            how,
            epoch,
            incarnation: offer.incarnation,
        }
    }

    fn due_change(&self, context: &dyn Context) -> Option<Kind> {
        if let Some(kind) = self.due_removal(context) {
            return Some(kind);
        }
        if let Some(kind) = self.due_completion(context) {
            return Some(kind);
        }
        let Role::Primary(primary) = &self.role else {
            return None;
        };
        if let Some(kind) = self.due_resignation(context) {
            return Some(kind);
        }
        let is_stuck = primary.is_stuck(context);
        if !primary.is_serving() && !is_stuck {
            return None;
        }
        if primary.unconfirmed && primary.is_serving() {
            return Some(Kind::Confirm);
        }
        // Before a sync begins: it would be interrupted.
        if let Some(kind) = self.due_yield(context).filter(|_| !is_stuck) {
            return Some(kind);
        }
        if let Some(node) = self.due_offer(context) {
            return Some(Kind::Join(node));
        }
        if !primary.is_serving() {
            return self.due_addition(context);
        }
        self.due_addition(context)
            .or_else(|| self.due_return(context))
            .or_else(|| self.due_release(context))
            .or_else(|| self.due_preference(context))
    }

    /// Whose offer is taken up next.
    fn due_offer(&self, context: &dyn Context) -> Option<NodeId> {
        let now = context.now();
        let Role::Primary(primary) = &self.role else {
            return None;
        };
        // A member's place is given away only if it gives way, and nobody is left out of an unconfirmed record.
        let has_place = |(node, offer): &(&NodeId, &Offer)| {
            let member = primary.members.get(node);
            member.is_none_or(|it| it.gives_way_to(offer.store) && !primary.unconfirmed)
        };
        let mut offers = primary.offers.iter().filter(has_place);
        let (node, _) = offers.find(|(node, _)| {
            let peer = context.peer(**node);
            let quick = peer.is_some_and(|peer| peer.append_age < SILENT_FOR_READS);
            quick && !self.conduct.waits(now, **node) && !self.is_needless(context, **node)
        })?;
        (primary.is_syncing() || context.may_sync()).then_some(*node)
    }

    /// A replica that has caught up. It counts once no entry that it was sent before the copy of its blocks can be
    /// given up any more, for everybody who is in sync has it: else it would lack what was below. Who is lost, and
    /// cannot be taken out before another one is in sync, is not waited for: it goes in the same change, for as
    /// long as it counts it may lead without the others, and give the entry up.
    fn due_completion(&self, context: &dyn Context) -> Option<Kind> {
        let Role::Primary(primary) = &self.role else {
            return None;
        };
        let can_replace = primary.copies() == primary.copies_min && !primary.unconfirmed;
        primary.members.iter().find_map(|(node, member)| {
            let node = *node;
            let complete_at = member.catch_up()?.complete_at()?;
            let is_here = self.durable >= complete_at && member.acknowledged() >= complete_at;
            let lacks = |(_, other): &(NodeId, &Member)| other.acknowledged() < complete_at;
            let mut lacking = primary.in_sync_members().filter(lacks);
            let instead_of = match (lacking.next(), lacking.next()) {
                _ if !is_here => return None,
                (None, _) => None,
                (Some((gone, other)), None) if can_replace => {
                    let loss = other.loss(context.now(), context.peer(gone))?;
                    Some((gone, fault_of(other, loss)))
                }
                _ => return None,
            };
            Some(Kind::Complete { node, instead_of })
        })
    }

    /// Who is to be taken out, if anybody. Who is gone is; who is only slow is as long as nobody
    /// else is out for that, and the disk here is not just as slow.
    fn due_removal(&self, context: &dyn Context) -> Option<Kind> {
        let now = context.now();
        let Role::Primary(primary) = &self.role else {
            return None;
        };
        let losses = primary.members.iter().filter_map(|(node, member)| {
            let loss = member.loss(now, context.peer(*node))?;
            Some((*node, member, loss))
        });
        let spare = primary.has_spare();
        let may_be_slow =
            !self.conduct.is_anybody_out() && !self.conduct.was_slow_lately(now, self.me.node);
        let mut lost = losses.filter(|(_, member, loss)| {
            member.is_joining() || (spare && (*loss == Loss::Gone || may_be_slow))
        });
        let (node, member, loss) = lost.next()?;
        let fault = fault_of(member, loss);
        Some(Kind::Remove { node, fault })
    }

    fn propose(&mut self, context: &mut dyn Context, kind: Kind, offer: Option<Offer>) {
        let Some(mut record) = self.next_record(context, kind, offer.as_ref()) else {
            return;
        };
        let subject = kind.subject(self.me.node);
        let sync = offer
            .zip(subject)
            .map(|(offer, node)| self.sync_of(context, node, &offer, record.epoch));
        record.nonce = self.next_nonce();
        assert_keeps_enough(&record);
        let proposal = Proposal::make(context, record);
        if let Role::Primary(primary) = &mut self.role {
            primary.change = Some(Change {
                proposal,
                kind,
                sync,
            });
        }
    }

    /// The record is still what it was when the change under way was proposed: it is proposed once more. A
    /// hand-over to a replica that was lost meanwhile is not: what is due now takes its place, on the same
    /// record. If it arrives after all it is the record of another primary, as after a takeover.
    pub(crate) fn repeat_change(&mut self, context: &mut dyn Context) {
        let now = context.now();
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let Some(change) = &mut primary.change else {
            return;
        };
        if let Kind::HandOver { to, .. } = change.kind
            && change.proposal.unknown
            && !(primary.members.get(&to)).is_some_and(|heir| heir.is_well(now))
        {
            primary.change = None;
            return;
        }
        change.proposal.repeat(context);
    }

    /// The record of the next epoch, after a change; none if the change makes no sense any more.
    fn next_record(
        &self,
        context: &dyn Context,
        kind: Kind,
        offer: Option<&Offer>,
    ) -> Option<SliceRecord> {
        let Role::Primary(primary) = &self.role else {
            return None;
        };
        let mut record = self.record.clone().expect("a primary has a record");
        let subject = kind.subject(self.me.node);
        if let Some(node) = subject {
            let mut replicas = record.replicas.iter_mut();
            let replica = replicas.find(|replica| replica.node == node)?;
            self.change_part(context, replica, kind, offer);
        }
        if let Kind::Complete { instead_of, .. } = kind
            && let Some((gone, _)) = instead_of
        {
            let mut replicas = record.replicas.iter_mut();
            replicas.find(|it| it.node == gone)?.membership = self.left_by(primary, gone);
        }
        match (kind, &mut record.recovery) {
            (Kind::HandOver { to, .. }, _) => record.primary = to,
            (Kind::Confirm, Some(recovery)) => recovery.unconfirmed = false,
            _ => {}
        }
        self.apply_wish(context, &mut record, kind)?;
        leave_out_strangers(&mut record, primary, kind);
        record.epoch = record.epoch.next();
        let is_over = |node: &NodeId| match kind {
            Kind::HandOver { .. } => true,
            Kind::Release(gone) => *node == gone,
            _ => subject == Some(*node),
        };
        let over = primary.members.iter().filter(|(node, _)| is_over(node));
        let moved: u64 = over
            .filter_map(|(_, member)| member.catch_up())
            .map(|catch_up| catch_up.progress().bytes_moved)
            .sum();
        record.bytes_moved += moved;
        record.proposer = (self.me.node, self.me.incarnation);
        Some(record)
    }

    /// What becomes of the replica that a change is about.
    fn change_part(
        &self,
        context: &dyn Context,
        replica: &mut ReplicaRecord,
        kind: Kind,
        offer: Option<&Offer>,
    ) {
        let Role::Primary(primary) = &self.role else {
            return;
        };
        replica.membership = match kind {
            Kind::Remove { .. } => match replica.membership {
                Membership::Joining { stable } | Membership::Absent { stable } => {
                    Membership::Absent { stable }
                }
                Membership::InSync => self.left_by(primary, replica.node),
            },
            Kind::Join(_) => {
                let offer = offer.expect("who joins has offered itself");
                replica.store = offer.store;
                Membership::Joining {
                    stable: offer.stable,
                }
            }
            Kind::HandOver { slow: true, .. } => Membership::Absent {
                stable: context.stable(),
            },
            Kind::Complete { .. } | Kind::HandOver { slow: false, .. } => Membership::InSync,
            Kind::Add(_) | Kind::Release(_) | Kind::Prefer | Kind::Confirm => {
                unreachable!("these change nobody's part")
            }
        };
    }

    /// What the record says of a replica that was in sync and is taken out.
    fn left_by(&self, primary: &Primary, node: NodeId) -> Membership {
        let member = primary.members.get(&node);
        let known = member.map_or(Sequence::ZERO, |member| member.stable);
        Membership::Absent {
            stable: known.max(self.window.from()),
        }
    }

    pub(crate) fn announce_change(&mut self, context: &mut dyn Context, change: &Change) {
        let now = context.now();
        let milestone = match change.kind {
            Kind::Remove { node, fault } => {
                self.conduct.fault(now, node, fault);
                let slow = fault != Fault::Gone;
                Milestone::Removed { node, slow }
            }
            Kind::Join(node) => Milestone::Joining {
                node,
                full: change.sync.is_some_and(|sync| sync.how == How::Everything),
            },
            Kind::Complete { node, instead_of } => {
                if let Some((node, fault)) = instead_of {
                    self.conduct.fault(now, node, fault);
                    let slow = fault != Fault::Gone;
                    context.milestone(Milestone::Removed { node, slow });
                }
                self.conduct.is_back(now, node);
                Milestone::InSync(node)
            }
            Kind::Add(node) => Milestone::Named(node),
            Kind::Release(node) => Milestone::Released(node),
            // Nobody's part has changed.
            Kind::Prefer | Kind::Confirm => return,
            Kind::HandOver { .. } => unreachable!("who hands over has no next epoch"),
        };
        context.milestone(milestone);
    }
}

/// What a member that is lost has done wrong.
fn fault_of(member: &Member, loss: Loss) -> Fault {
    match loss {
        Loss::Gone => Fault::Gone,
        Loss::Slow if member.is_in_sync() => Fault::SlowInSync,
        Loss::Slow => Fault::SlowJoining,
    }
}

/// What another primary had begun is not gone on with: who joined there offers itself anew.
fn leave_out_strangers(record: &mut SliceRecord, primary: &Primary, kind: Kind) {
    let hands_over = matches!(kind, Kind::HandOver { .. });
    let is_fed = |node: &NodeId| primary.members.get(node).is_some_and(Member::is_joining);
    for replica in &mut record.replicas {
        let goes_on = kind == Kind::Join(replica.node) || (is_fed(&replica.node) && !hands_over);
        if let Membership::Joining { stable } = replica.membership
            && !goes_on
        {
            replica.membership = Membership::Absent { stable };
        }
    }
}

/// Invariant 8: no change of ours takes out the last copies.
fn assert_keeps_enough(record: &SliceRecord) {
    let in_sync = record.in_sync().count();
    assert!(in_sync >= 1, "the last good copy is never dropped");
    assert!(
        record.in_sync().any(|node| node == record.primary),
        "the primary is in sync"
    );
}
