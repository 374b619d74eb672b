//! A node's engine on a device, metadata and peers in memory, all of which do what they are asked at once
//! unless a test holds them.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod host;

use std::collections::BTreeMap;

use holdfast_engine::{
    Command, DeviceGeometry, Engine, EngineConfig, Event, HOLD, LinkId, Machine, Output,
    PeerCommand, PeerEvent, PortalCommand, PortalEvent, Stall, TAKEOVERS_MAX,
};
use holdfast_model::metadata::{
    Compare, KeyValue, LeaseId, MetadataAnswer, MetadataError, MetadataRequest, MetadataToken,
    Operation, OperationResult, Revision, Selector, Transaction, TransactionOutcome, WatchEvent,
};
use holdfast_model::record::{
    CLUSTER_KEY, ClusterRecord, DELETED_KEY, DeletedRecord, DenialRecord, DomainRecord,
    IntentRecord, Membership, NodeRecord, NodeStanding, Record, ReplicaRecord, SliceRecord,
    VolumeRecord,
};
use holdfast_model::{
    ClusterId, DiskCompletion, DiskId, DiskOp, DiskRequest, Epoch, Incarnation, MachineId, NodeId,
    Sequence, SliceId, StoreId, Tier, VolumeId,
};
use holdfast_stdx::{Bytes, Duration, Instant};
use holdfast_store::{FormatConfig, StoreConfig, StoreIdentity};
use holdfast_wire::{Grant, Heartbeat, Message, Prepared, Reserved};

pub(crate) const CLUSTER: ClusterId = ClusterId(7);
/// The node whose engine this is.
pub(crate) const ME: NodeId = NodeId(1);
/// Another one.
pub(crate) const PEER: NodeId = NodeId(2);
pub(crate) const SLICE: SliceId = SliceId {
    volume: VolumeId(1),
    index: 0,
};
const LINK: LinkId = LinkId(1);
const DEVICE_BYTES: usize = 48 << 20;
/// Between two heartbeats of the peer.
const HEARTBEAT: Duration = Duration::from_millis(100);

pub(crate) fn store_of(node: NodeId) -> StoreId {
    StoreId(u128::from(node.0) + 100)
}

/// A slice's record in its first epoch, with one replica, that of [`ME`].
pub(crate) fn first_record() -> SliceRecord {
    SliceRecord {
        schema: 1,
        slice: SLICE,
        epoch: Epoch(1),
        primary: ME,
        preferred: ME,
        replicas: vec![replica(ME, Membership::InSync)],
        copies_min: 1,
        bytes_moved: 0,
        proposer: (NodeId(9), Incarnation(1)),
        nonce: 0,
        recovery: None,
    }
}

/// The same with another copy, at the peer, without which nothing is committed.
pub(crate) fn mirrored_record() -> SliceRecord {
    SliceRecord {
        replicas: vec![
            replica(ME, Membership::InSync),
            replica(PEER, Membership::InSync),
        ],
        copies_min: 2,
        ..first_record()
    }
}

pub(crate) fn replica(node: NodeId, membership: Membership) -> ReplicaRecord {
    ReplicaRecord {
        node,
        store: store_of(node),
        membership,
    }
}

/// The peer's record. Its link, where there is one, is of incarnation 1.
pub(crate) fn record_of_peer(store: StoreId, incarnation: u64) -> (String, Bytes) {
    let record = NodeRecord {
        schema: 1,
        node: PEER,
        name: "two".into(),
        store,
        uses: 1,
        use_id: 0,
        incarnation: Incarnation(incarnation),
        portal: "127.0.0.2:1".into(),
        peer: "127.0.0.2:2".into(),
        api: "http://127.0.0.2:3".into(),
    };
    (NodeRecord::key(PEER), record.encode())
}

pub(crate) struct Bench {
    pub(crate) engine: Engine,
    out: Output,
    pub(crate) now: Instant,
    device: Vec<u8>,
    /// What the device has been asked to read since a test began to hold its reads.
    pub(crate) held: Option<Vec<DiskRequest>>,
    /// It holds writes as well.
    pub(crate) holds_writes: bool,
    /// What the metadata has been asked since a test began to hold its answers.
    pub(crate) metadata: Option<Vec<(MetadataToken, MetadataRequest)>>,
    /// What the engine wants done at its portal.
    pub(crate) portal: Vec<PortalCommand>,
    /// Stalls that it has told.
    pub(crate) stalls: Vec<Stall>,
    keys: BTreeMap<String, (Bytes, Revision)>,
    revision: Revision,
    watch: Option<MetadataToken>,
    /// What an engine's own transaction has changed, and whoever watches is to be told.
    changes: Vec<WatchEvent>,
    /// When the peer, whose link is up, sends its next heartbeat, and the newest that it has.
    peer: Option<(Instant, Instant)>,
    /// Connections that hosts have made.
    pub(crate) connections: u64,
    /// What the engine has sent to the peer.
    pub(crate) sent: Vec<Message>,
    /// How often it has dropped the link to it.
    pub(crate) resets: u64,
    /// What the peer grants with its heartbeats.
    pub(crate) grants: Vec<Grant>,
    /// Whether it has stopped.
    pub(crate) has_stopped: bool,
    /// Lets the engine do something, and may look at what that takes.
    pub(crate) watch_over: fn(&mut dyn FnMut()),
}

impl Bench {
    /// A node that has registered, in a cluster with one slice.
    pub(crate) fn new(documents: &[(String, Bytes)]) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let mut out = Output::default();
        let mut bench = Self {
            engine: Engine::new(config(), now, &mut out),
            out,
            now,
            device: vec![0; DEVICE_BYTES],
            held: None,
            holds_writes: false,
            metadata: None,
            portal: Vec::new(),
            stalls: Vec::new(),
            keys: BTreeMap::new(),
            revision: Revision(1),
            watch: None,
            changes: Vec::new(),
            peer: None,
            connections: 0,
            sent: Vec::new(),
            resets: 0,
            grants: Vec::new(),
            has_stopped: false,
            watch_over: |act| act(),
        };
        let cluster = ClusterRecord {
            schema: 1,
            cluster: CLUSTER,
            next_volume: VolumeId(2),
            recoveries: 0,
            incarnation_floor: Incarnation::ZERO,
        };
        bench.put(CLUSTER_KEY, cluster.encode());
        for (key, value) in documents {
            bench.put(key, value.clone());
        }
        bench.work();
        bench.pass(3000);
        bench
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    /// The node is started again, where the metadata has lost this key.
    pub(crate) fn restart_without(&mut self, key: &str) {
        self.keys.remove(key);
        self.restart(false);
    }

    /// The node is started again; an operator says that it takes its place, or that the metadata is right, or does not.
    pub(crate) fn restart(&mut self, takes_over: bool) {
        (self.watch, self.out, self.has_stopped) = (None, Output::default(), false);
        let mut config = EngineConfig {
            create: None,
            use_id: 2,
            ..config()
        };
        config.machine.takes_over = takes_over;
        self.engine = Engine::new(config, self.now, &mut self.out);
        self.work();
        self.pass(3000);
    }

    /// Sets a key; whoever watches is told.
    pub(crate) fn put(&mut self, key: &str, value: Bytes) {
        self.revision.0 += 1;
        let revision = self.revision;
        self.keys.insert(key.to_owned(), (value, revision));
        if let Some(token) = self.watch {
            let events = vec![WatchEvent::Put(self.pair(key))];
            let answer = MetadataAnswer::Watched { revision, events };
            self.handle(Event::Metadata { token, answer });
            self.work();
        }
    }

    /// Deletes a volume of one slice; whoever watches is told.
    pub(crate) fn delete(&mut self, volume: VolumeId) {
        let mut deleted = self
            .document::<DeletedRecord>(DELETED_KEY)
            .unwrap_or_default();
        deleted.insert(volume);
        self.revision.0 += 1;
        let revision = self.revision;
        self.keys
            .insert(DELETED_KEY.to_owned(), (deleted.encode(), revision));
        let slice = SliceId { volume, index: 0 };
        let gone = [VolumeRecord::key(volume), SliceRecord::key(slice)];
        let mut events = vec![WatchEvent::Put(self.pair(DELETED_KEY))];
        for key in gone {
            self.keys.remove(&key);
            let mod_revision = revision;
            events.push(WatchEvent::Delete { key, mod_revision });
        }
        let token = self.watch.expect("the metadata is watched");
        let answer = MetadataAnswer::Watched { revision, events };
        self.handle(Event::Metadata { token, answer });
        self.work();
    }

    /// A document, as it is there.
    pub(crate) fn document<R: Record>(&self, key: &str) -> Option<R> {
        let (value, _) = self.keys.get(key)?;
        Some(R::decode(value).expect("a record that can be read"))
    }

    /// What is wanted of a node.
    pub(crate) fn intend(&mut self, node: NodeId, standing: NodeStanding) {
        let intent = IntentRecord {
            schema: 1,
            node,
            standing,
            site: None,
        };
        self.put(&IntentRecord::key(node), intent.encode());
    }

    /// Watches end: what is set from now on is known when everything is read again.
    pub(crate) fn end_watch(&mut self) {
        let token = self.watch.take().expect("the metadata is watched");
        let answer = MetadataAnswer::WatchEnded(MetadataError::Unavailable);
        self.handle(Event::Metadata { token, answer });
        self.work();
    }

    /// The slice's record, as the metadata has it.
    pub(crate) fn record(&self) -> SliceRecord {
        let (value, _) = &self.keys[&SliceRecord::key(SLICE)];
        SliceRecord::decode(value).expect("a record that can be read")
    }

    /// The link to the peer comes up.
    pub(crate) fn connect(&mut self) {
        self.connect_as(4);
        self.pass(200);
    }

    /// It does, with a peer that speaks this version.
    pub(crate) fn connect_as(&mut self, version: u16) {
        let event = PeerEvent::Up {
            peer: PEER,
            link: LINK,
            store: store_of(PEER),
            incarnation: Incarnation(1),
            version,
        };
        self.peer = Some((self.now, Instant::ZERO));
        self.handle(Event::Peer(event));
        self.work();
        self.pass(100);
    }

    /// It goes down.
    pub(crate) fn disconnect(&mut self) {
        self.peer = None;
        let (peer, link) = (PEER, LINK);
        self.handle(Event::Peer(PeerEvent::Down { peer, link }));
        self.work();
    }

    /// The newest heartbeat that the peer has.
    pub(crate) fn heard(&self) -> Instant {
        self.peer.expect("the link is up").1
    }

    /// The peer has everything up to there on its disk.
    pub(crate) fn peer_has(&mut self, epoch: Epoch, through: Sequence) {
        let prepared = Prepared {
            slice: SLICE,
            epoch,
            through,
            stable: through,
        };
        self.receive(prepared.into());
    }

    /// The peer has room for what it was asked about.
    pub(crate) fn peer_has_room(&mut self, (epoch, number): (Epoch, u64)) {
        let reserved = Reserved {
            slice: SLICE,
            epoch,
            number,
            granted: true,
        };
        self.receive(reserved.into());
    }

    /// A second passes, in which the peer grants the lease of whatever epoch there is, and answers.
    pub(crate) fn lead(&mut self, answer: impl Fn(&mut Self)) {
        for _ in 0..10 {
            let epoch = self.record().epoch;
            self.grants = vec![Grant {
                slice: SLICE,
                epoch,
            }];
            self.pass(100);
            answer(self);
        }
    }

    /// The operator tells it to stop.
    pub(crate) fn stop(&mut self) {
        self.handle(Event::Stop);
    }

    /// The peer sends something.
    pub(crate) fn receive(&mut self, message: Message) {
        let event = PeerEvent::Received {
            peer: PEER,
            link: LINK,
            message,
        };
        self.handle(Event::Peer(event));
        self.work();
    }

    /// Something happens at the portal.
    pub(crate) fn at_portal(&mut self, event: PortalEvent) {
        self.handle(Event::Portal(event));
        self.work();
        // Until all that has come was looked at, and what else was due was done.
        while self
            .engine
            .next_timeout()
            .is_some_and(|due| due <= self.now)
        {
            self.now += Duration::from_micros(1);
            self.handle_timeout();
            self.work();
        }
    }

    /// Lets time pass. Nobody asks an engine that has stopped what is due.
    pub(crate) fn pass(&mut self, milliseconds: u64) {
        let end = self.now + Duration::from_millis(milliseconds);
        while !self.has_stopped {
            let beat = self.peer.map(|(due, _)| due);
            let timeout = self.engine.next_timeout();
            let due = beat.into_iter().chain(timeout).min();
            let Some(due) = due.filter(|due| *due <= end) else {
                break;
            };
            // What is overdue takes a moment, too.
            self.now = due.max(self.now + Duration::from_micros(1));
            if let Some((due, echo)) = self.peer.filter(|(due, _)| *due <= self.now) {
                self.peer = Some((due + HEARTBEAT, echo));
                let heartbeat = Heartbeat {
                    sent: self.now,
                    echo,
                    append_age_ms: 0,
                    claims: Vec::new(),
                    grants: self.grants.clone(),
                };
                self.receive(heartbeat.into());
            } else {
                self.handle_timeout();
                self.work();
            }
        }
        self.now = end;
    }

    /// Lets what was held be done, and holds nothing from now on.
    pub(crate) fn release(&mut self) {
        for request in self.held.take().into_iter().flatten() {
            self.perform(request);
        }
        self.work();
    }

    /// Lets what was held be done, and holds what is asked from now on.
    pub(crate) fn release_held(&mut self) {
        for request in self.held.replace(Vec::new()).into_iter().flatten() {
            self.perform(request);
        }
        self.work();
    }

    /// Lets the metadata fail to do what it was asked, and do all that it is asked from now on.
    pub(crate) fn refuse_metadata(&mut self) {
        for (token, _) in self.metadata.take().into_iter().flatten() {
            let answer = MetadataAnswer::Failed(MetadataError::Unavailable);
            self.handle(Event::Metadata { token, answer });
        }
        self.work();
    }

    /// Lets the metadata answer what it was asked, and all that it is asked from now on.
    pub(crate) fn release_metadata(&mut self) {
        for (token, request) in self.metadata.take().into_iter().flatten() {
            self.answer(token, request);
        }
        self.work();
    }

    fn handle(&mut self, event: Event) {
        let Self { engine, out, .. } = self;
        let (now, mut event) = (self.now, Some(event));
        (self.watch_over)(&mut || {
            let event = event.take().expect("what happens happens once");
            engine.handle(now, event, out);
        });
    }

    fn handle_timeout(&mut self) {
        let Self { engine, out, .. } = self;
        let now = self.now;
        (self.watch_over)(&mut || engine.handle_timeout(now, out));
    }

    /// Does what the engine wants done, until that is nothing.
    fn work(&mut self) {
        loop {
            let commands: Vec<Command> = self.out.drain().collect();
            if commands.is_empty() {
                self.engine.handle_flushed(self.now);
                return;
            }
            for command in commands {
                match command {
                    Command::Disk(request) => match &mut self.held {
                        Some(held)
                            if self.holds_writes || matches!(request.op, DiskOp::Read { .. }) =>
                        {
                            held.push(request);
                        }
                        _ => self.perform(request),
                    },
                    Command::Metadata { token, request } => match &mut self.metadata {
                        Some(held) => held.push((token, request)),
                        None => self.answer(token, request),
                    },
                    Command::Peer(PeerCommand::Send { message, .. }) => {
                        if let (Message::Heartbeat(beat), Some((_, echo))) =
                            (&message, &mut self.peer)
                        {
                            *echo = beat.sent;
                        }
                        self.sent.push(message);
                    }
                    Command::Peer(PeerCommand::Reset { .. }) => {
                        self.peer = None;
                        self.resets += 1;
                    }
                    Command::Portal(command) => self.portal.push(command),
                    Command::Stalled(stall) => self.stalls.push(stall),
                    Command::Stopped => self.has_stopped = true,
                    Command::OpenFailed(failure) => panic!("the store opens: {failure}"),
                    _ => {}
                }
            }
        }
    }

    fn perform(&mut self, request: DiskRequest) {
        let mut bytes = Bytes::new();
        match request.op {
            DiskOp::Read { offset, length } => {
                let range = offset as usize..offset as usize + length as usize;
                bytes = Bytes::copy_from_slice(&self.device[range]);
            }
            DiskOp::Write { offset, parts, .. } => {
                let mut at = offset as usize;
                for part in parts {
                    self.device[at..at + part.len()].copy_from_slice(&part);
                    at += part.len();
                }
            }
            DiskOp::Flush | DiskOp::Discard { .. } => {}
        }
        let completion = DiskCompletion {
            token: request.token,
            result: Ok(bytes),
        };
        self.handle(Event::Disk(completion));
    }

    fn answer(&mut self, token: MetadataToken, request: MetadataRequest) {
        match request {
            MetadataRequest::Transact(transaction) => {
                let outcome = self.transact(transaction);
                let revision = outcome.revision;
                let answer = MetadataAnswer::Transacted(outcome);
                self.handle(Event::Metadata { token, answer });
                let events = std::mem::take(&mut self.changes);
                if let Some(token) = self.watch.filter(|_| !events.is_empty()) {
                    let answer = MetadataAnswer::Watched { revision, events };
                    self.handle(Event::Metadata { token, answer });
                }
            }
            MetadataRequest::Watch { .. } => self.watch = Some(token),
            MetadataRequest::Unwatch => self.watch = self.watch.filter(|watch| *watch != token),
            request => panic!("an engine does not ask for {request:?}"),
        }
    }

    fn transact(&mut self, transaction: Transaction) -> TransactionOutcome {
        let succeeded = transaction.compare.iter().all(|compare| match compare {
            Compare::ModRevision { key, equals } => {
                self.keys.get(key).map_or(Revision(0), |(_, at)| *at) == *equals
            }
            Compare::Value { key, equals } => {
                self.keys.get(key).is_some_and(|(value, _)| value == equals)
            }
        });
        let operations = if succeeded {
            transaction.success
        } else {
            transaction.failure
        };
        let changes = |operation: &Operation| !matches!(operation, Operation::Range(_));
        self.revision.0 += u64::from(operations.iter().any(changes));
        let results = operations.into_iter().map(|operation| match operation {
            Operation::Range(selector) => {
                let is_in = |key: &&String| match &selector {
                    Selector::Key(wanted) => *key == wanted,
                    Selector::Prefix(prefix) => key.starts_with(prefix),
                };
                let keys = self.keys.keys().filter(is_in);
                OperationResult::Range(keys.map(|key| self.pair(key)).collect())
            }
            Operation::Put { key, value, .. } => {
                self.keys.insert(key.clone(), (value, self.revision));
                let pair = self.pair(&key);
                self.changes.push(WatchEvent::Put(pair));
                OperationResult::Put
            }
            // What it has denied itself, and said of its domain, is all that an engine takes back.
            Operation::Delete(Selector::Key(key))
                if key == DenialRecord::key(ME) || key == DomainRecord::key(ME) =>
            {
                let count = u64::from(self.keys.remove(&key).is_some());
                let mod_revision = self.revision;
                let deleted = WatchEvent::Delete { key, mod_revision };
                self.changes.extend((count > 0).then_some(deleted));
                OperationResult::Delete(count)
            }
            Operation::Delete(selector) => panic!("an engine does not delete {selector:?}"),
        });
        let results = results.collect();
        TransactionOutcome {
            succeeded,
            revision: self.revision,
            results,
        }
    }

    fn pair(&self, key: &str) -> KeyValue {
        let (value, revision) = self.keys[key].clone();
        KeyValue {
            key: key.into(),
            value,
            create_revision: revision,
            mod_revision: revision,
            version: 1,
            lease: LeaseId(0),
        }
    }
}

fn config() -> EngineConfig {
    EngineConfig {
        cluster: CLUSTER,
        node: ME,
        name: "one".into(),
        failure_domain: None,
        portal: "127.0.0.1:1".into(),
        peer: "127.0.0.1:2".into(),
        api: "http://127.0.0.1:3".into(),
        devices: vec![DeviceGeometry {
            disk: DiskId(0),
            bytes: DEVICE_BYTES as u64,
            sector: 512,
            tier: Tier::Flash,
        }],
        create: Some(StoreIdentity {
            cluster: CLUSTER,
            store: store_of(ME),
            node: ME,
            nonce: 5,
        }),
        machine: Machine {
            id: MachineId(1),
            has_address: true,
            takes_over: false,
        },
        use_id: 1,
        store: StoreConfig {
            format: FormatConfig {
                partitions: 1,
                segment_bytes: 2 << 20,
                journal_bytes: Some(24 << 20),
            },
            ..StoreConfig::default()
        },
        portal_limits: holdfast_iscsi::target::Limits::default(),
        portal_seed: holdfast_iscsi::chap::ChapSeed([3; 32]),
        hold: HOLD,
        takeovers_max: TAKEOVERS_MAX,
    }
}
