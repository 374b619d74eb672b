//! What a process remembers of its log of events: the newest, in the order of their places, which events the log has at all, and
//! what was found in the files for those who ask the same again and again.
//!
//! Invariants:
//! - all of the log that is above the *floor* is in memory, in whatever order it came: what is answered from there passes nothing
//!   over;
//! - what was found in the files stays true while more is put down;
//! - it has bounds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use holdfast_api::documents::{Event, EventPlace, EventQuery};

use crate::line_log::{Found, Question};

/// Events in memory, which are what is asked for most: some 2 MiB.
pub(super) const NEWEST_MAX: usize = 4096;
/// Events of which it is known that the log has them, the last ones that came: more than there are in the files, however much is to be
/// kept. It is some 30 bytes for each.
const KNOWN_MAX: usize = 1 << 20;
/// Answers out of the files that are kept, of a thousand events each at most: consoles ask the same all the time.
const ANSWERS_MAX: usize = 4;

impl Question for EventQuery {
    type Line = Event;
    type Place = Reverse<EventPlace>;

    fn place(event: &Event) -> Reverse<EventPlace> {
        Reverse(event.place())
    }

    fn wants(&self, event: &Event) -> bool {
        self.wants(event)
    }

    fn count_max(&self) -> usize {
        self.limit as usize
    }
}

/// What is remembered.
#[derive(Debug, Default)]
pub(super) struct Memory {
    newest: BTreeMap<EventPlace, Event>,
    /// The greatest of those that are in the log, and not among the newest: when it was, and its place.
    floor: Option<(u64, EventPlace)>,
    known: Known,
    /// What is looked for in the files: what is put down meanwhile is offered to it.
    looked_for: Option<Found<EventQuery>>,
    /// What was found there, the last one asked for at the end.
    answers: VecDeque<Found<EventQuery>>,
}

impl Memory {
    /// Takes note of an event that is in the log, or about to be. False if it was known.
    pub(super) fn note(&mut self, event: &Event) -> bool {
        if !self.known.insert(&event.place()) {
            return false;
        }
        for found in self.answers.iter_mut().chain(&mut self.looked_for) {
            found.take(event);
        }
        self.keep(event);
        true
    }

    fn keep(&mut self, event: &Event) {
        let place = event.place();
        if self
            .floor
            .as_ref()
            .is_some_and(|(_, floor)| place <= *floor)
        {
            return;
        }
        self.newest.insert(place, event.clone());
        if self.newest.len() > NEWEST_MAX
            && let Some((place, event)) = self.newest.pop_first()
        {
            self.floor = Some((event.at_ms, place));
        }
    }

    /// Whether the log has the event at a place, if that is not too long ago to be known.
    pub(super) fn has(&self, place: &EventPlace) -> bool {
        self.known.has(place)
    }

    /// What is asked for, the newest first; nothing if there may be more of it in the files.
    pub(super) fn answer(&mut self, query: &EventQuery) -> Option<Vec<Event>> {
        let mut found = Found::new(query);
        for event in self.newest.values().rev() {
            found.take(event);
            if found.is_full() {
                return Some(found.told());
            }
        }
        // Of what is below the floor nothing is wanted.
        let is_above = |(at_ms, _): &(u64, EventPlace)| *at_ms < query.since_ms;
        if self.floor.as_ref().is_none_or(is_above) {
            return Some(found.told());
        }
        let at = self.answers.iter().position(|it| it.question() == query)?;
        let answer = self.answers.remove(at)?;
        let events = answer.clone().told();
        self.answers.push_back(answer);
        Some(events)
    }

    /// From now on it is looked for that in the files; by one at a time.
    pub(super) fn look_for(&mut self, query: &EventQuery) {
        self.looked_for = Some(Found::new(query));
    }

    /// What is asked for, now that the files were looked through since [`Memory::look_for`], and this was found there. It is kept for
    /// whoever asks the same if it `is_whole`.
    pub(super) fn looked(&mut self, mut found: Found<EventQuery>, is_whole: bool) -> Vec<Event> {
        let meanwhile = self.looked_for.take().into_iter();
        let meanwhile = meanwhile.flat_map(Found::told);
        // What waits to be written is in memory only.
        for event in meanwhile.chain(self.newest.values().cloned()) {
            found.take(&event);
        }
        // Who reads on asks each question once.
        if is_whole && found.question().after.is_none() {
            if self.answers.len() >= ANSWERS_MAX {
                self.answers.pop_front();
            }
            self.answers.push_back(found.clone());
        }
        found.told()
    }
}

/// Which events there are, by a digest of their places: that two of so many have the same one is not to be expected in the life of
/// all clusters together.
#[derive(Debug, Default)]
struct Known {
    digests: BTreeSet<u64>,
    /// The first that came first.
    order: VecDeque<u64>,
}

impl Known {
    fn digest(place: &EventPlace) -> u64 {
        let mut hasher = DefaultHasher::new();
        place.hash(&mut hasher);
        hasher.finish()
    }

    fn has(&self, place: &EventPlace) -> bool {
        self.digests.contains(&Self::digest(place))
    }

    /// False if it was there.
    fn insert(&mut self, place: &EventPlace) -> bool {
        let digest = Self::digest(place);
        if !self.digests.insert(digest) {
            return false;
        }
        self.order.push_back(digest);
        if self.order.len() > KNOWN_MAX
            && let Some(first) = self.order.pop_front()
        {
            self.digests.remove(&first);
        }
        true
    }
}
