//! A node, and metadata of which there are two copies that both go on.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use holdfast_model::metadata::{
    MetadataAnswer, MetadataError, MetadataRequest, Operation, Selector,
};
use holdfast_model::record::{
    BookmarkRecord, ClusterRecord, SETTINGS_KEY, SettingsRecord, SliceRecord,
};
use holdfast_model::{NodeId, SliceId, VolumeId};
use holdfast_stdx::{Bytes, Instant};

use super::super::processes::{
    FOUR, MINUTE, Metadata, ONE, Process, STEP, changes, cluster_record, made, registered, run,
};
use super::*;
use crate::LinkId;
use crate::vouching::Asked;
use crate::{Astray, Lost, Notice};

const FORKED: Astray = Astray::Lacking(Lost::Bookmark { is_other: true });
const GONE: Astray = Astray::Lacking(Lost::Bookmark { is_other: false });

/// Others go on with it.
fn goes_on(metadata: &mut Metadata) {
    let put = |number| {
        let record = ClusterRecord {
            next_volume: VolumeId(number),
            ..cluster_record(0)
        };
        Operation::put(CLUSTER_KEY.into(), record.encode())
    };
    for number in 2..30 {
        metadata.transact(changes([put(number)]));
    }
}

const SCRUB_RATE: u64 = 12_345_678;

/// Somebody changes the cluster's settings.
fn changes_settings(metadata: &mut Metadata) {
    let record = SettingsRecord {
        scrub_rate: SCRUB_RATE,
        ..SettingsRecord::default()
    };
    let put = Operation::put(SETTINGS_KEY.into(), record.encode());
    metadata.transact(changes([put]));
}

/// In the end the node follows, and goes by what was changed.
fn goes_by_changed_settings(now: &mut Instant, metadata: &mut Metadata, node: &mut Process) {
    go(now, metadata, node);
    assert!(is_following(node));
    assert_eq!(node.cluster.settings.scrub_rate, SCRUB_RATE);
}

fn is_following(process: &Process) -> bool {
    process.cluster.is_ready() && !process.cluster.is_astray()
}

/// How a node comes to other metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Its watch ends.
    Anew,
    /// Its watch goes on.
    On,
    /// It is started again.
    Start,
}

fn go(now: &mut Instant, metadata: &mut Metadata, node: &mut Process) {
    run(now, STEP * 15, metadata, &mut [node]);
}

/// The node was cut off, and a backup was brought back where it found it, while others went on with the one before.
#[test]
fn whoever_followed_a_copy_does_not_follow_the_other_one() {
    for (there, back) in [
        (Way::Anew, Way::Anew),
        (Way::Anew, Way::Start),
        (Way::On, Way::On),
        (Way::On, Way::Start),
        (Way::Start, Way::Start),
        (Way::Start, Way::On),
    ] {
        let (mut right, mut now, mut node) = registered();
        let mut copy = right.clone();
        let comes = |node: &mut Process, now, way, uses| match way {
            Way::Anew => node.disconnect(now),
            Way::On => node.reconnect(now),
            Way::Start => *node = node.again(uses, false),
        };
        comes(&mut node, now, there, 2);
        // Nothing says that this is not what it has followed.
        go(&mut now, &mut copy, &mut node);
        assert!(is_following(&node), "{there:?}");
        goes_on(&mut right);
        let before = right.keys.clone();
        comes(&mut node, now, back, 3);
        go(&mut now, &mut right, &mut node);
        assert_eq!(node.cluster.astray(), Some(FORKED), "{there:?} {back:?}");
        assert_eq!(node.told, [Notice::MetadataAstray(FORKED)]);
        let denial = right.keys.remove(&DenialRecord::key(NodeId(1)));
        assert!(
            denial.is_some() && right.keys == before,
            "nothing else is changed in it"
        );
        // What it had followed is back.
        node.disconnect(now);
        go(&mut now, &mut copy, &mut node);
        assert!(
            is_following(&node),
            "{there:?} {back:?} {:?}",
            node.cluster.astray()
        );
        // What it holds counts for nothing, as an operator says. It has begun anew then, and wanders no more than before.
        let mut node = node.again(4, true);
        go(&mut now, &mut right, &mut node);
        assert!(is_following(&node) && node.is_doubted);
        let mut other = right.clone();
        node.reconnect(now);
        go(&mut now, &mut other, &mut node);
        assert!(is_following(&node));
        goes_on(&mut right);
        node.reconnect(now);
        go(&mut now, &mut right, &mut node);
        assert_eq!(node.cluster.astray(), Some(FORKED));
        let mut node = node.again(5, false);
        go(&mut now, &mut other, &mut node);
        assert!(is_following(&node) && !node.is_doubted);
    }
}

/// Neither what a watch tells nor a record that was asked for, nor is anything changed.
#[test]
fn nothing_is_believed_over_another_connection_before_the_bookmark_is_found_there() {
    let (mut right, mut now, mut node) = registered();
    let mut copy = right.clone();
    node.reconnect(now);
    go(&mut now, &mut right, &mut node);
    goes_on(&mut copy);
    node.reconnect(now);
    let (token, _) = node.watch.unwrap();
    let events = copy.log.iter().map(|(_, event)| event.clone());
    let answer = MetadataAnswer::Watched {
        revision: Revision(copy.revision),
        events: events.collect(),
    };
    node.cluster.handle_answer(now, token, answer);
    let before = node.cluster.notes.noted();
    node.keep(now);
    assert!(!node.cluster.may_change());
    assert_eq!(node.cluster.notes.noted(), before);
    go(&mut now, &mut copy, &mut node);
    assert_eq!(node.cluster.astray(), Some(FORKED));
    // Back over another one: what had been held back is told.
    let (mut right, mut now, mut node) = registered();
    goes_on(&mut right);
    node.reconnect(now);
    let seen = node.cluster.past.seen();
    go(&mut now, &mut right, &mut node);
    assert!(is_following(&node) && node.cluster.past.seen() > seen);
}

/// Its watch goes on over a third connection before it is known what the second one had told of.
#[test]
fn what_was_held_back_is_not_lost_with_its_connection() {
    let (mut right, mut now, mut node) = registered();
    node.reconnect(now);
    let renewal = node.cluster.take_requests();
    assert_eq!(renewal.count(), 1, "no answer comes any more");
    changes_settings(&mut right);
    node.hear(now, &right);
    node.reconnect(now);
    goes_by_changed_settings(&mut now, &mut right, &mut node);
}

/// The second connection fails, a third one comes and goes while everything is read again.
#[test]
fn what_was_told_while_everything_was_read_is_not_lost_with_its_connection() {
    let (mut right, mut now, mut node) = registered();
    node.reconnect(now);
    let renewal = node.cluster.take_requests().next();
    let failed = MetadataAnswer::Failed(MetadataError::Unavailable);
    node.cluster
        .handle_answer(now, renewal.expect("it looks for its bookmark").0, failed);
    now += STEP * 10;
    node.cluster.handle_timeout(now);
    assert!(node.cluster.take_requests().next().is_some());
    changes_settings(&mut right);
    node.hear(now, &right);
    node.reconnect(now);
    goes_by_changed_settings(&mut now, &mut right, &mut node);
}

/// A late answer made it look older for a moment, while it was looked for the bookmark.
#[test]
fn what_was_told_while_the_metadata_looked_older_is_read() {
    let (mut right, mut now, mut node) = registered();
    let asked = Asked {
        peer: NodeId(2),
        link: LinkId(1),
    };
    let bookmark = Bookmark {
        use_id: 7,
        number: 1,
    };
    node.cluster.look_for_bookmark(asked, Vouch { bookmark });
    let look = node.cluster.take_requests().next().expect("it looks");
    node.reconnect(now);
    let renewal = node.cluster.take_requests().next().expect("it renews");
    let late = TransactionOutcome {
        succeeded: true,
        results: vec![OperationResult::Range(vec![])],
        revision: Revision(1),
    };
    let late = MetadataAnswer::Transacted(late);
    node.cluster.handle_answer(now, look.0, late);
    assert!(node.cluster.is_astray());
    changes_settings(&mut right);
    node.hear(now, &right);
    let MetadataRequest::Transact(transaction) = renewal.1 else {
        panic!("it reads");
    };
    let found = MetadataAnswer::Transacted(right.transact(transaction));
    node.cluster.handle_answer(now, renewal.0, found);
    goes_by_changed_settings(&mut now, &mut right, &mut node);
}

/// It was far ahead there, made volumes, and holds slices of them.
#[test]
fn a_node_that_did_things_by_a_copy_begins_anew() {
    let (mut right, mut now, mut node) = registered();
    let mut copy = right.clone();
    node.disconnect(now);
    goes_on(&mut copy);
    goes_on(&mut copy);
    go(&mut now, &mut copy, &mut node);
    right.transact(changes([Operation::put(
        "/holdfast/wishes/x".into(),
        Bytes::new(),
    )]));
    let mut again = node.again(2, false);
    go(&mut now, &mut right, &mut again);
    assert!(again.cluster.is_astray());
    let slice = SliceId {
        volume: VolumeId(20),
        index: 0,
    };
    let registration = Process::registration(5, 3, "one", ONE, true);
    let mut anew = Process::holding(registration, again.kept.clone(), [slice].into());
    go(&mut now, &mut right, &mut anew);
    assert!(is_following(&anew) && anew.is_doubted);
    assert!(anew.cluster.is_deleted(slice.volume));
    let mut node = anew.again(4, false);
    go(&mut now, &mut right, &mut node);
    assert!(is_following(&node) && !node.is_doubted);
}

/// The revision tells nothing: other nodes have begun to follow it, and raised it.
#[test]
fn metadata_that_lacks_an_epoch_that_has_begun_here_is_older() {
    let (mut backup, mut now, mut node) = registered();
    let slice = SliceId {
        volume: VolumeId(1),
        index: 0,
    };
    let next = ClusterRecord {
        next_volume: VolumeId(2),
        ..cluster_record(0)
    };
    let put_slice = |epoch| {
        let record = super::super::tests::record(epoch, 1);
        Operation::put(SliceRecord::key(slice), record.encode())
    };
    backup.transact(changes([
        Operation::put(CLUSTER_KEY.into(), next.encode()),
        put_slice(2),
    ]));
    go(&mut now, &mut backup, &mut node);
    let mut right = backup.clone();
    right.transact(changes([put_slice(3)]));
    // It was killed before it had left a bookmark beside that.
    for _ in 0..9 {
        backup.transact(changes([Operation::put(
            "/holdfast/wishes/x".into(),
            Bytes::new(),
        )]));
    }
    let begun = |epoch| [(slice, holdfast_model::Epoch(epoch))].into();
    let start = |uses| {
        let registration = Process::registration(5, uses, "one", ONE, false);
        Process::holding(registration, node.kept.clone(), [slice].into())
    };
    let mut again = start(2);
    again.cluster.begun = begun(3);
    let before = backup.revision;
    go(&mut now, &mut backup, &mut again);
    let older = Lost::Epoch {
        slice,
        epoch: holdfast_model::Epoch(2),
        begun: holdfast_model::Epoch(3),
    };
    assert_eq!(again.cluster.astray(), Some(Astray::Lacking(older)));
    assert!(!again.registered && backup.revision == before + 1);
    backup.keys.remove(&DenialRecord::key(NodeId(1))).unwrap();
    go(&mut now, &mut right, &mut again);
    assert!(is_following(&again));
    let mut absent = start(2);
    absent.cluster.begun = begun(2);
    go(&mut now, &mut backup, &mut absent);
    assert!(is_following(&absent), "it has seen nothing newer");
}

/// It died before that was noted, or the note is on a part of the journal that has rotted.
#[test]
fn a_bookmark_that_was_left_after_the_one_that_is_noted_is_the_node_s_own() {
    let (mut metadata, mut now, mut node) = registered();
    let copy = metadata.clone();
    let before = node.kept.clone();
    node.reconnect(now);
    go(&mut now, &mut metadata, &mut node);
    let mut third = node.again(2, false);
    go(&mut now, &mut metadata, &mut third);
    for (kept, uses) in [(&before, 3), (&node.kept, 4)] {
        let registration = Process::registration(5, uses, "one", ONE, false);
        let mut again = Process::with(registration, kept.clone());
        go(&mut now, &mut metadata.clone(), &mut again);
        assert!(is_following(&again) && !again.is_doubted);
        // And from then on no other one.
        let mut again = again.again(5, false);
        go(&mut now, &mut copy.clone(), &mut again);
        assert!(again.cluster.is_astray());
    }
}

/// The store was brought back from before, and opened so often since that it knows nothing of the use in which the bookmark was left.
#[test]
fn a_later_bookmark_of_a_use_that_is_not_known_is_not_the_node_s_own() {
    let (mut metadata, mut now, node) = registered();
    let old = node.kept.clone();
    let mut next = node.again(2, false);
    go(&mut now, &mut metadata, &mut next);
    for (uses, is_known) in [(3, true), (80, false)] {
        let registration = Process::registration(5, uses, "one", ONE, false);
        let mut again = Process::with(registration, old.clone());
        go(&mut now, &mut metadata.clone(), &mut again);
        let expected = (!is_known).then_some(FORKED);
        assert_eq!(again.cluster.astray(), expected, "{uses}");
    }
}

/// It is being restored, or the address is another cluster's.
#[test]
fn a_node_begins_anew_in_nothing_but_its_own_cluster() {
    let (right, mut now, node) = registered();
    let slice = SliceId {
        volume: VolumeId(1),
        index: 0,
    };
    let other = ClusterRecord {
        cluster: holdfast_model::ClusterId(77),
        ..cluster_record(0)
    };
    let mut others = Metadata::default();
    others.transact(changes([Operation::put(
        CLUSTER_KEY.into(),
        other.encode(),
    )]));
    for mut wrong in [Metadata::default(), others] {
        let registration = Process::registration(5, 2, "one", ONE, true);
        let mut anew = Process::holding(registration, node.kept.clone(), [slice].into());
        let before = anew.kept.clone();
        go(&mut now, &mut wrong, &mut anew);
        assert!(anew.cluster.is_astray() && !anew.is_doubted && !anew.registered);
        assert_eq!(anew.kept, before);
        let mut right = right.clone();
        let next = ClusterRecord {
            next_volume: VolumeId(2),
            ..cluster_record(0)
        };
        right.transact(changes([Operation::put(CLUSTER_KEY.into(), next.encode())]));
        go(&mut now, &mut right, &mut anew);
        assert!(is_following(&anew) && !anew.is_doubted);
    }
}

/// What was read is believed, and nothing is changed until there is room.
#[test]
fn a_node_follows_metadata_that_is_full() {
    let (mut metadata, mut now, mut node) = registered();
    goes_on(&mut metadata);
    node.disconnect(now);
    node.is_full = true;
    let before = metadata.revision;
    go(&mut now, &mut metadata, &mut node);
    assert!(is_following(&node) && !node.cluster.may_change());
    assert!(!node.cluster.is_to_be_recognised());
    let seen = node.cluster.past.seen();
    goes_on(&mut metadata);
    run(&mut now, MINUTE / 6, &mut metadata, &mut [&mut node]);
    assert!(node.cluster.past.seen() > seen);
    assert_eq!(metadata.revision, before + 28);
    for ends in [true, false, true] {
        if ends {
            node.disconnect(now);
        } else {
            node.reconnect(now);
        }
        run(&mut now, MINUTE / 6, &mut metadata, &mut [&mut node]);
        assert!(is_following(&node) && !node.cluster.may_change());
    }
    node.disconnect(now);
    node.is_full = false;
    run(&mut now, MINUTE / 6, &mut metadata, &mut [&mut node]);
    assert!(is_following(&node) && node.cluster.may_change());
}

#[test]
fn the_only_copy_in_sync_is_not_given_up() {
    let (mut right, mut now, mut node) = registered();
    let slice = SliceId {
        volume: VolumeId(1),
        index: 0,
    };
    let record = super::super::tests::record(7, 1);
    let next = ClusterRecord {
        next_volume: VolumeId(2),
        ..cluster_record(0)
    };
    let put_slice = |record: &SliceRecord| Operation::put(SliceRecord::key(slice), record.encode());
    right.transact(changes([
        Operation::put(CLUSTER_KEY.into(), next.encode()),
        put_slice(&record),
    ]));
    let mut copy = right.clone();
    node.disconnect(now);
    go(&mut now, &mut copy, &mut node);
    for is_sole in [true, false] {
        let mut told = record.clone();
        told.replicas.truncate(if is_sole { 1 } else { 2 });
        right.transact(changes([put_slice(&told)]));
        let registration = Process::registration(5, 2, "one", ONE, true);
        let mut anew = Process::holding(registration, node.kept.clone(), [slice].into());
        go(&mut now, &mut right, &mut anew);
        let sole = is_sole.then_some(Astray::Lacking(Lost::Sole(slice)));
        assert_eq!(anew.cluster.astray(), sole);
        assert_eq!(anew.is_doubted, !is_sole);
    }
}

/// Power is lost after the store's contents are doubted, and the node is registered.
#[test]
fn a_node_begins_anew_once() {
    for steps in 1..20 {
        let (mut right, mut now, mut node) = registered();
        let mut copy = right.clone();
        node.disconnect(now);
        go(&mut now, &mut copy, &mut node);
        goes_on(&mut right);
        let mut anew = node.again(2, true);
        run(&mut now, STEP * steps, &mut right, &mut [&mut anew]);
        // The file is gone with the registration.
        let mut next = anew.again(3, !anew.registered);
        go(&mut now, &mut right, &mut next);
        assert!(is_following(&next), "{steps}");
        assert!(next.is_doubted || anew.is_doubted);
    }
}

/// Nothing follows anew when it is made.
#[test]
fn nodes_that_are_there_when_the_cluster_is_made_leave_a_bookmark() {
    let mut metadata = Metadata::default();
    let mut now = Instant::ZERO;
    let mut node = Process::start(5, 1, "one", ONE);
    go(&mut now, &mut metadata, &mut node);
    let key = BookmarkRecord::key(NodeId(1));
    assert!(is_following(&node) && !metadata.keys.contains_key(&key));
    goes_on(&mut metadata);
    go(&mut now, &mut metadata, &mut node);
    assert!(is_following(&node) && metadata.keys.contains_key(&key));
    assert!(node.cluster.bookmark(now).is_some());
}

/// Another machine is the node by now.
#[test]
fn a_process_that_was_replaced_leaves_no_bookmark_over_the_next_ones() {
    let (mut metadata, mut now, mut first) = registered();
    let mut blank = Process::take_over(6, "one", FOUR);
    go(&mut now, &mut metadata, &mut blank);
    let key = BookmarkRecord::key(NodeId(1));
    let left = metadata.keys[&key].clone();
    first.disconnect(now);
    go(&mut now, &mut metadata, &mut first);
    assert!(first.is_displaced());
    assert_eq!(metadata.keys[&key], left);
}

/// Its revision is higher by now than the one that was noted.
#[test]
fn a_backup_from_before_the_node_began_to_follow_is_not_followed() {
    let (mut metadata, mut now, mut node) = registered();
    let mut backup = metadata.clone();
    node.disconnect(now);
    run(&mut now, MINUTE, &mut metadata, &mut [&mut node]);
    goes_on(&mut backup);
    let mut node = node.again(2, false);
    run(&mut now, MINUTE, &mut backup, &mut [&mut node]);
    assert_eq!(node.cluster.astray(), Some(FORKED));
    assert!(!node.registered);
}

/// Whatever becomes of the answers, and whenever it is started again.
#[test]
fn a_bookmark_of_which_nobody_knows_what_became_of_it_is_the_nodes_own() {
    for (is_done, is_told) in [(false, false), (true, false), (true, true)] {
        for starts_again in [false, true] {
            let (mut metadata, mut now, mut node) = registered();
            node.disconnect(now);
            for _ in 0..20 {
                now += STEP;
                node.cluster.handle_timeout(now);
                let requests: Vec<_> = node.cluster.take_requests().collect();
                for (token, request) in requests {
                    let MetadataRequest::Transact(transaction) = request else {
                        continue;
                    };
                    let is_to_leave = !transaction.compare.is_empty();
                    let unavailable = MetadataAnswer::Failed(MetadataError::Unavailable);
                    let answer = if is_done || !is_to_leave {
                        MetadataAnswer::Transacted(metadata.transact(transaction))
                    } else {
                        unavailable.clone()
                    };
                    let is_lost = is_to_leave && !is_told;
                    let answer = if is_lost { unavailable } else { answer };
                    if !starts_again || !is_to_leave {
                        node.cluster.handle_answer(now, token, answer);
                    }
                }
                node.keep(now);
                if node.cluster.is_ready() {
                    break;
                }
            }
            assert_eq!(node.cluster.is_ready(), is_told && !starts_again);
            if starts_again {
                node = node.again(2, false);
            }
            run(&mut now, STEP * 20, &mut metadata, &mut [&mut node]);
            assert!(is_following(&node), "{is_done} {is_told} {starts_again}");
            assert!(node.told.is_empty() && !node.is_doubted);
        }
    }
}

/// It says of the store that it was brought back from the past, and the node finds that out.
#[test]
fn a_bookmark_of_a_use_that_the_store_does_not_know_says_nothing_of_the_metadata() {
    let (mut metadata, mut now, node) = registered();
    let mut newer = node.again(2, false);
    run(&mut now, STEP * 10, &mut metadata, &mut [&mut newer]);
    assert!(is_following(&newer));
    let mut old = node.again(1, false);
    run(&mut now, STEP * 10, &mut metadata, &mut [&mut old]);
    assert!(is_following(&old) && old.is_doubted);
    // Once it has been opened as often the ids of its uses tell.
    let own = Process::registration(5, 2, "one", ONE, false);
    let of_own = own.bookmark(1);
    assert!(!own.is_anothers(&of_own));
    let use_id = of_own.bookmark.use_id + 1;
    let bookmark = Bookmark { use_id, number: 1 };
    assert!(own.is_anothers(&BookmarkRecord { bookmark, ..of_own }));
}

#[test]
fn a_bookmark_that_somebody_deletes_is_left_again() {
    let (mut metadata, mut now, mut node) = registered();
    let key = BookmarkRecord::key(NodeId(1));
    for _ in 0..2 {
        assert!(metadata.keys.contains_key(&key));
        let delete = Operation::Delete(Selector::Key(key.clone()));
        metadata.transact(changes([delete]));
        run(&mut now, STEP * 10, &mut metadata, &mut [&mut node]);
        assert!(is_following(&node) && node.told.is_empty());
    }
    // While the node is off it may be damage.
    metadata.transact(changes([Operation::Delete(Selector::Key(key))]));
    let mut node = node.again(2, false);
    run(&mut now, STEP * 10, &mut metadata, &mut [&mut node]);
    assert_eq!(node.cluster.astray(), Some(GONE));
}

/// It was lost, with the bookmark in it.
#[test]
fn metadata_that_was_made_again_has_no_bookmark_yet() {
    let (_, mut now, node) = registered();
    let mut again = super::super::processes::made_again(1);
    let mut node = node.again(2, false);
    run(&mut now, STEP * 10, &mut again, &mut [&mut node]);
    assert!(is_following(&node) && !node.is_doubted);
    node.disconnect(now);
    run(&mut now, STEP * 10, &mut again, &mut [&mut node]);
    assert!(is_following(&node));
}

/// Of a version before bookmarks nothing is noted.
#[test]
fn a_node_that_has_left_none_leaves_one() {
    let (mut metadata, mut now, node) = registered();
    let registration = Process::registration(5, 2, "one", ONE, false);
    let mut node = Process::with(
        registration,
        BTreeMap::from_iter(
            node.kept
                .into_iter()
                .filter(|(slice, _)| *slice != crate::notes::bookmark_place()),
        ),
    );
    let key = BookmarkRecord::key(NodeId(1));
    metadata.transact(changes([Operation::Delete(Selector::Key(key.clone()))]));
    run(&mut now, STEP * 10, &mut metadata, &mut [&mut node]);
    assert!(is_following(&node) && metadata.keys.contains_key(&key));
    let mut empty = made();
    empty.keys.clear();
    let mut first = Process::start(5, 1, "one", ONE);
    run(&mut now, STEP * 10, &mut empty, &mut [&mut first]);
    assert!(is_following(&first), "there is no cluster yet");
}
