//! A node: its clock, its devices, and the process that runs on them, or not.
//!
//! Invariants:
//! - what was meant for one process never reaches the next: everything bears the process's number;
//! - a frozen process does nothing: what comes for it waits, in order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use holdfast_engine::{Command, Engine, EngineConfig, Event, HOLD, LinkId, Machine, Output};
use holdfast_iscsi::chap::ChapSeed;
use holdfast_iscsi::target::Limits;
use holdfast_model::{
    ClusterId, DiskId, ENTRY_BYTES_MAX, Incarnation, MachineId, NodeId, StoreId, Tier,
};
use holdfast_stdx::{Duration, Instant, Prng};
use holdfast_store::{DeviceGeometry, FormatConfig, StoreConfig, StoreIdentity};

use super::bays::Bays;
use super::journal_place::JournalSeen;
use crate::clock::Clock;
use crate::disk::{Latency, SimDisk};
use crate::schedule::Appointment;

/// The cluster that every node belongs to.
pub(crate) const CLUSTER: ClusterId = ClusterId(0x51);

/// A process of a node, counted over the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProcessId {
    pub(crate) node: NodeId,
    pub(crate) start: u64,
}

/// Devices and limits of every node.
#[derive(Clone, Copy, Debug)]
pub struct NodePlan {
    /// Bytes of the device with the journal.
    pub device_bytes: u64,
    /// Bytes of each other one that a node has at first.
    pub page_device_bytes: u64,
    /// Devices of a node.
    pub device_count: u16,
    /// Bytes that a device writes whole or not at all.
    pub sector: u32,
    /// The store's limits.
    pub store: StoreConfig,
    /// How fast the devices are.
    pub latency: Latency,
    /// How long a command is held while nobody serves it.
    pub hold: Duration,
    /// Replicas that may take over at a time.
    pub takeovers_max: usize,
}

impl NodePlan {
    /// Small devices, so that everything that fills up does.
    pub fn draw(prng: &mut Prng) -> Self {
        let partitions = *prng.choose(&[1, 1, 1, 2, 2, 4]);
        let segment_bytes = 2 * ENTRY_BYTES_MAX as u32;
        let segments = u64::from(4 * partitions + 4) + prng.below(8);
        let format = FormatConfig {
            partitions,
            segment_bytes,
            journal_bytes: Some(segments * u64::from(segment_bytes)),
        };
        Self {
            device_bytes: 256 << 20,
            page_device_bytes: 256 << 20,
            device_count: 1 + u16::from(prng.chance(1, 4)),
            sector: *prng.choose(&[512, 4096]),
            store: StoreConfig {
                change_bytes_max: ENTRY_BYTES_MAX,
                dirty_bytes_max: *prng.choose(&[1 << 20, 8 << 20]),
                table_cache_bytes: 256 << 10,
                block_cache_bytes: 512 << 10,
                requests_max: *prng.choose(&[4, 64]),
                destage_after: Duration::from_millis(prng.between(50, 2000)),
                // Its engine says.
                destage_waits: false,
                commit_after: Duration::from_millis(50),
                format,
            },
            latency: Latency::default(),
            hold: HOLD,
            takeovers_max: *prng.choose(&[1, 1, 2]),
        }
    }
}

/// A node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) plan: NodePlan,
    pub(crate) clock: Clock,
    pub(crate) disks: Vec<SimDisk>,
    /// Where they are.
    pub(super) bays: Bays,
    pub(crate) store: StoreId,
    pub(crate) starts: u64,
    /// The last of them of which the metadata knows.
    pub(crate) known_start: u64,
    copied: Option<Copied>,
    /// Its own devices, while others are in the place of some of them.
    pub(super) aside: Option<Aside>,
    /// Its store was opened with an older copy of the device with the journal, while others were away.
    pub(super) is_forked: bool,
    /// Its devices fail, or answer nothing, until the process ends.
    pub(crate) disks_bad: bool,
    /// Something of what its record says may be lacking, until its process is seen to have all of it.
    pub(super) is_wounded: bool,
    /// An operator says so at its next start.
    pub(super) takes_over: bool,
    /// Its store is made, and was open.
    pub(super) is_made: bool,
    /// Starts that its devices have seen.
    pub(super) starts_of_disks: u64,
    /// Its devices are not those that it had at first, or were not.
    pub(super) is_touched: bool,
    /// What was seen of its journal.
    pub(super) journal_seen: JournalSeen,
    /// Devices that it was without when it last opened the others.
    pub(super) absent_count: usize,
    /// Nothing is ordered about its devices in the end before this.
    pub(super) orders_rest: Instant,
    pub(crate) process: Option<Process>,
    pub(crate) prng: Prng,
}

/// A node's devices as somebody copied them.
#[derive(Debug)]
struct Copied {
    disks: Vec<SimDisk>,
    /// In which start that was.
    start: u64,
    /// A store was on them by then.
    is_made: bool,
}

impl Copied {
    /// Whether the metadata knows of a later start: from the same one the copy could not be told from what a
    /// power loss leaves.
    const fn is_old(&self, known_start: u64) -> bool {
        self.start > 0 && self.start < known_start
    }
}

/// What a node's own devices are, while others are in their place.
#[derive(Debug)]
pub(super) struct Aside {
    pub(super) disks: Vec<SimDisk>,
    pub(super) misplaced: Misplaced,
}

/// What is in the place of a node's device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Misplaced {
    /// An older copy of it.
    Old,
    /// Another node's: whoever opens it fails.
    Foreign,
}

/// A node's process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) id: ProcessId,
    pub(crate) engine: Engine,
    /// Who it is, once its devices are open.
    pub(crate) identity: Option<(StoreId, Incarnation)>,
    pub(crate) timer: Option<(Instant, Appointment)>,
    pub(crate) disk_timer: Option<(Instant, Appointment)>,
    /// Peers that it wants links to.
    pub(crate) peers: BTreeSet<NodeId>,
    /// The link to each peer, as this side knows it.
    pub(crate) links: BTreeMap<NodeId, LinkId>,
    pub(crate) freeze: Freeze,
    /// Timers that fired without time passing, to notice a machine that spins.
    pub(crate) spins: (Instant, u32),
    pub(crate) stopping: bool,
}

/// Whether the process stands still.
#[derive(Debug)]
pub(crate) enum Freeze {
    No,
    /// It will, right after it has decided what to do next, before it does it.
    Coming {
        until: Instant,
    },
    Frozen {
        /// What it was about to do.
        held: Vec<Command>,
        /// What came meanwhile.
        inputs: VecDeque<Event>,
        /// Its clock stands still as well, since then.
        clock_stands_since: Option<Instant>,
    },
}

impl Freeze {
    pub(crate) fn is_frozen(&self) -> bool {
        matches!(self, Self::Frozen { .. })
    }
}

impl Node {
    pub(crate) fn new(id: NodeId, plan: NodePlan, prng: &mut Prng) -> Self {
        let mut prng = prng.fork();
        let clock = Clock::draw(&mut prng);
        let mut node = Self {
            id,
            plan,
            clock,
            disks: Vec::new(),
            bays: Bays::default(),
            copied: None,
            aside: None,
            is_forked: false,
            store: StoreId(0),
            starts: 0,
            known_start: 0,
            disks_bad: false,
            is_wounded: false,
            takes_over: false,
            is_made: false,
            starts_of_disks: 0,
            is_touched: false,
            journal_seen: JournalSeen::default(),
            absent_count: 0,
            orders_rest: Instant::ZERO,
            process: None,
            prng,
        };
        node.replace_disks();
        node
    }

    /// New, empty devices in place of those that were there.
    pub(crate) fn replace_disks(&mut self) {
        let (plan, prng) = (self.plan, &mut self.prng);
        self.copied = None;
        self.aside = None;
        self.is_forked = false;
        self.store = StoreId(u128::from(prng.next_u64()) << 64 | u128::from(self.id.0));
        self.disks = (0..plan.device_count)
            .map(|index| {
                let prng = prng.fork();
                let bytes = match index {
                    0 => plan.device_bytes,
                    _ => plan.page_device_bytes,
                };
                SimDisk::new(DiskId(index), bytes, plan.sector, plan.latency, prng)
            })
            .collect();
        self.bays = Bays::full(self.disks.len());
        self.is_wounded = false;
        self.is_made = false;
        self.starts_of_disks = 0;
        self.absent_count = 0;
        self.journal_seen = JournalSeen::default();
    }

    /// A blank device that the node can be given.
    pub(super) fn new_disk(&mut self, bytes: u64) -> DiskId {
        let disk = DiskId(self.disks.len() as u16);
        let (plan, prng) = (self.plan, self.prng.fork());
        let fresh = SimDisk::new(disk, bytes, plan.sector, plan.latency, prng);
        self.disks.push(fresh);
        self.bays.add();
        disk
    }

    /// All that is on a device is overwritten.
    pub(super) fn erase(&mut self, disk: DiskId) {
        let (plan, prng) = (self.plan, self.prng.fork());
        let device = &mut self.disks[usize::from(disk.0)];
        *device = SimDisk::new(disk, device.bytes(), plan.sector, plan.latency, prng);
    }

    /// Copies what is on stable storage at this moment.
    pub(crate) fn copy_disks(&mut self) {
        if self.aside.is_some() || !self.bays.are_full() {
            // They are not all its own now, or not all there.
            return;
        }
        let mut disks = self.disks.clone();
        disks.iter_mut().for_each(SimDisk::crash);
        self.copied = Some(Copied {
            disks,
            start: self.starts,
            is_made: self.is_made,
        });
    }

    /// Brings the copy back, if it is old.
    pub(crate) fn roll_back_disks(&mut self) -> bool {
        let known = self.known_start;
        let Some(copied) = self.copied.take_if(|it| it.is_old(known)) else {
            return false;
        };
        self.aside = None;
        self.is_forked = false;
        self.bays = Bays::full(copied.disks.len());
        self.disks = copied.disks;
        self.is_made = copied.is_made;
        self.is_wounded = true;
        true
    }

    /// The same for the device that the journal is on, if there is another one. Its own is kept, in
    /// case that it is refused.
    pub(crate) fn roll_back_journal(&mut self) -> bool {
        let known = self.known_start;
        let is_old = |it: &mut Copied| it.disks.len() > 1 && it.is_old(known);
        if self.aside.is_some() {
            return false;
        }
        let Some(Copied { mut disks, .. }) = self.copied.take_if(is_old) else {
            return false;
        };
        // One that came later is not among the copies: then it is the one that had the journal before.
        let now = usize::from(self.journal_disk().0);
        let place = if now < disks.len() { now } else { 0 };
        let old = disks.swap_remove(place);
        self.set_aside(Misplaced::Old);
        self.disks[place] = old;
        self.is_wounded = true;
        true
    }

    /// Keeps its own devices, for others are about to be put in their place.
    pub(super) fn set_aside(&mut self, misplaced: Misplaced) {
        let disks = self.disks.clone();
        self.aside = Some(Aside { disks, misplaced });
    }

    /// Whether nothing was ever written on its devices.
    pub(crate) fn is_blank(&self) -> bool {
        self.disks.iter().all(SimDisk::is_blank)
    }

    /// The devices that the next process is given.
    pub(crate) fn geometry(&self) -> Vec<DeviceGeometry> {
        let given = self.disks.iter().filter(|it| self.bays.is_given(it.id()));
        given.map(|disk| self.geometry_of(disk.id())).collect()
    }

    pub(super) fn geometry_of(&self, disk: DiskId) -> DeviceGeometry {
        DeviceGeometry {
            disk,
            bytes: self.disks[usize::from(disk.0)].bytes(),
            sector: self.plan.sector,
            tier: Tier::Flash,
        }
    }

    /// The process's engine, and what it wants done first.
    pub(crate) fn start(&mut self, now: Instant) -> Output {
        assert!(self.process.is_none(), "a node runs one process");
        self.starts += 1;
        self.starts_of_disks += 1;
        let number = self.id.0;
        // Where one was left out no store is made.
        let makes = self.bays.are_all_given();
        let nonce = self.prng.next_u64();
        // Of its own: no other draw of the run depends on how many bytes that takes.
        let mut seed = [0; 32];
        Prng::from_seed(nonce).fill(&mut seed);
        let portal_seed = ChapSeed(seed);
        let config = EngineConfig {
            cluster: CLUSTER,
            node: self.id,
            name: format!("node{number}"),
            failure_domain: None,
            portal: portal_of(self.id),
            peer: format!("127.0.0.{number}:7000"),
            api: format!("http://127.0.0.{number}:7460"),
            devices: self.geometry(),
            create: makes.then_some(StoreIdentity {
                cluster: CLUSTER,
                store: self.store,
                node: self.id,
                nonce,
            }),
            machine: Machine {
                id: MachineId(number.into()),
                has_address: true,
                takes_over: std::mem::take(&mut self.takes_over),
            },
            use_id: self.starts,
            store: self.plan.store,
            portal_limits: Limits::default(),
            portal_seed,
            hold: self.plan.hold,
            takeovers_max: self.plan.takeovers_max,
        };
        self.bays.open_given();
        let mut out = Output::default();
        let engine = Engine::new(config, self.clock.shows(now), &mut out);
        self.process = Some(Process {
            id: ProcessId {
                node: self.id,
                start: self.starts,
            },
            engine,
            identity: None,
            timer: None,
            disk_timer: None,
            peers: BTreeSet::new(),
            links: BTreeMap::new(),
            freeze: Freeze::No,
            spins: (now, 0),
            stopping: false,
        });
        out
    }

    pub(crate) fn running(&mut self, id: ProcessId) -> Option<&mut Process> {
        self.process.as_mut().filter(|process| process.id == id)
    }
}

/// Where a node's portal is.
pub(crate) fn portal_of(node: NodeId) -> String {
    format!("127.0.0.{}:3260", node.0)
}
