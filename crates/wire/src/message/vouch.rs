//! How nodes find out that they follow the same metadata, and not two copies of it. Since version 5.

use holdfast_model::NodeId;
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
    /// For how long those who are known to follow what the sender has looked at have gone on with it, in whole seconds on the wire. Where
    /// version 5 is spoken it is zero if the sender does not go on, because others do not follow it.
    pub age: Duration,
}

/// What the sender makes of those who follow another copy than it does, as far as it has heard of them itself. Since version 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stance {
    /// It knows of nobody who outweighs those who follow the same as it.
    Sure,
    /// It cannot tell who is to go on: it does not.
    Undecided,
    /// Others are to go on, who were there before.
    Yields,
    /// An operator has said that it is to go on.
    Told,
}

/// Who follows the same metadata as the sender. Since version 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Camp {
    /// Nodes, the sender included, of which it knows that they do, by links that are up.
    pub followers: u16,
    /// The receiver is one of them.
    pub counts_receiver: bool,
    /// The sender goes on with it.
    pub goes_on: bool,
    /// What it makes of others.
    pub stance: Stance,
    /// One of those who follow another copy, if any does.
    pub rival: Option<NodeId>,
}
