//! A slice's configuration changes by one epoch at a time, keeps a copy that holds everything, and
//! takes nobody for in sync who was not, but one that was joining (`replication.md`, Change of
//! configuration; `architecture.md`, invariant 8).

use std::collections::BTreeSet;

use holdfast_model::record::{Membership, SliceRecord};
use holdfast_model::{NodeId, StoreId};

use crate::catalog::Changed;
use crate::failure::Failure;

/// A record has changed.
pub(super) fn check(Changed { before, after }: &Changed) -> Result<(), Failure> {
    if let Some(before) = before
        && before != after
    {
        follows(before, after).map_err(|what| Failure::Invariant {
            name: "records",
            what: format!("{what}: {before:?} became {after:?}"),
        })?;
    }
    Ok(())
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
