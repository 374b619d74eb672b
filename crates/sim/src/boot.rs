//! How a cluster comes into being: its record, its nodes, its volumes, in the way of the control
//! plane.

use holdfast_control::{
    Inventory, InventoryError, Plan, Seen, VolumeName, VolumeSize, create, delete, grow,
};
use holdfast_metadata::machine::Output;
use holdfast_metadata::{ClientId, Machine};
use holdfast_model::metadata::{
    MetadataAnswer, MetadataRequest, MetadataToken, Operation, OperationResult, Selector,
    Transaction, TransactionOutcome,
};
use holdfast_model::record::{ClusterRecord, Record, SLICES_PREFIX, SliceRecord};
use holdfast_model::{Incarnation, NodeId, VolumeId};
use holdfast_stdx::{Bytes, Duration, Instant};

use crate::cluster::CLUSTER;
use crate::volumes::VolumePlan;

/// Who asks on behalf of the control plane.
const CONTROLLER: ClientId = ClientId(0);

/// The cluster's record, as it is made.
pub(crate) fn cluster_record() -> Bytes {
    ClusterRecord {
        schema: 1,
        cluster: CLUSTER,
        next_volume: VolumeId(1),
        recoveries: 0,
        incarnation_floor: Incarnation::ZERO,
    }
    .encode()
}

/// The iSCSI name of a volume's target.
pub(crate) fn target_of(volume: &str) -> String {
    volume_name(volume).target()
}

fn volume_name(name: &str) -> VolumeName {
    name.parse().expect("a name of ours is a volume's name")
}

/// What the metadata holds; none where there is no cluster.
pub(crate) fn inventory(machine: &mut Machine) -> Option<Inventory> {
    let outcome = transact(machine, Inventory::query(), &mut Output::default());
    match Inventory::from_outcome(outcome) {
        Ok(inventory) => Some(inventory),
        Err(InventoryError::NoCluster) => None,
        Err(error) => panic!("our own records can be read: {error}"),
    }
}

/// Every slice's record, also where there is no cluster.
pub(crate) fn slices(machine: &Machine) -> Vec<SliceRecord> {
    let mut machine = machine.clone();
    let all = Transaction {
        success: vec![Operation::Range(Selector::Prefix(SLICES_PREFIX.into()))],
        ..Transaction::default()
    };
    let outcome = transact(&mut machine, all, &mut Output::default());
    let found = outcome.results.into_iter().flat_map(|result| match result {
        OperationResult::Range(found) => found,
        OperationResult::Put | OperationResult::Delete(_) => Vec::new(),
    });
    let records = found.map(|pair| SliceRecord::decode(&pair.value));
    records
        .collect::<Result<_, _>>()
        .expect("our own records can be read")
}

/// How each node is seen that is up.
const SEEN: Seen = Seen {
    silent: Duration::ZERO,
    bytes: 1 << 30,
    free_bytes: 1 << 30,
    work: 0,
};

/// Makes a volume on the nodes that are registered. What the watches see is in `out`.
pub(crate) fn create_volume(machine: &mut Machine, volume: &VolumePlan, out: &mut Output) {
    let size = VolumeSize::new(volume.bytes).expect("a size of ours is a volume's size");
    let inventory = inventory(machine).expect("the cluster is there before its volumes");
    let plan = create(
        &inventory,
        |_| Some(SEEN),
        &volume_name(&volume.name),
        size,
        volume.policy,
    )
    .expect("there are nodes enough");
    carry_out(machine, plan, out);
}

/// Lets a volume grow to so many bytes, on nodes that are up. Says whether there are enough.
pub(crate) fn grow_volume(
    machine: &mut Machine,
    volume: &VolumePlan,
    bytes: u64,
    is_up: impl Fn(NodeId) -> bool,
    out: &mut Output,
) -> bool {
    let size = VolumeSize::new(bytes).expect("a size of ours is a volume's size");
    let Some(inventory) = inventory(machine) else {
        return false;
    };
    let plan = grow(
        &inventory,
        |node| is_up(node).then_some(SEEN),
        &volume_name(&volume.name),
        size,
    );
    plan.is_ok_and(|plan| {
        carry_out(machine, plan, out);
        true
    })
}

/// Deletes a volume.
pub(crate) fn delete_volume(machine: &mut Machine, volume: &VolumePlan, out: &mut Output) {
    let inventory = inventory(machine).expect("where there is a volume there is a cluster");
    let plan = delete(&inventory, &volume_name(&volume.name)).expect("there is a volume");
    carry_out(machine, plan, out);
}

/// Sets a key, as the control plane does when an operator wants something.
pub(crate) fn put(machine: &mut Machine, key: String, value: Bytes, out: &mut Output) {
    let transaction = Transaction {
        success: vec![Operation::put(key, value)],
        ..Transaction::default()
    };
    transact(machine, transaction, out);
}

fn carry_out(machine: &mut Machine, plan: Plan, out: &mut Output) {
    for transaction in plan.transactions {
        let outcome = transact(machine, transaction, out);
        assert!(outcome.succeeded, "nobody else makes volumes");
    }
}

/// What a key holds.
pub(crate) fn get(machine: &mut Machine, key: &str) -> Option<Bytes> {
    let read = Transaction {
        success: vec![Operation::Range(Selector::Key(key.into()))],
        ..Transaction::default()
    };
    let outcome = transact(machine, read, &mut Output::default());
    match outcome.results.into_iter().next() {
        Some(OperationResult::Range(found)) => found.into_iter().next().map(|pair| pair.value),
        _ => None,
    }
}

/// Carries a transaction out for the control plane. What the watches see is in `out`.
pub(crate) fn transact(
    machine: &mut Machine,
    transaction: Transaction,
    out: &mut Output,
) -> TransactionOutcome {
    let mut own = Output::default();
    let request = MetadataRequest::Transact(transaction);
    machine.apply(
        Instant::ZERO,
        CONTROLLER,
        MetadataToken(0),
        request,
        &mut own,
    );
    out.changes.append(&mut own.changes);
    let mut outcome = None;
    for addressed in own.answers {
        match addressed.answer {
            MetadataAnswer::Transacted(it) if addressed.client == CONTROLLER => outcome = Some(it),
            _ => out.answers.push(addressed),
        }
    }
    outcome.expect("a transaction is answered")
}
