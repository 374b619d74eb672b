//! The bookmark that this node leaves in the metadata whenever it begins to follow it, and looks for the next time.
//!
//! Of metadata that was copied, and of which both copies went on, nothing else tells which of them this node has followed: the
//! other's revision may be as high, and its records may look alike.
//!
//! Invariants:
//! - nothing that was read is believed before the bookmark is there, and that it is there is noted, durably;
//! - a bookmark is noted before it is proposed: whoever finds it knows whose it is;
//! - a bookmark of a use that the store does not know tells of an old copy of the store, not of the metadata.

use alloc::vec::Vec;

use holdfast_model::metadata::{Compare, KeyValue, Revision, TransactionOutcome};
use holdfast_model::record::{Bookmark, BookmarkRecord, Record};
use holdfast_model::report::NotedBookmarks;
use holdfast_stdx::{Duration, Instant};

/// Bookmarks that may be there although nobody has told so, at most: one for each start that did not get that far.
const PROPOSED_MAX: usize = 16;

/// What is known of this node's bookmarks.
#[derive(Debug, Default)]
pub(super) struct Bookmarks {
    noted: NotedBookmarks,
    /// How often the metadata had been made again, of which that is true.
    recoveries: u64,
    /// The last one that was made in this start.
    number: u64,
    /// Changes of the note that are not durable yet.
    unkept: usize,
    leaving: Option<Leaving>,
    /// What has been read with the newest one there is believed, since then.
    followed: Option<(Bookmark, Instant)>,
}

/// A bookmark that is being left, and what was read before that.
#[derive(Debug)]
struct Leaving {
    read: TransactionOutcome,
    /// The record of the cluster and the bookmark are still as they were read.
    compare: Vec<Compare>,
    record: BookmarkRecord,
    /// It is there.
    is_left: bool,
}

/// What is next once the note is durable.
#[derive(Debug)]
pub(super) enum Next {
    /// The bookmark is to be put there.
    Put(Vec<Compare>, BookmarkRecord),
    /// It is there: what was read is believed.
    Believe(TransactionOutcome),
}

/// What the metadata has in place of the bookmark that was left in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// That, or none was left.
    Own,
    /// Nothing.
    Nothing,
    /// Another one of this node's.
    Other,
}

impl Bookmarks {
    /// Those that this node has noted, of metadata that had been made again so often.
    pub(super) fn new(noted: NotedBookmarks, recoveries: u64) -> Self {
        Self {
            noted,
            recoveries,
            ..Self::default()
        }
    }

    /// Whether metadata that was made again so often is that in which the bookmark was left. `is_behind`: the store does not know the use
    /// in which a bookmark was left.
    pub(super) fn look(
        &self,
        recoveries: u64,
        pair: Option<&KeyValue>,
        is_behind: impl Fn(&BookmarkRecord) -> bool,
    ) -> Found {
        let Some(left) = self.noted.left.filter(|_| self.recoveries == recoveries) else {
            return Found::Own;
        };
        let Some(pair) = pair else {
            return Found::Nothing;
        };
        match BookmarkRecord::decode(&pair.value) {
            Ok(found) if found.bookmark == left || self.is_proposed(found.bookmark) => Found::Own,
            Ok(found) if is_behind(&found) => Found::Own,
            Ok(_) | Err(_) => Found::Other,
        }
    }

    fn is_proposed(&self, found: Bookmark) -> bool {
        let mut proposed = self.noted.proposed.iter();
        let is_below = self
            .noted
            .left
            .is_some_and(|left| left.use_id == found.use_id && found.number <= left.number);
        !is_below && proposed.any(|it| it.use_id == found.use_id && found.number <= it.number)
    }

    /// A bookmark is to be left in metadata that was made again so often, of which this was read. Says what is to be noted.
    pub(super) fn begin(
        &mut self,
        read: TransactionOutcome,
        recoveries: u64,
        (pair, compare): (Option<&KeyValue>, Vec<Compare>),
        record: impl FnOnce(u64) -> BookmarkRecord,
    ) -> NotedBookmarks {
        let found = pair.and_then(|pair| BookmarkRecord::decode(&pair.value).ok());
        if self.recoveries != recoveries {
            self.noted = NotedBookmarks::default();
            self.recoveries = recoveries;
        }
        if let Some(found) = found.filter(|found| self.is_proposed(found.bookmark)) {
            self.noted.left = Some(found.bookmark);
        }
        self.number += 1;
        let record = record(self.number);
        let proposed = &mut self.noted.proposed;
        proposed.retain(|it| it.use_id != record.bookmark.use_id);
        proposed.push(record.bookmark);
        let surplus = proposed.len().saturating_sub(PROPOSED_MAX);
        proposed.drain(..surplus);
        self.leaving = Some(Leaving {
            read,
            compare,
            record,
            is_left: false,
        });
        self.unkept += 1;
        self.noted.clone()
    }

    /// A bookmark is there. Says what is to be noted, if it is the one that is being left.
    pub(super) fn left(&mut self, bookmark: Bookmark) -> Option<NotedBookmarks> {
        let leaving = self.leaving.as_mut();
        let leaving = leaving.filter(|it| it.record.bookmark == bookmark)?;
        leaving.is_left = true;
        self.noted.left = Some(leaving.record.bookmark);
        self.noted.proposed.clear();
        self.unkept += 1;
        Some(self.noted.clone())
    }

    /// Somebody has deleted it while it was watched: that it is not there says nothing. Says what is to be noted.
    pub(super) fn deleted(&mut self) -> NotedBookmarks {
        self.noted.left = None;
        self.unkept += 1;
        self.noted.clone()
    }

    /// A change of the note is durable.
    pub(super) fn kept(&mut self) -> Option<Next> {
        self.unkept = self.unkept.saturating_sub(1);
        if self.unkept > 0 {
            return None;
        }
        let leaving = self.leaving.as_mut()?;
        if leaving.is_left {
            let leaving = self.leaving.take()?;
            return Some(Next::Believe(leaving.read));
        }
        let compare = core::mem::take(&mut leaving.compare);
        Some(Next::Put(compare, leaving.record.clone()))
    }

    /// What was read is believed.
    pub(super) fn follow(&mut self, now: Instant) {
        self.followed = self.noted.left.map(|left| (left, now));
    }

    /// The bookmark of the metadata that was believed last, and how old it is.
    pub(super) fn followed(&self, now: Instant) -> Option<(Bookmark, Duration)> {
        self.followed
            .map(|(bookmark, since)| (bookmark, now.since(since)))
    }

    /// Whether one is being left.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// What was read is read again.
    pub(super) fn give_up(&mut self) {
        self.leaving = None;
    }
}

/// That a key is as it was read.
pub(super) fn as_read(key: &str, pair: Option<&KeyValue>) -> Compare {
    Compare::ModRevision {
        key: key.into(),
        equals: pair.map_or(Revision(0), |pair| pair.mod_revision),
    }
}
