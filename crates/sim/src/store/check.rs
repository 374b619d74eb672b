//! What is checked.

use std::collections::BTreeMap;

use holdfast_format::UseIds;
use holdfast_model::{
    BLOCKS_PER_PAGE, BlockRange, Epoch, PAGES_PER_SLICE, PageIndex, Sequence, SliceId,
};
use holdfast_stdx::{Duration, Instant};
use holdfast_store::{BlockRead, Output, Recovered, RecoveredSlice, Store, StoreToken, View};

use super::content::tag_of;
use super::model::{Log, ModelSlice};
use super::run::{Asked, Check, Host};
use super::work::{PAGES, SLICES, slice_id};

/// How long a command's id must be remembered.
const TWO_LIFETIMES: Duration = Duration::from_secs(8);

impl Host {
    pub(crate) fn store(&mut self) -> &mut Store {
        self.store.as_mut().expect("there is a store")
    }

    pub(crate) fn store_and_out(&mut self) -> (&mut Store, &mut Output) {
        let store = self.store.as_mut().expect("there is a store");
        (store, &mut self.out)
    }

    pub(crate) fn durable(&mut self, token: StoreToken) -> Check {
        let asked = self
            .asked
            .remove(&token.0)
            .ok_or_else(|| format!("nobody asked for {token:?}"))?;
        let (Asked::Call(slice) | Asked::Install(slice, _)) = asked;
        let model = self.model.get_mut(&slice).ok_or("the slice is not there")?;
        model.durable(token.0)?;
        if let Asked::Install(_, range) = asked
            && let Some(filled) = &mut model.filled
        {
            filled.extend(range.start()..range.end());
            if (0..=PAGES)
                .flat_map(page_blocks)
                .all(|block| filled.contains(&block))
            {
                model.filled = None;
            }
        }
        let dropped = model.dropping.is_some() && model.calls.is_empty();
        if dropped {
            return self.dropped(slice);
        }
        Ok(())
    }

    pub(crate) fn read_done(&mut self, token: StoreToken, blocks: &[BlockRead]) -> Check {
        let reading = self
            .reading
            .remove(&token.0)
            .ok_or_else(|| format!("nobody reads under {token:?}"))?;
        let slice = reading.slice;
        let (to, fair) = match reading.view {
            View::Committed => (self.store().committed(slice), true),
            View::Prepared => (self.store().prepared(slice).1, self.voids == reading.voids),
        };
        let Some(model) = self.model.get(&slice) else {
            return Ok(());
        };
        if blocks.len() != reading.range.count() as usize {
            return Err("a read is not as long as its range".into());
        }
        self.report.reads += 1;
        if !fair || model.dropping.is_some() || self.drops != reading.drops {
            return Ok(());
        }
        let mut bad = Vec::new();
        let mut seen = Vec::new();
        for (block, read) in reading.range.blocks().zip(blocks) {
            let tag = match read {
                BlockRead::Zero => 0,
                BlockRead::Data { data, .. } => {
                    tag_of(data).ok_or_else(|| format!("{slice} {block:?} is garbage"))?
                }
                BlockRead::Bad { .. } if self.rotten || self.may_be_bad(reading.slice, block) => {
                    bad.push(block);
                    continue;
                }
                BlockRead::Bad { .. } => {
                    return Err(format!("{slice} {block:?} is bad for no reason"));
                }
            };
            let is_known = model.has(block.0) && !reading.lacked.contains(&block.0);
            if is_known && !model.allows(block.0, reading.from, to, tag) {
                return Err(format!(
                    "{slice} {block:?} reads as {tag} in {:?} from {} to {to}, it is {} then {}",
                    reading.view,
                    reading.from,
                    model.at(block.0, reading.from),
                    model.at(block.0, to),
                ));
            }
            if is_known {
                seen.push((block.0, tag));
            }
        }
        let is_of = |at: u64| {
            let at = Sequence(at);
            seen.iter().all(|(block, tag)| model.at(*block, at) == *tag)
        };
        if !(reading.from.0..=to.0).any(is_of) {
            return Err(format!(
                "{slice} {:?} reads as it never was from {} to {to}",
                reading.range, reading.from
            ));
        }
        self.report.bad_blocks += bad.len() as u64;
        for block in bad {
            self.copy_of(slice, BlockRange::single(block), true);
        }
        Ok(())
    }

    pub(crate) fn check_allocated(&mut self, slice: SliceId) -> Check {
        let at = self.store().committed(slice);
        let found: BTreeMap<PageIndex, u64> = self.store().allocated(slice).collect();
        let count = self.store().allocated_pages(slice);
        if count != found.len() as u64 {
            return Err(format!(
                "{slice}: {count} pages, but {} are there",
                found.len()
            ));
        }
        let Some(model) = self.model.get(&slice) else {
            return Ok(());
        };
        if model.filled.is_some() || model.dropping.is_some() {
            return Ok(());
        }
        let expected = model.allocated(at);
        // What is bad, or was until a right block was found in its place, counts as there, although
        // it may be zeros.
        let differs = if self.rotten || self.options.journal_rot {
            expected
                .iter()
                .any(|(page, mask)| found.get(page).is_none_or(|found| found & mask != *mask))
        } else {
            found != expected
        };
        if differs {
            return Err(format!(
                "{slice} at {at}: allocated {found:x?}, expected {expected:x?}"
            ));
        }
        Ok(())
    }

    pub(crate) fn check_entries(&mut self, slice: SliceId) -> Check {
        let Some(model) = self.model.get(&slice) else {
            return Ok(());
        };
        let store = self.store.as_ref().expect("there is a store");
        let stable = store.stable(slice);
        if stable > store.committed(slice) {
            return Err(format!("{slice}: stable above committed"));
        }
        let expected: Vec<_> = model
            .log
            .entries
            .range(stable.next()..)
            .map(|(_, entry)| entry)
            .collect();
        let found: Vec<_> = store.entries_above(slice, stable).collect();
        if found != expected {
            return Err(format!(
                "{slice}: other entries above {stable} than were appended"
            ));
        }
        if store.prepared(slice) != model.log.prepared {
            return Err(format!("{slice}: another prepared point"));
        }
        for start in [0, 100] {
            let range = BlockRange::new(start, 50);
            let committed = store.committed(slice);
            if store.is_dirty(slice, range) != model.is_dirty(range, committed) {
                return Err(format!(
                    "{slice}: {range:?} is not as dirty as it should be"
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn crash(&mut self) -> Check {
        let stables: BTreeMap<SliceId, Sequence> = self
            .model
            .keys()
            .map(|slice| {
                (
                    *slice,
                    self.store.as_ref().expect("there is one").stable(*slice),
                )
            })
            .collect();
        self.stables = stables;
        self.stopped = self.now;
        self.trace(&format!("{} crash", self.now));
        self.lose_power();
        self.asked.clear();
        self.reading.clear();
        self.copies.clear();
        (self.device_failed, self.loss_is_noted) = (false, false);
        self.report.recoveries += 1;
        if self.one_rots.is_some() {
            self.rot_one_block();
        } else if self.options.journal_rot && self.prng.chance(1, 2) {
            self.rot_journal();
        }
        self.open()
    }

    pub(crate) fn check_recovered(&mut self, recovered: &Recovered) -> Check {
        if recovered.use_counter <= self.uses {
            return Err("the use counter does not rise".into());
        }
        let (before, now) = (self.uses, recovered.use_counter);
        let ids = &recovered.use_ids;
        let ids = (ids.of(before, now), ids.of(now, now));
        let known = (self.id_of_use, Some(self.use_id));
        if now - before < UseIds::KEPT && ids != known {
            return Err("the ids of the uses are not those that were drawn".into());
        }
        (self.uses, self.id_of_use) = (now, Some(self.use_id));
        for index in 0..SLICES {
            let slice = slice_id(index);
            if self.model.contains_key(&slice) {
                self.check_slice(slice, recovered.slices.get(&slice))?;
            } else if let Some(found) = recovered.slices.get(&slice) {
                // The record of its end may have rotted; then something is said to be missing.
                let may_be = self.journal_rotten || self.is_in_rotten_group(slice);
                if !may_be || (found.intact && !found.tail_suspect) {
                    return Err(format!("{slice} has come back"));
                }
                self.model.insert(slice, ModelSlice::default());
                self.broken.insert(slice);
            }
        }
        for slice in self.broken.clone() {
            self.refill(slice)?;
        }
        Ok(())
    }

    fn check_slice(&mut self, slice: SliceId, found: Option<&RecoveredSlice>) -> Check {
        // One rotten block has all of its partition called damaged, or in doubt; what is not of its own groups is there.
        let of_partition = self.is_of_rotten_partition(slice);
        let has_lost = self.journal_rotten || self.is_in_rotten_group(slice);
        let journal_rot = self.journal_rotten || of_partition;
        let nothing = RecoveredSlice {
            state: None,
            prepared: Default::default(),
            committed: Sequence::ZERO,
            stable: Sequence::ZERO,
            intact: true,
            lacks: false,
            tail_suspect: false,
            commands: Vec::new(),
        };
        let is_there = found.is_some();
        let found = found.unwrap_or(&nothing);
        self.report.damaged += u64::from(!found.intact);
        if !found.intact && !journal_rot {
            return Err(format!("{slice} is damaged for no reason"));
        }
        if self.broken.contains(&slice) && found != &nothing {
            // It is still there: its end was not durable. What was bad has been overwritten.
            return Ok(());
        }
        let log = self.find_log(slice, found);
        let suspect = has_lost && (!found.intact || found.tail_suspect || found == &nothing);
        // Copies that had been durable may be lost with the journal's end: whoever is filled is filled anew.
        let lacks_copies = suspect && self.model[&slice].filled.is_some();
        match log {
            Some(log) if (found.intact || !has_lost) && !lacks_copies => {
                self.accept(slice, found, log, is_there)?;
                if !found.intact && !found.lacks {
                    self.mend(slice);
                }
                if found.lacks && !self.lost_device {
                    return Err(format!("{slice} lacks something for no reason"));
                }
                if found.lacks {
                    self.report.lacking += 1;
                    self.broken.insert(slice);
                }
                Ok(())
            }
            _ if suspect => {
                self.broken.insert(slice);
                Ok(())
            }
            _ => {
                let model = &self.model[&slice];
                Err(format!(
                    "{slice}: recovered {:?} {:?}, durable is {:?}, asked was {:?}",
                    found.prepared, found.committed, model.durable.prepared, model.log.prepared,
                ))
            }
        }
    }

    /// The log that some number of calls left behind and that is what was found.
    fn find_log(&mut self, slice: SliceId, found: &RecoveredSlice) -> Option<Log> {
        let store = self.store.as_ref().expect("there is a store");
        let entries: Vec<_> = store.entries_above(slice, found.committed).collect();
        let stable = self.stables.get(&slice).copied().unwrap_or(Sequence::ZERO);
        let model = &self.model[&slice];
        let dropping = model.dropping.is_some();
        model.candidates().into_iter().find(|log| {
            let expected = log.entries.range(found.committed.next()..);
            let dropped = dropping && log.prepared.1 == Sequence::ZERO;
            log.prepared == found.prepared
                && log.state == found.state
                && expected.map(|(_, entry)| entry).eq(entries.iter().copied())
                && found.committed <= model.committed.max(found.prepared.1)
                && (dropped || found.committed >= stable)
                && found.committed <= log.prepared.1
        })
    }

    fn accept(
        &mut self,
        slice: SliceId,
        found: &RecoveredSlice,
        log: Log,
        is_there: bool,
    ) -> Check {
        let stopped = self.stopped;
        let model = self.model.get_mut(&slice).expect("it is there");
        if found.committed > model.committed {
            return Err(format!("{slice}: {} was never committed", found.committed));
        }
        for (command, sequence) in &found.commands {
            let entry = log.entries.get(sequence);
            if entry.is_some_and(|entry| entry.command != *command) {
                return Err(format!("{slice}: {command:?} is not {sequence}"));
            }
        }
        for (command, (sequence, since)) in &model.commands {
            let there = log
                .entries
                .get(sequence)
                .is_some_and(|entry| entry.command == *command);
            let young = stopped.since(*since) < TWO_LIFETIMES;
            if there && young && !found.commands.contains(&(*command, *sequence)) {
                return Err(format!("{slice}: {command:?} is forgotten"));
            }
        }
        let was_dropping = model.dropping.is_some();
        // One whose entries are all void has nothing, and is there all the same.
        let is_gone = was_dropping && !is_there && log == Log::default();
        model.recovered_as(log);
        if is_gone {
            self.dropped(slice)?;
        } else {
            model.dropping = None;
            // The crash may have come before its log began: it cannot go on from nothing.
            if model.filled.is_some() && model.log.prepared.1 < model.committed {
                self.restart(slice)?;
            }
        }
        self.voids += 1;
        Ok(())
    }

    /// A slice that the store lost, and says so: it is filled again.
    fn refill(&mut self, slice: SliceId) -> Check {
        let model = self.model.get_mut(&slice).expect("it is there");
        let log = model.log.clone();
        let committed = model.committed;
        model.recovered_as(log);
        model.calls.clear();
        model.forget_versions_above(committed);
        // What came back although it had ended is not wanted.
        model.dropping = Some(model.epoch > Epoch::ZERO);
        let token = self.token(Asked::Call(slice));
        let model = self.model.get_mut(&slice).expect("it is there");
        model.calls.push_back((token.0, super::model::Call::Drop));
        let now = self.now;
        let (store, out) = self.store_and_out();
        store.drop_slice(now, slice, token, out);
        Ok(())
    }
}

/// The blocks of one of the pages that a run uses.
pub(crate) fn page_blocks(index: u32) -> std::ops::Range<u32> {
    let page = if index == PAGES {
        PAGES_PER_SLICE - 1
    } else {
        index
    };
    page * BLOCKS_PER_PAGE..(page + 1) * BLOCKS_PER_PAGE
}

/// The instant at which a run's clock begins.
pub(crate) const BEGIN: Instant = Instant::from_nanos(1_000_000);
