//! A round of destage: many pages written with one flush for each step.
//!
//! 1. the table blocks of all slots concerned are loaded, new slots are chosen, and what moves is read;
//!    the owner is told which pages come and go, and logs those that go;
//! 2. blocks are written in place, each device is flushed;
//! 3. when the removals are logged, table entries are written, both copies, each device is flushed;
//! 4. slots that were freed can be used again; the owner is told.
//!
//! A crash after 2 leaves blocks that do not match their old entries: the owner's journal still has
//! them. A crash in 3 leaves some entries old and some new: each is right for what it describes.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use holdfast_format::{PageEntry, PageKey, SlotContent, TABLE_BLOCK};
use holdfast_model::{BLOCK_SIZE, DiskId, DiskOp, DiskRequest, Sequence};
use holdfast_stdx::Bytes;

use crate::PagesEvent;
use crate::job::{PageJob, PageWork, Paint, RoundPlan};
use crate::moves::Fetch;
use crate::pages::{Asked, NO_SLOT, PageState, Pages};
use crate::place::TableBlockId;
use crate::read::runs_of;
use crate::target::{PageChecksums, Target, painted};

/// Left-over entries that one round clears at most, to bound the table blocks that it pins.
pub(crate) const ZOMBIES_PER_ROUND: usize = 256;

#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) key: PageKey,
    written: Sequence,
    pub(crate) paints: Vec<(u32, Paint)>,
    drop: bool,
    pub(crate) slot: u32,
    /// The round has taken the slot for it.
    pub(crate) is_chosen: bool,
    /// The slot that it leaves, if it moves.
    pub(crate) from: Option<u32>,
    /// The slot that it leaves, if it is in another one already: its entry is cleared with the new one's writing, for the owner's
    /// journal has all of the page until both are on stable storage.
    pub(crate) leaves: Option<u32>,
    /// The checksums of what is in the slot already.
    adopted: Option<PageChecksums>,
    /// What the page will be.
    target: Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Loading,
    Fetching,
    Data,
    DataFlush,
    Logging,
    Table,
    TableFlush,
}

#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) jobs: Vec<Job>,
    /// Slots whose entries are cleared because they name a page that is not there.
    pub(crate) zombies: Vec<u32>,
    pub(crate) step: Step,
    in_flight: u32,
    missing: BTreeSet<TableBlockId>,
    /// Those that are written.
    blocks: BTreeSet<TableBlockId>,
    /// Those of which a copy was bad.
    mended: BTreeSet<TableBlockId>,
    /// Those of slots that pages leave.
    sources: BTreeSet<TableBlockId>,
    pub(crate) fetches: Vec<Fetch>,
    plan: RoundPlan,
    logged: bool,
    /// Slots that it has taken, of the devices that are not drained.
    pub(crate) chosen: u32,
    /// Slots that it gives back at its end for those, of the devices that are not drained.
    pub(crate) left: u32,
}

impl Round {
    /// Slots that no page has and that are not free, of the devices that are not drained: those taken for pages that are not in the
    /// map with them yet, then those that these have left.
    pub(crate) fn between(&self) -> u32 {
        match self.step {
            Step::Loading | Step::Fetching | Step::Data | Step::DataFlush | Step::Logging => {
                self.chosen
            }
            Step::Table | Step::TableFlush => self.left,
        }
    }
}

impl Pages {
    /// Whether a round is under way.
    #[must_use]
    pub fn is_in_round(&self) -> bool {
        self.round.is_some()
    }

    /// Whether the round under way writes this block in place.
    pub(crate) fn is_being_written(&self, key: PageKey, block: u32) -> bool {
        self.round.as_ref().is_some_and(|round| {
            round
                .jobs
                .iter()
                .filter(|job| job.key == key)
                .any(|job| job.paints.iter().any(|(painted, _)| *painted == block))
        })
    }

    /// Begins a round. There must be a free slot for every page that will need one, and there are no jobs
    /// while entries [must be cleared](Self::must_clear).
    pub fn begin_round(
        &mut self,
        jobs: Vec<PageJob>,
        requests: &mut Vec<DiskRequest>,
        events: &mut Vec<PagesEvent>,
    ) {
        assert!(self.round.is_none(), "one round at a time");
        assert!(
            jobs.is_empty() || !self.must_clear(),
            "what is left over of a page goes before the page is written"
        );
        let jobs: Vec<Job> = jobs.into_iter().map(|job| self.prepare(job)).collect();
        let kept = self.zombies.len().saturating_sub(ZOMBIES_PER_ROUND);
        let zombies = self.zombies.split_off(kept);
        let blocks: BTreeSet<TableBlockId> = jobs
            .iter()
            .flat_map(|job| [Some(job.slot), job.leaves])
            .flatten()
            .filter(|slot| *slot != NO_SLOT)
            .chain(zombies.iter().copied())
            .map(TableBlockId::of_slot)
            .collect();
        let mut mended = self.take_bad_copies();
        mended.retain(|block| !blocks.contains(block));
        let sources: BTreeSet<TableBlockId> = jobs
            .iter()
            .filter_map(|job| job.from)
            .map(TableBlockId::of_slot)
            .filter(|block| !blocks.contains(block) && !mended.contains(block))
            .collect();
        let mut missing = BTreeSet::new();
        for block in blocks.iter().chain(&mended).chain(&sources) {
            if self.cache.contains(*block) {
                self.cache.pin(*block);
            } else {
                missing.insert(*block);
                self.load(*block, requests);
            }
        }
        self.round = Some(Round {
            jobs,
            zombies,
            step: Step::Loading,
            in_flight: 0,
            missing,
            blocks,
            mended,
            sources,
            fetches: Vec::new(),
            plan: RoundPlan::default(),
            logged: false,
            chosen: 0,
            left: 0,
        });
        self.count_chosen();
        self.round_goes_on(requests, events);
    }

    /// Whether the round under way writes this block of the table.
    pub(crate) fn is_in_table_round(&self, block: TableBlockId) -> bool {
        let round = self.round.as_ref();
        round.is_some_and(|round| round.blocks.contains(&block) || round.mended.contains(&block))
    }

    /// The removals of the round's plan are on stable storage in the owner's journal.
    pub fn proceed(&mut self, requests: &mut Vec<DiskRequest>, events: &mut Vec<PagesEvent>) {
        let round = self.round.as_mut().expect("a round is under way");
        assert!(!round.logged, "a round proceeds once");
        round.logged = true;
        if round.step == Step::Logging {
            self.write_table(requests, events);
        }
    }

    /// Chooses the job's slot: the page's own, or a free one if the page has none and will have
    /// something in it.
    fn prepare(&mut self, job: PageJob) -> Job {
        let state = self.state(job.key);
        let lost = self.lost.get(&job.key).copied().unwrap_or(0);
        let (paints, drop, moves) = match job.work {
            PageWork::Paint(paints) => (paints, false, false),
            PageWork::Drop => (Vec::new(), true, false),
            PageWork::Move => (Vec::new(), false, true),
            PageWork::Adopt { slot, checksums } => {
                return self.prepare_adoption(job.key, job.written, slot, checksums);
            }
        };
        let mut slot = state.map_or(NO_SLOT, |state| state.slot);
        let from = moves.then_some(slot);
        let own = slot;
        if moves {
            assert!(slot != NO_SLOT, "a page that moves has a slot");
            slot = self.slots.take().expect("the owner knows of a free slot");
        }
        if slot == NO_SLOT && !drop {
            let remains = painted(
                &Target {
                    lost,
                    ..Target::default()
                },
                &paints,
            );
            if !remains.is_nothing() {
                slot = self.slots.take().expect("the owner has reserved a slot");
            }
        }
        Job {
            key: job.key,
            written: job.written,
            paints,
            drop,
            slot,
            is_chosen: slot != own,
            from,
            leaves: None,
            adopted: None,
            target: Target::default(),
        }
    }

    fn prepare_adoption(
        &mut self,
        key: PageKey,
        written: Sequence,
        slot: u32,
        checksums: PageChecksums,
    ) -> Job {
        self.placed_is_adopted(slot);
        let own = self.state(key).map(|state| state.slot);
        Job {
            key,
            written,
            paints: Vec::new(),
            drop: false,
            slot,
            is_chosen: true,
            from: None,
            leaves: own.filter(|own| *own != NO_SLOT),
            adopted: Some(checksums),
            target: Target::default(),
        }
    }

    pub(crate) fn round_goes_on(
        &mut self,
        requests: &mut Vec<DiskRequest>,
        events: &mut Vec<PagesEvent>,
    ) {
        let Some(round) = &mut self.round else {
            self.cache.evict();
            return;
        };
        if round.step == Step::Loading {
            let loaded: Vec<TableBlockId> = round
                .missing
                .iter()
                .copied()
                .filter(|block| self.cache.contains(*block))
                .collect();
            for block in loaded {
                round.missing.remove(&block);
                self.cache.pin(block);
            }
            if round.missing.is_empty() {
                self.fetch_round(requests, events);
            }
        }
        self.cache.evict();
    }

    /// Every entry concerned is in memory: decides what each page will be, and writes the blocks.
    pub(crate) fn plan_round(
        &mut self,
        requests: &mut Vec<DiskRequest>,
        events: &mut Vec<PagesEvent>,
    ) {
        let mut round = self.round.take().expect("a round is under way");
        for job in &mut round.jobs {
            job.target = if job.drop {
                Target::default()
            } else if let Some(checksums) = &job.adopted {
                Target::whole(checksums.clone())
            } else {
                painted(&self.known(job.key), &job.paints)
            };
            let exists = self.state(job.key).is_some();
            if exists && job.target.is_nothing() {
                round.plan.removed.push(job.key);
            } else if !exists && !job.target.is_nothing() {
                round.plan.added.push(job.key);
            }
        }
        round.step = Step::Data;
        events.push(PagesEvent::Planned(round.plan.clone()));
        for job in &round.jobs {
            round.in_flight += self.write_blocks(job, requests);
        }
        let nothing = round.in_flight == 0;
        self.round = Some(round);
        if nothing {
            self.data_is_down(requests, events);
        }
    }

    /// What is in a page now, with its checksums. What no valid entry vouches for is lost.
    pub(crate) fn known(&mut self, key: PageKey) -> Target {
        let Some(state) = self.state(key) else {
            return Target::default();
        };
        let lost = self.lost.get(&key).copied().unwrap_or(0);
        if state.slot == NO_SLOT {
            return Target {
                lost,
                ..Target::default()
            };
        }
        let suspect = self.suspect.get(&key).copied().unwrap_or(0);
        let block = self
            .cache
            .block(TableBlockId::of_slot(state.slot))
            .expect("the round's blocks are in memory");
        match block.entry(state.slot) {
            Some(PageEntry {
                version,
                content:
                    SlotContent::Page {
                        key: found,
                        checksums,
                        ..
                    },
                ..
            }) if *version == state.version && *found == key => Target {
                mask: state.mask & !lost,
                lost,
                suspect: suspect & !lost,
                checksums: Some(checksums.clone()),
            },
            _ => Target {
                lost: lost | state.mask,
                ..Target::default()
            },
        }
    }

    fn write_blocks(&mut self, job: &Job, requests: &mut Vec<DiskRequest>) -> u32 {
        if job.target.is_nothing() {
            return 0;
        }
        let (disk, slot_offset) = self.place.slot_offset(job.slot);
        let mut data: BTreeMap<u32, Bytes> = BTreeMap::new();
        let mut mask = 0;
        for (block, paint) in &job.paints {
            if let Paint::Data { data: bytes, .. } = paint {
                data.insert(*block, bytes.clone());
                mask |= 1 << block;
            }
        }
        let mut writes = 0;
        for (first, count) in runs_of(mask) {
            let parts = (first..first + count)
                .map(|block| data[&block].clone())
                .collect();
            let op = DiskOp::Write {
                offset: slot_offset + u64::from(first) * BLOCK_SIZE as u64,
                parts,
                durable: false,
            };
            self.ask(Asked::Round, disk, op, requests);
            writes += 1;
        }
        writes
    }

    /// A write or a flush of the round is done.
    pub(crate) fn round_step_done(
        &mut self,
        requests: &mut Vec<DiskRequest>,
        events: &mut Vec<PagesEvent>,
    ) {
        let round = self.round.as_mut().expect("a round is under way");
        assert!(round.in_flight > 0, "a request of the round was in flight");
        round.in_flight -= 1;
        if round.in_flight > 0 {
            return;
        }
        match round.step {
            Step::Data => {
                let disks = self.data_disks();
                self.flush(Step::DataFlush, disks, requests);
            }
            Step::DataFlush => self.data_is_down(requests, events),
            Step::Table => {
                let disks = self.table_disks();
                self.flush(Step::TableFlush, disks, requests);
            }
            Step::TableFlush => self.end_round(events),
            Step::Loading | Step::Fetching | Step::Logging => {
                unreachable!("nothing is written in these steps")
            }
        }
    }

    fn data_disks(&self) -> BTreeSet<DiskId> {
        let round = self.round.as_ref().expect("a round is under way");
        round
            .jobs
            .iter()
            .filter(|job| !job.target.is_nothing() && job.adopted.is_none())
            .map(|job| self.place.slot_offset(job.slot).0)
            .collect()
    }

    fn table_disks(&self) -> BTreeSet<DiskId> {
        let round = self.round.as_ref().expect("a round is under way");
        round
            .blocks
            .iter()
            .map(|block| self.place.table_offset(0, *block).0)
            .collect()
    }

    fn flush(&mut self, step: Step, disks: BTreeSet<DiskId>, requests: &mut Vec<DiskRequest>) {
        assert!(!disks.is_empty(), "what was written is on some disk");
        let round = self.round.as_mut().expect("a round is under way");
        round.step = step;
        round.in_flight = disks.len() as u32;
        for disk in disks {
            self.ask(Asked::Round, disk, DiskOp::Flush, requests);
        }
    }

    fn data_is_down(&mut self, requests: &mut Vec<DiskRequest>, events: &mut Vec<PagesEvent>) {
        let round = self.round.as_mut().expect("a round is under way");
        round.step = Step::Logging;
        if round.logged {
            self.write_table(requests, events);
        }
    }

    /// The blocks are on stable storage and the removals logged: memory and table change.
    fn write_table(&mut self, requests: &mut Vec<DiskRequest>, events: &mut Vec<PagesEvent>) {
        let mut round = self.round.take().expect("a round is under way");
        for job in &round.jobs {
            self.change_entry(job);
        }
        for slot in &round.zombies {
            self.set_entry(*slot, SlotContent::Free);
        }
        events.push(PagesEvent::Mapped(round.plan.clone()));
        for block in core::mem::take(&mut round.mended) {
            let written = match self.is_known(block) {
                true => &mut round.blocks,
                false => &mut round.sources,
            };
            written.insert(block);
        }
        round.step = Step::Table;
        let blocks = self.cache.encoded(&round.blocks, self.place.nonce);
        for copy in 0..2 {
            for (disk, offset, parts) in self.table_writes(copy, &blocks) {
                let op = DiskOp::Write {
                    offset,
                    parts,
                    durable: false,
                };
                self.ask(Asked::Round, disk, op, requests);
                round.in_flight += 1;
            }
        }
        let nothing = round.in_flight == 0;
        self.round = Some(round);
        if nothing {
            self.end_round(events);
        }
    }

    fn change_entry(&mut self, job: &Job) {
        let target = &job.target;
        remember(&mut self.lost, job.key, target.lost);
        remember(&mut self.suspect, job.key, target.suspect);
        let mut version = 0;
        if job.slot != NO_SLOT {
            let content = if target.is_nothing() {
                SlotContent::Free
            } else {
                SlotContent::Page {
                    key: job.key,
                    written: job.written,
                    mask: target.mask,
                    bad: target.lost | target.suspect,
                    checksums: target.checksums.clone().unwrap_or(Box::new([0; 64])),
                }
            };
            version = self.set_entry(job.slot, content);
        }
        let state = (!target.is_nothing()).then_some(PageState {
            slot: job.slot,
            version,
            written: job.written,
            mask: target.mask,
        });
        self.set_state(job.key, state);
        let left = job.from.or(job.leaves);
        let is_anew = target.is_nothing() || left.is_some() || job.adopted.is_some();
        let slots = [left.unwrap_or(NO_SLOT), job.slot];
        self.block_cache.follow(slots, is_anew, &job.paints);
        self.ahead.follow(slots, is_anew, &job.paints);
        if let Some(left) = job.leaves {
            self.set_entry(left, SlotContent::Free);
        }
        // Its entry is left over, and goes when the new one is on stable storage.
        self.zombies.extend(job.from);
    }

    fn set_entry(&mut self, slot: u32, content: SlotContent) -> u64 {
        let version = self.next_version();
        let entry = PageEntry {
            version,
            slot,
            content,
        };
        self.cache
            .block_mut(TableBlockId::of_slot(slot))
            .expect("the round's blocks are in memory")
            .set(entry);
        version
    }

    /// The writes of one copy of the table: neighbouring blocks together.
    fn table_writes(
        &self,
        copy: usize,
        blocks: &[(TableBlockId, Bytes)],
    ) -> Vec<(DiskId, u64, Vec<Bytes>)> {
        let mut writes: Vec<(DiskId, u64, Vec<Bytes>)> = Vec::new();
        for (id, bytes) in blocks {
            let (disk, offset) = self.place.table_offset(copy, *id);
            let bytes = bytes.clone();
            match writes.last_mut() {
                Some((last_disk, last_offset, parts))
                    if *last_disk == disk
                        && *last_offset + (parts.len() * TABLE_BLOCK) as u64 == offset =>
                {
                    parts.push(bytes);
                }
                _ => writes.push((disk, offset, vec![bytes])),
            }
        }
        writes
    }

    fn end_round(&mut self, events: &mut Vec<PagesEvent>) {
        let round = self.round.take().expect("a round is under way");
        for job in &round.jobs {
            if job.slot != NO_SLOT && job.target.is_nothing() {
                self.slots.release(job.slot);
            }
            if let Some(left) = job.leaves {
                self.slots.release(left);
            }
        }
        for slot in &round.zombies {
            self.leftover_is_clear(*slot);
        }
        for block in round.blocks.iter().chain(&round.sources) {
            self.cache.unpin(*block);
        }
        events.push(PagesEvent::RoundDone(round.plan));
    }
}

/// Keeps the masks that are not empty.
fn remember(masks: &mut BTreeMap<PageKey, u64>, key: PageKey, mask: u64) {
    if mask == 0 {
        masks.remove(&key);
    } else {
        masks.insert(key, mask);
    }
}
