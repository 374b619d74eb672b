//! What nodes do for hosts, evened out over clusters whose slices obey at once.

extern crate std;

use std::vec::Vec;

use holdfast_model::Policy;
use holdfast_stdx::{Duration, Prng};

use super::work::WORK_KNOWN;
use crate::lab_tests::Lab;

/// What each node does.
fn work(lab: &mut Lab) -> Vec<u64> {
    lab.pass();
    lab.sight.nodes.values().map(|seen| seen.work).collect()
}

fn held(lab: &mut Lab) -> Vec<usize> {
    lab.counts().into_iter().map(|(held, _)| held).collect()
}

/// A cluster of which the slices on the first node are busy, and the others idle.
fn lopsided() -> Lab {
    let mut lab = Lab::new(4);
    lab.volume("v", 24, Policy::Mirror2);
    lab.settle();
    let inventory = lab.inventory();
    for slice in inventory.slices_on(crate::lab_tests::node(1)) {
        lab.work.insert(slice.slice, 1000);
    }
    lab.sight.unchanged = WORK_KNOWN;
    lab
}

#[test]
fn a_busy_node_changes_places_with_idle_ones() {
    let mut lab = lopsided();
    lab.sight.unchanged = Duration::ZERO;
    assert_eq!(work(&mut lab), [12_000, 1000, 11_000, 0]);
    lab.sight.unchanged = WORK_KNOWN;
    lab.moved.clear();
    lab.settle();
    let after = work(&mut lab);
    assert_eq!(after.iter().sum::<u64>(), 24_000);
    assert!(
        after.iter().all(|work| (5000..=7000).contains(work)),
        "{after:?}"
    );
    assert_eq!(held(&mut lab), [12, 12, 12, 12]);
    // Each of two has changed places in five or six slices.
    assert!(
        lab.moved.len() <= 24,
        "no more than it must: {:?}",
        lab.moved
    );
}

#[test]
fn nothing_moves_for_it_before_it_is_known_nor_where_nobody_wants_it() {
    let mut lab = lopsided();
    lab.sight.unchanged = WORK_KNOWN - Duration::from_secs(1);
    assert_eq!(lab.settle(), 0);
    lab.sight.unchanged = WORK_KNOWN;
    lab.settings(|settings| settings.rebalance = false);
    assert_eq!(lab.settle(), 0);
    lab.settings(|settings| settings.rebalance = true);
    assert!(lab.settle() > 0);
}

#[test]
fn what_nobody_notices_is_left_as_it_is() {
    let mut lab = lopsided();
    for work in lab.work.values_mut() {
        *work = 40;
    }
    assert_eq!(lab.settle(), 0, "480 in a second");
}

/// One slice that does it all cannot be divided: to move it makes another node as busy.
#[test]
fn one_busy_slice_stays_where_it_is() {
    let mut lab = lopsided();
    let busiest = *lab.work.keys().next().expect("there is one");
    lab.work.retain(|slice, _| *slice == busiest);
    assert_eq!(lab.settle(), 0);
}

#[test]
fn new_replicas_go_to_idle_nodes_where_nothing_else_decides() {
    let mut lab = lopsided();
    work(&mut lab);
    lab.sight.unchanged = Duration::ZERO;
    lab.volume("w", 1, Policy::Mirror2);
    let inventory = lab.inventory();
    let new = inventory.volume("w").expect("it was made").record.clone();
    let placed: Vec<_> = inventory
        .slices_of(&new)
        .flat_map(|slice| &slice.replicas)
        .collect();
    assert_eq!(placed.len(), 2);
    assert!(
        placed.iter().all(|replica| replica.node.0 != 1),
        "{placed:?}"
    );
}

/// Whatever slices do, it comes to rest, with nodes as evenly filled as ever, and the busiest less busy.
#[test]
fn with_any_work_all_comes_to_rest() {
    let mut prng = Prng::from_seed(29);
    let mut eased = 0;
    for _ in 0..60 {
        let nodes = prng.between(3, 7) as u16;
        let mut lab = Lab::new(nodes);
        lab.volume("a", 14, Policy::Mirror2);
        lab.volume("b", 5, Policy::Mirror3);
        for number in 1..=nodes {
            if prng.below(2) == 0 {
                lab.site(number, ["a", "b", "c"][prng.below(3) as usize]);
            }
        }
        lab.settle();
        for slice in lab.inventory().slices.into_keys() {
            let busy = prng.below(4) == 0;
            lab.work.insert(
                slice,
                if busy {
                    prng.below(5000)
                } else {
                    prng.below(50)
                },
            );
        }
        let spread = |lab: &mut Lab| {
            let held = held(lab);
            held.iter().max().expect("there are nodes") - held.iter().min().expect("there are")
        };
        let evenness = spread(&mut lab);
        let before = work(&mut lab);
        lab.sight.unchanged = WORK_KNOWN;
        lab.settle();
        let after = work(&mut lab);
        let busiest = |work: &[u64]| *work.iter().max().expect("there are nodes");
        assert!(busiest(&after) <= busiest(&before), "{before:?} {after:?}");
        assert!(spread(&mut lab) <= evenness.max(1));
        eased += usize::from(busiest(&after) * 10 < busiest(&before) * 9);
    }
    assert!(eased > 20, "{eased} of 60");
}
