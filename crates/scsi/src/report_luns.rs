//! The answer to REPORT LUNS (SPC-4).

use alloc::vec::Vec;

use crate::data_in;
use crate::{Lun, Response, Sense};

pub(crate) fn respond(luns: &[Lun], select: u8, allocation_length: u32) -> Result<Response, Sense> {
    let luns = match select {
        // All but well known units; and all: there are no well known ones.
        0x00 | 0x02 => luns,
        // Well known units.
        0x01 => &[],
        _ => return Err(Sense::invalid_cdb_field(2, None)),
    };
    // LUN LIST LENGTH, and a reserved word.
    let mut data = Vec::from((8 * luns.len() as u32).to_be_bytes());
    data.extend([0; 4]);
    for lun in luns {
        data.extend(lun.to_bytes());
    }
    Ok(data_in::respond(&data, allocation_length))
}
