//! An open store: journal, pages, and what is between them.
//!
//! After every event `maintain` does the same few things: admits appends that waited for room,
//! states committed points, destages, trims, goes on with the journal's move and with orders about
//! devices, writes groups.
//!
//! Invariants:
//! - what has been reported durable is in a durable group of the journal, or in pages;
//! - only settled items are destaged: recovery is certain to find them committed;
//! - an item leaves memory when its blocks are in pages, their entries in the table, the set of
//!   pages in the journal, and all of that is on stable storage.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use holdfast_format::{Body, Hole, Record};
use holdfast_journal::{Footprint, GroupNumber, Journal, Written};
use holdfast_model::{CommandId, DiskCompletion, DiskRequest, Epoch, Sequence, SliceId};
use holdfast_pages::{Pages, PagesEvent};
use holdfast_stdx::{Duration, Instant};

use crate::absent::Loss;
use crate::ahead::Streams;
use crate::config::StoreConfig;
use crate::destage::Destage;
use crate::devices::Devices;
use crate::event::{Output, StoreToken};
use crate::item::{ItemId, Items};
use crate::journal_move::JournalMove;
use crate::moves::Moves;
use crate::placed::{PlacedLog, Placing};
use crate::read::Reads;
use crate::rebuild::Awaited;
use crate::requests::{Requests, Urgency};
use crate::slice::Slice;
use crate::unfinished::Unfinished;

/// Tokens from here on are the journal's.
pub(crate) const JOURNAL_TOKENS: u64 = 1 << 56;
/// Tokens from here on are the page store's.
pub(crate) const PAGES_TOKENS: u64 = 2 << 56;

/// Tokens from here on are for orders about devices.
pub(crate) const DEVICES_TOKENS: u64 = 3 << 56;

/// Tokens from here on are for the journal's move.
pub(crate) const MOVE_TOKENS: u64 = 4 << 56;

/// Tokens from here on are for noting that a device is lost.
pub(crate) const LOSS_TOKENS: u64 = 5 << 56;

/// How long command ids and claims are kept: two lifetimes of a command.
pub(crate) const TWO_LIFETIMES: Duration = Duration::from_secs(8);
/// Command ids of a partition beyond which the store counts as congested: 8 seconds of 32,000
/// writes each, about 20 MiB.
const COMMANDS_MAX: usize = 1 << 18;

/// What is kept for entries that are void until the record that says so is durable: recovery may find them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hold {
    /// The oldest group with one of them, which is pinned.
    pub(crate) group: Option<GroupNumber>,
    /// Slots with their data.
    pub(crate) slots: Vec<u32>,
}

/// What a record in the journal is for.
#[derive(Clone, Debug)]
pub(crate) enum Purpose {
    /// The first copy of an item.
    Item(ItemId),
    /// A copy of an item whose segment is to be trimmed.
    CarriedItem(ItemId),
    State,
    Position,
    /// A position after which the log begins anew, and what is kept for entries that are void by it.
    Restart((Epoch, Sequence), Hold),
    /// The end of entries, and what is kept for them.
    Void(Hold),
    /// A change of the set of pages, or a checkpoint of it.
    Pages {
        checkpoint: bool,
    },
    /// Command ids whose entries are to be trimmed.
    Commands(Vec<(Instant, CommandId, Sequence)>),
    Drop,
    /// Anything else.
    Other,
}

/// Who waits for a record besides its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    Nobody,
    /// The round's removals.
    Removals,
    /// The round's additions.
    Additions,
    /// Something is carried forward so that a segment can be trimmed.
    Carry,
}

/// Whether a record may have to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// For room, and for everything that waits already.
    Data,
    /// For earlier records of its slice only.
    InOrder,
    /// Never: room is made by writing it.
    Inner,
}

#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) slice: SliceId,
    pub(crate) token: Option<StoreToken>,
    /// Tokens that come right after that one.
    pub(crate) then: Vec<StoreToken>,
    pub(crate) purpose: Purpose,
    pub(crate) waiter: Waiter,
    pub(crate) since: Instant,
}

impl Pending {
    /// One that nobody is told of, and nothing in the store waits for.
    pub(crate) fn of(slice: SliceId, purpose: Purpose, since: Instant) -> Self {
        Self {
            slice,
            token: None,
            then: Vec::new(),
            purpose,
            waiter: Waiter::Nobody,
            since,
        }
    }
}

/// A command's id with what is needed to carry it forward.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecentCommand {
    pub(crate) group: GroupNumber,
    pub(crate) since: Instant,
    pub(crate) slice: SliceId,
    pub(crate) command: CommandId,
    pub(crate) sequence: Sequence,
}

/// A partition of the journal, seen from the store.
#[derive(Debug, Default)]
pub(crate) struct PartitionState {
    pub(crate) in_flight: Option<Written>,
    pub(crate) commands: VecDeque<RecentCommand>,
    /// The items that are pinned in the journal, by group.
    pub(crate) items: BTreeSet<(GroupNumber, ItemId)>,
    /// What those items cost.
    pub(crate) live_bytes: u64,
    /// What of its changes is in slots.
    pub(crate) placed: PlacedLog,
    /// Records that have room and wait for data on its way to slots, and those behind them.
    pub(crate) held: Footprint,
    /// Records under way that carry something forward.
    pub(crate) carrying: u32,
    /// While entries are carried forward: the oldest group that has one of them. Redo must begin
    /// there until all of the copies are durable, for a copy is right only with those after it.
    pub(crate) carry_hold: Option<GroupNumber>,
    /// The copies that are durable.
    pub(crate) carried: Vec<(ItemId, GroupNumber)>,
    /// Copies that power failed between.
    pub(crate) unfinished: Option<Unfinished>,
    /// Slices of the partition that are being dropped.
    pub(crate) dropping: u32,
    /// Holes in its chain that were found when the store was opened.
    pub(crate) holes: Vec<Hole>,
}

/// An open store.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) config: StoreConfig,
    pub(crate) journal: Journal,
    pub(crate) pages: Pages,
    pub(crate) requests: Requests,
    pub(crate) slices: BTreeMap<SliceId, Slice>,
    pub(crate) items: Items,
    pub(crate) records: BTreeMap<u64, Pending>,
    pub(crate) next_record: u64,
    /// Appends that wait for room, in order.
    pub(crate) waiting: VecDeque<(u64, Record)>,
    pub(crate) partitions: Vec<PartitionState>,
    pub(crate) placing: Placing,
    pub(crate) reads: Reads,
    pub(crate) streams: Streams,
    pub(crate) destage: Destage,
    pub(crate) moves: Moves,
    pub(crate) devices: Devices,
    pub(crate) journal_move: JournalMove,
    /// Pages without a slot that will need one, over all slices.
    pub(crate) reserved: u32,
    /// There may be claims.
    pub(crate) claimed: bool,
    /// When claims grow old, if there are any.
    pub(crate) claims_turn: Option<Instant>,
    /// When a committed point that nothing has stated gets a record of its own.
    pub(crate) commit_at: Option<Instant>,
    /// A device has failed: nothing is done any more, but what is done about its loss.
    pub(crate) failed: bool,
    pub(crate) loss: Option<Loss>,
    /// Room for what the page store says, which is used again.
    pub(crate) pages_said: Vec<PagesEvent>,
    /// The store is not open yet.
    pub(crate) awaited: Option<Awaited>,
}

impl Core {
    pub(crate) fn handle_disk(
        &mut self,
        now: Instant,
        completion: DiskCompletion,
        out: &mut Output,
    ) {
        let disk = self.requests.complete(completion.token);
        self.destage.blocked = false;
        self.moves.blocked = false;
        let result = if completion.token.0 >= MOVE_TOKENS {
            self.handle_journal_move(completion)
        } else if completion.token.0 >= DEVICES_TOKENS {
            self.handle_devices(completion, out)
        } else if completion.token.0 >= PAGES_TOKENS {
            self.handle_pages(now, completion, out)
        } else if self.journal.is_for_check(completion.token) {
            self.handle_check(completion, out)
        } else if self.journal.is_for_copy(completion.token) {
            self.journal.take_copied(completion).map_err(|_| ())
        } else if completion.result.is_ok() {
            let partition = self.journal.partition_of(completion.token);
            if self.journal.complete(partition) {
                self.group_durable(now, partition, out);
            }
            Ok(())
        } else {
            Err(())
        };
        if result.is_err() {
            return self.device_failed(disk, out);
        }
        self.maintain(now, out);
    }

    fn handle_pages(
        &mut self,
        now: Instant,
        completion: DiskCompletion,
        out: &mut Output,
    ) -> Result<(), ()> {
        let result = self.with_pages(now, Urgency::Background, out, |pages, requests, events| {
            pages.handle(completion, requests, events)
        });
        result.map_err(|_| ())
    }

    /// Lets the page store do something, sends what it asks of the devices, and does what follows from what it says.
    pub(crate) fn with_pages<R>(
        &mut self,
        now: Instant,
        urgency: Urgency,
        out: &mut Output,
        act: impl FnOnce(&mut Pages, &mut Vec<DiskRequest>, &mut Vec<PagesEvent>) -> R,
    ) -> R {
        let mut requests = Vec::new();
        let mut events = core::mem::take(&mut self.pages_said);
        let result = act(&mut self.pages, &mut requests, &mut events);
        self.push_pages(requests, urgency);
        for event in events.drain(..) {
            self.pages_say(now, event, out);
        }
        self.pages_said = events;
        result
    }

    pub(crate) fn push_pages(&mut self, requests: Vec<DiskRequest>, urgency: Urgency) {
        for request in requests {
            self.requests.push(request, urgency);
        }
    }

    fn pages_say(&mut self, now: Instant, event: PagesEvent, out: &mut Output) {
        match event {
            PagesEvent::Read(done) => self.page_read_done(now, done, out),
            PagesEvent::Planned(plan) => self.round_planned(now, &plan, out),
            PagesEvent::Mapped(plan) => self.round_mapped(&plan),
            PagesEvent::RoundDone(plan) => self.round_done(now, &plan, out),
            PagesEvent::Placed { id } => self.placed_is_down(ItemId(id)),
        }
    }

    /// What is done after every event.
    pub(crate) fn maintain(&mut self, now: Instant, out: &mut Output) {
        if self.failed {
            return;
        }
        self.age_claims(now);
        self.expire_commands(now);
        self.admit();
        self.state_commits(now);
        self.go_on_destaging(now, out);
        if self.destage.stranded {
            self.admit();
        }
        self.go_on_trimming(now);
        self.go_on_blanking();
        self.go_on_moving_journal();
        self.go_on_ordering(out);
        for partition in 0..self.partitions.len() as u16 {
            self.start_group(partition);
        }
        self.requests.release(&mut out.requests);
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let too_many = self
            .partitions
            .iter()
            .filter(|partition| partition.commands.len() > COMMANDS_MAX)
            .filter_map(|partition| partition.commands.front())
            .map(|command| command.since + TWO_LIFETIMES)
            .min();
        [
            self.commit_at,
            self.claims_turn,
            self.destage_due(),
            self.moves.look_at,
            too_many,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    pub(crate) fn slice(&self, slice: SliceId) -> Option<&Slice> {
        self.slices.get(&slice)
    }

    /// The slice, which exists.
    pub(crate) fn slice_mut(&mut self, slice: SliceId) -> &mut Slice {
        self.slices.get_mut(&slice).expect("the slice exists")
    }

    /// The slice, made if it does not exist yet.
    pub(crate) fn make_slice(&mut self, slice: SliceId) -> &mut Slice {
        let partition = partition_of(slice, self.partitions.len() as u16);
        let state = self
            .slices
            .entry(slice)
            .or_insert_with(|| Slice::new(partition));
        assert!(!state.dropping, "a slice is not used while it is dropped");
        state
    }

    /// Hands a record to the journal, or has it wait.
    pub(crate) fn log(&mut self, body: Body, lane: Lane, pending: Pending) {
        let id = pending.slice;
        let record = Record {
            slice: id,
            committed: Sequence::ZERO,
            body,
        };
        let tag = self.next_record;
        self.next_record += 1;
        self.records.insert(tag, pending);
        let others_wait = self.slice_mut(id).waiting > 0;
        let waits = match lane {
            Lane::Data => others_wait || !self.waiting.is_empty() || !self.has_room(),
            Lane::InOrder => others_wait,
            Lane::Inner => false,
        };
        if waits {
            self.slice_mut(id).waiting += 1;
            self.waiting.push_back((tag, record));
        } else if lane == Lane::Inner {
            self.give_to_journal(tag, record);
        } else {
            self.hand_over(tag, record);
        }
    }

    /// Hands on what has waited for room, as long as there is some.
    fn admit(&mut self) {
        while self.has_room()
            && let Some((tag, record)) = self.waiting.pop_front()
        {
            self.slice_mut(record.slice).waiting -= 1;
            self.hand_over(tag, record);
        }
    }

    pub(crate) fn give_to_journal(&mut self, tag: u64, record: Record) {
        if let Purpose::Item(item) = &self.records[&tag].purpose
            && let Some(item) = self.items.get_mut(*item)
        {
            item.in_journal = true;
        }
        let slice = self.slice_mut(record.slice);
        if let Body::State(state) = &record.body {
            slice.state = Some(state.clone());
        }
        slice.unwritten += 1;
        let partition = slice.partition;
        self.journal.append(partition, record, tag);
    }

    /// The budget for what is not destaged: the configured one, but never more than a quarter of
    /// the journal, so that the journal is never full of it.
    pub(crate) fn dirty_bytes_max(&self) -> u64 {
        let journal_bytes =
            u64::from(self.journal.segment_count()) * self.journal.record_data_max() as u64 * 2;
        self.config.dirty_bytes_max.min(journal_bytes / 4)
    }

    /// Whether new writes should hold off.
    pub(crate) fn is_congested(&self) -> bool {
        !self.waiting.is_empty()
            || self.items.bytes() > self.dirty_bytes_max() / 2
            || self
                .partitions
                .iter()
                .any(|partition| partition.commands.len() > COMMANDS_MAX)
    }

    pub(crate) fn oldest_unfinished_append(&self) -> Option<Instant> {
        // Records are numbered as they come.
        let mut records = self.records.values();
        let oldest = records.find(|pending| pending.token.is_some())?;
        Some(oldest.since)
    }

    /// The epoch of the entry at a point from the stable one on.
    pub(crate) fn epoch_at(&self, slice: &Slice, sequence: Sequence) -> Epoch {
        if sequence == slice.prepared.1 {
            return slice.prepared.0;
        }
        if sequence == slice.committed.1 {
            return slice.committed.0;
        }
        slice
            .log
            .get(&sequence)
            .and_then(|item| self.items[*item].entry())
            .map_or(slice.stable.0, |entry| entry.epoch)
    }
}

/// The partition that a slice writes to: fixed by its id for the life of the store.
pub(crate) fn partition_of(slice: SliceId, partitions: u16) -> u16 {
    assert!(partitions > 0, "there is a partition");
    let mut hash = slice.volume.0 ^ (u64::from(slice.index) << 32);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((hash ^ (hash >> 31)) % u64::from(partitions)) as u16
}
