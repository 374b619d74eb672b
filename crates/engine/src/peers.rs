//! Links to the other nodes, and the heartbeats that leases run on.
//!
//! A link that has come up is a stranger's until it is known that its node follows the same metadata: what comes over it waits.
//!
//! Invariants:
//! - a message goes over the link for which it was made, or nowhere;
//! - over a stranger's link nothing is said and heard but whether both follow the same metadata;
//! - a heartbeat is made when it is sent, never queued before.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use holdfast_model::{NodeId, SliceId};
use holdfast_replica::Peer;
use holdfast_replica::timing::HEARTBEAT;
use holdfast_stdx::Instant;
use holdfast_wire::{Message, Vouch};

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

/// Messages that wait until it is known that both nodes follow the same metadata, at most: what a node sends at once to one that it
/// knows.
const HELD_MAX: usize = 1024;

/// A link whose node may follow another copy of the metadata.
#[derive(Debug)]
struct Stranger {
    link: Link,
    /// It does, as far as is known; else what it has sent.
    held: Option<Vec<Message>>,
    /// Until when it is waited for the metadata to tell.
    until: Instant,
    /// What it has asked last.
    asks: Option<Vouch>,
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
    strangers: BTreeMap<NodeId, Stranger>,
    /// To whom links are to be kept, and where they listen.
    kept: BTreeMap<NodeId, String>,
    /// Links that do not keep to the protocol: to be reset when the event is done with.
    pub(crate) to_reset: BTreeSet<NodeId>,
    out: VecDeque<PeerCommand>,
}

impl Peers {
    /// A link is up, of a stranger until then.
    pub(crate) fn up(
        &mut self,
        now: Instant,
        node: NodeId,
        id: LinkId,
        peer: Peer,
        until: Instant,
    ) {
        let link = Link {
            id,
            peer,
            heard: Instant::ZERO,
            heard_at: now,
            heartbeat_due: now,
            urgent: BTreeSet::new(),
        };
        let held = Some(Vec::new());
        let stranger = Stranger {
            link,
            held,
            until,
            asks: None,
        };
        self.strangers.insert(node, stranger);
    }

    /// Who is a stranger, and may not be one: with the link.
    pub(crate) fn is_stranger(&self, node: NodeId, id: LinkId) -> bool {
        (self.strangers.get(&node)).is_some_and(|stranger| stranger.link.id == id)
    }

    /// Its node follows the same metadata, as far as can be known. Says what it has sent, and over which link.
    pub(crate) fn recognise(
        &mut self,
        now: Instant,
        node: NodeId,
    ) -> Option<(LinkId, Vec<Message>)> {
        let stranger = self.strangers.get(&node)?;
        stranger.held.as_ref()?;
        let Stranger { mut link, held, .. } = self.strangers.remove(&node)?;
        (link.heard_at, link.heartbeat_due) = (now, now);
        let id = link.id;
        self.links.insert(node, link);
        Some((id, held?))
    }

    /// Its node follows another copy of the metadata: nothing of it is heard.
    pub(crate) fn estrange(&mut self, node: NodeId) {
        if let Some(stranger) = self.strangers.get_mut(&node) {
            stranger.held = None;
        } else if self.links.contains_key(&node) {
            // The next link is a stranger's.
            self.to_reset.insert(node);
        }
    }

    /// Whether a node follows another copy.
    pub(crate) fn is_estranged(&self, node: NodeId) -> bool {
        (self.strangers.get(&node)).is_some_and(|stranger| stranger.held.is_none())
    }

    /// A stranger asks; who is none is not noted.
    pub(crate) fn stranger_asks(&mut self, node: NodeId, vouch: Vouch) {
        if let Some(stranger) = self.strangers.get_mut(&node) {
            stranger.asks = Some(vouch);
        }
    }

    /// What a stranger has asked last.
    pub(crate) fn asked_by_stranger(&self, node: NodeId) -> Option<Vouch> {
        self.strangers.get(&node)?.asks
    }

    /// The link to a node, a stranger's too.
    fn any(&self, node: NodeId) -> Option<&Link> {
        let stranger = self.strangers.get(&node).map(|stranger| &stranger.link);
        self.links.get(&node).or(stranger)
    }

    /// Which it is.
    pub(crate) fn link_of(&self, node: NodeId) -> Option<LinkId> {
        self.any(node).map(|link| link.id)
    }

    /// What a stranger has sent waits; of one who follows another copy it is forgotten. Gives it back if too much waits.
    pub(crate) fn hold(&mut self, node: NodeId, message: Message) -> Option<Message> {
        let stranger = self.strangers.get_mut(&node)?;
        let held = stranger.held.as_mut()?;
        if held.len() >= HELD_MAX {
            return Some(message);
        }
        held.push(message);
        None
    }

    /// The strangers of whom nobody has told anything for as long as that is waited for.
    pub(crate) fn overdue(&self, now: Instant) -> Vec<NodeId> {
        let waited = self.strangers.iter();
        let waited = waited.filter(|(_, it)| it.held.is_some() && it.until <= now);
        waited.map(|(node, _)| *node).collect()
    }

    /// When there will be one.
    pub(crate) fn next_overdue(&self) -> Option<Instant> {
        let waited = self.strangers.values().filter(|it| it.held.is_some());
        waited.map(|stranger| stranger.until).min()
    }

    /// Who is at the other end of a link, of a stranger's too.
    pub(crate) fn peer(&self, node: NodeId) -> Option<Peer> {
        self.any(node).map(|link| link.peer)
    }

    /// Who has a link, strangers too.
    pub(crate) fn everybody(&self) -> Vec<NodeId> {
        let links = self.links.keys().chain(self.strangers.keys());
        links.copied().collect()
    }

    pub(crate) fn down(&mut self, node: NodeId) {
        self.links.remove(&node);
        self.strangers.remove(&node);
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

    /// Asks, or says, whether both follow the same metadata: strangers, too.
    pub(crate) fn say(&mut self, node: NodeId, message: Message) {
        self.send_over(node, self.link_of(node), message);
    }

    pub(crate) fn send(&mut self, node: NodeId, message: Message) {
        let link = self.links.get(&node).map(|link| link.id);
        self.send_over(node, link, message);
    }

    fn send_over(&mut self, peer: NodeId, link: Option<LinkId>, message: Message) {
        let send = link.map(|link| PeerCommand::Send {
            peer,
            link,
            message,
        });
        self.out.extend(send);
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
        let stranger = self.strangers.remove(&node).map(|stranger| stranger.link);
        if let Some(link) = self.links.remove(&node).or(stranger) {
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
