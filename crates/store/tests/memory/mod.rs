//! A device in memory.

use holdfast_model::{DiskCompletion, DiskOp, DiskRequest};
use holdfast_stdx::Bytes;

const SECTOR: usize = 512;

/// Does what a device is asked.
pub(crate) fn perform(device: &mut [u8], request: DiskRequest) -> DiskCompletion {
    let mut bytes = Bytes::new();
    match request.op {
        DiskOp::Read { offset, length } => {
            let range = offset as usize..offset as usize + length as usize;
            bytes = Bytes::copy_from_slice(&device[range]);
        }
        DiskOp::Write { offset, parts, .. } => {
            let mut at = offset as usize;
            for part in parts {
                device[at..at + part.len()].copy_from_slice(&part);
                at += part.len();
            }
        }
        DiskOp::Flush | DiskOp::Discard { .. } => {}
    }
    DiskCompletion {
        token: request.token,
        result: Ok(bytes),
    }
}

/// The power fails in the middle of what a device is asked: of a write the first sector is there.
pub(crate) fn tear(device: &mut [u8], request: &DiskRequest) {
    if let DiskOp::Write { offset, parts, .. } = &request.op {
        let at = *offset as usize;
        device[at..at + SECTOR].copy_from_slice(&parts[0][..SECTOR]);
    }
}
