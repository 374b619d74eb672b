//! Syncs that find no room.

use holdfast_engine::Condition;
use holdfast_model::{NodeId, Policy, SliceId};
use holdfast_sim::cluster::{DeviceChange, Fault};
use holdfast_stdx::Duration;

use crate::story::{SECOND, SEEDS, Story, in_sync};

/// What a node's devices have for pages at first.
const PAGE_BYTES: u64 = 8 << 20;
/// Pages that hosts write while both copies are there: they fit.
const PAGES_BEFORE: u64 = 8;
/// Pages that they write while one is away: more than fit on the devices that nodes have at first.
const PAGES_AFTER: u64 = 48;
/// A number for a new device that has several times as much.
const LARGE: u16 = 2;
/// The first rest of a sync that finds no room, and the shortest (`room.rs` of the replica).
const REST: Duration = Duration::from_secs(5);
/// Changes of the record that a minute without room may cost.
const EPOCHS_MAX: u64 = 10;

fn places(pages: u64) -> Vec<(u64, u64)> {
    (0..pages).map(|page| (64 * page, 4)).collect()
}

/// Nodes have one device each, and it is small.
fn small_devices(seed: u64) -> Story {
    let mut story = Story::with(seed, Policy::Mirror2, |plan| {
        let node = &mut plan.cluster.node;
        let journal = node.store.format.journal_bytes.expect("it is drawn");
        node.device_count = 1;
        node.page_device_bytes = PAGE_BYTES;
        node.device_bytes = PAGE_BYTES + journal;
        plan.cluster.volumes[0].areas = places(PAGES_AFTER);
        let hosts = plan.cluster.hosts.iter_mut();
        hosts.for_each(|host| host.depth = 4);
    });
    story.run.cluster.focus(&places(PAGES_BEFORE));
    story
}

fn busy_for(story: &mut Story, span: Duration) {
    story.busy(true);
    story.wait(span);
    story.busy(false);
}

fn slice(story: &Story) -> SliceId {
    story.run.cluster.records()[0].slice
}

fn lacks_room(story: &Story, node: NodeId) -> bool {
    story.run.cluster.condition(node, slice(story)) == Some(Condition::NoRoom)
}

/// A replica comes back, and finds no room for what was written meanwhile: it says so, keeps what it has, and
/// rests. Hosts notice nothing. A device is added, and the sync goes on until it is done.
#[test]
fn a_sync_without_room_rests_until_there_is_some() {
    for seed in 0..SEEDS {
        let mut story = small_devices(seed);
        busy_for(&mut story, 2 * SECOND);
        story.wait(SECOND);
        let (primary, joins) = (story.primary(), story.secondary());
        story.now(Fault::Kill(joins));
        story.now(Fault::Device(primary, DeviceChange::Add(LARGE)));
        story.wait(2 * SECOND);
        let before = story.run.cluster.pages_used(primary);
        story.run.cluster.focus(&places(PAGES_AFTER));
        busy_for(&mut story, 4 * SECOND);
        story.wait(SECOND);
        let used = story.run.cluster.pages_used(primary);
        // Some were cleared.
        assert!(used > PAGES_AFTER * 3 / 4, "seed {seed}: {used} pages");

        story.now(Fault::Start(joins));
        let epoch = story.epochs()[0].0;
        busy_for(&mut story, SECOND);
        story.wait(2 * SECOND);
        assert!(lacks_room(&story, joins), "seed {seed}");
        let kept = story.run.cluster.pages_used(joins);
        assert!(before < kept && kept < used, "seed {seed}: {kept} pages");
        story.wait(57 * SECOND);
        assert!(lacks_room(&story, joins), "seed {seed}");
        let changes = story.epochs()[0].0 - epoch;
        assert!(changes <= EPOCHS_MAX, "seed {seed}: {changes} epochs");
        let has_kept = story.run.cluster.pages_used(joins);
        assert!(has_kept >= kept, "seed {seed}: {has_kept} pages");

        story.now(Fault::Device(joins, DeviceChange::Add(LARGE)));
        story.wait(REST + 2 * SECOND);
        assert!(story.wait_until(in_sync, joins), "seed {seed}");
        assert!(!lacks_room(&story, joins), "seed {seed}");
        let both = [primary, joins].map(|node| story.run.cluster.pages_used(node));
        assert_eq!(both[0], both[1], "seed {seed}");
        assert_eq!(story.run.cluster.host_counts().no_space, 0, "seed {seed}");
        story.ends_well();
    }
}
