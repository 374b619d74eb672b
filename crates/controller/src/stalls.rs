//! The stall ledgers of all nodes as one.
//!
//! Invariants:
//! - what a node does not answer is not silently left out: the node is named;
//! - an answer is bounded by what was asked for.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use holdfast_api::Problem;
use holdfast_api::documents::{
    LocalReport, LocalStall, LocalStalls, STALLS_MAX, Stall, StallList, StallPlace, StallQuery,
    piece,
};
use holdfast_control::{Inventory, PlanError, VolumeName};
use holdfast_model::{NodeId, VolumeId};
use holdfast_tls::Connector;
use tokio::sync::watch;

use crate::asking::{ask_each, ask_piece, silent};
use crate::{Controller, problem};

/// What the node in this process keeps and counts.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) stalls: watch::Receiver<VecDeque<LocalStall>>,
    pub(crate) metrics: Arc<dyn Fn(&LocalReport) -> String + Send + Sync>,
}

impl fmt::Debug for Kept {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Kept").finish_non_exhaustive()
    }
}

impl Kept {
    /// How long the longest stall at the portal of this node was, of those that ended after a moment or last: milliseconds.
    pub(crate) fn longest_ms(&self, report: &LocalReport, after_ms: u64) -> u64 {
        let is_recent =
            |stall: &&LocalStall| stall.began_ms.saturating_add(stall.length_ms) >= after_ms;
        let ledger = self.stalls.borrow();
        // They are in the order in which they ended.
        let ended = ledger.iter().rev().take_while(is_recent);
        let all = report.stalled.iter().chain(ended);
        all.map(|stall| stall.length_ms).max().unwrap_or(0)
    }

    /// What the node in this process, whose report this is, keeps of what is asked for.
    pub(crate) fn answer(
        &self,
        report: &LocalReport,
        query: &StallQuery,
        after: Option<&StallPlace>,
    ) -> LocalStalls {
        let told = |stalls: &mut dyn Iterator<Item = &LocalStall>, lasting| {
            let wanted = stalls.filter(|stall| query.wants(stall));
            let place = |stall| StallPlace::of(report.node, stall, lasting);
            let wanted = wanted.map(|stall| (place(stall), stall));
            let (told, _) = piece(wanted, after, query.limit as usize);
            told.into_iter().cloned().collect()
        };
        LocalStalls {
            node: report.node,
            lasting: told(&mut report.stalled.iter(), true),
            stalls: told(&mut self.stalls.borrow().iter(), false),
        }
    }
}

impl Controller {
    pub(crate) async fn stalls_of(
        &self,
        volume: Option<&str>,
        query: StallQuery,
    ) -> Result<StallList, Problem> {
        let look = self.inventory().await?;
        let inventory = &look.seen;
        let volume = match volume {
            Some(name) => {
                let name: VolumeName = name.parse().map_err(problem::name)?;
                let found = inventory.volume(name.as_str());
                let found = found.ok_or_else(|| problem::plan(&name, PlanError::NoSuchVolume))?;
                Some(found.record.volume)
            }
            None => None,
        };
        let after = query.place()?;
        let question = question(volume, &query);
        let local = self.node_here().ok();
        let local = local.filter(|_| self.registered_here(inventory).is_some());
        let local = local.map(|(report, kept)| kept.answer(&report, &question, after.as_ref()));
        let answers = collect(inventory, self.connector.as_ref(), local, &question).await;
        let limit = query.limit as usize;
        Ok(document(inventory, &answers, volume, after.as_ref(), limit))
    }
}

/// Asks all nodes; `local` is what the one in this process answers.
async fn collect(
    inventory: &Inventory,
    connector: Option<&Connector>,
    local: Option<LocalStalls>,
    query: &StallQuery,
) -> BTreeMap<NodeId, LocalStalls> {
    let here = local.as_ref().map(|local| NodeId(local.node));
    let others = inventory.nodes.values();
    let others = others.filter(|node| Some(node.node) != here);
    let answers = ask_each(others, connector, |client| {
        let query = query.clone();
        async move {
            let all = query.after.is_some().then(|| StallQuery {
                limit: STALLS_MAX,
                after: None,
                ..query.clone()
            });
            ask_piece(query, all, |query| client.local_stalls(query)).await
        }
    });
    let answers = answers.await.into_iter().chain(local);
    answers
        .map(|answer| (NodeId(answer.node), answer))
        .collect()
}

/// What each node is asked so that nothing is missing that `query` asks about one volume, and that it shows whether there is more:
/// by one more than is told. A node keeps no more than can be asked for.
fn question(volume: Option<VolumeId>, query: &StallQuery) -> StallQuery {
    let limit = match volume {
        Some(_) => STALLS_MAX,
        None => query.limit.saturating_add(1).min(STALLS_MAX),
    };
    StallQuery {
        limit,
        ..query.clone()
    }
}

/// The document that names everything, the newest first.
fn document(
    inventory: &Inventory,
    answers: &BTreeMap<NodeId, LocalStalls>,
    volume: Option<VolumeId>,
    after: Option<&StallPlace>,
    limit: usize,
) -> StallList {
    let mut all = Vec::new();
    for (portal, answer) in answers {
        let lasting = answer.lasting.iter().map(|stall| (stall, true));
        let over = answer.stalls.iter().map(|stall| (stall, false));
        let of_volume = |stall: &LocalStall| volume.is_none_or(|volume| volume.0 == stall.volume);
        let wanted = lasting.chain(over).filter(|(stall, _)| of_volume(stall));
        all.extend(wanted.map(|(stall, lasts)| {
            let place = StallPlace::of(portal.0, stall, lasts);
            (place, (*portal, stall, lasts))
        }));
    }
    // Only what is told is named: each node has told as much.
    let (told, next) = piece(all, after, limit);
    let told = told.into_iter();
    let stalls = told.map(|(portal, stall, lasts)| named(inventory, portal, stall, lasts));
    let nodes = inventory.nodes.values();
    StallList {
        stalls: stalls.collect(),
        next,
        silent: silent(nodes, |node| answers.contains_key(&node)),
    }
}

fn named(inventory: &Inventory, portal: NodeId, stall: &LocalStall, lasting: bool) -> Stall {
    let name = |node: NodeId| {
        let record = inventory.nodes.get(&node);
        record.map_or_else(|| node.to_string(), |record| record.name.clone())
    };
    let volume = VolumeId(stall.volume);
    let record = inventory.volumes.get(&volume);
    Stall {
        began_ms: stall.began_ms,
        length_ms: stall.length_ms,
        lasting,
        portal: name(portal),
        // One that is deleted has no name any more.
        volume: record.map_or_else(|| volume.to_string(), |it| it.record.name.clone()),
        initiator: stall.initiator.clone(),
        cause: stall.cause,
        node: stall.node.map(|node| name(NodeId(node))),
        slice: stall.slice,
        waiting_max: stall.waiting_max,
        served: stall.served,
    }
}

#[cfg(test)]
mod tests {
    use holdfast_api::documents::StallCause;

    use super::*;

    #[test]
    fn what_lasts_for_one_initiator_is_told_to_whoever_asks_for_initiators() {
        let of_all = LocalStall {
            began_ms: 1,
            length_ms: 500,
            volume: 7,
            initiator: None,
            cause: StallCause::Media,
            node: None,
            slice: None,
            waiting_max: 1,
            served: false,
        };
        let of_one = LocalStall {
            initiator: Some("iqn.2026-11.example:host".to_owned()),
            ..of_all
        };
        let report = LocalReport {
            node: 3,
            stalled: vec![of_all, of_one],
            ..LocalReport::default()
        };
        let (_sender, stalls) = watch::channel(VecDeque::new());
        let kept = Kept {
            stalls,
            metrics: Arc::new(|_| String::new()),
        };
        let lasting = |initiators, limit| {
            let query = StallQuery {
                initiators,
                limit,
                ..StallQuery::default()
            };
            kept.answer(&report, &query, None).lasting
        };
        assert_eq!(lasting(false, 9), report.stalled[..1]);
        assert_eq!(lasting(true, 9), report.stalled);
        assert_eq!(lasting(true, 1), report.stalled[..1]);
    }
}
