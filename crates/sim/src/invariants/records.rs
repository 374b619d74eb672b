//! A slice's configuration changes by one epoch at a time, keeps a copy that holds everything, and
//! takes nobody for in sync who was not, but one that was joining (`replication.md`, Change of
//! configuration; `architecture.md`, invariant 8).

use std::collections::{BTreeMap, BTreeSet};

use holdfast_metadata::Machine;
use holdfast_model::record::{Membership, SliceRecord};
use holdfast_model::{NodeId, SliceId, StoreId};

use crate::boot;
use crate::failure::Failure;

/// The records as they were.
#[derive(Debug, Default)]
pub(super) struct Records {
    known: BTreeMap<SliceId, SliceRecord>,
}

impl Records {
    pub(super) fn check(&mut self, machine: &Machine) -> Result<(), Failure> {
        for record in boot::slices(machine) {
            let before = self.known.insert(record.slice, record.clone());
            if let Some(before) = before
                && before != record
            {
                follows(&before, &record).map_err(|what| Failure::Invariant {
                    name: "records",
                    what: format!("{what}: {before:?} became {record:?}"),
                })?;
            }
        }
        Ok(())
    }
}

fn follows(before: &SliceRecord, after: &SliceRecord) -> Result<(), &'static str> {
    let whole: BTreeSet<(NodeId, StoreId)> = replicas(before, |it| it == Membership::InSync);
    let joined = replicas(before, |it| matches!(it, Membership::Joining { .. }));
    let claimed = replicas(after, |it| it == Membership::InSync);
    if after.epoch != before.epoch.next() {
        return Err("an epoch was left out, or used twice");
    }
    if claimed.is_disjoint(&whole) {
        return Err("nobody who is in sync was in sync before");
    }
    if !claimed
        .iter()
        .all(|replica| whole.contains(replica) || joined.contains(replica))
    {
        return Err("somebody is in sync who did not join before");
    }
    if !after.in_sync().any(|node| node == after.primary) {
        return Err("the primary is not in sync");
    }
    if after.primary != before.primary && !before.in_sync().any(|node| node == after.primary) {
        return Err("the primary was not in sync before");
    }
    Ok(())
}

fn replicas(
    record: &SliceRecord,
    keep: impl Fn(Membership) -> bool,
) -> BTreeSet<(NodeId, StoreId)> {
    let kept = record
        .replicas
        .iter()
        .filter(|replica| keep(replica.membership));
    kept.map(|replica| (replica.node, replica.store)).collect()
}
