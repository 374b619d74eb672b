//! The parameter lists of MODE SELECT (6) and (10) (SPC-4, Mode parameters).
//!
//! Hosts write back what they have read, with what they want changed. No parameter can be changed,
//! so a list is accepted if it changes nothing, and refused at the first byte that would.
//!
//! Invariants:
//! - a list is accepted whole or refused whole; either way nothing has changed.

use crate::mode::{self, LONG_DESCRIPTOR_LENGTH, SUBPAGE_FORMAT};
use crate::surroundings::Surroundings;
use crate::{AdditionalSense, Geometry, Sense};

const SHORT_DESCRIPTOR_LENGTH: usize = 8;
/// PS (what MODE SENSE has set; reserved here) and SPF, beside the PAGE CODE.
const PAGE_CODE_MASK: u8 = 0x3F;

/// Where a list is being read.
struct List<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> List<'a> {
    /// The next bytes.
    ///
    /// # Errors
    /// PARAMETER LIST LENGTH ERROR if the list ends within them (SPC-4, MODE SELECT (6)).
    fn take(&mut self, count: usize) -> Result<&'a [u8], Sense> {
        let taken = self.bytes.get(self.at..self.at + count);
        self.at += count;
        taken.ok_or(Sense::illegal_request(
            AdditionalSense::PARAMETER_LIST_LENGTH_ERROR,
        ))
    }

    /// The list is wrong at the byte taken `back` bytes ago.
    const fn wrong(&self, back: usize, bit: Option<u8>) -> Sense {
        Sense::invalid_parameter((self.at - back) as u16, bit)
    }
}

/// Checks a list: of MODE SELECT (10) if `ten`, in the standard's format if `page_format` (PF).
///
/// # Errors
/// PARAMETER LIST LENGTH ERROR if the list ends within a header, a descriptor or a page; INVALID
/// FIELD IN PARAMETER LIST at what is unknown, or would change something.
pub(crate) fn check(
    bytes: &[u8],
    (ten, page_format): (bool, bool),
    geometry: Geometry,
    surroundings: &Surroundings<'_>,
) -> Result<(), Sense> {
    // SPC-4: no list is not an error.
    if bytes.is_empty() {
        return Ok(());
    }
    if !page_format {
        return Err(Sense::invalid_cdb_field(1, Some(4)));
    }
    let mut list = List { bytes, at: 0 };
    descriptor(&mut list, ten, geometry)?;
    let pages = mode::all(surroundings);
    while list.at < bytes.len() {
        let first = list.take(2)?;
        let (code, second) = (first[0] & PAGE_CODE_MASK, first[1]);
        let (subpage, length) = if first[0] & SUBPAGE_FORMAT == 0 {
            (0, usize::from(second))
        } else {
            let length = list.take(2)?;
            (
                second,
                usize::from(u16::from_be_bytes([length[0], length[1]])),
            )
        };
        let header_length = if first[0] & SUBPAGE_FORMAT == 0 { 2 } else { 4 };
        let mut of_code = pages.iter().filter(|page| page.code == code).peekable();
        if of_code.peek().is_none() {
            return Err(list.wrong(header_length, Some(5)));
        }
        let Some(page) = of_code.find(|page| {
            page.header()[0] & SUBPAGE_FORMAT == first[0] & SUBPAGE_FORMAT
                && page.subpage == subpage
        }) else {
            return Err(list.wrong(header_length - 1, None));
        };
        if length != page.content.len() {
            return Err(list.wrong(header_length / 2, None));
        }
        let content = list.take(length)?;
        let mut differs = content.iter().zip(&page.content);
        if let Some(place) = differs.position(|(wanted, is)| wanted != is) {
            return Err(list.wrong(length - place, None));
        }
    }
    Ok(())
}

/// The header, and the block descriptor if there is one: it has to say what is.
fn descriptor(list: &mut List<'_>, ten: bool, geometry: Geometry) -> Result<(), Sense> {
    // MODE DATA LENGTH and DEVICE-SPECIFIC PARAMETER are reserved here (SPC-4; SBC-3).
    let (medium_type, is_long, length) = if ten {
        let header = list.take(8)?;
        let length = u16::from_be_bytes([header[6], header[7]]);
        (header[2], header[4] & 0x01 != 0, usize::from(length))
    } else {
        let header = list.take(4)?;
        (header[1], false, usize::from(header[3]))
    };
    if medium_type != 0 {
        return Err(list.wrong(if ten { 6 } else { 3 }, None));
    }
    let of_one = if is_long {
        LONG_DESCRIPTOR_LENGTH
    } else {
        SHORT_DESCRIPTOR_LENGTH
    };
    if length == 0 {
        return Ok(());
    }
    if length != of_one {
        return Err(list.wrong(if ten { 2 } else { 1 }, None));
    }
    let descriptor = list.take(length)?;
    let (blocks, block_length) = descriptor.split_at(length / 2);
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    };
    let blocks = number(blocks);
    // SBC-3, Mode parameter block descriptors: zero and all ones leave the capacity as it is.
    let all_ones = if is_long {
        u64::MAX
    } else {
        u64::from(u32::MAX)
    };
    if blocks != 0 && blocks != all_ones && blocks != geometry.blocks() {
        return Err(list.wrong(length, None));
    }
    // After reserved bytes: one, or four.
    if number(&block_length[block_length.len() / 2 - usize::from(!is_long)..])
        != geometry.block_length().bytes()
    {
        return Err(list.wrong(length / 2 - if is_long { 4 } else { 1 }, None));
    }
    Ok(())
}
