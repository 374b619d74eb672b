//! Turns that members of a cluster take, one at a time: whoever has a turn is on record in etcd, until a lease ends it.
//!
//! It refuses to end a turn before its time: whoever has it need not live that long.
//!
//! Invariants:
//! - of those who ask in the same etcd one has the turn, until its time is over;
//! - a turn is bound to a lease when it is put on record: none stays for ever.

use std::sync::Arc;
use std::time::Duration;

use holdfast_model::ClusterId;
use holdfast_model::metadata::{
    Compare, KeyValue, MetadataAnswer, MetadataRequest, Operation, OperationResult, Revision,
    Selector, Transaction, TransactionOutcome,
};
use holdfast_stdx::Bytes;
use tokio::time::timeout;
use tonic::Status;

use super::calls::Member;
use super::connection::connect;
use super::names::Root;
use super::{EtcdEndpoint, EtcdError, EtcdTls};

/// How long asking for a turn may take in all.
const PATIENCE: Duration = Duration::from_secs(3);

/// Whose turn it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is that of who asked, from now on.
    Own,
    /// It is that of this one.
    Other(String),
}

/// A turn.
#[derive(Clone, Copy, Debug)]
pub struct Taking<'a> {
    /// What it is a turn of, as a key; the cluster's documents have other ones (`/holdfast/...`).
    pub key: &'a str,
    /// Who asks.
    pub name: &'a str,
    /// For how long it is: whole seconds, [`TIME_TO_LIVE_MIN`](holdfast_model::metadata::TIME_TO_LIVE_MIN) at least.
    pub time: Duration,
}

/// Asks one member for a turn, which ends by itself.
///
/// # Errors
/// [`EtcdError`] if it does not answer, has no leader, or takes no changes. Whose turn it is then is unknown.
pub async fn take_turn(
    endpoint: &EtcdEndpoint,
    cluster: ClusterId,
    tls: Option<&EtcdTls>,
    taking: Taking<'_>,
) -> Result<Turn, EtcdError> {
    let take = async {
        let channel = connect(endpoint.address(), tls).await?;
        take(&Member::new(channel, Root::of(cluster)), taking).await
    };
    let taken = timeout(PATIENCE, take).await;
    taken.unwrap_or(Err(EtcdError::TooSlow))
}

async fn take(member: &Member, taking: Taking<'_>) -> Result<Turn, EtcdError> {
    let key = || taking.key.to_owned();
    let look = || Operation::Range(Selector::Key(key()));
    // Who only waits leaves no lease behind.
    let looked = Transaction {
        success: vec![look()],
        ..Transaction::default()
    };
    if let Some(other) = holder(&transact(member, looked).await?) {
        return Ok(Turn::Other(other));
    }
    let grant = MetadataRequest::Grant {
        time_to_live: taking.time,
    };
    let MetadataAnswer::Granted { lease, .. } = member.carry_out(grant).await? else {
        return Err(unexpected());
    };
    let taken = Transaction {
        compare: vec![Compare::ModRevision {
            key: key(),
            equals: Revision(0),
        }],
        success: vec![Operation::Put {
            key: key(),
            value: Bytes::copy_from_slice(taking.name.as_bytes()),
            lease,
        }],
        failure: vec![look()],
    };
    let outcome = transact(member, taken).await?;
    if outcome.succeeded {
        return Ok(Turn::Own);
    }
    // It was another one's in between, and may be over already: that is for the next time.
    Ok(Turn::Other(holder(&outcome).unwrap_or_default()))
}

async fn transact(
    member: &Member,
    transaction: Transaction,
) -> Result<TransactionOutcome, EtcdError> {
    let asked = MetadataRequest::Transact(transaction);
    match member.carry_out(asked).await? {
        MetadataAnswer::Transacted(outcome) => Ok(outcome),
        _ => Err(unexpected()),
    }
}

/// Who is on record.
fn holder(outcome: &TransactionOutcome) -> Option<String> {
    let Some(OperationResult::Range(found)) = outcome.results.first() else {
        return None;
    };
    let KeyValue { value, .. } = found.first()?;
    Some(String::from_utf8_lossy(value).into_owned())
}

fn unexpected() -> EtcdError {
    EtcdError::Status(Arc::new(Status::internal(
        "an answer that does not fit what was asked",
    )))
}
