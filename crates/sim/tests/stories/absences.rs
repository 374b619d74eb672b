//! Devices that are not there, and what becomes of what is on them.

use holdfast_model::{NodeId, Policy};
use holdfast_sim::cluster::{DeviceChange, Fault};
use holdfast_stdx::Duration;

use crate::story::{SECOND, SEEDS, Story, in_sync};

/// A number that picks the second device, and a new one where one is added.
const SECOND_DEVICE: u16 = 1;

/// Nodes have two devices, and soon all pages are on the second one.
fn two_devices(seed: u64, policy: Policy) -> Story {
    Story::with(seed, policy, |plan| {
        plan.cluster.node.device_count = 2;
        plan.cluster.node.store.destage_after = Duration::from_millis(10);
        plan.cluster.volumes[0].areas = (0..24).map(|page| (64 * page, 8)).collect();
    })
}

fn restart_without(story: &mut Story, node: NodeId) {
    story.now(Fault::LosePower(node));
    story.now(Fault::Device(node, DeviceChange::Pull(SECOND_DEVICE)));
    story.now(Fault::Start(node));
    story.wait(SECOND / 4);
    assert_eq!(absent(story, node), [false]);
}

fn restart_with(story: &mut Story, node: NodeId) {
    story.now(Fault::Device(node, DeviceChange::PutBack));
    story.now(Fault::Kill(node));
    story.now(Fault::Start(node));
    story.wait(SECOND / 2);
    assert!(absent(story, node).is_empty());
}

/// Waits until a node's process has ended.
fn wait_for_end(story: &mut Story, node: NodeId) {
    for _ in 0..10_000 {
        if story.run.cluster.devices(node).is_empty() {
            return;
        }
        story.wait(Duration::from_micros(100));
    }
    panic!("{node} goes on");
}

/// Whether each of a node's absent devices is lost.
fn absent(story: &Story, node: NodeId) -> Vec<bool> {
    let devices = story.run.cluster.devices(node).into_iter();
    let absent = devices.filter_map(|device| Some(device.absent?.is_lost));
    absent.collect()
}

/// Whether a node does not lead the slice that is used.
fn leads_nothing(story: &Story, node: NodeId) -> bool {
    let slice = story.run.cluster.records()[0].slice;
    let views = story.run.cluster.views(node).into_iter();
    let mut views = views.filter(|view| view.slice == slice);
    views.all(|view| view.leads.is_none())
}

/// A node starts without a device: it serves nothing that it lacks, is brought that by another one, and takes the
/// device back at a later start.
#[test]
fn what_a_missing_device_had_is_brought_by_others() {
    for seed in 0..SEEDS {
        let mut story = two_devices(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(2 * SECOND);
        let node = story.primary();
        restart_without(&mut story, node);
        assert!(leads_nothing(&story, node), "seed {seed}");
        story.wait(3 * SECOND);
        assert!(story.wait_until(in_sync, node), "seed {seed}");
        restart_with(&mut story, node);
        story.ends_well();
    }
}

/// What one node alone has waits until the device is there again, and nothing else is told of it.
#[test]
fn what_nobody_else_has_waits_for_its_device() {
    for seed in 0..SEEDS {
        let mut story = two_devices(seed, Policy::None);
        story.busy(true);
        story.wait(2 * SECOND);
        let node = story.primary();
        restart_without(&mut story, node);
        story.wait(2 * SECOND);
        assert!(leads_nothing(&story, node), "seed {seed}");
        restart_with(&mut story, node);
        story.ends_well();
    }
}

/// A device fails under load: its node ends, starts without it, and is brought what was there. In the end the
/// device is replaced, or removed.
#[test]
fn a_device_that_fails_is_done_without() {
    for seed in 0..2 * SEEDS {
        let mut story = two_devices(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(2 * SECOND);
        let node = if seed % 2 == 0 {
            story.primary()
        } else {
            story.secondary()
        };
        story.now(Fault::Device(node, DeviceChange::Fail(0)));
        story.wait(SECOND);
        assert_eq!(absent(&story, node), [true], "seed {seed}");
        story.now(Fault::Device(node, DeviceChange::Replace(SECOND_DEVICE)));
        story.wait(3 * SECOND);
        story.ends_well();
    }
}

/// What was on a device that failed is on one that was taken out of another node, which is looked at later: in
/// the end that node is started with it, though the other one is not as it should be.
#[test]
fn what_a_device_lost_waits_for_one_that_is_put_back() {
    for seed in 0..SEEDS {
        let mut story = two_devices(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(2 * SECOND);
        let mut nodes = [story.primary(), story.secondary()];
        nodes.sort();
        let [first, second] = nodes;
        story.now(Fault::Device(first, DeviceChange::Fail(0)));
        wait_for_end(&mut story, first);
        restart_without(&mut story, second);
        story.wait(SECOND);
        assert_eq!(absent(&story, first), [true], "seed {seed}");
        story.now(Fault::Device(second, DeviceChange::PutBack));
        story.ends_well();
    }
}

/// What a device had that failed is given up before others have brought it: its blocks are bad then, and are
/// mended.
#[test]
fn what_is_given_up_is_mended_by_others() {
    for seed in 0..SEEDS {
        let mut story = two_devices(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(2 * SECOND);
        let node = story.secondary();
        restart_without(&mut story, node);
        story.now(Fault::Device(node, DeviceChange::Discard));
        story.now(Fault::Device(node, DeviceChange::GiveUp(0)));
        story.wait(SECOND / 100);
        story.now(Fault::Kill(node));
        story.now(Fault::Start(node));
        story.wait(2 * SECOND);
        assert!(absent(&story, node).is_empty(), "seed {seed}");
        story.ends_well();
    }
}

/// A device that is absent is to be drained, and then removed, and both are taken up at once: the first is refused
/// although the device has left when that is heard.
#[test]
fn orders_about_an_absent_device_are_taken_up_at_once() {
    for seed in 0..SEEDS {
        let mut story = two_devices(seed, Policy::Mirror2);
        let node = story.secondary();
        restart_without(&mut story, node);
        story.now(Fault::Device(node, DeviceChange::Discard));
        story.wait(SECOND);
        story.now(Fault::Freeze {
            node,
            span: SECOND / 10,
            between: false,
        });
        // The others wait for this one.
        story.now(Fault::Device(node, DeviceChange::Add(1)));
        story.now(Fault::Device(node, DeviceChange::Drain(9)));
        story.now(Fault::Device(node, DeviceChange::Remove(9)));
        story.wait(SECOND / 20);
        story.now(Fault::Start(node));
        story.wait(SECOND / 2);
        assert!(absent(&story, node).is_empty(), "seed {seed}");
        story.ends_well();
    }
}

/// A device joins under load, everything on another one goes there, and that leaves; power fails in the middle.
#[test]
fn devices_are_exchanged_while_power_fails() {
    for seed in 0..4 * SEEDS {
        let mut story = two_devices(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(2 * SECOND);
        let node = story.secondary();
        story.now(Fault::Device(node, DeviceChange::Replace(SECOND_DEVICE)));
        story.wait(Duration::from_millis(2 * seed));
        story.now(Fault::LosePower(node));
        story.now(Fault::Start(node));
        story.wait(SECOND);
        story.ends_well();
    }
}
