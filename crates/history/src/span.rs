//! In what steps a time is told.

use crate::RESOLUTIONS;

/// A time in the past, in steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where the first step begins, in seconds since 1970.
    pub from: u64,
    /// Where the last one ends.
    pub until: u64,
    /// How long each is, in seconds.
    pub step: u32,
}

impl Span {
    /// The time from one moment until another, in steps of at least so many seconds, as it is told now: they are as long as what is
    /// kept for so long allows, begin at multiples of their length, and hold all of the time. The same is said at every node.
    #[must_use]
    pub fn new(from: u64, until: u64, step_min: u32, now: u64) -> Self {
        let age = now.saturating_sub(from);
        let is_kept = |it: &&crate::Resolution| it.kept >= age;
        let [.., last] = &RESOLUTIONS;
        let resolution = RESOLUTIONS.iter().find(is_kept).unwrap_or(last);
        // Where steps are long, they are made of the longest frames that fit: there are fewer.
        let fits = |it: &&crate::Resolution| it.seconds <= step_min;
        let longest = RESOLUTIONS.iter().rfind(fits).unwrap_or(resolution);
        let seconds = resolution.seconds.max(longest.seconds);
        let step = step_min.max(1).checked_next_multiple_of(seconds);
        let step = step.unwrap_or(seconds);
        let from = from - from % u64::from(step);
        let until = until.max(from).checked_next_multiple_of(u64::from(step));
        Self {
            from,
            until: until.unwrap_or(from),
            step,
        }
    }

    /// Which resolution's frames it is made of, by its place in [`RESOLUTIONS`]: the longest of which steps are multiples.
    #[must_use]
    pub fn place(&self) -> usize {
        let divides = |it: &crate::Resolution| self.step.is_multiple_of(it.seconds);
        RESOLUTIONS.iter().rposition(divides).unwrap_or(0)
    }

    /// When the step began in which this moment is; nothing if it is outside.
    #[must_use]
    pub fn step_of(&self, at: u64) -> Option<u64> {
        let is_inside = (self.from..self.until).contains(&at);
        is_inside.then(|| at - at % u64::from(self.step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_795_000_000;
    const HOUR: u64 = 3600;
    const DAY: u64 = 24 * HOUR;

    #[test]
    fn steps_are_as_fine_as_is_kept_for_so_long() {
        for (age, step_min, step, place) in [
            (60, 1, 1, 0),
            (HOUR, 1, 1, 0),
            (HOUR, 9, 9, 0),
            (HOUR, 10, 10, 1),
            (HOUR + 1, 1, 10, 1),
            (DAY, 216, 220, 1),
            (2 * DAY, 1, 300, 2),
            (30 * DAY, 6480, 7200, 3),
            (31 * DAY, 1, 3600, 3),
            (500 * DAY, 1, 3600, 3),
            (NOW, u32::MAX, 3600, 3),
        ] {
            let span = Span::new(NOW - age, NOW, step_min, NOW);
            assert_eq!((span.step, span.place()), (step, place), "{age} {step_min}");
            assert!(span.from <= NOW - age && NOW <= span.until);
            assert_eq!(span.from % u64::from(step), 0);
            assert!(NOW - age - span.from < u64::from(step) && span.until - NOW < u64::from(step));
        }
    }

    #[test]
    fn what_makes_no_sense_is_empty() {
        let span = Span::new(NOW, NOW - 10, 1, NOW);
        assert_eq!((span.from, span.until), (NOW, NOW));
        assert_eq!(span.step_of(NOW), None);
        let span = Span::new(u64::MAX, u64::MAX, 300, NOW);
        assert_eq!(span.step_of(u64::MAX), None);
    }

    #[test]
    fn moments_are_in_the_step_that_began_before_them() {
        let span = Span::new(NOW, NOW + 25, 10, NOW + 25);
        let begun: alloc::vec::Vec<Option<u64>> =
            [NOW - 1, NOW, NOW + 9, NOW + 10, NOW + 29, NOW + 30]
                .map(|at| span.step_of(at))
                .into();
        assert_eq!(
            begun,
            [
                None,
                Some(NOW),
                Some(NOW),
                Some(NOW + 10),
                Some(NOW + 20),
                None
            ]
        );
    }
}
