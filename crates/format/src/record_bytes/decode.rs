//! Records as they are read.

use alloc::vec::Vec;
use core::mem::size_of;

use holdfast_model::{
    BLOCK_SIZE, BLOCKS_PER_PAGE, BlockIndex, BlockRange, Change, Checksums, CommandId,
    ENTRY_BYTES_MAX, Entry, Epoch, Fence, Incarnation, PAGES_PER_SLICE, PageIndex, Sequence,
    SliceId, VolumeId,
};
use holdfast_stdx::{Bytes, crc32c};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::{
    BeginEpochBytes, CHANGE_BAD, CHANGE_CLEAR, CHANGE_NOTHING, CHANGE_WRITE, ChangeBytes,
    CommandBytes, EntryHeadBytes, FLAG_DAMAGED, FLAG_RESTART, HoleBytes, InstallHeadBytes,
    KIND_BEGIN_EPOCH, KIND_CHECKPOINT, KIND_COMMANDS, KIND_DROP_SLICE, KIND_ENTRY, KIND_INSTALL,
    KIND_MENDED, KIND_PAGES, KIND_PLACED, KIND_POSITION, KIND_STATE, ListBytes, PAGE_PRESENT,
    PositionBytes, RecordBytes,
};
use crate::bytes::all_zero;
use crate::page_set::{PAGE_SET_BYTES, PageSet};
use crate::record::{
    Body, COMMANDS_PER_RECORD_MAX, HOLES_PER_RECORD_MAX, Hole, Install, PAGE_CHANGES_MAX,
    PageChange, Record, STATE_BYTES_MAX,
};

/// Reads the record at the beginning of `bytes`, with its data from `data`, the group's. Gives it
/// with the number of bytes that it takes and the numbers (from the change's first block) of the
/// blocks whose data is not what its checksum says. `None` for what this program does not write.
pub(crate) fn decode(bytes: &[u8], data: &Bytes) -> Option<(Record, usize, Vec<u32>)> {
    let (head, _) = RecordBytes::ref_from_prefix(bytes).ok()?;
    let length = head.bytes.get() as usize;
    if length < size_of::<RecordBytes>() || length > bytes.len() || !length.is_multiple_of(8) {
        return None;
    }
    let mut body = &bytes[size_of::<RecordBytes>()..length];
    let mut bad = Vec::new();
    let body = match head.kind {
        KIND_ENTRY => Body::Entry(decode_entry(&mut body, data, &mut bad)?),
        KIND_PLACED => decode_placed(&mut body)?,
        KIND_INSTALL => decode_install(&mut body, data, &mut bad)?,
        KIND_BEGIN_EPOCH => {
            let raw: &BeginEpochBytes = take(&mut body)?;
            Body::BeginEpoch {
                epoch: Epoch(raw.epoch.get()),
                after: Sequence(raw.after.get()),
            }
        }
        KIND_POSITION => {
            let raw: &PositionBytes = take(&mut body)?;
            Body::Position {
                epoch: Epoch(raw.epoch.get()),
                sequence: Sequence(raw.sequence.get()),
                restart: raw.flags.get() & FLAG_RESTART != 0,
                damaged: raw.flags.get() & FLAG_DAMAGED != 0,
            }
        }
        KIND_MENDED => Body::Mended(decode_holes(&mut body)?),
        KIND_STATE => {
            let (_, bytes) = take_list(&mut body, STATE_BYTES_MAX, 1)?;
            Body::State(Bytes::copy_from_slice(bytes))
        }
        KIND_PAGES => Body::Pages(decode_pages(&mut body)?),
        KIND_CHECKPOINT => Body::Checkpoint(decode_checkpoint(&mut body)?),
        KIND_COMMANDS => Body::Commands(decode_commands(&mut body)?),
        KIND_DROP_SLICE => Body::DropSlice,
        _ => return None,
    };
    let record = Record {
        slice: SliceId {
            volume: VolumeId(head.volume.get()),
            index: head.slice.get(),
        },
        committed: Sequence(head.committed.get()),
        body,
    };
    Some((record, length, bad))
}

fn take<'a, T>(bytes: &mut &'a [u8]) -> Option<&'a T>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned,
{
    let (value, rest) = T::ref_from_prefix(bytes).ok()?;
    *bytes = rest;
    Some(value)
}

/// A list of at most `count_max` elements of `size` bytes: their number and bytes.
fn take_list<'a>(bytes: &mut &'a [u8], count_max: usize, size: usize) -> Option<(usize, &'a [u8])> {
    let head: &ListBytes = take(bytes)?;
    let count = head.count.get() as usize;
    if count > count_max {
        return None;
    }
    let (list, rest) = bytes.split_at_checked(count * size)?;
    *bytes = rest;
    (crc32c(list) == head.checksum.get()).then_some((count, list))
}

fn decode_entry(bytes: &mut &[u8], data: &Bytes, bad: &mut Vec<u32>) -> Option<Entry> {
    let head: &EntryHeadBytes = take(bytes)?;
    let (kind, range, change) = decode_change(bytes, data, bad)?;
    let change = match kind {
        CHANGE_NOTHING if range.is_none() => Change::Nothing,
        CHANGE_WRITE | CHANGE_CLEAR => change?,
        _ => return None,
    };
    Some(entry_of(head, change))
}

/// An entry whose data is elsewhere: it has none.
fn decode_placed(bytes: &mut &[u8]) -> Option<Body> {
    let head: &EntryHeadBytes = take(bytes)?;
    let raw: &ChangeBytes = take(bytes)?;
    let range = BlockRange::checked(raw.start.get(), raw.count.get())?;
    let is_of_pages = [range.start(), range.count()].map(|it| it.is_multiple_of(BLOCKS_PER_PAGE));
    if raw.kind != CHANGE_WRITE
        || is_of_pages != [true, true]
        || range.bytes() > ENTRY_BYTES_MAX as u64
    {
        return None;
    }
    let change = Change::Write {
        start: BlockIndex(range.start()),
        data: Bytes::new(),
        checksums: take_numbers(bytes, range.count() as usize)?,
    };
    let slots = take_numbers(bytes, (range.count() / BLOCKS_PER_PAGE) as usize)?;
    let entry = entry_of(head, change);
    Some(Body::Placed { entry, slots })
}

fn take_numbers<T: FromIterator<u32>>(bytes: &mut &[u8], count: usize) -> Option<T> {
    let (list, rest) = bytes.split_at_checked(4 * count)?;
    *bytes = rest;
    let numbers = list.as_chunks::<4>().0.iter();
    Some(numbers.map(|it| u32::from_le_bytes(*it)).collect())
}

fn entry_of(head: &EntryHeadBytes, change: Change) -> Entry {
    Entry {
        epoch: Epoch(head.epoch.get()),
        sequence: Sequence(head.sequence.get()),
        fence: Fence(head.fence.get()),
        command: CommandId {
            node: head.command_node.get(),
            incarnation: Incarnation(head.command_incarnation.get()),
            number: head.command_number.get(),
        },
        change,
    }
}

fn decode_install(bytes: &mut &[u8], data: &Bytes, bad: &mut Vec<u32>) -> Option<Body> {
    let head: &InstallHeadBytes = take(bytes)?;
    let (kind, range, change) = decode_change(bytes, data, bad)?;
    let install = match kind {
        CHANGE_WRITE | CHANGE_CLEAR => Install::Change(change?),
        CHANGE_BAD => Install::Bad(range?),
        _ => return None,
    };
    Some(Body::Install {
        as_of: Sequence(head.as_of.get()),
        install,
    })
}

type RawChange = (u8, Option<BlockRange>, Option<Change>);

fn decode_change(bytes: &mut &[u8], data: &Bytes, bad: &mut Vec<u32>) -> Option<RawChange> {
    let raw: &ChangeBytes = take(bytes)?;
    let range = match (raw.start.get(), raw.count.get()) {
        (0, 0) => None,
        (start, count) => Some(BlockRange::checked(start, count)?),
    };
    let change = match raw.kind {
        CHANGE_WRITE => Some(decode_write(
            range?,
            raw.data_block.get(),
            bytes,
            data,
            bad,
        )?),
        CHANGE_CLEAR => Some(Change::Clear(range?)),
        _ => None,
    };
    Some((raw.kind, range, change))
}

fn decode_write(
    range: BlockRange,
    data_block: u32,
    bytes: &mut &[u8],
    data: &Bytes,
    bad: &mut Vec<u32>,
) -> Option<Change> {
    if range.bytes() > ENTRY_BYTES_MAX as u64 {
        return None;
    }
    let count = range.count() as usize;
    let checksums: Checksums = take_numbers(bytes, count)?;
    let begin = data_block as usize * BLOCK_SIZE;
    let end = begin + count * BLOCK_SIZE;
    if end > data.len() {
        return None;
    }
    let data = data.slice(begin..end);
    for (index, block) in data.chunks_exact(BLOCK_SIZE).enumerate() {
        if crc32c(block) != checksums[index] {
            bad.push(index as u32);
        }
    }
    Some(Change::Write {
        start: BlockIndex(range.start()),
        data,
        checksums,
    })
}

fn decode_pages(bytes: &mut &[u8]) -> Option<Vec<PageChange>> {
    let (_, list) = take_list(bytes, PAGE_CHANGES_MAX, 2)?;
    list.as_chunks::<2>()
        .0
        .iter()
        .map(|raw| {
            let raw = u16::from_le_bytes(*raw);
            let page = u32::from(raw & !PAGE_PRESENT);
            (page < PAGES_PER_SLICE).then_some(PageChange {
                page: PageIndex(page),
                present: raw & PAGE_PRESENT != 0,
            })
        })
        .collect()
}

fn decode_checkpoint(bytes: &mut &[u8]) -> Option<PageSet> {
    let head: &ListBytes = take(bytes)?;
    let (list, _) = bytes.split_at_checked(PAGE_SET_BYTES)?;
    if crc32c(list) != head.checksum.get() {
        return None;
    }
    let set = PageSet::decode(list)?;
    (set.len() == head.count.get()).then_some(set)
}

fn decode_holes(bytes: &mut &[u8]) -> Option<Vec<Hole>> {
    let (_, list) = take_list(bytes, HOLES_PER_RECORD_MAX, size_of::<HoleBytes>())?;
    let holes = <[HoleBytes]>::ref_from_bytes(list).ok()?;
    let holes = holes.iter().map(|raw| Hole {
        first_group: raw.first_group.get(),
        next_group: raw.next_group.get(),
    });
    Some(holes.collect())
}

fn decode_commands(bytes: &mut &[u8]) -> Option<Vec<(CommandId, Sequence)>> {
    let size = size_of::<CommandBytes>();
    let (_, mut list) = take_list(bytes, COMMANDS_PER_RECORD_MAX, size)?;
    let mut commands = Vec::with_capacity(list.len() / size);
    while !list.is_empty() {
        let raw: &CommandBytes = take(&mut list)?;
        if !all_zero(&raw.reserved) {
            return None;
        }
        let command = CommandId {
            node: raw.node.get(),
            incarnation: Incarnation(raw.incarnation.get()),
            number: raw.number.get(),
        };
        commands.push((command, Sequence(raw.sequence.get())));
    }
    Some(commands)
}
