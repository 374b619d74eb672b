//! What a replica does for the one that leads its slice: it reads pages and says what is in them, and takes
//! what it is told to have.
//!
//! Invariants:
//! - only replicas in sync in the epoch of the question tell something;
//! - blocks that an entry touches which is not known to be committed are not told of;
//! - of questions a bounded number waits; whoever asks more is told nothing, and asks again.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use holdfast_model::{BlockRange, Epoch, NodeId, PageIndex, Sequence, SliceId};
use holdfast_store::View;
use holdfast_wire::{BlockContent, Content, Correct, Verified, Verify};

use super::digests_of;
use crate::Notice;
use crate::engine::Engine;
use crate::storage::{Read, Reader};

/// Questions that wait at most: each node that leads slices asks for a few pages at a time.
const WAITING_MAX: usize = 64;

/// Questions that wait for their turn.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    waiting: VecDeque<(NodeId, Verify)>,
}

impl Asked {
    pub(super) fn forget(&mut self, peer: NodeId) {
        self.waiting.retain(|(node, _)| *node != peer);
    }
}

/// Which question a page is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) node: NodeId,
    pub(crate) number: u64,
    pub(crate) epoch: Epoch,
    pub(crate) from: PageIndex,
    pub(crate) as_of: Sequence,
    pub(crate) written: Option<Sequence>,
}

impl Engine {
    /// Whoever leads a slice asks what is in a page.
    pub(crate) fn handle_verify(&mut self, peer: NodeId, verify: Verify) {
        if self.scrubs.asked.waiting.len() < WAITING_MAX {
            self.scrubs.asked.waiting.push_back((peer, verify));
        } else {
            self.tell_nothing(peer, &verify);
        }
    }

    /// Answers what has been asked, as far as the pace lets.
    pub(super) fn answer_asked(&mut self) {
        while let Some((peer, verify)) = self.scrubs.asked.waiting.front().copied() {
            let bytes = self.page_bytes(verify.slice, verify.page);
            if self.scrubs.held || !self.world.pace.may_begin(self.world.now, bytes) {
                self.scrubs.held = true;
                return;
            }
            self.scrubs.asked.waiting.pop_front();
            self.verify(peer, &verify);
        }
    }

    fn verify(&mut self, peer: NodeId, verify: &Verify) {
        let Verify {
            slice,
            epoch,
            number,
            from,
            page,
        } = *verify;
        let (now, range) = (self.world.now, BlockRange::page(page));
        let store = self.world.storage.store();
        if self.in_sync_epoch(slice) != Some(epoch) || store.is_dirty(slice, range) {
            self.tell_nothing(peer, verify);
            return;
        }
        let question = Question {
            node: peer,
            number,
            epoch,
            from,
            as_of: store.committed(slice),
            written: store.written(slice, page),
        };
        let reader = Reader::Verifier(question);
        self.world.storage.check_entry(slice, page);
        let read = Read::new(now, slice, range, View::Committed, reader);
        self.world.storage.read(now, read);
    }

    /// The page was read.
    pub(crate) fn verified(
        &mut self,
        slice: SliceId,
        page: PageIndex,
        question: &Question,
        contents: &[Content],
    ) {
        let is_bad = |content: &Content| matches!(content.content, BlockContent::Bad);
        if contents.iter().any(is_bad) {
            self.mending.look_soon();
        }
        let in_sync = self.in_sync_epoch(slice) == Some(question.epoch);
        let asks = self
            .world
            .peers
            .link(question.node)
            .map(|link| link.peer.store);
        let digests = match asks.filter(|_| in_sync) {
            Some(store) => digests_of(store, contents),
            None => Vec::new(),
        };
        let mut extra = Vec::new();
        if question.from < page && in_sync {
            let store = self.world.storage.store();
            let before = question.from..=PageIndex(page.0 - 1);
            extra.extend(store.allocated_in(slice, before).map(|(page, _)| page));
        }
        let verified = Verified {
            slice,
            epoch: question.epoch,
            number: question.number,
            as_of: question.as_of,
            written: question.written.unwrap_or_default(),
            extra,
            digests,
        };
        self.world.peers.send(question.node, verified.into());
    }

    fn tell_nothing(&mut self, peer: NodeId, verify: &Verify) {
        let verified = Verified {
            slice: verify.slice,
            epoch: verify.epoch,
            number: verify.number,
            as_of: Sequence::ZERO,
            written: Sequence::ZERO,
            extra: Vec::new(),
            digests: Vec::new(),
        };
        self.world.peers.send(peer, verified.into());
    }

    /// Whoever leads a slice says what some blocks are to be. What cannot be put in place now is said again.
    pub(crate) fn handle_correct(&mut self, peer: NodeId, correct: Correct) {
        let Correct {
            slice,
            epoch,
            as_of,
            contents,
        } = correct;
        if self.in_sync_epoch(slice) != Some(epoch) || self.primary_of(slice) != Some(peer) {
            return;
        }
        let now = self.world.now;
        for content in contents {
            let range = content.range;
            let Some(change) = content.into_change() else {
                continue;
            };
            let room = self.world.storage.reserve(slice, range);
            if room && self.world.storage.repair(now, slice, change, as_of) {
                for block in range.blocks() {
                    self.world.mended.differing += 1;
                    self.world.notices.push(Notice::Corrected(slice, block.0));
                }
            }
        }
    }
}
