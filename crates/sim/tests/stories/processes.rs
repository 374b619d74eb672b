//! Processes that die, stop, or stand still.

use std::collections::BTreeSet;

use holdfast_model::Policy;
use holdfast_sim::cluster::Fault;
use holdfast_sim::history::Asked;
use holdfast_sim::network::Place;
use holdfast_sim::volumes::SECTORS_PER_BLOCK;
use holdfast_stdx::Duration;

use crate::story::{SECOND, SEEDS, Story};

#[test]
fn without_faults_nothing_is_repeated_and_no_epoch_changes() {
    for policy in [Policy::None, Policy::Mirror2, Policy::Mirror3] {
        let mut story = Story::new(1, policy);
        let epochs = story.epochs();
        story.busy(true);
        story.wait(3 * SECOND);
        let counts = story.run.cluster.host_counts();
        assert!(counts.done > 300, "{policy}: {counts:?}");
        assert!(story.run.cluster.stall() < SECOND / 5, "{policy}");
        assert_eq!(story.epochs(), epochs, "{policy}");
        story.ends_well();
    }
}

#[test]
fn a_killed_primary_is_replaced_within_its_stall() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(SECOND);
        let primary = story.primary();
        story.suffers_briefly(Fault::Kill(primary), 4 * SECOND);
        assert_ne!(story.primary(), primary);
        story.now(Fault::Start(primary));
        story.wait(2 * SECOND);
        story.ends_well();
    }
}

#[test]
fn a_primary_without_power_is_replaced_within_its_stall() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror3);
        story.busy(true);
        story.wait(SECOND);
        let primary = story.primary();
        story.suffers_briefly(Fault::LosePower(primary), 4 * SECOND);
        story.now(Fault::Start(primary));
        story.wait(2 * SECOND);
        story.ends_well();
    }
}

#[test]
fn power_loss_of_all_under_load_loses_nothing() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror2);
        story.busy(true);
        for _ in 0..3 {
            story.wait(2 * SECOND);
            for node in story.run.cluster.node_ids() {
                story.now(Fault::LosePower(node));
            }
            story.wait(SECOND / 10);
            for node in story.run.cluster.node_ids() {
                story.now(Fault::Start(node));
            }
        }
        story.wait(2 * SECOND);
        story.ends_well();
    }
}

#[test]
fn a_secondary_that_comes_back_is_brought_what_changed() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(4 * SECOND);
        story.run.cluster.focus(&[(0, 8), (62, 4)]);
        story.wait(2 * SECOND);
        let before = story.run.cluster.history().attempts().len();
        let tally = story.run.cluster.tally();
        let secondary = story.secondary();
        story.now(Fault::Kill(secondary));
        story.wait(3 * SECOND);
        story.now(Fault::Start(secondary));
        story.wait(3 * SECOND);
        let after = story.run.cluster.tally();
        assert_eq!(after.joined_full, tally.joined_full, "seed {seed}");
        assert!(after.joined_fast > tally.joined_fast, "seed {seed}");
        // What was under way at its death counts as changed, too.
        let attempts = story.run.cluster.history().attempts();
        let recent = &attempts[before.saturating_sub(100)..];
        let changed: BTreeSet<u64> = recent
            .iter()
            .filter(|attempt| matches!(attempt.asked, Asked::Write(_)))
            .flat_map(|attempt| {
                let end = attempt.sectors.first + attempt.sectors.count - 1;
                attempt.sectors.first / SECTORS_PER_BLOCK..=end / SECTORS_PER_BLOCK
            })
            .collect();
        let moved = story.run.cluster.bytes_moved();
        let limit = changed.len() as u64 * 4096;
        assert!(
            moved <= limit,
            "seed {seed}: {moved} bytes moved, {limit} changed"
        );
        story.ends_well();
    }
}

#[test]
fn a_clean_stop_and_start_of_all_changes_no_epoch_and_moves_no_data() {
    // Who leads may hear of it first, and last, while hosts write, and while they do not.
    for seed in 0..2 * SEEDS {
        let (leads_first, is_busy) = (seed % 2 == 0, seed % 4 < 2);
        let mut story = Story::new(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(SECOND);
        story.busy(is_busy);
        story.wait(SECOND);
        let epochs = story.epochs();
        let mut nodes = story.run.cluster.node_ids();
        let primary = story.primary();
        nodes.sort_by_key(|node| (*node == primary) != leads_first);
        for node in &nodes {
            story.now(Fault::Stop(*node));
            story.wait(SECOND / 5);
        }
        story.wait(4 * SECOND);
        for node in nodes {
            assert!(!story.run.cluster.is_running(node), "seed {seed}: {node}");
            story.now(Fault::Start(node));
        }
        story.run.converge().expect("the cluster is whole again");
        assert_eq!(story.epochs(), epochs, "seed {seed}");
        assert_eq!(story.run.cluster.bytes_moved(), 0, "seed {seed}");
        story.ends_well();
    }
}

/// A reset of a unit that nobody can serve is refused before its initiator has lost patience, again and
/// again, and done when the unit is back.
#[test]
fn a_reset_of_what_nobody_serves_is_refused_in_time() {
    for seed in 0..SEEDS {
        let mut story = Story::with(seed, Policy::Mirror2, |plan| {
            for host in &mut plan.cluster.hosts {
                host.resets = Some(SECOND / 4);
            }
        });
        let nodes = [story.primary(), story.secondary()];
        story.busy(true);
        story.wait(SECOND);
        for node in nodes {
            story.now(Fault::Kill(node));
        }
        story.wait(SECOND);
        let before = story.run.cluster.host_counts();
        story.wait(32 * SECOND);
        let counts = story.run.cluster.host_counts();
        assert_eq!(counts.resets, before.resets, "seed {seed}: nobody can tell");
        // Two at least of each host that reaches the third node.
        let refused = counts.resets_refused - before.resets_refused;
        assert!(refused >= 6, "seed {seed}: {refused}");
        for node in nodes {
            story.now(Fault::Start(node));
        }
        story.wait(12 * SECOND);
        let after = story.run.cluster.host_counts();
        assert!(after.resets > counts.resets, "seed {seed}");
        story.ends_well();
    }
}

#[test]
fn a_primary_that_stands_still_is_replaced_and_does_no_harm() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(SECOND);
        let node = story.primary();
        let freeze = Fault::Freeze {
            node,
            span: 10 * SECOND,
            between: seed % 2 == 0,
        };
        story.suffers_briefly(freeze, 9 * SECOND);
        assert_ne!(story.primary(), node);
        story.wait(4 * SECOND);
        assert!(story.run.cluster.tally().stood_still > 0, "seed {seed}");
        story.ends_well();
    }
}

#[test]
fn a_node_with_nothing_but_sessions_stands_still_and_does_no_harm() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror2);
        let epochs = story.epochs();
        story.busy(true);
        story.wait(SECOND);
        let node = story.bystander();
        let freeze = Fault::Freeze {
            node,
            span: 10 * SECOND,
            between: seed % 2 == 0,
        };
        story.suffers_briefly(freeze, 14 * SECOND);
        assert_eq!(story.epochs()[0], epochs[0], "seed {seed}");
        story.ends_well();
    }
}

/// Hosts give up what a frozen node does not answer, repeat it over other paths, and write other
/// things in the same places. The first ones are still in the node's sockets when it goes on.
#[test]
fn what_sat_in_the_sockets_of_a_node_that_stood_still_never_lands() {
    let mut abandoned_in_all = 0;
    for seed in 0..SEEDS {
        for role in [Story::primary, Story::secondary, Story::bystander] {
            let mut story = Story::new(seed, Policy::Mirror2);
            story.busy(true);
            story.wait(SECOND);
            let node = role(&story);
            story.now(Fault::Freeze {
                node,
                span: 14 * SECOND,
                between: false,
            });
            story.wait(14 * SECOND - SECOND / 10);
            let abandoned = story.run.cluster.abandoned_bytes(node);
            assert!(abandoned > 0, "seed {seed}");
            abandoned_in_all += abandoned;
            assert!(story.run.cluster.host_counts().repeated > 0, "seed {seed}");
            story.wait(4 * SECOND);
            assert_eq!(story.run.cluster.abandoned_bytes(node), 0, "seed {seed}");
            story.ends_well();
        }
    }
    let average = abandoned_in_all / (3 * SEEDS as usize);
    assert!(average > 4096, "{average}");
}

/// A primary whose devices are slow loses power, and is back before anybody has noticed: what it had
/// numbered is on the other devices, and not on its own. It hears its secondary a little later than hosts.
#[test]
fn a_primary_that_is_back_at_once_numbers_nothing_twice() {
    for seed in 0..6 * SEEDS {
        let mut story = Story::new(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(SECOND);
        let (primary, secondary) = (story.primary(), story.secondary());
        let ways = [primary, secondary].map(Place::Node);
        story.now(Fault::SlowDisks(primary, SECOND / 2));
        story.wait(Duration::from_millis(50 + 10 * seed));
        story.now(Fault::LosePower(primary));
        story.part(ways[0], ways[1]);
        story.now(Fault::Start(primary));
        story.wait(SECOND / 10);
        story.rejoin(ways[0], ways[1]);
        story.wait(2 * SECOND);
        story.ends_well();
    }
}
