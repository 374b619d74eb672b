//! The bookmark that this node leaves in the metadata whenever it begins to follow it, or reaches it over another connection, and
//! looks for the next time.
//!
//! It leaves another one after the metadata has said something new of data: a backup from before does not have that, however much happens in
//! it once it was brought back.
//!
//! Of metadata that was copied, and of which both copies went on, nothing else tells which of them this node has followed: the
//! other's revision may be as high, and its records may look alike.
//!
//! Invariants:
//! - nothing that comes over a connection is believed before a bookmark was left over it, and that it is there is noted, durably; where there
//!   is no room for it, before the one before was found, and then nothing is changed;
//! - one that was left later, by this store, than the one that is noted is this node's own: it died, or the note was lost, before that was noted,
//!   and nothing was done in any other metadata since, or it would be noted;
//! - a bookmark of a use that the store does not know tells of an old copy of the store, not of the metadata.

use holdfast_model::metadata::{Compare, KeyValue, Revision, TransactionOutcome};
use holdfast_model::record::{Bookmark, BookmarkRecord, Record, RecordError};
use holdfast_stdx::{Duration, Instant};

use crate::registration::Registration;

/// Between two bookmarks over one connection, at least.
const PAUSE: Duration = Duration::from_secs(1);

/// What is known of this node's bookmarks.
#[derive(Debug, Default)]
pub(super) struct Bookmarks {
    /// What is noted: what was left last, if that it is there says something.
    noted: Option<BookmarkRecord>,
    /// How often the metadata had been made again, of which that is true.
    recoveries: u64,
    /// The last one that was made in this start.
    number: u64,
    /// Changes of the note that are not durable yet.
    unkept: usize,
    leaving: Option<Leaving>,
    /// The first one over the connection by which something was believed last, and since when it is there.
    followed: Option<(Bookmark, Instant)>,
    /// Since when something is believed.
    since: Option<Instant>,
    /// It was left over the connection that there is now.
    is_present: bool,
    /// It was found there at least.
    is_found: bool,
    /// Where the newest one is.
    placed: Option<Placed>,
    /// When data was last told something new of.
    changed: Revision,
}

/// A bookmark that is there.
#[derive(Debug)]
struct Placed {
    /// As it was left.
    compare: [Compare; 2],
    revision: Revision,
    /// When another one may take its place.
    next: Instant,
}

/// A bookmark that is being left, and what was read before that.
#[derive(Debug)]
struct Leaving {
    /// Everything, or nothing but what tells whether the bookmark before is there.
    read: Option<TransactionOutcome>,
    /// It is the first one over this connection.
    is_first: bool,
    /// The node's record and the bookmark are still as they were read.
    compare: [Compare; 2],
    record: BookmarkRecord,
    /// It is there.
    is_left: bool,
}

/// What is to be put there.
#[derive(Debug)]
pub(super) struct Proposal {
    pub(super) compare: [Compare; 2],
    pub(super) record: BookmarkRecord,
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
    /// What this node has noted, of metadata that had been made again so often.
    pub(super) fn new(noted: Option<BookmarkRecord>, recoveries: u64) -> Self {
        Self {
            noted,
            recoveries,
            ..Self::default()
        }
    }

    /// Whether metadata that was made again so often is that in which this node has left its bookmark.
    pub(super) fn look(
        &self,
        recoveries: u64,
        pair: Option<&KeyValue>,
        own: &Registration,
    ) -> Found {
        let noted = self.noted.as_ref();
        let Some(left) = noted.filter(|_| self.recoveries == recoveries) else {
            return Found::Own;
        };
        let Some(pair) = pair else {
            return Found::Nothing;
        };
        match BookmarkRecord::decode(&pair.value) {
            Ok(found) if own.is_anothers(&found) => Found::Own,
            Ok(found)
                if is_same_or_later(&found, left)
                    && (found.uses == left.uses || own.knows_use_of(&found)) =>
            {
                Found::Own
            }
            // Nobody replaces what a newer version has left.
            Err(RecordError::Schema(_)) => Found::Own,
            Ok(_) | Err(_) => Found::Other,
        }
    }

    /// A bookmark is to be left in metadata that was made again so often, of which this was read.
    pub(super) fn begin(
        &mut self,
        read: Option<TransactionOutcome>,
        recoveries: u64,
        compare: [Compare; 2],
        record: impl FnOnce(u64) -> BookmarkRecord,
    ) -> Proposal {
        if self.recoveries != recoveries {
            self.noted = None;
            self.recoveries = recoveries;
        }
        self.number += 1;
        self.propose(Leaving {
            read,
            is_first: true,
            compare,
            record: record(self.number),
            is_left: false,
        })
    }

    /// Another one is to be left over the same connection, unless one is being left.
    pub(super) fn begin_next(
        &mut self,
        record: impl FnOnce(u64) -> BookmarkRecord,
    ) -> Option<Proposal> {
        let placed = self.placed.as_ref().filter(|_| self.leaving.is_none())?;
        let [beside, _] = placed.compare.clone();
        self.number += 1;
        let record = record(self.number);
        let before = Compare::ModRevision {
            key: BookmarkRecord::key(record.node),
            equals: placed.revision,
        };
        Some(self.propose(Leaving {
            read: None,
            is_first: false,
            compare: [beside, before],
            record,
            is_left: false,
        }))
    }

    fn propose(&mut self, leaving: Leaving) -> Proposal {
        let (compare, record) = (leaving.compare.clone(), leaving.record.clone());
        self.leaving = Some(leaving);
        Proposal { compare, record }
    }

    /// A document that tells of data is of this revision.
    pub(super) fn saw(&mut self, revision: Revision) {
        self.changed = self.changed.max(revision);
    }

    /// When another bookmark is to be left over the same connection, if one is.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let placed = self.placed.as_ref().filter(|_| self.leaving.is_none())?;
        (placed.revision < self.changed).then_some(placed.next)
    }

    /// Whether this one, if it is being left, is another one over the same connection than the first.
    pub(super) fn is_leaving_as_next(&self, bookmark: Bookmark) -> Option<bool> {
        let leaving = self.leaving.as_ref();
        let leaving = leaving.filter(|it| it.record.bookmark == bookmark);
        leaving.map(|it| !it.is_first)
    }

    /// Another one could not be left: it is tried again then.
    pub(super) fn put_off(&mut self, next: Instant) {
        self.leaving = None;
        if let Some(placed) = &mut self.placed {
            placed.next = next;
        }
    }

    /// A bookmark is there, since this revision. Says what is to be noted, if it is the one that is being left.
    pub(super) fn left(
        &mut self,
        now: Instant,
        bookmark: Bookmark,
        revision: Revision,
    ) -> Option<BookmarkRecord> {
        let leaving = self.leaving.as_mut();
        let leaving = leaving.filter(|it| it.record.bookmark == bookmark)?;
        leaving.is_left = true;
        self.placed = Some(Placed {
            compare: leaving.compare.clone(),
            revision,
            next: now + PAUSE,
        });
        self.noted = Some(leaving.record.clone());
        self.unkept += 1;
        self.noted.clone()
    }

    /// That it is not there says nothing, as is to be noted: somebody has deleted it while it was watched, or what was left was left in
    /// another history.
    pub(super) fn forget(&mut self) {
        self.noted = None;
        self.leaving = None;
        self.followed = None;
        self.since = None;
        self.reconnected();
        self.unkept += 1;
    }

    /// A change of the note is durable. True if all are.
    pub(super) fn kept(&mut self) -> bool {
        self.unkept = self.unkept.saturating_sub(1);
        self.unkept == 0
    }

    /// All that is noted is durable. Gives what was read, if it is believed from now on, for its bookmark is there.
    pub(super) fn is_noted(&mut self, now: Instant) -> Option<Option<TransactionOutcome>> {
        let leaving = self.leaving.take_if(|it| it.is_left)?;
        if !leaving.is_first {
            return None;
        }
        (self.is_present, self.is_found) = (true, true);
        self.followed = Some((leaving.record.bookmark, now));
        self.since.get_or_insert(now);
        Some(leaving.read)
    }

    /// What answers from now on may be another copy.
    pub(super) fn reconnected(&mut self) {
        (self.is_present, self.is_found) = (false, false);
        self.placed = None;
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

    /// For how long this node has followed the metadata, over whichever connections.
    pub(super) fn followed_for(&self, now: Instant) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// What answers has the one that was left last.
    pub(super) fn found(&mut self) {
        self.is_found = true;
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

/// Whether a bookmark is the one that is noted, or was left by the same store after that.
fn is_same_or_later(found: &BookmarkRecord, noted: &BookmarkRecord) -> bool {
    let place = |it: &BookmarkRecord| (it.uses, it.bookmark.number);
    let is_of_other_use =
        found.uses == noted.uses && found.bookmark.use_id != noted.bookmark.use_id;
    found.store == noted.store && !is_of_other_use && place(found) >= place(noted)
}

/// That a key is as it was read.
pub(super) fn as_read(key: &str, pair: Option<&KeyValue>) -> Compare {
    Compare::ModRevision {
        key: key.into(),
        equals: pair.map_or(Revision(0), |pair| pair.mod_revision),
    }
}
