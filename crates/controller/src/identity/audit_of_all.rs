//! The logs of all nodes as one.
//!
//! Invariants:
//! - a node that does not answer, or cannot read its log, is named;
//! - a piece after another one has nothing of it, and misses nothing that was there then, whichever node is asked for it.

use std::time::Duration;

use holdfast_api::documents::{
    AUDIT_MAX, AuditList, AuditPlace, AuditQuery, LocalAudit, Place as _, piece,
};
use holdfast_api::{ApiClient, Problem};

use super::Accounts;
use crate::asking::{Answer, ask_each_within, ask_piece, silent};
use crate::reports::REPORT_TIME_MAX;

/// How long a node may take where it has to read its files: some hundred MiB, one question after another.
const FILES_TIME_MAX: Duration = Duration::from_secs(5);

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
        // One more than is told shows whether there are more.
        let asked = AuditQuery {
            limit: query.limit.saturating_add(1).min(AUDIT_MAX),
            ..query.clone()
        };
        let ask = |client: ApiClient| {
            let asked = asked.clone();
            async move {
                let all = asked.after.is_some().then(|| AuditQuery {
                    limit: AUDIT_MAX,
                    after: None,
                    ..asked.clone()
                });
                ask_piece(asked, all, |asked| client.local_audit(asked)).await
            }
        };
        let time_max = match after {
            Some(_) => FILES_TIME_MAX,
            None => REPORT_TIME_MAX,
        };
        let connector = self.controller.connector.as_ref();
        let others = ask_each_within(time_max, others, connector, ask);
        let (told, own) = tokio::join!(others, self.log.answer(&asked, after.as_ref()));
        let mut silent = silent(nodes, |node| {
            Some(node) == here || told.iter().any(|answer| answer.node == node.0)
        });
        let own = own.unwrap_or_else(|error| {
            tracing::error!("read the audit log: {error}: what is in it is not told");
            silent.push(self.name.clone());
            Vec::new()
        });
        let told: Vec<_> = told.into_iter().map(|answer| answer.entries).collect();
        let lengths = told.iter().chain([&own]).map(Vec::len);
        // A node tells no more than that at once, and may have more.
        let is_cut = lengths.max() >= Some(AUDIT_MAX as usize);
        let all = told.into_iter().flatten().chain(own);
        let all = all.map(|entry| (AuditPlace::of(&entry), entry));
        let (entries, next) = piece(all, after.as_ref(), query.limit as usize);
        let last = entries.last().filter(|_| is_cut);
        Ok(AuditList {
            next: next.or_else(|| last.map(|last| AuditPlace::of(last).cursor())),
            entries,
            silent,
        })
    }
}
