//! The parameter list of EXTENDED COPY (LID1) (SPC-4 6.4): what it says, and which units it means.
//!
//! What says nothing here is not looked at: PRIORITY, for every copy is like any other; STR, for segments are done in their
//! order, always; CAT and PAD, for only segments without a residue are done.
//!
//! Invariants:
//! - what is kept of a list is bounded by the limits that hosts are told;
//! - a segment that was found good lies in its units, as they are then: they never shrink.

use alloc::vec::Vec;

use holdfast_model::VolumeId;
use holdfast_model::record::{AccessNexus, AccessRecord};

use super::outcome::aborted;
use super::steps::{Copy, Place, Segment};
use super::{BLOCKS_TO_BLOCKS, BYTES_TO_BYTES, CopyOutcome, CopyReport, IDENTIFICATION};
use crate::geometry::{ByteRange, Geometry};
use crate::limits::{
    COPY_CSCDS_MAX, COPY_DESCRIPTORS_BYTES_MAX, COPY_SEGMENT_BYTES_MAX, COPY_SEGMENTS_MAX,
};
use crate::reservation::{self, Need};
use crate::{AdditionalSense, Response, Sense};

const HEADER_LENGTH: usize = 16;
const CSCD_LENGTH: usize = 32;
const BLOCKS_LENGTH: usize = 28;
const BYTES_LENGTH: usize = 32;
/// Bytes of a designator that a CSCD descriptor has room for.
const DESIGNATOR_MAX: u8 = 20;

/// A list that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyList {
    /// LIST IDENTIFIER, unless nobody is to ask about the copy.
    identifier: Option<u8>,
    cscds: Vec<Cscd>,
    segments: Vec<SegmentDescriptor>,
    /// Bytes of the list, for the answer.
    data_out_length: u64,
}

/// A copy source or copy destination (CSCD): an identification descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cscd {
    /// Where in the list.
    at: u16,
    /// PERIPHERAL DEVICE TYPE.
    device_type: u8,
    /// The NAA identifier of a unit; none if the designator is of another kind.
    naa: Option<[u8; 16]>,
    /// DISK BLOCK LENGTH; zero if it is not told.
    block_length: u64,
}

/// A segment descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SegmentDescriptor {
    /// Where in the list.
    at: u16,
    /// SOURCE and DESTINATION CSCD DESCRIPTOR ID, and LOGICAL BLOCK ADDRESS.
    source: (u16, u64),
    destination: (u16, u64),
    extent: Extent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// So many blocks of the source; or of the destination (DC).
    Blocks { count: u64, of_destination: bool },
    /// So many bytes, behind so many of the first block of each.
    Bytes {
        count: u64,
        source_skip: u64,
        destination_skip: u64,
    },
}

/// A unit that a list may mean.
#[derive(Clone, Copy, Debug)]
pub struct Reachable<'a> {
    /// Which volume.
    pub volume: VolumeId,
    /// How large it is.
    pub geometry: Geometry,
    /// Who may do what with it.
    pub access: &'a AccessRecord,
}

impl CopyList {
    /// Reads a list.
    ///
    /// # Errors
    /// As SPC-4 6.4 has it for what is wrong with it.
    pub(crate) fn parse(list: &[u8]) -> Result<Self, Sense> {
        let truncated = Sense::illegal_request(AdditionalSense::PARAMETER_LIST_LENGTH_ERROR);
        let (header, rest) = list.split_at_checked(HEADER_LENGTH).ok_or(truncated)?;
        let identifier = identifier(header)?;
        let cscds_length = number(header, 2, 2);
        let segments_length = number(header, 8, 4);
        let descriptors_length = cscds_length + segments_length;
        if descriptors_length > COPY_DESCRIPTORS_BYTES_MAX {
            return Err(truncated);
        }
        if number(header, 12, 4) > 0 {
            let exceeded = Sense::illegal_request(AdditionalSense::INLINE_DATA_LENGTH_EXCEEDED);
            return Err(exceeded.at_parameter(12, None));
        }
        let descriptors = rest.get(..descriptors_length as usize).ok_or(truncated)?;
        let (cscds, segments) = descriptors.split_at(cscds_length as usize);
        Ok(Self {
            identifier,
            cscds: parse_cscds(cscds)?,
            segments: parse_segments(segments, HEADER_LENGTH + cscds.len())?,
            data_out_length: list.len() as u64,
        })
    }

    /// What is told of it before it has begun.
    #[must_use]
    pub const fn report(&self) -> CopyReport {
        CopyReport {
            identifier: self.identifier,
            segments: 0,
            bytes: 0,
        }
    }

    /// Begins the copy, for the nexus that asked for it: `find` says which unit has an NAA identifier, of those that its
    /// initiator may see.
    #[must_use]
    pub fn begin<'a>(
        self,
        port: &AccessNexus,
        find: impl Fn(&[u8; 16]) -> Option<Reachable<'a>>,
    ) -> CopyOutcome {
        let found: Vec<_> = self
            .cscds
            .iter()
            .map(|cscd| cscd.naa.as_ref().and_then(&find))
            .collect();
        let mut segments = Vec::new();
        for (number, descriptor) in self.segments.iter().enumerate() {
            match self.segment(number as u16, descriptor, &found, port) {
                Ok(segment) => segments.push(segment),
                Err(sense) => {
                    let response = Response::check_condition(sense).moved(self.data_out_length);
                    return CopyOutcome::Done(self.report(), response);
                }
            }
        }
        Copy::new(self.identifier, segments, self.data_out_length).step()
    }

    fn segment(
        &self,
        number: u16,
        descriptor: &SegmentDescriptor,
        found: &[Option<Reachable<'_>>],
        port: &AccessNexus,
    ) -> Result<Segment, Sense> {
        let SegmentDescriptor {
            at,
            source,
            destination,
            extent,
        } = descriptor;
        let source_unit = self.unit(number, (source.0, at + 4), found)?;
        let destination_unit = self.unit(number, (destination.0, at + 6), found)?;
        let source_bytes = source_unit.geometry.block_length().bytes();
        let destination_bytes = destination_unit.geometry.block_length().bytes();
        // Where the length is, and the addresses.
        let (length_at, source_at, destination_at) = match extent {
            Extent::Blocks { .. } => (at + 10, at + 12, at + 20),
            Extent::Bytes { .. } => (at + 8, at + 12, at + 20),
        };
        let (length, source_skip, destination_skip) = match *extent {
            Extent::Blocks {
                count,
                of_destination,
            } => {
                let (unit, other) = match of_destination {
                    true => (destination_bytes, source_bytes),
                    false => (source_bytes, destination_bytes),
                };
                let length = count * unit;
                if !length.is_multiple_of(other) {
                    let inexact = AdditionalSense::UNEXPECTED_INEXACT_SEGMENT;
                    return Err(aborted(inexact, number).at_parameter(length_at, None));
                }
                (length, 0, 0)
            }
            Extent::Bytes {
                count,
                source_skip,
                destination_skip,
            } => (count, source_skip, destination_skip),
        };
        if length > COPY_SEGMENT_BYTES_MAX {
            return Err(Sense::invalid_parameter(length_at, None));
        }
        let beyond = |at| aborted(AdditionalSense::NONE, number).at_parameter(at, None);
        let range = |unit: Reachable<'_>, block, skip, at| {
            range(unit.geometry, block, skip, length).ok_or(beyond(at))
        };
        let source_range = range(source_unit, source.1, source_skip, source_at)?;
        let destination_range = range(
            destination_unit,
            destination.1,
            destination_skip,
            destination_at,
        )?;
        let may_read = reservation::permits(source_unit.access, port, Need::Read);
        let may_write = reservation::permits(destination_unit.access, port, Need::Write);
        if !may_read || !may_write {
            return Err(aborted(AdditionalSense::THIRD_PARTY_DEVICE_FAILURE, number));
        }
        Ok(Segment {
            source: Place::new(source_unit, source_range),
            destination: Place::new(destination_unit, destination_range),
            length,
            is_of_bytes: matches!(extent, Extent::Bytes { .. }),
        })
    }

    /// The unit that a segment means by the `id` in its field `at`.
    fn unit<'a>(
        &self,
        segment: u16,
        (id, at): (u16, u16),
        found: &[Option<Reachable<'a>>],
    ) -> Result<Reachable<'a>, Sense> {
        let unreachable = aborted(AdditionalSense::COPY_TARGET_DEVICE_NOT_REACHABLE, segment);
        let Some(cscd) = self.cscds.get(usize::from(id)) else {
            return Err(unreachable.at_parameter(at, None));
        };
        let Some(unit) = found[usize::from(id)] else {
            return Err(unreachable.at_parameter(cscd.at, None));
        };
        if cscd.device_type != DISK {
            let incorrect = AdditionalSense::INCORRECT_COPY_TARGET_DEVICE_TYPE;
            return Err(aborted(incorrect, segment).at_parameter(cscd.at + 1, Some(4)));
        }
        // Who takes the blocks for longer or shorter ones does not mean what would be done.
        let is_known = cscd.block_length != 0;
        if is_known && cscd.block_length != unit.geometry.block_length().bytes() {
            return Err(Sense::invalid_parameter(cscd.at + 29, None));
        }
        Ok(unit)
    }
}

/// PERIPHERAL DEVICE TYPE of direct access block devices.
const DISK: u8 = 0x00;

/// LIST IDENTIFIER and LIST ID USAGE.
fn identifier(header: &[u8]) -> Result<Option<u8>, Sense> {
    match (header[1] >> 3 & 0b11, header[0]) {
        // Data is held, or may be discarded: there is none.
        (0b00 | 0b10, identifier) => Ok(Some(identifier)),
        // Nobody asks.
        (0b11, 0) => Ok(None),
        (0b11, _) => Err(Sense::invalid_parameter(0, None)),
        _ => Err(Sense::invalid_parameter(1, Some(4))),
    }
}

fn parse_cscds(list: &[u8]) -> Result<Vec<Cscd>, Sense> {
    if list.len() > COPY_CSCDS_MAX * CSCD_LENGTH {
        let too_many = AdditionalSense::TOO_MANY_TARGET_DESCRIPTORS;
        return Err(Sense::illegal_request(too_many));
    }
    if !list.len().is_multiple_of(CSCD_LENGTH) {
        return Err(Sense::invalid_parameter(2, None));
    }
    let descriptors = list.chunks_exact(CSCD_LENGTH).enumerate();
    descriptors
        .map(|(index, descriptor)| parse_cscd(descriptor, HEADER_LENGTH + index * CSCD_LENGTH))
        .collect()
}

fn parse_cscd(descriptor: &[u8], at: usize) -> Result<Cscd, Sense> {
    let at = at as u16;
    if descriptor[0] != IDENTIFICATION {
        let unsupported = AdditionalSense::UNSUPPORTED_TARGET_DESCRIPTOR_TYPE_CODE;
        return Err(Sense::illegal_request(unsupported).at_parameter(at, None));
    }
    let length = descriptor[7];
    if length > DESIGNATOR_MAX {
        return Err(Sense::invalid_parameter(at + 7, None));
    }
    let code_set = descriptor[4] & 0x0F;
    let (association, kind) = (descriptor[5] >> 4 & 0b11, descriptor[5] & 0x0F);
    // Binary, of a unit, NAA. No other designator of a unit of ours has room in a descriptor.
    let is_naa = (code_set, association, kind, length) == (0x1, 0b00, 0x3, 16);
    let naa = descriptor[8..24].try_into().expect("these are 16 bytes");
    Ok(Cscd {
        at,
        // LU ID TYPE before it is ignored (SPC-4, Identification descriptor CSCD descriptor format).
        device_type: descriptor[1] & 0x1F,
        naa: is_naa.then_some(naa),
        block_length: number(descriptor, 29, 3),
    })
}

fn parse_segments(list: &[u8], first_at: usize) -> Result<Vec<SegmentDescriptor>, Sense> {
    let mut segments = Vec::new();
    let mut rest = list;
    while let [kind, ..] = rest {
        if segments.len() == COPY_SEGMENTS_MAX {
            let too_many = AdditionalSense::TOO_MANY_SEGMENT_DESCRIPTORS;
            return Err(Sense::illegal_request(too_many));
        }
        let at = (first_at + list.len() - rest.len()) as u16;
        let length = match *kind {
            BLOCKS_TO_BLOCKS => BLOCKS_LENGTH,
            BYTES_TO_BYTES => BYTES_LENGTH,
            _ => {
                let unsupported = AdditionalSense::UNSUPPORTED_SEGMENT_DESCRIPTOR_TYPE_CODE;
                return Err(Sense::illegal_request(unsupported).at_parameter(at, None));
            }
        };
        let truncated = Sense::illegal_request(AdditionalSense::PARAMETER_LIST_LENGTH_ERROR);
        let (descriptor, others) = rest.split_at_checked(length).ok_or(truncated)?;
        segments.push(parse_segment(descriptor, at)?);
        rest = others;
    }
    Ok(segments)
}

/// Reads a descriptor that is as long as one of its kind is.
fn parse_segment(descriptor: &[u8], at: u16) -> Result<SegmentDescriptor, Sense> {
    // Beside DC and CAT there is what a later standard may ask for: FCO of SPC-5, that the copy be fast.
    let unknown = descriptor[1] & !0x03;
    if unknown != 0 {
        let bit = 7 - unknown.leading_zeros() as u8;
        return Err(Sense::invalid_parameter(at + 1, Some(bit)));
    }
    if number(descriptor, 2, 2) != descriptor.len() as u64 - 4 {
        return Err(Sense::invalid_parameter(at + 2, None));
    }
    let extent = match descriptor[0] {
        BLOCKS_TO_BLOCKS => Extent::Blocks {
            count: number(descriptor, 10, 2),
            of_destination: descriptor[1] & 0x02 != 0,
        },
        _ => Extent::Bytes {
            count: number(descriptor, 8, 4),
            source_skip: number(descriptor, 28, 2),
            destination_skip: number(descriptor, 30, 2),
        },
    };
    Ok(SegmentDescriptor {
        at,
        source: (number(descriptor, 4, 2) as u16, number(descriptor, 12, 8)),
        destination: (number(descriptor, 6, 2) as u16, number(descriptor, 20, 8)),
        extent,
    })
}

/// The `length` bytes behind `skip` of a block, if the unit has them; nothing lies everywhere in it, and at its end.
fn range(geometry: Geometry, block: u64, skip: u64, length: u64) -> Option<ByteRange> {
    let offset = block.checked_mul(geometry.block_length().bytes())?;
    let offset = offset.checked_add(skip)?;
    let room = geometry.bytes().checked_sub(offset)?;
    (length <= room).then_some(ByteRange { offset, length })
}

/// The number of `length` bytes, at most eight, at `at`.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let field = bytes[at..at + length].iter();
    field.fold(0, |value, byte| value << 8 | u64::from(*byte))
}
