//! Bringing a joining replica up to date: what its mark names, or all that is allocated.
//!
//! Invariants:
//! - copies are of committed content, read after the joining replica began to take new writes;
//! - a block counts as copied when it is durable there: a sync that is interrupted goes on with what
//!   is left and what has changed;
//! - few copies are on their way at a time, so that the foreground hardly notices;
//! - from the moment that nothing is left to copy, nothing commits without the replica.

use alloc::collections::BTreeMap;

use holdfast_model::{BLOCK_SIZE, BlockRange, Epoch, NodeId, PageIndex, Sequence};
use holdfast_wire::{BlockContent, Copied, Copy};

use crate::marks::{Mark, runs};
use crate::{Contents, Context, Replica, Role, Token};

/// Runs of blocks on their way to a joining replica at a time. Each is 256 KiB at most.
const COPIES_MAX: usize = 4;

/// How far bringing a replica up to date is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of blocks that the replica lacked and has now.
    pub bytes_done: u64,
    /// Bytes of all blocks that it lacked.
    pub bytes_total: u64,
    /// Bytes of data that were sent for it: blocks that are zeros, or bad, cost nothing.
    pub bytes_moved: u64,
}

/// What is still to be copied.
#[derive(Debug)]
pub(crate) struct CatchUp {
    full: bool,
    /// The epoch in which the sync began: what was copied since is there.
    sync: Epoch,
    /// The replica has begun to take part in it.
    started: bool,
    /// What is left of the page that is being copied, and the page that comes then, if there may be
    /// one: the mark tells.
    rest: (PageIndex, u64),
    next_page: Option<PageIndex>,
    /// Being read here, as of the committed point then.
    reading: BTreeMap<Token, (BlockRange, Sequence)>,
    /// Sent, not durable there: which blocks, and how many of them are data.
    sent: BTreeMap<u64, (BlockRange, u64)>,
    next_number: u64,
    progress: Progress,
    /// Nothing is left to copy: it is complete once it has everything up to here.
    complete_at: Option<Sequence>,
}

impl CatchUp {
    /// `full` if the replica is to begin with nothing.
    pub(crate) fn new(full: bool, sync: Epoch) -> Self {
        Self {
            full,
            sync,
            started: false,
            rest: (PageIndex(0), 0),
            next_page: None,
            reading: BTreeMap::new(),
            sent: BTreeMap::new(),
            next_number: 1,
            progress: Progress::default(),
            complete_at: None,
        }
    }

    pub(crate) fn sync(&self) -> Epoch {
        self.sync
    }

    /// Whether the replica is told to begin with nothing: it is once.
    pub(crate) fn begins_with_nothing(&self) -> bool {
        self.full && !self.started
    }

    /// Whether nothing commits without the replica, because nothing is left to copy.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete_at.is_some()
    }

    /// The sequence from which on the replica has everything.
    pub(crate) fn complete_at(&self) -> Option<Sequence> {
        self.complete_at
    }

    pub(crate) fn progress(&self) -> Progress {
        self.progress
    }

    /// The replica is told to begin once more: what was on its way is not any more.
    pub(crate) fn pause(&mut self) {
        *self = Self {
            started: self.started,
            next_number: self.next_number,
            progress: self.progress,
            ..Self::new(self.full, self.sync)
        };
    }

    fn start(&mut self, mark: &Mark) {
        let left = mark.block_count() * BLOCK_SIZE as u64;
        self.progress.bytes_total = self.progress.bytes_done + left;
        self.next_page = Some(PageIndex(0));
        self.started = true;
    }

    /// The next run to copy.
    fn take(&mut self, mark: &Mark) -> Option<BlockRange> {
        if self.reading.len() + self.sent.len() >= COPIES_MAX {
            return None;
        }
        if self.rest.1 == 0 {
            let found = mark.next_page(self.next_page?);
            self.next_page = found.map(|(page, _)| PageIndex(page.0 + 1));
            self.rest = found?;
        }
        let (page, mask) = self.rest;
        let run = runs(page, mask)
            .next()
            .expect("a page to do has blocks to do");
        self.rest.1 &= !run.page_mask();
        Some(run)
    }

    fn is_done(&self) -> bool {
        let copied = self.rest.1 == 0 && self.next_page.is_none();
        self.started && copied && self.reading.is_empty() && self.sent.is_empty()
    }
}

impl Replica {
    /// A joining member is about to be told to begin: from here on its mark tells apart what it is
    /// sent from what it lacks. What is above the committed point is not known to reach it.
    pub(crate) fn prepare_catch_up(&mut self, context: &dyn Context, node: NodeId) {
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let Some(member) = primary.members.get_mut(&node) else {
            return;
        };
        let key = (node, member.store);
        let Some(catch_up) = member.catch_up_mut() else {
            return;
        };
        catch_up.pause();
        let sync = catch_up.sync();
        if catch_up.begins_with_nothing() {
            let mark = Mark::of_everything(sync, context.allocated());
            self.marks.insert(key, mark);
        }
        let mark = self.marks.get_mut(&key).expect("who joins has a mark");
        mark.begin(sync);
        for entry in context.entries_above(context.committed()) {
            if let Some(range) = entry.change.range() {
                mark.note(entry.sequence, range);
            }
        }
    }

    /// A joining member has begun: what it lacks is copied.
    pub(crate) fn start_catch_up(&mut self, node: NodeId) {
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let Some(member) = primary.members.get_mut(&node) else {
            return;
        };
        let mark = self.marks.get(&(node, member.store));
        let mark = mark.expect("who joins has a mark");
        if let Some(catch_up) = member.catch_up_mut() {
            catch_up.start(mark);
        }
    }

    /// Keeps the copies flowing.
    pub(crate) fn feed_copies(&mut self, context: &mut dyn Context) {
        let prepared = context.prepared().1;
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let members = primary.members.iter_mut();
        for (node, member) in members.filter(|(_, member)| member.takes_copies()) {
            let mark = self.marks.get(&(*node, member.store));
            let Some((catch_up, mark)) = member.catch_up_mut().zip(mark) else {
                continue;
            };
            while let Some(range) = catch_up.take(mark) {
                let as_of = context.committed();
                let token = context.read_committed(range);
                catch_up.reading.insert(token, (range, as_of));
            }
            if catch_up.is_done() && catch_up.complete_at.is_none() {
                catch_up.complete_at = Some(prepared);
            }
        }
    }

    /// Blocks that were read for a copy. Gives the contents back if they are for something else.
    pub(crate) fn copy_read(
        &mut self,
        context: &mut dyn Context,
        token: Token,
        contents: Contents,
    ) -> Option<Contents> {
        let slice = self.slice;
        let Role::Primary(primary) = &mut self.role else {
            return Some(contents);
        };
        let epoch = primary.epoch;
        for (node, member) in &mut primary.members {
            let Some(catch_up) = member.catch_up_mut() else {
                continue;
            };
            let Some((range, as_of)) = catch_up.reading.remove(&token) else {
                continue;
            };
            let number = catch_up.next_number;
            catch_up.next_number += 1;
            let blocks = contents.iter().map(|run| match run.content {
                BlockContent::Data { .. } => u64::from(run.range.count()),
                BlockContent::Zero | BlockContent::Bad => 0,
            });
            let data_bytes = blocks.sum::<u64>() * BLOCK_SIZE as u64;
            catch_up.sent.insert(number, (range, data_bytes));
            context.send(
                *node,
                Copy {
                    slice,
                    epoch,
                    number,
                    as_of,
                    contents,
                }
                .into(),
            );
            return None;
        }
        Some(contents)
    }

    pub(crate) fn handle_copied(
        &mut self,
        context: &mut dyn Context,
        peer: NodeId,
        copied: &Copied,
    ) {
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        if primary.epoch != copied.epoch {
            return;
        }
        let Some(member) = primary.members.get_mut(&peer) else {
            return;
        };
        let key = (peer, member.store);
        let Some(catch_up) = member.catch_up_mut() else {
            return;
        };
        if let Some((range, data_bytes)) = catch_up.sent.remove(&copied.number) {
            catch_up.progress.bytes_done += range.bytes();
            catch_up.progress.bytes_moved += data_bytes;
            context.copied(data_bytes);
            if let Some(mark) = self.marks.get_mut(&key) {
                mark.has_copy(range);
            }
        }
    }
}
