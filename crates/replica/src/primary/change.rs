//! Changes of configuration: who is taken out, who joins, who has caught up.
//!
//! Invariants:
//! - one change at a time, and until it is known how it ended both configurations' rules hold;
//! - nobody is taken out if too few copies would remain;
//! - a replica that has been away joins first, whatever the record says of it.

use holdfast_model::record::{Membership, SliceRecord};
use holdfast_model::{NodeId, Sequence, StoreId};
use holdfast_wire::JoinRequest;

use super::catch_up::CatchUp;
use super::member::Member;
use crate::candidate::Proposal;
use crate::{Context, Milestone, Replica, Role};

/// What a change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Takes a replica out.
    Remove(NodeId),
    /// Takes a replica in, to be brought up to date.
    Join(NodeId),
    /// A replica has caught up.
    Complete(NodeId),
}

/// A change under way.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) proposal: Proposal,
    pub(crate) kind: Kind,
    /// Whether the replica that joins is copied in full.
    pub(crate) joins_full: bool,
}

/// A replica's offer to join.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    store: StoreId,
    stable: Sequence,
    usable: bool,
}

impl Replica {
    pub(crate) fn handle_join_request(&mut self, peer: NodeId, request: &JoinRequest) {
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
            return;
        }
        let JoinRequest {
            store,
            stable,
            usable,
            ..
        } = *request;
        primary.offers.insert(
            peer,
            Offer {
                store,
                stable,
                usable,
            },
        );
    }

    /// Proposes the change that is due, if none is under way.
    pub(crate) fn consider_change(&mut self, context: &mut dyn Context) {
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        if let Some(change) = &mut primary.change {
            change.proposal.pursue(context);
            return;
        }
        if self.stopping || !primary.began {
            return;
        }
        let Some(kind) = self.due_change(context) else {
            return;
        };
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let mut joins_full = false;
        if let Kind::Join(node) = kind {
            let offer = primary
                .offers
                .remove(&node)
                .expect("who joins has offered itself");
            let mark = self.marks.get(&(node, offer.store));
            joins_full = !offer.usable || mark.is_none_or(|mark| mark.from > offer.stable);
            self.propose(context, kind, joins_full, Some(offer));
        } else {
            self.propose(context, kind, joins_full, None);
        }
    }

    fn due_change(&self, context: &dyn Context) -> Option<Kind> {
        let now = context.now();
        let Role::Primary(primary) = &self.role else {
            return None;
        };
        let failed = |member: &&Member| member.fails_at().is_some_and(|deadline| deadline <= now);
        let in_sync = 1 + primary
            .members
            .values()
            .filter(|member| member.is_in_sync())
            .count();
        let spare = in_sync > primary.copies_min;
        let lost = primary
            .members
            .iter()
            .find(|(_, member)| failed(member) && (member.is_joining() || spare));
        if let Some((node, _)) = lost {
            return Some(Kind::Remove(*node));
        }
        let caught_up = primary.members.iter().find(|(_, member)| {
            let complete_at = member
                .catch_up()
                .and_then(|catch_up| catch_up.complete_at());
            complete_at.is_some_and(|sequence| member.acknowledged() >= sequence)
        });
        if let Some((node, _)) = caught_up {
            return Some(Kind::Complete(*node));
        }
        // Without an answer of somebody who cannot be spared nothing commits, the epoch's first entry
        // included. If that one is lost for good, only a replica that joins in its place helps.
        let stuck = primary
            .members
            .values()
            .any(|member| member.is_in_sync() && failed(&member));
        if !primary.is_serving() && !stuck {
            return None;
        }
        let offer = primary
            .offers
            .keys()
            .find(|node| context.peer(**node).is_some());
        offer.map(|node| Kind::Join(*node))
    }

    fn propose(
        &mut self,
        context: &mut dyn Context,
        kind: Kind,
        joins_full: bool,
        offer: Option<Offer>,
    ) {
        let nonce = self.next_nonce();
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let mut record = self.record.clone().expect("a primary has a record");
        let (Kind::Remove(node) | Kind::Join(node) | Kind::Complete(node)) = kind;
        let member = primary.members.get(&node);
        let known = member.map_or(Sequence::ZERO, |member| member.stable);
        let moved = member.and_then(Member::catch_up).map(CatchUp::bytes_done);
        let Some(replica) = record
            .replicas
            .iter_mut()
            .find(|replica| replica.node == node)
        else {
            return;
        };
        replica.membership = match kind {
            Kind::Remove(_) => match replica.membership {
                Membership::Joining { stable } | Membership::Absent { stable } => {
                    Membership::Absent { stable }
                }
                Membership::InSync => Membership::Absent {
                    stable: known.max(self.window.from()),
                },
            },
            Kind::Join(_) => {
                let offer = offer.expect("who joins has offered itself");
                replica.store = offer.store;
                Membership::Joining {
                    stable: offer.stable,
                }
            }
            Kind::Complete(_) => Membership::InSync,
        };
        record.epoch = record.epoch.next();
        record.bytes_moved += moved.unwrap_or(0);
        record.proposer = (self.me.node, self.me.incarnation);
        record.nonce = nonce;
        assert_keeps_enough(&record);
        let proposal = Proposal::make(context, record);
        primary.change = Some(Change {
            proposal,
            kind,
            joins_full,
        });
    }

    pub(crate) fn announce_change(&mut self, context: &mut dyn Context, change: &Change) {
        context.milestone(match change.kind {
            Kind::Remove(node) => Milestone::Removed(node),
            Kind::Join(node) => Milestone::Joining {
                node,
                full: change.joins_full,
            },
            Kind::Complete(node) => Milestone::InSync(node),
        });
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
