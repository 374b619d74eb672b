//! Whether other nodes find this node's bookmark in the metadata that they follow.
//!
//! A node that was cut off from the metadata, and finds a copy of it that has gone on by itself, cannot tell. Those who go on with
//! the other one can: its bookmark is in the copy only. They tell it so, and it believes nothing of that copy: else it
//! might lead a slice in an epoch that means something else to everybody else.
//!
//! Invariants:
//! - of two nodes that follow two copies the one that came later is told so, or both are: whoever has followed for longer
//!   is not put off by who comes;
//! - a node believes nothing as long as more nodes have told it so than have found its bookmark;
//! - silence says nothing: a node that reaches nobody, or whose peers reach no metadata, goes on.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use holdfast_model::NodeId;
use holdfast_model::record::Bookmark;
use holdfast_stdx::{Duration, Instant};
use holdfast_wire::{Message, Vouch, Vouched};

use crate::engine::Engine;

/// The version of the protocol in which nodes ask.
const VOUCH_SINCE: u16 = 5;
/// Of two nodes whose bookmarks are as old as each other, but for this, neither was there before.
const SENIORITY: Duration = Duration::from_secs(60);
/// Between two questions of a node that was told that its bookmark is nowhere.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// What was asked, and what others have said.
#[derive(Debug, Default)]
pub(crate) struct Vouching {
    /// What the others have said of the newest bookmark.
    said: BTreeMap<NodeId, bool>,
    /// The newest questions of others that cannot be answered before this node follows the metadata, and when they came.
    waiting: BTreeMap<NodeId, (Vouch, Instant)>,
    asked: Option<Instant>,
}

impl Vouching {
    /// Who has told that the bookmark is nowhere, if that counts.
    fn disowned_by(&self) -> Option<NodeId> {
        let found = self.said.values().filter(|is_there| **is_there).count();
        let without = self.said.iter().filter(|(_, is_there)| !**is_there);
        let mut without = without.map(|(node, _)| *node);
        let first = without.next()?;
        (1 + without.count() > found).then_some(first)
    }
}

impl Engine {
    /// A bookmark was left, and what was read is believed.
    pub(crate) fn follows_anew(&mut self) {
        self.vouching.said.clear();
        self.ask_all_to_vouch();
        for (peer, (vouch, came)) in core::mem::take(&mut self.vouching.waiting) {
            let age = vouch.age + self.world.now.since(came);
            self.handle_vouch(peer, Vouch { age, ..vouch });
        }
    }

    /// The metadata would be believed but for what others have said: they may say something else by now.
    pub(crate) fn is_disowned_still(&mut self) {
        let now = self.world.now;
        if self
            .vouching
            .asked
            .is_none_or(|asked| now >= asked + ASK_AGAIN)
        {
            self.ask_all_to_vouch();
        }
    }

    fn ask_all_to_vouch(&mut self) {
        self.vouching.asked = Some(self.world.now);
        let peers: Vec<NodeId> = self.world.peers.nodes().collect();
        for peer in peers {
            self.ask_to_vouch(peer);
        }
    }

    /// Asks a node, if it understands that.
    pub(crate) fn ask_to_vouch(&mut self, peer: NodeId) {
        let link = self.world.peers.link(peer);
        let Some((bookmark, age)) = self.world.cluster.bookmark(self.world.now) else {
            return;
        };
        if link.is_some_and(|link| link.peer.version >= VOUCH_SINCE) {
            let vouch = Vouch { bookmark, age };
            self.world.peers.send(peer, vouch.into());
        }
    }

    /// Another node asks.
    pub(crate) fn handle_vouch(&mut self, peer: NodeId, vouch: Vouch) {
        if !self.world.cluster.look_for_bookmark(peer, vouch) {
            let now = self.world.now;
            self.vouching.waiting.insert(peer, (vouch, now));
        }
    }

    /// It was looked for another node's bookmark in the metadata.
    pub(crate) fn looked_for_bookmark(&mut self, peer: NodeId, vouch: Vouch, is_there: bool) {
        let cluster = &self.world.cluster;
        let own = cluster.bookmark(self.world.now).map(|(_, age)| age);
        let is_senior = own.is_some_and(|own| vouch.age < own + SENIORITY);
        if is_there || (is_senior && !cluster.is_astray()) {
            let bookmark = vouch.bookmark;
            let vouched = Vouched { bookmark, is_there };
            self.world.peers.send(peer, Message::from(vouched));
        }
    }

    /// Another node has looked.
    pub(crate) fn handle_vouched(&mut self, peer: NodeId, vouched: Vouched) {
        let own = self.world.cluster.bookmark(self.world.now);
        if own.is_none_or(|(own, _)| own != vouched.bookmark) {
            return;
        }
        self.vouching.said.insert(peer, vouched.is_there);
        let disowned = self.vouching.disowned_by();
        let now = self.world.now;
        self.world.cluster.disown(now, disowned);
    }
}

/// Whether a bookmark that is found shows that another one was left in the same metadata.
pub(crate) fn shows(found: Bookmark, asked: Bookmark) -> bool {
    found.use_id == asked.use_id && found.number >= asked.number
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that has come to a copy itself says so of all others.
    #[test]
    fn more_have_to_say_so_than_have_found_it() {
        let disowned = |said: &[bool]| {
            let numbered = said.iter().zip(1..);
            let said = numbered.map(|(is_there, node)| (NodeId(node), *is_there));
            let vouching = Vouching {
                said: said.collect(),
                ..Vouching::default()
            };
            vouching.disowned_by()
        };
        assert_eq!(disowned(&[]), None);
        assert_eq!(disowned(&[true]), None);
        assert_eq!(disowned(&[false]), Some(NodeId(1)));
        assert_eq!(disowned(&[true, false]), None);
        assert_eq!(disowned(&[true, false, false]), Some(NodeId(2)));
        assert_eq!(disowned(&[true, false, true, false]), None);
    }
}
