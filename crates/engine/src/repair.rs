//! Reads, and what becomes of blocks that fail their checksum: they are fetched from another
//! in-sync replica, put in place, and read again. A primary takes what no such replica has from one that
//! joins: it may hold the block as it was when it left, and as it still is.
//!
//! Invariants:
//! - a bad block is never returned as data, and never as zeros;
//! - what is put in place has the checksum on record, where that is known;
//! - from a replica that joins nothing is taken but what has the checksum on record, and it counts as of the
//!   point at which that was read: its committed point says nothing of blocks that it lacks;
//! - a block is tried at every other in-sync replica before it is called lost, and again as long as
//!   one of them may have it: it cannot be reached, or its copy cannot be put in place yet;
//! - where a new primary cannot ask yet, because its epoch's first entry is not committed, the read waits for that;
//! - what was read of a replica that has ceased to be in sync meanwhile is told to nobody: its
//!   contents may be gone, and nothing is put in place there;
//! - what is read for other nodes at a time is bounded, and so are their questions that wait for that; whoever
//!   asks more than any node does is told nothing, and asks again.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Bound::{Excluded, Unbounded};

use holdfast_model::{
    BLOCK_SIZE, BlockIndex, BlockRange, Change, Epoch, NodeId, Sequence, SliceId,
};
use holdfast_stdx::{Duration, Instant, smallvec};
use holdfast_store::{BlockRead, StoreToken, View};
use holdfast_wire::{BlockContent, Content, Contents, Fetch, Fetched, OutcomeCode};

use holdfast_replica::Replica;

use crate::Notice;
use crate::engine::Engine;
use crate::pace::Class;
use crate::storage::{Read, Reader, Use, contents_of};

/// How often a read is begun anew because of repaired blocks, before they count as lost.
const ATTEMPTS_MAX: u32 = 4;
/// When the replicas are asked again after one could not say what its blocks are (an entry on them
/// was not known to be committed there, or it had not begun the epoch), or after what it said could
/// not be put in place here: it was of an earlier point than the page, or of a later one.
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// How often that is done. Commits are told within a heartbeat; a host waits for longer than this.
const ASK_AGAIN_MAX: u32 = 100;
/// Fetches under way at most; reads beyond them wait as well.
const FETCHES_MAX: usize = 1024;
/// Bytes that are read for other nodes at a time, at most: they are in memory until they have been told, and a node
/// can ask for more than disks read.
const TOLD_BYTES_MAX: u64 = 64 << 20;

/// A read that waits for another replica's blocks.
#[derive(Debug)]
struct Fetching {
    read: Read,
    /// What was read here.
    blocks: Vec<BlockRead>,
    /// Whom it is being asked of.
    asked: NodeId,
    /// Whom it can be asked of after that.
    others: Vec<NodeId>,
}

/// What came of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repaired {
    /// It is in place.
    Placed,
    /// It cannot be put in place, but a later one may be.
    NotYet,
    /// It is bad as well, or not asked for.
    Nothing,
}

/// What is read for other nodes, and their questions that wait for that: of each node as many as it has under way at a
/// time, so that none of its own waits in vain.
#[derive(Debug, Default)]
struct Told {
    /// Bytes that are being read.
    bytes: u64,
    waiting: BTreeMap<NodeId, VecDeque<Fetch>>,
    /// Whose question was taken last: each has its turn.
    last: Option<NodeId>,
}

impl Told {
    /// Whether a question may be answered at once.
    fn is_free(&self, fetch: &Fetch) -> bool {
        self.waiting.is_empty() && self.has_room(fetch)
    }

    fn has_room(&self, fetch: &Fetch) -> bool {
        self.bytes + fetch.range.bytes() <= TOLD_BYTES_MAX
    }

    /// Lets a question wait, if not too many of its node do.
    fn wait(&mut self, peer: NodeId, fetch: &Fetch) -> bool {
        let waiting = self.waiting.entry(peer).or_default();
        let may = waiting.len() < FETCHES_MAX;
        if may {
            waiting.push_back(*fetch);
        }
        may
    }

    /// The question that has its turn, if there is room for it.
    fn next(&mut self) -> Option<(NodeId, Fetch)> {
        let after = self.last.map_or(Unbounded, Excluded);
        let mut later = self.waiting.range((after, Unbounded));
        let (peer, waiting) = later.next().or_else(|| self.waiting.first_key_value())?;
        let (peer, fetch) = (*peer, *waiting.front().expect("a node here has one"));
        if !self.has_room(&fetch) {
            return None;
        }
        self.last = Some(peer);
        let waiting = self.waiting.get_mut(&peer).expect("it was just found");
        waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&peer);
        }
        Some((peer, fetch))
    }
}

/// Reads that wait for repair.
#[derive(Debug, Default)]
pub(crate) struct Repairs {
    fetching: BTreeMap<u64, Fetching>,
    next_number: u64,
    /// Reads that begin anew later, in the order of their times.
    later: VecDeque<(Instant, Read)>,
    told: Told,
}

impl Repairs {
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.later.front().map(|(due, _)| *due)
    }
}

impl Engine {
    /// The store has read.
    pub(crate) fn read_done(&mut self, token: StoreToken, blocks: Vec<BlockRead>) {
        let Use::Read(read) = self.world.storage.take_use(token) else {
            unreachable!("a read's token is a read's")
        };
        let bad = blocks
            .iter()
            .any(|block| matches!(block, BlockRead::Bad { .. }));
        let repairs = !matches!(
            read.reader,
            Reader::Peer { .. } | Reader::Scrub { .. } | Reader::Verifier(_)
        );
        if !bad && matches!(read.reader, Reader::Part(_)) {
            let now = self.world.now;
            self.world
                .pace
                .command(now, Class::Read, now.since(read.began));
        }
        if !bad || !repairs {
            self.deliver(&read, &blocks);
        } else if read.attempts < ATTEMPTS_MAX {
            let others = self.repairers(&read);
            self.fetch(read, blocks, others);
        } else {
            self.give_up(&read, &blocks);
        }
    }

    /// Whom to ask, the last one first: each time another one, and who joins after all that are in sync.
    fn repairers(&self, read: &Read) -> Vec<NodeId> {
        let mut fellows = self.fellows(read.slice);
        if !fellows.is_empty() {
            let first = read.asked_again as usize % fellows.len();
            fellows.rotate_left(first);
        }
        let replica = self.replicas.get(&read.slice);
        let mut repairers = replica.map_or_else(Vec::new, Replica::joiners);
        repairers.append(&mut fellows);
        repairers
    }

    fn fellows(&self, slice: SliceId) -> Vec<NodeId> {
        let replica = self.replicas.get(&slice);
        let in_sync = replica.filter(|replica| replica.in_sync_epoch().is_some());
        in_sync.map(Replica::fellows).unwrap_or_default()
    }

    pub(crate) fn in_sync_epoch(&self, slice: SliceId) -> Option<Epoch> {
        let replica = self.replicas.get(&slice)?;
        replica.in_sync_epoch().filter(|_| self.is_alive())
    }

    /// Asks the next of `others` for a read's bad blocks; if there is none, they are lost, unless
    /// somebody cannot be asked just now.
    pub(crate) fn fetch(&mut self, read: Read, blocks: Vec<BlockRead>, mut others: Vec<NodeId>) {
        let reachable = |node: &NodeId| self.world.peers.link(*node).is_some();
        others.retain(reachable);
        let may_wait = !self.fellows(read.slice).iter().all(reachable);
        let Some(epoch) = self.in_sync_epoch(read.slice) else {
            if self.begins_to_lead(read.slice) {
                self.read_later(read);
            } else {
                self.deliver(&read, &blocks);
            }
            return;
        };
        let has_room = self.repairs.fetching.len() < FETCHES_MAX;
        let Some(asked) = others.pop().filter(|_| has_room) else {
            if (may_wait || !has_room) && read.asked_again < ASK_AGAIN_MAX {
                self.ask_again(read);
            } else {
                self.give_up(&read, &blocks);
            }
            return;
        };
        self.repairs.next_number += 1;
        let number = self.repairs.next_number;
        let (slice, range) = (read.slice, span_of_bad(read.range, &blocks));
        self.world.peers.send(
            asked,
            Fetch {
                slice,
                epoch,
                number,
                range,
            }
            .into(),
        );
        self.repairs.fetching.insert(
            number,
            Fetching {
                read,
                blocks,
                asked,
                others,
            },
        );
    }

    /// Whether the replica here can say what blocks are, as of an epoch: to every other replica if it is in sync,
    /// to its primary if it joins.
    fn tells_of(&self, slice: SliceId, peer: NodeId, epoch: Epoch) -> bool {
        let joins = |replica: &Replica| replica.joins_under(peer, epoch);
        let is_joining = self.is_alive() && self.replicas.get(&slice).is_some_and(joins);
        is_joining || self.in_sync_epoch(slice) == Some(epoch)
    }

    /// Another replica asks for blocks.
    pub(crate) fn handle_fetch(&mut self, peer: NodeId, fetch: &Fetch) {
        let may_tell = self.may_tell(peer, fetch);
        let told = &mut self.repairs.told;
        if may_tell && told.is_free(fetch) {
            self.read_for(peer, fetch);
        } else if !may_tell || !told.wait(peer, fetch) {
            self.tell_nothing_of(peer, fetch);
        }
    }

    fn may_tell(&self, peer: NodeId, fetch: &Fetch) -> bool {
        let store = self.world.storage.store();
        self.tells_of(fetch.slice, peer, fetch.epoch) && !store.is_dirty(fetch.slice, fetch.range)
    }

    /// Reads what another replica is to be told.
    fn read_for(&mut self, peer: NodeId, fetch: &Fetch) {
        let Fetch {
            slice,
            epoch,
            number,
            range,
        } = *fetch;
        let reader = Reader::Peer {
            node: peer,
            number,
            epoch,
            as_of: self.world.storage.store().committed(slice),
        };
        let now = self.world.now;
        let read = Read::new(now, slice, range, View::Committed, reader);
        self.repairs.told.bytes += range.bytes();
        self.world.storage.read(now, read);
    }

    /// What another replica asked for has been read: others have their turn.
    fn read_for_peer(&mut self, peer: NodeId, fetch: &Fetch, as_of: Sequence, found: Contents) {
        self.repairs.told.bytes -= fetch.range.bytes();
        let may = self.tells_of(fetch.slice, peer, fetch.epoch);
        let contents = if may { found } else { Contents::new() };
        self.tell(peer, fetch, as_of, contents);
        while let Some((peer, fetch)) = self.repairs.told.next() {
            if self.may_tell(peer, &fetch) {
                self.read_for(peer, &fetch);
            } else {
                self.tell_nothing_of(peer, &fetch);
            }
        }
    }

    fn tell_nothing_of(&mut self, peer: NodeId, fetch: &Fetch) {
        self.tell(peer, fetch, Sequence::ZERO, Contents::new());
    }

    fn tell(&mut self, peer: NodeId, fetch: &Fetch, as_of: Sequence, contents: Contents) {
        let fetched = Fetched {
            slice: fetch.slice,
            epoch: fetch.epoch,
            number: fetch.number,
            as_of,
            contents,
        };
        self.world.peers.send(peer, fetched.into());
    }

    /// The blocks that were asked for.
    pub(crate) fn handle_fetched(&mut self, peer: NodeId, fetched: &Fetched) {
        let asked = self
            .repairs
            .fetching
            .get(&fetched.number)
            .map(|it| (it.asked, it.read.slice));
        if asked != Some((peer, fetched.slice)) {
            return;
        }
        let mut fetching = self
            .repairs
            .fetching
            .remove(&fetched.number)
            .expect("it was just found");
        let is_the_same = self.in_sync_epoch(fetched.slice) == Some(fetched.epoch);
        let mut not_yet = !is_the_same || fetched.contents.is_empty();
        let mut placed = false;
        let contents = fetched.contents.iter().filter(|_| is_the_same);
        for content in contents {
            for repaired in self.repair(&fetching, content, fetched.as_of) {
                not_yet |= repaired == Repaired::NotYet;
                placed |= repaired == Repaired::Placed;
            }
        }
        if not_yet && fetching.read.asked_again < ASK_AGAIN_MAX {
            self.ask_again(fetching.read);
        } else if placed {
            fetching.read.attempts += 1;
            self.world.storage.read(self.world.now, fetching.read);
        } else {
            self.fetch(fetching.read, fetching.blocks, fetching.others);
        }
    }

    /// Whether the replica here will be able to ask, or cease to lead, in a moment: it takes writes in a new epoch
    /// already, and may have to read for them, but the epoch's first entry is not committed.
    fn begins_to_lead(&self, slice: SliceId) -> bool {
        let replica = self.replicas.get(&slice);
        self.is_alive() && replica.is_some_and(Replica::begins_to_lead)
    }

    fn ask_again(&mut self, mut read: Read) {
        read.asked_again += 1;
        self.read_later(read);
    }

    fn read_later(&mut self, read: Read) {
        let due = self.world.now + ASK_AGAIN;
        self.repairs.later.push_back((due, read));
    }

    /// Puts in place what is good for it.
    fn repair(&mut self, fetching: &Fetching, content: &Content, as_of: Sequence) -> Vec<Repaired> {
        let blocks = content.range.blocks().enumerate();
        blocks
            .map(|(place, block)| self.repair_block(fetching, content, place, block, as_of))
            .collect()
    }

    fn repair_block(
        &mut self,
        fetching: &Fetching,
        content: &Content,
        place: usize,
        block: BlockIndex,
        as_of: Sequence,
    ) -> Repaired {
        let (slice, start) = (fetching.read.slice, fetching.read.range.start());
        let found = block
            .0
            .checked_sub(start)
            .and_then(|offset| fetching.blocks.get(offset as usize));
        let Some(BlockRead::Bad { checksum }) = found else {
            return Repaired::Nothing;
        };
        let is_in_sync = self.fellows(slice).contains(&fetching.asked);
        let as_of = if is_in_sync {
            as_of
        } else {
            as_of.min(fetching.read.as_of)
        };
        let committed = self.world.storage.store().committed(slice);
        let may_be_written = committed > fetching.read.as_of;
        let takes = |ours: Option<u32>, theirs: u32| ours.map_or(is_in_sync, |ours| ours == theirs);
        let change = match &content.content {
            BlockContent::Data { data, checksums } if takes(*checksum, checksums[place]) => {
                Change::Write {
                    start: block,
                    data: data.slice(place * BLOCK_SIZE..(place + 1) * BLOCK_SIZE),
                    checksums: smallvec![checksums[place]],
                }
            }
            BlockContent::Zero if checksum.is_none() && is_in_sync => {
                Change::Clear(BlockRange::single(block))
            }
            // What it was before that replica was away; unless it may have been written since it was read here.
            BlockContent::Data { .. } | BlockContent::Zero if !is_in_sync && !may_be_written => {
                return Repaired::Nothing;
            }
            // Another version: perhaps this one was overwritten meanwhile, here or there.
            BlockContent::Data { .. } | BlockContent::Zero => return Repaired::NotYet,
            BlockContent::Bad => return Repaired::Nothing,
        };
        let now = self.world.now;
        let room = self.world.storage.reserve(slice, BlockRange::single(block));
        if !room || !self.world.storage.repair(now, slice, change, as_of) {
            return Repaired::NotYet;
        }
        let notice = match fetching.read.reader {
            Reader::Correcting => {
                self.world.mended.differing += 1;
                Notice::Corrected(slice, block.0)
            }
            reader => {
                let mended = &mut self.world.mended;
                let count = match reader {
                    Reader::Mending => &mut mended.known,
                    _ => &mut mended.read,
                };
                *count += 1;
                Notice::Repaired(slice, block.0)
            }
        };
        self.world.notices.push(notice);
        Repaired::Placed
    }

    /// Begins reads anew whose time has come.
    pub(crate) fn read_again(&mut self) {
        while let Some((due, _)) = self.repairs.later.front()
            && *due <= self.world.now
        {
            let (_, read) = self.repairs.later.pop_front().expect("it was just seen");
            self.world.storage.read(self.world.now, read);
        }
    }

    /// A link is gone: what was asked over it is asked of another, and nobody waits for answers.
    pub(crate) fn give_up_fetches(&mut self, peer: NodeId) {
        self.repairs.told.waiting.remove(&peer);
        let lost: Vec<u64> = self
            .repairs
            .fetching
            .iter()
            .filter(|(_, fetching)| fetching.asked == peer)
            .map(|(number, _)| *number)
            .collect();
        for number in lost {
            let Fetching {
                read,
                blocks,
                others,
                ..
            } = self
                .repairs
                .fetching
                .remove(&number)
                .expect("it was just found");
            self.fetch(read, blocks, others);
        }
    }

    /// Nobody has a read's bad blocks.
    fn give_up(&mut self, read: &Read, blocks: &[BlockRead]) {
        let told = matches!(read.reader, Reader::Mending | Reader::Correcting);
        let wanted = !told && self.in_sync_epoch(read.slice).is_some();
        for (block, found) in read.range.blocks().zip(blocks) {
            if wanted && matches!(found, BlockRead::Bad { .. }) {
                self.world.notices.push(Notice::Lost(read.slice, block.0));
            }
        }
        self.deliver(read, blocks);
    }

    /// Brings what was read to whoever wanted it.
    fn deliver(&mut self, read: &Read, blocks: &[BlockRead]) {
        let in_sync = self.in_sync_epoch(read.slice);
        let (slice, contents) = (read.slice, contents_of(read.range, blocks));
        match read.reader {
            Reader::Replica(token) => {
                self.with_replica(slice, |replica, context| {
                    replica.handle_read(context, token, contents);
                });
            }
            Reader::Part(command) if in_sync.is_none() => {
                self.command_finished(slice, command, OutcomeCode::NotPrimary, Contents::new());
            }
            Reader::Part(command) => {
                self.command_finished(slice, command, OutcomeCode::Done, contents);
            }
            Reader::Peer {
                node,
                number,
                epoch,
                as_of,
            } => {
                let range = read.range;
                let fetch = Fetch {
                    slice,
                    epoch,
                    number,
                    range,
                };
                self.read_for_peer(node, &fetch, as_of, contents);
            }
            Reader::Scrub {
                number,
                as_of,
                written,
            } => self.scrub_read(slice, number, (as_of, written), contents),
            Reader::Verifier(question) => {
                let (page, _) = read.range.by_page().next().expect("a range has blocks");
                self.verified(slice, page, &question, &contents);
            }
            Reader::Correcting => {}
            Reader::Mending => {
                let bad = |content: &Content| matches!(content.content, BlockContent::Bad);
                self.mending.ended(!contents.iter().any(bad));
            }
        }
    }
}

/// The shortest range that holds every bad block.
fn span_of_bad(range: BlockRange, blocks: &[BlockRead]) -> BlockRange {
    let bad = |block: &BlockRead| matches!(block, BlockRead::Bad { .. });
    let first = blocks
        .iter()
        .position(bad)
        .expect("a bad block is why it is asked");
    let last = blocks
        .iter()
        .rposition(bad)
        .expect("a bad block is why it is asked");
    BlockRange::new(range.start() + first as u32, (last - first + 1) as u32)
}
