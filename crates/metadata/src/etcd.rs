//! etcd as the cluster's metadata, for clusters that span machines: a client of etcd's v3 API, over
//! gRPC. [`Client::start_etcd`](crate::Client::start_etcd) begins a session.
//!
//! The cluster's keys are below `/holdfast/CLUSTER`, so that clusters share an etcd; revisions are
//! etcd's own, and rise with what others do as well.
//!
//! It refuses user names and passwords, which it does not know yet: whoever reaches etcd, and has a certificate where it wants
//! one, may change everything. And it refuses to send a request twice: what a lost member has done is unknown.
//!
//! Invariants:
//! - reads are linearizable, also those that a transaction does without any operation;
//! - a member that does not reach its leader is left for the next one;
//! - a watch tells every change once, in order, over any number of members; one whose history is gone,
//!   or whose etcd has gone back, ends and says so.

mod answering;
mod calls;
mod connection;
mod members;
mod names;
mod proto;
mod tls;
mod turns;
mod watches;

use std::sync::Arc;

use holdfast_model::ClusterId;
use tonic::Status;

pub use self::answering::{ListedView, MemberState, MemberView, MembersView, watch_members};
pub use self::members::{EtcdMember, members};
pub use self::tls::{EtcdTls, EtcdTlsError, TlsRefusal};
pub use self::turns::{Taking, Turn, take_turn};

use self::names::Root;

/// Where etcd is.
#[derive(Clone, Debug)]
pub struct EtcdConfig {
    /// Its members' client endpoints, one or more, tried in turn.
    pub endpoints: Vec<EtcdEndpoint>,
    /// The cluster that we belong to.
    pub cluster: ClusterId,
    /// What TLS needs; none where the endpoints are spoken to in the clear.
    pub tls: Option<EtcdTls>,
}

impl EtcdConfig {
    pub(crate) fn connector(&self) -> Connector {
        Connector {
            root: Root::of(self.cluster),
            tls: self.tls.clone(),
        }
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        let addresses = self.endpoints.iter();
        addresses.map(|endpoint| endpoint.address.clone()).collect()
    }
}

/// A member's client endpoint: `HOST:PORT`, or the same as a URL, `http://HOST:PORT`; with TLS, `https://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdEndpoint {
    address: String,
    has_tls: bool,
}

impl EtcdEndpoint {
    /// `HOST:PORT`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether it is spoken to over TLS.
    #[must_use]
    pub const fn has_tls(&self) -> bool {
        self.has_tls
    }
}

impl std::str::FromStr for EtcdEndpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let secure = text.strip_prefix("https://");
        let address = secure.or_else(|| text.strip_prefix("http://"));
        let address = address.unwrap_or(text);
        let address = address.strip_suffix('/').unwrap_or(address);
        if holdfast_model::host_and_port(address).is_none() {
            return Err(EndpointError::NoAddress(text.to_owned()));
        }
        Ok(Self {
            address: address.to_owned(),
            has_tls: secure.is_some(),
        })
    }
}

/// What is no endpoint of etcd's that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// It is no address.
    #[error("`{0}` is not HOST:PORT, for example 192.0.2.7:2379")]
    NoAddress(String),
}

/// Why there is no connection with a member of etcd.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EtcdError {
    /// The network, or nobody there.
    #[error("cannot connect")]
    Connect(#[source] Arc<tonic::transport::Error>),
    /// TLS does not come about.
    #[error(transparent)]
    Tls(#[from] TlsRefusal),
    /// No answer in time.
    #[error("etcd does not answer in time")]
    TooSlow,
    /// etcd refuses, or the connection broke.
    #[error("etcd says: {}", .0.message())]
    Status(Arc<Status>),
    /// etcd has ended a watch.
    #[error("etcd ended a watch: {0}")]
    Watch(String),
}

impl EtcdError {
    /// Whether somebody runs there all the same: a member that does not let in who asks, or has no leader.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        match self {
            Self::Tls(_) => true,
            Self::Status(status) => calls::is_leaderless(status),
            Self::Connect(_) | Self::TooSlow | Self::Watch(_) => false,
        }
    }
}

impl From<Status> for EtcdError {
    fn from(status: Status) -> Self {
        match TlsRefusal::behind(&status) {
            Some(refusal) => Self::Tls(refusal),
            None => Self::Status(Arc::new(status)),
        }
    }
}

impl From<tonic::transport::Error> for EtcdError {
    fn from(error: tonic::transport::Error) -> Self {
        match TlsRefusal::behind(&error) {
            Some(refusal) => Self::Tls(refusal),
            None => Self::Connect(Arc::new(error)),
        }
    }
}

/// Opens connections to members.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    root: Root,
    tls: Option<EtcdTls>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read() {
        for text in ["etcd1:2379", "http://etcd1:2379", "http://etcd1:2379/"] {
            let endpoint: EtcdEndpoint = text.parse().unwrap();
            assert_eq!(endpoint.address(), "etcd1:2379");
            assert!(!endpoint.has_tls());
        }
        for text in ["https://etcd1:2379", "https://etcd1:2379/"] {
            let endpoint: EtcdEndpoint = text.parse().unwrap();
            assert_eq!(endpoint.address(), "etcd1:2379");
            assert!(endpoint.has_tls());
        }
        for (text, says) in [
            ("https://etcd1", "HOST:PORT"),
            ("etcd1", "HOST:PORT"),
            ("http://", "HOST:PORT"),
            ("http://etcd1:2379/path", "HOST:PORT"),
        ] {
            let error = text.parse::<EtcdEndpoint>().unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
