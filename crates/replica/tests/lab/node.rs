//! A node of the lab: a store in memory, and what its replica wants done.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use holdfast_model::{
    BLOCK_SIZE, BlockRange, Change, ChangedPage, CommandId, Entry, Epoch, Incarnation, NodeId,
    PageIndex, Sequence, StoreId,
};
use holdfast_replica::{Contents, Context, Found, Milestone, NotInstalled, Peer, Replica, Token};
use holdfast_stdx::{Bytes, Duration, Instant};
use holdfast_wire::{BlockContent, Content, Message, OutcomeCode, WIRE_VERSION};

use super::store;

pub(crate) struct Node {
    pub(crate) store: StoreId,
    pub(crate) incarnation: Incarnation,
    pub(crate) replica: Option<Replica>,
    /// The newest version of the protocol that it speaks.
    pub(crate) version: u16,
    pub(crate) world: World,
}

/// What a replica wants sent.
#[derive(Default)]
pub(crate) struct Outbox {
    pub(crate) messages: Vec<(NodeId, Message)>,
    pub(crate) hurried: Vec<NodeId>,
}

/// Everything of a node but its replica.
#[derive(Default)]
pub(crate) struct World {
    /// Entries, committed ones too.
    log: Vec<Entry>,
    prepared: (Epoch, Sequence),
    committed: Sequence,
    stable: Sequence,
    /// Committed blocks; a block of zeros is not there.
    blocks: BTreeMap<u32, u8>,
    /// Committed blocks that cannot be read.
    pub(crate) bad: BTreeSet<u32>,
    /// Up to where pages are written that are there.
    written: BTreeMap<PageIndex, Sequence>,
    /// Pages for which room was asked and given.
    promised: BTreeSet<PageIndex>,
    state: Option<Bytes>,
    /// Something durable was lost, and has not been made good.
    hole: bool,
    /// The journal's last group was bad when it was last read.
    suspect: bool,
    /// Durable operations that have not ended, and since when; what follows from their end.
    operations: VecDeque<(Token, Instant, Effect)>,
    /// The state, log and committed point that a crash leaves.
    kept: Kept,
    next_token: u64,
    /// The disk ends nothing.
    pub(crate) stuck: bool,
    /// Reads end at no time, though the disk does all else.
    pub(crate) reads_hang: bool,
    /// Hosts want so much that nothing may be done in the background.
    pub(crate) is_held: bool,
    pub(crate) reads: VecDeque<(Token, Contents)>,
    pub(crate) peers: BTreeMap<NodeId, Peer>,
    pub(crate) heard: BTreeMap<NodeId, Instant>,
    pub(crate) beats: BTreeMap<NodeId, Instant>,
    pub(crate) outbox: Outbox,
    pub(crate) proposals: Vec<Bytes>,
    pub(crate) refresh: bool,
    pub(crate) finished: Vec<(CommandId, OutcomeCode)>,
    pub(crate) milestones: Vec<Milestone>,
    pub(crate) copied_bytes: u64,
    /// The metadata does not hear of this node, nor it of the metadata.
    pub(crate) metadata_away: bool,
    /// Too many other slices take over.
    pub(crate) crowded: bool,
    /// Nodes that are not to lead.
    pub(crate) spared: BTreeSet<NodeId>,
    /// Whether somebody is about to break the protocol, and the links that were reset for it.
    pub(crate) expects_resets: bool,
    pub(crate) resets: Vec<NodeId>,
    /// Blocks that can be written to; all, if none is named.
    pub(crate) room: Option<usize>,
    /// A block that is on a device which is absent.
    away: Option<(u32, u8)>,
}

#[derive(Clone, Default)]
pub(crate) struct Kept {
    log: Vec<Entry>,
    prepared: (Epoch, Sequence),
    committed: Sequence,
    blocks: BTreeMap<u32, u8>,
    bad: BTreeSet<u32>,
    written: BTreeMap<PageIndex, Sequence>,
    state: Option<Bytes>,
    hole: bool,
    suspect: bool,
}

enum Effect {
    /// Everything as it was when the operation was asked for is durable.
    Keep(Box<Kept>),
}

impl Node {
    pub(crate) fn new(node: NodeId) -> Self {
        Self {
            store: store(node.0),
            incarnation: Incarnation(0),
            replica: None,
            version: WIRE_VERSION,
            world: World::default(),
        }
    }

    pub(crate) fn peer(&self) -> Peer {
        Peer {
            store: self.store,
            incarnation: self.incarnation,
            version: self.version,
            append_age: Duration::ZERO,
        }
    }
}

impl World {
    pub(crate) fn context(&mut self, now: Instant) -> FakeContext<'_> {
        FakeContext { now, world: self }
    }

    /// What a start finds.
    pub(crate) fn recover(&mut self) -> Found {
        let Kept {
            log,
            prepared,
            committed,
            blocks,
            bad,
            written,
            state,
            hole,
            suspect,
        } = self.kept.clone();
        let above = log.iter().filter(|entry| entry.sequence > committed);
        let found = Found {
            lacks: self.away.is_some_and(|(block, _)| bad.contains(&block)),
            state: state.clone(),
            committed,
            intact: !hole,
            tail_suspect: suspect,
            commands: log
                .iter()
                .map(|entry| (entry.command, entry.sequence))
                .collect(),
            changes: above
                .filter_map(|entry| Some((entry.sequence, entry.change.range()?)))
                .collect(),
        };
        (self.log, self.prepared, self.committed) = (log, prepared, committed);
        (self.stable, self.blocks, self.bad, self.state) = (committed, blocks, bad, state);
        (self.hole, self.written) = (hole, written);
        self.suspect = suspect;
        found
    }

    /// The process is gone: what was not durable is lost.
    pub(crate) fn crash(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        *self = Self {
            kept,
            away: self.away,
            next_token: self.next_token,
            ..Self::default()
        };
    }

    /// The device with the last block is away.
    pub(crate) fn take_device(&mut self) {
        self.away = self.kept.blocks.pop_last();
        self.kept.bad.extend(self.away.map(|(block, _)| block));
    }

    /// It is there again, as it was.
    pub(crate) fn give_device_back(&mut self) {
        let (block, value) = self.away.take().expect("a device is away");
        assert!(self.kept.bad.remove(&block), "nothing was brought");
        self.kept.blocks.insert(block, value);
    }

    /// The last block that was written to is gone, and a part of the journal with it.
    pub(crate) fn spoil(&mut self) {
        self.kept.blocks.pop_last();
        self.kept.hole = true;
    }

    /// The journal's last group is bad: the last block that was copied was in it.
    pub(crate) fn spoil_end(&mut self) {
        self.kept.blocks.pop_last();
        self.kept.suspect = true;
    }

    /// A part of the journal is gone: the one that held the replica's state.
    pub(crate) fn lose_state(&mut self) {
        self.kept.state = None;
        self.kept.hole = true;
    }

    /// What the disk holds, as somebody copies it.
    pub(crate) fn copy(&self) -> Kept {
        self.kept.clone()
    }

    /// The disk is as it was when it was copied.
    pub(crate) fn roll_back(&mut self, kept: Kept) {
        self.kept = kept;
    }

    /// All that the disk holds is gone.
    pub(crate) fn wipe(&mut self) {
        self.kept = Kept::default();
    }

    pub(crate) fn contents(&self) -> BTreeMap<u32, u8> {
        self.blocks.clone()
    }

    pub(crate) fn count_of(&self, command: CommandId) -> usize {
        let log = self.log.iter();
        log.filter(|entry| entry.command == command).count()
    }

    pub(crate) fn append_age(&self, now: Instant) -> Duration {
        let oldest = self.operations.front();
        oldest.map_or(Duration::ZERO, |(_, since, _)| now.since(*since))
    }

    pub(crate) fn due_beats(&self, now: Instant) -> Vec<NodeId> {
        let peers = self.peers.keys().copied();
        peers
            .filter(|peer| self.beats.get(peer).is_none_or(|due| *due <= now))
            .collect()
    }

    /// The oldest durable operation ends.
    pub(crate) fn complete(&mut self) -> Option<Token> {
        let (token, _, Effect::Keep(kept)) = self.operations.pop_front()?;
        self.stable = kept.committed;
        self.kept = *kept;
        Some(token)
    }

    fn operation(&mut self, now: Instant) -> Token {
        let kept = Kept {
            log: self.log.clone(),
            prepared: self.prepared,
            committed: self.committed,
            blocks: self.blocks.clone(),
            bad: self.bad.clone(),
            written: self.written.clone(),
            state: self.state.clone(),
            hole: self.hole,
            suspect: self.suspect,
        };
        self.next_token += 1;
        let token = Token(self.next_token);
        self.operations
            .push_back((token, now, Effect::Keep(Box::new(kept))));
        token
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Write { start, data, .. } => {
                for (block, content) in (start.0..).zip(data.chunks_exact(BLOCK_SIZE)) {
                    self.put(block, content[0]);
                }
            }
            Change::Clear(range) => {
                for block in range.blocks() {
                    self.put(block.0, 0);
                }
            }
            Change::Nothing => {}
        }
    }

    /// Blocks were changed as of a sequence.
    fn touch(&mut self, range: BlockRange, sequence: Sequence) {
        for (page, part) in range.by_page() {
            let all = BlockRange::page(page);
            let all = all.start()..all.end();
            let is_there = self.blocks.range(all.clone()).next().is_some()
                || self.bad.range(all).next().is_some();
            if is_there {
                let written = self.written.entry(page).or_default();
                *written = sequence.max(*written);
            } else if part.count() > 0 {
                self.written.remove(&page);
            }
        }
    }

    fn put(&mut self, block: u32, value: u8) {
        self.bad.remove(&block);
        if value == 0 {
            self.blocks.remove(&block);
        } else {
            self.blocks.insert(block, value);
        }
    }

    fn read(&mut self, range: BlockRange, prepared: bool) -> Token {
        let mut view = Self {
            blocks: self.blocks.clone(),
            bad: self.bad.clone(),
            ..Self::default()
        };
        if prepared {
            for entry in self.log.iter().filter(|it| it.sequence > self.committed) {
                view.apply(&entry.change);
            }
        }
        let contents = range.blocks().map(|block| Content {
            range: BlockRange::single(block),
            content: match view.blocks.get(&block.0) {
                _ if view.bad.contains(&block.0) => BlockContent::Bad,
                Some(value) => {
                    let data = Bytes::from(vec![*value; BLOCK_SIZE]);
                    let Change::Write {
                        data, checksums, ..
                    } = Change::write(block, data)
                    else {
                        unreachable!("it was just made")
                    };
                    BlockContent::Data { data, checksums }
                }
                None => BlockContent::Zero,
            },
        });
        self.next_token += 1;
        let token = Token(self.next_token);
        self.reads.push_back((token, contents.collect()));
        token
    }
}

/// What a replica sees of its node.
pub(crate) struct FakeContext<'a> {
    now: Instant,
    world: &'a mut World,
}

impl Context for FakeContext<'_> {
    fn now(&self) -> Instant {
        self.now
    }

    fn append(&mut self, entry: Entry, committed: Sequence) -> Token {
        assert_eq!(entry.sequence, self.world.prepared.1.next(), "no gaps");
        assert!(entry.epoch >= self.world.prepared.0, "epochs only rise");
        self.world.prepared = (entry.epoch, entry.sequence);
        self.world.log.push(entry);
        self.set_committed(committed.max(self.world.committed));
        self.world.operation(self.now)
    }

    fn begin_epoch(&mut self, _epoch: Epoch, after: Sequence) -> Token {
        assert!(after >= self.world.committed, "nothing committed is voided");
        self.world.log.retain(|entry| entry.sequence <= after);
        self.world.suspect = false;
        let last = self.world.log.last();
        if let Some(last) = last {
            self.world.prepared = (last.epoch, last.sequence);
        } else {
            self.world.prepared.1 = after;
        }
        self.world.operation(self.now)
    }

    fn restart_log(&mut self, after: (Epoch, Sequence)) -> Token {
        self.world.log.clear();
        self.world.prepared = after;
        self.world.committed = after.1;
        self.world.operation(self.now)
    }

    fn put_state(&mut self, state: Bytes) -> Token {
        self.world.state = Some(state);
        self.world.operation(self.now)
    }

    fn install(
        &mut self,
        range: BlockRange,
        change: Option<Change>,
    ) -> Result<Token, NotInstalled> {
        let fills = !matches!(change, Some(Change::Clear(_)));
        for (page, _) in range.by_page().filter(|_| fills) {
            let is_promised = self.world.promised.contains(&page);
            assert!(is_promised, "room is reserved before {range:?} is filled");
        }
        match change {
            Some(change) => self.world.apply(&change),
            None => {
                for block in range.blocks() {
                    self.world.blocks.remove(&block.0);
                    self.world.bad.insert(block.0);
                }
            }
        }
        let committed = self.world.committed;
        self.world.touch(range, committed);
        Ok(self.world.operation(self.now))
    }

    fn mend(&mut self) -> Token {
        self.world.hole = false;
        self.world.operation(self.now)
    }

    fn drop_contents(&mut self) -> Token {
        self.world.log.clear();
        self.world.blocks.clear();
        self.world.bad.clear();
        self.world.written.clear();
        self.world.promised.clear();
        self.world.state = None;
        self.world.hole = false;
        (self.world.prepared, self.world.committed) = Default::default();
        self.world.operation(self.now)
    }

    fn set_committed(&mut self, committed: Sequence) {
        assert!(committed <= self.world.prepared.1, "only what is prepared");
        let from = self.world.committed;
        let log = self.world.log.iter();
        let newly = log.filter(|entry| entry.sequence > from && entry.sequence <= committed);
        for entry in newly.cloned().collect::<Vec<Entry>>() {
            self.world.apply(&entry.change);
            if let Some(range) = entry.change.range() {
                self.world.touch(range, entry.sequence);
            }
        }
        self.world.committed = committed;
    }

    fn prepared(&self) -> (Epoch, Sequence) {
        self.world.prepared
    }

    fn committed(&self) -> Sequence {
        self.world.committed
    }

    fn stable(&self) -> Sequence {
        self.world.stable
    }

    fn entries_above(&self, sequence: Sequence) -> Vec<Entry> {
        let log = self.world.log.iter();
        log.filter(|entry| entry.sequence > sequence)
            .cloned()
            .collect()
    }

    fn entry(&self, sequence: Sequence) -> Option<Entry> {
        let mut log = self.world.log.iter();
        log.find(|entry| entry.sequence == sequence).cloned()
    }

    fn allocated(&self) -> Vec<(PageIndex, u64)> {
        let mut pages: BTreeMap<PageIndex, u64> = BTreeMap::new();
        for block in self.world.blocks.keys().chain(&self.world.bad) {
            for (page, part) in BlockRange::new(*block, 1).by_page() {
                *pages.entry(page).or_default() |= part.page_mask();
            }
        }
        pages.into_iter().collect()
    }

    /// As far as pages tell, and no entry: a store that has put everything in place.
    fn changed_above(&self, sequence: Sequence) -> Vec<ChangedPage> {
        let written = self.world.written.iter();
        let changed = written.filter(|(_, written)| **written > sequence);
        let whole = |page: &PageIndex| ChangedPage {
            page: *page,
            blocks: u64::MAX,
            is_exact: false,
        };
        changed.map(|(page, _)| whole(page)).collect()
    }

    fn reserve(&mut self, range: BlockRange) -> bool {
        let room = self.world.room.unwrap_or(usize::MAX);
        let granted = self.world.blocks.len() < room;
        if granted {
            let pages = range.by_page().map(|(page, _)| page);
            self.world.promised.extend(pages);
        }
        granted
    }

    fn free_pages(&self) -> u64 {
        let room = self.world.room.unwrap_or(usize::MAX);
        room.saturating_sub(self.world.blocks.len()) as u64
    }

    fn read_prepared(&mut self, range: BlockRange) -> Token {
        self.world.read(range, true)
    }

    fn read_committed(&mut self, range: BlockRange) -> Token {
        self.world.read(range, false)
    }

    fn bad_blocks(&self) -> u64 {
        self.world.bad.len() as u64
    }

    fn is_spared(&self, node: NodeId) -> bool {
        self.world.spared.contains(&node)
    }

    fn append_age(&self) -> Duration {
        self.world.append_age(self.now)
    }

    fn peer(&self, node: NodeId) -> Option<Peer> {
        self.world.peers.get(&node).copied()
    }

    fn send(&mut self, node: NodeId, message: Message) {
        if self.world.peers.contains_key(&node) {
            self.world.outbox.messages.push((node, message));
        }
    }

    fn hurry(&mut self, node: NodeId) {
        self.world.outbox.hurried.push(node);
    }

    fn reset_link(&mut self, node: NodeId) {
        let expected = self.world.expects_resets;
        assert!(
            expected,
            "a replica resets its link to {node}: the other one breaks the protocol"
        );
        self.world.resets.push(node);
    }

    fn propose(&mut self, record: Bytes) {
        self.world.proposals.push(record);
    }

    fn refresh(&mut self) {
        self.world.refresh = true;
    }

    fn finish(&mut self, command: CommandId, outcome: OutcomeCode) {
        self.world.finished.push((command, outcome));
    }

    fn copied(&mut self, _: NodeId, _: u64, bytes_moved: u64) {
        self.world.copied_bytes += bytes_moved;
    }

    fn may_stand(&mut self) -> bool {
        !self.world.crowded
    }

    fn may_sync(&self) -> bool {
        true
    }

    fn may_work(&mut self, _bytes: u64) -> bool {
        !self.world.is_held
    }

    fn committed_after(&mut self, _took: Duration) {}

    fn milestone(&mut self, milestone: Milestone) {
        self.world.milestones.push(milestone);
    }
}
