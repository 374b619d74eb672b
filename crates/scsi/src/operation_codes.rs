//! The commands that units know, with the bits of their CDBs that mean something here.
//!
//! Invariants:
//! - one row for each operation code, or for each pair of operation code and service action;
//! - an operation code has service actions in all of its rows or in none.

use crate::{AdditionalSense, Sense};

/// A row: one command.
#[derive(Debug)]
pub(crate) struct OperationCode {
    /// OPERATION CODE.
    pub(crate) operation_code: u8,
    /// SERVICE ACTION, if the operation code has several commands.
    pub(crate) service_action: Option<u16>,
    /// The CDB with ones for the bits that are evaluated (CDB USAGE DATA without its first byte's
    /// and service action's values, SPC-4, one_command parameter data). As long as the CDB.
    pub(crate) usage: &'static [u8],
    /// Bits of the second byte that may be set although they are not evaluated: hints which this
    /// unit always obeys, since it acknowledges only what is on stable storage.
    pub(crate) tolerated_flags: u8,
    /// What it does.
    pub(crate) operation: Operation,
}

/// The families of commands: each has a file under `cdb`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    /// SPC.
    Primary(PrimaryOperation),
    /// SBC.
    Block(BlockOperation),
    /// Who may do what: of SPC, and of SPC-2.
    Reservation(ReservationOperation),
    /// Copies between units, of SPC.
    Copy(CopyOperation),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum PrimaryOperation {
    TestUnitReady,
    RequestSense,
    Inquiry,
    ModeSense6,
    ModeSense10,
    ReportLuns,
    ReportOperationCodes,
    ModeSelect6,
    ModeSelect10,
    LogSense,
    ReportPortGroups,
    SetPortGroups,
    ReportTaskFunctions,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum BlockOperation {
    Read(Layout),
    Write(Layout),
    WriteAndVerify(Layout),
    Verify(Layout),
    SynchronizeCache(Layout),
    WriteSame(Layout),
    Unmap,
    LbaStatus,
    ReadCapacity10,
    ReadCapacity16,
    StartStopUnit,
    CompareAndWrite,
    OrWrite,
    WriteAtomic,
    Prefetch(Layout),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ReservationOperation {
    ReadKeys,
    ReadReservation,
    ReportCapabilities,
    ReadFullStatus,
    Out,
    Reserve,
    Release,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum CopyOperation {
    ExtendedCopy,
    CopyStatus,
    OperatingParameters,
    FailedSegmentDetails,
}

/// Where a CDB has its address and its number of blocks (SPC-4, Fixed length CDB formats).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Layout {
    Six,
    Ten,
    Twelve,
    Sixteen,
}

/// SERVICE ACTION, in the second byte of the CDBs that have one.
pub(crate) const SERVICE_ACTION_MASK: u8 = 0x1F;

/// How a command is refused that no unit has under that service action (SPC-4, Service action).
pub(crate) const UNKNOWN_SERVICE_ACTION: Sense = Sense::invalid_cdb_field(1, Some(4));

/// FUA_NV (byte 1, bit 1; obsolete since SBC-3).
const FUA_NV: u8 = 0x02;
/// SYNC_NV (byte 1, bit 2; obsolete since SBC-3).
const SYNC_NV: u8 = 0x04;

const fn row(operation_code: u8, usage: &'static [u8], operation: Operation) -> OperationCode {
    OperationCode {
        operation_code,
        service_action: None,
        usage,
        tolerated_flags: 0,
        operation,
    }
}

const fn primary(
    operation_code: u8,
    usage: &'static [u8],
    operation: PrimaryOperation,
) -> OperationCode {
    row(operation_code, usage, Operation::Primary(operation))
}

const fn block(
    operation_code: u8,
    usage: &'static [u8],
    operation: BlockOperation,
) -> OperationCode {
    row(operation_code, usage, Operation::Block(operation))
}

const fn reservation(
    operation_code: u8,
    usage: &'static [u8],
    operation: ReservationOperation,
) -> OperationCode {
    row(operation_code, usage, Operation::Reservation(operation))
}

const fn copy(
    operation_code: u8,
    service_action: u16,
    usage: &'static [u8],
    operation: CopyOperation,
) -> OperationCode {
    row(operation_code, usage, Operation::Copy(operation)).with_service_action(service_action)
}

const fn persistent_in(service_action: u16, operation: ReservationOperation) -> OperationCode {
    reservation(0x5E, &PERSISTENT_IN, operation).with_service_action(service_action)
}

const fn persistent_out(service_action: u16) -> OperationCode {
    reservation(0x5F, &PERSISTENT_OUT, ReservationOperation::Out)
        .with_service_action(service_action)
}

impl OperationCode {
    const fn with_service_action(mut self, service_action: u16) -> Self {
        assert!(
            service_action <= SERVICE_ACTION_MASK as u16,
            "service actions here have five bits"
        );
        self.service_action = Some(service_action);
        self
    }

    const fn tolerating(mut self, flags: u8) -> Self {
        self.tolerated_flags = flags;
        self
    }

    /// Whether a unit has it that is in target port groups, or is in none.
    pub(crate) const fn is_had(&self, has_groups: bool) -> bool {
        let is_of_groups = matches!(
            self.operation,
            Operation::Primary(
                PrimaryOperation::ReportPortGroups | PrimaryOperation::SetPortGroups
            )
        );
        has_groups || !is_of_groups
    }

    /// CDB USAGE DATA as hosts are shown it.
    pub(crate) fn usage_data(&self) -> impl Iterator<Item = u8> {
        let service_action = self.service_action.unwrap_or_default() as u8;
        self.usage
            .iter()
            .enumerate()
            .map(move |(index, usage)| match index {
                0 => self.operation_code,
                1 => usage | service_action,
                _ => *usage,
            })
    }
}

/// Usage of a CDB with those flags, an address and a number of blocks; neither group nor control.
const fn ten(flags: u8) -> [u8; 10] {
    [0xFF, flags, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0xFF, 0xFF, 0]
}

const fn twelve(flags: u8) -> [u8; 12] {
    let mut usage = [0xFF; 12];
    usage[1] = flags;
    usage[10] = 0;
    usage[11] = 0;
    usage
}

const fn sixteen(flags: u8) -> [u8; 16] {
    let mut usage = [0xFF; 16];
    usage[1] = flags;
    usage[14] = 0;
    usage[15] = 0;
    usage
}

const TRANSFER_6: [u8; 6] = [0xFF, 0x1F, 0xFF, 0xFF, 0xFF, 0];
/// DPO and FUA.
const TRANSFER_10: [u8; 10] = ten(0x18);
const TRANSFER_12: [u8; 12] = twelve(0x18);
const TRANSFER_16: [u8; 16] = sixteen(0x18);
/// DPO and BYTCHK.
const VERIFY_10: [u8; 10] = ten(0x16);
const VERIFY_12: [u8; 12] = twelve(0x16);
const VERIFY_16: [u8; 16] = sixteen(0x16);
/// IMMED.
const SYNCHRONIZE_10: [u8; 10] = ten(0x02);
const SYNCHRONIZE_16: [u8; 16] = sixteen(0x02);
/// UNMAP; for the longer one NDOB too.
const WRITE_SAME_10: [u8; 10] = ten(0x08);
const WRITE_SAME_16: [u8; 16] = sixteen(0x09);
/// IMMED; NO_FLUSH and START.
const START_STOP: [u8; 6] = [0xFF, 0x01, 0, 0, 0x05, 0];
const UNMAP: [u8; 10] = [0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0];
/// DBD; for the longer one LLBAA too.
const MODE_SENSE_6: [u8; 6] = [0xFF, 0x08, 0xFF, 0xFF, 0xFF, 0];
const MODE_SENSE_10: [u8; 10] = [0xFF, 0x18, 0xFF, 0xFF, 0, 0, 0, 0xFF, 0xFF, 0];
const READ_CAPACITY_16: [u8; 16] = [
    0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0,
];
const LBA_STATUS: [u8; 16] = sixteen(0);
const REPORT_LUNS: [u8; 12] = [0xFF, 0, 0xFF, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0];
/// RCTD and REPORTING OPTIONS.
const REPORT_CODES: [u8; 12] = [
    0xFF, 0, 0x87, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0,
];
const PERSISTENT_IN: [u8; 10] = [0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0];
/// SCOPE and TYPE too, which service actions that have no use for them do not look at.
const PERSISTENT_OUT: [u8; 10] = [0xFF, 0, 0xFF, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0];
/// Neither third parties nor extents.
const RESERVE_6: [u8; 6] = [0xFF, 0, 0, 0, 0, 0];
const RESERVE_10: [u8; 10] = [0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// IMMED; and a group number, of which nothing is made: there is nothing to be counted by it.
const PREFETCH_10: [u8; 10] = [0xFF, 0x02, 0xFF, 0xFF, 0xFF, 0xFF, 0x1F, 0xFF, 0xFF, 0];
const PREFETCH_16: [u8; 16] = {
    let mut usage = sixteen(0x02);
    usage[14] = 0x1F;
    usage
};
/// DPO and FUA; one byte of blocks.
const COMPARE_AND_WRITE: [u8; 16] = {
    let mut usage = sixteen(0x18);
    usage[10] = 0;
    usage[11] = 0;
    usage[12] = 0;
    usage
};
/// DPO and FUA; no ATOMIC BOUNDARY, and two bytes of blocks.
const WRITE_ATOMIC: [u8; 16] = {
    let mut usage = sixteen(0x18);
    usage[10] = 0;
    usage[11] = 0;
    usage
};
/// PF; not SP, for nothing is saved.
const MODE_SELECT_6: [u8; 6] = [0xFF, 0x10, 0, 0, 0xFF, 0];
const MODE_SELECT_10: [u8; 10] = [0xFF, 0x10, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0];
const LOG_SENSE: [u8; 10] = [0xFF, 0, 0xFF, 0xFF, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0];
/// PARAMETER DATA FORMAT.
const REPORT_GROUPS: [u8; 12] = [0xFF, 0xE0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0];
const SET_GROUPS: [u8; 12] = [0xFF, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0];
/// REPD.
const REPORT_FUNCTIONS: [u8; 12] = [0xFF, 0, 0x80, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0];

const EXTENDED_COPY: [u8; 16] = [
    0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0,
];
/// LIST IDENTIFIER too, which SPC-3 has for every service action.
const COPY_RESULTS: [u8; 16] = [
    0xFF, 0, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0,
];

/// All commands, ascending.
pub(crate) const OPERATION_CODES: &[OperationCode] = {
    use self::ReservationOperation as R;
    use self::{BlockOperation as B, CopyOperation as C, Layout as L, PrimaryOperation as P};
    &[
        primary(0x00, &[0xFF, 0, 0, 0, 0, 0], P::TestUnitReady),
        primary(0x03, &[0xFF, 0x01, 0, 0, 0xFF, 0], P::RequestSense),
        block(0x08, &TRANSFER_6, B::Read(L::Six)),
        block(0x0A, &TRANSFER_6, B::Write(L::Six)),
        primary(0x12, &[0xFF, 0x01, 0xFF, 0xFF, 0xFF, 0], P::Inquiry),
        primary(0x15, &MODE_SELECT_6, P::ModeSelect6),
        reservation(0x16, &RESERVE_6, R::Reserve),
        reservation(0x17, &RESERVE_6, R::Release),
        primary(0x1A, &MODE_SENSE_6, P::ModeSense6),
        block(0x1B, &START_STOP, B::StartStopUnit),
        block(0x25, &[0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0], B::ReadCapacity10),
        block(0x28, &TRANSFER_10, B::Read(L::Ten)).tolerating(FUA_NV),
        block(0x2A, &TRANSFER_10, B::Write(L::Ten)).tolerating(FUA_NV),
        block(0x2E, &VERIFY_10, B::WriteAndVerify(L::Ten)),
        block(0x2F, &VERIFY_10, B::Verify(L::Ten)),
        block(0x34, &PREFETCH_10, B::Prefetch(L::Ten)),
        block(0x35, &SYNCHRONIZE_10, B::SynchronizeCache(L::Ten)).tolerating(SYNC_NV),
        block(0x41, &WRITE_SAME_10, B::WriteSame(L::Ten)),
        block(0x42, &UNMAP, B::Unmap),
        primary(0x4D, &LOG_SENSE, P::LogSense),
        primary(0x55, &MODE_SELECT_10, P::ModeSelect10),
        reservation(0x56, &RESERVE_10, R::Reserve),
        reservation(0x57, &RESERVE_10, R::Release),
        primary(0x5A, &MODE_SENSE_10, P::ModeSense10),
        persistent_in(0x00, R::ReadKeys),
        persistent_in(0x01, R::ReadReservation),
        persistent_in(0x02, R::ReportCapabilities),
        persistent_in(0x03, R::ReadFullStatus),
        persistent_out(0x00),
        persistent_out(0x01),
        persistent_out(0x02),
        persistent_out(0x03),
        persistent_out(0x04),
        persistent_out(0x05),
        persistent_out(0x06),
        persistent_out(0x07),
        copy(0x83, 0x00, &EXTENDED_COPY, C::ExtendedCopy),
        copy(0x84, 0x00, &COPY_RESULTS, C::CopyStatus),
        copy(0x84, 0x03, &COPY_RESULTS, C::OperatingParameters),
        copy(0x84, 0x04, &COPY_RESULTS, C::FailedSegmentDetails),
        block(0x88, &TRANSFER_16, B::Read(L::Sixteen)).tolerating(FUA_NV),
        block(0x89, &COMPARE_AND_WRITE, B::CompareAndWrite).tolerating(FUA_NV),
        block(0x8A, &TRANSFER_16, B::Write(L::Sixteen)).tolerating(FUA_NV),
        block(0x8B, &TRANSFER_16, B::OrWrite).tolerating(FUA_NV),
        block(0x8E, &VERIFY_16, B::WriteAndVerify(L::Sixteen)),
        block(0x8F, &VERIFY_16, B::Verify(L::Sixteen)),
        block(0x90, &PREFETCH_16, B::Prefetch(L::Sixteen)),
        block(0x91, &SYNCHRONIZE_16, B::SynchronizeCache(L::Sixteen)).tolerating(SYNC_NV),
        block(0x93, &WRITE_SAME_16, B::WriteSame(L::Sixteen)),
        block(0x9C, &WRITE_ATOMIC, B::WriteAtomic),
        block(0x9E, &READ_CAPACITY_16, B::ReadCapacity16).with_service_action(0x10),
        block(0x9E, &LBA_STATUS, B::LbaStatus).with_service_action(0x12),
        primary(0xA0, &REPORT_LUNS, P::ReportLuns),
        primary(0xA3, &REPORT_GROUPS, P::ReportPortGroups).with_service_action(0x0A),
        primary(0xA3, &REPORT_CODES, P::ReportOperationCodes).with_service_action(0x0C),
        primary(0xA3, &REPORT_FUNCTIONS, P::ReportTaskFunctions).with_service_action(0x0D),
        primary(0xA4, &SET_GROUPS, P::SetPortGroups).with_service_action(0x0A),
        block(0xA8, &TRANSFER_12, B::Read(L::Twelve)).tolerating(FUA_NV),
        block(0xAA, &TRANSFER_12, B::Write(L::Twelve)).tolerating(FUA_NV),
        block(0xAE, &VERIFY_12, B::WriteAndVerify(L::Twelve)),
        block(0xAF, &VERIFY_12, B::Verify(L::Twelve)),
    ]
};

/// Whether a command may leave something behind: on the medium, in the unit's parameters, or in who may use it. A transport
/// that carries such a one out must know that its initiator still waits for it. One that will be refused leaves nothing.
#[must_use]
pub fn leaves_traces(cdb: &[u8]) -> bool {
    find(cdb).is_ok_and(|row| row.operation.leaves_traces())
}

impl Operation {
    const fn leaves_traces(self) -> bool {
        use BlockOperation as B;
        use CopyOperation as C;
        use PrimaryOperation as P;
        use ReservationOperation as R;
        match self {
            Self::Primary(
                P::TestUnitReady
                | P::RequestSense
                | P::Inquiry
                | P::ModeSense6
                | P::ModeSense10
                | P::ReportLuns
                | P::ReportOperationCodes
                | P::LogSense
                | P::ReportPortGroups
                | P::ReportTaskFunctions,
            )
            // What was acknowledged is on stable storage, and units are always started.
            | Self::Block(
                B::Read(_)
                | B::Verify(_)
                | B::SynchronizeCache(_)
                | B::LbaStatus
                | B::ReadCapacity10
                | B::ReadCapacity16
                | B::StartStopUnit
                | B::Prefetch(_),
            )
            | Self::Reservation(
                R::ReadKeys | R::ReadReservation | R::ReportCapabilities | R::ReadFullStatus,
            )
            | Self::Copy(C::CopyStatus | C::OperatingParameters | C::FailedSegmentDetails) => false,
            Self::Primary(P::ModeSelect6 | P::ModeSelect10 | P::SetPortGroups)
            | Self::Block(
                B::Write(_)
                | B::WriteAndVerify(_)
                | B::WriteSame(_)
                | B::Unmap
                | B::CompareAndWrite
                | B::OrWrite
                | B::WriteAtomic,
            )
            | Self::Reservation(R::Out | R::Reserve | R::Release)
            | Self::Copy(C::ExtendedCopy) => true,
        }
    }
}

/// The row of the command that a CDB begins.
///
/// # Errors
/// INVALID COMMAND OPERATION CODE if there is none with that operation code; INVALID FIELD IN CDB
/// at the service action if there is, but not with that service action (SPC-4, Service action).
pub(crate) fn find(bytes: &[u8]) -> Result<&'static OperationCode, Sense> {
    let mut known = false;
    let [operation_code, rest @ ..] = bytes else {
        return Err(Sense::illegal_request(
            AdditionalSense::INVALID_COMMAND_OPERATION_CODE,
        ));
    };
    let service_action = u16::from(rest.first().copied().unwrap_or_default() & SERVICE_ACTION_MASK);
    for row in OPERATION_CODES {
        if row.operation_code != *operation_code {
            continue;
        }
        if row
            .service_action
            .is_none_or(|known| known == service_action)
        {
            return Ok(row);
        }
        known = true;
    }
    if known {
        return Err(UNKNOWN_SERVICE_ACTION);
    }
    Err(Sense::illegal_request(
        AdditionalSense::INVALID_COMMAND_OPERATION_CODE,
    ))
}
