//! Who follows the same metadata as this node and who follows another copy, and which of the two are to go on.
//!
//! It refuses to ask, and to act on what it finds.
//!
//! Invariants:
//! - those who are known to follow the same are a camp; where nobody is known to follow another copy all go on, however few they are;
//! - else they go on only if they are more than those on the other side may be, or as many and were clearly there before, or an operator says
//!   so: whatever each hears of the others, two camps do not both find that;
//! - who is on this side counts as long as the link is up over which that was found; who is on the other side stays there, wherever it is,
//!   until both have found the other's bookmark again;
//! - how many there may be on the other side is what they say while their links are up, and else everybody who is not known to be on this
//!   one;
//! - who gives way to a side does so until it follows the same, or an operator says otherwise.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Ordering;

use holdfast_model::NodeId;
use holdfast_stdx::{Duration, Instant};
use holdfast_wire::{Camp, Stance};

use crate::Astray;

/// Of two camps whose times differ by less neither has come later.
const SENIORITY: Duration = Duration::from_secs(60);
/// For how long what was known of a node goes on to count while it is looked for something newer of it.
const LOOKS_WITHIN: Duration = Duration::from_secs(1);

/// On which side another node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Same,
    Other,
}

/// What is known of another node.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Whether it finds this node's newest bookmark, as it has said last.
    finds: Option<bool>,
    /// Whether this node has found its newest bookmark.
    is_found: Option<bool>,
    /// Since when it is looked for one.
    looked_for: Option<Instant>,
    /// For how long its camp had gone on with what it follows, at most, and when that was.
    age: Duration,
    at: Instant,
    /// For how long this side had gone on with what it follows when that was reached anew, if this one was on the other side by then: it
    /// is the same, as far as that one is concerned, or a copy of it.
    ours: Duration,
    /// It does not go on with it, as it has said last.
    stands: bool,
    /// On which side it was known to be last.
    side: Option<Side>,
    /// It goes on with what it follows, as it has said over this link.
    goes_on: bool,
    /// What it says of its camp over this link.
    camp: Option<Camp>,
    /// It gives way to this side, as it has said over this link.
    gives_way: bool,
}

impl Known {
    fn new(now: Instant) -> Self {
        Self {
            finds: None,
            is_found: None,
            looked_for: None,
            age: Duration::ZERO,
            at: now,
            ours: Duration::ZERO,
            stands: false,
            side: None,
            goes_on: false,
            camp: None,
            gives_way: false,
        }
    }

    /// It follows another copy.
    fn is_other(&self) -> bool {
        self.finds == Some(false) || self.is_found == Some(false)
    }

    /// Where it is, if that is certain.
    fn side(&self, now: Instant) -> Option<Side> {
        let is_fresh = |since: Instant| now.since(since) < LOOKS_WITHIN;
        match (self.finds, self.is_found) {
            _ if self.is_other() => Some(Side::Other),
            (Some(true), Some(true)) if self.looked_for.is_none_or(is_fresh) => Some(Side::Same),
            _ => None,
        }
    }

    /// For how long what it follows has been gone on with by now, as far as is known.
    fn age(&self, now: Instant) -> Duration {
        match self.stands {
            true => self.age,
            false => self.age + now.since(self.at),
        }
    }

    /// What it makes of the others.
    fn stance(&self) -> Option<Stance> {
        self.camp.map(|camp| camp.stance)
    }

    /// It goes on from now on, or does not.
    fn see_going_on(&mut self, now: Instant, goes_on: bool) {
        (self.age, self.at) = (self.age(now), now);
        (self.goes_on, self.stands) = (goes_on, !goes_on);
    }

    /// What it has said is of what it, or this node, has followed before.
    fn forget(&mut self, now: Instant) {
        (self.age, self.at) = (Duration::ZERO, now);
        self.ours = Duration::ZERO;
        (self.goes_on, self.stands) = (false, false);
        (self.camp, self.gives_way) = (None, false);
    }

    /// Whether it is on another side than it was before, once that is certain.
    fn has_changed_side(&mut self, now: Instant) -> bool {
        let side = self.side(now);
        let before = self.side;
        self.side = side.or(before);
        side.is_some() && before.is_some_and(|before| side != Some(before))
    }
}

/// What else counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) now: Instant,
    /// This node, once it is registered.
    pub(super) own: Option<NodeId>,
    /// For how long it has gone on with the metadata, over this connection.
    pub(super) age: Duration,
    /// For how long it has followed it, over whichever connections.
    pub(super) followed: Duration,
    /// Nodes that are part of the cluster, this one included.
    pub(super) members: usize,
    /// An operator has told it to go on.
    pub(super) is_told: bool,
    /// Others have yet to answer what was just asked.
    pub(super) awaits: bool,
}

/// Which side is to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// This one.
    Same,
    /// The other one, or a node says in the metadata that it is not what it has followed.
    Others(Astray),
    /// It cannot be told.
    Undecided(Astray),
}

impl Weight {
    /// Why the metadata is not followed, if it is not.
    pub(super) fn against(self) -> Option<Astray> {
        match self {
            Self::Same => None,
            Self::Others(why) | Self::Undecided(why) => Some(why),
        }
    }
}

/// What comes of all that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Judgement {
    /// By what this node has heard itself.
    direct: Weight,
    /// And by what others on its side have heard.
    pub(super) weight: Weight,
    /// It goes on because an operator has told it to, and would not otherwise.
    pub(super) is_by_word: bool,
    /// Who is on this side, this node included.
    followers: usize,
    rival: Option<NodeId>,
}

impl Judgement {
    /// What others are told, of whom some are counted.
    pub(super) fn camp(&self, is_told: bool) -> Camp {
        let stance = match self.direct {
            Weight::Same if is_told && self.rival.is_some() => Stance::Told,
            Weight::Same => Stance::Sure,
            Weight::Others(Astray::Disowned(_)) => Stance::Yields,
            Weight::Others(_) | Weight::Undecided(_) => Stance::Undecided,
        };
        Camp {
            followers: u16::try_from(self.followers).unwrap_or(u16::MAX),
            counts_receiver: false,
            goes_on: self.weight == Weight::Same,
            stance,
            rival: self.rival,
        }
    }
}

/// All that is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Camps {
    known: BTreeMap<NodeId, Known>,
    /// Who says in the metadata that it is not what it has followed, and since when that is known here.
    denials: BTreeMap<NodeId, Instant>,
    /// To whom this node has given way.
    yielded: BTreeSet<NodeId>,
    /// For how long this side had gone on with what it follows when that was judged last.
    lasted: Duration,
}

impl Camps {
    fn known(&mut self, now: Instant, peer: NodeId) -> &mut Known {
        self.known.entry(peer).or_insert_with(|| Known::new(now))
    }

    /// A peer has looked for the newest bookmark, in what was followed for so long; for no time if it does not go on. Whether it has changed
    /// sides: then it has to say again who is with it.
    pub(super) fn hear(&mut self, now: Instant, peer: NodeId, finds: bool, age: Duration) -> bool {
        let known = self.known(now, peer);
        known.finds = Some(finds);
        let has_changed = known.has_changed_side(now);
        if has_changed {
            known.forget(now);
        }
        if known.camp.is_none() {
            known.see_going_on(now, !age.is_zero());
        }
        // That it has reached the same over another connection since makes it no younger.
        (known.age, known.at) = (known.age(now).max(age), now);
        self.settle(now, peer);
        has_changed
    }

    /// It is looked for a peer's bookmark.
    pub(super) fn looks(&mut self, now: Instant, peer: NodeId) {
        let known = self.known(now, peer);
        known.looked_for.get_or_insert(now);
    }

    /// A peer has reached what it follows over another connection: that may be another copy, which was not gone on with for as long.
    pub(super) fn reached_anew(&mut self, now: Instant, peer: NodeId) {
        let known = self.known(now, peer);
        if !known.is_other() {
            (known.age, known.at) = (Duration::ZERO, now);
        }
    }

    /// It was. Whether the peer has changed sides.
    pub(super) fn found(&mut self, now: Instant, peer: NodeId, is_found: bool) -> bool {
        let known = self.known(now, peer);
        (known.is_found, known.looked_for) = (Some(is_found), None);
        let has_changed = known.has_changed_side(now);
        if has_changed {
            known.forget(now);
        }
        self.settle(now, peer);
        has_changed
    }

    /// Nobody gives way to one who follows the same.
    fn settle(&mut self, now: Instant, peer: NodeId) {
        if self.is_same(now, peer) {
            self.yielded.remove(&peer);
        }
    }

    /// A peer says this of its camp.
    pub(super) fn hear_camp(&mut self, now: Instant, peer: NodeId, camp: Camp) {
        let known = self.known(now, peer);
        known.camp = Some(camp);
        // Who has given way, and has come to this side since, is not known to be on it until it has answered.
        known.gives_way &= camp.counts_receiver;
        known.gives_way |= camp.stance == Stance::Yields;
        known.see_going_on(now, camp.goes_on);
    }

    /// A link is gone. Who is on the other side stays there.
    pub(super) fn link_lost(&mut self, peer: NodeId) {
        if let Some(known) = self.known.get_mut(&peer) {
            known.finds = known.finds.filter(|finds| !finds);
            known.is_found = known.is_found.filter(|is_found| !is_found);
            (known.looked_for, known.camp) = (None, None);
            (known.goes_on, known.gives_way) = (false, false);
        }
    }

    /// The metadata was reached over another connection: it may be another copy than the one before.
    pub(super) fn begin_anew(&mut self, now: Instant) {
        for known in self.known.values_mut() {
            known.finds = known.finds.filter(|finds| !finds);
            known.is_found = known.is_found.filter(|is_found| !is_found);
            known.looked_for = None;
            if known.is_other() {
                known.ours = known.ours.max(self.lasted);
            } else {
                (known.side, known.age, known.at) = (None, Duration::ZERO, now);
                known.ours = Duration::ZERO;
            }
        }
        self.lasted = Duration::ZERO;
    }

    /// These say it in the metadata.
    pub(super) fn hear_denials(&mut self, now: Instant, deniers: impl Iterator<Item = NodeId>) {
        let before = core::mem::take(&mut self.denials);
        let denials = deniers.map(|node| (node, before.get(&node).copied().unwrap_or(now)));
        self.denials = denials.collect();
    }

    /// Only these are part of the cluster, or might be.
    pub(super) fn retain(&mut self, is_left: impl Fn(NodeId) -> bool) {
        self.known.retain(|node, _| is_left(*node));
        self.yielded.retain(|node| is_left(*node));
    }

    /// Whether a peer follows another copy, as far as is known.
    pub(super) fn is_other(&self, peer: NodeId) -> bool {
        self.known.get(&peer).is_some_and(Known::is_other)
    }

    /// Whether a peer is known to follow the same.
    pub(super) fn is_same(&self, now: Instant, peer: NodeId) -> bool {
        let known = self.known.get(&peer);
        known.and_then(|known| known.side(now)) == Some(Side::Same)
    }

    /// Whether a peer denies this node's bookmark, as it has said last.
    pub(super) fn is_denied_by(&self, peer: NodeId) -> bool {
        let known = self.known.get(&peer);
        known.is_some_and(|known| known.finds == Some(false))
    }

    /// Whether a peer's bookmark was looked for in vain.
    pub(super) fn is_missing(&self, peer: NodeId) -> bool {
        let known = self.known.get(&peer);
        known.is_some_and(|known| known.is_found == Some(false))
    }

    /// Who follows another copy.
    pub(super) fn others(&self) -> impl Iterator<Item = NodeId> {
        let others = self.known.iter().filter(|(_, known)| known.is_other());
        others.map(|(node, _)| *node)
    }

    /// Those on one side, but for whoever says so in the metadata.
    fn on(&self, side: Side, now: Instant) -> impl Iterator<Item = (NodeId, &Known)> + Clone {
        let known = self.known.iter().map(|(node, known)| (*node, known));
        known.filter(move |(node, known)| {
            known.side(now) == Some(side) && !self.denials.contains_key(node)
        })
    }

    /// How many are known to be on this side, this node included.
    fn followers(&self, now: Instant) -> usize {
        1 + self.on(Side::Same, now).count()
    }

    /// For how long what this node follows was gone on with, by whoever does: all who follow the same are as old as the oldest of them.
    pub(super) fn age(&self, facts: &Facts) -> Duration {
        let same = self.on(Side::Same, facts.now);
        let ages = same.map(|(_, known)| known.age(facts.now));
        ages.fold(facts.age, Duration::max)
    }

    /// The same, as it counts against a peer.
    pub(super) fn age_against(&self, facts: &Facts, peer: NodeId) -> Duration {
        let known = self.known.get(&peer);
        // Once its bookmark is there, what is followed is its copy, or will be known to be the same.
        let known = known.filter(|known| known.is_found == Some(false));
        let ours = known.map_or(Duration::ZERO, |known| known.ours);
        self.age(facts).max(ours)
    }

    /// Whether all denials have come to metadata that had been followed for long.
    fn are_late(&self, facts: &Facts) -> bool {
        let age = self.age(facts).max(facts.followed);
        let mut since = self.denials.values();
        since.all(|since| facts.now.since(*since) + SENIORITY < age)
    }

    /// Whether what is said in the metadata counts no more: most nodes follow it, or half of them do that had done so for long.
    pub(super) fn overrules(&self, facts: &Facts) -> bool {
        let with = self.followers(facts.now);
        match (2 * with).cmp(&facts.members) {
            Ordering::Less => false,
            Ordering::Equal => self.are_late(facts),
            Ordering::Greater => true,
        }
    }

    /// What comes of it. Who is given way to is remembered.
    pub(super) fn judge(&mut self, facts: &Facts) -> Judgement {
        let now = facts.now;
        let untold = Facts {
            is_told: false,
            ..*facts
        };
        let is_needed = facts.is_told && self.clone().judge_directly(&untold) != Weight::Same;
        let mut direct = self.judge_directly(facts);
        // That it was reached anew may be known before that is done which follows from it.
        self.lasted = self.lasted.max(self.age(facts));
        let followers = self.followers(now);
        let rival = self.on(Side::Other, now).next().map(|(node, _)| node);
        let mut weight = direct;
        if self.told_by(facts).is_none() {
            let (yielding, yields) = self.fellows_that(Stance::Yields, now);
            let (_, unsure) = self.fellows_that(Stance::Undecided, now);
            let are_most = |followers: usize| 2 * followers > facts.members;
            let yields = yields.filter(|_| !are_most(followers - yielding));
            let unsure = unsure.filter(|_| !are_most(followers));
            // Whoever gives way takes along those on its side, unless they are most without it.
            if let (Some(rival), Some(_)) = (rival, yields) {
                let why = Astray::Disowned(rival);
                direct = if facts.awaits {
                    Weight::Undecided(why)
                } else {
                    let others: Vec<_> = self.others().collect();
                    self.yielded.extend(others);
                    Weight::Others(why)
                };
                weight = direct;
            }
            // Whom one on this side hears is on the other side for all: more of them may be there than are known here.
            if let (Weight::Same, Some((node, camp))) = (direct, yields.or(unsure)) {
                weight = Weight::Undecided(Astray::Disowned(camp.rival.unwrap_or(node)));
            }
        }
        Judgement {
            direct,
            weight,
            is_by_word: is_needed && weight == Weight::Same,
            followers,
            rival,
        }
    }

    /// How many on this side make this of the others, and know who is on their side; and one of them.
    fn fellows_that(&self, stance: Stance, now: Instant) -> (usize, Option<(NodeId, Camp)>) {
        let same = self.on(Side::Same, now);
        let camps = same.filter_map(|(node, known)| Some((node, known.camp?)));
        let mut camps = camps.filter(|(_, camp)| camp.counts_receiver && camp.stance == stance);
        (camps.clone().count(), camps.next())
    }

    /// The lowest node on this side that an operator has told to go on.
    fn told_by(&self, facts: &Facts) -> Option<NodeId> {
        let same = self.on(Side::Same, facts.now);
        let told = same.filter(|(_, known)| known.stance() == Some(Stance::Told));
        let told = told.map(|(node, _)| node).min();
        let own = facts.own.filter(|_| facts.is_told);
        told.into_iter().chain(own).min()
    }

    /// By what this node has heard itself.
    fn judge_directly(&mut self, facts: &Facts) -> Weight {
        let now = facts.now;
        let denied = self.denials.keys().next().copied().map(Astray::Denied);
        let first = self.on(Side::Other, now).next();
        let first = first.map(|(node, _)| Astray::Disowned(node));
        let Some(why) = denied.or(first) else {
            return Weight::Same;
        };
        if let Some(weight) = self.judge_by_word(facts) {
            return weight;
        }
        let with = self.followers(now);
        if 2 * with > facts.members {
            return Weight::Same;
        }
        if let Some(weight) = self.give_way(facts) {
            return weight;
        }
        match with.cmp(&self.against(facts, with)) {
            Ordering::Less if self.all_give_way(now) => Weight::Same,
            Ordering::Equal if self.are_all_later(facts) => Weight::Same,
            Ordering::Less | Ordering::Equal if self.are_late(facts) => Weight::Undecided(why),
            Ordering::Less | Ordering::Equal => Weight::Others(why),
            Ordering::Greater => Weight::Same,
        }
    }

    /// How many there may be against so many on this side.
    fn against(&self, facts: &Facts, with: usize) -> usize {
        let others = self.on(Side::Other, facts.now);
        let denials = self.denials.len();
        // Whoever is not heard may have been joined by everybody who is not here.
        let left = facts.members.saturating_sub(with + denials);
        let (count, camps) = others.fold((0, 0), |(count, camps), (_, known)| {
            let camp = known
                .camp
                .map_or(left, |camp| usize::from(camp.followers).min(left));
            (count + 1, camps.max(camp))
        });
        denials + camps.max(count)
    }

    /// Whether everybody on the other side gives way, and says that nobody else is there.
    fn all_give_way(&self, now: Instant) -> bool {
        let mut others = self.on(Side::Other, now);
        let count = self.on(Side::Other, now).count();
        self.denials.is_empty()
            && others.all(|(_, known)| {
                let is_all =
                    |camp: Camp| camp.counts_receiver || usize::from(camp.followers) <= count;
                known.gives_way && known.camp.is_some_and(is_all)
            })
    }

    /// What operators have said, and to whom was given way before, if that decides.
    fn judge_by_word(&mut self, facts: &Facts) -> Option<Weight> {
        let others = self.on(Side::Other, facts.now);
        let going_on = others.filter(|(_, known)| known.goes_on);
        let stances = going_on.map(|(node, known)| (node, known.stance()));
        let rivals: Vec<_> = stances.collect();
        let mut told = rivals
            .iter()
            .filter(|(_, stance)| *stance == Some(Stance::Told));
        let rival = told.next().map(|(node, _)| *node);
        let own = self.told_by(facts);
        let wins = match (own, rival) {
            (Some(own), Some(rival)) => own < rival,
            (Some(_), None) => rivals.is_empty(),
            (None, _) => false,
        };
        if wins {
            self.yielded.clear();
            return Some(Weight::Same);
        }
        self.yielded.extend(rival);
        // What they have done since is not known here, however many there are by now.
        let mut yielded = self.yielded.iter();
        let yielded = yielded.find(|node| self.is_other(**node));
        yielded.map(|node| Weight::Others(Astray::Disowned(*node)))
    }

    /// Who has come later gives way, also those who are not most.
    fn give_way(&mut self, facts: &Facts) -> Option<Weight> {
        let others = self.on(Side::Other, facts.now);
        // Where one gives way the others on its side will.
        if others.clone().any(|(_, known)| known.gives_way) {
            return None;
        }
        let are_most = 2 * others.clone().count() > facts.members;
        // Who does not go on does nothing that would be lost.
        let is_older = |node: NodeId, known: &Known| {
            let age = self.age_against(facts, node);
            age + SENIORITY < known.age(facts.now) && !known.stands
        };
        let before = others.filter(|(node, known)| are_most || is_older(*node, known));
        let mut before: BTreeSet<_> = before.map(|(node, _)| node).collect();
        let why = Astray::Disowned(before.first().copied()?);
        if facts.awaits && !are_most {
            // They may say that this side was there before, or is more than half of all.
            return Some(Weight::Undecided(why));
        }
        self.yielded.append(&mut before);
        Some(Weight::Others(why))
    }

    /// Whether all have come later, or give way.
    fn are_all_later(&self, facts: &Facts) -> bool {
        let is_later = |node: NodeId, known: &Known| {
            known.age(facts.now) + SENIORITY < self.age_against(facts, node)
        };
        let mut others = self.on(Side::Other, facts.now);
        others.all(|(node, known)| known.gives_way || is_later(node, known)) && self.are_late(facts)
    }
}

#[cfg(test)]
#[path = "camps_tests.rs"]
mod tests;
