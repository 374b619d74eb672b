//! How fast counts rise: over the last seconds, and over the last minutes.
//!
//! Invariants:
//! - what is kept is bounded: a few values of each count that was there at the last look;
//! - a count that falls begins anew: its past says nothing of its future;
//! - so does one that rested as far back as is looked, and rises again: for how long nothing was to be done says nothing of how fast it is.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Over what time a rate is taken: long enough that a pause for a few commands of hosts does not change
/// it much, short enough that people see what they have changed.
const WINDOW: Duration = Duration::from_secs(10);
/// Between two values that are kept.
const STEP: Duration = Duration::from_millis(500);
/// Before so much time has passed there is no rate: what begins is slower than what goes on, and people plan by what they are told.
const SPAN_MIN: Duration = Duration::from_secs(3);

/// Counts by key, each with its latest values.
#[derive(Debug)]
pub(crate) struct Rates<K> {
    counts: BTreeMap<K, VecDeque<(Instant, u64)>>,
}

impl<K> Default for Rates<K> {
    fn default() -> Self {
        Self {
            counts: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Copy> Rates<K> {
    /// Takes note of all counts there are at a moment.
    pub(crate) fn note(&mut self, now: Instant, counts: impl IntoIterator<Item = (K, u64)>) {
        let mut before = std::mem::take(&mut self.counts);
        for (key, count) in counts {
            let mut values = before.remove(&key).unwrap_or_default();
            if values.back().is_some_and(|(_, last)| *last > count) {
                values.clear();
            }
            let newest = values.back().copied();
            let rests = values.front().map(|it| it.1) == newest.map(|it| it.1);
            if rests && newest.is_some_and(|(_, last)| last < count) {
                values.drain(..values.len() - 1);
            }
            if newest.is_none_or(|(at, _)| now.saturating_duration_since(at) >= STEP) {
                values.push_back((now, count));
            }
            // One that is older than the window is where the window begins.
            while values
                .get(1)
                .is_some_and(|(at, _)| now.saturating_duration_since(*at) >= WINDOW)
            {
                values.pop_front();
            }
            self.counts.insert(key, values);
        }
    }

    /// By how much a count has risen in a second; zero if that is not known yet.
    pub(crate) fn per_second(&self, key: &K) -> u64 {
        let values = self.counts.get(key);
        let ends = values.and_then(|values| values.front().zip(values.back()));
        let Some(((from, first), (to, last))) = ends else {
            return 0;
        };
        let span = to.saturating_duration_since(*from);
        if span < SPAN_MIN {
            return 0;
        }
        let rise = u128::from(last - first) * 1000 / span.as_millis();
        u64::try_from(rise).unwrap_or(u64::MAX)
    }
}

/// Over what time a mean is taken, in seconds: what is this long ago counts a third. What follows from it is moved
/// at a cost, so it is to have lasted; and it is to follow a day's work.
const MEAN_SECONDS: f64 = 300.0;

/// How fast counts rise, by key, as means of which what was lately counts most.
#[derive(Debug)]
pub(crate) struct Means<K> {
    noted: Option<Instant>,
    means: BTreeMap<K, Mean>,
}

#[derive(Clone, Copy, Debug)]
struct Mean {
    count: u64,
    per_second: f64,
}

impl<K> Default for Means<K> {
    fn default() -> Self {
        Self {
            noted: None,
            means: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Copy> Means<K> {
    /// Takes note of all counts there are at a moment. Of one that was not there before nothing is known of what it
    /// did until then: its mean begins at zero.
    pub(crate) fn note(&mut self, now: Instant, counts: impl IntoIterator<Item = (K, u64)>) {
        let span = self.noted.map(|at| now.saturating_duration_since(at));
        if span.is_some_and(|span| span < STEP) {
            return;
        }
        self.noted = Some(now);
        let seconds = span.unwrap_or_default().as_secs_f64();
        let share = 1.0 - (-seconds / MEAN_SECONDS).exp();
        let before = std::mem::take(&mut self.means);
        let means = counts.into_iter().map(|(key, count)| {
            let mean = match before.get(&key) {
                Some(mean) if mean.count <= count && seconds > 0.0 => {
                    let rate = (count - mean.count) as f64 / seconds;
                    mean.per_second + (rate - mean.per_second) * share
                }
                _ => 0.0,
            };
            let mean = Mean {
                count,
                per_second: mean,
            };
            (key, mean)
        });
        self.means = means.collect();
    }

    /// By how much a count rises in a second.
    pub(crate) fn per_second(&self, key: &K) -> u64 {
        let mean = self.means.get(key);
        mean.map_or(0, |mean| mean.per_second.round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_follow_in_minutes() {
        let start = Instant::now();
        let mut means = Means::default();
        let mut count = 0;
        let mut run = |means: &mut Means<u8>, seconds: std::ops::Range<u64>, rate: u64| {
            for second in seconds {
                count += rate;
                means.note(after(start, second * 1000), [(1, count)]);
                means.note(after(start, second * 1000 + 100), [(1, count)]);
            }
        };
        run(&mut means, 0..301, 1000);
        assert!((600..660).contains(&means.per_second(&1)), "{means:?}");
        run(&mut means, 301..3000, 1000);
        assert!((990..=1000).contains(&means.per_second(&1)), "{means:?}");
        run(&mut means, 3000..3300, 0);
        assert!((340..400).contains(&means.per_second(&1)), "{means:?}");
        assert_eq!(means.per_second(&2), 0);
        means.note(after(start, 3_301_000), [(1, 0)]);
        assert_eq!(means.per_second(&1), 0, "it began anew");
        means.note(after(start, 3_302_000), []);
        assert!(means.means.is_empty());
    }

    fn after(start: Instant, millis: u64) -> Instant {
        start + Duration::from_millis(millis)
    }

    #[test]
    fn a_rate_is_that_of_the_last_ten_seconds() {
        let start = Instant::now();
        let mut rates = Rates::default();
        let mut count = 0;
        for step in 0..80 {
            // A thousand in a second, then four thousand.
            count += if step < 40 { 250 } else { 1000 };
            rates.note(after(start, step * 250), [("a", count)]);
            if step < 12 {
                assert_eq!(rates.per_second(&"a"), 0, "that is too early to tell");
            }
            if step == 39 {
                assert_eq!(rates.per_second(&"a"), 1000);
            }
        }
        let rate = rates.per_second(&"a");
        assert!((3900..=4000).contains(&rate), "{rate}");
        assert!(rates.counts["a"].len() <= 22, "{}", rates.counts["a"].len());
        for step in 80..130 {
            rates.note(after(start, step * 250), [("a", count)]);
        }
        assert_eq!(rates.per_second(&"a"), 0, "it has stopped");
        rates.note(after(start, 40_000), [("b", 1)]);
        assert_eq!(rates.counts.len(), 1, "who is gone is forgotten");
    }

    #[test]
    fn a_count_that_falls_begins_anew() {
        let start = Instant::now();
        let mut rates = Rates::default();
        rates.note(start, [(1, 9000)]);
        rates.note(after(start, 2000), [(1, 100)]);
        assert_eq!(rates.per_second(&1), 0);
        rates.note(after(start, 6000), [(1, 500)]);
        assert_eq!(rates.per_second(&1), 100);
    }

    #[test]
    fn how_long_a_count_rested_says_nothing_of_how_fast_it_rises() {
        let start = Instant::now();
        let mut rates = Rates::default();
        let mut note = |seconds: u64, count| {
            rates.note(after(start, seconds * 1000), [(1, count)]);
            rates.per_second(&1)
        };
        for second in 0..60 {
            assert_eq!(note(second, 7000), 0);
        }
        for second in 60..62 {
            assert_eq!(note(second, 7000 + (second - 59) * 1000), 0, "too early");
        }
        assert_eq!(note(62, 10_000), 1000, "as fast as it is");
        // A pause within what is looked at is a part of the rate.
        assert_eq!(note(65, 10_000), 500);
        assert_eq!(note(68, 13_000), 666);
    }
}
