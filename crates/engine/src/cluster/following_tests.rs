//! A node, and metadata of which there are two copies that both go on.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use holdfast_model::metadata::{
    MetadataAnswer, MetadataError, MetadataRequest, Operation, Selector,
};
use holdfast_model::record::{BookmarkRecord, ClusterRecord};
use holdfast_model::{NodeId, VolumeId};
use holdfast_stdx::Instant;

use super::super::processes::{
    MINUTE, Metadata, ONE, Process, STEP, changes, cluster_record, made, registered, run,
};
use super::*;
use crate::past::Lost;
use crate::{Astray, Notice};

const FORKED: Astray = Astray::Lacking(Lost::Bookmark);

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

fn is_following(process: &Process) -> bool {
    process.cluster.is_ready() && !process.cluster.is_astray()
}

/// The node was cut off, and a backup was brought back where it found it, while others went on with the one before.
#[test]
fn whoever_followed_a_copy_does_not_follow_the_other_one() {
    for starts_again in [false, true] {
        let (mut right, mut now, mut node) = registered();
        let mut copy = right.clone();
        node.disconnect(now);
        goes_on(&mut right);
        let go = |now: &mut Instant, metadata: &mut Metadata, node: &mut Process| {
            run(now, STEP * 10, metadata, &mut [node]);
        };
        // Nothing says that this is not what it has followed.
        go(&mut now, &mut copy, &mut node);
        assert!(is_following(&node));
        let before = right.revision;
        if starts_again {
            node = node.again(2, false);
        } else {
            node.disconnect(now);
        }
        go(&mut now, &mut right, &mut node);
        assert_eq!(node.cluster.astray(), Some(FORKED));
        assert_eq!(node.told, [Notice::MetadataAstray(FORKED)]);
        assert_eq!(right.revision, before, "nothing is changed in it");
        // What it had followed is back.
        go(&mut now, &mut copy, &mut node);
        assert!(is_following(&node));
        // What it holds counts for nothing, as an operator says.
        let mut node = node.again(3, true);
        go(&mut now, &mut right, &mut node);
        assert!(is_following(&node) && node.is_doubted);
        node.disconnect(now);
        go(&mut now, &mut right, &mut node);
        assert!(is_following(&node));
        let mut node = node.again(4, false);
        go(&mut now, &mut right, &mut node);
        assert!(is_following(&node) && !node.is_doubted);
    }
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
    assert!(!own.is_behind(&of_own));
    let use_id = of_own.bookmark.use_id + 1;
    let bookmark = Bookmark { use_id, number: 1 };
    assert!(own.is_behind(&BookmarkRecord { bookmark, ..of_own }));
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
    // While the node is off it is damage.
    metadata.transact(changes([Operation::Delete(Selector::Key(key))]));
    let mut node = node.again(2, false);
    run(&mut now, STEP * 10, &mut metadata, &mut [&mut node]);
    assert_eq!(node.cluster.astray(), Some(FORKED));
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
                .filter(|(slice, _)| *slice != crate::notes::bookmarks_place()),
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
