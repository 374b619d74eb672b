//! The side of a node: to a server of ours over TCP, or to etcd. It connects by itself, again and
//! again, and begins watches anew where they were.
//!
//! It refuses to repeat a request: one whose connection broke before the answer is answered
//! `Unavailable`, and only a later read can tell whether it was done.
//!
//! Invariants:
//! - a watch tells every change once, in order, over any number of connections;
//! - that a watch goes on over another connection is told before anything that comes over it, and a change that was asked before
//!   is not sent over it;
//! - a request that was not sent within [`REQUEST_PATIENCE`] never is;
//! - over a store that has gone back, or another one, no watch goes on: it ends, and whoever began it
//!   judges by a fresh read what answers there;
//! - what waits is bounded: requests here, answers in the session, and refusals by what was asked.

mod connection;
mod ledger;
pub(crate) mod way;
mod worker;

use std::io;
use std::sync::Arc;

use holdfast_model::ClusterId;
use holdfast_model::metadata::{MetadataAnswer, MetadataError, MetadataRequest, MetadataToken};
use holdfast_stdx::Duration;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

use self::way::Connect;
use crate::etcd::{EtcdConfig, EtcdError};
use crate::frame::{FrameError, Refusal};
use crate::session::{ANSWERS_WAITING_MAX, Requests, Session, Submit};

/// How long a request waits for a connection before it is answered `Unavailable`.
pub const REQUEST_PATIENCE: Duration = Duration::from_secs(1);
/// Requests that may wait to be sent; more are answered `Unavailable` at once.
pub const REQUESTS_WAITING_MAX: usize = 1 << 10;

/// Where the metadata is.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// `host:port`, one or more, tried in turn.
    pub addresses: Vec<String>,
    /// The cluster that we belong to.
    pub cluster: ClusterId,
    /// What admits us; empty for nothing.
    pub access_token: String,
}

/// How it stands with the connection.
#[derive(Clone, Debug, Default)]
pub enum Status {
    /// The first attempt is under way.
    #[default]
    Connecting,
    /// There is a connection.
    Connected {
        /// With whom.
        address: String,
        /// Whether the store takes no change until an operator has made room. A new connection does not know
        /// it at once.
        is_full: bool,
    },
    /// There is none, and attempts go on.
    Disconnected {
        /// With whom the last attempt was.
        address: String,
        /// Why it failed.
        reason: Arc<ConnectError>,
    },
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The network, or nobody there.
    #[error("cannot connect")]
    Io(#[from] io::Error),
    /// No answer in time.
    #[error("no answer in time")]
    TooSlow,
    /// The server does not want us.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// What answers is no metadata server of a version that we know.
    #[error("what answers there is no metadata server")]
    Stranger(#[source] Option<FrameError>),
    /// etcd, or the way to it.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
}

/// A client of a metadata store.
#[derive(Debug)]
pub struct Client {
    /// Both ends of the session. It lasts until it is dropped, over any number of connections.
    pub session: Session,
    /// How it stands with the connection.
    pub status: watch::Receiver<Status>,
}

impl Client {
    /// Begins to connect to a server of ours. Must be called within a tokio runtime; what it starts
    /// ends when the session's requests are dropped.
    ///
    /// Panics if there is no address.
    #[must_use]
    pub fn start(config: ClientConfig) -> Self {
        let addresses = config.addresses.clone();
        Self::begin(config, addresses)
    }

    /// The same for etcd.
    ///
    /// Panics if there is no endpoint.
    #[must_use]
    pub fn start_etcd(config: &EtcdConfig) -> Self {
        Self::begin(config.connector(), config.addresses())
    }

    fn begin<C: Connect>(connector: C, addresses: Vec<String>) -> Self {
        assert!(!addresses.is_empty(), "the configuration names an address");
        let (requests, waiting) = mpsc::channel(REQUESTS_WAITING_MAX);
        let (told, answers) = mpsc::channel(ANSWERS_WAITING_MAX);
        let (status_told, status) = watch::channel(Status::default());
        let submitter = Submitter {
            requests,
            refusals: told.downgrade(),
            runtime: Handle::current(),
        };
        tokio::spawn(worker::run(
            connector,
            addresses,
            waiting,
            told,
            status_told,
        ));
        Self {
            session: Session {
                requests: Requests::new(Arc::new(submitter)),
                answers,
            },
            status,
        }
    }
}

/// The asking end.
struct Submitter {
    requests: mpsc::Sender<(MetadataToken, MetadataRequest)>,
    refusals: mpsc::WeakSender<(MetadataToken, MetadataAnswer)>,
    runtime: Handle,
}

impl Submit for Submitter {
    fn submit(&self, token: MetadataToken, request: MetadataRequest) {
        if self.requests.try_send((token, request)).is_ok() {
            return;
        }
        let Some(refusals) = self.refusals.upgrade() else {
            return;
        };
        let refusal = (token, MetadataAnswer::Failed(MetadataError::Unavailable));
        if let Err(mpsc::error::TrySendError::Full(refusal)) = refusals.try_send(refusal) {
            // It waits until there is room: whoever asks may read nothing before it has asked for all.
            self.runtime.spawn(async move {
                // An end of the session answers it as well.
                let _ = refusals.send(refusal).await;
            });
        }
    }
}
