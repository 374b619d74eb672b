//! The logs of all nodes as one.
//!
//! Invariants:
//! - a node that does not answer is named;
//! - a piece after another one has nothing of it, and misses nothing that was there then, whichever node is asked for it.

use holdfast_api::documents::{AUDIT_MAX, AuditList, AuditPlace, AuditQuery, LocalAudit, piece};
use holdfast_api::{ApiClient, Problem};

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
        let after = query.place()?;
        // One more than is told shows whether there are more; a node has no more than that in any case.
        let asked = AuditQuery {
            limit: query.limit.saturating_add(1).min(AUDIT_MAX),
            ..query.clone()
        };
        let ask = |client: ApiClient| {
            let asked = asked.clone();
            async move { client.local_audit(asked).await }
        };
        let told = ask_each(others, self.controller.connector.as_ref(), ask).await;
        let silent = silent(nodes, |node| {
            Some(node) == here || told.iter().any(|answer| answer.node == node.0)
        });
        let own = self.log.answer(&asked, after.as_ref()).into_iter();
        let all = own.chain(told.into_iter().flat_map(|answer| answer.entries));
        let all = all.map(|entry| (AuditPlace::of(&entry), entry));
        let (entries, next) = piece(all, after.as_ref(), query.limit as usize);
        Ok(AuditList {
            entries,
            next,
            silent,
        })
    }
}
