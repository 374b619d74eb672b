//! Trimming: the oldest segment of a partition can be used again when nothing in it matters.
//!
//! What is in pages does not matter any more. What still does is written again at the chain's end:
//! entries that are not decided, each slice's state, position and set of pages, the ids of recent
//! commands. Only when those copies are durable the segment is trimmed. One that has rotted is trimmed although it is
//! not due.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use holdfast_format::Body;
use holdfast_format::record::COMMANDS_PER_RECORD_MAX;
use holdfast_journal::GroupNumber;
use holdfast_model::{CommandId, Epoch, Sequence, SliceId};
use holdfast_stdx::Instant;

use crate::item::ItemId;
use crate::machine::{Core, Lane, Pending, Purpose, TWO_LIFETIMES, Waiter};

/// Segments that a chain keeps although nothing in them may matter: trimming each as soon as it is
/// full would write every slice's state again for every segment.
const CHAIN_SEGMENTS: usize = 4;

impl Core {
    pub(crate) fn go_on_trimming(&mut self, now: Instant) {
        for partition in 0..self.partitions.len() as u16 {
            self.finish_carrying(now, partition);
            self.take_out_of_slots(now, partition);
        }
        // Until left-over table entries are cleared, the records that say that they are left over
        // must stay.
        if self.pages.has_leftovers() {
            return;
        }
        for partition in 0..self.partitions.len() as u16 {
            self.journal.leave_rotten(partition);
            while self.trim_one(now, partition) {}
        }
    }

    /// Trims one segment, or carries forward what is in its way; says whether to go on.
    fn trim_one(&mut self, now: Instant, partition: u16) -> bool {
        let tight = self.is_journal_tight();
        let long = self.journal.chain_segments(partition) > CHAIN_SEGMENTS;
        let rotten = self.journal.is_rotten(partition);
        let state = &self.partitions[usize::from(partition)];
        if state.carrying > 0 || !(tight || long || rotten) {
            return false;
        }
        if state.dropping > 0 {
            return false;
        }
        let Some((last, free_of_pins)) = self.journal.oldest_segment(partition) else {
            return false;
        };
        let there = state
            .items
            .range(..=(last, ItemId(u64::MAX)))
            .map(|(_, item)| *item);
        // Mostly the first of them waits for destage: nothing more is looked at then.
        let waits = |item: &ItemId| self.destage.is_settled(*item) && !self.is_stranded(*item);
        if there.clone().any(|item| waits(&item)) {
            return false;
        }
        let in_the_way: Vec<ItemId> = there.collect();
        let is_undecided = |number: &&ItemId| !self.destage.is_settled(**number);
        for number in in_the_way.iter().filter(is_undecided) {
            let item = &self.items[*number];
            if !item.durable {
                return false;
            }
            let slice = self.slice(item.slice).expect("the slice exists");
            if item.rank() <= slice.committed.1 {
                // It is settled as soon as a record has said so.
                if slice.is_unstated() {
                    self.commit_at = Some(now);
                }
                return false;
            }
        }
        if in_the_way.is_empty() && !free_of_pins {
            // Entries that are void, by a record that is not durable yet.
            return false;
        }
        if !in_the_way.is_empty() && !self.may_carry(partition, last, &in_the_way) {
            return false;
        }
        self.carry_items(now, partition, &in_the_way);
        self.carry_slices(now, partition, last);
        self.carry_commands(now, partition, last);
        if self.partitions[usize::from(partition)].carrying > 0 {
            return false;
        }
        self.journal.trim(partition);
        if tight || rotten {
            self.journal.force(partition);
        }
        true
    }

    /// Whether so much of the chain is dead that copying what lives makes room: at least half, and
    /// two segments more. Otherwise entries that nobody decides would be copied round and round.
    pub(crate) fn is_carrying_worth_it(&self, partition: u16) -> bool {
        let segment_bytes = 2 * self.journal.record_data_max() as u64;
        let live = self.partitions[usize::from(partition)].live_bytes;
        let live_segments = live.div_ceil(segment_bytes);
        self.journal.chain_segments(partition) as u64 >= 2 * live_segments + 2
    }

    pub(crate) fn carry(&mut self, now: Instant, id: SliceId, body: Body, purpose: Purpose) {
        let partition = self.slice(id).expect("the slice exists").partition;
        self.partitions[usize::from(partition)].carrying += 1;
        let pending = Pending {
            waiter: Waiter::Carry,
            ..Pending::of(id, purpose, now)
        };
        self.log(body, Lane::Inner, pending);
    }

    /// Carries what is stranded and undecided entries forward, and with each those entries of its slice that
    /// follow it and are not settled: of two changes of a block the later must stay behind the earlier in
    /// the journal, for redo may begin between them.
    pub(crate) fn carry_items(&mut self, now: Instant, partition: u16, items: &[ItemId]) {
        let mut from: BTreeMap<SliceId, Sequence> = BTreeMap::new();
        let mut hold: Option<GroupNumber> = None;
        for number in items {
            let item = &self.items[*number];
            let first = from.entry(item.slice).or_insert(item.rank());
            *first = item.rank().min(*first);
            let group = item.group.expect("it is in the journal");
            hold = Some(hold.map_or(group, |hold| hold.min(group)));
        }
        let Some(hold) = hold else {
            return;
        };
        self.journal.pin(partition, hold);
        let state = &mut self.partitions[usize::from(partition)];
        assert!(state.carry_hold.is_none(), "one thing is carried at a time");
        state.carry_hold = Some(hold);
        for number in items {
            if self.destage.is_settled(*number) {
                self.carry_stranded(now, *number);
            }
        }
        for (id, first) in from {
            let slice = self.slice(id).expect("the slice exists");
            let numbers: Vec<ItemId> = slice
                .log
                .range(first..)
                .map(|(_, number)| *number)
                .filter(|number| self.items[*number].in_journal)
                .collect();
            for number in numbers {
                let body = self.items[number].body();
                self.carry(now, id, body, Purpose::CarriedItem(number));
            }
        }
    }

    /// One more copy is durable; with the last of them the items are where the copies are.
    pub(crate) fn carry_durable(&mut self, partition: u16) {
        let state = &mut self.partitions[usize::from(partition)];
        state.carrying -= 1;
        if state.carrying > 0 {
            return;
        }
        for (number, group) in core::mem::take(&mut state.carried) {
            let Some(item) = self.items.get_mut(number) else {
                continue;
            };
            let old = item.group.replace(group).expect("it was in the journal");
            self.journal.pin(partition, group);
            self.journal.unpin(partition, old);
            state.items.remove(&(old, number));
            state.items.insert((group, number));
            if core::mem::take(&mut item.leaves_slots) {
                for page in item.slots.drain(..).flatten() {
                    self.pages.give_back(page.slot);
                }
            }
        }
        if let Some(hold) = state.carry_hold.take() {
            self.journal.unpin(partition, hold);
        }
    }

    fn carry_slices(&mut self, now: Instant, partition: u16, last: GroupNumber) {
        let ids: Vec<SliceId> = self
            .slices
            .iter()
            .filter(|(_, slice)| slice.partition == partition)
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            let slice = self.slice(id).expect("the slice exists");
            let kept = slice.kept;
            // Everything in the segment is settled by now, and the stable point above it.
            let is_told = kept.position.is_some_and(|group| group > last)
                && kept.position_covers.is_some_and(|group| group >= last);
            // A log that began anew at zero, and holds nothing yet, has an epoch all the same.
            let has_log = slice.prepared != (Epoch::ZERO, Sequence::ZERO) || slice.damaged;
            let state = slice.state.clone();
            if kept.state.is_some_and(|group| group <= last) {
                let state = state.expect("a state was written");
                self.carry(now, id, Body::State(state), Purpose::State);
            }
            if has_log && !is_told {
                self.slice_mut(id).kept.position_covers = Some(last);
                let body = self.position(id);
                self.carry(now, id, body, Purpose::Position);
            }
            if kept.pages.is_some_and(|group| group <= last) {
                let set = self.slice(id).expect("the slice exists").logged.clone();
                let purpose = Purpose::Pages { checkpoint: true };
                self.carry(now, id, Body::Checkpoint(set), purpose);
            }
        }
    }

    fn carry_commands(&mut self, now: Instant, partition: u16, last: GroupNumber) {
        let commands = &mut self.partitions[usize::from(partition)].commands;
        let mut recent: BTreeMap<SliceId, Vec<(Instant, CommandId, Sequence)>> = BTreeMap::new();
        while let Some(command) = commands.front().filter(|command| command.group <= last) {
            if now.since(command.since) < TWO_LIFETIMES {
                recent.entry(command.slice).or_default().push((
                    command.since,
                    command.command,
                    command.sequence,
                ));
            }
            commands.pop_front();
        }
        for (id, commands) in recent {
            if self.slice(id).is_none() {
                continue;
            }
            for chunk in commands.chunks(COMMANDS_PER_RECORD_MAX) {
                let ids = chunk
                    .iter()
                    .map(|(_, command, sequence)| (*command, *sequence))
                    .collect();
                let purpose = Purpose::Commands(chunk.to_vec());
                self.carry(now, id, Body::Commands(ids), purpose);
            }
        }
    }
}
