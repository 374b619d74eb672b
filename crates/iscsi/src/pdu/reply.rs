//! The headers that a target sends (RFC 7143 11.4, 11.6, 11.7, 11.8, 11.9, 11.11, 11.13, 11.15,
//! 11.17, 11.19).

use holdfast_scsi::Lun;

use super::request::{CONTINUE, FINAL};
use crate::pdu::{
    Header, HeaderError, InitiatorTaskTag, LoginStage, LoginStatus, Residual, TargetTransferTag,
    opcode,
};
use crate::serial::SerialNumber;
use crate::{Isid, Tsih};

/// S: the PDU carries the command's status.
const STATUS: u8 = 0x01;
/// A: the target wants the data acknowledged; ErrorRecoveryLevel 1 and up only.
const ACKNOWLEDGE: u8 = 0x40;

/// The three numbers of every header from a target (RFC 7143 4.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// StatSN: place in the connection's order of statuses.
    pub status: SerialNumber,
    /// ExpCmdSN: the CmdSN that the target expects next.
    pub expected_command: SerialNumber,
    /// MaxCmdSN: the highest CmdSN that it takes.
    pub command_max: SerialNumber,
}

impl Sequence {
    fn parse(header: &Header) -> Self {
        Self {
            status: SerialNumber(header.word(24)),
            expected_command: SerialNumber(header.word(28)),
            command_max: SerialNumber(header.word(32)),
        }
    }

    fn put(self, header: &mut Header) {
        header.put_word(24, self.status.0);
        header.put_word(28, self.expected_command.0);
        header.put_word(32, self.command_max.0);
    }
}

/// A header from a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// I am, or: are you there?
    NopIn(NopIn),
    /// How a command ended.
    Response(ScsiResponse),
    /// How task management ended.
    TaskManagement(TaskManagementResponse),
    /// A step of a login.
    Login(LoginResponse),
    /// Text.
    Text(TextResponse),
    /// Data of a read, and perhaps how it ended.
    DataIn(DataIn),
    /// Goodbye.
    Logout(LogoutResponse),
    /// Send me data.
    ReadyToTransfer(ReadyToTransfer),
    /// Something happened.
    Async(AsyncMessage),
    /// That was wrong.
    Reject(Reject),
}

impl Reply {
    /// The reply that `header` is.
    ///
    /// # Errors
    /// [`HeaderError`] if it is none that a target may send.
    pub fn parse(header: &Header) -> Result<Self, HeaderError> {
        Ok(match header.opcode() {
            opcode::NOP_IN => Self::NopIn(NopIn::parse(header)),
            opcode::SCSI_RESPONSE => Self::Response(ScsiResponse::parse(header)?),
            opcode::TASK_MANAGEMENT_RESPONSE => {
                Self::TaskManagement(TaskManagementResponse::parse(header))
            }
            opcode::LOGIN_RESPONSE => Self::Login(LoginResponse::parse(header)?),
            opcode::TEXT_RESPONSE => Self::Text(TextResponse::parse(header)),
            opcode::DATA_IN => Self::DataIn(DataIn::parse(header)?),
            opcode::LOGOUT_RESPONSE => Self::Logout(LogoutResponse::parse(header)),
            opcode::READY_TO_TRANSFER => Self::ReadyToTransfer(ReadyToTransfer::parse(header)),
            opcode::ASYNC_MESSAGE => Self::Async(AsyncMessage::parse(header)),
            opcode::REJECT => Self::Reject(Reject::parse(header)),
            other => return Err(HeaderError::Opcode(other)),
        })
    }

    /// The header.
    #[must_use]
    pub fn encode(&self) -> Header {
        match self {
            Self::NopIn(pdu) => pdu.encode(),
            Self::Response(pdu) => pdu.encode(),
            Self::TaskManagement(pdu) => pdu.encode(),
            Self::Login(pdu) => pdu.encode(),
            Self::Text(pdu) => pdu.encode(),
            Self::DataIn(pdu) => pdu.encode(),
            Self::Logout(pdu) => pdu.encode(),
            Self::ReadyToTransfer(pdu) => pdu.encode(),
            Self::Async(pdu) => pdu.encode(),
            Self::Reject(pdu) => pdu.encode(),
        }
    }
}

fn lun(header: &Header) -> Lun {
    Lun::from_bytes(header.bytes(8))
}

fn task_tag(header: &Header) -> InitiatorTaskTag {
    InitiatorTaskTag(header.word(16))
}

fn transfer_tag(header: &Header) -> TargetTransferTag {
    TargetTransferTag(header.word(20))
}

/// NOP-In (RFC 7143 11.19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NopIn {
    /// To be copied into the NOP-Out that answers.
    pub lun: Lun,
    /// Of the NOP-Out that is answered; reserved if none is.
    pub task_tag: InitiatorTaskTag,
    /// Reserved if no answer is wanted.
    pub transfer_tag: TargetTransferTag,
    /// Numbers; without a task tag, StatSN does not advance.
    pub sequence: Sequence,
}

impl NopIn {
    fn parse(header: &Header) -> Self {
        Self {
            lun: lun(header),
            task_tag: task_tag(header),
            transfer_tag: transfer_tag(header),
            sequence: Sequence::parse(header),
        }
    }

    fn encode(&self) -> Header {
        let mut header = Header::new(opcode::NOP_IN, FINAL);
        header.put(8, &self.lun.to_bytes());
        header.put_word(16, self.task_tag.0);
        header.put_word(20, self.transfer_tag.0);
        self.sequence.put(&mut header);
        header
    }
}

/// SCSI Response (RFC 7143 11.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScsiResponse {
    /// Zero: the command was completed at the target.
    pub response: u8,
    /// SCSI status code.
    pub status: u8,
    /// The task.
    pub task_tag: InitiatorTaskTag,
    /// Numbers.
    pub sequence: Sequence,
    /// How many Data-In and R2T PDUs were sent for the command.
    pub data_number: SerialNumber,
    /// What was not moved.
    pub residual: Residual,
}

impl ScsiResponse {
    fn parse(header: &Header) -> Result<Self, HeaderError> {
        Ok(Self {
            response: header.0[2],
            status: header.0[3],
            task_tag: task_tag(header),
            sequence: Sequence::parse(header),
            data_number: SerialNumber(header.word(36)),
            residual: Residual::decode(header.flags(), header.word(44))?,
        })
    }

    fn encode(&self) -> Header {
        let (flags, count) = self.residual.encode();
        let mut header = Header::new(opcode::SCSI_RESPONSE, FINAL | flags);
        header.put(2, &[self.response, self.status]);
        header.put_word(16, self.task_tag.0);
        self.sequence.put(&mut header);
        header.put_word(36, self.data_number.0);
        header.put_word(44, count);
        header
    }
}

/// Task Management Function Response (RFC 7143 11.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskManagementResponse {
    /// The code; see [`TaskManagementResponseCode`](crate::pdu::TaskManagementResponseCode).
    pub response: u8,
    /// The task.
    pub task_tag: InitiatorTaskTag,
    /// Numbers.
    pub sequence: Sequence,
}

impl TaskManagementResponse {
    fn parse(header: &Header) -> Self {
        Self {
            response: header.0[2],
            task_tag: task_tag(header),
            sequence: Sequence::parse(header),
        }
    }

    fn encode(&self) -> Header {
        let mut header = Header::new(opcode::TASK_MANAGEMENT_RESPONSE, FINAL);
        header.put(2, &[self.response]);
        header.put_word(16, self.task_tag.0);
        self.sequence.put(&mut header);
        header
    }
}

/// Login Response (RFC 7143 11.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginResponse {
    /// T: the target goes to `next`.
    pub transit: bool,
    /// C: the text goes on in the next response.
    pub more: bool,
    /// CSG.
    pub current: LoginStage,
    /// NSG; without `transit` it says nothing.
    pub next: Option<LoginStage>,
    /// Highest version that the target speaks.
    pub version_max: u8,
    /// The version that is spoken.
    pub version_active: u8,
    /// The initiator's part of the session's identifier.
    pub isid: Isid,
    /// The target's part, with the last response of a successful login.
    pub tsih: Tsih,
    /// The task that the login is.
    pub task_tag: InitiatorTaskTag,
    /// Numbers.
    pub sequence: Sequence,
    /// How it goes.
    pub status: LoginStatus,
}

impl LoginResponse {
    fn parse(header: &Header) -> Result<Self, HeaderError> {
        let flags = header.flags();
        let transit = flags & FINAL != 0;
        let next = LoginStage::from_code(flags & 3);
        if transit && next.is_none() {
            return Err(HeaderError::Field(1));
        }
        Ok(Self {
            transit,
            more: flags & CONTINUE != 0,
            current: LoginStage::from_code(flags >> 2 & 3).ok_or(HeaderError::Field(1))?,
            next: if transit { next } else { None },
            version_max: header.0[2],
            version_active: header.0[3],
            isid: Isid(header.bytes(8)),
            tsih: Tsih(header.half(14)),
            task_tag: task_tag(header),
            sequence: Sequence::parse(header),
            status: LoginStatus::from_code(header.half(36)).ok_or(HeaderError::Field(36))?,
        })
    }

    fn encode(&self) -> Header {
        let mut flags = self.current.code() << 2;
        if let (true, Some(next)) = (self.transit, self.next) {
            flags |= FINAL | next.code();
        }
        if self.more {
            flags |= CONTINUE;
        }
        let mut header = Header::new(opcode::LOGIN_RESPONSE, flags);
        header.put(2, &[self.version_max, self.version_active]);
        header.put(8, &self.isid.0);
        header.put_half(14, self.tsih.0);
        header.put_word(16, self.task_tag.0);
        self.sequence.put(&mut header);
        header.put_half(36, self.status.code());
        header
    }
}

/// Text Response (RFC 7143 11.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextResponse {
    /// F: this ends the exchange.
    pub is_final: bool,
    /// C: the text goes on in the next response.
    pub more: bool,
    /// To be copied into the request that continues.
    pub lun: Lun,
    /// The task.
    pub task_tag: InitiatorTaskTag,
    /// Asks for another request; reserved if this ends the exchange.
    pub transfer_tag: TargetTransferTag,
    /// Numbers.
    pub sequence: Sequence,
}

impl TextResponse {
    fn parse(header: &Header) -> Self {
        Self {
            is_final: header.flags() & FINAL != 0,
            more: header.flags() & CONTINUE != 0,
            lun: lun(header),
            task_tag: task_tag(header),
            transfer_tag: transfer_tag(header),
            sequence: Sequence::parse(header),
        }
    }

    fn encode(&self) -> Header {
        let mut flags = if self.is_final { FINAL } else { 0 };
        if self.more {
            flags |= CONTINUE;
        }
        let mut header = Header::new(opcode::TEXT_RESPONSE, flags);
        header.put(8, &self.lun.to_bytes());
        header.put_word(16, self.task_tag.0);
        header.put_word(20, self.transfer_tag.0);
        self.sequence.put(&mut header);
        header
    }
}

/// SCSI Data-In (RFC 7143 11.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataIn {
    /// F: the last of its sequence.
    pub is_final: bool,
    /// A: to be acknowledged.
    pub acknowledge: bool,
    /// S: the status of the command, which ends with this PDU.
    pub status: Option<u8>,
    /// What was not moved; says something only with `status`.
    pub residual: Residual,
    /// The unit; reserved without A.
    pub lun: Lun,
    /// The task.
    pub task_tag: InitiatorTaskTag,
    /// Reserved without A.
    pub transfer_tag: TargetTransferTag,
    /// Numbers; StatSN says something only with `status`.
    pub sequence: Sequence,
    /// Place among the command's Data-In PDUs, from zero.
    pub data_number: SerialNumber,
    /// Where in the command's data this begins, in bytes.
    pub offset: u32,
}

impl DataIn {
    fn parse(header: &Header) -> Result<Self, HeaderError> {
        let flags = header.flags();
        let has_status = flags & STATUS != 0;
        Ok(Self {
            is_final: flags & FINAL != 0,
            acknowledge: flags & ACKNOWLEDGE != 0,
            status: has_status.then_some(header.0[3]),
            residual: Residual::decode(flags, header.word(44))?,
            lun: lun(header),
            task_tag: task_tag(header),
            transfer_tag: transfer_tag(header),
            sequence: Sequence::parse(header),
            data_number: SerialNumber(header.word(36)),
            offset: header.word(40),
        })
    }

    fn encode(&self) -> Header {
        let (mut flags, count) = self.residual.encode();
        for (set, bit) in [
            (self.is_final, FINAL),
            (self.acknowledge, ACKNOWLEDGE),
            (self.status.is_some(), STATUS),
        ] {
            if set {
                flags |= bit;
            }
        }
        let mut header = Header::new(opcode::DATA_IN, flags);
        header.put(3, &[self.status.unwrap_or(0)]);
        header.put(8, &self.lun.to_bytes());
        header.put_word(16, self.task_tag.0);
        header.put_word(20, self.transfer_tag.0);
        self.sequence.put(&mut header);
        header.put_word(36, self.data_number.0);
        header.put_word(40, self.offset);
        header.put_word(44, count);
        header
    }
}

/// Logout Response (RFC 7143 11.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogoutResponse {
    /// The code; see [`LogoutResponseCode`](crate::pdu::LogoutResponseCode).
    pub response: u8,
    /// The task.
    pub task_tag: InitiatorTaskTag,
    /// Numbers.
    pub sequence: Sequence,
    /// Seconds before the initiator should come back.
    pub time_to_wait: u16,
    /// Seconds for which tasks are kept.
    pub time_to_retain: u16,
}

impl LogoutResponse {
    fn parse(header: &Header) -> Self {
        Self {
            response: header.0[2],
            task_tag: task_tag(header),
            sequence: Sequence::parse(header),
            time_to_wait: header.half(40),
            time_to_retain: header.half(42),
        }
    }

    fn encode(&self) -> Header {
        let mut header = Header::new(opcode::LOGOUT_RESPONSE, FINAL);
        header.put(2, &[self.response]);
        header.put_word(16, self.task_tag.0);
        self.sequence.put(&mut header);
        header.put_half(40, self.time_to_wait);
        header.put_half(42, self.time_to_retain);
        header
    }
}

/// Ready To Transfer (RFC 7143 11.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyToTransfer {
    /// To be copied into the data that answers.
    pub lun: Lun,
    /// The task.
    pub task_tag: InitiatorTaskTag,
    /// To be copied into the data that answers.
    pub transfer_tag: TargetTransferTag,
    /// Numbers; StatSN does not advance.
    pub sequence: Sequence,
    /// Place among the command's R2Ts, from zero.
    pub number: SerialNumber,
    /// Where in the command's data the target wants it to begin, in bytes.
    pub offset: u32,
    /// How many bytes it wants.
    pub length: u32,
}

impl ReadyToTransfer {
    fn parse(header: &Header) -> Self {
        Self {
            lun: lun(header),
            task_tag: task_tag(header),
            transfer_tag: transfer_tag(header),
            sequence: Sequence::parse(header),
            number: SerialNumber(header.word(36)),
            offset: header.word(40),
            length: header.word(44),
        }
    }

    fn encode(&self) -> Header {
        let mut header = Header::new(opcode::READY_TO_TRANSFER, FINAL);
        header.put(8, &self.lun.to_bytes());
        header.put_word(16, self.task_tag.0);
        header.put_word(20, self.transfer_tag.0);
        self.sequence.put(&mut header);
        header.put_word(36, self.number.0);
        header.put_word(40, self.offset);
        header.put_word(44, self.length);
        header
    }
}

/// Asynchronous Message (RFC 7143 11.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncMessage {
    /// The code; see [`AsyncEvent`](crate::pdu::AsyncEvent).
    pub event: u8,
    /// Numbers.
    pub sequence: Sequence,
    /// Parameters 1 to 3.
    pub parameters: [u16; 3],
}

impl AsyncMessage {
    fn parse(header: &Header) -> Self {
        Self {
            event: header.0[36],
            sequence: Sequence::parse(header),
            parameters: [header.half(38), header.half(40), header.half(42)],
        }
    }

    fn encode(&self) -> Header {
        let mut header = Header::new(opcode::ASYNC_MESSAGE, FINAL);
        header.put_word(16, InitiatorTaskTag::RESERVED.0);
        self.sequence.put(&mut header);
        header.put(36, &[self.event]);
        for (index, parameter) in self.parameters.iter().enumerate() {
            header.put_half(38 + 2 * index, *parameter);
        }
        header
    }
}

/// Reject (RFC 7143 11.17); the header that was refused is its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    /// The code; see [`RejectReason`](crate::pdu::RejectReason).
    pub reason: u8,
    /// Numbers.
    pub sequence: Sequence,
}

impl Reject {
    fn parse(header: &Header) -> Self {
        Self {
            reason: header.0[2],
            sequence: Sequence::parse(header),
        }
    }

    fn encode(&self) -> Header {
        let mut header = Header::new(opcode::REJECT, FINAL);
        header.put(2, &[self.reason]);
        header.put_word(16, InitiatorTaskTag::RESERVED.0);
        self.sequence.put(&mut header);
        header
    }
}
