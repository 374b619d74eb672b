//! Several nodes come to a copy of the metadata that goes on by itself: of those who follow it and those who follow the right one, one side goes on
//! at most, whatever happens to nodes and links.

use holdfast_engine::Astray;
use holdfast_model::{NodeId, Policy};
use holdfast_sim::cluster::Fault;
use holdfast_sim::network::Place;
use holdfast_stdx::{Duration, Prng};

use crate::story::{SECOND, SEEDS, Story};

/// Four nodes, of which two come to a copy.
struct Camps {
    story: Story,
    /// Those with the right metadata, and those with the copy; unless others are chosen the primary of a slice, and its secondary, come first.
    right: [NodeId; 2],
    copy: [NodeId; 2],
}

impl Camps {
    /// The copy is there once the cluster has run for so many seconds.
    fn new(seed: u64, seconds: u32) -> Self {
        Self::of(seed, seconds, [1, 3])
    }

    /// The same, and these come to it: of the primary of a slice, its secondary, and the two that have the other slice.
    fn of(seed: u64, seconds: u32, places: [usize; 2]) -> Self {
        let mut story = Story::with(seed, Policy::Mirror2, |plan| plan.cluster.nodes = 4);
        story.busy(true);
        story.wait((2 + seconds) * SECOND);
        let (primary, secondary) = (story.primary(), story.secondary());
        let mut rest = story.run.cluster.node_ids();
        rest.retain(|node| ![primary, secondary].contains(node));
        let nodes = [primary, secondary, rest[0], rest[1]];
        let mut right = nodes.to_vec();
        let copy = places.map(|place| nodes[place]);
        right.retain(|node| !copy.contains(node));
        Self {
            story,
            right: [right[0], right[1]],
            copy,
        }
    }

    fn fork(&mut self) {
        for node in self.copy {
            self.story.now(Fault::ForkMetadata(node));
        }
    }

    fn part(&mut self, one: NodeId, other: NodeId) {
        self.story.part(Place::Node(one), Place::Node(other));
    }

    /// Who goes on with the right metadata, and who with the copy.
    fn going_on(&self) -> [Vec<NodeId>; 2] {
        [self.right, self.copy].map(|nodes| going_on(&self.story, &nodes))
    }

    #[track_caller]
    fn assert_one_side(&self, what: &str) {
        let [right, copy] = self.going_on();
        assert!(right.is_empty() || copy.is_empty(), "{what}: both go on");
    }
}

/// Who of these follows the metadata that it reaches.
fn going_on(story: &Story, nodes: &[NodeId]) -> Vec<NodeId> {
    let cluster = &story.run.cluster;
    let goes_on = |node: &&NodeId| cluster.is_running(**node) && cluster.astray(**node).is_none();
    nodes.iter().filter(goes_on).copied().collect()
}

fn start_again(story: &mut Story, node: NodeId) {
    story.now(Fault::Kill(node));
    story.wait(SECOND);
    story.now(Fault::Start(node));
}

/// A cluster of two, of which one has come to a copy before either had been there for long.
fn two_that_stop(seed: u64) -> (Story, [NodeId; 2]) {
    let mut story = Story::with(seed, Policy::Mirror2, |plan| {
        plan.cluster.nodes = 2;
        plan.cluster.hosts.truncate(2);
    });
    story.busy(true);
    story.wait(2 * SECOND);
    let both = [story.primary(), story.secondary()];
    story.now(Fault::ForkMetadata(both[1]));
    story.wait(5 * SECOND);
    assert!(going_on(&story, &both).is_empty(), "seed {seed}");
    (story, both)
}

/// The copy comes where a link between the camps is down; or where one of those with the right metadata is off.
#[test]
fn those_who_were_there_before_go_on_though_not_all_are_heard() {
    for seed in 0..2 * SEEDS {
        let mut camps = Camps::new(seed, 90);
        let [primary, fellow] = camps.right;
        let is_off = seed % 2 == 1;
        if is_off {
            camps.story.now(Fault::Kill(fellow));
        } else {
            camps.part(fellow, camps.copy[0]);
        }
        camps.story.wait(3 * SECOND);
        camps.fork();
        camps.story.wait(10 * SECOND);
        camps.assert_one_side(&format!("seed {seed}"));
        assert!(camps.going_on()[0].contains(&primary), "seed {seed}");
        if is_off {
            camps.story.now(Fault::Start(fellow));
        } else {
            let ends = [fellow, camps.copy[0]].map(Place::Node);
            camps.story.rejoin(ends[0], ends[1]);
        }
        camps.story.wait(10 * SECOND);
        assert_eq!(
            camps.going_on(),
            [camps.right.to_vec(), vec![]],
            "seed {seed}"
        );
    }
}

/// One comes to the copy, gives way, and is joined by another one, which the third does not hear: what that has done alone in the meantime
/// is not lost.
#[test]
fn who_has_given_way_does_so_though_most_are_with_it_later() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(72 * SECOND);
        let (primary, secondary, third) = (story.primary(), story.secondary(), story.bystander());
        story.part(Place::Node(primary), Place::Node(third));
        story.wait(3 * SECOND);
        story.now(Fault::ForkMetadata(secondary));
        story.wait(3 * SECOND);
        story.now(Fault::ForkMetadata(third));
        story.wait(10 * SECOND);
        let on = going_on(&story, &[primary, secondary, third]);
        assert!(
            !(on.contains(&primary) && on.contains(&secondary)),
            "seed {seed}: both go on"
        );
    }
}

/// All have stopped. One is started again that does not hear one of its camp, or of the other one; then another.
#[test]
fn nobody_is_forgotten_over_starts_and_links() {
    for seed in 0..2 * SEEDS {
        let mut camps = Camps::new(seed, 0);
        camps.fork();
        camps.story.wait(5 * SECOND);
        let nobody = [vec![], vec![]];
        assert_eq!(camps.going_on(), nobody, "seed {seed}");
        let node = if seed % 2 == 0 {
            camps.right[0]
        } else {
            camps.copy[0]
        };
        camps.part(node, camps.right[1]);
        for node in [node, camps.copy[0]] {
            start_again(&mut camps.story, node);
            camps.story.wait(5 * SECOND);
            assert_eq!(camps.going_on(), nobody, "seed {seed}: {node} was started");
        }
        camps.story.wait(10 * SECOND);
    }
}

/// The right camp goes on, and reaches its metadata anew; those who gave way are started again.
#[test]
fn those_who_go_on_are_not_stopped_by_those_who_gave_way() {
    for seed in 0..SEEDS {
        let mut camps = Camps::new(seed, 70);
        camps.fork();
        camps.story.wait(100 * SECOND);
        let on = [camps.right.to_vec(), vec![]];
        assert_eq!(camps.going_on(), on, "seed {seed}");
        for node in camps.right {
            camps.story.part(Place::Metadata, Place::Node(node));
        }
        camps.story.wait(3 * SECOND);
        for node in camps.right {
            camps.story.rejoin(Place::Metadata, Place::Node(node));
        }
        camps.story.wait(5 * SECOND);
        for node in camps.copy {
            start_again(&mut camps.story, node);
            camps.story.wait(5 * SECOND);
        }
        camps.story.wait(60 * SECOND);
        assert_eq!(camps.going_on(), on, "seed {seed}: they were started");
    }
}

/// Those who followed the copy reach the right metadata, and say in it that they have not followed it. The others are started again, one
/// after the other.
#[test]
fn as_many_denials_as_followers_stop_nobody_who_was_there_before() {
    for seed in 0..SEEDS {
        let mut camps = Camps::new(seed, 90);
        camps.fork();
        camps.story.wait(20 * SECOND);
        assert_eq!(camps.going_on()[0], camps.right, "seed {seed}");
        for node in camps.copy {
            camps.story.now(Fault::Kill(node));
        }
        camps.story.now(Fault::JoinMetadata);
        camps.story.wait(SECOND);
        for node in camps.copy {
            camps.story.now(Fault::Start(node));
        }
        camps.story.wait(10 * SECOND);
        assert_eq!(camps.going_on()[0], camps.right, "seed {seed}: denied");
        for node in camps.right {
            start_again(&mut camps.story, node);
            camps.story.wait(30 * SECOND);
            assert_eq!(camps.going_on()[0], camps.right, "seed {seed}: {node}");
        }
    }
}

/// Two have stopped. The one with the right metadata does not reach it, for a while or for long, while the other is started again.
#[test]
fn who_cannot_look_goes_on_denying_a_stranger() {
    for seed in 0..SEEDS {
        let (mut story, both) = two_that_stop(seed);
        story.part(Place::Metadata, Place::Node(both[0]));
        story.wait(3 * SECOND);
        start_again(&mut story, both[1]);
        story.wait(if seed % 2 == 0 { 10 } else { 70 } * SECOND);
        let nobody: [NodeId; 0] = [];
        assert_eq!(going_on(&story, &both), nobody, "seed {seed}");
        story.rejoin(Place::Metadata, Place::Node(both[0]));
        story.wait(20 * SECOND);
        assert_eq!(going_on(&story, &both), nobody, "seed {seed}");
    }
}

/// An operator says `take-over` at one of each camp, or at both of two at the same time.
#[test]
fn two_that_are_told_to_take_over_do_not_both_go_on() {
    for seed in 0..SEEDS {
        let mut camps = Camps::new(seed, 0);
        camps.fork();
        camps.story.wait(5 * SECOND);
        for node in [camps.right[0], camps.copy[0]] {
            camps.story.now(Fault::Kill(node));
            camps.story.wait(SECOND);
            camps.story.now(Fault::TakeOver(node));
            camps.story.now(Fault::Start(node));
            camps.story.wait(10 * SECOND);
            assert!(!camps.going_on()[0].is_empty(), "seed {seed}");
            camps.assert_one_side(&format!("seed {seed}"));
        }
    }
    for seed in 0..2 * SEEDS {
        let (mut story, both) = two_that_stop(seed);
        for node in both {
            story.now(Fault::Kill(node));
        }
        story.wait(SECOND);
        for node in both {
            story.now(Fault::TakeOver(node));
            story.now(Fault::Start(node));
        }
        story.wait(3 * SECOND);
        for _ in 0..100 {
            story.wait(SECOND / 20);
            assert!(going_on(&story, &both).len() < 2, "seed {seed}");
        }
    }
}

#[test]
fn what_an_operator_has_said_outlasts_a_start() {
    for seed in 0..SEEDS {
        let (mut story, both) = two_that_stop(seed);
        story.now(Fault::Kill(both[0]));
        story.wait(SECOND);
        story.now(Fault::TakeOver(both[0]));
        story.now(Fault::Start(both[0]));
        story.wait(100 * SECOND);
        assert_eq!(going_on(&story, &both), [both[0]], "seed {seed}");
        start_again(&mut story, both[0]);
        story.wait(30 * SECOND);
        assert_eq!(going_on(&story, &both), [both[0]], "seed {seed}");
    }
}

/// There is no copy. Whatever happens to nodes, links and answers, nobody takes the others for strangers.
#[test]
fn nobody_is_disowned_without_a_copy() {
    for seed in 0..2 * SEEDS {
        let mut prng = Prng::from_seed(seed ^ 0x5eed);
        let nodes = 2 + u16::try_from(seed % 3).expect("it is less than 3");
        let mut story = Story::with(seed, Policy::Mirror2, |plan| {
            plan.cluster.nodes = nodes;
            plan.cluster.hosts.truncate(2);
        });
        story.busy(seed % 2 == 0);
        story.wait(2 * SECOND);
        let nodes = story.run.cluster.node_ids();
        for _ in 0..60 {
            anything(&mut story, &mut prng);
            for node in &nodes {
                let astray = story.run.cluster.astray(*node);
                assert_eq!(astray, None, "seed {seed}: {node}");
            }
        }
        assert_eq!(story.run.cluster.tally().astray, 0, "seed {seed}");
    }
}

/// Something happens, which is over soon, or not.
fn anything(story: &mut Story, prng: &mut Prng) {
    let nodes = story.run.cluster.node_ids();
    let mut places: Vec<Place> = nodes.iter().copied().map(Place::Node).collect();
    places.push(Place::Metadata);
    let node = *prng.choose(&nodes);
    let (one, other) = (*prng.choose(&places), *prng.choose(&places));
    let fault = match prng.below(12) {
        0 | 1 => Fault::Kill(node),
        2 => Fault::LosePower(node),
        3 | 4 if one != other => Fault::Cut(one, other),
        5 => Fault::LoseAnswers(prng.between(2, 5)),
        6 => Fault::LoseAnswers(0),
        7 => Fault::Freeze {
            node,
            span: Duration::from_millis(prng.between(100, 5000)),
            between: prng.chance(1, 2),
        },
        8 => Fault::Slow(Duration::from_millis(prng.between(1, 2000))),
        9 => Fault::Slow(Duration::ZERO),
        10 => {
            // All reach the metadata anew.
            for node in &nodes {
                story.now(Fault::Cut(Place::Metadata, Place::Node(*node)));
            }
            story.wait(Duration::from_millis(prng.between(100, 3000)));
            for node in &nodes {
                story.now(Fault::Mend(Place::Metadata, Place::Node(*node)));
            }
            return;
        }
        _ => Fault::Start(node),
    };
    story.now(fault);
    let span = if prng.chance(1, 8) { 20_000 } else { 1500 };
    story.wait(Duration::from_millis(prng.between(1, span)));
    if prng.chance(1, 2) {
        if let Fault::Cut(one, other) = fault {
            story.now(Fault::Mend(one, other));
        }
        if !story.run.cluster.is_running(node) {
            story.now(Fault::Start(node));
        }
    }
}

/// A cluster of three nodes or more: one, and the rest.
fn one_and_the_rest(seed: u64, seconds: u32) -> (Story, NodeId, Vec<NodeId>) {
    let mut story = Story::with(seed, Policy::Mirror2, |plan| {
        plan.cluster.nodes = if seed.is_multiple_of(2) { 3 } else { 5 };
        plan.cluster.hosts.truncate(2);
    });
    story.busy(true);
    story.wait(seconds * SECOND);
    let one = story.secondary();
    let mut rest = story.run.cluster.node_ids();
    rest.retain(|node| *node != one);
    (story, one, rest)
}

/// These reach the metadata over another connection.
fn reach_anew(story: &mut Story, nodes: &[NodeId]) {
    for node in nodes {
        story.part(Place::Metadata, Place::Node(*node));
    }
    story.wait(3 * SECOND);
    for node in nodes {
        story.rejoin(Place::Metadata, Place::Node(*node));
    }
}

/// It was alone with a copy for longer than the others have been on their connections, then found out, and is off.
#[test]
fn a_stranger_that_is_off_stops_nobody() {
    for seed in 0..SEEDS {
        let (mut story, stranger, rest) = one_and_the_rest(seed, 72);
        for node in &rest {
            story.part(Place::Node(*node), Place::Node(stranger));
        }
        story.wait(3 * SECOND);
        story.now(Fault::ForkMetadata(stranger));
        story.wait(81 * SECOND);
        for node in &rest {
            story.rejoin(Place::Node(*node), Place::Node(stranger));
        }
        story.wait(5 * SECOND);
        assert_eq!(going_on(&story, &rest), rest, "seed {seed}: at first");
        story.now(Fault::Kill(stranger));
        story.wait(5 * SECOND);
        let anew = if seed < 3 { 1 } else { rest.len() };
        reach_anew(&mut story, &rest[..anew]);
        story.wait(30 * SECOND);
        assert_eq!(going_on(&story, &rest), rest, "seed {seed}");
    }
}

/// It was alone with a copy for long, and cannot tell. Two of the three others reach the metadata anew, one or both of them, before it meets them
/// and after that; the third is off.
#[test]
fn a_stranger_that_cannot_tell_stops_nobody() {
    for seed in 0..2 * SEEDS {
        let mut camps = Camps::of(seed, 3, [1, 3]);
        let [stranger, off] = camps.copy;
        let right = camps.right;
        for node in right.into_iter().chain([off]) {
            camps.part(node, stranger);
        }
        camps.story.wait(3 * SECOND);
        camps.story.now(Fault::ForkMetadata(stranger));
        camps.story.wait(100 * SECOND);
        camps.story.now(Fault::Kill(off));
        reach_anew(&mut camps.story, &right);
        camps.story.wait(5 * SECOND);
        for node in right {
            let ends = [node, stranger].map(Place::Node);
            camps.story.rejoin(ends[0], ends[1]);
        }
        camps.story.wait(5 * SECOND);
        let on = [right.to_vec(), vec![]];
        assert_eq!(camps.going_on(), on, "seed {seed}: at first");
        let anew = 1 + usize::try_from(seed % 2).expect("it is less than 2");
        reach_anew(&mut camps.story, &right[..anew]);
        camps.story.wait(10 * SECOND);
        assert_eq!(camps.going_on(), on, "seed {seed}");
    }
}

/// Some, or all, of the others have reached the metadata anew just before; one of them does not hear it, or all do.
#[test]
fn one_that_comes_to_a_copy_stops_nobody() {
    for seed in 0..2 * SEEDS {
        let (mut story, stranger, rest) = one_and_the_rest(seed, 100);
        let anew = [1, rest.len() - 1, rest.len()][usize::try_from(seed % 3).expect("it is small")];
        reach_anew(&mut story, &rest[..anew]);
        story.wait(5 * SECOND);
        if seed % 3 == 1 {
            let last = rest[rest.len() - 1];
            story.part(Place::Node(stranger), Place::Node(last));
            story.wait(SECOND);
        }
        story.now(Fault::ForkMetadata(stranger));
        story.wait(70 * SECOND);
        assert_eq!(going_on(&story, &rest), rest, "seed {seed}");
        assert!(going_on(&story, &[stranger]).is_empty(), "seed {seed}");
    }
}

/// Neither camp was there before the other: all stop, whichever is started again, reaches its metadata anew, or does not reach another one for a
/// while, and stay so until they follow the same again.
#[test]
fn two_camps_of_which_neither_knows_better_both_stop() {
    for seed in 0..3 * SEEDS {
        // The copy has the secondary and another one, the primary and another one, the secondary and the one that the others leave out.
        let places = [[1, 2], [0, 2], [1, 3]][(seed % 3) as usize];
        let mut camps = Camps::of(seed, 0, places);
        let nodes = camps.story.run.cluster.node_ids();
        let copied = camps.story.epochs();
        camps.fork();
        camps.story.wait(5 * SECOND);
        let epochs = camps.story.epochs();
        for round in 0..4 {
            let all_stop = nodes.iter().all(|node| {
                let astray = camps.story.run.cluster.astray(*node);
                matches!(astray, Some(Astray::Disowned(_)))
            });
            assert!(all_stop, "seed {seed}, round {round}");
            assert_eq!(camps.story.epochs(), epochs, "seed {seed}, round {round}");
            // Nobody has led by the copy.
            assert_eq!(
                camps.story.copied_epochs(),
                copied,
                "seed {seed}, round {round}"
            );
            let at = (seed / 3) as usize + round;
            let (node, next) = (nodes[at % 4], nodes[(at + 1 + round % 3) % 4]);
            if at.is_multiple_of(3) {
                camps.story.wait(70 * SECOND);
                start_again(&mut camps.story, node);
            } else {
                let other = match at % 3 {
                    1 => Place::Metadata,
                    _ => Place::Node(next),
                };
                camps.story.part(Place::Node(node), other);
                camps.story.wait(12 * SECOND);
                camps.story.rejoin(Place::Node(node), other);
            }
            camps.story.wait(10 * SECOND);
        }
        let Camps {
            mut story, copy, ..
        } = camps;
        for node in copy {
            story.now(Fault::Kill(node));
        }
        story.now(Fault::JoinMetadata);
        story.wait(SECOND);
        for node in copy {
            story.begins_anew(node);
        }
        story.ends_well();
    }
}
