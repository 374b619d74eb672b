//! The logs of all nodes as one.
//!
//! Invariants:
//! - a node that does not answer is named.

use std::cmp::Reverse;

use holdfast_api::Problem;
use holdfast_api::documents::{AuditList, AuditQuery, LocalAudit};

use super::Accounts;
use crate::asking::{Answer, ask_each, silent};

impl Answer for LocalAudit {
    fn node(&self) -> u16 {
        self.node
    }
}

impl Accounts {
    pub(super) async fn audit_of_all(&self, query: AuditQuery) -> Result<AuditList, Problem> {
        let inventory = self.controller.inventory().await?.seen;
        let here = self.controller.registered_here(&inventory);
        let nodes = inventory.nodes.values();
        let others = nodes.clone().filter(|node| Some(node.node) != here);
        let ask = |client: holdfast_api::ApiClient| async move { client.local_audit(query).await };
        let told = ask_each(others, self.controller.connector.as_ref(), ask).await;
        let silent = silent(nodes, |node| {
            Some(node) == here || told.iter().any(|answer| answer.node == node.0)
        });
        let mut entries = self.log.answer(query);
        entries.extend(told.into_iter().flat_map(|answer| answer.entries));
        entries.sort_by_key(|entry| Reverse(entry.at_ms));
        entries.truncate(query.limit as usize);
        Ok(AuditList { entries, silent })
    }
}
