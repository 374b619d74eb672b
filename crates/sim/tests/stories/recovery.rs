//! Metadata that is lost for good, and made again from what the nodes' devices say.

use std::collections::BTreeSet;

use holdfast_control::{Decisions, Fate, Recovery};
use holdfast_model::{NodeId, Policy};
use holdfast_sim::cluster::Fault;

use crate::story::{SECOND, SEEDS, Story};

impl Story {
    fn all_lose_power(&mut self) {
        for node in self.run.cluster.node_ids() {
            self.now(Fault::LosePower(node));
        }
        self.wait(SECOND / 10);
    }

    /// The metadata is made again from the devices of these nodes.
    fn recover(&mut self, heard: &[NodeId], lost: Option<NodeId>) -> Recovery {
        let lost = lost.map(|node| node.to_string());
        let decisions = Decisions {
            without: BTreeSet::new(),
            lost: lost.into_iter().collect(),
        };
        let cluster = &mut self.run.cluster;
        let recovery = cluster.plan_recovery(heard, &decisions);
        let recovery = recovery.expect("the reports fit together");
        cluster.put_recovery(&recovery).expect("nothing breaks");
        recovery
    }

    fn recover_from_all(&mut self) -> Recovery {
        let all = self.run.cluster.node_ids();
        self.recover(&all, None)
    }

    fn start(&mut self, nodes: &[NodeId]) {
        for node in nodes {
            self.now(Fault::Start(*node));
        }
    }

    fn start_all(&mut self) {
        let all = self.run.cluster.node_ids();
        self.start(&all);
    }

    fn all_but(&self, node: NodeId) -> Vec<NodeId> {
        let mut nodes = self.run.cluster.node_ids();
        nodes.retain(|it| *it != node);
        nodes
    }

    /// Everything that hosts do waits: nothing is done within ten seconds.
    fn stands_still(&mut self) {
        self.run.cluster.watch_stall();
        self.wait(5 * SECOND);
        assert!(self.run.cluster.stall() > 4 * SECOND, "somebody was served");
    }
}

fn is_certain(recovery: &Recovery) -> bool {
    recovery.slices.iter().all(|it| it.fate == Fate::Certain)
}

#[test]
fn from_all_devices_everything_comes_back() {
    for seed in 0..SEEDS {
        for policy in [Policy::None, Policy::Mirror2, Policy::Mirror3] {
            let mut story = Story::new(seed, policy);
            story.busy(true);
            story.wait(2 * SECOND);
            story.all_lose_power();
            let recovery = story.recover_from_all();
            assert!(is_certain(&recovery), "seed {seed}: {recovery:?}");
            assert_eq!(recovery.missing, BTreeSet::new());
            story.start_all();
            story.wait(3 * SECOND);
            // And once more, with what was written since.
            story.all_lose_power();
            let recovery = story.recover_from_all();
            assert_eq!(recovery.cluster.recoveries, 2);
            assert!(is_certain(&recovery), "seed {seed}: {recovery:?}");
            story.start_all();
            story.wait(2 * SECOND);
            story.ends_well();
        }
    }
}

/// One of two that were in sync was not heard: it may have gone on alone. It has not, and everything comes
/// back when it does.
#[test]
fn a_slice_waits_for_whom_nobody_heard() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(2 * SECOND);
        let missing = if seed % 2 == 0 {
            story.secondary()
        } else {
            story.primary()
        };
        let others = story.all_but(missing);
        story.all_lose_power();
        let recovery = story.recover(&others, None);
        assert_eq!(recovery.slices[0].fate, Fate::Waits(vec![missing]));
        story.start(&others);
        story.wait(SECOND);
        story.stands_still();
        story.start(&[missing]);
        story.wait(3 * SECOND);
        assert!(!story.run.cluster.records()[0].is_unconfirmed());
        story.ends_well();
    }
}

/// It has gone on alone, and what was written then is lost if anybody goes on without it.
#[test]
fn who_went_on_alone_is_not_gone_on_without() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(SECOND);
        let (primary, secondary) = (story.primary(), story.secondary());
        story.now(Fault::LosePower(secondary));
        story.wait(3 * SECOND);
        assert_eq!(story.run.cluster.records()[0].in_sync().count(), 1);
        story.all_lose_power();
        let others = story.all_but(primary);
        let recovery = story.recover(&others, None);
        assert_eq!(recovery.slices[0].fate, Fate::Waits(vec![primary]));
        story.start(&others);
        story.wait(SECOND);
        story.stands_still();
        // It comes, knows more than the record says, and follows nobody.
        story.start(&[primary]);
        story.wait(SECOND);
        story.stands_still();
        assert!(story.run.cluster.records()[0].is_unconfirmed());
        story.all_lose_power();
        let recovery = story.recover_from_all();
        assert!(is_certain(&recovery), "seed {seed}: {recovery:?}");
        story.start_all();
        story.wait(3 * SECOND);
        story.ends_well();
    }
}

/// A node is given up. It had nothing that others have not, and turns up again in the end.
#[test]
fn without_a_node_that_is_given_up_the_others_go_on() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(2 * SECOND);
        let lost = story.primary();
        let others = story.all_but(lost);
        story.all_lose_power();
        let recovery = story.recover(&others, Some(lost));
        assert_eq!(recovery.slices[0].fate, Fate::WithoutLost(vec![lost]));
        story.start(&others);
        story.wait(3 * SECOND);
        assert_ne!(story.primary(), lost);
        story.start(&[lost]);
        story.wait(2 * SECOND);
        story.ends_well();
    }
}

/// Nodes that ran on while the metadata was made again believe nothing of it before they have started again.
#[test]
fn who_was_not_stopped_changes_nothing() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(2 * SECOND);
        let secondary = story.secondary();
        story.now(Fault::LosePower(secondary));
        story.wait(SECOND / 10);
        story.recover(&[secondary], None);
        story.wait(3 * SECOND);
        assert_eq!(story.run.cluster.tally().astray, 2, "seed {seed}");
        assert!(story.run.cluster.records()[0].is_unconfirmed());
        story.all_lose_power();
        story.recover_from_all();
        story.start_all();
        story.wait(3 * SECOND);
        story.ends_well();
    }
}
