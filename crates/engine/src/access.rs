//! Changes of the access to volumes: PERSISTENT RESERVE OUT and all else that gives rights or takes them away; and what is
//! asked about it.
//!
//! What is true of a volume is its record in the metadata. An order reads it, decides what becomes of it, and replaces it if it
//! is still what was read. Then the new state is enforced: every node goes by it, and every slice's primary has committed
//! all that it numbered before (`enforcing`). Only then is the command answered.
//!
//! Invariants:
//! - an order is answered by what the metadata said after it came;
//! - orders of this node that read and replace the same record wait for each other, in their order;
//! - a command that took somebody's right away is not answered before that is enforced everywhere;
//! - the end of a session is not confirmed before what it had by RESERVE has ended, unless that takes too long; then it ends
//!   as soon as it can;
//! - a command decides nothing once it has lived for as long as a write may.

mod asked;
mod enforcing;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use holdfast_iscsi::target::{SessionId, TaskId};
use holdfast_model::metadata::Revision;
use holdfast_model::record::{AccessNexus, AccessRecord};
use holdfast_model::{Fence, Incarnation, NodeId, VolumeId};
use holdfast_replica::FENCES_SINCE;
use holdfast_scsi::reservation::{self, AccessRequest, Decision};
use holdfast_scsi::{AdditionalSense, Response, Sense, SenseKey, Status};
use holdfast_stdx::{Duration, Instant};

use crate::cluster::Swapped;
use crate::engine::Engine;
use asked::Question;
use enforcing::Enforcing;

/// How long an order may take: as long as an abort or a reset.
const ORDER_MAX: Duration = crate::clearing::ENDING_MAX;
/// Between two attempts to read the record where the metadata does not answer.
const RETRY: Duration = Duration::from_millis(100);
/// Before it is read again because somebody else has replaced it: orders of other nodes come as fast as the metadata lets them.
const AGAIN: Duration = Duration::from_millis(1);
/// Before it is tried again to end what a nexus without a session has by RESERVE.
const LOST_AGAIN: Duration = Duration::from_secs(2);
/// How many orders may wait for one volume: several for each session that a volume has. Beyond it the unit is busy.
const ORDERS_MAX: usize = 4096;
/// How long after a session began a command of it may be one that its initiator repeats because it has lost another path:
/// twice what hosts take to find out that a path is dead.
const REPEATED_WITHIN: Duration = Duration::from_secs(60);

/// So many orders a start has, in powers of two, before its numbers run into the next one's.
const QUESTIONS_BITS: u32 = 40;

/// What an order is for.
#[derive(Clone, Debug)]
pub(crate) enum Cause {
    /// A command of the portal here.
    Command {
        task: TaskId,
        nexus: AccessNexus,
        request: AccessRequest,
        /// When its session began.
        since: Instant,
        /// By when it has replaced the record, or does nothing: as long as a write may live, for its initiator may have
        /// repeated it elsewhere by then, and done other things. What is on its way to the metadata then is no danger: it replaces only
        /// what it was decided on.
        decided_by: Instant,
    },
    /// A nexus has no session any more: what it had by RESERVE ends.
    NexusLost {
        nexus: AccessNexus,
        /// The session whose end waits for that.
        closing: Option<SessionId>,
    },
    /// The unit is being reset, by the clearing of this number.
    Reset(u64),
}

/// How far an order is.
#[derive(Debug)]
enum Stage {
    /// Others are before it.
    Queued,
    /// The record is being read.
    Reading,
    /// It could not be.
    Waiting { retry: Instant },
    /// It is being replaced.
    Swapping,
    /// It is replaced: everybody is to go by it.
    Enforcing(Enforcing),
}

/// What an order wants.
#[derive(Debug)]
struct Proposed {
    /// This is to be the record.
    record: AccessRecord,
    /// And this is answered then.
    response: Response,
    /// Somebody loses a right by it.
    takes: bool,
    /// Its sender's other commands are aborted.
    aborts_own: bool,
}

/// What becomes of the record by an order; nothing, or this, and what is answered then.
struct Ruling {
    changed: Option<AccessRecord>,
    response: Response,
    aborts_own: bool,
}

#[derive(Debug)]
struct Order {
    volume: VolumeId,
    cause: Cause,
    begun: Instant,
    stage: Stage,
    /// What it wants. It may have been done.
    proposed: Option<Proposed>,
}

impl Order {
    /// When it is looked at again, whatever else happens.
    fn appointment(&self) -> Instant {
        let over = self.begun + ORDER_MAX;
        match &self.stage {
            Stage::Waiting { retry } => over.min(*retry),
            Stage::Enforcing(enforcing) => over.min(enforcing.due),
            Stage::Queued | Stage::Reading | Stage::Swapping => over,
        }
    }
}

/// Orders under way, and what other nodes ask.
#[derive(Debug, Default)]
pub(crate) struct Access {
    orders: BTreeMap<u64, Order>,
    /// Those that have not replaced the record yet, or need not.
    queues: BTreeMap<VolumeId, VecDeque<u64>>,
    questions: Vec<Question>,
    /// By which fence everybody goes, of each volume, as orders of this node have seen to. By a later one somebody may not.
    enforced: BTreeMap<VolumeId, Fence>,
    /// Volumes that a nexus without a session may still have by RESERVE, and when that is looked at again.
    unreleased: BTreeMap<VolumeId, Instant>,
    next_number: u64,
}

impl Access {
    /// This start's number is known: no answer to a question of an earlier one passes for one of this.
    pub(crate) fn name(&mut self, incarnation: Incarnation) {
        let first = incarnation.0.wrapping_shl(QUESTIONS_BITS);
        self.next_number = self.next_number.max(first);
    }

    /// A volume is gone.
    pub(crate) fn forget(&mut self, volume: VolumeId) {
        self.enforced.remove(&volume);
        self.unreleased.remove(&volume);
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let orders = self.orders.values().map(Order::appointment);
        let questions = self.questions.iter().map(|question| question.until);
        let unreleased = self.unreleased.values().copied();
        orders.chain(questions).chain(unreleased).min()
    }
}

/// The answer where it cannot be said by when the command will be done.
fn not_ready() -> Response {
    let additional = AdditionalSense::LOGICAL_UNIT_NOT_READY_BECOMING_READY;
    Response::check_condition(Sense::new(SenseKey::NotReady, additional))
}

impl Engine {
    /// Something is to become of a volume's access.
    pub(crate) fn begin_order(&mut self, volume: VolumeId, cause: Cause) {
        let access = &mut self.access;
        let waiting = access.queues.get(&volume).map_or(0, VecDeque::len);
        if waiting >= ORDERS_MAX
            && let Cause::Command { task, .. } = cause
        {
            let busy = Response::bare(Status::Busy);
            let now = self.world.now;
            self.portal.answer(now, &self.volumes, task, (busy, true));
            return;
        }
        access.next_number += 1;
        let number = access.next_number;
        let order = Order {
            volume,
            cause,
            begun: self.world.now,
            stage: Stage::Queued,
            proposed: None,
        };
        access.orders.insert(number, order);
        access.queues.entry(volume).or_default().push_back(number);
        self.advance(volume);
    }

    /// Lets the order at the head of a volume's queue begin.
    fn advance(&mut self, volume: VolumeId) {
        loop {
            let Some(queue) = self.access.queues.get(&volume) else {
                return;
            };
            let Some(number) = queue.front().copied() else {
                self.access.queues.remove(&volume);
                return;
            };
            let order = self.order(number);
            let is_new = matches!(order.stage, Stage::Queued);
            if is_new && self.is_wanted(number) {
                self.order(number).stage = Stage::Reading;
                self.world.cluster.read_access(volume, number);
                return;
            }
            if !is_new {
                return;
            }
            self.leave_queue(number);
            self.end_order(number, None);
        }
    }

    fn order(&mut self, number: u64) -> &mut Order {
        let order = self.access.orders.get_mut(&number);
        order.expect("an order that waits is there")
    }

    /// Whether somebody waits for an order's end.
    fn is_wanted(&self, number: u64) -> bool {
        match self.access.orders.get(&number).map(|order| &order.cause) {
            Some(Cause::Command { task, .. }) => !self.portal.is_aborted(*task),
            Some(Cause::NexusLost { .. } | Cause::Reset(_)) => true,
            None => false,
        }
    }

    /// The record was read, or could not be.
    pub(crate) fn access_read(&mut self, number: u64, is_read: bool) {
        let retry = self.world.now + RETRY;
        let Some(order) = self.access.orders.get_mut(&number) else {
            return;
        };
        if !matches!(order.stage, Stage::Reading) {
            return;
        }
        if is_read {
            self.decide_order(number);
        } else {
            order.stage = Stage::Waiting { retry };
        }
    }

    /// What the record says now.
    fn access_now(&self, volume: VolumeId) -> (AccessRecord, Revision) {
        let known = self.world.cluster.access(volume).cloned();
        known.unwrap_or((AccessRecord::open(volume), Revision(0)))
    }

    /// Decides what becomes of the record, which was just read.
    fn decide_order(&mut self, number: u64) {
        let now = self.world.now;
        let volume = self.order(number).volume;
        let (record, revision) = self.access_now(volume);
        // It was not known what had become of that.
        if let Some(proposed) = &self.order(number).proposed
            && proposed.record == record
        {
            self.replaced(number, revision);
            return;
        }
        let is_late = matches!(self.order(number).cause, Cause::Command { decided_by, .. } if decided_by < now);
        if is_late || !self.is_wanted(number) || !self.world.cluster.volumes.contains_key(&volume) {
            self.leave_queue(number);
            self.end_order(number, None);
            return;
        }
        let Ruling {
            changed,
            response,
            aborts_own,
        } = self.ruling(number, &record);
        match changed {
            // What was taken away before may not be enforced: by whoever did so, it may be, in vain.
            None if record.fence <= self.enforced_fence(volume) => {
                self.leave_queue(number);
                self.end_order(number, Some(response));
            }
            None => {
                self.order(number).proposed = Some(Proposed {
                    record,
                    response,
                    takes: true,
                    aborts_own,
                });
                self.replaced(number, revision);
            }
            Some(changed) => {
                let takes = changed.fence > self.enforced_fence(volume);
                if takes && self.has_older_neighbours() {
                    self.leave_queue(number);
                    self.end_order(number, None);
                    return;
                }
                let order = self.order(number);
                order.stage = Stage::Swapping;
                order.proposed = Some(Proposed {
                    record: changed.clone(),
                    response,
                    takes,
                    aborts_own,
                });
                self.world.cluster.swap_access(&changed, number);
            }
        }
    }

    /// What an order makes of a record.
    fn ruling(&self, number: u64, record: &AccessRecord) -> Ruling {
        let now = self.world.now;
        let only = |changed: Option<AccessRecord>| Ruling {
            changed,
            response: Response::good(),
            aborts_own: false,
        };
        match &self.access.orders[&number].cause {
            Cause::Command {
                nexus,
                request,
                since,
                ..
            } => {
                let is_new = now.since(*since) <= REPEATED_WITHIN;
                if is_new && reservation::is_repeat(record, nexus, request) {
                    // What it did is there; whether that is enforced is found out as for any other.
                    let response = request.done();
                    return Ruling {
                        response,
                        ..only(None)
                    };
                }
                match request.decide(record, nexus, &self.target_ports()) {
                    Decision::Answer(response) => Ruling {
                        response,
                        ..only(None)
                    },
                    Decision::Change {
                        record,
                        abort,
                        response,
                    } => Ruling {
                        response,
                        aborts_own: abort.contains(nexus),
                        ..only(Some(record))
                    },
                }
            }
            Cause::NexusLost { nexus, .. } => only(reservation::on_nexus_loss(record, nexus)),
            Cause::Reset(_) => only(reservation::on_reset(record)),
        }
    }

    fn enforced_fence(&self, volume: VolumeId) -> Fence {
        let known = self.access.enforced.get(&volume);
        known.copied().unwrap_or(Fence::ZERO)
    }

    /// Whether a node that has a link does not know of fences: it would go on as before.
    fn has_older_neighbours(&self) -> bool {
        let mut links = self.neighbours().filter_map(|it| self.world.peers.link(it));
        links.any(|link| link.peer.version < FENCES_SINCE)
    }

    /// The ports of the target: one on each node, ascending.
    fn target_ports(&self) -> Vec<NodeId> {
        let cluster = &self.world.cluster;
        let nodes = cluster.nodes.keys().copied();
        nodes.filter(|node| cluster.belongs(*node)).collect()
    }

    /// What became of a replacement.
    pub(crate) fn access_swapped(&mut self, number: u64, swapped: Swapped) {
        let now = self.world.now;
        let Some(order) = self.access.orders.get_mut(&number) else {
            return;
        };
        if !matches!(order.stage, Stage::Swapping) {
            return;
        }
        let pause = match swapped {
            Swapped::Done(revision) => {
                self.replaced(number, revision);
                return;
            }
            Swapped::Rejected => AGAIN,
            Swapped::Unknown => RETRY,
        };
        let retry = now + pause;
        order.stage = Stage::Waiting { retry };
    }

    /// The record is what the order wanted: now everybody is to go by it.
    fn replaced(&mut self, number: u64, revision: Revision) {
        let now = self.world.now;
        let order = self.order(number);
        let proposed = order.proposed.as_ref().expect("it is what was wanted");
        let enforcing = Enforcing::new(now, &proposed.record, revision, proposed.takes);
        order.stage = Stage::Enforcing(enforcing);
        if proposed.aborts_own
            && let Cause::Command { task, .. } = order.cause
        {
            self.portal.abort_fellows(now, task);
        }
        self.leave_queue(number);
        self.pursue_enforcing(number);
    }

    fn leave_queue(&mut self, number: u64) {
        let volume = self.order(number).volume;
        if let Some(queue) = self.access.queues.get_mut(&volume) {
            queue.retain(|other| *other != number);
        }
    }

    /// Goes on with orders whose time has come, and with questions; true if there was something to do.
    pub(crate) fn consider_orders(&mut self) -> bool {
        let mut busy = self.consider_questions();
        busy |= self.consider_unreleased();
        if self.access.orders.is_empty() {
            return busy;
        }
        let now = self.world.now;
        let orders = self.access.orders.iter();
        let due: Vec<u64> = orders
            .filter(|(_, order)| order.appointment() <= now)
            .map(|(number, _)| *number)
            .collect();
        for number in due {
            busy = true;
            let order = self.order(number);
            let is_over = now >= order.begun + ORDER_MAX;
            let volume = order.volume;
            match order.stage {
                _ if is_over => {
                    self.leave_queue(number);
                    self.end_order(number, None);
                }
                Stage::Waiting { .. } => {
                    order.stage = Stage::Reading;
                    self.world.cluster.read_access(volume, number);
                }
                Stage::Enforcing(_) => self.pursue_enforcing(number),
                Stage::Queued | Stage::Reading | Stage::Swapping => {}
            }
        }
        let volumes: Vec<VolumeId> = self.access.queues.keys().copied().collect();
        for volume in volumes {
            self.advance(volume);
        }
        busy
    }

    /// An order is over, with what is to be answered; without anything, it could not be carried out in time. A command that nobody
    /// waits for any more is not answered.
    fn end_order(&mut self, number: u64, response: Option<Response>) {
        let order = self.access.orders.remove(&number);
        let Order {
            volume,
            cause,
            proposed,
            ..
        } = order.expect("what ends was there");
        let now = self.world.now;
        match cause {
            Cause::Command { task, .. } => {
                // Without one of its own, what it wanted may be done, and may not be enforced.
                let settled = response.is_some() || proposed.is_none();
                let response = response.unwrap_or_else(not_ready);
                self.portal.release_late(&self.volumes, task);
                self.portal
                    .answer(now, &self.volumes, task, (response, settled));
            }
            Cause::NexusLost { closing, .. } => {
                if response.is_none() {
                    self.access.unreleased.insert(volume, now + LOST_AGAIN);
                }
                if let Some(session) = closing {
                    self.portal.released(now, &self.volumes, session);
                }
            }
            Cause::Reset(clearing) => {
                // There is none any more where there is no volume.
                let is_gone = !self.world.cluster.volumes.contains_key(&volume);
                let is_released = response.is_some_and(|it| it.status == Status::Good);
                self.clearings.released(clearing, is_released || is_gone);
            }
        }
    }

    /// The access to a volume is another: what is under way here may not be permitted any more.
    pub(crate) fn access_changed(&mut self, volume: VolumeId) {
        let now = self.world.now;
        if !self.world.cluster.volumes.contains_key(&volume) {
            self.access.forget(volume);
        }
        let (record, _) = self.access_now(volume);
        let fence = record.fence;
        let before = self.volumes.set_access(volume, record);
        self.portal
            .access_changed(now, &self.volumes, volume, &before);
        // Before anything is sent by the new state: what is not permitted by it is given up.
        for task in self.portal.take_dropped() {
            self.drop_task(task);
        }
        self.refuse_fenced_copies(volume);
        for slice in self.slices_of(volume) {
            self.with_replica(slice, |replica, context| {
                replica.raise_fence(context, fence);
            });
        }
        self.retry_fenced_parts(volume);
        self.end_lost_reserve(volume);
    }

    /// What a nexus of this node has by RESERVE ends where there is no session of it: an earlier process may have had one, or
    /// it ended while the command was on its way.
    fn end_lost_reserve(&mut self, volume: VolumeId) {
        let reserved = self.volumes.access(volume).reserved.as_ref();
        let own = reserved.filter(|nexus| nexus.port == self.config.node);
        let lost = own.filter(|nexus| !self.portal.has_nexus(&self.volumes, volume, nexus));
        if let Some(nexus) = lost.cloned() {
            let closing = None;
            self.begin_order(volume, Cause::NexusLost { nexus, closing });
        }
    }

    /// Tries again what could not be done in time; true if there was something to do.
    fn consider_unreleased(&mut self) -> bool {
        let now = self.world.now;
        let unreleased = self.access.unreleased.iter();
        let due = unreleased.filter(|(_, due)| **due <= now);
        let due: Vec<VolumeId> = due.map(|(volume, _)| *volume).collect();
        for volume in &due {
            self.access.unreleased.remove(volume);
            self.end_lost_reserve(*volume);
        }
        !due.is_empty()
    }
}
