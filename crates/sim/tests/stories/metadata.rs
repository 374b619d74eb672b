//! Metadata that is away, or from another time.

use holdfast_model::record::WishRecord;
use holdfast_model::{NodeId, Policy};
use holdfast_sim::cluster::{Damage, Fault};
use holdfast_sim::network::Place;

use crate::story::{SECOND, SEEDS, Story};

#[test]
fn without_metadata_everything_goes_on_as_long_as_nothing_else_breaks() {
    let mut story = Story::new(1, Policy::Mirror2);
    let epochs = story.epochs();
    story.busy(true);
    story.wait(SECOND);
    story.run.cluster.watch_stall();
    for node in story.run.cluster.node_ids() {
        story.part(Place::Node(node), Place::Metadata);
    }
    story.wait(10 * SECOND);
    assert!(story.run.cluster.stall() < SECOND / 5);
    assert_eq!(story.epochs(), epochs);
    for node in story.run.cluster.node_ids() {
        story.rejoin(Place::Node(node), Place::Metadata);
    }
    story.ends_well();
}

/// A backup of the metadata is brought back that is older than the volume, or none at all: nodes
/// keep what they hold, whether they run or start again, and go on when the right one is back.
#[test]
fn metadata_that_goes_back_deletes_nothing() {
    for seed in 0..SEEDS {
        for fault in [Fault::RollBackMetadata, Fault::EmptyMetadata] {
            let mut story = Story::new(seed, Policy::Mirror2);
            story.busy(true);
            story.wait(2 * SECOND);
            let secondary = story.secondary();
            story.now(fault);
            story.wait(3 * SECOND);
            assert_eq!(
                story.run.cluster.tally().astray,
                3,
                "seed {seed}: {fault:?}"
            );
            story.now(Fault::Kill(secondary));
            story.wait(SECOND);
            story.now(Fault::Start(secondary));
            story.wait(3 * SECOND);
            assert_eq!(
                story.run.cluster.tally().astray,
                4,
                "seed {seed}: {fault:?}"
            );
            story.now(Fault::RestoreMetadata);
            story.wait(3 * SECOND);
            story.ends_well();
        }
    }
}

/// Somebody deletes documents while nodes run: they keep what they hold, whether they run or start again, hosts go on, and
/// nodes go on when the documents are there again.
#[test]
fn documents_that_somebody_deletes_take_no_data_with_them() {
    for seed in 0..SEEDS {
        let damages = [
            Damage::Everything,
            Damage::Volumes,
            Damage::Slices,
            Damage::Nodes,
        ];
        for damage in damages {
            let mut story = Story::new(seed, Policy::Mirror2);
            let epochs = story.epochs();
            story.busy(true);
            story.wait(2 * SECOND);
            let secondary = story.secondary();
            story.run.cluster.watch_stall();
            story.now(Fault::DamageMetadata(damage));
            story.wait(5 * SECOND);
            let what = format!("seed {seed}: {damage:?}");
            assert_eq!(story.run.cluster.tally().astray, 3, "{what}");
            assert!(story.run.cluster.stall() < SECOND / 5, "{what}");
            story.now(Fault::Kill(secondary));
            story.wait(SECOND);
            story.now(Fault::Start(secondary));
            story.wait(3 * SECOND);
            assert_eq!(story.run.cluster.tally().astray, 4, "{what}");
            story.now(Fault::RestoreMetadata);
            story.wait(3 * SECOND);
            assert!(story.epochs() >= epochs, "{what}");
            story.ends_well();
        }
    }
}

/// One node finds a copy of the metadata where it looks for it, which goes on by itself: others do not find there what it has left in
/// that, and it believes nothing of it, whoever dies meanwhile. Nor does it believe the right one when that is back, and
/// what it holds counts for nothing, before an operator says so.
#[test]
fn a_node_that_follows_a_copy_of_the_metadata_leads_nothing_by_it() {
    for seed in 0..2 * SEEDS {
        let mut story = Story::new(seed, Policy::Mirror3);
        story.busy(true);
        story.wait(2 * SECOND);
        let (primary, secondary) = (story.primary(), story.secondary());
        story.now(Fault::ForkMetadata(secondary));
        if seed % 2 == 1 {
            // The copy is where its configuration says.
            story.now(Fault::Kill(secondary));
            story.wait(SECOND);
            story.now(Fault::Start(secondary));
        }
        story.wait(2 * SECOND);
        assert_eq!(story.run.cluster.tally().astray, 1, "seed {seed}");
        story.now(Fault::Kill(primary));
        story.wait(3 * SECOND);
        assert!(
            ![primary, secondary].contains(&story.primary()),
            "seed {seed}"
        );
        story.now(Fault::Start(primary));
        story.wait(3 * SECOND);
        let before = story.run.cluster.tally().astray;
        story.now(Fault::JoinMetadata);
        story.wait(2 * SECOND);
        assert_eq!(story.run.cluster.tally().astray, before, "seed {seed}");
        story.now(Fault::Kill(secondary));
        story.wait(SECOND);
        story.now(Fault::Start(secondary));
        story.wait(2 * SECOND);
        assert_eq!(story.run.cluster.tally().astray, before + 1, "seed {seed}");
        story.now(Fault::Kill(secondary));
        story.wait(SECOND);
        story.begins_anew(secondary);
        assert_eq!(story.run.cluster.tally().astray, before + 1, "seed {seed}");
        story.ends_well();
    }
}

/// A backup of the metadata was made, and then a secondary was away while others went on: of two copies, or of three.
fn away_since_a_backup(seed: u64) -> (Story, NodeId) {
    let policy = if seed.is_multiple_of(2) {
        Policy::Mirror2
    } else {
        Policy::Mirror3
    };
    let mut story = Story::new(seed, policy);
    story.busy(true);
    story.wait(2 * SECOND);
    story.now(Fault::SaveMetadata);
    let secondary = story.secondary();
    story.now(Fault::Kill(secondary));
    story.wait(4 * SECOND);
    (story, secondary)
}

/// A backup is brought back while all nodes are off, from before one of them was away: it cannot know that it is old, but the others can, and
/// tell it. Nobody does anything by it, and what was written meanwhile is there when the newest one is back.
#[test]
fn a_backup_from_before_a_node_was_away_is_followed_by_nobody() {
    for seed in 0..2 * SEEDS {
        let (mut story, secondary) = away_since_a_backup(seed);
        let epochs = story.epochs();
        let mut nodes = story.run.cluster.node_ids();
        for node in nodes.iter().filter(|node| **node != secondary) {
            story.now(Fault::Kill(*node));
        }
        story.wait(SECOND);
        story.now(Fault::RollBackMetadata);
        story.wait(SECOND / 10);
        let outdated = story.epochs();
        // Who was away comes first, or last.
        nodes.sort_by_key(|node| (*node == secondary) == (seed / 2 % 2 == 0));
        for node in nodes {
            story.now(Fault::Start(node));
            story.wait(SECOND / 4);
        }
        story.wait(8 * SECOND);
        assert_eq!(story.run.cluster.tally().astray, 3, "seed {seed}");
        assert_eq!(story.epochs(), outdated, "seed {seed}");
        story.now(Fault::Kill(secondary));
        story.now(Fault::RestoreMetadata);
        story.wait(3 * SECOND);
        assert!(story.epochs() >= epochs, "seed {seed}");
        // It has begun to follow the backup, before it was told.
        story.begins_anew(secondary);
        assert_eq!(story.run.cluster.tally().astray, 3, "seed {seed}");
        story.ends_well();
    }
}

/// With the one that leads the slice, and the other.
fn two_busy_nodes(seed: u64) -> (Story, NodeId, NodeId) {
    let mut story = Story::with(seed, Policy::Mirror2, |plan| {
        plan.cluster.nodes = 2;
        plan.cluster.hosts.truncate(2);
    });
    story.busy(true);
    story.wait(2 * SECOND);
    let (primary, secondary) = (story.primary(), story.secondary());
    (story, primary, secondary)
}

/// Of two nodes each is as many as the other: both come at the same time, and neither goes on. Where the one that is right has gone on for long it
/// is not put off by the other, which has come from a copy; nor when it is started again after that.
#[test]
fn one_of_two_nodes_is_believed_if_it_had_gone_on_before() {
    for seed in 0..SEEDS {
        let (mut story, primary, secondary) = two_busy_nodes(seed);
        story.now(Fault::SaveMetadata);
        story.now(Fault::Kill(secondary));
        story.wait(4 * SECOND);
        story.now(Fault::Kill(primary));
        story.wait(SECOND);
        story.now(Fault::RollBackMetadata);
        story.wait(SECOND / 10);
        let outdated = story.epochs();
        story.now(Fault::Start(secondary));
        story.now(Fault::Start(primary));
        story.wait(90 * SECOND);
        assert_eq!(story.run.cluster.tally().astray, 2, "seed {seed}");
        assert_eq!(story.epochs(), outdated, "seed {seed}");
        story.now(Fault::Kill(secondary));
        story.now(Fault::RestoreMetadata);
        story.wait(3 * SECOND);
        story.begins_anew(secondary);
        story.ends_well();

        let (mut story, primary, secondary) = two_busy_nodes(seed);
        story.wait(70 * SECOND);
        story.now(Fault::ForkMetadata(secondary));
        story.wait(3 * SECOND);
        story.now(Fault::Kill(secondary));
        story.now(Fault::JoinMetadata);
        story.wait(SECOND);
        story.run.cluster.watch_stall();
        let before = story.run.cluster.tally().astray;
        story.now(Fault::Start(secondary));
        story.wait(5 * SECOND);
        assert_eq!(story.run.cluster.tally().astray, before + 1, "seed {seed}");
        assert!(story.run.cluster.stall() < 2 * SECOND, "seed {seed}");
        story.now(Fault::Kill(primary));
        story.wait(SECOND);
        story.now(Fault::Start(primary));
        story.wait(5 * SECOND);
        assert_eq!(story.run.cluster.tally().astray, before + 1, "seed {seed}");
        assert_eq!(story.primary(), primary, "seed {seed}");
        story.now(Fault::Kill(secondary));
        story.begins_anew(secondary);
        story.ends_well();
    }
}

/// Two nodes follow two copies, and neither was there before the other: both stop, whichever is started again, or does not hear the
/// other for a while, and stay so until they follow the same again.
#[test]
fn two_nodes_of_which_neither_knows_better_both_stop() {
    for seed in 0..3 * SEEDS {
        let (mut story, primary, secondary) = two_busy_nodes(seed);
        story.now(Fault::ForkMetadata(secondary));
        story.wait(3 * SECOND);
        let (one, other) = (Place::Node(primary), Place::Node(secondary));
        let epochs = story.epochs();
        for round in 0..3 {
            let before = story.run.cluster.tally().astray;
            assert!(before >= 2, "seed {seed}");
            match seed % 3 {
                0 => {
                    story.wait(70 * SECOND);
                    let node = [primary, secondary][round % 2];
                    story.now(Fault::Kill(node));
                    story.wait(SECOND);
                    story.now(Fault::Start(node));
                }
                1 => {
                    story.part(one, other);
                    story.now(Fault::Cut(Place::Metadata, one));
                    story.wait(12 * SECOND);
                    story.rejoin(one, other);
                    story.wait(3 * SECOND);
                    story.now(Fault::Mend(Place::Metadata, one));
                }
                _ => {}
            }
            story.wait(20 * SECOND);
        }
        assert_eq!(story.epochs(), epochs, "seed {seed}");
        story.now(Fault::Kill(secondary));
        story.now(Fault::JoinMetadata);
        story.wait(SECOND);
        story.begins_anew(secondary);
        story.ends_well();
    }
}

/// The one that was away is there alone for a while, and leads by the backup, in which the others are absent then, or in epochs beyond theirs: they do
/// not come to believe it for that, and tell it.
#[test]
fn a_backup_that_has_gone_on_is_not_followed_by_those_who_know_better() {
    for seed in 0..2 * SEEDS {
        let is_short = seed % 2 == 0;
        let (mut story, secondary) = away_since_a_backup(seed);
        let epochs = story.epochs();
        let nodes = story.run.cluster.node_ids();
        let others = || nodes.iter().filter(|node| **node != secondary);
        for node in others() {
            story.now(Fault::Kill(*node));
        }
        story.wait(SECOND);
        for host in 0..5 {
            story.part(Place::Node(secondary), Place::Host(host));
        }
        story.run.cluster.leave_out(Some(secondary));
        story.now(Fault::RollBackMetadata);
        for _ in 0..if is_short { 0 } else { 4 } {
            story.now(Fault::Start(secondary));
            story.wait(3 * SECOND);
            story.now(Fault::Kill(secondary));
            story.wait(SECOND);
        }
        if is_short {
            story.now(Fault::Start(secondary));
            story.wait(5 * SECOND);
            assert_eq!(story.primary(), secondary, "seed {seed}");
        } else {
            let ahead = story.epochs().into_iter().zip(&epochs);
            assert!({ ahead }.all(|(now, then)| now > *then), "seed {seed}");
        }
        assert_eq!(story.run.cluster.tally().astray, 0, "seed {seed}");
        for node in &nodes {
            story.now(Fault::Start(*node));
        }
        story.wait(8 * SECOND);
        assert_eq!(story.run.cluster.tally().astray, 3, "seed {seed}");
        story.now(Fault::Kill(secondary));
        story.now(Fault::RestoreMetadata);
        story.wait(3 * SECOND);
        story.run.cluster.leave_out(None);
        for host in 0..5 {
            story.rejoin(Place::Node(secondary), Place::Host(host));
        }
        story.begins_anew(secondary);
        assert_eq!(story.run.cluster.tally().astray, 3, "seed {seed}");
        story.ends_well();
    }
}

/// The node is cut off from all others and from hosts, and leads alone by the copy, in epochs far ahead of theirs. When they are there
/// again it believes it no more; and what it did there counts for nothing, once it has begun anew.
#[test]
fn a_node_that_led_by_a_copy_of_the_metadata_begins_anew() {
    for seed in 0..2 * SEEDS {
        let mut story = Story::new(seed, Policy::Mirror3);
        story.busy(true);
        story.wait(2 * SECOND);
        let secondary = story.secondary();
        let others: Vec<Place> = (story.others(secondary).into_iter())
            .filter(|place| *place != Place::Metadata)
            .chain((0..5).map(Place::Host))
            .collect();
        for place in &others {
            story.part(Place::Node(secondary), *place);
        }
        story.run.cluster.leave_out(Some(secondary));
        story.now(Fault::ForkMetadata(secondary));
        story.wait(3 * SECOND);
        for _ in 0..4 {
            story.now(Fault::Kill(secondary));
            story.wait(SECOND);
            story.now(Fault::Start(secondary));
            story.wait(2 * SECOND);
        }
        let epochs = story.epochs();
        assert!(story.run.cluster.tally().astray == 0, "seed {seed}");
        for place in &others {
            if matches!(place, Place::Node(_)) {
                story.rejoin(Place::Node(secondary), *place);
            }
        }
        story.wait(4 * SECOND);
        assert_eq!(story.run.cluster.tally().astray, 1, "seed {seed}");
        for place in &others {
            if matches!(place, Place::Host(_)) {
                story.rejoin(Place::Node(secondary), *place);
            }
        }
        story.wait(2 * SECOND);
        assert_eq!(story.epochs(), epochs, "seed {seed}");
        story.now(Fault::JoinMetadata);
        story.now(Fault::Kill(secondary));
        story.wait(SECOND);
        story.run.cluster.leave_out(None);
        story.begins_anew(secondary);
        assert_eq!(story.run.cluster.tally().astray, 1, "seed {seed}");
        story.ends_well();
    }
}

/// A backup is brought back that is one change old, when somebody is about to change a record that is the
/// same in it: nobody does before it has looked, or the metadata would soon look as new as it was.
#[test]
fn metadata_that_goes_back_by_one_change_is_not_changed() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(SECOND);
        story.now(Fault::SaveMetadata);
        story.wait(SECOND / 10);
        // That it is to be where it is changes nothing but the metadata.
        let record = story.run.cluster.records()[0].clone();
        let wish = WishRecord {
            schema: 1,
            slice: record.slice,
            nodes: record.replicas.iter().map(|it| it.node).collect(),
            kept: Vec::new(),
            preferred: record.preferred,
        };
        story.run.cluster.wish(&wish).expect("it may be wished");
        story.wait(2 * SECOND);
        let secondary = story.secondary();
        story.now(Fault::Kill(secondary));
        story.wait(SECOND / 10);
        story.now(Fault::RollBackMetadata);
        story.wait(3 * SECOND);
        assert_eq!(story.run.cluster.tally().astray, 2, "seed {seed}");
        story.now(Fault::RestoreMetadata);
        story.wait(SECOND);
        story.now(Fault::Start(secondary));
        story.wait(SECOND);
        story.ends_well();
    }
}
