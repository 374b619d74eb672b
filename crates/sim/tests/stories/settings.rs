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
