//! The work of a run: what is asked of the store, at random.

use std::collections::BTreeSet;

use holdfast_model::{
    BLOCKS_PER_PAGE, BLOCKS_PER_SLICE, BlockIndex, BlockRange, Change, CommandId, Entry, Epoch,
    Fence, Incarnation, PAGES_PER_SLICE, Sequence, SliceId, VolumeId,
};
use holdfast_stdx::{Bytes, Duration};
use holdfast_store::{InstallRefused, ReadRequest, ReadSource, StoreToken, View};

use super::content::{Tag, blocks};
use super::model::Call;
use super::run::{Asked, Check, CopyOnItsWay, Host, Reading};

/// Slices of a run: enough to meet in partitions.
pub(crate) const SLICES: u32 = 4;

/// Pages at the beginning of a slice that a run uses, and one at its end.
pub(crate) const PAGES: u32 = 6;
/// Blocks of one write at most: what half a segment holds.
pub(crate) const WRITE_BLOCKS_MAX: u64 = 32;

impl Host {
    pub(crate) fn work(&mut self) -> Check {
        let slice = slice_id(self.prng.below(SLICES.into()) as u32);
        let dropping = self
            .model
            .get(&slice)
            .is_some_and(|model| model.dropping.is_some());
        if dropping {
            return Ok(());
        }
        match self.prng.below(100) {
            0..32 => self.append(slice),
            32..37 => {
                for _ in 0..self.prng.below(20) {
                    self.append(slice)?;
                }
                Ok(())
            }
            37..52 => self.read(slice),
            52..57 => self.read_on(slice),
            57..72 => self.commit(slice),
            72..76 => self.put_state(slice),
            76..80 => self.begin_epoch(slice),
            80..81 => self.drop(slice),
            81..86 => self.fill(slice),
            86..88 => self.check_allocated(slice),
            88..89 => self.check_changed(slice),
            89..91 => {
                self.store().release_reservations(slice);
                Ok(())
            }
            91..95 => {
                let pause = *self.prng.choose(&[50, 1_100, 9_000]);
                self.advance(self.now + Duration::from_millis(pause))
            }
            95..98 => self.make_rot(),
            98..99 => self.fail_device(),
            _ => self.check_entries(slice),
        }
    }

    fn range(&mut self, count_max: u64) -> BlockRange {
        let count = match self.prng.below(4) {
            0 => 1,
            1 => self.prng.between(1, 4),
            _ => self.prng.between(1, count_max),
        } as u32;
        let last = self.prng.chance(1, 10);
        let start = if last {
            BLOCKS_PER_SLICE - count - self.prng.below(4) as u32
        } else if self.prng.chance(1, 4) {
            // Around a page's edge.
            let edge = BLOCKS_PER_PAGE * self.prng.between(1, u64::from(PAGES) - 1) as u32;
            edge.saturating_sub(self.prng.below(u64::from(count) + 1) as u32)
        } else {
            self.prng
                .below(u64::from(PAGES * BLOCKS_PER_PAGE - count) + 1) as u32
        };
        BlockRange::new(start, count)
    }

    /// One page or two, with something in every block but for a few times.
    fn pages(&mut self) -> Change {
        let count = self.prng.between(1, 2) as u32;
        let first = self.prng.below(u64::from(PAGES + 1 - count)) as u32;
        let hole = self.prng.chance(1, 8);
        let tags: Vec<Tag> = (0..count * BLOCKS_PER_PAGE)
            .map(|block| match hole && block == 5 {
                true => 0,
                false => self.tag(),
            })
            .collect();
        Change::write(BlockIndex(first * BLOCKS_PER_PAGE), blocks(&tags))
    }

    fn change(&mut self) -> Change {
        if self.options.pages && self.prng.chance(1, 4) {
            return self.pages();
        }
        match self.prng.below(20) {
            0 => Change::Nothing,
            1 => Change::Clear(BlockRange::slice()),
            2 | 3 => {
                let page = holdfast_model::PageIndex(self.prng.below(u64::from(PAGES)) as u32);
                Change::Clear(BlockRange::page(page))
            }
            4 | 5 => Change::Clear(self.range(100)),
            _ => {
                let range = self.range(WRITE_BLOCKS_MAX);
                let zeros = self.prng.below(8);
                let tags: Vec<Tag> = (0..range.count())
                    .map(|_| match zeros {
                        0 => 0,
                        1 if self.prng.chance(1, 2) => 0,
                        _ => self.tag(),
                    })
                    .collect();
                Change::write(BlockIndex(range.start()), blocks(&tags))
            }
        }
    }

    fn tag(&mut self) -> Tag {
        self.next_tag += 1;
        self.next_tag
    }

    pub(crate) fn append(&mut self, slice: SliceId) -> Check {
        let congested = self.store().is_congested();
        if congested && self.prng.chance(9, 10) {
            return Ok(());
        }
        let change = self.change();
        self.append_change(slice, change)
    }

    pub(crate) fn append_change(&mut self, slice: SliceId, change: Change) -> Check {
        if let Change::Write { .. } = &change {
            let range = change.range().expect("a write has blocks");
            if self.store().reserve(slice, range).is_err() {
                self.report.refused += 1;
                return Ok(());
            }
        }
        self.next_command += 1;
        let command = CommandId {
            node: self.prng.below(3) as u16,
            incarnation: Incarnation(1),
            number: self.next_command,
        };
        let (now, model) = (self.now, self.model.entry(slice).or_default());
        if model.epoch == Epoch::ZERO {
            model.epoch = Epoch(1);
        }
        let entry = Entry {
            epoch: model.epoch.max(model.log.prepared.0),
            sequence: model.log.prepared.1.next(),
            fence: Fence(model.epoch.0),
            command,
            change,
        };
        if command.node != 0 {
            model.commands.insert(command, (entry.sequence, now));
        }
        let committed = model.committed;
        self.report.entries += 1;
        let token = self.token(Asked::Call(slice));
        let model = self.model.entry(slice).or_default();
        model.call(token.0, Call::Append(entry.clone()));
        self.trace(&format!(
            "{now} append {} {slice} {entry:?} {committed}",
            token.0
        ));
        let (store, out) = self.store_and_out();
        store.append(now, slice, entry, committed, token, out);
        self.pump()
    }

    pub(crate) fn commit(&mut self, slice: SliceId) -> Check {
        let Some(model) = self.model.get(&slice) else {
            return Ok(());
        };
        let (low, high) = (model.committed.0, model.committable().0);
        if low >= high {
            return Ok(());
        }
        let committed = Sequence(if self.prng.chance(1, 2) {
            high
        } else {
            self.prng.between(low, high)
        });
        self.commit_to(slice, committed);
        self.pump()
    }

    pub(crate) fn commit_to(&mut self, slice: SliceId, committed: Sequence) {
        self.model.entry(slice).or_default().committed = committed;
        let now = self.now;
        self.trace(&format!("{now} commit {slice} {committed}"));
        self.store().set_committed(now, slice, committed);
    }

    fn put_state(&mut self, slice: SliceId) -> Check {
        let tag = self.tag();
        let length = *self.prng.choose(&[1, 8, 100, 5000, 16 << 10]);
        let state = Bytes::from(tag.to_le_bytes().repeat(length / 8 + 1)).slice(..length);
        let token = self.token(Asked::Call(slice));
        let model = self.model.entry(slice).or_default();
        model.call(token.0, Call::State(state.clone()));
        let now = self.now;
        let (store, out) = self.store_and_out();
        store.put_state(now, slice, state, token, out);
        self.pump()
    }

    fn begin_epoch(&mut self, slice: SliceId) -> Check {
        if !self.model.contains_key(&slice) {
            return Ok(());
        }
        let model = &self.model[&slice];
        let (low, high) = (model.committed.0, model.log.prepared.1.0);
        let after = Sequence(self.prng.between(low, high.max(low)));
        let epoch = Epoch(model.epoch.0.max(1) + 1);
        let again: Vec<Entry> = model
            .log
            .entries
            .range(after.next()..)
            .map(|(_, entry)| entry.clone())
            .collect();
        self.voids += 1;
        let token = self.token(Asked::Call(slice));
        let model = self.model.entry(slice).or_default();
        model.epoch = epoch;
        model.call(token.0, Call::BeginEpoch(after));
        let now = self.now;
        self.trace(&format!(
            "{now} begin epoch {} {slice} {epoch} after {after}",
            token.0
        ));
        let (store, out) = self.store_and_out();
        store.begin_epoch(now, slice, epoch, after, token, out);
        self.pump()?;
        // A new primary sends what it has: often the same entries, under their first numbers.
        if self.prng.chance(1, 2) {
            for entry in again.into_iter().take(self.prng.below(4) as usize) {
                self.append_again(slice, entry)?;
            }
        }
        Ok(())
    }

    fn append_again(&mut self, slice: SliceId, entry: Entry) -> Check {
        if let Change::Write { .. } = &entry.change {
            let range = entry.change.range().expect("a write has blocks");
            if self.store().reserve(slice, range).is_err() {
                return Err("the room of a void entry is gone".into());
            }
        }
        let token = self.token(Asked::Call(slice));
        let now = self.now;
        let model = self.model.entry(slice).or_default();
        if entry.command.node != 0 {
            model.commands.insert(entry.command, (entry.sequence, now));
        }
        let committed = model.committed;
        model.call(token.0, Call::Append(entry.clone()));
        self.trace(&format!(
            "{now} append {} {slice} {entry:?} {committed}",
            token.0
        ));
        let (store, out) = self.store_and_out();
        store.append(now, slice, entry, committed, token, out);
        self.pump()
    }

    pub(crate) fn read(&mut self, slice: SliceId) -> Check {
        let range = self.range(70);
        let view = *self.prng.choose(&[View::Committed, View::Prepared]);
        let source = *self.prng.choose(&[ReadSource::Anywhere, ReadSource::Media]);
        self.read_range(slice, range, view, source)
    }

    /// Reads one piece after the other, more than a page in all, while others write at times.
    fn read_on(&mut self, slice: SliceId) -> Check {
        let length = *self.prng.choose(&[3, 8, 16, 40, 64]);
        let count = self.prng.between(4, 10) as u32;
        let begin = self.prng.below(u64::from(PAGES * BLOCKS_PER_PAGE / 2)) as u32;
        let begin = begin / length * length;
        let view = *self.prng.choose(&[View::Committed, View::Prepared]);
        let is_fast = self.prng.chance(1, 3);
        for piece in 0..count {
            let range = BlockRange::new(begin + piece * length, length);
            if self.device_failed || range.end() > PAGES * BLOCKS_PER_PAGE {
                return Ok(());
            }
            self.read_range(slice, range, view, ReadSource::Anywhere)?;
            if self.prng.chance(1, 4) {
                self.append(slice)?;
                self.commit(slice)?;
            }
            if !is_fast {
                let pause = self.prng.below(2000);
                self.advance(self.now + Duration::from_micros(pause))?;
            }
        }
        Ok(())
    }

    pub(crate) fn read_range(
        &mut self,
        slice: SliceId,
        range: BlockRange,
        view: View,
        source: ReadSource,
    ) -> Check {
        self.next_token += 1;
        let token = self.next_token;
        let store = self.store();
        let from = match view {
            View::Committed => store.committed(slice),
            View::Prepared => store.prepared(slice).1,
        };
        let lacked = self.model.get(&slice).map_or_else(BTreeSet::new, |model| {
            let blocks = range.blocks().map(|block| block.0);
            blocks.filter(|block| !model.has(*block)).collect()
        });
        let reading = Reading {
            slice,
            range,
            view,
            from,
            voids: self.voids,
            lacked,
            drops: self.drops,
        };
        self.reading.insert(token, reading);
        let now = self.now;
        let (store, out) = self.store_and_out();
        let request = ReadRequest {
            slice,
            range,
            view,
            source,
        };
        store.read(now, request, StoreToken(token), out);
        self.pump()
    }

    /// Drops the slice: to begin anew, or to be filled from elsewhere.
    pub(crate) fn drop(&mut self, slice: SliceId) -> Check {
        let Some(model) = self.model.get_mut(&slice) else {
            return Ok(());
        };
        let refill = self.prng.chance(2, 3);
        model.dropping = Some(refill);
        self.copies.retain(|copy| copy.slice != slice);
        self.voids += 1;
        let token = self.token(Asked::Call(slice));
        self.drops += 1;
        let model = self.model.entry(slice).or_default();
        model.calls.push_back((token.0, Call::Drop));
        let now = self.now;
        self.trace(&format!("{now} drop {} {slice} refill {refill}", token.0));
        let (store, out) = self.store_and_out();
        store.drop_slice(now, slice, token, out);
        self.pump()
    }

    /// The slice is gone from the store: it begins anew, or its log at the point from which it will
    /// be filled.
    pub(crate) fn dropped(&mut self, slice: SliceId) -> Check {
        self.broken.remove(&slice);
        let model = self.model.get_mut(&slice).expect("it was dropped");
        let refill = model.dropping.take().expect("it was being dropped");
        if !refill {
            self.model.remove(&slice);
            return Ok(());
        }
        let committed = model.committed;
        model.forget_versions_above(committed);
        model.commands.clear();
        model.durable = Default::default();
        model.log = Default::default();
        model.filled = Some(Default::default());
        self.restart(slice)
    }

    /// The log of a slice that is filled again begins at the point that is known to be committed.
    pub(crate) fn restart(&mut self, slice: SliceId) -> Check {
        let model = self.model.get(&slice).expect("it is filled again");
        let committed = model.committed;
        let at = (model.epoch, committed);
        let token = self.token(Asked::Call(slice));
        let model = self.model.get_mut(&slice).expect("it was just there");
        model.call(token.0, Call::Restart(at));
        let now = self.now;
        self.trace(&format!("{now} restart {} {slice} {at:?}", token.0));
        let (store, out) = self.store_and_out();
        store.restart_log(now, slice, at, token, out);
        self.pump()
    }

    /// Takes a copy somewhere, or delivers one that was taken before.
    pub(crate) fn fill(&mut self, slice: SliceId) -> Check {
        for _ in 0..self.prng.between(1, 4) {
            self.take_copy(slice);
        }
        for _ in 0..self.prng.below(5) {
            if self.copies.is_empty() {
                break;
            }
            let index = self.prng.below(self.copies.len() as u64) as usize;
            let copy = self.copies.remove(index).expect("the index is in range");
            self.deliver(copy)?;
        }
        Ok(())
    }

    pub(crate) fn take_copy(&mut self, slice: SliceId) {
        let Some(model) = self.model.get(&slice) else {
            return;
        };
        let Some(filled) = &model.filled else {
            return;
        };
        let page = self.prng.below(u64::from(PAGES) + 1) as u32;
        let page = if page == PAGES {
            PAGES_PER_SLICE - 1
        } else {
            page
        };
        let quarter = page * BLOCKS_PER_PAGE + 16 * self.prng.below(4) as u32;
        let range = BlockRange::new(quarter, 16);
        if range.blocks().all(|block| filled.contains(&block.0)) {
            return;
        }
        self.copy_of(slice, range, false);
    }

    pub(crate) fn copy_of(&mut self, slice: SliceId, range: BlockRange, repair: bool) {
        let model = &self.model[&slice];
        let as_of = model.committed;
        let tags = range
            .blocks()
            .map(|block| model.at(block.0, as_of))
            .collect();
        self.copies.push_back(CopyOnItsWay {
            slice,
            range,
            as_of,
            tags,
            repair,
        });
    }

    pub(crate) fn deliver(&mut self, copy: CopyOnItsWay) -> Check {
        let model = &self.model[&copy.slice];
        if model.dropping.is_some() || (!copy.repair && model.filled.is_none()) {
            return Ok(());
        }
        let change = if copy.tags.iter().all(|tag| *tag == 0) {
            Change::Clear(copy.range)
        } else {
            let start = BlockIndex(copy.range.start());
            Change::write(start, blocks(&copy.tags))
        };
        if self.store().reserve(copy.slice, copy.range).is_err() {
            self.report.refused += 1;
            return Ok(());
        }
        let token = self.token(Asked::Install(copy.slice, copy.range));
        let now = self.now;
        let (range, as_of) = (copy.range, copy.as_of);
        self.trace(&format!(
            "{now} install {} {slice} {range:?} {as_of}",
            token.0,
            slice = copy.slice
        ));
        let (store, out) = self.store_and_out();
        let result = store.install(now, copy.slice, change, copy.as_of, token, out);
        match result {
            Ok(()) => {
                self.report.installs += 1;
                let model = self.model.get_mut(&copy.slice).expect("it is there");
                model.call(token.0, Call::Other);
            }
            Err(InstallRefused::Stale) => {
                self.asked.remove(&token.0);
                let repair = copy.repair;
                self.copy_of(copy.slice, copy.range, repair);
            }
            Err(InstallRefused::Undecided) => {
                self.asked.remove(&token.0);
                self.copies.push_back(copy);
            }
        }
        // The token must not come before the call is noted, so events are taken only now.
        self.pump()
    }
}

pub(crate) fn slice_id(index: u32) -> SliceId {
    SliceId {
        volume: VolumeId(1 + u64::from(index / 2)),
        index: index % 2,
    }
}
