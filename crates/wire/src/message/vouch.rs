//! How nodes find out that they follow the same metadata, and not two copies of it. Since version 5.

use holdfast_model::record::Bookmark;
use holdfast_stdx::Duration;

/// Asks whether a bookmark of the sender is in the metadata that the receiver follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vouch {
    /// The sender's newest, which is in the metadata that it follows.
    pub bookmark: Bookmark,
    /// For how long it has been there, in milliseconds on the wire.
    pub age: Duration,
}

/// Whether it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vouched {
    /// The bookmark that was asked for.
    pub bookmark: Bookmark,
    /// It is there, or a later one of the same use.
    pub is_there: bool,
}
