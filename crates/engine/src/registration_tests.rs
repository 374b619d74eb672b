use alloc::string::ToString;

use super::*;
use holdfast_model::metadata::LeaseId;
use holdfast_model::{NodeId, StoreId};
use holdfast_stdx::Bytes;

const READ_AT: Revision = Revision(9);
/// The machine of these tests, where nothing else is said.
const MACHINE: MachineId = MachineId(0xA);
const OTHER_MACHINE: MachineId = MachineId(0xB);

/// What is on the devices of a store: how often it was used, and the ids of its uses.
#[derive(Clone, Copy)]
struct Devices {
    store: StoreId,
    uses: u64,
    ids: UseIds,
}

impl Devices {
    fn new(store: u128) -> Self {
        let store = StoreId(store);
        let ids = UseIds::NONE;
        Self {
            store,
            uses: 0,
            ids,
        }
    }

    /// A start with them, whose use has this id.
    fn start(&mut self, use_id: u64) -> Registration {
        self.uses += 1;
        self.ids.begin(self.uses, use_id);
        let own = NodeRecord {
            schema: 1,
            node: NodeId(1),
            name: "one".into(),
            store: self.store,
            uses: self.uses,
            use_id,
            incarnation: Incarnation::ZERO,
            portal: "127.0.0.1:1".into(),
            peer: "127.0.0.1:2".into(),
            api: "http://127.0.0.1:3".into(),
        };
        let machine = Machine {
            id: MACHINE,
            has_address: false,
            takes_over: false,
        };
        Registration::new(own, None, self.ids, machine)
    }

    /// A start that finds the record of another before, which is read at [`READ_AT`], and the record that
    /// it leaves behind.
    fn registered(&mut self, use_id: u64, before: Option<&NodeRecord>) -> NodeRecord {
        proposed(&mut self.start(use_id), before)
    }
}

fn proposed(registration: &mut Registration, before: Option<&NodeRecord>) -> NodeRecord {
    let Step::Replace(compare, success) = registration.read(&holding(before)) else {
        panic!("nothing was proposed yet, and nothing is doubtful");
    };
    let equals = Revision(if before.is_some() { 7 } else { 0 });
    let keys = [NodeRecord::key(NodeId(1)), MachineRecord::key(NodeId(1))];
    assert_eq!(
        compare,
        keys.map(|key| Compare::ModRevision { key, equals })
    );
    let [
        Operation::Put { value, .. },
        Operation::Put {
            value: of_use, key, ..
        },
        machine,
        domain,
    ] = &success[..]
    else {
        panic!("three keys are set, and it is said which domain it is in");
    };
    assert_eq!(*domain, registration.tell_domain());
    assert_eq!(
        *machine,
        registration.put_machine(Some(registration.own.store))
    );
    assert_eq!(*key, UseRecord::key(NodeId(1)));
    let record = NodeRecord::decode(value).expect("our own record");
    assert_eq!(record.use_id, 0, "the first version reads it");
    let of_use = UseRecord::decode(of_use).expect("our own record");
    assert!(of_use.is_of(&record));
    NodeRecord {
        use_id: of_use.use_id,
        ..record
    }
}

/// Metadata with this record, and that of the use where it has an id.
fn holding(record: Option<&NodeRecord>) -> TransactionOutcome {
    let of_use = record.filter(|record| record.use_id != 0);
    let of_use = of_use.map(|record| UseRecord {
        schema: 1,
        node: record.node,
        store: record.store,
        uses: record.uses,
        use_id: record.use_id,
    });
    let record = record.map(|record| NodeRecord {
        use_id: 0,
        ..record.clone()
    });
    let machine = record.as_ref().map(|record| (MACHINE, Some(record.store)));
    holding_all(record.as_ref(), of_use.as_ref(), machine)
}

fn holding_all(
    record: Option<&NodeRecord>,
    of_use: Option<&UseRecord>,
    machine: Option<(MachineId, Option<StoreId>)>,
) -> TransactionOutcome {
    let found = |key: String, value: Option<Bytes>| {
        let pair = value.map(|value| KeyValue {
            key,
            value,
            create_revision: Revision(3),
            mod_revision: Revision(7),
            version: 1,
            lease: LeaseId(0),
        });
        OperationResult::Range(pair.into_iter().collect())
    };
    let node = NodeId(1);
    let machine = machine.map(|(machine, store)| MachineRecord {
        schema: 1,
        node,
        machine,
        store,
    });
    TransactionOutcome {
        succeeded: true,
        revision: READ_AT,
        results: vec![
            found(NodeRecord::key(node), record.map(Record::encode)),
            found(CLUSTER_KEY.into(), None),
            found(UseRecord::key(node), of_use.map(Record::encode)),
            found(
                MachineRecord::key(node),
                machine.as_ref().map(Record::encode),
            ),
            found(NodeRecord::key(node), record.map(Record::encode)),
        ],
    }
}

#[test]
fn incarnations_rise_over_restarts_and_new_stores() {
    let mut devices = Devices::new(5);
    let first = devices.registered(11, None);
    assert_eq!(first.incarnation, Incarnation(READ_AT.0 + 1));
    let second = devices.registered(12, Some(&first));
    assert_eq!(second.incarnation, first.incarnation.next());
    let third = Devices::new(6).registered(13, Some(&second));
    assert_eq!(third.incarnation, second.incarnation.next());
}

/// What it said before counts no more: the domain is what its configuration says at this start.
#[test]
fn a_registration_says_in_which_failure_domain_the_node_is() {
    let key = DomainRecord::key(NodeId(1));
    let mut devices = Devices::new(5);
    let before = devices.registered(11, None);
    let mut said = devices.start(12);
    said.domain = Some("rack-7".into());
    let Step::Replace(_, operations) = said.read(&holding(Some(&before))) else {
        panic!("nothing is doubtful");
    };
    let of_domain = |operations: &[Operation]| -> Vec<Operation> {
        let is_of_domain = |operation: &&Operation| match operation {
            Operation::Put { key: put, .. } => *put == key,
            Operation::Delete(Selector::Key(deleted)) => *deleted == key,
            _ => false,
        };
        operations.iter().filter(is_of_domain).cloned().collect()
    };
    let record = br#"{"schema":1,"node":1,"domain":"rack-7"}"#;
    let put = Operation::put(key.clone(), Bytes::from(record.to_vec()));
    assert_eq!(of_domain(&operations), [put]);
    let Step::Replace(_, operations) = devices.start(13).read(&holding(Some(&before))) else {
        panic!("nothing is doubtful");
    };
    let gone = Operation::Delete(Selector::Key(key.clone()));
    assert_eq!(of_domain(&operations), [gone]);
}

/// Node `one` has the number.
fn number_of_one(is_formatted: bool) -> Rejection {
    Rejection::Number {
        node: NodeId(1),
        name: "one".into(),
        is_formatted,
    }
}

/// Its configuration was copied to another machine, and the number forgotten.
#[test]
fn another_store_under_another_name_is_another_node() {
    let first = Devices::new(5).registered(11, None);
    let mut newcomer = Devices::new(6).start(12);
    newcomer.own.name = "four".into();
    let taken = number_of_one(true);
    for _ in 0..2 {
        let step = newcomer.read(&holding(Some(&first)));
        assert_eq!(step, Step::Rejected(taken.clone()));
    }
    let text = taken.to_string();
    assert!(text.contains("number 1 is node one's"), "{text}");
    assert!(text.contains("or remove one ("), "{text}");
    assert!(text.contains("overwrite the first 2 MiB"), "{text}");
    let blank = number_of_one(false).to_string();
    assert!(!blank.contains("overwrite"), "{blank}");
    // The operator has removed it.
    let step = newcomer.read(&holding(None));
    assert!(matches!(step, Step::Replace(..)), "{step:?}");
}

#[test]
fn a_node_may_change_its_name_but_not_to_one_that_another_has() {
    let mut devices = Devices::new(5);
    let first = devices.registered(11, None);
    let other = NodeRecord {
        node: NodeId(2),
        store: StoreId(8),
        name: "two".into(),
        ..first.clone()
    };
    let with_other = |known: Option<&NodeRecord>| {
        let mut outcome = holding(known);
        let OperationResult::Range(all) = &mut outcome.results[ALL] else {
            panic!("the nodes were read");
        };
        all.push(KeyValue {
            key: NodeRecord::key(other.node),
            value: other.encode(),
            create_revision: Revision(3),
            mod_revision: Revision(7),
            version: 1,
            lease: LeaseId(0),
        });
        outcome
    };
    let (node, name) = (NodeId(2), String::from("two"));
    let taken = Step::Rejected(Rejection::Name { name, node });
    for (name, known, is_free) in [
        ("two", None, false),
        ("two", Some(&first), false),
        ("three", None, true),
        ("three", Some(&first), true),
    ] {
        let mut registration = devices.start(12);
        registration.own.name = name.into();
        let step = registration.read(&with_other(known));
        let is_replaced = matches!(step, Step::Replace(..));
        assert_eq!(is_replaced, is_free, "{name}, {known:?}");
        assert!(is_free || step == taken, "{step:?}");
    }
    // Two that have one name since a version that let that be go on.
    let same = NodeRecord {
        name: "two".into(),
        ..first
    };
    let mut registration = devices.start(13);
    registration.own.name = "two".into();
    let step = registration.read(&with_other(Some(&same)));
    assert!(matches!(step, Step::Replace(..)), "{step:?}");
}

/// The same configuration on a second machine, or a new machine in the place of one that is gone: an operator knows.
#[test]
fn another_store_is_the_node_only_on_its_machine_where_it_was_or_if_an_operator_says_so() {
    let first = Devices::new(5).registered(11, None);
    let (node, peer) = (NodeId(1), first.peer.clone());
    let is_formatted = false;
    let other = Rejection::OtherMachine {
        node,
        peer,
        is_formatted,
    };
    assert!(!other.to_string().contains("overwrite"), "{other}");
    let other = Step::Rejected(other);
    let mut devices = Devices::new(6);
    let here = first.peer.as_str();
    let there = "127.0.0.4:2";
    for (machine, peer, has_address, takes_over, is_free) in [
        (Some(MACHINE), here, false, false, true),
        (Some(MACHINE), there, false, false, false),
        (Some(OTHER_MACHINE), here, false, false, false),
        // Its system was installed anew.
        (Some(OTHER_MACHINE), here, true, false, true),
        (Some(OTHER_MACHINE), there, true, false, false),
        (None, here, false, false, false),
        (None, here, true, false, true),
        (Some(OTHER_MACHINE), there, false, true, true),
        (Some(MACHINE), here, false, true, true),
    ] {
        let holder = machine.map(|machine| (machine, Some(first.store)));
        let outcome = holding_all(Some(&first), None, holder);
        let mut registration = devices.start(12);
        registration.own.uses = 0;
        registration.own.peer = peer.into();
        registration.machine.has_address = has_address;
        registration.machine.takes_over = takes_over;
        let (look, step) = (registration.look(&outcome), registration.read(&outcome));
        let is_its = machine == Some(MACHINE);
        match look {
            Step::Free => assert!(is_free && is_its),
            Step::Take(..) => assert!(is_free && !is_its),
            _ => assert_eq!((&look, is_free), (&other, false)),
        }
        let is_replaced = matches!(step, Step::Replace(..));
        assert_eq!(is_replaced, is_free, "{machine:?} {peer}");
        assert!(is_free || step == other, "{step:?}");
        let is_used = takes_over.then_some(!is_its);
        assert_eq!(registration.take_over_used(), is_used, "{machine:?}");
    }
    // With its own devices a node may be another machine, at another address.
    let mut moved = Devices {
        uses: 1,
        ..Devices::new(5)
    };
    let mut registration = moved.start(12);
    registration.own.peer = "127.0.0.4:2".into();
    let holder = (OTHER_MACHINE, Some(first.store));
    let outcome = holding_all(Some(&first), None, Some(holder));
    let step = registration.read(&outcome);
    assert!(matches!(step, Step::Replace(..)), "{step:?}");
    // Nor does what an operator says of a machine tell anything of one with another name.
    let mut newcomer = Devices::new(6).start(12);
    newcomer.own.name = "four".into();
    newcomer.machine.takes_over = true;
    let step = newcomer.read(&outcome);
    assert_eq!(step, Step::Rejected(number_of_one(true)));
}

/// Blank machines with one number that come at the same moment.
#[test]
fn a_number_is_taken_before_anything_is_formatted() {
    let mut registration = Devices::new(5).start(11);
    let Step::Take(compare, success) = registration.look(&holding(None)) else {
        panic!("nobody has it");
    };
    let keys = [NodeRecord::key(NodeId(1)), MachineRecord::key(NodeId(1))];
    let equals = Revision(0);
    assert_eq!(
        compare,
        keys.map(|key| Compare::ModRevision { key, equals })
    );
    assert_eq!(success, [registration.put_machine(None)]);
    let taken = |machine| holding_all(None, None, Some((machine, None)));
    assert_eq!(registration.look(&taken(MACHINE)), Step::Free);
    // The other one was first, and whoever has devices of that number already is no better.
    let rejected = Rejection::Taken {
        node: NodeId(1),
        is_formatted: true,
    };
    let text = rejected.to_string();
    let (first, last) = (text.find("`take-over`"), text.find("overwrite"));
    assert!(first < last && first.is_some(), "{text}");
    let rejected = Step::Rejected(rejected);
    assert_eq!(registration.look(&taken(OTHER_MACHINE)), rejected);
    assert_eq!(registration.read(&taken(OTHER_MACHINE)), rejected);
    // It never came up.
    registration.machine.takes_over = true;
    let look = registration.look(&taken(OTHER_MACHINE));
    assert!(matches!(look, Step::Take(..)), "{look:?}");
    // With the devices, which are formatted by then, nothing stands in its way any more.
    let mut again = Devices::new(5).start(12);
    again.machine.takes_over = true;
    assert_eq!(again.take_over_used(), Some(false));
    let again = again.after(Some(&registration));
    assert_eq!(again.take_over_used(), Some(true));
}

/// Versions without machines replace a node's record, and remove it, and leave what they do not know.
#[test]
fn what_is_left_of_another_record_tells_nothing_of_machines() {
    let first = Devices::new(5).registered(11, None);
    let left = Some((MACHINE, Some(StoreId(4))));
    let mut devices = Devices::new(6);
    let step = devices
        .start(12)
        .read(&holding_all(Some(&first), None, left));
    let is_other = matches!(step, Step::Rejected(Rejection::OtherMachine { .. }));
    assert!(is_other, "{step:?}");
    let left = Some((OTHER_MACHINE, Some(StoreId(4))));
    let mut registration = devices.start(13);
    let step = registration.look(&holding_all(None, None, left));
    assert!(matches!(step, Step::Take(..)), "{step:?}");
}

#[test]
fn only_a_later_start_with_another_store_displaces() {
    let mut devices = Devices::new(5);
    let first = devices.registered(11, None);
    let mut registration = devices.start(12);
    let second = proposed(&mut registration, Some(&first));
    let store = StoreId(6);
    let is_displaced = |record: NodeRecord| registration.is_displaced_by(&record);
    assert!(!is_displaced(second.clone()));
    let before = NodeRecord { store, ..first };
    assert!(!is_displaced(before), "its own has not come yet");
    let incarnation = second.incarnation.next();
    let again = NodeRecord {
        incarnation,
        ..second
    };
    assert!(!is_displaced(again.clone()), "the same devices");
    assert!(is_displaced(NodeRecord { store, ..again }));
}

/// Its record went with it. Each of its starts was a change, so that none had a higher number than
/// the revision that it left behind.
#[test]
fn a_node_that_was_removed_counts_on() {
    let mut devices = Devices::new(5);
    let first = devices.registered(11, None);
    let second = devices.registered(12, Some(&first));
    let mut registration = devices.start(13);
    let mut outcome = holding(None);
    // Two registrations and the removal later.
    outcome.revision = Revision(READ_AT.0 + 3);
    assert!(matches!(registration.read(&outcome), Step::Replace(..)));
    assert!(registration.incarnation() > second.incarnation);
}

/// From where starts are counted since the metadata was made again.
const FLOOR: Incarnation = Incarnation(1000);

/// The cluster's record since then.
fn made_again() -> OperationResult {
    let cluster = ClusterRecord {
        schema: 1,
        cluster: holdfast_model::ClusterId(5),
        next_volume: holdfast_model::VolumeId(1),
        recoveries: 1,
        incarnation_floor: FLOOR,
    };
    OperationResult::Range(vec![KeyValue {
        key: CLUSTER_KEY.into(),
        value: cluster.encode(),
        create_revision: Revision(1),
        mod_revision: Revision(1),
        version: 1,
        lease: LeaseId(0),
    }])
}

/// Then revisions are lower than what was counted since.
#[test]
fn a_node_that_was_removed_counts_on_where_the_metadata_was_made_again() {
    let mut devices = Devices::new(5);
    let mut counted = Incarnation::ZERO;
    let mut known: Option<NodeRecord> = None;
    // It is removed before the last two.
    for revision in 2..9 {
        let known_now = known.take().filter(|_| revision < 7);
        let mut outcome = holding(known_now.as_ref());
        outcome.revision = Revision(revision);
        outcome.results[CLUSTER] = made_again();
        let mut registration = devices.start(revision);
        let step = registration.read(&outcome);
        assert!(matches!(step, Step::Replace(..)), "{step:?}");
        assert!(registration.incarnation() > counted.max(FLOOR));
        counted = registration.incarnation();
        known = Some(NodeRecord {
            use_id: revision,
            ..registration.own.clone()
        });
    }
}

/// However often it was opened since: a start that does not reach the metadata counts, too.
#[test]
fn a_store_from_the_past_is_noticed() {
    let mut devices = Devices::new(5);
    let first = devices.registered(11, None);
    let mut old = devices;
    let second = devices.registered(12, Some(&first));
    let third = devices.registered(13, Some(&second));
    for use_id in 20..83 {
        let mut registration = old.start(use_id);
        let found = registration.read(&holding(Some(&third)));
        assert_eq!(found, Step::Doubt, "with {} uses", old.uses);
    }
    // The right one was opened often as well.
    for use_id in 30..90 {
        let mut registration = devices.start(use_id);
        let found = registration.read(&holding(Some(&third)));
        assert!(matches!(found, Step::Replace(..)));
    }
}

/// A start that ends before what is there is doubted leaves it to the next one.
#[test]
fn a_store_from_the_past_is_registered_once_it_is_doubted() {
    let mut devices = Devices::new(5);
    let first = devices.registered(11, None);
    let mut old = devices;
    let second = devices.registered(12, Some(&first));
    for use_id in [21, 22] {
        let mut registration = old.start(use_id);
        assert_eq!(registration.read(&holding(Some(&second))), Step::Doubt);
        assert_eq!(registration.read(&holding(Some(&second))), Step::Doubt);
    }
    let mut registration = old.start(23);
    assert_eq!(registration.read(&holding(Some(&second))), Step::Doubt);
    registration.doubted();
    let third = proposed(&mut registration, Some(&second));
    let missed = old.uses - second.uses;
    assert_eq!(third.incarnation.0, second.incarnation.0 + missed);
    assert_eq!((third.uses, third.use_id), (old.uses, 23));
    old.registered(24, Some(&third));
}

/// As versions wrote it that were never released, and as it is made again from notes: in the node's record.
#[test]
fn the_id_of_a_use_counts_wherever_it_is() {
    let mut devices = Devices::new(5);
    let first = devices.registered(11, None);
    let mut old = devices;
    let second = devices.registered(12, Some(&first));
    let alone = holding_all(Some(&second), None, Some((MACHINE, None)));
    for use_id in 20..24 {
        let found = old.start(use_id).read(&alone);
        assert_eq!(found, Step::Doubt, "with {} uses", old.uses);
    }
    assert!(matches!(devices.start(13).read(&alone), Step::Replace(..)));
}

/// A start by a version without ids leaves the one of the start before it.
#[test]
fn the_id_of_another_use_is_of_no_account() {
    let mut devices = Devices::new(5);
    let first = devices.registered(11, None);
    let without = NodeRecord {
        use_id: 0,
        uses: 2,
        ..first.clone()
    };
    devices.uses += 1;
    let left = UseRecord {
        schema: 1,
        node: first.node,
        store: first.store,
        uses: 1,
        use_id: 70,
    };
    let read = devices.start(13).read(&holding_all(
        Some(&without),
        Some(&left),
        Some((MACHINE, None)),
    ));
    assert!(matches!(read, Step::Replace(..)));
}

/// Its own record, that of the cluster, or that of the use.
#[test]
fn what_a_newer_version_wrote_is_not_replaced() {
    let keys = [
        NodeRecord::key(NodeId(1)),
        CLUSTER_KEY.into(),
        UseRecord::key(NodeId(1)),
    ];
    for (place, key) in keys.into_iter().enumerate() {
        let mut devices = Devices::new(5);
        let first = devices.registered(11, None);
        let mut outcome = holding(Some(&first));
        let OperationResult::Range(found) = &mut outcome.results[place] else {
            panic!("the record was read");
        };
        *found = vec![KeyValue {
            key: key.clone(),
            value: br#"{"schema":2,"more":true}"#.as_slice().into(),
            create_revision: Revision(3),
            mod_revision: Revision(7),
            version: 1,
            lease: LeaseId(0),
        }];
        let mut registration = devices.start(12);
        for _ in 0..2 {
            assert_eq!(registration.read(&outcome), Step::Newer(key.clone()));
        }
        let read = registration.read(&holding(Some(&first)));
        assert!(matches!(read, Step::Replace(..)));
    }
}

/// Where one of the two was written by a version that drew no ids, the count decides.
#[test]
fn without_ids_the_count_decides() {
    let mut devices = Devices::new(5);
    let first = devices.registered(0, None);
    let mut old = devices;
    let second = devices.registered(12, Some(&first));
    assert_eq!(old.start(0).read(&holding(Some(&second))), Step::Doubt);
    old.registered(0, Some(&second));
    devices.registered(13, Some(&first));
}

#[test]
fn a_lost_answer_is_no_store_from_the_past() {
    let mut registration = Devices::new(5).start(11);
    let record = proposed(&mut registration, None);
    assert_eq!(registration.read(&holding(Some(&record))), Step::Done);
    assert_eq!(registration.incarnation(), record.incarnation);
}

#[test]
fn a_proposal_that_lost_to_an_older_start_is_made_again_above_it() {
    let mut devices = Devices::new(5);
    let ghost = devices.registered(11, None);
    let mut registration = devices.start(12);
    proposed(&mut registration, None);
    let again = proposed(&mut registration, Some(&ghost));
    assert_eq!(again.incarnation, ghost.incarnation.next());
}

/// The metadata was lost, and made again: numbers of starts from before may be higher than all that it knows.
#[test]
fn starts_are_counted_from_the_floor_at_least() {
    let mut devices = Devices::new(1);
    let start = |devices: &mut Devices, known: Option<&NodeRecord>| {
        let mut registration = devices.start(7);
        let mut outcome = holding(known);
        outcome.results[CLUSTER] = made_again();
        let step = registration.read(&outcome);
        assert!(matches!(step, Step::Replace(..)));
        registration.own.clone()
    };
    let first = start(&mut devices, None);
    assert_eq!(first.incarnation, Incarnation(FLOOR.0 + READ_AT.0 + 1));
    // What is on record is from before, or was noted long ago.
    let older = NodeRecord {
        incarnation: Incarnation(30),
        ..first.clone()
    };
    let second = start(&mut devices, Some(&older));
    assert_eq!(second.incarnation, FLOOR.next());
    // It had been brought back from before the second start.
    let third = start(&mut devices, Some(&first));
    assert_eq!(third.incarnation, first.incarnation.next().next());
}
