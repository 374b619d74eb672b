//! The cluster: nodes, hosts, network, metadata and time, all in one hand.
//!
//! One thing happens after the other. What a machine wants done is done at once or scheduled; no
//! machine is called from within another.
//!
//! Invariants:
//! - every step has one cause in the schedule, and every chance comes from the run's seed;
//! - what the engines say about themselves is checked after every step.

mod agreement;
mod bays;
mod commands;
mod controller;
mod device_changes;
mod device_orders;
mod devices;
mod faults;
mod guests;
mod hosts;
mod journal_place;
mod links;
mod node;
mod operator;
mod portals;
mod recovery;
mod room;
mod scrubs;
mod settings;
mod summary;

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_control::Inventory;
use holdfast_engine::{ConnectionId, Engine, Event, LinkId, Output, Stall};
use holdfast_metadata::Machine;
use holdfast_model::metadata::MetadataToken;
use holdfast_model::record::{CLUSTER_KEY, SliceRecord};
use holdfast_model::{DiskId, NodeId};
use holdfast_stdx::{Duration, Instant, Prng};
use holdfast_wire::Lane;

use self::agreement::Agreement;
pub use self::controller::ControllerPlan;
use self::controller::{Controller, Written};
pub use self::device_changes::DeviceChange;
use self::device_changes::Settling;
pub use self::faults::{Damage, Fault};
pub use self::guests::{GuestPlan, VolumeOrder};
use self::guests::{Guests, Step};
use self::links::Links;
pub use self::node::NodePlan;
pub(crate) use self::node::{CLUSTER, Node};
use self::node::{Freeze, ProcessId};
use self::portals::{Connections, Toward};
pub use self::settings::SettingsChange;
use crate::boot::cluster_record;
use crate::disk::SimDisk;
use crate::failure::Failure;
use crate::history::History;
use crate::host::{Host, HostPlan};
use crate::invariants::Invariants;
use crate::network::{Network, Place};
use crate::schedule::Schedule;
use crate::tally::Tally;
use crate::trace::Trace;
use crate::volumes::VolumePlan;
use crate::watch::Watch;

/// What happens.
#[derive(Debug)]
pub(crate) enum Happening {
    /// An engine's timer.
    Timer(ProcessId),
    /// Disk requests of a node end.
    Disks(ProcessId),
    /// Something is told to a process.
    Tell(ProcessId, Box<Event>),
    /// A process tries to connect to a peer.
    Dial(ProcessId, NodeId),
    /// Both lanes of a link are greeted.
    Meet(ProcessId, ProcessId),
    /// The side that dialled knows that the link is up.
    LinkUp(LinkId),
    /// Something may have arrived over a lane, from one end of a link.
    Lane(LinkId, usize, Lane),
    /// One lane of a link ended a while ago: the other end gives it up.
    LastWords(LinkId, usize),
    /// An end of a link gives up: the other has vanished.
    LinkDoubt(LinkId, usize),
    /// An end of a link gives up if its way is still cut.
    Unanswered(LinkId, usize),
    /// A request arrives at the metadata.
    Asked(ProcessId, MetadataToken),
    /// Answers of the metadata arrive at a node.
    Answered(ProcessId),
    /// A request to the metadata has taken too long.
    AnswerMissed(ProcessId, MetadataToken),
    /// The session with the metadata breaks.
    MetadataLost(ProcessId),
    /// The end of a connection that its host has given up sets out.
    HostEnds(ConnectionId),
    /// A host's connection arrives at a portal.
    Accept(ConnectionId),
    /// Something may have arrived over a connection between a host and a portal.
    Stream(ConnectionId, Toward),
    /// A host's timer.
    Host(usize),
    /// A frozen process goes on.
    Thaw(ProcessId),
    /// Something goes wrong, or is mended.
    Fault(Fault),
    /// Whoever steers looks.
    Pass,
    /// It knows what the metadata holds.
    Looked(ProcessId, Arc<Inventory>),
    /// Something that a controller wants written arrives at the metadata.
    Written(Box<Written>),
    /// Something that an operator wants of volumes goes on.
    Request(u64, Step),
    /// Something is done about a device of a process's node, in the end.
    Settle(ProcessId, u16, Settling),
}

/// What a cluster is made of.
#[derive(Clone, Debug)]
pub struct ClusterPlan {
    /// How many nodes.
    pub nodes: u16,
    /// What they have.
    pub node: NodePlan,
    /// The volumes.
    pub volumes: Vec<VolumePlan>,
    /// The hosts.
    pub hosts: Vec<HostPlan>,
    /// Volumes that may be made while it runs.
    pub guests: Vec<GuestPlan>,
    /// How it is steered; not at all, if slices stay where they are.
    pub controller: Option<ControllerPlan>,
    /// Whether devices are looked at before each start, for the coverage: it takes time.
    pub probes: bool,
}

/// A stall that an engine told of.
#[derive(Clone, Debug)]
pub struct SeenStall {
    /// Whose portal it was.
    pub node: NodeId,
    /// When it was told, truly.
    pub told: Instant,
    /// What was told; its times are by the node's clock.
    pub stall: Stall,
}

/// A host sends a command, or hears that it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostWord {
    /// When, truly.
    pub at: Instant,
    /// Which host.
    pub host: usize,
    /// Over which path.
    pub path: usize,
    /// Whether it is done.
    pub done: bool,
}

/// A cluster.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) now: Instant,
    pub(crate) plan: ClusterPlan,
    pub(crate) nodes: BTreeMap<NodeId, Node>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) history: History,
    schedule: Schedule<Happening>,
    network: Network,
    links: Links,
    agreement: Agreement,
    controller: Controller,
    guests: Guests,
    connections: Connections,
    pub(crate) invariants: Invariants,
    pub(crate) watch: Watch,
    /// What engines told of.
    pub(crate) tally: Tally,
    /// The stalls that engines told of, and when.
    pub(crate) stalls: Vec<SeenStall>,
    /// What hosts sent and were told.
    pub(crate) host_words: Vec<HostWord>,
    /// Rounds of scrubs that were begun, however far the one before was.
    pub(crate) scrubs: u64,
    /// Hosts begin new commands.
    pub(crate) busy: bool,
    /// When a host's command was last done, and the longest time without, since the hosts are busy.
    pub(crate) last_done: Instant,
    pub(crate) stall: Duration,
    pub(crate) prng: Prng,
    pub(crate) trace: Trace,
    /// Things that happened.
    pub steps: u64,
}

/// Timers of an engine that fire within this time, at most: more is a machine that never sleeps.
const SPINS_MAX: u32 = 2000;
const SPIN_TIME: Duration = Duration::from_millis(1);
/// What makes the stream of numbers for guests another one than the rest of the run goes on with.
const GUESTS: u64 = 0x006C_E575;

impl Cluster {
    /// A cluster of nodes that are off, and hosts that wait.
    #[must_use]
    pub fn new(plan: ClusterPlan, prng: &mut Prng, trace: Trace) -> Self {
        // Of a stream of its own: runs without guests are what they were before there were any.
        let guests = Prng::from_seed(prng.clone().next_u64() ^ GUESTS);
        let nodes: BTreeMap<NodeId, Node> = (1..=plan.nodes)
            .map(|number| (NodeId(number), Node::new(NodeId(number), plan.node, prng)))
            .collect();
        let places: Vec<NodeId> = nodes.keys().copied().collect();
        let hosts = (0..plan.hosts.len())
            .map(|index| Host::new(index, &plan, &places, prng))
            .collect();
        let mut cluster = Self {
            now: Instant::ZERO,
            nodes,
            hosts,
            history: History::default(),
            schedule: Schedule::default(),
            network: Network::new(prng.fork()),
            links: Links::default(),
            agreement: Agreement::new(prng.fork()),
            connections: Connections::default(),
            invariants: Invariants::default(),
            watch: Watch::default(),
            tally: Tally::default(),
            stalls: Vec::new(),
            host_words: Vec::new(),
            last_done: Instant::ZERO,
            stall: Duration::ZERO,
            prng: prng.fork(),
            scrubs: 0,
            busy: false,
            controller: Controller::new(prng.fork()),
            guests: Guests::new(guests),
            trace,
            steps: 0,
            plan,
        };
        cluster.agreement.put(CLUSTER_KEY.into(), cluster_record());
        if cluster.has_rounds() {
            cluster.invariants.rounds_follow_each_other();
        }
        cluster
    }

    /// What time it is, truly.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The metadata, for whoever checks.
    #[must_use]
    pub fn metadata(&self) -> &Machine {
        self.agreement.machine()
    }

    /// What a controller reads of the metadata.
    pub(crate) fn inventory(&mut self) -> Option<Arc<Inventory>> {
        self.agreement.inventory()
    }

    /// The slices' records.
    pub(crate) fn slices(&self) -> impl Iterator<Item = &SliceRecord> {
        self.agreement.slices()
    }

    /// Somebody makes a backup of the metadata.
    pub(crate) fn save_metadata(&mut self) {
        self.agreement.save();
    }

    /// Lets things happen until `end`.
    ///
    /// # Errors
    /// [`Failure`] if something happened that must not.
    pub fn run_until(&mut self, end: Instant) -> Result<(), Failure> {
        while self.schedule.next_instant().is_some_and(|next| next <= end) {
            self.step()?;
        }
        self.now = end;
        Ok(())
    }

    /// Lets things happen until `done`, looked at every `pause`, or until `end`; says whether it
    /// is.
    ///
    /// # Errors
    /// [`Failure`] if something happened that must not.
    pub fn run_while(
        &mut self,
        end: Instant,
        pause: Duration,
        mut goes_on: impl FnMut(&mut Self) -> bool,
    ) -> Result<bool, Failure> {
        while goes_on(self) {
            if self.now >= end {
                return Ok(false);
            }
            let next = self.now + pause;
            self.run_until(next)?;
        }
        Ok(true)
    }

    fn step(&mut self) -> Result<(), Failure> {
        let Some((now, happening)) = self.schedule.pop() else {
            return Ok(());
        };
        assert!(now >= self.now, "time does not go back");
        self.now = now;
        self.steps += 1;
        self.happen(happening)
    }

    fn happen(&mut self, happening: Happening) -> Result<(), Failure> {
        match happening {
            Happening::Timer(process) => self.timer(process),
            Happening::Disks(process) => self.disks(process),
            Happening::Tell(process, event) => self.tell(process, *event),
            Happening::Dial(from, to) => self.dial(from, to),
            Happening::Meet(from, to) => self.meet(from, to),
            Happening::LinkUp(link) => self.link_up(link),
            Happening::Lane(link, from, lane) => self.lane(link, from, lane),
            Happening::LastWords(link, end) | Happening::LinkDoubt(link, end) => {
                self.close_end(link, end)
            }
            Happening::Unanswered(link, end) => self.unanswered(link, end),
            Happening::Asked(process, token) => self.metadata_asked(process, token),
            Happening::Answered(process) => self.metadata_answered(process),
            Happening::AnswerMissed(process, token) => self.metadata_missed(process, token),
            Happening::MetadataLost(process) => self.metadata_lost(process),
            Happening::Accept(connection) => self.accept(connection),
            Happening::HostEnds(connection) => {
                self.host_ends(connection);
                Ok(())
            }
            Happening::Stream(connection, toward) => self.stream(connection, toward),
            Happening::Host(host) => self.host_acts(host),
            Happening::Thaw(process) => self.thaw(process),
            Happening::Fault(fault) => self.fault(fault),
            Happening::Pass => self.pass(),
            Happening::Looked(process, inventory) => self.looked(process, &inventory),
            Happening::Written(written) => self.written(*written),
            Happening::Request(number, step) => self.request(number, step),
            Happening::Settle(process, device, what) => self.settle_device(process, device, what),
        }
    }

    /// Entries that were seen committed.
    #[must_use]
    pub(crate) fn commit_count(&self) -> usize {
        self.invariants.commit_count()
    }

    fn schedule(&mut self, after: Duration, happening: Happening) {
        self.schedule.at(self.now + after, happening);
    }

    fn node(&mut self, node: NodeId) -> &mut Node {
        self.nodes.get_mut(&node).expect("nodes stay")
    }

    fn running(&mut self, process: ProcessId) -> Option<&mut node::Process> {
        self.node(process.node).running(process)
    }

    pub(crate) fn line(&mut self, place: Place, what: std::fmt::Arguments<'_>) {
        self.trace.line(self.now, &format_args!("{place:<4}"), what);
    }

    /// A node's process starts.
    fn start(&mut self, node: NodeId) -> Result<(), Failure> {
        let now = self.now;
        let state = self.node(node);
        if state.process.is_some() {
            return Ok(());
        }
        if state.is_blank() {
            self.watch.coverage.reach("opening", "blank devices");
        } else if self.plan.probes {
            self.probe(node);
        }
        let state = self.node(node);
        let out = state.start(now);
        let start = state.starts;
        self.line(Place::Node(node), format_args!("starts, {start}"));
        self.act_on(ProcessId { node, start }, out)
    }

    /// Tells a process something; if it is frozen, as soon as it is not.
    fn tell(&mut self, process: ProcessId, event: Event) -> Result<(), Failure> {
        let Some(running) = self.running(process) else {
            return Ok(());
        };
        if let Freeze::Frozen { inputs, .. } = &mut running.freeze {
            inputs.push_back(event);
            return Ok(());
        }
        self.line(
            Place::Node(process.node),
            format_args!("< {}", summary::event(&event)),
        );
        self.act(process, |engine, now, out| engine.handle(now, event, out))
    }

    fn timer(&mut self, process: ProcessId) -> Result<(), Failure> {
        let now = self.now;
        let Some(running) = self.running(process) else {
            return Ok(());
        };
        running.timer = None;
        if running.freeze.is_frozen() {
            return Ok(());
        }
        let (since, count) = running.spins;
        running.spins = if now.since(since) > SPIN_TIME {
            (now, 0)
        } else {
            (since, count + 1)
        };
        if running.spins.1 > SPINS_MAX {
            return Err(Failure::Spins(process.node));
        }
        self.act(process, |engine, now, out| engine.handle_timeout(now, out))
    }

    /// Lets a process's engine do something, and does what it then wants done.
    fn act(
        &mut self,
        process: ProcessId,
        act: impl FnOnce(&mut Engine, Instant, &mut Output),
    ) -> Result<(), Failure> {
        let node = self.nodes.get_mut(&process.node).expect("nodes stay");
        let shown = node.clock.shows(self.now);
        let Some(running) = node.running(process) else {
            return Ok(());
        };
        let mut out = Output::default();
        act(&mut running.engine, shown, &mut out);
        self.act_on(process, out)
    }

    fn act_on(&mut self, process: ProcessId, mut out: Output) -> Result<(), Failure> {
        let commands = out.drain().collect();
        if let Some(running) = self.running(process)
            && let Freeze::Coming { until } = running.freeze
        {
            running.freeze = Freeze::Frozen {
                held: commands,
                inputs: Default::default(),
                clock_stands_since: None,
            };
            // It may have done nothing for so long that the freeze is over as it begins.
            self.schedule
                .at(until.max(self.now), Happening::Thaw(process));
            self.line(Place::Node(process.node), format_args!("freezes"));
            return Ok(());
        }
        self.carry_out(process, commands)?;
        self.set_timers(process);
        self.check(process)
    }

    /// Sees to it that the process is woken when it wants to be.
    fn set_timers(&mut self, process: ProcessId) {
        let now = self.now;
        let node = self.nodes.get_mut(&process.node).expect("nodes stay");
        let disks = node.disks.iter().filter_map(SimDisk::next_completion).min();
        let clock = node.clock;
        let late = if node.prng.chance(1, 8) {
            node.prng.below(1_000_000)
        } else {
            10_000
        };
        let Some(running) = node.running(process) else {
            return;
        };
        if running.disk_timer.map(|(due, _)| due) != disks {
            if let Some((_, appointment)) = running.disk_timer.take() {
                self.schedule.cancel(appointment);
            }
            running.disk_timer =
                disks.map(|due| (due, self.schedule.at(due, Happening::Disks(process))));
        }
        if running.freeze.is_frozen() {
            return;
        }
        let wake = running
            .engine
            .next_timeout()
            .map(|due| clock.when(due).max(now));
        // What is overdue and still wanted comes when it was to come: events that follow each other do not put it off.
        let due = running.timer.map(|(due, _)| due);
        let is_overdue = wake == Some(now) && due.is_some_and(|due| due <= now);
        if due != wake && !is_overdue {
            if let Some((_, appointment)) = running.timer.take() {
                self.schedule.cancel(appointment);
            }
            running.timer = wake.map(|due| {
                let lateness = Duration::from_nanos(late);
                (
                    due,
                    self.schedule.at(due + lateness, Happening::Timer(process)),
                )
            });
        }
    }

    /// Disk requests of a process have ended.
    fn disks(&mut self, process: ProcessId) -> Result<(), Failure> {
        let now = self.now;
        if self.running(process).is_none() {
            return Ok(());
        }
        self.fail_doomed(process.node);
        self.strike_announced(process.node);
        let node = self.node(process.node);
        let mut done = Vec::new();
        for disk in &mut node.disks {
            while let Some(completion) = disk.complete(now) {
                done.push((disk.id(), completion));
            }
        }
        if let Some(running) = node.running(process) {
            running.disk_timer = None;
        }
        for (disk, completion) in done {
            let DiskId(number) = disk;
            self.line(
                Place::Node(process.node),
                format_args!("disk {number} done"),
            );
            self.tell(process, Event::Disk(completion))?;
        }
        self.set_timers(process);
        Ok(())
    }

    /// Checks what must hold after every step of a node.
    fn check(&mut self, process: ProcessId) -> Result<(), Failure> {
        let node = self.nodes.get(&process.node).expect("nodes stay");
        let Some(running) = &node.process else {
            return Ok(());
        };
        let shown = node.clock.shows(self.now);
        for view in running.engine.views(shown) {
            let record = self.agreement.slice(view.slice);
            self.watch.replica(node.id, node.store, &view, record);
            self.invariants
                .after_step(process.node, process.start, &running.engine, &view)?;
        }
        Ok(())
    }
}
