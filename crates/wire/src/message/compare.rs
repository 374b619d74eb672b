//! What replicas say of what they have: when one joins, so that only what differs travels (since version
//! 2); when both are in sync, to find what differs though it must not (since version 3).

use alloc::vec::Vec;

use holdfast_model::{Epoch, PageIndex, Sequence, SliceId};

use super::Contents;

/// The pages that a joining replica has, said once it has begun as
/// [`Role::JoiningCompared`](super::Role::JoiningCompared).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holdings {
    /// The slice.
    pub slice: SliceId,
    /// The epoch.
    pub epoch: Epoch,
    /// The pages, in order.
    pub pages: Vec<PageIndex>,
}

/// Asks a replica what it holds in blocks of a page, committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    /// The slice.
    pub slice: SliceId,
    /// The epoch in which the sender leads it.
    pub epoch: Epoch,
    /// Names the question in its answer.
    pub number: u64,
    /// The page.
    pub page: PageIndex,
    /// The blocks, one bit each; at least one.
    pub blocks: u64,
}

/// What is in a block, in few bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockDigest {
    /// Zeros, that is nothing.
    Zero,
    /// It cannot be read.
    Bad,
    /// Data: 128 bits of its BLAKE3 hash, with the key that the two stores make.
    Data([u8; 16]),
}

/// The digests that were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digests {
    /// The slice.
    pub slice: SliceId,
    /// The epoch.
    pub epoch: Epoch,
    /// The question.
    pub number: u64,
    /// The committed point as of which they were read.
    pub as_of: Sequence,
    /// One for each block.
    pub digests: Vec<BlockDigest>,
}

/// Asks a replica that is in sync what it holds in a page, committed, and which pages it has before that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verify {
    /// The slice.
    pub slice: SliceId,
    /// The epoch in which the sender leads it.
    pub epoch: Epoch,
    /// Names the question in its answer.
    pub number: u64,
    /// The sender has no page from here on that is before `page`.
    pub from: PageIndex,
    /// The page; not before `from`.
    pub page: PageIndex,
}

/// What was asked for; without digests if the receiver cannot tell now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The slice.
    pub slice: SliceId,
    /// The epoch.
    pub epoch: Epoch,
    /// The question.
    pub number: u64,
    /// The committed point as of which the page was read.
    pub as_of: Sequence,
    /// The sequence of the last change to the page, if all changes to it are in its place on the
    /// medium; else zero.
    pub written: Sequence,
    /// The pages that the sender has and the receiver said that it has not, in order.
    pub extra: Vec<PageIndex>,
    /// One for each block of the page, or none.
    pub digests: Vec<BlockDigest>,
}

/// Blocks as the primary has them, for an in-sync replica that has other ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correct {
    /// The slice.
    pub slice: SliceId,
    /// The epoch in which both are in sync.
    pub epoch: Epoch,
    /// The committed point as of which the blocks were read.
    pub as_of: Sequence,
    /// The blocks.
    pub contents: Contents,
}

impl Digests {
    /// Bytes that the digests take on their way.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let bytes = self.digests.iter().map(|digest| match digest {
            BlockDigest::Zero | BlockDigest::Bad => 1,
            BlockDigest::Data(hash) => 1 + hash.len() as u64,
        });
        bytes.sum()
    }
}
