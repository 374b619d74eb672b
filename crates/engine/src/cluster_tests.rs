use holdfast_model::record::{Membership, ReplicaRecord};
use holdfast_model::{Epoch, StoreId};

use super::*;

const SLICE: SliceId = SliceId {
    volume: VolumeId(1),
    index: 0,
};

pub(super) fn record(epoch: u64, primary: u16) -> SliceRecord {
    let members = [NodeId(1), NodeId(2)];
    let replicas = members.map(|node| ReplicaRecord {
        node,
        store: StoreId(u128::from(node.0)),
        membership: Membership::InSync,
    });
    SliceRecord {
        schema: 1,
        slice: SLICE,
        epoch: Epoch(epoch),
        primary: NodeId(primary),
        preferred: NodeId(1),
        replicas: replicas.to_vec(),
        copies_min: 1,
        bytes_moved: 0,
        proposer: (NodeId(primary), Incarnation(1)),
        nonce: 0,
        recovery: None,
    }
}

fn pair(record: &SliceRecord, revision: u64) -> KeyValue {
    KeyValue {
        key: SliceRecord::key(SLICE),
        value: record.encode(),
        create_revision: Revision(1),
        mod_revision: Revision(revision),
        version: 1,
        lease: LeaseId(0),
    }
}

/// A view that is followed, with the first record of the slice, of which the replica has been told.
fn followed() -> Cluster {
    let mut cluster = Cluster {
        watch: Some(MetadataToken(0)),
        ..Cluster::default()
    };
    cluster.put(&pair(&record(1, 1), 5), false);
    assert_eq!(cluster.tell(SLICE), Some(record(1, 1)));
    cluster.take_changes();
    cluster
}

/// What a change asks of the metadata, if it does.
fn compared(cluster: &mut Cluster) -> Option<Vec<Compare>> {
    let (_, request) = cluster.take_requests().next()?;
    let MetadataRequest::Transact(transaction) = request else {
        panic!("nothing else is asked");
    };
    Some(transaction.compare)
}

fn at(revision: u64) -> Vec<Compare> {
    vec![Compare::ModRevision {
        key: SliceRecord::key(SLICE),
        equals: Revision(revision),
    }]
}

#[test]
fn a_proposal_is_for_the_record_that_the_replica_was_told_of() {
    let mut cluster = followed();
    cluster.propose(SLICE, record(2, 1).encode());
    assert_eq!(compared(&mut cluster), Some(at(5)));
}

#[test]
fn a_proposal_for_a_record_that_has_been_replaced_is_rejected_unasked() {
    let mut cluster = followed();
    // The list has the record of another primary; the replica has yet to be told.
    cluster.put(&pair(&record(2, 2), 9), false);
    cluster.propose(SLICE, record(2, 1).encode());
    assert_eq!(compared(&mut cluster), None);
    let rejected = Change::Proposed(SLICE, Proposed::Rejected);
    assert!(cluster.take_changes().contains(&rejected));
    assert_eq!(cluster.tell(SLICE), Some(record(2, 2)));
    cluster.propose(SLICE, record(3, 2).encode());
    assert_eq!(compared(&mut cluster), Some(at(9)));
}

#[test]
fn a_part_of_a_scrub_is_not_said_to_be_done_under_a_record_that_the_replica_does_not_know() {
    let mut cluster = followed();
    cluster.put(&pair(&record(2, 2), 9), false);
    let done = ScrubbedRecord {
        schema: 1,
        slice: SLICE,
        round: 1,
        findings: holdfast_model::record::ScrubFindings::default(),
    };
    cluster.say_scrubbed(&done);
    assert_eq!(compared(&mut cluster), None);
    let said = Change::SaidScrubbed(SLICE);
    assert!(cluster.take_changes().contains(&said));
}

#[test]
fn an_intent_that_is_read_again_changes_nothing() {
    let mut cluster = followed();
    let intent = IntentRecord {
        schema: 1,
        node: NodeId(1),
        standing: NodeStanding::Active,
        site: None,
    };
    let pair = KeyValue {
        key: IntentRecord::key(NodeId(1)),
        value: intent.encode(),
        ..pair(&record(1, 1), 6)
    };
    cluster.put(&pair, false);
    assert_eq!(cluster.take_changes(), [Change::Intent]);
    cluster.put(&pair, false);
    assert_eq!(cluster.take_changes(), []);
}
