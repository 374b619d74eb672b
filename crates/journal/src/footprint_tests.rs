//! Whatever waits to be written takes no more segments than its footprint says.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_format::{Body, GroupWriter, Record};
use holdfast_stdx::{Bytes, Prng};

use crate::tests::{SEGMENT, entry, formatted, recover, write};
use crate::{Footprint, Journal};

fn state(bytes: usize) -> Record {
    Record {
        body: Body::State(Bytes::from(vec![1; bytes])),
        ..entry(1, 0)
    }
}

fn footprint_of(records: &[Record]) -> Footprint {
    let mut footprint = Footprint::default();
    for record in records {
        let (header, data) = GroupWriter::size(record);
        footprint.add(header, data);
    }
    footprint
}

/// What the records of one kind or another look like that are written together.
fn draw(prng: &mut Prng) -> Vec<Record> {
    let blocks_max = *prng.choose(&[1, 4, 20, 32]);
    let count_max = *prng.choose(&[2, 12, 60]);
    let count = 1 + prng.below(count_max);
    let mut record = |sequence| match prng.below(4) {
        0 => state(prng.below(16 << 10) as usize),
        1 => entry(sequence, blocks_max as usize),
        _ => entry(sequence, prng.below(1 + blocks_max) as usize),
    };
    let mut bytes = 0;
    let records = (1..=count).map(&mut record);
    let fit = records.take_while(|record| {
        let (header, data) = GroupWriter::size(record);
        bytes += (header + data) as u64;
        bytes <= u64::from(SEGMENT)
    });
    fit.collect()
}

fn append(journal: &mut Journal, records: &[Record]) {
    for record in records {
        journal.append(0, record.clone(), 0);
    }
}

/// Nothing is trimmed: the segments that are not free any more are those that were begun.
#[test]
fn no_more_segments_are_begun_than_foretold() {
    let mut exact = 0;
    for seed in 0..400 {
        let mut prng = Prng::from_seed(seed);
        let mut memory = formatted();
        let (mut journal, _) = recover(&mut memory, 1);
        for blocks in 0..prng.below(12) {
            append(&mut journal, &[entry(1, blocks as usize)]);
            write(&mut journal, &mut memory);
        }
        let free = journal.free_segments();
        let (first, more) = (draw(&mut prng), draw(&mut prng));
        append(&mut journal, &first);
        let foretold = journal.segments_for(0, &footprint_of(&more));
        if prng.chance(1, 2) {
            // A part of it has been written when the others come.
            write(&mut journal, &mut memory);
        }
        append(&mut journal, &more);
        while journal.waiting(0) > 0 {
            write(&mut journal, &mut memory);
        }
        let begun = free - journal.free_segments();
        assert!(begun <= foretold, "seed {seed}: {begun} of {foretold}");
        exact += u32::from(begun == foretold);
    }
    assert!(exact > 100, "it tells much more than there is: {exact}");
}

#[test]
fn entries_of_half_a_segment_fill_one_each() {
    let mut memory = formatted();
    let (mut journal, _) = recover(&mut memory, 1);
    let half = (SEGMENT / 2 / 4096) as usize;
    let halves: Vec<Record> = (1..=3).map(|sequence| entry(sequence, half)).collect();
    let footprint = footprint_of(&halves);
    assert_eq!(journal.segments_for(0, &footprint), 3);
    let free = journal.free_segments();
    append(&mut journal, &halves);
    while journal.waiting(0) > 0 {
        write(&mut journal, &mut memory);
        assert_eq!(
            free - journal.free_segments() + journal.segments_for(0, &Footprint::default()),
            3
        );
    }
}
