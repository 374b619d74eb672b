//! Plans carried out on the metadata's own machine, whole, in part, and against each other.

extern crate std;

use std::format;
use std::string::{String, ToString};

use holdfast_metadata::{ClientId, HistoryLimits, Machine, Output};
use holdfast_model::metadata::{
    MetadataAnswer, MetadataRequest, MetadataToken, TransactionOutcome,
};
use holdfast_model::record::{
    ChapRecord, InitiatorRecord, IntentRecord, Membership, NodeRecord, NodeStanding, Record, Secret,
};
use holdfast_model::{ClusterId, Epoch, Incarnation, SLICE_SIZE, SliceId, StoreId};
use holdfast_stdx::Instant;

use super::*;
use crate::{
    AccessError, AccessOrder, IscsiNodeName, SIZE_MAX, change_access, put_initiator,
    remove_initiator,
};

struct Store(Machine);

impl Store {
    fn with_nodes(count: u16) -> Self {
        let mut store = Self(Machine::new(HistoryLimits::default()));
        let cluster = ClusterRecord {
            schema: 1,
            cluster: ClusterId(7),
            next_volume: VolumeId(1),
            recoveries: 0,
            incarnation_floor: Incarnation::ZERO,
        };
        store.put(CLUSTER_KEY.into(), &cluster);
        for node in 1..=count {
            store.add_node(NodeId(node));
        }
        store
    }

    fn add_node(&mut self, node: NodeId) {
        let record = NodeRecord {
            schema: 1,
            node,
            name: node.to_string(),
            store: StoreId(u128::from(node.0) << 8),
            uses: 1,
            use_id: 1,
            incarnation: Incarnation(1),
            portal: String::new(),
            peer: String::new(),
            api: String::new(),
        };
        self.put(NodeRecord::key(node), &record);
    }

    fn put(&mut self, key: String, record: &impl Record) {
        let success = vec![put(key, record)];
        let outcome = self.transact(&Transaction {
            success,
            ..Transaction::default()
        });
        assert!(outcome.succeeded);
    }

    fn transact(&mut self, transaction: &Transaction) -> TransactionOutcome {
        let mut out = Output::default();
        let request = MetadataRequest::Transact(transaction.clone());
        let (client, token) = (ClientId(1), MetadataToken(1));
        self.0
            .apply(Instant::ZERO, client, token, request, &mut out);
        match out.answers.pop().map(|addressed| addressed.answer) {
            Some(MetadataAnswer::Transacted(outcome)) => outcome,
            other => panic!("the transaction is valid: {other:?}"),
        }
    }

    fn inventory(&mut self) -> Inventory {
        let outcome = self.transact(&Inventory::query());
        Inventory::from_outcome(outcome).expect("what was planned reads")
    }

    /// Whether all transactions held.
    fn carry_out(&mut self, plan: &Plan) -> bool {
        plan.transactions
            .iter()
            .all(|transaction| self.transact(transaction).succeeded)
    }

    fn create(&mut self, name: &str, bytes: u64, policy: Policy) -> Result<Plan, PlanError> {
        create(
            &self.inventory(),
            |_| Some(Seen::with_room(1 << 40, 1 << 40)),
            &named(name),
            size(bytes),
            policy,
        )
    }

    /// No slice or name without a volume, and no volume without its slices.
    fn assert_tidy(&mut self) {
        let inventory = self.inventory();
        for (name, record) in &inventory.names {
            assert_eq!(&inventory.volumes[&record.record.volume].record.name, name);
        }
        assert_eq!(inventory.names.len(), inventory.volumes.len());
        assert!(inventory.makings.is_empty());
        let mut slices = 0;
        for volume in inventory.volumes.values() {
            let found: Vec<_> = inventory.slices_of(&volume.record).collect();
            assert_eq!(found.len() as u32, volume.record.slice_count());
            slices += found.len();
        }
        assert_eq!(inventory.slices.len(), slices);
    }
}

fn named(name: &str) -> VolumeName {
    name.parse().expect("a good name")
}

fn size(bytes: u64) -> VolumeSize {
    VolumeSize::new(bytes).expect("a good size")
}

#[test]
fn a_volume_is_made_with_all_its_slices() {
    let mut store = Store::with_nodes(3);
    let plan = store.create("demo", 16 << 30, Policy::Mirror2).unwrap();
    assert!(store.carry_out(&plan));
    store.assert_tidy();
    let inventory = store.inventory();
    let volume = &inventory.volume("demo").unwrap().record;
    assert_eq!(volume, &plan.volume);
    assert_eq!((volume.volume, volume.lun), (VolumeId(1), 0));
    assert_eq!(volume.target, "iqn.2026-11.io.holdfast:demo");
    assert_eq!(inventory.cluster.record.next_volume, VolumeId(2));
    for slice in inventory.slices_of(volume) {
        assert_eq!(slice.epoch, Epoch(1));
        assert_eq!(slice.replicas.len(), 2);
        assert_eq!(slice.in_sync().count(), 2);
        assert!(slice.in_sync().any(|node| node == slice.primary));
        assert_eq!(slice.copies_min, 1);
        assert_ne!(slice.replicas[0].node, slice.replicas[1].node);
        assert_eq!(
            slice.replicas[0].store.0,
            u128::from(slice.replicas[0].node.0) << 8
        );
        assert_eq!(slice.replicas[0].membership, Membership::InSync);
    }
}

#[test]
fn replicas_and_primaries_are_spread_evenly() {
    for nodes in 1..=7 {
        for policy in Policy::ALL
            .into_iter()
            .filter(|policy| policy.copies() <= nodes.into())
        {
            let mut store = Store::with_nodes(nodes);
            for (name, slices) in [("a", 5), ("b", 1), ("c", 37)] {
                let plan = store.create(name, slices * SLICE_SIZE, policy).unwrap();
                assert!(store.carry_out(&plan));
            }
            let inventory = store.inventory();
            let count = |holds: &dyn Fn(&SliceRecord, NodeId) -> bool| {
                let counts = (1..=nodes).map(|node| {
                    inventory
                        .slices
                        .values()
                        .filter(|slice| holds(slice, NodeId(node)))
                        .count()
                });
                let counts: Vec<_> = counts.collect();
                counts.iter().max().unwrap() - counts.iter().min().unwrap()
            };
            let replicas = count(&|slice, node| slice.replica(node).is_some());
            assert!(
                replicas <= 1,
                "{policy} on {nodes} nodes: replicas differ by {replicas}"
            );
            let primaries = count(&|slice, node| slice.primary == node);
            assert!(
                primaries <= 2,
                "{policy} on {nodes} nodes: primaries differ by {primaries}"
            );
        }
    }
}

#[test]
fn a_new_node_gets_new_slices_and_an_absent_one_none() {
    let mut store = Store::with_nodes(2);
    let plan = store.create("old", 40 << 30, Policy::Mirror2).unwrap();
    assert!(store.carry_out(&plan));
    for node in [3, 4].map(NodeId) {
        store.add_node(node);
        let admitted = IntentRecord {
            schema: 1,
            node,
            standing: NodeStanding::Active,
            site: None,
        };
        store.put(IntentRecord::key(node), &admitted);
    }
    let up = |node| (node != NodeId(4)).then_some(Seen::with_room(1 << 40, 1 << 40));
    let inventory = store.inventory();
    let plan = create(
        &inventory,
        up,
        &named("new"),
        size(40 << 30),
        Policy::Mirror2,
    )
    .unwrap();
    assert!(store.carry_out(&plan));
    let inventory = store.inventory();
    let new = &inventory.volume("new").unwrap().record;
    assert!(
        inventory
            .slices_of(new)
            .all(|slice| slice.replica(NodeId(3)).is_some())
    );
    assert!(
        inventory
            .slices_of(new)
            .all(|slice| slice.replica(NodeId(4)).is_none())
    );
    let error = create(&inventory, up, &named("more"), size(4096), Policy::Mirror4).unwrap_err();
    let policy = Policy::Mirror4;
    assert_eq!(
        error,
        PlanError::TooFewUp {
            policy,
            available: 3,
            nodes: 4
        }
    );
}

/// A volume is made, or grows, while a node is removed that it is to have slices on: whoever comes second finds that the
/// world has changed, at whatever point of the plan.
#[test]
fn a_node_is_not_removed_while_it_is_given_slices() {
    for grows in [false, true] {
        for cut in 0..4 {
            for removal_is_early in [false, true] {
                let mut store = Store::with_nodes(2);
                let made = store.create("first", 4096, Policy::Mirror2).unwrap();
                assert!(store.carry_out(&made));
                store.add_node(NodeId(3));
                let third = IntentRecord::active(NodeId(3));
                store.put(IntentRecord::key(NodeId(3)), &third);
                let before = store.inventory();
                let removal = |inventory: &Inventory| {
                    let order = crate::Order::Remove;
                    crate::order(inventory, &crate::Sight::default(), NodeId(3), order, None)
                };
                let early = removal(&before).unwrap().expect("there is something to do");
                let plan = if grows {
                    let seen = |_| Some(Seen::with_room(1 << 40, 1 << 40));
                    grow(&before, seen, &named("first"), size(40 << 30)).unwrap()
                } else {
                    store.create("second", 40 << 30, Policy::Mirror2).unwrap()
                };
                let count = plan.transactions.len();
                let (first, rest) = plan.transactions.split_at(cut.min(count));
                assert!(first.iter().all(|one| store.transact(one).succeeded));
                let removed = if removal_is_early {
                    store.transact(&early).succeeded
                } else {
                    match removal(&store.inventory()) {
                        Ok(order) => store.transact(&order.expect("it is not removed")).succeeded,
                        Err(refusal) => {
                            assert!(matches!(refusal, crate::Refusal::Holds { .. }));
                            false
                        }
                    }
                };
                let finished = rest.iter().all(|one| store.transact(one).succeeded);
                assert!(removed || finished, "one of them is done: {grows} {cut}");
                let inventory = store.inventory();
                let held = inventory.slices.values();
                let held = held
                    .filter(|slice| slice.replica(NodeId(3)).is_some())
                    .count();
                assert_eq!(removed, held == 0, "{grows} {cut} {removal_is_early}");
            }
        }
    }
}

#[test]
fn the_largest_volume_is_made_within_the_limits() {
    let mut store = Store::with_nodes(3);
    let plan = store.create("huge", SIZE_MAX, Policy::Mirror3).unwrap();
    assert!(store.carry_out(&plan), "no transaction breaks a limit");
    store.assert_tidy();
}

#[test]
fn a_full_cluster_takes_no_more() {
    let mut store = Store::with_nodes(1);
    let plan = store.create("demo", 4096, Policy::None).unwrap();
    assert!(store.carry_out(&plan));
    let inventory = store.inventory();
    let one = inventory.slices.values().next().unwrap();
    let fill = |slices: usize| {
        let mut full = inventory.clone();
        for index in 0..slices as u32 {
            let slice = SliceId {
                volume: VolumeId(99),
                index,
            };
            full.slices.insert(slice, one.clone());
        }
        full
    };
    let make = |full: &Inventory| {
        create(
            full,
            |_| Some(Seen::with_room(1 << 40, 1 << 40)),
            &named("more"),
            size(4096),
            Policy::None,
        )
    };
    let stretch = |full: &Inventory| {
        grow(
            full,
            |_| Some(Seen::with_room(1 << 40, 1 << 40)),
            &named("demo"),
            size(8 << 30),
        )
    };
    let nearly = fill(SLICES_MAX - 2);
    assert!(make(&nearly).is_ok() && stretch(&nearly).is_ok());
    let full = fill(SLICES_MAX - 1);
    assert_eq!(make(&full), Err(PlanError::Full));
    assert_eq!(stretch(&full), Err(PlanError::Full));
    let mut named = inventory.clone();
    let name = inventory.names["demo"].clone();
    named
        .names
        .extend((1..VOLUMES_MAX).map(|number| (number.to_string(), name.clone())));
    assert_eq!(make(&named), Err(PlanError::Full));
    assert!(stretch(&named).is_ok());
}

#[test]
fn a_volume_named_again_is_nothing_new_or_an_error() {
    let mut store = Store::with_nodes(2);
    let plan = store.create("demo", 4096, Policy::Mirror2).unwrap();
    assert!(store.carry_out(&plan));
    let again = store.create("demo", 4096, Policy::Mirror2).unwrap();
    assert_eq!(
        again,
        Plan {
            transactions: Vec::new(),
            volume: plan.volume
        }
    );
    let policy = Policy::Mirror2;
    let exists = Err(PlanError::Exists {
        bytes: 4096,
        policy,
    });
    assert_eq!(store.create("demo", 8192, Policy::Mirror2), exists);
    assert_eq!(store.create("demo", 4096, Policy::None), exists);
    let policy = Policy::Mirror3;
    let few = Err(PlanError::TooFewNodes { policy, nodes: 2 });
    assert_eq!(store.create("other", 4096, Policy::Mirror3), few);
}

#[test]
fn a_plan_cut_short_anywhere_is_invisible_and_cleared_away() {
    let mut whole = Store::with_nodes(3);
    let plan = whole
        .create("demo", 300 * SLICE_SIZE, Policy::Mirror2)
        .unwrap();
    assert!(plan.transactions.len() > 4);
    for cut in 0..plan.transactions.len() {
        let mut store = Store::with_nodes(3);
        let part = Plan {
            transactions: plan.transactions[..cut].to_vec(),
            ..plan.clone()
        };
        assert!(store.carry_out(&part));
        assert_eq!(store.inventory().volume("demo"), None, "cut at {cut}");
        // Another volume is not in the way, and the same name is taken over.
        let other = store.create("other", 4096, Policy::None).unwrap();
        assert!(store.carry_out(&other));
        let mut again = Store(store.0.clone());
        let second = again.create("demo", 4096, Policy::Mirror3).unwrap();
        assert!(again.carry_out(&second));
        again.assert_tidy();
        // Or everything that was cut short is cleared away at once.
        let transactions = clean_up(&store.inventory(), |_| true);
        assert_eq!(transactions.len(), usize::from(cut > 0));
        assert!(
            transactions
                .iter()
                .all(|transaction| store.transact(transaction).succeeded)
        );
        store.assert_tidy();
        // The plan that was not dead but slow gets no further.
        for rest in &plan.transactions[cut.max(1)..] {
            assert!(!store.transact(rest).succeeded, "cut at {cut}");
            assert!(!again.transact(rest).succeeded, "cut at {cut}");
        }
        store.assert_tidy();
        again.assert_tidy();
    }
}

#[test]
fn slices_of_nobody_are_cleared_away() {
    let mut store = Store::with_nodes(3);
    let plan = store.create("demo", 4096, Policy::Mirror2).unwrap();
    assert!(store.carry_out(&plan));
    let plan = store.create("gone", 4096, Policy::Mirror2).unwrap();
    assert!(store.carry_out(&plan));
    let inventory = store.inventory();
    let stray = inventory.slices_of(&plan.volume).next().unwrap().clone();
    assert!(store.carry_out(&delete(&inventory, &named("gone")).unwrap()));
    let again = Transaction {
        compare: Vec::new(),
        success: vec![put(SliceRecord::key(stray.slice), &stray)],
        failure: Vec::new(),
    };
    assert!(store.transact(&again).succeeded);
    let transactions = clean_up(&store.inventory(), |_| true);
    assert_eq!(transactions.len(), 1);
    assert!(store.transact(&transactions[0]).succeeded);
    store.assert_tidy();
    assert!(store.inventory().volume("demo").is_some());
}

#[test]
fn of_two_plans_at_the_same_time_one_is_carried_out() {
    let mut store = Store::with_nodes(3);
    let first = store.create("demo", 4096, Policy::Mirror2).unwrap();
    let second = store.create("demo", 8192, Policy::Mirror2).unwrap();
    assert!(store.transact(&first.transactions[0]).succeeded);
    assert!(!store.carry_out(&second));
    let other = store.create("other", 4096, Policy::Mirror2).unwrap();
    assert!(store.carry_out(&other), "other names go on");
    assert!(
        first.transactions[1..]
            .iter()
            .all(|one| store.transact(one).succeeded)
    );
    store.assert_tidy();
    assert_eq!(store.inventory().volume("demo").unwrap().record.bytes, 4096);
}

#[test]
fn a_volume_finished_in_the_last_moment_stays() {
    let mut store = Store::with_nodes(3);
    let plan = store.create("demo", 4096, Policy::Mirror2).unwrap();
    let (last, begin) = plan.transactions.split_last().unwrap();
    assert!(begin.iter().all(|one| store.transact(one).succeeded));
    let late = store.inventory();
    let again = create(
        &late,
        |_| Some(Seen::with_room(1 << 40, 1 << 40)),
        &named("demo"),
        size(8192),
        Policy::Mirror2,
    )
    .unwrap();
    let cleaning = clean_up(&late, |_| true);
    assert!(store.transact(last).succeeded);
    assert!(!store.transact(&again.transactions[0]).succeeded);
    assert!(!store.transact(&cleaning[0]).succeeded);
    store.assert_tidy();
    assert_eq!(
        store.inventory().volume("demo").unwrap().record,
        plan.volume
    );
}

#[test]
fn a_volume_grows_and_keeps_what_it_has() {
    let mut store = Store::with_nodes(3);
    let plan = store.create("demo", 5 << 30, Policy::Mirror2).unwrap();
    assert!(store.carry_out(&plan));
    let before = store.inventory();
    let grown = |bytes| {
        grow(
            &before,
            |_| Some(Seen::with_room(1 << 40, 1 << 40)),
            &named("demo"),
            size(bytes),
        )
    };
    assert_eq!(grown(4 << 30), Err(PlanError::Shrinks { bytes: 5 << 30 }));
    assert_eq!(grown(5 << 30).unwrap().transactions, []);
    assert_eq!(
        grown(6 << 30).unwrap().transactions.len(),
        1,
        "the last slice has room"
    );
    let none = grow(
        &before,
        |_| Some(Seen::with_room(1 << 40, 1 << 40)),
        &named("none"),
        size(4096),
    );
    assert_eq!(none, Err(PlanError::NoSuchVolume));
    let plan = grown(1000 << 30).unwrap();
    // Cut short before the volume's record, the growth has not happened, and the slices that it has
    // left are the next growth's.
    assert!(plan.transactions.len() > 2);
    assert!(store.transact(&plan.transactions[0]).succeeded);
    let left = store.inventory();
    assert_eq!(left.volume("demo"), before.volume("demo"));
    let again = grow(
        &left,
        |_| Some(Seen::with_room(1 << 40, 1 << 40)),
        &named("demo"),
        size(1000 << 30),
    )
    .unwrap();
    assert_eq!(again.transactions.len(), plan.transactions.len() - 1);
    assert!(store.carry_out(&again));
    store.assert_tidy();
    let after = store.inventory();
    for (id, slice) in &left.slices {
        assert_eq!(
            &after.slices[id], slice,
            "a slice's first configuration is written once"
        );
    }
    assert_eq!(after.volume("demo").unwrap().record.bytes, 1000 << 30);
    assert!(
        !store.transact(&plan.transactions[1]).succeeded,
        "the slow plan is over"
    );
}

#[test]
fn a_deleted_volume_is_gone_whole_and_its_id_for_ever() {
    let mut store = Store::with_nodes(3);
    let plan = store.create("demo", 1000 << 30, Policy::Mirror2).unwrap();
    assert!(store.carry_out(&plan));
    let growth = grow(
        &store.inventory(),
        |_| Some(Seen::with_room(1 << 40, 1 << 40)),
        &named("demo"),
        size(2000 << 30),
    )
    .unwrap();
    assert!(store.transact(&growth.transactions[0]).succeeded);
    let deletion = delete(&store.inventory(), &named("demo")).unwrap();
    assert_eq!(deletion.volume, plan.volume);
    assert!(store.carry_out(&deletion));
    let inventory = store.inventory();
    assert!(inventory.slices.is_empty() && inventory.names.is_empty());
    assert!(inventory.volumes.is_empty());
    assert!(
        !store.transact(&growth.transactions[1]).succeeded,
        "nothing grows any more"
    );
    assert_eq!(
        delete(&inventory, &named("demo")),
        Err(PlanError::NoSuchVolume)
    );
    let again = store.create("demo", 4096, Policy::None).unwrap();
    assert_eq!(again.volume.volume, VolumeId(2));
}

fn is_deleted(store: &mut Store, volume: VolumeId) -> bool {
    store.inventory().deleted.record.contains(volume)
}

#[test]
fn whatever_is_deleted_is_on_record_as_deleted() {
    let mut store = Store::with_nodes(3);
    let plan = store.create("demo", 4096, Policy::Mirror2).unwrap();
    assert!(store.carry_out(&plan));
    let cut_short = |store: &mut Store, name| {
        let plan = store.create(name, 4096, Policy::Mirror2).unwrap();
        assert!(store.transact(&plan.transactions[0]).succeeded);
        assert!(store.transact(&plan.transactions[1]).succeeded);
        plan.volume.volume
    };
    let [taken_over, second, third] = ["over", "two", "three"].map(|it| cut_short(&mut store, it));
    for volume in [plan.volume.volume, taken_over, second, third] {
        assert!(!is_deleted(&mut store, volume));
    }
    let deletion = delete(&store.inventory(), &named("demo")).unwrap();
    assert!(store.carry_out(&deletion));
    assert!(is_deleted(&mut store, plan.volume.volume));
    let again = store.create("over", 4096, Policy::Mirror2).unwrap();
    assert!(store.carry_out(&again));
    assert!(is_deleted(&mut store, taken_over));
    assert!(!is_deleted(&mut store, again.volume.volume));
    // Two at once: both are kept.
    for transaction in clean_up(&store.inventory(), |_| true) {
        assert!(store.transact(&transaction).succeeded);
    }
    assert!(is_deleted(&mut store, second) && is_deleted(&mut store, third));
    assert!(!is_deleted(&mut store, again.volume.volume));
    store.assert_tidy();
}

#[test]
fn two_deletions_at_the_same_time_are_both_on_record_or_one_fails() {
    let mut store = Store::with_nodes(1);
    for name in ["a", "b"] {
        let plan = store.create(name, 4096, Policy::None).unwrap();
        assert!(store.carry_out(&plan));
    }
    let before = store.inventory();
    let [first, second] = ["a", "b"].map(|it| delete(&before, &named(it)).unwrap());
    assert!(store.carry_out(&first));
    assert!(!store.carry_out(&second));
    let again = delete(&store.inventory(), &named("b")).unwrap();
    assert!(store.carry_out(&again));
    let deleted = store.inventory().deleted.record;
    assert!(deleted.contains(VolumeId(1)) && deleted.contains(VolumeId(2)));
}

/// Documents that somebody else has deleted take nothing else with them.
#[test]
fn metadata_that_has_lost_documents_is_not_cleared_away() {
    let mut store = Store::with_nodes(2);
    let plan = store.create("demo", 4096, Policy::Mirror2).unwrap();
    assert!(store.carry_out(&plan));
    let volume = plan.volume.volume;
    let delete_key = |store: &mut Store, key: String| {
        store.transact(&Transaction {
            success: vec![Operation::Delete(Selector::Key(key))],
            ..Transaction::default()
        });
    };
    delete_key(&mut store, VolumeRecord::key(volume));
    let inventory = store.inventory();
    // It is without a record, and not being made.
    assert_eq!(without_record(&inventory), BTreeMap::from([(volume, 1)]));
    assert_eq!(clean_up(&inventory, |_| true), []);
    let again = store.create("demo", 4096, Policy::Mirror2);
    assert_eq!(again, Err(PlanError::Damaged(volume)));
    // Unless an operator says so.
    let mut cleared = Store(store.0.clone());
    let clearing = clear(&cleared.inventory(), &named("demo")).expect("it is damaged");
    assert!(cleared.transact(&clearing).succeeded);
    cleared.assert_tidy();
    assert!(is_deleted(&mut cleared, volume));
    delete_key(&mut store, NameRecord::key("demo"));
    assert_eq!(clean_up(&store.inventory(), |_| true), []);
    assert_eq!(store.inventory().slices.len(), 1);
}

/// Its own record says how it is called.
#[test]
fn a_volume_whose_name_was_lost_is_not_made_again() {
    let mut store = Store::with_nodes(2);
    let plan = store.create("demo", 4096, Policy::Mirror2).unwrap();
    assert!(store.carry_out(&plan));
    store.transact(&Transaction {
        success: vec![Operation::Delete(Selector::Key(NameRecord::key("demo")))],
        ..Transaction::default()
    });
    let again = store.create("demo", 4096, Policy::Mirror2).unwrap();
    assert_eq!((again.transactions.len(), again.volume), (0, plan.volume));
    let policy = Policy::Mirror2;
    let exists = Err(PlanError::Exists {
        bytes: 4096,
        policy,
    });
    assert_eq!(store.create("demo", 8192, Policy::Mirror2), exists);
    let deletion = delete(&store.inventory(), &named("demo")).unwrap();
    assert!(store.carry_out(&deletion));
    store.assert_tidy();
}

fn place(target: &str, lun: u16) -> UnitPlace {
    let target = target.parse().unwrap();
    UnitPlace { target, lun }
}

impl Store {
    fn create_at(&mut self, name: &str, unit: &UnitPlace) -> Result<Plan, PlanError> {
        let seen = |_| Some(Seen::with_room(1 << 40, 1 << 40));
        let (name, bytes) = (named(name), size(4096));
        create_at(
            &self.inventory(),
            seen,
            &name,
            bytes,
            Policy::None,
            Some(unit),
        )
    }

    fn units(&mut self) -> usize {
        let prefix = holdfast_model::record::UNITS_PREFIX;
        let success = vec![Operation::Range(Selector::Prefix(prefix.into()))];
        let outcome = self.transact(&Transaction {
            success,
            ..Transaction::default()
        });
        match &outcome.results[..] {
            [holdfast_model::metadata::OperationResult::Range(found)] => found.len(),
            other => panic!("what was asked for: {other:?}"),
        }
    }
}

#[test]
fn volumes_are_the_units_that_the_administrator_names() {
    let mut store = Store::with_nodes(1);
    let shared = "iqn.2026-11.com.example:shared";
    for lun in [0, 7] {
        let plan = store
            .create_at(&format!("v{lun}"), &place(shared, lun))
            .unwrap();
        assert_eq!(
            (plan.volume.target.as_str(), plan.volume.lun),
            (shared, lun)
        );
        assert!(store.carry_out(&plan));
        store.assert_tidy();
    }
    assert_eq!(store.units(), 2);
    // The same once more is nothing new; elsewhere is another one.
    let again = store.create_at("v7", &place(shared, 7)).unwrap();
    assert!(again.transactions.is_empty());
    let other = store.create_at("v7", &place(shared, 8));
    assert_eq!(other, Err(PlanError::OtherPlace));
    let taken = store.create_at("new", &place(shared, 7));
    assert_eq!(taken, Err(PlanError::UnitTaken("v7".into())));
    // A second unit beside the one that a volume has of its own; that one is kept for it, be it there or not.
    let kept = "iqn.2026-11.io.holdfast:data";
    let refused = store.create_at("new", &place(kept, 0));
    assert_eq!(refused, Err(PlanError::UnitKept));
    let beside = store.create_at("new", &place(kept, 1)).unwrap();
    assert!(store.carry_out(&beside));
    let own = store.create_at("data", &place(kept, 0)).unwrap();
    assert!(store.carry_out(&own));
    assert_eq!(store.units(), 3, "what is a volume's own needs no record");
    // A unit is free when its volume is gone.
    let plan = delete(&store.inventory(), &named("v7")).unwrap();
    assert!(store.carry_out(&plan));
    assert_eq!(store.units(), 2);
    let plan = store.create_at("new2", &place(shared, 7)).unwrap();
    assert!(store.carry_out(&plan));
}

#[test]
fn of_two_volumes_that_are_made_at_the_same_time_one_gets_the_unit() {
    let mut store = Store::with_nodes(1);
    let unit = place("iqn.2026-11.com.example:shared", 3);
    let one = store.create_at("one", &unit).unwrap();
    let taken = one.transactions[0].clone();
    assert!(store.transact(&taken).succeeded);
    let other = store.create_at("other", &unit).unwrap();
    assert!(store.carry_out(&other));
    let rest = &one.transactions[1..];
    let held: Vec<bool> = rest.iter().map(|it| store.transact(it).succeeded).collect();
    assert_eq!(held.last(), Some(&false));
    let again = store.create_at("one", &unit);
    assert_eq!(again, Err(PlanError::UnitTaken("other".into())));
}

fn initiator(name: &str, secret: Option<&str>, mutual: Option<&str>) -> InitiatorRecord {
    let chap = |secret: &str| ChapRecord {
        name: "host".into(),
        secret: Secret(secret.into()),
    };
    InitiatorRecord {
        schema: 1,
        name: name.into(),
        chap: secret.map(chap),
        mutual: mutual.map(chap),
    }
}

const HOST: &str = "iqn.2026-11.com.example:host";

#[test]
fn initiators_are_put_on_record_and_forgotten() {
    let mut store = Store::with_nodes(1);
    let long = "x".repeat(256);
    let good = "twelve bytes";
    for (secret, mutual, error) in [
        (Some("eleven byte"), None, AccessError::SecretLength),
        (Some(&*long), None, AccessError::SecretLength),
        (Some("twelve\nbytes"), None, AccessError::Letters),
        (Some("zw\u{f6}lf Zeichen"), None, AccessError::Letters),
        (None, Some(good), AccessError::MutualAlone),
        (Some(good), Some(good), AccessError::SameSecret),
        (Some(good), Some("short"), AccessError::SecretLength),
    ] {
        let record = initiator(HOST, secret, mutual);
        let planned = put_initiator(&store.inventory(), &record);
        assert_eq!(planned, Err(error), "{secret:?} {mutual:?}");
    }
    let record = initiator(HOST, Some(good), Some("thirteen bytes"));
    let plan = put_initiator(&store.inventory(), &record).unwrap().unwrap();
    assert!(store.transact(&plan).succeeded);
    assert!(!store.transact(&plan).succeeded, "it is another one now");
    assert_eq!(put_initiator(&store.inventory(), &record), Ok(None));
    let other = initiator(HOST, None, None);
    let plan = put_initiator(&store.inventory(), &other).unwrap().unwrap();
    assert!(store.transact(&plan).succeeded);
    let name = HOST.parse().unwrap();
    let plan = remove_initiator(&store.inventory(), &name).unwrap();
    assert!(store.transact(&plan).succeeded);
    let none = remove_initiator(&store.inventory(), &name);
    assert_eq!(none, Err(AccessError::NoSuchInitiator));
}

#[test]
fn a_volume_is_for_whom_it_is_allowed() {
    let mut store = Store::with_nodes(1);
    let plan = store.create("data", 4096, Policy::None).unwrap();
    assert!(store.carry_out(&plan));
    let data = named("data");
    let host: IscsiNodeName = HOST.parse().unwrap();
    let allow = AccessOrder::Allow(host.clone());
    let disallow = AccessOrder::Disallow(host.clone());
    let unknown = change_access(&store.inventory(), &named("none"), &allow);
    assert_eq!(unknown, Err(AccessError::NoSuchVolume));
    let unknown = change_access(&store.inventory(), &data, &allow);
    assert_eq!(unknown, Err(AccessError::NoSuchInitiator));
    let open = change_access(&store.inventory(), &data, &disallow);
    assert_eq!(open, Err(AccessError::IsOpen));
    store.put(InitiatorRecord::key(HOST), &initiator(HOST, None, None));
    // Who is allowed, and forgotten at the same time, is not both.
    let before = store.inventory();
    let allowed = change_access(&before, &data, &allow).unwrap().unwrap();
    let removed = remove_initiator(&before, &host).unwrap();
    assert!(store.transact(&allowed).succeeded);
    assert!(!store.transact(&removed).succeeded);
    let listed = remove_initiator(&store.inventory(), &host);
    assert_eq!(listed, Err(AccessError::Listed(vec!["data".to_string()])));
    assert_eq!(change_access(&store.inventory(), &data, &allow), Ok(None));
    // Nobody is left, which is not everybody.
    let plan = change_access(&store.inventory(), &data, &disallow);
    assert!(store.transact(&plan.unwrap().unwrap()).succeeded);
    let export = &store.inventory().exports[&VolumeId(1)].record;
    assert_eq!(*export, ExportRecord::nobody(VolumeId(1)));
    assert_eq!(
        change_access(&store.inventory(), &data, &disallow),
        Ok(None)
    );
    let plan = change_access(&store.inventory(), &data, &AccessOrder::Open);
    assert!(store.transact(&plan.unwrap().unwrap()).succeeded);
    assert!(store.inventory().exports.is_empty());
    // What is kept for a volume goes with it.
    let plan = change_access(&store.inventory(), &data, &allow).unwrap();
    assert!(store.transact(&plan.unwrap()).succeeded);
    let plan = delete(&store.inventory(), &data).unwrap();
    assert!(store.carry_out(&plan));
    assert!(store.inventory().exports.is_empty());
}
