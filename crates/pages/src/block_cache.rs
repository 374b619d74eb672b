//! Blocks of pages in memory, so that what is read often costs no disk: each with its checksum, which is held against it whenever it
//! is given out.
//!
//! Which blocks stay is decided as S3-FIFO does (Yang, Zhang, Qiu, Yue, Vigfusson: FIFO queues are all you need for cache eviction,
//! SOSP 2023): new ones pass through a short queue, and only those that are read again there, or come back soon after they have
//! left it, get into the long one. What is read once, such as a scan, pushes nothing out that is read often.
//!
//! Invariants:
//! - a block is here only as it is in its slot, or as the entry of the slot says that it is: whoever changes a slot's entry says so;
//! - the memory of everything here is bounded by the budget.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::{BLOCK_SIZE, BLOCKS_PER_PAGE};
use holdfast_stdx::{Bytes, crc32c};

use crate::job::Paint;
use crate::pages::NO_SLOT;
use crate::read::mask_of;

/// Bytes beside its contents that a block costs: its node, and those of the two that are remembered when they are gone.
const NODE_BYTES: u64 = 3 * size_of::<Node>() as u64;
/// Share of the short queue: one of so many blocks.
const SHORT_SHARE: usize = 10;
/// Reads that are counted of a block; more make no difference.
const USES_MAX: u8 = 3;
/// Blocks at which it is looked for one that may go.
const STEPS_MAX: usize = 32;
/// No node.
const NONE: u32 = u32::MAX;

/// Where a block is: its slot, and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    slot: u32,
    block: u32,
}

impl Key {
    /// Places that follow each other are far apart (Knuth, The Art of Computer Programming, 6.4).
    const fn bucket(self, count: usize) -> usize {
        let number = (self.slot as u64) << 6 | self.block as u64;
        let spread = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (spread >> 32) as usize & (count - 1)
    }
}

/// Which queue a node is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    /// Blocks that are new here.
    Short,
    /// Blocks that are read often.
    Long,
    /// Blocks that have left the short queue: only their places are remembered.
    Gone,
}

#[derive(Debug)]
struct Node {
    key: Key,
    /// Empty of one that is gone.
    data: Bytes,
    checksum: u32,
    queue: Queue,
    uses: u8,
    /// In the queue: towards its front, from which blocks leave, and its back.
    ahead: u32,
    behind: u32,
    /// The next of the same bucket.
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    front: u32,
    back: u32,
    count: usize,
}

/// The cache.
#[derive(Debug)]
pub(crate) struct BlockCache {
    blocks_max: usize,
    nodes: Vec<Node>,
    free: Vec<u32>,
    /// The first node of each; as many as a power of two.
    buckets: Vec<u32>,
    queues: [Ends; 3],
    hits: u64,
    misses: u64,
}

/// How often blocks were in memory that were asked for, since the store was opened, and what is kept now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// Blocks that were, because they had been read before.
    pub hits: u64,
    /// Blocks that were not.
    pub misses: u64,
    /// Blocks that had been read ahead, or were about to be.
    pub ahead_used: u64,
    /// Blocks that were read ahead, and that nobody asked for before they went.
    pub ahead_unused: u64,
    /// Bytes of contents that are here.
    pub bytes: u64,
}

impl BlockCache {
    /// One of so many bytes; with less than a few blocks' worth, none.
    pub(crate) fn new(bytes_max: u64) -> Self {
        let blocks_max = usize::try_from(bytes_max / (BLOCK_SIZE as u64 + NODE_BYTES));
        // The numbers of nodes have 32 bits, and as many as there are blocks are remembered.
        let blocks_max = blocks_max.unwrap_or(usize::MAX).min(u32::MAX as usize / 4);
        let blocks_max = if blocks_max < SHORT_SHARE {
            0
        } else {
            blocks_max
        };
        let ends = Ends {
            front: NONE,
            back: NONE,
            count: 0,
        };
        Self {
            blocks_max,
            nodes: Vec::new(),
            free: Vec::new(),
            // All at once: to spread a million nodes anew would hold up everything else.
            buckets: vec![NONE; (2 * blocks_max).next_power_of_two()],
            queues: [ends; 3],
            hits: 0,
            misses: 0,
        }
    }

    pub(crate) fn usage(&self) -> CacheUse {
        CacheUse {
            hits: self.hits,
            misses: self.misses,
            bytes: (self.block_count() * BLOCK_SIZE) as u64,
            ..CacheUse::default()
        }
    }

    fn block_count(&self) -> usize {
        self.ends(Queue::Short).count + self.ends(Queue::Long).count
    }

    /// The blocks of a slot that are here, one bit for each.
    pub(crate) fn mask_of(&self, slot: u32) -> u64 {
        let is_here = |block: &u32| {
            let found = self.find(Key {
                slot,
                block: *block,
            });
            found.is_some_and(|place| self.node(place).queue != Queue::Gone)
        };
        mask_of((0..BLOCKS_PER_PAGE).filter(is_here))
    }

    /// A block with its checksum. One that is not any more what it was is forgotten: memory fails, too.
    pub(crate) fn get(&mut self, slot: u32, block: u32) -> Option<(Bytes, u32)> {
        let found = self.find(Key { slot, block });
        let Some(place) = found.filter(|place| self.node(*place).queue != Queue::Gone) else {
            self.misses += 1;
            return None;
        };
        let node = self.node_mut(place);
        if crc32c(&node.data) != node.checksum {
            self.drop_node(place);
            self.misses += 1;
            return None;
        }
        node.uses = (node.uses + 1).min(USES_MAX);
        let found = (node.data.clone(), node.checksum);
        self.hits += 1;
        Some(found)
    }

    /// Takes a block in that was read. The contents are copied: they may be a part of a buffer that is much longer, or one that the
    /// disks use again.
    pub(crate) fn insert(&mut self, slot: u32, block: u32, data: &[u8], checksum: u32) {
        assert!(data.len() == BLOCK_SIZE, "a block is whole");
        assert!(block < BLOCKS_PER_PAGE, "a block has a place in its page");
        if self.blocks_max == 0 {
            return;
        }
        let key = Key { slot, block };
        let queue = match self.find(key) {
            Some(place) if self.node(place).queue == Queue::Gone => {
                self.drop_node(place);
                Queue::Long
            }
            Some(place) => {
                let node = self.node_mut(place);
                node.data = Bytes::copy_from_slice(data);
                node.checksum = checksum;
                return;
            }
            None => Queue::Short,
        };
        while self.block_count() >= self.blocks_max {
            self.evict();
        }
        let data = Bytes::copy_from_slice(data);
        self.add(key, data, checksum, queue);
    }

    /// A page that is in the second slot has been painted, or left the first one. What is in its slot may be `anew`.
    pub(crate) fn follow(&mut self, slots: [u32; 2], is_anew: bool, paints: &[(u32, Paint)]) {
        let [from, slot] = slots;
        self.forget_slot(from);
        if is_anew {
            self.forget_slot(slot);
            return;
        }
        for (block, paint) in paints {
            match paint {
                Paint::Data { data, checksum } => self.replace(slot, *block, data, *checksum),
                Paint::Zero | Paint::Bad(_) => self.forget(slot, *block),
            }
        }
    }

    /// A block has become something else: if it is here, that is here from now on.
    fn replace(&mut self, slot: u32, block: u32, data: &[u8], checksum: u32) {
        let found = self.find(Key { slot, block });
        if found.is_some_and(|place| self.node(place).queue != Queue::Gone) {
            self.insert(slot, block, data, checksum);
        }
    }

    /// A block is not there any more.
    fn forget(&mut self, slot: u32, block: u32) {
        if let Some(place) = self.find(Key { slot, block }) {
            self.drop_node(place);
        }
    }

    /// Nothing of a slot is what it was.
    fn forget_slot(&mut self, slot: u32) {
        if slot == NO_SLOT {
            return;
        }
        for block in 0..BLOCKS_PER_PAGE {
            self.forget(slot, block);
        }
    }

    /// Makes room for one block. Where everything is read often, one goes that is as well: to look for another one may take as long as
    /// there are blocks.
    fn evict(&mut self) {
        let short_max = self.blocks_max / SHORT_SHARE;
        for step in 1.. {
            let short = self.ends(Queue::Short).count;
            let queue = if short > short_max || self.ends(Queue::Long).count == 0 {
                Queue::Short
            } else {
                Queue::Long
            };
            let place = self.ends(queue).front;
            let uses = self.node(place).uses;
            self.unlink(place);
            match (queue, uses) {
                (Queue::Short, uses) if uses <= 1 || step >= STEPS_MAX => {
                    let node = self.node_mut(place);
                    node.data = Bytes::new();
                    self.link(place, Queue::Gone);
                    self.forget_oldest_gone();
                    return;
                }
                (Queue::Long, uses) if uses == 0 || step >= STEPS_MAX => {
                    self.link(place, Queue::Gone);
                    self.drop_node(place);
                    return;
                }
                (_, uses) => {
                    self.node_mut(place).uses = uses.saturating_sub(1);
                    self.link(place, Queue::Long);
                }
            }
        }
    }

    fn forget_oldest_gone(&mut self) {
        while self.ends(Queue::Gone).count > self.blocks_max {
            self.drop_node(self.ends(Queue::Gone).front);
        }
    }

    fn add(&mut self, key: Key, data: Bytes, checksum: u32, queue: Queue) {
        let node = Node {
            key,
            data,
            checksum,
            queue,
            uses: 0,
            ahead: NONE,
            behind: NONE,
            next: NONE,
        };
        let place = if let Some(place) = self.free.pop() {
            self.nodes[place as usize] = node;
            place
        } else {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        };
        self.enter_bucket(place);
        self.link(place, queue);
    }

    /// Takes a node out of everything.
    fn drop_node(&mut self, place: u32) {
        self.unlink(place);
        self.leave_bucket(place);
        self.node_mut(place).data = Bytes::new();
        self.free.push(place);
    }

    fn find(&self, key: Key) -> Option<u32> {
        let mut place = self.buckets[key.bucket(self.buckets.len())];
        while place != NONE {
            let node = self.node(place);
            if node.key == key {
                return Some(place);
            }
            place = node.next;
        }
        None
    }

    fn enter_bucket(&mut self, place: u32) {
        let bucket = self.node(place).key.bucket(self.buckets.len());
        self.node_mut(place).next = self.buckets[bucket];
        self.buckets[bucket] = place;
    }

    fn leave_bucket(&mut self, place: u32) {
        let (key, next) = (self.node(place).key, self.node(place).next);
        let bucket = key.bucket(self.buckets.len());
        if self.buckets[bucket] == place {
            self.buckets[bucket] = next;
            return;
        }
        let mut before = self.buckets[bucket];
        while self.node(before).next != place {
            before = self.node(before).next;
        }
        self.node_mut(before).next = next;
    }

    /// Puts a node at the back of a queue.
    fn link(&mut self, place: u32, queue: Queue) {
        let back = self.ends(queue).back;
        let node = self.node_mut(place);
        node.queue = queue;
        node.ahead = back;
        node.behind = NONE;
        match back {
            NONE => self.ends_mut(queue).front = place,
            back => self.node_mut(back).behind = place,
        }
        let ends = self.ends_mut(queue);
        ends.back = place;
        ends.count += 1;
    }

    fn unlink(&mut self, place: u32) {
        let node = self.node(place);
        let (queue, ahead, behind) = (node.queue, node.ahead, node.behind);
        match ahead {
            NONE => self.ends_mut(queue).front = behind,
            ahead => self.node_mut(ahead).behind = behind,
        }
        match behind {
            NONE => self.ends_mut(queue).back = ahead,
            behind => self.node_mut(behind).ahead = ahead,
        }
        self.ends_mut(queue).count -= 1;
    }

    fn node(&self, place: u32) -> &Node {
        &self.nodes[place as usize]
    }

    fn node_mut(&mut self, place: u32) -> &mut Node {
        &mut self.nodes[place as usize]
    }

    const fn ends(&self, queue: Queue) -> Ends {
        self.queues[queue as usize]
    }

    const fn ends_mut(&mut self, queue: Queue) -> &mut Ends {
        &mut self.queues[queue as usize]
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use holdfast_stdx::Prng;

    use super::*;

    const BLOCKS: usize = 100;

    fn cache() -> BlockCache {
        BlockCache::new(BLOCKS as u64 * (BLOCK_SIZE as u64 + NODE_BYTES))
    }

    fn contents(number: u32) -> Vec<u8> {
        vec![number as u8; BLOCK_SIZE]
    }

    fn put(cache: &mut BlockCache, slot: u32, block: u32) {
        let data = contents(slot);
        cache.insert(slot, block, &data, crc32c(&data));
    }

    fn has(cache: &mut BlockCache, slot: u32, block: u32) -> bool {
        let found = cache.get(slot, block);
        if let Some((data, checksum)) = &found {
            assert_eq!(*checksum, crc32c(data));
        }
        found.is_some()
    }

    /// What the queues and buckets say fits together.
    fn check(cache: &BlockCache) {
        let mut seen = BTreeSet::new();
        for queue in [Queue::Short, Queue::Long, Queue::Gone] {
            let ends = cache.ends(queue);
            let (mut place, mut ahead, mut count) = (ends.front, NONE, 0);
            while place != NONE {
                let node = cache.node(place);
                assert_eq!((node.queue, node.ahead), (queue, ahead));
                assert_eq!(node.data.is_empty(), queue == Queue::Gone);
                assert_eq!(cache.find(node.key), Some(place));
                assert!(seen.insert(place));
                (ahead, place, count) = (place, node.behind, count + 1);
            }
            assert_eq!((ends.back, ends.count), (ahead, count));
        }
        assert_eq!(seen.len() + cache.free.len(), cache.nodes.len());
        assert!(cache.block_count() <= BLOCKS);
        assert!(cache.ends(Queue::Gone).count <= BLOCKS);
    }

    #[test]
    fn what_is_read_often_outlasts_a_scan() {
        let mut cache = cache();
        for slot in 0..20 {
            put(&mut cache, slot, 0);
        }
        for _ in 0..2 {
            assert!((0..20).all(|slot| has(&mut cache, slot, 0)));
        }
        for slot in 100..2000 {
            assert!(!has(&mut cache, slot, 0));
            put(&mut cache, slot, 0);
            check(&cache);
        }
        assert!((0..20).all(|slot| has(&mut cache, slot, 0)));
        let usage = cache.usage();
        assert_eq!(usage.bytes, (BLOCKS * BLOCK_SIZE) as u64);
        assert_eq!((usage.hits, usage.misses), (60, 1900));
    }

    #[test]
    fn room_is_made_at_once_where_everything_is_read_often() {
        let mut cache = cache();
        for slot in 0..BLOCKS as u32 {
            put(&mut cache, slot, 0);
            for _ in 0..USES_MAX {
                assert!(has(&mut cache, slot, 0));
            }
        }
        put(&mut cache, 1000, 0);
        let mut nodes = cache.nodes.iter();
        assert!(nodes.any(|node| node.uses == USES_MAX && node.queue == Queue::Short));
        assert_eq!(cache.block_count(), BLOCKS);
        check(&cache);
    }

    #[test]
    fn what_comes_back_soon_stays() {
        let mut cache = cache();
        for slot in 0..BLOCKS as u32 + 5 {
            put(&mut cache, slot, 0);
        }
        assert!(!has(&mut cache, 0, 0), "it was pushed out");
        put(&mut cache, 0, 0);
        for slot in 1000..3000 {
            put(&mut cache, slot, 0);
        }
        assert!(has(&mut cache, 0, 0));
    }

    #[test]
    fn what_has_changed_is_as_it_is_now_or_not_here() {
        let mut cache = cache();
        put(&mut cache, 1, 5);
        put(&mut cache, 1, 6);
        let new = contents(77);
        cache.replace(1, 5, &new, crc32c(&new));
        cache.replace(1, 7, &new, crc32c(&new));
        assert_eq!(cache.get(1, 5).unwrap().0, new);
        assert!(!has(&mut cache, 1, 7), "it was not here");
        cache.forget(1, 5);
        assert!(!has(&mut cache, 1, 5));
        cache.forget_slot(1);
        assert!(!has(&mut cache, 1, 6));
        check(&cache);
        assert_eq!(cache.usage().bytes, 0);
    }

    #[test]
    fn memory_that_fails_is_noticed() {
        let mut cache = cache();
        cache.insert(1, 1, &contents(1), crc32c(&contents(2)));
        assert!(!has(&mut cache, 1, 1));
        assert_eq!(cache.usage().bytes, 0);
    }

    #[test]
    fn without_a_budget_there_is_none() {
        let mut cache = BlockCache::new(4 * BLOCK_SIZE as u64);
        put(&mut cache, 1, 1);
        assert!(!has(&mut cache, 1, 1));
        assert!(cache.nodes.is_empty());
    }

    #[test]
    fn whatever_happens_it_holds_together() {
        let mut cache = cache();
        let mut prng = Prng::from_seed(1);
        for _ in 0..20_000 {
            let (slot, block) = (prng.below(8) as u32, prng.below(64) as u32);
            match prng.below(10) {
                0..4 => put(&mut cache, slot, block),
                4..8 => {
                    has(&mut cache, slot, block);
                }
                8 => cache.forget(slot, block),
                _ if prng.chance(1, 20) => cache.forget_slot(slot),
                _ => {
                    let data = contents(9);
                    cache.replace(slot, block, &data, crc32c(&data));
                }
            }
            check(&cache);
        }
    }
}
