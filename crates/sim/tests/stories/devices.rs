//! Devices that rot, or are emptied.

use holdfast_model::{NodeId, Policy};
use holdfast_sim::cluster::Fault;
use holdfast_sim::failure::Failure;
use holdfast_sim::network::Place;
use holdfast_stdx::Duration;

use crate::story::{SECOND, SEEDS, Story, in_sync, joining};

/// What a secondary knows to be committed lags behind what its primary has put in place: a copy that is
/// too old to mend a block is asked for again.
#[test]
fn blocks_that_rot_under_load_are_mended_before_anybody_notices() {
    let mut read = 0;
    for seed in 0..24 {
        let mut story = Story::of_rot(seed, Policy::Mirror2);
        story.now(Fault::Slow(Duration::from_millis(40)));
        story.busy(true);
        story.wait(8 * SECOND);
        let cluster = &story.run.cluster;
        let mended = [1, 2, 3].map(|number| cluster.mended(NodeId(number)));
        let bad: u64 = mended.iter().map(|it| it.bad()).sum();
        assert!(bad > 0, "seed {seed}");
        assert_eq!(cluster.tally().repaired, bad, "seed {seed}");
        read += mended.iter().map(|it| it.read).sum::<u64>();
        story.ends_well();
    }
    assert!(read > 0, "hosts met some of them");
}

/// A block is fetched from another replica while its volume is deleted: what comes is for nobody.
#[test]
fn a_volume_that_is_deleted_while_it_is_mended_is_gone_and_no_more() {
    for seed in 0..24 {
        let mut story = Story::of_rot(seed, Policy::Mirror2);
        story.now(Fault::Slow(Duration::from_millis(40)));
        story.busy(true);
        story.wait(2 * SECOND + Duration::from_millis(17 * seed));
        assert!(story.run.cluster.tally().repaired > 0, "seed {seed}");
        // The other one does not hear of it, and the disk takes its time to drop everything.
        let (victim, other) = (story.primary(), story.secondary());
        story.now(Fault::Cut(Place::Metadata, Place::Node(other)));
        story.now(Fault::SlowDisks(victim, SECOND / 5));
        story.now(Fault::RotPages(victim));
        story.wait(SECOND / 20);
        let cluster = &mut story.run.cluster;
        cluster.delete_volumes().expect("nothing forbids it");
        let end = cluster.now() + 2 * SECOND;
        while let Err(failure) = cluster.run_until(end) {
            // Hosts do not like it.
            assert!(
                matches!(failure, Failure::Host { .. }),
                "seed {seed}: {failure}"
            );
        }
    }
}

/// The only copy has blocks that cannot be read: whoever is brought up to date from it has them all,
/// the bad ones as bad.
#[test]
fn a_lone_copy_with_bad_blocks_is_copied_all_the_same() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(2 * SECOND);
        story.busy(false);
        story.wait(SECOND);
        let (primary, secondary) = (story.primary(), story.secondary());
        story.now(Fault::Kill(secondary));
        story.wait(2 * SECOND);
        story.now(Fault::Wipe(secondary));
        for _ in 0..100 {
            story.now(Fault::RotForGood(primary));
        }
        story.now(Fault::Start(secondary));
        story.wait(SECOND);
        story.run.converge().expect("the copy is made");
        assert!(story.run.cluster.tally().joined_full > 0, "seed {seed}");
        let bad = |node| story.run.cluster.bad_blocks(node);
        assert!(bad(primary) > 0, "seed {seed}: nothing was bad");
        assert_eq!(bad(primary), bad(secondary), "seed {seed}");
    }
}

/// The only copy that is in sync has blocks that cannot be read, in a page of which others changed while the
/// second one was away. What did not change is still good there, until it is copied over.
#[test]
fn a_good_old_block_is_not_given_up_for_a_bad_one() {
    const BLOCKS: u64 = 60;
    for seed in 0..SEEDS {
        let mut story = Story::with(seed, Policy::Mirror2, |plan| {
            plan.cluster.volumes[0].areas = vec![(0, BLOCKS)];
            // Who knows one path only may have a read to do when it is there again.
            plan.cluster.hosts.truncate(2);
        });
        story.busy(true);
        story.wait(4 * SECOND);
        story.busy(false);
        story.wait(3 * SECOND);
        let (primary, secondary) = (story.primary(), story.secondary());
        story.now(Fault::Kill(secondary));
        story.wait(2 * SECOND);
        // A few blocks change, however large a write is.
        story.run.cluster.focus(&[(0, BLOCKS / 6)]);
        story.busy(true);
        story.wait(SECOND / 50);
        story.busy(false);
        story.wait(3 * SECOND);
        // Which blocks changed it does not know any more after a restart, only that some did.
        story.now(Fault::Kill(primary));
        story.now(Fault::Start(primary));
        story.wait(3 * SECOND);
        for _ in 0..100 {
            story.now(Fault::RotPagesForGood(primary));
        }
        story.now(Fault::Start(secondary));
        story.wait(SECOND);
        story.run.converge().expect("the copy is made");
        let bad = story.run.cluster.bad_blocks(primary);
        let repaired = story.run.cluster.tally().repaired;
        // What changed is lost, and it was a few blocks.
        assert!(
            bad < repaired,
            "seed {seed}: {bad} are bad, {repaired} were taken"
        );
        assert_eq!(bad, story.run.cluster.bad_blocks(secondary), "seed {seed}");
    }
}

/// The only copy that is in sync has bad blocks, and the second one, which comes back, has them as they were when it
/// left. They are read, which takes long, and written anew, before that one begins to join at a point that is
/// later. What it gives then, with the checksum that was read, does not land over what was written; and where it
/// has been brought that by now, the block is not lost.
#[test]
fn what_a_joining_replica_gives_is_as_old_as_what_was_read() {
    // It is brought so many pages before the one that is read: more than are on their way at a time.
    const OTHERS: u64 = 60;
    let place = [(64 * OTHERS, 60)];
    let others: Vec<(u64, u64)> = (0..OTHERS).map(|page| (64 * page, 1)).collect();
    let mut taken = 0;
    for seed in 0..4 * SEEDS {
        let mut story = Story::with(seed, Policy::Mirror2, |plan| {
            plan.cluster.node.store.destage_after = Duration::from_millis(10);
            plan.cluster.volumes[0].areas = place.iter().chain(&others).copied().collect();
            plan.cluster
                .hosts
                .iter_mut()
                .for_each(|host| host.depth = 8);
        });
        story.run.cluster.focus(&place);
        story.busy(true);
        story.wait(SECOND);
        story.busy(false);
        story.wait(3 * SECOND);
        let (primary, joins) = (story.primary(), story.secondary());
        story.now(Fault::Kill(joins));
        story.wait(SECOND);
        for _ in 0..100 {
            story.now(Fault::RotPagesForGood(primary));
        }
        story.run.cluster.focus(&others);
        story.busy(true);
        story.wait(SECOND);
        story.busy(false);
        story.wait(3 * SECOND);
        story.now(Fault::HangReads(primary));
        story.run.cluster.focus(&place);
        story.busy(true);
        story.wait(SECOND / 4);
        story.busy(false);
        story.now(Fault::Start(joins));
        assert!(story.wait_until(joining, joins), "seed {seed}");
        story.wait(SECOND / 5);
        let before = story.run.cluster.tally().repaired;
        story.now(Fault::UnstickDisks(primary));
        story.wait(SECOND);
        taken += u64::from(story.run.cluster.tally().repaired > before);
        story.ends_well();
    }
    assert!(taken > 2 * SEEDS, "{taken}");
}

#[test]
fn an_emptied_node_that_counts_as_in_sync_is_copied_anew() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(SECOND);
        let node = if seed % 2 == 0 {
            story.primary()
        } else {
            story.secondary()
        };
        // Back before anybody has noticed that it was away.
        story.now(Fault::Kill(node));
        story.now(Fault::Wipe(node));
        story.now(Fault::Start(node));
        story.wait(3 * SECOND);
        assert!(story.run.cluster.tally().joined_full > 0, "seed {seed}");
        story.ends_well();
    }
}

/// One copy is away and another one lost for good: the third cannot go on alone, and takes back the
/// one that was away.
#[test]
fn a_copy_lost_for_good_is_replaced_by_one_that_comes_back() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror3);
        story.busy(true);
        story.wait(SECOND);
        let away = story.secondary();
        story.now(Fault::LosePower(away));
        story.wait(2 * SECOND);
        let lost = story.primary();
        story.now(Fault::Kill(lost));
        story.now(Fault::Wipe(lost));
        story.wait(2 * SECOND);
        story.now(Fault::Start(lost));
        story.wait(2 * SECOND);
        story.now(Fault::Start(away));
        story.wait(2 * SECOND);
        story.ends_well();
    }
}

/// A replica is copied in full, and killed in the middle of it; meanwhile its devices rot, and its journal
/// with them. What had been copied is not taken for what is there.
#[test]
fn copies_that_a_journal_has_lost_are_made_again() {
    let mut damaged = 0;
    for seed in 0..10 * SEEDS {
        let victim = Story::new(seed, Policy::Mirror2).secondary();
        let mut story = Story::with(seed, Policy::Mirror2, |plan| {
            plan.victim = victim;
            plan.cluster.node.store.destage_after = 10 * SECOND;
            let page = 64;
            plan.cluster.volumes[0].areas = (0..24).map(|it| (it * page, 4)).collect();
            plan.faults = vec![(SECOND, Fault::Rot(victim))];
        });
        story.busy(true);
        story.wait(2 * SECOND);
        story.now(Fault::Kill(victim));
        story.wait(SECOND);
        story.now(Fault::Wipe(victim));
        story.now(Fault::SlowDisks(victim, SECOND / 50));
        story.now(Fault::Start(victim));
        assert!(story.wait_until(joining, victim), "seed {seed}");
        story.wait(Duration::from_millis(10 + 5 * seed));
        if !story.wait_until(joining, victim) {
            continue;
        }
        story.now(Fault::Kill(victim));
        story.wait(SECOND / 10);
        for _ in 0..4 {
            story.now(Fault::Rot(victim));
        }
        story.now(Fault::SlowDisks(victim, Duration::ZERO));
        story.now(Fault::Start(victim));
        story.wait(2 * SECOND);
        damaged += 1;
        story.ends_well();
    }
    assert!(damaged >= 10, "{damaged}");
}

/// Both copies of entries of the table are lost while a node is off: the pages are fetched again, and
/// do not count as empty.
#[test]
fn pages_that_a_table_has_lost_are_fetched_again() {
    for seed in 0..6 * SEEDS {
        let mut story = Story::with(seed, Policy::Mirror2, |plan| {
            plan.cluster.node.store.destage_after = Duration::from_millis(10);
            let page = 64;
            plan.cluster.volumes[0].areas = (0..24).map(|it| (it * page, 2)).collect();
        });
        story.busy(true);
        story.wait(3 * SECOND);
        let victim = story.secondary();
        story.now(Fault::Kill(victim));
        story.now(Fault::RotTable(victim));
        story.now(Fault::Start(victim));
        story.wait(SECOND);
        story.ends_well();
    }
}

/// A replica is away, and what it holds is unmapped meanwhile; its journal is lost, and with it all that
/// it knew of itself. Nothing of what it held is left when it is back.
#[test]
fn nothing_old_is_left_below_what_a_full_sync_brings() {
    for seed in 0..2 * SEEDS {
        let mut story = Story::with(seed, Policy::Mirror2, |plan| {
            plan.cluster.volumes[0].areas = (0..24).map(|page| (64 * page, 8)).collect();
        });
        story.busy(true);
        story.wait(3 * SECOND);
        let victim = story.secondary();
        story.now(Fault::LosePower(victim));
        story.wait(2 * SECOND);
        story.busy(false);
        story.wait(SECOND);
        story.now(Fault::RotJournal(victim));
        story.now(Fault::Start(victim));
        story.wait(6 * SECOND);
        assert!(story.run.cluster.tally().joined_full > 0, "seed {seed}");
        story.ends_well();
    }
}

/// A replica joins while entries are under way that are not committed yet, and is killed before they are
/// durable: that they came before copies of the same blocks does not make up for them.
#[test]
fn a_copy_that_came_too_late_does_not_count() {
    for seed in 0..10 * SEEDS {
        let mut story = Story::with(seed, Policy::Mirror2, |plan| {
            plan.cluster.volumes[0].areas = vec![(0, 3)];
        });
        story.busy(true);
        story.wait(SECOND);
        let (primary, other) = (story.primary(), story.secondary());
        story.now(Fault::Kill(other));
        story.wait(2 * SECOND);
        story.now(Fault::SlowDisks(primary, SECOND / 20));
        story.now(Fault::Start(other));
        assert!(story.wait_until(joining, other), "seed {seed}");
        // It has written down that it joins, and nothing else yet.
        story.wait(Duration::from_micros(300 + 100 * (seed % 8)));
        story.now(Fault::SlowDisks(other, SECOND / 2));
        story.wait(SECOND / 50);
        story.busy(false);
        story.now(Fault::Kill(other));
        story.wait(SECOND / 4);
        story.now(Fault::SlowDisks(primary, Duration::ZERO));
        story.now(Fault::Start(other));
        story.wait(SECOND);
        story.ends_well();
    }
}

/// Copies of a secondary are on their way to a replica that joins, and take their time; it loses the link to its
/// primary meanwhile, and begins anew. What was written in between is not in them, and has come from another
/// secondary when they arrive.
#[test]
fn a_copy_from_before_a_replica_began_anew_is_not_taken() {
    for seed in 0..10 * SEEDS {
        let mut story = Story::with(seed, Policy::Mirror4, |plan| {
            plan.cluster.nodes = 4;
            plan.cluster.volumes[0].areas = (0..24).map(|page| (64 * page, 2)).collect();
        });
        story.busy(true);
        story.wait(SECOND);
        let (primary, joins) = (story.primary(), story.secondary());
        story.now(Fault::Kill(joins));
        story.wait(2 * SECOND);
        story.now(Fault::Start(joins));
        assert!(story.wait_until(joining, joins), "seed {seed}");
        let source = story.secondary();
        story.wait(Duration::from_micros(200 * (seed % 20)));
        story.now(Fault::Cut(Place::Node(source), Place::Node(joins)));
        story.wait(Duration::from_millis(10 + seed % 7));
        story.now(Fault::Reset(primary, joins));
        story.wait(Duration::from_millis(30 + seed % 50));
        story.now(Fault::Mend(Place::Node(source), Place::Node(joins)));
        story.wait(SECOND);
        story.ends_well();
    }
}

/// A replica comes back, and lacks more than its primary has on its way before the secondary has begun the epoch. The
/// disks of that one, which is to copy the rest, end no read any more, while its journal works: nobody takes it
/// out, and the sync goes on without it.
#[test]
fn a_secondary_whose_reads_hang_holds_no_sync_up() {
    for seed in 0..SEEDS {
        let mut story = Story::with(seed, Policy::Mirror3, |plan| {
            plan.cluster.node.store.destage_after = Duration::from_millis(10);
            plan.cluster.volumes[0].areas = (0..100).map(|page| (64 * page, 2)).collect();
        });
        story.busy(true);
        story.wait(SECOND);
        let joins = story.secondary();
        story.now(Fault::Kill(joins));
        story.wait(2 * SECOND);
        story.busy(false);
        story.wait(3 * SECOND);
        let source = story.secondary();
        story.now(Fault::HangReads(source));
        story.now(Fault::Start(joins));
        assert!(story.wait_until(joining, joins), "seed {seed}");
        story.wait(3 * SECOND);
        assert!(
            !story.wait_until(in_sync, joins),
            "seed {seed}: it is not asked"
        );
        story.wait(SECOND);
        assert!(story.wait_until(in_sync, joins), "seed {seed}");
        assert!(story.wait_until(in_sync, source), "seed {seed}");
        story.now(Fault::UnstickDisks(source));
        story.ends_well();
    }
}

/// All devices of the primary fail, the one with the journal among them: it ends, others take over at once, and all is
/// well when somebody has started it again.
#[test]
fn a_node_whose_journal_fails_ends() {
    for seed in 0..2 * SEEDS {
        let mut story = Story::new(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(SECOND);
        let victim = story.primary();
        story.suffers_briefly(Fault::FailDisks(victim), 2 * SECOND);
        assert_ne!(story.primary(), victim, "seed {seed}");
        assert!(!story.run.cluster.is_running(victim), "seed {seed}");
        story.now(Fault::Start(victim));
        story.wait(2 * SECOND);
        story.ends_well();
    }
}

/// The devices of a node are brought back as they were a start ago, and the node is started more often than
/// that before it reaches the metadata. It leads nothing by what they hold, though the record says that it
/// is in sync, and all others are off.
#[test]
fn an_old_copy_that_was_opened_often_is_noticed() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(SECOND);
        let victim = story.secondary();
        story.now(Fault::CopyDisks(victim));
        story.wait(SECOND / 10);
        story.now(Fault::Kill(victim));
        story.now(Fault::Start(victim));
        story.wait(4 * SECOND);
        let primary = story.primary();
        assert!(story.wait_until(in_sync, victim), "seed {seed}");
        story.now(Fault::Kill(primary));
        story.now(Fault::Kill(victim));
        story.now(Fault::RollBack(victim));
        story.part(Place::Node(victim), Place::Metadata);
        for _ in 0..3 {
            story.now(Fault::Start(victim));
            story.wait(SECOND);
            story.now(Fault::Kill(victim));
        }
        story.rejoin(Place::Node(victim), Place::Metadata);
        story.now(Fault::Start(victim));
        // It is killed before everything is doubted, or after, and starts again.
        story.wait(Duration::from_millis(5 * seed));
        story.now(Fault::Kill(victim));
        story.now(Fault::Start(victim));
        story.wait(6 * SECOND);
        assert_ne!(story.primary(), victim, "seed {seed}");
        story.now(Fault::Start(primary));
        story.wait(4 * SECOND);
        assert!(story.run.cluster.tally().store_behind > 0, "seed {seed}");
        story.ends_well();
    }
}

/// The devices with the journals of two nodes are put into the wrong machines: both refuse to start, nothing
/// is written on them, and all is well when they are where they belong.
#[test]
fn a_node_does_not_take_another_ones_device() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(SECOND);
        let nodes = [story.primary(), story.secondary()];
        for node in nodes {
            story.now(Fault::LosePower(node));
        }
        story.wait(SECOND / 10);
        story.now(Fault::SwapDisks(nodes[0], nodes[1]));
        for node in nodes {
            story.now(Fault::Start(node));
        }
        story.wait(SECOND);
        for node in nodes {
            assert!(!story.run.cluster.is_running(node), "seed {seed}: {node}");
            story.now(Fault::PutBack(node));
            story.now(Fault::Start(node));
        }
        story.wait(SECOND);
        story.ends_well();
    }
}

/// A volume grows twice while it is in use and a node is away.
#[test]
fn a_volume_grows_while_a_node_is_away() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror2);
        let before = story.run.cluster.records().len();
        story.busy(true);
        story.wait(SECOND);
        let secondary = story.secondary();
        story.now(Fault::Kill(secondary));
        story.now(Fault::Grow(0));
        story.wait(2 * SECOND);
        story.now(Fault::Start(secondary));
        story.now(Fault::Grow(0));
        story.wait(2 * SECOND);
        let after = story.run.cluster.records().len();
        assert_eq!(after, before + 2, "seed {seed}");
        story.ends_well();
    }
}
