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
//! - a node is disowned if more of the others follow another copy than the same metadata with it, itself included: they deny its
//!   bookmark, or it does not find theirs; where they are as many, if one of them has not come clearly later;
//! - who is disowned because it has come later, or by more than follow it, denies nobody; where as many follow each, and neither has come
//!   clearly later, both deny the other, so that neither goes on;
//! - who says in the metadata that it is not what it has followed (`cluster::denials`) counts like who denies the bookmark, wherever it is;
//! - silence says nothing, and takes nothing back: a node that reaches nobody goes on, and one that was disowned does not go on
//!   because those who said so are killed, or have forgotten.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Ordering;

use holdfast_model::NodeId;
use holdfast_model::record::Bookmark;
use holdfast_stdx::{Duration, Instant};
use holdfast_wire::{Message, Vouch, Vouched};

use crate::Astray;
use crate::engine::Engine;
use crate::event::LinkId;

/// The version of the protocol in which nodes ask.
const VOUCH_SINCE: u16 = 5;
/// Of two nodes whose bookmarks are as old as each other, but for this, neither has come later.
const SENIORITY: Duration = Duration::from_secs(60);
/// How long answers are waited for before those that came decide; and between two questions as long as not everybody has found
/// the bookmark.
const ROUND: Duration = Duration::from_secs(1);
/// Between two questions otherwise.
const PAUSE: Duration = Duration::from_secs(60);
/// The least that is told of how long the metadata was followed: nothing is told by those who do not go on.
const AGE_MIN: Duration = Duration::from_secs(1);

/// Whose bookmark is looked for, and over which link that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) peer: NodeId,
    pub(crate) link: LinkId,
}

/// What a peer has said of the newest bookmark.
#[derive(Clone, Copy, Debug)]
struct Said {
    is_there: bool,
    /// It goes on with what it has looked at.
    goes_on: bool,
    /// For how long it had followed that: the most that it has ever said.
    age: Duration,
    at: Instant,
}

impl Said {
    /// For how long it has followed that by now, as far as is known.
    fn age(&self, now: Instant) -> Duration {
        self.age + now.since(self.at)
    }
}

/// What those come to who follow the same metadata, and those who follow another copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    /// Those who follow the same, or one who was there before.
    Same,
    /// The others.
    Others(Astray),
    /// As many follow each, and neither has come clearly later.
    Undecided(Astray),
}

impl Weight {
    /// Why the metadata is not followed, if it is not.
    fn against(self) -> Option<Astray> {
        match self {
            Self::Same => None,
            Self::Others(why) | Self::Undecided(why) => Some(why),
        }
    }
}

/// What was asked, and what others have said.
#[derive(Debug, Default)]
pub(crate) struct Vouching {
    said: BTreeMap<NodeId, Said>,
    /// Whose bookmark this node has not found. They may have this node's from before they came to a copy.
    unknown: BTreeSet<NodeId>,
    /// Who says in the metadata that it is not what it has followed, and whether this node had followed it for long by then.
    denials: BTreeMap<NodeId, bool>,
    /// Who has yet to answer the newest question.
    open: BTreeSet<NodeId>,
    asked: Option<Instant>,
}

impl Vouching {
    /// Whether others follow the metadata, as that counts for a node whose bookmark is so old. If an operator has told it to go on, those
    /// who deny it and do not go on themselves do not count.
    fn weigh(&self, now: Instant, own: Duration, is_told_so: bool) -> Weight {
        let counts = |said: &Said| said.is_there || said.goes_on || !is_told_so;
        let said = self.said.iter();
        let said = said.filter(|(node, it)| !self.denials.contains_key(node) && counts(it));
        let (same, others): (Vec<_>, Vec<_>) =
            said.partition(|(node, said)| self.is_same(**node, said));
        let denied = self.denials.keys().next().copied().map(Astray::Denied);
        let first = others.first().map(|(node, _)| Astray::Disowned(**node));
        let Some(why) = denied.or(first) else {
            return Weight::Same;
        };
        let with = 1 + same.len();
        let against = self.denials.len() + others.len();
        // Those who follow the same are as old as the oldest of them.
        let same = same.iter().map(|(_, it)| it.age(now));
        let own = same.fold(own, Duration::max);
        let are_all_later = self.denials.values().all(|is_late| *is_late)
            && others.iter().all(|(_, it)| it.age(now) + SENIORITY < own);
        let is_later = self.denials.values().any(|is_late| !*is_late)
            || others.iter().any(|(_, it)| own + SENIORITY < it.age(now));
        match against.cmp(&with) {
            Ordering::Less => Weight::Same,
            Ordering::Equal if are_all_later => Weight::Same,
            Ordering::Equal if !is_later => Weight::Undecided(why),
            Ordering::Equal | Ordering::Greater => Weight::Others(why),
        }
    }

    /// A peer has looked for the newest bookmark.
    fn hear(&mut self, now: Instant, peer: NodeId, is_there: bool, age: Duration) {
        let mut said = Said {
            is_there,
            goes_on: !age.is_zero(),
            age,
            at: now,
        };
        let is_same = self.is_same(peer, &said);
        // That it has reached the metadata over another connection since, or does not go on, does not make it one that has come later.
        if let Some(before) = self.said.get(&peer)
            && self.is_same(peer, before) == is_same
        {
            said.age = said.age.max(before.age(now));
        }
        self.said.insert(peer, said);
        self.open.remove(&peer);
    }

    /// It was looked for a peer's newest bookmark.
    fn found(&mut self, now: Instant, peer: NodeId, is_there: bool) {
        let before = self.said.get(&peer).copied();
        let was_same = before.map(|said| self.is_same(peer, &said));
        match is_there {
            true => self.unknown.remove(&peer),
            false => self.unknown.insert(peer),
        };
        if let Some(mut said) = before
            && was_same != Some(self.is_same(peer, &said))
        {
            // How old it was is of what it had followed before that.
            (said.age, said.at) = (Duration::ZERO, now);
            self.said.insert(peer, said);
        }
    }

    /// Whether a node that has said this follows the same: each has found the other's bookmark.
    fn is_same(&self, node: NodeId, said: &Said) -> bool {
        said.is_there && !self.unknown.contains(&node)
    }

    /// Whether what is said in the metadata counts no more, of so many nodes: most of them follow it, or one of two had done so for long.
    fn overrules(&self, members: usize) -> bool {
        let said = self.said.iter();
        let with = 1 + said
            .filter(|(node, said)| self.is_same(**node, said))
            .count();
        let is_late = self.denials.values().all(|is_late| *is_late);
        2 * with > members || (members == 2 && is_late)
    }

    /// These say it in the metadata, which this node has followed for so long.
    fn hear_denials(&mut self, deniers: impl Iterator<Item = NodeId>, own: Duration) {
        let before = core::mem::take(&mut self.denials);
        let is_late = own > SENIORITY;
        let denials = deniers.map(|node| (node, before.get(&node).copied().unwrap_or(is_late)));
        self.denials = denials.collect();
    }

    /// When others are asked again.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let denied = self.said.values().any(|said| !said.is_there);
        let is_settled = self.open.is_empty() && !denied;
        let pause = if is_settled { PAUSE } else { ROUND };
        self.asked.map(|asked| asked + pause)
    }

    /// Who follows another copy of the metadata, as far as is known: by what they say, or because they are not found in this one.
    pub(crate) fn strangers(&self) -> BTreeSet<NodeId> {
        let deny = self.said.iter().filter(|(_, said)| !said.is_there);
        let deny = deny.map(|(node, _)| *node);
        deny.chain(self.unknown.iter().copied()).collect()
    }

    /// A link is gone: no answer comes.
    pub(crate) fn link_lost(&mut self, peer: NodeId) {
        self.open.remove(&peer);
    }
}

impl Engine {
    /// A bookmark was left, and what was read is believed.
    pub(crate) fn follows_anew(&mut self) {
        self.vouching.said.clear();
        self.vouching.unknown.clear();
        self.ask_all_to_vouch();
        self.decide_soon();
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

    /// Whether a peer denies this node's bookmark, as far as is known.
    fn is_denied_by(&self, peer: NodeId) -> bool {
        let said = self.vouching.said.get(&peer);
        said.is_some_and(|said| !said.is_there)
    }

    /// Asks again when that is due, and decides by what was said before.
    pub(crate) fn vouch_on(&mut self) {
        let now = self.world.now;
        for peer in self.world.peers.overdue(now) {
            if self.is_denied_by(peer) {
                self.world.peers.estrange(peer);
            } else {
                self.recognise(peer);
            }
        }
        if self.vouching.next_timeout().is_some_and(|due| due <= now) {
            let Self {
                vouching, world, ..
            } = self;
            let is_left = |node: &NodeId| world.cluster.nodes.contains_key(node);
            vouching.said.retain(|node, _| is_left(node));
            vouching.unknown.retain(is_left);
            vouching.open.clear();
            self.decide_by_what_was_said();
            self.ask_all_to_vouch();
        }
    }

    fn ask_all_to_vouch(&mut self) {
        self.vouching.asked = Some(self.world.now);
        for peer in self.world.peers.everybody() {
            self.ask_to_vouch(peer);
        }
    }

    /// Whether a node can be asked: it understands that, and there is a bookmark here.
    pub(crate) fn asks_to_vouch(&self, peer: NodeId) -> bool {
        let known = self.world.peers.peer(peer);
        known.is_some_and(|known| known.version >= VOUCH_SINCE)
            && self.world.cluster.bookmark(self.world.now).is_some()
    }

    /// Asks it.
    pub(crate) fn ask_to_vouch(&mut self, peer: NodeId) {
        let now = self.world.now;
        if let Some((bookmark, _)) = self.world.cluster.bookmark(now)
            && self.asks_to_vouch(peer)
        {
            self.vouching.open.insert(peer);
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
        if self.world.cluster.has_seen_bookmark(peer, vouch.bookmark) {
            self.looked_for_bookmark(asked, vouch, true);
        } else {
            self.world.cluster.look_for_bookmark(asked, vouch);
        }
    }

    /// It was looked for another node's bookmark in the metadata: it is known, or not, whether both follow the same.
    pub(crate) fn looked_for_bookmark(&mut self, asked: Asked, vouch: Vouch, is_there: bool) {
        let Asked { peer, link } = asked;
        if self.world.peers.link_of(peer) != Some(link) {
            return;
        }
        self.vouching.found(self.world.now, peer, is_there);
        if !is_there {
            self.world.peers.estrange(peer);
        }
        // Who denies this node has to find its bookmark first.
        if is_there && !self.is_denied_by(peer) {
            if self.world.peers.is_estranged(peer) {
                // What it has said before was not heard: both begin anew.
                self.world.peers.reset(peer);
                return;
            }
            self.recognise(peer);
        }
        let cluster = &self.world.cluster;
        let own = cluster.bookmark(self.world.now);
        let is_undecided = || matches!(self.weigh(false), Some(Weight::Undecided(_)));
        let denies = !cluster.is_astray() || (cluster.is_disowned() && is_undecided());
        if let Some((_, age)) = own
            && (is_there || denies)
        {
            let age = match cluster.is_disowned() {
                true => Duration::ZERO,
                false => age.max(AGE_MIN),
            };
            let bookmark = vouch.bookmark;
            let vouched = Vouched {
                bookmark,
                is_there,
                age,
            };
            self.world.peers.say(peer, Message::from(vouched));
        }
    }

    /// Another node has looked.
    pub(crate) fn handle_vouched(&mut self, peer: NodeId, vouched: Vouched) {
        let now = self.world.now;
        let own = self.world.cluster.bookmark(now);
        if own.is_none_or(|(own, _)| own != vouched.bookmark) {
            return;
        }
        let Vouched { is_there, age, .. } = vouched;
        if !is_there {
            self.world.peers.estrange(peer);
        }
        self.vouching.hear(now, peer, is_there, age);
        if is_there {
            self.look_at_stranger(peer);
        }
        if self.vouching.open.is_empty() {
            self.decide_by_what_was_said();
        }
    }

    /// Others have said something in the metadata, or it was reached anew. Who follows it for long goes on until those who were asked have
    /// answered; who has just come does nothing before.
    pub(crate) fn decide_soon(&mut self) {
        let is_new = self.world.cluster.followed_for(self.world.now) <= SENIORITY;
        if is_new || self.vouching.open.is_empty() {
            self.decide_by_what_was_said();
        }
    }

    /// What is known of who follows the metadata comes to this, if this node does, and if an operator has told it to go on or not.
    fn weigh(&self, is_told_so: bool) -> Option<Weight> {
        let now = self.world.now;
        let (_, age) = self.world.cluster.bookmark(now)?;
        Some(self.vouching.weigh(now, age, is_told_so))
    }

    fn decide_by_what_was_said(&mut self) {
        let now = self.world.now;
        let cluster = &self.world.cluster;
        self.vouching
            .hear_denials(cluster.deniers(), cluster.followed_for(now));
        let is_told_so = cluster.is_told_to_overrule();
        let weight = self.weigh(is_told_so);
        let is_needed = is_told_so && weight != self.weigh(false);
        let Self {
            vouching, world, ..
        } = self;
        let cluster = &mut world.cluster;
        cluster.disown(now, weight.and_then(Weight::against));
        if weight.is_some() && (is_told_so || vouching.overrules(cluster.member_count())) {
            cluster.overrule_denials();
        }
        if is_needed {
            cluster.has_overruled();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The first node has said this, and those after it.
    fn heard(said: &[(bool, Duration)]) -> Vouching {
        let mut vouching = Vouching::default();
        for ((is_there, age), node) in said.iter().zip(1..) {
            vouching.hear(Instant::ZERO, NodeId(node), *is_there, *age);
        }
        vouching
    }

    #[test]
    fn more_have_to_deny_it_than_follow_the_same() {
        let minute = Duration::from_secs(60);
        let at = Instant::ZERO;
        let disowned = |said: &[(bool, Duration)], own| heard(said).weigh(at, own, false).against();
        let (yes, no) = ((true, minute), (false, minute));
        let one = Some(Astray::Disowned(NodeId(1)));
        assert_eq!(disowned(&[], minute), None);
        assert_eq!(disowned(&[yes], minute), None);
        assert_eq!(disowned(&[yes, no], minute), None);
        assert_eq!(disowned(&[no, no], 99 * minute), one, "however old it is");
        assert_eq!(disowned(&[no, no, yes], minute), one);
        assert_eq!(disowned(&[no, no, yes, yes], minute), None);
        // As many: who has come later, or neither.
        assert_eq!(disowned(&[no], minute), one);
        assert_eq!(disowned(&[no], 2 * minute), one);
        assert_eq!(disowned(&[no], 3 * minute), None);
        assert_eq!(disowned(&[no, (false, 9 * minute), yes], 3 * minute), one);
        // Who has this node's bookmark from before it came to a copy, and another one since, follows the copy.
        let mut vouching = heard(&[yes, yes]);
        vouching.unknown.insert(NodeId(1));
        assert_eq!(vouching.weigh(at, minute, false).against(), None);
        vouching.unknown.insert(NodeId(2));
        assert_eq!(vouching.weigh(at, 9 * minute, false).against(), one);
    }

    #[test]
    fn as_many_on_each_side_are_told_apart_by_who_came_later() {
        let minute = Duration::from_secs(60);
        let at = |minutes: u32| Instant::ZERO + minutes * minute;
        let why = Astray::Disowned(NodeId(2));
        let mut vouching = Vouching::default();
        vouching.hear(at(0), NodeId(2), false, minute);
        assert_eq!(vouching.weigh(at(0), minute, false), Weight::Undecided(why));
        assert_eq!(
            vouching.weigh(at(0), 2 * minute, false),
            Weight::Undecided(why)
        );
        assert_eq!(vouching.weigh(at(0), 9 * minute, false), Weight::Same);
        assert_eq!(
            vouching.weigh(at(0), Duration::ZERO, false),
            Weight::Undecided(why)
        );
        vouching.hear(at(0), NodeId(2), false, 9 * minute);
        assert_eq!(vouching.weigh(at(0), minute, false), Weight::Others(why));
        // It says nothing any more, or has reached its copy over another connection: it has come no later for that.
        assert_eq!(
            vouching.weigh(at(99), 100 * minute, false),
            Weight::Others(why)
        );
        vouching.hear(at(99), NodeId(2), false, Duration::ZERO);
        assert_eq!(
            vouching.weigh(at(99), 100 * minute, false),
            Weight::Others(why)
        );
        // It has followed the same meanwhile.
        vouching.hear(at(99), NodeId(2), true, minute);
        vouching.hear(at(99), NodeId(2), false, minute);
        assert_eq!(vouching.weigh(at(99), 100 * minute, false), Weight::Same);
        vouching.hear(at(99), NodeId(3), false, 200 * minute);
        assert_eq!(
            vouching.weigh(at(99), 400 * minute, false),
            Weight::Others(why),
            "two to one"
        );
    }

    /// It has this node's bookmark from before it came to a copy, and was there for long before that.
    #[test]
    fn who_has_come_to_a_copy_is_as_old_as_that() {
        let minute = Duration::from_secs(60);
        let mut vouching = heard(&[(true, 9 * minute)]);
        let at = Instant::ZERO + minute;
        vouching.found(at, NodeId(1), false);
        assert_eq!(vouching.weigh(at, 2 * minute, false), Weight::Same);
        let undecided = Weight::Undecided(Astray::Disowned(NodeId(1)));
        assert_eq!(vouching.weigh(at, minute, false), undecided);
        // It does not go on, which it says from now on.
        let at = at + 9 * minute;
        vouching.hear(at, NodeId(1), true, Duration::ZERO);
        assert_eq!(vouching.weigh(at, 10 * minute, false), undecided);
        vouching.found(at, NodeId(1), true);
        assert_eq!(vouching.weigh(at, minute, false), Weight::Same);
    }

    /// However old each node's own connection is.
    #[test]
    fn those_who_follow_the_same_are_as_old_as_the_oldest_of_them() {
        let (at, second) = (Instant::ZERO, Duration::from_secs(1));
        let camp = |same: u32, others: [u32; 2], own: u32| {
            let said = [(true, same), (false, others[0]), (false, others[1])];
            let said = said.map(|(is_there, age)| (is_there, age * second));
            heard(&said).weigh(at, own * second, false)
        };
        let undecided = Weight::Undecided(Astray::Disowned(NodeId(2)));
        for (same, own) in [(130, 1), (1, 130)] {
            assert_eq!(camp(same, [130, 1], own), undecided);
            assert_eq!(camp(same, [1, 60], own), Weight::Same);
            let others = Weight::Others(Astray::Disowned(NodeId(2)));
            assert_eq!(camp(same, [1, 200], own), others);
        }
    }

    #[test]
    fn an_operator_overrules_those_who_deny_it_and_do_not_go_on() {
        let minute = Duration::from_secs(60);
        let weigh = |age| heard(&[(false, age)]).weigh(Instant::ZERO, minute, true);
        assert_eq!(weigh(Duration::ZERO), Weight::Same);
        let undecided = Weight::Undecided(Astray::Disowned(NodeId(1)));
        assert_eq!(weigh(minute), undecided);
    }

    #[test]
    fn who_says_in_the_metadata_that_it_is_another_one_counts_like_who_denies_the_bookmark() {
        let minute = Duration::from_secs(60);
        let disowned =
            |vouching: &Vouching, own| vouching.weigh(Instant::ZERO, own, false).against();
        let two = [NodeId(2)];
        let denied = Some(Astray::Denied(NodeId(2)));
        let mut vouching = Vouching::default();
        vouching.hear_denials(two.into_iter(), Duration::ZERO);
        assert_eq!(
            disowned(&vouching, Duration::ZERO),
            denied,
            "one against one"
        );
        // It was there when this node began; how long that has gone on makes no difference.
        vouching.hear_denials(two.into_iter(), 9 * minute);
        assert_eq!(disowned(&vouching, 9 * minute), denied);
        let zero = Duration::ZERO;
        vouching.hear(Instant::ZERO, NodeId(3), true, zero);
        assert_eq!(disowned(&vouching, minute), None, "two to one");
        vouching.hear(Instant::ZERO, NodeId(2), true, zero);
        assert_eq!(disowned(&vouching, minute), None);
        vouching.hear(Instant::ZERO, NodeId(3), false, zero);
        assert_eq!(disowned(&vouching, 9 * minute), denied);
        // It says so no more.
        vouching.said.clear();
        vouching.hear_denials([].into_iter(), minute);
        assert_eq!(disowned(&vouching, minute), None);
        // It comes to metadata that this one has followed for long.
        vouching.hear_denials(two.into_iter(), 2 * minute);
        assert_eq!(disowned(&vouching, 2 * minute), None);
        vouching.hear_denials([NodeId(2), NodeId(4)].into_iter(), 9 * minute);
        assert_eq!(
            disowned(&vouching, 9 * minute),
            denied,
            "more than follow it"
        );
    }
}
