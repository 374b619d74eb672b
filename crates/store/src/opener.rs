//! From devices to an open store: superblocks, journal, page table.
//!
//! Invariants:
//! - a store is created only on devices that are blank, and its superblocks are written last;
//! - a store is opened only with devices that belong together, of which one has the journal; the list says
//!   which others are absent, before anything is done without them;
//! - the use counter rises, with the id that was drawn for the use, both copies durable one after the
//!   other, before anything else is written: announced where the journal is, then on all other devices,
//!   then for good where the journal is. A device that missed it is known by that for an older copy of
//!   itself. With it goes the list of devices, so that all have that of the journal's device; and a
//!   store of version 1 gets one. A device that is there again stays absent in the list until the store is
//!   open and nothing is left over on it.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use holdfast_format::{Absence, DeviceState, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock};
use holdfast_journal::{Journal, JournalPlace, Recovery, RecoveryFailed};
use holdfast_model::{DiskCompletion, DiskId, DiskOp, DiskRequest, DiskToken};
use holdfast_pages::{Opening, Pages, PagesDevice, PagesMemory, PagesPlace};
use holdfast_stdx::Instant;

use crate::config::{DeviceGeometry, StoreConfig, StoreIdentity};
use crate::devices::Devices;
use crate::event::{Expected, OpenError, Output, StoreEvent, StrayDevice};
use crate::journal_move;
use crate::machine::{Core, JOURNAL_TOKENS, PAGES_TOKENS};
use crate::members::{self, Member};
use crate::placed::Fetch;
use crate::recovered::Slivers;
use crate::requests::{Requests, Urgency};
use crate::superblocks::{self, Copies};

#[derive(Debug)]
enum Step {
    /// Both superblocks of each device are being read.
    Read,
    /// A new journal's segments are being prepared.
    Prepare,
    PrepareFlush,
    /// One copy of some superblocks is being written.
    Write {
        stage: Stage,
        copy: usize,
    },
    Journal(Box<Recovery>),
    Pages(Box<(Journal, Opening)>),
    /// The data of entries is being read that is in slots.
    Placed(Box<(Journal, Pages, Fetch)>),
}

/// What superblocks are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The store is created: all of them.
    Create,
    /// A use is announced: that of the device with the journal.
    Claim,
    /// The others follow.
    Follow,
    /// The use begins: that of the device with the journal.
    Begin,
}

impl Stage {
    /// Whether a device is written to that has this place among the store's: the first has the journal.
    fn concerns(self, place: usize) -> bool {
        match self {
            Self::Create => true,
            Self::Claim | Self::Begin => place == 0,
            Self::Follow => place != 0,
        }
    }
}

#[derive(Debug)]
struct Device {
    geometry: DeviceGeometry,
    copies: Copies,
}

/// A store that is being opened.
#[derive(Debug)]
pub(crate) struct Opener {
    config: StoreConfig,
    create: Option<StoreIdentity>,
    expected: Expected,
    /// The id of the use that begins.
    use_id: u64,
    /// Those that were given.
    given: Vec<Device>,
    /// Those of the store, once known: the one with the journal, then the others in the order of their ordinals.
    devices: Vec<Member>,
    /// Those that are not.
    strays: Vec<StrayDevice>,
    /// The numbers of those that were missing, and are there again.
    back: Vec<u16>,
    step: Step,
    requests: Requests,
    in_flight: u32,
    slivers: Slivers,
}

/// What became of an event.
#[derive(Debug)]
pub(crate) enum Progress {
    Opening(Box<Opener>),
    Open(Box<Core>),
    Failed,
}

impl Opener {
    pub(crate) fn start(
        config: StoreConfig,
        devices: &[DeviceGeometry],
        create: Option<StoreIdentity>,
        expected: Expected,
        use_id: u64,
        out: &mut Output,
    ) -> Progress {
        if let Err(error) = superblocks::check(&config, devices, create.is_some()) {
            out.events.push_back(StoreEvent::OpenFailed(error));
            return Progress::Failed;
        }
        let mut opener = Self {
            config,
            create,
            expected,
            use_id,
            given: devices
                .iter()
                .map(|geometry| Device {
                    geometry: *geometry,
                    copies: [None, None],
                })
                .collect(),
            devices: Vec::new(),
            strays: Vec::new(),
            back: Vec::new(),
            step: Step::Read,
            requests: Requests::new(config.requests_max),
            in_flight: 0,
            slivers: Slivers::new(1),
        };
        for index in 0..opener.given.len() {
            let disk = opener.given[index].geometry.disk;
            for (copy, offset) in SUPERBLOCK_OFFSETS.into_iter().enumerate() {
                let op = DiskOp::Read {
                    offset,
                    length: SUPERBLOCK_BYTES as u32,
                };
                opener.ask(2 * index + copy, disk, op);
            }
        }
        opener.requests.release(&mut out.requests);
        Progress::Opening(Box::new(opener))
    }

    pub(crate) fn handle(
        mut self: Box<Self>,
        now: Instant,
        completion: DiskCompletion,
        out: &mut Output,
    ) -> Progress {
        let disk = self.requests.complete(completion.token);
        self.in_flight -= 1;
        if let Err(error) = self.go_on(completion, disk) {
            out.events.push_back(StoreEvent::OpenFailed(error));
            return Progress::Failed;
        }
        let open = matches!(&self.step, Step::Placed(step) if step.2.is_done());
        if open {
            return Progress::Open(self.finish(now, out));
        }
        self.requests.release(&mut out.requests);
        Progress::Opening(self)
    }

    /// Takes the end of a request to `disk`.
    fn go_on(&mut self, completion: DiskCompletion, disk: DiskId) -> Result<(), OpenError> {
        let failed = OpenError::DeviceFailed { disk };
        let mut requests = Vec::new();
        match &mut self.step {
            Step::Read => {
                let token = completion.token.0 as usize;
                self.given[token / 2].copies[token % 2] = Some(completion.result);
                if self.in_flight == 0 {
                    self.superblocks_read()?;
                }
            }
            Step::Prepare => {
                completion.result.map_err(|_| failed)?;
                if self.in_flight == 0 {
                    self.step = Step::PrepareFlush;
                    let (journal, _) = self.devices[0];
                    self.ask(0, journal.disk, DiskOp::Flush);
                }
            }
            Step::PrepareFlush => {
                completion.result.map_err(|_| failed)?;
                self.write_superblocks(Stage::Create, 0);
            }
            Step::Write { stage, copy } => {
                completion.result.map_err(|_| failed)?;
                let (stage, copy) = (*stage, *copy);
                if self.in_flight == 0 {
                    match (stage, copy) {
                        (stage, 0) => self.write_superblocks(stage, 1),
                        (Stage::Create, _) => self.begin_use()?,
                        (Stage::Claim, _) => self.write_superblocks(Stage::Follow, 0),
                        (Stage::Follow, _) => self.count_use(Stage::Begin),
                        (Stage::Begin, _) => self.recover_journal(),
                    }
                }
            }
            Step::Journal(_) => self.take_of_journal(completion, disk)?,
            Step::Pages(step) => {
                step.1
                    .handle(completion, &mut requests)
                    .map_err(|_| failed)?;
                let done = step.1.is_done();
                self.push(requests);
                if done {
                    self.fetch_placed();
                }
            }
            Step::Placed(step) => {
                let (_, pages, fetch) = &mut **step;
                fetch.take(completion, pages, &mut requests);
                self.push(requests);
            }
        }
        Ok(())
    }

    fn take_of_journal(
        &mut self,
        completion: DiskCompletion,
        disk: DiskId,
    ) -> Result<(), OpenError> {
        // The counter has been raised for this start.
        let known = self.devices[0].1.use_counter - 1;
        let Step::Journal(recovery) = &mut self.step else {
            unreachable!("the journal is being recovered");
        };
        let mut requests = Vec::new();
        let mut found = Vec::new();
        recovery
            .handle(completion, &mut requests, &mut found)
            .map_err(|error| match error {
                RecoveryFailed::Device => OpenError::DeviceFailed { disk },
                RecoveryFailed::UseCounterBehind { start } => {
                    OpenError::OlderSuperblocks { disk, known, start }
                }
            })?;
        let done = recovery.is_done();
        for found in found {
            self.slivers.take(found);
        }
        self.push(requests);
        if done {
            self.open_pages();
        }
        Ok(())
    }

    /// The superblock of the device with the journal.
    fn first(&self) -> &Superblock {
        let (_, superblock) = &self.devices[0];
        superblock
    }

    fn ask(&mut self, token: usize, disk: DiskId, op: DiskOp) {
        let request = DiskRequest {
            token: DiskToken(token as u64),
            disk,
            op,
        };
        self.push(vec![request]);
    }

    fn push(&mut self, requests: Vec<DiskRequest>) {
        self.in_flight += requests.len() as u32;
        for request in requests {
            self.requests.push(request, Urgency::Read);
        }
    }

    fn superblocks_read(&mut self) -> Result<(), OpenError> {
        match self.create {
            Some(identity) => {
                for device in &self.given {
                    superblocks::must_be_blank(&device.geometry, &device.copies)?;
                }
                let geometries: Vec<DeviceGeometry> =
                    self.given.iter().map(|device| device.geometry).collect();
                let format = &self.config.format;
                self.devices = superblocks::plan(format, &identity, &geometries, self.use_id)?;
                self.step = Step::Prepare;
                let requests = Journal::format(&self.journal_place()).collect();
                self.push(requests);
            }
            None => {
                let found = self.given.iter().map(|device| {
                    let found = superblocks::newest(&device.geometry, &device.copies);
                    (device.geometry, found)
                });
                let members = members::choose(found.collect(), &self.expected)?;
                superblocks::must_carry(&self.config, &members.devices[0])?;
                self.devices = members.devices;
                self.strays = members.strays;
                self.back = members.back;
                let (_, first) = &mut self.devices[0];
                journal_move::call_off(&mut first.list);
                self.go_without(&members.missing);
                self.begin_use()?;
            }
        }
        Ok(())
    }

    /// The list says which devices are missing from now on.
    fn go_without(&mut self, missing: &[u16]) {
        if missing.is_empty() {
            return;
        }
        let (_, first) = &mut self.devices[0];
        let absence = Absence {
            is_lost: false,
            last_use: members::last_use(first),
        };
        first.list.generation += 1;
        for device in &mut first.list.devices {
            if missing.contains(&device.ordinal) {
                device.absent = Some(absence);
            }
        }
    }

    /// Raises the use counter, on all devices to the same number, and gives all the same list.
    fn begin_use(&mut self) -> Result<(), OpenError> {
        superblocks::adopt(&mut self.devices, self.use_id)?;
        let use_counter = members::next_use(self.first());
        for (_, superblock) in &mut self.devices {
            superblock.use_counter = use_counter;
            superblock.places = true;
            superblock.use_ids.begin(use_counter, self.use_id);
            superblock.update += 1;
        }
        // A single device has nobody to wait for.
        let is_single = self.devices.len() == 1;
        self.count_use(if is_single {
            Stage::Begin
        } else {
            Stage::Claim
        });
        Ok(())
    }

    /// Announces the use, or lets it begin.
    fn count_use(&mut self, stage: Stage) {
        let (_, superblock) = &mut self.devices[0];
        superblock.claimed = stage == Stage::Claim;
        superblock.update += 1;
        self.write_superblocks(stage, 0);
    }

    fn write_superblocks(&mut self, stage: Stage, copy: usize) {
        self.step = Step::Write { stage, copy };
        for index in 0..self.devices.len() {
            let (geometry, superblock) = &self.devices[index];
            if !stage.concerns(index) {
                continue;
            }
            let mut given = self.given.iter();
            let read = given.find(|device| device.geometry.disk == geometry.disk);
            let first = superblocks::written_first(&read.expect("it was given").copies);
            let op = DiskOp::Write {
                offset: SUPERBLOCK_OFFSETS[copy ^ first],
                parts: vec![superblock.encode()],
                durable: true,
            };
            self.ask(index, geometry.disk, op);
        }
    }

    fn journal_place(&self) -> JournalPlace {
        let (geometry, superblock) = &self.devices[0];
        JournalPlace {
            disk: geometry.disk,
            layout: superblock.layout,
            store: superblock.store,
            nonce: superblock.nonce,
            use_counter: superblock.use_counter,
            partitions: superblock.partitions,
            token_base: JOURNAL_TOKENS,
        }
    }

    fn recover_journal(&mut self) {
        let place = self.journal_place();
        self.slivers = Slivers::new(place.partitions);
        let mut requests = Vec::new();
        let recovery = Recovery::start(place, &mut requests);
        self.step = Step::Journal(Box::new(recovery));
        self.push(requests);
    }

    fn open_pages(&mut self) {
        let devices = self
            .devices
            .iter()
            .map(|(geometry, superblock)| PagesDevice {
                disk: geometry.disk,
                layout: superblock.layout,
                slot_base: superblock.slot_base,
                tier: superblock.tier,
                is_drained: {
                    let listed = superblock.list.device(superblock.ordinal);
                    listed.is_some_and(|listed| listed.state != DeviceState::InUse)
                },
            });
        let mut devices: Vec<PagesDevice> = devices.collect();
        // Wherever the journal is, slots are numbered as the devices came.
        devices.sort_by_key(|device| device.slot_base);
        let place = PagesPlace {
            devices,
            nonce: self.first().nonce,
            use_counter: self.first().use_counter,
            token_base: PAGES_TOKENS,
        };
        let mut requests = Vec::new();
        let memory = PagesMemory {
            table_bytes: self.config.table_cache_bytes,
            block_bytes: self.config.block_cache_bytes,
        };
        let opening = Opening::start(place, memory, &mut requests);
        let step = core::mem::replace(&mut self.step, Step::Read);
        let Step::Journal(recovery) = step else {
            unreachable!("the journal has just been recovered");
        };
        self.step = Step::Pages(Box::new((recovery.finish(), opening)));
        self.push(requests);
    }

    fn fetch_placed(&mut self) {
        let step = core::mem::replace(&mut self.step, Step::Read);
        let Step::Pages(step) = step else {
            unreachable!("the page table has just been read");
        };
        let (journal, opening) = *step;
        let pages = opening.finish();
        let mut fetch = Fetch::new(&mut self.slivers);
        let mut requests = Vec::new();
        fetch.go_on(&pages, &mut requests);
        self.step = Step::Placed(Box::new((journal, pages, fetch)));
        self.push(requests);
    }

    fn finish(self, now: Instant, out: &mut Output) -> Box<Core> {
        assert!(self.in_flight == 0, "nothing is in flight when all is read");
        let Step::Placed(step) = self.step else {
            unreachable!("all has just been read");
        };
        let (journal, pages, fetch) = *step;
        let mut slivers = self.slivers;
        fetch.finish(&mut slivers);
        let mut core = Core::rebuild(
            self.config,
            journal,
            pages,
            self.requests,
            slivers,
            (Devices::new(self.devices, self.back), self.strays),
            now,
        );
        core.maintain(now, out);
        Box::new(core)
    }
}
