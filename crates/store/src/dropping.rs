//! Slices that go: their end is written down, memory forgets them, and their pages are freed round by round.
//!
//! Invariants:
//! - until a slice's end is in the journal all is there that it had, for whoever recovers; from then on nothing is;
//! - a drop waits for no room: what was asked of the slice before and still waits for some goes with it, and is
//!   told to be durable when the end is.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use holdfast_format::{Body, PageKey, Record};
use holdfast_model::{Sequence, SliceId};
use holdfast_pages::{PageJob, PageWork};
use holdfast_stdx::Instant;

use crate::destage::ROUND_PAGES_MAX;
use crate::event::{Output, StoreEvent, StoreToken};
use crate::item::ItemId;
use crate::machine::{Core, Lane, Pending, Purpose};

impl Core {
    pub(crate) fn drop_slice(&mut self, now: Instant, id: SliceId, token: StoreToken) {
        let slice = self.make_slice(id);
        slice.dropping = true;
        let partition = usize::from(slice.partition);
        self.partitions[partition].dropping += 1;
        self.abandon_waiting(id);
        // A round under way may still log pages of the slice; its end must come after.
        self.destage.to_drop.push_back((id, token, now));
    }

    /// Takes back what of a slice waits for room.
    fn abandon_waiting(&mut self, id: SliceId) {
        let waiting = core::mem::take(&mut self.waiting);
        let is_of = |record: &Record| record.slice == id;
        let (gone, others): (VecDeque<_>, VecDeque<_>) =
            waiting.into_iter().partition(|(_, record)| is_of(record));
        self.waiting = others;
        self.slice_mut(id).waiting -= gone.len() as u32;
        let held = core::mem::take(&mut self.slice_mut(id).held);
        for (_, record) in &held {
            self.no_longer_held(record);
        }
        for (tag, _) in held.into_iter().chain(gone) {
            let pending = self
                .records
                .remove(&tag)
                .expect("a waiting record is known");
            let slice = self.slice_mut(id);
            slice.abandoned.tokens.extend(pending.tokens());
            // The log still has the entries.
            if let Purpose::Item(item) = pending.purpose {
                let known = self.items.get(item);
                if known.is_some_and(|it| it.entry().is_none()) {
                    self.slice_mut(id).abandoned.copies.push(item);
                }
            }
        }
    }

    /// No round is under way: the ends of slices are written down.
    pub(crate) fn log_drops(&mut self) {
        while let Some((id, token, since)) = self.destage.to_drop.pop_front() {
            self.slice_mut(id).is_ended = true;
            let pending = Pending {
                token: Some(token),
                ..Pending::of(id, Purpose::Drop, since)
            };
            self.log(Body::DropSlice, Lane::InOrder, pending);
        }
    }

    /// A slice's end is in the journal: memory forgets it, its pages go round by round.
    pub(crate) fn drop_logged(&mut self, pending: &Pending) {
        let id = pending.slice;
        self.forget_unfinished(id, Sequence::ZERO);
        let slice = self.slice_mut(id);
        slice.drop_token = pending.token;
        let mut gone: Vec<ItemId> = core::mem::take(&mut slice.log).into_values().collect();
        gone.append(&mut slice.installs);
        gone.append(&mut slice.abandoned.copies);
        for mut overlay in core::mem::take(&mut slice.overlay).into_values() {
            overlay.clear_parts(&mut gone);
        }
        let reserved = core::mem::take(&mut slice.reserved).len() as u32;
        slice.claims = Default::default();
        let partition = slice.partition;
        self.reserved -= reserved;
        for item in gone {
            self.release_item(item);
        }
        self.partitions[usize::from(partition)]
            .commands
            .retain(|command| command.slice != id);
        self.destage.dropping.push_back(id);
    }

    /// The next pages of the slices that are being dropped; slices without any are done.
    pub(crate) fn drop_jobs(&mut self, out: &mut Output) -> Vec<PageJob> {
        while let Some(id) = self.destage.dropping.front().copied() {
            let jobs: Vec<PageJob> = self
                .pages
                .pages(id)
                .take(ROUND_PAGES_MAX)
                .map(|(page, view)| PageJob {
                    key: PageKey { slice: id, page },
                    written: view.written,
                    work: PageWork::Drop,
                })
                .collect();
            if !jobs.is_empty() {
                return jobs;
            }
            self.destage.dropping.pop_front();
            let slice = self.slices.remove(&id).expect("the slice exists");
            let group = slice.kept.position.expect("its end is in the journal");
            self.journal.unpin(slice.partition, group);
            self.partitions[usize::from(slice.partition)].dropping -= 1;
            let asked = slice.abandoned.tokens.into_iter().chain(slice.drop_token);
            let durable = asked.map(|token| StoreEvent::Durable { token });
            out.events.extend(durable);
        }
        Vec::new()
    }
}
