//! Void entries that the journal does not have: they never go there, and hold nothing up.
//!
//! What an epoch, or a log that begins anew, makes void may still wait for room, or for its data on the way to slots. Its record is
//! taken back. If the journal has others of the void entries, the record that says so waits for nothing at all: as long as
//! it is not there they hold their segments, and what came before them must not be carried forward without them. Copies
//! that wait for room may wait for that very room: they are passed, with what is asked of the slice behind them. That changes
//! nothing of what is found: no copy is as of a sequence above what stays.
//!
//! Invariant: whoever asks is told in the order in which he asked, and not before what he asked is durable, or void by a record that
//! is.

use alloc::vec::Vec;

use holdfast_format::Body;
use holdfast_model::SliceId;
use holdfast_stdx::Instant;

use crate::event::StoreToken;
use crate::machine::{Core, Lane, Pending, Purpose};

impl Pending {
    /// The tokens that come when it is durable, in order.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = StoreToken> {
        self.token.into_iter().chain(self.then.iter().copied())
    }

    fn take_tokens(&mut self) -> Vec<StoreToken> {
        let tokens = self.tokens().collect();
        self.token = None;
        self.then.clear();
        tokens
    }

    /// More tokens come behind those that come.
    fn tell_after(&mut self, tokens: Vec<StoreToken>) {
        let mut tokens = tokens.into_iter();
        if self.token.is_none() {
            self.token = tokens.next();
        }
        self.then.extend(tokens);
    }

    fn tell_before(&mut self, tokens: Vec<StoreToken>) {
        if tokens.is_empty() {
            return;
        }
        let behind = self.take_tokens();
        self.tell_after(tokens);
        self.tell_after(behind);
    }
}

impl Core {
    /// Takes back the records of entries that are void, and that memory has forgotten, as far as the journal does not have
    /// them. Their tokens come with what was asked next; those that nothing comes behind are given back.
    pub(crate) fn withdraw(&mut self, id: SliceId) -> Vec<StoreToken> {
        let mut tokens = Vec::new();
        if self.slice_mut(id).waiting == 0 {
            return tokens;
        }
        for (tag, record) in core::mem::take(&mut self.slice_mut(id).held) {
            if self.withdraw_void(tag, &mut tokens) {
                self.no_longer_held(&record);
            } else {
                self.slice_mut(id).held.push_back((tag, record));
            }
        }
        for (tag, record) in core::mem::take(&mut self.waiting) {
            if record.slice == id && self.withdraw_void(tag, &mut tokens) {
                self.slice_mut(id).waiting -= 1;
            } else {
                self.waiting.push_back((tag, record));
            }
        }
        self.release_held(id);
        tokens
    }

    /// Whether a record is of a void entry: then it is none any more. Else it tells who was to be told before.
    fn withdraw_void(&mut self, tag: u64, tokens: &mut Vec<StoreToken>) -> bool {
        let pending = self.records.get_mut(&tag);
        let pending = pending.expect("a waiting record is known");
        let is_void = match &pending.purpose {
            Purpose::Item(item) => self.items.get(*item).is_none(),
            _ => false,
        };
        if is_void {
            tokens.append(&mut pending.take_tokens());
            self.records.remove(&tag);
        } else {
            pending.tell_before(core::mem::take(tokens));
        }
        is_void
    }

    /// Writes down that entries are void.
    pub(crate) fn log_void(
        &mut self,
        now: Instant,
        id: SliceId,
        body: Body,
        purpose: Purpose,
        tokens: Vec<StoreToken>,
    ) {
        let hold = match &purpose {
            Purpose::Void(hold) | Purpose::Restart(_, hold) => hold,
            _ => unreachable!("entries are void by no other record"),
        };
        let is_urgent = hold.group.is_some();
        let mut pending = Pending::of(id, purpose, now);
        let passed = match is_urgent {
            true => self.pass_copies(id),
            false => None,
        };
        let teller = passed.and_then(|tag| self.records.get_mut(&tag));
        teller.unwrap_or(&mut pending).tell_after(tokens);
        let lane = match is_urgent {
            true => Lane::Inner,
            false => Lane::InOrder,
        };
        self.log(body, lane, pending);
    }

    /// Gives the journal what of a slice waits behind copies, which go on waiting; the last of them tells of what has passed. Gives
    /// its tag, if there is one.
    fn pass_copies(&mut self, id: SliceId) -> Option<u64> {
        let mut last = None;
        if self.slice_mut(id).waiting == 0 {
            return last;
        }
        assert!(
            self.slice_mut(id).held.is_empty(),
            "void entries are in the journal, so what came before them is"
        );
        for (tag, record) in core::mem::take(&mut self.waiting) {
            if record.slice != id {
                self.waiting.push_back((tag, record));
                continue;
            }
            let pending = self.records.get_mut(&tag);
            let pending = pending.expect("a waiting record is known");
            if matches!(pending.purpose, Purpose::Item(_)) {
                last = Some(tag);
                self.waiting.push_back((tag, record));
                continue;
            }
            if let Some(copy) = last {
                let tokens = pending.take_tokens();
                let copy = self.records.get_mut(&copy);
                copy.expect("it waits").tell_after(tokens);
            }
            self.slice_mut(id).waiting -= 1;
            self.give_to_journal(tag, record);
        }
        last
    }
}
