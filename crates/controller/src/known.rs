//! What is known of the cluster while the metadata does not answer: which nodes there were when it last did, and what
//! each says of itself now.
//!
//! It refuses to keep what nodes have said: nobody is told as present what is past.
//!
//! Invariants:
//! - only the list of the nodes may be old, and how old it is is told;
//! - the list is not replaced by that of metadata that has gone back, or knows of no node;
//! - the node in this process is in it, whatever the list says.

use std::sync::{Arc, Mutex, PoisonError};

use holdfast_api::Problem;
use holdfast_api::documents::{LocalCluster, LocalNode};
use holdfast_model::NodeId;
use holdfast_model::record::NodeRecord;
use tokio::time::Instant;

use crate::reports::{Reports, Whose, whose};
use crate::{Controller, problem};

/// The nodes as the metadata last told them, and when.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownNodes(Arc<Mutex<Option<Told>>>);

/// When the metadata told its nodes, and which.
type Told = (Instant, Vec<NodeRecord>);

impl KnownNodes {
    /// The metadata tells these.
    pub(crate) fn note(&self, nodes: Vec<NodeRecord>) {
        if !nodes.is_empty() {
            let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *last = Some((Instant::now(), nodes));
        }
    }

    /// Those that it told last.
    pub(crate) fn records(&self) -> Vec<NodeRecord> {
        self.last().map(|(_, nodes)| nodes).unwrap_or_default()
    }

    fn last(&self) -> Option<Told> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone()
    }
}

/// The nodes that come after another one where that is lost: in the order of their numbers, and from the last to the first.
pub(crate) fn after(nodes: &[NodeRecord], lost: NodeId) -> Vec<NodeId> {
    let mut numbers: Vec<_> = nodes.iter().map(|node| node.node).collect();
    numbers.sort_unstable();
    let after = numbers.iter().filter(|node| **node > lost);
    let before = numbers.iter().filter(|node| **node < lost);
    after.chain(before).copied().collect()
}

impl Controller {
    /// What is known without the metadata.
    ///
    /// # Errors
    /// There is no node in this process, and the metadata has never told of any.
    pub(crate) async fn known(&self) -> Result<LocalCluster, Problem> {
        let own = self.report();
        let list = self.known_nodes.last();
        if own.is_none() && list.is_none() {
            return Err(problem::no_node());
        }
        let told = list.as_ref().map(|(told, _)| *told);
        let records = list.map(|(_, records)| records).unwrap_or_default();
        let ask = Reports::collect(&records, own.clone(), self.connector.as_ref());
        let reports = self.looks.unseen(ask).await;
        let is_asked = |record: &NodeRecord| {
            let own = own.as_ref();
            own.is_some_and(|own| whose(own, record) == Whose::Registered)
        };
        let nodes = records.iter().map(|record| LocalNode {
            name: record.name.clone(),
            node: record.node.0,
            is_asked: is_asked(record),
            says: reports.summary(record.node),
        });
        let mut nodes: Vec<LocalNode> = nodes.collect();
        if let Some(own) = own.filter(|_| !nodes.iter().any(|node| node.is_asked)) {
            nodes.push(LocalNode {
                name: own.name.clone(),
                node: own.node,
                is_asked: true,
                says: Some((&own).into()),
            });
        }
        nodes.sort_by_key(|node| node.node);
        Ok(LocalCluster {
            list_age_seconds: told.map(|told| told.elapsed().as_secs()),
            nodes,
        })
    }
}
