//! Orders, and their refusals.

extern crate std;

use std::string::ToString;
use std::vec;

use holdfast_model::metadata::Revision;
use holdfast_model::record::{Bookmark, BookmarkRecord, DenialRecord, NodeRecord, StopRecord};
use holdfast_model::{Incarnation, Policy};

use super::*;
use crate::lab_tests::{Lab, node};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn who_registers_later_waits() {
    let mut lab = Lab::new(3);
    assert_eq!(
        lab.inventory().part_of(node(3)),
        Part::Of(NodeStanding::Active)
    );
    lab.volume("a", 1, Policy::Mirror2);
    lab.register(4);
    let inventory = lab.inventory();
    assert_eq!(inventory.intents.len(), 3, "the others are on record");
    assert_eq!(inventory.part_of(node(4)), Part::Waiting);
    assert_eq!(lab.order(4, Order::Drain), Err(Refusal::Waiting));
    lab.volume("b", 40, Policy::Mirror2);
    assert_eq!(lab.inventory().slices_on(node(4)).count(), 0);
    assert_eq!(lab.order(4, Order::Add), Ok(true));
    assert_eq!(lab.order(4, Order::Add), Ok(false), "it is so already");
    assert_eq!(lab.order(9, Order::Add), Err(Refusal::NoSuchNode));
}

#[test]
fn with_how_much_a_drain_began_is_on_record_as_long_as_it_goes_on() {
    let mut lab = Lab::new(3);
    lab.volume("a", 1, Policy::None);
    let (slice, holder) = {
        let inventory = lab.inventory();
        let slice = inventory.slices.values().next().expect("there is one");
        (slice.slice, slice.primary)
    };
    let begun = |lab: &mut Lab| lab.inventory().drains.get(&holder).map(|it| it.bytes);
    assert_eq!(lab.order(holder.0, Order::Drain), Ok(true));
    assert_eq!(begun(&mut lab), None, "nobody tells of the slice");
    assert_eq!(lab.order(holder.0, Order::CancelDrain), Ok(true));
    lab.sight.used.insert(slice, 4096);
    assert_eq!(lab.order(holder.0, Order::Drain), Ok(true));
    assert_eq!(begun(&mut lab), Some(4096));
    // What is ordered again has begun already.
    lab.sight.used.insert(slice, 2048);
    assert_eq!(lab.order(holder.0, Order::Drain), Ok(false));
    assert_eq!(begun(&mut lab), Some(4096));
    assert_eq!(lab.order(holder.0, Order::CancelDrain), Ok(true));
    assert_eq!(begun(&mut lab), None);
    assert_eq!(lab.order(holder.0, Order::Drain), Ok(true));
    assert_eq!(begun(&mut lab), Some(2048));
}

/// It would be gone after that, and what it has learnt of itself meanwhile with it.
#[test]
fn a_node_that_registers_while_it_is_removed_is_not() {
    let mut lab = Lab::new(3);
    let inventory = lab.inventory();
    let planned = order(&inventory, &lab.sight, node(3), Order::Remove, None);
    let planned = planned.expect("granted").expect("it changes something");
    let again = NodeRecord {
        incarnation: Incarnation(2),
        ..inventory.nodes[&node(3)].clone()
    };
    lab.put(NodeRecord::key(node(3)), &again);
    assert!(!lab.transact(&planned).succeeded);
    assert_eq!(lab.order(3, Order::Remove), Ok(true));
}

/// Its starts were counted further than the metadata's revisions: what it counts on from is raised.
#[test]
fn a_node_that_was_started_often_without_metadata_counts_on_after_its_removal() {
    let mut lab = Lab::new(3);
    let inventory = lab.inventory();
    let often = NodeRecord {
        incarnation: Incarnation(inventory.revision.0 + 500),
        ..inventory.nodes[&node(3)].clone()
    };
    lab.put(NodeRecord::key(node(3)), &often);
    assert_eq!(lab.order(3, Order::Remove), Ok(true));
    let cluster = lab.inventory().cluster.record;
    assert_eq!(cluster.incarnation_floor, often.incarnation);
    assert_eq!(lab.order(2, Order::Remove), Ok(true));
    assert_eq!(
        lab.inventory().cluster.record,
        cluster,
        "others change nothing"
    );
}

/// What it denied is nobody's word any more; its bookmark it looks for, should it be added again.
#[test]
fn the_denial_of_a_removed_node_goes_and_its_bookmark_stays() {
    let mut lab = Lab::new(3);
    let store = lab.inventory().nodes[&node(3)].store;
    let denial = DenialRecord {
        schema: 1,
        node: node(3),
        store,
        overruled: true,
    };
    let bookmark = BookmarkRecord {
        schema: 1,
        node: node(3),
        store,
        uses: 1,
        bookmark: Bookmark {
            use_id: 7,
            number: 1,
        },
    };
    let (denied, left) = (DenialRecord::key(node(3)), BookmarkRecord::key(node(3)));
    lab.put(denied.clone(), &denial);
    lab.put(left.clone(), &bookmark);
    let stop = StopRecord {
        schema: 1,
        node: node(3),
        incarnation: Incarnation(1),
    };
    let stopped = StopRecord::key(node(3));
    lab.put(stopped.clone(), &stop);
    assert_eq!(lab.order(3, Order::Remove), Ok(true));
    let mut is_there = |key: String| {
        let equals = Revision(0);
        let is_absent = Transaction {
            compare: vec![Compare::ModRevision { key, equals }],
            ..Transaction::default()
        };
        !lab.transact(&is_absent).succeeded
    };
    assert!(!is_there(denied) && !is_there(stopped) && is_there(left));
}

#[test]
fn the_first_order_puts_everybody_on_record() {
    let mut lab = Lab::new(3);
    assert_eq!(lab.order(2, Order::Drain), Ok(true));
    lab.register(4);
    let inventory = lab.inventory();
    assert_eq!(inventory.part_of(node(1)), Part::Of(NodeStanding::Active));
    assert_eq!(inventory.part_of(node(2)), Part::Of(NodeStanding::Draining));
    assert_eq!(inventory.part_of(node(4)), Part::Waiting);
}

#[test]
fn maintenance_is_refused_where_it_would_stop_a_volume() {
    let mut lab = Lab::new(3);
    lab.volume("single", 3, Policy::None);
    lab.volume("twice", 3, Policy::Mirror2);
    let refused = lab
        .order(1, Order::MaintenanceOn)
        .expect_err("it holds the only copy");
    assert_eq!(refused, Refusal::LastCopies(vec!["single".into()]));
    assert!(refused.to_string().contains("single"));
    let mut lab = Lab::new(3);
    lab.volume("twice", 3, Policy::Mirror2);
    lab.volume("thrice", 3, Policy::Mirror3);
    assert_eq!(lab.order(1, Order::MaintenanceOn), Ok(true));
    // One at a time: a mirror of three takes writes with two.
    let both = Refusal::LastCopies(vec!["thrice".into(), "twice".into()]);
    assert_eq!(lab.order(2, Order::MaintenanceOn), Err(both));
    assert!(matches!(
        lab.order(1, Order::CancelDrain),
        Err(Refusal::NotSo(_))
    ));
    assert_eq!(lab.order(1, Order::MaintenanceOff), Ok(true));
    lab.seen(3).silent = SECOND;
    assert!(
        lab.order(2, Order::MaintenanceOn).is_err(),
        "node 3 is down"
    );
    lab.seen(3).silent = Duration::ZERO;
    assert_eq!(lab.order(2, Order::MaintenanceOn), Ok(true));
}

/// Each alone would be granted.
#[test]
fn of_two_orders_at_the_same_time_one_counts() {
    for [first, second] in [
        [Order::MaintenanceOn, Order::MaintenanceOn],
        [Order::Drain, Order::MaintenanceOn],
        [Order::MaintenanceOn, Order::Drain],
    ] {
        let mut lab = Lab::new(3);
        lab.volume("twice", 3, Policy::Mirror2);
        let inventory = lab.inventory();
        let [first, second] = [(1, first), (2, second)].map(|(number, what)| {
            let planned = order(&inventory, &lab.sight, node(number), what, None);
            planned.expect("granted").expect("it changes something")
        });
        assert!(lab.transact(&first).succeeded);
        assert!(!lab.transact(&second).succeeded);
    }
}

#[test]
fn maintenance_is_refused_where_the_only_other_copy_has_bad_blocks() {
    let mut lab = Lab::new(2);
    lab.volume("twice", 1, Policy::Mirror2);
    let slice = *lab.inventory().slices.keys().next().expect("there is one");
    lab.sight.bad.insert(slice);
    assert!(matches!(
        lab.order(1, Order::MaintenanceOn),
        Err(Refusal::LastCopies(_))
    ));
}

#[test]
fn a_drain_is_refused_where_there_is_no_place() {
    let mut lab = Lab::new(3);
    lab.volume("twice", 3, Policy::Mirror2);
    lab.volume("thrice", 3, Policy::Mirror3);
    let lacking = Refusal::TooFewNodes(vec!["thrice".into()]);
    assert_eq!(lab.order(1, Order::Drain), Err(lacking));
    lab.register(4);
    assert!(lab.order(1, Order::Drain).is_err(), "node 4 waits");
    lab.order(4, Order::Add).expect("it may be added");
    for number in 2..=4 {
        lab.seen(number).free_bytes = 1 << 30;
    }
    assert!(matches!(
        lab.order(1, Order::Drain),
        Err(Refusal::NoRoom { .. })
    ));
    lab.seen(4).free_bytes = 1 << 40;
    assert_eq!(lab.order(1, Order::Drain), Ok(true));
    assert!(matches!(
        lab.order(1, Order::MaintenanceOn),
        Err(Refusal::NotSo(_))
    ));
}

#[test]
fn sites_are_checked() {
    let mut lab = Lab::new(2);
    for bad in ["", "two words", &"x".repeat(64)] {
        let refused = order(&lab.inventory(), &lab.sight, node(1), Order::Add, Some(bad));
        assert_eq!(refused, Err(Refusal::Site), "{bad}");
    }
    let placed = order(
        &lab.inventory(),
        &lab.sight,
        node(1),
        Order::Add,
        Some("room-1"),
    );
    lab.transact(&placed.expect("a good name").expect("it was nowhere"));
    assert_eq!(lab.inventory().site_of(node(1)), Some("room-1"));
    lab.order(1, Order::Drain).expect("it may be drained");
    assert_eq!(
        lab.inventory().site_of(node(1)),
        Some("room-1"),
        "it does not move"
    );
}

/// What a dead node holds is known by the other copies; and what fits in sum need not fit anywhere.
#[test]
fn a_drain_is_refused_where_a_slice_fits_nowhere() {
    const GIB: u64 = 1 << 30;
    for is_dead in [false, true] {
        let mut lab = Lab::new(2);
        lab.volume("a", 3, Policy::Mirror2);
        for slice in lab.inventory().slices.keys() {
            lab.sight.used.insert(*slice, 100 * GIB);
        }
        for number in 3..=4 {
            lab.register(number);
            lab.order(number, Order::Add).expect("it may be added");
            lab.seen(number).free_bytes = 180 * GIB;
        }
        if is_dead {
            *lab.seen(1) = Seen::default();
            lab.die(1, Duration::from_secs(1));
        }
        let refused = lab.order(1, Order::Drain);
        assert!(
            matches!(
                refused,
                Err(Refusal::NoRoomFor { bytes, left, .. }) if bytes == 100 * GIB && left == 64 * GIB
            ),
            "{refused:?}"
        );
        lab.seen(4).free_bytes = 300 * GIB;
        assert_eq!(lab.order(1, Order::Drain), Ok(true));
    }
}

/// Two drains that fit one at a time: what one has been granted the other does not get, whatever of it is on its way.
#[test]
fn of_two_drains_the_second_is_refused_what_the_first_needs() {
    const GIB: u64 = 1 << 30;
    let mut lab = Lab::new(2);
    lab.settings(|settings| settings.rebalance = false);
    lab.volume("a", 6, Policy::None);
    for slice in lab.inventory().slices.keys() {
        lab.sight.used.insert(*slice, 100 * GIB);
    }
    for number in 3..=4 {
        lab.register(number);
        lab.order(number, Order::Add).expect("it may be added");
        // Two slices each, beside the margin.
        lab.seen(number).free_bytes = 230 * GIB;
    }
    for number in 1..=2 {
        (lab.seen(number).bytes, lab.seen(number).free_bytes) = (300 * GIB, 0);
    }
    assert_eq!(lab.inventory().slices_on(node(1)).count(), 3);
    lab.slow.extend([node(3), node(4)]);
    assert_eq!(lab.order(1, Order::Drain), Ok(true));
    for passes in 0..3 {
        let refused = lab.order(2, Order::Drain);
        assert!(
            matches!(refused, Err(Refusal::NoRoomFor { left, .. }) if left < 100 * GIB),
            "{passes}: {refused:?}"
        );
        lab.pass();
        lab.obey();
    }
    lab.seen(3).free_bytes = 500 * GIB;
    assert_eq!(lab.order(2, Order::Drain), Ok(true));
}
