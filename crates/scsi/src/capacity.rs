//! The answers to READ CAPACITY (10) and (16) (SBC-3).

use alloc::vec::Vec;

use crate::data_in;
use crate::{Geometry, Response};

/// READ CAPACITY (10): FFFFFFFFh for a last address that needs more than 32 bits.
pub(crate) fn respond_10(geometry: Geometry) -> Response {
    let last = u32::try_from(geometry.blocks() - 1).unwrap_or(u32::MAX);
    let mut data = Vec::from(last.to_be_bytes());
    data.extend((geometry.block_length().bytes() as u32).to_be_bytes());
    let length = data.len() as u32;
    data_in::respond(&data, length)
}

/// READ CAPACITY (16): no protection, physical blocks of 4 KiB, LBPME and LBPRZ.
pub(crate) fn respond_16(geometry: Geometry, allocation_length: u32) -> Response {
    let mut data = Vec::from((geometry.blocks() - 1).to_be_bytes());
    data.extend((geometry.block_length().bytes() as u32).to_be_bytes());
    data.push(0x00); // P_TYPE, PROT_EN.
    data.push(geometry.block_length().physical_exponent());
    data.extend([0xC0, 0x00]); // LBPME, LBPRZ; LOWEST ALIGNED LOGICAL BLOCK ADDRESS 0.
    data.resize(32, 0);
    data_in::respond(&data, allocation_length)
}
