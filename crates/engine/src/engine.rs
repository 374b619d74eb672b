//! The engine itself: it hands every event to whom it concerns, and sees to it that what follows
//! from it is done before the next.
//!
//! Invariants:
//! - after every event nothing is left that could be done now, but for what has come of initiators: some of that is looked at
//!   whenever the time is told;
//! - an engine that stood still for longer than a lease drops every session and every link before
//!   it looks at what came meanwhile.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use holdfast_model::record::SettingsRecord;
use holdfast_model::{SliceId, VolumeId};
use holdfast_replica::timing::{HEARTBEAT, LEASE};
use holdfast_replica::{Me, Replica};
use holdfast_stdx::{Duration, Instant};
use holdfast_store::{Recovered, StoreEvent};
use holdfast_wire::Contents;

use crate::Notice;
use crate::access::Access;
use crate::clearing::Clearings;
use crate::cluster::{Change, Cluster};
use crate::config::EngineConfig;
use crate::context::{SliceContext, World};
use crate::copies::Heard;
use crate::event::{Command, Event, PortalCommand, PortalEvent};
use crate::lifecycle::{Life, open_store};
use crate::mend::Mending;
use crate::notes::bookmark_place;
use crate::pace::{Bounds, Class, Pace};
use crate::parts::Parts;
use crate::peers::Peers;
use crate::port_groups::PortGroups;
use crate::portal::Portal;
use crate::repair::Repairs;
use crate::scrub::Scrubs;
use crate::space::Spaces;
use crate::status::MendedBlocks;
use crate::storage::Use;
use crate::takeovers::Takeovers;
use crate::volume::Volumes;
use crate::vouching::Vouching;

/// What an engine wants done, in order.
#[derive(Debug, Default)]
pub struct Output {
    commands: Vec<Command>,
}

impl Output {
    /// Takes everything.
    pub fn drain(&mut self) -> impl Iterator<Item = Command> {
        self.commands.drain(..)
    }

    pub(crate) fn push(&mut self, command: Command) {
        self.commands.push(command);
    }
}

/// One node's core.
#[derive(Debug)]
pub struct Engine {
    pub(crate) config: EngineConfig,
    pub(crate) world: World,
    pub(crate) replicas: BTreeMap<SliceId, Replica>,
    pub(crate) portal: Portal,
    pub(crate) volumes: Volumes,
    pub(crate) parts: Parts,
    pub(crate) heard: Heard,
    pub(crate) vouching: Vouching,
    pub(crate) clearings: Clearings,
    pub(crate) access: Access,
    pub(crate) port_groups: PortGroups,
    pub(crate) spaces: Spaces,
    pub(crate) repairs: Repairs,
    pub(crate) mending: Mending,
    pub(crate) scrubs: Scrubs,
    pub(crate) me: Option<Me>,
    pub(crate) recovered: Option<Recovered>,
    /// Slices whose state is being written, because the store was brought back from the past.
    pub(crate) doubts: usize,
    pub(crate) timers: BTreeSet<(Instant, SliceId)>,
    pub(crate) timer_of: BTreeMap<SliceId, Instant>,
    pub(crate) started: Instant,
    last_handled: Instant,
    pub(crate) life: Life,
    /// The driver has been told that peers and initiators may be let in.
    pub(crate) announced: bool,
    /// A device failed: what is here takes part in nothing any more.
    pub(crate) failed: bool,
}

impl Engine {
    /// An engine that begins to open its store. Says [`Command::Opened`] when it has, or
    /// [`Command::OpenFailed`].
    pub fn new(mut config: EngineConfig, now: Instant, out: &mut Output) -> Self {
        // The pace says when.
        config.store.destage_waits = true;
        let world = World {
            now,
            storage: open_store(&config, now),
            peers: Peers::default(),
            cluster: Cluster::default(),
            finished: VecDeque::new(),
            notices: Vec::new(),
            mended: MendedBlocks::default(),
            bytes_moved: 0,
            brought: BTreeMap::new(),
            append_age: Duration::ZERO,
            syncing: BTreeSet::new(),
            takeovers: Takeovers::new(config.takeovers_max),
            pace: Pace::new(now, Bounds::of(&SettingsRecord::default())),
            held: BTreeSet::new(),
            held_last: None,
        };
        let portal = Portal::new(config.node, config.portal_limits, config.portal_seed);
        let parts = Parts::default();
        let mut engine = Self {
            config,
            world,
            replicas: BTreeMap::new(),
            portal,
            volumes: Volumes::default(),
            parts,
            heard: Heard::default(),
            vouching: Vouching::default(),
            clearings: Clearings::default(),
            access: Access::default(),
            port_groups: PortGroups::default(),
            spaces: Spaces::default(),
            repairs: Repairs::default(),
            mending: Mending::default(),
            scrubs: Scrubs::default(),
            me: None,
            recovered: None,
            doubts: 0,
            timers: BTreeSet::new(),
            timer_of: BTreeMap::new(),
            started: now,
            last_handled: now,
            life: Life::Opening,
            announced: false,
            failed: false,
        };
        engine.settle(out);
        engine
    }

    /// Something happened. `now` was read after it did.
    pub fn handle(&mut self, now: Instant, event: Event, out: &mut Output) {
        if !self.wake(now) {
            return;
        }
        match event {
            Event::Disk(completion) => self.world.storage.handle_disk(now, completion),
            Event::Metadata { token, answer } => {
                self.world.cluster.handle_answer(now, token, answer);
            }
            Event::Peer(event) => self.handle_peer(event),
            Event::Portal(event) => self.handle_portal(now, event),
            Event::Order { number, order } => self.order_device(now, number, order, out),
            Event::Stop => self.stop(now),
        }
        self.mend();
        self.scrub();
        self.settle(out);
    }

    /// Time has passed. Of what has come of initiators this looks at a part, a *turn*, so that the driver may carry out what follows
    /// from it, and may see what has come of others, before the next.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut Output) {
        if !self.wake(now) {
            return;
        }
        if self.portal.has_turn() {
            self.portal.handle_turn(now, &self.volumes);
            // There may be a turn each fifth of a millisecond, and a look around costs as much as a few commands.
            if self.next_due().is_none_or(|due| due > now) {
                self.settle(out);
                return;
            }
        }
        self.consider_leaving();
        self.world.storage.handle_timeout(now);
        self.world.cluster.handle_timeout(now);
        self.portal.handle_timeout(now, &self.volumes);
        while let Some((due, slice)) = self.timers.first().copied()
            && due <= now
        {
            self.timers.pop_first();
            self.timer_of.remove(&slice);
            self.with_replica(slice, |replica, context| replica.handle_timeout(context));
        }
        self.work_on();
        self.vouch_on();
        self.look_at_parts();
        self.look_at_port_groups();
        self.look_at_space();
        self.read_again();
        self.mend();
        self.scrub();
        self.settle(out);
    }

    /// Whether commands were answered since [`handle_flushed`](Self::handle_flushed) was last called: if not, the time need not be read
    /// for it.
    #[must_use]
    pub fn has_answered(&self) -> bool {
        self.portal.usage.has_answered()
    }

    /// What was to be sent has been handed to the sockets, as far as they took it: the commands that it answers took until now. To be
    /// called when what the engine wanted was done, or they end when it is next called. It wants nothing done.
    pub fn handle_flushed(&mut self, now: Instant) {
        self.portal.handle_flushed(now);
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next needed: a time that has passed, as long as something has come of
    /// initiators that was not looked at. A driver that sees to its sockets in between, and only once, serves all of them best.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        if self.life != Life::Stopped && self.portal.has_turn() {
            return Some(self.last_handled);
        }
        self.next_due()
    }

    /// When something is due, turns of initiators aside.
    fn next_due(&self) -> Option<Instant> {
        let stop = match self.life {
            Life::Leaving { until } | Life::Stopping { until, .. } => Some(until),
            Life::Opening | Life::Open | Life::Stopped => None,
        };
        // A heartbeat's time even without links: else a freeze would go unnoticed.
        let pulse = (self.life != Life::Stopped).then(|| self.last_handled + HEARTBEAT);
        [
            self.world.storage.store().next_timeout(),
            self.world.cluster.next_timeout(),
            self.world.peers.next_heartbeat(),
            self.portal.next_timeout(),
            self.parts.next_timeout(),
            self.vouching.next_timeout(),
            self.world.peers.next_overdue(),
            self.clearings.next_timeout(),
            self.access.next_timeout(),
            self.port_groups.next_timeout(),
            self.spaces.next_timeout(),
            self.repairs.next_timeout(),
            self.timers.first().map(|(due, _)| *due),
            self.world.takeovers.next_timeout(),
            self.world.pace.next_timeout(),
            self.next_scrub(),
            stop,
            pulse,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Takes note of the time; false if the engine has stopped.
    fn wake(&mut self, now: Instant) -> bool {
        let gap = now.since(self.last_handled);
        self.last_handled = now;
        self.world.wake(now);
        self.look_at_stalls(gap);
        if self.life == Life::Stopped {
            return false;
        }
        if self.life != Life::Opening && gap > LEASE {
            self.stood_still(gap.as_millis() as u64);
        }
        true
    }

    fn stood_still(&mut self, milliseconds: u64) {
        self.world.notices.push(Notice::StoodStill { milliseconds });
        self.portal.drop_all(self.world.now, &self.volumes);
        for peer in self.world.peers.everybody() {
            self.world.peers.reset(peer);
            self.peer_down(peer);
        }
        self.parts.stood_still();
        for slice in self.slices() {
            self.with_replica(slice, |replica, context| {
                replica.handle_stood_still(context);
            });
        }
    }

    pub(crate) fn slices(&self) -> Vec<SliceId> {
        self.replicas.keys().copied().collect()
    }

    /// The slices of a volume of which there is a replica here, in their order.
    pub(crate) fn slices_of(&self, volume: VolumeId) -> Vec<SliceId> {
        let replicas = self.replicas.range(SliceId::all_of(volume));
        replicas.map(|(slice, _)| *slice).collect()
    }

    /// Lets a slice's replica act, and takes note of when it next must.
    pub(crate) fn with_replica<R>(
        &mut self,
        slice: SliceId,
        act: impl FnOnce(&mut Replica, &mut SliceContext<'_>) -> R,
    ) -> Option<R> {
        if self.failed {
            return None;
        }
        let replica = self.replicas.get_mut(&slice)?;
        let mut context = SliceContext {
            slice,
            world: &mut self.world,
        };
        let stopping = matches!(self.life, Life::Stopping { .. });
        let kept = stopping && !replica.is_stopped();
        let result = act(replica, &mut context);
        let has_stopped = kept && replica.is_stopped();
        if replica.is_syncing() {
            self.world.syncing.insert(slice);
        } else {
            self.world.syncing.remove(&slice);
        }
        let now = self.world.now;
        let (stands, may_wait) = (replica.is_taking_over(), replica.may_have_to_stand());
        self.world.takeovers.note(now, slice, stands, may_wait);
        let due = replica
            .next_timeout()
            .filter(|due| *due > now || !self.world.takeovers.waits(slice))
            .map(|due| if due <= now { now + TICK } else { due });
        let before = self.timer_of.get(&slice).copied();
        // One that comes too early costs less than one that is moved by every heartbeat.
        if due.is_none() || before.is_none_or(|before| due.is_some_and(|due| due < before)) {
            if let Some(before) = before {
                self.timer_of.remove(&slice);
                self.timers.remove(&(before, slice));
            }
            if let Some(due) = due {
                self.timers.insert((due, slice));
                self.timer_of.insert(slice, due);
            }
        }
        if has_stopped {
            self.replica_stopped();
        }
        Some(result)
    }

    fn handle_portal(&mut self, now: Instant, event: PortalEvent) {
        if let PortalEvent::Connected { connection, .. } = event
            && (self.life != Life::Open || self.refuses_hosts())
        {
            self.portal.refuse(PortalCommand::Abort { connection });
            return;
        }
        self.portal.handle_event(now, &self.volumes, event);
    }

    /// Does what has become possible until nothing is left, then hands over what is to be done.
    fn settle(&mut self, out: &mut Output) {
        self.destage();
        loop {
            let mut busy = false;
            // Of these three what is there now, and not what follows from it: each kind has its turn.
            for _ in 0..self.world.storage.event_count() {
                let Some(event) = self.world.storage.take_event() else {
                    break;
                };
                busy = true;
                self.handle_store(event, out);
            }
            for change in self.world.cluster.take_changes() {
                busy = true;
                self.handle_change(&change, out);
            }
            for task in self.portal.take_dropped() {
                busy = true;
                self.drop_task(task);
            }
            for _ in 0..self.portal.new_part_count() {
                let Some(part) = self.portal.take_new_part() else {
                    break;
                };
                busy = true;
                self.begin_part(part);
            }
            for (volume, cause) in self.portal.take_orders() {
                busy = true;
                self.begin_order(volume, cause);
            }
            for wide in self.portal.take_wide() {
                busy = true;
                self.begin_clearing(&wide);
            }
            for (wanted_by, settled) in self.portal.take_over_for_peers() {
                busy = true;
                self.tasks_ended(wanted_by, settled);
            }
            busy |= self.consider_clearings();
            busy |= self.consider_orders();
            for _ in 0..self.world.finished.len() {
                let Some((slice, command, outcome)) = self.world.finished.pop_front() else {
                    break;
                };
                busy = true;
                self.command_finished(slice, command, outcome, Contents::new());
            }
            while let Some(slice) = self.world.takeovers.next(self.world.now) {
                busy = true;
                self.with_replica(slice, |replica, context| replica.handle_timeout(context));
            }
            let to_reset = core::mem::take(&mut self.world.peers.to_reset);
            for peer in to_reset {
                busy = true;
                self.world.peers.reset(peer);
                self.peer_down(peer);
            }
            if !busy {
                break;
            }
        }
        self.look_after_copies();
        self.keep_notes();
        self.beat();
        self.consider_announcing(out);
        self.consider_stopped(out);
        self.hand_over(out);
    }

    pub(crate) fn hand_over(&mut self, out: &mut Output) {
        for notice in self.world.notices.drain(..) {
            out.push(Command::Notice(notice));
        }
        for request in self.world.storage.take_requests() {
            out.push(Command::Disk(request));
        }
        for (token, request) in self.world.cluster.take_requests() {
            out.push(Command::Metadata { token, request });
        }
        for mut command in self.world.peers.take_commands() {
            self.parts.leave_out_held(&mut command);
            out.push(Command::Peer(command));
        }
        for command in self.portal.take_commands() {
            out.push(Command::Portal(command));
        }
        for stall in self.portal.stalls.take_over() {
            out.push(Command::Stalled(stall));
        }
    }

    fn handle_change(&mut self, change: &Change, out: &mut Output) {
        match change {
            Change::Free => self.create_store(),
            Change::Registered(incarnation) => self.registered(*incarnation, out),
            Change::Doubtful => self.doubt(),
            Change::Followed => self.follows_anew(),
            Change::Looked(asked, vouch, is_there) => {
                self.looked_for_bookmark(*asked, *vouch, *is_there);
            }
            Change::Bookmark(node) => self.look_at_stranger(*node),
            Change::Denials => self.decide(),
            Change::Node(node) => self.node_changed(*node),
            Change::Volume => self.volumes_changed(),
            Change::Slice { slice, fresh } => self.slice_changed(*slice, *fresh),
            Change::Wish(slice) => self.hand_wish(*slice),
            Change::Intent => self.intents_changed(),
            Change::Settings => self.settings_changed(),
            Change::Scrub => self.scrubs.look_soon(),
            Change::Exports => self.directory_changed(),
            Change::SaidScrubbed(slice) => self.said_done(*slice),
            Change::Access(volume) => self.access_changed(*volume),
            Change::AccessRead(number, is_read) => self.access_read(*number, *is_read),
            Change::AccessSwapped(number, swapped) => self.access_swapped(*number, *swapped),
            Change::Tell(notice) => self.world.notices.push(notice.clone()),
            Change::Proposed(slice, proposed) => {
                self.with_replica(*slice, |replica, context| {
                    replica.handle_proposed(context, *proposed);
                });
            }
        }
    }

    fn slice_changed(&mut self, slice: SliceId, fresh: bool) {
        let Some(me) = self.me else { return };
        let cluster = &self.world.cluster;
        if !cluster.slices.contains_key(&slice) && !cluster.is_deleted(slice.volume) {
            return;
        }
        let is_new = !self.replicas.contains_key(&slice);
        if is_new && (self.world.cluster.names(slice, me.node) || self.is_left_over(slice)) {
            self.make_replica(slice, me);
        }
        let record = self.world.cluster.tell(slice);
        self.with_replica(slice, |replica, context| {
            replica.handle_record(context, record, fresh);
        });
        if is_new {
            self.hand_wish(slice);
        }
        self.forget_replica(slice);
        self.retry_parts_of(slice);
        self.look_at_enforcing(slice.volume);
        self.note_port_groups(slice.volume);
    }

    /// Tells a replica what is wished of its slice.
    fn hand_wish(&mut self, slice: SliceId) {
        let wish = self.world.cluster.wishes.get(&slice).cloned();
        self.with_replica(slice, |replica, context| replica.handle_wish(context, wish));
    }

    fn handle_store(&mut self, event: StoreEvent, out: &mut Output) {
        match event {
            StoreEvent::Opened(recovered) => self.opened(recovered, out),
            StoreEvent::OpenFailed(error) => self.open_failed(error, out),
            StoreEvent::Durable { token } => {
                let used = self.world.storage.take_use(token);
                if let Use::Append(_, began) = used {
                    let now = self.world.now;
                    self.world
                        .pace
                        .command(now, Class::Append, now.since(began));
                }
                if let Use::Doubt = used {
                    self.doubt_kept();
                }
                if let Use::Note(place) = used
                    && place == bookmark_place()
                {
                    self.world.cluster.bookmark_kept(self.world.now);
                }
                if let Use::NoteGone(place) = used {
                    self.world.cluster.notes.gone(place);
                }
                if let Use::Durable(slice) | Use::Append(slice, _) = used {
                    self.with_replica(slice, |replica, context| {
                        replica.handle_durable(context, holdfast_replica::Token(token.0));
                    });
                    self.forget_replica(slice);
                }
            }
            StoreEvent::JournalRotten(it) => self.world.notices.push(Notice::JournalRotten(it)),
            StoreEvent::ReadDone { token, blocks } => self.read_done(token, blocks),
            StoreEvent::DeviceOrdered { token, result } => self.device_ordered(token, result, out),
            StoreEvent::DeviceLeft { disk, ordinal } => self.device_left(disk, ordinal, out),
            StoreEvent::DeviceFailed { disk } => self.device_failed(disk),
            // The node is to start anew, and can do without it.
            StoreEvent::DeviceLost { disk } => out.push(Command::DeviceLost(disk)),
            StoreEvent::Unusable { disk } => out.push(Command::Unusable(disk)),
        }
    }

    /// Whether the store is open and no device has failed.
    pub(crate) fn is_alive(&self) -> bool {
        self.me.is_some() && !self.failed
    }
}

/// Between two looks of a replica at what is overdue and cannot be done yet: of thousands of replicas
/// that must not keep the engine busy. What makes it possible is mostly an event, and looked at then.
const TICK: Duration = Duration::from_millis(50);
