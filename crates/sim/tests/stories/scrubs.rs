//! Scrubs: what is bad or differs is found and mended without anybody reading it.

use holdfast_model::record::ScrubFindings;
use holdfast_model::{NodeId, Policy};
use holdfast_sim::cluster::Fault;
use holdfast_stdx::Duration;

use crate::story::{SECOND, SEEDS, Story};

/// A cluster in which everything is in its place, and hosts want nothing.
fn settled(seed: u64, policy: Policy) -> Story {
    let mut story = Story::with(seed, policy, |plan| {
        plan.cluster.node.store.destage_after = Duration::from_millis(10);
    });
    story.busy(true);
    story.wait(SECOND);
    story.busy(false);
    story.wait(4 * SECOND);
    story
}

/// Scrubs the volume, and tells what was found in all of its slices.
fn scrub(story: &mut Story) -> ScrubFindings {
    let round = story.run.cluster.scrub();
    let round = round.expect("nothing forbids it");
    for _ in 0..600 {
        let done = story.run.cluster.scrubbed(round);
        if done.len() == story.run.cluster.records().len() {
            let mut sum = ScrubFindings::default();
            done.iter().for_each(|found| sum.add(found));
            return sum;
        }
        story.wait(SECOND / 10);
    }
    panic!("it does not end: {}", story.run.cluster.tally());
}

/// Blocks of a node's pages, which is off meanwhile, become others with the right checksums.
fn alter(story: &mut Story, node: NodeId) {
    story.now(Fault::Kill(node));
    story.now(Fault::Alter(node));
    story.now(Fault::Start(node));
    story.wait(3 * SECOND);
    story.run.converge().expect("it is back");
}

#[test]
fn where_all_is_well_everything_is_read_and_nothing_found() {
    for seed in 0..SEEDS {
        let mut story = settled(seed, Policy::Mirror2);
        let found = scrub(&mut story);
        let read = found.bytes_read;
        assert!(
            read > 0 && read.is_multiple_of(2 * 4096),
            "seed {seed}: {read}"
        );
        let clean = ScrubFindings {
            bytes_read: read,
            ..ScrubFindings::default()
        };
        assert_eq!(found, clean, "seed {seed}");
        assert_eq!(
            scrub(&mut story),
            clean,
            "seed {seed}: the next one begins anew"
        );
        let slices = story.run.cluster.records().len() as u64;
        assert_eq!(
            story.run.cluster.tally().scrubbed,
            2 * slices,
            "seed {seed}"
        );
        story.ends_well();
    }
}

#[test]
fn blocks_that_rot_on_any_node_are_found_and_mended() {
    for seed in 0..SEEDS {
        let mut story = settled(seed, Policy::Mirror3);
        let node = NodeId(seed as u16 % 3 + 1);
        for _ in 0..20 {
            story.now(Fault::RotPages(node));
        }
        story.now(Fault::RotTable(node));
        let found = scrub(&mut story);
        assert!(found.bad > 0, "seed {seed}");
        assert_eq!((found.unmended, found.differing), (0, 0), "seed {seed}");
        let mended = story.run.cluster.mended(node);
        assert!(mended.known > 0, "seed {seed}");
        assert_eq!(mended.differing, 0, "seed {seed}");
        let repaired = story.run.cluster.tally().repaired;
        assert_eq!(repaired, mended.bad(), "seed {seed}");
        let again = scrub(&mut story);
        assert_eq!((again.bad, again.unmended), (0, 0), "seed {seed}");
        story.ends_well();
    }
}

/// Nothing but a scrub reads the second copy once a store is open.
#[test]
fn copies_of_the_table_that_rot_are_written_again() {
    for seed in 0..SEEDS {
        let mut story = settled(seed, Policy::Mirror2);
        for number in 1..=3 {
            story.now(Fault::RotTableCopy(NodeId(number)));
        }
        let bad = |story: &Story| -> u64 {
            let nodes = (1..=3).map(|number| story.run.cluster.bad_copies(NodeId(number)));
            nodes.sum()
        };
        let blocks = scrub(&mut story);
        assert_eq!((blocks.bad, blocks.differing), (0, 0), "seed {seed}");
        let once = bad(&story);
        assert!(once > 0, "seed {seed}");
        scrub(&mut story);
        assert_eq!(bad(&story), once, "seed {seed}: they are right now");
        story.ends_well();
    }
}

#[test]
fn what_no_replica_has_any_more_is_told_of() {
    for seed in 0..SEEDS {
        let mut story = settled(seed, Policy::None);
        let primary = story.primary();
        for _ in 0..40 {
            story.now(Fault::RotForGood(primary));
        }
        let found = scrub(&mut story);
        assert!(found.bad > 0, "seed {seed}");
        assert_eq!(found.bad, found.unmended, "seed {seed}");
    }
}

/// Of three copies two are right, whoever leads; of two the primary's is taken.
#[test]
fn sound_blocks_that_differ_become_what_most_have() {
    for seed in 0..SEEDS {
        let mut story = settled(seed, Policy::Mirror3);
        let node = NodeId(seed as u16 % 3 + 1);
        alter(&mut story, node);
        let found = scrub(&mut story);
        assert!(found.differing > 0, "seed {seed}: {found:?}");
        assert_eq!(
            (found.bad, found.doubtful, found.unmended),
            (0, 0, 0),
            "seed {seed}"
        );
        let cluster = &story.run.cluster;
        let corrected = cluster.tally().corrected;
        let mended = [1, 2, 3].map(|number| cluster.mended(NodeId(number)).differing);
        assert!(corrected > 0, "seed {seed}");
        assert_eq!(corrected, mended.iter().sum::<u64>(), "seed {seed}");
        story.ends_well();
    }
}

#[test]
fn of_two_sound_blocks_that_differ_the_primarys_is_taken_and_that_is_told() {
    for seed in 0..SEEDS {
        let mut story = settled(seed, Policy::Mirror2);
        let secondary = story.secondary();
        alter(&mut story, secondary);
        assert_eq!(
            story.secondary(),
            secondary,
            "seed {seed}: it follows as before"
        );
        let found = scrub(&mut story);
        assert!(found.differing > 0, "seed {seed}: {found:?}");
        assert_eq!(found.doubtful, found.differing, "seed {seed}");
        assert_eq!((found.bad, found.unmended), (0, 0), "seed {seed}");
        story.ends_well();
    }
}

/// Hosts write all the time, nodes die, and what rots is found: nothing is taken for different that is
/// only newer.
#[test]
fn a_scrub_under_load_and_deaths_harms_nothing() {
    for seed in 0..SEEDS {
        let mut story = settled(seed, Policy::Mirror3);
        story.busy(true);
        let cluster = &mut story.run.cluster;
        cluster.scrub().expect("nothing forbids it");
        story.wait(SECOND / 50);
        let primary = story.primary();
        story.now(Fault::Kill(primary));
        story.wait(3 * SECOND);
        story.now(Fault::Start(primary));
        let found = scrub(&mut story);
        let wrong = (found.bad, found.differing, found.unmended);
        assert_eq!(wrong, (0, 0, 0), "seed {seed}: {found:?}");
        story.ends_well();
    }
}

/// The journals of all nodes rot while hosts want nothing: without a scrub no replica could say any more what it had.
#[test]
fn journals_that_rot_while_nothing_is_written_are_mended() {
    for seed in 0..SEEDS {
        let mut story = settled(seed, Policy::Mirror2);
        let nodes = [1, 2, 3].map(NodeId);
        for node in nodes {
            story.now(Fault::RotJournalInUse(node));
        }
        scrub(&mut story);
        story.wait(5 * SECOND);
        for node in nodes {
            let (rounds, rotten, mended) = story.run.cluster.journal_scrubs(node);
            assert!(rounds > 0, "seed {seed}: {node:?}");
            assert!(rotten > 0, "seed {seed}: {node:?}");
            assert_eq!(rotten, mended, "seed {seed}: {node:?}");
        }
        for node in nodes {
            story.now(Fault::Kill(node));
        }
        for node in nodes {
            story.now(Fault::Start(node));
        }
        story.wait(3 * SECOND);
        story.run.converge().expect("all is there");
        story.ends_well();
    }
}
