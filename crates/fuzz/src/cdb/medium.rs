//! The medium beneath the unit: in memory where that is small, zeros where it is not.
//!
//! Invariants:
//! - what is asked of it lies in the unit, is not empty, and is of whole blocks.

use holdfast_scsi::{
    ByteRange, Extent, Geometry, MediumData, MediumError, MediumOperation, limits,
};
use holdfast_stdx::Bytes;

/// A larger unit is not kept in memory.
const KEPT_BYTES_MAX: u64 = 1 << 20;
/// Extents end at multiples of this.
const EXTENT_BYTES: u64 = 4096;

#[derive(Debug)]
pub(super) struct Medium {
    geometry: Geometry,
    /// Empty where the unit is too large: there everything is zero, and stays so.
    content: Vec<u8>,
    /// How it fails.
    pub(super) failure: Option<MediumError>,
    /// It may be asked for any bytes: by a copy.
    pub(super) takes_bytes: bool,
}

impl Medium {
    pub(super) fn new(geometry: Geometry) -> Self {
        let kept = match geometry.bytes() {
            bytes @ ..=KEPT_BYTES_MAX => bytes as usize,
            _ => 0,
        };
        Self {
            geometry,
            content: vec![0; kept],
            failure: None,
            takes_bytes: false,
        }
    }

    /// Whether it keeps what is written.
    pub(super) const fn keeps(&self) -> bool {
        !self.content.is_empty()
    }

    /// Whether these bytes are there.
    pub(super) fn holds(&self, offset: u64, data: &[u8]) -> bool {
        match self.content.is_empty() {
            true => data.iter().all(|byte| *byte == 0),
            false => self.content[offset as usize..][..data.len()] == *data,
        }
    }

    pub(super) fn execute(
        &mut self,
        operation: &MediumOperation,
    ) -> Result<MediumData, MediumError> {
        self.check(operation);
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        match operation {
            MediumOperation::Read { range, .. } => {
                let data = self.read(*range);
                let middle = data.len() / 3;
                return Ok(MediumData::Bytes(vec![
                    data.slice(..middle),
                    data.slice(middle..),
                ]));
            }
            MediumOperation::Write { offset, data, .. }
            | MediumOperation::WriteAtomic { offset, data } => self.write(*offset, &data.concat()),
            MediumOperation::CompareAndWrite {
                offset,
                expected,
                data,
            } => self.compare_and_write(*offset, expected, data)?,
            MediumOperation::Or { offset, data } => {
                let data = data.concat();
                let found = self.read(ByteRange {
                    offset: *offset,
                    length: data.len() as u64,
                });
                let both: Vec<u8> = found.iter().zip(&data).map(|(a, b)| a | b).collect();
                self.write(*offset, &both);
            }
            MediumOperation::Clear { ranges } => {
                for range in ranges {
                    if !self.content.is_empty() {
                        self.content[range.offset as usize..][..range.length as usize].fill(0);
                    }
                }
            }
            MediumOperation::Fill { range, pattern } => {
                if !self.content.is_empty() {
                    let times = range.length as usize / pattern.len();
                    self.write(range.offset, &pattern.repeat(times));
                }
            }
            MediumOperation::BlockStatus {
                offset,
                extent_count_max,
            } => {
                return Ok(MediumData::Extents(
                    self.extents(*offset, *extent_count_max),
                ));
            }
            MediumOperation::Verify { .. } | MediumOperation::SynchronizeCache { .. } => {}
        }
        Ok(MediumData::None)
    }

    fn compare_and_write(
        &mut self,
        offset: u64,
        expected: &Bytes,
        data: &Bytes,
    ) -> Result<(), MediumError> {
        let length = expected.len() as u64;
        let found = self.read(ByteRange { offset, length });
        let mut pairs = found.iter().zip(expected);
        if let Some(position) = pairs.position(|(one, other)| one != other) {
            let position = position as u64;
            return Err(MediumError::Miscompare { position });
        }
        self.write(offset, data);
        Ok(())
    }

    fn check(&self, operation: &MediumOperation) {
        let length = |data: &[Bytes]| data.iter().map(|part| part.len() as u64).sum();
        match operation {
            MediumOperation::Read { range, .. }
            | MediumOperation::Verify { range }
            | MediumOperation::SynchronizeCache { range } => {
                self.check_range(range.offset, range.length);
            }
            MediumOperation::Write { offset, data, .. } | MediumOperation::Or { offset, data } => {
                self.check_range(*offset, length(data));
            }
            MediumOperation::WriteAtomic { offset, data } => {
                let length: u64 = length(data);
                self.check_range(*offset, length);
                let last = offset + length - 1;
                let border = limits::ATOMIC_BYTES_MAX;
                assert_eq!(offset / border, last / border, "it is in one entry");
            }
            MediumOperation::CompareAndWrite {
                offset,
                expected,
                data,
            } => {
                assert_eq!(expected.len(), data.len(), "as much as is compared");
                self.check_range(*offset, data.len() as u64);
            }
            MediumOperation::Clear { ranges } => {
                assert!(!ranges.is_empty());
                for range in ranges {
                    self.check_range(range.offset, range.length);
                }
            }
            MediumOperation::Fill { range, pattern } => {
                self.check_range(range.offset, range.length);
                let block = self.geometry.block_length().bytes();
                assert_eq!(pattern.len() as u64, block, "one block");
                assert!(pattern.iter().any(|byte| *byte != 0), "zeros are cleared");
            }
            MediumOperation::BlockStatus {
                offset,
                extent_count_max,
            } => {
                assert!(*offset < self.geometry.bytes());
                assert!(*extent_count_max > 0);
            }
        }
    }

    fn check_range(&self, offset: u64, length: u64) {
        let block = self.geometry.block_length().bytes();
        assert!(length > 0, "the medium is asked for something");
        if !self.takes_bytes {
            assert!(offset.is_multiple_of(block), "it begins with a block");
            assert!(length.is_multiple_of(block), "it ends with a block");
        }
        let end = offset.checked_add(length).expect("it does not overflow");
        assert!(end <= self.geometry.bytes(), "it lies in the unit");
    }

    fn read(&self, range: ByteRange) -> Bytes {
        match self.content.is_empty() {
            true => Bytes::from(vec![0; range.length as usize]),
            false => {
                let content = &self.content[range.offset as usize..];
                Bytes::copy_from_slice(&content[..range.length as usize])
            }
        }
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        if !self.content.is_empty() {
            self.content[offset as usize..][..data.len()].copy_from_slice(data);
        }
    }

    /// Pieces that take space and pieces that do not, in turn.
    fn extents(&self, offset: u64, count_max: u32) -> Vec<Extent> {
        let end = self.geometry.bytes();
        let mut extents = Vec::new();
        let mut at = offset;
        while at < end && extents.len() < count_max as usize {
            let border = (at / EXTENT_BYTES + 1) * EXTENT_BYTES;
            let mapped = !(at / EXTENT_BYTES).is_multiple_of(3);
            extents.push(Extent {
                length: border - at,
                mapped,
            });
            at = border;
        }
        extents
    }
}
