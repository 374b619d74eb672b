//! A journal's copy in another place, made while the journal is written to: byte for byte, segment for segment.
//!
//! First the segments of the new place get blank headers. From then on each partition *joins* with the next
//! group that it begins: that group and all later ones are written to both places, and what is in its chain
//! before that is read from the old place and written to the new one, a piece at a time. A flush follows.
//!
//! It refuses to know which place counts: its owner says so, when the copy is whole.
//!
//! Invariants:
//! - nothing is copied to where a group is written that goes to both places: what is copied ends where the
//!   first such group begins, and a segment that is released is not copied any more before it is used again;
//! - a copy is whole when every partition has a durable group in both places, and what came before that is on
//!   stable storage in the new one: all that a recovery of the old place would find, it finds in the new one;
//! - what cannot be read is zeros in the new place: it is as bad there as it was.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use holdfast_format::{DeviceLayout, PatientRead};
use holdfast_model::{DiskCompletion, DiskId, DiskOp, DiskRequest, DiskToken};
use holdfast_stdx::Bytes;

use crate::partition::Partition;
use crate::{JournalPlace, blank_segment};

/// Headers that are written at a time.
const HEADERS_IN_FLIGHT: u32 = 32;
/// Bytes that are read and written at a time: little, for hosts' reads and writes wait behind it.
const PIECE_BYTES: u32 = 256 << 10;

/// The device on which a copy is made has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the device that the journal was copied to failed")]
pub struct CopyFailed;

/// A part of a segment that has to be copied.
#[derive(Clone, Copy, Debug)]
struct Extent {
    index: u32,
    /// Bytes from the segment's beginning.
    from: u32,
    end: u32,
}

/// How far a partition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Joined {
    No,
    /// Its groups go to both places.
    Yes,
    /// One of them is durable there.
    Durable,
}

#[derive(Debug)]
enum Step {
    /// The segments of the new place get blank headers: the next one, and how many are being written.
    Blank {
        next: u32,
        in_flight: u32,
    },
    /// Nothing is under way.
    Idle,
    Read {
        piece: Extent,
        reader: PatientRead,
        op: Option<DiskOp>,
    },
    Write {
        piece: Extent,
        bytes: Option<Bytes>,
    },
    Flush {
        is_asked: bool,
    },
    Done,
}

/// A copy that is being made, or kept.
#[derive(Debug)]
pub(crate) struct Copy {
    /// The new place. Its tokens are those of the journal.
    place: JournalPlace,
    step: Step,
    joined: Vec<Joined>,
    extents: VecDeque<Extent>,
    /// Segments that were released while they were being copied: nobody may use them before that ends.
    held: Vec<u32>,
    /// It is to end as soon as nothing of it is under way.
    ends: bool,
}

impl Copy {
    /// `place` has segments of the same size as the journal, and no fewer.
    pub(crate) fn new(place: JournalPlace) -> Self {
        Self {
            joined: alloc::vec![Joined::No; usize::from(place.partitions)],
            place,
            step: Step::Blank {
                next: 0,
                in_flight: 0,
            },
            extents: VecDeque::new(),
            held: Vec::new(),
            ends: false,
        }
    }

    pub(crate) fn disk(&self) -> DiskId {
        self.place.disk
    }

    pub(crate) fn layout(&self) -> DeviceLayout {
        self.place.layout
    }

    /// Whether it is whole, and kept so.
    pub(crate) fn is_whole(&self) -> bool {
        let are_durable = self.joined.iter().all(|it| *it == Joined::Durable);
        matches!(self.step, Step::Done) && are_durable && !self.ends
    }

    /// No group is written to the new place any more.
    pub(crate) fn end(&mut self) {
        self.ends = true;
    }

    /// Whether it was to end, and nothing of it is under way.
    pub(crate) fn has_ended(&self) -> bool {
        let is_quiet = match &self.step {
            Step::Blank { in_flight, .. } => *in_flight == 0,
            Step::Idle | Step::Done => true,
            Step::Read { op, .. } => op.is_some(),
            Step::Write { bytes, .. } => bytes.is_some(),
            Step::Flush { is_asked } => !is_asked,
        };
        self.ends && is_quiet
    }

    /// Segments that were held, and can be used again.
    pub(crate) fn release_held(&mut self) -> Vec<u32> {
        let is_under_way = matches!(self.step, Step::Read { .. } | Step::Write { .. });
        if is_under_way && !self.has_ended() {
            return Vec::new();
        }
        core::mem::take(&mut self.held)
    }

    /// A partition begins a group, and has not begun a segment for it: where the group goes besides. When the first
    /// does that goes anywhere, all that is in the chain is on stable storage in the old place.
    pub(crate) fn join(&mut self, number: u16, partition: &Partition) -> Option<DiskId> {
        if self.ends || matches!(self.step, Step::Blank { .. }) {
            return None;
        }
        let joined = &mut self.joined[usize::from(number)];
        if *joined == Joined::No {
            *joined = Joined::Yes;
            let segments = partition.written(self.place.layout.segment_bytes);
            self.extents.extend(segments.map(|(index, end)| Extent {
                index,
                from: 0,
                end,
            }));
        }
        Some(self.place.disk)
    }

    /// A group is durable in both places.
    pub(crate) fn complete(&mut self, number: u16) {
        let joined = &mut self.joined[usize::from(number)];
        if *joined == Joined::Yes {
            *joined = Joined::Durable;
        }
    }

    /// Nothing in a segment matters any more: whether it may be used again at once.
    pub(crate) fn may_release(&mut self, index: u32) -> bool {
        self.extents.retain(|extent| extent.index != index);
        let is_under_way = match &self.step {
            Step::Read { piece, .. } | Step::Write { piece, .. } => piece.index == index,
            _ => false,
        };
        if is_under_way {
            self.held.push(index);
        }
        !is_under_way
    }

    /// The next request, if there is one: `from` is the old place, `token` the request's.
    pub(crate) fn next(&mut self, from: &JournalPlace, token: DiskToken) -> Option<DiskRequest> {
        if self.ends {
            return None;
        }
        if matches!(self.step, Step::Idle) {
            self.step = self.next_step(from)?;
        }
        let (disk, op) = match &mut self.step {
            Step::Blank { next, in_flight } => {
                if *next == self.place.layout.segment_count || *in_flight == HEADERS_IN_FLIGHT {
                    return None;
                }
                let request = blank_segment(&self.place, *next);
                *next += 1;
                *in_flight += 1;
                (request.disk, request.op)
            }
            Step::Read { op, .. } => (from.disk, op.take()?),
            Step::Write { piece, bytes } => {
                let op = DiskOp::Write {
                    offset: self.place.layout.segment_offset(piece.index) + u64::from(piece.from),
                    parts: alloc::vec![bytes.take()?],
                    durable: false,
                };
                (self.place.disk, op)
            }
            Step::Flush { is_asked: false } => {
                self.step = Step::Flush { is_asked: true };
                (self.place.disk, DiskOp::Flush)
            }
            Step::Flush { .. } | Step::Idle | Step::Done => return None,
        };
        Some(DiskRequest { token, disk, op })
    }

    /// What is done when nothing is under way.
    fn next_step(&mut self, from: &JournalPlace) -> Option<Step> {
        let Some(extent) = self.extents.front_mut() else {
            let all = self.joined.iter().all(|it| *it != Joined::No);
            return all.then_some(Step::Flush { is_asked: false });
        };
        let length = PIECE_BYTES.min(extent.end - extent.from);
        let piece = Extent {
            end: extent.from + length,
            ..*extent
        };
        extent.from = piece.end;
        if extent.from == extent.end {
            self.extents.pop_front();
        }
        let offset = from.layout.segment_offset(piece.index) + u64::from(piece.from);
        let (reader, op) = PatientRead::start(offset, length);
        let op = Some(op);
        Some(Step::Read { piece, reader, op })
    }

    /// Takes the end of a request. Whether the segments have blank headers by that.
    ///
    /// # Errors
    /// [`CopyFailed`] if the new place's device has.
    pub(crate) fn take(&mut self, completion: DiskCompletion) -> Result<bool, CopyFailed> {
        match &mut self.step {
            Step::Blank { next, in_flight } => {
                completion.result.map_err(|_| CopyFailed)?;
                *in_flight -= 1;
                if *in_flight == 0 && *next == self.place.layout.segment_count {
                    self.step = Step::Idle;
                    return Ok(true);
                }
            }
            Step::Read { piece, reader, op } => match reader.take(completion.result) {
                Err(again) => *op = Some(again),
                Ok(bytes) => {
                    let (piece, bytes) = (*piece, Some(bytes));
                    self.step = Step::Write { piece, bytes };
                }
            },
            Step::Write { .. } => {
                completion.result.map_err(|_| CopyFailed)?;
                self.step = Step::Idle;
            }
            Step::Flush { .. } => {
                completion.result.map_err(|_| CopyFailed)?;
                self.step = Step::Done;
            }
            Step::Idle | Step::Done => unreachable!("nothing is under way in this step"),
        }
        Ok(false)
    }
}
