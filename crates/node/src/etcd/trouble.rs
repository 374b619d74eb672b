//! What the log has of an etcd that does not run on: that it ended, or could not be started.
//!
//! Invariant: one that fails again and again has a line when that begins, one each minute, and one when it has run
//! for long enough; one that runs for that long each time, and no longer, has no more.

use std::fmt::Display;
use std::mem;
use std::time::Instant;

use crate::lasting::{Lasting, Tell, span};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ended,
    NotStarted,
}

/// What has gone wrong since etcd last ran for long enough.
#[derive(Debug)]
pub(super) struct Trouble {
    lasting: Lasting<Kind>,
    count: u32,
    /// Whether the last time was told, or there was none.
    is_told: bool,
}

impl Trouble {
    pub(super) const fn new() -> Self {
        Self {
            lasting: Lasting::new(),
            count: 0,
            is_told: true,
        }
    }

    /// It has ended. What is to be told of that.
    pub(super) fn ended(&mut self, now: Instant, how: &str) -> Option<String> {
        let times = self.again(now, Kind::Ended)?;
        Some(format!("etcd {how}; it is started again{times}"))
    }

    /// It cannot be started. What is to be told of that.
    pub(super) fn not_started(&mut self, now: Instant, why: &impl Display) -> Option<String> {
        let times = self.again(now, Kind::NotStarted)?;
        Some(format!("start etcd: {why}; it is tried again{times}"))
    }

    /// Whether it is told that etcd is started: not each time.
    pub(super) fn tells_starts(&self) -> bool {
        self.is_told && self.count <= 1
    }

    /// It has run for long enough, as this process. What is to be told of that.
    pub(super) fn over(&mut self, now: Instant, pid: u32) -> Option<String> {
        let count = mem::take(&mut self.count);
        let time = span(self.lasting.over(now)?);
        // After one end, its start has been told.
        (count > 1).then(|| {
            format!("etcd runs on as process {pid}, after {count} attempts that failed in {time}")
        })
    }

    /// How often it has happened, where that is to be told.
    fn again(&mut self, now: Instant, kind: Kind) -> Option<String> {
        self.count = self.count.saturating_add(1);
        let told = self.lasting.goes_on(now, kind);
        self.is_told = told.is_some();
        Some(match told? {
            Tell::News => String::new(),
            Tell::Still(time) => format!(" (failed {} times in {})", self.count, span(time)),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn one_that_ends_again_and_again_is_told_once_a_minute() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut trouble = Trouble::new();
        let mut lines = Vec::new();
        for turn in 0..13 {
            lines.extend(trouble.ended(after(turn * 10), "ended: exit status: 1"));
            assert_eq!(trouble.tells_starts(), turn == 0);
        }
        let again = "etcd ended: exit status: 1; it is started again";
        let expected = [
            again.to_owned(),
            format!("{again} (failed 7 times in 1 min)"),
            format!("{again} (failed 13 times in 2 min)"),
        ];
        assert_eq!(lines, expected);
        let over = trouble.over(after(150), 7).unwrap();
        assert!(over.contains("process 7, after 13 attempts"), "{over}");
        // Each time it runs for long enough, and ends.
        let mut lines = Vec::new();
        for turn in 0..10 {
            let begun = 200 + turn * 35;
            lines.extend(trouble.ended(after(begun), "ended: exit status: 1"));
            if trouble.tells_starts() {
                lines.push(format!("started at {begun}"));
            }
            lines.extend(trouble.over(after(begun + 30), 7));
        }
        assert_eq!(lines.len(), 10, "an end and a start each 70 s: {lines:?}");
        let after = |seconds: u64| after(seconds + 400);
        // A single end has its line, and its start; that it runs on then is no news.
        assert!(trouble.ended(after(200), "ended: signal: 9").is_some());
        assert!(trouble.tells_starts());
        assert_eq!(trouble.over(after(230), 8), None);
        let refused = trouble.not_started(after(240), &"no such file");
        assert_eq!(
            refused.unwrap(),
            "start etcd: no such file; it is tried again"
        );
    }
}
