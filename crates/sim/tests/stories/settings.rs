//! Settings that change while the cluster runs.

use holdfast_model::Policy;
use holdfast_sim::cluster::{ControllerPlan, Fault, SettingsChange};
use holdfast_stdx::Duration;

use crate::story::{SECOND, SEEDS, Story, in_sync};

/// A node is away, and its replica is not rebuilt, for that is to be waited for. The operator does not want to wait
/// any longer: it is rebuilt at once.
#[test]
fn a_shorter_repair_delay_holds_for_who_is_away_already() {
    for seed in 0..SEEDS {
        let mut story = Story::with(seed, Policy::Mirror2, |plan| {
            plan.cluster.controller = Some(ControllerPlan {
                pause: Duration::from_millis(300),
                term: SECOND,
                repair_delay_seconds: 3600,
                rebalance: false,
                newcomer: None,
                scrub_interval_seconds: None,
            });
        });
        story.busy(true);
        story.wait(2 * SECOND);
        let (away, other) = (story.secondary(), story.bystander());
        story.now(Fault::Kill(away));
        story.wait(10 * SECOND);
        assert_eq!(story.bystander(), other, "seed {seed}");
        story.now(Fault::Settings(SettingsChange::RepairDelay(1)));
        story.wait(10 * SECOND);
        assert!(story.wait_until(in_sync, other), "seed {seed}");
        story.now(Fault::Start(away));
        story.wait(2 * SECOND);
        story.ends_well();
    }
}

/// The operator says that both nodes of a slice may fail together: one of them gives its copy to the third node, under
/// load, although slices are not evened out.
#[test]
fn copies_move_apart_when_sites_are_told() {
    for seed in 0..SEEDS {
        let mut story = Story::with(seed, Policy::Mirror2, |plan| {
            plan.cluster.controller = Some(ControllerPlan {
                pause: Duration::from_millis(300),
                term: SECOND,
                repair_delay_seconds: 3600,
                rebalance: false,
                newcomer: None,
                scrub_interval_seconds: None,
            });
        });
        story.busy(true);
        story.wait(2 * SECOND);
        let (one, another, other) = (story.primary(), story.secondary(), story.bystander());
        story.now(Fault::Site(one, 0));
        story.now(Fault::Site(another, 0));
        story.wait(5 * SECOND);
        assert_eq!(
            story.bystander(),
            other,
            "seed {seed}: its site was not told"
        );
        story.now(Fault::Site(other, 1));
        story.wait(10 * SECOND);
        assert!(story.wait_until(in_sync, other), "seed {seed}");
        assert_ne!(story.bystander(), other, "seed {seed}");
        story.ends_well();
    }
}
