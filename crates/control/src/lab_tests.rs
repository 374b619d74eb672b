//! A cluster for tests: the metadata's own machine, and slices that do at once what is wished of them.

extern crate std;

use std::collections::{BTreeMap, BTreeSet};
use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use holdfast_metadata::{ClientId, HistoryLimits, Machine, Output};
use holdfast_model::metadata::{
    LeaseId, MetadataAnswer, MetadataRequest, MetadataToken, Operation, Selector, Transaction,
    TransactionOutcome,
};
use holdfast_model::record::{
    CLUSTER_KEY, ClusterRecord, DomainRecord, IntentRecord, Membership, NodeRecord, NodeStanding,
    Record, ReplicaRecord, SETTINGS_KEY, SettingsRecord, SliceRecord,
};
use holdfast_model::{
    ClusterId, Incarnation, NodeId, Policy, SLICE_SIZE, Sequence, SliceId, StoreId, VolumeId,
};
use holdfast_stdx::{Duration, Instant};

use crate::{
    Inventory, Order, PlanError, Refusal, Seen, Sight, VolumeSize, create, note_given_up, order,
    steer,
};

const GIB: u64 = 1 << 30;

/// Nodes of a tebibyte each, all up.
pub(crate) struct Lab {
    machine: Machine,
    pub(crate) sight: Sight,
    /// Replicas that have been taken in since the beginning.
    pub(crate) moved: Vec<(SliceId, NodeId)>,
    /// Nodes on which replicas are named, and take their time to be in sync.
    pub(crate) slow: BTreeSet<NodeId>,
    /// What hosts have each replica of a slice do.
    pub(crate) work: BTreeMap<SliceId, u64>,
}

pub(crate) fn node(number: u16) -> NodeId {
    NodeId(number)
}

impl Lab {
    pub(crate) fn new(nodes: u16) -> Self {
        let mut lab = Self {
            machine: Machine::new(HistoryLimits::default()),
            sight: Sight::default(),
            moved: Vec::new(),
            slow: BTreeSet::new(),
            work: BTreeMap::new(),
        };
        let cluster = ClusterRecord {
            schema: 1,
            cluster: ClusterId(7),
            next_volume: VolumeId(1),
            recoveries: 0,
            incarnation_floor: Incarnation::ZERO,
        };
        lab.put(CLUSTER_KEY.into(), &cluster);
        (1..=nodes).for_each(|number| lab.register(number));
        lab
    }

    /// A node registers.
    pub(crate) fn register(&mut self, number: u16) {
        let record = NodeRecord {
            schema: 1,
            node: node(number),
            name: format!("n{number}"),
            store: StoreId(u128::from(number)),
            uses: 1,
            use_id: 1,
            incarnation: Incarnation(1),
            portal: String::new(),
            peer: String::new(),
            api: String::new(),
        };
        self.put(NodeRecord::key(node(number)), &record);
        let seen = Seen {
            silent: Duration::ZERO,
            bytes: 1024 * GIB,
            free_bytes: 1000 * GIB,
            work: 0,
        };
        self.sight.nodes.insert(node(number), seen);
    }

    pub(crate) fn seen(&mut self, number: u16) -> &mut Seen {
        self.sight.nodes.entry(node(number)).or_default()
    }

    pub(crate) fn settings(&mut self, change: impl FnOnce(&mut SettingsRecord)) {
        let mut settings = self.inventory().settings.record;
        change(&mut settings);
        self.put(SETTINGS_KEY.into(), &settings);
    }

    pub(crate) fn site(&mut self, number: u16, site: &str) {
        let intent = IntentRecord {
            schema: 1,
            node: node(number),
            standing: NodeStanding::Active,
            site: Some(site.into()),
        };
        self.put(IntentRecord::key(node(number)), &intent);
    }

    /// A node starts anew, with this failure domain in its configuration, or none.
    pub(crate) fn domain(&mut self, number: u16, domain: Option<&str>) {
        let key = DomainRecord::key(node(number));
        match domain {
            Some(domain) => {
                let record = DomainRecord {
                    schema: 1,
                    node: node(number),
                    domain: domain.into(),
                };
                self.put(key, &record);
            }
            None => {
                let outcome = self.transact(&Transaction {
                    success: vec![Operation::Delete(Selector::Key(key))],
                    ..Transaction::default()
                });
                assert!(outcome.succeeded);
            }
        }
    }

    /// What there is to say against a volume of so many slices, which is not made.
    pub(crate) fn refused(&mut self, slices: u64, policy: Policy) -> PlanError {
        let size = VolumeSize::new(slices * SLICE_SIZE).expect("a good size");
        let sight = self.sight.clone();
        let seen = |node| {
            let seen = sight.nodes.get(&node).copied();
            seen.filter(|seen| seen.silent.is_zero())
        };
        let name = "refused".parse().expect("a good name");
        let plan = create(&self.inventory(), seen, &name, size, policy);
        plan.expect_err("it cannot be")
    }

    /// A volume of so many slices.
    pub(crate) fn volume(&mut self, name: &str, slices: u64, policy: Policy) {
        let inventory = self.inventory();
        let size = VolumeSize::new(slices * SLICE_SIZE).expect("a good size");
        let sight = self.sight.clone();
        let seen = |node| sight.nodes.get(&node).copied();
        let name = name.parse().expect("a good name");
        let plan = create(&inventory, seen, &name, size, policy).expect("there is room");
        for transaction in plan.transactions {
            assert!(self.transact(&transaction).succeeded);
        }
    }

    pub(crate) fn order(&mut self, number: u16, what: Order) -> Result<bool, Refusal> {
        let transaction = order(&self.inventory(), &self.sight, node(number), what, None)?;
        if let Some(transaction) = &transaction {
            assert!(self.transact(transaction).succeeded);
        }
        Ok(transaction.is_some())
    }

    pub(crate) fn put(&mut self, key: String, record: &impl Record) {
        let put = Operation::Put {
            key,
            value: record.encode(),
            lease: LeaseId(0),
        };
        let outcome = self.transact(&Transaction {
            success: vec![put],
            ..Transaction::default()
        });
        assert!(outcome.succeeded);
    }

    pub(crate) fn transact(&mut self, transaction: &Transaction) -> TransactionOutcome {
        let mut out = Output::default();
        let request = MetadataRequest::Transact(transaction.clone());
        let (client, token) = (ClientId(1), MetadataToken(1));
        self.machine
            .apply(Instant::ZERO, client, token, request, &mut out);
        match out.answers.pop().map(|addressed| addressed.answer) {
            Some(MetadataAnswer::Transacted(outcome)) => outcome,
            other => panic!("the transaction is valid: {other:?}"),
        }
    }

    pub(crate) fn inventory(&mut self) -> Inventory {
        let outcome = self.transact(&Inventory::query());
        Inventory::from_outcome(outcome).expect("what was planned reads")
    }

    /// One pass. Returns how many steps it took.
    pub(crate) fn pass(&mut self) -> usize {
        let inventory = self.inventory();
        let mut given_up = core::mem::take(&mut self.sight.given_up);
        note_given_up(&inventory, &self.sight, &mut given_up);
        self.sight.given_up = given_up;
        self.see_work(&inventory);
        let steps = steer(&inventory, &self.sight);
        for step in &steps {
            assert!(
                self.transact(step).succeeded,
                "nobody comes between: {step:?}"
            );
        }
        steps.len()
    }

    fn see_work(&mut self, inventory: &Inventory) {
        let work = |slice: &SliceRecord| self.work.get(&slice.slice).copied().unwrap_or(0);
        let replicas = inventory.slices.values().flat_map(|slice| {
            let nodes = slice.replicas.iter().map(|replica| replica.node);
            nodes.map(|node| ((slice.slice, node), work(slice)))
        });
        self.sight.work = replicas.collect();
        for (node, seen) in &mut self.sight.nodes {
            let here = self.sight.work.iter().filter(|((_, it), _)| it == node);
            seen.work = here.map(|(_, work)| work).sum();
        }
    }

    /// Every slice does what is wished of it, as far as the nodes that it needs are up.
    pub(crate) fn obey(&mut self) {
        let inventory = self.inventory();
        for (slice, wish) in &inventory.wishes {
            let wish = &wish.record;
            assert!(wish.is_sound(), "{wish:?}");
            let mut record = inventory.slices[slice].clone();
            for node in &wish.nodes {
                if record.replica(*node).is_none() && self.sight.is_up(*node) {
                    record.replicas.push(ReplicaRecord {
                        node: *node,
                        store: StoreId(u128::from(node.0)),
                        membership: if self.slow.contains(node) {
                            Membership::Absent {
                                stable: Sequence::ZERO,
                            }
                        } else {
                            Membership::InSync
                        },
                    });
                    self.moved.push((*slice, *node));
                }
            }
            let arrived = wish
                .nodes
                .iter()
                .all(|node| record.in_sync().any(|other| other == *node));
            if arrived {
                let stays = |node| wish.nodes.contains(&node) || wish.kept.contains(&node);
                record.replicas.retain(|replica| stays(replica.node));
                (record.primary, record.preferred) = (wish.preferred, wish.preferred);
            }
            record.replicas.sort_by_key(|replica| replica.node);
            if record != inventory.slices[slice] {
                record.epoch = record.epoch.next();
                self.put(SliceRecord::key(*slice), &record);
            }
        }
    }

    /// Passes until there is nothing to do. Returns how many it took.
    pub(crate) fn settle(&mut self) -> usize {
        for passes in 0..1000 {
            self.obey();
            if self.pass() == 0 {
                self.obey();
                let more = self.pass();
                assert_eq!(more, 0, "where nothing is to be done nothing is written");
                return passes;
            }
        }
        panic!("it never comes to rest");
    }

    /// A node dies: the others take it out of their slices.
    pub(crate) fn die(&mut self, number: u16, silent: Duration) {
        self.seen(number).silent = silent;
        for mut record in self.inventory().slices.into_values() {
            let others = record.in_sync().filter(|it| *it != node(number));
            let Some(next) = others.min() else { continue };
            for replica in &mut record.replicas {
                if replica.node == node(number) {
                    replica.membership = Membership::Absent {
                        stable: Sequence(1),
                    };
                }
            }
            if record.primary == node(number) {
                record.primary = next;
            }
            record.epoch = record.epoch.next();
            self.put(SliceRecord::key(record.slice), &record);
        }
    }

    /// A node is there again; its replicas, those of `slices`, are brought up to date.
    pub(crate) fn come_back(&mut self, number: u16, slices: impl Fn(SliceId) -> bool) {
        self.seen(number).silent = Duration::ZERO;
        for mut record in self.inventory().slices.into_values() {
            let mine = record.replicas.iter_mut();
            let mut mine = mine.filter(|replica| replica.node == node(number));
            if let Some(replica) = mine.next().filter(|_| slices(record.slice)) {
                replica.membership = Membership::InSync;
                record.epoch = record.epoch.next();
                self.put(SliceRecord::key(record.slice), &record);
            }
        }
    }

    /// How many replicas each node holds, and how many slices it is to lead.
    pub(crate) fn counts(&mut self) -> Vec<(usize, usize)> {
        let inventory = self.inventory();
        let nodes = inventory.nodes.keys();
        let held = |node| inventory.slices_on(node);
        nodes
            .map(|node| {
                let leads = held(*node).filter(|slice| slice.preferred == *node).count();
                (held(*node).count(), leads)
            })
            .collect()
    }
}
