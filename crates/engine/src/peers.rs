//! Links to the other nodes, and the heartbeats that leases run on.
//!
//! Invariants:
//! - a message goes over the link for which it was made, or nowhere;
//! - a heartbeat is made when it is sent, never queued before.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use holdfast_model::{NodeId, SliceId};
use holdfast_replica::Peer;
use holdfast_replica::timing::HEARTBEAT;
use holdfast_stdx::Instant;
use holdfast_wire::Message;

use crate::event::{LinkId, PeerCommand};

/// A link that is up.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) id: LinkId,
    pub(crate) peer: Peer,
    /// When the peer sent the newest heartbeat that came, by its clock.
    pub(crate) heard: Instant,
    /// When that came, by the clock here; or when the link came up.
    pub(crate) heard_at: Instant,
    heartbeat_due: Instant,
    /// Slices whose claims or grants do not wait for that.
    urgent: BTreeSet<SliceId>,
}

/// What a heartbeat is to be about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// All slices that the two nodes share.
    All,
    /// These: a heartbeat says nothing of those that it does not name.
    Some(BTreeSet<SliceId>),
}

/// All links.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    links: BTreeMap<NodeId, Link>,
    /// To whom links are to be kept, and where they listen.
    kept: BTreeMap<NodeId, String>,
    /// Links that do not keep to the protocol: to be reset when the event is done with.
    pub(crate) to_reset: BTreeSet<NodeId>,
    out: VecDeque<PeerCommand>,
}

impl Peers {
    pub(crate) fn up(&mut self, now: Instant, node: NodeId, id: LinkId, peer: Peer) {
        let link = Link {
            id,
            peer,
            heard: Instant::ZERO,
            heard_at: now,
            heartbeat_due: now,
            urgent: BTreeSet::new(),
        };
        self.links.insert(node, link);
    }

    pub(crate) fn down(&mut self, node: NodeId) {
        self.links.remove(&node);
    }

    pub(crate) fn link(&self, node: NodeId) -> Option<&Link> {
        self.links.get(&node)
    }

    /// The link over which something came, if it is still the one that is up.
    pub(crate) fn current(&mut self, node: NodeId, id: LinkId) -> Option<&mut Link> {
        self.links.get_mut(&node).filter(|link| link.id == id)
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.links.keys().copied()
    }

    pub(crate) fn send(&mut self, node: NodeId, message: Message) {
        if let Some(link) = self.links.get(&node) {
            self.out.push_back(PeerCommand::Send {
                peer: node,
                link: link.id,
                message,
            });
        }
    }

    /// Keeps a link to a node at this address from now on, or none.
    pub(crate) fn keep(&mut self, node: NodeId, address: Option<String>) {
        match address {
            Some(address) if self.kept.get(&node) != Some(&address) => {
                self.kept.insert(node, address.clone());
                let peer = node;
                self.out.push_back(PeerCommand::Connect { peer, address });
            }
            None if self.kept.remove(&node).is_some() => {
                self.out.push_back(PeerCommand::Forget { peer: node });
            }
            _ => {}
        }
    }

    pub(crate) fn reset(&mut self, node: NodeId) {
        if let Some(link) = self.links.remove(&node) {
            self.out.push_back(PeerCommand::Reset {
                peer: node,
                link: link.id,
            });
        }
    }

    /// A link that has come up is not used. One that is there stays.
    pub(crate) fn refuse(&mut self, node: NodeId, link: LinkId) {
        self.out.push_back(PeerCommand::Reset { peer: node, link });
    }

    /// Sends what there is to say to a node about a slice without waiting for the next heartbeat.
    pub(crate) fn hurry(&mut self, node: NodeId, slice: SliceId) {
        if let Some(link) = self.links.get_mut(&node) {
            link.urgent.insert(slice);
        }
    }

    pub(crate) fn next_heartbeat(&self) -> Option<Instant> {
        self.links.values().map(|link| link.heartbeat_due).min()
    }

    /// The peers that are to be sent a heartbeat now, with what to echo to each.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<(NodeId, Instant, About)> {
        let mut due = Vec::new();
        for (node, link) in &mut self.links {
            let urgent = core::mem::take(&mut link.urgent);
            if link.heartbeat_due <= now {
                link.heartbeat_due = now + HEARTBEAT;
                due.push((*node, link.heard, About::All));
            } else if !urgent.is_empty() {
                due.push((*node, link.heard, About::Some(urgent)));
            }
        }
        due
    }

    pub(crate) fn take_commands(&mut self) -> impl Iterator<Item = PeerCommand> {
        self.out.drain(..)
    }
}
