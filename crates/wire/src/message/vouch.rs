//! How nodes find out that they follow the same metadata, and not two copies of it. Since version 5.

use holdfast_model::record::Bookmark;
use holdfast_stdx::Duration;

/// Asks whether a bookmark of the sender is in the metadata that the receiver follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vouch {
    /// The sender's newest, which is in the metadata that it follows.
    pub bookmark: Bookmark,
}

/// Whether it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vouched {
    /// The bookmark that was asked for.
    pub bookmark: Bookmark,
    /// It is there, or a later one of the same use.
    pub is_there: bool,
    /// For how long the sender has followed what it has looked at, in whole seconds on the wire; zero if it does not go on with
    /// that, because others do not follow it.
    pub age: Duration,
}
