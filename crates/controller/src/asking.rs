//! Asks nodes one question, all at a time.

use std::future::Future;

use holdfast_api::client::ApiUrl;
use holdfast_api::documents::{LocalHistory, LocalStalls};
use holdfast_api::{ApiClient, ClientError};
use holdfast_control::Inventory;
use holdfast_model::NodeId;
use holdfast_model::record::NodeRecord;
use tokio::task::JoinSet;

use crate::Controller;
use crate::reports::{REPORT_TIME_MAX, Whose, whose};

/// An answer that says whose it is.
pub(crate) trait Answer: Send + 'static {
    /// The number of the node that answers.
    fn node(&self) -> u16;
}

impl Answer for LocalStalls {
    fn node(&self) -> u16 {
        self.node
    }
}

impl Answer for LocalHistory {
    fn node(&self) -> u16 {
        self.node
    }
}

/// What each of these nodes answers within [`REPORT_TIME_MAX`]. What another one answers in its place does not count.
pub(crate) async fn ask_each<'a, T: Answer, F>(
    nodes: impl Iterator<Item = &'a NodeRecord>,
    ask: impl Fn(ApiClient) -> F,
) -> Vec<T>
where
    F: Future<Output = Result<T, ClientError>> + Send + 'static,
{
    let mut asked = JoinSet::new();
    for node in nodes {
        let Ok(url) = node.api.parse::<ApiUrl>() else {
            continue;
        };
        let (number, answer) = (node.node.0, ask(ApiClient::new(vec![url], None)));
        asked.spawn(async move {
            let answer = tokio::time::timeout(REPORT_TIME_MAX, answer).await.ok()?;
            answer.ok().filter(|answer| answer.node() == number)
        });
    }
    asked.join_all().await.into_iter().flatten().collect()
}

/// The names of those of these nodes that did not answer.
pub(crate) fn silent<'a>(
    nodes: impl Iterator<Item = &'a NodeRecord>,
    has_answered: impl Fn(NodeId) -> bool,
) -> Vec<String> {
    let silent = nodes.filter(|node| !has_answered(node.node));
    silent.map(|node| node.name.clone()).collect()
}

impl Controller {
    /// The node in this process, if it is the one of the cluster that has its number.
    pub(crate) fn registered_here(&self, inventory: &Inventory) -> Option<NodeId> {
        let report = self.local.as_ref()?.borrow();
        let node = NodeId(report.node);
        let record = inventory.nodes.get(&node)?;
        (whose(&report, record) == Whose::Registered).then_some(node)
    }
}
