//! Processes over a store of metadata, for tests.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use holdfast_model::metadata::{
    Compare, KeyValue, LeaseId, MetadataAnswer, MetadataError, MetadataRequest, MetadataToken,
    Operation, OperationResult, Revision, Selector, Transaction, TransactionOutcome, WatchEvent,
};
use holdfast_model::record::{CLUSTER_KEY, ClusterRecord, NodeRecord, Record};
use holdfast_model::{ClusterId, Incarnation, MachineId, NodeId, SliceId, StoreId, VolumeId};
use holdfast_stdx::{Bytes, Duration, Instant};
use holdfast_store::UseIds;

use super::{Change, Cluster};
use crate::Notice;
use crate::config::Machine;
use crate::notes::{Notes, bookmark_place, recovered};
use crate::registration::Registration;

const CLUSTER: ClusterId = ClusterId(5);
pub(super) const STEP: Duration = Duration::from_millis(100);

/// Enough of the metadata.
#[derive(Clone, Default)]
pub(super) struct Metadata {
    pub(super) revision: u64,
    pub(super) keys: BTreeMap<String, KeyValue>,
    pub(super) log: Vec<(u64, WatchEvent)>,
}

impl Metadata {
    pub(super) fn holds(&self, compare: &Compare) -> bool {
        match compare {
            Compare::ModRevision { key, equals } => {
                let known = self.keys.get(key);
                known.map_or(Revision(0), |pair| pair.mod_revision) == *equals
            }
            Compare::Value { key, equals } => {
                let known = self.keys.get(key);
                known.is_some_and(|pair| pair.value == *equals)
            }
        }
    }

    pub(super) fn transact(&mut self, transaction: Transaction) -> TransactionOutcome {
        let succeeded = transaction.compare.iter().all(|it| self.holds(it));
        let wanted = if succeeded {
            transaction.success
        } else {
            transaction.failure
        };
        let changes = |it: &Operation| !matches!(it, Operation::Range(_));
        self.revision += u64::from(wanted.iter().any(changes));
        let results = wanted.into_iter().map(|operation| self.perform(operation));
        TransactionOutcome {
            succeeded,
            results: results.collect(),
            revision: Revision(self.revision),
        }
    }

    pub(super) fn perform(&mut self, operation: Operation) -> OperationResult {
        let mod_revision = Revision(self.revision);
        match operation {
            Operation::Range(selector) => {
                let is_meant = |key: &str| match &selector {
                    Selector::Key(one) => key == one,
                    Selector::Prefix(prefix) => key.starts_with(prefix.as_str()),
                };
                let found = self.keys.values().filter(|pair| is_meant(&pair.key));
                OperationResult::Range(found.cloned().collect())
            }
            Operation::Put { key, value, .. } => {
                let pair = KeyValue {
                    key: key.clone(),
                    value,
                    create_revision: mod_revision,
                    mod_revision,
                    version: 1,
                    lease: LeaseId(0),
                };
                self.keys.insert(key, pair.clone());
                self.log.push((self.revision, WatchEvent::Put(pair)));
                OperationResult::Put
            }
            Operation::Delete(Selector::Key(key)) => {
                let gone = self.keys.remove(&key);
                let deleted =
                    gone.map(|_| (self.revision, WatchEvent::Delete { key, mod_revision }));
                self.log.extend(deleted);
                OperationResult::Delete(1)
            }
            Operation::Delete(_) => panic!("nobody deletes more"),
        }
    }
}

/// A process.
pub(super) struct Process {
    pub(super) cluster: Cluster,
    /// How often it has asked something.
    pub(super) asked: u64,
    /// With the revision up to which it has told.
    pub(super) watch: Option<(MetadataToken, u64)>,
    pub(super) told: Vec<Notice>,
    pub(super) may_format: bool,
    pub(super) registered: bool,
    /// There is no room for what it puts.
    pub(super) is_full: bool,
    /// What the store holds is relied on no more.
    pub(super) is_doubted: bool,
    /// What is kept in the store.
    pub(super) kept: BTreeMap<SliceId, Bytes>,
}

/// A machine: its number, and where other nodes reach it. It may listen elsewhere.
pub(super) type Place = (u128, &'static str);

pub(super) const ONE: Place = (0xA, "192.0.2.1:7561");
pub(super) const FOUR: Place = (0xD, "192.0.2.4:7561");

impl Process {
    pub(super) fn start(store: u128, uses: u64, name: &str, machine: Place) -> Self {
        Self::begin(Self::registration(store, uses, name, machine, false))
    }

    /// An operator says that the machine on record is gone.
    pub(super) fn take_over(store: u128, name: &str, machine: Place) -> Self {
        Self::begin(Self::registration(store, 1, name, machine, true))
    }

    pub(super) fn begin(registration: Registration) -> Self {
        Self::with(registration, BTreeMap::new())
    }

    /// With a store that has these notes.
    pub(super) fn with(registration: Registration, kept: BTreeMap<SliceId, Bytes>) -> Self {
        Self::holding(registration, kept, BTreeSet::new())
    }

    /// With a store that has these notes, and slices.
    pub(super) fn holding(
        registration: Registration,
        kept: BTreeMap<SliceId, Bytes>,
        held: BTreeSet<SliceId>,
    ) -> Self {
        let mut process = Self::new();
        let found = kept.iter();
        let found = found.map(|(slice, note)| (*slice, recovered(note.clone())));
        let notes = Notes::take_from(&mut found.collect());
        let cluster = &mut process.cluster;
        cluster.start(CLUSTER, registration, held, notes);
        process.kept = kept;
        process
    }

    /// The next start of the first node, with what its store has by then.
    pub(super) fn again(&self, uses: u64, takes_over: bool) -> Self {
        let registration = Self::registration(5, uses, "one", ONE, takes_over);
        Self::with(registration, self.kept.clone())
    }

    /// The watch goes on over another connection.
    pub(super) fn reconnect(&mut self, now: Instant) {
        if let Some((token, _)) = self.watch {
            let resumed = MetadataAnswer::WatchResumed;
            self.cluster.handle_answer(now, token, resumed);
        }
    }

    /// The session breaks.
    pub(super) fn disconnect(&mut self, now: Instant) {
        if let Some((token, _)) = self.watch.take() {
            let ended = MetadataAnswer::WatchEnded(MetadataError::Unavailable);
            self.cluster.handle_answer(now, token, ended);
        }
    }

    /// With blank devices.
    pub(super) fn blank(store: u128, name: &str, machine: Place) -> Self {
        let registration = Self::registration(store, 0, name, machine, false);
        let mut process = Self::new();
        process.cluster.look_first(CLUSTER, registration);
        process
    }

    pub(super) fn new() -> Self {
        Self {
            cluster: Cluster::default(),
            asked: 0,
            watch: None,
            told: Vec::new(),
            may_format: false,
            registered: false,
            is_full: false,
            is_doubted: false,
            kept: BTreeMap::new(),
        }
    }

    pub(super) fn registration(
        store: u128,
        uses: u64,
        name: &str,
        (machine, peer): Place,
        takes_over: bool,
    ) -> Registration {
        let own = NodeRecord {
            schema: 1,
            node: NodeId(1),
            name: name.into(),
            store: StoreId(store),
            uses,
            use_id: 100 * uses + 1,
            incarnation: Incarnation::ZERO,
            portal: "127.0.0.1:1".into(),
            peer: peer.into(),
            api: "http://127.0.0.1:3".into(),
        };
        let machine = Machine {
            id: MachineId(machine),
            has_address: false,
            takes_over,
        };
        let mut use_ids = UseIds::NONE;
        (1..=uses).for_each(|it| use_ids.begin(it, 100 * it + 1));
        Registration::new(own, None, use_ids, machine)
    }

    /// Does what there is to be done at a time.
    pub(super) fn step(&mut self, now: Instant, metadata: &mut Metadata) {
        self.cluster.handle_timeout(now);
        let requests: Vec<_> = self.cluster.take_requests().collect();
        for (token, request) in requests {
            match request {
                MetadataRequest::Transact(transaction) => {
                    self.asked += 1;
                    let puts = |it: &Operation| matches!(it, Operation::Put { .. });
                    let answer = if self.is_full && transaction.success.iter().any(puts) {
                        MetadataAnswer::Failed(MetadataError::Full)
                    } else {
                        MetadataAnswer::Transacted(metadata.transact(transaction))
                    };
                    self.cluster.handle_answer(now, token, answer);
                }
                MetadataRequest::Watch { from, .. } => self.watch = Some((token, from.0 - 1)),
                MetadataRequest::Unwatch => {
                    self.watch.take_if(|(watch, _)| *watch == token);
                }
                _ => panic!("nothing else is asked"),
            }
        }
        self.hear(now, metadata);
        self.keep(now);
        for change in self.cluster.take_changes() {
            match change {
                Change::Tell(notice) => self.told.push(notice),
                Change::Free => self.may_format = true,
                Change::Registered(_) => self.registered = true,
                Change::Doubtful => {
                    self.is_doubted = true;
                    self.cluster.doubted();
                }
                _ => {}
            }
        }
    }

    /// Its watch tells what it has not told yet.
    pub(super) fn hear(&mut self, now: Instant, metadata: &Metadata) {
        if let Some((token, told)) = &mut self.watch {
            let log = metadata.log.iter();
            let news = log.filter(|(revision, _)| *revision > *told);
            let events = news.map(|(_, event)| event.clone()).collect();
            *told = metadata.revision.max(*told);
            let revision = Revision(*told);
            let answer = MetadataAnswer::Watched { revision, events };
            self.cluster.handle_answer(now, *token, answer);
        }
    }

    /// What is to be noted is, at once.
    pub(super) fn keep(&mut self, now: Instant) {
        while let Some((slice, note)) = self.cluster.notes.next() {
            match note {
                Some(note) => drop(self.kept.insert(slice, note)),
                None => {
                    self.kept.remove(&slice);
                    self.cluster.notes.gone(slice);
                }
            }
            if slice == bookmark_place() {
                self.cluster.bookmark_kept(now);
            }
        }
    }

    pub(super) fn is_displaced(&self) -> bool {
        self.cluster.successor(NodeId(1)).is_some()
    }
}

/// Metadata of a cluster that has been made.
pub(super) fn made() -> Metadata {
    made_again(0)
}

/// So many times.
pub(super) fn made_again(recoveries: u64) -> Metadata {
    holding(&cluster_record(recoveries))
}

pub(super) fn cluster_record(recoveries: u64) -> ClusterRecord {
    ClusterRecord {
        schema: 1,
        cluster: CLUSTER,
        next_volume: VolumeId(1),
        recoveries,
        incarnation_floor: Incarnation::ZERO,
    }
}

pub(super) fn holding(record: &ClusterRecord) -> Metadata {
    let mut metadata = Metadata::default();
    metadata.transact(changes([Operation::put(
        CLUSTER_KEY.into(),
        record.encode(),
    )]));
    metadata
}

pub(super) fn changes(success: impl Into<Vec<Operation>>) -> Transaction {
    Transaction {
        success: success.into(),
        ..Transaction::default()
    }
}

/// Lets these run for so long.
pub(super) fn run(
    now: &mut Instant,
    time: Duration,
    metadata: &mut Metadata,
    all: &mut [&mut Process],
) {
    let end = *now + time;
    while *now < end {
        *now += STEP;
        for process in all.iter_mut() {
            process.step(*now, metadata);
        }
    }
}

/// A node that has registered, and the metadata that says so.
pub(super) fn registered() -> (Metadata, Instant, Process) {
    let (mut metadata, mut now) = (made(), Instant::ZERO);
    let mut first = Process::start(5, 1, "one", ONE);
    run(&mut now, STEP * 10, &mut metadata, &mut [&mut first]);
    (metadata, now, first)
}

pub(super) const MINUTE: Duration = Duration::from_secs(60);
