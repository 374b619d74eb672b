//! Nodes that do not reach each other, or the metadata.

use holdfast_model::{NodeId, Policy};
use holdfast_sim::HostPlan;
use holdfast_sim::cluster::Fault;
use holdfast_sim::network::Place;
use holdfast_stdx::Duration;

use crate::story::{SECOND, SEEDS, Story, in_sync, joining};

#[test]
fn a_node_that_reaches_nobody_is_replaced_and_comes_back() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror3);
        story.busy(true);
        story.wait(SECOND);
        let node = story.primary();
        let others = story.others(node);
        for other in &others {
            story.part(Place::Node(node), *other);
        }
        story.wait(5 * SECOND);
        assert_ne!(story.primary(), node, "seed {seed}");
        for other in &others {
            story.rejoin(Place::Node(node), *other);
        }
        story.wait(5 * SECOND);
        story.ends_well();
    }
}

/// A replica is brought up to date, and its primary does not hear that the metadata counts it as in sync.
/// From then on nothing commits without it: when the primary loses it, and dies, it leads.
#[test]
fn nothing_commits_without_a_replica_that_has_just_been_brought_up_to_date() {
    let mut seen = 0;
    for seed in 0..6 * SEEDS {
        let mut story = Story::new(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(SECOND);
        let (primary, other) = (story.primary(), story.secondary());
        story.now(Fault::Kill(other));
        story.wait(2 * SECOND);
        story.now(Fault::Start(other));
        if !story.wait_until(joining, other) {
            continue;
        }
        // It has to hear that the other one joins before it may hear nothing any more.
        story.wait(Duration::from_millis(seed));
        story.now(Fault::Cut(Place::Metadata, Place::Node(primary)));
        if story.wait_until(in_sync, other) && story.primary() == primary {
            story.now(Fault::Reset(primary, other));
            story.wait(Duration::from_millis(1));
            story.part(Place::Node(primary), Place::Node(other));
            story.wait(SECOND / 10);
            story.now(Fault::Kill(primary));
            story.wait(2 * SECOND);
            if story.primary() == other {
                seen += 1;
            }
        }
        story.rejoin(Place::Node(primary), Place::Node(other));
        story.now(Fault::Mend(Place::Metadata, Place::Node(primary)));
        story.now(Fault::Start(primary));
        story.wait(SECOND);
        story.ends_well();
    }
    assert!(seen >= 5 * SEEDS, "{seen}");
}

/// A replica that hears neither nodes nor the metadata, and that hosts still reach, serves what it may
/// have of old only as long as nobody writes without it.
#[test]
fn a_replica_that_only_hosts_reach_serves_nothing_stale() {
    for seed in 0..4 * SEEDS {
        let mut story = Story::with(seed, Policy::Mirror2, |plan| {
            plan.cluster.volumes[0].areas = vec![(0, 4), (1000, 2)];
            // A host on each path that reads, and one that writes: it waits while its node is alone.
            let host = |path, reads| HostPlan {
                only: Some(path),
                reads,
                pause: Duration::from_millis(4),
                ..plan.cluster.hosts[0].clone()
            };
            plan.cluster.hosts = (0..6)
                .map(|it| host(it / 2, 100 * (it as u64 % 2)))
                .collect();
        });
        story.busy(true);
        for _ in 0..4 {
            story.wait(SECOND);
            let alone = story.secondary();
            let others = story.others(alone);
            if seed % 2 == 0 {
                for other in &others {
                    if let Place::Node(other) = other {
                        story.now(Fault::Reset(alone, *other));
                    }
                }
                // All hear of it before nobody hears anything any more.
                story.wait(Duration::from_millis(1));
            }
            for other in &others {
                story.part(Place::Node(alone), *other);
            }
            story.wait(SECOND);
            for other in &others {
                story.rejoin(Place::Node(alone), *other);
            }
            assert!(story.wait_until(in_sync, alone), "seed {seed}");
        }
        story.ends_well();
    }
}

/// Five hosts have written to the same few places for a second, and go on.
fn crowded(seed: u64, change: impl FnOnce(HostPlan) -> HostPlan) -> Story {
    let mut story = Story::with(seed, Policy::Mirror2, |plan| {
        plan.cluster.volumes[0].areas = vec![(0, 2), (1000, 1)];
        let host = change(HostPlan {
            pause: Duration::from_millis(4),
            reads: 10,
            ..plan.cluster.hosts[0].clone()
        });
        plan.cluster.hosts = vec![host; 5];
    });
    story.busy(true);
    story.wait(SECOND);
    story
}

/// What a node has forwarded is stuck on its way when the node dies. Its hosts repeat everything
/// elsewhere, and write other things in the same places; then the first ones arrive.
#[test]
fn what_a_dead_node_has_forwarded_never_lands() {
    for seed in 0..6 * SEEDS {
        let mut story = crowded(seed, |host| HostPlan {
            after_end: Duration::from_millis(1050),
            ..host
        });
        let (dead, primary) = (story.bystander(), story.primary());
        story.now(Fault::Cut(Place::Node(dead), Place::Node(primary)));
        story.wait(SECOND / 20);
        story.now(Fault::Kill(dead));
        story.wait(Duration::from_millis(1100 + 100 * seed));
        story.now(Fault::Mend(Place::Node(dead), Place::Node(primary)));
        story.wait(SECOND);
        story.now(Fault::Start(dead));
        story.ends_well();
    }
}

/// What a host has sent into a dead cable comes when that works again, though the host has closed its socket and has
/// written other things there meanwhile.
#[test]
fn what_comes_late_of_a_host_lands_nowhere() {
    for seed in 0..4 * SEEDS {
        let mut story = crowded(seed, |host| HostPlan {
            timeout: 2 * SECOND,
            patience: Duration::from_millis(4250),
            aborts: false,
            lingers: true,
            ..host
        });
        let node = NodeId(1 + (seed % 3) as u16);
        for host in 0..5 {
            story.now(Fault::Cut(Place::Host(host), Place::Node(node)));
        }
        story.wait(Duration::from_millis(4500 + 100 * seed));
        for host in 0..5 {
            story.now(Fault::Mend(Place::Host(host), Place::Node(node)));
        }
        story.wait(SECOND);
        story.ends_well();
    }
}
