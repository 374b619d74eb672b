//! Two nodes, of which one may follow a copy of the metadata.

mod bench;

use holdfast_engine::Astray;
use holdfast_model::record::{Bookmark, BookmarkRecord, Record};
use holdfast_stdx::Duration;
use holdfast_wire::{Message, Vouch, Vouched};

use bench::{Bench, PEER, first_record, store_of};
use holdfast_model::record::SliceRecord;

const THEIRS: Bookmark = Bookmark {
    use_id: 77,
    number: 3,
};

fn new() -> Bench {
    let record = first_record();
    let mut bench = Bench::new(&[(SliceRecord::key(bench::SLICE), record.encode())]);
    bench.connect();
    bench
}

/// What the node has asked the peer to look for since it was last asked.
fn asked(bench: &mut Bench) -> Vec<Bookmark> {
    let sent = std::mem::take(&mut bench.sent);
    let asked = sent.into_iter().filter_map(|message| match message {
        Message::Vouch(vouch) => Some(vouch.bookmark),
        _ => None,
    });
    asked.collect()
}

fn answers(bench: &mut Bench, bookmark: Bookmark, is_there: bool) {
    bench.receive(Message::from(Vouched { bookmark, is_there }));
}

/// What it says of the peer's bookmark, which is so old.
fn says(bench: &mut Bench, age: Duration) -> Vec<bool> {
    bench.sent.clear();
    let bookmark = THEIRS;
    bench.receive(Message::from(Vouch { bookmark, age }));
    let said = bench.sent.iter().filter_map(|message| match message {
        Message::Vouched(vouched) => {
            assert_eq!(vouched.bookmark, bookmark);
            Some(vouched.is_there)
        }
        _ => None,
    });
    said.collect()
}

fn leaves(bench: &mut Bench, bookmark: Bookmark) {
    let record = BookmarkRecord {
        schema: 1,
        node: PEER,
        store: store_of(PEER),
        uses: 1,
        bookmark,
    };
    bench.put(&BookmarkRecord::key(PEER), record.encode());
}

#[test]
fn a_node_whose_bookmark_is_not_found_believes_nothing_until_it_is() {
    let mut bench = new();
    let own = asked(&mut bench)[0];
    answers(&mut bench, THEIRS, false);
    let earlier = Bookmark {
        number: own.number - 1,
        ..own
    };
    answers(&mut bench, earlier, false);
    assert_eq!(
        bench.engine.status().astray,
        None,
        "it is not the one that was asked for"
    );
    answers(&mut bench, own, false);
    assert_eq!(bench.engine.status().astray, Some(Astray::Disowned(PEER)));
    let revision = bench.revision();
    bench.pass(10_000);
    assert_eq!(bench.engine.status().astray, Some(Astray::Disowned(PEER)));
    assert_eq!(bench.revision(), revision, "nothing is changed");
    // It asks again, but not all the time.
    let again = asked(&mut bench);
    assert!((5..=11).contains(&again.len()), "{again:?}");
    assert!(again.iter().all(|it| *it == own));
    answers(&mut bench, own, true);
    bench.pass(1000);
    assert_eq!(bench.engine.status().astray, None);
    let next = asked(&mut bench);
    assert!(next.iter().all(|it| it.number == own.number + 1) && !next.is_empty());
}

#[test]
fn whoever_follows_for_longer_is_not_put_off_by_who_comes() {
    let mut bench = new();
    let minute = Duration::from_secs(60);
    assert_eq!(says(&mut bench, Duration::ZERO), [false]);
    assert_eq!(says(&mut bench, minute / 2), [false]);
    assert!(says(&mut bench, 2 * minute).is_empty());
    bench.pass(120_000);
    assert_eq!(says(&mut bench, 2 * minute), [false]);
    // Later ones of the same start show it as well.
    for (number, is_there) in [(2, false), (3, true), (4, true)] {
        leaves(&mut bench, Bookmark { number, ..THEIRS });
        assert_eq!(says(&mut bench, Duration::ZERO), [is_there]);
    }
    assert_eq!(says(&mut bench, 9 * minute), [true]);
    let use_id = THEIRS.use_id + 1;
    leaves(&mut bench, Bookmark { use_id, ..THEIRS });
    assert_eq!(says(&mut bench, Duration::ZERO), [false]);
}

#[test]
fn whoever_is_disowned_says_only_whom_it_finds() {
    let mut bench = new();
    let own = asked(&mut bench)[0];
    answers(&mut bench, own, false);
    assert!(says(&mut bench, Duration::ZERO).is_empty());
    leaves(&mut bench, THEIRS);
    assert_eq!(says(&mut bench, Duration::ZERO), [true]);
}
