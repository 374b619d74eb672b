//! Copies from other replicas, for syncs and repairs.
//!
//! A copy says what blocks were as of a sequence. It goes into the journal at its place, and there
//! it must be right for whoever redoes the journal in order: so blocks for which the store has
//! something newer are left out, and a copy that cannot be ordered yet is refused.

use alloc::vec::Vec;

use holdfast_format::{Body, Install, PageKey};
use holdfast_model::{BLOCK_SIZE, BlockIndex, BlockRange, Change, PageIndex, Sequence, SliceId};
use holdfast_pages::runs_of;
use holdfast_stdx::Instant;

use crate::event::{InstallRefused, StoreToken};
use crate::item::{Item, Source};
use crate::machine::{Core, Lane, Pending, Purpose};

impl Core {
    pub(crate) fn install(
        &mut self,
        now: Instant,
        id: SliceId,
        install: &Install,
        as_of: Sequence,
        token: StoreToken,
    ) -> Result<(), InstallRefused> {
        self.make_slice(id);
        let range = install.range();
        let slice = self.slice(id).expect("it was just made");
        let undecided = as_of > slice.committed.1 || self.is_dirty(id, range);
        if undecided {
            return Err(InstallRefused::Undecided);
        }
        let mut left: Vec<BlockRange> = Vec::new();
        for (page, part) in range.by_page() {
            let wanted = part.page_mask() & !self.blocks_above(id, page, as_of);
            if wanted == 0 {
                continue;
            }
            if self.written(id, page) > as_of {
                return Err(InstallRefused::Stale);
            }
            for (first, count) in runs_of(wanted) {
                push_joined(&mut left, BlockRange::new(page.block(first).0, count));
            }
        }
        let last = left.len().saturating_sub(1);
        if left.is_empty() {
            // Everything here is newer: the token still comes in its turn.
            let body = self.position(id);
            self.log_plain(now, id, body, Purpose::Position, token);
        }
        for (index, range) in left.into_iter().enumerate() {
            let token = (index == last).then_some(token);
            self.log_install(now, id, as_of, part_of(install, range), token);
        }
        Ok(())
    }

    fn log_install(
        &mut self,
        now: Instant,
        id: SliceId,
        as_of: Sequence,
        install: Install,
        token: Option<StoreToken>,
    ) {
        let body = Body::Install {
            as_of,
            install: install.clone(),
        };
        let item = self.add_item(Item::new(id, Source::Install { as_of, install }, now));
        let pending = Pending {
            token,
            ..Pending::of(id, Purpose::Item(item), now)
        };
        self.log(body, Lane::Data, pending);
    }

    /// The sequence above which nothing has been done to a page in the page store.
    fn written(&self, id: SliceId, page: PageIndex) -> Sequence {
        let key = PageKey { slice: id, page };
        let absent = self.slice(id).expect("the slice exists").absent;
        self.pages.page(key).map_or(absent, |view| view.written)
    }

    /// Whether an entry that is prepared and not known to be committed touches the range.
    pub(crate) fn is_dirty(&self, id: SliceId, range: BlockRange) -> bool {
        self.slice(id).is_some_and(|slice| {
            slice
                .log
                .range(slice.committed.1.next()..)
                .filter_map(|(_, item)| self.items[*item].range())
                .any(|other| other.overlaps(range))
        })
    }
}

/// What a copy makes of some of its blocks.
pub(crate) fn part_of(install: &Install, part: BlockRange) -> Install {
    match install {
        Install::Bad(_) => Install::Bad(part),
        Install::Change(Change::Write {
            start,
            data,
            checksums,
        }) => {
            let first = (part.start() - start.0) as usize;
            let end = first + part.count() as usize;
            Install::Change(Change::Write {
                start: BlockIndex(part.start()),
                data: data.slice(first * BLOCK_SIZE..end * BLOCK_SIZE),
                checksums: checksums[first..end].into(),
            })
        }
        Install::Change(_) => Install::Change(Change::Clear(part)),
    }
}

/// Adds a range at the end, to the last one if it continues it.
fn push_joined(ranges: &mut Vec<BlockRange>, range: BlockRange) {
    match ranges.last_mut() {
        Some(last) if last.end() == range.start() => {
            *last = BlockRange::new(last.start(), last.count() + range.count());
        }
        _ => ranges.push(range),
    }
}
