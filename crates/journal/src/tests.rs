//! The journal on a device in memory: what is appended is found, and damage is told apart.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_format::{Body, DeviceLayout, DeviceRole, Hole, Record, SegmentHeader};
use holdfast_model::{
    BlockIndex, Change, DiskCompletion, DiskError, DiskId, DiskOp, DiskRequest, Entry, Epoch,
    Fence, Sequence, SliceId, StoreId, VolumeId,
};
use holdfast_stdx::Bytes;

use crate::check_tests::check;
use crate::{Begun, Found, GroupNumber, Journal, JournalPlace, Recovery, RecoveryFailed};

pub(crate) const SEGMENT: u32 = 256 << 10;
const BYTES: u64 = 8 << 20;

/// A device that does everything at once.
#[derive(Clone)]
pub(crate) struct Memory {
    pub(crate) bytes: Vec<u8>,
    pub(crate) unreadable: Vec<u64>,
}

impl Memory {
    pub(crate) fn perform(&mut self, request: &DiskRequest) -> DiskCompletion {
        let result = match &request.op {
            DiskOp::Read { offset, length } => {
                let end = *offset + u64::from(*length);
                if self
                    .unreadable
                    .iter()
                    .any(|bad| (*offset..end).contains(bad))
                {
                    Err(DiskError::Os(5))
                } else {
                    let bytes = &self.bytes[*offset as usize..end as usize];
                    Ok(Bytes::copy_from_slice(bytes))
                }
            }
            DiskOp::Write { offset, parts, .. } => {
                let mut at = *offset as usize;
                for part in parts {
                    self.bytes[at..at + part.len()].copy_from_slice(part);
                    at += part.len();
                }
                Ok(Bytes::new())
            }
            DiskOp::Flush | DiskOp::Discard { .. } => Ok(Bytes::new()),
        };
        DiskCompletion {
            token: request.token,
            result,
        }
    }
}

fn place(use_counter: u64) -> JournalPlace {
    let role = DeviceRole::Journal {
        segment_bytes: SEGMENT,
        journal_bytes: Some(8 * u64::from(SEGMENT)),
    };
    JournalPlace {
        disk: DiskId(0),
        layout: DeviceLayout::plan(BYTES, role).expect("large enough"),
        store: StoreId(1),
        nonce: 2,
        use_counter,
        partitions: 1,
        token_base: 1000,
    }
}

pub(crate) fn formatted() -> Memory {
    let mut memory = Memory {
        bytes: vec![0; BYTES as usize],
        unreadable: Vec::new(),
    };
    for request in Journal::format(&place(0)) {
        memory.perform(&request);
    }
    memory
}

pub(crate) fn recover(memory: &mut Memory, use_counter: u64) -> (Journal, Vec<Found>) {
    let mut requests = Vec::new();
    let mut found = Vec::new();
    let mut recovery = Recovery::start(place(use_counter), &mut requests);
    while let Some(request) = requests.pop() {
        let completion = memory.perform(&request);
        recovery
            .handle(completion, &mut requests, &mut found)
            .expect("the device works");
    }
    (recovery.finish(), found)
}

const SLICE: SliceId = SliceId {
    volume: VolumeId(1),
    index: 0,
};

pub(crate) fn entry(sequence: u64, blocks: usize) -> Record {
    let data = Bytes::from(vec![sequence as u8; blocks * 4096]);
    let change = if blocks == 0 {
        Change::Nothing
    } else {
        Change::write(BlockIndex(0), data)
    };
    Record {
        slice: SLICE,
        committed: Sequence::ZERO,
        body: Body::Entry(Entry {
            epoch: Epoch(1),
            sequence: Sequence(sequence),
            fence: Fence(0),
            command: Default::default(),
            change,
        }),
    }
}

/// Writes the next group; gives its request, its number and its tags.
pub(crate) fn write(
    journal: &mut Journal,
    memory: &mut Memory,
) -> (DiskRequest, GroupNumber, Vec<u64>) {
    let begun = journal.start(0, |_| Sequence(7));
    let Begun {
        request,
        twin: None,
        written,
    } = begun.expect("there is something to write")
    else {
        panic!("there is no copy");
    };
    memory.perform(&request);
    assert_eq!(journal.partition_of(request.token), 0);
    assert!(journal.complete(0), "there is one write of it");
    let tags = written.records.iter().map(|record| record.tag).collect();
    (request, written.group, tags)
}

fn sequences(found: &[Found]) -> Vec<u64> {
    found
        .iter()
        .filter_map(|found| match found {
            Found::Record { read, .. } => match &read.record.body {
                Body::Entry(entry) => Some(entry.sequence.0),
                _ => None,
            },
            _ => None,
        })
        .collect()
}

fn holes(found: &[Found]) -> Vec<Option<Hole>> {
    let holes = found.iter().filter_map(|found| match found {
        Found::Hole { partition: 0, hole } => Some(*hole),
        _ => None,
    });
    holes.collect()
}

pub(crate) fn has_hole(found: &[Found]) -> bool {
    !holes(found).is_empty()
}

pub(crate) fn is_suspect(found: &[Found]) -> bool {
    suspect_since(found).is_some()
}

fn suspect_since(found: &[Found]) -> Option<GroupNumber> {
    found.iter().find_map(|found| match found {
        Found::End {
            partition: 0,
            suspect,
        } => *suspect,
        _ => None,
    })
}

/// A journal of several groups of one entry each; and where each of them is on the device.
pub(crate) fn with_groups(count: u64) -> (Memory, Vec<u64>) {
    let mut memory = formatted();
    let (mut journal, found) = recover(&mut memory, 1);
    assert!(sequences(&found).is_empty());
    let mut offsets = Vec::new();
    for sequence in 1..=count {
        journal.append(0, entry(sequence, 2), sequence);
        let (request, group, tags) = write(&mut journal, &mut memory);
        assert_eq!((group, tags), (GroupNumber(sequence), vec![sequence]));
        let DiskOp::Write {
            offset, durable, ..
        } = request.op
        else {
            panic!("a group is a write");
        };
        assert!(durable);
        // A segment's header goes with its first group.
        let first = offset.is_multiple_of(u64::from(SEGMENT));
        offsets.push(if first { offset + 4096 } else { offset });
    }
    (memory, offsets)
}

#[test]
fn what_arrives_while_a_group_is_in_flight_goes_with_the_next() {
    let mut memory = formatted();
    let (mut journal, _) = recover(&mut memory, 1);
    assert!(journal.start(0, |_| Sequence(7)).is_none(), "nothing to do");
    journal.append(0, entry(1, 1), 1);
    let Begun { request, .. } = journal.start(0, |_| Sequence(7)).expect("the first");
    journal.append(0, entry(2, 1), 2);
    journal.append(0, entry(3, 1), 3);
    assert!(journal.start(0, |_| Sequence(7)).is_none(), "one at a time");
    memory.perform(&request);
    assert!(journal.complete(0));
    let (_, _, tags) = write(&mut journal, &mut memory);
    assert_eq!(tags, [2, 3]);
    let (_, found) = recover(&mut memory, 2);
    assert_eq!(sequences(&found), [1, 2, 3]);
    let stated = found.iter().all(|found| match found {
        Found::Record { read, .. } => read.record.committed == Sequence(7),
        _ => true,
    });
    assert!(stated, "records state the committed point of their writing");
    assert!(!has_hole(&found));
    assert!(!is_suspect(&found));
}

#[test]
fn a_torn_last_group_is_not_there() {
    for torn in [0, 512, 4095, 4096, 8192] {
        let (mut memory, offsets) = with_groups(3);
        let at = offsets[2] as usize + torn;
        memory.bytes[at] ^= 0xFF;
        let (mut journal, found) = recover(&mut memory, 2);
        assert_eq!(sequences(&found), [1, 2], "torn at {torn}");
        assert!(is_suspect(&found), "torn at {torn}");
        assert!(!has_hole(&found));
        // The next group takes its place.
        journal.append(0, entry(9, 1), 9);
        let (_, group, _) = write(&mut journal, &mut memory);
        assert_eq!(group, GroupNumber(3));
        // Whatever else is written, and however often it is recovered: the group that was bad may have been
        // durable, until what took its place is trimmed.
        let (mut journal, found) = recover(&mut memory, 3);
        assert_eq!(sequences(&found), [1, 2, 9]);
        assert_eq!(suspect_since(&found), Some(GroupNumber(3)));
        journal.append(0, entry(10, 1), 10);
        write(&mut journal, &mut memory);
        let (_, found) = recover(&mut memory, 4);
        assert_eq!(suspect_since(&found), Some(GroupNumber(3)));
    }
}

#[test]
fn a_bad_header_in_the_middle_is_a_hole() {
    let (mut memory, offsets) = with_groups(4);
    memory.bytes[offsets[1] as usize + 100] ^= 1;
    let (_, found) = recover(&mut memory, 2);
    assert_eq!(sequences(&found), [1, 3, 4]);
    let missing = Hole {
        first_group: 2,
        next_group: 3,
    };
    assert_eq!(holes(&found), [Some(missing)]);
    assert!(!is_suspect(&found));
}

#[test]
fn bad_data_in_the_middle_is_told_by_block() {
    let (mut memory, offsets) = with_groups(3);
    memory.bytes[offsets[1] as usize + 4096 + 4096 + 7] ^= 1;
    let (_, found) = recover(&mut memory, 2);
    assert_eq!(sequences(&found), [1, 2, 3]);
    assert!(!has_hole(&found));
    let bad: Vec<Vec<u32>> = found
        .iter()
        .filter_map(|found| match found {
            Found::Record { read, .. } => Some(read.bad.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(bad, [vec![], vec![1], vec![]]);
}

#[test]
fn a_segment_that_cannot_be_read_at_once_is_read_block_by_block() {
    let (mut memory, offsets) = with_groups(3);
    memory.unreadable.push(offsets[1] + 5000);
    let (_, found) = recover(&mut memory, 2);
    assert_eq!(sequences(&found), [1, 2, 3]);
}

#[test]
fn a_bad_segment_header_hides_nothing_and_unused_ones_are_healed() {
    let (mut memory, offsets) = with_groups(3);
    let segment = offsets[0] as usize - 4096;
    memory.bytes[segment + 20] ^= 1;
    let (_, found) = recover(&mut memory, 2);
    assert_eq!(sequences(&found), [1, 2, 3]);
    assert!(!is_suspect(&found));
    let layout = place(2).layout;
    let unused = (0..8)
        .map(|index| layout.segment_offset(index) as usize)
        .find(|offset| *offset != segment)
        .expect("there are others");
    memory.bytes[unused] ^= 1;
    for use_counter in [3, 4] {
        // Power fails before anything is written that says so.
        let (_, found) = recover(&mut memory, use_counter);
        assert!(is_suspect(&found), "it may have been the next of the chain");
    }
    go_on(&mut memory, 5);
    let (_, found) = recover(&mut memory, 6);
    assert_eq!(suspect_since(&found), Some(GroupNumber(4)), "it says so");
    let index = ((unused as u64 - layout.journal_offset) / u64::from(SEGMENT)) as u32;
    let header = &memory.bytes[unused..unused + 4096];
    assert!(SegmentHeader::decode(header, StoreId(1), 2, index).is_ok());
}

/// What each start does: a first group, and then blank headers for segments whose headers are bad.
fn go_on(memory: &mut Memory, use_counter: u64) {
    let (mut journal, _) = recover(memory, use_counter);
    assert!(journal.next_blank_request().is_none(), "not before that");
    journal.force(0);
    write(&mut journal, memory);
    while let Some(request) = journal.next_blank_request() {
        let free = journal.free_segments();
        let completion = memory.perform(&request);
        let taken = journal.take_checked(completion);
        assert_eq!(taken.expect("it works"), None);
        assert_eq!(journal.free_segments(), free + 1);
    }
}

/// Power fails in the write that begins a segment, and tears its header alone, once or while it is put right: a start makes the
/// header what it was, and a check has nothing to say.
#[test]
fn a_header_that_was_torn_is_put_right() {
    let (memory, offsets) = with_groups(50);
    let begins = |offset: &&u64| (**offset - 4096).is_multiple_of(u64::from(SEGMENT));
    let headers: Vec<u64> = offsets.iter().filter(begins).copied().collect();
    assert_eq!(headers.len(), 3);
    for first_group in headers {
        for lost in [&[0][..], &[1, 5], &[0, 1, 2, 3, 4, 5, 6, 7]] {
            let (mut memory, before) = (memory.clone(), formatted());
            let whole = memory.bytes.clone();
            lose_beginning(&mut memory, &before, first_group, lost);
            let (mut journal, found) = recover(&mut memory, 2);
            assert_eq!(sequences(&found), (1..=50).collect::<Vec<_>>());
            assert!(!has_hole(&found) && !is_suspect(&found));
            assert!(memory.bytes == whole, "it is as it was");
            assert_eq!(check(&mut journal, &mut memory), []);
        }
    }
}

/// Spoils the header of the segment that begins with this group, and the group's.
fn behead(memory: &mut Memory, first_group: u64) {
    assert!((first_group - 4096).is_multiple_of(u64::from(SEGMENT)));
    for offset in [first_group - 4096, first_group] {
        memory.bytes[offset as usize] ^= 1;
    }
}

/// Without the header and the first group, the first one left is not where a segment's first group is.
#[test]
fn a_segment_that_has_lost_its_beginning_hides_nothing_else() {
    let (mut memory, offsets) = with_groups(4);
    behead(&mut memory, offsets[0]);
    let (mut journal, found) = recover(&mut memory, 2);
    let missing = Hole {
        first_group: 1,
        next_group: 2,
    };
    assert_eq!(sequences(&found), [2, 3, 4]);
    assert_eq!(holes(&found), [Some(missing)]);
    // The header stays bad: nobody knows what it said. What is appended later is behind the rest, and found as well.
    journal.append(0, entry(5, 2), 5);
    let (_, group, _) = write(&mut journal, &mut memory);
    assert_eq!(group, GroupNumber(5));
    let (_, found) = recover(&mut memory, 3);
    assert_eq!(sequences(&found), [2, 3, 4, 5]);
    assert_eq!(holes(&found), [Some(missing)]);
}

#[test]
fn a_later_segment_that_has_lost_its_beginning_hides_nothing_else() {
    let (mut memory, offsets) = with_groups(40);
    let begins = |offset: &u64| (offset - 4096).is_multiple_of(u64::from(SEGMENT));
    let second = 1 + offsets[1..]
        .iter()
        .position(begins)
        .expect("40 groups fill one");
    behead(&mut memory, offsets[second]);
    let (_, found) = recover(&mut memory, 2);
    let lost = second as u64 + 1;
    let left: Vec<u64> = (1..=40).filter(|sequence| *sequence != lost).collect();
    assert_eq!(sequences(&found), left);
    let missing = Hole {
        first_group: lost,
        next_group: lost + 1,
    };
    assert_eq!(holes(&found), [Some(missing)]);
}

/// The sectors of a segment's header and of the head of its first group are as they were before a use.
fn lose_beginning(memory: &mut Memory, before: &Memory, first_group: u64, sectors: &[u64]) {
    assert!((first_group - 4096).is_multiple_of(u64::from(SEGMENT)));
    for sector in sectors {
        let at = (first_group - 4096 + sector * 512) as usize;
        memory.bytes[at..at + 512].copy_from_slice(&before.bytes[at..at + 512]);
    }
}

/// A write to it was reported, and landed nowhere: the header is a valid one, of an earlier use or of none.
#[test]
fn a_segment_whose_header_was_not_written_hides_nothing() {
    let before = formatted();
    let (mut memory, offsets) = with_groups(3);
    lose_beginning(&mut memory, &before, offsets[0], &[0]);
    let (mut journal, found) = recover(&mut memory, 2);
    assert_eq!(sequences(&found), [1, 2, 3]);
    assert!(!has_hole(&found) && !is_suspect(&found));
    journal.append(0, entry(4, 2), 4);
    write(&mut journal, &mut memory);
    let (_, found) = recover(&mut memory, 3);
    assert_eq!(sequences(&found), [1, 2, 3, 4]);
    assert!(!has_hole(&found) && !is_suspect(&found));
}

/// The same of the head of the first group, of which the stamp is left.
#[test]
fn a_segment_whose_first_sectors_were_not_written_has_a_hole() {
    let before = formatted();
    let (mut memory, offsets) = with_groups(3);
    lose_beginning(&mut memory, &before, offsets[0], &[0, 8]);
    let (_, found) = recover(&mut memory, 2);
    assert_eq!(sequences(&found), [2, 3]);
    let missing = Hole {
        first_group: 1,
        next_group: 2,
    };
    assert_eq!(holes(&found), [Some(missing)]);
}

/// A journal that has gone round: its segments have headers of earlier uses, and in the last one there are
/// several groups.
#[test]
fn a_segment_with_the_header_of_an_earlier_use_hides_nothing() {
    let mut memory = formatted();
    let (mut journal, _) = recover(&mut memory, 1);
    let mut began: Option<(u64, Memory)> = None;
    let mut sequence = 0;
    while began.is_none() || sequence % 20 != 0 {
        sequence += 1;
        let before = memory.clone();
        let blocks = if sequence < 40 { 30 } else { 2 };
        journal.append(0, entry(sequence, blocks), sequence);
        let (request, ..) = write(&mut journal, &mut memory);
        let DiskOp::Write { offset, .. } = request.op else {
            panic!("a group is a write");
        };
        if sequence >= 40 && offset.is_multiple_of(u64::from(SEGMENT)) {
            began = Some((offset + 4096, before));
        }
        while journal.chain_segments(0) > 2 {
            journal.trim(0);
        }
    }
    let (first_group, before) = began.expect("a segment was begun");
    let (_, found) = recover(&mut memory.clone(), 2);
    let all = sequences(&found);
    assert!(all.len() > 8 && all.last() == Some(&sequence), "{all:?}");
    lose_beginning(&mut memory, &before, first_group, &[0]);
    let (_, found) = recover(&mut memory, 2);
    assert_eq!(sequences(&found), all);
    assert!(!has_hole(&found) && !is_suspect(&found));
}

/// What is left of an earlier use behind a blank header does not make that one look lost.
#[test]
fn a_segment_that_was_healed_stays_so() {
    let (mut memory, offsets) = with_groups(60);
    let begins = |offset: &&u64| (**offset - 4096).is_multiple_of(u64::from(SEGMENT));
    let headers: Vec<u64> = offsets.iter().filter(begins).copied().collect();
    assert_eq!(headers.len(), 3);
    let (mut journal, _) = recover(&mut memory, 2);
    journal.trim(0);
    journal.force(0);
    write(&mut journal, &mut memory);
    let sound = memory.clone();
    memory.bytes[headers[0] as usize - 4096] ^= 1;
    let (journal, found) = recover(&mut memory, 3);
    assert!(is_suspect(&found), "it may have been the next of the chain");
    let next = Some(journal.next_group(0));
    go_on(&mut memory, 4);
    for use_counter in [5, 6] {
        // Since then, and not anew.
        let (_, found) = recover(&mut memory, use_counter);
        assert!(!has_hole(&found));
        assert_eq!(suspect_since(&found), next);
        go_on(&mut memory, use_counter);
    }
    // Nor does a place that cannot be read behind a good header.
    let mut memory = sound;
    memory.unreadable.push(headers[0] + 100);
    let (_, found) = recover(&mut memory, 3);
    assert!(!has_hole(&found) && !is_suspect(&found));
}

/// A segment's beginning cannot be read at one start, and can at the next, before its header has become blank. It is no more than what was
/// found to be doubtful: what was written meanwhile counts.
#[test]
fn a_segment_that_comes_back_does_not_outrank_what_was_written_meanwhile() {
    let mut memory = formatted();
    let (mut journal, _) = recover(&mut memory, 1);
    // The second group leaves room in its segment, but not for the third.
    for (sequence, blocks) in [(1, 32), (2, 20), (3, 20)] {
        journal.append(0, entry(sequence, blocks), sequence);
        write(&mut journal, &mut memory);
    }
    let last = *journal.chain(0).segments.last().expect("it has some");
    assert_eq!(last.first_group, GroupNumber(3));
    let offset = place(0).layout.segment_offset(last.index);
    memory.unreadable = vec![offset + 10, offset + 4096 + 10];
    let (mut journal, found) = recover(&mut memory, 2);
    assert_eq!(sequences(&found), [1, 2]);
    assert!(is_suspect(&found));
    journal.append(0, entry(4, 1), 4);
    let (_, group, _) = write(&mut journal, &mut memory);
    assert_eq!(group, GroupNumber(3));
    memory.unreadable.clear();
    let (_, found) = recover(&mut memory, 3);
    assert_eq!(sequences(&found), [1, 2, 4]);
    assert!(!has_hole(&found) && is_suspect(&found));
}

/// Groups that each take a segment of their own, and then one that says that the first of these is trimmed: where that is.
fn with_trimmed() -> (Memory, Journal, u64) {
    let mut memory = formatted();
    let (mut journal, _) = recover(&mut memory, 1);
    for sequence in 1..=3 {
        journal.append(0, entry(sequence, 32), sequence);
        write(&mut journal, &mut memory);
    }
    journal.trim(0);
    journal.append(0, entry(4, 2), 4);
    let (request, group, _) = write(&mut journal, &mut memory);
    assert_eq!(group, GroupNumber(4));
    let DiskOp::Write { offset, .. } = request.op else {
        panic!("a group is a write");
    };
    (memory, journal, offset)
}

/// It is not durable, so the segment is part of the chain, and nobody may take it before a durable group has said that it is not.
#[test]
fn what_a_torn_group_says_is_not_believed() {
    let (mut memory, _, offset) = with_trimmed();
    memory.bytes[offset as usize + 2 * 4096] ^= 1;
    let (mut journal, found) = recover(&mut memory, 2);
    assert_eq!(sequences(&found), [1, 2, 3]);
    assert!(!has_hole(&found) && is_suspect(&found));
    assert_eq!((journal.chain_segments(0), journal.free_segments()), (3, 5));
    // The next group begins a segment, of which no more may come to be than the header.
    journal.append(0, entry(5, 32), 5);
    let before = memory.clone();
    let (request, ..) = write(&mut journal, &mut memory);
    let DiskOp::Write { offset, .. } = request.op else {
        panic!("a group is a write");
    };
    for is_whole in [true, false] {
        if !is_whole {
            let begun = offset as usize + 4096;
            memory.bytes[begun..].copy_from_slice(&before.bytes[begun..]);
        }
        let (_, found) = recover(&mut memory.clone(), 3);
        let expected: &[u64] = if is_whole { &[1, 2, 3, 5] } else { &[1, 2, 3] };
        assert_eq!(sequences(&found), expected);
        assert!(!has_hole(&found));
    }
}

/// It had been durable, and has rotted: the segment that it says is trimmed was used again.
#[test]
fn what_a_rotten_last_group_says_is_believed_where_it_is_true() {
    let (mut memory, journal, offset) = with_trimmed();
    assert_eq!((journal.chain_segments(0), journal.free_segments()), (2, 6));
    memory.bytes[offset as usize + 2 * 4096] ^= 1;
    let used_again = Journal::format(&place(0)).next().expect("a segment");
    memory.perform(&used_again);
    let (_, found) = recover(&mut memory, 2);
    assert_eq!(sequences(&found), [2, 3]);
    assert!(!has_hole(&found) && is_suspect(&found));
}

#[test]
fn a_journal_that_is_newer_than_the_superblocks_is_refused() {
    let (mut memory, _) = with_groups(1);
    // The segment was begun in start 1: whoever takes this for the first start is behind.
    let mut requests = Vec::new();
    let mut found = Vec::new();
    let mut recovery = Recovery::start(place(1), &mut requests);
    let failed = loop {
        let request = requests.pop().expect("it goes on until it fails");
        assert!(
            !matches!(request.op, DiskOp::Write { .. }),
            "nothing is written"
        );
        let completion = memory.perform(&request);
        if let Err(failed) = recovery.handle(completion, &mut requests, &mut found) {
            break failed;
        }
    };
    assert_eq!(failed, RecoveryFailed::UseCounterBehind { start: 1 });
    assert!(found.is_empty());
    let (_, found) = recover(&mut memory, 2);
    assert_eq!(sequences(&found), [1]);
}

#[test]
fn a_chain_of_which_nothing_is_left_is_a_hole() {
    let (mut memory, offsets) = with_groups(2);
    for offset in offsets {
        memory.bytes[offset as usize] ^= 1;
    }
    let (_, found) = recover(&mut memory, 2);
    assert!(sequences(&found).is_empty());
    assert_eq!(holes(&found), [None]);
}

#[test]
fn trimmed_segments_are_used_again_only_when_that_is_known() {
    let mut memory = formatted();
    let (mut journal, _) = recover(&mut memory, 1);
    let mut sequence = 0;
    // Half a segment each: a second one does not fit beside its headers.
    for _ in 0..3 {
        sequence += 1;
        journal.append(0, entry(sequence, 32), sequence);
        let (_, group, _) = write(&mut journal, &mut memory);
        journal.pin(0, group);
    }
    assert_eq!(journal.chain_segments(0), 3);
    assert_eq!(journal.free_segments(), 5);
    assert_eq!(journal.oldest_segment(0), Some((GroupNumber(1), false)));
    journal.unpin(0, GroupNumber(1));
    assert_eq!(journal.oldest_segment(0), Some((GroupNumber(1), true)));
    journal.trim(0);
    assert_eq!(journal.free_segments(), 5, "nothing durable says so yet");
    journal.force(0);
    write(&mut journal, &mut memory);
    assert_eq!(journal.free_segments(), 6);
    let (_, found) = recover(&mut memory, 2);
    assert_eq!(sequences(&found), [2, 3]);
    assert!(!has_hole(&found));
}

#[test]
fn what_is_not_pinned_need_not_be_redone() {
    let mut memory = formatted();
    let (mut journal, _) = recover(&mut memory, 1);
    for sequence in 1..=3 {
        journal.append(0, entry(sequence, 1), sequence);
        let (_, group, _) = write(&mut journal, &mut memory);
        journal.pin(0, group);
    }
    journal.unpin(0, GroupNumber(1));
    journal.unpin(0, GroupNumber(2));
    journal.force(0);
    write(&mut journal, &mut memory);
    let (_, found) = recover(&mut memory, 2);
    let redo: Vec<bool> = found
        .iter()
        .filter_map(|found| match found {
            Found::Record { redo, .. } => Some(*redo),
            _ => None,
        })
        .collect();
    assert_eq!(redo, [false, false, true]);
}

#[test]
fn the_journal_goes_round() {
    let mut memory = formatted();
    let (mut journal, _) = recover(&mut memory, 1);
    for sequence in 1..=100 {
        journal.append(0, entry(sequence, 30), sequence);
        write(&mut journal, &mut memory);
        while journal.chain_segments(0) > 2 {
            journal.trim(0);
        }
    }
    let (_, found) = recover(&mut memory, 2);
    let last = sequences(&found);
    assert_eq!(last.last(), Some(&100));
    assert!(last.len() <= 4, "{last:?}");
    assert!(!has_hole(&found));
}
