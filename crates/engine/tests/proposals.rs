//! What a node proposes is meant for the record that its replica knows, not for one that it has yet to be told.

use holdfast_model::record::{
    IntentRecord, Membership, NodeStanding, Record, SliceRecord, WishRecord,
};
use holdfast_model::{Epoch, Incarnation, Sequence};

use crate::bench::{Bench, ME, PEER, SLICE, first_record, replica};

/// A primary in maintenance that is to be the preferred one, and says so in the record as soon as it is active. It
/// does not hear of the metadata at the moment.
fn spared_primary() -> Bench {
    let preferred = SliceRecord {
        preferred: PEER,
        ..first_record()
    };
    let wish = WishRecord {
        schema: 1,
        slice: SLICE,
        nodes: vec![ME],
        kept: Vec::new(),
        preferred: ME,
    };
    let spared = IntentRecord {
        schema: 1,
        node: ME,
        standing: NodeStanding::Maintenance,
        site: None,
    };
    let mut bench = Bench::new(&[
        (SliceRecord::key(SLICE), preferred.encode()),
        (WishRecord::key(SLICE), wish.encode()),
        (IntentRecord::key(ME), spared.encode()),
    ]);
    let record = bench.record();
    assert_eq!((record.epoch, record.primary), (Epoch(2), ME));
    assert_eq!(record.preferred, PEER);
    bench.end_watch();
    bench
}

#[test]
fn a_change_that_an_intent_makes_due_is_proposed() {
    let mut bench = spared_primary();
    bench.intend(ME, NodeStanding::Active);
    bench.pass(1000);
    let record = bench.record();
    assert_eq!((record.epoch, record.preferred), (Epoch(3), ME));
}

/// Another node takes the slice over before: both are read at once, the intent first.
#[test]
fn a_primary_that_is_deposed_unheard_leaves_the_record_of_the_next_one_alone() {
    let mut bench = spared_primary();
    let stable = Sequence(0);
    let next = SliceRecord {
        epoch: Epoch(3),
        primary: PEER,
        replicas: vec![
            replica(ME, Membership::Absent { stable }),
            replica(PEER, Membership::InSync),
        ],
        proposer: (PEER, Incarnation(1)),
        nonce: 1,
        ..bench.record()
    };
    bench.put(&SliceRecord::key(SLICE), next.encode());
    bench.intend(ME, NodeStanding::Active);
    bench.pass(1000);
    assert_eq!(bench.record(), next);
}
