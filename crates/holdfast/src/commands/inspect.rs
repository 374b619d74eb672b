//! `holdfast inspect`: what a node's devices hold, read without the node.
//!
//! It refuses to change anything, and to interpret: it says what is there, and what cannot be read.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use holdfast_disk::lock_holder;
use holdfast_format::segment::SEGMENT_HEADER_BYTES;
use holdfast_format::{
    PageEntry, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, SlotContent, Superblock, TABLE_BLOCK,
    TABLE_ENTRY, inspect, layout,
};
use holdfast_stdx::Bytes;
use serde::Serialize;

use crate::cli::InspectCommand;
use crate::failure::Failure;
use crate::output::Output;

/// Entries of the page table in one of its blocks.
const ENTRIES_PER_BLOCK: u32 = (TABLE_BLOCK / TABLE_ENTRY) as u32;

/// What `inspect` says to programs: the lines that people read.
#[derive(Serialize)]
struct Lines<'a> {
    lines: Vec<&'a str>,
}

pub(crate) fn run(command: &InspectCommand, output: &Output) -> Result<(), Failure> {
    let text = match command {
        InspectCommand::Layout => layout::layout(),
        InspectCommand::Superblock { device } => Device::open(device, output)?.superblocks()?,
        InspectCommand::Journal { device, segment } => {
            let device = Device::open(device, output)?;
            match segment {
                Some(number) => device.groups(*number)?,
                None => device.segments()?,
            }
        }
        InspectCommand::Slots { device, slot } => Device::open(device, output)?.slots(*slot)?,
    };
    output.result(
        &Lines {
            lines: text.lines().collect(),
        },
        || text.clone(),
    );
    Ok(())
}

/// A device, open for reading.
struct Device {
    path: PathBuf,
    file: File,
}

impl Device {
    fn open(path: &Path, output: &Output) -> Result<Self, Failure> {
        let file = File::open(path)
            .map_err(|error| Failure::new(format!("open {}: {error}", path.display())))?;
        if let Some(pid) = lock_holder(file.as_fd()) {
            output.talk(&format!(
                "note: process {pid} uses {}: what is read may be changing",
                path.display()
            ));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; length];
        self.file
            .read_exact_at(&mut bytes, offset)
            .map_err(|error| {
                Failure::new(format!("read {} at {offset}: {error}", self.path.display()))
            })?;
        Ok(bytes)
    }

    fn superblocks(&self) -> Result<String, Failure> {
        let mut text = String::new();
        for (copy, offset) in SUPERBLOCK_OFFSETS.into_iter().enumerate() {
            text.push_str(&format!("superblock {copy} at {offset}\n"));
            text.push_str(&inspect::superblock(&self.read(offset, SUPERBLOCK_BYTES)?));
        }
        Ok(text)
    }

    /// The newer of the superblocks that can be read.
    fn superblock(&self) -> Result<Superblock, Failure> {
        let mut newest: Option<Superblock> = None;
        let mut reason = None;
        for offset in SUPERBLOCK_OFFSETS {
            match Superblock::decode(&self.read(offset, SUPERBLOCK_BYTES)?) {
                Ok(found) if newest.is_none_or(|newest| newest.update < found.update) => {
                    newest = Some(found);
                }
                Ok(_) => {}
                Err(error) => reason = Some(error),
            }
        }
        newest.ok_or_else(|| {
            let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
            Failure::new(format!("{} has no superblock{reason}", self.path.display()))
                .hint("a node's devices are named in its configuration, as devices.path")
        })
    }

    fn segments(&self) -> Result<String, Failure> {
        let superblock = self.superblock()?;
        let mut text = String::new();
        for number in 0..superblock.layout.segment_count {
            let offset = superblock.layout.segment_offset(number);
            let header = self.read(offset, SEGMENT_HEADER_BYTES)?;
            text.push_str(&inspect::segment(
                &header,
                superblock.store,
                superblock.nonce,
                number,
            ));
        }
        if text.is_empty() {
            text.push_str("this device carries no journal: the node's first one does\n");
        }
        Ok(text)
    }

    fn groups(&self, number: u32) -> Result<String, Failure> {
        let Superblock {
            layout,
            store,
            nonce,
            ..
        } = self.superblock()?;
        if number >= layout.segment_count {
            return Err(Failure::new(format!(
                "the device has {} segments, from 0",
                layout.segment_count
            )));
        }
        let segment = self.read(layout.segment_offset(number), layout.segment_bytes as usize)?;
        let mut text = inspect::segment(&segment[..SEGMENT_HEADER_BYTES], store, nonce, number);
        let mut rest = Bytes::from(segment).slice(SEGMENT_HEADER_BYTES..);
        while !rest.is_empty() {
            let (group, length) = inspect::group(&rest, store, nonce);
            text.push_str(&group);
            match length {
                Some(length) if length > 0 => drop(rest.split_to(length.min(rest.len()))),
                // The end of what was written, or damage: what follows cannot be told apart here.
                _ => break,
            }
        }
        Ok(text)
    }

    fn slots(&self, only: Option<u32>) -> Result<String, Failure> {
        let superblock = self.superblock()?;
        let count = superblock.layout.slot_count;
        if only.is_some_and(|slot| slot >= count) {
            return Err(Failure::new(format!(
                "the device has {count} slots, from 0"
            )));
        }
        let blocks = match only {
            Some(slot) => slot / ENTRIES_PER_BLOCK..slot / ENTRIES_PER_BLOCK + 1,
            None => 0..count / ENTRIES_PER_BLOCK,
        };
        let mut text = String::new();
        for block in blocks {
            let copies = [0, 1].map(|copy| {
                self.read(
                    superblock.layout.table_block_offset(copy, block),
                    TABLE_BLOCK,
                )
            });
            let [first, second] = copies;
            let (first, second) = (first?, second?);
            let entries = first
                .chunks_exact(TABLE_ENTRY)
                .zip(second.chunks_exact(TABLE_ENTRY));
            for (local, (first, second)) in (block * ENTRIES_PER_BLOCK..).zip(entries) {
                if only.is_none_or(|slot| slot == local) {
                    let slot = superblock.slot_base + local;
                    text.push_str(&entry(
                        first,
                        second,
                        superblock.nonce,
                        slot,
                        only.is_some(),
                    ));
                }
            }
        }
        Ok(text)
    }
}

/// Both copies of an entry; once if they say the same, and only if they say anything, or `all`.
fn entry(first: &[u8], second: &[u8], nonce: u64, slot: u32, all: bool) -> String {
    let is_used = |bytes: &[u8]| match PageEntry::decode(bytes, nonce, slot) {
        Ok(found) => found.content != SlotContent::Free,
        Err(_) => bytes.iter().any(|byte| *byte != 0),
    };
    if !all && !is_used(first) && !is_used(second) {
        return String::new();
    }
    let texts = [first, second].map(|bytes| inspect::entry(bytes, nonce, slot));
    let [first, second] = &texts;
    if first == second {
        first.clone()
    } else {
        format!("table 0 {first}table 1 {second}")
    }
}
