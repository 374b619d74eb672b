//! Passes over clusters whose slices obey at once.

extern crate std;

use std::vec::Vec;

use holdfast_model::Policy;
use holdfast_stdx::Duration;

use super::*;
use crate::lab_tests::{Lab, node};
use crate::{Order, Part, Refusal};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn where_all_is_well_nothing_is_written() {
    for nodes in 2..6 {
        let mut lab = Lab::new(nodes);
        lab.volume("a", 20, Policy::Mirror2);
        lab.volume("b", 3, Policy::None);
        assert_eq!(lab.pass(), 0, "{nodes} nodes");
    }
}

#[test]
fn a_node_that_is_silent_for_long_is_rebuilt_elsewhere_and_not_before() {
    let mut lab = Lab::new(4);
    lab.volume("a", 20, Policy::Mirror2);
    lab.die(2, HOUR - Duration::from_secs(1));
    assert_eq!(lab.settle(), 0, "it may come back");
    lab.settings(|settings| settings.repair_delay_seconds = 10);
    lab.settle();
    let inventory = lab.inventory();
    assert_eq!(inventory.slices_on(node(2)).count(), 0);
    assert!(inventory.wishes.is_empty());
    for slice in inventory.slices.values() {
        assert_eq!(slice.in_sync().count(), 2);
    }
    assert_eq!(lab.moved.len(), 10, "no more than what is missing");
}

/// The primary takes it for a copy that is there: it hears it, though the control plane does not.
#[test]
fn a_silent_node_whose_replicas_are_in_sync_keeps_them() {
    let mut lab = Lab::new(4);
    lab.volume("a", 8, Policy::Mirror2);
    lab.seen(2).silent = 2 * HOUR;
    assert_eq!(lab.settle(), 0);
}

#[test]
fn nothing_is_rebuilt_for_a_node_in_maintenance() {
    let mut lab = Lab::new(4);
    lab.volume("a", 8, Policy::Mirror2);
    assert_eq!(lab.order(2, Order::MaintenanceOn), Ok(true));
    lab.die(2, 2 * HOUR);
    assert_eq!(lab.settle(), 0);
    lab.order(2, Order::MaintenanceOff)
        .expect("it may be ended");
    assert!(lab.settle() > 0);
}

#[test]
fn where_there_is_no_better_place_a_slice_stays_as_it_is() {
    let mut lab = Lab::new(2);
    lab.volume("a", 8, Policy::Mirror2);
    lab.die(2, 2 * HOUR);
    assert_eq!(lab.settle(), 0);
    assert_eq!(lab.inventory().slices_on(node(2)).count(), 8);
}

#[test]
fn a_drained_node_holds_nothing_and_can_go() {
    let mut lab = Lab::new(4);
    lab.settings(|settings| settings.rebalance = false);
    lab.volume("a", 30, Policy::Mirror2);
    lab.volume("b", 5, Policy::Mirror3);
    let held = lab.inventory().slices_on(node(1)).count();
    assert!(matches!(
        lab.order(1, Order::Remove),
        Err(Refusal::Holds { .. })
    ));
    assert_eq!(lab.order(1, Order::Drain), Ok(true));
    lab.settle();
    assert_eq!(
        lab.moved.len(),
        held,
        "each of its replicas moves, and no other"
    );
    assert_eq!(lab.inventory().slices_on(node(1)).count(), 0);
    assert_eq!(lab.order(1, Order::Remove), Ok(true));
    assert!(!lab.inventory().nodes.contains_key(&node(1)));
    lab.register(1);
    assert_eq!(lab.settle(), 0, "who was removed is given nothing");
    assert_eq!(lab.order(1, Order::Drain), Err(Refusal::Waiting));
    assert_eq!(lab.inventory().part_of(node(1)), Part::Waiting);
    // It may have been another machine of that number.
    assert_eq!(lab.order(1, Order::Remove), Ok(true));
    assert!(!lab.inventory().nodes.contains_key(&node(1)));
    lab.register(1);
    assert_eq!(lab.order(1, Order::Add), Ok(true));
    assert_eq!(lab.settle(), 0);
    lab.settings(|settings| settings.rebalance = true);
    assert!(lab.settle() > 0, "it gets its share");
}

#[test]
fn a_drain_that_is_called_off_leaves_what_has_not_moved() {
    let mut lab = Lab::new(4);
    lab.settings(|settings| settings.rebalance = false);
    lab.volume("a", 60, Policy::Mirror2);
    let held = lab.inventory().slices_on(node(1)).count();
    lab.order(1, Order::Drain).expect("it may be drained");
    lab.pass();
    lab.obey();
    lab.order(1, Order::CancelDrain)
        .expect("it is being drained");
    lab.settle();
    let left = lab.inventory().slices_on(node(1)).count();
    assert!(left > held / 2 && left <= held, "{left} of {held}");
    for slice in lab.inventory().slices.values() {
        assert_eq!(slice.replicas.len(), 2);
    }
}

/// A replica that is to go stays as long as blocks are bad where the slice is to be.
#[test]
fn nobody_is_let_go_while_blocks_are_bad() {
    let mut lab = Lab::new(3);
    lab.volume("a", 1, Policy::Mirror2);
    let slice = *lab.inventory().slices.keys().next().expect("there is one");
    let holder = lab.inventory().slices[&slice].replicas[0].node;
    lab.order(holder.0, Order::Drain)
        .expect("it may be drained");
    lab.sight.bad.insert(slice);
    for _ in 0..5 {
        lab.pass();
        lab.obey();
    }
    assert_eq!(lab.inventory().slices[&slice].replicas.len(), 3);
    lab.sight.bad.clear();
    lab.settle();
    assert_eq!(lab.inventory().slices[&slice].replicas.len(), 2);
}

#[test]
fn a_bounded_number_of_replicas_is_on_its_way() {
    let mut lab = Lab::new(3);
    lab.volume("a", 500, Policy::Mirror2);
    lab.order(1, Order::Drain).expect("it may be drained");
    for _ in 0..5 {
        lab.pass();
        let inventory = lab.inventory();
        let mut busy: BTreeMap<NodeId, usize> = BTreeMap::new();
        for wish in inventory.wishes.values() {
            let record = &inventory.slices[&wish.record.slice];
            for node in movers(&wish.record, record) {
                *busy.entry(node).or_default() += 1;
            }
        }
        assert!(
            busy.values().all(|count| *count <= MOVES_PER_NODE),
            "{busy:?}"
        );
        assert!(inventory.wishes.len() >= MOVES_PER_NODE / 2);
    }
}

#[test]
fn a_target_that_dies_is_given_up_for_another() {
    let mut lab = Lab::new(4);
    lab.volume("a", 1, Policy::Mirror2);
    let slice = *lab.inventory().slices.keys().next().expect("there is one");
    let holder = lab.inventory().slices[&slice].replicas[0].node;
    lab.order(holder.0, Order::Drain)
        .expect("it may be drained");
    lab.pass();
    let wished = |lab: &mut Lab| lab.inventory().wishes[&slice].record.nodes.clone();
    let first = wished(&mut lab);
    let record = lab.inventory().slices[&slice].clone();
    let target = *first
        .iter()
        .find(|node| record.replica(**node).is_none())
        .expect("somebody comes");
    lab.seen(target.0).silent = TARGET_PATIENCE / 2;
    assert_eq!(lab.pass(), 0, "it is given time");
    lab.seen(target.0).silent = TARGET_PATIENCE;
    lab.pass();
    assert!(!wished(&mut lab).contains(&target));
    lab.settle();
}

/// The slices of which a node is to get a copy from another one.
fn coming(lab: &mut Lab, to: NodeId, from: NodeId) -> Vec<SliceId> {
    let inventory = lab.inventory();
    let wishes = inventory.wishes.values().map(|wish| &wish.record);
    let coming = wishes.filter(|wish| {
        let record = &inventory.slices[&wish.slice];
        lacking(wish, record).contains(&to) && record.primary == from
    });
    coming.map(|wish| wish.slice).collect()
}

/// It was named when it died: it has nothing, so that nobody waits for it as for one that held data.
#[test]
fn a_target_that_dies_once_it_is_named_is_given_up_as_soon() {
    for maintenance in [false, true] {
        let mut lab = Lab::new(4);
        lab.volume("a", 1, Policy::Mirror2);
        let slice = *lab.inventory().slices.keys().next().expect("there is one");
        let holder = lab.inventory().slices[&slice].replicas[0].node;
        lab.order(holder.0, Order::Drain)
            .expect("it may be drained");
        lab.slow.extend((1..=4).map(node));
        lab.pass();
        lab.obey();
        let inventory = lab.inventory();
        let wish = &inventory.wishes[&slice].record;
        let target = lacking(wish, &inventory.slices[&slice])[0];
        assert!(
            inventory.slices[&slice].replica(target).is_some(),
            "it is named"
        );
        if maintenance {
            lab.order(target.0, Order::MaintenanceOn)
                .expect("it has nothing good");
        } else {
            lab.seen(target.0).silent = TARGET_PATIENCE / 2;
            assert_eq!(lab.pass(), 0, "it is given time");
            lab.seen(target.0).silent = TARGET_PATIENCE;
        }
        lab.pass();
        assert!(
            !lab.inventory().wishes[&slice]
                .record
                .nodes
                .contains(&target)
        );
    }
}

/// One that held the slice is waited for, though another one is on its way somewhere else.
#[test]
fn who_held_a_slice_is_no_newcomer() {
    let mut lab = Lab::new(4);
    lab.volume("a", 1, Policy::Mirror2);
    let slice = *lab.inventory().slices.keys().next().expect("there is one");
    let record = lab.inventory().slices[&slice].clone();
    let [stays, leaves] = [0, 1].map(|index| record.replicas[index].node);
    lab.slow.extend((1..=4).map(node));
    lab.order(leaves.0, Order::Drain)
        .expect("it may be drained");
    lab.pass();
    lab.obey();
    lab.die(stays.0, TARGET_PATIENCE * 2);
    lab.pass();
    assert!(lab.inventory().wishes[&slice].record.nodes.contains(&stays));
}

/// Moves whose target, or source, is away would keep the others busy for as long as that is.
#[test]
fn moves_that_cannot_go_on_keep_nobody_busy() {
    let mut lab = Lab::new(5);
    lab.volume("a", 60, Policy::Mirror2);
    lab.slow.extend((1..=5).map(node));
    lab.die(1, 2 * HOUR);
    lab.pass();
    lab.obey();
    let inventory = lab.inventory();
    let busy = |sight: &Sight, node| {
        let planner = Planner::new(&inventory, sight);
        planner.moving.get(&node).copied().unwrap_or(0)
    };
    let full = (2..=5)
        .map(node)
        .find(|node| busy(&lab.sight, *node) == MOVES_PER_NODE);
    let full = full.expect("somebody has as much to do as it may have");
    let others = (2..=5).map(node).filter(|it| *it != full);
    let others: Vec<NodeId> = others
        .filter(|it| {
            !coming(&mut lab, *it, full).is_empty() || !coming(&mut lab, full, *it).is_empty()
        })
        .collect();
    assert!(!others.is_empty(), "it has them with somebody");
    for other in others {
        let shared = coming(&mut lab, other, full).len() + coming(&mut lab, full, other).len();
        lab.seen(other.0).silent = Duration::from_secs(1);
        assert_eq!(busy(&lab.sight, full), MOVES_PER_NODE - shared);
        lab.seen(other.0).silent = Duration::ZERO;
    }
}

/// It was given up, comes back, and is in sync long before the one that was to replace it.
#[test]
fn a_node_that_is_back_before_it_is_replaced_keeps_what_it_held() {
    let mut lab = Lab::new(3);
    lab.settings(|settings| settings.rebalance = false);
    lab.volume("a", 6, Policy::Mirror2);
    let before = lab.inventory().slices;
    lab.slow.extend([node(1), node(2), node(3)]);
    lab.die(2, 2 * HOUR);
    lab.pass();
    lab.obey();
    assert!(!lab.inventory().wishes.is_empty());
    lab.come_back(2, |_| true);
    lab.settle();
    let after = lab.inventory();
    assert!(after.wishes.is_empty());
    for (slice, record) in &after.slices {
        let nodes = |record: &SliceRecord| -> Vec<NodeId> {
            record.replicas.iter().map(|replica| replica.node).collect()
        };
        assert_eq!(nodes(record), nodes(&before[slice]));
    }
    assert!(lab.sight.given_up.is_empty(), "nothing is kept in mind");
}

/// Back is not enough: as long as it is not in sync the repair goes on, and what is replaced stays so.
#[test]
fn a_repair_goes_on_until_the_one_that_is_back_is_in_sync() {
    let mut lab = Lab::new(3);
    lab.settings(|settings| settings.rebalance = false);
    lab.volume("a", 1, Policy::Mirror2);
    let slice = *lab.inventory().slices.keys().next().expect("there is one");
    let record = lab.inventory().slices[&slice].clone();
    let dead = record.in_sync().find(|node| *node != record.primary);
    let dead = dead.expect("there are two");
    lab.slow.extend([node(1), node(2), node(3)]);
    lab.die(dead.0, 2 * HOUR);
    lab.pass();
    lab.obey();
    lab.come_back(dead.0, |_| false);
    assert_eq!(lab.pass(), 0, "nothing has changed");
    // The new one is there first.
    let wish = lab.inventory().wishes[&slice].record.clone();
    let new = *wish
        .nodes
        .iter()
        .find(|node| record.replica(**node).is_none())
        .expect("somebody replaces it");
    lab.come_back(new.0, |_| true);
    lab.settle();
    assert!(lab.inventory().slices[&slice].replica(dead).is_none());
}

/// Who leaves is in sync all along, or away for a moment: a move is not taken back.
#[test]
fn a_move_that_is_wanted_is_not_undone() {
    let mut lab = Lab::new(3);
    lab.settings(|settings| settings.rebalance = false);
    lab.volume("a", 8, Policy::Mirror2);
    lab.register(4);
    lab.order(4, Order::Add).expect("it may be added");
    lab.slow.insert(node(4));
    lab.settings(|settings| settings.rebalance = true);
    assert!(lab.pass() > 0, "it gets its share");
    lab.obey();
    let wishes = lab.inventory().wishes;
    for _ in 0..3 {
        assert_eq!(lab.pass(), 0, "they go on");
        lab.obey();
    }
    // Those who leave restart meanwhile, and are back soon.
    for number in 1..=3 {
        lab.die(number, Duration::from_secs(60));
        lab.pass();
        lab.come_back(number, |_| true);
        lab.pass();
    }
    assert_eq!(lab.inventory().wishes, wishes);
    lab.order(1, Order::Drain).expect("it may be drained");
    lab.slow.clear();
    lab.come_back(4, |_| true);
    lab.settle();
    assert_eq!(lab.inventory().slices_on(node(1)).count(), 0);
}

/// A node that comes and goes costs at most one wish each way, each time that it was given up.
#[test]
fn a_node_that_comes_and_goes_is_not_moved_to_and_fro() {
    let mut lab = Lab::new(3);
    lab.settings(|settings| settings.rebalance = false);
    lab.volume("a", 2, Policy::Mirror2);
    lab.slow.extend([node(1), node(2), node(3)]);
    for _ in 0..5 {
        lab.die(2, 2 * HOUR);
        lab.pass();
        lab.obey();
        lab.come_back(2, |_| true);
        lab.pass();
        lab.obey();
        lab.pass();
        lab.obey();
        assert_eq!(lab.pass(), 0, "it has come to rest");
        // Away for a moment only: nothing is wished for that.
        lab.die(2, HOUR / 2);
        assert_eq!(lab.pass(), 0);
        lab.come_back(2, |_| true);
        assert_eq!(lab.pass(), 0);
    }
}

/// The bound: an equal share of all replicas, on the new node, and nothing else.
#[test]
fn growth_moves_no_more_than_an_equal_share() {
    for (nodes, slices, policy) in [
        (3, 45, Policy::Mirror2),
        (2, 31, Policy::Mirror2),
        (4, 40, Policy::Mirror3),
        (5, 7, Policy::None),
    ] {
        let mut lab = Lab::new(nodes);
        lab.volume("a", slices, policy);
        let all = slices as usize * policy.copies();
        lab.register(nodes + 1);
        assert_eq!(lab.settle(), 0, "it waits until it is admitted");
        assert_eq!(lab.order(nodes + 1, Order::Add), Ok(true));
        lab.settle();
        let share = all.div_ceil(usize::from(nodes) + 1);
        assert!(lab.moved.len() <= share, "{} of {all}", lab.moved.len());
        assert!(lab.moved.iter().all(|(_, to)| *to == node(nodes + 1)));
        let counts = lab.counts();
        let held: Vec<usize> = counts.iter().map(|(held, _)| *held).collect();
        let gap = held.iter().max().zip(held.iter().min());
        assert!(
            gap.is_some_and(|(most, least)| most - least <= 1),
            "{held:?}"
        );
        let leads: Vec<usize> = counts.iter().map(|(_, leads)| *leads).collect();
        let gap = leads.iter().max().zip(leads.iter().min());
        assert!(
            gap.is_some_and(|(most, least)| most - least <= 2),
            "{leads:?}"
        );
    }
}

#[test]
fn nothing_is_evened_out_where_that_is_not_wanted() {
    let mut lab = Lab::new(2);
    lab.volume("a", 30, Policy::Mirror2);
    lab.settings(|settings| settings.rebalance = false);
    lab.register(3);
    lab.order(3, Order::Add).expect("it may be added");
    assert_eq!(lab.settle(), 0);
}

#[test]
fn a_larger_node_holds_more() {
    let mut lab = Lab::new(3);
    lab.seen(3).bytes *= 2;
    lab.seen(3).free_bytes *= 2;
    lab.volume("a", 40, Policy::Mirror2);
    lab.settle();
    let counts = lab.counts();
    let held: Vec<usize> = counts.iter().map(|(held, _)| *held).collect();
    assert_eq!(held, [20, 20, 40]);
    assert!(lab.moved.len() <= 1, "it was placed so from the beginning");
}

#[test]
fn a_full_node_is_given_nothing_while_others_have_room() {
    let mut lab = Lab::new(4);
    lab.seen(4).free_bytes = lab.seen(4).bytes / 20;
    lab.volume("a", 12, Policy::Mirror2);
    assert_eq!(lab.inventory().slices_on(node(4)).count(), 0);
    lab.order(1, Order::Drain).expect("it may be drained");
    lab.settle();
    assert_eq!(lab.inventory().slices_on(node(4)).count(), 0);
}

#[test]
fn copies_are_on_different_sites() {
    let mut lab = Lab::new(5);
    for (number, site) in [(1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "b")] {
        lab.site(number, site);
    }
    lab.volume("v", 20, Policy::Mirror2);
    let apart = |lab: &mut Lab| {
        let inventory = lab.inventory();
        for slice in inventory.slices.values() {
            let sites: BTreeSet<_> = slice
                .replicas
                .iter()
                .map(|it| inventory.site_of(it.node))
                .collect();
            assert_eq!(sites.len(), 2, "{slice:?}");
        }
    };
    apart(&mut lab);
    lab.settle();
    apart(&mut lab);
    lab.order(3, Order::Drain).expect("it may be drained");
    lab.settle();
    apart(&mut lab);
    lab.die(1, 2 * HOUR);
    lab.settle();
    apart(&mut lab);
}

/// Whatever happens in whatever order, all comes to rest with every copy in its place.
#[test]
fn everything_comes_to_rest() {
    let mut prng = holdfast_stdx::Prng::from_seed(11);
    for _ in 0..20 {
        let mut lab = Lab::new(5);
        lab.volume("a", 12, Policy::Mirror2);
        lab.volume("b", 6, Policy::Mirror3);
        for _ in 0..12 {
            let number = prng.between(1, 5) as u16;
            let orders = [
                Order::Drain,
                Order::CancelDrain,
                Order::MaintenanceOn,
                Order::MaintenanceOff,
                Order::Remove,
                Order::Add,
            ];
            let what = orders[prng.below(6) as usize];
            // Some are refused.
            let _ = lab.order(number, what);
            lab.register(number);
            lab.pass();
            if prng.chance(1, 2) {
                lab.obey();
            }
        }
        lab.settle();
        let inventory = lab.inventory();
        for (record, volume) in inventory
            .slices
            .values()
            .map(|it| (it, &inventory.volumes[&it.slice.volume].record))
        {
            assert_eq!(record.in_sync().count(), volume.policy.copies());
            assert_eq!(record.replicas.len(), volume.policy.copies());
        }
    }
}

const GIB: u64 = 1 << 30;

/// A mirror of one slice on nodes 1 and 2 of so many; the slice takes 100 GiB.
fn one_slice(nodes: u16) -> (Lab, SliceId) {
    let mut lab = Lab::new(2);
    lab.settings(|settings| settings.rebalance = false);
    lab.volume("a", 1, Policy::Mirror2);
    let slice = *lab.inventory().slices.keys().next().expect("there is one");
    lab.sight.used.insert(slice, 100 * GIB);
    for number in 3..=nodes {
        lab.register(number);
        lab.order(number, Order::Add).expect("it may be added");
    }
    (lab, slice)
}

fn holders(lab: &mut Lab, slice: SliceId) -> Vec<NodeId> {
    let mut nodes: Vec<NodeId> = lab.inventory().slices[&slice]
        .replicas
        .iter()
        .map(|it| it.node)
        .collect();
    nodes.sort_unstable();
    nodes
}

/// Not where the least is, but where what it holds fits; if that is nowhere nothing begins.
#[test]
fn a_copy_is_made_where_there_is_room_for_it() {
    let (mut lab, slice) = one_slice(4);
    lab.die(2, 2 * HOUR);
    lab.seen(3).free_bytes = 110 * GIB;
    lab.seen(4).free_bytes = 110 * GIB;
    assert_eq!(lab.settle(), 0, "a margin is left to hosts");
    lab.seen(4).free_bytes = 120 * GIB;
    lab.settle();
    assert_eq!(holders(&mut lab, slice), [node(1), node(4)]);
}

/// Each fits alone, but not both.
#[test]
fn what_is_on_its_way_to_a_node_has_its_room_there() {
    let mut lab = Lab::new(2);
    lab.settings(|settings| settings.rebalance = false);
    lab.volume("a", 2, Policy::Mirror2);
    for slice in lab.inventory().slices.keys() {
        lab.sight.used.insert(*slice, 100 * GIB);
    }
    lab.register(3);
    lab.order(3, Order::Add).expect("it may be added");
    lab.seen(3).free_bytes = 150 * GIB;
    lab.slow.insert(node(3));
    lab.die(2, 2 * HOUR);
    lab.settle();
    assert_eq!(lab.inventory().slices_on(node(3)).count(), 1);
}

#[test]
fn a_copy_that_finds_no_room_is_made_elsewhere() {
    let (mut lab, slice) = one_slice(3);
    lab.slow.insert(node(3));
    lab.order(2, Order::Drain).expect("there is room");
    lab.settle();
    assert_eq!(holders(&mut lab, slice), [node(1), node(2), node(3)]);
    // Hosts have filled it meanwhile.
    lab.seen(3).free_bytes = 0;
    lab.sight.lacks_room.insert((slice, node(3)));
    lab.register(4);
    lab.order(4, Order::Add).expect("it may be added");
    lab.settle();
    assert_eq!(holders(&mut lab, slice), [node(1), node(4)]);
}

#[test]
fn a_copy_that_finds_no_room_is_not_made_where_the_one_before_may_stay() {
    let (mut lab, slice) = one_slice(3);
    lab.slow.insert(node(3));
    lab.order(2, Order::Drain).expect("there is room");
    lab.settle();
    lab.seen(3).free_bytes = 0;
    lab.sight.lacks_room.insert((slice, node(3)));
    lab.order(2, Order::CancelDrain)
        .expect("it may be called off");
    lab.settle();
    assert_eq!(holders(&mut lab, slice), [node(1), node(2)]);
    assert!(lab.inventory().wishes.is_empty());
}
