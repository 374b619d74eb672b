//! Every record of the chains, in the order in which recovery takes them.
//!
//! It refuses to keep them: they are read again while they are written out, one segment at a time.

use std::io::{self, Write};

use holdfast_format::group::ReadGroup;
use holdfast_format::inspect::{describe, kind};
use holdfast_format::{Body, Install};
use holdfast_journal::Chain;
use holdfast_model::{BlockRange, SliceId};
use serde::{Serialize, Serializer};

use super::device::Device;
use super::journal::for_each_group;

/// The records of a store's journal, those of one slice if that is asked for.
pub(crate) struct Records<'a> {
    pub(crate) device: &'a Device,
    /// By partition.
    pub(crate) chains: &'a [Chain],
    pub(crate) slice: Option<SliceId>,
}

/// A group with its records.
#[derive(Serialize)]
struct GroupReport {
    partition: u16,
    segment: u32,
    /// On the device.
    offset: u64,
    bytes: usize,
    group: u64,
    durable_up_to: u64,
    oldest_group: u64,
    redo_from: u64,
    records: Vec<RecordReport>,
}

#[derive(Serialize)]
struct RecordReport {
    slice: String,
    committed: u64,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_block: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_count: Option<u32>,
    /// Blocks whose data is not what its checksum says, counted from the first.
    bad_blocks: Vec<u32>,
    text: String,
}

impl Records<'_> {
    /// Gives each group that has a record that is asked for.
    fn for_each(&self, mut take: impl FnMut(&GroupReport)) {
        let layout = self.device.superblock.layout;
        for (chain, partition) in self.chains.iter().zip(0..) {
            for segment in &chain.segments {
                let begin = layout.segment_offset(segment.index);
                for_each_group(
                    self.device,
                    partition,
                    chain,
                    segment,
                    |offset, _, group| {
                        let place = (segment.index, begin + offset as u64);
                        let report = self.report(group, place);
                        if self.slice.is_none() || !report.records.is_empty() {
                            take(&report);
                        }
                    },
                );
            }
        }
    }

    fn report(&self, group: &ReadGroup, (segment, offset): (u32, u64)) -> GroupReport {
        let asked = |slice: SliceId| self.slice.is_none_or(|asked| asked == slice);
        let records = group
            .records
            .iter()
            .filter(|read| asked(read.record.slice))
            .map(|read| {
                let body = &read.record.body;
                let (epoch, sequence) = order(body);
                let range = range(body);
                RecordReport {
                    slice: read.record.slice.to_string(),
                    committed: read.record.committed.0,
                    kind: kind(body),
                    epoch,
                    sequence,
                    first_block: range.map(BlockRange::start),
                    block_count: range.map(BlockRange::count),
                    bad_blocks: read.bad.clone(),
                    text: describe(body),
                }
            })
            .collect();
        let header = &group.header;
        GroupReport {
            partition: header.partition,
            segment,
            offset,
            bytes: group.bytes,
            group: header.group,
            durable_up_to: header.durable_up_to,
            oldest_group: header.oldest_group,
            redo_from: header.redo_from,
            records,
        }
    }

    /// As people read them.
    pub(crate) fn write(&self, target: &mut dyn Write) -> io::Result<()> {
        let mut done = writeln!(target, "\nrecords");
        self.for_each(|group| {
            if done.is_ok() {
                done = write_group(group, target);
            }
        });
        done
    }
}

impl Serialize for Records<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeSeq;
        let mut groups = serializer.serialize_seq(None)?;
        let mut done = Ok(());
        self.for_each(|group| {
            if done.is_ok() {
                done = groups.serialize_element(group);
            }
        });
        done?;
        groups.end()
    }
}

fn write_group(group: &GroupReport, target: &mut dyn Write) -> io::Result<()> {
    writeln!(
        target,
        "  group {} of partition {}: segment {}, byte {}, {} bytes; durable up to {}, oldest {}, \
         redo from {}",
        group.group,
        group.partition,
        group.segment,
        group.offset,
        group.bytes,
        group.durable_up_to,
        group.oldest_group,
        group.redo_from
    )?;
    for record in &group.records {
        write!(
            target,
            "    {} committed s{}: {}",
            record.slice, record.committed, record.text
        )?;
        if !record.bad_blocks.is_empty() {
            write!(target, "; bad data in its blocks {:?}", record.bad_blocks)?;
        }
        writeln!(target)?;
    }
    Ok(())
}

fn order(body: &Body) -> (Option<u64>, Option<u64>) {
    match body {
        Body::Entry(entry) | Body::Placed { entry, .. } => {
            (Some(entry.epoch.0), Some(entry.sequence.0))
        }
        Body::Install { as_of, .. } => (None, Some(as_of.0)),
        Body::BeginEpoch { epoch, after } => (Some(epoch.0), Some(after.0)),
        Body::Position {
            epoch, sequence, ..
        } => (Some(epoch.0), Some(sequence.0)),
        _ => (None, None),
    }
}

fn range(body: &Body) -> Option<BlockRange> {
    match body {
        Body::Entry(entry) | Body::Placed { entry, .. } => entry.change.range(),
        Body::Install { install, .. } => match install {
            Install::Change(change) => change.range(),
            Install::Bad(range) => Some(*range),
        },
        _ => None,
    }
}
