//! Commands and their data, on the initiator's side (RFC 7143 4.2.5, 11.3 to 11.8).
//!
//! Invariants:
//! - no more data is sent unasked than was agreed on, and none beyond what the command has;
//! - Data-In is taken in order, and never more of it than the command expects.

use alloc::vec::Vec;

use holdfast_scsi::Lun;
use holdfast_stdx::Bytes;

use super::{
    CommandRequest, CommandTag, Completion, EndReason, Initiator, InitiatorEvent, InitiatorOutput,
};
use crate::pdu::{
    CommandFlags, DataIn, DataOut, InitiatorTaskTag, Payload, ReadyToTransfer, Request,
    ScsiCommand, ScsiResponse, TargetTransferTag, TaskManagementCode,
};
use crate::serial::SerialNumber;

/// What is under way.
#[derive(Debug)]
pub(super) enum Pending {
    Command(CommandState),
    Management {
        tag: CommandTag,
        code: TaskManagementCode,
        lun: Lun,
        /// That of the next command: what it ends was sent before.
        number: SerialNumber,
        /// The command that it is about, if it is about one.
        aborts: Option<InitiatorTaskTag>,
    },
    /// The answer so far.
    Text(Vec<u8>),
    Ping,
}

/// A command that was sent.
#[derive(Debug)]
pub(super) struct CommandState {
    tag: CommandTag,
    request: CommandRequest,
    number: SerialNumber,
    data_in: Payload,
    next_data: SerialNumber,
    next_burst: SerialNumber,
}

impl CommandState {
    pub(super) const fn lun(&self) -> Lun {
        self.request.lun
    }

    pub(super) const fn number(&self) -> SerialNumber {
        self.number
    }

    /// Bytes `from..to` of the command's Data-Out.
    fn slice(&self, from: u32, to: u32) -> Vec<Bytes> {
        let (mut skip, mut wanted) = (from as usize, (to - from) as usize);
        let mut parts = Vec::new();
        for part in &self.request.data_out {
            if wanted == 0 {
                break;
            }
            if skip >= part.len() {
                skip -= part.len();
                continue;
            }
            let length = wanted.min(part.len() - skip);
            parts.push(part.slice(skip..skip + length));
            skip = 0;
            wanted -= length;
        }
        assert_eq!(wanted, 0, "a slice lies within the data");
        parts
    }
}

fn length_of(parts: &[Bytes]) -> u32 {
    let length: usize = parts.iter().map(Bytes::len).sum();
    u32::try_from(length).expect("a command's data has less than 4 GiB")
}

impl Initiator {
    pub(super) fn find(&self, tag: CommandTag) -> Option<(InitiatorTaskTag, &CommandState)> {
        self.pending
            .iter()
            .find_map(|(task_tag, pending)| match pending {
                Pending::Command(command) if command.tag == tag => Some((*task_tag, command)),
                _ => None,
            })
    }

    /// Sends a command with the data that may go with it, and after it, unasked.
    pub(super) fn send_command(
        &mut self,
        tag: CommandTag,
        request: CommandRequest,
        out: &mut InitiatorOutput,
    ) {
        let task_tag = self.take_tag();
        let number = self.next_command;
        self.next_command = number.next();
        let parameters = self.parameters;
        let length = length_of(&request.data_out);
        let unsolicited = length.min(parameters.unsolicited_max());
        let immediate = if parameters.immediate_data {
            unsolicited.min(parameters.send_segment_max)
        } else {
            0
        };
        let follows = !parameters.initial_r2t && unsolicited > immediate;
        let header = Request::Command(ScsiCommand {
            immediate: false,
            flags: CommandFlags {
                is_final: !follows,
                read: request.expected_in > 0,
                write: length > 0,
            },
            attribute: request.attribute,
            lun: request.lun,
            task_tag,
            expected_length: if length > 0 {
                length
            } else {
                request.expected_in
            },
            command_number: number,
            expected_status: self.expected_status(),
            cdb: request.cdb,
        });
        let command = CommandState {
            tag,
            request,
            number,
            data_in: Payload::new(),
            next_data: SerialNumber::ZERO,
            next_burst: SerialNumber::ZERO,
        };
        self.send(&header, command.slice(0, immediate), out);
        if follows {
            let asked = TargetTransferTag::RESERVED;
            self.send_data(task_tag, &command, asked, (immediate, unsolicited), out);
        }
        self.pending.insert(task_tag, Pending::Command(command));
    }

    /// A sequence of Data-Out PDUs (RFC 7143 11.7).
    fn send_data(
        &self,
        task_tag: InitiatorTaskTag,
        command: &CommandState,
        transfer_tag: TargetTransferTag,
        (mut offset, end): (u32, u32),
        out: &mut InitiatorOutput,
    ) {
        let mut data_number = SerialNumber::ZERO;
        while offset < end {
            let length = self.parameters.send_segment_max.min(end - offset);
            let header = Request::DataOut(DataOut {
                is_final: offset + length == end,
                lun: command.lun(),
                task_tag,
                transfer_tag,
                expected_status: self.expected_status(),
                data_number,
                offset,
            });
            self.send(&header, command.slice(offset, offset + length), out);
            data_number = data_number.next();
            offset += length;
        }
    }

    pub(super) fn handle_ready_to_transfer(
        &mut self,
        ready: &ReadyToTransfer,
        out: &mut InitiatorOutput,
    ) -> Result<(), EndReason> {
        let Some(Pending::Command(command)) = self.pending.get_mut(&ready.task_tag) else {
            // Of a command that was aborted while this was on its way.
            return Ok(());
        };
        let length = length_of(&command.request.data_out);
        let end = ready
            .offset
            .checked_add(ready.length)
            .filter(|end| *end <= length);
        let Some(end) = end.filter(|_| ready.length > 0) else {
            return Err(EndReason::ProtocolError("an R2T for more than there is"));
        };
        // R2TSN counts up from zero (RFC 7143 11.8.1), MaxBurstLength bounds it (13.13).
        if ready.number != command.next_burst || ready.length > self.parameters.burst_max {
            return Err(EndReason::ProtocolError("an R2T out of order, or too long"));
        }
        command.next_burst = ready.number.next();
        let Some(Pending::Command(command)) = self.pending.get(&ready.task_tag) else {
            unreachable!("it was there");
        };
        let range = (ready.offset, end);
        self.send_data(ready.task_tag, command, ready.transfer_tag, range, out);
        Ok(())
    }

    pub(super) fn handle_data_in(
        &mut self,
        pdu: &DataIn,
        data: Payload,
        out: &mut InitiatorOutput,
    ) -> Result<(), EndReason> {
        let Some(Pending::Command(command)) = self.pending.get_mut(&pdu.task_tag) else {
            return Ok(());
        };
        // DataSN counts up from zero, offsets go on where the last PDU ended (RFC 7143 11.7.5,
        // 13.18).
        if pdu.data_number != command.next_data || pdu.offset as usize != command.data_in.len() {
            return Err(EndReason::ProtocolError("Data-In out of order"));
        }
        if command.data_in.len() + data.len() > command.request.expected_in as usize {
            return Err(EndReason::ProtocolError("more Data-In than was expected"));
        }
        command.next_data = pdu.data_number.next();
        command.data_in.append(data);
        if let Some(status) = pdu.status {
            self.complete(pdu.task_tag, status, Bytes::new(), pdu.residual, out);
        }
        Ok(())
    }

    pub(super) fn handle_response(
        &mut self,
        response: &ScsiResponse,
        data: Payload,
        out: &mut InitiatorOutput,
    ) -> Result<(), EndReason> {
        let Some(Pending::Command(command)) = self.pending.get(&response.task_tag) else {
            return Ok(());
        };
        // Anything but "completed at target" (RFC 7143 11.4.3).
        if response.response != 0 {
            return Err(EndReason::ProtocolError(
                "the target failed a command by itself",
            ));
        }
        // ExpDataSN tells how many R2T and Data-In PDUs there were (RFC 7143 11.4.8).
        let seen = command.next_data.0.wrapping_add(command.next_burst.0);
        if self.config.counts_data && response.data_number.0 != seen {
            return Err(EndReason::ProtocolError("PDUs of a command were lost"));
        }
        let segment = data.into_bytes();
        let sense = match segment.split_first_chunk::<2>() {
            Some((length, rest)) => {
                let length = usize::from(u16::from_be_bytes(*length));
                if length > rest.len() {
                    return Err(EndReason::ProtocolError("sense data longer than its PDU"));
                }
                segment.slice(2..2 + length)
            }
            None => Bytes::new(),
        };
        self.complete(
            response.task_tag,
            response.status,
            sense,
            response.residual,
            out,
        );
        Ok(())
    }

    fn complete(
        &mut self,
        task_tag: InitiatorTaskTag,
        status: u8,
        sense: Bytes,
        residual: crate::pdu::Residual,
        out: &mut InitiatorOutput,
    ) {
        let Some(Pending::Command(command)) = self.pending.remove(&task_tag) else {
            unreachable!("a command that completes is there");
        };
        let data_in = command.data_in.into_parts();
        let completion = Completion {
            status,
            sense,
            data_in,
            residual,
        };
        out.events.push_back(InitiatorEvent::Completed {
            tag: command.tag,
            completion,
        });
    }
}
