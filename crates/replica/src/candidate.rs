//! The candidate: a replica that takes its primary for lost, and how it becomes the next one.
//!
//! A node that starts, or whose neighbour dies, may have to lead thousands of slices: they stand for it a
//! few at a time, so that none of them takes so long that others give it up.
//!
//! Invariants:
//! - it has withdrawn from the epoch, durably, before it asks anybody anything;
//! - it does not lead before every lease that it granted has ended, or was given up;
//! - it leaves out whoever does not answer, but never so many that too few copies remain;
//! - it does not lead with a journal that may have lost entries which another one has.

use alloc::collections::{BTreeMap, BTreeSet};

use holdfast_model::record::{Membership, Record, ReplicaRecord, SliceRecord};
use holdfast_model::{Epoch, NodeId, Sequence};
use holdfast_stdx::Instant;
use holdfast_wire::{Query, QueryReply};

use crate::state::State;
use crate::timing::{ASK, DRIFT, LEASE, METADATA_RETRY, STAND_BACK};
use crate::{Context, Replica, Role, Wait};

/// How often a candidate stands back for one that is further, before it leads in its place: every
/// in-sync replica has all that is committed, so standing back is courtesy, not safety, as long as
/// its journal is whole.
const STAND_BACKS_MAX: u32 = 3;

/// A record that was proposed.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) record: SliceRecord,
    /// The metadata has not said, or said that the record was another.
    pub(crate) unknown: bool,
    /// When it was first sent: it is not the record before.
    pub(crate) first_made: Instant,
    /// When to ask the metadata again.
    pub(crate) retry: Instant,
}

impl Proposal {
    pub(crate) fn make(context: &mut dyn Context, record: SliceRecord) -> Self {
        context.propose(record.encode());
        Self {
            record,
            unknown: false,
            first_made: context.now(),
            retry: context.now() + METADATA_RETRY,
        }
    }

    /// Whether a record is what was proposed, and not what this start proposed before.
    pub(crate) fn is(&self, record: &SliceRecord) -> bool {
        record.proposer == self.record.proposer && record.nonce == self.record.nonce
    }

    /// Asks again, when it is time, what became of it.
    pub(crate) fn pursue(&mut self, context: &mut dyn Context) {
        if context.now() >= self.retry {
            self.retry = context.now() + METADATA_RETRY;
            if self.unknown {
                context.refresh();
            }
        }
    }

    /// The record is still the old one: proposes once more. What was proposed before may yet
    /// arrive; it says the same.
    pub(crate) fn repeat(&mut self, context: &mut dyn Context) {
        if self.unknown {
            self.unknown = false;
            self.retry = context.now() + METADATA_RETRY;
            context.propose(self.record.encode());
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Too many others are at it: nothing has been done yet.
    Queued,
    /// The withdrawal is not durable yet.
    Withdrawing,
    /// Asking the others; leases that were granted may still run.
    Asking {
        lease_over: Instant,
        asked_until: Instant,
    },
    /// Another is further: it goes first.
    StandingBack { until: Instant },
    /// The metadata decides.
    Proposing,
}

/// On its way to lead.
#[derive(Debug)]
pub(crate) struct Candidate {
    from: Epoch,
    /// When it began to be one, of a slice that nobody has ever led: nobody misses it yet.
    pub(crate) made_at: Option<Instant>,
    phase: Phase,
    replies: BTreeMap<NodeId, (Epoch, Sequence)>,
    stood_back: u32,
    /// One that was further when this one last stood back.
    pub(crate) stands_back_for: Option<NodeId>,
    pub(crate) proposal: Option<Proposal>,
    /// The last primary was there, and is lost: it need not be waited for as one that has yet to come back.
    misses_primary: bool,
    /// Somebody other than the last primary is left out, or was by this one when it last led, and may serve
    /// reads for a while.
    pub(crate) leaves_out_reader: bool,
    /// In whose place it proposes itself.
    pub(crate) deposes: Option<NodeId>,
}

impl Candidate {
    pub(crate) fn is_queued(&self) -> bool {
        self.phase == Phase::Queued
    }

    /// Whether a node has said how far it is.
    pub(crate) fn has_heard(&self, node: NodeId) -> bool {
        self.replies.contains_key(&node)
    }

    pub(crate) fn next_timeout(&self) -> Instant {
        match self.phase {
            Phase::Queued | Phase::Withdrawing => Instant::from_nanos(u64::MAX),
            Phase::Asking {
                lease_over,
                asked_until,
            } => lease_over.max(asked_until),
            Phase::StandingBack { until } => until,
            Phase::Proposing => self
                .proposal
                .as_ref()
                .map_or(Instant::from_nanos(u64::MAX), |proposal| proposal.retry),
        }
    }
}

impl Replica {
    /// Begins to try to lead, as soon as it may.
    pub(crate) fn stand(&mut self, context: &mut dyn Context, misses_primary: bool) {
        let record = self
            .record
            .as_ref()
            .expect("a candidate stands for a record's slice");
        let from = record.epoch;
        // It may have had its turn, and stand anew: how long it has taken is counted from the first time.
        let before = match &self.role {
            Role::Candidate(candidate) => candidate.made_at,
            _ => None,
        };
        let is_made = from == Epoch(1) && record.primary == self.me.node;
        let made_at = is_made.then(|| before.unwrap_or_else(|| context.now()));
        self.role = Role::Candidate(Candidate {
            from,
            made_at,
            phase: Phase::Queued,
            replies: BTreeMap::new(),
            stood_back: 0,
            stands_back_for: None,
            proposal: None,
            misses_primary,
            leaves_out_reader: false,
            deposes: None,
        });
        self.press_on(context);
    }

    /// Its turn has come: it goes on in its own epoch, or withdraws from the one that it wants to end.
    fn begin_to_stand(&mut self, context: &mut dyn Context) {
        if self.resumes(context) {
            self.lead(context, true);
            return;
        }
        let Role::Candidate(candidate) = &mut self.role else {
            return;
        };
        candidate.phase = Phase::Withdrawing;
        let from = candidate.from;
        let state = self.state.unwrap_or(State::NEW);
        let withdrawn = state.withdrawn.max(from);
        self.keep(
            context,
            State {
                withdrawn,
                clean: None,
                ..state
            },
            Wait::Withdraw(from),
        );
    }

    /// A withdrawal is durable.
    pub(crate) fn withdrawn(&mut self, context: &mut dyn Context, epoch: Epoch) {
        // A former primary has granted nothing to anybody since it last led.
        let granted = self.last_grant.filter(|_| !self.has_led());
        let lease_over = granted.map_or(Instant::ZERO, |grant| grant + LEASE + DRIFT);
        let Role::Candidate(candidate) = &mut self.role else {
            return;
        };
        if candidate.from == epoch && candidate.phase == Phase::Withdrawing {
            self.ask(context, lease_over);
        }
    }

    /// Whether it has led the epoch that it wants to end. One that was only named, and never began, may have
    /// granted the lease to the one before.
    fn has_led(&self) -> bool {
        let state = self.state.unwrap_or(State::NEW);
        let record = self.record.as_ref();
        record.is_some_and(|it| it.primary == self.me.node && it.epoch == state.epoch)
    }

    fn ask(&mut self, context: &mut dyn Context, lease_over: Instant) {
        let (slice, fellows) = (self.slice, self.fellows());
        let Role::Candidate(candidate) = &mut self.role else {
            return;
        };
        candidate.replies.clear();
        let asked_until = (context.now() + ASK).max(self.patient_until);
        candidate.phase = Phase::Asking {
            lease_over,
            asked_until,
        };
        for fellow in fellows {
            context.send(
                fellow,
                Query {
                    slice,
                    epoch: candidate.from,
                }
                .into(),
            );
        }
        self.press_on(context);
    }

    /// A link has come up while the others are being asked.
    pub(crate) fn ask_too(&mut self, context: &mut dyn Context, peer: NodeId) {
        let fellow = self.fellows().contains(&peer);
        if let Role::Candidate(candidate) = &self.role
            && fellow
            && matches!(candidate.phase, Phase::Asking { .. })
        {
            let (slice, epoch) = (self.slice, candidate.from);
            context.send(peer, Query { slice, epoch }.into());
        }
    }

    pub(crate) fn handle_query_reply(
        &mut self,
        context: &mut dyn Context,
        peer: NodeId,
        reply: &QueryReply,
    ) {
        if let Role::Candidate(candidate) = &mut self.role
            && candidate.from == reply.epoch
            && reply.in_sync
        {
            candidate.replies.insert(peer, reply.prepared);
            let own = context.prepared().1;
            if reply.committed > own {
                // What all in-sync replicas had is not here: whatever held it says so too late. What is not
                // known to be committed here is dropped before it joins, so that it has to be copied, too.
                let stable = context.stable();
                self.record_damage(context, stable);
            } else {
                self.press_on(context);
            }
        }
    }

    /// Goes as far as time and answers allow.
    pub(crate) fn press_on(&mut self, context: &mut dyn Context) {
        let now = context.now();
        let fellows = self.fellows();
        let patient = now < self.patient_until;
        let primary = self.record.as_ref().map(|record| record.primary);
        let Role::Candidate(candidate) = &mut self.role else {
            return;
        };
        match candidate.phase {
            Phase::Queued if !self.stopping && context.may_stand() => self.begin_to_stand(context),
            Phase::Queued | Phase::Withdrawing => {}
            Phase::Asking {
                lease_over,
                asked_until,
            } => {
                let heard = fellows.iter().all(|fellow| {
                    let was_there = candidate.misses_primary && Some(*fellow) == primary;
                    candidate.replies.contains_key(fellow)
                        || ((!patient || was_there) && context.peer(*fellow).is_none())
                });
                if now >= lease_over && (heard || now >= asked_until) {
                    self.decide(context);
                } else if heard {
                    candidate.phase = Phase::Asking {
                        lease_over,
                        asked_until: now,
                    };
                }
            }
            Phase::StandingBack { until } => {
                if now >= until {
                    self.ask(context, Instant::ZERO);
                }
            }
            Phase::Proposing => {
                if let Some(proposal) = &mut candidate.proposal {
                    proposal.pursue(context);
                }
            }
        }
    }

    fn decide(&mut self, context: &mut dyn Context) {
        let now = context.now();
        let own = context.prepared();
        let fellows = self.fellows();
        let Role::Candidate(candidate) = &mut self.role else {
            return;
        };
        let all_heard = fellows
            .iter()
            .all(|fellow| candidate.replies.contains_key(fellow));
        let mut replies = candidate.replies.iter();
        candidate.stands_back_for = replies
            .find(|(_, prepared)| **prepared > own)
            .map(|(node, _)| *node);
        let further = candidate.stands_back_for.is_some();
        let suspect = self.suspect_until.is_some_and(|until| now < until) && !all_heard;
        // The bad group at the end of this journal may have held what another one has in a good one.
        let lost = self.suspect_until.is_some() && further;
        if suspect || lost || (further && candidate.stood_back < STAND_BACKS_MAX) {
            candidate.stood_back += 1;
            candidate.phase = Phase::StandingBack {
                until: now + STAND_BACK,
            };
            return;
        }
        let answered: BTreeSet<NodeId> = candidate.replies.keys().copied().collect();
        candidate.phase = Phase::Proposing;
        let record = self.promotion(&answered);
        let previous = self.record.as_ref().expect("a candidate has a record");
        let is_out = |replica: &ReplicaRecord| replica.membership != Membership::InSync;
        let leaves_out_reader = previous
            .in_sync()
            .any(|node| node != previous.primary && record.replica(node).is_none_or(is_out));
        // A former primary has waited for no lease, and may have taken somebody out right before it stopped.
        let took_out_reader = self.has_led() && previous.replicas.iter().any(is_out);
        let deposes = Some(previous.primary).filter(|node| *node != self.me.node);
        let proposal = Proposal::make(context, record);
        let Role::Candidate(candidate) = &mut self.role else {
            return;
        };
        candidate.deposes = deposes;
        candidate.leaves_out_reader = leaves_out_reader || took_out_reader;
        candidate.proposal = Some(proposal);
    }

    /// The record with this replica as primary, without those that have not answered, as far as
    /// enough copies remain.
    fn promotion(&mut self, answered: &BTreeSet<NodeId>) -> SliceRecord {
        let nonce = self.next_nonce();
        let me = self.me;
        // Everybody who was in sync has at least this: the last primary said so.
        let stable = self.window.from();
        let mut record = self.record.clone().expect("a candidate has a record");
        let in_sync = record.in_sync().count();
        let stays =
            |replica: &ReplicaRecord| replica.node == me.node || answered.contains(&replica.node);
        let staying = record
            .replicas
            .iter()
            .filter(|replica| replica.membership == Membership::InSync && stays(replica))
            .count();
        let mut to_leave_out =
            (in_sync - staying).min(in_sync.saturating_sub(usize::from(record.copies_min).max(1)));
        if record.is_unconfirmed() {
            to_leave_out = 0;
        }
        for replica in &mut record.replicas {
            match replica.membership {
                Membership::InSync if !stays(replica) && to_leave_out > 0 => {
                    to_leave_out -= 1;
                    replica.membership = Membership::Absent { stable };
                }
                Membership::Joining { stable } => {
                    replica.membership = Membership::Absent { stable };
                }
                _ => {}
            }
        }
        record.epoch = record.epoch.next();
        record.primary = me.node;
        record.proposer = (me.node, me.incarnation);
        record.nonce = nonce;
        record
    }

    /// The record is still what it was when a proposal was made.
    pub(crate) fn proposal_not_done(&mut self, context: &mut dyn Context) {
        match &mut self.role {
            Role::Candidate(candidate) => {
                if let Some(proposal) = &mut candidate.proposal {
                    proposal.repeat(context);
                }
            }
            Role::Primary(_) => self.repeat_change(context),
            _ => {}
        }
    }
}
