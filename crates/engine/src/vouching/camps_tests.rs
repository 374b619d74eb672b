use alloc::vec;

use holdfast_stdx::Prng;

use super::*;

const OWN: NodeId = NodeId(9);
const MINUTE: Duration = Duration::from_secs(60);
const ONE: Astray = Astray::Disowned(NodeId(1));

fn facts(now: Instant, age: Duration, members: usize) -> Facts {
    Facts {
        now,
        own: Some(OWN),
        age,
        followed: age,
        members,
        is_told: false,
        awaits: false,
    }
}

fn camp(followers: u16, stance: Stance) -> Camp {
    Camp {
        followers,
        counts_receiver: true,
        goes_on: matches!(stance, Stance::Sure | Stance::Told),
        stance,
        rival: None,
    }
}

/// The first node has said this, and those after it, of this node's bookmark; theirs were found, or not, as they have. All are linked.
fn heard(said: &[(bool, Duration)]) -> Camps {
    let mut camps = Camps::default();
    let others = said.iter().filter(|(is_there, _)| !is_there).count();
    for ((is_there, age), node) in said.iter().zip(1..) {
        let node = NodeId(node);
        let followers = if *is_there {
            said.len() - others + 1
        } else {
            others
        };
        let followers = u16::try_from(followers).unwrap();
        camps.hear_camp(Instant::ZERO, node, camp(followers, Stance::Sure));
        camps.found(Instant::ZERO, node, *is_there);
        camps.hear(Instant::ZERO, node, *is_there, *age);
    }
    camps
}

/// What a node makes of that which has followed the metadata for so long, of as many as have said something, and itself.
fn weigh(said: &[(bool, Duration)], age: Duration) -> Weight {
    heard(said)
        .judge(&facts(Instant::ZERO, age, said.len() + 1))
        .weight
}

#[test]
fn more_have_to_follow_it_than_another_copy() {
    let (yes, no) = ((true, MINUTE), (false, MINUTE));
    assert_eq!(weigh(&[], MINUTE), Weight::Same);
    assert_eq!(weigh(&[yes], MINUTE), Weight::Same);
    assert_eq!(weigh(&[yes, no], MINUTE), Weight::Same);
    assert_eq!(
        weigh(&[no, no], 99 * MINUTE),
        Weight::Others(ONE),
        "however old it is"
    );
    assert_eq!(weigh(&[no, no, yes, yes], MINUTE), Weight::Same);
    // As many: who has come later, or neither.
    assert_eq!(weigh(&[no], MINUTE), Weight::Undecided(ONE));
    assert_eq!(weigh(&[no], 2 * MINUTE), Weight::Undecided(ONE));
    assert_eq!(weigh(&[no], 3 * MINUTE), Weight::Same);
    assert_eq!(weigh(&[(false, 3 * MINUTE)], MINUTE), Weight::Others(ONE));
    assert_eq!(weigh(&[no, no, yes], 3 * MINUTE), Weight::Same);
    let two = Weight::Others(Astray::Disowned(NodeId(2)));
    assert_eq!(weigh(&[no, (false, 9 * MINUTE), yes], 3 * MINUTE), two);
}

/// A node that nobody hears may be on the other side: what others say of it counts as long as they are heard.
#[test]
fn whoever_is_not_heard_may_have_joined_the_others() {
    let now = Instant::ZERO;
    let three = facts(now, 9 * MINUTE, 3);
    let mut camps = heard(&[(false, MINUTE)]);
    assert_eq!(
        camps.judge(&three).weight,
        Weight::Same,
        "it says that it is alone"
    );
    camps.hear_camp(now, NodeId(1), camp(2, Stance::Sure));
    assert_eq!(camps.judge(&three).weight, Weight::Undecided(ONE));
    camps.hear_camp(now, NodeId(1), camp(1, Stance::Sure));
    camps.link_lost(NodeId(1));
    assert_eq!(camps.judge(&three).weight, Weight::Undecided(ONE));
    // Of two there is nobody else.
    assert_eq!(camps.judge(&facts(now, 9 * MINUTE, 2)).weight, Weight::Same);
}

/// Who was on this side may be on the other one by now.
#[test]
fn whoever_is_on_this_side_counts_while_it_is_heard() {
    let now = Instant::ZERO;
    let facts = facts(now, 9 * MINUTE, 3);
    let mut camps = heard(&[(false, 9 * MINUTE), (true, MINUTE)]);
    assert_eq!(camps.judge(&facts).weight, Weight::Same);
    camps.link_lost(NodeId(2));
    camps.link_lost(NodeId(1));
    assert_eq!(camps.judge(&facts).weight, Weight::Undecided(ONE));
    camps.hear(now, NodeId(2), true, MINUTE);
    assert_eq!(
        camps.judge(&facts).weight,
        Weight::Undecided(ONE),
        "its own may be missing"
    );
    camps.found(now, NodeId(2), true);
    assert_eq!(camps.judge(&facts).weight, Weight::Same);
    // It has left another bookmark, which is looked for.
    camps.looks(now, NodeId(2));
    assert_eq!(camps.judge(&facts).weight, Weight::Same);
    let facts = Facts {
        now: now + LOOKS_WITHIN,
        ..facts
    };
    assert_eq!(camps.judge(&facts).weight, Weight::Undecided(ONE));
}

#[test]
fn as_many_on_each_side_are_told_apart_by_who_came_later() {
    let at = |minutes: u32| Instant::ZERO + minutes * MINUTE;
    let mut camps = Camps::default();
    let say = |camps: &mut Camps, at, is_there, age| {
        camps.found(at, NodeId(1), is_there);
        camps.hear(at, NodeId(1), is_there, age);
    };
    let weigh = |camps: &mut Camps, at, age| camps.judge(&facts(at, age, 2)).weight;
    say(&mut camps, at(0), false, 9 * MINUTE);
    assert_eq!(weigh(&mut camps, at(0), MINUTE), Weight::Others(ONE));
    // It says nothing any more, or has reached its copy over another connection: it has come no later for that.
    assert_eq!(weigh(&mut camps, at(99), 100 * MINUTE), Weight::Others(ONE));
    say(&mut camps, at(99), false, Duration::ZERO);
    assert_eq!(weigh(&mut camps, at(99), 100 * MINUTE), Weight::Others(ONE));
    camps.begin_anew(at(99));
    assert_eq!(
        weigh(&mut camps, at(99), 999 * MINUTE),
        Weight::Others(ONE),
        "it was given way to"
    );
    // It has followed the same meanwhile.
    say(&mut camps, at(99), true, MINUTE);
    assert_eq!(weigh(&mut camps, at(99), MINUTE), Weight::Same);
    say(&mut camps, at(99), false, MINUTE);
    assert_eq!(weigh(&mut camps, at(99), 100 * MINUTE), Weight::Same);
}

/// It has this node's bookmark from before it came to a copy, and was there for long before that.
#[test]
fn who_has_come_to_a_copy_is_as_old_as_that() {
    let mut camps = heard(&[(true, 9 * MINUTE)]);
    let at = Instant::ZERO + MINUTE;
    camps.found(at, NodeId(1), false);
    let weigh = |camps: &mut Camps, at, age| camps.judge(&facts(at, age, 2)).weight;
    assert_eq!(weigh(&mut camps, at, 2 * MINUTE), Weight::Same);
    assert_eq!(weigh(&mut camps, at, MINUTE), Weight::Undecided(ONE));
    // It does not go on, which it says from now on.
    let at = at + 9 * MINUTE;
    camps.hear(at, NodeId(1), true, Duration::ZERO);
    assert_eq!(weigh(&mut camps, at, 10 * MINUTE), Weight::Undecided(ONE));
    camps.found(at, NodeId(1), true);
    assert_eq!(weigh(&mut camps, at, MINUTE), Weight::Same);
}

/// However old each node's own connection is.
#[test]
fn those_who_follow_the_same_are_as_old_as_the_oldest_of_them() {
    let second = Duration::from_secs(1);
    let weigh = |same: u32, others: [u32; 2], own: u32| {
        let said = [(false, others[0]), (false, others[1]), (true, same)];
        weigh(
            &said.map(|(is_there, age)| (is_there, age * second)),
            own * second,
        )
    };
    for (same, own) in [(130, 1), (1, 130)] {
        assert_eq!(weigh(same, [130, 1], own), Weight::Undecided(ONE));
        assert_eq!(weigh(same, [1, 60], own), Weight::Same);
        assert_eq!(weigh(same, [200, 1], own), Weight::Others(ONE));
    }
}

/// They are asked by others when those are started again, who have forgotten.
#[test]
fn whoever_gives_way_says_so_and_is_no_rival() {
    let now = Instant::ZERO;
    let two = facts(now, Duration::ZERO, 2);
    let mut camps = heard(&[(false, Duration::ZERO)]);
    assert_eq!(camps.judge(&two).weight, Weight::Undecided(ONE));
    camps.hear_camp(now, NodeId(1), camp(1, Stance::Yields));
    assert_eq!(camps.judge(&two).weight, Weight::Same);
    // One on the same side gives way: so does whoever cannot tell, and whoever hears nobody of the others.
    let mut camps = heard(&[
        (false, Duration::ZERO),
        (false, Duration::ZERO),
        (true, Duration::ZERO),
    ]);
    let four = facts(now, Duration::ZERO, 4);
    assert_eq!(camps.judge(&four).camp(false).stance, Stance::Undecided);
    camps.hear_camp(now, NodeId(3), camp(2, Stance::Yields));
    let judgement = camps.judge(&four);
    assert_eq!(judgement.camp(false).stance, Stance::Yields);
    assert_eq!(judgement.weight, Weight::Others(ONE));
    let mut camps = heard(&[(true, Duration::ZERO)]);
    let yields = Camp {
        rival: Some(NodeId(4)),
        ..camp(2, Stance::Yields)
    };
    camps.hear_camp(now, NodeId(1), yields);
    let judgement = camps.judge(&four);
    let four = Astray::Disowned(NodeId(4));
    assert_eq!(judgement.weight, Weight::Undecided(four));
    assert_eq!(
        judgement.camp(false).stance,
        Stance::Sure,
        "it has heard nothing itself"
    );
}

#[test]
fn an_operator_overrules_those_who_deny_it_and_do_not_go_on() {
    let now = Instant::ZERO;
    let told = |members| Facts {
        is_told: true,
        ..facts(now, MINUTE, members)
    };
    let mut camps = heard(&[(false, MINUTE)]);
    assert_eq!(
        camps.judge(&told(2)).weight,
        Weight::Undecided(ONE),
        "that one goes on"
    );
    camps.hear_camp(now, NodeId(1), camp(1, Stance::Undecided));
    let judgement = camps.judge(&told(2));
    assert_eq!(judgement.weight, Weight::Same);
    assert!(judgement.is_by_word);
    assert_eq!(judgement.camp(true).stance, Stance::Told);
    // Who goes on by that is given way to, by however many, also when it is started again.
    let mut camps = heard(&[(false, MINUTE), (true, 9 * MINUTE), (true, 9 * MINUTE)]);
    let four = facts(now, 9 * MINUTE, 4);
    camps.hear_camp(now, NodeId(1), camp(1, Stance::Told));
    assert_eq!(camps.judge(&four).weight, Weight::Others(ONE));
    camps.hear_camp(now, NodeId(1), camp(1, Stance::Undecided));
    let judgement = camps.judge(&four);
    assert_eq!(judgement.weight, Weight::Others(ONE));
    assert_eq!(judgement.camp(false).stance, Stance::Yields);
    // Both have been told: the one with the lower number goes on.
    let mut camps = heard(&[(false, MINUTE)]);
    camps.hear_camp(now, NodeId(1), camp(1, Stance::Told));
    assert_eq!(camps.judge(&told(2)).weight, Weight::Others(ONE));
    let own = Some(NodeId(0));
    let lower = Facts { own, ..told(2) };
    assert_eq!(camps.judge(&lower).weight, Weight::Same);
    // One on the same side was.
    let mut camps = heard(&[(false, Duration::ZERO), (true, Duration::ZERO)]);
    camps.hear_camp(now, NodeId(1), camp(2, Stance::Undecided));
    assert_eq!(
        camps.judge(&facts(now, MINUTE, 4)).weight,
        Weight::Undecided(ONE)
    );
    camps.hear_camp(now, NodeId(2), camp(2, Stance::Told));
    assert_eq!(camps.judge(&facts(now, MINUTE, 4)).weight, Weight::Same);
}

#[test]
fn who_says_in_the_metadata_that_it_is_another_one_counts_like_who_denies_the_bookmark() {
    let weigh = |camps: &mut Camps, now, age| camps.judge(&facts(now, age, 4)).weight;
    let (now, zero) = (Instant::ZERO, Duration::ZERO);
    let denied = Weight::Others(Astray::Denied(NodeId(2)));
    let mut camps = Camps::default();
    camps.hear_denials(now, [NodeId(2)].into_iter());
    assert_eq!(weigh(&mut camps, now, zero), denied, "one against one");
    // It was there when this node began; how long that has gone on makes no difference.
    let later = now + 9 * MINUTE;
    camps.hear_denials(later, [NodeId(2)].into_iter());
    assert_eq!(weigh(&mut camps, later, 9 * MINUTE), denied);
    assert_eq!(
        camps.judge(&facts(later, zero, 4)).camp(false).stance,
        Stance::Undecided
    );
    let say = |camps: &mut Camps, node, is_there| {
        camps.found(later, NodeId(node), is_there);
        camps.hear(later, NodeId(node), is_there, zero);
    };
    say(&mut camps, 3, true);
    assert_eq!(weigh(&mut camps, later, zero), Weight::Same, "two to one");
    say(&mut camps, 2, true);
    assert_eq!(weigh(&mut camps, later, zero), Weight::Same);
    say(&mut camps, 3, false);
    assert!(weigh(&mut camps, later, 9 * MINUTE).against().is_some());
    // It says so no more.
    let mut camps = Camps::default();
    camps.hear_denials(later, [].into_iter());
    assert_eq!(weigh(&mut camps, later, MINUTE), Weight::Same);
    // It comes to metadata that this one has followed for long.
    camps.hear_denials(later, [NodeId(2)].into_iter());
    assert_eq!(weigh(&mut camps, later, 2 * MINUTE), Weight::Same);
    let three = [NodeId(2), NodeId(4)].into_iter();
    camps.hear_denials(later, three);
    let many = Weight::Undecided(Astray::Denied(NodeId(2)));
    assert_eq!(
        weigh(&mut camps, later, 9 * MINUTE),
        many,
        "more than follow it"
    );
}

/// Nodes of which each follows one of two copies, all at once or one after the other, with links of which some are cut.
struct World {
    now: Instant,
    nodes: Vec<Member>,
    /// Pairs without a link.
    cut: BTreeSet<(usize, usize)>,
}

struct Member {
    copy: bool,
    /// For how long it has gone on with that.
    age: Duration,
    is_told: bool,
    is_up: bool,
    camps: Camps,
    said: Option<Camp>,
    /// Who has yet to answer what it has just asked.
    asked: BTreeSet<usize>,
}

impl World {
    fn new(count: usize, now: Instant) -> Self {
        let member = |_| Member {
            copy: false,
            age: Duration::ZERO,
            is_told: false,
            is_up: true,
            camps: Camps::default(),
            said: None,
            asked: BTreeSet::new(),
        };
        Self {
            now,
            nodes: (0..count).map(member).collect(),
            cut: BTreeSet::new(),
        }
    }

    fn facts(&self, node: usize) -> Facts {
        let age = self.nodes[node].age;
        Facts {
            own: Some(number(node)),
            is_told: self.nodes[node].is_told,
            awaits: !self.nodes[node].asked.is_empty(),
            ..facts(self.now, age, self.nodes.len())
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        for node in &mut self.nodes {
            if node.said.is_none_or(|camp| camp.goes_on) {
                node.age += time;
            }
        }
    }

    fn decide(&mut self, node: usize) {
        let facts = self.facts(node);
        let judgement = self.nodes[node].camps.judge(&facts);
        self.nodes[node].said = Some(judgement.camp(facts.is_told));
    }

    fn links(&self) -> Vec<(usize, usize)> {
        let count = self.nodes.len();
        let pairs = (0..count).flat_map(|a| (0..count).map(move |b| (a, b)));
        let is_up = |node: usize| self.nodes[node].is_up;
        let pairs = pairs.filter(|(a, b)| {
            a != b && is_up(*a) && is_up(*b) && !self.cut.contains(&(*a.min(b), *a.max(b)))
        });
        pairs.collect()
    }

    /// One node hears all that another one would say.
    fn hear(&mut self, to: usize, from: usize) {
        let (now, peer) = (self.now, number(from));
        let is_same = self.nodes[to].copy == self.nodes[from].copy;
        let facts = self.facts(from);
        let counts_receiver = self.nodes[from].camps.is_same(now, number(to));
        let camp = self.nodes[from].said.map(|camp| Camp {
            counts_receiver,
            ..camp
        });
        let age = self.nodes[from].camps.age_against(&facts, number(to));
        let age = age.max(Duration::from_secs(1));
        let camps = &mut self.nodes[to].camps;
        camp.into_iter()
            .for_each(|camp| camps.hear_camp(now, peer, camp));
        camps.found(now, peer, is_same);
        camps.hear(now, peer, is_same, age);
        self.nodes[to].asked.remove(&from);
        self.decide(to);
    }

    /// It has reached something over another connection: the other copy, or the same.
    fn reach(&mut self, node: usize, copy: bool) {
        let now = self.now;
        let links = self.links().into_iter();
        let asked = links.filter(|(to, _)| *to == node).map(|(_, from)| from);
        let asked: BTreeSet<usize> = asked.collect();
        for peer in &asked {
            let camps = &mut self.nodes[*peer].camps;
            camps.reached_anew(now, number(node));
            camps.looks(now, number(node));
        }
        let member = &mut self.nodes[node];
        (member.copy, member.age, member.asked) = (copy, Duration::ZERO, asked);
        member.camps.begin_anew(now);
    }

    /// Until nobody has anything new to say, in any order.
    fn settle(&mut self, prng: &mut Prng) {
        for node in 0..self.nodes.len() {
            self.decide(node);
        }
        for _ in 0..12 {
            let mut links = self.links();
            while !links.is_empty() {
                let next = usize::try_from(prng.below(links.len() as u64)).unwrap();
                let (to, from) = links.swap_remove(next);
                self.hear(to, from);
            }
        }
    }

    /// Something happens to a node; who has been told to go on by that.
    fn step(&mut self, prng: &mut Prng) -> Option<usize> {
        let count = self.nodes.len();
        let pick = |prng: &mut Prng| usize::try_from(prng.below(count as u64)).unwrap();
        let node = pick(prng);
        match prng.below(8) {
            // To another copy, all of a sudden or by a start.
            0 => self.reach(node, !self.nodes[node].copy),
            1 => {
                self.nodes[node].copy ^= true;
                self.start(node);
            }
            2 => self.start(node),
            3 if self.cut.is_empty() => {
                self.nodes[node].is_up ^= true;
                if self.nodes[node].is_up {
                    self.start(node);
                }
                self.lose_links(node);
            }
            4 if self.nodes.iter().all(|it| it.is_up) => {
                let other = pick(prng);
                let pair = (node.min(other), node.max(other));
                let had = core::mem::take(&mut self.cut);
                for (a, b) in had.iter().copied().chain([pair]).filter(|(a, b)| a != b) {
                    self.nodes[a].camps.link_lost(number(b));
                    self.nodes[b].camps.link_lost(number(a));
                }
                if !had.contains(&pair) && pair.0 != pair.1 && count > 2 {
                    self.cut.insert(pair);
                }
            }
            5 if self.cut.is_empty() && self.nodes.iter().all(|it| !it.is_told) => {
                self.nodes[node].is_told = true;
                return Some(node);
            }
            _ => self.pass(Duration::from_secs(prng.below(300))),
        }
        None
    }

    /// It is started again, and has forgotten everything.
    fn start(&mut self, node: usize) {
        let member = &mut self.nodes[node];
        (member.age, member.is_told) = (Duration::ZERO, false);
        (member.camps, member.asked) = Default::default();
        self.lose_links(node);
    }

    fn lose_links(&mut self, node: usize) {
        self.nodes[node].asked.clear();
        for other in 0..self.nodes.len() {
            self.nodes[other].asked.remove(&node);
            self.nodes[node].camps.link_lost(number(other));
            self.nodes[other].camps.link_lost(number(node));
        }
    }

    fn going_on(&self) -> [Vec<usize>; 2] {
        [false, true].map(|copy| {
            let nodes = self.nodes.iter().enumerate();
            let on = nodes.filter(|(_, it)| {
                it.is_up && it.copy == copy && it.said.is_some_and(|camp| camp.goes_on)
            });
            on.map(|(node, _)| node).collect()
        })
    }
}

fn number(node: usize) -> NodeId {
    NodeId(u16::try_from(node).unwrap() + 1)
}

/// Whatever nodes come to, are started again, are cut off from, or are told, one of the two copies is gone on with at most, where each node is
/// linked to all others but one at most.
#[test]
fn two_copies_are_never_gone_on_with() {
    let (mut looks, mut stuck) = (0, 0);
    for seed in 0..2000 {
        let mut prng = Prng::from_seed(seed);
        let count = 2 + usize::try_from(prng.below(4)).unwrap();
        let mut world = World::new(count, Instant::ZERO + 99 * MINUTE);
        let mut told = vec![];
        for _ in 0..24 {
            told.extend(world.step(&mut prng));
            world.settle(&mut prng);
            let [one, other] = world.going_on();
            assert!(
                one.is_empty() || other.is_empty(),
                "seed {seed}: {one:?} and {other:?} go on, {told:?} told, {:?} cut",
                world.cut
            );
            let all = world.cut.is_empty() && world.nodes.iter().all(|it| it.is_up);
            let follows = |copy| world.nodes.iter().filter(|it| it.copy == copy).count();
            let are_most = [false, true].map(|copy| 2 * follows(copy) > count);
            if all && told.is_empty() && are_most != [false, false] {
                // Those who are more, or those to whom they have given way while they were fewer.
                let is_any = one.len() == follows(false) || other.len() == follows(true);
                (looks, stuck) = (looks + 1, stuck + u32::from(!is_any));
            }
        }
        // All are well.
        for node in 0..count {
            (world.nodes[node].copy, world.nodes[node].is_up) = (false, true);
        }
        world.cut.clear();
        world.settle(&mut prng);
        assert_eq!(world.going_on()[0].len(), count, "seed {seed}");
    }
    // After many changes each side may have given way to the other one.
    assert!(
        stuck * 100 < looks,
        "nobody goes on {stuck} times of {looks}"
    );
}

/// Who goes on does so still, whoever has reached what it follows over another connection, however old the others are, and whoever is off.
#[test]
fn whoever_reaches_the_same_anew_is_where_it_was() {
    let (mut looks, mut stopped) = (0, 0);
    for seed in 0..4000 {
        let mut prng = Prng::from_seed(seed ^ 0xa4e3);
        let count = 2 + usize::try_from(prng.below(4)).unwrap();
        let mut world = World::new(count, Instant::ZERO + 99 * MINUTE);
        for _ in 0..24 {
            // Whoever was told, and waits for its turn, may find it.
            if world.step(&mut prng).is_some() {
                break;
            }
            world.settle(&mut prng);
            let before = world.going_on();
            for node in 0..count {
                if prng.chance(1, 2) && world.nodes[node].is_up {
                    world.reach(node, world.nodes[node].copy);
                }
            }
            world.settle(&mut prng);
            let after = world.going_on();
            let goes_on = |copy: usize| before[copy].iter().all(|node| after[copy].contains(node));
            let do_all = goes_on(0) && goes_on(1);
            (looks, stopped) = (looks + 1, stopped + u32::from(!do_all));
            assert!(
                do_all || !world.cut.is_empty(),
                "seed {seed}: {before:?} went on, {after:?} do"
            );
        }
    }
    // Where a link is cut, those who do not hear enough of their camp stop.
    assert!(stopped * 1000 < looks, "{stopped} times of {looks}");
}

/// It was there before the copy was; that it has reached it over another connection since makes it no younger for whoever is on the other side. It
/// does for those who were on this one.
#[test]
fn who_reaches_the_same_anew_is_no_younger_for_strangers() {
    let at = |minutes: u32| Instant::ZERO + minutes * MINUTE;
    let mut camps = heard(&[(false, MINUTE), (true, 9 * MINUTE)]);
    let of = |minutes, age| facts(at(minutes), age, 4);
    assert_eq!(camps.judge(&of(0, 9 * MINUTE)).weight, Weight::Same);
    camps.link_lost(NodeId(2));
    camps.begin_anew(at(1));
    let now = of(1, Duration::ZERO);
    assert_eq!(camps.judge(&now).weight, Weight::Same, "it is alone");
    assert_eq!(camps.age_against(&now, NodeId(1)), 9 * MINUTE);
    assert_eq!(camps.age_against(&now, NodeId(2)), Duration::ZERO);
    // It is in a copy now, where the other one was left behind.
    camps.found(at(1), NodeId(2), false);
    camps.hear(at(1), NodeId(2), false, 10 * MINUTE);
    let two = Weight::Others(Astray::Disowned(NodeId(2)));
    assert_eq!(camps.judge(&now).weight, two);
}

/// What counted against a stranger from before does so while it is one in what was reached only.
#[test]
fn whoever_comes_to_strangers_is_young_there() {
    let at = |minutes: u32| Instant::ZERO + minutes * MINUTE;
    let now = facts(at(1), Duration::ZERO, 4);
    let one = NodeId(1);
    let reached_anew = || {
        let mut camps = heard(&[(false, MINUTE)]);
        camps.judge(&facts(at(0), 9 * MINUTE, 4));
        // What follows from reaching it may come before it is known.
        camps.judge(&now);
        camps.begin_anew(at(1));
        assert_eq!(camps.age_against(&now, one), 9 * MINUTE);
        camps
    };
    let mut camps = reached_anew();
    camps.found(at(1), one, true);
    assert_eq!(camps.age_against(&now, one), Duration::ZERO);
    // It finds this one as well, over another link, and is left behind in a copy.
    camps.link_lost(one);
    camps.hear(at(1), one, true, MINUTE);
    camps.begin_anew(at(1));
    camps.found(at(1), one, false);
    assert_eq!(camps.age_against(&now, one), Duration::ZERO);
}

/// It was alone with a copy for long. One of the others reaches its metadata anew.
#[test]
fn who_does_not_go_on_and_is_off_is_not_given_way_to() {
    let at = |minutes: u32| Instant::ZERO + minutes * MINUTE;
    let mut camps = heard(&[(false, 9 * MINUTE), (true, 9 * MINUTE)]);
    let of = |minutes, age| facts(at(minutes), age, 3);
    camps.hear_camp(at(0), NodeId(1), camp(1, Stance::Yields));
    assert_eq!(camps.judge(&of(0, 9 * MINUTE)).weight, Weight::Same);
    camps.link_lost(NodeId(1));
    assert_eq!(camps.judge(&of(1, 10 * MINUTE)).weight, Weight::Same);
    camps.begin_anew(at(1));
    camps.judge(&of(1, Duration::ZERO));
    camps.found(at(1), NodeId(2), true);
    camps.hear(at(1), NodeId(2), true, 10 * MINUTE);
    assert_eq!(
        camps.judge(&of(1, Duration::ZERO)).weight,
        Weight::Same,
        "two of three follow it, and nobody else goes on"
    );
}

/// The same, and it is heard: it cannot tell.
#[test]
fn who_does_not_go_on_is_not_given_way_to() {
    let at = |minutes: u32| Instant::ZERO + minutes * MINUTE;
    let mut camps = heard(&[(false, 30 * MINUTE), (true, 5 * MINUTE)]);
    // A fourth is off.
    let of = |age| facts(at(1), age, 4);
    camps.hear_camp(at(0), NodeId(1), camp(1, Stance::Undecided));
    assert_eq!(camps.judge(&of(5 * MINUTE)).weight, Weight::Same);
    camps.begin_anew(at(1));
    assert_eq!(
        camps.judge(&of(Duration::ZERO)).weight,
        Weight::Undecided(ONE),
        "it has yet to find the others"
    );
    camps.found(at(1), NodeId(2), true);
    camps.hear(at(1), NodeId(2), true, 5 * MINUTE);
    let judgement = camps.judge(&of(Duration::ZERO));
    assert_eq!(judgement.weight, Weight::Same);
    assert_eq!(judgement.camp(false).stance, Stance::Sure);
}

/// It went on when it was heard last. Whoever has just reached the metadata anew has yet to hear how many are on its side.
#[test]
fn nobody_gives_way_before_the_others_have_answered() {
    let mut camps = heard(&[(false, 30 * MINUTE), (true, 5 * MINUTE), (true, 5 * MINUTE)]);
    camps.link_lost(NodeId(1));
    let now = Instant::ZERO + MINUTE;
    let asks = Facts {
        awaits: true,
        ..facts(now, Duration::ZERO, 4)
    };
    camps.begin_anew(now);
    assert_eq!(camps.judge(&asks).weight, Weight::Undecided(ONE));
    for node in [NodeId(2), NodeId(3)] {
        camps.found(now, node, true);
        camps.hear(now, node, true, 5 * MINUTE);
    }
    assert_eq!(camps.judge(&asks).weight, Weight::Same);
    // They do not answer in time.
    camps.begin_anew(now);
    let alone = Facts {
        awaits: false,
        ..asks
    };
    assert_eq!(camps.judge(&alone).weight, Weight::Others(ONE));
}

/// What it says of its camp comes before what shows that it is on this side.
#[test]
fn whoever_has_changed_sides_has_to_say_again_who_is_with_it() {
    let now = Instant::ZERO;
    let mut camps = heard(&[(false, MINUTE)]);
    camps.link_lost(NodeId(1));
    assert!(!camps.found(now, NodeId(1), true));
    camps.hear_camp(now, NodeId(1), camp(3, Stance::Yields));
    assert!(camps.hear(now, NodeId(1), true, MINUTE));
    assert!(!camps.hear(now, NodeId(1), true, MINUTE));
    assert!(camps.found(now, NodeId(1), false));
}

/// Three of five are most without it.
#[test]
fn those_who_are_most_are_not_taken_along_by_one_who_gives_way() {
    let (yes, no) = ((true, 9 * MINUTE), (false, 9 * MINUTE));
    let mut camps = heard(&[no, yes, yes, yes]);
    let five = facts(Instant::ZERO, 9 * MINUTE, 5);
    assert_eq!(camps.judge(&five).weight, Weight::Same);
    camps.hear_camp(Instant::ZERO, NodeId(2), camp(4, Stance::Yields));
    assert_eq!(camps.judge(&five).weight, Weight::Same);
}
