//! Copies between volumes (EXTENDED COPY), while something goes wrong.

use holdfast_model::{NodeId, Policy};
use holdfast_sim::cluster::Fault;
use holdfast_sim::network::Place;
use holdfast_sim::plan::RunPlan;
use holdfast_sim::volumes::VolumePlan;
use holdfast_sim::{Copies, HostCounts, HostPlan};
use holdfast_stdx::Duration;

use super::story::{SECOND, SEEDS, Story};

/// The hosts: one of the volume that is copied, and one that copies.
const READER: usize = 0;
const COPIER: usize = 1;

/// A second volume, like the first one, to which hosts copy that.
fn with_copies(seed: u64, areas: &[(u64, u64)], copies: Copies, change: fn(&mut RunPlan)) -> Story {
    let mut story = Story::with(seed, Policy::Mirror2, |plan| {
        let mut second = VolumePlan::new("second", Policy::Mirror2);
        second.areas = areas.to_vec();
        plan.cluster.volumes[0].areas = areas.to_vec();
        plan.cluster.volumes.push(second);
        let host = plan.cluster.hosts[0].clone();
        let reader = HostPlan { reads: 100, ..host };
        let copier = HostPlan {
            volume: 1,
            copies: Some(copies),
            ..plan.cluster.hosts[0].clone()
        };
        plan.cluster.hosts = vec![reader, copier];
        change(plan);
    });
    if !copies.of_all {
        let cluster = &mut story.run.cluster;
        cluster
            .write_template(READER)
            .expect("the host is well treated");
        story.wait(2 * SECOND);
        assert!(story.run.cluster.is_idle(), "the template is there");
    }
    story
}

fn counts(story: &Story) -> HostCounts {
    story.run.cluster.host_counts()
}

/// The primary and the secondary of the first slice of the volume that is written.
fn replicas(story: &Story) -> (NodeId, NodeId) {
    let records = story.run.cluster.records();
    let record = records.iter().find(|it| it.slice.volume.0 == 2);
    let record = record.expect("the second volume is there");
    let mut others = record.in_sync().filter(|node| *node != record.primary);
    let secondary = others.next().expect("a mirror has two copies");
    (record.primary, secondary)
}

/// Whichever of the nodes dies, the one that copies or one with a copy of either volume: what is told as copied is there, and
/// what was given up and written anew is not copied over.
#[test]
fn copies_are_right_though_nodes_die() {
    let mut sum = HostCounts::default();
    for seed in 0..2 * SEEDS {
        let copies = Copies {
            from: 0,
            percent: 60,
            of_all: false,
        };
        // Two entries, both sides of a border of slices, and of many steps.
        let areas = [(0, 8), (253, 6), ((1 << 20) - 2, 4), (1000, 1024)];
        let mut story = with_copies(seed, &areas, copies, |plan| {
            let copier = plan.cluster.hosts[COPIER].clone();
            let volumes = plan.cluster.volumes.iter_mut();
            for volume in volumes {
                volume.areas.push((3000, 1024));
            }
            plan.cluster.hosts.extend([0, 1, 2].map(|path| HostPlan {
                only: Some(path),
                ..copier.clone()
            }));
        });
        story.busy(true);
        for round in 0..3 {
            story.wait(SECOND);
            let victim = NodeId(1 + ((seed + round) % 3) as u16);
            story.now(Fault::Kill(victim));
            story.wait(2 * SECOND);
            story.now(Fault::Start(victim));
            story.wait(3 * SECOND);
        }
        let HostCounts {
            copies,
            copies_aborted,
            ..
        } = counts(&story);
        assert!(copies > 20, "seed {seed}: {copies} copies were done");
        sum.copies += copies;
        sum.copies_aborted += copies_aborted;
        story.ends_well();
    }
    assert!(sum.copies > 500, "{sum:?}");
}

/// 60 MiB, in pieces that can be read at once; and a host that copies all of that in one command, while the other copy's disk
/// takes its time with each write.
fn with_long_copies(seed: u64) -> Story {
    let areas: Vec<(u64, u64)> = (0..15).map(|place| (1024 * place, 1024)).collect();
    let copies = Copies {
        from: 0,
        percent: 100,
        of_all: true,
    };
    let mut story = with_copies(seed, &areas, copies, |plan| {
        for host in &mut plan.cluster.hosts {
            host.timeout = 30 * SECOND;
        }
    });
    let (_, secondary) = replicas(&story);
    story.now(Fault::SlowDisks(secondary, Duration::from_millis(450)));
    story
}

/// A write may live for three seconds from its arrival; a copy goes on for as long as its host is there.
#[test]
fn a_copy_may_last_longer_than_a_write_lives() {
    for seed in 0..SEEDS {
        let mut story = with_long_copies(seed);
        story.busy(true);
        story.wait(25 * SECOND);
        let counts = counts(&story);
        assert!(counts.copies >= 2, "seed {seed}: {counts:?}");
        assert!(counts.copy_longest > 6 * SECOND, "seed {seed}: {counts:?}");
        assert_eq!(counts.copies_aborted, 0, "seed {seed}");
        let (_, secondary) = replicas(&story);
        story.now(Fault::SlowDisks(secondary, Duration::ZERO));
        story.ends_well();
    }
}

/// Nothing of the host is heard any more, and it hears everything: nobody can know whether it has gone elsewhere, and writes
/// there. Its copy goes on for no longer than a write may live.
#[test]
fn the_copy_of_a_host_that_says_nothing_ends() {
    for seed in 0..SEEDS {
        let mut story = with_long_copies(seed);
        story.busy(true);
        story.wait(3 * SECOND / 2);
        for node in story.run.cluster.node_ids() {
            let host = Place::Host(COPIER as u16);
            story.now(Fault::Cut(host, Place::Node(node)));
        }
        story.wait(4 * SECOND);
        let counts = counts(&story);
        assert_eq!(counts.copies, 0, "seed {seed}: {counts:?}");
        assert_eq!(counts.copies_aborted, 1, "seed {seed}: {counts:?}");
        for node in story.run.cluster.node_ids() {
            let host = Place::Host(COPIER as u16);
            story.now(Fault::Mend(host, Place::Node(node)));
        }
        let (_, secondary) = replicas(&story);
        story.now(Fault::SlowDisks(secondary, Duration::ZERO));
        story.wait(10 * SECOND);
        story.ends_well();
    }
}
