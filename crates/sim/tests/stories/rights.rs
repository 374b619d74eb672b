//! Who has lost the right to write: hosts that take a volume from each other while their nodes are of little help.

use holdfast_model::{NodeId, Policy};
use holdfast_sim::cluster::Fault;
use holdfast_sim::network::Place;
use holdfast_sim::{HostPlan, Rivalry};
use holdfast_stdx::Duration;

use super::story::{SECOND, SEEDS, Story};

/// Rivals that know one path each: how often each takes the volume, and how many of a hundred commands are reads; how many commands
/// each has under way, in so many places.
fn rivals(seed: u64, paths: &[(usize, Duration, u64)], depth: usize, areas: u64) -> Story {
    Story::with(seed, Policy::Mirror2, |plan| {
        plan.cluster.volumes[0].areas = (0..areas).map(|place| (9 * place, 1)).collect();
        let host = |(path, every, reads): &(usize, Duration, u64)| HostPlan {
            only: Some(*path),
            depth,
            reads: *reads,
            pause: Duration::from_millis(2),
            rivalry: Some(Rivalry {
                kind: 5,
                every: *every,
                registers_after: SECOND / 4,
            }),
            ..plan.cluster.hosts[0].clone()
        };
        plan.cluster.hosts = paths.iter().map(host).collect();
    })
}

fn path_to(node: NodeId) -> usize {
    usize::from(node.0) - 1
}

/// How often a host was told that another one has lost its right, as far as that is certain.
fn taken(story: &Story) -> u64 {
    story.run.cluster.host_counts().taken
}

/// It hears neither of its host's loss nor anything else, and is heard: what it has let in under the lost right comes to the
/// primary after the other host was told that it has the volume.
#[test]
fn what_a_node_forwards_that_hears_nobody_is_not_done() {
    let mut seen = 0;
    for seed in 0..8 * SEEDS {
        // Where the replicas are does not depend on the hosts.
        let same = Story::new(seed, Policy::Mirror2);
        let (deaf, primary) = (same.bystander(), same.primary());
        let paths = [
            (path_to(deaf), 60 * SECOND, 0),
            (path_to(primary), SECOND / 3, 95),
        ];
        // What the deaf one forwards is not answered: it needs many commands to go on.
        let mut story = rivals(seed, &paths, 150, 300);
        story.busy(true);
        for _ in 0..4 {
            story.wait(3 * SECOND);
            assert_eq!(story.bystander(), deaf);
            let before = taken(&story);
            for other in story.others(deaf) {
                story.now(Fault::Cut(other, Place::Node(deaf)));
            }
            story.wait(SECOND);
            seen += taken(&story) - before;
            for other in story.others(deaf) {
                story.now(Fault::Mend(other, Place::Node(deaf)));
            }
        }
        story.ends_well();
    }
    assert!(seen >= SEEDS, "{seen}");
}

/// A write has its number, and is not committed for a while, because the other copy's disk is slow: nobody is told that its host has
/// lost its right before it is there for whoever reads.
#[test]
fn what_was_numbered_is_there_when_the_right_is_lost() {
    let mut seen = 0;
    for seed in 0..4 * SEEDS {
        let paths = [0, 1, 2].map(|path| (path, SECOND / 4, 50));
        let mut story = rivals(seed, &paths, 3, 3);
        story.busy(true);
        for _ in 0..4 {
            story.wait(SECOND / 2);
            let before = taken(&story);
            let slow = story.secondary();
            story.now(Fault::SlowDisks(slow, Duration::from_millis(60)));
            story.wait(SECOND);
            story.now(Fault::SlowDisks(slow, Duration::ZERO));
            seen += taken(&story) - before;
        }
        story.ends_well();
    }
    assert!(seen >= 4 * SEEDS, "{seen}");
}
