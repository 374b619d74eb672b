//! Bringing a joining replica up to date: what its mark names, or all that is allocated.
//!
//! Invariants:
//! - copies are of committed content, read after the joining replica began to take new writes;
//! - few copies are on their way at a time, so that the foreground hardly notices;
//! - from the moment that nothing is left to copy, nothing commits without the replica.

use alloc::collections::BTreeMap;

use holdfast_model::{BlockRange, NodeId, PageIndex, Sequence};
use holdfast_wire::{Copied, Copy};

use crate::marks::runs;
use crate::{Contents, Context, Replica, Role, Token};

/// Runs of blocks on their way to a joining replica at a time. Each is 256 KiB at most.
const COPIES_MAX: usize = 4;

/// What is still to be copied.
#[derive(Debug)]
pub(crate) struct CatchUp {
    full: bool,
    started: bool,
    todo: BTreeMap<PageIndex, u64>,
    /// Being read here, as of the committed point then.
    reading: BTreeMap<Token, (BlockRange, Sequence)>,
    /// Sent, not durable there.
    sent: BTreeMap<u64, BlockRange>,
    next_number: u64,
    bytes_total: u64,
    bytes_done: u64,
    /// Nothing is left to copy: it is complete once it has everything up to here.
    complete_at: Option<Sequence>,
}

impl CatchUp {
    pub(crate) fn new(full: bool) -> Self {
        Self {
            full,
            started: false,
            todo: BTreeMap::new(),
            reading: BTreeMap::new(),
            sent: BTreeMap::new(),
            next_number: 1,
            bytes_total: 0,
            bytes_done: 0,
            complete_at: None,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    pub(crate) fn has_started(&self) -> bool {
        self.started
    }

    pub(crate) fn is_needed(&self) -> bool {
        self.complete_at.is_some()
    }

    /// Whether nothing is left to copy.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete_at.is_some()
    }

    /// The sequence from which on the replica has everything.
    pub(crate) fn complete_at(&self) -> Option<Sequence> {
        self.complete_at
    }

    pub(crate) fn bytes_total(&self) -> u64 {
        self.bytes_total
    }

    pub(crate) fn bytes_done(&self) -> u64 {
        self.bytes_done
    }

    /// The link is gone: what was on its way is not any more, and it is not complete.
    pub(crate) fn abandon(&mut self) {
        *self = Self {
            started: true,
            bytes_total: self.bytes_total,
            bytes_done: self.bytes_done,
            ..Self::new(self.full)
        };
    }

    fn start(&mut self, todo: BTreeMap<PageIndex, u64>) {
        assert!(!self.started, "it starts once");
        let blocks: u64 = todo.values().map(|mask| u64::from(mask.count_ones())).sum();
        self.bytes_total = blocks * holdfast_model::BLOCK_SIZE as u64;
        self.todo = todo;
        self.started = true;
    }

    /// The next run to copy.
    fn take(&mut self) -> Option<BlockRange> {
        if self.reading.len() + self.sent.len() >= COPIES_MAX {
            return None;
        }
        let mut page = self.todo.first_entry()?;
        let run = runs(*page.key(), *page.get())
            .next()
            .expect("a page to do has blocks to do");
        *page.get_mut() &= !run.page_mask();
        if *page.get() == 0 {
            page.remove();
        }
        Some(run)
    }

    fn is_done(&self) -> bool {
        self.started && self.todo.is_empty() && self.reading.is_empty() && self.sent.is_empty()
    }
}

impl Replica {
    /// A joining member has begun: settles what it lacks.
    pub(crate) fn start_catch_up(&mut self, context: &mut dyn Context, node: NodeId) {
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
        if catch_up.full {
            catch_up.start(context.allocated().into_iter().collect());
        } else {
            let mark = self
                .marks
                .get(&key)
                .expect("a fast sync was begun because of a mark");
            catch_up.start(mark.pages.clone());
        }
    }

    /// Keeps the copies flowing.
    pub(crate) fn feed_copies(&mut self, context: &mut dyn Context) {
        let prepared = context.prepared().1;
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        for member in primary
            .members
            .values_mut()
            .filter(|member| member.has_begun())
        {
            let Some(catch_up) = member.catch_up_mut() else {
                continue;
            };
            while let Some(range) = catch_up.take() {
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
            catch_up.sent.insert(number, range);
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
        let member = primary.members.get_mut(&peer);
        let Some(catch_up) = member.and_then(|member| member.catch_up_mut()) else {
            return;
        };
        if let Some(range) = catch_up.sent.remove(&copied.number) {
            catch_up.bytes_done += range.bytes();
            context.copied(range.bytes());
        }
    }
}
