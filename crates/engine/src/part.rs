//! Parts of commands: what one slice has to do of a command, on its way to whoever can do it.
//!
//! Invariants:
//! - a part touches one slice, and no more than one entry of its log holds;
//! - it keeps its id for ever: whoever is asked twice does it once;
//! - a write is not sent to anybody any more once its lifetime is over;
//! - one that may have been numbered does not end as refused before somebody who must know says so.

use alloc::vec::Vec;

use holdfast_iscsi::target::TaskId;
use holdfast_model::{
    BLOCK_SIZE, BlockRange, CommandId, ENTRY_BYTES_MAX, Fence, NodeId, SLICE_SIZE, SliceId,
    VolumeId,
};
use holdfast_replica::WriteKind;
use holdfast_replica::timing::FORWARD_AGE;
use holdfast_scsi::{ByteRange, CopyStep, MediumError};
use holdfast_stdx::{Bytes, BytesMut, Duration, Instant, SmallVec};
use holdfast_store::ReadSource;
use holdfast_wire::{CopySource, ForwardKind};

use crate::event::LinkId;

/// For how long after its sending a forward may still be numbered: its age is counted from a
/// heartbeat that was sent before it, by a clock that may run slower than ours by 1/32.
const EXPOSURE: Duration = FORWARD_AGE.saturating_add(Duration::from_millis(32));

/// Until a part that nobody could take is tried again for the first time.
const RETRY_MIN: Duration = Duration::from_millis(1);
/// Until it is tried again after many times.
const RETRY_MAX: Duration = Duration::from_millis(20);

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PartKind {
    /// Bytes are written.
    Write { offset: u64, data: Bytes },
    /// Whole blocks become zeros.
    Clear(BlockRange),
    /// Whole blocks are read.
    Read(BlockRange, ReadSource),
    /// Bytes are written, if what they replace is as expected.
    CompareAndWrite {
        offset: u64,
        expected: Bytes,
        data: Bytes,
    },
    /// Bits are set.
    Or { offset: u64, data: Bytes },
    /// Bytes are written that are somewhere else.
    Copy { offset: u64, from: CopiedFrom },
    /// Nothing: all that anybody has sent the slice's primary is to be over.
    Barrier,
}

/// Bytes of one slice that are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopiedFrom {
    pub(crate) slice: SliceId,
    pub(crate) offset: u64,
    pub(crate) length: u32,
}

impl CopiedFrom {
    /// The same, as it may be read by an access to its volume.
    pub(crate) fn under(self, fence: Fence) -> CopySource {
        CopySource {
            slice: self.slice,
            offset: self.offset,
            length: self.length,
            fence,
        }
    }
}

impl PartKind {
    pub(crate) fn is_write(&self) -> bool {
        !matches!(self, Self::Read(..))
    }

    /// The volume that a copy reads.
    pub(crate) fn copies_from(&self) -> Option<VolumeId> {
        match self {
            Self::Copy { from, .. } => Some(from.slice.volume),
            _ => None,
        }
    }

    /// What is asked of another node, by the access to the volume that a copy reads; nothing is if all that is wanted is to know.
    pub(crate) fn forward(&self, source_fence: Fence) -> Option<ForwardKind> {
        match self {
            Self::Write { offset, data } => Some(ForwardKind::Write {
                offset: *offset,
                data: data.clone(),
            }),
            Self::Clear(range) => Some(ForwardKind::Clear(*range)),
            Self::Read(range, _) => Some(ForwardKind::Read(*range)),
            Self::CompareAndWrite {
                offset,
                expected,
                data,
            } => Some(ForwardKind::CompareAndWrite {
                offset: *offset,
                expected: expected.clone(),
                data: data.clone(),
            }),
            Self::Or { offset, data } => Some(ForwardKind::Or {
                offset: *offset,
                data: data.clone(),
            }),
            Self::Copy { offset, from } => Some(ForwardKind::Copy {
                offset: *offset,
                source: from.under(source_fence),
            }),
            Self::Barrier => None,
        }
    }

    pub(crate) fn write(&self) -> Option<WriteKind> {
        match self {
            Self::Write { offset, data } => Some(WriteKind::Write {
                offset: *offset,
                data: data.clone(),
            }),
            Self::Clear(range) => Some(WriteKind::Clear(*range)),
            Self::CompareAndWrite {
                offset,
                expected,
                data,
            } => Some(WriteKind::CompareAndWrite {
                offset: *offset,
                expected: expected.clone(),
                data: data.clone(),
            }),
            Self::Or { offset, data } => Some(WriteKind::Or {
                offset: *offset,
                data: data.clone(),
            }),
            Self::Read(..) | Self::Copy { .. } | Self::Barrier => None,
        }
    }
}

/// Where a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    /// Nobody could be asked, or whoever was asked could not do it: again at `retry`.
    Waiting { retry: Instant },
    /// With the replica, or the store, here.
    Here,
    /// With another node.
    There { node: NodeId, link: LinkId },
}

/// For whom a part is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// For a command of the portal here; `place` is its place among the parts of the operation.
    Task { task: TaskId, place: usize },
    /// For a copy to a slice here, which writes what is read.
    Copying(CommandId),
    /// For whoever waits until a unit is at rest.
    Clearing(u64),
}

/// A part of a command.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) command: CommandId,
    pub(crate) owner: Owner,
    pub(crate) slice: SliceId,
    pub(crate) kind: PartKind,
    pub(crate) arrived: Instant,
    pub(crate) whereabouts: Whereabouts,
    /// How it ends if nobody does it in time.
    pub(crate) late: MediumError,
    /// Nobody is asked to do it any more; it ends with this error unless it turns out to be done.
    pub(crate) given_up: Option<MediumError>,
    /// When it ends whatever has become of it.
    pub(crate) held_until: Instant,
    /// How often nobody took it.
    pub(crate) tries: u32,
    /// It may have been numbered by somebody who has not said so.
    pub(crate) in_doubt: bool,
    /// Until then it may be numbered by somebody who was asked and has not answered.
    pub(crate) exposed_until: Instant,
}

impl Part {
    /// A part that nobody has been asked to do yet; it is held for so long.
    pub(crate) fn new(
        command: CommandId,
        owner: Owner,
        slice: SliceId,
        kind: PartKind,
        arrived: Instant,
        hold: Duration,
    ) -> Self {
        let is_barrier = kind == PartKind::Barrier;
        Self {
            command,
            owner,
            slice,
            kind,
            arrived,
            whereabouts: Whereabouts::Waiting { retry: arrived },
            late: MediumError::Busy,
            given_up: is_barrier.then_some(MediumError::Aborted),
            held_until: arrived + hold,
            tries: 0,
            in_doubt: is_barrier,
            exposed_until: Instant::ZERO,
        }
    }

    /// When it is next looked at.
    pub(crate) fn appointment(&self) -> Instant {
        match self.whereabouts {
            Whereabouts::Waiting { retry } => retry.min(self.held_until),
            Whereabouts::Here | Whereabouts::There { .. } => self.held_until,
        }
    }

    /// How long to wait before it is tried again: a slice that is being handed over is served again
    /// in less than a millisecond, one whose primary died in about a second.
    pub(crate) fn next_delay(&mut self) -> Duration {
        let doublings = self.tries.min(5);
        self.tries = self.tries.saturating_add(1);
        (RETRY_MIN * (1 << doublings)).min(RETRY_MAX)
    }

    /// Whether it is known not to be numbered anywhere, now or later.
    pub(crate) fn is_settled(&self) -> bool {
        let nowhere = matches!(self.whereabouts, Whereabouts::Waiting { .. });
        !self.kind.is_write() || (nowhere && !self.in_doubt)
    }

    /// Whoever has the part will not be heard of it any more.
    pub(crate) fn lose_sight(&mut self, now: Instant) {
        if !self.kind.is_write() {
            return;
        }
        match self.whereabouts {
            Whereabouts::Waiting { .. } => {}
            Whereabouts::Here => self.in_doubt = true,
            Whereabouts::There { .. } => {
                self.in_doubt = true;
                self.exposed_until = self.exposed_until.max(now + EXPOSURE);
            }
        }
    }
}

/// The parts of an operation, each for its slice: mostly one.
pub(crate) type Parts = SmallVec<[(SliceId, PartKind); 1]>;

/// A range of a volume's bytes, cut so that each piece is of one slice and one entry.
pub(crate) fn pieces(
    volume: VolumeId,
    range: ByteRange,
) -> impl Iterator<Item = (SliceId, u64, usize)> {
    let mut offset = range.offset;
    let end = range.offset + range.length;
    core::iter::from_fn(move || {
        if offset == end {
            return None;
        }
        let step = ENTRY_BYTES_MAX as u64;
        let stop = end.min((offset / step + 1) * step);
        let slice = SliceId {
            volume,
            index: (offset / SLICE_SIZE) as u32,
        };
        let piece = (slice, offset % SLICE_SIZE, (stop - offset) as usize);
        offset = stop;
        Some(piece)
    })
}

/// The whole blocks that hold a piece, and how many bytes of the first are not of it.
pub(crate) fn covering(offset: u64, length: usize) -> (BlockRange, usize) {
    let first = offset / BLOCK_SIZE as u64;
    let end = (offset + length as u64).div_ceil(BLOCK_SIZE as u64);
    let range = BlockRange::new(first as u32, (end - first) as u32);
    (range, (offset % BLOCK_SIZE as u64) as usize)
}

/// A write's parts.
pub(crate) fn write_parts(volume: VolumeId, offset: u64, data: Vec<Bytes>) -> Parts {
    data_parts(volume, offset, data, |offset, data| PartKind::Write {
        offset,
        data,
    })
}

/// The parts of setting bits.
pub(crate) fn or_parts(volume: VolumeId, offset: u64, data: Vec<Bytes>) -> Parts {
    data_parts(volume, offset, data, |offset, data| PartKind::Or {
        offset,
        data,
    })
}

/// The parts of a step of a copy: each reads one slice, and no more than one entry holds, and so does it write.
pub(crate) fn copy_parts(step: CopyStep) -> Parts {
    let mut parts = Parts::new();
    let mut done = 0;
    while done < step.length {
        let piece = |volume, at: u64| {
            let (offset, length) = (at + done, step.length - done);
            let first = pieces(volume, ByteRange { offset, length }).next();
            first.expect("something is left")
        };
        let (slice, offset, written) = piece(step.destination, step.to);
        let (source, start, read) = piece(step.source, step.from);
        let length = written.min(read);
        let from = CopiedFrom {
            slice: source,
            offset: start,
            length: length as u32,
        };
        parts.push((slice, PartKind::Copy { offset, from }));
        done += length as u64;
    }
    parts
}

fn data_parts(
    volume: VolumeId,
    offset: u64,
    data: Vec<Bytes>,
    kind: impl Fn(u64, Bytes) -> PartKind,
) -> Parts {
    let length = data.iter().map(|part| part.len() as u64).sum();
    let mut source = Source {
        parts: data.into_iter(),
        current: Bytes::new(),
    };
    pieces(volume, ByteRange { offset, length })
        .map(|(slice, offset, length)| (slice, kind(offset, source.take(length))))
        .collect()
}

/// The one part of a comparison: it is not cut where other parts are, since the few blocks that it
/// touches are one entry wherever they lie in the slice.
pub(crate) fn compare_part(
    volume: VolumeId,
    offset: u64,
    expected: Bytes,
    data: Bytes,
) -> (SliceId, PartKind) {
    let within = offset % SLICE_SIZE;
    assert!(
        within + data.len() as u64 <= SLICE_SIZE,
        "what is compared is of one slice"
    );
    let slice = SliceId {
        volume,
        index: (offset / SLICE_SIZE) as u32,
    };
    let kind = PartKind::CompareAndWrite {
        offset: within,
        expected,
        data,
    };
    (slice, kind)
}

/// The parts of clearing a range: whole blocks where there are, zeros written at the edges.
pub(crate) fn clear_parts(volume: VolumeId, range: ByteRange) -> Parts {
    let block = BLOCK_SIZE as u64;
    let end = range.offset + range.length;
    let first = range.offset.next_multiple_of(block).min(end);
    let last = (end / block * block).max(first);
    let mut parts = zero_parts(volume, range.offset, first);
    let mut offset = first;
    while offset < last {
        let stop = last.min((offset / SLICE_SIZE + 1) * SLICE_SIZE);
        let slice = SliceId {
            volume,
            index: (offset / SLICE_SIZE) as u32,
        };
        let start = (offset % SLICE_SIZE / block) as u32;
        let count = ((stop - offset) / block) as u32;
        parts.push((slice, PartKind::Clear(BlockRange::new(start, count))));
        offset = stop;
    }
    parts.extend(zero_parts(volume, last, end));
    parts
}

fn zero_parts(volume: VolumeId, from: u64, to: u64) -> Parts {
    static ZEROS: [u8; BLOCK_SIZE] = [0; BLOCK_SIZE];
    let range = ByteRange {
        offset: from,
        length: to - from,
    };
    assert!(
        range.length < 2 * BLOCK_SIZE as u64,
        "only edges are written as zeros"
    );
    let mut parts = Parts::new();
    for (slice, offset, length) in pieces(volume, range) {
        let mut rest = length;
        while rest > 0 {
            let step = rest.min(BLOCK_SIZE);
            let data = Bytes::from_static(&ZEROS[..step]);
            let offset = offset + (length - rest) as u64;
            parts.push((slice, PartKind::Write { offset, data }));
            rest -= step;
        }
    }
    parts
}

/// The parts of writing one logical block over and over.
pub(crate) fn fill_parts(volume: VolumeId, range: ByteRange, pattern: &Bytes) -> Parts {
    let longest = (range.length as usize).min(ENTRY_BYTES_MAX);
    let mut filled = BytesMut::with_capacity(longest);
    while filled.len() < longest {
        filled.extend_from_slice(pattern);
    }
    let filled = filled.freeze();
    pieces(volume, range)
        .map(|(slice, offset, length)| {
            (
                slice,
                PartKind::Write {
                    offset,
                    data: filled.slice(..length),
                },
            )
        })
        .collect()
}

/// Bytes in several buffers, taken front to back: a copy only where a piece spans buffers.
struct Source {
    parts: alloc::vec::IntoIter<Bytes>,
    current: Bytes,
}

impl Source {
    fn take(&mut self, length: usize) -> Bytes {
        if self.current.is_empty() {
            self.current = self.parts.next().unwrap_or_default();
        }
        if self.current.len() >= length {
            return self.current.split_to(length);
        }
        let mut whole = BytesMut::with_capacity(length);
        while whole.len() < length {
            if self.current.is_empty() {
                self.current = self
                    .parts
                    .next()
                    .expect("the pieces are no longer than the data");
            }
            let step = (length - whole.len()).min(self.current.len());
            whole.extend_from_slice(&self.current.split_to(step));
        }
        whole.freeze()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const VOLUME: VolumeId = VolumeId(1);

    fn slice(index: u32) -> SliceId {
        SliceId {
            volume: VOLUME,
            index,
        }
    }

    #[test]
    fn pieces_end_at_entries_and_slices() {
        let range = ByteRange {
            offset: SLICE_SIZE - 512,
            length: (1 << 20) + 1024,
        };
        let found: Vec<_> = pieces(VOLUME, range).collect();
        let expected = [
            (slice(0), SLICE_SIZE - 512, 512),
            (slice(1), 0, 1 << 20),
            (slice(1), 1 << 20, 512),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn written_data_is_cut_without_losing_a_byte() {
        let data: Vec<Bytes> = (0..5)
            .map(|byte| Bytes::from(vec![byte; 300_000]))
            .collect();
        let parts = write_parts(VOLUME, 512, data.clone());
        let whole: Vec<u8> = parts
            .iter()
            .flat_map(|(_, part)| match part {
                PartKind::Write { data, .. } => data.to_vec(),
                _ => panic!("a write's parts are writes"),
            })
            .collect();
        assert_eq!(whole, data.concat());
    }

    #[test]
    fn clearing_writes_zeros_only_at_the_edges() {
        let parts = clear_parts(
            VOLUME,
            ByteRange {
                offset: 512,
                length: 3 * 4096,
            },
        );
        assert_eq!(parts.len(), 3);
        assert!(matches!(&parts[0].1, PartKind::Write { offset: 512, data } if data.len() == 3584));
        assert!(matches!(&parts[1].1, PartKind::Clear(range) if *range == BlockRange::new(1, 2)));
        assert!(
            matches!(&parts[2].1, PartKind::Write { offset: 12_288, data } if data.len() == 512)
        );
        let inside = clear_parts(
            VOLUME,
            ByteRange {
                offset: 512,
                length: 512,
            },
        );
        assert_eq!(inside.len(), 1);
        let two = clear_parts(
            VOLUME,
            ByteRange {
                offset: 2048,
                length: 4096,
            },
        );
        assert_eq!(two.len(), 2);
    }

    /// Where the source ends a slice or an entry, or where the destination does.
    #[test]
    fn a_copy_is_cut_at_the_borders_of_both() {
        let other = VolumeId(2);
        let mib = 1 << 20;
        let step = CopyStep {
            source: other,
            from: SLICE_SIZE - 512,
            destination: VOLUME,
            to: SLICE_SIZE - 1024,
            length: mib + 1024,
        };
        let found: Vec<_> = copy_parts(step)
            .into_iter()
            .map(|(slice, kind)| match kind {
                PartKind::Copy { offset, from } => {
                    assert_eq!(from.slice.volume, other);
                    let source = (from.slice.index, from.offset);
                    ((slice.index, offset), source, u64::from(from.length))
                }
                _ => panic!("a copy's parts are copies"),
            })
            .collect();
        let expected = [
            ((0, SLICE_SIZE - 1024), (0, SLICE_SIZE - 512), 512),
            ((0, SLICE_SIZE - 512), (1, 0), 512),
            ((1, 0), (1, 512), mib - 512),
            ((1, mib - 512), (1, mib), 512),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_clear_over_slices_is_one_part_a_slice() {
        let range = ByteRange {
            offset: SLICE_SIZE / 2,
            length: 2 * SLICE_SIZE,
        };
        let slices: Vec<_> = clear_parts(VOLUME, range)
            .into_iter()
            .map(|part| part.0)
            .collect();
        assert_eq!(slices, [slice(0), slice(1), slice(2)]);
    }
}
