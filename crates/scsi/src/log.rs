//! Log pages (SPC-4 and SBC-3, Log parameters): what hosts ask of a thin unit.
//!
//! Nothing is counted here: no page holds errors or temperatures that a volume does not have.
//!
//! Invariants:
//! - the pages of supported pages list those that are answered, ascending;
//! - parameters ascend, so that a pointer takes off the front.

use alloc::vec::Vec;

use crate::cdb::LogSense;
use crate::data_in;
use crate::surroundings::Provisioning;
use crate::{Response, Sense};

const SUPPORTED: u8 = 0x00;
const LOGICAL_BLOCK_PROVISIONING: u8 = 0x0C;
const INFORMATIONAL_EXCEPTIONS: u8 = 0x2F;
const ALL_SUBPAGES: u8 = 0xFF;

/// SPF: the page has a subpage code.
const SUBPAGE_FORMAT: u8 = 0x40;
/// FORMAT AND LINKING 11b: binary, and nothing to be logged at.
const BINARY_LIST: u8 = 0x03;

/// SCOPE (SBC-3): for this unit only; for others too.
const DEDICATED: u8 = 0b01;
const SHARED: u8 = 0b10;

/// Answers LOG SENSE.
///
/// # Errors
/// INVALID FIELD IN CDB for a page that is not there, and for a pointer beyond its parameters.
pub(crate) fn respond(
    provisioning: Option<Provisioning>,
    request: LogSense,
) -> Result<Response, Sense> {
    let LogSense { page, subpage, .. } = request;
    let content = match (page, subpage) {
        (SUPPORTED, 0x00) => pages(provisioning),
        (SUPPORTED, ALL_SUBPAGES) => subpages(provisioning),
        (LOGICAL_BLOCK_PROVISIONING, 0x00) => match provisioning {
            Some(provisioning) => parameters(resources(provisioning), request)?,
            None => return Err(Sense::invalid_cdb_field(2, Some(5))),
        },
        (INFORMATIONAL_EXCEPTIONS, 0x00) => parameters([no_exception()], request)?,
        (SUPPORTED | LOGICAL_BLOCK_PROVISIONING | INFORMATIONAL_EXCEPTIONS, _) => {
            return Err(Sense::invalid_cdb_field(3, None));
        }
        _ => return Err(Sense::invalid_cdb_field(2, Some(5))),
    };
    let format = if subpage == 0 { 0 } else { SUBPAGE_FORMAT };
    let mut data = alloc::vec![format | page, subpage];
    data.extend((content.len() as u16).to_be_bytes());
    data.extend(content);
    Ok(data_in::respond(&data, request.allocation_length))
}

fn pages(provisioning: Option<Provisioning>) -> Vec<u8> {
    let mut pages = alloc::vec![SUPPORTED];
    pages.extend(provisioning.map(|_| LOGICAL_BLOCK_PROVISIONING));
    pages.push(INFORMATIONAL_EXCEPTIONS);
    pages
}

fn subpages(provisioning: Option<Provisioning>) -> Vec<u8> {
    let pages = pages(provisioning).into_iter();
    let mut subpages: Vec<u8> = pages.flat_map(|page| [page, 0x00]).collect();
    subpages.splice(2..2, [SUPPORTED, ALL_SUBPAGES]);
    subpages
}

/// A log parameter: its code, and what follows its header.
type Parameter = (u16, Vec<u8>);

/// The parameters from the pointer on.
fn parameters(
    parameters: impl IntoIterator<Item = Parameter>,
    request: LogSense,
) -> Result<Vec<u8>, Sense> {
    let mut data = Vec::new();
    for (code, value) in parameters {
        if code < request.parameter_pointer {
            continue;
        }
        data.extend(code.to_be_bytes());
        data.extend([BINARY_LIST, value.len() as u8]);
        data.extend(value);
    }
    if data.is_empty() {
        // SPC-4, LOG SENSE, PARAMETER POINTER.
        return Err(Sense::invalid_cdb_field(5, None));
    }
    Ok(data)
}

/// Available and used LBA mapping resource counts (SBC-3, Logical Block Provisioning log page).
fn resources(provisioning: Provisioning) -> [Parameter; 2] {
    let count = |bytes, scope| {
        let mut value = Vec::from(Provisioning::sets(bytes).to_be_bytes());
        value.extend([scope, 0, 0, 0]);
        value
    };
    [
        (0x0001, count(provisioning.available_bytes, SHARED)),
        (0x0002, count(provisioning.used_bytes, DEDICATED)),
    ]
}

/// SPC-4, Informational Exceptions log page: none; and no temperature (FFh).
fn no_exception() -> Parameter {
    (0x0000, alloc::vec![0x00, 0x00, 0xFF, 0x00])
}
