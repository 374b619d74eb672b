//! Blocks of pages that were read before anybody asked for them, because somebody reads one after the other: each until it is asked
//! for, once. Who reads on, and how far, is the owner's to know.
//!
//! They are not among the [blocks that were read](crate::block_cache): there they would push out what is read often, or be pushed
//! out before anybody has asked for them. They stay in the buffers in which they were read, and go as a page.
//!
//! Invariants:
//! - a block is here only as it is in its slot, or as the entry of the slot says that it is: whoever changes a slot's entry says so;
//! - a block is given out only if its checksum is the entry's; one that does not match is not here;
//! - what is here, and on its way here, is of at most as many pages as the budget has bytes for; and of these no more is on its way
//!   than a device brings in a few milliseconds: a read that somebody waits for may come behind all of it.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use holdfast_format::PageKey;
use holdfast_model::{BLOCK_SIZE, BLOCKS_PER_PAGE, DiskRequest, PAGE_SIZE};
use holdfast_stdx::{Bytes, crc32c};

use crate::PagesEvent;
use crate::job::Paint;
use crate::pages::{NO_SLOT, Pages};
use crate::read::{Asker, BlockOutcome, Outcomes, mask_of, mask_of_outcomes, runs_of};

/// Share of the memory for blocks that is for what is read ahead: one of so many bytes.
const SHARE: u64 = 8;
/// Bytes of it at most: eight streams that read as far ahead as any does.
const BYTES_MAX: u64 = 16 << 20;
/// Bytes that are on their way at most, for all streams together: four milliseconds of a device that moves 1 GB a second, and as far as
/// two streams read ahead at most.
const ON_THEIR_WAY_BYTES_MAX: u64 = 4 << 20;
/// The same in pages.
const ON_THEIR_WAY_MAX: usize = (ON_THEIR_WAY_BYTES_MAX / PAGE_SIZE as u64) as usize;
/// Pages with less than which nothing is read ahead: the one that somebody reads, and the next.
const PAGES_MIN: u64 = 2;
/// Requests that one page is worth: of one with more holes than that what is asked for is read, when it is.
const RUNS_MAX: usize = 4;
/// Pages that were wanted since a page came, for each that there may be, after which nobody is expected to ask for it any more.
const WANTED_SINCE: u64 = 4;

/// Bytes of the memory for blocks that are for what is read ahead.
pub(crate) const fn share_of(block_bytes: u64) -> u64 {
    let share = block_bytes / SHARE;
    let share = if share < BYTES_MAX { share } else { BYTES_MAX };
    if share < PAGES_MIN * PAGE_SIZE as u64 {
        0
    } else {
        share
    }
}

#[derive(Debug)]
enum Content {
    /// It is being read, as it is in this version of its page.
    OnItsWay {
        version: u64,
        /// Reads that wait for it.
        waiting: Vec<u64>,
    },
    Here(Here),
}

/// What was read of a page.
#[derive(Debug)]
pub(crate) struct Here {
    /// Each buffer, with where it begins in the page.
    pub(crate) runs: Vec<(u32, Bytes)>,
    /// Those of the page's entry.
    pub(crate) checksums: Box<[u32; BLOCKS_PER_PAGE as usize]>,
}

impl Here {
    /// Those that came: not all, where the device failed to read some.
    fn blocks(&self) -> u64 {
        let blocks = self.runs.iter().flat_map(|(first, data)| {
            let count = (data.len() / BLOCK_SIZE) as u32;
            *first..first + count
        });
        mask_of(blocks)
    }
}

#[derive(Debug)]
struct AheadPage {
    /// How many pages had been wanted when this one was.
    since: u64,
    /// Blocks that nobody has asked for yet.
    left: u64,
    content: Content,
}

/// Pages that were read ahead, by slot.
#[derive(Debug)]
pub(crate) struct Ahead {
    pages: BTreeMap<u32, AheadPage>,
    pages_max: usize,
    /// Of them, those that are on their way.
    on_their_way: usize,
    wanted: u64,
    used: u64,
    unused: u64,
}

impl Ahead {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self {
            pages: BTreeMap::new(),
            pages_max: (bytes_max / PAGE_SIZE as u64) as usize,
            on_their_way: 0,
            wanted: 0,
            used: 0,
            unused: 0,
        }
    }

    /// Blocks that were asked for, and those that went without having been.
    pub(crate) const fn usage(&self) -> (u64, u64) {
        (self.used, self.unused)
    }

    /// Takes blocks out that somebody asks for, and which are here.
    pub(crate) fn take(&mut self, slot: u32, wanted: u64) -> Outcomes {
        let blocks = self.give(slot, wanted);
        self.go(slot, mask_of_outcomes(&blocks));
        blocks
    }

    /// Has a read wait for blocks that are on their way, as they are in this version: which ones.
    pub(crate) fn join(&mut self, slot: u32, version: u64, wanted: u64, read: u64) -> u64 {
        match self.pages.get_mut(&slot) {
            Some(AheadPage {
                left,
                content:
                    Content::OnItsWay {
                        version: read_version,
                        waiting,
                    },
                ..
            }) if *read_version == version && *left & wanted != 0 => {
                waiting.push(read);
                *left & wanted
            }
            _ => 0,
        }
    }

    /// A page that is in the second slot has been painted, or left the first one. What is in its slot may be `anew`. What is on its way
    /// is of an earlier version then, and does not come here.
    pub(crate) fn follow(&mut self, slots: [u32; 2], is_anew: bool, paints: &[(u32, Paint)]) {
        let [from, slot] = slots;
        self.forget(from, u64::MAX);
        let painted = mask_of(paints.iter().map(|(block, _)| *block));
        self.forget(slot, if is_anew { u64::MAX } else { painted });
    }

    /// Blocks are not here any more, or were never asked for.
    fn forget(&mut self, slot: u32, blocks: u64) {
        if slot == NO_SLOT {
            return;
        }
        if let Some(page) = self.pages.get(&slot)
            && matches!(page.content, Content::Here(_))
        {
            self.unused += u64::from((page.left & blocks).count_ones());
            self.go(slot, blocks);
        }
    }

    /// Blocks go; with the last one the page.
    fn go(&mut self, slot: u32, blocks: u64) {
        if let Some(page) = self.pages.get_mut(&slot) {
            page.left &= !blocks;
            if page.left == 0 {
                self.pages.remove(&slot);
            }
        }
    }

    /// Blocks that are here. They stay.
    fn give(&mut self, slot: u32, wanted: u64) -> Outcomes {
        let mut blocks = Outcomes::new();
        let Some(AheadPage {
            left,
            content: Content::Here(Here { runs, checksums }),
            ..
        }) = self.pages.get(&slot)
        else {
            return blocks;
        };
        let wanted = wanted & left;
        let mut bad = 0;
        for (first, data) in runs {
            for place in 0..data.len() / BLOCK_SIZE {
                let block = first + place as u32;
                if wanted & (1 << block) == 0 {
                    continue;
                }
                let checksum = checksums[block as usize];
                let data = data.slice(place * BLOCK_SIZE..(place + 1) * BLOCK_SIZE);
                if crc32c(&data) == checksum {
                    blocks.push((block, BlockOutcome::Data { data, checksum }));
                } else {
                    bad |= 1 << block;
                }
            }
        }
        self.used += blocks.len() as u64;
        self.forget(slot, bad);
        blocks
    }

    /// Makes room for one more page, and says whether there is some. Where there was none, the oldest one goes, if that has been here for
    /// long: who asked for it has gone elsewhere.
    fn make_room(&mut self) -> bool {
        if self.on_their_way >= ON_THEIR_WAY_MAX {
            return false;
        }
        self.wanted += 1;
        if self.pages.len() < self.pages_max {
            return true;
        }
        let here = self
            .pages
            .iter()
            .filter(|(_, page)| matches!(page.content, Content::Here(_)));
        let Some((slot, page)) = here.min_by_key(|(_, page)| page.since) else {
            return false;
        };
        let slot = *slot;
        let is_late = self.wanted - page.since > WANTED_SINCE * self.pages_max as u64;
        if is_late {
            self.forget(slot, u64::MAX);
        }
        is_late
    }

    fn begin(&mut self, slot: u32, version: u64, blocks: u64) {
        let page = AheadPage {
            since: self.wanted,
            left: blocks,
            content: Content::OnItsWay {
                version,
                waiting: Vec::new(),
            },
        };
        let before = self.pages.insert(slot, page);
        assert!(before.is_none(), "a page is read ahead once at a time");
        self.on_their_way += 1;
    }

    /// What was on its way is here, or does not come: which reads have waited for it.
    fn arrive(&mut self, slot: u32, here: Option<Here>) -> Vec<u64> {
        let page = self.pages.remove(&slot).expect("it was on its way");
        self.on_their_way -= 1;
        let AheadPage {
            since,
            left,
            content,
        } = page;
        let Content::OnItsWay { waiting, .. } = content else {
            unreachable!("it comes once");
        };
        match here.map(Content::Here) {
            Some(content) => {
                let page = AheadPage {
                    since,
                    left,
                    content,
                };
                self.pages.insert(slot, page);
            }
            None => self.unused += u64::from(left.count_ones()),
        }
        waiting
    }
}

impl Pages {
    /// Pages that may be read ahead at a time.
    #[must_use]
    pub fn ahead_pages_max(&self) -> u32 {
        self.ahead.pages_max as u32
    }

    /// Pages that may be read ahead by each of so many streams, so that all of them find room, and have their turn.
    #[must_use]
    pub fn ahead_pages_each(&self, streams: u32) -> u32 {
        assert!(streams > 0, "somebody reads");
        // What a stream has come through is here for a while still.
        let room = self.ahead_pages_max() / (2 * streams);
        room.min(ON_THEIR_WAY_MAX as u32 / streams)
    }

    /// Reads blocks of `wanted` for whoever will ask for them, if they are there and not in memory. Tells whether that is as it should be
    /// now; not, if there is no room for more.
    pub fn read_ahead(
        &mut self,
        key: PageKey,
        wanted: u64,
        requests: &mut Vec<DiskRequest>,
        events: &mut Vec<PagesEvent>,
    ) -> bool {
        let Some(state) = self.state(key).filter(|state| state.slot != NO_SLOT) else {
            return true;
        };
        let lacks = |masks: &BTreeMap<PageKey, u64>| masks.get(&key).copied().unwrap_or(0);
        let there = state.mask & !lacks(&self.lost) & !lacks(&self.suspect);
        let wanted = there & wanted & !self.block_cache.mask_of(state.slot);
        if wanted == 0 || self.ahead.pages.contains_key(&state.slot) {
            return true;
        }
        // What is in memory in between is read with it: one request is less than two.
        let between = u64::MAX << wanted.trailing_zeros() & u64::MAX >> wanted.leading_zeros();
        let read = there & between;
        if runs_of(read).count() > RUNS_MAX {
            return true;
        }
        if !self.ahead.make_room() {
            return false;
        }
        self.ahead.begin(state.slot, state.version, wanted);
        self.begin_read(Asker::Ahead, key, state, read, requests);
        self.reads_go_on(requests, events);
        true
    }

    /// A page was read ahead. Those that have waited for it get theirs, and read what it did not bring.
    pub(crate) fn take_ahead(
        &mut self,
        slot: u32,
        here: Option<Here>,
        requests: &mut Vec<DiskRequest>,
        events: &mut Vec<PagesEvent>,
    ) {
        let has_come = here.as_ref().map_or(0, Here::blocks);
        let waiting = self.ahead.arrive(slot, here);
        self.ahead.forget(slot, !has_come);
        let mut given = 0;
        for number in waiting {
            let awaited = self.awaited_by(number);
            let blocks = self.ahead.give(slot, awaited);
            given |= mask_of_outcomes(&blocks);
            self.take_awaited(number, slot, blocks, requests, events);
        }
        self.ahead.go(slot, given);
    }
}
