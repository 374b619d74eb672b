//! Destage: settled changes become pages, oldest first, many at a time; and dropped slices go.
//!
//! A round writes blocks, table entries, and around them the records of which pages go and come:
//! those that go before the table says so, those that come after, so that the set of pages in the
//! journal never has a page that the table may lack. When all is on stable storage the items go.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use holdfast_format::{Body, PageChange, PageKey};
use holdfast_model::{BLOCK_SIZE, BLOCKS_PER_PAGE, PAGE_SIZE, PageIndex, Sequence, SliceId};
use holdfast_pages::{PageJob, PageWork, Paint, RoundPlan, runs_of};
use holdfast_stdx::Instant;

use crate::event::{Output, StoreToken};
use crate::item::ItemId;
use crate::machine::{Core, Lane, Pending, Purpose, Waiter};
use crate::overlay::Part;
use crate::requests::Urgency;

/// Pages in a round at most: enough for one flush to serve many, few enough for a round to end soon.
pub(crate) const ROUND_PAGES_MAX: usize = 256;
/// Bytes of data in a round at most.
const ROUND_BYTES_MAX: usize = 16 << 20;
/// Pages in a round that there is no need of: hosts are to notice little of it.
const CALM_PAGES_MAX: usize = 64;

/// Pages that are looked at together: where they were first written side by side, their entries are in four blocks of the page table
/// that lie side by side, too. Both copies of these are written once for all of them, and for each page by itself otherwise.
const NEIGHBOURS: u32 = 32;

#[derive(Debug, Default)]
pub(crate) struct Destage {
    /// Items that have a part of some page.
    settled: BTreeSet<ItemId>,
    round: Option<RoundState>,
    /// Nothing that is settled can be destaged at the moment: some completion has to come first.
    pub(crate) blocked: bool,
    /// Nothing that is settled can be destaged before a device is there, or room.
    pub(crate) stranded: bool,
    /// A round could begin, and waits to be told.
    pub(crate) waits: bool,
    /// It is told.
    told: bool,
    /// Slices whose end is in the journal and whose pages have to go.
    pub(crate) dropping: VecDeque<SliceId>,
    /// Slices that are to be dropped when the round under way is over.
    pub(crate) to_drop: VecDeque<(SliceId, StoreToken, Instant)>,
}

#[derive(Debug)]
struct RoundState {
    taken: Vec<Taken>,
    /// Pages that move.
    moved: u64,
    /// Records that the round waits for.
    records_left: u32,
}

#[derive(Debug)]
pub(crate) struct Taken {
    key: PageKey,
    pub(crate) parts: Vec<Part>,
    written: Sequence,
    /// Data that is written.
    bytes: u64,
}

/// The pages of a round that is being put together.
#[derive(Debug, Default)]
struct Choice {
    taken: Vec<Taken>,
    jobs: Vec<PageJob>,
    chosen: BTreeSet<PageKey>,
    pages_max: usize,
    /// Data that is written.
    bytes: usize,
    /// Free slots that nobody has taken.
    slots: u32,
}

impl Choice {
    fn is_full(&self) -> bool {
        self.jobs.len() >= self.pages_max || self.bytes >= ROUND_BYTES_MAX
    }
}

impl Destage {
    pub(crate) fn add(&mut self, item: ItemId) {
        self.stranded = false;
        self.settled.insert(item);
    }

    pub(crate) fn forget(&mut self, item: ItemId) {
        self.settled.remove(&item);
    }

    pub(crate) fn has_settled(&self) -> bool {
        !self.settled.is_empty() || self.round.is_some()
    }

    pub(crate) fn is_settled(&self, item: ItemId) -> bool {
        self.settled.contains(&item)
    }
}

impl Core {
    /// When destage begins by itself.
    pub(crate) fn destage_due(&self) -> Option<Instant> {
        let destage = &self.destage;
        if destage.round.is_some() || destage.blocked || destage.waits {
            return None;
        }
        let oldest = self.destage.settled.first()?;
        Some(self.items[*oldest].since + self.config.destage_after)
    }

    pub(crate) fn go_on_destaging(&mut self, now: Instant, out: &mut Output) {
        if self.destage.round.is_some() {
            return;
        }
        self.log_drops();
        let only_clears = self.only_clears();
        if self.pages.must_clear() || only_clears && self.pages.has_leftovers() {
            return self.begin_round(now, (Vec::new(), Vec::new(), 0), out);
        }
        if only_clears {
            return;
        }
        let mut taken = Vec::new();
        let mut jobs = self.drop_jobs(out);
        let presses = self.destage_presses();
        let is_late = self.is_destage_late(now);
        let is_calm = jobs.is_empty() && !presses && (is_late || self.wants_to_move());
        self.destage.told &= is_calm;
        self.destage.waits = is_calm && !self.destage.told && self.config.destage_waits;
        let is_due = (presses || is_late && !self.destage.waits) && !self.is_turn_of_moves();
        if jobs.is_empty() && is_due {
            let pages_max = if presses {
                ROUND_PAGES_MAX
            } else {
                CALM_PAGES_MAX
            };
            Choice { taken, jobs, .. } = self.choose_pages(pages_max);
            self.leave_adopted(&taken, &jobs);
            self.destage.blocked = jobs.is_empty();
            let mut settled = self.destage.settled.iter();
            self.destage.stranded = jobs.is_empty() && settled.all(|it| self.is_stranded(*it));
        }
        let mut moved = 0;
        if !jobs.is_empty() {
            self.count_round();
        } else if self.destage.waits {
            self.moves.look_at = None;
        } else {
            jobs = self.move_jobs(now);
            moved = jobs.len() as u64;
        }
        self.destage.told = false;
        let has_more = self.pages.has_leftovers() || self.pages.has_bad_copies();
        if !jobs.is_empty() || has_more {
            self.begin_round(now, (taken, jobs, moved), out);
        }
    }

    fn begin_round(
        &mut self,
        now: Instant,
        (taken, jobs, moved): (Vec<Taken>, Vec<PageJob>, u64),
        out: &mut Output,
    ) {
        self.destage.round = Some(RoundState {
            taken,
            moved,
            records_left: 0,
        });
        self.with_pages(now, Urgency::Background, out, |pages, requests, events| {
            pages.begin_round(jobs, requests, events);
        });
    }

    /// Lets a round begin that waits. Gives its pages, and bytes of data.
    pub(crate) fn destage(&mut self, now: Instant, out: &mut Output) -> (u64, u64) {
        self.destage.told = self.destage.waits;
        self.maintain(now, out);
        let Some(round) = &self.destage.round else {
            return (0, 0);
        };
        let moved = (round.moved, round.moved * PAGE_SIZE as u64);
        round.taken.iter().fold(moved, |(pages, bytes), taken| {
            (pages + 1, bytes + taken.bytes)
        })
    }

    /// Whether room is needed: long before new writes have to wait for it.
    fn destage_presses(&self) -> bool {
        let full = self.items.bytes() >= self.dirty_bytes_max() / 4;
        full || !self.waiting.is_empty() || self.is_journal_tight()
    }

    fn is_destage_late(&self, now: Instant) -> bool {
        let oldest = self.destage.settled.first();
        let since = oldest.map(|oldest| self.items[*oldest].since);
        !self.destage.blocked && since.is_some_and(|it| now >= it + self.config.destage_after)
    }

    /// Pages for a round, those with the oldest changes first; and with each of them those beside it that have changes as well.
    fn choose_pages(&self, pages_max: usize) -> Choice {
        let mut choice = Choice {
            pages_max,
            slots: self.pages.free_slots(),
            ..Choice::default()
        };
        for item in &self.destage.settled {
            let slice = self.items[*item].slice;
            for page in self.pages_with_part(*item) {
                if !self.choose(PageKey { slice, page }, &mut choice) {
                    continue;
                }
                for page in self.changed_beside(slice, page) {
                    self.choose(PageKey { slice, page }, &mut choice);
                }
            }
            if choice.is_full() {
                break;
            }
        }
        choice
    }

    /// Takes a page that has changes into the round, if it has room and nothing is in the way. Says whether it did.
    fn choose(&self, key: PageKey, choice: &mut Choice) -> bool {
        if choice.is_full()
            || choice.chosen.contains(&key)
            || self.reads.holds(key)
            || self.stays_lacking(key)
        {
            return false;
        }
        let (job, parts) = self.job(key);
        let is_adopted = matches!(job.work, PageWork::Adopt { .. });
        if !is_adopted && self.takes_slot(key) {
            if choice.slots == 0 {
                return false;
            }
            choice.slots -= 1;
        }
        let blocks: u32 = match is_adopted {
            true => 0,
            false => parts.iter().map(|part| part.mask.count_ones()).sum(),
        };
        let bytes = blocks as usize * BLOCK_SIZE;
        choice.bytes += bytes;
        choice.chosen.insert(key);
        choice.taken.push(Taken {
            key,
            parts,
            written: job.written,
            bytes: bytes as u64,
        });
        choice.jobs.push(job);
        true
    }

    /// The pages near one that have settled changes, itself among them.
    fn changed_beside(&self, slice: SliceId, page: PageIndex) -> impl Iterator<Item = PageIndex> {
        let first = page.0 - page.0 % NEIGHBOURS;
        let near = PageIndex(first)..PageIndex(first + NEIGHBOURS);
        let slice = self.slice(slice).into_iter();
        let near = slice.flat_map(move |slice| slice.overlay.range(near.clone()));
        near.filter(|(_, overlay)| !overlay.parts().is_empty())
            .map(|(page, _)| *page)
    }

    pub(crate) fn pages_with_part(&self, number: ItemId) -> impl Iterator<Item = PageIndex> {
        let item = &self.items[number];
        let range = item.range().expect("a settled item has blocks");
        let first = PageIndex(range.start() / BLOCKS_PER_PAGE);
        let last = PageIndex((range.end() - 1) / BLOCKS_PER_PAGE);
        self.slice(item.slice)
            .filter(|slice| !slice.dropping)
            .into_iter()
            .flat_map(move |slice| slice.overlay.range(first..=last))
            .filter(move |(_, overlay)| overlay.parts().iter().any(|part| part.item == number))
            .map(|(page, _)| *page)
    }

    fn job(&self, key: PageKey) -> (PageJob, Vec<Part>) {
        let slice = self.slice(key.slice).expect("the slice exists");
        let parts = slice.overlay[&key.page].parts().to_vec();
        let before = self.pages.page(key).map(|view| view.written);
        let written = parts
            .iter()
            .map(|part| part.rank)
            .chain(before)
            .max()
            .expect("there is a part");
        if let Some(work) = self.adoption(key, &parts) {
            return (PageJob { key, written, work }, parts);
        }
        let mut paints: Vec<(u32, Paint)> = Vec::new();
        for part in &parts {
            let item = &self.items[part.item];
            for (first, count) in runs_of(part.mask) {
                paints.extend(
                    (first..first + count).map(|block| (block, item.paint(key.page, block))),
                );
            }
        }
        paints.sort_unstable_by_key(|(block, _)| *block);
        let work = PageWork::Paint(paints);
        (PageJob { key, written, work }, parts)
    }

    /// The round knows which pages come and go: those that go are logged now.
    pub(crate) fn round_planned(&mut self, now: Instant, plan: &RoundPlan, out: &mut Output) {
        self.log_pages(now, &plan.removed, false, Waiter::Removals);
        if self.round_mut().records_left == 0 {
            self.proceed(now, out);
        }
    }

    pub(crate) fn removals_logged(&mut self, now: Instant, out: &mut Output) {
        self.round_mut().records_left -= 1;
        if self.round_mut().records_left == 0 {
            self.proceed(now, out);
        }
    }

    fn proceed(&mut self, now: Instant, out: &mut Output) {
        self.with_pages(now, Urgency::Background, out, |pages, requests, events| {
            pages.proceed(requests, events);
        });
    }

    /// The map of pages has changed.
    pub(crate) fn round_mapped(&mut self, plan: &RoundPlan) {
        let taken: Vec<(PageKey, Sequence)> = self
            .round_mut()
            .taken
            .iter()
            .map(|taken| (taken.key, taken.written))
            .collect();
        for (key, written) in taken {
            let exists = self.pages.page(key).is_some();
            if let Some(slice) = self.slices.get_mut(&key.slice) {
                if !exists {
                    slice.absent = slice.absent.max(written);
                }
                self.update_reservation(key.slice, key.page);
            }
        }
        for key in &plan.removed {
            if self.slices.contains_key(&key.slice) {
                self.update_reservation(key.slice, key.page);
            }
        }
    }

    /// The round is on stable storage: pages that have come are logged.
    pub(crate) fn round_done(&mut self, now: Instant, plan: &RoundPlan, out: &mut Output) {
        self.log_pages(now, &plan.added, true, Waiter::Additions);
        if self.round_mut().records_left == 0 {
            self.end_round(now, out);
        }
    }

    pub(crate) fn additions_logged(&mut self, now: Instant, out: &mut Output) {
        self.round_mut().records_left -= 1;
        if self.round_mut().records_left == 0 {
            self.end_round(now, out);
        }
    }

    fn round_mut(&mut self) -> &mut RoundState {
        self.destage.round.as_mut().expect("a round is under way")
    }

    fn log_pages(&mut self, now: Instant, keys: &[PageKey], present: bool, waiter: Waiter) {
        let mut by_slice: BTreeMap<SliceId, Vec<PageChange>> = BTreeMap::new();
        for key in keys {
            let page = key.page;
            by_slice
                .entry(key.slice)
                .or_default()
                .push(PageChange { page, present });
        }
        for (id, changes) in by_slice {
            let Some(slice) = self.slices.get_mut(&id) else {
                continue;
            };
            // Behind its end nothing may be said of a slice, and before all has to be: power may fail in between.
            if slice.is_ended {
                continue;
            }
            for change in &changes {
                slice.logged.set(change.page, change.present);
            }
            let pending = Pending {
                waiter,
                ..Pending::of(id, Purpose::Pages { checkpoint: false }, now)
            };
            self.round_mut().records_left += 1;
            self.log(Body::Pages(changes), Lane::Inner, pending);
        }
    }

    /// Everything that the round wrote will be found by recovery: its items can go.
    fn end_round(&mut self, _now: Instant, _out: &mut Output) {
        let round = self.destage.round.take().expect("a round is under way");
        let mut lost = Vec::new();
        for taken in &round.taken {
            let id = taken.key.slice;
            let Some(slice) = self.slices.get_mut(&id) else {
                continue;
            };
            if let Some(overlay) = slice.overlay.get_mut(&taken.key.page) {
                for part in &taken.parts {
                    overlay.destaged(part, &mut lost);
                }
            }
            self.drop_overlay_if_empty(id, taken.key.page);
        }
        for item in lost {
            self.release_item(item);
        }
    }
}
