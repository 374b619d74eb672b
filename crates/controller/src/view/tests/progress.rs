//! How far scrubs and drains are, and how long they take.

use holdfast_api::documents::{LocalScrub, LocalSync, ScrubFindings, TaskKind};
use holdfast_model::record::{self, IntentRecord, ScrubRecord, ScrubbedRecord, WishRecord};

use super::*;

const MIB: u64 = 1 << 20;

const fn id(index: u32) -> SliceId {
    SliceId {
        volume: VOLUME,
        index,
    }
}

/// Of two slices one is done, and half of one copy of the other is read.
#[test]
fn a_scrub_tells_what_is_left_and_how_long_that_takes() {
    let mut inventory = inventory(vec![slice_record(0, &BOTH), slice_record(1, &BOTH)]);
    let began_seconds = 1000;
    let scrub = ScrubRecord {
        schema: 1,
        volume: VOLUME,
        round: 3,
        began_seconds,
        last: None,
    };
    inventory.scrubs.insert(VOLUME, versioned(scrub));
    let done = ScrubbedRecord {
        schema: 1,
        slice: id(0),
        round: 3,
        findings: record::ScrubFindings {
            bytes_read: 30 * MIB,
            ..record::ScrubFindings::default()
        },
    };
    inventory.scrubbed.insert(id(0), done);
    let mut running = local_slice(1, 5, true, 20 * MIB);
    running.scrub = Some(LocalScrub {
        round: 3,
        findings: ScrubFindings {
            bytes_read: 10 * MIB,
            ..ScrubFindings::default()
        },
    });
    let reports = Reports::of([local(1, vec![local_slice(0, 5, true, 15 * MIB), running])]);
    let run = |now_seconds| {
        let scrub = scrub::of(&inventory, &reports, record(&inventory), now_seconds);
        let run = scrub.running.expect("it is under way");
        assert_eq!(run.slices_done, 1);
        assert_eq!(run.findings.bytes_read, 40 * MIB);
        assert_eq!(
            run.bytes_left,
            30 * MIB,
            "both copies, but for what was read"
        );
        (run.bytes_per_second, run.seconds_left)
    };
    assert_eq!(run(began_seconds + 20), (2 * MIB, Some(15)));
    // It has only just begun, or a clock has gone back.
    assert_eq!(run(began_seconds), (0, None));
    assert_eq!(run(0), (0, None));
}

/// The first node is drained: one slice is on its way to the third, the other has no place yet.
#[test]
fn a_drain_tells_how_long_it_takes() {
    let arriving = [
        (1, Membership::InSync),
        (2, Membership::InSync),
        (
            3,
            Membership::Joining {
                stable: Sequence(2),
            },
        ),
    ];
    let mut inventory = inventory(vec![slice_record(0, &arriving), slice_record(1, &BOTH)]);
    let intent = IntentRecord {
        schema: 1,
        node: NodeId(1),
        standing: record::NodeStanding::Draining,
        site: None,
    };
    inventory.intents.insert(NodeId(1), versioned(intent));
    let wish = WishRecord {
        schema: 1,
        slice: id(0),
        nodes: vec![NodeId(2), NodeId(3)],
        kept: vec![NodeId(1)],
        preferred: NodeId(2),
    };
    inventory.wishes.insert(id(0), versioned(wish));
    let mut joined = local_slice(0, 5, true, 40 * MIB);
    joined.joining = vec![LocalJoining {
        node: 3,
        bytes_done: 30 * MIB,
        bytes_total: 40 * MIB,
        ..LocalJoining::default()
    }];
    let drained = |rate: Option<u64>| {
        let slices = vec![joined.clone(), local_slice(1, 5, true, 20 * MIB)];
        let mut first = local(1, slices);
        first.syncs.extend(rate.map(|bytes_per_second| LocalSync {
            node: 3,
            bytes_per_second,
        }));
        let reports = Reports::of([first, local(2, Vec::new()), local(3, Vec::new())]);
        let details = node_details(&inventory, &reports, NodeId(1));
        let to_move = details.node.to_move;
        assert_eq!((to_move.slices, to_move.bytes), (2, 60 * MIB));
        // Ten of the one that is on its way, and all of the other.
        assert_eq!(to_move.bytes_left, 30 * MIB);
        let tasks = tasks(&inventory, &reports).into_iter();
        let mut drains = tasks.filter(|task| task.kind == TaskKind::NodeDrain);
        let drain = drains.next().expect("it is a task");
        assert_eq!(drain.bytes_left, Some(30 * MIB));
        (to_move.bytes_per_second, to_move.seconds_left)
    };
    assert_eq!(drained(Some(2 * MIB)), (2 * MIB, Some(15)));
    assert_eq!(drained(None), (0, None));
    // The one that was on its way is there, and is to be let go here.
    let arrived = [1, 2, 3].map(|node| (node, Membership::InSync));
    inventory.slices.insert(id(0), slice_record(0, &arrived));
    joined.joining.clear();
    let slices = vec![joined, local_slice(1, 5, true, 20 * MIB)];
    let reports = Reports::of([local(1, slices), local(2, Vec::new()), local(3, Vec::new())]);
    let to_move = node_details(&inventory, &reports, NodeId(1)).node.to_move;
    assert_eq!((to_move.slices, to_move.bytes_left), (2, 20 * MIB));
}
