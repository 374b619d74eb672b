//! Stories with a known beginning: what happens to a cluster when one thing goes wrong.

use std::collections::BTreeSet;

use holdfast_model::record::Membership;
use holdfast_model::{Epoch, NodeId, Policy};
use holdfast_sim::HostPlan;
use holdfast_sim::cluster::{ClusterPlan, Fault, NodePlan};
use holdfast_sim::failure::Failure;
use holdfast_sim::history::Asked;
use holdfast_sim::network::Place;
use holdfast_sim::plan::RunPlan;
use holdfast_sim::run::Run;
use holdfast_sim::trace::Trace;
use holdfast_sim::volumes::{SECTORS_PER_BLOCK, VolumePlan};
use holdfast_stdx::{Duration, Prng};

const SECOND: Duration = Duration::from_secs(1);
/// How often each story is told, differently every time.
const SEEDS: u64 = 4;

/// What a secondary knows to be committed lags behind what its primary has put in place: a copy that is
/// too old to mend a block is asked for again.
#[test]
fn blocks_that_rot_under_load_are_mended_before_anybody_notices() {
    for seed in 0..24 {
        let mut story = Story::of_rot(seed, Policy::Mirror2);
        story.now(Fault::Slow(Duration::from_millis(40)));
        story.busy(true);
        story.wait(8 * SECOND);
        assert!(story.run.cluster.tally().repaired > 0, "seed {seed}");
        story.ends_well();
    }
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

/// A backup of the metadata is brought back that is older than the volume, or none at all: nodes
/// keep what they hold, whether they run or start again, and go on when the right one is back.
#[test]
fn metadata_that_goes_back_deletes_nothing() {
    for seed in 0..SEEDS {
        for fault in [Fault::RollBackMetadata, Fault::EmptyMetadata] {
            let mut story = Story::new(seed, Policy::Mirror2);
            story.busy(true);
            story.wait(2 * SECOND);
            let secondary = story.secondary();
            story.now(fault);
            story.wait(3 * SECOND);
            assert_eq!(
                story.run.cluster.tally().astray,
                3,
                "seed {seed}: {fault:?}"
            );
            story.now(Fault::Kill(secondary));
            story.wait(SECOND);
            story.now(Fault::Start(secondary));
            story.wait(3 * SECOND);
            assert_eq!(
                story.run.cluster.tally().astray,
                4,
                "seed {seed}: {fault:?}"
            );
            story.now(Fault::RestoreMetadata);
            story.wait(3 * SECOND);
            story.ends_well();
        }
    }
}

/// Three nodes, a mirrored volume of which one slice is used, and busy hosts.
struct Story {
    seed: u64,
    run: Run,
}

impl Story {
    fn new(seed: u64, policy: Policy) -> Self {
        let mut prng = Prng::from_seed(seed);
        let plan = Self::plan(&mut prng, policy);
        Self::told(seed, &plan, &mut prng)
    }

    /// The devices of the node that leads the slice rot all the time, and changes are put in their
    /// places before a secondary has heard that they are committed.
    fn of_rot(seed: u64, policy: Policy) -> Self {
        let victim = Self::new(seed, policy).primary();
        let mut prng = Prng::from_seed(seed);
        let mut plan = Self::plan(&mut prng, policy);
        plan.victim = victim;
        plan.cluster.node.store.destage_after = Duration::from_millis(10);
        plan.cluster.volumes[0].areas = vec![(0, 8), (1000, 24)];
        plan.faults = (3..40)
            .map(|number| (number * Duration::from_millis(200), Fault::RotPages(victim)))
            .collect();
        let mut story = Self::told(seed, &plan, &mut prng);
        for (after, fault) in &plan.faults {
            story.run.cluster.plan_fault(*after, *fault);
        }
        story
    }

    fn plan(prng: &mut Prng, policy: Policy) -> RunPlan {
        let mut volume = VolumePlan::new("disk", policy);
        volume.areas = vec![(0, 8), (62, 4), (253, 6), (1000, 24)];
        let host = HostPlan {
            depth: 1,
            pause: Duration::from_millis(12),
            reads: 40,
            resets: None,
            ..HostPlan::draw(0, false, prng)
        };
        // Hosts that know one path tell how long nothing is served: the others may wait, with all
        // their commands, for a node that does not answer.
        let only = |path| HostPlan {
            only: Some(path),
            ..host.clone()
        };
        let hosts = vec![host.clone(), host.clone(), only(0), only(1), only(2)];
        RunPlan {
            cluster: ClusterPlan {
                nodes: 3,
                node: NodePlan::draw(prng),
                volumes: vec![volume],
                hosts,
            },
            load: SECOND,
            faults: Vec::new(),
            victim: NodeId(1),
        }
    }

    fn told(seed: u64, plan: &RunPlan, prng: &mut Prng) -> Self {
        let mut story = Self {
            seed,
            run: Run::new(plan, prng, Trace::Off),
        };
        story.run.boot().expect("the cluster boots");
        story
    }

    fn busy(&mut self, busy: bool) {
        self.run
            .cluster
            .set_busy(busy)
            .expect("hosts are well treated");
    }

    fn wait(&mut self, span: Duration) {
        let end = self.run.cluster.now() + span;
        self.run.cluster.run_until(end).expect("nothing breaks");
    }

    /// Waits until the record says so of a node's replica; false if it does not within a second.
    fn wait_until(&mut self, says: impl Fn(Membership) -> bool, node: NodeId) -> bool {
        for _ in 0..10_000 {
            let records = self.run.cluster.records();
            let replica = records[0].replica(node);
            if replica.is_some_and(|replica| says(replica.membership)) {
                return true;
            }
            self.wait(Duration::from_micros(100));
        }
        false
    }

    fn now(&mut self, fault: Fault) {
        self.run.cluster.plan_fault(Duration::ZERO, fault);
    }

    /// Something goes wrong; within `span` no busy host waits for long.
    fn suffers_briefly(&mut self, fault: Fault, span: Duration) {
        self.run.cluster.watch_stall();
        self.now(fault);
        self.wait(span);
        let (seed, stall) = (self.seed, self.run.cluster.stall());
        assert!(stall < 3 * SECOND / 2, "seed {seed}: stalled for {stall:?}");
    }

    fn primary(&self) -> NodeId {
        self.run.cluster.records()[0].primary
    }

    fn secondary(&self) -> NodeId {
        let record = &self.run.cluster.records()[0];
        let mut others = record.in_sync().filter(|node| *node != record.primary);
        others.next().expect("a mirror has two copies")
    }

    fn bystander(&self) -> NodeId {
        let record = &self.run.cluster.records()[0];
        let nodes = self.run.cluster.node_ids();
        let mut others = nodes
            .into_iter()
            .filter(|node| record.replica(*node).is_none());
        others.next().expect("one node has no copy of the slice")
    }

    fn epochs(&self) -> Vec<Epoch> {
        let records = self.run.cluster.records();
        records.iter().map(|record| record.epoch).collect()
    }

    /// Everything is as it should be.
    fn ends_well(mut self) {
        self.busy(false);
        self.run.converge().expect("the cluster is whole again");
        self.run.verify().expect("nothing is lost");
    }
}

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

/// A reset of a unit that nobody can serve is refused before its initiator has lost patience, again and
/// again, and done when the unit is back.
#[test]
fn a_reset_of_what_nobody_serves_is_refused_in_time() {
    for seed in 0..SEEDS {
        let mut prng = Prng::from_seed(seed);
        let mut plan = Story::plan(&mut prng, Policy::Mirror2);
        for host in &mut plan.cluster.hosts {
            host.resets = Some(SECOND / 4);
        }
        let mut story = Story::told(seed, &plan, &mut prng);
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
fn a_clean_stop_and_start_of_all_changes_no_epoch_and_moves_no_data() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(SECOND);
        story.busy(false);
        story.wait(SECOND);
        let epochs = story.epochs();
        for node in story.run.cluster.node_ids() {
            story.now(Fault::Stop(node));
        }
        story.wait(4 * SECOND);
        for node in story.run.cluster.node_ids() {
            assert!(!story.run.cluster.is_running(node), "seed {seed}: {node}");
            story.now(Fault::Start(node));
        }
        story.run.converge().expect("the cluster is whole again");
        assert_eq!(story.epochs(), epochs, "seed {seed}");
        assert_eq!(story.run.cluster.bytes_moved(), 0, "seed {seed}");
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

#[test]
fn a_node_that_reaches_nobody_is_replaced_and_comes_back() {
    for seed in 0..SEEDS {
        let mut story = Story::new(seed, Policy::Mirror3);
        story.busy(true);
        story.wait(SECOND);
        let node = story.primary();
        let nodes = story.run.cluster.node_ids();
        let others = nodes.into_iter().filter(|other| *other != node);
        let places: Vec<Place> = others.map(Place::Node).chain([Place::Metadata]).collect();
        for place in &places {
            story.now(Fault::Cut(Place::Node(node), *place));
            story.now(Fault::Cut(*place, Place::Node(node)));
        }
        story.wait(5 * SECOND);
        assert_ne!(story.primary(), node, "seed {seed}");
        for place in &places {
            story.now(Fault::Mend(Place::Node(node), *place));
            story.now(Fault::Mend(*place, Place::Node(node)));
        }
        story.wait(5 * SECOND);
        story.ends_well();
    }
}

#[test]
fn without_metadata_everything_goes_on_as_long_as_nothing_else_breaks() {
    let mut story = Story::new(1, Policy::Mirror2);
    let epochs = story.epochs();
    story.busy(true);
    story.wait(SECOND);
    story.run.cluster.watch_stall();
    for node in story.run.cluster.node_ids() {
        story.now(Fault::Cut(Place::Node(node), Place::Metadata));
        story.now(Fault::Cut(Place::Metadata, Place::Node(node)));
    }
    story.wait(10 * SECOND);
    assert!(story.run.cluster.stall() < SECOND / 5);
    assert_eq!(story.epochs(), epochs);
    for node in story.run.cluster.node_ids() {
        story.now(Fault::Mend(Place::Node(node), Place::Metadata));
        story.now(Fault::Mend(Place::Metadata, Place::Node(node)));
    }
    story.ends_well();
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

/// A replica is brought up to date, and its primary does not hear that the metadata counts it as in sync.
/// From then on nothing commits without it: when the primary loses it, and dies, it leads.
#[test]
fn nothing_commits_without_a_replica_that_has_just_been_brought_up_to_date() {
    let mut seen = 0;
    for seed in 0..6 * SEEDS {
        let mut story = Story::new(seed, Policy::Mirror2);
        story.busy(true);
        story.wait(SECOND);
        let (primary, other) = (story.primary(), story.secondary());
        story.now(Fault::Kill(other));
        story.wait(2 * SECOND);
        story.now(Fault::Start(other));
        if !story.wait_until(
            |membership| matches!(membership, Membership::Joining { .. }),
            other,
        ) {
            continue;
        }
        // It has to hear that the other one joins before it may hear nothing any more.
        story.wait(Duration::from_millis(seed));
        story.now(Fault::Cut(Place::Metadata, Place::Node(primary)));
        let in_sync = |membership| membership == Membership::InSync;
        if story.wait_until(in_sync, other) && story.primary() == primary {
            story.now(Fault::Reset(primary, other));
            story.wait(Duration::from_millis(1));
            story.now(Fault::Cut(Place::Node(primary), Place::Node(other)));
            story.now(Fault::Cut(Place::Node(other), Place::Node(primary)));
            story.wait(SECOND / 10);
            story.now(Fault::Kill(primary));
            story.wait(2 * SECOND);
            if story.primary() == other {
                seen += 1;
            }
        }
        for (from, to) in [(primary, other), (other, primary)] {
            story.now(Fault::Mend(Place::Node(from), Place::Node(to)));
        }
        story.now(Fault::Mend(Place::Metadata, Place::Node(primary)));
        story.now(Fault::Start(primary));
        story.wait(SECOND);
        story.ends_well();
    }
    assert!(seen >= 3, "{seen}");
}

/// A replica that hears neither nodes nor the metadata, and that hosts still reach, serves what it may
/// have of old only as long as nobody writes without it.
#[test]
fn a_replica_that_only_hosts_reach_serves_nothing_stale() {
    for seed in 0..4 * SEEDS {
        let mut prng = Prng::from_seed(seed);
        let mut plan = Story::plan(&mut prng, Policy::Mirror2);
        plan.cluster.volumes[0].areas = vec![(0, 4), (1000, 2)];
        // A host on each path that reads, and one that writes: it waits while its node is alone.
        let host = |path, reads| HostPlan {
            only: Some(path),
            reads,
            pause: Duration::from_millis(4),
            ..plan.cluster.hosts[0].clone()
        };
        plan.cluster.hosts = (0..6)
            .map(|it| host(it / 2, 100 * (it as u64 % 2)))
            .collect();
        let mut story = Story::told(seed, &plan, &mut prng);
        story.busy(true);
        for _ in 0..4 {
            story.wait(SECOND);
            let alone = story.secondary();
            let nodes = story.run.cluster.node_ids().into_iter();
            let others = nodes.filter(|node| *node != alone);
            let others: Vec<NodeId> = others.collect();
            if seed % 2 == 0 {
                for other in &others {
                    story.now(Fault::Reset(alone, *other));
                }
                // All hear of it before nobody hears anything any more.
                story.wait(Duration::from_millis(1));
            }
            let places = others.into_iter().map(Place::Node);
            let places: Vec<Place> = places.chain([Place::Metadata]).collect();
            for place in &places {
                story.now(Fault::Cut(Place::Node(alone), *place));
                story.now(Fault::Cut(*place, Place::Node(alone)));
            }
            story.wait(SECOND);
            for place in &places {
                story.now(Fault::Mend(Place::Node(alone), *place));
                story.now(Fault::Mend(*place, Place::Node(alone)));
            }
            let in_sync = |membership| membership == Membership::InSync;
            assert!(story.wait_until(in_sync, alone), "seed {seed}");
        }
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
        let mut prng = Prng::from_seed(seed);
        let mut plan = Story::plan(&mut prng, Policy::Mirror2);
        plan.victim = victim;
        plan.cluster.node.store.destage_after = 10 * SECOND;
        let page = 64;
        plan.cluster.volumes[0].areas = (0..24).map(|it| (it * page, 4)).collect();
        plan.faults = vec![(SECOND, Fault::Rot(victim))];
        let mut story = Story::told(seed, &plan, &mut prng);
        story.busy(true);
        story.wait(2 * SECOND);
        story.now(Fault::Kill(victim));
        story.wait(SECOND);
        story.now(Fault::Wipe(victim));
        story.now(Fault::SlowDisks(victim, SECOND / 50));
        story.now(Fault::Start(victim));
        let joins = |membership| matches!(membership, Membership::Joining { .. });
        assert!(story.wait_until(joins, victim), "seed {seed}");
        story.wait(Duration::from_millis(10 + 5 * seed));
        if !story.wait_until(joins, victim) {
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
