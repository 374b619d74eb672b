//! The commands that units know, with the bits of their CDBs that mean something here.
//!
//! Invariants:
//! - one row for each operation code, or for each pair of operation code and service action;
//! - an operation code has service actions in all of its rows or in none.

use crate::cdb::SERVICE_ACTION_MASK;
use crate::{AdditionalSense, Sense};

/// A row: one command.
#[derive(Debug)]
pub(crate) struct OperationCode {
    /// OPERATION CODE.
    pub(crate) operation_code: u8,
    /// SERVICE ACTION, if the operation code has several commands.
    pub(crate) service_action: Option<u16>,
    /// The CDB with ones for the bits that are evaluated (CDB USAGE DATA without its first byte's
    /// and service action's values, SPC-4 6.35.3). As long as the CDB.
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
}

/// Where a CDB has its address and its number of blocks (SPC-4 4.2.2).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Layout {
    Six,
    Ten,
    Twelve,
    Sixteen,
}

/// FUA_NV (byte 1, bit 1; obsolete since SBC-3).
const FUA_NV: u8 = 0x02;
/// SYNC_NV (byte 1, bit 2; obsolete since SBC-3).
const SYNC_NV: u8 = 0x04;

const fn primary(
    operation_code: u8,
    usage: &'static [u8],
    operation: PrimaryOperation,
) -> OperationCode {
    OperationCode {
        operation_code,
        service_action: None,
        usage,
        tolerated_flags: 0,
        operation: Operation::Primary(operation),
    }
}

const fn block(
    operation_code: u8,
    usage: &'static [u8],
    operation: BlockOperation,
) -> OperationCode {
    OperationCode {
        operation_code,
        service_action: None,
        usage,
        tolerated_flags: 0,
        operation: Operation::Block(operation),
    }
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

/// All commands, ascending.
#[rustfmt::skip]
pub(crate) const OPERATION_CODES: &[OperationCode] = {
    use self::{BlockOperation as B, Layout as L, PrimaryOperation as P};
    &[
        primary(0x00, &[0xFF, 0, 0, 0, 0, 0], P::TestUnitReady),
        primary(0x03, &[0xFF, 0x01, 0, 0, 0xFF, 0], P::RequestSense),
        block(0x08, &[0xFF, 0x1F, 0xFF, 0xFF, 0xFF, 0], B::Read(L::Six)),
        block(0x0A, &[0xFF, 0x1F, 0xFF, 0xFF, 0xFF, 0], B::Write(L::Six)),
        primary(0x12, &[0xFF, 0x01, 0xFF, 0xFF, 0xFF, 0], P::Inquiry),
        primary(0x1A, &[0xFF, 0x08, 0xFF, 0xFF, 0xFF, 0], P::ModeSense6),
        // IMMED; NO_FLUSH and START.
        block(0x1B, &[0xFF, 0x01, 0, 0, 0x05, 0], B::StartStopUnit),
        block(0x25, &[0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0], B::ReadCapacity10),
        // DPO and FUA.
        block(0x28, &[0xFF, 0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0xFF, 0xFF, 0], B::Read(L::Ten)).tolerating(FUA_NV),
        block(0x2A, &[0xFF, 0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0xFF, 0xFF, 0], B::Write(L::Ten)).tolerating(FUA_NV),
        // DPO and BYTCHK.
        block(0x2E, &[0xFF, 0x16, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0xFF, 0xFF, 0], B::WriteAndVerify(L::Ten)),
        block(0x2F, &[0xFF, 0x16, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0xFF, 0xFF, 0], B::Verify(L::Ten)),
        // IMMED.
        block(0x35, &[0xFF, 0x02, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0xFF, 0xFF, 0], B::SynchronizeCache(L::Ten)).tolerating(SYNC_NV),
        // UNMAP.
        block(0x41, &[0xFF, 0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0xFF, 0xFF, 0], B::WriteSame(L::Ten)),
        block(0x42, &[0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0], B::Unmap),
        // LLBAA and DBD.
        primary(0x5A, &[0xFF, 0x18, 0xFF, 0xFF, 0, 0, 0, 0xFF, 0xFF, 0], P::ModeSense10),
        block(0x88, &[0xFF, 0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], B::Read(L::Sixteen)).tolerating(FUA_NV),
        block(0x8A, &[0xFF, 0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], B::Write(L::Sixteen)).tolerating(FUA_NV),
        block(0x8E, &[0xFF, 0x16, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], B::WriteAndVerify(L::Sixteen)),
        block(0x8F, &[0xFF, 0x16, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], B::Verify(L::Sixteen)),
        block(0x91, &[0xFF, 0x02, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], B::SynchronizeCache(L::Sixteen)).tolerating(SYNC_NV),
        // UNMAP and NDOB.
        block(0x93, &[0xFF, 0x09, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], B::WriteSame(L::Sixteen)),
        block(0x9E, &[0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], B::ReadCapacity16).with_service_action(0x10),
        block(0x9E, &[0xFF, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], B::LbaStatus).with_service_action(0x12),
        primary(0xA0, &[0xFF, 0, 0xFF, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], P::ReportLuns),
        // RCTD and REPORTING OPTIONS.
        primary(0xA3, &[0xFF, 0, 0x87, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], P::ReportOperationCodes).with_service_action(0x0C),
        block(0xA8, &[0xFF, 0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], B::Read(L::Twelve)).tolerating(FUA_NV),
        block(0xAA, &[0xFF, 0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], B::Write(L::Twelve)).tolerating(FUA_NV),
        block(0xAE, &[0xFF, 0x16, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], B::WriteAndVerify(L::Twelve)),
        block(0xAF, &[0xFF, 0x16, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], B::Verify(L::Twelve)),
    ]
};

/// The row of the command that a CDB begins.
///
/// # Errors
/// INVALID COMMAND OPERATION CODE if there is none with that operation code; INVALID FIELD IN CDB at
/// the service action if there is, but not with that service action (SPC-4 4.2.4.2).
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
        return Err(Sense::invalid_cdb_field(1, Some(4)));
    }
    Err(Sense::illegal_request(
        AdditionalSense::INVALID_COMMAND_OPERATION_CODE,
    ))
}
