//! What has to be known of the other nodes while copies between volumes are under way here.
//!
//! Whoever has commands of a unit ended asks every node, and waits for one that does not answer until whatever had arrived there
//! has lived its life (`clearing`). A copy whose writes live longer must not be among that. So each other node is asked something,
//! over the lane on which it would ask for the end of commands: when its answer comes, everything that it has asked before the
//! question came to it has come here, too.
//!
//! What is asked is what became of a command that nobody has sent, of a slice that is nobody's: each version answers that at once.
//!
//! Invariants:
//! - a node is asked one thing at a time;
//! - nothing is asked while there are no copies.

use alloc::collections::BTreeMap;

use holdfast_model::{CommandId, NodeId, SliceId, VolumeId};
use holdfast_stdx::Instant;
use holdfast_wire::Settle;

use crate::engine::Engine;
use crate::portal::ASKED_AFTER;

/// Volumes are numbered from 1.
const NOBODYS: SliceId = SliceId {
    volume: VolumeId(0),
    index: 0,
};

/// What other nodes were asked, and have answered.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    asked: BTreeMap<NodeId, (CommandId, Instant)>,
    /// When each was asked what it last answered.
    through: BTreeMap<NodeId, Instant>,
}

impl Heard {
    /// The link to a node is down: what it was asked is not answered any more.
    pub(crate) fn link_lost(&mut self, node: NodeId) {
        self.asked.remove(&node);
    }
}

impl Engine {
    /// Asks whom there is nothing new of, if there are copies.
    pub(crate) fn look_after_copies(&mut self) {
        if !self.portal.is_copying() {
            return;
        }
        let now = self.world.now;
        let neighbours: alloc::vec::Vec<NodeId> = self.neighbours().collect();
        let mut heard_through = now;
        for node in neighbours {
            let through = self.heard.through.get(&node);
            let through = through.copied().unwrap_or(Instant::ZERO);
            heard_through = heard_through.min(through);
            let is_due = now.since(through) >= ASKED_AFTER;
            if is_due
                && !self.heard.asked.contains_key(&node)
                && self.world.peers.link(node).is_some()
            {
                let command = self.parts.new_command();
                self.heard.asked.insert(node, (command, now));
                let slice = NOBODYS;
                self.world
                    .peers
                    .send(node, Settle { slice, command }.into());
            }
        }
        self.portal.hear_through(heard_through);
    }

    /// A node has answered something: true if it is what it was asked here.
    pub(crate) fn has_heard(&mut self, node: NodeId, command: CommandId) -> bool {
        let asked = self.heard.asked.get(&node);
        let Some((_, when)) = asked.copied().filter(|(asked, _)| *asked == command) else {
            return false;
        };
        self.heard.asked.remove(&node);
        self.heard.through.insert(node, when);
        true
    }
}
