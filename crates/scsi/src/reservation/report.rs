//! The answers to PERSISTENT RESERVE IN (SPC-4 6.15).
//!
//! Invariants:
//! - ADDITIONAL LENGTH counts all that there is, however much of it fits;
//! - no more is put together than is returned.

use alloc::vec::Vec;

use holdfast_model::record::{AccessRecord, Registration};

use super::permission::is_holder;
use super::request::InAction;
use super::{kind, transport_id};
use crate::{Response, data_in};

/// Bytes of a full status descriptor before its TransportID.
const DESCRIPTOR_LENGTH: usize = 24;

/// REPORT CAPABILITIES (SPC-4 6.15.4): CRH, SIP_C, ATP_C, PTPL_C.
const CAPABILITIES: u8 = 0x1D;
/// TMV; ALLOW COMMANDS 011b: TEST UNIT READY is done under any reservation, MODE SENSE and REPORT
/// SUPPORTED OPERATION CODES under those of writes alone.
const ALLOWED: u8 = 0x80 | 0b011 << 4;
/// PTPL_A.
const PERSISTS: u8 = 0x01;
/// PERSISTENT RESERVATION TYPE MASK: all six.
const TYPE_MASK: [u8; 2] = [0xEA, 0x01];

/// In byte 12 of a full status descriptor.
const R_HOLDER: u8 = 0x01;
const ALL_TG_PT: u8 = 0x02;

pub(super) fn respond(record: &AccessRecord, action: InAction, allocation_length: u32) -> Response {
    let data = match action {
        InAction::ReadKeys => keys(record, allocation_length),
        InAction::ReadReservation => reservation(record),
        InAction::ReportCapabilities => capabilities(record),
        InAction::ReadFullStatus => full_status(record, allocation_length),
    };
    data_in::respond(&data, allocation_length)
}

/// PRGENERATION and ADDITIONAL LENGTH.
fn header(record: &AccessRecord, additional_length: usize) -> Vec<u8> {
    let mut data = Vec::from(record.generation.to_be_bytes());
    data.extend((additional_length as u32).to_be_bytes());
    data
}

/// READ KEYS (SPC-4 6.15.2): one for each nexus, whether or not several share it.
fn keys(record: &AccessRecord, allocation_length: u32) -> Vec<u8> {
    let mut data = header(record, 8 * record.registrations.len());
    for registration in &record.registrations {
        if data.len() >= allocation_length as usize {
            break;
        }
        data.extend(registration.key.to_be_bytes());
    }
    data
}

/// READ RESERVATION (SPC-4 6.15.3).
fn reservation(record: &AccessRecord) -> Vec<u8> {
    let Some(reservation) = &record.reservation else {
        return header(record, 0);
    };
    // What all who are registered hold has the key zero.
    let key = reservation.holder.as_ref().map_or(0, |holder| {
        let registration = record.registration(holder);
        registration.expect("who holds it is registered").key
    });
    let mut data = header(record, 16);
    data.extend(key.to_be_bytes());
    // Four bytes are obsolete, one is reserved; SCOPE LU_SCOPE and TYPE; two are obsolete.
    data.extend([0, 0, 0, 0, 0, kind::code(reservation.kind), 0, 0]);
    data
}

/// REPORT CAPABILITIES (SPC-4 6.15.4).
fn capabilities(record: &AccessRecord) -> Vec<u8> {
    let persists = if record.persists { PERSISTS } else { 0 };
    let [high, low] = TYPE_MASK;
    alloc::vec![0, 8, CAPABILITIES, ALLOWED | persists, high, low, 0, 0]
}

/// READ FULL STATUS (SPC-4 6.15.5).
fn full_status(record: &AccessRecord, allocation_length: u32) -> Vec<u8> {
    let lengths = record
        .registrations
        .iter()
        .map(|registration| DESCRIPTOR_LENGTH + transport_id::encoded_length(&registration.nexus));
    let mut data = header(record, lengths.sum());
    for registration in &record.registrations {
        if data.len() >= allocation_length as usize {
            break;
        }
        data.extend(full_status_descriptor(record, registration));
    }
    data
}

fn full_status_descriptor(record: &AccessRecord, registration: &Registration) -> Vec<u8> {
    let nexus = &registration.nexus;
    let id = transport_id::encode(nexus);
    // SCOPE and TYPE are only told of who holds the reservation.
    let held = record
        .reservation
        .as_ref()
        .filter(|_| is_holder(record, nexus));
    let mut flags = 0;
    if held.is_some() {
        flags |= R_HOLDER;
    }
    if registration.all_target_ports {
        flags |= ALL_TG_PT;
    }
    let mut data = Vec::with_capacity(DESCRIPTOR_LENGTH + id.len());
    data.extend(registration.key.to_be_bytes());
    data.extend([0; 4]);
    data.extend([flags, held.map_or(0, |held| kind::code(held.kind))]);
    data.extend([0; 4]);
    data.extend(nexus.port.0.to_be_bytes());
    data.extend((id.len() as u32).to_be_bytes());
    assert_eq!(data.len(), DESCRIPTOR_LENGTH, "the fields fill it");
    data.extend(id);
    data
}
