//! What the client needs of a way to a store, whichever store it is.
//!
//! Invariants:
//! - a frame that was sent is carried out once at most: nothing here repeats one.

use holdfast_model::metadata::{MetadataAnswer, MetadataToken, Revision};

use super::ConnectError;
use crate::frame::ClientFrame;

/// An answer, with the token of what it answers.
pub(crate) type Told = (MetadataToken, MetadataAnswer);

/// What a connection hears.
#[derive(Debug)]
pub(crate) enum Heard {
    /// An answer.
    Answer(Told),
    /// Whether the store takes no change, for it is full.
    Full(bool),
}

/// Which store it is, and where it was when the connection began. Nothing that was answered before
/// may be of a later revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The store's own name for itself, which another store, or this one restored, does not have.
    pub(crate) store: u64,
    /// Its revision, by a linearizable read.
    pub(crate) revision: Revision,
}

/// Opens connections.
pub(crate) trait Connect: Clone + Send + Sync + 'static {
    /// What it opens.
    type Connection: Connection;
    /// Whether answers come in the order of what the store did: only then does the answer to a
    /// transaction tell that a watch has told of everything before.
    const IN_ORDER: bool;

    /// Opens a connection to the store at `address`, in bounded time.
    fn open(
        &self,
        address: &str,
    ) -> impl Future<Output = Result<Self::Connection, ConnectError>> + Send;
}

/// A connection. What it has started ends with it.
pub(crate) trait Connection: Send {
    /// Where the store was when the connection began, if it has said so.
    fn origin(&self) -> Option<Origin>;

    /// Sends. A connection that has ended takes it as well: its end is told by `receive`.
    fn send(&mut self, frame: ClientFrame);

    /// What is heard next. May be cancelled.
    fn receive(&mut self) -> impl Future<Output = Result<Heard, ConnectError>> + Send;
}
