//! Slices that are made for a new or grown volume: where each is, and the transactions that put them on record.
//!
//! Invariants:
//! - every transaction holds only as long as the guard, and what is known of the slices' nodes, is as the plan was made from;
//! - no slice that is there is written.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::metadata::{Compare, TRANSACTION_OPERATIONS_MAX, Transaction};
use holdfast_model::record::{IntentRecord, NodeRecord, SliceRecord, VolumeRecord};
use holdfast_model::{Epoch, Incarnation, NodeId, SliceId};

use super::PlanError;
use crate::placement::Spread;
use crate::writing::{absent, put, still_is};
use crate::{Inventory, Placement, Seen, TooFewNodes};

/// The records of slices that do not exist yet, as many to a transaction as fit.
pub(super) fn make_slices(
    inventory: &Inventory,
    seen: impl Fn(NodeId) -> Option<Seen>,
    volume: &VolumeRecord,
    indices: core::ops::Range<u32>,
    guard: &Compare,
) -> Result<Vec<Transaction>, PlanError> {
    let mut placement = Placement::new(inventory, seen);
    let mut records = Vec::new();
    for index in indices {
        let slice = SliceId {
            volume: volume.volume,
            index,
        };
        if inventory.slices.contains_key(&slice) {
            continue;
        }
        let placed = placement.place(volume.policy.copies());
        let (primary, replicas) = placed.map_err(|refused| too_few(refused, inventory, volume))?;
        records.push(SliceRecord {
            schema: 1,
            slice,
            epoch: Epoch(1),
            primary,
            preferred: primary,
            replicas,
            copies_min: volume.policy.copies_min() as u8,
            // No node: this is nobody's proposal for a slice that has been there before.
            bytes_moved: 0,
            proposer: (NodeId(0), Incarnation::ZERO),
            nonce: 0,
            recovery: None,
        });
    }
    Ok(record_slices(&records, guard, inventory))
}

/// What is wanted of a node once a volume has taken its name: with the first one all nodes are admitted.
fn intent_of(inventory: &Inventory, node: NodeId) -> IntentRecord {
    let known = inventory.intents.get(&node);
    known.map_or_else(
        || IntentRecord::active(node),
        |intent| intent.record.clone(),
    )
}

/// Writes slices' records, as many to a transaction as fit with the guard and what is known of their nodes, which has to
/// be so still.
fn record_slices(
    records: &[SliceRecord],
    guard: &Compare,
    inventory: &Inventory,
) -> Vec<Transaction> {
    let mut transactions = Vec::new();
    let mut chunk: Vec<&SliceRecord> = Vec::new();
    let mut nodes: BTreeSet<NodeId> = BTreeSet::new();
    for record in records {
        // One comparison is the guard's; two are of each node.
        let operations = 1 + chunk.len() + 1 + 2 * (nodes.len() + record.replicas.len());
        if operations > TRANSACTION_OPERATIONS_MAX {
            transactions.push(record_chunk(&chunk, guard, inventory, &nodes));
            chunk.clear();
            nodes.clear();
        }
        nodes.extend(record.replicas.iter().map(|replica| replica.node));
        chunk.push(record);
    }
    if !chunk.is_empty() {
        transactions.push(record_chunk(&chunk, guard, inventory, &nodes));
    }
    transactions
}

fn record_chunk(
    records: &[&SliceRecord],
    guard: &Compare,
    inventory: &Inventory,
    nodes: &BTreeSet<NodeId>,
) -> Transaction {
    let mut transaction = Transaction {
        compare: vec![guard.clone()],
        ..Transaction::default()
    };
    for record in records {
        let key = SliceRecord::key(record.slice);
        transaction.compare.push(absent(key.clone()));
        transaction.success.push(put(key, *record));
    }
    for node in nodes {
        // The records name its store.
        let known = still_is(NodeRecord::key(*node), &inventory.nodes[node]);
        transaction.compare.push(known);
        let intent = intent_of(inventory, *node);
        let key = IntentRecord::key(*node);
        transaction.compare.push(still_is(key.clone(), &intent));
        transaction.success.push(put(key, &intent));
    }
    transaction
}

fn too_few(refused: TooFewNodes, inventory: &Inventory, volume: &VolumeRecord) -> PlanError {
    let policy = volume.policy;
    let members = inventory.nodes.keys().copied();
    let active: Vec<NodeId> = members.filter(|node| inventory.is_active(*node)).collect();
    let nodes = active.len();
    let domains = Spread::of(inventory, &active).domains;
    let TooFewNodes {
        available,
        domains: domains_up,
    } = refused;
    if nodes < policy.copies() {
        PlanError::TooFewNodes { policy, nodes }
    } else if domains < policy.copies() {
        PlanError::TooFewDomains {
            policy,
            nodes,
            domains,
        }
    } else if available < policy.copies() {
        PlanError::TooFewUp {
            policy,
            available,
            nodes,
        }
    } else {
        PlanError::TooFewDomainsUp {
            policy,
            domains_up,
            domains,
        }
    }
}
