//! The size and the offsets of every structure, and where the regions of a device are: for people,
//! and for a test that makes every change of them visible.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::mem::{offset_of, size_of};

use holdfast_model::PAGE_SIZE;

use crate::device::DeviceLayout;
use crate::device_list::ListedBytes;
use crate::group::{GroupBytes, StampBytes};
use crate::record_bytes::{
    BeginEpochBytes, ChangeBytes, CommandBytes, EntryHeadBytes, HoleBytes, InstallHeadBytes,
    ListBytes, PositionBytes, RecordBytes,
};
use crate::segment::SegmentBytes;
use crate::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, SuperblockBytes};
use crate::table::EntryBytes;
use crate::versions::FORMAT_VERSION;

/// A structure at rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Structure {
    /// Its name in `docs/data-format.md`.
    pub name: &'static str,
    /// Its size.
    pub bytes: usize,
    /// Its fields, in order and without gaps.
    pub fields: Vec<Field>,
}

/// A field of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Where it begins in its structure.
    pub offset: usize,
    /// Its size.
    pub bytes: usize,
}

/// A region of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its name in `docs/data-format.md`.
    pub name: &'static str,
    /// Where it begins on the device.
    pub offset: u64,
    /// Its size.
    pub bytes: u64,
}

/// The regions of a device, in order. There may be unused bytes between them.
#[must_use]
pub fn regions(layout: &DeviceLayout) -> Vec<Region> {
    let region = |name, offset, bytes| Region {
        name,
        offset,
        bytes,
    };
    let superblock = SUPERBLOCK_BYTES as u64;
    let mut regions = vec![
        region("superblock A", SUPERBLOCK_OFFSETS[0], superblock),
        region("superblock B", SUPERBLOCK_OFFSETS[1], superblock),
    ];
    if layout.segment_count > 0 {
        let bytes = u64::from(layout.segment_bytes) * u64::from(layout.segment_count);
        regions.push(region("journal", layout.journal_offset, bytes));
    }
    let slots = u64::from(layout.slot_count) * PAGE_SIZE as u64;
    regions.extend([
        region("table A", layout.table_offsets[0], layout.table_bytes()),
        region("slots", layout.slots_offset, slots),
        region("table B", layout.table_offsets[1], layout.table_bytes()),
    ]);
    regions
}

fn size_of_field<T, F>(_: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

macro_rules! structure {
    ($name:literal, $type:ty: $($field:ident)*) => {
        Structure {
            name: $name,
            bytes: size_of::<$type>(),
            fields: vec![$(Field {
                name: stringify!($field),
                offset: offset_of!($type, $field),
                bytes: size_of_field(|structure: &$type| &structure.$field),
            }),*],
        }
    };
}

/// Every structure at rest.
#[must_use]
pub fn structures() -> Vec<Structure> {
    vec![
        structure!("superblock", SuperblockBytes: magic version checksum update cluster store nonce
        use_counter node ordinal device_count tier claimed sector partitions reserved_b
        device_bytes journal_offset segment_bytes segment_count table_a_offset slots_offset
        table_b_offset slot_count slot_base use_ids device_id generation next_slot next_ordinal
        reserved_c devices reserved_d),
        structure!("device of the list", ListedBytes: id slot_base slot_count ordinal state absent
        last_use journal),
        structure!("segment header", SegmentBytes: magic checksum index store nonce ordinal
        first_group oldest_group partition reserved),
        structure!("group header", GroupBytes: magic checksum previous store nonce ordinal group
        durable_up_to oldest_group redo_from header_bytes data_bytes record_bytes record_count
        partition reserved_a overwrote reserved_b),
        structure!("group stamp", StampBytes: magic nonce ordinal group),
        structure!("record", RecordBytes: kind reserved_a bytes volume slice reserved_b committed),
        structure!("change", ChangeBytes: kind reserved start count data_block),
        structure!("entry", EntryHeadBytes: epoch sequence fence command_node reserved
        command_incarnation command_number),
        structure!("install", InstallHeadBytes: as_of),
        structure!("begin epoch", BeginEpochBytes: epoch after),
        structure!("position", PositionBytes: epoch sequence flags reserved),
        structure!("list (mended, state, pages, checkpoint, commands)", ListBytes: count checksum),
        structure!("hole", HoleBytes: first_group next_group),
        structure!("command", CommandBytes: node reserved incarnation number sequence),
        structure!("page table entry", EntryBytes: magic checksum nonce version slot state tier
        reserved_a layer volume slice page page_version shard reserved_b written mask bad
        reserved_c checksums),
    ]
}

/// Every structure with its size, and every field with its offset and size in bytes.
#[must_use]
pub fn layout() -> String {
    let mut text = format!("format version {FORMAT_VERSION}; offset, size, field\n");
    for structure in structures() {
        let Structure {
            name,
            bytes,
            fields,
        } = structure;
        text.push_str(&format!("\n{name} ({bytes} bytes)\n"));
        for Field {
            name,
            offset,
            bytes,
        } in fields
        {
            text.push_str(&format!("  {offset:>5} {bytes:>5}  {name}\n"));
        }
    }
    text
}
