//! Command descriptor blocks: bytes into commands.
//!
//! Each operation code that is known has one row in the table of operation codes, which says which
//! of the CDB's bits mean something here; all others have to be zero, so that what a host asks for
//! is never done by half. What the bits mean is in a file for each family.
//!
//! Invariants:
//! - a [`Command`] lies within the unit and its limits: nothing in it needs to be checked again;
//! - the bits that REPORT SUPPORTED OPERATION CODES calls used are exactly those that are read.

mod block;
mod copy;
mod fields;
mod primary;
mod reservation;

use self::fields::Fields;
use crate::copy::ResultsWanted;
use crate::geometry::BlockSpan;
use crate::operation_codes::{self, Operation};
use crate::reservation::{InAction, OutAction};
use crate::{Geometry, Sense};

/// Bytes of the longest CDB known here.
pub const CDB_LENGTH_MAX: usize = 16;

/// A CDB as it was understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cdb {
    operation_code: u8,
    command: Result<Command, Sense>,
    block_bytes: u64,
}

/// Which way a command moves data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Neither.
    None,
    /// To the initiator (Data-In).
    In,
    /// From the initiator (Data-Out).
    Out,
}

/// What a CDB asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// TEST UNIT READY.
    TestUnitReady,
    /// REQUEST SENSE.
    RequestSense {
        /// DESC: the descriptor format is wanted.
        descriptor_format: bool,
        /// ALLOCATION LENGTH.
        allocation_length: u32,
    },
    /// INQUIRY.
    Inquiry {
        /// PAGE CODE, if EVPD is set.
        page: Option<u8>,
        /// ALLOCATION LENGTH.
        allocation_length: u32,
    },
    /// MODE SENSE (6) and (10).
    ModeSense(ModeSense),
    /// START STOP UNIT with START: the unit is always started.
    StartUnit,
    /// REPORT LUNS.
    ReportLuns {
        /// SELECT REPORT.
        select: u8,
        /// ALLOCATION LENGTH.
        allocation_length: u32,
    },
    /// REPORT SUPPORTED OPERATION CODES.
    ReportOperationCodes {
        /// What is asked about.
        subject: OperationCodeSubject,
        /// RCTD: with command timeouts descriptors.
        timeouts: bool,
        /// ALLOCATION LENGTH.
        allocation_length: u32,
    },
    /// READ CAPACITY (10).
    ReadCapacity10,
    /// READ CAPACITY (16).
    ReadCapacity16 {
        /// ALLOCATION LENGTH.
        allocation_length: u32,
    },
    /// GET LBA STATUS.
    LbaStatus {
        /// STARTING LOGICAL BLOCK ADDRESS.
        first: u64,
        /// ALLOCATION LENGTH.
        allocation_length: u32,
    },
    /// READ (6), (10), (12), (16).
    Read {
        /// The blocks.
        span: BlockSpan,
        /// FUA.
        force_unit_access: bool,
    },
    /// WRITE (6), (10), (12), (16) and WRITE AND VERIFY (10), (12), (16).
    Write {
        /// The blocks.
        span: BlockSpan,
        /// FUA.
        force_unit_access: bool,
        /// What is verified afterwards.
        verify: Option<Verification>,
    },
    /// VERIFY (10), (12), (16).
    Verify {
        /// The blocks.
        span: BlockSpan,
        /// What is verified.
        verification: Verification,
    },
    /// SYNCHRONIZE CACHE (10), (16).
    SynchronizeCache {
        /// The blocks.
        span: BlockSpan,
    },
    /// UNMAP.
    Unmap {
        /// PARAMETER LIST LENGTH.
        parameter_list_length: u16,
    },
    /// WRITE SAME (10), (16).
    WriteSame {
        /// The blocks.
        span: BlockSpan,
        /// The block comes as Data-Out; else (NDOB) it is one of zeros.
        with_data: bool,
        /// UNMAP.
        unmap: bool,
    },
    /// PERSISTENT RESERVE IN.
    PersistentReserveIn {
        /// SERVICE ACTION.
        action: InAction,
        /// ALLOCATION LENGTH.
        allocation_length: u32,
    },
    /// PERSISTENT RESERVE OUT.
    PersistentReserveOut {
        /// SERVICE ACTION.
        action: OutAction,
        /// PARAMETER LIST LENGTH.
        parameter_list_length: u32,
    },
    /// RESERVE (6), (10).
    Reserve,
    /// RELEASE (6), (10).
    Release,
    /// EXTENDED COPY (LID1).
    ExtendedCopy {
        /// PARAMETER LIST LENGTH.
        parameter_list_length: u32,
    },
    /// RECEIVE COPY RESULTS.
    ReceiveCopyResults {
        /// What is wanted.
        wanted: ResultsWanted,
        /// LIST IDENTIFIER.
        identifier: u8,
        /// ALLOCATION LENGTH.
        allocation_length: u32,
    },
    /// COMPARE AND WRITE. The blocks lie in one slice.
    CompareAndWrite {
        /// The blocks.
        span: BlockSpan,
    },
    /// ORWRITE (16).
    OrWrite {
        /// The blocks.
        span: BlockSpan,
    },
    /// WRITE ATOMIC (16). The blocks lie in what becomes one entry of a slice's log.
    WriteAtomic {
        /// The blocks.
        span: BlockSpan,
    },
    /// PRE-FETCH (10), (16).
    Prefetch {
        /// The blocks.
        span: BlockSpan,
    },
    /// MODE SELECT (6), (10).
    ModeSelect {
        /// The header is that of the 10-byte command.
        ten: bool,
        /// PF.
        page_format: bool,
        /// PARAMETER LIST LENGTH.
        parameter_list_length: u16,
    },
    /// LOG SENSE.
    LogSense(LogSense),
    /// REPORT TARGET PORT GROUPS.
    ReportPortGroups {
        /// The extended header is wanted.
        extended: bool,
        /// ALLOCATION LENGTH.
        allocation_length: u32,
    },
    /// SET TARGET PORT GROUPS.
    SetPortGroups {
        /// PARAMETER LIST LENGTH.
        parameter_list_length: u32,
    },
    /// REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS.
    ReportTaskFunctions {
        /// REPD: with timeouts.
        extended: bool,
        /// ALLOCATION LENGTH.
        allocation_length: u32,
    },
}

/// What LOG SENSE asks for. PC makes no difference: no page has thresholds or defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSense {
    /// PAGE CODE.
    pub page: u8,
    /// SUBPAGE CODE.
    pub subpage: u8,
    /// PARAMETER POINTER: nothing below it.
    pub parameter_pointer: u16,
    /// ALLOCATION LENGTH.
    pub allocation_length: u32,
}

/// What MODE SENSE asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeSense {
    /// The header is that of the 10-byte command.
    pub ten: bool,
    /// LLBAA: a long block descriptor is welcome.
    pub long_descriptor: bool,
    /// Not DBD: a block descriptor is welcome.
    pub block_descriptor: bool,
    /// PC.
    pub control: PageControl,
    /// PAGE CODE.
    pub page: u8,
    /// SUBPAGE CODE.
    pub subpage: u8,
    /// ALLOCATION LENGTH.
    pub allocation_length: u32,
}

/// PAGE CONTROL of MODE SENSE (SPC-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageControl {
    /// Current values.
    Current,
    /// A mask of what can be changed.
    Changeable,
    /// Default values.
    Default,
    /// Saved values.
    Saved,
}

/// BYTCHK of VERIFY and WRITE AND VERIFY (SBC-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    /// 00b: the medium can be read.
    Medium,
    /// 01b: it holds the Data-Out.
    Compare,
    /// 11b: each of its blocks holds the Data-Out, which is of one block.
    CompareOne,
}

/// REPORTING OPTIONS of REPORT SUPPORTED OPERATION CODES (SPC-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationCodeSubject {
    /// 000b: all commands.
    All,
    /// 001b: the one without a service action.
    Plain {
        /// REQUESTED OPERATION CODE.
        operation_code: u8,
    },
    /// 010b: the one with that service action.
    WithServiceAction {
        /// REQUESTED OPERATION CODE.
        operation_code: u8,
        /// REQUESTED SERVICE ACTION.
        service_action: u16,
    },
    /// 011b: whichever of the two the operation code has.
    Either {
        /// REQUESTED OPERATION CODE.
        operation_code: u8,
        /// REQUESTED SERVICE ACTION.
        service_action: u16,
    },
}

impl Cdb {
    /// Reads a CDB that was sent to a unit of `geometry`. Bytes beyond the command's own length are
    /// not looked at (iSCSI pads to 16).
    #[must_use]
    pub fn parse(bytes: &[u8], geometry: Geometry) -> Self {
        let operation_code = bytes.first().copied().unwrap_or_default();
        Self {
            operation_code,
            command: Self::command_of(bytes, geometry),
            block_bytes: geometry.block_length().bytes(),
        }
    }

    fn command_of(bytes: &[u8], geometry: Geometry) -> Result<Command, Sense> {
        let row = operation_codes::find(bytes)?;
        let fields = Fields::read(row, bytes)?;
        match row.operation {
            Operation::Primary(operation) => primary::parse(operation, &fields),
            Operation::Block(operation) => block::parse(operation, &fields, geometry),
            Operation::Reservation(operation) => reservation::parse(operation, &fields),
            Operation::Copy(operation) => copy::parse(operation, &fields),
        }
    }

    /// The first byte.
    #[must_use]
    pub const fn operation_code(&self) -> u8 {
        self.operation_code
    }

    /// What it asks for.
    ///
    /// # Errors
    /// The sense data with which the command has to be refused.
    pub const fn command(&self) -> Result<Command, Sense> {
        self.command
    }

    /// Whether all units of the target are asked for, and not something of one.
    #[must_use]
    pub const fn lists_units(&self) -> bool {
        matches!(self.command, Ok(Command::ReportLuns { .. }))
    }

    /// Which way the command moves data. A command that will be refused moves none.
    #[must_use]
    pub fn direction(&self) -> Direction {
        use Command as C;
        match self.command {
            Err(_)
            | Ok(
                C::TestUnitReady
                | C::StartUnit
                | C::SynchronizeCache { .. }
                | C::Prefetch { .. }
                | C::Reserve
                | C::Release,
            ) => Direction::None,
            Ok(
                C::RequestSense { .. }
                | C::Inquiry { .. }
                | C::ModeSense(_)
                | C::ReportLuns { .. }
                | C::ReportOperationCodes { .. }
                | C::ReadCapacity10
                | C::ReadCapacity16 { .. }
                | C::LbaStatus { .. }
                | C::LogSense(_)
                | C::ReportPortGroups { .. }
                | C::ReportTaskFunctions { .. }
                | C::Read { .. }
                | C::PersistentReserveIn { .. }
                | C::ReceiveCopyResults { .. },
            ) => Direction::In,
            Ok(
                C::Write { .. }
                | C::Verify { .. }
                | C::Unmap { .. }
                | C::WriteSame { .. }
                | C::PersistentReserveOut { .. }
                | C::ExtendedCopy { .. }
                | C::CompareAndWrite { .. }
                | C::OrWrite { .. }
                | C::WriteAtomic { .. }
                | C::ModeSelect { .. }
                | C::SetPortGroups { .. },
            ) => match self.data_out_length() {
                0 => Direction::None,
                _ => Direction::Out,
            },
        }
    }

    /// Bytes of Data-Out that the command takes, at most
    /// [`TRANSFER_BYTES_MAX`](crate::limits::TRANSFER_BYTES_MAX): what more the initiator means to
    /// send has no use. Zero for a command that will be refused.
    #[must_use]
    pub fn data_out_length(&self) -> u64 {
        let length = match self.command {
            Ok(
                Command::Write { span, .. }
                | Command::OrWrite { span }
                | Command::WriteAtomic { span },
            ) => span.count * self.block_bytes,
            // What is compared, then what is written.
            Ok(Command::CompareAndWrite { span }) => 2 * span.count * self.block_bytes,
            Ok(Command::Verify { span, verification }) => match verification {
                Verification::Medium => 0,
                Verification::Compare => span.count * self.block_bytes,
                Verification::CompareOne => span.count.min(1) * self.block_bytes,
            },
            Ok(Command::WriteSame { with_data, .. }) => u64::from(with_data) * self.block_bytes,
            Ok(Command::Unmap {
                parameter_list_length,
            }) => u64::from(parameter_list_length),
            Ok(Command::PersistentReserveOut {
                parameter_list_length,
                ..
            }) => u64::from(parameter_list_length),
            Ok(Command::ModeSelect {
                parameter_list_length,
                ..
            }) => u64::from(parameter_list_length),
            Ok(
                Command::SetPortGroups {
                    parameter_list_length,
                }
                | Command::ExtendedCopy {
                    parameter_list_length,
                },
            ) => u64::from(parameter_list_length),
            _ => 0,
        };
        assert!(
            length <= crate::limits::TRANSFER_BYTES_MAX,
            "longer transfers are refused when the CDB is read"
        );
        length
    }
}
