//! What lasts, as the log has it: told when it begins and when it becomes another trouble, then once a minute with
//! how long it lasts, and once when it is over.
//!
//! It refuses to keep what is told: that is its user's.
//!
//! Invariant: however often it is heard of, at most one line in [`CHANGE_MIN`] is told before its end.

use std::time::{Duration, Instant};

/// Between two lines of the same.
const EACH: Duration = Duration::from_secs(60);
/// Between two lines at all: what comes and goes several times a second is not news each time.
const CHANGE_MIN: Duration = Duration::from_secs(5);

/// Something that may last; `K` is what makes it another one.
#[derive(Debug)]
pub(crate) struct Lasting<K> {
    told: Option<Told<K>>,
}

#[derive(Debug)]
struct Told<K> {
    what: K,
    since: Instant,
    at: Instant,
}

/// What is to be told of what lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tell {
    /// It has begun, or is another one.
    News,
    /// It has lasted for so long.
    Still(Duration),
}

impl<K: PartialEq> Lasting<K> {
    /// Nothing lasts.
    pub(crate) const fn new() -> Self {
        Self { told: None }
    }

    /// It is so now. What is to be told, if it is time for that.
    pub(crate) fn goes_on(&mut self, now: Instant, what: K) -> Option<Tell> {
        let Some(told) = &mut self.told else {
            let (since, at) = (now, now);
            self.told = Some(Told { what, since, at });
            return Some(Tell::News);
        };
        let ago = now.saturating_duration_since(told.at);
        if told.what != what {
            if ago < CHANGE_MIN {
                return None;
            }
            (told.what, told.at) = (what, now);
            return Some(Tell::News);
        }
        if ago < EACH {
            return None;
        }
        told.at = now;
        Some(Tell::Still(now.saturating_duration_since(told.since)))
    }

    /// It is over. For how long it lasted, if it was told.
    pub(crate) fn over(&mut self, now: Instant) -> Option<Duration> {
        let told = self.told.take()?;
        Some(now.saturating_duration_since(told.since))
    }
}

/// A time as people read it, rounded down.
pub(crate) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {} min", minutes % 60),
        (days, hours, _) => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: Instant, millis: u64) -> Instant {
        start + Duration::from_millis(millis)
    }

    #[test]
    fn it_is_told_when_it_begins_each_minute_and_when_it_is_over() {
        let start = Instant::now();
        let mut lasting = Lasting::new();
        assert_eq!(lasting.over(start), None);
        let mut told = Vec::new();
        // Heard of four times a second, for two and a half minutes.
        for turn in 0..600 {
            if let Some(tell) = lasting.goes_on(at(start, turn * 250), ()) {
                told.push((turn / 4, tell));
            }
        }
        let still = |seconds| Tell::Still(Duration::from_secs(seconds));
        assert_eq!(told, [(0, Tell::News), (60, still(60)), (120, still(120))]);
        let end = at(start, 150_000);
        assert_eq!(lasting.over(end), Some(Duration::from_secs(150)));
        assert_eq!(lasting.over(end), None, "the end is told once");
        assert_eq!(lasting.goes_on(end, ()), Some(Tell::News));
    }

    #[test]
    fn another_trouble_is_news_but_not_several_times_a_second() {
        let start = Instant::now();
        let mut lasting = Lasting::new();
        let mut told = Vec::new();
        // Two that take turns for ten seconds, then the second alone.
        for turn in 0..80 {
            let what = if turn < 40 { turn % 2 } else { 1 };
            if lasting.goes_on(at(start, turn * 250), what).is_some() {
                told.push((turn * 250, what));
            }
        }
        assert_eq!(told, [(0, 0), (5250, 1)]);
        let since = lasting.over(at(start, 20_000));
        assert_eq!(since, Some(Duration::from_secs(20)), "from the first on");
    }

    #[test]
    fn times_are_short() {
        for (seconds, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (3599, "59 min"),
            (3660, "1 h 1 min"),
            (90_000, "1 d 1 h"),
        ] {
            assert_eq!(span(Duration::from_secs(seconds)), text);
        }
    }
}
