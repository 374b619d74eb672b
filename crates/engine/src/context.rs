//! A replica's world: its slice of the store, the links, the metadata.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use holdfast_model::{
    BlockRange, Change, ChangedPage, CommandId, Entry, Epoch, NodeId, PageIndex, Sequence, SliceId,
};
use holdfast_replica::{Context, Milestone, NotInstalled, Peer, Token};
use holdfast_stdx::{Bytes, Duration, Instant};
use holdfast_store::View;
use holdfast_wire::{Message, OutcomeCode};

use crate::Notice;
use crate::cluster::Cluster;
use crate::pace::{Class, Pace};
use crate::peers::Peers;
use crate::status::MendedBlocks;
use crate::storage::Storage;
use crate::takeovers::Takeovers;

/// Everything that replicas act upon, and where they leave what they say.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) storage: Storage,
    pub(crate) peers: Peers,
    pub(crate) cluster: Cluster,
    pub(crate) finished: VecDeque<(SliceId, CommandId, OutcomeCode)>,
    pub(crate) notices: Vec<Notice>,
    /// Blocks that were put right here since the start.
    pub(crate) mended: MendedBlocks,
    /// Bytes that have been copied to joining replicas since the start.
    pub(crate) bytes_moved: u64,
    /// Bytes of blocks that joining replicas on other nodes lacked, and have now, since the start.
    pub(crate) brought: BTreeMap<NodeId, u64>,
    /// How long the oldest append has been under way, as of the beginning of this event.
    pub(crate) append_age: Duration,
    /// Slices led here that bring replicas up to date.
    pub(crate) syncing: BTreeSet<SliceId>,
    pub(crate) takeovers: Takeovers,
    pub(crate) pace: Pace,
    /// Slices that wait for it, and which of them was let go on first the last time.
    pub(crate) held: BTreeSet<SliceId>,
    pub(crate) held_last: Option<SliceId>,
}

impl World {
    /// Takes note of the time.
    pub(crate) fn wake(&mut self, now: Instant) {
        self.now = now;
        let open = Some(self.storage.store()).filter(|store| store.is_open());
        let oldest = open.and_then(|store| store.oldest_unfinished_append());
        self.append_age = oldest.map_or(Duration::ZERO, |since| now.since(since));
    }
}

/// Slices that bring replicas up to date at a time, at most: each keeps a map of its pages (400 KiB if
/// all of them are to be copied) and has a few copies under way.
const SYNCS_MAX: usize = 16;

/// One slice's view of the world.
pub(crate) struct SliceContext<'a> {
    pub(crate) slice: SliceId,
    pub(crate) world: &'a mut World,
}

impl Context for SliceContext<'_> {
    fn now(&self) -> Instant {
        self.world.now
    }

    fn append(&mut self, entry: Entry, committed: Sequence) -> Token {
        self.world
            .storage
            .append(self.world.now, self.slice, entry, committed)
    }

    fn begin_epoch(&mut self, epoch: Epoch, after: Sequence) -> Token {
        self.world
            .storage
            .begin_epoch(self.world.now, self.slice, epoch, after)
    }

    fn restart_log(&mut self, after: (Epoch, Sequence)) -> Token {
        self.world
            .storage
            .restart_log(self.world.now, self.slice, after)
    }

    fn put_state(&mut self, state: Bytes) -> Token {
        self.world
            .storage
            .put_state(self.world.now, self.slice, state)
    }

    fn install(
        &mut self,
        range: BlockRange,
        change: Option<Change>,
    ) -> Result<Token, NotInstalled> {
        let as_of = self.committed();
        self.world
            .storage
            .install(self.world.now, self.slice, range, change, as_of)
    }

    fn mend(&mut self) -> Token {
        self.world.storage.mend(self.world.now, self.slice)
    }

    fn drop_contents(&mut self) -> Token {
        self.world.storage.drop_slice(self.world.now, self.slice)
    }

    fn set_committed(&mut self, committed: Sequence) {
        self.world
            .storage
            .set_committed(self.world.now, self.slice, committed);
    }

    fn prepared(&self) -> (Epoch, Sequence) {
        self.world.storage.store().prepared(self.slice)
    }

    fn committed(&self) -> Sequence {
        self.world.storage.store().committed(self.slice)
    }

    fn stable(&self) -> Sequence {
        self.world.storage.store().stable(self.slice)
    }

    fn entries_above(&self, sequence: Sequence) -> Vec<Entry> {
        self.world
            .storage
            .store()
            .entries_above(self.slice, sequence)
            .cloned()
            .collect()
    }

    fn entry(&self, sequence: Sequence) -> Option<Entry> {
        let before = Sequence(sequence.0.checked_sub(1)?);
        let store = self.world.storage.store();
        let entry = store.entries_above(self.slice, before).next()?;
        (entry.sequence == sequence).then(|| entry.clone())
    }

    fn allocated(&self) -> Vec<(PageIndex, u64)> {
        self.world.storage.store().allocated(self.slice).collect()
    }

    fn changed_above(&self, sequence: Sequence) -> Vec<ChangedPage> {
        let store = self.world.storage.store();
        store.changed_above(self.slice, sequence)
    }

    fn reserve(&mut self, range: BlockRange) -> bool {
        self.world.storage.reserve(self.slice, range)
    }

    fn free_pages(&self) -> u64 {
        self.world.storage.store().usage().pages_free()
    }

    fn read_prepared(&mut self, range: BlockRange) -> Token {
        let now = self.world.now;
        self.world
            .storage
            .read_for_replica(now, self.slice, range, View::Prepared)
    }

    fn read_committed(&mut self, range: BlockRange) -> Token {
        let now = self.world.now;
        self.world
            .storage
            .read_for_replica(now, self.slice, range, View::Committed)
    }

    fn bad_blocks(&self) -> u64 {
        self.world.storage.bad_blocks(self.slice)
    }

    fn is_spared(&self, node: NodeId) -> bool {
        self.world.cluster.is_spared(node)
    }

    fn append_age(&self) -> Duration {
        self.world.append_age
    }

    fn peer(&self, node: NodeId) -> Option<Peer> {
        self.world.peers.link(node).map(|link| link.peer)
    }

    fn send(&mut self, node: NodeId, message: Message) {
        self.world.peers.send(node, message);
    }

    fn hurry(&mut self, node: NodeId) {
        self.world.peers.hurry(node, self.slice);
    }

    fn reset_link(&mut self, node: NodeId) {
        self.world.peers.to_reset.insert(node);
    }

    fn propose(&mut self, record: Bytes) {
        self.world.cluster.propose(self.slice, record);
    }

    fn refresh(&mut self) {
        self.world.cluster.refresh(self.slice);
    }

    fn finish(&mut self, command: CommandId, outcome: OutcomeCode) {
        self.world
            .finished
            .push_back((self.slice, command, outcome));
    }

    fn copied(&mut self, node: NodeId, bytes_done: u64, bytes_moved: u64) {
        *self.world.brought.entry(node).or_default() += bytes_done;
        self.world.bytes_moved += bytes_moved;
    }

    fn may_sync(&self) -> bool {
        self.world.syncing.len() < SYNCS_MAX
    }

    fn may_work(&mut self, bytes: u64) -> bool {
        let may = self.world.pace.may_begin(self.world.now, bytes);
        if !may {
            self.world.held.insert(self.slice);
        }
        may
    }

    fn committed_after(&mut self, took: Duration) {
        self.world.pace.command(self.world.now, Class::Write, took);
    }

    fn may_stand(&mut self) -> bool {
        self.world.takeovers.may_begin(self.world.now, self.slice)
    }

    fn milestone(&mut self, milestone: Milestone) {
        let slice = self.slice;
        self.world.notices.push(match milestone {
            Milestone::Leads(epoch) => Notice::Leads(slice, epoch),
            Milestone::Deposed(epoch) => Notice::Deposed(slice, epoch),
            Milestone::Removed { node, slow } => Notice::Removed { slice, node, slow },
            Milestone::HandedOver { node, slow } => Notice::HandedOver { slice, node, slow },
            Milestone::Joining { node, full } => Notice::Joining { slice, node, full },
            Milestone::InSync(node) => Notice::InSync(slice, node),
            Milestone::Named(node) => Notice::Named(slice, node),
            Milestone::Released(node) => Notice::Released(slice, node),
            Milestone::NotThatReplica => Notice::NotThatReplica(slice),
            Milestone::MetadataBehind(epoch) => Notice::MetadataBehind(slice, epoch),
            Milestone::NotKnownOf(epoch) => Notice::NotKnownOf(slice, epoch),
        });
    }
}

/// A span of time in whole milliseconds, as far as 32 bits reach.
pub(crate) fn milliseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}
