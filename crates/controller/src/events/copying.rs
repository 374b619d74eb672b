//! The copies of the log of whoever steers, at a few other nodes: what happened until a node was lost is told while it is.
//!
//! Invariants:
//! - where nothing was told a copy costs one question in each pause, and a short answer;
//! - what a copy lacks is fetched in so many pieces at most, the newest first.

use std::time::Duration;

use holdfast_api::ApiClient;
use holdfast_api::documents::{EVENTS_MAX, Event, EventQuery};
use holdfast_model::NodeId;
use holdfast_model::record::NodeRecord;

use super::log::EventLog;
use crate::Controller;
use crate::asking::client_of;

/// Nodes that keep a copy, beside whoever steers: all of them in small clusters; where some of these are lost together, others have it.
const COPIES: usize = 4;
/// Pieces that are fetched at a time at most: what a node keeps in memory, and more comes with the next look.
const PIECES_MAX: usize = 4;
/// For how long it is asked at most: whoever steers may be away, and somebody has to notice.
const TIME_MAX: Duration = Duration::from_secs(2);

impl Controller {
    /// Keeps a copy of what whoever steers has put down, if that is this node's part.
    pub(crate) async fn copy_events(&self, leader: NodeId) {
        let Some(log) = &self.event_log else {
            return;
        };
        let own = NodeId(self.number());
        let nodes = self.known_nodes.records();
        let Some(record) = nodes.iter().find(|node| node.node == leader) else {
            return;
        };
        if own == leader || !is_keeper(&nodes, leader, own) {
            return;
        }
        let Some(client) = client_of(record, self.connector.as_ref()) else {
            return;
        };
        let copied = tokio::time::timeout(TIME_MAX, copy(log, &client, leader)).await;
        if !matches!(copied, Ok(Some(()))) {
            tracing::debug!(node = %leader, "copy the log of events");
        }
    }
}

/// Whether a node is one of those that come after another one in the order of their numbers.
fn is_keeper(nodes: &[NodeRecord], leader: NodeId, own: NodeId) -> bool {
    let mut numbers: Vec<_> = nodes.iter().map(|node| node.node).collect();
    numbers.sort_unstable();
    let after = numbers.iter().filter(|node| **node > leader);
    let before = numbers.iter().filter(|node| **node < leader);
    after.chain(before).take(COPIES).any(|node| *node == own)
}

/// Nothing if the node does not answer, or another one does.
async fn copy(log: &EventLog, client: &ApiClient, leader: NodeId) -> Option<()> {
    let mut query = EventQuery {
        limit: 1,
        ..EventQuery::default()
    };
    let first = client.local_events(&query).await.ok()?;
    if first.node != leader.0 {
        return None;
    }
    let (mark, _) = log.marked();
    if first.mark == mark {
        log.note_look(first.looked_ms);
        return Some(());
    }
    query.limit = EVENTS_MAX;
    let mut lacking: Vec<Event> = Vec::new();
    for _ in 0..PIECES_MAX {
        let piece = client.local_events(&query).await.ok()?.events;
        let Some(last) = piece.last() else {
            break;
        };
        query.after = Some(last.place());
        let is_last = piece.len() < EVENTS_MAX as usize;
        let count = piece.len();
        let new: Vec<_> = piece.into_iter().filter(|event| !log.has(&event.place())).collect();
        let is_known = new.len() < count;
        lacking.extend(new);
        if is_last || is_known {
            break;
        }
    }
    // How everything is is asked for first, and put down last: it says nothing that is not in the log then, or in that of its node.
    let state = client.local_event_state().await.ok()?;
    lacking.reverse();
    log.note(lacking);
    if state.node == leader.0 {
        log.note_state(&state);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use holdfast_model::{Incarnation, StoreId};

    use super::*;

    #[test]
    fn a_few_nodes_after_whoever_steers_keep_copies() {
        let record = |number| NodeRecord {
            schema: 1,
            node: NodeId(number),
            name: format!("n{number}"),
            store: StoreId(1),
            uses: 1,
            use_id: 1,
            incarnation: Incarnation(1),
            portal: String::new(),
            peer: String::new(),
            api: String::new(),
        };
        let keepers = |count, leader| {
            let nodes: Vec<_> = (1..=count).map(record).collect();
            let all = (1..=count).filter(|own| is_keeper(&nodes, NodeId(leader), NodeId(*own)));
            all.collect::<Vec<_>>()
        };
        assert_eq!(keepers(3, 2), [1, 3]);
        assert_eq!(keepers(64, 10), [11, 12, 13, 14]);
        assert_eq!(keepers(64, 63), [1, 2, 3, 64]);
        assert_eq!(keepers(1, 1), [] as [u16; 0]);
    }
}
