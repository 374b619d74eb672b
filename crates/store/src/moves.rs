//! Pages that leave a device which is drained, a few at a time.
//!
//! A round of moves is like one of destage, between those: it gives way to what is due, but after so many
//! rounds of destage it has its turn. Like destage that nothing needs, it waits to be told where that is
//! configured.

use alloc::vec::Vec;

use holdfast_format::PageKey;
use holdfast_pages::{PageJob, PageWork};
use holdfast_stdx::{Duration, Instant};

use crate::machine::Core;

/// Pages of a round of moves at most: 2 MiB, so that destage never waits long for its end.
const MOVES_MAX: usize = 8;
/// Rounds of destage after which pages have their turn to move.
const ROUNDS_PER_MOVE: u32 = 4;
/// Pages that are looked at in one event; what is left is looked at in the next ones.
const LOOKED_MAX: usize = 4096;
/// How soon that is.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// How far the pages have been looked through.
    from: Option<PageKey>,
    /// Rounds of destage since pages moved.
    rounds: u32,
    /// Those that are left are being read: some completion has to come first.
    pub(crate) blocked: bool,
    /// When to look on.
    pub(crate) look_at: Option<Instant>,
}

impl Core {
    /// Whether destage has had so many rounds that pages have their turn to move.
    pub(crate) fn is_turn_of_moves(&self) -> bool {
        self.moves.rounds >= ROUNDS_PER_MOVE && self.wants_to_move()
    }

    /// Whether a page could move now.
    pub(crate) fn wants_to_move(&self) -> bool {
        !self.moves.blocked && self.pages.pages_to_move() > 0 && self.room_to_move() > 0
    }

    /// Free slots that nothing else is certain to need. What is placed has its slots already: nobody knows when that is decided.
    fn room_to_move(&self) -> u32 {
        let unreserved = self.slots_soon_free().saturating_sub(self.reserved);
        unreserved.min(self.pages.free_slots())
    }

    /// A round of destage begins.
    pub(crate) fn count_round(&mut self) {
        self.moves.rounds = self.moves.rounds.saturating_add(1);
    }

    /// The next pages that move; none if there are none, or no room for them.
    pub(crate) fn move_jobs(&mut self, now: Instant) -> Vec<PageJob> {
        self.moves.look_at = None;
        if !self.wants_to_move() {
            return Vec::new();
        }
        let count = MOVES_MAX.min(self.room_to_move() as usize);
        let limits = (count, LOOKED_MAX);
        let held = |key| self.reads.holds(key);
        let found = self.pages.next_to_move(self.moves.from, limits, held);
        self.moves.from = found.next;
        if found.pages.is_empty() {
            self.moves.blocked = found.next.is_none();
            self.moves.look_at = found.next.map(|_| now + LOOK_AGAIN);
        } else {
            self.moves.rounds = 0;
        }
        let jobs = found.pages.into_iter().map(|key| PageJob {
            key,
            written: self.pages.page(key).expect("a page of the map").written,
            work: PageWork::Move,
        });
        jobs.collect()
    }
}
