//! The stall ledger: what engines tell is what hosts have seen, and names the cause.

use std::collections::BTreeMap;

use holdfast_engine::{STALL_MIN, Stall, StallCause};
use holdfast_model::{NodeId, Policy};
use holdfast_sim::HostPlan;
use holdfast_sim::cluster::{Fault, HostWord};
use holdfast_sim::network::Place;
use holdfast_stdx::{Duration, Instant};

use crate::story::{SECOND, SEEDS, Story};

/// What a host sees and what its portal tells may differ by so much: the way there and back, clocks that
/// differ by 1/32 of a second or two, and the time until a host that was told to come again does.
const TOLERANCE: Duration = Duration::from_millis(60);

/// A wait of a host: over which path, from when until when.
type Wait = (usize, Instant, Instant);

/// After so long a command is mostly where it was sent, and not answered yet.
const ARRIVED: Duration = Duration::from_micros(500);

impl Story {
    /// One host on each path, one command at a time, writing or reading only if it is told so.
    fn of_single_paths(seed: u64, policy: Policy, reads: u64) -> Self {
        Self::with_single_paths(seed, policy, |host| host.reads = reads)
    }

    /// The same, with hosts that are otherwise.
    fn with_single_paths(seed: u64, policy: Policy, change: impl Fn(&mut HostPlan)) -> Self {
        Self::with(seed, policy, |plan| {
            let host = |path| {
                let mut host = HostPlan {
                    only: Some(path),
                    pause: Duration::from_millis(4),
                    ..plan.cluster.hosts[0].clone()
                };
                change(&mut host);
                host
            };
            plan.cluster.hosts = (0..3).map(host).collect();
        })
    }

    /// Waits until a command has been under way for a moment over the path to a node: long enough to have
    /// arrived there.
    fn wait_for_command_at(&mut self, node: NodeId) {
        for _ in 0..20_000 {
            let now = self.run.cluster.now();
            let mut words = self.run.cluster.host_words().iter().rev();
            let last = words.find(|word| word.path + 1 == usize::from(node.0));
            let is_there = |word: &&HostWord| !word.done && now.since(word.at) >= ARRIVED;
            if last.filter(is_there).is_some() {
                return;
            }
            self.wait(Duration::from_micros(50));
        }
        panic!("no command waits at {node}");
    }

    /// What hosts of one path waited for, from the first sending to the answer, if it was a stall. The
    /// commands that are under way are not among it.
    fn host_waits(&self, from: Instant) -> Vec<Wait> {
        let mut open: BTreeMap<usize, Instant> = BTreeMap::new();
        let mut waits = Vec::new();
        for word in self.run.cluster.host_words() {
            if word.done {
                let began = open.remove(&word.host).expect("what is done was sent");
                if word.at >= from && word.at.since(began) >= STALL_MIN {
                    waits.push((word.path, began, word.at));
                }
            } else {
                open.entry(word.host).or_insert(word.at);
            }
        }
        waits
    }

    /// The stalls of initiators that were told since: by which node, and when.
    fn told(&self, from: Instant) -> Vec<(NodeId, Instant, Stall)> {
        let stalls = self.run.cluster.stalls().iter();
        let named = stalls.filter(|seen| seen.told >= from && seen.stall.initiator.is_some());
        named
            .map(|seen| (seen.node, seen.told, seen.stall.clone()))
            .collect()
    }

    /// The stalls of the volume that nodes told of since, if they are among these.
    fn told_by(&self, is_one: impl Fn(NodeId) -> bool, from: Instant) -> Vec<Stall> {
        let stalls = self.run.cluster.stalls().iter();
        let theirs = stalls.filter(|seen| seen.told >= from && is_one(seen.node));
        let of_volume = theirs.filter(|seen| seen.stall.initiator.is_none());
        of_volume.map(|seen| seen.stall.clone()).collect()
    }

    /// Those that nodes other than this told of.
    fn of_others(&self, but: NodeId, from: Instant) -> Vec<Stall> {
        self.told_by(|node| node != but, from)
    }

    /// What hosts saw at the portals of nodes that live is what those told, and nothing else.
    fn tells_what_hosts_saw(&self, seed: u64, from: Instant, dead: Option<NodeId>) {
        let waits = self.host_waits(from);
        let told = self.told(from);
        let lives = |node: NodeId| Some(node) != dead;
        for (path, began, ended) in &waits {
            let node = NodeId(*path as u16 + 1);
            let length = ended.since(*began);
            if !lives(node) || length < STALL_MIN + TOLERANCE {
                continue;
            }
            let fits = |(by, at, stall): &&(NodeId, Instant, Stall)| {
                *by == node
                    && at.since(*ended).max(ended.since(*at)) < TOLERANCE
                    && stall.length.abs_diff(length) < TOLERANCE
            };
            assert!(
                told.iter().any(|it| fits(&it)),
                "seed {seed}: nobody told that {node}'s host waited for {length:?}: {told:?}"
            );
        }
        for (node, at, stall) in &told {
            let fits = |(path, _, ended): &Wait| {
                NodeId(*path as u16 + 1) == *node
                    && at.since(*ended).max(ended.since(*at)) < TOLERANCE
            };
            let waited = !stall.served || waits.iter().any(fits);
            assert!(
                waited,
                "seed {seed}: {node} told {stall}, and no host saw it"
            );
        }
    }
}

#[test]
fn nobody_tells_of_stalls_while_all_is_well() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror3);
        story.wait(3 * SECOND);
        story.busy(true);
        story.wait(3 * SECOND);
        story.busy(false);
        story.wait(3 * SECOND);
        let told = story.run.cluster.stalls();
        assert!(told.is_empty(), "seed {seed}: {told:?}");
        story.ends_well();
    }
}

#[test]
fn a_killed_primary_is_blamed_for_as_long_as_hosts_waited() {
    for seed in 0..2 * SEEDS {
        let mut story = Story::of_single_paths(seed, Policy::Mirror2, 40);
        story.busy(true);
        story.wait(SECOND);
        let (dead, from) = (story.primary(), story.run.cluster.now());
        story.now(Fault::Kill(dead));
        story.wait(3 * SECOND);
        story.tells_what_hosts_saw(seed, from, Some(dead));
        let told = story.of_others(dead, from);
        assert_eq!(told.len(), 2, "seed {seed}: one at each portal: {told:?}");
        for stall in told {
            assert_eq!(stall.cause, StallCause::NodeLost, "seed {seed}: {stall}");
            assert_eq!(stall.node, Some(dead), "seed {seed}: {stall}");
            assert!(stall.served && stall.slice.is_some(), "seed {seed}");
        }
        story.now(Fault::Start(dead));
        story.wait(SECOND);
        story.ends_well();
    }
}

#[test]
fn a_frozen_secondary_is_blamed_and_says_itself_that_it_stood_still() {
    let mut said = 0;
    for seed in 0..2 * SEEDS {
        let mut story = Story::of_single_paths(seed, Policy::Mirror2, 0);
        story.busy(true);
        story.wait(SECOND);
        let frozen = story.secondary();
        story.wait_for_command_at(frozen);
        let from = story.run.cluster.now();
        story.now(Fault::Freeze {
            node: frozen,
            span: 3 * SECOND,
            between: false,
        });
        story.wait(2 * SECOND);
        story.tells_what_hosts_saw(seed, from, Some(frozen));
        let told = story.of_others(frozen, from);
        assert_eq!(told.len(), 2, "seed {seed}: one at each portal: {told:?}");
        for stall in told {
            assert_eq!(stall.cause, StallCause::NodeLost, "seed {seed}: {stall}");
            assert_eq!(stall.node, Some(frozen), "seed {seed}: {stall}");
        }
        story.wait(4 * SECOND);
        let own = story.run.cluster.stalls().iter();
        let own = own.filter(|seen| seen.node == frozen && seen.stall.initiator.is_none());
        let still: Vec<_> = own
            .filter(|seen| seen.stall.cause == StallCause::Standstill)
            .collect();
        // Where no command was there as it froze, what came meanwhile was never seen.
        said += u64::from(!still.is_empty());
        for seen in still {
            assert!(
                seen.stall.length >= 2 * SECOND,
                "seed {seed}: {}",
                seen.stall
            );
            assert_eq!(seen.stall.node, Some(frozen), "seed {seed}");
        }
        story.ends_well();
    }
    assert!(said >= SEEDS, "{said}");
}

/// The disk of the primary is slow enough to notice, not enough to be replaced.
#[test]
fn a_slow_disk_is_blamed_on_its_node() {
    for seed in 0..SEEDS {
        let mut story = Story::of_single_paths(seed, Policy::None, 0);
        story.busy(true);
        story.wait(SECOND);
        let (slow, from) = (story.primary(), story.run.cluster.now());
        story.now(Fault::SlowDisks(slow, SECOND / 2));
        story.wait(4 * SECOND);
        story.tells_what_hosts_saw(seed, from, None);
        let told = story.of_others(NodeId(0), from);
        let long = told.iter().filter(|stall| stall.length > SECOND / 4);
        let long: Vec<_> = long.collect();
        assert!(long.len() >= 3, "seed {seed}: {told:?}");
        for stall in long {
            assert_eq!(stall.cause, StallCause::Media, "seed {seed}: {stall}");
            assert_eq!(stall.node, Some(slow), "seed {seed}: {stall}");
        }
        story.now(Fault::SlowDisks(slow, Duration::ZERO));
        story.wait(SECOND);
        story.ends_well();
    }
}

/// A secondary dies while its primary does not reach the metadata: it cannot be taken out.
#[test]
fn a_change_that_waits_for_the_metadata_is_blamed_on_it() {
    for seed in 0..SEEDS {
        let mut story = Story::of_single_paths(seed, Policy::Mirror2, 0);
        story.busy(true);
        story.wait(SECOND);
        let (primary, secondary) = (story.primary(), story.secondary());
        story.part(Place::Metadata, Place::Node(primary));
        story.wait(SECOND / 10);
        let from = story.run.cluster.now();
        story.now(Fault::Kill(secondary));
        story.wait(2 * SECOND);
        story.rejoin(Place::Metadata, Place::Node(primary));
        story.wait(3 * SECOND);
        let own = story.run.cluster.stalls().iter();
        let own: Vec<_> = own
            .filter(|seen| seen.node == primary && seen.told >= from)
            .filter(|seen| seen.stall.initiator.is_none())
            .collect();
        let longest = own.iter().max_by_key(|seen| seen.stall.length);
        let longest = &longest.expect("its own host waited").stall;
        assert!(longest.length > SECOND, "seed {seed}: {longest}");
        assert_eq!(
            longest.cause,
            StallCause::Metadata,
            "seed {seed}: {longest}"
        );
        story.now(Fault::Start(secondary));
        story.wait(SECOND);
        story.ends_well();
    }
}

/// Both copies are dead: nothing is told as over before it is. A host that takes its path for dead after a while has
/// given up what it waited for, so that this one does not: what was under way when the copies died cannot be
/// answered before one is back.
#[test]
fn a_stall_that_lasts_can_be_asked_for() {
    for seed in 0..4 * SEEDS {
        let mut story = Story::with_single_paths(seed, Policy::Mirror2, |host| {
            host.reads = 0;
            host.timeout = 30 * SECOND;
        });
        story.busy(true);
        story.wait(SECOND);
        let from = story.run.cluster.now();
        for node in [story.primary(), story.secondary()] {
            story.now(Fault::Kill(node));
        }
        let other = story.bystander();
        story.wait(2 * SECOND);
        let lasting = story.run.cluster.stalled(other);
        // The volume's comes first, then that of each host that waits there.
        let is_of_one = |stall: &Stall| stall.initiator.is_some();
        let of_one = lasting.iter().map(is_of_one).collect::<Vec<bool>>();
        assert!(of_one.len() > 1, "seed {seed}: {lasting:?}");
        assert!(
            !of_one[0] && of_one[1..].iter().all(|it| *it),
            "seed {seed}"
        );
        for stall in &lasting {
            assert_eq!(stall.cause, StallCause::NodeLost, "seed {seed}: {stall}");
        }
        let length = lasting[0].length;
        assert!(length > 3 * SECOND / 2, "seed {seed}: {}", lasting[0]);
        // To be told to come again does not end it.
        story.wait(6 * SECOND);
        let lasting = story.run.cluster.stalled(other);
        let lasts = |stall: &Stall| stall.length > 7 * SECOND;
        assert!(
            lasting.first().is_some_and(lasts),
            "seed {seed}: {lasting:?}"
        );
        let told = story.told_by(|node| node == other, from);
        assert!(told.is_empty(), "seed {seed}: {told:?}");
        for node in story.run.cluster.node_ids() {
            story.now(Fault::Start(node));
        }
        story.wait(4 * SECOND);
        let told = story.told_by(|node| node == other, from);
        let is_over = |stall: &Stall| lasts(stall) && stall.served;
        assert!(told.first().is_some_and(is_over), "seed {seed}: {told:?}");
        story.ends_well();
    }
}
