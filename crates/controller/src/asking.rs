//! Asks nodes one question, all at a time.

use std::future::Future;
use std::time::Duration;

use holdfast_api::client::ApiUrl;
use holdfast_api::documents::{LocalHistory, LocalStalls};
use holdfast_api::trace::carried;
use holdfast_api::{ApiClient, ClientError};
use holdfast_control::Inventory;
use holdfast_model::NodeId;
use holdfast_model::record::NodeRecord;
use holdfast_tls::Connector;
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

/// Who asks a node, over TLS with what is known and shown by `connector`; `None` where nobody knows where its interface answers.
pub(crate) fn client_of(node: &NodeRecord, connector: Option<&Connector>) -> Option<ApiClient> {
    let url: ApiUrl = node.api.parse().ok()?;
    Some(ApiClient::new(vec![url], None).connecting(connector.cloned()))
}

/// What each of these nodes answers within [`REPORT_TIME_MAX`]. What another one answers in its place does not count.
pub(crate) async fn ask_each<'a, T: Answer, F>(
    nodes: impl Iterator<Item = &'a NodeRecord>,
    connector: Option<&Connector>,
    ask: impl Fn(ApiClient) -> F,
) -> Vec<T>
where
    F: Future<Output = Result<T, ClientError>> + Send + 'static,
{
    ask_each_within(REPORT_TIME_MAX, nodes, connector, ask).await
}

/// The same within that time.
pub(crate) async fn ask_each_within<'a, T: Answer, F>(
    time_max: Duration,
    nodes: impl Iterator<Item = &'a NodeRecord>,
    connector: Option<&Connector>,
    ask: impl Fn(ApiClient) -> F,
) -> Vec<T>
where
    F: Future<Output = Result<T, ClientError>> + Send + 'static,
{
    let mut asked = JoinSet::new();
    for node in nodes {
        let Some(client) = client_of(node, connector) else {
            continue;
        };
        let (number, answer) = (node.node.0, ask(client));
        asked.spawn(carried(async move {
            let answer = tokio::time::timeout(time_max, answer).await.ok()?;
            answer.ok().filter(|answer| answer.node() == number)
        }));
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
    /// With what it trusts other nodes by, and shows them, where they are to be asked over TLS.
    #[must_use]
    pub fn connecting(self, connector: Option<Connector>) -> Self {
        Self { connector, ..self }
    }

    /// The node in this process, if it is the one of the cluster that has its number.
    pub(crate) fn registered_here(&self, inventory: &Inventory) -> Option<NodeId> {
        let report = self.local.as_ref()?.borrow();
        let node = NodeId(report.node);
        let record = inventory.nodes.get(&node)?;
        (whose(&report, record) == Whose::Registered).then_some(node)
    }
}
