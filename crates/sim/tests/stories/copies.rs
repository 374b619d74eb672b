//! Copies between volumes (EXTENDED COPY), while something goes wrong.

use holdfast_model::record::{
    AccessNexus, AccessRecord, Isid, Registration, Reservation, ReservationKind, WishRecord,
};
use holdfast_model::{Fence, NodeId, Policy, SliceId, VolumeId};
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
fn with_copies(
    seed: u64,
    areas: &[(u64, u64)],
    copies: Copies,
    change: impl FnOnce(&mut RunPlan),
) -> Story {
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

/// The same, on a cluster where both volumes are on the same two nodes; each of them leads one, so that the second volume's
/// primary is no more than in sync of what is copied. Only the third node is asked for copies; says which that is.
fn with_copies_within_two_nodes(
    seed: u64,
    areas: &[(u64, u64)],
    copies: Copies,
    change: impl FnOnce(&mut RunPlan),
) -> (Story, NodeId) {
    // Where the replicas are does not depend on the hosts.
    let same = Story::new(seed, Policy::Mirror2);
    let (bystander, primary, secondary) = (same.bystander(), same.primary(), same.secondary());
    drop(same);
    let mut story = with_copies(seed, areas, copies, |plan| {
        plan.cluster.hosts[READER].only = Some(path_to(primary));
        plan.cluster.hosts[COPIER].only = Some(path_to(bystander));
        change(plan);
    });
    assert_eq!((story.bystander(), story.primary()), (bystander, primary));
    let wish = WishRecord {
        schema: 1,
        slice: SliceId {
            volume: VolumeId(2),
            index: 0,
        },
        nodes: vec![primary, secondary],
        kept: Vec::new(),
        preferred: secondary,
    };
    story.run.cluster.wish(&wish).expect("it may be wished");
    let is_met = |story: &Story| {
        let records = story.run.cluster.records();
        records.iter().any(|record| wish.is_met_by(record))
    };
    for _ in 0..120 {
        if is_met(&story) {
            return (story, bystander);
        }
        story.wait(SECOND / 4);
    }
    panic!("not as wished: {:?}", story.run.cluster.records());
}

fn path_to(node: NodeId) -> usize {
    usize::from(node.0) - 1
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
    story.now(Fault::SlowDisks(secondary, Duration::from_millis(230)));
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

/// Both volumes are on the same two nodes, and the third one is asked: nothing of what is copied goes to it or comes from it.
#[test]
fn what_is_copied_between_volumes_of_the_same_nodes_stays_there() {
    for seed in 0..SEEDS {
        let areas: Vec<(u64, u64)> = (0..6).map(|place| (2048 * place, 256)).collect();
        let copies = Copies {
            from: 0,
            percent: 100,
            of_all: false,
        };
        let (mut story, bystander) = with_copies_within_two_nodes(seed, &areas, copies, |_| ());
        story.busy(true);
        story.wait(SECOND);
        let bytes = |story: &Story, node| story.run.cluster.bytes_to_and_from(node);
        let before = [bystander, story.primary()].map(|node| bytes(&story, node));
        story.wait(5 * SECOND);
        let after = [bystander, story.primary()].map(|node| bytes(&story, node));
        let [seen, copied] = [0, 1].map(|node| after[node] - before[node]);
        assert!(copied > 20 << 20, "seed {seed}: {copied}");
        assert!(seen < copied / 50, "seed {seed}: {seen} of {copied}");
        story.ends_well();
    }
}

/// Whoever leads what is written reads for it, and its devices end no read. It dies, or stands still, and does not come to write
/// what it has read: the copies go on where another one leads, and nothing is written late.
#[test]
fn who_is_to_write_what_is_copied_is_lost_while_it_reads() {
    let mut reading = 0;
    for seed in 0..2 * SEEDS {
        let copies = Copies {
            from: 0,
            percent: 70,
            of_all: false,
        };
        let areas = [(0, 64), (1000, 8), (2048, 256), (4000, 8)];
        let mut story = with_copies(seed, &areas, copies, |plan| {
            plan.cluster.node.store.destage_after = Duration::from_millis(10);
            let copier = plan.cluster.hosts[COPIER].clone();
            plan.cluster.hosts.extend([0, 1, 2].map(|path| HostPlan {
                only: Some(path),
                ..copier.clone()
            }));
        });
        story.busy(true);
        for round in 0..4 {
            story.wait(SECOND);
            let (victim, _) = replicas(&story);
            story.now(Fault::HangReads(victim));
            story.wait(SECOND / 4);
            reading += story.run.cluster.copies_under_way(victim);
            if (seed + round) % 2 == 0 {
                story.now(Fault::Kill(victim));
                story.wait(2 * SECOND);
                story.now(Fault::Start(victim));
            } else {
                story.now(Fault::UnstickDisks(victim));
                story.now(Fault::Freeze {
                    node: victim,
                    span: 2 * SECOND,
                    between: round % 2 == 0,
                });
                story.wait(2 * SECOND);
            }
            story.wait(3 * SECOND);
        }
        let counts = counts(&story);
        assert!(counts.copies > 20, "seed {seed}: {counts:?}");
        story.ends_well();
    }
    assert!(reading >= 20, "{reading}");
}

/// A node that hears nothing, and is heard, asks for copies by a right that was taken meanwhile. It is told of that by nobody; whoever
/// leads what is written was.
#[test]
fn what_may_not_be_read_any_more_is_not_copied() {
    let mut refused = 0;
    for seed in 0..SEEDS {
        let areas: Vec<(u64, u64)> = (0..40).map(|place| (9 * place, 1)).collect();
        let copies = Copies {
            from: 0,
            percent: 100,
            of_all: false,
        };
        // What the deaf one asks for is answered, and it does not hear that: it needs many commands to go on.
        let (mut story, deaf) = with_copies_within_two_nodes(seed, &areas, copies, |plan| {
            // It would be told that somebody has the volume reserved.
            plan.cluster.hosts[READER].pause = 100_000 * SECOND;
            let copier = &mut plan.cluster.hosts[COPIER];
            (copier.depth, copier.pause) = (8, Duration::from_millis(100));
            let fellow = copier.clone();
            plan.cluster.hosts.push(fellow);
        });
        story.busy(true);
        let mut access = AccessRecord::open(VolumeId(1));
        for _ in 0..4 {
            story.wait(2 * SECOND);
            for other in story.others(deaf) {
                story.now(Fault::Cut(other, Place::Node(deaf)));
            }
            story.wait(Duration::from_millis(1));
            let holder = AccessNexus {
                initiator: "iqn.2026-11.example:stranger".to_owned(),
                isid: Isid([0x80, 0, 0, 0, 0, 1]),
                port: story.primary(),
            };
            access.registrations = vec![Registration {
                nexus: holder.clone(),
                key: 5,
                all_target_ports: false,
            }];
            access.reservation = Some(Reservation {
                kind: ReservationKind::ExclusiveAccess,
                holder: Some(holder),
            });
            (access.fence, access.changes) = (Fence(access.fence.0 + 1), access.changes + 1);
            let cluster = &mut story.run.cluster;
            cluster.set_access(&access).expect("it may be taken");
            story.wait(SECOND / 20);
            story.run.cluster.rights_are_over(&access);
            story.wait(SECOND);
            (access.reservation, access.changes) = (None, access.changes + 1);
            let cluster = &mut story.run.cluster;
            cluster.set_access(&access).expect("it may be given back");
            for other in story.others(deaf) {
                story.now(Fault::Mend(other, Place::Node(deaf)));
            }
        }
        refused += story.run.cluster.copies_refused();
        story.ends_well();
    }
    assert!(refused >= 100 * SEEDS, "{refused}");
}
