//! The events of the latest revisions, for watches that begin in the past.
//!
//! Invariants:
//! - there is one list of events for each revision from `first` to before `end`;
//! - it is within its limits after each trim.

use std::collections::VecDeque;

use holdfast_model::metadata::{Revision, WatchEvent};

use super::{Output, StoreChange};
use crate::limits::KEY_OVERHEAD;

/// How much history a store keeps: whichever limit is reached first. A watch that begins earlier
/// is answered `Compacted`, and begins anew from a fresh read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Revisions at most.
    pub revisions_max: usize,
    /// Bytes at most, keys, values and what they cost beyond.
    pub bytes_max: usize,
}

impl Default for HistoryLimits {
    /// Hours of a cluster in good health, minutes of one that loses nodes.
    fn default() -> Self {
        Self {
            revisions_max: 10_000,
            bytes_max: 16 << 20,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct History {
    limits: HistoryLimits,
    first: Revision,
    events: VecDeque<Vec<WatchEvent>>,
    bytes: usize,
}

/// What an event is counted for.
pub(super) fn event_bytes(event: &WatchEvent) -> usize {
    match event {
        WatchEvent::Put(new) => new.key.len() + new.value.len() + KEY_OVERHEAD,
        WatchEvent::Delete { key, .. } => key.len() + KEY_OVERHEAD,
    }
}

fn events_bytes(events: &[WatchEvent]) -> usize {
    events.iter().map(event_bytes).sum()
}

impl History {
    pub(super) fn new(limits: HistoryLimits, first: Revision) -> Self {
        Self {
            limits,
            first,
            events: VecDeque::new(),
            bytes: 0,
        }
    }

    pub(super) fn first(&self) -> Revision {
        self.first
    }

    /// The revision after the newest.
    pub(super) fn end(&self) -> Revision {
        Revision(self.first.0 + self.events.len() as u64)
    }

    pub(super) fn push(&mut self, revision: Revision, events: Vec<WatchEvent>) {
        assert_eq!(revision, self.end(), "history has no gaps");
        assert!(!events.is_empty(), "a revision changes something");
        self.bytes += events_bytes(&events);
        self.events.push_back(events);
    }

    /// The events of the revisions from `from` on, which is not before the first.
    pub(super) fn since(&self, from: Revision) -> impl Iterator<Item = (Revision, &[WatchEvent])> {
        assert!(from >= self.first, "what is forgotten is not asked for");
        let skipped = usize::try_from(from.0 - self.first.0).unwrap_or(usize::MAX);
        (from.0..)
            .map(Revision)
            .zip(self.events.iter().skip(skipped).map(Vec::as_slice))
    }

    pub(super) fn all(&self) -> Vec<Vec<WatchEvent>> {
        self.events.iter().cloned().collect()
    }

    /// Forgets the oldest revisions until the limits hold.
    pub(super) fn trim(&mut self, out: &mut Output) {
        let mut from = self.first;
        let mut bytes = self.bytes;
        let mut count = self.events.len();
        for events in &self.events {
            if count <= self.limits.revisions_max && bytes <= self.limits.bytes_max {
                break;
            }
            bytes -= events_bytes(events);
            count -= 1;
            from = Revision(from.0 + 1);
        }
        self.forget_before(from, out);
    }

    pub(super) fn forget_before(&mut self, from: Revision, out: &mut Output) {
        if from <= self.first {
            return;
        }
        while self.first < from {
            let events = self
                .events
                .pop_front()
                .expect("history reaches to the present");
            self.bytes -= events_bytes(&events);
            self.first = Revision(self.first.0 + 1);
        }
        out.changes.push(StoreChange::HistoryFrom(from));
    }
}
