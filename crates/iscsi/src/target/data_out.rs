//! Data-Out PDUs (RFC 7143 11.7): in order, of the right length, and of the burst that they belong
//! to.
//!
//! Invariants:
//! - after a mistake the task's data is thrown away, and the task is answered when nothing more of
//!   it is to come.

use holdfast_stdx::Instant;

use crate::pdu::{DataOut, Payload};
use crate::serial::SerialNumber;
use crate::target::command::{DATA_LOST, INCORRECT_AMOUNT, UNEXPECTED_DATA};
use crate::target::session::Session;
use crate::target::task::{Collection, TaskState};

impl Session {
    /// If it answers an R2T, returns a moment not later than the sending of that.
    pub(super) fn handle_data_out(
        &mut self,
        pdu: &DataOut,
        data: Payload,
        received: Instant,
    ) -> Option<Instant> {
        let length = data.len();
        self.take_data_out(pdu, Some(data), length, received)
    }

    /// A PDU came whose data, of `length` bytes, cannot be used: nothing of it counts but that no
    /// more is to come where it says so.
    pub(super) fn lose_data_out(&mut self, pdu: &DataOut, length: usize, received: Instant) {
        self.take_data_out(pdu, None, length, received);
    }

    fn take_data_out(
        &mut self,
        pdu: &DataOut,
        data: Option<Payload>,
        length: usize,
        received: Instant,
    ) -> Option<Instant> {
        let unsolicited_max = self.parameters.unsolicited_max();
        // Of a task that was aborted, or answered before its data came: thrown away
        // (RFC 7143 11.5.1).
        let task = self.tasks.get_mut(&pdu.task_tag)?;
        let limit = task.expected_out().min(unsolicited_max);
        let arrived = task.arrived;
        let TaskState::Collecting(collection) = &mut task.state else {
            return None;
        };
        task.received = received;
        let was_asked_for =
            collection.bursts.front().map(|burst| burst.tag) == Some(pdu.transfer_tag);
        let data = data.unwrap_or_else(|| {
            collection.fail(DATA_LOST);
            Payload::new()
        });
        let end = u64::from(pdu.offset) + length as u64;
        if pdu.transfer_tag.is_reserved() {
            collection.take_unsolicited(pdu, data, end, limit);
        } else {
            collection.take_solicited(pdu, data, end);
        }
        self.finish_collection(pdu.task_tag);
        was_asked_for.then_some(arrived)
    }
}

impl Collection {
    fn take_unsolicited(&mut self, pdu: &DataOut, data: Payload, end: u64, limit: u32) {
        let Some(next) = self.unsolicited else {
            self.fail(UNEXPECTED_DATA);
            return;
        };
        if self.failure.is_none() {
            if !self.follows(pdu, next) {
                self.fail(DATA_LOST);
            } else if end > u64::from(limit) {
                self.fail(UNEXPECTED_DATA);
            } else {
                self.data.append(data);
                self.requested = self.received();
            }
        }
        let is_over = pdu.is_final || end >= u64::from(limit);
        self.unsolicited = if is_over { None } else { Some(next.next()) };
    }

    fn take_solicited(&mut self, pdu: &DataOut, data: Payload, end: u64) {
        // R2Ts are answered in order: DataSequenceInOrder is Yes (RFC 7143 13.19).
        let Some(burst) = self
            .bursts
            .front()
            .filter(|burst| burst.tag == pdu.transfer_tag)
        else {
            self.fail(DATA_LOST);
            self.bursts
                .retain(|burst| burst.tag != pdu.transfer_tag || !pdu.is_final);
            return;
        };
        let (next, burst_end) = (burst.next, u64::from(burst.end));
        if self.failure.is_none() {
            if !self.follows(pdu, next) {
                self.fail(DATA_LOST);
            } else if end > burst_end || pdu.is_final != (end == burst_end) {
                // Too much, or an end before its time, or none at its time (RFC 7143 11.7.1).
                self.fail(INCORRECT_AMOUNT);
            } else {
                self.data.append(data);
            }
        }
        // Data at the burst's end ends it even without F: nothing more is to come.
        if pdu.is_final || end >= burst_end {
            self.bursts.pop_front();
        } else if let Some(burst) = self.bursts.front_mut() {
            burst.next = next.next();
        }
    }

    /// Whether a PDU is the one that comes next: DataSN counts up within a burst, and offsets go
    /// on where the last PDU ended, DataPDUInOrder being Yes (RFC 7143 11.7.5 and 13.18).
    fn follows(&self, pdu: &DataOut, next: SerialNumber) -> bool {
        pdu.data_number == next && pdu.offset == self.received()
    }
}
