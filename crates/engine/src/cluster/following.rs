//! How the metadata is followed: everything is read, a bookmark is left, and from then on it is watched. Over another connection the watch
//! goes on once the bookmark was found there, and another one is left.
//!
//! Invariants:
//! - what comes over a connection is not believed before the node's bookmark was found, nothing is changed before another one was left;
//! - what a watch has told once it does not tell again: where that was not taken in, everything is read before the watch goes on;
//! - there is a bookmark as soon as there is a cluster.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::NodeId;
use holdfast_model::metadata::{
    MetadataAnswer, MetadataError, MetadataRequest, MetadataToken, Operation, OperationResult,
    Revision, Selector, TransactionOutcome, WatchEvent,
};
use holdfast_model::record::{Bookmark, BookmarkRecord, CLUSTER_KEY, DenialRecord, Record};
use holdfast_stdx::{Duration, Instant};
use holdfast_wire::Vouch;

use super::bookmark::{Proposal, as_read};
use super::key::Key;
use super::lacking::pairs;
use super::{Change, Cluster, PREFIX, Purpose, RETRY};
use crate::Astray;
use crate::registration::Registration;
use crate::vouching::{self, Asked};

/// What a watch tells, and is held back until the metadata is known to be the same, at most.
const HELD_BACK_MAX: usize = 1024;
/// A request that is not answered for so long, while others are, is made once more; and for twice as long each time after that, at
/// most so long.
pub(super) const LOST_AFTER: Duration = RETRY;
const LOST_AFTER_MAX: Duration = Duration::from_secs(16);
/// Between two attempts to leave a bookmark where there is no room.
const WHEN_FULL: Duration = Duration::from_secs(5);

impl Cluster {
    pub(super) fn is_listing(&self) -> bool {
        let mut purposes = self.requests.values();
        let is_asking =
            |(purpose, _): &(Purpose, _)| matches!(purpose, Purpose::List | Purpose::Renew);
        self.bookmarks.is_leaving() || purposes.any(is_asking)
    }

    pub(super) fn list(&mut self, now: Instant) {
        self.retry = None;
        let token = self.read_all(Purpose::List);
        self.read_first(now, token);
    }

    /// Nothing is done before this is answered.
    fn read_first(&mut self, now: Instant, token: MetadataToken) {
        self.reading = Some((token, now));
        if let Some(newest) = self.out.pop_back() {
            self.out.push_front(newest);
        }
    }

    pub(super) fn read_all(&mut self, purpose: Purpose) -> MetadataToken {
        let range = Operation::Range(Selector::Prefix(PREFIX.into()));
        self.transact(purpose, vec![], vec![range])
    }

    /// The metadata answers by now: what was asked in vain is asked again, without waiting until that is certain.
    pub(super) fn it_answers(&mut self, now: Instant) {
        let is_lost = self
            .reading
            .is_none_or(|(_, asked)| asked + self.lost_after <= now);
        if is_lost && !self.bookmarks.is_leaving() {
            // It may take as long because there is so much.
            self.lost_after = (self.lost_after * 2).min(LOST_AFTER_MAX);
            self.retry = Some(now);
        }
    }

    /// What was asked in order to follow the metadata is answered.
    pub(super) fn reading_answered(
        &mut self,
        now: Instant,
        (token, purpose): (MetadataToken, &Purpose),
        answer: MetadataAnswer,
    ) {
        let newest = self.reading.map(|(newest, _)| newest);
        match (purpose, answer) {
            // It was given up.
            (Purpose::List, _) if newest.is_some_and(|newest| newest != token) => {}
            (Purpose::List, MetadataAnswer::Transacted(_)) if self.is_to_list_again => {
                self.is_to_list_again = false;
                self.retry = Some(now + RETRY);
            }
            (Purpose::List, MetadataAnswer::Transacted(outcome)) => self.has_read(outcome, true),
            (Purpose::Renew, MetadataAnswer::Transacted(outcome)) => self.has_read(outcome, false),
            (Purpose::Leave(bookmark), answer) => self.leave_answered(now, *bookmark, answer),
            _ => self.read_again(now),
        }
    }

    /// It was tried to leave a bookmark.
    fn leave_answered(&mut self, now: Instant, bookmark: Bookmark, answer: MetadataAnswer) {
        // Of one that was given up the answer tells nothing.
        let Some(is_next) = self.bookmarks.is_leaving_as_next(bookmark) else {
            return;
        };
        match answer {
            _ if self.is_astray() => self.read_again(now),
            MetadataAnswer::Transacted(outcome) if outcome.succeeded => {
                self.bookmark_left(now, bookmark, outcome.revision);
            }
            // The one before, or the node's record, is not what it was.
            MetadataAnswer::Transacted(_) if is_next => self.resumed(now),
            MetadataAnswer::Failed(error) if is_next => {
                let is_full = error == MetadataError::Full;
                let pause = if is_full { WHEN_FULL } else { RETRY };
                self.bookmarks.put_off(now + pause);
            }
            // Nothing can be changed, and the bookmark before is there.
            MetadataAnswer::Failed(MetadataError::Full) => {
                let read = self.bookmarks.cannot_leave();
                self.renew_at = Some(now + WHEN_FULL);
                if let Some(read) = read {
                    self.believe(read);
                }
            }
            _ => self.read_again(now),
        }
    }

    /// When another bookmark is to be left because data is told something new of, if one is.
    pub(super) fn next_bookmark_due(&self) -> Option<Instant> {
        self.bookmarks.next_due().filter(|_| self.may_change())
    }

    /// Leaves another bookmark, over the same connection.
    pub(super) fn leave_next(&mut self) {
        let Some(own) = self.registration.as_ref() else {
            return;
        };
        if let Some(proposal) = self.bookmarks.begin_next(|number| own.bookmark(number)) {
            self.put_bookmark(proposal, false);
        }
    }

    /// `retracts`: what the node has said against this metadata goes, if it has said anything.
    fn put_bookmark(&mut self, proposal: Proposal, retracts: bool) {
        let Proposal { compare, record } = proposal;
        let node = record.node;
        let put = Operation::put(BookmarkRecord::key(node), record.encode());
        let delete = Operation::Delete(Selector::Key(DenialRecord::key(node)));
        let operations = [put].into_iter().chain(retracts.then_some(delete));
        let purpose = Purpose::Leave(record.bookmark);
        self.transact(purpose, compare.into(), operations.collect());
    }

    /// What is to be read before a bookmark is left was: everything, or what tells whether the one before is there. It is believed
    /// once the bookmark is left: at once where that has been done over this connection, there is no cluster yet, or another
    /// process is the node by now.
    fn has_read(&mut self, outcome: TransactionOutcome, is_all: bool) {
        let find = |key: &str| pairs(&outcome).find(|pair| pair.key == key).cloned();
        let own = self.registration.as_ref();
        let own = own.filter(|_| find(CLUSTER_KEY).is_some() && !self.bookmarks.is_present());
        let own = own.filter(|own| {
            let record = find(&own.node_key());
            record.is_none_or(|pair| own.is_of_own_store(&pair))
        });
        let Some(own) = own else {
            self.believe(is_all.then_some(outcome));
            return;
        };
        let (node, key) = (own.node_key(), own.bookmark_key());
        let compare = [node, key].map(|key| as_read(&key, find(&key).as_ref()));
        let recoveries = self.past.recoveries();
        let record = |number| own.bookmark(number);
        let read = is_all.then_some(outcome);
        let proposal = self.bookmarks.begin(read, recoveries, compare, record);
        self.put_bookmark(proposal, true);
    }

    /// What was noted of the bookmark is durable.
    pub(crate) fn bookmark_kept(&mut self, now: Instant) {
        if !self.bookmarks.kept() {
            return;
        }
        if core::mem::take(&mut self.introduces_when_kept) {
            self.introduce();
            return;
        }
        if self.is_astray() && self.bookmarks.is_leaving() {
            self.read_again(now);
            return;
        }
        if let Some(read) = self.bookmarks.is_noted(now) {
            self.own().has_begun_anew();
            self.believe(read);
            self.changes.push_back(Change::Followed);
        }
    }

    /// What was read is believed, and what was held back since; where nothing but the bookmark was read the watch goes on.
    fn believe(&mut self, read: Option<TransactionOutcome>) {
        self.lost_after = LOST_AFTER;
        let held = self.held_back.take().unwrap_or_default();
        if let Some(outcome) = read {
            // The watch begins anew there.
            self.listed(outcome);
            return;
        }
        for (now, revision, events) in held {
            if self.is_astray() {
                self.is_behind = true;
                break;
            }
            self.watched(now, revision, events);
        }
        if let Some((_, asked)) = self.reading.filter(|_| self.is_behind) {
            // Something that was told meanwhile was not believed, of what is believed now.
            self.retry.get_or_insert(asked + RETRY);
        }
    }

    /// The watch goes on over another connection. What answers there may be a copy: nothing is believed before the bookmark has been
    /// looked for, and another one is left.
    fn resumed(&mut self, now: Instant) {
        self.bookmarks.reconnected();
        self.renew(now);
    }

    /// Looks for the bookmark, and leaves another one.
    pub(super) fn renew(&mut self, now: Instant) {
        self.renew_at = None;
        self.bookmarks.give_up();
        self.drop_held();
        let Some(own) = self.registration.as_ref() else {
            return;
        };
        let cannot_go_on = self.is_astray() || self.watch.is_none() || self.is_behind;
        if cannot_go_on || !self.bookmarks.has_followed() {
            self.retry.get_or_insert(now + RETRY);
            return;
        }
        let keys = [own.bookmark_key(), own.node_key(), CLUSTER_KEY.into()];
        let ranges = keys.map(|key| Operation::Range(Selector::Key(key)));
        self.held_back = Some(Vec::new());
        let token = self.transact(Purpose::Renew, vec![], ranges.into());
        self.read_first(now, token);
    }

    /// What was held back came over a connection of which nothing will be known: it is not believed.
    pub(super) fn drop_held(&mut self) {
        let held = self.held_back.take().unwrap_or_default();
        self.is_behind |= held.iter().any(|(_, _, events)| !events.is_empty());
    }

    /// Whether nothing is known yet of what answers by now: what it says of what was known before it came is not believed.
    pub(super) fn is_to_be_recognised(&self) -> bool {
        self.bookmarks.has_followed() && !self.bookmarks.is_found()
    }

    /// Whether no bookmark was left yet in what answers by now: nothing is changed in it.
    pub(super) fn is_to_be_signed(&self) -> bool {
        self.bookmarks.has_followed() && !self.bookmarks.is_present()
    }

    /// For how long this node has followed the metadata, over whichever connections.
    pub(crate) fn followed_for(&self, now: Instant) -> Duration {
        self.bookmarks.followed_for(now)
    }

    /// The bookmark that is in the metadata, and for how long it has been.
    pub(crate) fn bookmark(&self, now: Instant) -> Option<(Bookmark, Duration)> {
        self.bookmarks.followed(now)
    }

    /// Whether others do not find this node's bookmark, or say that what it follows is not what they have followed: they do not hear it.
    pub(crate) fn is_disowned(&self) -> bool {
        matches!(self.astray(), Some(Astray::Disowned(_) | Astray::Denied(_)))
    }

    /// Whether another node's bookmark is known to have been there, as of what was believed last.
    pub(crate) fn has_seen_bookmark(&self, peer: NodeId, bookmark: Bookmark) -> bool {
        let seen = self.left.get(&peer).filter(|_| !self.is_astray());
        seen.is_some_and(|seen| vouching::shows(*seen, bookmark))
    }

    /// Looks for another node's bookmark, if this one follows the metadata, and is not looking for it.
    pub(crate) fn look_for_bookmark(&mut self, asked: Asked, vouch: Vouch) {
        // Whoever is disowned is asked all the same: that both follow the same may be what ends it.
        let is_following =
            (self.watch.is_some() || self.is_disowned()) && self.bookmarks.is_found();
        let is_looking = |(purpose, _): &(Purpose, _)| matches!(purpose, Purpose::Vouch(other, _) if *other == asked);
        if is_following
            && (!self.is_astray() || self.is_disowned())
            && !self.requests.values().any(is_looking)
        {
            let key = Selector::Key(BookmarkRecord::key(asked.peer));
            let ranges = vec![Operation::Range(key)];
            self.transact(Purpose::Vouch(asked, vouch), vec![], ranges);
        }
    }

    /// Another node's bookmark has been looked for. Who asked asks again where nothing answers.
    pub(super) fn looked(&mut self, asked: Asked, vouch: Vouch, answer: &MetadataAnswer) {
        let MetadataAnswer::Transacted(outcome) = answer else {
            return;
        };
        let found = pairs(outcome).next();
        let found = found.map(|pair| BookmarkRecord::decode(&pair.value));
        // One that cannot be read says nothing.
        if let Ok(found) = found.transpose()
            && self.bookmarks.is_found()
        {
            let shows = |found: BookmarkRecord| vouching::shows(found.bookmark, vouch.bookmark);
            let is_there = found.is_some_and(shows);
            let looked = Change::Looked(asked, vouch, is_there);
            self.changes.push_back(looked);
        }
    }

    /// Others say, for this reason, that they do not follow what this node follows; or not enough of them do.
    pub(crate) fn disown(&mut self, now: Instant, why: Option<Astray>) {
        let (before, was_disowned) = (self.astray(), self.is_disowned());
        self.past.disown(why);
        if was_disowned && why.is_none() {
            // What has been told meanwhile was not believed.
            self.retry.get_or_insert(now);
        }
        self.tell_whether_astray(before);
    }

    /// A bookmark is in the metadata.
    fn bookmark_left(&mut self, now: Instant, bookmark: Bookmark, revision: Revision) {
        if let Some(noted) = self.bookmarks.left(now, bookmark, revision) {
            self.notes
                .keep_bookmark(self.past.recoveries(), Some(noted));
        }
    }

    /// That there is no bookmark says nothing from now on.
    pub(super) fn forget_bookmark(&mut self) {
        self.bookmarks.forget();
        self.notes.keep_bookmark(self.past.recoveries(), None);
    }

    /// Everything has to be read again; what answers may be another store than before.
    fn read_again(&mut self, now: Instant) {
        self.bookmarks.reconnected();
        self.bookmarks.give_up();
        self.drop_held();
        self.renew_at = None;
        self.retry = Some(now + RETRY);
    }

    fn listed(&mut self, outcome: TransactionOutcome) {
        let Some(OperationResult::Range(found)) = outcome.results.into_iter().next() else {
            return;
        };
        self.notes.begin_list(&found);
        let mut gone = self.keys();
        let listed: BTreeSet<&str> = found.iter().map(|pair| pair.key.as_str()).collect();
        self.unreadable.retain(|key| listed.contains(key.as_str()));
        for pair in &found {
            if let Some(key) = self.put(pair, false) {
                gone.remove(&key);
            }
        }
        for key in gone {
            // What a watch has told of since is not in the list, and told of once more.
            if self.may_go(&key) {
                self.delete(key);
            }
        }
        self.tell_of_deleted();
        self.begun.clear();
        self.notes.end_list(outcome.revision);
        if let Some(watch) = self.watch.take() {
            self.out.push_back((watch, MetadataRequest::Unwatch));
        }
        let from = Revision(outcome.revision.0 + 1);
        let selector = Selector::Prefix(PREFIX.into());
        let watch = self.ask(Purpose::Watch, MetadataRequest::Watch { selector, from });
        self.requests.remove(&watch);
        self.watch = Some(watch);
        self.is_behind = false;
    }

    pub(super) fn handle_watch(&mut self, now: Instant, answer: MetadataAnswer) {
        match answer {
            // What is missed is read again when the right metadata is back, or nobody denies it any more.
            MetadataAnswer::Watched { events, .. } if self.is_astray() => {
                self.is_behind = true;
                self.hear_denials_while_astray(now, &events);
            }
            MetadataAnswer::Watched { events, .. }
                if self.held_back.is_none() && self.is_to_be_recognised() =>
            {
                self.is_behind |= !events.is_empty();
            }
            MetadataAnswer::Watched { revision, events } => match &mut self.held_back {
                Some(held) if held.len() < HELD_BACK_MAX => held.push((now, revision, events)),
                Some(_) => {
                    self.is_behind = true;
                    self.read_again(now);
                }
                None => self.watched(now, revision, events),
            },
            MetadataAnswer::WatchResumed => self.resumed(now),
            MetadataAnswer::WatchEnded(_) | MetadataAnswer::Failed(_) => {
                self.watch = None;
                self.read_again(now);
            }
            _ => {}
        }
    }

    fn watched(&mut self, now: Instant, revision: Revision, events: Vec<WatchEvent>) {
        self.hear_denials(&events);
        if !self.judge_events(revision, &events) {
            self.is_behind = true;
            self.retry = Some(now + RETRY);
            return;
        }
        let is_first = !self.bookmarks.has_followed();
        for event in events {
            match event {
                WatchEvent::Put(pair) => {
                    if is_first && pair.key == CLUSTER_KEY {
                        // The cluster has been made: the first bookmark can be left.
                        self.retry.get_or_insert(now);
                    }
                    self.put(&pair, false);
                }
                WatchEvent::Delete { key, .. } => self.gone(now, &key),
            }
        }
        self.notes.followed(revision);
    }

    /// A key was deleted.
    fn gone(&mut self, now: Instant, key: &str) {
        self.unreadable.remove(key);
        if let Some(key) = Key::parse(key) {
            self.delete(key);
        }
        let own = self.registration.as_ref().map(Registration::bookmark_key);
        if own.is_some_and(|own| own == key) {
            self.forget_bookmark();
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
