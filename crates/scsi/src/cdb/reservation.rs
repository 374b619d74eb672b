//! CDBs about reservations: PERSISTENT RESERVE IN and OUT (SPC-4 6.15 and 6.16), and RESERVE and
//! RELEASE of SPC-2, which are known without third parties and extents.

use holdfast_model::record::ReservationKind;

use super::Command;
use super::fields::Fields;
use crate::limits::RESERVATION_LIST_BYTES_MAX;
use crate::operation_codes::{ReservationOperation, SERVICE_ACTION_MASK};
use crate::reservation::{self, InAction, OutAction};
use crate::{AdditionalSense, Sense};

/// Bytes of a parameter list without TransportIDs (SPC-4 6.16.2).
const LIST_BYTES: u32 = 24;

pub(super) fn parse(operation: ReservationOperation, fields: &Fields) -> Result<Command, Sense> {
    let persistent_in = |action| Command::PersistentReserveIn {
        action,
        allocation_length: u32::from(fields.u16(7)),
    };
    match operation {
        ReservationOperation::ReadKeys => Ok(persistent_in(InAction::ReadKeys)),
        ReservationOperation::ReadReservation => Ok(persistent_in(InAction::ReadReservation)),
        ReservationOperation::ReportCapabilities => Ok(persistent_in(InAction::ReportCapabilities)),
        ReservationOperation::ReadFullStatus => Ok(persistent_in(InAction::ReadFullStatus)),
        ReservationOperation::Out => persistent_out(fields),
        ReservationOperation::Reserve => Ok(Command::Reserve),
        ReservationOperation::Release => Ok(Command::Release),
    }
}

fn persistent_out(fields: &Fields) -> Result<Command, Sense> {
    let action = match fields.byte(1) & SERVICE_ACTION_MASK {
        0x00 => OutAction::Register,
        0x01 => OutAction::Reserve(kind(fields)?),
        0x02 => OutAction::Release(kind(fields)?),
        0x03 => OutAction::Clear,
        0x04 => OutAction::Preempt(kind(fields).ok()),
        0x05 => OutAction::PreemptAndAbort(kind(fields).ok()),
        0x06 => OutAction::RegisterAndIgnore,
        0x07 => OutAction::RegisterAndMove,
        other => panic!("service action {other:02x} is in no row"),
    };
    let length = fields.u32(5);
    let fits = match action.has_transport_ids() {
        true => (LIST_BYTES..=RESERVATION_LIST_BYTES_MAX).contains(&length),
        false => length == LIST_BYTES,
    };
    if !fits {
        return Err(Sense::illegal_request(
            AdditionalSense::PARAMETER_LIST_LENGTH_ERROR,
        ));
    }
    Ok(Command::PersistentReserveOut {
        action,
        parameter_list_length: length,
    })
}

/// SCOPE, which is LU_SCOPE or nothing that is known, and TYPE.
fn kind(fields: &Fields) -> Result<ReservationKind, Sense> {
    let (scope, code) = (fields.byte(2) >> 4, fields.byte(2) & 0x0F);
    if scope != 0 {
        return Err(Sense::invalid_cdb_field(2, Some(7)));
    }
    reservation::kind_of_code(code).ok_or(Sense::invalid_cdb_field(2, Some(3)))
}
