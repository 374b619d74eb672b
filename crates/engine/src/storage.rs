//! The store, as the rest of the engine uses it: every call's token leads back to who made it.
//!
//! Invariants:
//! - a token has one use, and its end is told once;
//! - blocks that are read come as runs of the same kind, adjacent data sharing its buffer.

use alloc::collections::BTreeMap;

use holdfast_model::{
    BLOCK_SIZE, BlockRange, Change, DiskCompletion, DiskRequest, Entry, Epoch, PageIndex, Sequence,
    SliceId,
};
use holdfast_replica::{NotInstalled, Token};
use holdfast_stdx::{Bytes, BytesMut, Instant};
use holdfast_store::{
    BlockRead, DeviceOrder, InstallRefused, Output as StoreOutput, ReadRequest, ReadSource, Store,
    StoreEvent, StoreToken, View,
};
use holdfast_wire::{BlockContent, Content, Contents};

use crate::scrub::Question;

/// What a call to the store was for.
#[derive(Clone, Debug)]
pub(crate) enum Use {
    /// A durable operation of a slice's replica.
    Durable(SliceId),
    /// An entry of a slice's log, appended then.
    Append(SliceId, Instant),
    /// A slice's state: what is here of it is relied on no more.
    Doubt,
    /// A note.
    Note(SliceId),
    /// The end of a note.
    NoteGone(SliceId),
    /// A repaired block: nobody waits for it.
    Repair,
    /// An order about a device, by its driver's number.
    Order(u64),
    /// A read.
    Read(Read),
}

/// A read under way.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) slice: SliceId,
    pub(crate) range: BlockRange,
    pub(crate) view: View,
    pub(crate) source: ReadSource,
    pub(crate) reader: Reader,
    pub(crate) began: Instant,
    /// The committed point when it was begun the last time: what was found is not older.
    pub(crate) as_of: Sequence,
    /// How often it was begun because blocks were bad.
    pub(crate) attempts: u32,
    /// How often another replica was asked again that could not answer.
    pub(crate) asked_again: u32,
}

impl Read {
    /// One that begins now, of what is on the media.
    pub(crate) fn new(
        now: Instant,
        slice: SliceId,
        range: BlockRange,
        view: View,
        reader: Reader,
    ) -> Self {
        Self {
            slice,
            range,
            view,
            source: ReadSource::Media,
            reader,
            began: now,
            as_of: Sequence::ZERO,
            attempts: 0,
            asked_again: 0,
        }
    }
}

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// The slice's replica.
    Replica(Token),
    /// A part of a command, from the portal here or from another node.
    Part(holdfast_model::CommandId),
    /// Another node, for repair. Bad blocks are told as they are.
    Peer {
        node: holdfast_model::NodeId,
        number: u64,
        epoch: Epoch,
        as_of: Sequence,
    },
    /// Nobody: bad blocks are to be mended.
    Mending,
    /// A scrub here. Bad blocks are told as they are.
    Scrub {
        number: u64,
        as_of: Sequence,
        written: Option<Sequence>,
    },
    /// A scrub elsewhere. Bad blocks are told as they are.
    Verifier(Question),
    /// Nobody: what another replica has is to be put in place of what is here.
    Correcting,
}

/// Bytes that cost a node about as much as one more command.
const BYTES_PER_WORK: u64 = 64 << 10;

/// The store and the calls under way.
#[derive(Debug)]
pub(crate) struct Storage {
    store: Store,
    out: StoreOutput,
    uses: BTreeMap<StoreToken, Use>,
    next_token: u64,
    /// What hosts have had slices do here, since the start.
    work: BTreeMap<SliceId, u64>,
}

impl Storage {
    pub(crate) fn new(store: Store, out: StoreOutput) -> Self {
        Self {
            store,
            out,
            uses: BTreeMap::new(),
            next_token: 1,
            work: BTreeMap::new(),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn take_requests(&mut self) -> impl Iterator<Item = DiskRequest> {
        self.out.requests.drain(..)
    }

    pub(crate) fn event_count(&self) -> usize {
        self.out.events.len()
    }

    /// One at a time: the room for them is used again.
    pub(crate) fn take_event(&mut self) -> Option<StoreEvent> {
        self.out.events.pop_front()
    }

    /// What the call under `token` was for; asked once, when it ends.
    pub(crate) fn take_use(&mut self, token: StoreToken) -> Use {
        self.uses.remove(&token).expect("what ends was begun")
    }

    fn token(&mut self, purpose: Use) -> StoreToken {
        let token = StoreToken(self.next_token);
        self.next_token += 1;
        self.uses.insert(token, purpose);
        token
    }

    pub(crate) fn handle_disk(&mut self, now: Instant, completion: DiskCompletion) {
        self.store.handle_disk(now, completion, &mut self.out);
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.store.handle_timeout(now, &mut self.out);
    }

    pub(crate) fn order_device(&mut self, now: Instant, number: u64, order: DeviceOrder) {
        let token = self.token(Use::Order(number));
        self.store.order_device(now, order, token, &mut self.out);
    }

    pub(crate) fn append(
        &mut self,
        now: Instant,
        slice: SliceId,
        entry: Entry,
        committed: Sequence,
    ) -> Token {
        self.count_work(slice, entry.change.data_bytes() as u64);
        let token = self.token(Use::Append(slice, now));
        self.store
            .append(now, slice, entry, committed, token, &mut self.out);
        Token(token.0)
    }

    pub(crate) fn begin_epoch(
        &mut self,
        now: Instant,
        slice: SliceId,
        epoch: Epoch,
        after: Sequence,
    ) -> Token {
        let token = self.token(Use::Durable(slice));
        self.store
            .begin_epoch(now, slice, epoch, after, token, &mut self.out);
        Token(token.0)
    }

    pub(crate) fn restart_log(
        &mut self,
        now: Instant,
        slice: SliceId,
        after: (Epoch, Sequence),
    ) -> Token {
        let token = self.token(Use::Durable(slice));
        self.store
            .restart_log(now, slice, after, token, &mut self.out);
        Token(token.0)
    }

    pub(crate) fn put_state(&mut self, now: Instant, slice: SliceId, state: Bytes) -> Token {
        let token = self.token(Use::Durable(slice));
        self.store
            .put_state(now, slice, state, token, &mut self.out);
        Token(token.0)
    }

    /// Lets a round of destage begin: so many pages, and bytes.
    pub(crate) fn destage(&mut self, now: Instant) -> (u64, u64) {
        self.store.destage(now, &mut self.out)
    }

    pub(crate) fn put_doubted(&mut self, now: Instant, slice: SliceId, state: Bytes) {
        let token = self.token(Use::Doubt);
        self.store
            .put_state(now, slice, state, token, &mut self.out);
    }

    /// What is here of a slice counts for nothing, and goes.
    pub(crate) fn drop_doubted(&mut self, now: Instant, slice: SliceId) {
        let token = self.token(Use::Doubt);
        self.store.drop_slice(now, slice, token, &mut self.out);
    }

    pub(crate) fn put_note(&mut self, now: Instant, place: SliceId, note: Bytes) {
        let token = self.token(Use::Note(place));
        self.store.put_state(now, place, note, token, &mut self.out);
    }

    pub(crate) fn drop_note(&mut self, now: Instant, place: SliceId) {
        let token = self.token(Use::NoteGone(place));
        self.store.drop_slice(now, place, token, &mut self.out);
    }

    pub(crate) fn mend(&mut self, now: Instant, slice: SliceId) -> Token {
        let token = self.token(Use::Durable(slice));
        self.store.mend(now, slice, token, &mut self.out);
        Token(token.0)
    }

    pub(crate) fn drop_slice(&mut self, now: Instant, slice: SliceId) -> Token {
        let token = self.token(Use::Durable(slice));
        self.work.remove(&slice);
        self.store.drop_slice(now, slice, token, &mut self.out);
        Token(token.0)
    }

    pub(crate) fn set_committed(&mut self, now: Instant, slice: SliceId, committed: Sequence) {
        self.store.set_committed(now, slice, committed);
    }

    pub(crate) fn reserve(&mut self, slice: SliceId, range: BlockRange) -> bool {
        self.store.reserve(slice, range).is_ok()
    }

    /// Installs a copy for the slice's replica.
    pub(crate) fn install(
        &mut self,
        now: Instant,
        slice: SliceId,
        range: BlockRange,
        change: Option<Change>,
        as_of: Sequence,
    ) -> Result<Token, NotInstalled> {
        let token = self.token(Use::Durable(slice));
        let installed = match change {
            Some(change) => self
                .store
                .install(now, slice, change, as_of, token, &mut self.out),
            None => self
                .store
                .install_bad(now, slice, range, as_of, token, &mut self.out),
        };
        if installed.is_err() {
            self.uses.remove(&token);
        }
        installed
            .map(|()| Token(token.0))
            .map_err(|refused| match refused {
                InstallRefused::Stale => NotInstalled::Newer,
                InstallRefused::Undecided => NotInstalled::Undecided,
            })
    }

    /// Installs a repaired block. Whether it could be ordered shows when the block is read again.
    pub(crate) fn repair(
        &mut self,
        now: Instant,
        slice: SliceId,
        change: Change,
        as_of: Sequence,
    ) -> bool {
        let token = self.token(Use::Repair);
        let installed = self
            .store
            .install(now, slice, change, as_of, token, &mut self.out);
        if installed.is_err() {
            self.uses.remove(&token);
        }
        installed.is_ok()
    }

    /// What hosts have had a slice do here since the start: each read and each entry counts, and each 64 KiB of
    /// them as much again.
    pub(crate) fn work(&self, slice: SliceId) -> u64 {
        self.work.get(&slice).copied().unwrap_or(0)
    }

    fn count_work(&mut self, slice: SliceId, bytes: u64) {
        let work = self.work.entry(slice).or_default();
        *work += 1 + bytes / BYTES_PER_WORK;
    }

    /// How many committed blocks are known to be bad.
    pub(crate) fn bad_blocks(&self, slice: SliceId) -> u64 {
        let masks = self.store.bad_blocks(slice).into_values();
        masks.map(|mask| u64::from(mask.count_ones())).sum()
    }

    pub(crate) fn read(&mut self, now: Instant, mut read: Read) {
        let request = ReadRequest {
            slice: read.slice,
            range: read.range,
            view: read.view,
            source: read.source,
        };
        let (slice, range) = (read.slice, read.range);
        read.as_of = self.store.committed(slice);
        if let Reader::Part(_) = read.reader {
            self.count_work(slice, u64::from(range.count()) * BLOCK_SIZE as u64);
        }
        let token = self.token(Use::Read(read));
        self.store.read(now, request, token, &mut self.out);
    }

    /// Reads both copies of a page's entry of the page table, for a scrub.
    pub(crate) fn check_entry(&mut self, slice: SliceId, page: PageIndex) {
        self.store.check_entry(slice, page, &mut self.out);
    }

    /// Has the journal read, for a scrub.
    pub(crate) fn check_journal(&mut self) {
        self.store.check_journal();
    }

    /// Lets a piece of it be read.
    pub(crate) fn check_journal_piece(&mut self) {
        self.store.check_piece(&mut self.out);
    }

    /// A read for the slice's replica, named by a token of its own.
    pub(crate) fn read_for_replica(
        &mut self,
        now: Instant,
        slice: SliceId,
        range: BlockRange,
        view: View,
    ) -> Token {
        let name = Token(self.next_token);
        self.next_token += 1;
        let source = match view {
            // For what a host waits for.
            View::Prepared => ReadSource::Anywhere,
            View::Committed => ReadSource::Media,
        };
        let read = Read {
            source,
            ..Read::new(now, slice, range, view, Reader::Replica(name))
        };
        self.read(now, read);
        name
    }
}

/// The blocks of `range` as runs of the same kind.
pub(crate) fn contents_of(range: BlockRange, blocks: &[BlockRead]) -> Contents {
    assert!(
        blocks.len() == range.count() as usize,
        "a read brings every block"
    );
    let mut contents = Contents::new();
    let mut start = range.start();
    for run in blocks.chunk_by(is_one_run) {
        let count = run.len() as u32;
        let content = match &run[0] {
            BlockRead::Data { .. } => data_of(run),
            BlockRead::Zero => BlockContent::Zero,
            BlockRead::Bad { .. } => BlockContent::Bad,
        };
        contents.push(Content {
            range: BlockRange::new(start, count),
            content,
        });
        start += count;
    }
    contents
}

/// Whether two blocks, one after the other, are of one run. Each bad one is told by itself.
fn is_one_run(block: &BlockRead, next: &BlockRead) -> bool {
    matches!(
        (block, next),
        (BlockRead::Data { .. }, BlockRead::Data { .. }) | (BlockRead::Zero, BlockRead::Zero)
    )
}

/// A run of data as one buffer. `Bytes` that lie side by side cannot be joined again without a copy.
fn data_of(run: &[BlockRead]) -> BlockContent {
    let blocks = run.iter().filter_map(|block| match block {
        BlockRead::Data { data, checksum } => Some((data, *checksum)),
        BlockRead::Zero | BlockRead::Bad { .. } => None,
    });
    let checksums = blocks.clone().map(|(_, checksum)| checksum).collect();
    let data = match run {
        [BlockRead::Data { data, .. }] => data.clone(),
        _ => {
            let mut whole = BytesMut::with_capacity(run.len() * BLOCK_SIZE);
            blocks.for_each(|(data, _)| whole.extend_from_slice(data));
            whole.freeze()
        }
    };
    BlockContent::Data { data, checksums }
}
