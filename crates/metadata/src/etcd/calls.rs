//! Single calls to one member of etcd.
//!
//! Invariants:
//! - a call is made once; its end is bounded by a deadline, and what it did after an error that does
//!   not say so is unknown;
//! - an answer larger than [`ANSWER_BYTES_MAX`] is refused before it is read.

use std::time::Duration;

use holdfast_model::metadata::{
    LeaseId, MetadataAnswer, MetadataError, MetadataRequest, RANGE_BYTES_MAX,
    TRANSACTION_OPERATIONS_MAX, Transaction,
};
use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;

use super::names::{Root, looks_only};
use super::proto::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveResponse, LeaseRequest,
    LeaseRevokeResponse, MemberInfo, MemberListRequest, MemberListResponse, RangeResponse,
    ResponseHeader, StatusRequest, StatusResponse, TxnRequest, TxnResponse, WatchRequest,
    WatchResponse,
};
use crate::limits;

/// How long a change may take. What is proposed while the leader is lost is lost with it, and etcd does not
/// say so for 7 s; a slice whose member died with the leader waits for this. A disk may be so slow that
/// changes take longer: then their outcome is read.
const CHANGE_PATIENCE: Duration = Duration::from_secs(1);
/// How long a read of everything may take: [`RANGE_BYTES_MAX`] over a slow network.
const READ_PATIENCE: Duration = Duration::from_secs(10);
/// How long a look may take that only asks whether the member reaches its leader: no disk is in its way. A
/// member on a machine that is gone says nothing, and a slice that was led there waits for this.
pub(super) const LOOK_PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of an answer at most: what ranges may find, with room for what etcd says of each key.
/// Larger ones are refused.
pub(super) const ANSWER_BYTES_MAX: usize = RANGE_BYTES_MAX * 2 + TRANSACTION_OPERATIONS_MAX * 64;

/// The alarm's name, in what a member says of itself.
const NO_SPACE: &str = "alarm:NOSPACE";

/// A member, and the way to it.
#[derive(Clone, Debug)]
pub(super) struct Member {
    channel: Channel,
    root: Root,
}

impl Member {
    pub(super) fn new(channel: Channel, root: Root) -> Self {
        Self { channel, root }
    }

    pub(super) fn root(&self) -> &Root {
        &self.root
    }

    /// Which etcd it is, and at which revision; asked of the leader.
    pub(super) async fn look(&self) -> Result<ResponseHeader, Status> {
        let look = self.root.look();
        let answer: RangeResponse = self.call(RANGE, look, LOOK_PATIENCE).await?;
        answer.header.ok_or_else(unexpected)
    }

    /// Who the members are, by the changes that this one knows of.
    pub(super) async fn members(&self) -> Result<Vec<MemberInfo>, Status> {
        let list = MemberListRequest {};
        let answer: MemberListResponse = self.call(MEMBER_LIST, list, LOOK_PATIENCE).await?;
        Ok(answer.members)
    }

    /// Whether etcd takes no change any more, for want of room: the alarm that only an operator ends.
    pub(super) async fn is_full(&self) -> Result<bool, Status> {
        let errors = self.status().await?.errors;
        Ok(errors.iter().any(|error| error.contains(NO_SPACE)))
    }

    /// Which member of which etcd this is, as it knows without asking the others. Without a leader it refuses.
    pub(super) async fn identity(&self) -> Result<ResponseHeader, Status> {
        self.status().await?.header.ok_or_else(unexpected)
    }

    /// What the member says of itself.
    async fn status(&self) -> Result<StatusResponse, Status> {
        self.call(STATUS, StatusRequest {}, LOOK_PATIENCE).await
    }

    /// Carries out a request that is neither a watch nor the end of one.
    pub(super) async fn carry_out(
        &self,
        request: MetadataRequest,
    ) -> Result<MetadataAnswer, Status> {
        match request {
            MetadataRequest::Transact(transaction) => self.transact(&transaction).await,
            MetadataRequest::Grant { time_to_live } => {
                let asked = limits::granted_time_to_live(time_to_live);
                let ttl = asked.as_secs().cast_signed();
                let grant = LeaseGrantRequest { ttl };
                let answer: LeaseGrantResponse =
                    self.call(LEASE_GRANT, grant, CHANGE_PATIENCE).await?;
                if !answer.error.is_empty() || answer.id == 0 || answer.ttl < ttl {
                    return Err(unexpected());
                }
                Ok(MetadataAnswer::Granted {
                    lease: LeaseId(answer.id.cast_unsigned()),
                    time_to_live: Duration::from_secs(answer.ttl.cast_unsigned()),
                })
            }
            MetadataRequest::KeepAlive(lease) => self.keep_alive(lease).await,
            MetadataRequest::Revoke(lease) => {
                let revoke = lease_request(lease);
                let LeaseRevokeResponse {} =
                    self.call(LEASE_REVOKE, revoke, CHANGE_PATIENCE).await?;
                Ok(MetadataAnswer::Revoked)
            }
            MetadataRequest::Watch { .. } | MetadataRequest::Unwatch => {
                unreachable!("watches are not calls")
            }
        }
    }

    async fn transact(&self, transaction: &Transaction) -> Result<MetadataAnswer, Status> {
        let request: TxnRequest = self.root.transaction(transaction);
        let patience = if looks_only(transaction) {
            LOOK_PATIENCE
        } else if transaction.is_read() {
            READ_PATIENCE
        } else {
            CHANGE_PATIENCE
        };
        let answer: TxnResponse = self.call(TXN, request, patience).await?;
        let outcome = self.root.outcome(transaction, answer);
        outcome
            .map(MetadataAnswer::Transacted)
            .ok_or_else(unexpected)
    }

    /// etcd keeps leases alive over a stream; one message goes each way.
    async fn keep_alive(&self, lease: LeaseId) -> Result<MetadataAnswer, Status> {
        let exchange = async {
            let request = required(tokio_stream::once(lease_request(lease)));
            let mut client = self.client().await?;
            let codec = ProstCodec::<LeaseRequest, LeaseKeepAliveResponse>::default();
            let answers = client.streaming(request, LEASE_KEEP_ALIVE.path(), codec);
            let first = answers.await?.into_inner().message().await?;
            first.ok_or_else(unexpected)
        };
        let answer = within(CHANGE_PATIENCE, exchange).await?;
        if answer.ttl <= 0 {
            return Ok(MetadataAnswer::Failed(MetadataError::NoSuchLease));
        }
        Ok(MetadataAnswer::KeptAlive)
    }

    /// Opens the stream of all watches. Without a leader the member ends it.
    pub(super) async fn watch(
        &self,
        requests: impl tokio_stream::Stream<Item = WatchRequest> + Send + 'static,
    ) -> Result<tonic::Streaming<WatchResponse>, Status> {
        let mut client = self.client().await?;
        let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
        let answers = client.streaming(required(requests), WATCH.path(), codec);
        answers.await.map(Response::into_inner)
    }

    async fn call<Q, A>(&self, method: Method, request: Q, patience: Duration) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let exchange = async {
            let mut client = self.client().await?;
            let codec = ProstCodec::<Q, A>::default();
            client
                .unary(required(request), method.path(), codec)
                .await
                .map(Response::into_inner)
        };
        within(patience, exchange).await
    }

    async fn client(&self) -> Result<Grpc<Channel>, Status> {
        let mut client =
            Grpc::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX);
        client.ready().await.map_err(|error| {
            let mut text = error.to_string();
            let mut cause = std::error::Error::source(&error);
            while let Some(below) = cause {
                text.push_str(&format!(": {below}"));
                cause = below.source();
            }
            Status::unavailable(text)
        })?;
        Ok(client)
    }
}

/// A method of etcd's API.
#[derive(Clone, Copy)]
struct Method(&'static str);

const RANGE: Method = Method("/etcdserverpb.KV/Range");
const TXN: Method = Method("/etcdserverpb.KV/Txn");
const WATCH: Method = Method("/etcdserverpb.Watch/Watch");
const LEASE_GRANT: Method = Method("/etcdserverpb.Lease/LeaseGrant");
const LEASE_REVOKE: Method = Method("/etcdserverpb.Lease/LeaseRevoke");
const LEASE_KEEP_ALIVE: Method = Method("/etcdserverpb.Lease/LeaseKeepAlive");
const STATUS: Method = Method("/etcdserverpb.Maintenance/Status");
const MEMBER_LIST: Method = Method("/etcdserverpb.Cluster/MemberList");

impl Method {
    fn path(self) -> PathAndQuery {
        PathAndQuery::from_static(self.0)
    }
}

/// Asks the member to refuse at once where it has no leader, and to end the stream when it loses it.
fn required<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    let metadata = request.metadata_mut();
    metadata.insert("hasleader", MetadataValue::from_static("true"));
    request
}

fn lease_request(lease: LeaseId) -> LeaseRequest {
    LeaseRequest {
        id: lease.0.cast_signed(),
    }
}

async fn within<T>(
    patience: Duration,
    exchange: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let late = |_| Err(Status::deadline_exceeded("no answer in time"));
    tokio::time::timeout(patience, exchange)
        .await
        .unwrap_or_else(late)
}

fn unexpected() -> Status {
    Status::internal("an answer that does not fit what was asked")
}

/// Whether a member refuses because it has no leader: it runs, and does not reach the others.
pub(super) fn is_leaderless(status: &Status) -> bool {
    status.code() == Code::Unavailable && status.message().contains("no leader")
}

/// What an error says about the request. All that etcd does not say clearly is unknown.
pub(super) fn refusal(status: &Status) -> MetadataError {
    match status.code() {
        Code::NotFound if status.message().contains("lease not found") => {
            MetadataError::NoSuchLease
        }
        // Too many operations, too large a request; or an answer that is larger than we read.
        Code::InvalidArgument | Code::OutOfRange => MetadataError::Invalid,
        // Refused before it was proposed, or by all members alike. (Too many requests at a time have the
        // same code, and end by themselves.)
        Code::ResourceExhausted if status.message().contains("space exceeded") => {
            MetadataError::Full
        }
        _ => MetadataError::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_refusal_means_is_told_by_its_code_and_its_words() {
        let full = Status::resource_exhausted("etcdserver: mvcc: database space exceeded");
        assert_eq!(refusal(&full), MetadataError::Full);
        let busy = Status::resource_exhausted("etcdserver: too many requests");
        assert_eq!(refusal(&busy), MetadataError::Unavailable);
        let gone = Status::not_found("etcdserver: requested lease not found");
        assert_eq!(refusal(&gone), MetadataError::NoSuchLease);
    }
}
