//! Replicas that take over, a few at a time.
//!
//! A node that starts, or whose neighbour dies, may have to lead thousands of slices. Were they all to
//! stand at once, each would take as long as all of them: long enough that others give it up, and stand
//! themselves.
//!
//! Invariants:
//! - one that waits goes on as soon as there is room, the lowest slice first;
//! - one that gets nowhere keeps its place for a bounded time only;
//! - on a node that is told to stop nobody begins.

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet};

use holdfast_model::SliceId;
use holdfast_stdx::{Duration, Instant};

/// How long one keeps its place: several times what it takes where nobody has to be waited for, and so
/// short that thousands that have to wait hold nobody up for long.
const PLACE_KEPT: Duration = Duration::from_millis(50);

/// Who takes over, and who waits to.
#[derive(Debug)]
pub(crate) struct Takeovers {
    /// How many may be at it at a time.
    room: usize,
    /// Who is at it, since when.
    standing: BTreeMap<SliceId, Instant>,
    /// Those of them that keep their places.
    places: BTreeSet<(Instant, SliceId)>,
    waiting: BTreeSet<SliceId>,
    /// Nobody begins any more.
    closed: bool,
}

impl Takeovers {
    /// Nobody is at it, and `room` may be.
    pub(crate) fn new(room: usize) -> Self {
        assert!(room > 0, "somebody must be able to take over");
        Self {
            room,
            standing: BTreeMap::new(),
            places: BTreeSet::new(),
            waiting: BTreeSet::new(),
            closed: false,
        }
    }

    /// Whoever is at it goes on, and nobody else begins any more.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Whether a replica may begin; else it waits for [`next`](Self::next).
    pub(crate) fn may_begin(&mut self, now: Instant, slice: SliceId) -> bool {
        let may = self.standing.contains_key(&slice) || self.has_room(now);
        if !may {
            self.waiting.insert(slice);
        }
        may
    }

    /// A replica is at it, or not any more; and it may have to be, or has no reason to.
    pub(crate) fn note(&mut self, now: Instant, slice: SliceId, stands: bool, may_wait: bool) {
        if !may_wait {
            self.waiting.remove(&slice);
        }
        if !stands {
            if let Some(since) = self.standing.remove(&slice) {
                self.places.remove(&(since, slice));
            }
        } else if let Entry::Vacant(entry) = self.standing.entry(slice) {
            entry.insert(now);
            self.places.insert((now, slice));
        }
    }

    /// A replica is gone.
    pub(crate) fn forget(&mut self, now: Instant, slice: SliceId) {
        self.note(now, slice, false, false);
    }

    /// Who may begin now, if somebody waits and there is room.
    pub(crate) fn next(&mut self, now: Instant) -> Option<SliceId> {
        if self.waiting.is_empty() || !self.has_room(now) {
            return None;
        }
        self.waiting.pop_first()
    }

    /// Whether a replica waits.
    pub(crate) fn waits(&self, slice: SliceId) -> bool {
        self.waiting.contains(&slice)
    }

    /// When there may be room for who waits, if nobody is done before.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let may_begin = !self.closed && !self.waiting.is_empty();
        let (since, _) = self.places.first().filter(|_| may_begin)?;
        Some(*since + PLACE_KEPT)
    }

    fn has_room(&mut self, now: Instant) -> bool {
        while let Some(place) = self.places.first()
            && now >= place.0 + PLACE_KEPT
        {
            self.places.pop_first();
        }
        !self.closed && self.places.len() < self.room
    }
}

#[cfg(test)]
mod tests {
    use holdfast_model::VolumeId;

    use super::*;

    const ROOM: usize = 64;
    const START: Instant = Instant::from_nanos(1_000_000_000);

    fn slice(index: usize) -> SliceId {
        SliceId {
            volume: VolumeId(1),
            index: index as u32,
        }
    }

    /// All of `count` want to begin at the start, and those that may do.
    fn takeovers(count: usize) -> Takeovers {
        let mut takeovers = Takeovers::new(ROOM);
        for index in 0..count {
            if takeovers.may_begin(START, slice(index)) {
                takeovers.note(START, slice(index), true, false);
            }
        }
        takeovers
    }

    #[test]
    fn nobody_begins_where_it_is_closed() {
        let mut takeovers = takeovers(ROOM + 1);
        takeovers.close();
        takeovers.note(START, slice(7), false, false);
        assert_eq!(takeovers.next(START), None);
        assert_eq!(takeovers.next_timeout(), None);
        assert!(!takeovers.may_begin(START, slice(ROOM)));
        assert!(takeovers.may_begin(START, slice(8)), "it is at it");
    }

    #[test]
    fn who_waits_goes_on_when_another_is_done() {
        let mut takeovers = takeovers(ROOM + 2);
        assert_eq!(takeovers.next(START), None);
        assert!(takeovers.waits(slice(ROOM)));
        takeovers.note(START, slice(7), false, false);
        assert_eq!(takeovers.next(START), Some(slice(ROOM)));
        assert!(takeovers.may_begin(START, slice(ROOM)));
        takeovers.note(START, slice(ROOM), true, false);
        assert_eq!(takeovers.next(START), None);
        takeovers.note(START, slice(ROOM), false, false);
        assert_eq!(takeovers.next(START), Some(slice(ROOM + 1)));
        assert_eq!(takeovers.next_timeout(), None, "nobody waits");
    }

    #[test]
    fn who_gets_nowhere_gives_its_place_up_and_goes_on() {
        let mut takeovers = takeovers(2 * ROOM);
        assert_eq!(takeovers.next_timeout(), Some(START + PLACE_KEPT));
        let later = START + PLACE_KEPT;
        assert_eq!(takeovers.next(later), Some(slice(ROOM)));
        assert!(takeovers.may_begin(later, slice(3)), "it has begun already");
        takeovers.note(later, slice(3), true, false);
        assert!(takeovers.places.is_empty(), "a place is given once");
    }

    #[test]
    fn who_has_no_reason_to_wait_any_more_waits_no_more() {
        let mut takeovers = takeovers(ROOM + 1);
        takeovers.note(START, slice(ROOM), false, true);
        assert!(takeovers.waits(slice(ROOM)));
        takeovers.note(START, slice(ROOM), false, false);
        assert!(!takeovers.waits(slice(ROOM)));
    }

    #[test]
    fn who_is_gone_neither_waits_nor_keeps_a_place() {
        let mut takeovers = takeovers(ROOM + 1);
        takeovers.forget(START, slice(0));
        takeovers.forget(START, slice(ROOM));
        assert_eq!(takeovers.next(START), None);
        assert_eq!(
            (takeovers.places.len(), takeovers.standing.len()),
            (ROOM - 1, ROOM - 1)
        );
    }
}
