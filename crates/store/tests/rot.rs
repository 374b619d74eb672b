//! What has rotted in the journal while the store is in use is found by a check, and written again: right wherever power
//! fails meanwhile.

use std::collections::BTreeMap;

use holdfast_format::{Body, GroupHeader, HEADER_BLOCK, SegmentHeader};
use holdfast_model::{
    BLOCK_SIZE, BlockIndex, BlockRange, Change, Epoch, Sequence, SliceId, StoreId,
};
use holdfast_stdx::Bytes;
use holdfast_store::{BlockRead, ReadSource, RecoveredSlice, StoreToken, View};

use crate::bench::{
    Bench, Devices, JOURNAL_BYTES, OTHER, Off, SEGMENT_BYTES, SLICE, THIRD, blocks, open, opened,
};

/// What the store of the bench is.
const STORE: StoreId = StoreId(2);
const NONCE: u64 = 4;
/// Where the journal of the bench begins.
const JOURNAL: usize = 2 << 20;

/// The first 8 blocks of a page.
fn range(page: u32) -> BlockRange {
    BlockRange::new(64 * page, 8)
}

/// A store with something of each kind in its journal, over more than one segment: states, positions, sets of pages, entries
/// that nobody has decided, and a copy of which nothing is in its page yet.
fn in_use() -> Bench {
    let mut bench = Bench::filled_with_journal(2 * JOURNAL_BYTES);
    for (slice, fill) in [(SLICE, 1), (OTHER, 2), (THIRD, 3)] {
        let state = Bytes::from(vec![fill; 100]);
        let now = bench.now;
        (bench.store).put_state(now, slice, state, StoreToken(1), &mut bench.out);
    }
    bench.work().expect("there is power");
    for fill in 40..44 {
        bench.begin_as_of(Sequence(0), OTHER, range(0), vec![fill; 8 * BLOCK_SIZE]);
        bench.work().expect("there is power");
    }
    for fill in 20..29 {
        let data = vec![fill; 8 * BLOCK_SIZE];
        let other = BlockRange::new(64 * 5 + 8, 8);
        bench.append(SLICE, other, data).expect("there is power");
        bench.rest().expect("there is power");
    }
    let now = bench.now;
    let at = (Epoch(1), Sequence(9));
    (bench.store).restart_log(now, THIRD, at, StoreToken(1), &mut bench.out);
    bench.work().expect("there is power");
    bench.store.reserve(THIRD, range(1)).expect("there is room");
    let copy = Change::write(BlockIndex(64), Bytes::from(vec![9; 8 * BLOCK_SIZE]));
    let as_of = Sequence(9);
    (bench.store)
        .install(now, THIRD, copy, as_of, StoreToken(1), &mut bench.out)
        .expect("it can be ordered");
    bench.work().expect("there is power");
    bench
}

/// What the journal has in it that matters: where, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    SegmentHeader,
    State,
    Position,
    Pages,
    Entry,
    Copy,
    Nothing,
    /// Data of an entry or a copy.
    Data,
}

/// The live groups on the medium, and the headers of their segments: of each kind all places.
fn places(devices: &Devices) -> BTreeMap<Kind, Vec<usize>> {
    let device = Bytes::from(devices[0].clone());
    let journal_end = JOURNAL + 2 * JOURNAL_BYTES as usize;
    let mut groups = Vec::new();
    for at in (JOURNAL..journal_end).step_by(HEADER_BLOCK) {
        let segment_end = (at - JOURNAL) / SEGMENT_BYTES as usize;
        let end = JOURNAL + (segment_end + 1) * SEGMENT_BYTES as usize;
        let group = GroupHeader::read(&device.slice(at..end), STORE, NONCE);
        groups.extend(group.map(|group| (at, group)));
    }
    let last = groups.iter().max_by_key(|(_, group)| group.header.group);
    let oldest = last.expect("there are groups").1.header.oldest_group;
    let mut places: BTreeMap<Kind, Vec<usize>> = BTreeMap::new();
    for (at, group) in groups.iter().filter(|(_, it)| it.header.group >= oldest) {
        let first = (at - JOURNAL).is_multiple_of(SEGMENT_BYTES as usize);
        assert!(!first, "a segment begins with a header");
        if (at - JOURNAL - HEADER_BLOCK).is_multiple_of(SEGMENT_BYTES as usize) {
            let header = at - HEADER_BLOCK;
            let index = (header - JOURNAL) / SEGMENT_BYTES as usize;
            let block = &device[header..*at];
            let decoded = SegmentHeader::decode(block, STORE, NONCE, index as u32);
            assert!(decoded.is_ok());
            places
                .entry(Kind::SegmentHeader)
                .or_default()
                .push(header + 40);
        }
        let kinds = group.records.iter().map(|read| match &read.record.body {
            Body::Entry(_) => Kind::Entry,
            Body::Install { .. } => Kind::Copy,
            Body::State(_) => Kind::State,
            Body::Position { .. } => Kind::Position,
            Body::Pages(_) | Body::Checkpoint(_) => Kind::Pages,
            _ => Kind::Nothing,
        });
        for kind in kinds {
            places.entry(kind).or_default().push(at + 8);
        }
        if group.bytes > HEADER_BLOCK {
            let data = at + group.bytes - 100;
            places.entry(Kind::Data).or_default().push(data);
        }
    }
    places
}

/// What an opened store has of each slice, and what is in some blocks.
fn contents(bench: &mut Bench) -> (BTreeMap<SliceId, RecoveredSlice>, Vec<Vec<BlockRead>>) {
    let slices = opened(bench).slices.clone();
    let mut all = vec![blocks(bench, 5), blocks(bench, 6)];
    for (slice, page, view) in [
        (SLICE, 5, View::Committed),
        (OTHER, 0, View::Prepared),
        (OTHER, 0, View::Committed),
        (THIRD, 1, View::Committed),
    ] {
        let range = BlockRange::new(64 * page, 16);
        let token = StoreToken(0);
        bench.begin_read(slice, range, view, ReadSource::Media, token);
        bench.work().expect("there is power");
        all.push(bench.read.take().expect("the read ends"));
    }
    (slices, all)
}

fn mended(bench: &Bench) -> u64 {
    bench.store.usage().journal.mended
}

#[test]
fn whatever_has_rotted_is_found_and_mended() {
    let bench = in_use();
    let expected = contents(&mut open(&bench.devices, &[0, 1]));
    let all = places(&bench.devices);
    let kinds: Vec<Kind> = all.keys().copied().collect();
    let wanted = [
        Kind::SegmentHeader,
        Kind::State,
        Kind::Position,
        Kind::Pages,
        Kind::Entry,
        Kind::Copy,
        Kind::Data,
    ];
    assert!(wanted.iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
    for (kind, places) in all {
        let (first, last) = (places[0], *places.last().expect("one"));
        for place in [first, places[places.len() / 2], last] {
            let mut bench = in_use();
            bench.devices[0][place] ^= 1;
            bench.check_journal().expect("there is power");
            assert_eq!(bench.rotten.len(), 1, "{kind:?} at {place}");
            let found = bench.rotten[0].offset as usize;
            assert!(found <= place && place < found + 16 * BLOCK_SIZE);
            assert_eq!(mended(&bench), 1, "{kind:?} at {place}");
            bench.check_journal().expect("there is power");
            assert_eq!(bench.rotten.len(), 1, "it is well again");
            assert_eq!(contents(&mut open(&bench.devices, &[0, 1])), expected);
        }
    }
}

/// What the medium will not read for a while, and what it has lost for good.
#[test]
fn nothing_is_lost_where_power_fails_while_it_is_mended() {
    let bench = in_use();
    let expected = contents(&mut open(&bench.devices, &[0, 1]));
    for (kind, places) in places(&bench.devices) {
        let place = places[places.len() / 2];
        for comes_back in [true, false] {
            let mut left = 0;
            loop {
                let mut bench = in_use();
                bench.left = left;
                if comes_back {
                    bench.unreadable = Some(place as u64);
                } else {
                    bench.devices[0][place] ^= 1;
                }
                let is_done = bench.check_journal().is_ok();
                let is_mended = mended(&bench) == 1;
                let what = format!("{kind:?} at {place} after {left}, {comes_back}");
                assert!(is_mended || !is_done, "{what}");
                let mut bench = open(&bench.devices, &[0, 1]);
                let all = opened(&bench).slices.values();
                let is_intact = all.clone().all(|slice| slice.intact);
                let has_lost = all.clone().any(|slice| slice.tail_suspect);
                assert!(is_intact || !comes_back && !is_mended, "{what}");
                if is_intact && (comes_back || is_mended || !has_lost) {
                    let (mut slices, found) = contents(&mut bench);
                    for (id, slice) in &mut slices {
                        slice.tail_suspect = expected.0[id].tail_suspect;
                    }
                    assert_eq!((slices, found), expected, "{what}");
                }
                if is_done {
                    break;
                }
                left += 1;
            }
        }
    }
}

/// A block of zeros that was written, and of which the journal's copy rotted: its checksum says that it was zeros.
#[test]
fn what_was_zeros_is_zeros_when_it_rots_in_the_journal() {
    let rotten = || {
        let mut bench = Bench::filled();
        let mut data = vec![0; 2 * BLOCK_SIZE];
        data[0] = 1;
        let range = BlockRange::new(64 * 5, 2);
        bench.append(SLICE, range, data).expect("there is power");
        // The last entry's data would be taken for a write that power cut short.
        bench.write_page(6);
        bench
    };
    for place in [0, 1] {
        let mut bench = rotten();
        let data = &places(&bench.devices)[&Kind::Data];
        let last = data[data.len() - 2];
        bench.devices[0][last - (1 - place) * BLOCK_SIZE] ^= 1;
        let mut bench = open(&bench.devices, &[0, 1]);
        for _ in 0..2 {
            let found = blocks(&mut bench, 5);
            let is_bad = matches!(found[0], BlockRead::Bad { .. });
            assert_eq!(is_bad, place == 0, "{place}");
            assert!(found[1] == BlockRead::Zero, "{place}");
            assert!(matches!(found[2], BlockRead::Data { .. }), "{place}");
            bench.rest().expect("there is power");
        }
    }
}

/// A check that has nothing to find changes nothing.
#[test]
fn a_sound_journal_is_left_alone() -> Result<(), Off> {
    let mut bench = in_use();
    bench.rest()?;
    let before = bench.devices.clone();
    bench.check_journal()?;
    assert_eq!(bench.rotten, []);
    assert!(bench.devices == before);
    let done = bench.store.usage().journal;
    assert_eq!((done.rounds, done.rotten, done.mended), (1, 0, 0));
    assert!(done.bytes > SEGMENT_BYTES, "more than a segment is in use");
    Ok(())
}
