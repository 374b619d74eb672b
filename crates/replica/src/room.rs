//! A sync that finds no room on this node: it rests before it goes on.
//!
//! What was copied stays, and the sync goes on from there. Each attempt costs two changes of the record,
//! which everybody pays for: without a rest a full node would make twenty epochs a second for as long as it
//! is full. The rest is kept here and not at the primary: this replica knows when there is room again, primaries
//! come and go, and one of an older version need not know of it.
//!
//! Invariants:
//! - a rest ends: what is still lacking may need no room any more;
//! - between two attempts pass [`REST`] at least, however often room comes and goes.

use holdfast_model::{Epoch, NodeId};
use holdfast_stdx::{Duration, Instant};
use holdfast_wire::Refusal;

use crate::{Context, Replica};

/// The first rest: destage, claims that end and pages that hosts clear give room back within seconds.
const REST: Duration = Duration::from_secs(5);
/// The longest: an operator who has made room of which nothing is seen here should not wait for longer than
/// that.
const REST_MAX: Duration = Duration::from_secs(60);
/// So many pages more than there were, and the rest is over: what destage writes in one round. Less comes and goes
/// with every host's write.
const PAGES_MORE: u64 = 8;
/// A sync that found room for so long begins anew with short rests.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// What is remembered of the last time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoRoom {
    /// The epoch that was refused: copies that were on their way as well are no further time.
    epoch: Epoch,
    /// How many times in a row.
    times: u32,
    since: Instant,
    /// What was free then, though less than was asked for.
    free_pages: u64,
}

impl NoRoom {
    /// Whether it has rested.
    fn is_over(&self, now: Instant, free_pages: u64) -> bool {
        let waited = now.since(self.since);
        let has_more = free_pages >= self.free_pages.saturating_add(PAGES_MORE);
        waited >= rest(self.times) || (has_more && waited >= REST)
    }
}

impl Replica {
    /// Refuses what there is no room for, and rests.
    pub(crate) fn refuse_for_room(
        &mut self,
        context: &mut dyn Context,
        primary: NodeId,
        epoch: Epoch,
    ) {
        let now = context.now();
        let before = self
            .no_room
            .filter(|before| now.since(before.since) < FORGOTTEN_AFTER);
        if before.is_none_or(|before| before.epoch != epoch) {
            self.no_room = Some(NoRoom {
                epoch,
                times: before.map_or(0, |before| before.times).saturating_add(1),
                since: now,
                free_pages: context.free_pages(),
            });
        }
        self.refuse(context, primary, epoch, Refusal::Failed);
    }

    /// Whether this replica does not offer itself, because there was no room to bring it up to date.
    pub(crate) fn waits_for_room(&self, context: &dyn Context) -> bool {
        let now = context.now();
        self.no_room
            .is_some_and(|no_room| !no_room.is_over(now, context.free_pages()))
    }
}

/// How long a sync rests that found no room so many times.
fn rest(times: u32) -> Duration {
    let doublings = times.saturating_sub(1).min(16);
    (REST * (1 << doublings)).min(REST_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn rests_grow_and_end() {
        let since = Instant::from_nanos(1);
        for (times, seconds) in [(1, 5), (2, 10), (3, 20), (4, 40), (5, 60), (u32::MAX, 60)] {
            let no_room = NoRoom {
                epoch: Epoch(1),
                times,
                since,
                free_pages: 3,
            };
            let end = since + Duration::from_secs(seconds);
            assert!(no_room.is_over(end, 0), "{times}");
            let early = since + Duration::from_secs(seconds - 1);
            assert!(!no_room.is_over(early, 3 + PAGES_MORE - 1), "{times}");
        }
    }

    #[test]
    fn room_ends_a_rest_but_for_the_shortest() {
        let since = Instant::from_nanos(1);
        let no_room = NoRoom {
            epoch: Epoch(1),
            times: 9,
            since,
            free_pages: 3,
        };
        assert!(no_room.is_over(since + REST, 3 + PAGES_MORE));
        assert!(!no_room.is_over(since + REST - MILLISECOND, u64::MAX));
    }
}
