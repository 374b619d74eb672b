//! What must not happen, and did.

use std::fmt;

use holdfast_engine::OpenFailure;
use holdfast_model::NodeId;
use holdfast_stdx::Instant;
use holdfast_wire::WireError;

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An engine's timer fires all the time.
    Spins(NodeId),
    /// A node cannot open its devices.
    OpenFailed(NodeId, OpenFailure),
    /// A node took another node's device for its own.
    OpenedForeign(NodeId),
    /// A node ended, for the metadata said that another process is it.
    Displaced(NodeId),
    /// A node sent what its peer cannot read.
    Wire(WireError),
    /// A host was told what it should not be told.
    Host {
        /// Which host.
        host: usize,
        /// What.
        what: String,
    },
    /// An invariant does not hold.
    Invariant {
        /// Its name.
        name: &'static str,
        /// What was seen.
        what: String,
    },
    /// A write that its host had given up landed after it had been repeated and done.
    LateWrite(String),
    /// The history cannot have happened.
    History(String),
    /// The faults are over, and the cluster is not what it was.
    NotConverged(String),
    /// A machine panicked.
    Panic(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spins(node) => write!(formatter, "the engine of {node} never sleeps"),
            Self::OpenFailed(node, failure) => {
                write!(formatter, "{node} cannot open its devices: {failure}")
            }
            Self::OpenedForeign(node) => {
                write!(
                    formatter,
                    "{node} has opened a device that is another node's"
                )
            }
            Self::Displaced(node) => write!(formatter, "{node} was displaced by another process"),
            Self::Wire(error) => write!(formatter, "a message between nodes: {error}"),
            Self::Host { host, what } => write!(formatter, "host h{host}: {what}"),
            Self::Invariant { name, what } => write!(formatter, "invariant {name}: {what}"),
            Self::LateWrite(what) => write!(formatter, "a write landed late: {what}"),
            Self::History(what) => write!(formatter, "history: {what}"),
            Self::NotConverged(what) => write!(formatter, "did not converge: {what}"),
            Self::Panic(what) => write!(formatter, "panic: {what}"),
        }
    }
}

/// A failure, and when it was noticed.
#[derive(Clone, Debug)]
pub struct Failed {
    /// Why.
    pub failure: Failure,
    /// When, in virtual time.
    pub at: Instant,
}
