//! Slices that are wanted elsewhere, and nodes that are to lead nothing.

use holdfast_control::Order;
use holdfast_model::record::{IntentRecord, NodeStanding, WishRecord};
use holdfast_model::{NodeId, Policy};
use holdfast_sim::cluster::Fault;
use holdfast_stdx::Duration;

use crate::story::{SECOND, SEEDS, Story};

/// Wants the slice to be with the bystander instead of one of its nodes, and led there.
fn wish_to_move(story: &mut Story, away_from: NodeId) -> WishRecord {
    let comes = story.bystander();
    let record = story.run.cluster.records()[0].clone();
    let stays = record.replicas.iter().map(|replica| replica.node);
    let mut nodes: Vec<NodeId> = stays.filter(|node| *node != away_from).collect();
    nodes.push(comes);
    let wish = WishRecord {
        schema: 1,
        slice: record.slice,
        nodes,
        kept: Vec::new(),
        preferred: comes,
    };
    story.run.cluster.wish(&wish).expect("it may be wished");
    wish
}

fn wait_for(story: &mut Story, wish: &WishRecord) {
    for _ in 0..60 {
        if wish.is_met_by(&story.run.cluster.records()[0]) {
            return;
        }
        story.wait(SECOND / 2);
    }
    panic!("not as wished: {:?}", story.run.cluster.records()[0]);
}

fn stand(story: &mut Story, node: NodeId, standing: NodeStanding) {
    let intent = IntentRecord {
        schema: 1,
        node,
        standing,
        site: None,
    };
    story.run.cluster.intend(&intent).expect("it may be wanted");
}

/// Hosts notice little more than that an epoch begins, a few times.
#[test]
fn a_slice_moves_under_load_without_a_stall() {
    for seed in 0..SEEDS {
        for primary_goes in [false, true] {
            let mut story = Story::new(seed, Policy::Mirror2);
            story.busy(true);
            story.wait(SECOND);
            let goes = if primary_goes {
                story.primary()
            } else {
                story.secondary()
            };
            story.run.cluster.watch_stall();
            let wish = wish_to_move(&mut story, goes);
            wait_for(&mut story, &wish);
            story.wait(SECOND);
            let stall = story.run.cluster.stall();
            assert!(stall < SECOND / 5, "seed {seed}: stalled for {stall:?}");
            story.ends_well();
        }
    }
}

/// Whoever dies, whenever it does.
#[test]
fn a_slice_moves_whoever_dies_meanwhile() {
    for seed in 0..4 * SEEDS {
        let mut story = Story::new(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(SECOND);
        let goes = story.primary();
        let wish = wish_to_move(&mut story, goes);
        story.wait(Duration::from_millis(13 * (seed + 1)));
        let nodes = story.run.cluster.node_ids();
        let dies = nodes[seed as usize % nodes.len()];
        story.now(Fault::LosePower(dies));
        story.wait(2 * SECOND);
        story.now(Fault::Start(dies));
        wait_for(&mut story, &wish);
        story.ends_well();
    }
}

/// What a node held is rebuilt elsewhere while it is off: it drops it when it is back.
#[test]
fn what_was_rebuilt_elsewhere_is_dropped() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(SECOND);
        let goes = story.secondary();
        // Until something is in pages: some hosts mostly read, and blocks are put in place in their time.
        for _ in 0..20 {
            if story.run.cluster.pages_used(goes) > 0 {
                break;
            }
            story.wait(SECOND);
        }
        assert!(story.run.cluster.pages_used(goes) > 0, "seed {seed}");
        story.now(Fault::Kill(goes));
        story.wait(SECOND);
        let wish = wish_to_move(&mut story, goes);
        wait_for(&mut story, &wish);
        story.now(Fault::Start(goes));
        story.wait(3 * SECOND);
        assert_eq!(story.run.cluster.pages_used(goes), 0, "seed {seed}");
        story.ends_well();
    }
}

/// Answers get lost, and a request that was given up may arrive late.
#[test]
fn a_slice_moves_though_the_metadata_answers_now_and_then() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror3);
        story.busy(true);
        story.wait(SECOND);
        let victim = story.secondary();
        // All three hold the slice: one of them goes, and comes back in the next wish.
        let record = story.run.cluster.records()[0].clone();
        let all: Vec<NodeId> = story.run.cluster.node_ids();
        story.now(Fault::LoseAnswers(2));
        let mut wish = WishRecord {
            schema: 1,
            slice: record.slice,
            nodes: all.iter().copied().filter(|it| *it != victim).collect(),
            kept: Vec::new(),
            preferred: record.primary,
        };
        for nodes in [wish.nodes.clone(), all] {
            wish.nodes = nodes;
            story.run.cluster.wish(&wish).expect("it may be wished");
            wait_for(&mut story, &wish);
        }
        story.now(Fault::LoseAnswers(0));
        story.ends_well();
    }
}

/// A node is put aside, goes, comes back, and leads again what it led: nobody waits for it.
#[test]
fn a_node_in_maintenance_leads_nothing() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror3);
        story.busy(true);
        story.wait(SECOND);
        let led = story.primary();
        story.run.cluster.watch_stall();
        stand(&mut story, led, NodeStanding::Maintenance);
        story.wait(SECOND);
        assert_ne!(story.primary(), led, "seed {seed}");
        let stall = story.run.cluster.stall();
        assert!(stall < SECOND / 5, "seed {seed}: stalled for {stall:?}");
        story.now(Fault::Stop(led));
        story.wait(3 * SECOND);
        story.now(Fault::Start(led));
        story.wait(20 * SECOND);
        assert_ne!(story.primary(), led, "seed {seed}");
        story.run.cluster.watch_stall();
        stand(&mut story, led, NodeStanding::Active);
        story.wait(15 * SECOND);
        assert_eq!(story.primary(), led, "seed {seed}");
        let stall = story.run.cluster.stall();
        assert!(stall < SECOND / 5, "seed {seed}: stalled for {stall:?}");
        story.ends_well();
    }
}

/// A node is removed, and added again at once: what hosts then write over it is new, however soon.
#[test]
fn a_node_that_was_removed_names_no_command_as_before() {
    for seed in 0..SEEDS {
        // One slice, so that one node holds nothing.
        let mut story = Story::with(seed, Policy::Mirror2, |plan| {
            plan.cluster.volumes[0].bytes = 64 << 20;
        });
        story.busy(true);
        story.wait(SECOND);
        let out = story.bystander();
        story.now(Fault::Order(out, Order::Remove));
        story.wait(SECOND / 5);
        assert_eq!(story.run.cluster.links(out), [], "seed {seed}");
        story.now(Fault::Kill(out));
        story.now(Fault::Start(out));
        story.wait(SECOND / 5);
        story.now(Fault::Order(out, Order::Add));
        story.wait(8 * SECOND);
        story.ends_well();
    }
}

/// Who is no part of the cluster is not spoken to, restarted or not; who is one again is.
#[test]
fn nobody_has_to_do_with_a_node_that_does_not_belong() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(SECOND);
        let out = story.bystander();
        let primary = story.primary();
        assert_eq!(story.run.cluster.links(out).len(), 2, "seed {seed}");
        assert!(story.run.cluster.sessions(out) > 0, "seed {seed}");
        stand(&mut story, out, NodeStanding::Removed);
        story.wait(SECOND);
        assert_eq!(story.run.cluster.links(out), [], "seed {seed}");
        assert_eq!(story.run.cluster.sessions(out), 0, "seed {seed}");
        assert_eq!(story.run.cluster.links(primary).len(), 1, "seed {seed}");
        story.now(Fault::Kill(out));
        story.wait(SECOND / 2);
        story.now(Fault::Start(out));
        story.wait(3 * SECOND);
        assert_eq!(story.run.cluster.links(out), [], "seed {seed}");
        stand(&mut story, out, NodeStanding::Active);
        story.wait(2 * SECOND);
        assert_eq!(story.run.cluster.links(out).len(), 2, "seed {seed}");
        story.ends_well();
    }
}
