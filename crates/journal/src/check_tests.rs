//! Journals in use that are checked: what has rotted is found, and nothing else.

use alloc::vec::Vec;

use holdfast_model::{DiskCompletion, DiskError, DiskId, Sequence};

use crate::copy_tests::Bench;
use crate::tests::{Memory, entry, has_hole, is_suspect, recover, with_groups, write};
use crate::{Begun, Checked, GroupNumber, Journal, RottenSegment};

/// Groups of the journals: they fill two segments, and a part of a third one.
const GROUPS: u64 = 50;

/// Reads all of the journal's chain.
pub(crate) fn check(journal: &mut Journal, memory: &mut Memory) -> Vec<RottenSegment> {
    let rounds = journal.checked().rounds;
    journal.begin_check();
    let mut found = Vec::new();
    while let Some(request) = journal.next_check_request() {
        let mut next = Some(request);
        while let Some(request) = next {
            assert!(journal.is_for_check(request.token));
            assert!(journal.next_check_bytes().is_none(), "a piece at a time");
            let completion = memory.perform(&request);
            found.extend(journal.take_checked(completion).expect("it works"));
            next = journal.rest_of_check_piece();
        }
    }
    assert!(!journal.is_checking());
    assert_eq!(journal.checked().rounds, rounds + 1);
    found
}

/// A journal in use, and where its groups are.
fn in_use() -> (Journal, Memory, Vec<u64>) {
    let (mut memory, offsets) = with_groups(GROUPS);
    let (mut journal, found) = recover(&mut memory, 2);
    assert!(!has_hole(&found));
    assert!(journal.chain_segments(0) >= 3);
    journal.force(0);
    write(&mut journal, &mut memory);
    (journal, memory, offsets)
}

#[test]
fn a_sound_journal_is_read_as_far_as_it_is_durable() {
    let (mut journal, mut memory, offsets) = in_use();
    assert_eq!(check(&mut journal, &mut memory), []);
    // A group on its way may be on the medium, in part, or not.
    journal.append(0, entry(GROUPS + 1, 2), 1);
    let Begun { request, .. } = journal.start(0, |_| Sequence(7)).expect("a group");
    assert_eq!(check(&mut journal, &mut memory), []);
    let at = *offsets.last().expect("a group") as usize + 3 * 4096 + 4096;
    memory.perform(&request);
    memory.bytes[at + 5000] ^= 1;
    assert_eq!(check(&mut journal, &mut memory), []);
    assert!(journal.complete(0));
    let [rotten] = check(&mut journal, &mut memory)[..] else {
        panic!("it is durable by now, and bad");
    };
    assert_eq!(rotten.group, GroupNumber(GROUPS + 2));
}

/// One in a segment of its own, too.
#[test]
fn a_group_on_its_way_in_a_new_segment_does_not_count() {
    let (mut journal, mut memory, _) = in_use();
    let before = journal.chain_segments(0);
    for sequence in GROUPS + 1.. {
        journal.append(0, entry(sequence, 2), sequence);
        let Begun { request, .. } = journal.start(0, |_| Sequence(7)).expect("a group");
        assert_eq!(check(&mut journal, &mut memory), []);
        memory.perform(&request);
        assert!(journal.complete(0));
        if journal.chain_segments(0) > before {
            break;
        }
    }
}

/// What is bad, wherever it is: the last thing that was written, and a segment's header, as well.
#[test]
fn whatever_has_rotted_is_found_once() {
    let (journal, _, offsets) = in_use();
    let chain = journal.chain(0);
    let segment_of = |group: u64| {
        let mut segments = chain.segments.iter().rev();
        segments
            .find(|segment| segment.first_group.0 <= group)
            .expect("a segment")
    };
    // Of a group the header, its records, its data.
    let mut places: Vec<(u64, u64, u64)> = Vec::new();
    let ends = [21, 22, 42, 43, GROUPS];
    let some = (1..)
        .zip(&offsets)
        .filter(|(group, _)| group % 8 == 1 || ends.contains(group));
    for (group, offset) in some {
        places.extend([4, 200, 4090, 4096, 12287].map(|at| (group, offset + at, *offset)));
        if segment_of(group).first_group.0 == group {
            places.extend([0, 40].map(|at| (group, offset - 4096 + at, offset - 4096)));
        }
    }
    for (group, place, begins) in places {
        for is_readable in [true, false] {
            let (mut journal, mut memory, _) = in_use();
            if is_readable {
                memory.bytes[place as usize] ^= 1;
            } else {
                memory.unreadable.push(place);
            }
            let rotten = RottenSegment {
                disk: DiskId(0),
                partition: 0,
                index: segment_of(group).index,
                group: GroupNumber(group),
                offset: begins,
            };
            assert_eq!(check(&mut journal, &mut memory), [rotten], "at {place}");
            assert!(journal.is_rotten(0));
            assert_eq!(check(&mut journal, &mut memory), [], "it is known");
            let Checked { rotten, mended, .. } = journal.checked();
            assert_eq!((rotten, mended), (1, 0));
        }
    }
}

/// A segment is trimmed before it is read, or while it is, and rotten. Nothing was going to be written that says so; and a recovery
/// read the segment for that, and found a hole.
#[test]
fn what_is_trimmed_is_said_to_be_before_a_check_ends() {
    for is_being_read in [false, true] {
        let (mut journal, mut memory, offsets) = in_use();
        memory.bytes[offsets[3] as usize + 40] ^= 1;
        if is_being_read {
            journal.begin_check();
            let request = journal.next_check_request().expect("a piece");
            journal.trim(0);
            let completion = memory.perform(&request);
            assert_eq!(journal.take_checked(completion), Ok(None));
        } else {
            journal.trim(0);
        }
        assert_eq!(check(&mut journal, &mut memory), []);
        let (_, found) = recover(&mut memory.clone(), 3);
        assert!(has_hole(&found), "nothing says yet that it is trimmed");
        write(&mut journal, &mut memory);
        let (_, found) = recover(&mut memory, 3);
        assert!(!has_hole(&found));
        // Once is enough.
        assert_eq!(check(&mut journal, &mut memory), []);
        assert!(journal.start(0, |_| Sequence(7)).is_none());
    }
}

/// By trims; the one that is being written is left for another one before. Then a recovery finds nothing bad.
#[test]
fn a_rotten_segment_is_trimmed_and_mended() {
    let (_, _, offsets) = in_use();
    let first = offsets[0] - 4096 - 5000 + 40;
    for place in [first, offsets[3], offsets[25], offsets[GROUPS as usize - 1]] {
        let (mut journal, mut memory, _) = in_use();
        memory.bytes[place as usize + 5000] ^= 1;
        assert_eq!(check(&mut journal, &mut memory).len(), 1);
        while journal.is_rotten(0) {
            journal.leave_rotten(0);
            if journal.oldest_segment(0).is_some() {
                assert_eq!(journal.checked().mended, 0);
                journal.trim(0);
                journal.force(0);
            }
            write(&mut journal, &mut memory);
        }
        assert_eq!(journal.checked().mended, 1);
        let free = journal.free_segments();
        let blank = journal.next_blank_request().expect("a header");
        assert!(journal.is_for_check(blank.token));
        assert_eq!(journal.next_blank_request().map(|_| ()), None);
        let completion = memory.perform(&blank);
        assert_eq!(journal.take_checked(completion), Ok(None));
        assert_eq!(journal.free_segments(), free + 1);
        assert_eq!(check(&mut journal, &mut memory), []);
        let (_, found) = recover(&mut memory, 3);
        assert!(!has_hole(&found));
        assert!(!is_suspect(&found));
    }
}

/// Appends, trims, and a copy that becomes the journal, meanwhile: nothing is taken for bad.
#[test]
fn a_journal_in_use_is_not_taken_for_a_bad_one() {
    for seed in 0..64 {
        let mut bench = Bench::new(seed);
        for turn in 0..12 {
            bench.journal.begin_check();
            for _ in 0..bench.prng.below(600) {
                bench.step();
            }
            if turn == 4 {
                bench.copy();
            }
            if turn >= 4 && bench.journal.is_copied() {
                bench.journal.switch();
            }
        }
        let rounds = bench.journal.checked().rounds;
        bench.journal.begin_check();
        bench.steps_until("a round", |journal| journal.checked().rounds > rounds);
    }
}

/// A piece that was asked for where the journal was cannot be read there: what it belongs to is read where the journal is.
#[test]
fn where_the_journal_was_nothing_is_asked_for() {
    let mut bench = Bench::new(0);
    bench.copy();
    bench.steps_until("the copy", Journal::is_copied);
    let journal = &mut bench.journal;
    journal.begin_check();
    let request = journal.next_check_request().expect("a piece");
    assert_eq!(request.disk, DiskId(0));
    journal.switch();
    let completion = DiskCompletion {
        token: request.token,
        result: Err(DiskError::Os(5)),
    };
    assert_eq!(journal.take_checked(completion), Ok(None));
    assert_eq!(journal.rest_of_check_piece(), None);
    let again = journal.next_check_request().expect("the same piece");
    assert_eq!(again.disk, DiskId(1));
}
