//! An operation on a volume's medium: cut into pieces of one slice each, put together again.
//!
//! Invariants:
//! - the pieces cover the operation, none twice;
//! - the first error that a piece meets is the operation's;
//! - a block that is bad is an error where its contents are wanted, and takes space where only that is asked.

use alloc::vec::Vec;

use holdfast_model::{BLOCK_SIZE, BlockIndex, ENTRY_BYTES_MAX, SLICE_SIZE, SliceId, VolumeId};
use holdfast_scsi::{ByteRange, CopyStep, Extent, MediumData, MediumError, MediumOperation};
use holdfast_stdx::{Bytes, SmallVec, smallvec};
use holdfast_store::ReadSource;
use holdfast_wire::{BlockContent, Content, Contents};

use crate::part::{self, PartKind, Parts};

/// A piece, before it is given to its slice.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) slice: SliceId,
    pub(crate) kind: PartKind,
}

/// The pieces of an operation: mostly one.
pub(crate) type Pieces = SmallVec<[Piece; 1]>;

/// What becomes of the pieces' contents.
#[derive(Debug, Default)]
enum Purpose {
    /// Nothing: the operation only has to be done.
    #[default]
    Done,
    /// They are the operation's bytes.
    Bytes,
    /// Whether there is anything in them is asked for, for so many extents at most.
    Extents { count_max: usize },
}

/// Which bytes of a piece's blocks are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) skip: usize,
    pub(crate) length: usize,
}

/// An operation under way.
#[derive(Debug, Default)]
pub(crate) struct Operation {
    purpose: Purpose,
    windows: SmallVec<[(SliceId, Window); 1]>,
    found: SmallVec<[Option<Contents>; 1]>,
    outstanding: usize,
    failed: Option<MediumError>,
}

impl Operation {
    /// Cuts an operation on a volume of so many bytes.
    pub(crate) fn cut(
        volume: VolumeId,
        volume_bytes: u64,
        operation: MediumOperation,
    ) -> (Self, Pieces) {
        match operation {
            MediumOperation::Read {
                range,
                force_unit_access,
            } => {
                let source = match force_unit_access {
                    true => ReadSource::Media,
                    false => ReadSource::Anywhere,
                };
                Self::cut_read(volume, range, Purpose::Bytes, source)
            }
            MediumOperation::Verify { range } => {
                Self::cut_read(volume, range, Purpose::Done, ReadSource::Media)
            }
            MediumOperation::BlockStatus {
                offset,
                extent_count_max,
            } => {
                // What is beyond one entry's worth is asked for by another command; beyond the end of
                // the volume there is nothing to be told of (SBC-3 5.4).
                let step = ENTRY_BYTES_MAX as u64;
                let length = (step - offset % step).min(volume_bytes.saturating_sub(offset));
                let count_max = extent_count_max as usize;
                let range = ByteRange { offset, length };
                let purpose = Purpose::Extents { count_max };
                Self::cut_read(volume, range, purpose, ReadSource::Anywhere)
            }
            MediumOperation::Write { offset, data, .. } => {
                Self::of_writes(part::write_parts(volume, offset, data))
            }
            // One part is one entry, and one read.
            MediumOperation::WriteAtomic { offset, data } => {
                let parts = part::write_parts(volume, offset, data);
                assert!(
                    parts.len() == 1,
                    "an atomic write crosses no border of parts"
                );
                Self::of_writes(parts)
            }
            MediumOperation::CompareAndWrite {
                offset,
                expected,
                data,
            } => Self::of_writes(smallvec![part::compare_part(
                volume, offset, expected, data
            )]),
            MediumOperation::Or { offset, data } => {
                Self::of_writes(part::or_parts(volume, offset, data))
            }
            MediumOperation::Clear { ranges } => {
                let parts = ranges.into_iter();
                Self::of_writes(
                    parts
                        .flat_map(|range| part::clear_parts(volume, range))
                        .collect(),
                )
            }
            MediumOperation::Fill { range, pattern } => {
                Self::of_writes(part::fill_parts(volume, range, &pattern))
            }
            // Whatever was acknowledged is on stable storage already.
            MediumOperation::SynchronizeCache { .. } => (Self::default(), Pieces::new()),
        }
    }

    /// Cuts a step of a copy.
    pub(crate) fn cut_copy(step: CopyStep) -> (Self, Pieces) {
        Self::of_writes(part::copy_parts(step))
    }

    fn of_writes(parts: Parts) -> (Self, Pieces) {
        let operation = Self {
            found: smallvec![None; parts.len()],
            outstanding: parts.len(),
            ..Self::default()
        };
        let pieces = parts.into_iter().map(|(slice, kind)| Piece { slice, kind });
        (operation, pieces.collect())
    }

    fn cut_read(
        volume: VolumeId,
        range: ByteRange,
        purpose: Purpose,
        source: ReadSource,
    ) -> (Self, Pieces) {
        let mut windows = SmallVec::new();
        let mut pieces = Pieces::new();
        for (slice, offset, length) in part::pieces(volume, range) {
            let (blocks, skip) = part::covering(offset, length);
            windows.push((slice, Window { skip, length }));
            pieces.push(Piece {
                slice,
                kind: PartKind::Read(blocks, source),
            });
        }
        let operation = Self {
            purpose,
            found: smallvec![None; windows.len()],
            outstanding: windows.len(),
            windows,
            failed: None,
        };
        (operation, pieces)
    }

    /// A piece has ended.
    pub(crate) fn end_piece(&mut self, place: usize, result: Result<Contents, MediumError>) {
        assert!(self.outstanding > 0, "a piece ends once");
        self.outstanding -= 1;
        match result.and_then(|contents| self.judge(place, contents)) {
            Ok(contents) => self.found[place] = Some(contents),
            Err(error) => self.failed = self.failed.or(Some(error)),
        }
    }

    /// The contents, if what of them is wanted is there.
    fn judge(&self, place: usize, contents: Contents) -> Result<Contents, MediumError> {
        let wants_contents = !matches!(self.purpose, Purpose::Extents { .. });
        let window = self.windows.get(place).filter(|_| wants_contents);
        match window.and_then(|(slice, _)| Some((slice, first_bad(&contents)?))) {
            Some((slice, block)) => Err(MediumError::Lost {
                offset: offset_in_volume(*slice, block),
            }),
            None => Ok(contents),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.outstanding == 0
    }

    /// What the operation brought.
    pub(crate) fn result(self) -> Result<MediumData, MediumError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let windows = self.windows.into_iter().map(|(_, window)| window);
        let found = windows.zip(self.found.into_iter().flatten());
        match self.purpose {
            Purpose::Done => Ok(MediumData::None),
            Purpose::Bytes => {
                let mut bytes = Vec::new();
                for (window, contents) in found {
                    push_bytes(&mut bytes, window, contents);
                }
                Ok(MediumData::Bytes(bytes))
            }
            Purpose::Extents { count_max } => {
                let mut extents = Vec::new();
                for (window, contents) in found {
                    push_extents(&mut extents, window, &contents);
                }
                extents.truncate(count_max);
                Ok(MediumData::Extents(extents))
            }
        }
    }
}

/// The first bad block among a piece's contents.
pub(crate) fn first_bad(contents: &[Content]) -> Option<BlockIndex> {
    let bad = contents
        .iter()
        .find(|content| content.content == BlockContent::Bad)?;
    Some(BlockIndex(bad.range.start()))
}

/// Where in its volume a block begins, in bytes.
pub(crate) fn offset_in_volume(slice: SliceId, block: BlockIndex) -> u64 {
    u64::from(slice.index) * SLICE_SIZE + u64::from(block.0) * BLOCK_SIZE as u64
}

/// Adds the window's bytes, without a copy. Of the contents none is bad.
pub(crate) fn push_bytes(bytes: &mut Vec<Bytes>, window: Window, contents: Contents) {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    let (mut skip, mut wanted) = (window.skip, window.length);
    for content in contents {
        let length = content.range.bytes() as usize;
        let from = skip.min(length);
        skip -= from;
        let to = length.min(from + wanted);
        wanted -= to - from;
        match content.content {
            BlockContent::Data { data, .. } if from < to => bytes.push(data.slice(from..to)),
            BlockContent::Data { .. } => {}
            BlockContent::Zero => {
                let mut left = to - from;
                while left > 0 {
                    let step = left.min(ZEROS.len());
                    bytes.push(Bytes::from_static(&ZEROS[..step]));
                    left -= step;
                }
            }
            BlockContent::Bad => unreachable!("a piece with a bad block has failed"),
        }
    }
    assert!(wanted == 0, "a piece's contents are all of its blocks");
}

fn push_extents(extents: &mut Vec<Extent>, window: Window, contents: &[Content]) {
    let (mut skip, mut wanted) = (window.skip as u64, window.length as u64);
    for content in contents {
        let from = skip.min(content.range.bytes());
        skip -= from;
        let length = (content.range.bytes() - from).min(wanted);
        wanted -= length;
        let mapped = content.content != BlockContent::Zero;
        match extents.last_mut() {
            _ if length == 0 => {}
            Some(last) if last.mapped == mapped => last.length += length,
            _ => extents.push(Extent { length, mapped }),
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_model::BlockRange;

    use super::*;

    const VOLUME: VolumeId = VolumeId(1);
    const BYTES: u64 = 1 << 30;

    fn zero(start: u32, count: u32) -> Content {
        Content {
            range: BlockRange::new(start, count),
            content: BlockContent::Zero,
        }
    }

    fn data(start: u32, count: u32, byte: u8) -> Content {
        let data = Bytes::from(alloc::vec![byte; count as usize * BLOCK_SIZE]);
        let checksums = smallvec![0; count as usize];
        Content {
            range: BlockRange::new(start, count),
            content: BlockContent::Data { data, checksums },
        }
    }

    #[test]
    fn bytes_are_those_asked_for() {
        let range = ByteRange {
            offset: 4096 + 512,
            length: 8192,
        };
        let read = MediumOperation::Read {
            range,
            force_unit_access: false,
        };
        let (mut operation, pieces) = Operation::cut(VOLUME, BYTES, read);
        assert_eq!(pieces.len(), 1);
        operation.end_piece(0, Ok(smallvec![data(1, 1, 1), zero(2, 1), data(3, 1, 3)]));
        assert!(operation.is_over());
        let Ok(MediumData::Bytes(parts)) = operation.result() else {
            panic!("it was read")
        };
        let whole = parts.concat();
        assert_eq!(whole.len(), 8192);
        assert!(whole[..3584].iter().all(|byte| *byte == 1));
        assert!(whole[3584..7680].iter().all(|byte| *byte == 0));
        assert!(whole[7680..].iter().all(|byte| *byte == 3));
    }

    #[test]
    fn extents_tell_what_takes_space() {
        let status = MediumOperation::BlockStatus {
            offset: 512,
            extent_count_max: 2,
        };
        let (mut operation, _) = Operation::cut(VOLUME, BYTES, status);
        let contents = smallvec![
            data(0, 1, 1),
            data(1, 1, 1),
            zero(2, 100),
            data(102, 154, 1),
        ];
        operation.end_piece(0, Ok(contents));
        let Ok(MediumData::Extents(extents)) = operation.result() else {
            panic!("it was found")
        };
        let expected = [
            Extent {
                length: 8192 - 512,
                mapped: true,
            },
            Extent {
                length: 100 * 4096,
                mapped: false,
            },
        ];
        assert_eq!(extents, expected);
    }

    fn bad(start: u32, count: u32) -> Content {
        Content {
            range: BlockRange::new(start, count),
            content: BlockContent::Bad,
        }
    }

    /// Whoever asks what takes space does not ask what is there.
    #[test]
    fn a_bad_block_takes_space_and_is_no_error_where_only_that_is_asked() {
        let status = MediumOperation::BlockStatus {
            offset: 0,
            extent_count_max: 8,
        };
        let (mut operation, _) = Operation::cut(VOLUME, BYTES, status);
        operation.end_piece(
            0,
            Ok(smallvec![
                zero(0, 1),
                bad(1, 1),
                data(2, 1, 1),
                zero(3, 253)
            ]),
        );
        let Ok(MediumData::Extents(extents)) = operation.result() else {
            panic!("it was found")
        };
        let extent = |blocks: u64, mapped| Extent {
            length: blocks * 4096,
            mapped,
        };
        assert_eq!(
            extents,
            [extent(1, false), extent(2, true), extent(253, false)]
        );
    }

    #[test]
    fn a_bad_block_is_an_error_where_its_contents_are_wanted() {
        let range = ByteRange {
            offset: SLICE_SIZE,
            length: 3 * 4096,
        };
        let read = MediumOperation::Read {
            range,
            force_unit_access: false,
        };
        for wanted in [read, MediumOperation::Verify { range }] {
            let (mut operation, _) = Operation::cut(VOLUME, BYTES, wanted);
            operation.end_piece(0, Ok(smallvec![data(0, 1, 1), bad(1, 1), zero(2, 1)]));
            let offset = SLICE_SIZE + 4096;
            assert_eq!(operation.result(), Err(MediumError::Lost { offset }));
        }
    }

    #[test]
    fn nothing_is_told_of_what_is_beyond_the_end() {
        let status = MediumOperation::BlockStatus {
            offset: 8192 + 512,
            extent_count_max: 2,
        };
        let (mut operation, pieces) = Operation::cut(VOLUME, 3 * 4096, status);
        assert!(matches!(
            &pieces[0].kind,
            PartKind::Read(range, _) if *range == BlockRange::new(2, 1)
        ));
        operation.end_piece(0, Ok(smallvec![data(2, 1, 1)]));
        let Ok(MediumData::Extents(extents)) = operation.result() else {
            panic!("it was found")
        };
        let expected = Extent {
            length: 4096 - 512,
            mapped: true,
        };
        assert_eq!(extents, [expected]);
    }

    #[test]
    fn what_is_done_in_one_step_is_one_part() {
        let entry = ENTRY_BYTES_MAX as u64;
        for (offset, length) in [(SLICE_SIZE - entry, ENTRY_BYTES_MAX), (entry, BLOCK_SIZE)] {
            let data = alloc::vec![Bytes::from(alloc::vec![1; length])];
            let write = MediumOperation::WriteAtomic { offset, data };
            let (_, pieces) = Operation::cut(VOLUME, BYTES, write);
            assert_eq!(pieces.len(), 1);
        }
        // Also where other writes are cut, and over two blocks.
        let compare = MediumOperation::CompareAndWrite {
            offset: SLICE_SIZE + entry - 512,
            expected: Bytes::from(alloc::vec![1; BLOCK_SIZE]),
            data: Bytes::from(alloc::vec![2; BLOCK_SIZE]),
        };
        let (mut operation, pieces) = Operation::cut(VOLUME, BYTES, compare);
        let [Piece { slice, kind }] = &pieces[..] else {
            panic!("{pieces:?}")
        };
        assert_eq!(slice.index, 1);
        let kind = kind.write().expect("it is one");
        let blocks = kind.range().expect("it lies in the slice");
        assert_eq!(blocks, BlockRange::new(255, 2));
        operation.end_piece(0, Err(MediumError::Miscompare { position: 7 }));
        let found = Err(MediumError::Miscompare { position: 7 });
        assert_eq!(operation.result(), found);
    }

    #[test]
    fn the_first_error_is_the_operations() {
        let range = ByteRange {
            offset: 0,
            length: 2 << 20,
        };
        let (mut operation, pieces) =
            Operation::cut(VOLUME, BYTES, MediumOperation::Verify { range });
        assert_eq!(pieces.len(), 2);
        operation.end_piece(1, Err(MediumError::NotReady));
        assert!(!operation.is_over());
        operation.end_piece(0, Err(MediumError::Busy));
        assert_eq!(operation.result(), Err(MediumError::NotReady));
    }
}
