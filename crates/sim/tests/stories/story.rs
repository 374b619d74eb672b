//! A cluster to which things happen by hand.

use holdfast_model::record::Membership;
use holdfast_model::{Epoch, NodeId, Policy};
use holdfast_sim::HostPlan;
use holdfast_sim::cluster::{ClusterPlan, Fault, NodePlan};
use holdfast_sim::network::Place;
use holdfast_sim::plan::{Promise, RunPlan};
use holdfast_sim::run::Run;
use holdfast_sim::trace::Trace;
use holdfast_sim::volumes::VolumePlan;
use holdfast_stdx::{Duration, Prng};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// How often most stories are told, differently every time.
pub(crate) const SEEDS: u64 = 4;

/// Three nodes, a mirrored volume of which one slice is used, and busy hosts.
pub(crate) struct Story {
    seed: u64,
    pub(crate) run: Run,
}

impl Story {
    pub(crate) fn new(seed: u64, policy: Policy) -> Self {
        Self::with(seed, policy, |_| ())
    }

    /// The same, with another plan.
    pub(crate) fn with(seed: u64, policy: Policy, change: impl FnOnce(&mut RunPlan)) -> Self {
        let mut prng = Prng::from_seed(seed);
        let mut plan = Self::plan(&mut prng, policy);
        change(&mut plan);
        let mut story = Self {
            seed,
            run: Run::new(&plan, &mut prng, Trace::Off),
        };
        story.run.boot().expect("the cluster boots");
        story
    }

    /// The devices of the node that leads the slice rot all the time, and changes are put in their
    /// places before a secondary has heard that they are committed.
    pub(crate) fn of_rot(seed: u64, policy: Policy) -> Self {
        let victim = Self::new(seed, policy).primary();
        let rot = |number: u32| (number * Duration::from_millis(200), Fault::RotPages(victim));
        let mut story = Self::with(seed, policy, |plan| {
            plan.victim = victim;
            plan.cluster.node.store.destage_after = Duration::from_millis(10);
            plan.cluster.volumes[0].areas = vec![(0, 8), (1000, 24)];
            plan.faults = (3..40).map(rot).collect();
        });
        for (after, fault) in (3..40).map(rot) {
            story.run.cluster.plan_fault(after, fault);
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
                guests: Vec::new(),
                controller: None,
                probes: false,
            },
            load: SECOND,
            faults: Vec::new(),
            victim: NodeId(1),
            promise: Promise::All,
            compares: true,
            is_tight: false,
        }
    }

    pub(crate) fn busy(&mut self, busy: bool) {
        self.run
            .cluster
            .set_busy(busy)
            .expect("hosts are well treated");
    }

    pub(crate) fn wait(&mut self, span: Duration) {
        let end = self.run.cluster.now() + span;
        self.run.cluster.run_until(end).expect("nothing breaks");
    }

    /// Waits until the record says so of a node's replica; false if it does not within a second.
    pub(crate) fn wait_until(&mut self, says: impl Fn(Membership) -> bool, node: NodeId) -> bool {
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

    pub(crate) fn now(&mut self, fault: Fault) {
        self.run.cluster.plan_fault(Duration::ZERO, fault);
    }

    /// An operator says that a node that is off takes its place in the metadata that there is, and starts it.
    pub(crate) fn begins_anew(&mut self, node: NodeId) {
        self.now(Fault::TakeOver(node));
        self.now(Fault::Start(node));
        self.wait(3 * SECOND);
    }

    /// Two places do not reach each other any more.
    pub(crate) fn part(&mut self, one: Place, other: Place) {
        self.now(Fault::Cut(one, other));
        self.now(Fault::Cut(other, one));
    }

    /// They do again.
    pub(crate) fn rejoin(&mut self, one: Place, other: Place) {
        self.now(Fault::Mend(one, other));
        self.now(Fault::Mend(other, one));
    }

    /// Something goes wrong; within `span` no busy host waits for long.
    pub(crate) fn suffers_briefly(&mut self, fault: Fault, span: Duration) {
        self.run.cluster.watch_stall();
        self.now(fault);
        self.wait(span);
        let (seed, stall) = (self.seed, self.run.cluster.stall());
        assert!(stall < 3 * SECOND / 2, "seed {seed}: stalled for {stall:?}");
    }

    pub(crate) fn primary(&self) -> NodeId {
        self.run.cluster.records()[0].primary
    }

    pub(crate) fn secondary(&self) -> NodeId {
        let record = &self.run.cluster.records()[0];
        let mut others = record.in_sync().filter(|node| *node != record.primary);
        others.next().expect("a mirror has two copies")
    }

    /// All nodes but one, and the metadata.
    pub(crate) fn others(&self, node: NodeId) -> Vec<Place> {
        let nodes = self.run.cluster.node_ids().into_iter();
        let others = nodes.filter(|other| *other != node).map(Place::Node);
        others.chain([Place::Metadata]).collect()
    }

    pub(crate) fn bystander(&self) -> NodeId {
        let record = &self.run.cluster.records()[0];
        let nodes = self.run.cluster.node_ids();
        let mut others = nodes
            .into_iter()
            .filter(|node| record.replica(*node).is_none());
        others.next().expect("one node has no copy of the slice")
    }

    pub(crate) fn epochs(&self) -> Vec<Epoch> {
        let records = self.run.cluster.records();
        records.iter().map(|record| record.epoch).collect()
    }

    /// What the copy of the metadata says that some nodes follow.
    pub(crate) fn copied_epochs(&mut self) -> Vec<Epoch> {
        let records = self.run.cluster.copied_records();
        records.iter().map(|record| record.epoch).collect()
    }

    /// Everything is as it should be.
    pub(crate) fn ends_well(mut self) {
        self.busy(false);
        self.run.converge().expect("the cluster is whole again");
        self.run.verify().expect("nothing is lost");
    }
}

pub(crate) fn in_sync(membership: Membership) -> bool {
    membership == Membership::InSync
}

pub(crate) fn joining(membership: Membership) -> bool {
    matches!(membership, Membership::Joining { .. })
}
