//! Asks nodes one question, all at a time.

use std::future::Future;
use std::time::Duration;

use holdfast_api::client::ApiUrl;
use holdfast_api::documents::{LocalHistory, LocalStalls};
use holdfast_api::trace::carried;
use holdfast_api::{ApiClient, ClientError, ProblemKind};
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

/// Asks a node for a piece that comes after another one. One of an earlier version knows of no pieces, and refuses that: it is asked
/// for `all` that it has, and whoever puts answers together passes over what was told before.
///
/// # Errors
/// [`ClientError`].
pub(crate) async fn ask_piece<Q, T, F>(
    query: Q,
    all: Option<Q>,
    ask: impl Fn(Q) -> F,
) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, ClientError>>,
{
    match (ask(query).await, all) {
        (Err(ClientError::Problem(problem)), Some(all)) if problem.kind == ProblemKind::Invalid => {
            ask(all).await
        }
        (answer, _) => answer,
    }
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

#[cfg(test)]
mod tests {
    use holdfast_api::Problem;

    use super::*;

    /// As a node of an earlier version does, and one of this.
    async fn told(knows_pieces: bool, after: Option<u8>) -> Result<Vec<u8>, ClientError> {
        let all = after.is_some().then_some(None);
        ask_piece(after, all, |after| async move {
            match after {
                Some(_) if !knows_pieces => Err(Problem::new(ProblemKind::Invalid, "after").into()),
                Some(after) => Ok((0..after).collect()),
                None => Ok(vec![0, 1, 2, 3]),
            }
        })
        .await
    }

    #[tokio::test]
    async fn a_node_that_knows_no_pieces_is_asked_for_all() {
        assert_eq!(told(true, Some(2)).await.unwrap(), [0, 1]);
        assert_eq!(told(false, Some(2)).await.unwrap(), [0, 1, 2, 3]);
        assert_eq!(told(false, None).await.unwrap(), [0, 1, 2, 3]);
        // What is refused for another reason stays refused.
        let refused = ask_piece(0, None, |_: u8| async {
            Err::<(), _>(ClientError::from(Problem::new(
                ProblemKind::Invalid,
                "limit",
            )))
        });
        assert!(refused.await.is_err());
    }
}
