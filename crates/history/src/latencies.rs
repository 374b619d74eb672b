//! How long things took: counts by length, in steps of an eighth of each power of two (as HdrHistogram has them, Tene 2012).
//!
//! Invariants:
//! - steps are sorted, each is there once, and none has a count of zero;
//! - what a quantile says is the longest that its step holds: never too little, and an eighth too much at most;
//! - the mean is exact, as long as none took more than 71 minutes.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::HistoryError;
use crate::codec::{Reader, Writer};

/// Steps in each power of two; below this many microseconds each is a step of its own.
const STEPS: u64 = 8;
/// `log2(STEPS)`.
const STEPS_LOG: u32 = 3;
/// The highest power of two that is told apart, in microseconds: 67 s and more are one.
const POWER_MAX: u32 = 26;
/// How many steps there are.
const COUNT: u8 = (STEPS as u32 + (POWER_MAX - STEPS_LOG) * STEPS as u32) as u8 + 1;

/// Counts of latencies by how long they were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    counts: Vec<(u8, u64)>,
    /// All of them together, in microseconds.
    total: u64,
}

/// The step that so many microseconds belong to.
const fn step_of(microseconds: u64) -> u8 {
    if microseconds < STEPS {
        return microseconds as u8;
    }
    let power = microseconds.ilog2();
    if power >= POWER_MAX {
        return COUNT - 1;
    }
    let within = (microseconds >> (power - STEPS_LOG)) - STEPS;
    (STEPS + (power - STEPS_LOG) as u64 * STEPS + within) as u8
}

/// The longest that a step holds, in microseconds; of the last one the shortest, for it has no end.
const fn longest(step: u8) -> u64 {
    let step = step as u64;
    if step < STEPS {
        return step;
    }
    let (power, within) = ((step - STEPS) / STEPS, (step - STEPS) % STEPS);
    if step == (COUNT - 1) as u64 {
        return 1 << POWER_MAX;
    }
    ((STEPS + within + 1) << power) - 1
}

/// Counts latencies as they come: one addition for each.
#[derive(Clone, Debug)]
pub struct Recorder {
    counts: Box<[u32; COUNT as usize]>,
    total: u64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            counts: Box::new([0; COUNT as usize]),
            total: 0,
        }
    }
}

impl Recorder {
    /// There was one more of so many microseconds.
    pub fn record(&mut self, microseconds: u64) {
        let count = &mut self.counts[usize::from(step_of(microseconds))];
        *count = count.saturating_add(1);
        self.total = self.total.saturating_add(microseconds);
    }

    /// Those that came since they were last taken.
    pub fn take(&mut self) -> Latencies {
        let counts = self.counts.iter_mut().enumerate();
        let counts = counts.map(|(step, count)| (step as u8, u64::from(core::mem::take(count))));
        Latencies {
            counts: counts.filter(|(_, count)| *count > 0).collect(),
            total: core::mem::take(&mut self.total),
        }
    }
}

impl Latencies {
    /// There was one more of so many microseconds.
    pub fn record(&mut self, microseconds: u64) {
        self.add(step_of(microseconds), 1);
        self.total = self.total.saturating_add(microseconds);
    }

    /// What [`Self::steps`] and [`Self::total`] of others have said, again.
    #[must_use]
    pub fn from_steps(total: u64, steps: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut latencies = Self {
            total,
            ..Self::default()
        };
        for (microseconds, count) in steps.into_iter().filter(|(_, count)| *count > 0) {
            latencies.add(step_of(microseconds), count);
        }
        latencies
    }

    /// The longest that each step holds, in microseconds, with how many there were in it: the shortest first.
    pub fn steps(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = self.counts.iter();
        counts.map(|(step, count)| (longest(*step), *count))
    }

    /// All of them together, in microseconds: divided by the time in which they were, how many were under way at once.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    fn add(&mut self, step: u8, count: u64) {
        match self.counts.binary_search_by_key(&step, |(step, _)| *step) {
            Ok(place) => {
                let known = &mut self.counts[place].1;
                *known = known.saturating_add(count);
            }
            Err(place) => self.counts.insert(place, (step, count)),
        }
    }

    /// Those of another time, or place, as well.
    pub fn merge(&mut self, other: &Self) {
        for (step, count) in &other.counts {
            self.add(*step, *count);
        }
        self.total = self.total.saturating_add(other.total);
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        let counts = self.counts.iter().map(|(_, count)| *count);
        counts.fold(0, u64::saturating_add)
    }

    /// In how many microseconds so much of all was done, from 0 to 1: 0.5 is the median. Nothing if there were none.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Option<u64> {
        let all = self.count();
        // As many as that have to be shorter, or as long; at least one.
        let rank = (part.clamp(0.0, 1.0) * all as f64).max(1.0);
        let mut so_far = 0_u64;
        for (step, count) in &self.counts {
            so_far = so_far.saturating_add(*count);
            if so_far as f64 >= rank {
                return Some(longest(*step));
            }
        }
        self.counts.last().map(|(step, _)| longest(*step))
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.number(self.total);
        out.number(self.counts.len() as u64);
        let mut before = 0;
        for (step, count) in &self.counts {
            out.number(u64::from(step - before));
            out.number(*count);
            before = *step;
        }
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, HistoryError> {
        let total = from.number()?;
        let count = from.count(usize::from(COUNT))?;
        let mut counts = Vec::with_capacity(count);
        let mut before = 0_u64;
        for place in 0..count {
            let gap = from.number()?;
            let step = before.checked_add(gap).ok_or(HistoryError::Malformed)?;
            let is_next = (place == 0 || gap > 0) && step < u64::from(COUNT);
            let many = from.number()?;
            if !is_next || many == 0 {
                return Err(HistoryError::Malformed);
            }
            counts.push((step as u8, many));
            before = step;
        }
        Ok(Self { counts, total })
    }
}

#[cfg(test)]
mod tests {
    use holdfast_stdx::Prng;

    use super::*;

    #[test]
    fn every_length_has_a_step_and_steps_follow_each_other() {
        let mut before = 0;
        for microseconds in 0..1 << 20 {
            let step = step_of(microseconds);
            assert!(step == before || step == before + 1, "{microseconds}");
            assert!(longest(step) >= microseconds, "{microseconds}");
            let too_much = longest(step) - microseconds;
            assert!(too_much * STEPS <= microseconds.max(1), "{microseconds}");
            before = step;
        }
        assert_eq!(step_of((1 << POWER_MAX) - 1), COUNT - 2);
        for long in [1 << POWER_MAX, u64::MAX] {
            assert_eq!(step_of(long), COUNT - 1);
        }
        assert_eq!(longest(COUNT - 2), (1 << POWER_MAX) - 1);
    }

    #[test]
    fn quantiles_of_what_is_added_up_are_those_of_all() {
        let mut prng = Prng::from_seed(1);
        let mut all: Vec<u64> = (0..10_000).map(|_| 1 << prng.below(24)).collect();
        for length in &mut all {
            *length += prng.below(*length);
        }
        let mut parts: [Latencies; 7] = Default::default();
        for (number, length) in all.iter().enumerate() {
            parts[number % 7].record(*length);
        }
        let mut sum = Latencies::default();
        for part in &parts {
            sum.merge(part);
        }
        all.sort_unstable();
        assert_eq!((sum.count(), sum.total()), (10_000, all.iter().sum()));
        assert_eq!(Latencies::from_steps(sum.total(), sum.steps()), sum);
        for (part, rank) in [(0.0, 0), (0.5, 4_999), (0.99, 9_899), (1.0, 9_999)] {
            let (exact, told) = (all[rank], sum.quantile(part).expect("there are some"));
            assert!(
                exact <= told && told - exact <= exact / STEPS,
                "{part}: {exact} {told}"
            );
        }
        assert_eq!(Latencies::default().quantile(0.5), None);
    }
}
