//! One connection with one member of etcd: calls side by side, and one stream for all watches.
//!
//! It ends when the member cannot be reached, has no leader, or does not answer a look in time; what
//! runs then is unknown, and the watches go on elsewhere.
//!
//! Invariants:
//! - everything that it has started ends with it;
//! - answers that wait are bounded: a watch that is not read stands still, in etcd.

use std::sync::Arc;
use std::time::Duration;

use holdfast_model::metadata::{MetadataAnswer, MetadataError, MetadataRequest, MetadataToken};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use super::calls::{Member, refusal};
use super::names::{looks_only, revision};
use super::proto::{WatchCancelRequest, WatchCreateRequest, WatchRequest, WatchUnion};
use super::tls::SECURE;
use super::watches::Watches;
use super::{Connector, EtcdError, EtcdTls, TlsRefusal};
use crate::client::ConnectError;
use crate::client::way::{self, Connect, Heard, Origin};
use crate::frame::ClientFrame;

/// How long connecting may take, and the first look.
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);
/// How long a machine may take to take a connection: one that is there answers at once, one that is gone says
/// nothing, and the member after it is waited for.
const REACH_PATIENCE: Duration = Duration::from_millis(500);
/// How often it is asked whether etcd is full: a person makes room, and looks whether it is seen.
const FULL_LOOK: Duration = Duration::from_secs(2);
/// Answers that have been read and not been looked at.
const ANSWERS_WAITING_MAX: usize = 16;
/// Bytes that may be on their way in one stream, and in all: a read of everything then takes few
/// round trips, and watches that are not read leave room for calls.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;

/// A member that has answered.
#[derive(Debug)]
pub(crate) struct EtcdConnection {
    member: Member,
    origin: Origin,
    /// The asking end of the stream of watches, once there is one.
    watches: Option<mpsc::UnboundedSender<WatchRequest>>,
    told: mpsc::Sender<Result<Heard, EtcdError>>,
    incoming: mpsc::Receiver<Result<Heard, EtcdError>>,
    tasks: JoinSet<()>,
}

impl Connect for Connector {
    type Connection = EtcdConnection;
    const IN_ORDER: bool = false;

    async fn open(&self, address: &str) -> Result<EtcdConnection, ConnectError> {
        let opened = timeout(CONNECT_PATIENCE, EtcdConnection::open(self, address)).await;
        Ok(opened.unwrap_or(Err(EtcdError::TooSlow))?)
    }
}

impl EtcdConnection {
    async fn open(connector: &Connector, address: &str) -> Result<Self, EtcdError> {
        let channel = connect(address, connector.tls.as_ref()).await?;
        let member = Member::new(channel, connector.root.clone());
        let header = match member.look().await {
            Ok(header) => header,
            Err(status) if connector.tls.is_some() => return Err(TlsRefusal::at_first(status)),
            Err(status) => return Err(status.into()),
        };
        let origin = Origin {
            store: header.cluster_id,
            revision: revision(header.revision),
        };
        let (told, incoming) = mpsc::channel(ANSWERS_WAITING_MAX);
        let mut tasks = JoinSet::new();
        tasks.spawn(watch_room(member.clone(), told.clone()));
        Ok(Self {
            member,
            origin,
            watches: None,
            told,
            incoming,
            tasks,
        })
    }

    fn call(&mut self, token: MetadataToken, request: MetadataRequest) {
        let member = self.member.clone();
        let told = self.told.clone();
        // Whether the member reaches its leader is what such a transaction is for.
        let is_look =
            matches!(&request, MetadataRequest::Transact(transaction) if looks_only(transaction));
        self.tasks.spawn(async move {
            let answer = match member.carry_out(request).await {
                Ok(answer) => Ok(Heard::Answer((token, answer))),
                Err(status) if is_look => Err(EtcdError::from(status)),
                Err(status) => {
                    let error = refusal(&status);
                    if error == MetadataError::Full {
                        // It is logged when it begins, not for each that is refused.
                        let _ = told.send(Ok(Heard::Full(true))).await;
                    } else {
                        tracing::warn!("etcd: a request failed: {}", status.message());
                    }
                    Ok(Heard::Answer((token, MetadataAnswer::Failed(error))))
                }
            };
            // A connection that is over takes no answers.
            let _ = told.send(answer).await;
        });
        // Those that have ended are let go of.
        while self.tasks.try_join_next().is_some() {}
    }

    fn ask_watches(&mut self, union: WatchUnion) {
        let (member, told, tasks) = (&self.member, &self.told, &mut self.tasks);
        let watches = self.watches.get_or_insert_with(|| {
            // Bounded by the watches that a client may have.
            let (watches, requests) = mpsc::unbounded_channel();
            tasks.spawn(watch(member.clone(), requests, told.clone()));
            watches
        });
        // If the stream has ended, that has been told.
        let _ = watches.send(WatchRequest { union: Some(union) });
    }
}

impl way::Connection for EtcdConnection {
    fn origin(&self) -> Option<Origin> {
        Some(self.origin)
    }

    fn send(&mut self, frame: ClientFrame) {
        let ClientFrame::Request { token, request } = frame else {
            unreachable!("etcd is asked, not greeted");
        };
        let watch_id = token.0.cast_signed();
        match request {
            MetadataRequest::Watch { selector, from } => {
                let (key, range_end) = self.member.root().selection(&selector);
                self.ask_watches(WatchUnion::Create(WatchCreateRequest {
                    key,
                    range_end,
                    // Zero would be from now on: revision 1 is that of an etcd without any change.
                    start_revision: from.0.max(1).cast_signed(),
                    progress_notify: true,
                    watch_id,
                    fragment: true,
                }));
            }
            MetadataRequest::Unwatch => {
                self.ask_watches(WatchUnion::Cancel(WatchCancelRequest { watch_id }));
            }
            request => self.call(token, request),
        }
    }

    async fn receive(&mut self) -> Result<Heard, ConnectError> {
        let told = self.incoming.recv().await;
        Ok(told.expect("this end of the channel has a sender")?)
    }
}

/// Connects; in the clear only where there is to be no TLS, or what answers has none, never had, and that is said to be good enough.
pub(super) async fn connect(address: &str, tls: Option<&EtcdTls>) -> Result<Channel, EtcdError> {
    let connected = dial(address, tls).await;
    if !tls.is_some_and(EtcdTls::is_plain_too) {
        return connected;
    }
    match connected {
        Ok(channel) => {
            SECURE.note(address);
            Ok(channel)
        }
        Err(EtcdError::Tls(TlsRefusal::NoTls)) if SECURE.may_be_plain(address) => {
            dial(address, None).await
        }
        Err(EtcdError::Tls(TlsRefusal::NoTls)) => Err(TlsRefusal::Downgraded.into()),
        refused => refused,
    }
}

async fn dial(address: &str, tls: Option<&EtcdTls>) -> Result<Channel, EtcdError> {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))?
        .connect_timeout(REACH_PATIENCE)
        .tcp_nodelay(true)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    if let Some(tls) = tls {
        endpoint = endpoint.tls_config(tls.of_endpoint())?;
    }
    Ok(endpoint.connect().await?)
}

/// Tells again and again whether etcd is full, until nobody listens.
async fn watch_room(member: Member, told: mpsc::Sender<Result<Heard, EtcdError>>) {
    loop {
        // A member in trouble is found out by other requests.
        if let Ok(is_full) = member.is_full().await
            && told.send(Ok(Heard::Full(is_full))).await.is_err()
        {
            return;
        }
        sleep(FULL_LOOK).await;
    }
}

/// Carries watches until their stream ends, and tells how.
async fn watch(
    member: Member,
    requests: mpsc::UnboundedReceiver<WatchRequest>,
    told: mpsc::Sender<Result<Heard, EtcdError>>,
) {
    let error = match follow(&member, requests, &told).await {
        Ok(()) => return,
        Err(error) => error,
    };
    // A connection that is over takes no answers.
    let _ = told.send(Err(error)).await;
}

/// Ends well when nobody listens.
async fn follow(
    member: &Member,
    requests: mpsc::UnboundedReceiver<WatchRequest>,
    told: &mpsc::Sender<Result<Heard, EtcdError>>,
) -> Result<(), EtcdError> {
    let requests = UnboundedReceiverStream::new(requests);
    let mut answers = member.watch(requests).await?;
    let mut watches = Watches::new(member.root().clone());
    while let Some(answer) = answers.message().await? {
        let Some(one) = watches.answered(answer)? else {
            continue;
        };
        if told.send(Ok(Heard::Answer(one))).await.is_err() {
            return Ok(());
        }
    }
    Err(EtcdError::Status(Arc::new(Status::unavailable(
        "the stream of watches ended",
    ))))
}
