//! What lasts, as the log has it: told when it begins and when it becomes another trouble, then once a minute with
//! how long it lasts, and once when it is over.
//!
//! It refuses to keep what is told: that is its user's.
//!
//! Invariants:
//! - however often something comes and goes, each kind of it is told at most once in [`EACH`], and its end once after that;
//! - however many kinds there are, at most one line in [`CHANGE_MIN`] is told before the end;
//! - what was told last becomes true: a kind that was told too recently is told later, if it lasts and is heard of; an end
//!   is told where something was told of which it is the end.

use std::time::{Duration, Instant};

/// Between two lines of the same.
const EACH: Duration = Duration::from_secs(60);
/// Between two lines at all: what comes and goes several times a second is not news each time.
const CHANGE_MIN: Duration = Duration::from_secs(5);

/// Something that may last; `K` is what makes it another one.
#[derive(Debug)]
pub(crate) struct Lasting<K> {
    now: Option<Bout<K>>,
    /// What was told in the last [`EACH`], and when.
    told: Vec<(K, Instant)>,
    /// Whether something was told whose end was not.
    end_is_due: bool,
}

#[derive(Debug)]
struct Bout<K> {
    since: Instant,
    /// What was last told of it.
    told: Option<K>,
}

/// What is to be told of what lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tell {
    /// It has begun, or is another one.
    News,
    /// It has lasted for so long.
    Still(Duration),
}

impl<K: PartialEq + Clone> Lasting<K> {
    /// Nothing lasts.
    pub(crate) const fn new() -> Self {
        Self {
            now: None,
            told: Vec::new(),
            end_is_due: false,
        }
    }

    /// It is so now. What is to be told, if it is time for that.
    pub(crate) fn goes_on(&mut self, now: Instant, what: K) -> Option<Tell> {
        let bout = self.now.get_or_insert(Bout {
            since: now,
            told: None,
        });
        let ago = |at: Instant| now.saturating_duration_since(at);
        self.told.retain(|(_, at)| ago(*at) < EACH);
        let is_soon = |(told, at): &(K, Instant)| *told == what || ago(*at) < CHANGE_MIN;
        if self.told.iter().any(is_soon) {
            return None;
        }
        self.told.push((what.clone(), now));
        self.end_is_due = true;
        let is_news = bout.told.as_ref() != Some(&what);
        bout.told = Some(what);
        Some(if is_news {
            Tell::News
        } else {
            Tell::Still(ago(bout.since))
        })
    }

    /// It is over. For how long it lasted, if it was told.
    pub(crate) fn over(&mut self, now: Instant) -> Option<Duration> {
        let bout = self.now.take()?;
        let is_due = std::mem::take(&mut self.end_is_due);
        is_due.then(|| now.saturating_duration_since(bout.since))
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
        assert_eq!(lasting.goes_on(at(start, 180_000), ()), Some(Tell::News));
    }

    /// It comes and goes: each time that would be two lines.
    #[test]
    fn what_comes_and_goes_is_told_once_a_minute() {
        let start = Instant::now();
        let mut lasting = Lasting::new();
        let mut told = Vec::new();
        // Five seconds each way, for three minutes, and it stays.
        for second in 0..240 {
            let now = at(start, second * 1000);
            if second < 180 && second / 5 % 2 == 1 {
                told.extend(lasting.over(now).map(|_| (second, "over")));
            } else if let Some(tell) = lasting.goes_on(now, ()) {
                assert_eq!(tell, Tell::News, "each time is another one");
                told.push((second, "begins"));
            }
        }
        assert_eq!(
            told,
            [
                (0, "begins"),
                (5, "over"),
                (60, "begins"),
                (65, "over"),
                (120, "begins"),
                (125, "over"),
                (180, "begins")
            ]
        );
    }

    /// A member that is now silent, now without a leader.
    #[test]
    fn two_kinds_that_take_turns_are_each_told_once_a_minute() {
        let start = Instant::now();
        let mut lasting = Lasting::new();
        let mut told = [0, 0];
        for second in 0..600 {
            let kind = second / 7 % 2;
            if lasting
                .goes_on(at(start, second as u64 * 1000), kind)
                .is_some()
            {
                told[kind] += 1;
            }
        }
        assert!(
            told.iter().all(|lines| (9..=10).contains(lines)),
            "{told:?}"
        );
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
