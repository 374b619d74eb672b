//! From what recovery found to an open store.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use holdfast_format::Body;
use holdfast_journal::{GroupNumber, Journal};
use holdfast_model::{PAGE_SIZE, Sequence, SliceId};
use holdfast_pages::Pages;
use holdfast_stdx::Instant;

use crate::ahead::Streams;
use crate::config::StoreConfig;
use crate::destage::Destage;
use crate::devices::Devices;
use crate::event::{Output, Recovered, RecoveredSlice, StrayDevice};
use crate::item::{Item, ItemId, Items, PlacedPage};
use crate::journal_move::JournalMove;
use crate::machine::{Core, Lane, PartitionState, Pending, Purpose, RecentCommand, partition_of};
use crate::moves::Moves;
use crate::placed::Placing;
use crate::read::Reads;
use crate::recovered::{Outcome, Redo, Sliver, Slivers, named};
use crate::requests::Requests;
use crate::slice::Slice;

/// What is waited for before the store is open: a first group of each partition, which overwrites
/// a torn tail.
#[derive(Debug)]
pub(crate) struct Awaited {
    pub(crate) partitions: BTreeSet<u16>,
    pub(crate) recovered: Recovered,
}

impl Core {
    pub(crate) fn rebuild(
        config: StoreConfig,
        journal: Journal,
        pages: Pages,
        requests: Requests,
        mut slivers: Slivers,
        (devices, strays): (Devices, Vec<StrayDevice>),
        now: Instant,
    ) -> Self {
        let (_, superblock) = &devices.members[0];
        let mut recovered = Recovered {
            store: superblock.store,
            use_counter: superblock.use_counter,
            use_ids: Box::new(superblock.use_ids),
            slices: BTreeMap::new(),
            strays,
        };
        let partitions = slivers.holes.len() as u16;
        let mut core = Self {
            config,
            journal,
            pages,
            requests,
            slices: BTreeMap::new(),
            items: Items::default(),
            records: BTreeMap::new(),
            next_record: 0,
            waiting: VecDeque::new(),
            partitions: (0..partitions).map(|_| PartitionState::default()).collect(),
            placing: Placing::default(),
            reads: Reads::default(),
            streams: Streams::default(),
            destage: Destage::default(),
            moves: Moves::default(),
            devices,
            journal_move: JournalMove::default(),
            reserved: 0,
            claimed: false,
            claims_turn: None,
            commit_at: None,
            failed: false,
            loss: None,
            pages_said: Vec::new(),
            awaited: None,
        };
        core.add_unknown_slices(&mut slivers);
        let suspects = slivers.suspects.clone();
        for (id, sliver) in slivers.slices {
            let suspect = suspects[usize::from(partition_of(id, partitions))];
            let slice = core.rebuild_slice(now, id, sliver, suspect);
            recovered.slices.insert(id, slice);
        }
        for (partition, holes) in (0..partitions).zip(slivers.holes) {
            core.partitions[usize::from(partition)].holes = named(holes);
            core.journal.force(partition);
        }
        core.awaited = Some(Awaited {
            partitions: (0..partitions).collect(),
            recovered,
        });
        core
    }

    /// Slices that the table knows and the journal does not: dropped, or lost in a hole.
    fn add_unknown_slices(&mut self, slivers: &mut Slivers) {
        let partitions = slivers.holes.len() as u16;
        let unknown: Vec<SliceId> = self
            .pages
            .slices()
            .filter(|id| !slivers.slices.contains_key(id))
            .collect();
        for id in unknown {
            let holes = &slivers.holes[usize::from(partition_of(id, partitions))];
            if !holes.is_empty() && !slivers.dropped.contains_key(&id) {
                slivers.slices.insert(id, Sliver::lost());
            } else {
                let none = holdfast_format::PageSet::new();
                self.pages.prove(id, &none, true, Sequence::ZERO);
            }
        }
    }

    fn rebuild_slice(
        &mut self,
        now: Instant,
        id: SliceId,
        mut sliver: Sliver,
        suspect: Option<GroupNumber>,
    ) -> RecoveredSlice {
        let outcome = sliver.finish();
        // Only what is settled is in pages.
        let written = outcome.committed.1.max(sliver.committed);
        self.pages
            .prove(id, &sliver.pages, sliver.pages_certain, written);
        let partition = partition_of(id, self.partitions.len() as u16);
        let mut slice = Slice::new(partition);
        slice.prepared = outcome.prepared;
        slice.committed = outcome.committed;
        slice.stable = outcome.committed;
        slice.stated = outcome.committed.1;
        slice.durable = outcome.prepared.1;
        slice.absent = written;
        slice.state = sliver.state.clone();
        slice.kept = sliver.kept;
        slice.damaged = sliver.is_damaged();
        slice.logged = core::mem::take(&mut sliver.pages);
        if !sliver.pages_certain {
            for (page, _) in self.pages.pages(id) {
                slice.logged.set(page, true);
            }
        }
        self.slices.insert(id, slice);
        self.log_repairs(now, id, &outcome, sliver.pages_certain);
        let mut recovered = sliver.recovered(&outcome, suspect);
        let recent = recovered
            .commands
            .iter()
            .map(|(command, sequence)| RecentCommand {
                group: GroupNumber(0),
                since: now,
                slice: id,
                command: *command,
                sequence: *sequence,
            });
        self.partitions[usize::from(partition)]
            .commands
            .extend(recent);
        let mut again = Vec::new();
        let settled = outcome.settled.into_iter().map(|redo| (redo, true));
        let unsettled = outcome.unsettled.into_iter().map(|redo| (redo, false));
        for (redo, is_settled) in settled.chain(unsettled) {
            let is_again = outcome
                .carry_again
                .is_some_and(|from| redo.source.rank() >= from);
            let number = self.redo(now, id, redo, is_settled);
            again.extend(is_again.then_some(number));
        }
        self.leave_unfinished(id, again.into_iter());
        recovered.lacks = self.devices.list().lacks_one() && self.lacks(id);
        self.slice_mut(id).lacks = recovered.lacks;
        recovered
    }

    /// Whether the slice has a page of which nothing is left, and that memory does not make up for.
    fn lacks(&self, id: SliceId) -> bool {
        let overlay = &self.slice(id).expect("it was just made").overlay;
        let is_made_up_for = |page| {
            let page = overlay.get(&page);
            page.is_some_and(|page| page.good_mask() == u64::MAX)
        };
        self.pages.lacking_in(id).any(|page| !is_made_up_for(page))
    }

    /// Writes down what a damaged journal no longer says by itself.
    fn log_repairs(&mut self, now: Instant, id: SliceId, outcome: &Outcome, pages_certain: bool) {
        if let Some(body) = outcome.record_of_cut() {
            let purpose = match body {
                Body::Position { .. } => Purpose::Position,
                _ => Purpose::Other,
            };
            self.log_repair(now, id, body, purpose);
        }
        if self.slice_mut(id).damaged {
            let body = self.position(id);
            self.log_repair(now, id, body, Purpose::Position);
        }
        if !pages_certain {
            let set = self.slice_mut(id).logged.clone();
            let purpose = Purpose::Pages { checkpoint: true };
            self.log_repair(now, id, Body::Checkpoint(set), purpose);
        }
    }

    fn log_repair(&mut self, now: Instant, id: SliceId, body: Body, purpose: Purpose) {
        let pending = Pending::of(id, purpose, now);
        self.log(body, Lane::Inner, pending);
    }

    fn redo(&mut self, now: Instant, id: SliceId, redo: Redo, settled: bool) -> ItemId {
        let mut item = Item::new(id, redo.source, now);
        item.bad = redo.bad;
        let placed = redo.slots.len() as u64 * PAGE_SIZE as u64;
        let mut claim = |page: &PlacedPage| self.pages.claim(page.slot);
        let slots = redo.slots.into_iter();
        item.slots = slots.map(|page| page.filter(&mut claim)).collect();
        item.group = Some(redo.group);
        item.in_journal = true;
        item.durable = true;
        let rank = item.rank();
        let number = self.list_item(item);
        let partition = self.slice_mut(id).partition;
        self.journal.pin(partition, redo.group);
        let cost = self.items[number].cost;
        let state = &mut self.partitions[usize::from(partition)];
        state.placed.add(redo.group, placed);
        state.items.insert((redo.group, number));
        state.live_bytes += cost;
        if settled {
            self.settle_item(id, number);
        } else {
            self.slice_mut(id).log.insert(rank, number);
        }
        number
    }

    /// The first group of a partition is durable; with the last of them the store is open.
    pub(crate) fn partition_open(&mut self, partition: u16, out: &mut Output) {
        let Some(awaited) = &mut self.awaited else {
            return;
        };
        awaited.partitions.remove(&partition);
        if awaited.partitions.is_empty() {
            let awaited = self.awaited.take().expect("it was just there");
            let event = crate::event::StoreEvent::Opened(awaited.recovered);
            out.events.push_back(event);
        }
    }
}
