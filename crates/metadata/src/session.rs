//! What a user of the metadata holds, whichever store is behind it: a way to ask, and the answers.
//!
//! Invariants:
//! - asking never blocks;
//! - every request but `Unwatch` is answered once, unless the session ends before: then the answers
//!   end, and what was asked is as unknown as if it had been answered `Unavailable`;
//! - after an `Unwatch` nothing new comes for that watch; what was under way may still arrive.

use std::fmt;
use std::sync::Arc;

use holdfast_model::metadata::{MetadataAnswer, MetadataRequest, MetadataToken};
use tokio::sync::mpsc;

/// Answers that may wait to be read. A session whose reader is further behind ends.
pub const ANSWERS_WAITING_MAX: usize = 4 << 10;

/// Where requests go. Implemented by each kind of store.
pub trait Submit: Send + Sync {
    /// Asks. Never blocks.
    fn submit(&self, token: MetadataToken, request: MetadataRequest);
}

/// A store in which sessions can be begun.
pub trait Store: Send + Sync {
    /// Begins a session.
    fn session(&self) -> Session;
}

/// The answers of a session, in their order, each with the token of its request. They end when the
/// session does.
pub type Answers = mpsc::Receiver<(MetadataToken, MetadataAnswer)>;

/// The asking end of a session. The session ends when all clones are gone.
#[derive(Clone)]
pub struct Requests(Arc<dyn Submit>);

impl Requests {
    /// The asking end over `submit`.
    #[must_use]
    pub fn new(submit: Arc<dyn Submit>) -> Self {
        Self(submit)
    }

    /// Asks. Never blocks: the answer comes on the session's other end. A token that is still in
    /// use, by a watch or a request, must not be used again.
    pub fn submit(&self, token: MetadataToken, request: MetadataRequest) {
        self.0.submit(token, request);
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Requests")
    }
}

/// Both ends of a session.
#[derive(Debug)]
pub struct Session {
    /// To ask.
    pub requests: Requests,
    /// To be told.
    pub answers: Answers,
}
