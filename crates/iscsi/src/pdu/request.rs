//! The headers that an initiator sends (RFC 7143 11.3, 11.5, 11.7, 11.10, 11.12, 11.14, 11.16,
//! 11.18).

use holdfast_scsi::{Lun, TaskAttribute};

use crate::pdu::{
    Header, HeaderError, InitiatorTaskTag, LoginStage, LogoutReason, TargetTransferTag, opcode,
};
use crate::serial::SerialNumber;
use crate::{ConnectionIdentifier, Isid, Tsih};

/// F: the last PDU of its sequence; T in logins.
pub(super) const FINAL: u8 = 0x80;
/// C: the text goes on in the next PDU.
pub(super) const CONTINUE: u8 = 0x40;
const READ: u8 = 0x40;
const WRITE: u8 = 0x20;

/// A header from an initiator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Are you there, or: I am.
    NopOut(NopOut),
    /// A SCSI command.
    Command(ScsiCommand),
    /// A task management function.
    TaskManagement(TaskManagementRequest),
    /// A step of a login.
    Login(LoginRequest),
    /// Text.
    Text(TextRequest),
    /// Data for a write.
    DataOut(DataOut),
    /// Goodbye.
    Logout(LogoutRequest),
    /// Send that again: ErrorRecoveryLevel 1 only.
    Snack(Snack),
}

impl Request {
    /// The request that `header` is.
    ///
    /// # Errors
    /// [`HeaderError`] if it is none that an initiator may send.
    pub fn parse(header: &Header) -> Result<Self, HeaderError> {
        Ok(match header.opcode() {
            opcode::NOP_OUT => Self::NopOut(NopOut::parse(header)),
            opcode::SCSI_COMMAND => Self::Command(ScsiCommand::parse(header)),
            opcode::TASK_MANAGEMENT_REQUEST => {
                Self::TaskManagement(TaskManagementRequest::parse(header))
            }
            opcode::LOGIN_REQUEST => Self::Login(LoginRequest::parse(header)?),
            opcode::TEXT_REQUEST => Self::Text(TextRequest::parse(header)),
            opcode::DATA_OUT => Self::DataOut(DataOut::parse(header)),
            opcode::LOGOUT_REQUEST => Self::Logout(LogoutRequest::parse(header)?),
            opcode::SNACK => Self::Snack(Snack::parse(header)),
            other => return Err(HeaderError::Opcode(other)),
        })
    }

    /// The header.
    #[must_use]
    pub fn encode(&self) -> Header {
        match self {
            Self::NopOut(pdu) => pdu.encode(),
            Self::Command(pdu) => pdu.encode(),
            Self::TaskManagement(pdu) => pdu.encode(),
            Self::Login(pdu) => pdu.encode(),
            Self::Text(pdu) => pdu.encode(),
            Self::DataOut(pdu) => pdu.encode(),
            Self::Logout(pdu) => pdu.encode(),
            Self::Snack(pdu) => pdu.encode(),
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

fn serial(header: &Header, offset: usize) -> SerialNumber {
    SerialNumber(header.word(offset))
}

/// NOP-Out (RFC 7143 11.18).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NopOut {
    /// Outside of the command window.
    pub immediate: bool,
    /// Copied from the NOP-In that is answered.
    pub lun: Lun,
    /// Reserved if no answer is wanted.
    pub task_tag: InitiatorTaskTag,
    /// Of the NOP-In that is answered; reserved if none is.
    pub transfer_tag: TargetTransferTag,
    /// Place in the session's order of commands.
    pub command_number: SerialNumber,
    /// StatSN that the initiator expects next.
    pub expected_status: SerialNumber,
}

impl NopOut {
    fn parse(header: &Header) -> Self {
        Self {
            immediate: header.is_immediate(),
            lun: lun(header),
            task_tag: task_tag(header),
            transfer_tag: transfer_tag(header),
            command_number: serial(header, 24),
            expected_status: serial(header, 28),
        }
    }

    fn encode(&self) -> Header {
        let mut header = Header::new(opcode::NOP_OUT, FINAL);
        header.set_immediate(self.immediate);
        header.put(8, &self.lun.to_bytes());
        header.put_word(16, self.task_tag.0);
        header.put_word(20, self.transfer_tag.0);
        header.put_word(24, self.command_number.0);
        header.put_word(28, self.expected_status.0);
        header
    }
}

/// Flags of a SCSI command (RFC 7143 11.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandFlags {
    /// F: no unsolicited Data-Out PDU follows.
    pub is_final: bool,
    /// R: the initiator expects Data-In.
    pub read: bool,
    /// W: the initiator has Data-Out.
    pub write: bool,
}

/// SCSI Command (RFC 7143 11.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScsiCommand {
    /// Outside of the command window.
    pub immediate: bool,
    /// Directions, and whether unsolicited data follows.
    pub flags: CommandFlags,
    /// ATTR; reserved values count as simple.
    pub attribute: TaskAttribute,
    /// The unit.
    pub lun: Lun,
    /// The task.
    pub task_tag: InitiatorTaskTag,
    /// Bytes that the initiator expects to move.
    pub expected_length: u32,
    /// Place in the session's order of commands.
    pub command_number: SerialNumber,
    /// StatSN that the initiator expects next.
    pub expected_status: SerialNumber,
    /// The command descriptor block, filled up with zeros.
    pub cdb: [u8; 16],
}

impl ScsiCommand {
    fn parse(header: &Header) -> Self {
        let flags = header.flags();
        Self {
            immediate: header.is_immediate(),
            flags: CommandFlags {
                is_final: flags & FINAL != 0,
                read: flags & READ != 0,
                write: flags & WRITE != 0,
            },
            attribute: match flags & 7 {
                2 => TaskAttribute::Ordered,
                3 => TaskAttribute::HeadOfQueue,
                4 => TaskAttribute::Aca,
                _ => TaskAttribute::Simple,
            },
            lun: lun(header),
            task_tag: task_tag(header),
            expected_length: header.word(20),
            command_number: serial(header, 24),
            expected_status: serial(header, 28),
            cdb: header.bytes(32),
        }
    }

    fn encode(&self) -> Header {
        let mut flags = match self.attribute {
            TaskAttribute::Simple => 1,
            TaskAttribute::Ordered => 2,
            TaskAttribute::HeadOfQueue => 3,
            TaskAttribute::Aca => 4,
        };
        for (set, bit) in [
            (self.flags.is_final, FINAL),
            (self.flags.read, READ),
            (self.flags.write, WRITE),
        ] {
            if set {
                flags |= bit;
            }
        }
        let mut header = Header::new(opcode::SCSI_COMMAND, flags);
        header.set_immediate(self.immediate);
        header.put(8, &self.lun.to_bytes());
        header.put_word(16, self.task_tag.0);
        header.put_word(20, self.expected_length);
        header.put_word(24, self.command_number.0);
        header.put_word(28, self.expected_status.0);
        header.put(32, &self.cdb);
        header
    }
}

/// Task Management Function Request (RFC 7143 11.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskManagementRequest {
    /// Outside of the command window.
    pub immediate: bool,
    /// The function's code; see [`TaskManagementCode`](crate::pdu::TaskManagementCode).
    pub function: u8,
    /// The unit.
    pub lun: Lun,
    /// The task that this request is.
    pub task_tag: InitiatorTaskTag,
    /// The task to abort.
    pub referenced_tag: InitiatorTaskTag,
    /// Place in the session's order of commands.
    pub command_number: SerialNumber,
    /// StatSN that the initiator expects next.
    pub expected_status: SerialNumber,
    /// CmdSN of the task to abort.
    pub referenced_number: SerialNumber,
}

impl TaskManagementRequest {
    fn parse(header: &Header) -> Self {
        Self {
            immediate: header.is_immediate(),
            function: header.flags() & 0x7F,
            lun: lun(header),
            task_tag: task_tag(header),
            referenced_tag: InitiatorTaskTag(header.word(20)),
            command_number: serial(header, 24),
            expected_status: serial(header, 28),
            referenced_number: serial(header, 32),
        }
    }

    fn encode(&self) -> Header {
        let flags = FINAL | self.function & 0x7F;
        let mut header = Header::new(opcode::TASK_MANAGEMENT_REQUEST, flags);
        header.set_immediate(self.immediate);
        header.put(8, &self.lun.to_bytes());
        header.put_word(16, self.task_tag.0);
        header.put_word(20, self.referenced_tag.0);
        header.put_word(24, self.command_number.0);
        header.put_word(28, self.expected_status.0);
        header.put_word(32, self.referenced_number.0);
        header
    }
}

/// Login Request (RFC 7143 11.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginRequest {
    /// T: the initiator is ready to go to `next`.
    pub transit: bool,
    /// C: the text goes on in the next request.
    pub more: bool,
    /// CSG.
    pub current: LoginStage,
    /// NSG; without `transit` it says nothing.
    pub next: Option<LoginStage>,
    /// Highest version that the initiator speaks.
    pub version_max: u8,
    /// Lowest version that the initiator speaks.
    pub version_min: u8,
    /// The initiator's part of the session's identifier.
    pub isid: Isid,
    /// The target's part; zero for a new session.
    pub tsih: Tsih,
    /// The task that the login is.
    pub task_tag: InitiatorTaskTag,
    /// The connection's number in its session.
    pub connection: ConnectionIdentifier,
    /// First CmdSN of a new session.
    pub command_number: SerialNumber,
    /// StatSN that the initiator expects next.
    pub expected_status: SerialNumber,
}

impl LoginRequest {
    fn parse(header: &Header) -> Result<Self, HeaderError> {
        let flags = header.flags();
        let transit = flags & FINAL != 0;
        let next = LoginStage::from_code(flags & 3);
        // T with a reserved stage, or T and C at once, RFC 7143 11.12.1 and 11.12.2.
        if transit && (next.is_none() || flags & CONTINUE != 0) {
            return Err(HeaderError::Field(1));
        }
        Ok(Self {
            transit,
            more: flags & CONTINUE != 0,
            current: LoginStage::from_code(flags >> 2 & 3).ok_or(HeaderError::Field(1))?,
            next: if transit { next } else { None },
            version_max: header.0[2],
            version_min: header.0[3],
            isid: Isid(header.bytes(8)),
            tsih: Tsih(header.half(14)),
            task_tag: task_tag(header),
            connection: ConnectionIdentifier(header.half(20)),
            command_number: serial(header, 24),
            expected_status: serial(header, 28),
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
        let mut header = Header::new(opcode::LOGIN_REQUEST, flags);
        header.set_immediate(true);
        header.put(2, &[self.version_max, self.version_min]);
        header.put(8, &self.isid.0);
        header.put_half(14, self.tsih.0);
        header.put_word(16, self.task_tag.0);
        header.put_half(20, self.connection.0);
        header.put_word(24, self.command_number.0);
        header.put_word(28, self.expected_status.0);
        header
    }
}

/// Text Request (RFC 7143 11.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextRequest {
    /// Outside of the command window.
    pub immediate: bool,
    /// F: the initiator has nothing to add.
    pub is_final: bool,
    /// C: the text goes on in the next request.
    pub more: bool,
    /// Copied from the response that is continued.
    pub lun: Lun,
    /// The task.
    pub task_tag: InitiatorTaskTag,
    /// Of the response that is continued; reserved at the beginning.
    pub transfer_tag: TargetTransferTag,
    /// Place in the session's order of commands.
    pub command_number: SerialNumber,
    /// StatSN that the initiator expects next.
    pub expected_status: SerialNumber,
}

impl TextRequest {
    fn parse(header: &Header) -> Self {
        Self {
            immediate: header.is_immediate(),
            is_final: header.flags() & FINAL != 0,
            more: header.flags() & CONTINUE != 0,
            lun: lun(header),
            task_tag: task_tag(header),
            transfer_tag: transfer_tag(header),
            command_number: serial(header, 24),
            expected_status: serial(header, 28),
        }
    }

    fn encode(&self) -> Header {
        let mut flags = if self.is_final { FINAL } else { 0 };
        if self.more {
            flags |= CONTINUE;
        }
        let mut header = Header::new(opcode::TEXT_REQUEST, flags);
        header.set_immediate(self.immediate);
        header.put(8, &self.lun.to_bytes());
        header.put_word(16, self.task_tag.0);
        header.put_word(20, self.transfer_tag.0);
        header.put_word(24, self.command_number.0);
        header.put_word(28, self.expected_status.0);
        header
    }
}

/// SCSI Data-Out (RFC 7143 11.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataOut {
    /// F: the last of its sequence.
    pub is_final: bool,
    /// Copied from the R2T.
    pub lun: Lun,
    /// The task.
    pub task_tag: InitiatorTaskTag,
    /// Of the R2T that is answered; reserved if the data is unsolicited.
    pub transfer_tag: TargetTransferTag,
    /// StatSN that the initiator expects next.
    pub expected_status: SerialNumber,
    /// Place in its sequence, from zero.
    pub data_number: SerialNumber,
    /// Where in the command's data this begins, in bytes.
    pub offset: u32,
}

impl DataOut {
    fn parse(header: &Header) -> Self {
        Self {
            is_final: header.flags() & FINAL != 0,
            lun: lun(header),
            task_tag: task_tag(header),
            transfer_tag: transfer_tag(header),
            expected_status: serial(header, 28),
            data_number: serial(header, 36),
            offset: header.word(40),
        }
    }

    fn encode(&self) -> Header {
        let mut header = Header::new(opcode::DATA_OUT, if self.is_final { FINAL } else { 0 });
        header.put(8, &self.lun.to_bytes());
        header.put_word(16, self.task_tag.0);
        header.put_word(20, self.transfer_tag.0);
        header.put_word(28, self.expected_status.0);
        header.put_word(36, self.data_number.0);
        header.put_word(40, self.offset);
        header
    }
}

/// Logout Request (RFC 7143 11.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogoutRequest {
    /// Outside of the command window.
    pub immediate: bool,
    /// What is to be closed.
    pub reason: LogoutReason,
    /// The task.
    pub task_tag: InitiatorTaskTag,
    /// The connection to close.
    pub connection: ConnectionIdentifier,
    /// Place in the session's order of commands.
    pub command_number: SerialNumber,
    /// StatSN that the initiator expects next.
    pub expected_status: SerialNumber,
}

impl LogoutRequest {
    fn parse(header: &Header) -> Result<Self, HeaderError> {
        Ok(Self {
            immediate: header.is_immediate(),
            reason: LogoutReason::from_code(header.flags() & 0x7F).ok_or(HeaderError::Field(1))?,
            task_tag: task_tag(header),
            connection: ConnectionIdentifier(header.half(20)),
            command_number: serial(header, 24),
            expected_status: serial(header, 28),
        })
    }

    fn encode(&self) -> Header {
        let mut header = Header::new(opcode::LOGOUT_REQUEST, FINAL | self.reason.code());
        header.set_immediate(self.immediate);
        header.put_word(16, self.task_tag.0);
        header.put_half(20, self.connection.0);
        header.put_word(24, self.command_number.0);
        header.put_word(28, self.expected_status.0);
        header
    }
}

/// SNACK Request (RFC 7143 11.16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snack {
    /// What is to be sent again.
    pub kind: u8,
    /// The unit.
    pub lun: Lun,
    /// The task.
    pub task_tag: InitiatorTaskTag,
    /// The target's tag.
    pub transfer_tag: TargetTransferTag,
    /// StatSN that the initiator expects next.
    pub expected_status: SerialNumber,
    /// The first that is missing.
    pub first: SerialNumber,
    /// How many are missing.
    pub count: u32,
}

impl Snack {
    fn parse(header: &Header) -> Self {
        Self {
            kind: header.flags() & 0x0F,
            lun: lun(header),
            task_tag: task_tag(header),
            transfer_tag: transfer_tag(header),
            expected_status: serial(header, 28),
            first: serial(header, 40),
            count: header.word(44),
        }
    }

    fn encode(&self) -> Header {
        let mut header = Header::new(opcode::SNACK, FINAL | self.kind & 0x0F);
        header.put(8, &self.lun.to_bytes());
        header.put_word(16, self.task_tag.0);
        header.put_word(20, self.transfer_tag.0);
        header.put_word(28, self.expected_status.0);
        header.put_word(40, self.first.0);
        header.put_word(44, self.count);
        header
    }
}
