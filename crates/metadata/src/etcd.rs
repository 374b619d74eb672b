//! etcd as the cluster's metadata, for clusters that span machines: a client of etcd's v3 API, over
//! gRPC. [`Client::start_etcd`](crate::Client::start_etcd) begins a session.
//!
//! The cluster's keys are below `/holdfast/CLUSTER`, so that clusters share an etcd; revisions are
//! etcd's own, and rise with what others do as well.
//!
//! It refuses TLS, user names and passwords, which it does not know yet: whoever reaches etcd may change
//! everything. And it refuses to send a request twice: what a lost member has done is unknown.
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
mod watches;

use std::sync::Arc;

use holdfast_model::ClusterId;
use tonic::Status;

pub use self::answering::{ListedView, MemberState, MemberView, MembersView, watch_members};
pub use self::members::{EtcdMember, members};

use self::names::Root;

/// Where etcd is.
#[derive(Clone, Debug)]
pub struct EtcdConfig {
    /// Its members' client endpoints, one or more, tried in turn.
    pub endpoints: Vec<EtcdEndpoint>,
    /// The cluster that we belong to.
    pub cluster: ClusterId,
}

impl EtcdConfig {
    pub(crate) fn connector(&self) -> Connector {
        Connector {
            root: Root::of(self.cluster),
        }
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        let addresses = self.endpoints.iter();
        addresses.map(|endpoint| endpoint.0.clone()).collect()
    }
}

/// A member's client endpoint: `HOST:PORT`, or the same as a URL, `http://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdEndpoint(String);

impl EtcdEndpoint {
    /// `HOST:PORT`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for EtcdEndpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        if text.starts_with("https://") {
            return Err(EndpointError::Tls(text.to_owned()));
        }
        let address = text.strip_prefix("http://").unwrap_or(text);
        let address = address.strip_suffix('/').unwrap_or(address);
        if holdfast_model::host_and_port(address).is_none() {
            return Err(EndpointError::NoAddress(text.to_owned()));
        }
        Ok(Self(address.to_owned()))
    }
}

/// What is no endpoint of etcd's that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// It speaks TLS.
    #[error(
        "`{0}`: TLS to etcd is not supported yet; have etcd listen at an http:// address of a network \
         that only the cluster reaches"
    )]
    Tls(String),
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

impl From<Status> for EtcdError {
    fn from(status: Status) -> Self {
        Self::Status(Arc::new(status))
    }
}

/// Opens connections to members.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    root: Root,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read() {
        for text in ["etcd1:2379", "http://etcd1:2379", "http://etcd1:2379/"] {
            let endpoint: EtcdEndpoint = text.parse().unwrap();
            assert_eq!(endpoint.address(), "etcd1:2379");
        }
        for (text, says) in [
            ("https://etcd1:2379", "TLS"),
            ("etcd1", "HOST:PORT"),
            ("http://", "HOST:PORT"),
            ("http://etcd1:2379/path", "HOST:PORT"),
        ] {
            let error = text.parse::<EtcdEndpoint>().unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
