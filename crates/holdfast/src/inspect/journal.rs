//! The journal: what the node's own recovery would find in it, and where that is.
//!
//! It refuses to have an opinion of its own: recovery itself runs, on a device whose writes and
//! flushes do nothing; where the groups are that it found is looked up afterwards.
//!
//! Invariant: memory is bounded by one segment and what a node would keep of the journal but for
//! its data.

use std::collections::BTreeMap;
use std::path::Path;

use holdfast_format::inspect::{Piece, kind, pieces};
use holdfast_format::{DeviceLayout, SegmentError, SegmentHeader, Superblock};
use holdfast_journal::{
    Chain, ChainSegment, Found, Journal, JournalPlace, Recovery, RecoveryFailed,
};
use holdfast_model::{BLOCK_SIZE, DiskCompletion, DiskId, DiskOp, DiskRequest};
use holdfast_stdx::Bytes;
use holdfast_store::{Survey, Surveyed};

use super::damage::{Damages, Severity, span};
use super::device::Device;
use super::document::{Hole, JournalReport, PartitionReport, Place, SegmentReport, SegmentState};
use super::progress::Progress;
use super::source::Source;

/// Segments that are looked at: beyond what any device has, so that a superblock that was made up
/// cannot ask for more memory than there is.
const SEGMENTS_MAX: u32 = 1 << 20;
/// The start that an opening is taken for if the journal is newer than the superblocks: later than
/// all.
const LAST_START: u64 = u32::MAX as u64;

/// What was found in a journal.
#[derive(Debug)]
pub(crate) struct JournalLook {
    pub(crate) report: JournalReport,
    pub(crate) surveyed: Surveyed,
    /// By partition.
    pub(crate) chains: Vec<Chain>,
}

/// What recovery told of a partition.
#[derive(Debug, Default)]
struct Told {
    records: u64,
    is_suspect: bool,
    /// A hole without a place: no group of the partition is left.
    is_empty: bool,
}

/// Looks at the journal of a device that carries one.
pub(crate) fn look(
    device: &Device,
    damages: &mut Damages,
    progress: &Progress,
) -> Option<JournalLook> {
    let superblock = &device.superblock;
    let path = device.source.path();
    let layout = superblock.layout;
    let count = there(device);
    if count == 0 {
        let what = format!(
            "a journal of {} segments that cannot be looked at",
            layout.segment_count
        );
        damages.add_somewhere(path, Severity::Lost, what);
        return None;
    }
    progress.begin(
        "journal",
        u64::from(count) * u64::from(layout.segment_bytes),
    );
    let mut outcome = Replay::run(device, superblock.use_counter.saturating_add(1), progress);
    if let Err(RecoveryFailed::UseCounterBehind { start }) = outcome {
        let what = format!(
            "the superblocks count {} starts, but the journal was used in start {start}: they are \
             older than it",
            superblock.use_counter
        );
        damages.add_somewhere(path, Severity::Lost, what);
        outcome = Replay::run(device, LAST_START, progress);
    }
    let replay = match outcome {
        Ok(replay) => replay,
        Err(error) => {
            damages.add_somewhere(path, Severity::Lost, error.to_string());
            return None;
        }
    };
    let chains: Vec<Chain> = (0..superblock.partitions)
        .map(|partition| replay.journal.chain(partition))
        .collect();
    let told = replay.told.iter().zip(&chains).zip(0..);
    let partitions = told
        .map(|((told, chain), partition)| walk(device, partition, chain, told, damages, progress))
        .collect();
    let report = JournalReport {
        path: path.display().to_string(),
        offset: layout.journal_offset,
        segment_bytes: layout.segment_bytes,
        segments: count_segments(device, &chains, damages),
        every_segment: None,
        partitions,
        records: replay.records,
    };
    Some(JournalLook {
        report,
        surveyed: replay.survey.finish(),
        chains,
    })
}

/// How many of the segments are there: all, unless the device was cut short; none, if there cannot
/// be so many.
fn there(device: &Device) -> u32 {
    let layout = device.superblock.layout;
    if layout.segment_count > SEGMENTS_MAX {
        return 0;
    }
    let room = device.source.bytes().saturating_sub(layout.journal_offset);
    let begun = room.div_ceil(u64::from(layout.segment_bytes.max(1)));
    layout
        .segment_count
        .min(u32::try_from(begun).unwrap_or(u32::MAX))
}

/// Recovery on a device that is only read.
struct Replay {
    journal: Journal,
    survey: Survey,
    told: Vec<Told>,
    records: BTreeMap<&'static str, u64>,
}

impl Replay {
    fn run(device: &Device, start: u64, progress: &Progress) -> Result<Self, RecoveryFailed> {
        let superblock = &device.superblock;
        let place = JournalPlace {
            disk: DiskId(0),
            layout: DeviceLayout {
                segment_count: there(device),
                ..superblock.layout
            },
            store: superblock.store,
            nonce: superblock.nonce,
            use_counter: start.min(LAST_START),
            partitions: superblock.partitions,
            token_base: 0,
        };
        let mut survey = Survey::new(superblock.partitions);
        let mut told: Vec<Told> = Vec::new();
        told.resize_with(usize::from(superblock.partitions), Told::default);
        let mut records = BTreeMap::new();
        let mut requests = Vec::new();
        let mut found = Vec::new();
        let mut recovery = Recovery::start(place, &mut requests);
        while let Some(request) = requests.pop() {
            let completion = perform(&device.source, &request, progress);
            recovery.handle(completion, &mut requests, &mut found)?;
            for found in found.drain(..) {
                match &found {
                    Found::Record {
                        partition, read, ..
                    } => {
                        told[usize::from(*partition)].records += 1;
                        *records.entry(kind(&read.record.body)).or_default() += 1;
                    }
                    Found::End { partition, suspect } => {
                        told[usize::from(*partition)].is_suspect = suspect.is_some();
                    }
                    Found::Hole { partition, .. } => {
                        let told = &mut told[usize::from(*partition)];
                        told.is_empty |= told.records == 0;
                    }
                }
                survey.take(found);
            }
        }
        Ok(Self {
            journal: recovery.finish(),
            survey,
            told,
            records,
        })
    }
}

/// Reads; what recovery would write or flush, it is told to be done.
fn perform(source: &Source, request: &DiskRequest, progress: &Progress) -> DiskCompletion {
    let result = match request.op {
        DiskOp::Read { offset, length } => {
            progress.add(u64::from(length));
            source.read(offset, length as usize)
        }
        DiskOp::Write { .. } | DiskOp::Flush | DiskOp::Discard { .. } => Ok(Bytes::new()),
    };
    DiskCompletion {
        token: request.token,
        result,
    }
}

/// Goes along a chain once more, for the places of what recovery found.
fn walk(
    device: &Device,
    partition: u16,
    chain: &Chain,
    told: &Told,
    damages: &mut Damages,
    progress: &Progress,
) -> PartitionReport {
    let layout = device.superblock.layout;
    let path = device.source.path();
    let mut report = PartitionReport {
        partition,
        segments: chain.segments.iter().map(|segment| segment.index).collect(),
        oldest_group: chain.oldest_group.0,
        next_group: chain.next_group.0,
        redo_from: None,
        groups: 0,
        records: told.records,
        end: chain.segments.last().map(|segment| Place {
            segment: segment.index,
            offset: layout.segment_offset(segment.index) + u64::from(chain.cursor),
        }),
        tail: if told.is_suspect { "suspect" } else { "clean" },
        holes: Vec::new(),
        bad_blocks: 0,
    };
    let mut expected = chain.oldest_group.0;
    // Where the last group ended.
    let mut end = None;
    for segment in &chain.segments {
        progress.add(u64::from(layout.segment_bytes));
        let begin = layout.segment_offset(segment.index);
        for_each_group(device, partition, chain, segment, |offset, bytes, group| {
            let offset = begin + offset as u64;
            if group.header.group > expected {
                let from = end.unwrap_or(offset);
                add_hole(&mut report, expected, group.header.group, from, offset);
            }
            for read in &group.records {
                let data = read.record.data().filter(|_| !read.bad.is_empty());
                let Some(data) = data else { continue };
                // The data is a part of the segment's bytes.
                let place = data.as_ptr() as usize - bytes.as_ptr() as usize;
                for block in &read.bad {
                    let at = begin + place as u64 + u64::from(*block) * BLOCK_SIZE as u64;
                    report.bad_blocks += 1;
                    let what = format!(
                        "data of group {} in the journal's partition {partition}, of slice {}",
                        group.header.group, read.record.slice
                    );
                    damages.add(path, (at, BLOCK_SIZE as u64), Severity::Lost, &what);
                }
            }
            report.groups += 1;
            report.redo_from = Some(group.header.redo_from);
            expected = group.header.group + 1;
            end = Some(offset + group.bytes as u64);
        });
    }
    describe_holes(&report, told, path, damages);
    report
}

fn add_hole(report: &mut PartitionReport, first: u64, next: u64, from: u64, to: u64) {
    /// Holes that are listed of a partition: each is a break in a chain of at most a few segments.
    const HOLES_MAX: usize = 1000;
    if report.holes.len() < HOLES_MAX {
        report.holes.push(Hole {
            first_group: first,
            last_group: next - 1,
            offset: from,
            bytes: to.saturating_sub(from),
        });
    }
}

fn describe_holes(report: &PartitionReport, told: &Told, path: &Path, damages: &mut Damages) {
    let partition = report.partition;
    for hole in &report.holes {
        let what = format!(
            "{} of the journal's partition {partition}",
            span("group", hole.first_group, hole.last_group)
        );
        damages.add(path, (hole.offset, hole.bytes), Severity::Lost, &what);
    }
    if told.is_empty && report.holes.is_empty() {
        let what = format!("no group of the journal's partition {partition} can be read");
        damages.add_somewhere(path, Severity::Lost, what);
    }
}

/// Gives every readable group of a chain that is in one of its segments, with its place there and
/// the segment's bytes.
pub(crate) fn for_each_group(
    device: &Device,
    partition: u16,
    chain: &Chain,
    segment: &ChainSegment,
    mut take: impl FnMut(usize, &Bytes, &holdfast_format::group::ReadGroup),
) {
    let Superblock {
        layout,
        store,
        nonce,
        ..
    } = device.superblock;
    let offset = layout.segment_offset(segment.index);
    let reading = device
        .source
        .read_patiently(offset, layout.segment_bytes as usize);
    let bytes = reading.bytes;
    for piece in pieces(&bytes, store, nonce) {
        let Piece::Group { offset, group } = piece else {
            continue;
        };
        let header = &group.header;
        let in_chain = header.partition == partition
            && header.ordinal == segment.ordinal
            && (segment.first_group.0..chain.next_group.0).contains(&header.group);
        if in_chain {
            take(offset, &bytes, &group);
        }
    }
}

/// What the headers of all segments say, and what the chains make of them.
pub(crate) fn segments<'a>(
    device: &'a Device,
    chains: &'a [Chain],
) -> impl Iterator<Item = SegmentReport> + 'a {
    let superblock = &device.superblock;
    let layout = superblock.layout;
    let in_chains: BTreeMap<u32, u16> = chains
        .iter()
        .zip(0..)
        .flat_map(|(chain, partition)| {
            let segments = chain.segments.iter();
            segments.map(move |segment| (segment.index, partition))
        })
        .collect();
    (0..layout.segment_count.min(SEGMENTS_MAX)).map(move |index| {
        let offset = layout.segment_offset(index);
        let header = match device.source.read(offset, BLOCK_SIZE) {
            Err(error) => Err(error.to_string()),
            Ok(block) => SegmentHeader::decode(&block, superblock.store, superblock.nonce, index)
                .map_err(|error: SegmentError| error.to_string()),
        };
        let state = match (in_chains.get(&index), &header) {
            (Some(_), _) => SegmentState::InUse,
            (None, Err(_)) => SegmentState::Bad,
            (None, Ok(header)) if header.partition.is_some() => SegmentState::Trimmed,
            (None, Ok(_)) => SegmentState::NeverUsed,
        };
        let (used, problem) = match header {
            Ok(header) => (header.partition.map(|_| header), None),
            Err(problem) => (None, Some(problem)),
        };
        SegmentReport {
            segment: index,
            offset,
            state,
            partition: in_chains
                .get(&index)
                .copied()
                .or(used.and_then(|header| header.partition)),
            start: used.map(|header| header.ordinal >> 32),
            ordinal: used.map(|header| header.ordinal),
            first_group: used.map(|header| header.first_group),
            problem,
        }
    })
}

fn count_segments(
    device: &Device,
    chains: &[Chain],
    damages: &mut Damages,
) -> BTreeMap<SegmentState, u64> {
    let mut counts = BTreeMap::new();
    for state in SegmentState::ALL {
        counts.insert(state, 0);
    }
    for segment in segments(device, chains) {
        *counts.entry(segment.state).or_default() += 1;
        if let Some(problem) = segment.problem {
            let what = format!("header of a segment of the journal: {problem}");
            let place = (segment.offset, BLOCK_SIZE as u64);
            damages.add(device.source.path(), place, Severity::Spare, &what);
        }
    }
    counts
}
