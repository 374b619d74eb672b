//! The end of a run: faults are over, and everything must be there.

use holdfast_model::{BLOCKS_PER_PAGE, BlockRange, Change, SliceId};
use holdfast_stdx::Duration;
use holdfast_store::{ReadSource, View};

use super::check::page_blocks;
use super::model::ModelSlice;
use super::run::{Check, Host};
use super::work::{PAGES, slice_id};

/// How long a store is left alone until nothing is under way.
const QUIET: Duration = Duration::from_secs(3);

impl Host {
    /// Faults are over: everything is committed, filled, repaired and destaged; then it must all be
    /// there, and after it has been cleared nothing.
    pub(crate) fn settle_everything(&mut self) -> Check {
        self.options.rot = false;
        self.options.failures = false;
        self.settles = true;
        self.crash()?;
        self.journal_rotten = false;
        let slices: Vec<SliceId> = self.model.keys().copied().collect();
        self.drains_end()?;
        for round in 0..16 {
            self.quiet(&slices)?;
            self.read_everything(&slices)?;
            let is_filled = self.model.values().all(|model| model.filled.is_none());
            if self.copies.is_empty() && is_filled && round > 0 {
                break;
            }
        }
        let bad = self.report.bad_blocks;
        (self.rotten, self.rotten_block) = (false, None);
        self.read_everything(&slices)?;
        for slice in &slices {
            self.check_allocated(*slice)?;
            self.check_entries(*slice)?;
            self.check_changed(*slice)?;
        }
        let expected: u64 = slices
            .iter()
            .filter_map(|slice| self.model.get(slice))
            .map(|model| model.allocated(model.committed).len() as u64)
            .sum();
        let usage = self.store().usage();
        let used_as_expected =
            usage.pages_used == expected || self.options.journal_rot && usage.pages_used > expected;
        if !used_as_expected || usage.pages_reserved != 0 || usage.dirty_bytes != 0 {
            return Err(format!("{expected} pages are there, but {usage:?}"));
        }
        assert!(
            bad == self.report.bad_blocks,
            "a bad block would have failed"
        );
        self.clear_everything(&slices)
    }

    fn quiet(&mut self, slices: &[SliceId]) -> Check {
        self.advance(self.now + QUIET)?;
        while let Some(copy) = self.copies.pop_front() {
            self.deliver(copy)?;
            self.advance(self.now + Duration::from_millis(20))?;
        }
        // What nobody decides stays in the journal: in a small one there may be no room beside it.
        for slice in slices {
            self.commit_all(*slice);
        }
        for slice in slices {
            let mut tries = 0;
            while self
                .model
                .get(slice)
                .is_some_and(|model| model.filled.is_some())
            {
                self.commit_all(*slice);
                self.fill(*slice)?;
                self.advance(self.now + Duration::from_millis(20))?;
                tries += 1;
                if tries > 2_000 {
                    // The device may be too small for all that the slices could hold.
                    return self.drop_one(*slice);
                }
            }
            self.commit_all(*slice);
            self.store().release_reservations(*slice);
        }
        self.advance(self.now + QUIET)?;
        Ok(())
    }

    fn drop_one(&mut self, slice: SliceId) -> Check {
        let is_dropping = |model: &ModelSlice| model.dropping.is_some();
        if !self.model.get(&slice).is_some_and(is_dropping) {
            self.drop(slice)?;
        }
        if let Some(model) = self.model.get_mut(&slice) {
            model.dropping = Some(false);
        }
        self.copies.retain(|copy| copy.slice != slice);
        self.advance(self.now + QUIET)
    }

    pub(crate) fn commit_all(&mut self, slice: SliceId) {
        if let Some(model) = self.model.get(&slice) {
            let committed = model.committable();
            if model.dropping.is_none() && committed > model.committed {
                self.commit_to(slice, committed);
            }
            let committed = self.model[&slice].committed;
            let known = self.store().prepared(slice).1;
            if committed <= known {
                let now = self.now;
                self.store().set_committed(now, slice, committed);
            }
        }
    }

    fn read_everything(&mut self, slices: &[SliceId]) -> Check {
        for slice in slices {
            for page in 0..=PAGES {
                let first = page_blocks(page).start;
                let range = BlockRange::new(first, BLOCKS_PER_PAGE);
                self.read_range(*slice, range, View::Committed, ReadSource::Media)?;
            }
        }
        self.advance(self.now + QUIET)?;
        if !self.reading.is_empty() {
            return Err("reads do not end".into());
        }
        Ok(())
    }

    fn clear_everything(&mut self, slices: &[SliceId]) -> Check {
        for slice in slices {
            if self.model.contains_key(slice) {
                self.append_change(*slice, Change::Clear(BlockRange::slice()))?;
            }
        }
        self.advance(self.now + QUIET)?;
        for slice in slices {
            self.commit_all(*slice);
        }
        self.advance(self.now + QUIET)?;
        if !self.asked.is_empty() {
            return Err("calls do not end".into());
        }
        let usage = self.store().usage();
        if usage.pages_used != 0 {
            return Err(format!("everything is cleared, but {usage:?}"));
        }
        // All of them may be about to leave where the one is lost that the journal was to go to.
        if usage.pages == 0 {
            return Ok(());
        }
        let slice = slice_id(0);
        let all = u32::try_from(usage.pages).expect("a small store");
        let range = BlockRange::new(0, all * BLOCKS_PER_PAGE);
        if self.store().reserve(slice, range).is_err() {
            return Err("an empty store has no room".into());
        }
        Ok(())
    }
}
