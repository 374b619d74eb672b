//! The bytes of records. Each is a fixed head, a fixed structure of its kind and, for some, a list;
//! padded with zeros to a multiple of eight bytes.

mod decode;

use alloc::vec::Vec;
use core::mem::size_of;

use holdfast_model::{
    BLOCKS_PER_PAGE, BlockRange, Change, CommandId, Entry, PAGES_PER_SLICE, Sequence,
};
use holdfast_stdx::crc32c;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::page_set::PAGE_SET_BYTES;
use crate::record::{
    Body, COMMANDS_PER_RECORD_MAX, HOLES_PER_RECORD_MAX, Hole, Install, PAGE_CHANGES_MAX,
    PageChange, Record, STATE_BYTES_MAX,
};

pub(crate) use decode::decode;

macro_rules! structure {
    ($(#[$meta:meta])* $name:ident, $size:literal, { $($field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
        #[repr(C)]
        pub(crate) struct $name {
            $(pub(crate) $field: $type,)*
        }
        const _: () = assert!(size_of::<$name>() == $size);
    };
}

structure!(
    /// The head of every record; `bytes` is of the whole record.
    RecordBytes, 32, {
        kind: u8,
        reserved_a: [u8; 3],
        bytes: U32,
        volume: U64,
        slice: U32,
        reserved_b: U32,
        committed: U64,
    }
);
structure!(
    /// A change; followed by one CRC-32C a block if it is a write. `data_block` is where the data
    /// is in the group, in blocks from the end of its header.
    ChangeBytes, 16, {
        kind: u8,
        reserved: [u8; 3],
        start: U32,
        count: U32,
        data_block: U32,
    }
);
structure!(
    /// What an entry has before its change.
    EntryHeadBytes, 48, {
        epoch: U64,
        sequence: U64,
        fence: U64,
        command_node: U16,
        reserved: [u8; 6],
        command_incarnation: U64,
        command_number: U64,
    }
);
structure!(
    /// What a copy has before its change.
    InstallHeadBytes, 8, {
        as_of: U64,
    }
);
structure!(
    /// The beginning of an epoch.
    BeginEpochBytes, 16, {
        epoch: U64,
        after: U64,
    }
);
structure!(
    /// A position; flag 1 is "restart", flag 2 "damaged".
    PositionBytes, 24, {
        epoch: U64,
        sequence: U64,
        flags: U32,
        reserved: U32,
    }
);
structure!(
    /// What a list has before its elements: how many (bytes, for a state) and their checksum.
    ListBytes, 8, {
        count: U32,
        checksum: U32,
    }
);
structure!(
    /// One element of a list of holes: the first group that is missing, and the one after the last.
    HoleBytes, 16, {
        first_group: U64,
        next_group: U64,
    }
);
structure!(
    /// One element of a list of commands.
    CommandBytes, 32, {
        node: U16,
        reserved: [u8; 6],
        incarnation: U64,
        number: U64,
        sequence: U64,
    }
);

const KIND_ENTRY: u8 = 1;
const KIND_INSTALL: u8 = 2;
const KIND_BEGIN_EPOCH: u8 = 3;
const KIND_POSITION: u8 = 4;
const KIND_MENDED: u8 = 5;
const KIND_STATE: u8 = 6;
const KIND_PAGES: u8 = 7;
const KIND_CHECKPOINT: u8 = 8;
const KIND_COMMANDS: u8 = 9;
const KIND_DROP_SLICE: u8 = 10;
const KIND_PLACED: u8 = 11;

const CHANGE_WRITE: u8 = 1;
const CHANGE_CLEAR: u8 = 2;
const CHANGE_NOTHING: u8 = 3;
const CHANGE_BAD: u8 = 4;

const FLAG_RESTART: u32 = 1;
const FLAG_DAMAGED: u32 = 2;

const PAGE_PRESENT: u16 = 1 << 15;

const _: () = assert!(PAGES_PER_SLICE <= PAGE_PRESENT as u32);

/// Bytes that `record` takes in a header, and in a group's data.
pub(crate) fn size(record: &Record) -> (usize, usize) {
    let change_size = |change: &Change| match change {
        Change::Write { checksums, .. } => size_of::<ChangeBytes>() + 4 * checksums.len(),
        Change::Clear(_) | Change::Nothing => size_of::<ChangeBytes>(),
    };
    let list = size_of::<ListBytes>();
    let (body, data) = match &record.body {
        Body::Entry(entry) => (
            size_of::<EntryHeadBytes>() + change_size(&entry.change),
            entry.change.data_bytes(),
        ),
        Body::Placed { entry, slots } => (
            size_of::<EntryHeadBytes>() + change_size(&entry.change) + 4 * slots.len(),
            0,
        ),
        Body::Install {
            install: Install::Change(change),
            ..
        } => (
            size_of::<InstallHeadBytes>() + change_size(change),
            change.data_bytes(),
        ),
        Body::Install { .. } => (size_of::<InstallHeadBytes>() + size_of::<ChangeBytes>(), 0),
        Body::BeginEpoch { .. } => (size_of::<BeginEpochBytes>(), 0),
        Body::Position { .. } => (size_of::<PositionBytes>(), 0),
        Body::DropSlice => (0, 0),
        Body::Mended(holes) => (list + size_of::<HoleBytes>() * holes.len(), 0),
        Body::State(state) => (list + state.len(), 0),
        Body::Pages(changes) => (list + 2 * changes.len(), 0),
        Body::Checkpoint(_) => (list + PAGE_SET_BYTES, 0),
        Body::Commands(commands) => (list + size_of::<CommandBytes>() * commands.len(), 0),
    };
    ((size_of::<RecordBytes>() + body).next_multiple_of(8), data)
}

/// Appends `record` to `header`; its data, if any, will be at block `data_block` of the group's.
pub(crate) fn encode(record: &Record, data_block: u32, header: &mut Vec<u8>) {
    let begin = header.len();
    let (bytes, _) = size(record);
    let head = RecordBytes {
        kind: kind(&record.body),
        reserved_a: [0; 3],
        bytes: U32::new(bytes as u32),
        volume: U64::new(record.slice.volume.0),
        slice: U32::new(record.slice.index),
        reserved_b: U32::ZERO,
        committed: U64::new(record.committed.0),
    };
    header.reserve(bytes);
    header.extend_from_slice(head.as_bytes());
    encode_body(&record.body, data_block, header);
    assert!(
        header.len() <= begin + bytes,
        "a record is as long as announced"
    );
    header.resize(begin + bytes, 0);
}

fn kind(body: &Body) -> u8 {
    match body {
        Body::Entry(_) => KIND_ENTRY,
        Body::Placed { .. } => KIND_PLACED,
        Body::Install { .. } => KIND_INSTALL,
        Body::BeginEpoch { .. } => KIND_BEGIN_EPOCH,
        Body::Position { .. } => KIND_POSITION,
        Body::Mended(_) => KIND_MENDED,
        Body::State(_) => KIND_STATE,
        Body::Pages(_) => KIND_PAGES,
        Body::Checkpoint(_) => KIND_CHECKPOINT,
        Body::Commands(_) => KIND_COMMANDS,
        Body::DropSlice => KIND_DROP_SLICE,
    }
}

fn encode_body(body: &Body, data_block: u32, header: &mut Vec<u8>) {
    match body {
        Body::Entry(entry) => encode_entry(entry, data_block, header),
        Body::Placed { entry, slots } => {
            assert!(
                entry.change.range().map(BlockRange::count)
                    == Some(slots.len() as u32 * BLOCKS_PER_PAGE),
                "each page has a slot"
            );
            encode_entry(entry, 0, header);
            for slot in slots {
                header.extend_from_slice(&slot.to_le_bytes());
            }
        }
        Body::Install { as_of, install } => {
            header.extend_from_slice(&as_of.0.to_le_bytes());
            match install {
                Install::Change(change) => encode_change(change, data_block, header),
                Install::Bad(range) => encode_range(CHANGE_BAD, Some(*range), data_block, header),
            }
        }
        Body::BeginEpoch { epoch, after } => {
            header.extend_from_slice(&epoch.0.to_le_bytes());
            header.extend_from_slice(&after.0.to_le_bytes());
        }
        Body::Position {
            epoch,
            sequence,
            restart,
            damaged,
        } => {
            let raw = PositionBytes {
                epoch: U64::new(epoch.0),
                sequence: U64::new(sequence.0),
                flags: U32::new(
                    u32::from(*restart) * FLAG_RESTART + u32::from(*damaged) * FLAG_DAMAGED,
                ),
                reserved: U32::ZERO,
            };
            header.extend_from_slice(raw.as_bytes());
        }
        Body::DropSlice => {}
        Body::Mended(holes) => encode_holes(holes, header),
        Body::State(state) => {
            assert!(state.len() <= STATE_BYTES_MAX, "a state is bounded");
            encode_list(state.len(), state, header);
        }
        Body::Pages(changes) => encode_pages(changes, header),
        Body::Checkpoint(set) => {
            let mut bytes = Vec::with_capacity(PAGE_SET_BYTES);
            set.encode(&mut bytes);
            encode_list(set.len() as usize, &bytes, header);
        }
        Body::Commands(commands) => encode_commands(commands, header),
    }
}

fn encode_entry(entry: &Entry, data_block: u32, header: &mut Vec<u8>) {
    let head = EntryHeadBytes {
        epoch: U64::new(entry.epoch.0),
        sequence: U64::new(entry.sequence.0),
        fence: U64::new(entry.fence.0),
        command_node: U16::new(entry.command.node),
        reserved: [0; 6],
        command_incarnation: U64::new(entry.command.incarnation.0),
        command_number: U64::new(entry.command.number),
    };
    header.extend_from_slice(head.as_bytes());
    encode_change(&entry.change, data_block, header);
}

fn encode_change(change: &Change, data_block: u32, header: &mut Vec<u8>) {
    let kind = match change {
        Change::Write { .. } => CHANGE_WRITE,
        Change::Clear(_) => CHANGE_CLEAR,
        Change::Nothing => CHANGE_NOTHING,
    };
    encode_range(kind, change.range(), data_block, header);
    if let Change::Write { checksums, .. } = change {
        for checksum in checksums {
            header.extend_from_slice(&checksum.to_le_bytes());
        }
    }
}

fn encode_range(kind: u8, range: Option<BlockRange>, data_block: u32, header: &mut Vec<u8>) {
    let raw = ChangeBytes {
        kind,
        reserved: [0; 3],
        start: U32::new(range.map_or(0, BlockRange::start)),
        count: U32::new(range.map_or(0, BlockRange::count)),
        data_block: U32::new(if kind == CHANGE_WRITE { data_block } else { 0 }),
    };
    header.extend_from_slice(raw.as_bytes());
}

fn encode_list(count: usize, bytes: &[u8], header: &mut Vec<u8>) {
    let head = ListBytes {
        count: U32::new(count as u32),
        checksum: U32::new(crc32c(bytes)),
    };
    header.extend_from_slice(head.as_bytes());
    header.extend_from_slice(bytes);
}

fn encode_pages(changes: &[PageChange], header: &mut Vec<u8>) {
    assert!(changes.len() <= PAGE_CHANGES_MAX, "more is a checkpoint");
    let mut bytes = Vec::with_capacity(2 * changes.len());
    for change in changes {
        let flag = if change.present { PAGE_PRESENT } else { 0 };
        bytes.extend_from_slice(&(change.page.0 as u16 | flag).to_le_bytes());
    }
    encode_list(changes.len(), &bytes, header);
}

fn encode_holes(holes: &[Hole], header: &mut Vec<u8>) {
    assert!(
        holes.len() <= HOLES_PER_RECORD_MAX,
        "a record's holes are bounded"
    );
    let mut bytes = Vec::with_capacity(size_of::<HoleBytes>() * holes.len());
    for hole in holes {
        let raw = HoleBytes {
            first_group: U64::new(hole.first_group),
            next_group: U64::new(hole.next_group),
        };
        bytes.extend_from_slice(raw.as_bytes());
    }
    encode_list(holes.len(), &bytes, header);
}

fn encode_commands(commands: &[(CommandId, Sequence)], header: &mut Vec<u8>) {
    assert!(
        commands.len() <= COMMANDS_PER_RECORD_MAX,
        "a record's commands are bounded"
    );
    let mut bytes = Vec::with_capacity(size_of::<CommandBytes>() * commands.len());
    for (command, sequence) in commands {
        let raw = CommandBytes {
            node: U16::new(command.node),
            reserved: [0; 6],
            incarnation: U64::new(command.incarnation.0),
            number: U64::new(command.number),
            sequence: U64::new(sequence.0),
        };
        bytes.extend_from_slice(raw.as_bytes());
    }
    encode_list(commands.len(), &bytes, header);
}
