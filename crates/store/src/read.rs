//! Reads: what memory has, then what pages have, verified.
//!
//! Invariants:
//! - all blocks of a read are of one moment, at which it was planned: if a page was written while it
//!   was being read, everything is planned again;
//! - that ends: from the second plan on no round of destage takes the pages of the read, so only the
//!   round that is under way then can come in between once more.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use holdfast_format::PageKey;
use holdfast_model::{BlockRange, PageIndex, SliceId};
use holdfast_pages::{BlockOutcome, PageReadDone, Paint, ReadSource, runs_of};
use holdfast_stdx::Instant;

use crate::event::{BlockRead, Output, ReadRequest, StoreEvent, StoreToken, View};
use crate::item::ItemId;
use crate::machine::Core;
use crate::requests::Urgency;

/// Blocks of one read at most, 16 MiB: its answer is in memory as a whole.
pub const READ_BLOCKS_MAX: u32 = 4096;

#[derive(Debug)]
struct ReadState {
    slice: SliceId,
    range: BlockRange,
    view: View,
    source: ReadSource,
    token: StoreToken,
    blocks: Vec<Option<BlockRead>>,
    /// Blocks that are not known yet.
    left: u32,
    /// Pages that the page store is reading.
    parts: u32,
    /// One of them has changed: what is known is not of one moment.
    torn: bool,
    /// Destage leaves its pages alone.
    holds: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Reads {
    live: BTreeMap<u64, ReadState>,
    /// Which read and page a part under way in the page store belongs to.
    parts: BTreeMap<u64, (u64, PageIndex)>,
    /// Pages that destage leaves alone, and for how many reads.
    held: BTreeMap<PageKey, u32>,
    next: u64,
}

impl Reads {
    /// Whether a read waits for the page to stay as it is.
    pub(crate) fn holds(&self, key: PageKey) -> bool {
        self.held.contains_key(&key)
    }

    fn hold(&mut self, slice: SliceId, range: BlockRange) {
        for (page, _) in range.by_page() {
            *self.held.entry(PageKey { slice, page }).or_default() += 1;
        }
    }

    fn let_go(&mut self, slice: SliceId, range: BlockRange) {
        for (page, _) in range.by_page() {
            let key = PageKey { slice, page };
            let count = self.held.get_mut(&key).expect("the page is held");
            *count -= 1;
            if *count == 0 {
                self.held.remove(&key);
            }
        }
    }
}

impl Core {
    pub(crate) fn read(
        &mut self,
        now: Instant,
        request: ReadRequest,
        token: StoreToken,
        out: &mut Output,
    ) {
        let ReadRequest {
            slice,
            range,
            view,
            source,
        } = request;
        assert!(range.count() <= READ_BLOCKS_MAX, "a read is bounded");
        let number = self.reads.next;
        self.reads.next += 1;
        let state = ReadState {
            slice,
            range,
            view,
            source,
            token,
            blocks: Vec::new(),
            left: 0,
            parts: 0,
            torn: false,
            holds: false,
        };
        self.reads.live.insert(number, state);
        self.plan_read(now, number, out);
        if source == ReadSource::Anywhere {
            self.read_ahead(now, slice, range, out);
        }
    }

    /// Reads both copies of a page's entry, with the urgency of what nobody waits for.
    pub(crate) fn check_entry(&mut self, slice: SliceId, page: PageIndex) {
        let mut requests = Vec::new();
        self.pages.check(PageKey { slice, page }, &mut requests);
        self.push_pages(requests, Urgency::Background);
    }

    /// Plans all of a read, as if it had just been asked for.
    fn plan_read(&mut self, now: Instant, number: u64, out: &mut Output) {
        let read = self.reads.live.get_mut(&number).expect("the read is live");
        let range = read.range;
        read.blocks = vec![None; range.count() as usize];
        read.left = range.count();
        read.torn = false;
        for (page, part) in range.by_page() {
            self.plan(now, number, page, part.page_mask(), out);
        }
        self.finish_read(number, out);
    }

    /// Fills in the blocks of one page that memory knows, and asks the page store for the others.
    fn plan(
        &mut self,
        now: Instant,
        number: u64,
        page: PageIndex,
        mut wanted: u64,
        out: &mut Output,
    ) {
        let read = &self.reads.live[&number];
        let (id, view) = (read.slice, read.view);
        for (mask, item) in self.layers(id, page, view) {
            let mask = mask & wanted;
            wanted &= !mask;
            for (first, count) in runs_of(mask) {
                for block in first..first + count {
                    let paint = self.items[item].paint(page, block);
                    self.fill(number, page, block, paint.into());
                }
            }
        }
        if wanted == 0 {
            return;
        }
        let key = PageKey { slice: id, page };
        let (mask, lost) = self
            .pages
            .page(key)
            .map_or((0, 0), |view| (view.mask, view.lost));
        let from_pages = wanted & mask & !lost;
        for (first, count) in runs_of(wanted & !from_pages) {
            for block in first..first + count {
                let known = if lost & (1 << block) != 0 {
                    BlockRead::Bad { checksum: None }
                } else {
                    BlockRead::Zero
                };
                self.fill(number, page, block, known);
            }
        }
        if from_pages == 0 {
            return;
        }
        let part = self.reads.next;
        self.reads.next += 1;
        self.reads.parts.insert(part, (number, page));
        let read = self.reads.live.get_mut(&number).expect("the read is live");
        read.parts += 1;
        let source = read.source;
        self.with_pages(now, Urgency::Read, out, |pages, requests, events| {
            pages.read(key, from_pages, source, part, requests, events);
        });
    }

    /// What memory has of a page, the last word first: blocks and the item that has them.
    pub(crate) fn layers(&self, id: SliceId, page: PageIndex, view: View) -> Vec<(u64, ItemId)> {
        let Some(slice) = self.slice(id) else {
            return Vec::new();
        };
        let Some(overlay) = slice.overlay.get(&page) else {
            return Vec::new();
        };
        let mut layers: Vec<(u64, ItemId)> = overlay
            .unsettled()
            .rev()
            .filter(|(rank, item)| {
                view == View::Prepared
                    || *rank <= slice.committed.1
                    || self.items[*item].entry().is_none()
            })
            .map(|(rank, item)| {
                let mask = self.items[item].masks(page).all();
                (mask & !overlay.settled_above(rank), item)
            })
            .collect();
        layers.extend(overlay.parts().iter().map(|part| (part.mask, part.item)));
        layers
    }

    fn fill(&mut self, number: u64, page: PageIndex, within_page: u32, block: BlockRead) {
        let read = self.reads.live.get_mut(&number).expect("the read is live");
        let index = page.block(within_page).0 - read.range.start();
        let place = &mut read.blocks[index as usize];
        assert!(place.is_none(), "a block is read once");
        *place = Some(block);
        read.left -= 1;
    }

    /// The page store has read what it was asked for. If something was written meanwhile, the read is
    /// planned again when the page store is done with it.
    pub(crate) fn page_read_done(&mut self, now: Instant, done: PageReadDone, out: &mut Output) {
        let (number, page) = self
            .reads
            .parts
            .remove(&done.id)
            .expect("a part belongs to a read");
        for (block, outcome) in done.blocks {
            match outcome {
                BlockOutcome::Data { data, checksum } => {
                    self.fill(number, page, block, BlockRead::Data { data, checksum });
                }
                BlockOutcome::Bad(checksum) => {
                    self.fill(number, page, block, BlockRead::Bad { checksum });
                }
                BlockOutcome::Changed => {
                    let read = self.reads.live.get_mut(&number).expect("the read is live");
                    read.torn = true;
                }
            }
        }
        let read = self.reads.live.get_mut(&number).expect("the read is live");
        read.parts -= 1;
        if !read.torn {
            self.finish_read(number, out);
        } else if read.parts == 0 {
            if !read.holds {
                read.holds = true;
                let (slice, range) = (read.slice, read.range);
                self.reads.hold(slice, range);
            }
            self.plan_read(now, number, out);
        }
    }

    fn finish_read(&mut self, number: u64, out: &mut Output) {
        let done = self
            .reads
            .live
            .get(&number)
            .is_some_and(|read| read.left == 0);
        if !done {
            return;
        }
        let read = self.reads.live.remove(&number).expect("it was just there");
        if read.holds {
            self.reads.let_go(read.slice, read.range);
        }
        let blocks = read
            .blocks
            .into_iter()
            .map(|block| block.expect("no block is left"))
            .collect();
        let token = read.token;
        out.events.push_back(StoreEvent::ReadDone { token, blocks });
    }
}

impl From<Paint> for BlockRead {
    fn from(paint: Paint) -> Self {
        match paint {
            Paint::Data { data, checksum } => Self::Data { data, checksum },
            Paint::Zero => Self::Zero,
            Paint::Bad(checksum) => Self::Bad { checksum },
        }
    }
}
