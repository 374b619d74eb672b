//! The answer to REPORT SUPPORTED OPERATION CODES (SPC-4).

use alloc::vec::Vec;

use crate::cdb::OperationCodeSubject;
use crate::data_in;
use crate::operation_codes::{OPERATION_CODES, OperationCode};
use crate::{Response, Sense};

/// NOMINAL COMMAND PROCESSING TIMEOUT and RECOMMENDED COMMAND TIMEOUT, in seconds. What a cluster
/// needs to fail over is far below; initiators that wait less give up too early.
const TIMEOUT_NOMINAL_SECONDS: u32 = 1;
const TIMEOUT_RECOMMENDED_SECONDS: u32 = 30;

/// SUPPORT, SPC-4, one_command parameter data.
const UNSUPPORTED: u8 = 0b001;
const SUPPORTED: u8 = 0b011;

pub(crate) fn respond(
    subject: OperationCodeSubject,
    timeouts: bool,
    has_groups: bool,
    allocation_length: u32,
) -> Result<Response, Sense> {
    let data = match subject {
        OperationCodeSubject::All => all_commands(timeouts, has_groups),
        subject => {
            let row = find(subject)?.filter(|row| row.is_had(has_groups));
            one_command(row, timeouts)
        }
    };
    Ok(data_in::respond(&data, allocation_length))
}

fn find(subject: OperationCodeSubject) -> Result<Option<&'static OperationCode>, Sense> {
    // The REPORTING OPTIONS do not fit the operation code.
    let misfit = Sense::invalid_cdb_field(2, Some(2));
    let rows = |wanted| {
        let of_code = move |row: &&OperationCode| row.operation_code == wanted;
        OPERATION_CODES.iter().filter(of_code)
    };
    match subject {
        OperationCodeSubject::All => Ok(None),
        OperationCodeSubject::Plain { operation_code } => match rows(operation_code).next() {
            Some(row) if row.service_action.is_some() => Err(misfit),
            row => Ok(row),
        },
        OperationCodeSubject::WithServiceAction {
            operation_code,
            service_action,
        } => match rows(operation_code).next() {
            Some(row) if row.service_action.is_none() => Err(misfit),
            _ => Ok(rows(operation_code).find(|row| row.service_action == Some(service_action))),
        },
        OperationCodeSubject::Either {
            operation_code,
            service_action,
        } => {
            let fits =
                |row: &&OperationCode| row.service_action.unwrap_or_default() == service_action;
            Ok(rows(operation_code).find(fits))
        }
    }
}

fn all_commands(timeouts: bool, has_groups: bool) -> Vec<u8> {
    let mut data = alloc::vec![0; 4];
    for row in OPERATION_CODES.iter().filter(|row| row.is_had(has_groups)) {
        data.extend([row.operation_code, 0x00]);
        data.extend(row.service_action.unwrap_or_default().to_be_bytes());
        // CTDP, SERVACTV.
        let flags = u8::from(timeouts) << 1 | u8::from(row.service_action.is_some());
        data.extend([0x00, flags]);
        data.extend((row.usage.len() as u16).to_be_bytes());
        if timeouts {
            data.extend(timeouts_descriptor());
        }
    }
    let length = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&length.to_be_bytes());
    data
}

fn one_command(row: Option<&OperationCode>, timeouts: bool) -> Vec<u8> {
    let Some(row) = row else {
        return alloc::vec![0x00, UNSUPPORTED, 0x00, 0x00];
    };
    // CTDP, SUPPORT.
    let mut data = alloc::vec![0x00, u8::from(timeouts) << 7 | SUPPORTED];
    data.extend((row.usage.len() as u16).to_be_bytes());
    data.extend(row.usage_data());
    if timeouts {
        data.extend(timeouts_descriptor());
    }
    data
}

/// Command timeouts descriptor (SPC-4, command timeouts descriptor).
fn timeouts_descriptor() -> Vec<u8> {
    let mut data = alloc::vec![0x00, 0x0A, 0x00, 0x00];
    data.extend(TIMEOUT_NOMINAL_SECONDS.to_be_bytes());
    data.extend(TIMEOUT_RECOMMENDED_SECONDS.to_be_bytes());
    data
}
