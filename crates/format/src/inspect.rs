//! Structures as text, for `holdfast inspect`: what a superblock, a segment, a group or a slot says,
//! or why it cannot be read.

use alloc::format;
use alloc::string::String;

use holdfast_model::StoreId;
use holdfast_stdx::Bytes;

use crate::group::GroupHeader;
use crate::record::{Body, Install, Record};
use crate::segment::SegmentHeader;
use crate::superblock::Superblock;
use crate::table::{PageEntry, SlotContent};

/// A superblock, several lines.
#[must_use]
pub fn superblock(bytes: &[u8]) -> String {
    match Superblock::decode(bytes) {
        Err(error) => format!("{error}\n"),
        Ok(found) => {
            let layout = &found.layout;
            format!(
                "cluster {} store {} node {}\ndevice {} of {} tier {:?} sector {} bytes {}\n\
                 update {} use {}\njournal at {} {} segments of {} bytes, {} partitions\n\
                 slots {}..{} at {}, tables at {} and {}\n",
                found.cluster,
                found.store,
                found.node,
                found.ordinal,
                found.device_count,
                found.tier,
                found.sector,
                found.device_bytes,
                found.update,
                found.use_counter,
                layout.journal_offset,
                layout.segment_count,
                layout.segment_bytes,
                found.partitions,
                found.slot_base,
                found.slot_base + layout.slot_count,
                layout.slots_offset,
                layout.table_offsets[0],
                layout.table_offsets[1],
            )
        }
    }
}

/// The header of segment `index`, one line.
#[must_use]
pub fn segment(bytes: &[u8], store: StoreId, nonce: u64, index: u32) -> String {
    match SegmentHeader::decode(bytes, store, nonce, index) {
        Err(error) => format!("segment {index}: {error}\n"),
        Ok(header) => match header.partition {
            None => format!("segment {index}: never used\n"),
            Some(partition) => format!(
                "segment {index}: use {} partition {partition} from group {} oldest {}\n",
                header.ordinal, header.first_group, header.oldest_group,
            ),
        },
    }
}

/// The group at the beginning of `bytes`, a line for it and one for each of its records; and how
/// many bytes it takes, if it can be read.
#[must_use]
pub fn group(bytes: &Bytes, store: StoreId, nonce: u64) -> (String, Option<usize>) {
    match GroupHeader::read(bytes, store, nonce) {
        Err(error) => (format!("group: {error}\n"), None),
        Ok(group) => {
            let header = &group.header;
            let mut text = format!(
                "group {} partition {} use {} {} bytes, durable up to {} oldest {} redo from {}\n",
                header.group,
                header.partition,
                header.ordinal,
                group.bytes,
                header.durable_up_to,
                header.oldest_group,
                header.redo_from,
            );
            for read in &group.records {
                text.push_str(&record(&read.record));
                if !read.bad.is_empty() {
                    text.push_str(&format!("    bad blocks {:?}\n", read.bad));
                }
            }
            (text, Some(group.bytes))
        }
    }
}

fn record(record: &Record) -> String {
    let body = match &record.body {
        Body::Entry(entry) => format!(
            "entry {}.{} {} {:?}",
            entry.epoch, entry.sequence, entry.fence, entry.change
        ),
        Body::Install { as_of, install } => match install {
            Install::Change(change) => format!("install as of {as_of} {change:?}"),
            Install::Bad(range) => format!("install as of {as_of} bad {range:?}"),
        },
        Body::BeginEpoch { epoch, after } => format!("begin {epoch} after {after}"),
        Body::Position {
            epoch,
            sequence,
            restart,
            damaged,
        } => format!("position {epoch}.{sequence} restart {restart} damaged {damaged}"),
        Body::Mended => String::from("mended"),
        Body::State(state) => format!("state {} bytes", state.len()),
        Body::Pages(changes) => format!("pages {} changes", changes.len()),
        Body::Checkpoint(set) => format!("checkpoint {} pages", set.len()),
        Body::Commands(commands) => format!("commands {}", commands.len()),
        Body::DropSlice => String::from("drop slice"),
    };
    format!(
        "  {} committed {}: {body}\n",
        record.slice, record.committed
    )
}

/// The table's entry of `slot`, one line.
#[must_use]
pub fn entry(bytes: &[u8], nonce: u64, slot: u32) -> String {
    match PageEntry::decode(bytes, nonce, slot) {
        Err(error) => format!("slot {slot}: {error}\n"),
        Ok(PageEntry {
            version, content, ..
        }) => match content {
            SlotContent::Free => format!("slot {slot}: free, version {version}\n"),
            SlotContent::Page {
                key,
                written,
                mask,
                bad,
                ..
            } => format!(
                "slot {slot}: {} page {} version {version} written {written} blocks {mask:016x} \
                 bad {bad:016x}\n",
                key.slice, key.page.0,
            ),
        },
    }
}
