//! Answers on their way out: Data-In, and the status in the last of it or in a PDU of its own.
//!
//! Invariants:
//! - Data-In is made only while the connection's output is within its bound;
//! - the task is gone before the numbers of its last PDU are taken, so that the window which that
//!   PDU tells of has its place again.

use alloc::vec::Vec;

use holdfast_scsi::{Lun, Response, Sense, Status};
use holdfast_stdx::{Bytes, BytesMut};

use crate::pdu::{
    DataIn, InitiatorTaskTag, Reply, ScsiResponse, TargetTransferTag, TaskManagementResponse,
};
use crate::serial::SerialNumber;
use crate::target::TargetOutput;
use crate::target::connection::{Connection, Phase, Wire};
use crate::target::nexus::Shared;
use crate::target::session::{Outgoing, Session};
use crate::target::task::{Answer, Task, TaskState};

/// The longest Data-In PDU: an initiator may take 16 MiB at once, which would be more output than
/// the bound is meant for.
const DATA_IN_MAX: u32 = 256 << 10;

impl Session {
    /// Ends a task that the layer above never saw.
    pub(super) fn end_undelivered(&mut self, tag: InitiatorTaskTag, response: Response) {
        self.undelivered.retain(|other| *other != tag);
        self.put_answer(tag, response);
    }

    fn put_answer(&mut self, tag: InitiatorTaskTag, response: Response) {
        let task = self
            .tasks
            .get_mut(&tag)
            .expect("a task that is answered is there");
        task.state = TaskState::Answering(task.prepare_answer(response));
        self.answers.push_back(Outgoing::Task(tag));
    }

    /// Sends the next PDU of the first answer in line; false if there is none.
    fn send_next(&mut self, wire: &mut Wire, shared: &mut Shared, out: &mut TargetOutput) -> bool {
        let tag = match self.answers.front() {
            None => return false,
            Some(Outgoing::Management(tag, code)) => {
                let (tag, code) = (*tag, *code);
                self.answers.pop_front();
                self.send_management(tag, code, wire, shared, out);
                return true;
            }
            Some(Outgoing::Task(tag)) => *tag,
        };
        let parameters = self.parameters;
        let task = self
            .tasks
            .get_mut(&tag)
            .expect("an answer in line has its task");
        let TaskState::Answering(answer) = &mut task.state else {
            unreachable!("an answer in line is one");
        };
        if answer.left == 0 {
            let (task, answer) = self.finish_answer(tag, shared);
            let reply = Reply::Response(ScsiResponse {
                response: 0,
                status: answer.status.code(),
                task_tag: tag,
                sequence: self.sequence(wire, shared, true),
                data_number: SerialNumber(task.pdus),
                residual: answer.residual,
            });
            wire.send(&reply, sense_segment(answer.sense), out);
            return true;
        }
        let length = answer
            .left
            .min(parameters.send_segment_max)
            .min(parameters.burst_max - answer.in_burst)
            .min(shared.load.piece_max(DATA_IN_MAX));
        let (offset, number) = (answer.sent, answer.next);
        let data = answer.take(length);
        answer.next = number.next();
        answer.in_burst += length;
        task.pdus += 1;
        let is_last = answer.left == 0;
        // A sequence of Data-In is at most MaxBurstLength long (RFC 7143 13.13).
        let is_final = is_last || answer.in_burst == parameters.burst_max;
        if is_final {
            answer.in_burst = 0;
        }
        // Phase collapse: a status without sense data rides on the last Data-In (RFC 7143 11.7.3).
        let collapses = is_last && answer.status == Status::Good;
        let (status, residual) = if collapses {
            let (_, answer) = self.finish_answer(tag, shared);
            (Some(answer.status.code()), answer.residual)
        } else {
            (None, crate::pdu::Residual::None)
        };
        let reply = Reply::DataIn(DataIn {
            is_final,
            acknowledge: false,
            status,
            residual,
            lun: Lun::from_bytes([0; 8]),
            task_tag: tag,
            transfer_tag: TargetTransferTag::RESERVED,
            sequence: self.sequence(wire, shared, collapses),
            data_number: number,
            offset,
        });
        wire.send(&reply, data, out);
        true
    }

    /// Takes a task out whose last PDU is about to be sent.
    fn finish_answer(&mut self, tag: InitiatorTaskTag, shared: &mut Shared) -> (Task, Answer) {
        let front = self.answers.pop_front();
        assert_eq!(front, Some(Outgoing::Task(tag)), "answers end in order");
        let mut task = self.remove(tag);
        shared.budget.release(task.reserved);
        let state = core::mem::replace(&mut task.state, TaskState::Ready(Default::default()));
        let TaskState::Answering(answer) = state else {
            unreachable!("an answer in line is one");
        };
        (task, answer)
    }

    fn send_management(
        &mut self,
        tag: InitiatorTaskTag,
        code: u8,
        wire: &mut Wire,
        shared: &mut Shared,
        out: &mut TargetOutput,
    ) {
        let reply = Reply::TaskManagement(TaskManagementResponse {
            response: code,
            task_tag: tag,
            sequence: self.sequence(wire, shared, true),
        });
        wire.send(&reply, Vec::new(), out);
    }
}

impl Connection {
    /// The layer above has answered the task `tag`.
    pub(super) fn answer(
        &mut self,
        tag: InitiatorTaskTag,
        response: Response,
        shared: &mut Shared,
        out: &mut TargetOutput,
    ) {
        let Phase::Full(session) = &mut self.phase else {
            unreachable!("a task in the index has its session");
        };
        session.put_answer(tag, response);
        self.pump_answers(shared, out);
    }

    /// Sends answers as far as the output's bound permits; what they had reserved is used anew.
    pub(super) fn pump_answers(&mut self, shared: &mut Shared, out: &mut TargetOutput) {
        let Phase::Full(session) = &mut self.phase else {
            return;
        };
        let before = session.reserved;
        let limit = shared.load.output_max();
        while self.wire.unsent() < limit && session.send_next(&mut self.wire, shared, out) {}
        if session.reserved < before {
            self.pump(shared, out);
        }
    }
}

/// SenseLength and sense data (RFC 7143 11.4.7).
fn sense_segment(sense: Option<Sense>) -> Vec<Bytes> {
    let Some(sense) = sense else {
        return Vec::new();
    };
    let sense = sense.encode_fixed();
    let mut segment = BytesMut::with_capacity(2 + sense.len());
    segment.extend_from_slice(&(sense.len() as u16).to_be_bytes());
    segment.extend_from_slice(&sense);
    [segment.freeze()].into()
}
