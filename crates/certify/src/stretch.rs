//! The stretch of the unit that checks write to, and what they write.
//!
//! Invariants:
//! - nothing outside is written.

use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_lab::Lun;
use holdfast_stdx::{Bytes, Prng};

use crate::answer::Answer;
use crate::bench::{Bench, Way};
use crate::check::{Unmet, failed};
use crate::command;
use crate::nexus::Nexus;
use crate::parse::capacity::Capacity;

/// Bytes of a chunk: what checks write and read at once. Whole physical blocks wherever hosts are usual.
pub(crate) const CHUNK_BYTES: u32 = 4 << 10;
/// Bytes of the stretch.
const STRETCH_BYTES: u64 = 16 << 20;
/// Where it begins and ends is a multiple of this.
const ALIGNMENT_BYTES: u64 = 1 << 20;
/// A unit that has no room for the stretch twice is too small.
pub(crate) const UNIT_BYTES_MIN: u64 = 2 * STRETCH_BYTES;
/// Bytes that are read, or zeroed, at once.
pub(crate) const STEP_BYTES: u32 = 256 << 10;

/// The stretch.
#[derive(Debug, Default)]
pub(crate) struct Stretch {
    /// Its first logical block.
    pub(crate) first: u64,
    /// Logical blocks in it.
    pub(crate) blocks: u64,
    pub(crate) block_length: u32,
    /// What is unmapped reads as zeros (LBPME and LBPRZ).
    unmaps_to_zeros: bool,
    is_written: AtomicBool,
}

impl Stretch {
    /// In the middle of the unit, away from labels at both ends.
    pub(crate) fn of(capacity: &Capacity) -> Self {
        let length = u64::from(capacity.block_length);
        let middle = capacity.bytes() / 2 / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
        Self {
            first: middle / length,
            blocks: STRETCH_BYTES / length,
            block_length: capacity.block_length,
            unmaps_to_zeros: capacity.is_thin && capacity.reads_zeros,
            is_written: AtomicBool::new(false),
        }
    }

    pub(crate) fn is_written(&self) -> bool {
        self.is_written.load(Ordering::Relaxed)
    }

    /// It is about to be written to.
    pub(crate) fn note_written(&self) {
        self.is_written.store(true, Ordering::Relaxed);
    }

    /// Logical blocks in a chunk.
    pub(crate) const fn chunk_blocks(&self) -> u32 {
        CHUNK_BYTES / self.block_length
    }

    /// The first logical block of chunk `index`.
    pub(crate) fn chunk(&self, index: u64) -> u64 {
        let first = index * u64::from(self.chunk_blocks());
        assert!(first < self.blocks, "a chunk lies in the stretch");
        self.first + first
    }

    /// Writes zeros over all of it.
    pub(crate) async fn zero(&self, nexus: &Nexus, lun: Lun) -> Result<(), Unmet> {
        let count = STEP_BYTES / self.block_length;
        let zeros = Bytes::from(vec![0; STEP_BYTES as usize]);
        let end = self.first + self.blocks;
        for first in (self.first..end).step_by(count as usize) {
            let unmap = command::write_same(
                lun,
                first,
                count,
                zeros.slice(..self.block_length as usize),
                true,
            );
            if self.unmaps_to_zeros && nexus.ask(unmap).await?.is_good() {
                continue;
            }
            let write = command::write(lun, first, count, vec![zeros.clone()], false);
            nexus.good(write).await?;
        }
        Ok(())
    }
}

/// The content of a chunk that says which one it is: `tag` zero is all zeros.
pub(crate) fn content(tag: u64, chunk: u64) -> Vec<u8> {
    let mut bytes = vec![0; CHUNK_BYTES as usize];
    if tag > 0 {
        Prng::from_seed(tag ^ chunk << 32).fill(&mut bytes);
        bytes[..8].copy_from_slice(&tag.to_be_bytes());
        bytes[8..16].copy_from_slice(&chunk.to_be_bytes());
    }
    bytes
}

/// The tag of what is in a chunk; none if it is nothing of ours.
pub(crate) fn tag_of(bytes: &[u8], chunk: u64) -> Option<u64> {
    let tag = bytes.first_chunk().copied().map(u64::from_be_bytes)?;
    (bytes == content(tag, chunk)).then_some(tag)
}

impl Bench {
    /// WRITE of a chunk, whatever is answered.
    pub(crate) async fn write(&self, way: Way, chunk: u64, tag: u64) -> Result<Answer, Unmet> {
        self.nexus(way).ask(self.write_request(chunk, tag)).await
    }

    pub(crate) fn write_request(&self, chunk: u64, tag: u64) -> holdfast_lab::CommandRequest {
        self.stretch.note_written();
        let data = vec![Bytes::from(content(tag, chunk))];
        let first = self.stretch.chunk(chunk);
        command::write(self.lun, first, self.stretch.chunk_blocks(), data, false)
    }

    /// READ of a chunk, whatever is answered.
    pub(crate) async fn read(&self, way: Way, chunk: u64) -> Result<Answer, Unmet> {
        self.nexus(way).ask(self.read_request(chunk)).await
    }

    pub(crate) fn read_request(&self, chunk: u64) -> holdfast_lab::CommandRequest {
        let stretch = &self.stretch;
        let first = stretch.chunk(chunk);
        command::read(
            self.lun,
            first,
            stretch.chunk_blocks(),
            stretch.block_length,
        )
    }

    /// Has a chunk read as it was written.
    pub(crate) async fn holds(&self, way: Way, chunk: u64, tag: u64) -> Result<(), Unmet> {
        let answer = self.read(way, chunk).await?;
        let what = answer.what.clone();
        let data = answer.good()?;
        if data == content(tag, chunk) {
            return Ok(());
        }
        let expected = match tag {
            0 => format!("{what}: zeros"),
            _ => format!("{what}: what was written last (write {tag})"),
        };
        let seen = match tag_of(&data, chunk) {
            Some(0) => "zeros".to_owned(),
            Some(other) => format!("what write {other} wrote"),
            None => format!("{} bytes that nobody wrote there", data.len()),
        };
        Err(failed(expected, seen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stretch_lies_in_the_middle() {
        let capacity = Capacity {
            blocks: UNIT_BYTES_MIN / 512,
            block_length: 512,
            ..Capacity::default()
        };
        let stretch = Stretch::of(&capacity);
        assert_eq!(stretch.first + stretch.blocks, capacity.blocks);
        assert_eq!(stretch.chunk(1), stretch.first + 8);
    }

    #[test]
    fn content_says_whose_it_is() {
        assert_eq!(tag_of(&content(7, 3), 3), Some(7));
        assert_eq!(tag_of(&content(7, 3), 4), None);
        assert_eq!(tag_of(&content(0, 3), 3), Some(0));
        assert_eq!(tag_of(&[], 3), None);
        let mut torn = content(7, 3);
        torn[2048..].copy_from_slice(&content(6, 3)[2048..]);
        assert_eq!(tag_of(&torn, 3), None);
    }
}
