//! Volumes that are deleted, and made again under the same name.

use holdfast_model::{NodeId, Policy};
use holdfast_sim::HostPlan;
use holdfast_sim::cluster::{Fault, GuestPlan, VolumeOrder};
use holdfast_sim::network::Place;
use holdfast_sim::volumes::VolumePlan;
use holdfast_stdx::{Duration, Prng};

use crate::story::{SECOND, SEEDS, Story};

const MAKE: Fault = Fault::Volume(VolumeOrder::Make {
    guest: 0,
    hangs_up: None,
});
const DELETE: Fault = Fault::Volume(VolumeOrder::Delete {
    guest: 0,
    orderly: false,
});

/// A volume on all three nodes is there beside the other one, and in use.
fn with_guest(seed: u64) -> Story {
    let mut story = Story::with(seed, Policy::Mirror2, |plan| {
        let mut volume = VolumePlan::new("guest", Policy::Mirror3);
        volume.areas = vec![(0, 8), (62, 4), (253, 6)];
        let host = HostPlan {
            resets: None,
            ..HostPlan::draw(0, true, &mut Prng::from_seed(seed))
        };
        plan.cluster.guests.push(GuestPlan { volume, host });
    });
    story.busy(true);
    ordered(&mut story, MAKE, "made");
    story.wait(2 * SECOND);
    story
}

/// The operator orders it, and waits until it is done: what is ordered may be late.
fn ordered(story: &mut Story, order: Fault, done: &str) {
    story.now(order);
    for _ in 0..1000 {
        if reached(story, "guest", done) > 0 {
            return;
        }
        story.wait(SECOND / 100);
    }
    panic!("it is not done: {done}");
}

fn reached(story: &Story, group: &str, point: &str) -> u64 {
    story.run.cluster.coverage().count(group, point)
}

/// What it held of the volume is dropped as soon as it hears that there is none, although nobody tells of the slices.
#[test]
fn a_node_that_was_off_gives_back_what_was_deleted_meanwhile() {
    for seed in 0..SEEDS {
        let mut story = with_guest(seed);
        let off = NodeId(1 + (seed % 3) as u16);
        story.now(Fault::Kill(off));
        story.wait(SECOND);
        ordered(&mut story, DELETE, "deleted");
        let point = "deleted: a holder is off";
        assert_eq!(reached(&story, "guest", point), 1, "seed {seed}");
        story.now(Fault::Start(off));
        story.wait(2 * SECOND);
        story.ends_well();
    }
}

/// A node does not hear of the deletion, and then of everything at once. Its sessions end, and the host finds another volume.
#[test]
fn hosts_of_a_deleted_volume_do_not_use_the_next_one_of_its_name() {
    for seed in 0..SEEDS {
        let mut story = with_guest(seed);
        let deaf = NodeId(1 + (seed % 3) as u16);
        story.part(Place::Node(deaf), Place::Metadata);
        story.wait(SECOND);
        ordered(&mut story, DELETE, "deleted");
        ordered(&mut story, MAKE, "made again");
        story.wait(SECOND);
        story.rejoin(Place::Node(deaf), Place::Metadata);
        story.wait(2 * SECOND);
        assert!(reached(&story, "host", "another volume") > 0, "seed {seed}");
        story.ends_well();
    }
}

/// Every node says within moments that there is no such volume any more: no host waits for its patience to end.
#[test]
fn a_deleted_volume_refuses_its_hosts_at_once() {
    for seed in 0..SEEDS {
        let mut story = with_guest(seed);
        ordered(&mut story, DELETE, "deleted");
        story.wait(Duration::from_millis(1500));
        let refused = reached(&story, "host", "no such target");
        assert!(refused >= 3, "seed {seed}: {refused} times");
        story.ends_well();
    }
}
