//! A backup of the metadata from before something changed, and who says so in it.

use alloc::string::ToString;
use alloc::vec::Vec;

use holdfast_model::metadata::Selector;
use holdfast_model::record::{ClusterRecord, Membership, NodeRecord, SliceRecord};
use holdfast_model::{Incarnation, Sequence, SliceId, StoreId, VolumeId};
use holdfast_stdx::Instant;

use super::super::processes::{Metadata, Process, STEP, changes, cluster_record, registered, run};
use super::super::tests::record;
use super::*;
use crate::{Astray, Lost};

const SLICE: SliceId = SliceId {
    volume: VolumeId(1),
    index: 0,
};
const OTHER: NodeId = NodeId(2);

fn put_slice(epoch: u64) -> Operation {
    Operation::put(SliceRecord::key(SLICE), record(epoch, 1).encode())
}

/// A node that has registered, in metadata with a slice of its own.
fn following() -> (Metadata, Instant, Process) {
    let (mut metadata, mut now, mut node) = registered();
    let next = ClusterRecord {
        next_volume: VolumeId(2),
        ..cluster_record(0)
    };
    let next = Operation::put(CLUSTER_KEY.into(), next.encode());
    metadata.transact(changes([next, put_slice(2)]));
    run(&mut now, STEP * 30, &mut metadata, &mut [&mut node]);
    (metadata, now, node)
}

fn bookmark(metadata: &Metadata) -> u64 {
    let pair = &metadata.keys[&BookmarkRecord::key(NodeId(1))];
    BookmarkRecord::decode(&pair.value).unwrap().bookmark.number
}

fn denial(metadata: &Metadata) -> Option<DenialRecord> {
    let pair = metadata.keys.get(&DenialRecord::key(NodeId(1)))?;
    Some(DenialRecord::decode(&pair.value).unwrap())
}

#[test]
fn a_bookmark_is_left_when_the_metadata_says_something_new_of_data() {
    let (mut metadata, mut now, mut node) = following();
    let before = bookmark(&metadata);
    metadata.transact(changes([put_slice(3)]));
    run(&mut now, STEP * 3, &mut metadata, &mut [&mut node]);
    assert_eq!(bookmark(&metadata), before + 1, "at once");
    // But not all the time.
    for epoch in 4..24 {
        metadata.transact(changes([put_slice(epoch)]));
        run(&mut now, STEP, &mut metadata, &mut [&mut node]);
    }
    run(&mut now, STEP * 30, &mut metadata, &mut [&mut node]);
    let after = bookmark(&metadata);
    assert!((before + 3..=before + 4).contains(&after), "{after}");
    let wish = Operation::put("/holdfast/wishes/x".into(), [].as_slice().into());
    metadata.transact(changes([wish]));
    run(&mut now, STEP * 30, &mut metadata, &mut [&mut node]);
    assert_eq!(bookmark(&metadata), after, "it says nothing of data");
}

/// Whatever happens in it once it was brought back; and others are told.
#[test]
fn a_backup_from_before_a_change_of_data_is_never_followed_and_denied() {
    let (mut right, mut now, mut node) = following();
    let mut backup = right.clone();
    right.transact(changes([put_slice(2)]));
    run(&mut now, STEP * 30, &mut right, &mut [&mut node]);
    let mut again = node.again(2, false);
    let lost = Some(Astray::Lacking(Lost::Bookmark { is_other: true }));
    run(&mut now, STEP * 15, &mut backup, &mut [&mut again]);
    assert_eq!(denial(&backup).map(|it| it.store), Some(StoreId(5)));
    let denied_at = backup.revision;
    for epoch in 3..40 {
        backup.transact(changes([put_slice(epoch)]));
    }
    let before = backup.revision;
    run(&mut now, STEP * 30, &mut backup, &mut [&mut again]);
    assert_eq!(again.cluster.astray(), lost);
    let mut third = again.again(3, false);
    run(&mut now, STEP * 30, &mut backup, &mut [&mut third]);
    assert_eq!(third.cluster.astray(), lost);
    assert!(!third.registered && backup.revision == before && denied_at < before);
    // The right one is back, in which nothing was denied.
    run(&mut now, STEP * 30, &mut right, &mut [&mut third]);
    assert!(third.cluster.is_ready() && !third.cluster.is_astray());
    assert_eq!(denial(&right), None);
    // An operator says that the backup is the right one.
    let mut anew = third.again(4, true);
    run(&mut now, STEP * 30, &mut backup, &mut [&mut anew]);
    assert!(anew.cluster.is_ready() && !anew.cluster.is_astray() && anew.is_doubted);
    assert_eq!(denial(&backup), None, "it follows it");
}

/// Another cluster's, or one in which the node is not, or is another store, has nothing of it.
#[test]
fn nothing_is_said_in_metadata_that_is_not_the_cluster_s() {
    let (mut right, mut now, mut node) = following();
    let backup = right.clone();
    right.transact(changes([put_slice(3)]));
    run(&mut now, STEP * 30, &mut right, &mut [&mut node]);
    let other = ClusterRecord {
        cluster: holdfast_model::ClusterId(77),
        ..cluster_record(0)
    };
    let other = Operation::put(CLUSTER_KEY.into(), other.encode());
    let gone = Operation::Delete(Selector::Key(CLUSTER_KEY.into()));
    let unknown = Operation::Delete(Selector::Key(NodeRecord::key(NodeId(1))));
    let replaced = NodeRecord {
        store: StoreId(6),
        ..node_record(NodeId(1))
    };
    let replaced = Operation::put(NodeRecord::key(NodeId(1)), replaced.encode());
    for change in [other, gone, unknown, replaced] {
        let mut metadata = backup.clone();
        metadata.transact(changes([change.clone()]));
        let before = metadata.revision;
        let mut again = node.again(2, false);
        run(&mut now, STEP * 30, &mut metadata, &mut [&mut again]);
        assert!(again.cluster.is_astray(), "{change:?}");
        assert_eq!(metadata.revision, before, "{change:?}");
    }
}

fn node_record(node: NodeId) -> NodeRecord {
    NodeRecord {
        schema: 1,
        node,
        name: "two".to_string(),
        store: StoreId(2),
        uses: 1,
        use_id: 0,
        incarnation: Incarnation(1),
        portal: "192.0.2.2:3260".to_string(),
        peer: "192.0.2.2:7561".to_string(),
        api: "http://192.0.2.2:7460".to_string(),
    }
}

#[test]
fn who_denies_counts_if_it_is_known_by_that_store() {
    let (mut metadata, mut now, mut node) = following();
    let say = |store| {
        let (schema, node) = (1, OTHER);
        let denial = DenialRecord {
            schema,
            node,
            store: StoreId(store),
            overruled: false,
        };
        Operation::put(DenialRecord::key(OTHER), denial.encode())
    };
    let in_slice = |membership| {
        let mut record = record(9, 1);
        record.replicas[1].membership = membership;
        Operation::put(SliceRecord::key(SLICE), record.encode())
    };
    let absent = Membership::Absent {
        stable: Sequence(1),
    };
    let known = Operation::put(NodeRecord::key(OTHER), node_record(OTHER).encode());
    let gone = Operation::Delete(Selector::Key(DenialRecord::key(OTHER)));
    let cases = [
        ("nobody knows it", say(2), false),
        ("it is known", known, true),
        ("it has a copy", in_slice(Membership::InSync), true),
        (
            "others go on without it, as that says",
            in_slice(absent),
            true,
        ),
        ("of another store", say(3), false),
        ("it says so again", say(2), true),
    ];
    let deniers = |node: &Process| node.cluster.deniers().collect::<Vec<_>>();
    for (what, change, counts) in cases {
        metadata.transact(changes([change]));
        run(&mut now, STEP * 3, &mut metadata, &mut [&mut node]);
        let expected: &[NodeId] = if counts { &[OTHER] } else { &[] };
        assert_eq!(deniers(&node), expected, "{what}");
        // Whoever starts then finds the same.
        let mut again = node.again(2, false);
        let mut copy = metadata.clone();
        run(&mut now, STEP * 15, &mut copy, &mut [&mut again]);
        assert_eq!(deniers(&again), expected, "{what}");
    }
    // While it is not believed for that, the watch tells that it is not said any more.
    let why = Some(Astray::Denied(OTHER));
    node.cluster.disown(now, why);
    assert_eq!(node.cluster.astray(), why);
    metadata.transact(changes([gone]));
    run(&mut now, STEP * 3, &mut metadata, &mut [&mut node]);
    assert_eq!(deniers(&node), []);
    node.cluster.disown(now, None);
    run(&mut now, STEP * 3, &mut metadata, &mut [&mut node]);
    assert!(!node.cluster.is_astray());
}
