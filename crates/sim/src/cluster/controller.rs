//! Who steers the cluster, with the code that ships (`holdfast_control`).
//!
//! A controller is part of each node's process: it acts while that runs, asks the nodes that it
//! reaches, and writes over the network. Its lease is simulated, not asked for: another one steers when
//! the metadata has heard nothing of the one before for a while.
//!
//! Invariants:
//! - what is planned is written later, and holds only as long as what it was planned from, and whoever
//!   planned it steers;
//! - whoever steers anew remembers nothing of what the one before knew.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_control::{Inventory, Seen, Sight, admit_all, note_given_up, scrub_rounds, steer};
use holdfast_engine::{NodeStatus, Usage};
use holdfast_model::metadata::{Compare, Transaction};
use holdfast_model::record::{
    IntentRecord, LEADER_KEY, LeaderRecord, NodeStanding, Record, SETTINGS_KEY, SettingsRecord,
    SliceRecord,
};
use holdfast_model::{NodeId, PAGE_SIZE, SliceId};
use holdfast_stdx::{Bytes, Duration, Instant, Prng};

use super::node::ProcessId;
use super::{Cluster, Happening, scrubs};
use crate::boot;
use crate::failure::Failure;
use crate::network::Place;

/// How a cluster is steered.
#[derive(Clone, Copy, Debug)]
pub struct ControllerPlan {
    /// Between two passes.
    pub pause: Duration,
    /// How long nobody steers after whoever did is not heard any more.
    pub term: Duration,
    /// After so many seconds without a word from a node its replicas are rebuilt elsewhere.
    pub repair_delay_seconds: u64,
    /// Whether slices move by themselves to even out what nodes hold.
    pub rebalance: bool,
    /// A node that waits until the operator adds it.
    pub newcomer: Option<NodeId>,
    /// After so many seconds a volume is scrubbed again, or never for none of them. If it is not told, rounds are begun by orders
    /// alone, and nobody ends them.
    pub scrub_interval_seconds: Option<u64>,
}

/// Who steers, if anybody does.
#[derive(Debug)]
pub(super) struct Controller {
    leader: Option<Leader>,
    /// How often somebody began to steer.
    terms: u64,
    /// Orders of the operator that are on their way.
    pub(super) orders: u64,
    pub(super) prng: Prng,
}

/// Whoever steers, and what it remembers.
#[derive(Debug)]
struct Leader {
    process: ProcessId,
    /// The record that goes with its lease.
    own: Bytes,
    /// When it last reached the metadata.
    reached: Instant,
    heard: BTreeMap<NodeId, Heard>,
    given_up: BTreeSet<(SliceId, NodeId)>,
}

/// What is remembered of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    last: Instant,
    bytes: u64,
    free_bytes: u64,
}

impl Heard {
    fn of(now: Instant, usage: &Usage) -> Self {
        let page = PAGE_SIZE as u64;
        Self {
            last: now,
            bytes: usage.pages * page,
            free_bytes: usage.pages_free() * page,
        }
    }
}

/// Something that a controller wants written, on its way.
#[derive(Debug)]
pub(crate) struct Written {
    pub(super) from: NodeId,
    /// Which store of the metadata it is meant for.
    pub(super) store: u64,
    /// The record of whoever steers; none for an order.
    pub(super) own: Option<Bytes>,
    pub(super) transaction: Transaction,
}

/// How long the metadata takes for a transaction, beyond the network.
const WORK_MAX_NANOS: u64 = 8_000_000;
/// Whoever looks stands still after that, once in so many times.
const LATE_ONE_IN: u64 = 40;
/// For so long at most.
const LATE_NANOS: u64 = 3_000_000_000;

impl Controller {
    pub(super) fn new(prng: Prng) -> Self {
        Self {
            leader: None,
            terms: 0,
            orders: 0,
            prng,
        }
    }
}

impl Cluster {
    /// Whether somebody steers.
    pub(crate) fn is_steered(&self) -> bool {
        self.plan.controller.is_some()
    }

    /// Whether nobody admits a node before the operator says so.
    fn is_newcomer(&self, node: NodeId) -> bool {
        let plan = self.plan.controller;
        plan.and_then(|plan| plan.newcomer) == Some(node)
    }

    /// Puts on record what the cluster's controllers go by, and lets them begin.
    pub(crate) fn begin_to_steer(&mut self) -> Result<(), Failure> {
        let Some(plan) = self.plan.controller else {
            return Ok(());
        };
        let settings = SettingsRecord {
            repair_delay_seconds: plan.repair_delay_seconds,
            rebalance: plan.rebalance,
            scrub_interval_seconds: plan
                .scrub_interval_seconds
                .unwrap_or(SettingsRecord::default().scrub_interval_seconds),
            ..SettingsRecord::default()
        };
        let (key, value) = (SETTINGS_KEY.into(), settings.encode());
        self.change_metadata(|machine, out| boot::put(machine, key, value, out))?;
        let admitted = self.node_ids().into_iter();
        let admitted: Vec<NodeId> = admitted.filter(|node| !self.is_newcomer(*node)).collect();
        for node in admitted {
            self.intend(&IntentRecord {
                schema: 1,
                node,
                standing: NodeStanding::Active,
                site: None,
            })?;
        }
        self.schedule(plan.pause, Happening::Pass);
        Ok(())
    }

    /// Whoever steers looks what the metadata holds.
    pub(super) fn pass(&mut self) -> Result<(), Failure> {
        let Some(plan) = self.plan.controller else {
            return Ok(());
        };
        self.schedule(plan.pause, Happening::Pass);
        let now = self.now;
        if let Some(leader) = &self.controller.leader {
            let process = leader.process;
            if self.can_steer(process.node) != Some(process) {
                if now.since(leader.reached) > plan.term {
                    self.controller.leader = None;
                }
                return Ok(());
            }
        } else {
            self.begin_a_term()?;
        }
        let inventory = self.inventory();
        let Some(leader) = &mut self.controller.leader else {
            return Ok(());
        };
        leader.reached = now;
        if let Some(inventory) = inventory {
            let process = leader.process;
            let delay = self.way_to_metadata();
            self.schedule(delay, Happening::Looked(process, inventory));
        }
        Ok(())
    }

    /// The process of a node, if it can reach the metadata.
    pub(super) fn can_steer(&self, node: NodeId) -> Option<ProcessId> {
        let process = self.nodes[&node].process.as_ref()?;
        let reaches = self
            .network
            .passes_both_ways(Place::Node(node), Place::Metadata);
        (reaches && !process.freeze.is_frozen()).then_some(process.id)
    }

    /// One of those that can takes the lead.
    fn begin_a_term(&mut self) -> Result<(), Failure> {
        let nodes = self.node_ids();
        let able: Vec<ProcessId> = nodes.iter().filter_map(|it| self.can_steer(*it)).collect();
        if able.is_empty() {
            return Ok(());
        }
        let process = *self.controller.prng.choose(&able);
        self.controller.terms += 1;
        let record = LeaderRecord {
            schema: 1,
            node: process.node,
            lease: self.controller.terms,
        };
        let own = record.encode();
        let (key, value) = (LEADER_KEY.into(), own.clone());
        self.change_metadata(|machine, out| boot::put(machine, key, value, out))?;
        self.line(Place::Node(process.node), format_args!("steers"));
        let point = match self.controller.terms {
            1 => "somebody",
            _ => "another one",
        };
        self.watch.coverage.reach("steers", point);
        self.controller.leader = Some(Leader {
            process,
            own,
            reached: self.now,
            heard: BTreeMap::new(),
            given_up: BTreeSet::new(),
        });
        Ok(())
    }

    /// Whoever steers knows what the metadata held, asks the nodes, and plans.
    pub(super) fn looked(
        &mut self,
        process: ProcessId,
        inventory: &Inventory,
    ) -> Result<(), Failure> {
        let Some(mut leader) = self.controller.leader.take() else {
            return Ok(());
        };
        if leader.process == process && self.can_steer(process.node) == Some(process) {
            self.plan_steps(&mut leader, inventory);
        }
        self.controller.leader = Some(leader);
        Ok(())
    }

    fn plan_steps(&mut self, leader: &mut Leader, inventory: &Inventory) {
        let from = leader.process.node;
        let mut sight = self.sight(from, inventory, &mut leader.heard);
        note_given_up(inventory, &sight, &mut leader.given_up);
        sight.given_up.clone_from(&leader.given_up);
        let mut steps = match admit_all(inventory) {
            Some(step) => vec![step],
            None => steer(inventory, &sight),
        };
        if self.has_rounds() {
            steps.extend(scrub_rounds(inventory, &sight, self.unix_seconds(from)));
        }
        let mut delay = Duration::ZERO;
        if self.controller.prng.chance(1, LATE_ONE_IN) {
            delay += Duration::from_nanos(self.controller.prng.below(LATE_NANOS));
        }
        for mut step in steps {
            step.compare.push(Compare::Value {
                key: LEADER_KEY.into(),
                equals: leader.own.clone(),
            });
            delay += self.way_to_metadata();
            let written = Written {
                from,
                store: self.agreement.store(),
                own: Some(leader.own.clone()),
                transaction: step,
            };
            self.schedule(delay, Happening::Written(Box::new(written)));
        }
    }

    /// What a node asks of the metadata arrives, or its answer, after so long.
    pub(super) fn way_to_metadata(&mut self) -> Duration {
        let work = self.controller.prng.below(WORK_MAX_NANOS);
        self.network.delay() + Duration::from_nanos(work)
    }

    /// Something that a controller wants written arrives at the metadata.
    pub(super) fn written(&mut self, written: Written) -> Result<(), Failure> {
        let Written {
            from,
            store,
            own,
            transaction,
        } = written;
        if own.is_none() {
            self.controller.orders -= 1;
        }
        let passes = self.network.passes(Place::Node(from), Place::Metadata);
        if store != self.agreement.store() || !passes {
            return Ok(());
        }
        let mut succeeded = false;
        let scrub = scrubs::point(&transaction, own.is_none());
        self.change_metadata(|machine, out| {
            succeeded = boot::transact(machine, transaction, out).succeeded;
        })?;
        if let Some(point) = scrub.filter(|_| succeeded) {
            self.watch.coverage.reach("scrub", point);
        }
        let what = if succeeded { "written" } else { "too late" };
        self.watch.coverage.reach("steers", what);
        self.line(Place::Metadata, format_args!("{from} steers: {what}"));
        if !succeeded && own.is_some() && self.agreement.get(LEADER_KEY) != own {
            self.controller.leader = None;
            self.watch.coverage.reach("steers", "deposed");
        }
        Ok(())
    }

    /// What the nodes say whose devices are open, those that another one reaches, and that follow the metadata with it.
    pub(super) fn reports(&self, from: NodeId) -> BTreeMap<NodeId, NodeStatus> {
        let nodes = self.nodes.values().filter_map(|node| {
            let process = node.process.as_ref()?;
            let (from, to) = (Place::Node(from), Place::Node(node.id));
            let reaches = from == to || self.network.passes_both_ways(from, to);
            let answers = reaches && !process.freeze.is_frozen();
            answers.then(|| (node.id, process.engine.status()))
        });
        let mut reports: BTreeMap<_, _> = nodes.collect();
        let own = reports.get(&from);
        let strangers = own.map_or_else(Vec::new, |own| own.strangers.clone());
        reports.retain(|node, status| {
            status.open && status.astray.is_none() && !strangers.contains(node)
        });
        reports
    }

    /// What one node's controller sees of the others, which it remembers so from `before`.
    pub(super) fn sight(
        &self,
        from: NodeId,
        inventory: &Inventory,
        before: &mut BTreeMap<NodeId, Heard>,
    ) -> Sight {
        let now = self.now;
        let reports = self.reports(from);
        before.retain(|node, _| inventory.nodes.contains_key(node));
        let nodes = inventory.nodes.keys().map(|node| {
            let known = before.entry(*node).or_insert(Heard {
                last: now,
                bytes: 0,
                free_bytes: 0,
            });
            let mut silent = now.since(known.last).max(Duration::from_nanos(1));
            if let Some(status) = reports.get(node) {
                silent = Duration::ZERO;
                *known = Heard::of(now, &status.usage);
            }
            let seen = Seen {
                silent,
                bytes: known.bytes,
                free_bytes: known.free_bytes,
                work: 0,
            };
            (*node, seen)
        });
        let nodes = nodes.collect();
        let has_bad = |record: &SliceRecord, node: NodeId| {
            let mut replicas = reports.get(&node).into_iter().flat_map(|it| &it.replicas);
            replicas.any(|replica| replica.slice == record.slice && replica.bad_blocks > 0)
        };
        let bad = inventory.slices.values();
        let bad = bad.filter(|record| record.in_sync().any(|node| has_bad(record, node)));
        Sight {
            bad: bad.map(|record| record.slice).collect(),
            nodes,
            given_up: BTreeSet::new(),
            ..Sight::default()
        }
    }

    /// What keeps the cluster from being at rest, once everything is mended and called off.
    pub(crate) fn unsettled(&mut self) -> Option<String> {
        self.plan.controller?;
        let inventory = self.inventory()?;
        if let Some(wish) = inventory.wishes.values().next() {
            return Some(format!("there is a wish: {:?}", wish.record));
        }
        for record in inventory.slices.values() {
            let volume = &inventory.volumes.get(&record.slice.volume)?.record;
            if record.replicas.len() != volume.policy.copies() {
                return Some(format!("{} has not all its copies", record.slice));
            }
        }
        if let Some(what) = self.scrubs_unsettled(&inventory) {
            return Some(what);
        }
        let from = *inventory.nodes.keys().next()?;
        let sight = self.sight(from, &inventory, &mut BTreeMap::new());
        let steps = steer(&inventory, &sight);
        let step = steps.first()?;
        Some(format!("it is not where it should be: {step:?}"))
    }
}
