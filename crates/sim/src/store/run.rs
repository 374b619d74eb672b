//! One run: a store on simulated devices, driven by a seed until it has done its steps.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use holdfast_model::{
    BLOCK_SIZE, BlockRange, ClusterId, DiskId, NodeId, PAGE_SIZE, Sequence, SliceId, StoreId,
};
use holdfast_stdx::{Duration, Instant, Prng, crc32c};
use holdfast_store::{
    DeviceGeometry, Expected, FormatConfig, OpenError, Output, Store, StoreConfig, StoreEvent,
    StoreIdentity, StoreToken, View,
};

use super::check::BEGIN;
use super::devices::Orders;
use super::model::ModelSlice;
use super::rotten_block::RottenBlock;
use super::trace::{describe_event, describe_request, is_placed_page};
use super::work::WRITE_BLOCKS_MAX;
use crate::disk::{Latency, SimDisk};

/// What a run is like.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Pieces of work.
    pub steps: u32,
    /// Whether power is lost now and then.
    pub crashes: bool,
    /// Whether blocks in slots and single copies of table entries rot.
    pub rot: bool,
    /// Whether the journal rots while the store is down.
    pub journal_rot: bool,
    /// Whether devices fail.
    pub failures: bool,
    /// Devices: one of flash, or more.
    pub devices: u16,
    /// Whether devices are added, drained and removed.
    pub orders: bool,
    /// Disks that are of capacity, one bit for each; the others are flash.
    pub capacity: u32,
    /// Bytes that a device writes whole.
    pub sector: u32,
    /// Whether destage that does not press waits to be told, and is told at times.
    pub destage_waits: bool,
    /// Whether the journal is checked now and then, and rots before.
    pub checks: bool,
    /// Whether whole pages are written, two at a time at most: the journal's segments are larger then.
    pub pages: bool,
    /// Whether every request and event is printed.
    pub trace: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            steps: 400,
            crashes: true,
            rot: false,
            journal_rot: false,
            failures: false,
            devices: 1,
            orders: false,
            capacity: 0,
            sector: 512,
            destage_waits: false,
            checks: false,
            pages: false,
            trace: false,
        }
    }
}

impl Options {
    /// A mixture that depends on the seed.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        let mut prng = Prng::from_seed(seed ^ 0x5707_0001);
        Self {
            steps: 300,
            crashes: !prng.chance(1, 8),
            rot: prng.chance(1, 4),
            journal_rot: prng.chance(1, 6),
            failures: prng.chance(1, 4),
            devices: 1 + u16::from(prng.chance(1, 4)),
            sector: if prng.chance(1, 2) { 512 } else { 4096 },
            destage_waits: prng.chance(1, 2),
            orders: prng.chance(1, 3),
            capacity: 0,
            checks: prng.chance(1, 3),
            pages: false,
            trace: false,
        }
    }

    /// Which disks are of capacity where some are: about every other one but the first. From a stream of its own, so
    /// that runs of flash alone stay what they are.
    #[must_use]
    pub fn capacity_of_seed(seed: u64) -> u32 {
        let mut prng = Prng::from_seed(seed ^ 0x5707_0002);
        prng.next_u64() as u32 & !1
    }
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Entries appended.
    pub entries: u64,
    /// Reads checked.
    pub reads: u64,
    /// Blocks found bad, all where the medium was made bad.
    pub bad_blocks: u64,
    /// Recoveries after power loss, kill or failure.
    pub recoveries: u64,
    /// Slices found damaged.
    pub damaged: u64,
    /// Blocks of the journal that rotted alone, in a group or in a segment's header.
    pub rotten_alone: u64,
    /// Slices found to lack what was on a device that was lost.
    pub lacking: u64,
    /// How often room was refused.
    pub refused: u64,
    /// Copies installed.
    pub installs: u64,
    /// Pages that went to slots before what says so went into the journal.
    pub placed: u64,
    /// Orders about devices that were carried out.
    pub orders: u64,
    /// Devices that left.
    pub devices_left: u64,
    /// How often the journal was seen to have moved.
    pub journal_moves: u64,
    /// Segments of the journal that rotted while it was in use, and were mended.
    pub mended: u64,
    /// How often the journal went round, in hundredths.
    pub journal_rounds_percent: u64,
    /// A checksum over everything that happened, in order.
    pub trace: u32,
    /// Virtual time at the end.
    pub ended: Instant,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The step.
    pub step: u32,
    /// What.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "seed {} step {}: {}",
            self.seed, self.step, self.what
        )
    }
}

/// Runs a seed.
///
/// # Errors
/// [`Failure`] if the store did what it must not.
pub fn run(seed: u64, options: Options) -> Result<Report, Failure> {
    let mut host = Host::new(seed, options);
    let result = host.run();
    let step = host.step;
    result.map_err(|what| Failure { seed, step, what })?;
    Ok(host.report)
}

pub(crate) type Check = Result<(), String>;

/// What a call that ends with `Durable` was for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked {
    Call(SliceId),
    Install(SliceId, BlockRange),
}

/// A read under way.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) slice: SliceId,
    pub(crate) range: BlockRange,
    pub(crate) view: View,
    pub(crate) from: Sequence,
    /// How often entries had been void when it began: then a prepared view is not checked.
    pub(crate) voids: u64,
    /// The blocks that the replica did not have then, which was being filled: they may come meanwhile.
    pub(crate) lacked: BTreeSet<u32>,
    /// How many slices had been dropped then: another one of the same name is not what is read.
    pub(crate) drops: u64,
}

/// A copy that was taken somewhere and is on its way.
#[derive(Clone, Debug)]
pub(crate) struct CopyOnItsWay {
    pub(crate) slice: SliceId,
    pub(crate) range: BlockRange,
    pub(crate) as_of: Sequence,
    pub(crate) tags: Vec<u64>,
    /// It repairs a block: the slice is not being filled.
    pub(crate) repair: bool,
}

pub(crate) struct Host {
    pub(crate) options: Options,
    pub(crate) prng: Prng,
    pub(crate) now: Instant,
    pub(crate) step: u32,
    pub(crate) store: Option<Store>,
    pub(crate) out: Output,
    pub(crate) disks: Vec<SimDisk>,
    pub(crate) model: BTreeMap<SliceId, ModelSlice>,
    pub(crate) asked: BTreeMap<u64, Asked>,
    pub(crate) reading: BTreeMap<u64, Reading>,
    pub(crate) copies: VecDeque<CopyOnItsWay>,
    pub(crate) next_token: u64,
    pub(crate) next_tag: u64,
    pub(crate) next_command: u64,
    pub(crate) uses: u64,
    /// Faults are over: destage waits for nothing any more.
    pub(crate) settles: bool,
    /// The id of that use.
    pub(crate) id_of_use: Option<u64>,
    /// The id that was drawn last.
    pub(crate) use_id: u64,
    pub(crate) voids: u64,
    /// Slices that have been dropped.
    pub(crate) drops: u64,
    pub(crate) opened: bool,
    pub(crate) device_failed: bool,
    /// Since then the store has noted it.
    pub(crate) loss_is_noted: bool,
    /// One has failed that the store can do without: what was on it may be lacking.
    pub(crate) lost_device: bool,
    /// Power was lost while the store was made, so that some of its devices may not have heard of it.
    pub(crate) half_made: bool,
    /// Blocks may be bad: the medium was made bad.
    pub(crate) rotten: bool,
    pub(crate) journal_rotten: bool,
    /// It was rotten once.
    pub(crate) journal_has_rotted: bool,
    /// In the runs in which no more of the journal rots than one block: where that is drawn from, and what came of it.
    pub(crate) one_rots: Option<Prng>,
    pub(crate) rotten_block: Option<RottenBlock>,
    /// The one copy of the table that rots.
    pub(crate) table_copy: usize,
    /// Slices of which the store has said that it lost something.
    pub(crate) broken: BTreeSet<SliceId>,
    /// The stable points that the store had told when it stopped, and when that was.
    pub(crate) stables: BTreeMap<SliceId, Sequence>,
    pub(crate) stopped: Instant,
    pub(crate) orders: Orders,
    pub(crate) report: Report,
    pub(crate) config: StoreConfig,
    pub(crate) journal_bytes: u64,
}

/// Events at one instant beyond which a run is taken to stand still.
const IDLE_MAX: u32 = 10_000;

/// The devices of a run, the journal on the first.
fn draw_disks(prng: &mut Prng, options: Options, journal_bytes: u64) -> Vec<SimDisk> {
    let slots = 16 + 8 * prng.below(5);
    let mut disks = Vec::new();
    for device in 0..options.devices {
        let journal = if device == 0 { journal_bytes } else { 0 };
        let bytes = (2 << 20) + journal + slots * ((256 << 10) + 1024) + 4096;
        let latency = Latency {
            slow_one_in: prng.below(3) * 30,
            ..Latency::default()
        };
        let (disk, sector, fork) = (DiskId(device), options.sector, prng.fork());
        disks.push(SimDisk::new(disk, bytes, sector, latency, fork));
    }
    disks
}

impl Host {
    fn new(seed: u64, options: Options) -> Self {
        let mut prng = Prng::from_seed(seed);
        let partitions = 1 + prng.below(3) as u16;
        let segments = 4 * u64::from(partitions) + 4 + prng.below(6);
        let change_bytes_max = if options.pages {
            2 * PAGE_SIZE
        } else {
            WRITE_BLOCKS_MAX as usize * BLOCK_SIZE
        };
        let segment_bytes = 2 * change_bytes_max as u64;
        let journal_bytes = segments * segment_bytes;
        let disks = draw_disks(&mut prng, options, journal_bytes);
        let config = StoreConfig {
            change_bytes_max,
            dirty_bytes_max: *prng.choose(&[256 << 10, 1 << 20, 64 << 20]),
            table_cache_bytes: 64 << 10,
            // Of some hundred blocks, or some thousand with two pages or four for what is read ahead: they come and go all the time.
            block_cache_bytes: *prng.choose(&[512 << 10, 4 << 20, 8 << 20]),
            requests_max: *prng.choose(&[2, 16, 256]),
            destage_after: Duration::from_millis(*prng.choose(&[1, 20, 500])),
            destage_waits: options.destage_waits,
            commit_after: Duration::from_millis(*prng.choose(&[1, 50])),
            format: FormatConfig {
                partitions,
                segment_bytes: segment_bytes as u32,
                journal_bytes: Some(journal_bytes),
            },
        };
        Self {
            options,
            table_copy: prng.below(2) as usize,
            prng,
            now: BEGIN,
            step: 0,
            store: None,
            out: Output::default(),
            disks,
            model: BTreeMap::new(),
            asked: BTreeMap::new(),
            reading: BTreeMap::new(),
            copies: VecDeque::new(),
            next_token: 0,
            next_tag: 0,
            next_command: 0,
            settles: false,
            uses: 0,
            id_of_use: None,
            use_id: 0,
            voids: 0,
            drops: 0,
            opened: false,
            device_failed: false,
            loss_is_noted: false,
            lost_device: false,
            half_made: false,
            rotten: false,
            journal_rotten: false,
            journal_has_rotted: false,
            one_rots: RottenBlock::rots_alone(seed, options),
            rotten_block: None,
            broken: BTreeSet::new(),
            stables: BTreeMap::new(),
            stopped: BEGIN,
            orders: Orders::default(),
            report: Report::default(),
            config,
            journal_bytes,
        }
    }

    fn run(&mut self) -> Check {
        self.create()?;
        while self.step < self.options.steps {
            self.step += 1;
            if !self.device_failed {
                self.work()?;
            }
            if !self.device_failed && self.options.orders && self.prng.chance(1, 15) {
                self.order_device()?;
            }
            if !self.device_failed && self.options.checks && self.prng.chance(1, 15) {
                self.check_journal()?;
            }
            let pause = self.prng.below(4);
            let until = self.now + Duration::from_micros(self.prng.below(1 << (3 * pause + 3)));
            self.advance(until)?;
            // That a device has failed is noted, or power fails before.
            let ends = self.loss_is_noted || self.prng.chance(1, 4);
            if self.device_failed && ends || self.prng.chance(1, 60) && self.options.crashes {
                self.crash()?;
            }
        }
        self.settle_everything()?;
        let written: u64 = self.disks.iter().map(|disk| disk.sectors_written).sum();
        let bytes = written * u64::from(self.options.sector);
        self.report.journal_rounds_percent = bytes * 100 / self.journal_bytes;
        self.report.ended = self.now;
        Ok(())
    }

    fn geometry(&self) -> Vec<DeviceGeometry> {
        let disks = self.disks.iter();
        disks.map(|disk| self.geometry_of(disk.id())).collect()
    }

    fn create(&mut self) -> Check {
        let identity = StoreIdentity {
            cluster: ClusterId(1),
            store: StoreId(2),
            node: NodeId(3),
            nonce: self.prng.next_u64(),
        };
        let geometry = self.geometry();
        self.use_id += 1;
        let (now, config) = (self.now, self.config);
        let store = Store::create(now, config, &geometry, identity, self.use_id, &mut self.out);
        self.store = Some(store);
        self.wait_until_open()
    }

    pub(crate) fn open(&mut self) -> Check {
        let expected = Expected {
            cluster: Some(ClusterId(1)),
            ..Expected::default()
        };
        self.begin_to_open(expected);
        self.wait_until_open()
    }

    fn begin_to_open(&mut self, expected: Expected) {
        self.use_id += 1;
        self.forget_orders();
        let (now, config, geometry) = (self.now, self.config, self.geometry());
        let store = Store::open(now, config, &geometry, expected, self.use_id, &mut self.out);
        self.store = Some(store);
    }

    fn wait_until_open(&mut self) -> Check {
        self.opened = false;
        self.pump()?;
        while !self.opened {
            let next = self
                .disks
                .iter()
                .filter_map(SimDisk::next_completion)
                .min()
                .ok_or("opening stands still")?;
            self.advance(next)?;
            // Power may be lost again before the store is open.
            if !self.opened && self.options.crashes && self.prng.chance(1, 400) {
                self.half_made |= self.uses == 0;
                self.lose_power();
                self.begin_to_open(Expected::default());
                self.pump()?;
            }
        }
        Ok(())
    }

    pub(crate) fn lose_power(&mut self) {
        self.store = None;
        self.out = Output::default();
        let kill = self.prng.chance(1, 3);
        for disk in &mut self.disks {
            if kill {
                disk.kill();
            } else {
                disk.crash();
            }
        }
    }

    /// Lets virtual time go on until `until`, completing what is due.
    pub(crate) fn advance(&mut self, until: Instant) -> Check {
        let mut idle = 0;
        loop {
            self.pump()?;
            let store = self.store.as_ref().ok_or("there is no store")?;
            let completion = self.disks.iter().filter_map(SimDisk::next_completion).min();
            let next = [completion, store.next_timeout()]
                .into_iter()
                .flatten()
                .min();
            let Some(next) = next.filter(|next| *next <= until) else {
                self.now = self.now.max(until);
                return Ok(());
            };
            idle = if next > self.now { 0 } else { idle + 1 };
            if idle > IDLE_MAX {
                let usage = store.usage();
                return Err(format!("timeouts without end at {}: {usage:?}", self.now));
            }
            self.now = self.now.max(next);
            let mut done = None;
            for disk in &mut self.disks {
                done = disk.complete(self.now);
                if done.is_some() {
                    break;
                }
            }
            let store = self.store.as_mut().expect("it was just there");
            match done {
                Some(completion) => store.handle_disk(self.now, completion, &mut self.out),
                None => store.handle_timeout(self.now, &mut self.out),
            }
            if store.destage_waits() && (self.settles || self.prng.chance(1, 4)) {
                store.destage(self.now, &mut self.out);
            }
            if store.check_waits().is_some() && self.prng.chance(1, 2) {
                store.check_piece(&mut self.out);
            }
        }
    }

    /// Hands requests to the devices and events to the checks.
    pub(crate) fn pump(&mut self) -> Check {
        while let Some(request) = self.out.requests.pop_front() {
            self.trace(&format!("{} {}", self.now, describe_request(&request)));
            self.may_be_asked(&request)?;
            self.report.placed += u64::from(is_placed_page(&request));
            let disk = &mut self.disks[usize::from(request.disk.0)];
            disk.submit(self.now, request);
        }
        while let Some(event) = self.out.events.pop_front() {
            self.trace(&format!("{} {}", self.now, describe_event(&event)));
            self.take(event)?;
        }
        Ok(())
    }

    #[expect(clippy::print_stderr, reason = "the trace is what was asked for")]
    pub(crate) fn trace(&mut self, line: &str) {
        if self.options.trace {
            eprintln!("{line}");
        }
        let mut bytes = self.report.trace.to_le_bytes().to_vec();
        bytes.extend_from_slice(line.as_bytes());
        self.report.trace = crc32c(&bytes);
    }

    fn take(&mut self, event: StoreEvent) -> Check {
        let is_of_loss = matches!(
            event,
            StoreEvent::DeviceLost { .. } | StoreEvent::Unusable { .. }
        );
        if self.device_failed && !is_of_loss {
            let event = describe_event(&event);
            return Err(format!("{event} after a device failed"));
        }
        match event {
            StoreEvent::Opened(recovered) => {
                self.opened = true;
                self.members_known();
                self.check_recovered(&recovered)
            }
            StoreEvent::OpenFailed(error) => self.open_failed(error),
            StoreEvent::Durable { token } => self.durable(token),
            StoreEvent::JournalRotten(_) if self.journal_has_rotted => Ok(()),
            StoreEvent::JournalRotten(_) => Err("a sound journal is taken for a bad one".into()),
            StoreEvent::ReadDone { token, blocks } => self.read_done(token, &blocks),
            StoreEvent::DeviceOrdered { token, result } => self.ordered(token, result),
            StoreEvent::DeviceLeft { disk, .. } => {
                self.device_left(disk);
                Ok(())
            }
            StoreEvent::DeviceLost { .. } if self.device_failed => {
                self.loss_is_noted = true;
                Ok(())
            }
            StoreEvent::Unusable { .. } if self.device_failed => Ok(()),
            StoreEvent::DeviceFailed { .. }
            | StoreEvent::DeviceLost { .. }
            | StoreEvent::Unusable { .. } => {
                if self.options.failures {
                    self.device_failed = true;
                    Ok(())
                } else {
                    Err("a device failed that works".into())
                }
            }
        }
    }

    fn open_failed(&mut self, error: OpenError) -> Check {
        // A store whose creation was cut short may be half there: that is not one that was used.
        if self.uses == 0 {
            for (disk, id) in self.disks.iter_mut().zip(0..) {
                let fork = self.prng.fork();
                *disk = SimDisk::new(
                    DiskId(id),
                    disk.bytes(),
                    self.options.sector,
                    Latency::default(),
                    fork,
                );
            }
            self.out = Output::default();
            return self.create();
        }
        Err(format!("the store does not open: {error}"))
    }

    pub(crate) fn token(&mut self, asked: Asked) -> StoreToken {
        self.next_token += 1;
        let token = self.next_token;
        self.asked.insert(token, asked);
        StoreToken(token)
    }
}
