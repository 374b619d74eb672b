//! A command from its first PDU to its last.
//!
//! Invariants:
//! - a task is in one state; data is collected only before it is given up, answers come only after.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use holdfast_scsi::{Lun, Response, Sense, Status, TaskAttribute, leaves_traces};
use holdfast_stdx::{Bytes, Instant};

use crate::pdu::{InitiatorTaskTag, Payload, Residual, ScsiCommand, TargetTransferTag};
use crate::serial::SerialNumber;
use crate::target::TaskId;
use crate::target::life::Life;

#[derive(Debug)]
pub(super) struct Task {
    pub(super) tag: InitiatorTaskTag,
    pub(super) lun: Lun,
    pub(super) attribute: TaskAttribute,
    pub(super) cdb: [u8; 16],
    pub(super) immediate: bool,
    pub(super) read: bool,
    pub(super) write: bool,
    /// Bytes that the initiator expects to move.
    pub(super) expected: u32,
    pub(super) arrived: Instant,
    /// When the last byte of it, or of its data, came from the socket, and its initiator was not waited for any more to take what
    /// had been sent to it.
    pub(super) received: Instant,
    /// It may leave something behind.
    leaves_traces: bool,
    /// Bytes reserved in the budgets.
    pub(super) reserved: u64,
    /// R2T and Data-In PDUs sent, for ExpDataSN (RFC 7143 11.4.8).
    pub(super) pdus: u32,
    pub(super) state: TaskState,
}

#[derive(Debug)]
pub(super) enum TaskState {
    /// Data-Out is still to come.
    Collecting(Collection),
    /// All is here.
    Ready(Payload),
    /// The layer above has it.
    Delivered(TaskId),
    /// The answer is on its way.
    Answering(Answer),
}

/// Data-Out on its way in.
#[derive(Debug, Default)]
pub(super) struct Collection {
    pub(super) data: Payload,
    /// The DataSN that comes next in the unsolicited burst, while that is open.
    pub(super) unsolicited: Option<SerialNumber>,
    /// What was asked for and has not come, in order.
    pub(super) bursts: VecDeque<Burst>,
    /// Up to where data was sent unasked or asked for.
    pub(super) requested: u32,
    /// R2TSN of the next R2T.
    pub(super) next_burst: SerialNumber,
    /// What went wrong: the rest is thrown away, and this is the answer.
    pub(super) failure: Option<Sense>,
}

/// An R2T that was not fully answered.
#[derive(Debug)]
pub(super) struct Burst {
    pub(super) tag: TargetTransferTag,
    /// Where its data ends.
    pub(super) end: u32,
    /// The DataSN that comes next.
    pub(super) next: SerialNumber,
}

/// A response on its way out.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: Status,
    pub(super) sense: Option<Sense>,
    pub(super) residual: Residual,
    /// Data-In that was not sent.
    pub(super) data: VecDeque<Bytes>,
    /// How long that is.
    pub(super) left: u32,
    /// How much was sent.
    pub(super) sent: u32,
    /// How much of it in the present sequence.
    pub(super) in_burst: u32,
    pub(super) next: SerialNumber,
}

impl Task {
    pub(super) fn new(
        command: &ScsiCommand,
        (arrived, received): (Instant, Instant),
        collection: Collection,
    ) -> Self {
        Self {
            tag: command.task_tag,
            lun: command.lun,
            attribute: command.attribute,
            cdb: command.cdb,
            immediate: command.immediate,
            read: command.flags.read,
            write: command.flags.write,
            expected: command.expected_length,
            arrived,
            received,
            leaves_traces: leaves_traces(&command.cdb),
            reserved: 0,
            pdus: 0,
            state: TaskState::Collecting(collection),
        }
    }

    /// Since when it lives; `None` if it leaves something behind, and its initiator may have gone since it sent it.
    pub(super) fn since(&self, life: &Life) -> Option<Instant> {
        let harmless = || (!self.leaves_traces).then_some(self.arrived);
        life.since(self.arrived).or_else(harmless)
    }

    /// Bytes of Data-Out that have to be here before the command is complete.
    pub(super) const fn expected_out(&self) -> u32 {
        if self.write { self.expected } else { 0 }
    }

    /// Bytes of Data-In that the initiator takes.
    pub(super) const fn expected_in(&self) -> u32 {
        if self.read && !self.write {
            self.expected
        } else {
            0
        }
    }

    /// Whether the command is about `lun`, however that is spelled.
    pub(super) fn is_for(&self, lun: Lun) -> bool {
        self.lun == lun || (self.lun.number().is_some() && self.lun.number() == lun.number())
    }

    /// What `response` makes of this task: Data-In cut to what the initiator takes, and the
    /// residual count that tells it of the difference (RFC 7143 11.4.5.1).
    pub(super) fn prepare_answer(&self, response: Response) -> Answer {
        // Data-In for a command that has no room for any moves nothing in the direction that the
        // initiator expects.
        let wrong_way = !response.data_in.is_empty() && self.write;
        let moved = if wrong_way {
            0
        } else {
            response.transfer_length
        };
        let available: u64 = response.data_in.iter().map(|part| part.len() as u64).sum();
        let expected = if self.read || self.write {
            self.expected
        } else {
            0
        };
        Answer {
            status: response.status,
            sense: response.sense,
            residual: Residual::between(expected, moved),
            left: available.min(u64::from(self.expected_in())) as u32,
            data: response.data_in.into(),
            sent: 0,
            in_burst: 0,
            next: SerialNumber::ZERO,
        }
    }

    /// Bytes of data that the task holds.
    pub(super) fn held_bytes(&self) -> usize {
        match &self.state {
            TaskState::Collecting(collection) => collection.data.len(),
            TaskState::Ready(data) => data.len(),
            TaskState::Delivered(_) => 0,
            TaskState::Answering(answer) => answer.held_bytes(),
        }
    }
}

impl Collection {
    /// Whether nothing that was begun or asked for is still to come.
    pub(super) fn is_quiet(&self) -> bool {
        self.unsolicited.is_none() && self.bursts.is_empty()
    }

    /// Gives the data up; what comes from now on is thrown away.
    pub(super) fn fail(&mut self, sense: Sense) {
        if self.failure.is_none() {
            self.failure = Some(sense);
        }
        self.data = Payload::new();
    }

    /// Bytes that are here.
    pub(super) const fn received(&self) -> u32 {
        self.data.len() as u32
    }
}

impl Answer {
    /// Bytes of data that were not sent.
    fn held_bytes(&self) -> usize {
        self.data.iter().map(Bytes::len).sum()
    }

    /// The next `length` bytes of Data-In.
    pub(super) fn take(&mut self, length: u32) -> Vec<Bytes> {
        assert!(length <= self.left, "only what is left is taken");
        let mut wanted = length as usize;
        let mut parts = Vec::new();
        if length == self.left && self.held_bytes() == wanted {
            parts = core::mem::take(&mut self.data).into();
            wanted = 0;
        }
        while wanted > 0 {
            let front = self.data.front_mut().expect("what is left lies in parts");
            let part = front.split_to(wanted.min(front.len()));
            wanted -= part.len();
            if front.is_empty() {
                self.data.pop_front();
            }
            if !part.is_empty() {
                parts.push(part);
            }
        }
        self.left -= length;
        self.sent += length;
        parts
    }
}
