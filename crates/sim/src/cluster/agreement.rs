//! The metadata: the machine with etcd's semantics, behind a network that delays requests, loses
//! answers, and now and then lets a request that was given up arrive after all.
//!
//! Invariants:
//! - a request is answered once, as far as its process can tell: `Unavailable` says nothing of what
//!   became of it;
//! - a watch tells of revisions in order until it ends, and it ends with its session.

mod other_stores;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_control::Inventory;
use holdfast_engine::Event;
use holdfast_metadata::machine::Output;
use holdfast_metadata::{ClientId, HistoryLimits, Machine};
use holdfast_model::metadata::{
    MetadataAnswer, MetadataError, MetadataRequest, MetadataToken, Revision, Selector,
};
use holdfast_model::record::{Record, SliceRecord};
use holdfast_model::{NodeId, SliceId};
use holdfast_stdx::{Bytes, Duration, Instant, Prng};

use super::node::ProcessId;
use super::{Cluster, Happening};
use crate::boot;
use crate::catalog::Catalog;
use crate::failure::Failure;
use crate::network::Place;
use crate::pipe::Pipe;

/// How long a store's answer takes, beyond the network: what is agreed on is flushed on several
/// machines first.
const WORK_MIN_NANOS: u64 = 300_000;
const WORK_MAX_NANOS: u64 = 8_000_000;
/// How long a process waits for an answer.
const PATIENCE_MIN_NANOS: u64 = 100_000_000;
const PATIENCE_MAX_NANOS: u64 = 900_000_000;
/// How long it takes at most until a session notices that nothing comes any more.
const SILENCE_MAX_MILLIS: u64 = 1500;
/// One in so many reads that have not arrived when their connection breaks is sent over the next one instead.
const WAITS_ONE_IN: u64 = 2;
/// One session in so many that goes on over another connection breaks again, within so long.
const FLAPS_ONE_IN: u64 = 4;
const FLAP_MAX_NANOS: u64 = 20_000_000;
/// A request that is given up arrives later than this, if it does.
const GHOST_NANOS: u64 = 3_000_000_000;

/// The store, and who waits for it.
#[derive(Debug)]
pub(super) struct Agreement {
    machine: Machine,
    catalog: Catalog,
    prng: Prng,
    sessions: BTreeMap<ProcessId, Session>,
    clients: u64,
    /// Requests that nobody waits for any more, still on their way.
    ghosts: BTreeMap<(ProcessId, MetadataToken), MetadataRequest>,
    /// One answer in so many is lost; zero for none.
    pub(super) lost_one_in: u64,
    /// A backup.
    saved: Option<Machine>,
    /// When something first changed after that was made.
    outdated_since: Option<Instant>,
    /// The right one, while another is in its place.
    right: Option<Machine>,
    /// A copy of the store that some nodes take for it. What happens there is nobody's business.
    fork: Option<Fork>,
    /// How often another one was put in its place.
    replaced: u64,
    /// What it held when that was last asked for, of which store and as of which revision.
    inventory: Option<((u64, Revision), Arc<Inventory>)>,
}

/// A copy of the store that goes on by itself, with these nodes.
#[derive(Debug)]
struct Fork {
    nodes: BTreeSet<NodeId>,
    machine: Machine,
}

/// A watch of a process.
#[derive(Debug)]
struct Watched {
    selector: Selector,
    /// Up to which revision it has told.
    told: Revision,
    /// Something that it told was lost on the way: nothing comes after it, and it ends with its session.
    has_gap: bool,
}

/// The watches of a process whose session is broken.
type Broken = (ProcessId, BTreeMap<MetadataToken, Watched>);

/// A process's session.
#[derive(Debug)]
struct Session {
    client: ClientId,
    /// Asked and not answered yet.
    pending: BTreeMap<MetadataToken, Pending>,
    watches: BTreeMap<MetadataToken, Watched>,
    answers: Pipe<(MetadataToken, MetadataAnswer)>,
}

#[derive(Debug)]
struct Pending {
    /// On its way; `None` once it has arrived.
    request: Option<MetadataRequest>,
}

impl Pending {
    /// Whether it is on its way, and changes nothing.
    fn is_read(&self) -> bool {
        matches!(&self.request, Some(MetadataRequest::Transact(transaction)) if transaction.is_read())
    }
}

impl Agreement {
    pub(super) fn new(prng: Prng) -> Self {
        Self {
            machine: Machine::new(HistoryLimits::default()),
            catalog: Catalog::default(),
            prng,
            sessions: BTreeMap::new(),
            clients: 0,
            ghosts: BTreeMap::new(),
            lost_one_in: 0,
            saved: None,
            outdated_since: None,
            right: None,
            fork: None,
            replaced: 0,
            inventory: None,
        }
    }

    pub(super) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What a controller reads of it; none where there is no cluster.
    pub(super) fn inventory(&mut self) -> Option<Arc<Inventory>> {
        let now = (self.replaced, self.machine.revision());
        if self.inventory.as_ref().is_none_or(|(then, _)| *then != now) {
            let inventory = boot::inventory(&mut self.machine)?;
            self.inventory = Some((now, Arc::new(inventory)));
        }
        self.inventory.as_ref().map(|(_, held)| Arc::clone(held))
    }

    /// What a key holds.
    pub(super) fn get(&mut self, key: &str) -> Option<Bytes> {
        boot::get(&mut self.machine, key)
    }

    /// Which store it is, in the order in which they were put in place.
    pub(super) fn store(&self) -> u64 {
        self.replaced
    }

    /// Whether something that a dead process has asked may arrive still.
    pub(super) fn is_haunted(&self) -> bool {
        !self.ghosts.is_empty()
    }

    /// Whether anybody has asked for a change that has not arrived yet.
    pub(super) fn is_being_changed(&self) -> bool {
        let pending = self.sessions.values().flat_map(|it| it.pending.values());
        let mut asked = pending.filter_map(|pending| pending.request.as_ref());
        let changes = asked.any(|request| matches!(request, MetadataRequest::Transact(_)));
        changes || self.is_haunted()
    }

    /// A slice's record.
    pub(super) fn slice(&self, slice: SliceId) -> Option<&SliceRecord> {
        self.catalog.slice(slice)
    }

    /// The slices' records.
    pub(super) fn slices(&self) -> impl Iterator<Item = &SliceRecord> {
        self.catalog.slices()
    }

    /// The slices' records in the copy, if there is one.
    pub(super) fn copied_slices(&mut self) -> Vec<SliceRecord> {
        let keys = self.catalog.slices().map(|it| SliceRecord::key(it.slice));
        let keys: Vec<String> = keys.collect();
        let Some(fork) = &mut self.fork else {
            return Vec::new();
        };
        let found = keys
            .iter()
            .filter_map(|key| boot::get(&mut fork.machine, key));
        found
            .filter_map(|it| SliceRecord::decode(&it).ok())
            .collect()
    }

    /// Sets a key before anybody looks.
    pub(super) fn put(&mut self, key: String, value: Bytes) {
        boot::put(&mut self.machine, key, value, &mut Output::default());
    }

    /// The store that a process reaches, and whether it is the right one.
    fn machine_of(&mut self, process: ProcessId) -> (&mut Machine, bool) {
        match &mut self.fork {
            Some(fork) if fork.nodes.contains(&process.node) => (&mut fork.machine, false),
            _ => (&mut self.machine, true),
        }
    }

    fn session(&mut self, process: ProcessId) -> &mut Session {
        let clients = &mut self.clients;
        self.sessions.entry(process).or_insert_with(|| {
            *clients += 1;
            Session {
                client: ClientId(*clients),
                pending: BTreeMap::new(),
                watches: BTreeMap::new(),
                answers: Pipe::default(),
            }
        })
    }

    fn process_of(&self, client: ClientId) -> Option<ProcessId> {
        let found = self
            .sessions
            .iter()
            .find(|(_, session)| session.client == client);
        found.map(|(process, _)| *process)
    }
}

impl Cluster {
    /// A process asks.
    pub(super) fn ask_metadata(
        &mut self,
        process: ProcessId,
        token: MetadataToken,
        request: MetadataRequest,
    ) {
        let patience = self
            .agreement
            .prng
            .between(PATIENCE_MIN_NANOS, PATIENCE_MAX_NANOS);
        let work = self.agreement.prng.between(WORK_MIN_NANOS, WORK_MAX_NANOS);
        let delay = self.network.delay() + Duration::from_nanos(work);
        let session = self.agreement.session(process);
        if !matches!(request, MetadataRequest::Unwatch) {
            let pending = Pending {
                request: Some(request),
            };
            session.pending.insert(token, pending);
        }
        self.schedule(delay, Happening::Asked(process, token));
        self.schedule(
            Duration::from_nanos(patience),
            Happening::AnswerMissed(process, token),
        );
    }

    /// A request arrives.
    pub(super) fn metadata_asked(
        &mut self,
        process: ProcessId,
        token: MetadataToken,
    ) -> Result<(), Failure> {
        let ghost = self.agreement.ghosts.remove(&(process, token));
        if !self
            .network
            .passes(Place::Node(process.node), Place::Metadata)
        {
            return Ok(());
        }
        if let Some(request) = ghost {
            // Nobody hears the answer.
            return self.metadata_applies(ClientId(0), process, token, request);
        }
        let Some(session) = self.agreement.sessions.get_mut(&process) else {
            return Ok(());
        };
        let client = session.client;
        let pending = session.pending.get_mut(&token);
        let Some(request) = pending.and_then(|pending| pending.request.take()) else {
            return Ok(());
        };
        if let MetadataRequest::Watch { selector, from } = &request {
            let watch = Watched {
                selector: selector.clone(),
                told: Revision(from.0.saturating_sub(1)),
                has_gap: false,
            };
            session.watches.insert(token, watch);
        }
        self.metadata_applies(client, process, token, request)
    }

    fn metadata_applies(
        &mut self,
        client: ClientId,
        process: ProcessId,
        token: MetadataToken,
        request: MetadataRequest,
    ) -> Result<(), Failure> {
        let now = self.now;
        let (machine, is_right) = self.agreement.machine_of(process);
        let before = machine.revision();
        let mut out = Output::default();
        machine.apply(now, client, token, request, &mut out);
        let revision = machine.revision();
        self.line(
            Place::Metadata,
            format_args!("{} t{} at r{}", process.node, token.0, revision.0),
        );
        if is_right && revision != before {
            self.agreed(&out)?;
        }
        self.send_answers(out);
        Ok(())
    }

    /// Somebody else, who has no session, changes something.
    pub(crate) fn change_metadata(
        &mut self,
        change: impl FnOnce(&mut Machine, &mut Output),
    ) -> Result<(), Failure> {
        let mut out = Output::default();
        change(&mut self.agreement.machine, &mut out);
        self.agreed(&out)?;
        self.send_answers(out);
        Ok(())
    }

    /// Something has changed.
    fn agreed(&mut self, out: &Output) -> Result<(), Failure> {
        let changed = self.agreement.catalog.follow(&out.changes);
        if !out.changes.is_empty() {
            self.agreement.outdated_since.get_or_insert(self.now);
        }
        let catalog = &self.agreement.catalog;
        self.watch
            .metadata(&out.changes, |slice| catalog.slice(slice));
        for record in &changed {
            self.watch.record(record);
        }
        self.invariants
            .agreed(&self.agreement.machine, &out.changes, &changed)
    }

    /// Sends answers to whom they are for, as far as the network lets them.
    fn send_answers(&mut self, out: Output) {
        for addressed in out.answers {
            let Some(process) = self.agreement.process_of(addressed.client) else {
                continue;
            };
            let is_watch = matches!(
                addressed.answer,
                MetadataAnswer::Watched { .. } | MetadataAnswer::WatchEnded(_)
            );
            let lost = self.agreement.lost_one_in;
            if !is_watch && lost > 0 && self.agreement.prng.chance(1, lost) {
                // It was done, but whoever asked will not know.
                continue;
            }
            let (from, to) = (Place::Metadata, Place::Node(process.node));
            let passes = self.network.passes(from, to);
            let session = self.agreement.session(process);
            let mut watch = session.watches.get_mut(&addressed.token);
            let had_gap = watch.as_ref().is_some_and(|watch| watch.has_gap);
            if !passes
                && !had_gap
                && let Some(watch) = &mut watch
            {
                watch.has_gap = true;
                self.soon_lost(process);
            }
            if !passes || had_gap {
                continue;
            }
            let arrival = self.now + self.network.delay();
            let session = self.agreement.session(process);
            let arrival = session
                .answers
                .push(arrival, (addressed.token, addressed.answer));
            self.schedule.at(arrival, Happening::Answered(process));
        }
    }

    /// Answers arrive at a process.
    pub(super) fn metadata_answered(&mut self, process: ProcessId) -> Result<(), Failure> {
        loop {
            let now = self.now;
            let Some(session) = self.agreement.sessions.get_mut(&process) else {
                return Ok(());
            };
            let Some((token, answer)) = session.answers.take(now) else {
                return Ok(());
            };
            let pending = session.pending.remove(&token).is_some();
            let watch = session.watches.get_mut(&token);
            if !pending && watch.is_none() {
                continue;
            }
            if let (Some(watch), MetadataAnswer::Watched { revision, .. }) = (watch, &answer) {
                watch.told = watch.told.max(*revision);
            }
            self.tell(process, Event::Metadata { token, answer })?;
        }
    }

    /// A process has waited for long enough.
    pub(super) fn metadata_missed(
        &mut self,
        process: ProcessId,
        token: MetadataToken,
    ) -> Result<(), Failure> {
        let Some(session) = self.agreement.sessions.get_mut(&process) else {
            return Ok(());
        };
        if session.watches.contains_key(&token) {
            return Ok(());
        }
        let Some(pending) = session.pending.remove(&token) else {
            return Ok(());
        };
        self.may_haunt(process, token, pending);
        let answer = MetadataAnswer::Failed(MetadataError::Unavailable);
        self.tell(process, Event::Metadata { token, answer })
    }

    /// A request that nobody waits for any more may arrive all the same.
    fn may_haunt(&mut self, process: ProcessId, token: MetadataToken, pending: Pending) {
        if let Some(request) = pending.request
            && matches!(request, MetadataRequest::Transact(_))
            && self.agreement.prng.chance(1, 2)
        {
            let after = Duration::from_nanos(self.agreement.prng.below(GHOST_NANOS));
            self.agreement.ghosts.insert((process, token), request);
            self.schedule(after, Happening::Asked(process, token));
        }
    }

    /// The network does not bring everything to a process or from it: its session is going to break.
    pub(super) fn soon_lost(&mut self, process: ProcessId) {
        let after = Duration::from_millis(self.prng.between(1, SILENCE_MAX_MILLIS));
        self.schedule(after, Happening::MetadataLost(process));
    }

    /// The session of a process breaks.
    pub(super) fn metadata_lost(&mut self, process: ProcessId) -> Result<(), Failure> {
        let broken = self.break_sessions(vec![process])?;
        self.resume_or_end(broken)
    }

    /// A node whose watch has missed something, and has not ended yet.
    pub(crate) fn with_gap(&self) -> Option<NodeId> {
        let mut sessions = self.agreement.sessions.iter();
        let has_gap = |session: &Session| session.watches.values().any(|watch| watch.has_gap);
        let found = sessions.find(|(_, session)| has_gap(session));
        found.map(|(process, _)| process.node)
    }

    /// The sessions of these processes break: their requests are in doubt.
    fn break_sessions(&mut self, processes: Vec<ProcessId>) -> Result<Vec<Broken>, Failure> {
        let mut broken = Vec::new();
        for process in processes {
            let Some(session) = self.agreement.sessions.remove(&process) else {
                continue;
            };
            let (machine, _) = self.agreement.machine_of(process);
            machine.disconnect(session.client);
            self.line(
                Place::Metadata,
                format_args!("{} is disconnected", process.node),
            );
            for (token, pending) in session.pending {
                let agreement = &mut self.agreement;
                if pending.is_read() && agreement.prng.chance(1, WAITS_ONE_IN) {
                    agreement.session(process).pending.insert(token, pending);
                    continue;
                }
                self.may_haunt(process, token, pending);
                let answer = MetadataAnswer::Failed(MetadataError::Unavailable);
                self.tell(process, Event::Metadata { token, answer })?;
            }
            broken.push((process, session.watches));
        }
        Ok(broken)
    }

    /// Watches go on over another connection, if the store looks like the one before; or they end.
    fn resume_or_end(&mut self, broken: Vec<Broken>) -> Result<(), Failure> {
        for (process, watches) in broken {
            let (node, metadata) = (Place::Node(process.node), Place::Metadata);
            let passes = self.network.passes(node, metadata) && self.network.passes(metadata, node);
            for (token, watch) in watches {
                let (machine, _) = self.agreement.machine_of(process);
                let looks_alike = machine.revision() >= watch.told;
                let goes_on = passes && looks_alike && !watch.has_gap;
                if !(goes_on && self.agreement.prng.chance(1, 2)) {
                    let answer = MetadataAnswer::WatchEnded(MetadataError::Unavailable);
                    self.tell(process, Event::Metadata { token, answer })?;
                    continue;
                }
                let answer = MetadataAnswer::WatchResumed;
                self.tell(process, Event::Metadata { token, answer })?;
                let request = MetadataRequest::Watch {
                    selector: watch.selector.clone(),
                    from: Revision(watch.told.0 + 1),
                };
                let session = self.agreement.session(process);
                let client = session.client;
                session.watches.insert(token, watch);
                self.metadata_applies(client, process, token, request)?;
                self.may_flap(process);
            }
        }
        Ok(())
    }

    /// The connection over which a session goes on may break before what is asked over it is answered.
    fn may_flap(&mut self, process: ProcessId) {
        let prng = &mut self.agreement.prng;
        if prng.chance(1, FLAPS_ONE_IN) {
            let after = Duration::from_nanos(prng.below(FLAP_MAX_NANOS));
            self.schedule(after, Happening::MetadataLost(process));
        }
    }

    /// A process is gone, and its session with it.
    pub(super) fn metadata_of_dead(&mut self, process: ProcessId) {
        if let Some(session) = self.agreement.sessions.remove(&process) {
            self.agreement
                .machine_of(process)
                .0
                .disconnect(session.client);
            for (token, pending) in session.pending {
                self.may_haunt(process, token, pending);
            }
        }
    }
}
