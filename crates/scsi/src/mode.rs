//! Mode pages (SPC-4 and SBC-3, Mode parameters): none can be changed, none is saved.
//!
//! That is why they need not be told to other nodes: whoever could change one would change it for
//! every host, on every path.
//!
//! Invariants:
//! - WCE is zero: what is acknowledged is on stable storage, there is no cache to flush;
//! - D_SENSE is zero: sense data is in the fixed format wherever it is not asked for otherwise.

use alloc::vec::Vec;

use crate::cdb::{ModeSense, PageControl};
use crate::data_in;
use crate::limits::THRESHOLDS;
use crate::surroundings::{Provisioning, Surroundings};
use crate::{AdditionalSense, Geometry, Response, Sense};

const ERROR_RECOVERY: u8 = 0x01;
const CACHING: u8 = 0x08;
const CONTROL: u8 = 0x0A;
const INFORMATIONAL_EXCEPTIONS: u8 = 0x1C;
const ALL_PAGES: u8 = 0x3F;
const ALL_SUBPAGES: u8 = 0xFF;
/// SUBPAGE CODE of Control Extension, and of Logical Block Provisioning.
const CONTROL_EXTENSION: u8 = 0x01;
const PROVISIONING: u8 = 0x02;

/// SPF: the page has a subpage code, and two bytes of length.
pub(crate) const SUBPAGE_FORMAT: u8 = 0x40;

/// DEVICE-SPECIFIC PARAMETER (SBC-3, Mode parameters): DPOFUA; not write-protected.
const DEVICE_SPECIFIC: u8 = 0x10;

/// One page.
pub(crate) struct Page {
    pub(crate) code: u8,
    pub(crate) subpage: u8,
    /// What follows the PAGE LENGTH.
    pub(crate) content: Vec<u8>,
}

impl Page {
    /// What precedes the content.
    pub(crate) fn header(&self) -> Vec<u8> {
        let [high, low] = (self.content.len() as u16).to_be_bytes();
        match self.subpage {
            0 => alloc::vec![self.code, low],
            subpage => alloc::vec![SUBPAGE_FORMAT | self.code, subpage, high, low],
        }
    }
}

/// The pages, ascending.
pub(crate) fn all(surroundings: &Surroundings<'_>) -> Vec<Page> {
    let page = |code, subpage, content: &[u8]| Page {
        code,
        subpage,
        content: content.to_vec(),
    };
    // SPC-4, Control Extension mode page: IALUAE (states change by themselves), if there are any.
    let mut extension = [0; 0x1C];
    extension[0] = u8::from(!surroundings.groups.is_empty());
    let mut pages = alloc::vec![
        // SBC-3, Read-Write Error Recovery mode page: AWRE, ARRE. What is bad is made good from
        // another copy, and written anew.
        page(ERROR_RECOVERY, 0, &[0xC0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        // SBC-3, Caching mode page: no WCE, no RCD, no prefetching.
        page(CACHING, 0, &[0; 0x12]),
        // SPC-4, Control mode page: GLTSD (there are no log parameters to save); QUEUE ALGORITHM
        // MODIFIER 1 (unrestricted reordering); BUSY TIMEOUT PERIOD unlimited. TST 000b, QERR 00b,
        // TAS 0, SWP 0.
        page(CONTROL, 0, &[0x02, 0x10, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0]),
        page(CONTROL, CONTROL_EXTENSION, &extension),
        // SPC-4, Informational Exceptions Control mode page: DEXCPT (nothing is reported before it
        // fails).
        page(
            INFORMATIONAL_EXCEPTIONS,
            0,
            &[0x08, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        ),
    ];
    let provisioning = surroundings.provisioning;
    if let Some(bytes) = provisioning.and_then(|it| it.thresholds_bytes) {
        pages.push(Page {
            code: INFORMATIONAL_EXCEPTIONS,
            subpage: PROVISIONING,
            content: thresholds(bytes),
        });
    }
    pages
}

/// SBC-3, Logical Block Provisioning mode page: thresholds, each enabled, soft, armed for what is
/// available when that decreases. No SITUA: each initiator is told.
fn thresholds(bytes: [u64; THRESHOLDS]) -> Vec<u8> {
    let mut content = alloc::vec![0; 12];
    for threshold in bytes {
        content.extend([0x80, 0x01, 0, 0]);
        content.extend(Provisioning::sets(threshold).to_be_bytes());
    }
    content
}

/// Answers MODE SENSE (6) and (10).
pub(crate) fn respond(
    geometry: Geometry,
    surroundings: &Surroundings<'_>,
    request: ModeSense,
) -> Result<Response, Sense> {
    if request.control == PageControl::Saved {
        return Err(Sense::illegal_request(
            AdditionalSense::SAVING_PARAMETERS_NOT_SUPPORTED,
        ));
    }
    let pages = pages(surroundings, request)?;
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

fn pages(surroundings: &Surroundings<'_>, request: ModeSense) -> Result<Vec<u8>, Sense> {
    let of_code = |code: u8| request.page == code || request.page == ALL_PAGES;
    let of_subpage = |subpage: u8| request.subpage == subpage || request.subpage == ALL_SUBPAGES;
    let mut is_known = false;
    let mut data = Vec::new();
    for page in all(surroundings) {
        if !of_code(page.code) {
            continue;
        }
        is_known = true;
        // All pages are not asked for by a subpage (SPC-4, MODE SENSE (6)): 3Fh goes with 00h and FFh.
        let is_sane = request.page != ALL_PAGES || matches!(request.subpage, 0 | ALL_SUBPAGES);
        if !of_subpage(page.subpage) || !is_sane {
            continue;
        }
        data.extend(page.header());
        match request.control {
            PageControl::Changeable => data.extend(core::iter::repeat_n(0, page.content.len())),
            _ => data.extend(page.content),
        }
    }
    match (data.is_empty(), is_known) {
        (false, _) => Ok(data),
        (true, true) => Err(Sense::invalid_cdb_field(3, None)),
        (true, false) => Err(Sense::invalid_cdb_field(2, Some(5))),
    }
}

pub(crate) const LONG_DESCRIPTOR_LENGTH: usize = 16;

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
