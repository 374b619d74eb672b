//! Whether other nodes find this node's bookmark in the metadata that they follow.
//!
//! A node that was cut off from the metadata, and finds a copy of it that has gone on by itself, cannot tell. Those who go on with
//! the other one can: its bookmark is in the copy only. They tell it so, and it believes nothing of that copy: else it
//! might lead a slice in an epoch that means something else to everybody else.
//!
//! Nodes that follow two copies have nothing to say to each other: what one says of an epoch means something else to the other. So nothing is
//! heard of a node that has connected before it is known to follow the same (`peers`, `links`).
//!
//! Invariants:
//! - which of the two go on is decided (`camps`) whenever something is heard of the others, before anything else is done;
//! - whoever follows the metadata answers, also if it does not go on: that it does not, and why, is said with it;
//! - who was not found before is told so at once, and again when it was looked for;
//! - who says in the metadata that it is not what it has followed (`cluster::denials`) counts like who denies the bookmark, wherever it is;
//! - silence says nothing, and takes nothing back: a node that reaches nobody goes on, and one that was disowned does not go on
//!   because those who said so are killed, or have forgotten.

mod camps;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use holdfast_model::NodeId;
use holdfast_model::record::Bookmark;
use holdfast_stdx::{Duration, Instant};
use holdfast_wire::{Camp, Vouch, Vouched};

use camps::{Camps, Facts, Weight};

use crate::engine::Engine;
use crate::event::LinkId;

/// The version of the protocol in which nodes ask.
const VOUCH_SINCE: u16 = 5;
/// The one in which they say who follows the same with them.
const CAMP_SINCE: u16 = 6;
/// Between two questions as long as not everybody has found the bookmark, or answered.
const ROUND: Duration = Duration::from_secs(1);
/// Between two questions otherwise.
const PAUSE: Duration = Duration::from_secs(60);
/// The least that is told of how long the metadata was gone on with: nothing, where version 5 is spoken, is told by those who do not.
const AGE_MIN: Duration = Duration::from_secs(1);

/// Whose bookmark is looked for, and over which link that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) peer: NodeId,
    pub(crate) link: LinkId,
}

/// What was asked, and what is known.
#[derive(Debug, Default)]
pub(crate) struct Vouching {
    camps: Camps,
    /// What others were told last of those who follow the same.
    told: Option<Camp>,
    /// For how long this node has not gone on with what it follows, over this connection, but for the time since it does not.
    stood: Duration,
    /// Since when it does not.
    stands: Option<Instant>,
    /// Who has yet to answer the newest question, and when that was asked.
    open: BTreeMap<NodeId, Instant>,
    /// What others have asked for last, over the links that there are.
    asked_for: BTreeMap<NodeId, Bookmark>,
    asked: Option<Instant>,
}

impl Vouching {
    /// When others are asked again.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let is_settled = self.open.is_empty() && self.camps.others().next().is_none();
        let pause = if is_settled { PAUSE } else { ROUND };
        self.asked.map(|asked| asked + pause)
    }

    /// For how long this node has not gone on with what it follows, over this connection.
    fn stood(&self, now: Instant) -> Duration {
        let stands = self.stands.map_or(Duration::ZERO, |since| now.since(since));
        self.stood + stands
    }

    /// Whether somebody may still answer what was just asked.
    fn awaits(&self, now: Instant) -> bool {
        let mut asked = self.open.values();
        asked.any(|asked| now.since(*asked) < ROUND)
    }

    /// Who follows another copy of the metadata, as far as is known: by what they say, or because they are not found in this one.
    pub(crate) fn strangers(&self) -> Vec<NodeId> {
        self.camps.others().collect()
    }
}

impl Engine {
    /// A bookmark was left, and what was read is believed.
    pub(crate) fn follows_anew(&mut self) {
        self.vouching.camps.begin_anew(self.world.now);
        (self.vouching.stood, self.vouching.stands) = (Duration::ZERO, None);
        self.ask_all_to_vouch();
        self.decide();
        for peer in self.world.peers.everybody() {
            self.look_at_stranger(peer);
        }
    }

    /// More is known of the metadata than when a stranger asked, or the stranger has found this node's bookmark.
    pub(crate) fn look_at_stranger(&mut self, peer: NodeId) {
        if let Some(vouch) = self.world.peers.asked_by_stranger(peer) {
            self.handle_vouch(peer, vouch);
        }
    }

    /// A link is gone, a stranger's or not.
    pub(crate) fn vouching_link_lost(&mut self, peer: NodeId) {
        self.vouching.open.remove(&peer);
        self.vouching.asked_for.remove(&peer);
        self.vouching.camps.link_lost(peer);
        self.decide();
    }

    /// Asks again when that is due.
    pub(crate) fn vouch_on(&mut self) {
        let now = self.world.now;
        for peer in self.world.peers.overdue(now) {
            if self.vouching.camps.is_other(peer) {
                self.world.peers.estrange(peer);
            } else {
                self.recognise(peer);
            }
        }
        if self.vouching.next_timeout().is_some_and(|due| due <= now) {
            let Self {
                vouching, world, ..
            } = self;
            let nodes = &world.cluster.nodes;
            vouching.camps.retain(|node| nodes.contains_key(&node));
            vouching.open.retain(|_, asked| now.since(*asked) < ROUND);
            if world.cluster.bookmark(now).is_none() {
                // Nobody can say anything of what this node has not left anything in.
                world.cluster.disown(now, None);
            }
            self.decide();
            self.ask_all_to_vouch();
        }
    }

    fn ask_all_to_vouch(&mut self) {
        self.vouching.asked = Some(self.world.now);
        for peer in self.world.peers.everybody() {
            self.ask_to_vouch(peer);
        }
    }

    fn speaks(&self, peer: NodeId, version: u16) -> bool {
        let known = self.world.peers.peer(peer);
        known.is_some_and(|known| known.version >= version)
    }

    /// Whether a node can be asked: it understands that, and there is a bookmark here.
    pub(crate) fn asks_to_vouch(&self, peer: NodeId) -> bool {
        self.speaks(peer, VOUCH_SINCE) && self.world.cluster.bookmark(self.world.now).is_some()
    }

    /// Asks it.
    pub(crate) fn ask_to_vouch(&mut self, peer: NodeId) {
        let now = self.world.now;
        if let Some((bookmark, _)) = self.world.cluster.bookmark(now)
            && self.asks_to_vouch(peer)
        {
            self.vouching.open.entry(peer).or_insert(now);
            self.vouching.asked.get_or_insert(now);
            self.world.peers.say(peer, Vouch { bookmark }.into());
        }
    }

    /// Another node asks.
    pub(crate) fn handle_vouch(&mut self, peer: NodeId, vouch: Vouch) {
        let Some(link) = self.world.peers.link_of(peer) else {
            return;
        };
        let asked = Asked { peer, link };
        self.world.peers.stranger_asks(peer, vouch);
        let before = self.vouching.asked_for.insert(peer, vouch.bookmark);
        if before.is_some_and(|before| before != vouch.bookmark) {
            // It has yet to look for this node's bookmark in what it has reached.
            self.vouching.camps.reached_anew(self.world.now, peer);
            self.ask_to_vouch(peer);
        }
        if self.world.cluster.has_seen_bookmark(peer, vouch.bookmark) {
            self.looked_for_bookmark(asked, vouch, true);
            return;
        }
        if self.vouching.camps.is_missing(peer) {
            // The metadata may not answer for long, and nobody else deny it meanwhile.
            self.say_whether(peer, vouch, false);
        }
        self.vouching.camps.looks(self.world.now, peer);
        self.world.cluster.look_for_bookmark(asked, vouch);
    }

    /// It was looked for another node's bookmark in the metadata: it is known, or not, whether both follow the same.
    pub(crate) fn looked_for_bookmark(&mut self, asked: Asked, vouch: Vouch, is_there: bool) {
        let Asked { peer, link } = asked;
        if self.world.peers.link_of(peer) != Some(link) {
            return;
        }
        let has_changed = self.vouching.camps.found(self.world.now, peer, is_there);
        self.heard(peer, has_changed);
        if !is_there {
            self.world.peers.estrange(peer);
        }
        // Who denies this node has to find its bookmark first.
        if is_there && !self.vouching.camps.is_denied_by(peer) {
            if self.world.peers.is_estranged(peer) {
                // What it has said before was not heard: both begin anew.
                self.world.peers.reset(peer);
                self.vouching_link_lost(peer);
                return;
            }
            self.recognise(peer);
        }
        self.say_whether(peer, vouch, is_there);
    }

    /// Says whether a bookmark is there, unless this node follows nothing in which it could be.
    fn say_whether(&mut self, peer: NodeId, vouch: Vouch, is_there: bool) {
        let now = self.world.now;
        let cluster = &self.world.cluster;
        if cluster.bookmark(now).is_none() || (cluster.is_astray() && !cluster.is_disowned()) {
            return;
        }
        let speaks = self.speaks(peer, CAMP_SINCE);
        let age = match cluster.is_disowned() && !speaks {
            true => Duration::ZERO,
            false => {
                let age = self.vouching.camps.age_against(&self.facts(), peer);
                age.max(AGE_MIN)
            }
        };
        self.say_camp(peer);
        let bookmark = vouch.bookmark;
        let vouched = Vouched {
            bookmark,
            is_there,
            age,
        };
        self.world.peers.say(peer, vouched.into());
    }

    /// Another node has looked.
    pub(crate) fn handle_vouched(&mut self, peer: NodeId, vouched: Vouched) {
        let now = self.world.now;
        let own = self.world.cluster.bookmark(now);
        if own.is_none_or(|(own, _)| own != vouched.bookmark) {
            return;
        }
        let Vouched { is_there, age, .. } = vouched;
        self.vouching.open.remove(&peer);
        let has_changed = self.vouching.camps.hear(now, peer, is_there, age);
        self.heard(peer, has_changed);
        if is_there {
            self.look_at_stranger(peer);
        } else {
            self.world.peers.estrange(peer);
        }
    }

    /// Something is known of a peer that was not before. What it said of its camp counts no more if it is on another side by that: the answer to a
    /// question has it again.
    fn heard(&mut self, peer: NodeId, has_changed: bool) {
        if has_changed {
            self.ask_to_vouch(peer);
        }
        self.decide();
    }

    /// Another node says who follows the same with it.
    pub(crate) fn handle_camp(&mut self, peer: NodeId, camp: Camp) {
        self.vouching.camps.hear_camp(self.world.now, peer, camp);
        self.decide();
    }

    fn say_camp(&mut self, peer: NodeId) {
        if let Some(camp) = self.vouching.told
            && self.speaks(peer, CAMP_SINCE)
        {
            let counts_receiver = self.vouching.camps.is_same(self.world.now, peer);
            let camp = Camp {
                counts_receiver,
                ..camp
            };
            self.world.peers.say(peer, camp.into());
        }
    }

    /// What counts beside what others have said.
    fn facts(&self) -> Facts {
        let now = self.world.now;
        let cluster = &self.world.cluster;
        let age = cluster.bookmark(now).map_or(Duration::ZERO, |(_, age)| age);
        Facts {
            now,
            own: cluster.own_node(),
            age: age.saturating_sub(self.vouching.stood(now)),
            followed: cluster.followed_for(now),
            members: cluster.member_count(),
            is_told: cluster.is_told_to_overrule(),
            awaits: self.vouching.awaits(now),
        }
    }

    /// Something is known of others that was not before, or has been said in the metadata.
    pub(crate) fn decide(&mut self) {
        let now = self.world.now;
        if self.world.cluster.bookmark(now).is_none() {
            return;
        }
        let facts = self.facts();
        let Self {
            vouching, world, ..
        } = self;
        let cluster = &mut world.cluster;
        let camps = &mut vouching.camps;
        camps.hear_denials(now, cluster.deniers());
        let judgement = camps.judge(&facts);
        cluster.disown(now, judgement.weight.against());
        if cluster.is_disowned() {
            vouching.stands.get_or_insert(now);
        } else if let Some(since) = vouching.stands.take() {
            vouching.stood += now.since(since);
        }
        if judgement.weight == Weight::Same && (facts.is_told || camps.overrules(&facts)) {
            cluster.overrule_denials();
        }
        if judgement.is_by_word {
            cluster.has_overruled();
        }
        let camp = Some(judgement.camp(facts.is_told));
        if self.vouching.told != camp {
            self.vouching.told = camp;
            for peer in self.world.peers.everybody() {
                self.say_camp(peer);
            }
        }
        if self.refuses_hosts() {
            // Nobody takes what they send; and of what it would acknowledge alone nobody else would know.
            self.portal.drop_all(now, &self.volumes);
        }
    }

    /// Whether hosts are to go to other nodes: others do not hear this one, or it is no part of the cluster.
    pub(crate) fn refuses_hosts(&self) -> bool {
        !self.belongs() || self.world.cluster.is_disowned()
    }
}

/// Whether a bookmark that is found shows that another one was left in the same metadata.
pub(crate) fn shows(found: Bookmark, asked: Bookmark) -> bool {
    found.use_id == asked.use_id && found.number >= asked.number
}
