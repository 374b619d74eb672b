//! Bad blocks that were fetched from other nodes, as the report tells of them: each is mended in a moment, so that
//! hardly any look finds one that is bad, however many there are.
//!
//! Invariant: what is told goes on for as long as there is one more each [`PAUSE_MAX`], and ends after that.

use std::time::{Duration, Instant};

use holdfast_api::documents::Mending;

/// Between two blocks of the same device that is read to find them; a cluster that is well again shows so soon after.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Who counts them.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// How many there have been since the start.
    count: u64,
    bout: Option<Bout>,
}

/// Some without a pause.
#[derive(Clone, Copy, Debug)]
struct Bout {
    began: Instant,
    last: Instant,
    /// How many there were before.
    before: u64,
}

impl Watch {
    /// So many there have been since the start.
    pub(crate) fn note(&mut self, now: Instant, count: u64) {
        let before = std::mem::replace(&mut self.count, count);
        let bout = self.bout.take_if(|bout| bout.lasts(now));
        self.bout = match bout {
            Some(bout) if count == before => Some(bout),
            Some(bout) => Some(Bout { last: now, ..bout }),
            None => (count > before).then_some(Bout {
                began: now,
                last: now,
                before,
            }),
        };
    }

    /// Those that have come without a pause until now.
    pub(crate) fn now(&self, now: Instant) -> Option<Mending> {
        let bout = self.bout.filter(|bout| bout.lasts(now))?;
        Some(Mending {
            blocks: self.count.saturating_sub(bout.before),
            seconds: now.saturating_duration_since(bout.began).as_secs(),
        })
    }
}

impl Bout {
    fn lasts(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) < PAUSE_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mended_is_told_until_there_was_none_for_a_while() {
        let start = Instant::now();
        let mut watch = Watch::default();
        let mut at = |millis, count| {
            let now = start + Duration::from_millis(millis);
            watch.note(now, count);
            watch.now(now).map(|told| (told.blocks, told.seconds))
        };
        assert_eq!(at(0, 0), None);
        assert_eq!(at(1000, 64), Some((64, 0)));
        assert_eq!(at(2000, 64), Some((64, 1)), "no look finds one that is bad");
        assert_eq!(at(10_500, 65), Some((65, 9)));
        assert_eq!(at(20_000, 165), Some((165, 19)));
        assert_eq!(at(29_999, 165), Some((165, 28)));
        assert_eq!(at(30_000, 165), None);
        assert_eq!(at(90_000, 166), Some((1, 0)), "those before are over");
    }
}
