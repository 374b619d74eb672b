//! Mode pages (SPC-4 and SBC-3, Mode parameters): none can be changed, none is saved.
//!
//! Invariants:
//! - WCE is zero: what is acknowledged is on stable storage, there is no cache to flush;
//! - D_SENSE is zero: sense data is in the fixed format wherever it is not asked for otherwise.

use alloc::vec::Vec;

use crate::cdb::{ModeSense, PageControl};
use crate::data_in;
use crate::{AdditionalSense, Geometry, Response, Sense};

const CACHING: u8 = 0x08;
const CONTROL: u8 = 0x0A;
const INFORMATIONAL_EXCEPTIONS: u8 = 0x1C;
const ALL_PAGES: u8 = 0x3F;
const ALL_SUBPAGES: u8 = 0xFF;

/// DEVICE-SPECIFIC PARAMETER (SBC-3, Mode parameters): DPOFUA; not write-protected.
const DEVICE_SPECIFIC: u8 = 0x10;

/// The pages, ascending: code and what follows the PAGE LENGTH.
const PAGES: [(u8, &[u8]); 3] = [
    // SBC-3, Caching mode page: no WCE, no RCD, no prefetching.
    (CACHING, &[0; 0x12]),
    // SPC-4, Control mode page: GLTSD (there are no log parameters to save); QUEUE ALGORITHM
    // MODIFIER 1 (unrestricted reordering); BUSY TIMEOUT PERIOD unlimited. TST 000b, QERR 00b,
    // TAS 0, SWP 0.
    (
        CONTROL,
        &[0x02, 0x10, 0x00, 0x00, 0x00, 0x00, 0xFF, 0xFF, 0x00, 0x00],
    ),
    // SPC-4, Informational Exceptions Control mode page: DEXCPT (nothing is reported before it
    // fails).
    (
        INFORMATIONAL_EXCEPTIONS,
        &[0x08, 0x00, 0, 0, 0, 0, 0, 0, 0, 0],
    ),
];

/// Answers MODE SENSE (6) and (10).
pub(crate) fn respond(geometry: Geometry, request: ModeSense) -> Result<Response, Sense> {
    if request.control == PageControl::Saved {
        return Err(Sense::illegal_request(
            AdditionalSense::SAVING_PARAMETERS_NOT_SUPPORTED,
        ));
    }
    let pages = pages(request)?;
    let descriptor = block_descriptor(geometry, request);
    let mut data = Vec::new();
    if request.ten {
        // MODE DATA LENGTH counts what follows it.
        data.extend((6 + descriptor.len() as u16 + pages.len() as u16).to_be_bytes());
        let long = u8::from(descriptor.len() == LONG_DESCRIPTOR_LENGTH);
        data.extend([0x00, DEVICE_SPECIFIC, long, 0x00]);
        data.extend((descriptor.len() as u16).to_be_bytes());
    } else {
        data.push(3 + descriptor.len() as u8 + pages.len() as u8);
        data.extend([0x00, DEVICE_SPECIFIC, descriptor.len() as u8]);
    }
    data.extend(descriptor);
    data.extend(pages);
    Ok(data_in::respond(&data, request.allocation_length))
}

fn pages(request: ModeSense) -> Result<Vec<u8>, Sense> {
    // No page has subpages: all of them (FFh) are then the one that has the number 00h.
    if request.subpage != 0 && request.subpage != ALL_SUBPAGES {
        return Err(Sense::invalid_cdb_field(3, None));
    }
    let mut data = Vec::new();
    for (code, content) in PAGES {
        if request.page != code && request.page != ALL_PAGES {
            continue;
        }
        data.extend([code, content.len() as u8]);
        match request.control {
            PageControl::Changeable => data.extend(core::iter::repeat_n(0, content.len())),
            _ => data.extend(content),
        }
    }
    if data.is_empty() {
        return Err(Sense::invalid_cdb_field(2, Some(5)));
    }
    Ok(data)
}

const LONG_DESCRIPTOR_LENGTH: usize = 16;

/// The block descriptor (SBC-3, Mode parameter block descriptors), if one is welcome.
fn block_descriptor(geometry: Geometry, request: ModeSense) -> Vec<u8> {
    let block_length = geometry.block_length().bytes() as u32;
    let mut data = Vec::new();
    if !request.block_descriptor {
        return data;
    }
    if request.long_descriptor {
        data.extend(geometry.blocks().to_be_bytes());
        data.extend([0; 4]);
        data.extend(block_length.to_be_bytes());
        assert_eq!(data.len(), LONG_DESCRIPTOR_LENGTH);
        return data;
    }
    let blocks = u32::try_from(geometry.blocks()).unwrap_or(u32::MAX);
    data.extend(blocks.to_be_bytes());
    // A reserved byte, then three of LOGICAL BLOCK LENGTH.
    data.extend(block_length.to_be_bytes());
    data
}
