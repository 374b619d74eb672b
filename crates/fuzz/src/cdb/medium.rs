//! The medium beneath the unit: the front of it in memory, zeros behind that.
//!
//! Invariants:
//! - what is asked of it lies in the unit, is not empty, and is of whole blocks.

use std::ops::Range;

use holdfast_scsi::{
    ByteRange, CopyStep, Extent, Geometry, MediumData, MediumError, MediumOperation, limits,
};
use holdfast_stdx::Bytes;

/// So much of a unit is kept in memory: a copy within it may take three steps, and more.
pub(super) const KEPT_BYTES_MAX: u64 = 3 * limits::COPY_STEP_BYTES;
/// Extents end at multiples of this.
const EXTENT_BYTES: u64 = 4096;
/// What is sown changes with each of these, and is zero in one run of four.
const SOWN_BYTES: usize = 512;
const SOWN_RUN: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Medium {
    geometry: Geometry,
    /// The front of the unit: behind it everything is zero, and stays so.
    content: Vec<u8>,
    /// How it fails, after so many operations that it does.
    pub(super) failure: Option<MediumError>,
    pub(super) sound_operations: usize,
}

impl Medium {
    pub(super) fn new(geometry: Geometry) -> Self {
        let kept = geometry.bytes().min(KEPT_BYTES_MAX);
        Self {
            geometry,
            content: vec![0; kept as usize],
            failure: None,
            sound_operations: 0,
        }
    }

    /// What is kept of these bytes, none or the first of them.
    pub(super) fn kept(&self, offset: u64, length: u64) -> Range<usize> {
        let end = self.content.len() as u64;
        let within = |at: u64| at.min(end) as usize;
        within(offset)..within(offset + length)
    }

    /// Whether these bytes are there.
    pub(super) fn holds(&self, offset: u64, data: &[u8]) -> bool {
        let kept = self.kept(offset, data.len() as u64);
        let (front, behind) = data.split_at(kept.len());
        self.content[kept] == *front && behind.iter().all(|byte| *byte == 0)
    }

    /// Whether the same is kept of both.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.content == other.content
    }

    /// Has something everywhere that is not the same elsewhere, and runs of zeros.
    pub(super) fn sow(&mut self, number: u8) {
        for (index, piece) in self.content.chunks_mut(SOWN_BYTES).enumerate() {
            let is_zero = (index / SOWN_RUN) % 4 == 3;
            // The bits of a product that depend on all of a factor: what lies side by side differs.
            let mixed = (index as u32 + 1).wrapping_mul(0x9E37_79B1) >> 24;
            piece.fill(if is_zero { 0 } else { mixed as u8 ^ number });
        }
    }

    /// What a copy has to come to.
    pub(super) fn copy(&mut self, from: u64, to: u64, length: u64) {
        let offset = from;
        let data = self.read(ByteRange { offset, length });
        self.write(to, &data);
    }

    /// A step of a copy: what is read and what is written may each fail.
    pub(super) fn carry_out(&mut self, step: &CopyStep) -> Result<(), MediumError> {
        assert!(step.length > 0, "something is copied");
        for at in [step.from, step.to] {
            let end = at.checked_add(step.length);
            assert!(end.is_some_and(|end| end <= self.geometry.bytes()));
            // Else it may be done in parts, one of which would read what another has written.
            let last = (at + step.length - 1) / limits::ATOMIC_BYTES_MAX;
            let is_one_part = at / limits::ATOMIC_BYTES_MAX == last;
            let overlaps = step.from.abs_diff(step.to) < step.length;
            assert!(is_one_part || !overlaps, "{step:?} overlaps itself");
        }
        self.take_turn()?;
        self.take_turn()?;
        self.copy(step.from, step.to, step.length);
        Ok(())
    }

    /// Fails if it is to.
    fn take_turn(&mut self) -> Result<(), MediumError> {
        if let Some(failure) = self.failure {
            if self.sound_operations == 0 {
                return Err(failure);
            }
            self.sound_operations -= 1;
        }
        Ok(())
    }

    pub(super) fn execute(
        &mut self,
        operation: &MediumOperation,
    ) -> Result<MediumData, MediumError> {
        self.check(operation);
        self.take_turn()?;
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
                    let kept = self.kept(range.offset, range.length);
                    self.content[kept].fill(0);
                }
            }
            MediumOperation::Fill { range, pattern } => {
                let times = range.length as usize / pattern.len();
                self.write(range.offset, &pattern.repeat(times));
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
        assert!(offset.is_multiple_of(block), "it begins with a block");
        assert!(length.is_multiple_of(block), "it ends with a block");
        let end = offset.checked_add(length).expect("it does not overflow");
        assert!(end <= self.geometry.bytes(), "it lies in the unit");
    }

    fn read(&self, range: ByteRange) -> Bytes {
        let mut data = vec![0; range.length as usize];
        let kept = self.kept(range.offset, range.length);
        data[..kept.len()].copy_from_slice(&self.content[kept]);
        Bytes::from(data)
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        let kept = self.kept(offset, data.len() as u64);
        let count = kept.len();
        self.content[kept].copy_from_slice(&data[..count]);
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
