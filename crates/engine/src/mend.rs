//! Mending: blocks that are known to be bad here are fetched from another in-sync replica without
//! waiting for somebody to read them, because the other replica may be gone by then.
//!
//! Invariants:
//! - a few blocks at a time, so that those who read are not held up;
//! - what no replica has is looked for seldom, and not told of each time.

use alloc::collections::VecDeque;

use holdfast_model::{BlockRange, SliceId};
use holdfast_stdx::{Duration, Instant};
use holdfast_store::View;

use crate::engine::Engine;
use crate::storage::{Read, Reader};

/// Reads under way at most.
const READS_MAX: usize = 4;
/// Ranges that one look takes at most.
const RANGES_MAX: usize = 1024;
/// Between two looks, as long as there was something to mend.
const SOON: Duration = Duration::from_millis(250);
/// Between two looks after one that mended nothing.
const SELDOM: Duration = Duration::from_secs(10);

/// What is to be mended.
#[derive(Debug, Default)]
pub(crate) struct Mending {
    ranges: VecDeque<(SliceId, BlockRange)>,
    under_way: usize,
    /// How many ranges the last look found.
    found: usize,
    /// How many of them are good now.
    mended: usize,
    /// When it is next looked for bad blocks.
    look: Option<Instant>,
}

impl Mending {
    /// A read has ended, after what repair it needed.
    pub(crate) fn ended(&mut self, good: bool) {
        self.under_way -= 1;
        self.mended += usize::from(good);
    }

    /// There may be more to mend, or somebody new to fetch it from.
    pub(crate) fn look_soon(&mut self) {
        self.look = None;
    }

    fn is_done(&self) -> bool {
        self.ranges.is_empty() && self.under_way == 0
    }
}

impl Engine {
    /// Goes on mending.
    pub(crate) fn mend(&mut self) {
        let now = self.world.now;
        if !self.is_alive() {
            return;
        }
        if self.mending.is_done() && self.mending.look.is_none_or(|look| look <= now) {
            let in_vain = self.mending.found > 0 && self.mending.mended == 0;
            let ranges = self.bad_ranges();
            self.mending = Mending {
                found: ranges.len(),
                ranges,
                look: Some(now + if in_vain { SELDOM } else { SOON }),
                ..Mending::default()
            };
        }
        while self.mending.under_way < READS_MAX
            && let Some((slice, range)) = self.mending.ranges.pop_front()
        {
            self.mending.under_way += 1;
            let read = Read::new(now, slice, range, View::Committed, Reader::Mending);
            self.world.storage.read(now, read);
        }
    }

    /// Bad blocks of replicas that are in sync, and for which there is somebody to ask.
    fn bad_ranges(&self) -> VecDeque<(SliceId, BlockRange)> {
        let store = self.world.storage.store();
        let peers = &self.world.peers;
        self.replicas
            .iter()
            .filter(|(_, replica)| {
                let reachable = |node| peers.link(node).is_some();
                replica.in_sync_epoch().is_some() && replica.fellows().into_iter().any(reachable)
            })
            .flat_map(|(slice, _)| {
                let pages = store.bad_blocks(*slice).into_iter();
                pages.map(|(page, mask)| {
                    let first = page.block(mask.trailing_zeros()).0;
                    let last = page.block(63 - mask.leading_zeros()).0;
                    (*slice, BlockRange::new(first, last - first + 1))
                })
            })
            .take(RANGES_MAX)
            .collect()
    }
}
