//! The bookmark that this node leaves in the metadata whenever it begins to follow it, or reaches it over another connection, and
//! looks for the next time.
//!
//! Of metadata that was copied, and of which both copies went on, nothing else tells which of them this node has followed: the
//! other's revision may be as high, and its records may look alike.
//!
//! Invariants:
//! - nothing that comes over a connection is believed before a bookmark was left over it, and that it is there is noted, durably; where there
//!   is no room for it, before the one before was found, and then nothing is changed;
//! - a bookmark is noted before it is proposed: whoever finds it knows whose it is;
//! - a bookmark of a use that the store does not know tells of an old copy of the store, not of the metadata.

use alloc::vec::Vec;

use holdfast_model::metadata::{Compare, KeyValue, Revision, TransactionOutcome};
use holdfast_model::record::{Bookmark, BookmarkRecord, Record, RecordError};
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
    /// The newest one of what is believed, and since when it is.
    followed: Option<(Bookmark, Instant)>,
    /// It was left over the connection that there is now.
    is_present: bool,
    /// It was found there at least.
    is_found: bool,
}

/// A bookmark that is being left, and what was read before that.
#[derive(Debug)]
struct Leaving {
    /// Everything, or nothing but what tells whether the bookmark before is there.
    read: Option<TransactionOutcome>,
    /// The node's record and the bookmark are still as they were read.
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
    Believe(Option<TransactionOutcome>),
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

    /// Whether metadata that was made again so often is that in which the bookmark was left. `is_of_other`: a bookmark was left
    /// in a use that the store does not know.
    pub(super) fn look(
        &self,
        recoveries: u64,
        pair: Option<&KeyValue>,
        is_of_other: impl Fn(&BookmarkRecord) -> bool,
    ) -> Found {
        let Some(left) = self.noted.left.filter(|_| self.recoveries == recoveries) else {
            return Found::Own;
        };
        let Some(pair) = pair else {
            return Found::Nothing;
        };
        match BookmarkRecord::decode(&pair.value) {
            Ok(found) if found.bookmark == left || self.is_proposed(found.bookmark) => Found::Own,
            Ok(found) if is_of_other(&found) => Found::Own,
            // Nobody replaces what a newer version has left.
            Err(RecordError::Schema(_)) => Found::Own,
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
        read: Option<TransactionOutcome>,
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
        self.changed()
    }

    /// A bookmark is there. Says what is to be noted, if it is the one that is being left.
    pub(super) fn left(&mut self, bookmark: Bookmark) -> Option<NotedBookmarks> {
        let leaving = self.leaving.as_mut();
        let leaving = leaving.filter(|it| it.record.bookmark == bookmark)?;
        leaving.is_left = true;
        self.noted.left = Some(bookmark);
        self.noted.proposed.clear();
        Some(self.changed())
    }

    /// That it is not there says nothing: somebody has deleted it while it was watched, or what was left was left in another history.
    /// Says what is to be noted.
    pub(super) fn forget(&mut self) -> NotedBookmarks {
        self.noted = NotedBookmarks::default();
        self.leaving = None;
        self.followed = None;
        self.reconnected();
        self.changed()
    }

    fn changed(&mut self) -> NotedBookmarks {
        self.unkept += 1;
        self.noted.clone()
    }

    /// A change of the note is durable. True if all are.
    pub(super) fn kept(&mut self) -> bool {
        self.unkept = self.unkept.saturating_sub(1);
        self.unkept == 0
    }

    /// All that is noted is durable: what is next, and when it was.
    pub(super) fn next(&mut self, now: Instant) -> Option<Next> {
        let leaving = self.leaving.as_mut()?;
        if !leaving.is_left {
            let compare = core::mem::take(&mut leaving.compare);
            return Some(Next::Put(compare, leaving.record.clone()));
        }
        let leaving = self.leaving.take()?;
        (self.is_present, self.is_found) = (true, true);
        self.followed = Some((leaving.record.bookmark, now));
        Some(Next::Believe(leaving.read))
    }

    /// What answers from now on may be another copy.
    pub(super) fn reconnected(&mut self) {
        (self.is_present, self.is_found) = (false, false);
    }

    /// There is no room for another one: the one before is there. Gives what was read.
    pub(super) fn cannot_leave(&mut self) -> Option<Option<TransactionOutcome>> {
        let leaving = self.leaving.take()?;
        self.is_found = true;
        Some(leaving.read)
    }

    /// Whether what answers has a bookmark that is known to be this node's.
    pub(super) fn is_found(&self) -> bool {
        self.is_found
    }

    /// Whether what answers has the newest bookmark.
    pub(super) fn is_present(&self) -> bool {
        self.is_present
    }

    /// The bookmark of what is believed, and how old it is.
    pub(super) fn followed(&self, now: Instant) -> Option<(Bookmark, Duration)> {
        let (bookmark, since) = self.followed?;
        Some((bookmark, now.since(since)))
    }

    /// Whether one was left already, and what was read with it believed.
    pub(super) fn has_followed(&self) -> bool {
        self.followed.is_some()
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
