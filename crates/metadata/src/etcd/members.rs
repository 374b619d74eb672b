//! Who the members of an etcd are.
//!
//! It refuses to change that, which is for an operator to decide.
//!
//! Invariant: a list is no older than the question, whichever member answers.

use std::time::Duration;

use holdfast_model::ClusterId;
use tokio::time::timeout;

use super::calls::Member;
use super::connection::connect;
use super::names::Root;
use super::proto::MemberInfo;
use super::{EtcdEndpoint, EtcdError, EtcdTls};

/// How long a member may take in all: to be reached, to look, to list.
const PATIENCE: Duration = Duration::from_secs(2);

/// A member of etcd, as all of them have agreed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdMember {
    /// Its number, which no other member ever had.
    pub id: u64,
    /// Its name. One that was added has none before it has run.
    pub name: String,
    /// Where the others reach it.
    pub peer_urls: Vec<String>,
    /// Where clients reach it. It tells them itself, when it has run.
    pub client_urls: Vec<String>,
    /// Whether it only learns, and has no vote.
    pub is_learner: bool,
}

impl EtcdMember {
    /// Whether it has ever run with the others: then it may have agreed to something, and voted.
    #[must_use]
    pub fn has_run(&self) -> bool {
        !self.client_urls.is_empty()
    }
}

impl From<MemberInfo> for EtcdMember {
    fn from(info: MemberInfo) -> Self {
        let MemberInfo {
            id,
            name,
            peer_urls,
            client_urls,
            is_learner,
        } = info;
        Self {
            id,
            name,
            peer_urls,
            client_urls,
            is_learner,
        }
    }
}

/// Asks one member who all are; in the clear where there is no TLS.
///
/// # Errors
/// [`EtcdError`] if it does not answer, or has no leader.
pub async fn members(
    endpoint: &EtcdEndpoint,
    cluster: ClusterId,
    tls: Option<&EtcdTls>,
) -> Result<Vec<EtcdMember>, EtcdError> {
    let ask = async {
        let channel = connect(endpoint.address(), tls).await?;
        list(&Member::new(channel, Root::of(cluster))).await
    };
    let answered = timeout(PATIENCE, ask).await;
    answered.unwrap_or(Err(EtcdError::TooSlow))
}

/// The same of one to which there is a way.
pub(super) async fn list(member: &Member) -> Result<Vec<EtcdMember>, EtcdError> {
    // A member lists what it has applied, and 3.4 does not ask the leader first. A look waits until
    // all is applied that was agreed before it, who the members are too.
    member.look().await?;
    let members = member.members().await?;
    Ok(members.into_iter().map(EtcdMember::from).collect())
}
