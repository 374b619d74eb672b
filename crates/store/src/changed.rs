//! What has changed above a point, as far as pages and memory tell: what a replica may lack that has
//! everything up to there, whoever remembers when it went away.
//!
//! Invariants:
//! - every block that changed above the point is told, or its page is not there any more;
//! - more may be told than has changed: the table tells of pages, not of their blocks, and copies from
//!   other replicas count as changes of the moment at which they were installed.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use holdfast_format::PageKey;
use holdfast_model::{ChangedPage, PageIndex, Sequence, SliceId};

use crate::machine::Core;
use crate::overlay::PageOverlay;

impl Core {
    pub(crate) fn changed_above(&self, id: SliceId, sequence: Sequence) -> Vec<ChangedPage> {
        let Some(slice) = self.slice(id) else {
            return Vec::new();
        };
        // Of a page whose entry is lost nobody knows when it was written, unless memory has what was lost.
        let is_lost = |page: &PageIndex, lost: u64| {
            let overlay = slice.overlay.get(page);
            lost & !overlay.map_or(0, PageOverlay::settled_mask) != 0
        };
        let written = self
            .pages
            .pages(id)
            .filter(|(page, view)| is_lost(page, view.lost) || view.written > sequence);
        let mut changed: BTreeMap<PageIndex, ChangedPage> =
            written.map(|(page, _)| (page, whole(page))).collect();
        for page in slice.overlay.keys().copied() {
            let blocks = self.blocks_above(id, page, sequence);
            if blocks == 0 {
                continue;
            }
            // One that is about to come into being may have been there before, with other contents.
            let is_exact = self.pages.page(PageKey { slice: id, page }).is_some();
            changed.entry(page).or_insert(match is_exact {
                true => ChangedPage {
                    page,
                    blocks,
                    is_exact,
                },
                false => whole(page),
            });
        }
        changed.into_values().collect()
    }

    /// The blocks of one page that may have changed above `sequence`.
    pub(crate) fn page_changed_above(
        &self,
        id: SliceId,
        page: PageIndex,
        sequence: Sequence,
    ) -> u64 {
        let Some(slice) = self.slice(id) else {
            return 0;
        };
        let view = self.pages.page(PageKey { slice: id, page });
        if view.map_or(slice.absent, |view| view.written) > sequence {
            return u64::MAX;
        }
        self.blocks_above(id, page, sequence)
    }

    /// The last change to a page of which memory has nothing.
    pub(crate) fn settled_at(&self, id: SliceId, page: PageIndex) -> Option<Sequence> {
        let is_settled = !self.slice(id)?.overlay.contains_key(&page);
        let view = self.pages.page(PageKey { slice: id, page })?;
        (is_settled && view.lost == 0).then_some(view.written)
    }

    /// The blocks of a page for which memory has something above `sequence`.
    pub(crate) fn blocks_above(&self, id: SliceId, page: PageIndex, sequence: Sequence) -> u64 {
        let slice = self.slice(id).expect("the slice exists");
        let Some(overlay) = slice.overlay.get(&page) else {
            return 0;
        };
        let parts = overlay.parts().iter().filter(|part| part.rank > sequence);
        let items = overlay.unsettled().filter(|(rank, _)| *rank > sequence);
        let items = items.map(|(_, item)| self.items[item].masks(page).all());
        parts
            .map(|part| part.mask)
            .chain(items)
            .fold(0, |blocks, mask| blocks | mask)
    }
}

/// A page of which some block may have changed, nobody knows which.
fn whole(page: PageIndex) -> ChangedPage {
    ChangedPage {
        page,
        blocks: u64::MAX,
        is_exact: false,
    }
}
