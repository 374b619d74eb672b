use alloc::vec::Vec;

use holdfast_format::record::HOLES_PER_RECORD_MAX;
use holdfast_format::{Body, Hole, Install, ReadRecord, Record};
use holdfast_journal::{Found, GroupNumber};
use holdfast_model::{BlockRange, Change, Entry, Epoch, Fence, Sequence, SliceId, VolumeId};
use holdfast_stdx::Bytes;

use crate::event::RecoveredSlice;
use crate::item::Source;
use crate::recovered::{Slivers, named};

const SLICE: SliceId = SliceId {
    volume: VolumeId(1),
    index: 0,
};

/// A journal of one partition, written down group by group.
struct Walk {
    slivers: Slivers,
    group: u64,
    /// Changes in groups before this one need not be redone.
    redo_from: u64,
}

impl Walk {
    fn new() -> Self {
        Self {
            slivers: Slivers::new(1),
            group: 1,
            redo_from: 1,
        }
    }

    /// The next group, of one record.
    fn say(&mut self, body: Body) {
        self.say_as_of(0, body);
    }

    /// The same, when the slice was known to be committed up to here.
    fn say_as_of(&mut self, committed: u64, body: Body) {
        let found = Found::Record {
            partition: 0,
            group: GroupNumber(self.group),
            redo: self.group >= self.redo_from,
            read: ReadRecord {
                record: Record {
                    slice: SLICE,
                    committed: Sequence(committed),
                    body,
                },
                bad: Vec::new(),
            },
        };
        self.group += 1;
        self.slivers.take(found);
    }

    fn write(&mut self, sequence: u64) {
        self.say(Body::Entry(Entry {
            epoch: Epoch(1),
            sequence: Sequence(sequence),
            fence: Fence(0),
            command: Default::default(),
            change: Change::Nothing,
        }));
    }

    /// The opening of a store that finds its slice damaged.
    fn says_damaged(&mut self) {
        self.say(Body::Position {
            epoch: Epoch(1),
            sequence: Sequence(0),
            restart: false,
            damaged: true,
        });
    }

    /// So many of the next groups cannot be read.
    fn lose(&mut self, count: u64) -> Hole {
        let hole = Hole {
            first_group: self.group,
            next_group: self.group + count,
        };
        self.group += count;
        self.slivers.take(Found::Hole {
            partition: 0,
            hole: Some(hole),
        });
        hole
    }

    /// The next group takes the place of one that was bad.
    fn overwrites(&mut self) {
        self.slivers.take(Found::End {
            partition: 0,
            suspect: Some(GroupNumber(self.group)),
        });
    }

    fn finish(mut self) -> Option<RecoveredSlice> {
        let mut slice = self.slivers.slices.remove(&SLICE)?;
        let outcome = slice.finish();
        Some(slice.recovered(&outcome, self.slivers.suspects[0]))
    }

    /// The sequences that are redone, in order.
    fn redone(mut self) -> Vec<u64> {
        let slice = self.slivers.slices.get_mut(&SLICE);
        let outcome = slice.expect("the slice is there").finish();
        let settled = outcome.settled.iter().map(|redo| match &redo.source {
            Source::Entry(entry) => entry.sequence.0,
            Source::Install { .. } => panic!("nothing is installed"),
        });
        settled.collect()
    }

    fn ends_intact(self) -> bool {
        self.finish().expect("the slice is there").intact
    }
}

#[test]
fn a_hole_that_was_known_is_mended() {
    let mut walk = Walk::new();
    walk.write(1);
    let hole = walk.lose(2);
    walk.write(3);
    walk.says_damaged();
    // A sync: the log begins anew where its primary was.
    walk.say(Body::Position {
        epoch: Epoch(2),
        sequence: Sequence(9),
        restart: true,
        damaged: true,
    });
    walk.say(Body::Mended([hole].into()));
    walk.write(10);
    let found = walk.finish().expect("the slice is there");
    assert!(found.intact);
    assert_eq!(found.prepared.1, Sequence(10));
}

/// Entries are carried forward one after the other, and power fails in between: the copy of the first stands behind
/// those that follow it. They are in pages when redo begins between them, and so is the first.
#[test]
fn a_copy_that_overtook_later_entries_is_not_redone() {
    for redo_from in 1..=6 {
        let mut walk = Walk::new();
        walk.redo_from = redo_from;
        walk.write(1);
        walk.write(2);
        walk.write(3);
        walk.write(1);
        walk.say_as_of(3, Body::Pages(Vec::new()));
        let redone = walk.redone();
        let expected: &[u64] = match redo_from {
            1 => &[1, 2, 3],
            2 => &[2, 3],
            3 => &[3],
            _ => &[],
        };
        assert_eq!(redone, expected, "from {redo_from}");
    }
}

/// All of them were: what was before may be trimmed.
#[test]
fn copies_that_are_in_order_are_redone_where_they_stand() {
    for redo_from in 4..=6 {
        let mut walk = Walk::new();
        walk.redo_from = redo_from;
        for sequence in [1, 2, 3, 1, 2, 3] {
            walk.write(sequence);
        }
        walk.say_as_of(3, Body::Pages(Vec::new()));
        let expected: Vec<u64> = (redo_from - 3..=3).collect();
        assert_eq!(walk.redone(), expected, "from {redo_from}");
    }
}

/// Redo may come to begin between them later: what is missing is to be written before.
#[test]
fn what_overtook_later_entries_is_carried_again() {
    let entry = |sequence: u64, first: u32| {
        Body::Entry(Entry {
            epoch: Epoch(1),
            sequence: Sequence(sequence),
            fence: Fence(0),
            command: Default::default(),
            change: Change::Clear(BlockRange::new(first, 2)),
        })
    };
    let copy = |as_of: u64, first: u32| Body::Install {
        as_of: Sequence(as_of),
        install: Install::Change(Change::Clear(BlockRange::new(first, 1))),
    };
    let cases: [(&[Body], Option<u64>); 7] = [
        (&[], None),
        // The first alone, the first two, all of them.
        (&[entry(1, 0)], Some(1)),
        (&[entry(1, 0), entry(2, 1)], Some(1)),
        (&[entry(1, 0), entry(2, 1), entry(3, 2)], None),
        // Of blocks that the second one has changed, and the third; as of the third; of others.
        (&[copy(1, 1)], Some(2)),
        (&[copy(3, 1)], None),
        (&[copy(1, 0)], None),
    ];
    for (copies, from) in cases {
        let mut walk = Walk::new();
        for (sequence, first) in [(1, 0), (2, 1), (3, 2)] {
            walk.say(entry(sequence, first));
        }
        for copy in copies {
            walk.say(copy.clone());
        }
        walk.say_as_of(3, Body::Pages(Vec::new()));
        let slice = walk.slivers.slices.get_mut(&SLICE);
        let outcome = slice.expect("the slice is there").finish();
        assert_eq!(outcome.carry_again, from.map(Sequence), "{copies:?}");
    }
}

/// What stood at the chain's end may have been durable. Only an epoch that begins later, or a log that begins
/// anew, has looked at what others have.
#[test]
fn a_bad_end_is_suspect_until_an_epoch_begins() {
    let begin = || Body::BeginEpoch {
        epoch: Epoch(2),
        after: Sequence(1),
    };
    let restart = || Body::Position {
        epoch: Epoch(2),
        sequence: Sequence(1),
        restart: true,
        damaged: false,
    };
    for (later, suspect) in [
        (None, true),
        (Some(begin()), false),
        (Some(restart()), false),
    ] {
        let mut walk = Walk::new();
        walk.say(begin());
        walk.write(1);
        walk.overwrites();
        later.into_iter().for_each(|body| walk.say(body));
        walk.write(2);
        let found = walk.finish().expect("the slice is there");
        assert_eq!(found.tail_suspect, suspect);
    }
}

/// Every completed sync says that the slice is whole. What rots afterwards, in groups that were
/// written before, nobody has filled.
#[test]
fn a_hole_that_came_into_being_later_is_not_mended() {
    let mut walk = Walk::new();
    walk.write(1);
    walk.lose(1);
    walk.say(Body::Mended(Vec::new()));
    assert!(!walk.ends_intact());

    let mut walk = Walk::new();
    walk.write(1);
    let known = walk.lose(1);
    walk.says_damaged();
    walk.lose(1);
    walk.says_damaged();
    walk.say(Body::Mended([known].into()));
    assert!(!walk.ends_intact());
}

#[test]
fn a_known_hole_that_has_grown_is_not_mended() {
    let mut walk = Walk::new();
    walk.write(1);
    let mut known = walk.lose(3);
    known.next_group -= 1;
    walk.say(Body::Mended([known].into()));
    assert!(!walk.ends_intact());
}

#[test]
fn entries_after_a_hole_that_nobody_filled_are_not_counted_on() {
    let mut walk = Walk::new();
    walk.write(1);
    walk.lose(1);
    walk.write(3);
    walk.say(Body::Mended(Vec::new()));
    let found = walk.finish().expect("the slice is there");
    assert!(!found.intact);
    assert_eq!(found.prepared.1, Sequence(1));
}

/// The chain begins in the middle of the log, as it does when it has been trimmed; what says how far that was committed follows. A hole behind
/// all of that may have had more of the slice, but nothing of what is there.
#[test]
fn what_was_trimmed_is_not_taken_for_lost_in_a_later_hole() {
    let position = |sequence| Body::Position {
        epoch: Epoch(1),
        sequence: Sequence(sequence),
        restart: false,
        damaged: false,
    };
    for is_before in [true, false] {
        let mut walk = Walk::new();
        if is_before {
            walk.lose(1);
        }
        walk.write(5);
        walk.write(6);
        walk.say(position(4));
        if !is_before {
            walk.lose(1);
        }
        let found = walk.finish().expect("the slice is there");
        assert!(!found.intact);
        let expected = if is_before { (0, 0) } else { (6, 4) };
        assert_eq!((found.prepared.1.0, found.committed.0), expected);
    }
}

#[test]
fn what_was_lost_before_a_slice_ended_does_not_matter() {
    let mut walk = Walk::new();
    walk.write(1);
    walk.lose(1);
    walk.say(Body::DropSlice);
    walk.write(1);
    assert!(walk.ends_intact());

    let mut walk = Walk::new();
    walk.write(1);
    walk.say(Body::DropSlice);
    walk.lose(1);
    walk.write(1);
    assert!(!walk.ends_intact());
}

#[test]
fn more_holes_than_a_record_names_are_not_mended() {
    for (holes, intact) in [
        (HOLES_PER_RECORD_MAX, true),
        (HOLES_PER_RECORD_MAX + 1, false),
    ] {
        let mut walk = Walk::new();
        for _ in 0..holes {
            walk.say(Body::State(Bytes::new()));
            walk.lose(1);
        }
        let known = named(walk.slivers.holes[0].clone());
        assert_eq!(known.len(), HOLES_PER_RECORD_MAX);
        walk.says_damaged();
        walk.say(Body::Mended(known));
        assert_eq!(walk.ends_intact(), intact, "{holes} holes");
    }
}

/// What was committed behind a hole is redone, now and at each further start, although the log ends
/// before the hole: who compares what is here with others' contents is told the same each time.
#[test]
fn what_is_certain_behind_a_hole_stays() {
    let settled = |mut walk: Walk| {
        let mut slice = walk.slivers.slices.remove(&SLICE).expect("it is there");
        let outcome = slice.finish();
        let entries = outcome.settled.iter().map(|redo| match &redo.source {
            Source::Entry(entry) => entry.sequence.0,
            Source::Install { as_of, .. } => as_of.0,
        });
        (entries.collect::<Vec<_>>(), outcome)
    };
    let journal = || {
        let mut walk = Walk::new();
        walk.write(1);
        walk.write(2);
        walk.lose(1);
        walk.write(4);
        walk.write(5);
        walk.say_as_of(4, Body::State(Bytes::new()));
        walk
    };
    let (first, outcome) = settled(journal());
    assert_eq!(first, [1, 2, 4]);
    assert_eq!(outcome.prepared.1, Sequence(2));
    let mut again = journal();
    again.say(outcome.record_of_cut().expect("the log was cut"));
    let (second, outcome) = settled(again);
    assert_eq!(second, first);
    assert_eq!(outcome.prepared.1, Sequence(2));
    assert_eq!(outcome.committed.1, Sequence(2));
}
