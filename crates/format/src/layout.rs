//! The size and the offsets of every structure, as text, for people and for a test that makes
//! every change of them visible.

use alloc::format;
use alloc::string::String;
use core::mem::{offset_of, size_of};

use crate::group::{GroupBytes, StampBytes};
use crate::record_bytes::{
    BeginEpochBytes, ChangeBytes, CommandBytes, EntryHeadBytes, InstallHeadBytes, ListBytes,
    PositionBytes, RecordBytes,
};
use crate::segment::SegmentBytes;
use crate::superblock::SuperblockBytes;
use crate::table::EntryBytes;
use crate::versions::FORMAT_VERSION;

fn size_of_field<T, F>(_: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

macro_rules! describe {
    ($text:ident, $name:literal, $type:ty: $($field:ident)*) => {
        $text.push_str(&format!("\n{} ({} bytes)\n", $name, size_of::<$type>()));
        $(
            $text.push_str(&format!(
                "  {:>5} {:>5}  {}\n",
                offset_of!($type, $field),
                size_of_field(|structure: &$type| &structure.$field),
                stringify!($field),
            ));
        )*
    };
}

/// Every structure with its size, and every field with its offset and size in bytes.
#[must_use]
pub fn layout() -> String {
    let mut text = format!("format version {FORMAT_VERSION}; offset, size, field\n");
    describe!(text, "superblock", SuperblockBytes: magic version checksum update cluster store nonce
        use_counter node ordinal device_count tier reserved_a sector partitions reserved_b
        device_bytes journal_offset segment_bytes segment_count table_a_offset slots_offset
        table_b_offset slot_count slot_base reserved_c);
    describe!(text, "segment header", SegmentBytes: magic checksum index store nonce ordinal
        first_group oldest_group partition reserved);
    describe!(text, "group header", GroupBytes: magic checksum previous store nonce ordinal group
        durable_up_to oldest_group redo_from header_bytes data_bytes record_bytes record_count
        partition reserved);
    describe!(text, "group stamp", StampBytes: magic nonce ordinal group);
    describe!(text, "record", RecordBytes: kind reserved_a bytes volume slice reserved_b committed);
    describe!(text, "change", ChangeBytes: kind reserved start count data_block);
    describe!(text, "entry", EntryHeadBytes: epoch sequence fence command_node reserved
        command_incarnation command_number);
    describe!(text, "install", InstallHeadBytes: as_of);
    describe!(text, "begin epoch", BeginEpochBytes: epoch after);
    describe!(text, "position", PositionBytes: epoch sequence flags reserved);
    describe!(text, "list (state, pages, checkpoint, commands)", ListBytes: count checksum);
    describe!(text, "command", CommandBytes: node reserved incarnation number sequence);
    describe!(text, "page table entry", EntryBytes: magic checksum nonce version slot state tier
        reserved_a layer volume slice page page_version shard reserved_b written mask bad
        reserved_c checksums);
    text
}
