//! Structures for people and for tools that only look: what a record says in words, and what lies
//! in a segment, readable or not.
//!
//! It refuses to conclude anything: what a chain is and what recovery makes of it, the journal
//! knows.

use alloc::format;
use alloc::string::String;

use holdfast_model::{Change, StoreId};
use holdfast_stdx::Bytes;

use crate::group::{GroupError, GroupHeader, HEADER_BLOCK, ReadGroup};
use crate::record::{Body, Install};
use crate::segment::SEGMENT_HEADER_BYTES;

/// What a record is, in one word.
#[must_use]
pub fn kind(body: &Body) -> &'static str {
    match body {
        Body::Entry(_) => "entry",
        Body::Placed { .. } => "placed",
        Body::Install { .. } => "install",
        Body::BeginEpoch { .. } => "begin epoch",
        Body::Position { .. } => "position",
        Body::Mended(_) => "mended",
        Body::State(_) => "state",
        Body::Pages(_) => "pages",
        Body::Checkpoint(_) => "checkpoint",
        Body::Commands(_) => "commands",
        Body::DropSlice => "drop slice",
    }
}

/// What a record says, without its slice.
#[must_use]
pub fn describe(body: &Body) -> String {
    match body {
        Body::Entry(entry) => format!(
            "entry {} {} {}, {}",
            entry.epoch,
            entry.sequence,
            entry.fence,
            change(&entry.change)
        ),
        Body::Placed { entry, slots } => format!(
            "entry {} {} {}, {}, in slots {slots:?}",
            entry.epoch,
            entry.sequence,
            entry.fence,
            change(&entry.change)
        ),
        Body::Install { as_of, install } => match install {
            Install::Change(copied) => format!("install as of {as_of}, {}", change(copied)),
            Install::Bad(range) => format!("install as of {as_of}, {range:?} bad"),
        },
        Body::BeginEpoch { epoch, after } => format!("begin epoch {epoch} after {after}"),
        Body::Position {
            epoch,
            sequence,
            restart,
            damaged,
        } => {
            let restart = if *restart {
                ", the log begins anew"
            } else {
                ""
            };
            let damaged = if *damaged { ", damaged" } else { "" };
            format!("position {epoch} {sequence}{restart}{damaged}")
        }
        Body::Mended(holes) => format!("mended, {} holes", holes.len()),
        Body::State(state) => format!("state, {} bytes", state.len()),
        Body::Pages(changes) => {
            let come = changes.iter().filter(|change| change.present).count();
            format!("pages, {come} come and {} go", changes.len() - come)
        }
        Body::Checkpoint(set) => format!("checkpoint, {} pages", set.len()),
        Body::Commands(commands) => format!("commands, {}", commands.len()),
        Body::DropSlice => String::from("drop slice"),
    }
}

fn change(change: &Change) -> String {
    match change {
        Change::Write { .. } => change
            .range()
            .map_or_else(String::new, |range| format!("write of blocks {range:?}")),
        Change::Clear(range) => format!("clear of blocks {range:?}"),
        Change::Nothing => String::from("nothing"),
    }
}

/// A part of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A group, of whatever use of the segment.
    Group {
        /// Where it begins, from the segment's beginning.
        offset: usize,
        /// The group.
        group: ReadGroup,
    },
    /// No group begins here: what was never written, data of a former use, or damage.
    Other {
        /// Where it begins, from the segment's beginning.
        offset: usize,
        /// How far it goes.
        bytes: usize,
        /// Why no group can be read at its beginning.
        error: GroupError,
    },
}

/// What is in a segment after its header, in order and without gaps. One group is in memory at a
/// time, and shares the segment's bytes.
pub fn pieces(segment: &Bytes, store: StoreId, nonce: u64) -> impl Iterator<Item = Piece> {
    let segment = segment.clone();
    let mut next = SEGMENT_HEADER_BYTES;
    // The group after a part without any: it was found by looking for the part's end.
    let mut found: Option<ReadGroup> = None;
    core::iter::from_fn(move || {
        if next + HEADER_BLOCK > segment.len() {
            return None;
        }
        let offset = next;
        let read = |offset: usize| GroupHeader::read(&segment.slice(offset..), store, nonce);
        let error = match found.take().map_or_else(|| read(offset), Ok) {
            Ok(group) => {
                next += group.bytes;
                return Some(Piece::Group { offset, group });
            }
            Err(error) => error,
        };
        next += HEADER_BLOCK;
        while next + HEADER_BLOCK <= segment.len() {
            if let Ok(group) = read(next) {
                found = Some(group);
                break;
            }
            next += HEADER_BLOCK;
        }
        let bytes = next.min(segment.len()) - offset;
        Some(Piece::Other {
            offset,
            bytes,
            error,
        })
    })
}
