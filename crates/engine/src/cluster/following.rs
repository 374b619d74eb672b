//! How the metadata is followed: everything is read, the bookmark is left, and from then on it is watched.

use alloc::vec;

use holdfast_model::NodeId;
use holdfast_model::metadata::{
    MetadataAnswer, MetadataRequest, Operation, OperationResult, Revision, Selector,
    TransactionOutcome, WatchEvent,
};
use holdfast_model::record::{Bookmark, BookmarkRecord, CLUSTER_KEY, Record};
use holdfast_stdx::{Duration, Instant};
use holdfast_wire::Vouch;

use super::bookmark::{Next, as_read};
use super::key::Key;
use super::lacking::pairs;
use super::{Change, Cluster, PREFIX, Purpose, RETRY};
use crate::Astray;
use crate::registration::Registration;
use crate::vouching;

impl Cluster {
    pub(super) fn is_listing(&self) -> bool {
        let mut purposes = self.requests.values();
        let is_asking = |(purpose, _): &(Purpose, _)| matches!(purpose, Purpose::List);
        self.bookmarks.is_leaving() || purposes.any(is_asking)
    }

    pub(super) fn list(&mut self) {
        self.retry = None;
        self.read_all(Purpose::List);
    }

    pub(super) fn read_all(&mut self, purpose: Purpose) {
        let range = Operation::Range(Selector::Prefix(PREFIX.into()));
        self.transact(purpose, vec![], vec![range]);
    }

    /// What was asked in order to follow the metadata is answered.
    pub(super) fn reading_answered(
        &mut self,
        now: Instant,
        purpose: &Purpose,
        answer: MetadataAnswer,
    ) {
        match (purpose, answer) {
            (Purpose::List, MetadataAnswer::Transacted(outcome)) => self.has_read(now, outcome),
            (Purpose::Leave(bookmark), MetadataAnswer::Transacted(outcome))
                if outcome.succeeded =>
            {
                self.bookmark_left(*bookmark);
            }
            _ => self.read_again(now),
        }
    }

    /// Everything has been read. It is believed once the bookmark is left: where there is no cluster yet, or nothing is kept,
    /// at once.
    fn has_read(&mut self, now: Instant, outcome: TransactionOutcome) {
        if core::mem::take(&mut self.is_to_list_again) {
            self.retry = Some(now + RETRY);
            return;
        }
        let find = |key: &str| pairs(&outcome).find(|pair| pair.key == key).cloned();
        let (Some(own), Some(cluster)) = (&self.registration, find(CLUSTER_KEY)) else {
            self.listed(outcome);
            return;
        };
        let key = own.bookmark_key();
        let pair = find(&key);
        let compare = vec![
            as_read(CLUSTER_KEY, Some(&cluster)),
            as_read(&key, pair.as_ref()),
        ];
        let recoveries = self.past.recoveries();
        let read = (pair.as_ref(), compare);
        let record = |number| own.bookmark(number);
        let noted = self.bookmarks.begin(outcome, recoveries, read, record);
        self.notes.keep_bookmarks(recoveries, noted);
    }

    /// What was noted of bookmarks is durable.
    pub(crate) fn bookmarks_kept(&mut self, now: Instant) {
        match self.bookmarks.kept() {
            Some(_) if self.is_astray() => {
                self.bookmarks.give_up();
                self.retry.get_or_insert(now + RETRY);
            }
            Some(Next::Put(compare, record)) => {
                let put = Operation::put(BookmarkRecord::key(record.node), record.encode());
                self.transact(Purpose::Leave(record.bookmark), compare, vec![put]);
            }
            Some(Next::Believe(outcome)) => {
                self.listed(outcome);
                self.bookmarks.follow(now);
                self.changes.push_back(Change::Followed);
            }
            None => {}
        }
    }

    /// The bookmark that is in the metadata, and for how long it has been.
    pub(crate) fn bookmark(&self, now: Instant) -> Option<(Bookmark, Duration)> {
        self.bookmarks.followed(now)
    }

    /// Looks for another node's bookmark. False if this one does not follow the metadata for now.
    pub(crate) fn look_for_bookmark(&mut self, peer: NodeId, vouch: Vouch) -> bool {
        let is_following = self.watch.is_some() && !self.bookmarks.is_leaving();
        if is_following && matches!(self.astray(), None | Some(Astray::Disowned(_))) {
            let key = Selector::Key(BookmarkRecord::key(peer));
            let ranges = vec![Operation::Range(key)];
            self.transact(Purpose::Vouch(peer, vouch), vec![], ranges);
            return true;
        }
        false
    }

    pub(super) fn looked(&mut self, peer: NodeId, vouch: Vouch, answer: &MetadataAnswer) {
        let MetadataAnswer::Transacted(outcome) = answer else {
            return;
        };
        let mut found = pairs(outcome).filter_map(|pair| BookmarkRecord::decode(&pair.value).ok());
        let is_there = found.any(|found| vouching::shows(found.bookmark, vouch.bookmark));
        let looked = Change::Looked(peer, vouch, is_there);
        self.changes.push_back(looked);
    }

    /// Others do not find this node's bookmark in the metadata that they follow, as this one says; or enough of them do.
    pub(crate) fn disown(&mut self, now: Instant, by: Option<NodeId>) {
        let before = self.astray();
        self.past.disown(by);
        if by.is_some() {
            self.retry.get_or_insert(now + RETRY);
        }
        self.tell_whether_astray(before);
    }

    /// A bookmark is in the metadata.
    fn bookmark_left(&mut self, bookmark: Bookmark) {
        if let Some(noted) = self.bookmarks.left(bookmark) {
            self.notes.keep_bookmarks(self.past.recoveries(), noted);
        }
    }

    /// Everything has to be read again.
    fn read_again(&mut self, now: Instant) {
        self.bookmarks.give_up();
        self.retry = Some(now + RETRY);
    }

    fn listed(&mut self, outcome: TransactionOutcome) {
        let Some(OperationResult::Range(found)) = outcome.results.into_iter().next() else {
            return;
        };
        self.notes.begin_list(&found);
        let mut gone = self.keys();
        for pair in &found {
            if let Some(key) = self.put(pair, false) {
                gone.remove(&key);
            }
        }
        for key in gone {
            // What a watch has told of since is not in the list, and told of once more.
            if self.may_go(key) {
                self.delete(key);
            }
        }
        self.tell_of_deleted();
        self.notes.end_list(outcome.revision);
        if let Some(watch) = self.watch.take() {
            self.out.push_back((watch, MetadataRequest::Unwatch));
        }
        let from = Revision(outcome.revision.0 + 1);
        let selector = Selector::Prefix(PREFIX.into());
        let watch = self.ask(Purpose::Watch, MetadataRequest::Watch { selector, from });
        self.requests.remove(&watch);
        self.watch = Some(watch);
    }

    pub(super) fn handle_watch(&mut self, now: Instant, answer: MetadataAnswer) {
        match answer {
            // What is missed is read again when the right metadata is back.
            MetadataAnswer::Watched { .. } if self.is_astray() => {}
            MetadataAnswer::Watched { revision, events } => {
                if !self.judge_events(revision, &events) {
                    self.retry = Some(now + RETRY);
                    return;
                }
                for event in events {
                    match event {
                        WatchEvent::Put(pair) => drop(self.put(&pair, false)),
                        WatchEvent::Delete { key, .. } => self.gone(now, &key),
                    }
                }
                self.notes.followed(revision);
            }
            MetadataAnswer::WatchEnded(_) | MetadataAnswer::Failed(_) => {
                self.watch = None;
                self.retry = Some(now + RETRY);
            }
            _ => {}
        }
    }

    /// A key was deleted.
    fn gone(&mut self, now: Instant, key: &str) {
        if let Some(key) = Key::parse(key) {
            self.delete(key);
        }
        let own = self.registration.as_ref().map(Registration::bookmark_key);
        if own.is_some_and(|own| own == key) {
            let noted = self.bookmarks.deleted();
            self.notes.keep_bookmarks(self.past.recoveries(), noted);
            self.read_again(now);
        }
    }

    /// Whether what a watch tells is to be believed.
    fn judge_events(&mut self, revision: Revision, events: &[WatchEvent]) -> bool {
        let before = self.past.astray();
        if let Some(lacking) = self.lacking_after(events) {
            self.past.lack(Some(lacking));
        }
        for event in events {
            match event {
                WatchEvent::Put(pair) if pair.key == CLUSTER_KEY => {
                    self.past.judge(revision, Revision(0), Some(pair));
                }
                WatchEvent::Delete { key, .. } if key == CLUSTER_KEY => self.past.lose_cluster(),
                _ => {}
            }
        }
        self.tell_whether_astray(before);
        !self.is_astray() && self.past.follow(revision, Revision(0))
    }
}

#[cfg(test)]
#[path = "following_tests.rs"]
mod tests;
