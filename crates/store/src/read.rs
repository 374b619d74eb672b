//! Reads: what memory has, then what pages have, verified.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use holdfast_format::PageKey;
use holdfast_model::{BlockRange, PageIndex, SliceId};
use holdfast_pages::{BlockOutcome, PageReadDone, Paint, runs_of};
use holdfast_stdx::Instant;

use crate::event::{BlockRead, Output, StoreEvent, StoreToken, View};
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
    token: StoreToken,
    blocks: Vec<Option<BlockRead>>,
    /// Blocks that are not known yet.
    left: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Reads {
    live: BTreeMap<u64, ReadState>,
    /// Which read and page a part under way in the page store belongs to.
    parts: BTreeMap<u64, (u64, PageIndex)>,
    next: u64,
}

impl Core {
    pub(crate) fn read(
        &mut self,
        now: Instant,
        slice: SliceId,
        range: BlockRange,
        view: View,
        token: StoreToken,
        out: &mut Output,
    ) {
        assert!(range.count() <= READ_BLOCKS_MAX, "a read is bounded");
        let number = self.reads.next;
        self.reads.next += 1;
        let state = ReadState {
            slice,
            range,
            view,
            token,
            blocks: vec![None; range.count() as usize],
            left: range.count(),
        };
        self.reads.live.insert(number, state);
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
        let mut requests = Vec::new();
        let mut events = Vec::new();
        self.pages
            .read(key, from_pages, part, &mut requests, &mut events);
        self.push_pages(requests, Urgency::Read);
        self.take_pages_events(now, events, out);
    }

    /// What memory has of a page, the last word first: blocks and the item that has them.
    fn layers(&self, id: SliceId, page: PageIndex, view: View) -> Vec<(u64, ItemId)> {
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
            .map(|(_, item)| (self.items[item].masks(page).all(), item))
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

    /// The page store has read what it was asked for. What was written meanwhile is planned again:
    /// each time that happens a round of destage has ended, so it does not go on for ever.
    pub(crate) fn page_read_done(&mut self, now: Instant, done: PageReadDone, out: &mut Output) {
        let (number, page) = self
            .reads
            .parts
            .remove(&done.id)
            .expect("a part belongs to a read");
        let mut again = 0;
        for (block, outcome) in done.blocks {
            match outcome {
                BlockOutcome::Data { data, checksum } => {
                    self.fill(number, page, block, BlockRead::Data { data, checksum });
                }
                BlockOutcome::Bad(checksum) => {
                    self.fill(number, page, block, BlockRead::Bad { checksum });
                }
                BlockOutcome::Changed => again |= 1 << block,
            }
        }
        if again != 0 {
            self.plan(now, number, page, again, out);
        }
        self.finish_read(number, out);
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
