//! Two nodes, of which one may follow a copy of the metadata.

use holdfast_engine::Astray;
use holdfast_model::record::{
    Bookmark, BookmarkRecord, CLUSTER_KEY, DenialRecord, NodeStanding, Record, VolumeRecord,
};
use holdfast_model::{Epoch, Policy};
use holdfast_stdx::Duration;
use holdfast_wire::{Message, Query, Stance, Vouch, Vouched, WIRE_VERSION};

use crate::bench;
use crate::bench::{Bench, PEER, first_record, record_of_peer, store_of};
use holdfast_model::record::SliceRecord;

const THEIRS: Bookmark = Bookmark {
    use_id: 77,
    number: 3,
};

fn new() -> Bench {
    let record = first_record();
    let slice = (SliceRecord::key(bench::SLICE), record.encode());
    let mut bench = Bench::new(&[slice, record_of_peer(store_of(PEER), 1)]);
    bench.connect_as(WIRE_VERSION);
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

const MINUTE: Duration = Duration::from_secs(60);

/// The peer says so of a bookmark, and has followed what it looks at for so long.
fn answers(bench: &mut Bench, bookmark: Bookmark, is_there: bool, age: Duration) {
    let vouched = Vouched {
        bookmark,
        is_there,
        age,
    };
    bench.receive(Message::from(vouched));
}

/// What the node says of the peer's bookmark at last, over a new link, and of those who follow the same with it.
fn says(bench: &mut Bench) -> (bool, Stance) {
    bench.disconnect();
    bench.connect_as(WIRE_VERSION);
    bench.sent.clear();
    let bookmark = THEIRS;
    bench.receive(Message::from(Vouch { bookmark }));
    let said = bench.sent.iter().rev().find_map(|message| match message {
        Message::Vouched(vouched) => {
            assert_eq!(vouched.bookmark, bookmark);
            Some(vouched.is_there)
        }
        _ => None,
    });
    let stance = bench.sent.iter().rev().find_map(|message| match message {
        Message::Camp(camp) => Some(camp.stance),
        _ => None,
    });
    (
        said.expect("it answers"),
        stance.expect("it says who follows the same"),
    )
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
fn a_node_whose_bookmark_is_denied_believes_nothing_until_it_is_found() {
    let mut bench = new();
    let own = asked(&mut bench)[0];
    answers(&mut bench, THEIRS, false, MINUTE);
    let earlier = Bookmark {
        number: own.number - 1,
        ..own
    };
    answers(&mut bench, earlier, false, MINUTE);
    let astray = |bench: &Bench| bench.engine.status().astray;
    assert_eq!(astray(&bench), None, "it is not the one that was asked for");
    answers(&mut bench, own, false, MINUTE);
    let disowned = Some(Astray::Disowned(PEER));
    assert_eq!(astray(&bench), disowned);
    let revision = bench.revision();
    bench.pass(5000);
    assert_eq!(astray(&bench), disowned);
    assert_eq!(bench.revision(), revision, "nothing is changed");
    // It asks again, but not all the time.
    let again = asked(&mut bench);
    assert!((3..=6).contains(&again.len()), "{again:?}");
    assert!(again.iter().all(|it| *it == own));
    answers(&mut bench, own, true, MINUTE);
    bench.pass(1000);
    assert_eq!(astray(&bench), None);
    assert_eq!(bench.revision(), revision, "the bookmark is still there");
    let next = asked(&mut bench);
    assert!(next.len() <= 1, "{next:?}");
}

/// The metadata has the volume of the slice.
fn has_volume(bench: &mut Bench) {
    let volume = VolumeRecord {
        schema: 1,
        volume: bench::SLICE.volume,
        name: "data".into(),
        bytes: 1 << 20,
        policy: Policy::None,
        target: "iqn.2026-11.example:data".into(),
        lun: 0,
    };
    let key = VolumeRecord::key(volume.volume);
    bench.put(&key, volume.encode());
    bench.pass(1000);
}

/// Whether each volume is told as served, and how many slices are led.
fn told(bench: &Bench) -> (Vec<bool>, usize) {
    let status = bench.engine.status();
    let served = status.volumes.iter().map(|volume| volume.served);
    let led = status.replicas.iter().filter(|replica| replica.leads);
    (served.collect(), led.count())
}

/// Hosts are sent away, and others do not hear it.
#[test]
fn a_disowned_node_says_that_it_serves_nothing() {
    let mut bench = new();
    has_volume(&mut bench);
    assert_eq!(told(&bench), (vec![true], 1));
    let own = asked(&mut bench)[0];
    answers(&mut bench, own, false, MINUTE);
    assert!(bench.engine.status().astray.is_some());
    assert_eq!(told(&bench), (vec![false], 0));
}

/// It knows them by what it holds.
#[test]
fn a_node_that_does_not_register_tells_the_volumes_that_it_does_not_serve() {
    let mut bench = new();
    has_volume(&mut bench);
    bench.restart_without(CLUSTER_KEY);
    assert_eq!(bench.engine.status().astray, Some(Astray::NoCluster));
    assert_eq!(told(&bench), (vec![false], 0));
}

/// It would lead as soon as those are killed who know better, or while they do not reach their metadata.
#[test]
fn a_denial_stands_until_the_peer_finds_the_bookmark() {
    let mut bench = new();
    let own = asked(&mut bench)[0];
    answers(&mut bench, own, false, MINUTE);
    let disowned = Some(Astray::Disowned(PEER));
    for _ in 0..2 {
        bench.disconnect();
        bench.pass(60_000);
        assert_eq!(bench.engine.status().astray, disowned);
        bench.connect_as(WIRE_VERSION);
        bench.pass(60_000);
        assert_eq!(bench.engine.status().astray, disowned);
    }
    leaves(&mut bench, THEIRS);
    assert!(says(&mut bench).0);
    answers(&mut bench, own, true, MINUTE);
    bench.pass(1000);
    assert_eq!(bench.engine.status().astray, None);
}

#[test]
fn whoever_has_followed_for_longer_is_not_put_off_by_one_who_comes() {
    let mut bench = new();
    bench.pass(200_000);
    let own = asked(&mut bench)[0];
    assert!(bench.engine.status().strangers.is_empty());
    answers(&mut bench, own, false, MINUTE);
    assert_eq!(bench.engine.status().astray, None);
    assert_eq!(bench.engine.status().strangers, [PEER], "it goes on alone");
    bench.connect_as(WIRE_VERSION);
    answers(&mut bench, own, false, 5 * MINUTE);
    assert_eq!(bench.engine.status().astray, Some(Astray::Disowned(PEER)));
}

#[test]
fn a_bookmark_is_found_if_it_or_a_later_one_of_its_use_is_there() {
    let mut bench = new();
    assert!(!says(&mut bench).0);
    for (number, is_there) in [(2, false), (3, true), (4, true)] {
        leaves(&mut bench, Bookmark { number, ..THEIRS });
        assert_eq!(says(&mut bench).0, is_there);
    }
    let use_id = THEIRS.use_id + 1;
    leaves(&mut bench, Bookmark { use_id, ..THEIRS });
    assert!(!says(&mut bench).0);
}

/// Whoever goes on by that has to know, also after it was started again.
#[test]
fn whoever_does_not_go_on_says_so_and_why() {
    let mut bench = new();
    let own = asked(&mut bench)[0];
    assert_eq!(
        says(&mut bench),
        (false, Stance::Undecided),
        "it has just come"
    );
    answers(&mut bench, own, false, MINUTE);
    assert_eq!(says(&mut bench), (false, Stance::Undecided));
    answers(&mut bench, own, false, 2 * MINUTE);
    assert_eq!(says(&mut bench), (false, Stance::Yields));
    leaves(&mut bench, THEIRS);
    answers(&mut bench, own, true, 2 * MINUTE);
    assert_eq!(says(&mut bench), (true, Stance::Sure));
}

/// What it says of slices may mean something else. Where nobody can tell it takes part, after a while.
#[test]
fn nothing_is_heard_of_a_peer_before_it_is_known_to_follow_the_same_metadata() {
    let asks_how_far = || -> Message {
        let (slice, epoch) = (bench::SLICE, Epoch(9));
        Query { slice, epoch }.into()
    };
    let is_known = |bench: &Bench| bench.engine.status().peers == [PEER];
    for is_there in [true, false] {
        let mut bench = new();
        assert!(!is_known(&bench));
        bench.receive(asks_how_far());
        if is_there {
            leaves(&mut bench, THEIRS);
        }
        bench.sent.clear();
        let bookmark = THEIRS;
        bench.receive(Message::from(Vouch { bookmark }));
        assert_eq!(is_known(&bench), is_there);
        let replies = |bench: &Bench| {
            let sent = bench.sent.iter();
            sent.filter(|it| matches!(it, Message::QueryReply(_)))
                .count()
        };
        assert_eq!(replies(&bench), usize::from(is_there), "it had waited");
        bench.receive(asks_how_far());
        bench.pass(3000);
        assert_eq!(replies(&bench), 2 * usize::from(is_there));
        assert_eq!(is_known(&bench), is_there);
    }
    let mut bench = new();
    bench.pass(300);
    assert!(is_known(&bench));
}

/// It has come to a copy, and found this node's bookmark there, from before.
#[test]
fn a_peer_that_is_not_found_follows_another_copy_though_it_finds_this_node() {
    let mut bench = new();
    let own = asked(&mut bench)[0];
    answers(&mut bench, own, true, 9 * MINUTE);
    assert_eq!(bench.engine.status().astray, None);
    assert!(!says(&mut bench).0);
    answers(&mut bench, own, true, 9 * MINUTE);
    let disowned = Some(Astray::Disowned(PEER));
    assert_eq!(bench.engine.status().astray, disowned);
    assert!(bench.engine.status().peers.is_empty());
    assert_eq!(bench.engine.status().strangers, [PEER]);
}

/// The question was lost, or nothing answered there.
/// What it has said of its camp, before it was known to be on this side, does not count any more.
#[test]
fn whoever_has_changed_sides_is_asked_again() {
    let mut bench = new();
    let own = asked(&mut bench)[0];
    answers(&mut bench, own, false, MINUTE);
    leaves(&mut bench, THEIRS);
    bench.disconnect();
    bench.connect_as(WIRE_VERSION);
    bench.receive(Message::from(Vouch { bookmark: THEIRS }));
    asked(&mut bench);
    answers(&mut bench, own, true, MINUTE);
    assert_eq!(asked(&mut bench), [own]);
    answers(&mut bench, own, true, MINUTE);
    assert_eq!(asked(&mut bench), []);
}

#[test]
fn who_has_not_answered_is_asked_again() {
    let mut bench = new();
    asked(&mut bench);
    bench.pass(3500);
    let again = asked(&mut bench);
    assert!((2..=4).contains(&again.len()), "{again:?}");
    answers(&mut bench, again[0], true, MINUTE);
    bench.pass(50_000);
    assert!(asked(&mut bench).len() <= 1);
    bench.pass(70_000);
    assert!(!asked(&mut bench).is_empty(), "a copy may come later");
}

fn denies(bench: &mut Bench) {
    let denial = DenialRecord {
        schema: 1,
        node: PEER,
        store: store_of(PEER),
        overruled: false,
    };
    bench.put(&DenialRecord::key(PEER), denial.encode());
}

fn is_overruled(bench: &Bench) -> bool {
    let denial: Option<DenialRecord> = bench.document(&DenialRecord::key(PEER));
    denial.is_some_and(|it| it.overruled)
}

/// It has come at the same time, and nobody can tell which of the two is right.
#[test]
fn a_node_that_has_just_come_believes_nothing_that_another_denies_in_it() {
    let denied = Some(Astray::Denied(PEER));
    let mut bench = new();
    bench.intend(bench::ME, NodeStanding::Active);
    bench.intend(PEER, NodeStanding::Active);
    denies(&mut bench);
    assert_eq!(bench.engine.status().astray, denied);
    bench.pass(200_000);
    assert_eq!(bench.engine.status().astray, denied, "time changes nothing");
    assert!(!is_overruled(&bench));
    // Over another connection it is the same.
    bench.end_watch();
    bench.pass(5000);
    assert_eq!(bench.engine.status().astray, denied);
    // Who is removed has nothing to say.
    bench.intend(PEER, NodeStanding::Removed);
    bench.pass(3000);
    assert_eq!(bench.engine.status().astray, None);
}

/// So it stays, over other connections and starts.
#[test]
fn a_node_that_has_gone_on_for_long_overrules_the_only_other_one() {
    let mut bench = new();
    bench.pass(50_000);
    // What answers is reached anew: that it is the same is known by the bookmark.
    bench.end_watch();
    bench.pass(50_000);
    denies(&mut bench);
    bench.pass(2000);
    assert_eq!(bench.engine.status().astray, None);
    assert!(is_overruled(&bench));
    bench.end_watch();
    bench.pass(5000);
    assert_eq!(bench.engine.status().astray, None);
    bench.restart(false);
    assert_eq!(bench.engine.status().astray, None);
}

/// The one that denies is gone for good, and can take nothing back.
#[test]
fn an_operator_overrules_a_denial() {
    let mut bench = new();
    denies(&mut bench);
    assert_eq!(bench.engine.status().astray, Some(Astray::Denied(PEER)));
    bench.restart(true);
    let status = bench.engine.status();
    assert_eq!((status.astray, status.registered), (None, true));
    assert!(is_overruled(&bench));
    assert_eq!(bench.engine.take_over_used(), Some(true));
}
