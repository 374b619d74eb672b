//! Copies that move apart, over clusters whose slices obey at once.

extern crate std;

use alloc::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use holdfast_model::Policy;
use holdfast_stdx::Duration;

use super::*;
use crate::Order;
use crate::lab_tests::Lab;

const HOUR: Duration = Duration::from_secs(3600);

/// How many of the slices are on so many sites.
fn spread(lab: &mut Lab) -> BTreeMap<usize, usize> {
    let inventory = lab.inventory();
    let mut spread = BTreeMap::new();
    for slice in inventory.slices.values() {
        let nodes = slice.replicas.iter().map(|it| it.node);
        let sites: BTreeSet<_> = nodes.map(|node| inventory.site_of(node)).collect();
        *spread.entry(sites.len()).or_default() += 1;
    }
    spread
}

#[test]
fn copies_move_apart_when_sites_are_told_later() {
    for rebalance in [true, false] {
        let mut lab = Lab::new(4);
        lab.settings(|settings| settings.rebalance = rebalance);
        lab.volume("v", 30, Policy::Mirror2);
        lab.settle();
        let before: Vec<_> = lab.inventory().slices.into_values().collect();
        for (number, site) in [(1, "a"), (3, "a"), (2, "b"), (4, "b")] {
            lab.site(number, site);
        }
        let share = |slice: &&SliceRecord| {
            let nodes: Vec<u16> = slice.replicas.iter().map(|it| it.node.0).collect();
            nodes == [1, 3] || nodes == [2, 4]
        };
        let shared = before.iter().filter(share).count();
        assert!(shared > 20, "most have to move: {shared}");
        lab.moved.clear();
        lab.settle();
        assert_eq!(spread(&mut lab), BTreeMap::from([(2, 30)]));
        if rebalance {
            let held: Vec<usize> = lab.counts().iter().map(|(held, _)| *held).collect();
            assert!(held.iter().all(|held| (14..=16).contains(held)), "{held:?}");
        } else {
            assert_eq!(lab.moved.len(), shared, "no more than it must");
        }
    }
}

#[test]
fn copies_move_apart_again_when_a_site_is_back() {
    let mut lab = Lab::new(6);
    for (number, site) in [(1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "c"), (6, "c")] {
        lab.site(number, site);
    }
    lab.volume("v", 24, Policy::Mirror3);
    lab.settle();
    lab.die(5, 2 * HOUR);
    lab.die(6, 2 * HOUR);
    lab.settle();
    assert_eq!(spread(&mut lab), BTreeMap::from([(2, 24)]));
    lab.come_back(5, |_| false);
    lab.settle();
    assert_eq!(
        spread(&mut lab),
        BTreeMap::from([(2, 24)]),
        "one is down still"
    );
    lab.come_back(6, |_| false);
    lab.settle();
    assert_eq!(spread(&mut lab), BTreeMap::from([(3, 24)]));
}

/// A fifth node that holds nothing is filled, but not with what would be on fewer sites then.
#[test]
fn evening_out_leaves_copies_apart() {
    let mut lab = Lab::new(3);
    for (number, site) in [(1, "a"), (2, "a"), (3, "b")] {
        lab.site(number, site);
    }
    lab.volume("v", 20, Policy::Mirror2);
    lab.settle();
    assert_eq!(
        lab.counts()[2].0,
        20,
        "one copy of each has to be in site b"
    );
    lab.register(4);
    lab.order(4, Order::Add).expect("it may be added");
    lab.site(4, "a");
    lab.settle();
    assert_eq!(lab.counts()[2].0, 20);
    assert_eq!(spread(&mut lab), BTreeMap::from([(2, 20)]));
}

#[test]
fn copies_stay_together_where_no_other_site_has_room() {
    let mut lab = Lab::new(4);
    lab.volume("v", 8, Policy::Mirror2);
    lab.settle();
    for (number, site) in [(1, "a"), (2, "a"), (3, "a"), (4, "b")] {
        lab.site(number, site);
    }
    let slices: Vec<_> = lab.inventory().slices.into_keys().collect();
    for slice in slices {
        lab.sight.used.insert(slice, 1 << 30);
    }
    lab.seen(4).free_bytes = lab.seen(4).bytes / 20;
    let before = spread(&mut lab);
    assert_eq!(lab.settle(), 0, "4 is full");
    assert_eq!(spread(&mut lab), before);
    lab.seen(4).free_bytes = lab.seen(4).bytes / 2;
    lab.settle();
    assert_eq!(spread(&mut lab), BTreeMap::from([(2, 8)]));
}

/// Sites that are told, and told anew, at any time: it comes to rest, on as many sites as there are.
#[test]
fn with_any_sites_all_comes_to_rest_apart() {
    let mut prng = holdfast_stdx::Prng::from_seed(23);
    for _ in 0..40 {
        let nodes = prng.between(3, 7) as u16;
        let mut lab = Lab::new(nodes);
        lab.volume("a", 12, Policy::Mirror2);
        lab.volume("b", 9, Policy::Mirror3);
        for _ in 0..3 {
            for number in 1..=nodes {
                lab.site(number, ["a", "b", "c", "d"][prng.below(4) as usize]);
            }
            lab.settle();
            let inventory = lab.inventory();
            let sites = inventory.nodes.keys().map(|node| inventory.site_of(*node));
            let sites = sites.collect::<BTreeSet<_>>().len();
            for slice in inventory.slices.values() {
                let nodes = slice.replicas.iter().map(|it| it.node);
                let used = nodes.map(|node| inventory.site_of(node));
                let used = used.collect::<BTreeSet<_>>().len();
                assert_eq!(used, sites.min(slice.replicas.len()), "{slice:?}");
            }
        }
    }
}
