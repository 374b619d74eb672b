//! Commands on their way in, and up.
//!
//! Invariants:
//! - room for what is asked for, or may come back, is reserved before it is asked for; nobody has room
//!   while it waits for the turn of one who may still want that room;
//! - an ORDERED command is given up after all that came before it for its unit, and before all that
//!   came after it; HEAD OF QUEUE waits for nobody (SAM-5 8.6).

use alloc::vec::Vec;

use holdfast_scsi::{AdditionalSense, Lun, Response, Sense, SenseKey, TaskAttribute};
use holdfast_stdx::Instant;

use crate::pdu::{InitiatorTaskTag, Payload, ReadyToTransfer, RejectReason, Reply, ScsiCommand};
use crate::serial::SerialNumber;
use crate::target::connection::{Connection, Phase, Wire};
use crate::target::life::Life;
use crate::target::nexus::Shared;
use crate::target::session::Session;
use crate::target::task::{Burst, Collection, Task, TaskState};
use crate::target::{Command, TargetEvent, TargetOutput};

/// "Unexpected unsolicited data", RFC 7143 11.4.7.2.
pub(super) const UNEXPECTED_DATA: Sense = Sense::new(
    SenseKey::AbortedCommand,
    AdditionalSense::WRITE_ERROR_UNEXPECTED_UNSOLICITED_DATA,
);
/// "Incorrect amount of data", RFC 7143 11.4.7.2.
pub(super) const INCORRECT_AMOUNT: Sense = Sense::new(
    SenseKey::AbortedCommand,
    AdditionalSense::WRITE_ERROR_NOT_ENOUGH_UNSOLICITED_DATA,
);
/// "Protocol service CRC error", which RFC 7143 7.9 gives to data out of sequence too.
pub(super) const DATA_LOST: Sense = Sense::new(
    SenseKey::AbortedCommand,
    AdditionalSense::PROTOCOL_SERVICE_CRC_ERROR,
);
/// For what the limits, or the directions that we know, do not permit.
const NOT_SUPPORTED: Sense =
    Sense::illegal_request(AdditionalSense::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT);

/// What those ahead of a task have left of a session's room.
struct Room {
    /// Once one finds no room, those behind it do not reserve either, or it would starve; what has
    /// its room already goes on.
    is_left: bool,
    /// One whose unsolicited data is on its way may need room after that. Who may have to wait for
    /// it to be given up must not have taken that, or they would wait for each other.
    is_wanted_ahead: bool,
}

impl Session {
    /// Takes a command, which is looked at now and was received before; its data may be still to come.
    pub(super) fn handle_command(
        &mut self,
        (now, received): (Instant, Instant),
        command: &ScsiCommand,
        data: Payload,
        shared: &Shared,
    ) -> Option<RejectReason> {
        if command.task_tag.is_reserved() {
            return Some(RejectReason::InvalidField);
        }
        if self.tasks.contains_key(&command.task_tag) {
            return Some(RejectReason::TaskInProgress);
        }
        if command.immediate && self.immediate >= shared.limits().immediate_max {
            return Some(RejectReason::TooManyImmediate);
        }
        let collection = self.begin_collection(command, data, shared);
        self.insert(Task::new(command, (now, received), collection));
        self.finish_collection(command.task_tag);
        None
    }

    /// Judges the command's immediate data, and what it says of more (RFC 7143 11.3.1, 11.3.4).
    fn begin_collection(
        &self,
        command: &ScsiCommand,
        data: Payload,
        shared: &Shared,
    ) -> Collection {
        let flags = command.flags;
        let length = data.len() as u64;
        let expected = if flags.write {
            command.expected_length
        } else {
            0
        };
        let limit = u64::from(self.parameters.unsolicited_max().min(expected));
        let mut collection = Collection::default();
        // F=0 says that unsolicited data follows; it is listened to even where it is wrong, so
        // that the answer comes after it. Where nothing may follow, F=0 is forgiven.
        let may_follow = length < limit;
        if flags.write && !flags.is_final && may_follow {
            collection.unsolicited = Some(SerialNumber::ZERO);
        }
        let is_too_long = expected > shared.limits().data_out_max;
        let is_uninvited = length > limit
            || length > 0 && !self.parameters.immediate_data
            || collection.unsolicited.is_some() && self.parameters.initial_r2t;
        let failure = if is_too_long || flags.read && flags.write {
            Some(NOT_SUPPORTED)
        } else if is_uninvited {
            Some(UNEXPECTED_DATA)
        } else {
            None
        };
        match failure {
            Some(sense) => collection.fail(sense),
            None => collection.data = data,
        }
        collection.requested = collection.received();
        collection
    }

    /// If all of a task's data is here, it is ready; if it failed and nothing more comes, so it is.
    pub(super) fn finish_collection(&mut self, tag: InitiatorTaskTag) {
        let task = self
            .tasks
            .get_mut(&tag)
            .expect("a task that collects is there");
        let expected = task.expected_out();
        let TaskState::Collecting(collection) = &mut task.state else {
            unreachable!("only a task that collects is finished");
        };
        let is_complete = collection.failure.is_none() && collection.received() == expected;
        if is_complete && collection.is_quiet() {
            let data = core::mem::take(&mut collection.data);
            task.state = TaskState::Ready(data);
        }
    }

    /// Whether the task at `index` may be given up before those ahead of it.
    fn is_in_order(&self, index: usize, task: &Task) -> bool {
        let mut ahead = self
            .undelivered
            .iter()
            .take(index)
            .map(|tag| &self.tasks[tag]);
        match task.attribute {
            TaskAttribute::HeadOfQueue | TaskAttribute::Aca => true,
            TaskAttribute::Ordered => !ahead.any(|other| other.is_for(task.lun)),
            TaskAttribute::Simple => !ahead
                .any(|other| other.attribute == TaskAttribute::Ordered && other.is_for(task.lun)),
        }
    }

    /// Reserves what the task at `index` needs, if that is possible now, and its turn to.
    fn reserve(
        &mut self,
        index: usize,
        bytes: u64,
        room: &mut Room,
        (wire, shared): (&Wire, &mut Shared),
    ) -> bool {
        let tag = self.undelivered[index];
        let task = &self.tasks[&tag];
        if task.reserved > 0 {
            return true;
        }
        if !room.is_left || room.is_wanted_ahead && !self.is_in_order(index, task) {
            return false;
        }
        if self.reserved + bytes > shared.limits().connection_bytes_max
            || !shared.budget.reserve(wire.id, bytes)
        {
            room.is_left = false;
            return false;
        }
        let task = self
            .tasks
            .get_mut(&tag)
            .expect("a task that reserves is there");
        task.reserved += bytes;
        self.reserved += bytes;
        true
    }

    /// Asks for data and gives commands up, in order, as far as there is room and their initiator is known to wait for
    /// them. Returns the tasks that failed.
    fn pump_tasks(
        &mut self,
        (wire, life): (&mut Wire, &mut Life),
        shared: &mut Shared,
        out: &mut TargetOutput,
    ) -> Vec<(InitiatorTaskTag, Sense)> {
        let mut failed = Vec::new();
        life.is_doubted = false;
        let mut room = Room {
            is_left: true,
            is_wanted_ahead: false,
        };
        let mut index = 0;
        while let Some(tag) = self.undelivered.get(index).copied() {
            let task = &self.tasks[&tag];
            match &task.state {
                TaskState::Collecting(collection) => {
                    if let Some(sense) = collection.failure {
                        if collection.is_quiet() {
                            failed.push((tag, sense));
                        }
                    } else if collection.unsolicited.is_some() {
                        room.is_wanted_ahead = true;
                    } else if collection.requested < task.expected {
                        let missing = u64::from(task.expected - collection.received());
                        if self.reserve(index, missing, &mut room, (wire, shared)) {
                            self.ask_for_data(tag, wire, shared, out);
                        }
                    }
                    index += 1;
                }
                TaskState::Ready(_) => {
                    let since = task.since(life);
                    // One whose turn has not come reserves all the same: those behind it may wait
                    // for it, and must not have its room then.
                    let takes = u64::from(task.expected_in().min(shared.limits().data_in_max));
                    let is_free =
                        takes == 0 || self.reserve(index, takes, &mut room, (wire, shared));
                    match since {
                        None => {
                            life.is_doubted = true;
                            shared.doubt(wire.id);
                            index += 1;
                        }
                        Some(since) if is_free && self.is_in_order(index, &self.tasks[&tag]) => {
                            self.undelivered.remove(index);
                            self.deliver((tag, since), (wire, life), shared, out);
                        }
                        Some(_) => index += 1,
                    }
                }
                TaskState::Delivered(_) | TaskState::Answering(_) => {
                    unreachable!("such tasks are not in the list")
                }
            }
        }
        failed
    }

    /// Sends the R2Ts that a task may have outstanding (RFC 7143 11.8).
    fn ask_for_data(
        &mut self,
        tag: InitiatorTaskTag,
        wire: &mut Wire,
        shared: &mut Shared,
        out: &mut TargetOutput,
    ) {
        loop {
            let burst_max = self.parameters.burst_max;
            let outstanding_max = self.parameters.ready_to_transfer_max as usize;
            let task = self.tasks.get_mut(&tag).expect("a task that asks is there");
            let TaskState::Collecting(collection) = &mut task.state else {
                unreachable!("only a task that collects asks for data");
            };
            if collection.bursts.len() >= outstanding_max || collection.requested >= task.expected {
                return;
            }
            let offset = collection.requested;
            let length = burst_max.min(task.expected - offset);
            let transfer_tag = wire.next_transfer_tag();
            collection.bursts.push_back(Burst {
                tag: transfer_tag,
                end: offset + length,
                next: SerialNumber::ZERO,
            });
            collection.requested += length;
            let number = collection.next_burst;
            collection.next_burst = number.next();
            task.pdus += 1;
            let lun = task.lun;
            let reply = Reply::ReadyToTransfer(ReadyToTransfer {
                lun,
                task_tag: tag,
                transfer_tag,
                sequence: self.sequence(wire, shared, false),
                number,
                offset,
                length,
            });
            wire.send(&reply, Vec::new(), out);
        }
    }

    fn deliver(
        &mut self,
        (tag, since): (InitiatorTaskTag, Instant),
        (wire, life): (&Wire, &Life),
        shared: &mut Shared,
        out: &mut TargetOutput,
    ) {
        let identity = self.identity.as_ref().expect("discovery has no commands");
        let id = shared.next_task();
        let expected_in_max = shared.limits().data_in_max;
        let task = self
            .tasks
            .get_mut(&tag)
            .expect("a task that is given up is there");
        let state = core::mem::replace(&mut task.state, TaskState::Delivered(id));
        let TaskState::Ready(data) = state else {
            unreachable!("only a task that is ready is given up");
        };
        assert_eq!(data.len(), task.expected_out() as usize, "all data is here");
        shared.tasks.insert(id, (wire.id, tag));
        out.events.push_back(TargetEvent::Command(Command {
            task: id,
            session: identity.session,
            lun: task.lun,
            attribute: task.attribute,
            cdb: task.cdb,
            data_out: data.into_parts(),
            expected_out: task.expected_out(),
            expected_in: task.expected_in().min(expected_in_max),
            received: life.in_hand(task.received),
            since,
        }));
    }
}

impl Connection {
    /// Asks for data, gives commands up, answers those that failed.
    pub(super) fn pump(&mut self, shared: &mut Shared, out: &mut TargetOutput) {
        let Phase::Full(session) = &mut self.phase else {
            return;
        };
        let failed = session.pump_tasks((&mut self.wire, &mut self.life), shared, out);
        if failed.is_empty() {
            return;
        }
        for (tag, sense) in failed {
            session.end_undelivered(tag, Response::check_condition(sense));
        }
        self.pump_answers(shared, out);
        // Those behind a failed ORDERED command may go now.
        self.pump(shared, out);
    }
}

/// Whether a directory's unit is meant by `lun`.
pub(super) fn unit_of(lun: Lun) -> Option<u16> {
    lun.number()
}
