//! What happens on the links to other nodes, and to whom it is handed.
//!
//! Invariants:
//! - what came over a link that is not up any more is not heard;
//! - replicas, and hosts' commands, hear only of nodes that follow the same metadata, as far as it can be told.

use holdfast_model::{NodeId, SliceId};
use holdfast_replica::Peer;
use holdfast_stdx::Duration;
use holdfast_wire::Message;

use crate::Notice;
use crate::engine::Engine;
use crate::event::{LinkId, PeerEvent};

/// How long it is waited for the metadata to tell whether a node that has connected follows the same: for less time than anybody is
/// waited for before he is taken for lost. Without metadata nodes have to find each other as well.
const RECOGNISED_WITHIN: Duration = Duration::from_millis(250);

impl Engine {
    pub(crate) fn handle_peer(&mut self, event: PeerEvent) {
        match event {
            PeerEvent::Up {
                peer,
                link,
                store,
                incarnation,
                version,
            } => {
                let now = self.world.now;
                let known = Peer {
                    store,
                    incarnation,
                    version,
                    append_age: Duration::ZERO,
                };
                if self.is_former(peer, &known) {
                    self.world.peers.refuse(peer, link);
                    return;
                }
                let is_known = self.world.peers.link(peer).is_some();
                self.world.peers.down(peer);
                if is_known {
                    self.peer_down(peer);
                } else {
                    self.vouching_link_lost(peer);
                }
                self.world
                    .peers
                    .up(now, peer, link, known, now + RECOGNISED_WITHIN);
                self.meet(peer);
            }
            PeerEvent::Down { peer, link } => {
                if self.world.peers.is_stranger(peer, link) {
                    self.world.peers.down(peer);
                    self.vouching_link_lost(peer);
                } else if self.world.peers.current(peer, link).is_some() {
                    self.world.peers.down(peer);
                    self.world.notices.push(Notice::PeerDown(peer));
                    self.peer_down(peer);
                }
            }
            PeerEvent::Received {
                peer,
                link,
                message,
            } => {
                if self.world.peers.current(peer, link).is_some() {
                    self.handle_message(peer, link, message);
                } else if self.world.peers.is_stranger(peer, link) {
                    self.hear_stranger(peer, link, message);
                }
            }
        }
    }

    /// A stranger's link is up. Who does not understand the question, or cannot be asked because there is no bookmark here yet, is
    /// none.
    fn meet(&mut self, peer: NodeId) {
        if self.asks_to_vouch(peer) {
            self.ask_to_vouch(peer);
        } else {
            self.recognise(peer);
        }
    }

    fn hear_stranger(&mut self, peer: NodeId, link: LinkId, message: Message) {
        match message {
            Message::Vouch(_) | Message::Vouched(_) | Message::Camp(_) => {
                self.handle_message(peer, link, message);
            }
            message => {
                if let Some(message) = self.world.peers.hold(peer, message) {
                    // It is heard rather than forgotten.
                    self.recognise(peer);
                    self.handle_message(peer, link, message);
                }
            }
        }
    }

    /// A node follows the same metadata, or nobody can tell for now: it takes part.
    pub(crate) fn recognise(&mut self, peer: NodeId) {
        let now = self.world.now;
        let Some((link, held)) = self.world.peers.recognise(now, peer) else {
            return;
        };
        self.world.notices.push(Notice::PeerUp(peer));
        self.places_changed();
        for slice in self.slices() {
            self.with_replica(slice, |replica, context| {
                replica.handle_peer_up(context, peer);
            });
        }
        self.retry_all_parts();
        self.look_at_port_groups_soon();
        self.spaces.hurry(now);
        self.ask_to_end_again(peer);
        self.mending.look_soon();
        for message in held {
            if self.world.peers.current(peer, link).is_some() {
                self.handle_message(peer, link, message);
            }
        }
    }

    pub(crate) fn peer_down(&mut self, peer: NodeId) {
        for slice in self.slices() {
            self.with_replica(slice, |replica, context| {
                replica.handle_peer_down(context, peer);
            });
        }
        self.parts.link_lost(self.world.now, peer);
        self.heard.link_lost(peer);
        self.look_at_port_groups_soon();
        self.vouching_link_lost(peer);
        self.give_up_fetches(peer);
        self.give_up_verifies(peer);
        self.places_changed();
    }

    fn handle_message(&mut self, peer: NodeId, link: LinkId, message: Message) {
        match message {
            Message::Heartbeat(heartbeat) => self.handle_heartbeat(peer, link, &heartbeat),
            Message::PrepareHeld(held) => self.handle_prepare_held(peer, held),
            Message::Forward(forward) => self.handle_forward(peer, link, forward),
            Message::Forwarded(forwarded) => self.handle_forwarded(peer, link, forwarded),
            Message::Settle(settle) => self.handle_settle(peer, link, settle),
            Message::EndTasks(question) => self.handle_end_tasks(peer, link, question),
            Message::TasksEnded(answer) => self.handle_tasks_ended(peer, answer),
            Message::Fetch(fetch) => self.handle_fetch(peer, &fetch),
            Message::Fetched(fetched) => self.handle_fetched(peer, &fetched),
            Message::Verify(verify) => self.handle_verify(peer, verify),
            Message::Verified(verified) => self.handle_verified(peer, verified),
            Message::Correct(correct) => self.handle_correct(peer, correct),
            Message::Vouch(vouch) => self.handle_vouch(peer, vouch),
            Message::Vouched(vouched) => self.handle_vouched(peer, vouched),
            Message::Camp(camp) => self.handle_camp(peer, camp),
            Message::Enforce(question) => self.handle_enforce(peer, question),
            Message::Enforced(answer) => self.handle_enforced(answer),
            Message::Space(space) => self.handle_space(peer, space),
            message => {
                if let Some(slice) = slice_of(&message) {
                    self.with_replica(slice, |replica, context| {
                        replica.handle_message(context, peer, &message);
                    });
                }
            }
        }
    }
}

/// The slice that a message between replicas is about.
fn slice_of(message: &Message) -> Option<SliceId> {
    match message {
        Message::Begin(it) => Some(it.slice),
        Message::Prepare(it) => Some(it.slice),
        Message::Prepared(it) => Some(it.slice),
        Message::Commit(it) => Some(it.slice),
        Message::Refused(it) => Some(it.slice),
        Message::Query(it) => Some(it.slice),
        Message::QueryReply(it) => Some(it.slice),
        Message::Resign(it) => Some(it.slice),
        Message::HandOver(it) => Some(it.slice),
        Message::JoinRequest(it) => Some(it.slice),
        Message::Copy(it) => Some(it.slice),
        Message::Copied(it) => Some(it.slice),
        Message::Holdings(it) => Some(it.slice),
        Message::Digest(it) => Some(it.slice),
        Message::Digests(it) => Some(it.slice),
        Message::Supply(it) => Some(it.slice),
        Message::Supplied(it) => Some(it.slice),
        Message::Reserve(it) => Some(it.slice),
        Message::Reserved(it) => Some(it.slice),
        Message::Heartbeat(_)
        | Message::PrepareHeld(_)
        | Message::Forward(_)
        | Message::Forwarded(_)
        | Message::Settle(_)
        | Message::EndTasks(_)
        | Message::TasksEnded(_)
        | Message::Fetch(_)
        | Message::Fetched(_)
        | Message::Verify(_)
        | Message::Verified(_)
        | Message::Correct(_)
        | Message::Vouch(_)
        | Message::Vouched(_)
        | Message::Camp(_)
        | Message::Enforce(_)
        | Message::Enforced(_)
        | Message::Space(_) => None,
    }
}
