//! What a replica writes: entries, epochs, its state; and how far its slice is committed.

use holdfast_format::{Body, PageKey, STATE_BYTES_MAX};
use holdfast_model::{
    BLOCKS_PER_PAGE, BlockRange, Change, Entry, Epoch, PageIndex, Sequence, SliceId,
};
use holdfast_stdx::{Bytes, Instant};

use alloc::vec::Vec;

use crate::event::StoreToken;
use crate::item::{Item, ItemId, Source};
use crate::machine::{Core, Hold, Lane, Pending, Purpose, Waiter};

impl Core {
    pub(crate) fn append(
        &mut self,
        now: Instant,
        id: SliceId,
        entry: Entry,
        committed: Sequence,
        token: StoreToken,
    ) {
        let slice = self.make_slice(id);
        assert!(
            entry.sequence == slice.prepared.1.next(),
            "entries are appended in order"
        );
        assert!(entry.epoch >= slice.prepared.0, "epochs rise in a log");
        assert!(
            entry.sequence > slice.committed.1,
            "what is committed stays"
        );
        slice.prepared = (entry.epoch, entry.sequence);
        let sequence = entry.sequence;
        let slots = self.place(id, &entry);
        let mut item = Item::new(id, Source::Entry(entry), now);
        item.slots = slots;
        let body = item.body();
        let item = self.add_item(item);
        self.write_slots(item);
        self.slice_mut(id).log.insert(sequence, item);
        let pending = Pending {
            token: Some(token),
            ..Pending::of(id, Purpose::Item(item), now)
        };
        self.log(body, Lane::Data, pending);
        self.set_committed(now, id, committed);
    }

    /// Adds an item that was just asked for: what it fills has room.
    pub(crate) fn add_item(&mut self, item: Item) -> ItemId {
        if item.fills() {
            let range = item.range().expect("what fills has blocks");
            for (page, _) in range.by_page() {
                assert!(
                    self.is_provided(item.slice, page),
                    "room is reserved before data is appended"
                );
            }
        }
        self.list_item(item)
    }

    /// Adds an item and lists it in the pages that it touches. A clear touches only pages that
    /// exist or that some other item touches: of the others there is nothing to clear.
    pub(crate) fn list_item(&mut self, item: Item) -> ItemId {
        let id = item.slice;
        let pages = match item.range() {
            None => Vec::new(),
            Some(range) if item.fills() => range.by_page().map(|(page, _)| page).collect(),
            Some(range) => self.pages_there(id, range),
        };
        let rank = item.rank();
        let number = self.items.add(item, pages.len());
        self.follow_unfinished(number);
        for page in pages {
            self.list_clears(id, page);
            let slice = self.slice_mut(id);
            let overlay = slice.overlay.entry(page).or_default();
            overlay.add_unsettled(rank, number);
            self.update_reservation(id, page);
        }
        number
    }

    /// A page comes to be: entries that clear a part of it and are not settled are listed there from now on, although there
    /// was nothing to clear. Otherwise a copy that is older than they are would be taken later for what they cleared.
    fn list_clears(&mut self, id: SliceId, page: PageIndex) {
        let key = PageKey { slice: id, page };
        let slice = self.slice(id).expect("the slice exists");
        if slice.overlay.contains_key(&page) || self.pages.page(key).is_some() {
            return;
        }
        let touches = |number: &ItemId| {
            let range = self.items[*number].range();
            range.is_some_and(|range| range.overlaps(BlockRange::page(page)))
        };
        let clears = slice.log.iter().filter(|(_, number)| touches(number));
        let clears: Vec<(Sequence, ItemId)> = clears.map(|(rank, it)| (*rank, *it)).collect();
        if clears.is_empty() {
            return;
        }
        let overlay = self.slice_mut(id).overlay.entry(page).or_default();
        for (rank, number) in clears {
            overlay.add_unsettled(rank, number);
        }
    }

    fn pages_there(&self, id: SliceId, range: BlockRange) -> Vec<PageIndex> {
        let first = PageIndex(range.start() / BLOCKS_PER_PAGE);
        let last = PageIndex((range.end() - 1) / BLOCKS_PER_PAGE);
        let slice = self.slice(id).expect("the slice exists");
        let mut pages: Vec<PageIndex> = slice
            .overlay
            .range(first..=last)
            .map(|(page, _)| *page)
            .chain(self.pages.pages_in(id, first..=last).map(|(page, _)| page))
            .collect();
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    pub(crate) fn begin_epoch(
        &mut self,
        now: Instant,
        id: SliceId,
        epoch: Epoch,
        after: Sequence,
        token: StoreToken,
    ) {
        let slice = self.make_slice(id);
        assert!(after >= slice.committed.1, "what is committed stays");
        assert!(
            after <= slice.prepared.1,
            "an epoch begins after what is there"
        );
        let (hold, mut tokens) = self.void_above(id, after);
        tokens.push(token);
        let body = Body::BeginEpoch { epoch, after };
        self.log_void(now, id, body, Purpose::Void(hold), tokens);
    }

    /// Forgets all entries above `after`. Until the record that says so is durable, recovery may
    /// find those that the journal has: what is kept for that is given back, to be let go then. The others never go there; with
    /// that record come the tokens that are given back, too.
    fn void_above(&mut self, id: SliceId, after: Sequence) -> (Hold, Vec<StoreToken>) {
        let slice = self.slices.get(&id).expect("the slice exists");
        if after >= slice.prepared.1 {
            // There are none. Thousands of slices may begin an epoch at a time.
            return (Hold::default(), Vec::new());
        }
        let epoch = self.epoch_at(slice, after);
        let slice = self.slice_mut(id);
        slice.prepared = (epoch, after);
        slice.durable = slice.durable.min(after);
        let voided = slice.log.split_off(&after.next());
        let partition = slice.partition;
        // One that waits in the journal will be in the group that comes next, or in a later one.
        let next = self.journal.next_group(partition);
        let items = voided.values().map(|item| &self.items[*item]);
        let known = items.filter(|item| item.in_journal);
        let group = known.map(|item| item.group.unwrap_or(next)).min();
        if let Some(group) = group {
            self.journal.pin(partition, group);
        }
        let mut slots = Vec::new();
        for item in voided.values() {
            let item = self.items.get_mut(*item).expect("a living item");
            if item.in_journal {
                slots.extend(item.slots.drain(..).flatten().map(|page| page.slot));
            }
        }
        self.forget_unfinished(id, after);
        for item in voided.into_values() {
            self.forget_unsettled(item);
        }
        self.partitions[usize::from(partition)]
            .commands
            .retain(|command| command.slice != id || command.sequence <= after);
        for pending in self
            .records
            .values_mut()
            .filter(|pending| pending.slice == id)
        {
            if let Purpose::Commands(commands) = &mut pending.purpose {
                commands.retain(|(_, _, sequence)| *sequence <= after);
            }
        }
        let tokens = self.withdraw(id);
        (Hold { group, slots }, tokens)
    }

    /// Takes an item that is not settled out of the overlay, and its log reference away.
    pub(crate) fn forget_unsettled(&mut self, item: ItemId) {
        let (id, rank) = {
            let item = &self.items[item];
            (item.slice, item.rank())
        };
        let fills = self.items[item].fills();
        for page in self.unlist(item, id, rank) {
            if fills {
                // The room stays promised: the entry's successor will need it.
                self.slice_mut(id).claims[0].insert(page);
                self.claimed = true;
            }
            self.drop_overlay_if_empty(id, page);
        }
        self.release_item(item);
    }

    /// Takes an item out of the lists of its pages: the pages that had it.
    pub(crate) fn unlist(&mut self, item: ItemId, id: SliceId, rank: Sequence) -> Vec<PageIndex> {
        let Some(range) = self.items[item].range() else {
            return Vec::new();
        };
        let first = PageIndex(range.start() / BLOCKS_PER_PAGE);
        let last = PageIndex((range.end() - 1) / BLOCKS_PER_PAGE);
        let slice = self.slice_mut(id);
        slice
            .overlay
            .range_mut(first..=last)
            .filter_map(|(page, overlay)| overlay.remove_unsettled(rank, item).then_some(*page))
            .collect()
    }

    pub(crate) fn drop_overlay_if_empty(&mut self, id: SliceId, page: PageIndex) {
        let slice = self.slice_mut(id);
        if slice
            .overlay
            .get(&page)
            .is_some_and(crate::overlay::PageOverlay::is_empty)
        {
            slice.overlay.remove(&page);
        }
        self.update_reservation(id, page);
    }

    /// Takes one reference of an item away; with the last one its pin goes.
    pub(crate) fn release_item(&mut self, id: ItemId) {
        let Some(item) = self.items.release(id) else {
            return;
        };
        self.destage.forget(id);
        if let Some(group) = item.group {
            let partition = self.slice(item.slice).expect("the slice exists").partition;
            self.journal.unpin(partition, group);
            let state = &mut self.partitions[usize::from(partition)];
            state.items.remove(&(group, id));
            state.live_bytes -= item.cost;
        }
        for page in item.slots.iter().flatten() {
            self.pages.give_back(page.slot);
        }
    }

    pub(crate) fn restart_log(
        &mut self,
        now: Instant,
        id: SliceId,
        at: (Epoch, Sequence),
        token: StoreToken,
    ) {
        let slice = self.make_slice(id);
        assert!(at.1 >= slice.committed.1, "a log never goes back");
        let committed = slice.committed.1;
        let (hold, mut tokens) = self.void_above(id, committed);
        tokens.push(token);
        let slice = self.slice_mut(id);
        // What it lacks is brought by others.
        slice.lacks = false;
        slice.prepared = at;
        slice.committed = at;
        slice.absent = slice.absent.max(at.1);
        let body = Body::Position {
            epoch: at.0,
            sequence: at.1,
            restart: true,
            damaged: slice.damaged,
        };
        self.log_void(now, id, body, Purpose::Restart(at, hold), tokens);
    }

    pub(crate) fn put_state(&mut self, now: Instant, id: SliceId, state: Bytes, token: StoreToken) {
        assert!(state.len() <= STATE_BYTES_MAX, "a state is at most 16 KiB");
        self.make_slice(id);
        self.log_plain(now, id, Body::State(state), Purpose::State, token);
    }

    pub(crate) fn mend(&mut self, now: Instant, id: SliceId, token: StoreToken) {
        let slice = self.make_slice(id);
        slice.damaged = false;
        let partition = usize::from(slice.partition);
        // Those of this opening: there can be no others that anybody knew of.
        let known = self.partitions[partition].holes.clone();
        self.log_plain(now, id, Body::Mended(known), Purpose::Other, token);
    }

    pub(crate) fn log_plain(
        &mut self,
        now: Instant,
        id: SliceId,
        body: Body,
        purpose: Purpose,
        token: StoreToken,
    ) {
        let pending = Pending {
            token: Some(token),
            ..Pending::of(id, purpose, now)
        };
        self.log(body, Lane::InOrder, pending);
    }

    pub(crate) fn set_committed(&mut self, now: Instant, id: SliceId, committed: Sequence) {
        let prepared = self
            .slice(id)
            .map_or(Sequence::ZERO, |slice| slice.prepared.1);
        assert!(committed <= prepared, "only what is prepared is committed");
        let Some(slice) = self
            .slices
            .get(&id)
            .filter(|slice| committed > slice.committed.1)
        else {
            return;
        };
        let epoch = self.epoch_at(slice, committed);
        // A page that does not exist has been cleared all the same: no older copy may bring it back.
        let cleared = slice
            .log
            .range(slice.committed.1.next()..=committed)
            .rev()
            .find(|(_, item)| {
                let entry = self.items[**item].entry();
                entry.is_some_and(|entry| matches!(entry.change, Change::Clear(_)))
            })
            .map(|(sequence, _)| *sequence);
        let slice = self.slice_mut(id);
        slice.committed = (epoch, committed);
        slice.absent = slice.absent.max(cleared.unwrap_or(Sequence::ZERO));
        self.commit_at.get_or_insert(now + self.config.commit_after);
    }

    /// Gives committed points that no record has stated for a while a record of their own.
    pub(crate) fn state_commits(&mut self, now: Instant) {
        if self.commit_at.is_none_or(|at| now < at) {
            return;
        }
        let unstated: Vec<SliceId> = self
            .slices
            .iter()
            .filter(|(_, slice)| slice.is_unstated())
            .map(|(id, _)| *id)
            .collect();
        for id in unstated {
            self.state_position(now, id, Waiter::Nobody);
        }
        // What is committed and not durable here yet is stated when it is.
        let late = self
            .slices
            .values()
            .any(|slice| !slice.dropping && slice.committed.1 > slice.durable);
        self.commit_at = late.then_some(now + self.config.commit_after);
    }

    pub(crate) fn state_position(&mut self, now: Instant, id: SliceId, waiter: Waiter) {
        let body = self.position(id);
        let pending = Pending {
            waiter,
            ..Pending::of(id, Purpose::Position, now)
        };
        self.log(body, Lane::Inner, pending);
    }

    /// The record that states how far a slice is committed, with the epoch.
    pub(crate) fn position(&self, id: SliceId) -> Body {
        let slice = self.slice(id).expect("the slice exists");
        let sequence = slice.to_state();
        Body::Position {
            epoch: self.epoch_at(slice, sequence),
            sequence,
            restart: false,
            damaged: slice.damaged,
        }
    }
}
