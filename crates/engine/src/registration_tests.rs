use super::*;
use holdfast_model::{NodeId, StoreId};

const READ_AT: Revision = Revision(9);

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
        Registration::new(own, self.ids)
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
    let key = NodeRecord::key(NodeId(1));
    assert_eq!(compare, [Compare::ModRevision { key, equals }]);
    let [Operation::Put { value, .. }] = &success[..] else {
        panic!("one key is set");
    };
    NodeRecord::decode(value).expect("our own record")
}

fn holding(record: Option<&NodeRecord>) -> TransactionOutcome {
    let pair = record.map(|record| KeyValue {
        key: NodeRecord::key(record.node),
        value: record.encode(),
        create_revision: Revision(3),
        mod_revision: Revision(7),
        version: 1,
        lease: LeaseId(0),
    });
    TransactionOutcome {
        succeeded: true,
        revision: READ_AT,
        results: vec![OperationResult::Range(pair.into_iter().collect())],
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
    assert_eq!(third.incarnation, second.incarnation.next());
    assert_eq!((third.uses, third.use_id), (old.uses, 23));
    old.registered(24, Some(&third));
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
    let cluster = ClusterRecord {
        schema: 1,
        cluster: holdfast_model::ClusterId(5),
        next_volume: holdfast_model::VolumeId(1),
        recoveries: 1,
        incarnation_floor: Incarnation(1000),
    };
    let cluster = KeyValue {
        key: holdfast_model::record::CLUSTER_KEY.into(),
        value: cluster.encode(),
        create_revision: Revision(1),
        mod_revision: Revision(1),
        version: 1,
        lease: LeaseId(0),
    };
    let mut devices = Devices::new(1);
    let start = |devices: &mut Devices, known: Option<&NodeRecord>| {
        let mut registration = devices.start(7);
        let mut outcome = holding(known);
        let beside = OperationResult::Range(vec![cluster.clone()]);
        outcome.results.push(beside);
        let step = registration.read(&outcome);
        assert!(matches!(step, Step::Replace(..)));
        registration.own.clone()
    };
    let first = start(&mut devices, None);
    assert_eq!(first.incarnation, Incarnation(1001));
    // What is on record is from before, or was noted long ago.
    let older = NodeRecord {
        incarnation: Incarnation(30),
        ..first.clone()
    };
    let second = start(&mut devices, Some(&older));
    assert_eq!(second.incarnation, Incarnation(1001));
    assert_eq!(
        start(&mut devices, Some(&first)).incarnation,
        Incarnation(1002)
    );
}
