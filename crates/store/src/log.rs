//! Groups of the journal: what is noted when one is begun, and what follows when it is durable.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use holdfast_journal::{Begun, GroupNumber};
use holdfast_model::{PAGE_SIZE, Sequence, SliceId};
use holdfast_stdx::Instant;

use crate::event::{Output, StoreEvent};
use crate::item::ItemId;
use crate::machine::{Core, Hold, Pending, Purpose, RecentCommand, TWO_LIFETIMES, Waiter};
use crate::requests::Urgency;

impl Core {
    /// Begins to write the next group of a partition, if there is one.
    pub(crate) fn start_group(&mut self, partition: u16) {
        let slices = &self.slices;
        let committed = |id: SliceId| {
            slices
                .get(&id)
                .map_or(Sequence::ZERO, super::slice::Slice::to_state)
        };
        let Some(begun) = self.journal.start(partition, committed) else {
            return;
        };
        let Begun {
            request,
            twin,
            written,
        } = begun;
        self.requests.push(request, Urgency::Group);
        if let Some(twin) = twin {
            self.requests.push(twin, Urgency::Group);
        }
        for record in &written.records {
            if let Some(slice) = self.slices.get_mut(&record.slice) {
                slice.stated = slice.stated.max(record.committed);
                slice.unwritten -= 1;
            }
            self.note_written(partition, written.group, record.tag);
        }
        self.partitions[usize::from(partition)].in_flight = Some(written);
    }

    /// A record is in a group that is being written: what it says is found there from now on.
    fn note_written(&mut self, partition: u16, group: GroupNumber, tag: u64) {
        let pending = &self.records[&tag];
        let id = pending.slice;
        let since = pending.since;
        let Some(slice) = self.slices.get_mut(&id) else {
            return;
        };
        match &pending.purpose {
            Purpose::Item(item) => {
                let item = *item;
                self.note_item(partition, group, item, since);
            }
            Purpose::Commands(commands) => {
                let known = &mut self.partitions[usize::from(partition)].commands;
                known.extend(
                    commands
                        .iter()
                        .map(|(since, command, sequence)| RecentCommand {
                            group,
                            since: *since,
                            slice: id,
                            command: *command,
                            sequence: *sequence,
                        }),
                );
            }
            Purpose::State => slice.kept.state = Some(group),
            Purpose::Position | Purpose::Restart(..) => slice.kept.position = Some(group),
            Purpose::Pages { checkpoint: true } => slice.kept.pages = Some(group),
            Purpose::Pages { checkpoint: false } => {
                slice.kept.pages.get_or_insert(group);
            }
            Purpose::Drop => {
                slice.kept.position = Some(group);
                self.journal.pin(partition, group);
            }
            Purpose::CarriedItem(_) | Purpose::Void(_) | Purpose::Other => {}
        }
    }

    fn note_item(&mut self, partition: u16, group: GroupNumber, id: ItemId, since: Instant) {
        // A void item is gone; its record is void in the journal too.
        let Some(item) = self.items.get_mut(id) else {
            return;
        };
        item.group = Some(group);
        let cost = item.cost;
        let slice = item.slice;
        let placed = item.slots.len() as u64 * PAGE_SIZE as u64;
        let recent = item
            .entry()
            .filter(|entry| entry.command.node != 0)
            .map(|entry| RecentCommand {
                group,
                since,
                slice,
                command: entry.command,
                sequence: entry.sequence,
            });
        let state = &mut self.partitions[usize::from(partition)];
        state.commands.extend(recent);
        state.items.insert((group, id));
        state.live_bytes += cost;
        state.placed.add(group, placed);
        self.journal.pin(partition, group);
    }

    /// The group of a partition that was in flight is on stable storage.
    pub(crate) fn group_durable(&mut self, now: Instant, partition: u16, out: &mut Output) {
        let written = self.partitions[usize::from(partition)]
            .in_flight
            .take()
            .expect("a group was in flight");
        self.partitions[usize::from(partition)]
            .placed
            .forget_before(written.redo_from);
        let mut touched = BTreeSet::new();
        let mut done: Vec<Pending> = Vec::new();
        for record in &written.records {
            let pending = self
                .records
                .remove(&record.tag)
                .expect("a written record is known");
            touched.insert(record.slice);
            self.record_durable(partition, written.group, &pending);
            self.advance_stable(record.slice, record.committed);
            done.push(pending);
        }
        for slice in touched {
            self.settle(slice);
        }
        for pending in done {
            if !matches!(pending.purpose, Purpose::Drop) {
                let durable = pending.tokens().map(|token| StoreEvent::Durable { token });
                out.events.extend(durable);
            }
            self.wake(now, partition, &pending, out);
        }
        self.partition_open(partition, out);
    }

    fn record_durable(&mut self, partition: u16, group: GroupNumber, pending: &Pending) {
        match &pending.purpose {
            Purpose::Item(id) => {
                if let Some(item) = self.items.get_mut(*id) {
                    item.durable = true;
                    let is_entry = item.entry().is_some();
                    let rank = item.rank();
                    let slice = self.slice_mut(pending.slice);
                    if is_entry {
                        slice.durable = slice.durable.max(rank);
                    } else {
                        slice.installs.push(*id);
                    }
                }
            }
            Purpose::CarriedItem(id) => {
                let carried = &mut self.partitions[usize::from(partition)].carried;
                carried.push((*id, group));
            }
            Purpose::Void(hold) => self.let_go(partition, hold),
            Purpose::Restart(at, hold) => {
                self.let_go(partition, hold);
                let at = *at;
                if let Some(slice) = self.slices.get_mut(&pending.slice) {
                    slice.durable = slice.durable.max(at.1);
                    slice.stable = slice.stable.max(at);
                    slice.stated = slice.stated.max(at.1);
                }
            }
            _ => {}
        }
    }

    /// What is void is so for whoever recovers the journal, too.
    fn let_go(&mut self, partition: u16, hold: &Hold) {
        if let Some(group) = hold.group {
            self.journal.unpin(partition, group);
        }
        for slot in &hold.slots {
            self.pages.give_back(*slot);
        }
    }

    fn advance_stable(&mut self, id: SliceId, stated: Sequence) {
        let Some(slice) = self.slices.get(&id) else {
            return;
        };
        if stated > slice.stable.1 {
            let epoch = self.epoch_at(slice, stated);
            self.slice_mut(id).stable = (epoch, stated);
        }
    }

    /// Merges what recovery is now certain to find committed into the overlay.
    fn settle(&mut self, id: SliceId) {
        let Some(slice) = self.slices.get_mut(&id) else {
            return;
        };
        let unsettled = slice.log.split_off(&slice.stable.1.next());
        let mut settled: Vec<ItemId> = core::mem::replace(&mut slice.log, unsettled)
            .into_values()
            .collect();
        settled.append(&mut slice.installs);
        for item in settled {
            self.settle_item(id, item);
        }
    }

    pub(crate) fn settle_item(&mut self, id: SliceId, number: ItemId) {
        let item = &self.items[number];
        assert!(item.durable, "only what is durable is settled");
        let rank = item.rank();
        let mut lost = Vec::new();
        let mut parts = 0;
        for page in self.unlist(number, id, rank) {
            let masks = self.items[number].masks(page);
            let slice = self.slices.get_mut(&id).expect("the slice exists");
            let overlay = slice
                .overlay
                .get_mut(&page)
                .expect("the page has an overlay");
            parts += overlay.settle(number, rank, masks, &mut lost);
            self.drop_overlay_if_empty(id, page);
        }
        if parts > 0 {
            self.items.refer(number, parts);
            self.destage.add(number);
        }
        self.release_item(number);
        for item in lost {
            self.release_item(item);
        }
    }

    /// Tells who waits for a record that it is durable.
    fn wake(&mut self, now: Instant, partition: u16, pending: &Pending, out: &mut Output) {
        match pending.waiter {
            Waiter::Nobody => {}
            Waiter::Carry => self.carry_durable(partition),
            Waiter::Removals => self.removals_logged(now, out),
            Waiter::Additions => self.additions_logged(now, out),
        }
        if matches!(pending.purpose, Purpose::Drop) {
            self.drop_logged(pending);
        }
    }

    pub(crate) fn expire_commands(&mut self, now: Instant) {
        for partition in &mut self.partitions {
            while partition
                .commands
                .front()
                .is_some_and(|command| now.since(command.since) >= TWO_LIFETIMES)
            {
                partition.commands.pop_front();
            }
        }
    }
}
