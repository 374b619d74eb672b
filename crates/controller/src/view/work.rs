//! What has to be copied until slices are where they are to be, and how long that takes.
//!
//! Invariants:
//! - what nobody has measured is taken for all that there is: an estimate is too long rather than too
//!   short;
//! - what waits for its turn counts as what is under way does;
//! - no time is told where some of it has no rate.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_api::documents::SyncWork;
use holdfast_control::Inventory;
use holdfast_model::record::{Membership, SliceRecord};
use holdfast_model::{NodeId, SliceId};

use super::holders::has_lost;
use super::{is_served, prospect, server, slice_used_bytes};
use crate::reports::Reports;

/// A copy that a slice is to have, and has not, or not up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) slice: SliceId,
    /// Where it is to be.
    pub(crate) target: NodeId,
    /// Who leads, and copies.
    pub(crate) source: Option<NodeId>,
    /// What the target lacks, at most.
    pub(crate) bytes: u64,
    /// Whether that is known: else nobody has seen what changed since the target was in sync, and all that there is counts.
    pub(crate) is_known: bool,
    /// Where it is to be, if the target is dead for good.
    pub(crate) state: MissingState,
}

/// Whether a copy is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MissingState {
    /// It is, or as soon as it has its turn.
    Moves,
    /// Its node is dead: it is made on another one, as soon as it has its turn.
    Replaced,
    /// Its node is down.
    NodeDown,
    /// Nobody is there to copy from.
    NoSource,
}

impl Missing {
    pub(crate) fn moves(&self) -> bool {
        matches!(self.state, MissingState::Moves | MissingState::Replaced)
    }

    /// The node that is busy with it on the receiving side.
    fn receiver(&self) -> Option<NodeId> {
        (self.state == MissingState::Moves).then_some(self.target)
    }
}

/// What a slice lacks of what it is to have.
pub(crate) fn missing(
    inventory: &Inventory,
    reports: &Reports,
    record: &SliceRecord,
) -> Vec<Missing> {
    let wish = inventory.wishes.get(&record.slice);
    let wanted: Vec<NodeId> = match wish {
        Some(wish) => wish.record.nodes.clone(),
        None => record.replicas.iter().map(|replica| replica.node).collect(),
    };
    let lacking = wanted
        .into_iter()
        .filter(|node| !record.in_sync().any(|other| other == *node));
    let source = server(reports, record).map(|(node, _)| node);
    let source = source.or_else(|| is_served(reports, record).then_some(record.primary));
    lacking
        .map(|target| {
            let is_up = reports.isolation(target).is_none();
            let whole = || slice_used_bytes(reports, record).unwrap_or(0);
            let state = match source {
                None => MissingState::NoSource,
                Some(_) if is_up => MissingState::Moves,
                Some(_) if prospect::is_due(inventory, reports, record, target) => {
                    MissingState::Replaced
                }
                Some(_) => MissingState::NodeDown,
            };
            let known = match state {
                MissingState::Replaced => None,
                _ => lacking_bytes(inventory, reports, record, target),
            };
            Missing {
                slice: record.slice,
                target,
                source,
                bytes: known.unwrap_or_else(whole),
                is_known: known.is_some(),
                state,
            }
        })
        .collect()
}

/// What a replica lacks, if its primary knows.
pub(crate) fn lacking_bytes(
    inventory: &Inventory,
    reports: &Reports,
    record: &SliceRecord,
    node: NodeId,
) -> Option<u64> {
    let (_, server) = server(reports, record)?;
    let store = inventory.nodes.get(&node).map(|node| node.store);
    // One that there was none of, or whose devices were emptied, lacks everything, whatever the mark of the one before says.
    let is_new = record.replica(node).is_none_or(|named| {
        let is_same = store.is_none_or(|store| store == named.store);
        named.membership != Membership::InSync && !is_same
    });
    if is_new || has_lost(reports, record, node) {
        return Some(server.used_bytes);
    }
    let lacking = server.lacking.iter().find(|it| it.node == node.0);
    let joining = server.joining.iter().find(|it| it.node == node.0);
    let left = joining.filter(|it| it.bytes_total > 0);
    let left = left.map(|it| it.bytes_total.saturating_sub(it.bytes_done));
    left.or_else(|| lacking.and_then(|it| it.bytes))
}

/// The sum of what is to be copied, and the time that it takes: the slowest node decides.
pub(crate) fn sum<'a>(
    reports: &Reports,
    missing: impl IntoIterator<Item = &'a Missing>,
) -> SyncWork {
    let mut work = SyncWork::default();
    let mut pairs = BTreeSet::new();
    let mut sources: BTreeMap<NodeId, u64> = BTreeMap::new();
    let mut receivers: BTreeMap<NodeId, u64> = BTreeMap::new();
    let mut all_move = true;
    for one in missing {
        work.replicas = work.replicas.saturating_add(1);
        work.bytes = work.bytes.saturating_add(one.bytes);
        all_move &= one.moves();
        let Some(source) = one.source.filter(|_| one.moves()) else {
            continue;
        };
        let at = sources.entry(source).or_default();
        *at = at.saturating_add(one.bytes);
        if let Some(receiver) = one.receiver() {
            let at = receivers.entry(receiver).or_default();
            *at = at.saturating_add(one.bytes);
        }
        pairs.insert((source, one.receiver()));
    }
    let both = pairs
        .iter()
        .filter_map(|(source, receiver)| Some((*source, (*receiver)?)));
    work.bytes_per_second = both
        .map(|(source, receiver)| reports.sync_rate(source, receiver))
        .fold(0, u64::saturating_add);
    if !all_move {
        return work;
    }
    let is_fed = |(source, receiver): &(NodeId, Option<NodeId>)| {
        reports.send_rate(*source) > 0
            || receiver.is_some_and(|receiver| reports.receive_rate(receiver) > 0)
    };
    let sending = sources
        .iter()
        .map(|(node, bytes)| (*bytes, reports.send_rate(*node)));
    let receiving = receivers
        .iter()
        .map(|(node, bytes)| (*bytes, reports.receive_rate(*node)));
    if work.bytes == 0 || pairs.iter().all(is_fed) {
        let times = sending
            .chain(receiving)
            .filter_map(|(bytes, rate)| seconds(bytes, rate));
        work.seconds_left = Some(times.max().unwrap_or(0));
    }
    work
}

/// How long so many bytes take, rounded up.
pub(crate) fn seconds(bytes: u64, per_second: u64) -> Option<u64> {
    if bytes == 0 {
        return Some(0);
    }
    (per_second > 0).then(|| bytes.div_ceil(per_second))
}
