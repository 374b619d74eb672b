//! Pages that go from a device which is to become empty to others.
//!
//! A move is a job of a round: the page's blocks are read and verified, written to a free slot elsewhere,
//! flushed, and then the new slot's entry is written. The old slot's entry is left over until then, and
//! is cleared by a later round: of two slots with the same page the newer counts, so the page is there
//! at every moment.
//!
//! Invariants:
//! - a slot of a device that is drained is never given out, so pages only go;
//! - a block that is bad where it comes from is known to be bad where it goes, with the checksum that
//!   its contents should have.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound;

use holdfast_format::{PageKey, PatientRead};
use holdfast_model::{
    BLOCK_SIZE, DiskError, DiskId, DiskRequest, PAGES_PER_SLICE, PageIndex, SliceId,
};
use holdfast_stdx::{Bytes, crc32c};

use crate::PagesEvent;
use crate::job::Paint;
use crate::pages::{Asked, NO_SLOT, Pages};
use crate::place::PagesDevice;
use crate::read::runs_of;
use crate::round::Step;
use crate::target::PageChecksums;

/// Blocks of a page that moves, on their way.
#[derive(Debug)]
pub(crate) struct Fetch {
    /// Which of the round's jobs they are for.
    job: usize,
    first: u32,
    disk: DiskId,
    reader: PatientRead,
    data: Option<Bytes>,
}

/// Pages that are to move, and how far the map has been looked through for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToMove {
    /// The pages, in order.
    pub pages: Vec<PageKey>,
    /// From where to go on; nothing once the whole map has been looked through.
    pub next: Option<PageKey>,
}

impl Pages {
    /// Adds a device, whose slots are numbered after those of all others. There is nothing on it.
    pub fn add_device(&mut self, device: PagesDevice) {
        let last = self.place.devices.last().expect("a store has a device");
        assert!(
            device.slot_base >= last.slot_base + last.layout.slot_count,
            "numbers of slots are given out once"
        );
        self.slots.add(&device);
        self.place.devices.push(device);
    }

    /// Gives out no slots of a device any more: its pages have to move.
    pub fn drain(&mut self, disk: DiskId) {
        let device = self.device_mut(disk);
        device.is_drained = true;
        let slot_base = device.slot_base;
        self.slots.stop_giving(slot_base);
        self.count_chosen();
    }

    /// Gives out the slots of a device that was added as drained.
    pub fn begin_giving(&mut self, disk: DiskId) {
        let device = self.device_mut(disk);
        device.is_drained = false;
        let slot_base = device.slot_base;
        self.slots.begin_giving(slot_base);
        self.count_chosen();
    }

    /// Counts the slots that the round under way has taken, and those that it gives back: devices are drained, or not any more.
    pub(crate) fn count_chosen(&mut self) {
        let Some(round) = &mut self.round else {
            return;
        };
        let counts = |slot: &u32| !self.place.device_of_slot(*slot).is_drained;
        let chosen = round.jobs.iter().filter(|job| job.is_chosen);
        round.chosen = chosen.map(|job| job.slot).filter(counts).count() as u32;
        let left = round.jobs.iter().filter_map(|job| job.leaves);
        round.left = left.filter(counts).count() as u32;
    }

    /// Forgets a device that is drained and of which no slot is used. Nothing may be under way on it.
    pub fn remove_device(&mut self, disk: DiskId) {
        assert!(self.used_slots(disk) == 0, "the device is empty");
        let device = *self.device_mut(disk);
        assert!(device.is_drained, "no slot of it may be given out");
        self.slots.remove(device.slot_base);
        self.place.devices.retain(|other| other.disk != disk);
        let end = device.slot_base + device.layout.slot_count;
        self.cache.forget(device.slot_base..end);
    }

    fn device_mut(&mut self, disk: DiskId) -> &mut PagesDevice {
        let mut devices = self.place.devices.iter_mut();
        let device = devices.find(|device| device.disk == disk);
        device.expect("the store has the device")
    }

    /// Slots of a device that have a page, or an entry that is to be cleared.
    #[must_use]
    pub fn used_slots(&self, disk: DiskId) -> u32 {
        let mut devices = self.place.devices.iter();
        let device = devices.find(|device| device.disk == disk);
        let device = device.expect("the store has the device");
        self.slots.used(device.slot_base)
    }

    /// Pages that have to move.
    #[must_use]
    pub fn pages_to_move(&self) -> u32 {
        let drained = self.place.devices.iter().filter(|device| device.is_drained);
        let used: u32 = drained
            .map(|device| self.slots.used(device.slot_base))
            .sum();
        if used == 0 {
            return 0;
        }
        let left_over = self.zombies.iter().chain(self.zombies_of_round());
        let left_over = left_over
            .filter(|slot| self.place.device_of_slot(**slot).is_drained)
            .count();
        used - left_over as u32
    }

    /// Looks for pages that have to move, in the order of the map, at no more than `looked_max` pages, until
    /// there are `count_max`. Those that `wait` says are left out.
    #[must_use]
    pub fn next_to_move(
        &self,
        from: Option<PageKey>,
        (count_max, looked_max): (usize, usize),
        wait: impl Fn(PageKey) -> bool,
    ) -> ToMove {
        let mut pages = Vec::new();
        let mut looked = 0;
        let first = from.map_or(Bound::Unbounded, |key| Bound::Included(key.slice));
        for (slice, states) in self.map.range::<SliceId, _>((first, Bound::Unbounded)) {
            let begin = from.filter(|key| key.slice == *slice);
            let begin = begin.map_or(PageIndex(0), |key| key.page);
            for (page, state) in states.range(begin..=PageIndex(PAGES_PER_SLICE - 1)) {
                let key = PageKey {
                    slice: *slice,
                    page,
                };
                if pages.len() == count_max || looked == looked_max {
                    let next = Some(key);
                    return ToMove { pages, next };
                }
                looked += 1;
                let moves = state.slot != NO_SLOT
                    && self.place.device_of_slot(state.slot).is_drained
                    && !wait(key);
                if moves {
                    pages.push(key);
                }
            }
        }
        ToMove { pages, next: None }
    }

    /// Every entry concerned is in memory: reads what moves.
    pub(crate) fn fetch_round(
        &mut self,
        requests: &mut Vec<DiskRequest>,
        events: &mut Vec<PagesEvent>,
    ) {
        let round = self.round.as_mut().expect("a round is under way");
        round.step = Step::Fetching;
        let jobs = round.jobs.iter().enumerate();
        let sources = jobs
            .filter_map(|(number, job)| Some((number, job.key, job.from?)))
            .collect();
        let fetches = self.fetch(sources, requests);
        let nothing = fetches.is_empty();
        *self.fetches_of_round() = fetches;
        if nothing {
            self.plan_round(requests, events);
        }
    }

    fn fetches_of_round(&mut self) -> &mut Vec<Fetch> {
        let round = self.round.as_mut().expect("a round is under way");
        &mut round.fetches
    }

    fn key_of_job(&self, job: usize) -> PageKey {
        let round = self.round.as_ref().expect("a round is under way");
        round.jobs[job].key
    }

    /// Left-over entries that the round under way clears.
    fn zombies_of_round(&self) -> impl Iterator<Item = &u32> {
        self.round.iter().flat_map(|round| &round.zombies)
    }

    /// What moves has been read.
    fn fetched(
        &mut self,
        paints: BTreeMap<usize, Vec<(u32, Paint)>>,
        requests: &mut Vec<DiskRequest>,
        events: &mut Vec<PagesEvent>,
    ) {
        let round = self.round.as_mut().expect("a round is under way");
        for (job, paints) in paints {
            round.jobs[job].paints = paints;
        }
        self.plan_round(requests, events);
    }

    /// The blocks that are in a page, with the checksums of all.
    fn known_checksums(&mut self, key: PageKey) -> (u64, PageChecksums) {
        let known = self.known(key);
        (known.mask, known.checksums.unwrap_or(Box::new([0; 64])))
    }

    /// Reads the blocks of the pages that move: the round's table entries are in memory.
    fn fetch(
        &mut self,
        sources: Vec<(usize, PageKey, u32)>,
        requests: &mut Vec<DiskRequest>,
    ) -> Vec<Fetch> {
        let mut fetches = Vec::new();
        for (job, key, slot) in sources {
            let (disk, offset) = self.place.slot_offset(slot);
            let (mask, _) = self.known_checksums(key);
            for (first, count) in runs_of(mask) {
                let offset = offset + u64::from(first) * BLOCK_SIZE as u64;
                let (reader, op) = PatientRead::start(offset, count * BLOCK_SIZE as u32);
                self.ask(Asked::Fetch(fetches.len()), disk, op, requests);
                fetches.push(Fetch {
                    job,
                    first,
                    disk,
                    reader,
                    data: None,
                });
            }
        }
        fetches
    }

    pub(crate) fn take_fetch(
        &mut self,
        number: usize,
        result: Result<Bytes, DiskError>,
        requests: &mut Vec<DiskRequest>,
        events: &mut Vec<PagesEvent>,
    ) {
        let fetches = self.fetches_of_round();
        let fetch = &mut fetches[number];
        match fetch.reader.take(result) {
            Ok(data) => fetch.data = Some(data),
            Err(op) => {
                let disk = fetch.disk;
                self.ask(Asked::Fetch(number), disk, op, requests);
                return;
            }
        }
        if fetches.iter().all(|fetch| fetch.data.is_some()) {
            let fetched = core::mem::take(fetches);
            let mut paints: BTreeMap<usize, Vec<(u32, Paint)>> = BTreeMap::new();
            for fetch in &fetched {
                let key = self.key_of_job(fetch.job);
                let (_, checksums) = self.known_checksums(key);
                let data = fetch.data.as_ref().expect("all have been read");
                let paints = paints.entry(fetch.job).or_default();
                for (place, block) in (0..data.len() / BLOCK_SIZE).zip(fetch.first..) {
                    let data = data.slice(place * BLOCK_SIZE..(place + 1) * BLOCK_SIZE);
                    let checksum = checksums[block as usize];
                    let paint = if crc32c(&data) == checksum {
                        Paint::Data { data, checksum }
                    } else {
                        Paint::Bad(Some(checksum))
                    };
                    paints.push((block, paint));
                }
            }
            self.fetched(paints, requests, events);
        }
    }
}
