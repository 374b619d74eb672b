//! Failure domains: where new slices go, what becomes of those that lose a node, and what a changed domain moves. Over clusters
//! whose slices obey at once, or are copied slowly.

extern crate std;

use std::collections::{BTreeMap, BTreeSet};
use std::format;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

use holdfast_model::metadata::{Operation, OperationResult, Selector, Transaction};
use holdfast_model::record::{DomainRecord, SliceRecord};
use holdfast_model::{NodeId, Policy};
use holdfast_stdx::{Duration, Prng};

use crate::lab_tests::{Lab, node};
use crate::{Inventory, MOVES_PER_NODE, Order, PlanError, Refusal, Shared, crowded};

const HOUR: Duration = Duration::from_secs(3600);

fn domains_of(lab: &mut Lab, domains: &[(u16, &str)]) {
    for (number, domain) in domains {
        lab.domain(*number, Some(domain));
    }
}

/// In how many failure domains these nodes are: by names, and not by the code that is tested.
fn domains(inventory: &Inventory, nodes: impl Iterator<Item = NodeId>) -> usize {
    let name = |node: NodeId| match inventory.domain_of(node) {
        Some(domain) => (None, Some(domain)),
        None => (Some(node), None),
    };
    nodes.map(name).collect::<BTreeSet<_>>().len()
}

fn domains_of_slice(inventory: &Inventory, slice: &SliceRecord) -> usize {
    domains(inventory, slice.replicas.iter().map(|it| it.node))
}

/// How many slices are in so many domains.
fn spread(lab: &mut Lab) -> BTreeMap<usize, usize> {
    let inventory = lab.inventory();
    let mut spread = BTreeMap::new();
    for slice in inventory.slices.values() {
        *spread
            .entry(domains_of_slice(&inventory, slice))
            .or_default() += 1;
    }
    spread
}

/// As [`Lab::settle`], where copies take their time: at no moment has a slice fewer good copies than it had, and a node no
/// more on their way to it than it may have.
fn settle_slowly(lab: &mut Lab) {
    let nodes: BTreeSet<NodeId> = lab.inventory().nodes.into_keys().collect();
    let good = |inventory: &Inventory| -> BTreeMap<_, _> {
        let slices = inventory.slices.values();
        slices.map(|it| (it.slice, it.in_sync().count())).collect()
    };
    let before = good(&lab.inventory());
    for _ in 0..1000 {
        lab.slow = nodes.clone();
        lab.obey();
        let steps = lab.pass();
        let inventory = lab.inventory();
        let copies = |slice: &SliceRecord| {
            let volume = &inventory.volumes[&slice.slice.volume];
            volume.record.policy.copies()
        };
        for (slice, count) in good(&inventory) {
            let copies = copies(&inventory.slices[&slice]);
            assert!(count >= before[&slice].min(copies), "{slice:?} lost a copy");
        }
        let mut coming: BTreeMap<NodeId, usize> = BTreeMap::new();
        for wish in inventory.wishes.values() {
            let record = &inventory.slices[&wish.record.slice];
            let lacks = |node: &&NodeId| !record.in_sync().any(|it| it == **node);
            for node in wish.record.nodes.iter().filter(lacks) {
                *coming.entry(*node).or_default() += 1;
            }
        }
        assert!(
            coming.values().all(|it| *it <= MOVES_PER_NODE),
            "{coming:?}"
        );
        lab.slow.clear();
        let up: Vec<NodeId> = nodes
            .iter()
            .copied()
            .filter(|it| lab.sight.is_up(*it))
            .collect();
        for node in up {
            lab.come_back(node.0, |_| true);
        }
        if steps == 0 && inventory.wishes.is_empty() {
            return;
        }
    }
    panic!("it never comes to rest");
}

/// Whatever nodes, domains, sites and room there are: no two copies of a new slice are in one domain, and what cannot be so is
/// refused.
#[test]
fn new_slices_never_share_a_domain() {
    let mut prng = Prng::from_seed(41);
    let (mut made, mut refused) = (0, 0);
    for _ in 0..300 {
        let nodes = prng.between(1, 9) as u16;
        let mut lab = Lab::new(nodes);
        for number in 1..=nodes {
            let named = ["a", "b", "c", "d"].get(prng.below(6) as usize);
            lab.domain(number, named.copied());
            lab.site(number, ["x", "y", "z"][prng.below(3) as usize]);
            if prng.below(4) == 0 {
                lab.seen(number).free_bytes = lab.seen(number).bytes / 50;
            }
        }
        let policies = [
            Policy::None,
            Policy::Mirror2,
            Policy::Mirror3,
            Policy::Mirror4,
        ];
        let policy = policies[prng.below(4) as usize];
        let inventory = lab.inventory();
        let in_all = domains(&inventory, inventory.nodes.keys().copied());
        if in_all < policy.copies() {
            let error = match usize::from(nodes) {
                nodes if nodes < policy.copies() => PlanError::TooFewNodes { policy, nodes },
                nodes => PlanError::TooFewDomains {
                    policy,
                    nodes,
                    domains: in_all,
                },
            };
            assert_eq!(lab.refused(3, policy), error);
            refused += 1;
            continue;
        }
        lab.volume("v", 12, policy);
        let of_slices = spread(&mut lab);
        assert_eq!(of_slices, BTreeMap::from([(policy.copies(), 12)]));
        made += 1;
    }
    assert!(made > 100 && refused > 50, "{made} made, {refused} refused");
}

#[test]
fn what_needs_more_domains_is_refused_by_their_number() {
    let mut lab = Lab::new(5);
    domains_of(&mut lab, &[(1, "a"), (2, "a"), (3, "b"), (4, "b")]);
    lab.volume("v", 6, Policy::Mirror3);
    let policy = Policy::Mirror4;
    let few = lab.refused(1, policy);
    let (nodes, domains) = (5, 3);
    assert_eq!(
        few,
        PlanError::TooFewDomains {
            policy,
            nodes,
            domains
        }
    );
    assert_eq!(
        few.to_string(),
        "policy mirror4 puts each of its 4 copies into a failure domain of its own, and the cluster's 5 nodes are in 3 failure \
         domains"
    );
    lab.seen(5).silent = HOUR;
    let policy = Policy::Mirror3;
    let (domains_up, domains) = (2, 3);
    let down = lab.refused(1, policy);
    assert_eq!(
        down,
        PlanError::TooFewDomainsUp {
            policy,
            domains_up,
            domains
        }
    );
    assert!(
        down.to_string()
            .ends_with("nodes are up in 2 of the cluster's 3")
    );
}

#[test]
fn what_a_dead_node_held_is_made_again_in_another_domain() {
    let mut lab = Lab::new(6);
    let all = [(1, "a"), (2, "a"), (3, "a"), (4, "b"), (5, "b"), (6, "b")];
    domains_of(&mut lab, &all);
    lab.volume("v", 24, Policy::Mirror2);
    lab.settle();
    let held = lab.counts()[3].0;
    assert!(held > 6, "{held}");
    // Nearly full: rather that than two in one domain.
    for number in [5, 6] {
        lab.seen(number).free_bytes = lab.seen(number).bytes / 20;
    }
    lab.moved.clear();
    lab.die(4, 2 * HOUR);
    settle_slowly(&mut lab);
    assert_eq!(spread(&mut lab), BTreeMap::from([(2, 24)]));
    assert_eq!(lab.moved.len(), held, "each is made once");
}

/// A copy beside another one is more than none, and moves on as soon as its place is there again.
#[test]
fn where_only_the_same_domain_is_left_a_copy_is_made_there_until_another_one_is_back() {
    let mut lab = Lab::new(3);
    domains_of(&mut lab, &[(1, "a"), (2, "a"), (3, "b")]);
    lab.volume("v", 10, Policy::Mirror2);
    lab.settle();
    lab.die(3, 2 * HOUR);
    settle_slowly(&mut lab);
    assert_eq!(spread(&mut lab), BTreeMap::from([(1, 10)]));
    let inventory = lab.inventory();
    for slice in inventory.slices.values() {
        assert_eq!(slice.in_sync().count(), 2, "{slice:?}");
        let found = crowded(&inventory, slice);
        assert_eq!(found, Some((Shared::Domain, BTreeSet::from([node(3)]))));
    }
    lab.come_back(3, |_| false);
    settle_slowly(&mut lab);
    assert_eq!(spread(&mut lab), BTreeMap::from([(2, 10)]));
    assert_eq!(lab.counts()[2].0, 10, "one copy of each");
}

/// One of three domains has no room: copies are made beside others, and do not wait for it.
#[test]
fn a_copy_is_made_beside_another_one_where_no_other_domain_has_room() {
    let mut lab = Lab::new(4);
    domains_of(&mut lab, &[(1, "a"), (2, "a"), (3, "b"), (4, "c")]);
    lab.volume("v", 9, Policy::Mirror2);
    lab.settle();
    let slices: Vec<_> = lab.inventory().slices.into_keys().collect();
    for slice in slices {
        lab.sight.used.insert(slice, 1 << 30);
    }
    lab.seen(4).free_bytes = 0;
    lab.die(3, 2 * HOUR);
    settle_slowly(&mut lab);
    for slice in lab.inventory().slices.values() {
        assert_eq!(slice.in_sync().count(), 2, "{slice:?}");
    }
    assert_eq!(lab.counts()[2], (0, 0));
    assert!(spread(&mut lab).contains_key(&1));
    lab.seen(4).free_bytes = lab.seen(4).bytes / 2;
    lab.order(3, Order::Remove).expect("nothing is on it");
    settle_slowly(&mut lab);
    assert_eq!(spread(&mut lab), BTreeMap::from([(2, 9)]));
}

#[test]
fn copies_move_apart_when_a_domain_is_changed() {
    for rebalance in [true, false] {
        let mut lab = Lab::new(4);
        lab.settings(|settings| settings.rebalance = rebalance);
        lab.volume("v", 30, Policy::Mirror2);
        lab.settle();
        let before = lab.inventory();
        domains_of(&mut lab, &[(1, "a"), (3, "a")]);
        let share = |slice: &&SliceRecord| {
            slice.replica(node(1)).is_some() && slice.replica(node(3)).is_some()
        };
        let shared: Vec<_> = before.slices.values().filter(share).collect();
        assert!(shared.len() > 4, "some have to move: {}", shared.len());
        let inventory = lab.inventory();
        for slice in &shared {
            let found = crowded(&inventory, slice);
            let others = BTreeSet::from([node(2), node(4)]);
            assert_eq!(found, Some((Shared::Domain, others)));
        }
        let needed = shared.len();
        lab.moved.clear();
        settle_slowly(&mut lab);
        assert_eq!(spread(&mut lab), BTreeMap::from([(2, 30)]));
        if !rebalance {
            assert_eq!(lab.moved.len(), needed, "no more than it must");
        }
        // And what was moved stays, if the domain is as it was.
        lab.domain(1, None);
        lab.domain(3, None);
        lab.moved.clear();
        if !rebalance {
            settle_slowly(&mut lab);
            assert_eq!(lab.moved, []);
        }
    }
}

#[test]
fn copies_do_not_move_apart_while_a_node_is_silent_or_where_no_other_domain_has_room() {
    let mut lab = Lab::new(4);
    lab.volume("v", 8, Policy::Mirror2);
    lab.settle();
    domains_of(&mut lab, &[(1, "a"), (2, "a"), (3, "a")]);
    let before = spread(&mut lab);
    assert!(before.contains_key(&1));
    lab.seen(4).silent = Duration::from_secs(5);
    assert_eq!(lab.pass(), 0, "4 is silent");
    lab.seen(4).silent = Duration::ZERO;
    lab.seen(4).free_bytes = lab.seen(4).bytes / 20;
    assert_eq!(lab.pass(), 0, "4 is nearly full");
    lab.seen(4).free_bytes = lab.seen(4).bytes / 2;
    settle_slowly(&mut lab);
    assert_eq!(spread(&mut lab), BTreeMap::from([(2, 8)]));
}

/// Sites are for what is left to choose.
#[test]
fn a_domain_is_never_given_up_for_a_site() {
    let mut lab = Lab::new(4);
    domains_of(&mut lab, &[(1, "a"), (2, "b"), (3, "a"), (4, "b")]);
    // Who would be apart by sites is together by domains.
    for (number, site) in [(1, "x"), (2, "x"), (3, "y"), (4, "x")] {
        lab.site(number, site);
    }
    lab.volume("v", 12, Policy::Mirror2);
    lab.settle();
    assert_eq!(spread(&mut lab), BTreeMap::from([(2, 12)]));
    let inventory = lab.inventory();
    for slice in inventory.slices.values() {
        let nodes: Vec<NodeId> = slice.in_sync().collect();
        assert!(
            nodes.contains(&node(3)),
            "of domain a, in another site: {nodes:?}"
        );
    }
}

/// Evening out fills a new node, and not with what would be in one domain then.
#[test]
fn evening_out_leaves_copies_in_their_domains() {
    let mut lab = Lab::new(3);
    domains_of(&mut lab, &[(1, "a"), (2, "a"), (3, "b")]);
    lab.volume("v", 20, Policy::Mirror2);
    lab.settle();
    assert_eq!(lab.counts()[2].0, 20, "one copy of each");
    lab.register(4);
    lab.domain(4, Some("a"));
    lab.order(4, Order::Add).expect("it may be added");
    settle_slowly(&mut lab);
    assert_eq!(lab.counts()[2].0, 20);
    assert_eq!(spread(&mut lab), BTreeMap::from([(2, 20)]));
    let held: Vec<usize> = lab.counts().iter().map(|(held, _)| *held).collect();
    assert!(
        held[3] >= 6,
        "it has its share of the other copies: {held:?}"
    );
}

#[test]
fn a_drain_is_refused_where_copies_would_have_to_share_a_domain() {
    let mut lab = Lab::new(4);
    domains_of(&mut lab, &[(1, "a"), (2, "a"), (3, "b"), (4, "b")]);
    lab.volume("v", 8, Policy::Mirror2);
    lab.settle();
    lab.seen(4).silent = Duration::from_secs(5);
    let refused = lab
        .order(3, Order::Drain)
        .expect_err("only domain a is left");
    assert_eq!(refused, Refusal::TooFewDomains(vec!["v".into()]));
    assert!(
        refused
            .to_string()
            .contains("failure domains for volumes v")
    );
    lab.seen(4).silent = Duration::ZERO;
    assert_eq!(lab.order(3, Order::Drain), Ok(true));
    settle_slowly(&mut lab);
    assert_eq!(lab.counts()[2], (0, 0));
    assert_eq!(spread(&mut lab), BTreeMap::from([(2, 8)]));
}

/// Its copies are lost, and are not waited for.
#[test]
fn a_dead_node_may_be_drained_into_the_domain_of_the_others() {
    let mut lab = Lab::new(3);
    domains_of(&mut lab, &[(1, "a"), (2, "a"), (3, "b")]);
    lab.volume("v", 6, Policy::Mirror2);
    lab.settle();
    let slices: Vec<_> = lab.inventory().slices.into_keys().collect();
    for slice in slices {
        lab.sight.used.insert(slice, 64 << 30);
    }
    lab.die(3, Duration::from_secs(60));
    assert_eq!(lab.order(3, Order::Drain), Ok(true));
    settle_slowly(&mut lab);
    assert_eq!(lab.counts()[2], (0, 0));
    assert_eq!(spread(&mut lab), BTreeMap::from([(1, 6)]));
    assert_eq!(lab.order(3, Order::Remove), Ok(true));
}

/// There is room on a node that has no copy, and it is in the domain of the other copies.
#[test]
fn a_drain_counts_the_room_of_other_domains_only() {
    let mut lab = Lab::new(4);
    domains_of(&mut lab, &[(1, "a"), (2, "a"), (3, "b"), (4, "b")]);
    lab.volume("v", 4, Policy::Mirror2);
    lab.settle();
    let slices: Vec<_> = lab.inventory().slices.into_keys().collect();
    for slice in slices {
        lab.sight.used.insert(slice, 64 << 30);
    }
    lab.seen(4).free_bytes = lab.seen(4).bytes / 20;
    let refused = lab
        .order(3, Order::Drain)
        .expect_err("4 has no room, and a has a copy of each");
    assert!(matches!(refused, Refusal::NoRoomFor { .. }), "{refused:?}");
}

/// Its room goes after the drain has begun: what is left stays where it is, a good copy in a domain of its own.
#[test]
fn what_is_drained_stays_rather_than_share_a_domain() {
    let mut lab = Lab::new(4);
    domains_of(&mut lab, &[(1, "a"), (2, "a"), (3, "b"), (4, "b")]);
    lab.volume("v", 4, Policy::Mirror2);
    lab.settle();
    let slices: Vec<_> = lab.inventory().slices.into_keys().collect();
    assert_eq!(lab.order(3, Order::Drain), Ok(true));
    for slice in slices {
        lab.sight.used.insert(slice, 64 << 30);
    }
    lab.seen(4).free_bytes = 0;
    let held = lab.counts()[2].0;
    assert!(held > 0);
    settle_slowly(&mut lab);
    assert_eq!(lab.counts()[2].0, held);
    assert_eq!(spread(&mut lab), BTreeMap::from([(2, 4)]));
    lab.seen(4).free_bytes = lab.seen(4).bytes / 2;
    settle_slowly(&mut lab);
    assert_eq!(lab.counts()[2], (0, 0));
    assert_eq!(spread(&mut lab), BTreeMap::from([(2, 4)]));
}

/// All nodes are of one domain: what shares it may share it elsewhere.
#[test]
fn what_shares_a_domain_anyway_can_be_drained() {
    let mut lab = Lab::new(3);
    lab.volume("v", 6, Policy::Mirror2);
    lab.settle();
    domains_of(&mut lab, &[(1, "a"), (2, "a"), (3, "a")]);
    let inventory = lab.inventory();
    let slice = inventory.slices.values().next().expect("there are some");
    let nowhere = Some((Shared::Domain, BTreeSet::new()));
    assert_eq!(crowded(&inventory, slice), nowhere);
    assert_eq!(lab.settle(), 0, "there is nowhere to go");
    assert_eq!(lab.order(1, Order::Drain), Ok(true));
    settle_slowly(&mut lab);
    assert_eq!(lab.counts()[0], (0, 0));
}

/// What counts for maintenance are the copies of each slice, so a whole domain may be worked on, as long as no copies share it.
#[test]
fn a_whole_domain_may_be_in_maintenance() {
    let mut lab = Lab::new(4);
    domains_of(&mut lab, &[(1, "a"), (2, "a"), (3, "b"), (4, "b")]);
    lab.volume("v", 12, Policy::Mirror2);
    lab.settle();
    for number in [1, 2] {
        assert_eq!(lab.order(number, Order::MaintenanceOn), Ok(true));
    }
    for number in [3, 4] {
        let refused = lab.order(number, Order::MaintenanceOn);
        assert_eq!(refused, Err(Refusal::LastCopies(vec!["v".into()])));
    }
    let mut lab = Lab::new(3);
    lab.volume("v", 12, Policy::Mirror2);
    lab.settle();
    domains_of(&mut lab, &[(1, "a"), (2, "a")]);
    assert_eq!(lab.order(1, Order::MaintenanceOn), Ok(true));
    let refused = lab.order(2, Order::MaintenanceOn);
    assert_eq!(
        refused,
        Err(Refusal::LastCopies(vec!["v".into()])),
        "some share it still"
    );
}

#[test]
fn the_domain_of_a_removed_node_is_forgotten() {
    let mut lab = Lab::new(3);
    domains_of(&mut lab, &[(2, "a"), (3, "a")]);
    assert_eq!(lab.inventory().domain_of(node(3)), Some("a"));
    assert_eq!(lab.order(3, Order::Remove), Ok(true));
    let range = Operation::Range(Selector::Key(DomainRecord::key(node(3))));
    let outcome = lab.transact(&Transaction {
        success: vec![range],
        ..Transaction::default()
    });
    assert_eq!(outcome.results, [OperationResult::Range(vec![])]);
    assert_eq!(lab.inventory().domain_of(node(2)), Some("a"));
}

/// Domains that are changed, nodes that die and come back, at any time: at no moment is a good copy given up for that, and with
/// all nodes up it comes to rest, in as many domains as there are.
#[test]
fn with_any_domains_all_comes_to_rest_apart() {
    let mut prng = Prng::from_seed(43);
    let mut shared = 0;
    for _ in 0..40 {
        let nodes = prng.between(4, 8) as u16;
        let mut lab = Lab::new(nodes);
        lab.volume("a", 12, Policy::Mirror2);
        lab.volume("b", 9, Policy::Mirror3);
        for _ in 0..3 {
            for number in 1..=nodes {
                if prng.below(2) == 0 {
                    let named = ["a", "b", "c", "d"].get(prng.below(6) as usize);
                    lab.domain(number, named.copied());
                }
                if prng.below(4) == 0 {
                    lab.site(number, ["x", "y"][prng.below(2) as usize]);
                }
            }
            // Those of whom nobody has told where they are have to be admitted.
            for number in 1..=nodes {
                lab.order(number, Order::Add).expect("it may be");
            }
            let dead = prng.between(1, nodes.into()) as u16;
            lab.die(dead, 2 * HOUR);
            settle_slowly(&mut lab);
            lab.come_back(dead, |_| true);
            shared += spread(&mut lab).get(&1).copied().unwrap_or(0);
            settle_slowly(&mut lab);
            let inventory = lab.inventory();
            let there = domains(&inventory, inventory.nodes.keys().copied());
            for slice in inventory.slices.values() {
                let used = domains_of_slice(&inventory, slice);
                assert_eq!(used, there.min(slice.replicas.len()), "{slice:?}");
            }
        }
    }
    assert!(
        shared > 20,
        "some were made beside others first: {shared} slices"
    );
}

/// How much the node with the most holds and leads more than the one with the least.
fn unevenness(counts: &[(usize, usize)]) -> (usize, usize) {
    let gap = |counts: Vec<usize>| {
        let (least, most) = (counts.iter().min(), counts.iter().max());
        most.expect("there are nodes") - least.expect("there are nodes")
    };
    let (held, led): (Vec<usize>, Vec<usize>) = counts.iter().copied().unzip();
    (gap(held), gap(led))
}

/// Several nodes of one machine are there to share what it does: each holds and leads as much, of one large volume and of
/// several small ones.
#[test]
fn nodes_of_a_machine_hold_and_lead_as_much() {
    for (machines, each) in [(2, 2), (3, 2), (4, 2), (3, 3), (3, 4), (5, 3)] {
        for policy in [Policy::Mirror2, Policy::Mirror3] {
            for volumes in [&[1, 1, 1, 1][..], &[64], &[16, 16, 16, 16], &[1, 7, 30, 2]] {
                let what = (machines, each, policy, volumes);
                if policy.copies() > usize::from(machines) {
                    continue;
                }
                let mut lab = Lab::new(machines * each);
                for number in 0..machines * each {
                    let machine = format!("m{}", number / each + 1);
                    lab.domain(number + 1, Some(&machine));
                }
                for (place, slices) in volumes.iter().enumerate() {
                    lab.volume(&format!("v{place}"), *slices, policy);
                }
                // As domains allow it, that is: where new slices are few, one node may have two and another one none until then.
                lab.settle();
                let counts = lab.counts();
                for machine in counts.chunks(usize::from(each)) {
                    let (held, led) = unevenness(machine);
                    assert!(held <= 1 && led <= 1, "{what:?}: {counts:?}");
                }
                // Who leads a slice is one of its two or three: over all nodes that does not always come out even.
                let (held, led) = unevenness(&counts);
                assert!(held <= 1 && led <= 2, "{what:?}: {counts:?}");
            }
        }
    }
}

/// Machines get a second node each: it takes half of what its machine has.
#[test]
fn a_second_node_of_a_machine_takes_half_of_all() {
    for slices in [4, 13, 30, 60] {
        let mut lab = Lab::new(3);
        domains_of(&mut lab, &[(1, "m1"), (2, "m2"), (3, "m3")]);
        lab.volume("v", slices, Policy::Mirror2);
        for number in 4..=6 {
            lab.register(number);
            lab.domain(number, Some(&format!("m{}", number - 3)));
            lab.order(number, Order::Add).expect("it may be added");
        }
        settle_slowly(&mut lab);
        let counts = lab.counts();
        let (held, led) = unevenness(&counts);
        assert!(held <= 1 && led <= 1, "{slices} slices: {counts:?}");
        let of_slices = spread(&mut lab);
        assert_eq!(of_slices, BTreeMap::from([(2, slices as usize)]));
    }
}
