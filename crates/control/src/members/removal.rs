//! What goes with a node that is removed.
//!
//! Invariants:
//! - a node that comes back counts its starts on, beyond all that it had;
//! - its bookmark stays: what it has noted it looks for, should it be added again.

use holdfast_model::Incarnation;
use holdfast_model::metadata::{Operation, Selector, Transaction};
use holdfast_model::record::{
    CLUSTER_KEY, ClusterRecord, DenialRecord, DomainRecord, DrainRecord, MachineRecord, NodeRecord,
    StopRecord, UseRecord,
};

use crate::Inventory;
use crate::writing::{put, still_at, still_is};

/// Deletes what is on record of a node that is as it is known. Nobody connects to it any more; should it register again,
/// it waits.
pub(super) fn forget(inventory: &Inventory, known: &NodeRecord, transaction: &mut Transaction) {
    let node = known.node;
    let unchanged = still_is(NodeRecord::key(node), known);
    transaction.compare.push(unchanged);
    let keys = [
        NodeRecord::key(node),
        UseRecord::key(node),
        MachineRecord::key(node),
        DenialRecord::key(node),
        DomainRecord::key(node),
        StopRecord::key(node),
        DrainRecord::key(node),
    ];
    let gone = keys.map(|key| Operation::Delete(Selector::Key(key)));
    transaction.success.extend(gone);
    raise_floor(inventory, known.incarnation, transaction);
}

/// It counts on from the floor and the revision, which its starts may have passed.
fn raise_floor(inventory: &Inventory, last: Incarnation, transaction: &mut Transaction) {
    let cluster = &inventory.cluster;
    let floor = cluster.record.incarnation_floor;
    if last.0 <= floor.0 + inventory.revision.0 {
        return;
    }
    let raised = ClusterRecord {
        incarnation_floor: last,
        ..cluster.record.clone()
    };
    let unchanged = still_at(CLUSTER_KEY.into(), cluster.revision);
    transaction.compare.push(unchanged);
    transaction.success.push(put(CLUSTER_KEY.into(), &raised));
}
