//! Many seeds, on several cores, and what they came to.
//!
//! Invariants:
//! - a summary is of all seeds from its first to before its next, whoever ran them and in whatever
//!   order they ended: so it can be kept, and gone on from;
//! - the same seeds give the same summary, but for the time that they took.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::coverage::Coverage;
use crate::failure::Failed;
use crate::profile::Profile;
use crate::run::{Report, run};
use crate::tally::Tally;
use crate::trace::Trace;

/// Which seeds are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Campaign {
    /// The profile.
    pub profile: Profile,
    /// The first seed.
    pub first: u64,
    /// The one after the last.
    pub end: u64,
    /// How many are run at a time.
    pub jobs: usize,
    /// Whether the first that fails is the last.
    pub stop: bool,
}

/// Failures that a summary tells of in full; of the others it keeps the seeds.
const TOLD_MAX: usize = 100;
/// Seeds that may have ended while an earlier one has not, for each job: one that takes long does not
/// stop the others, nor are there results without end.
const AHEAD_MAX: u64 = 256;

/// How long a job waits for an earlier seed, before it looks again.
const PAUSE: Duration = Duration::from_millis(5);

/// What seeds came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// The profile.
    pub profile: Profile,
    /// The first seed.
    pub first: u64,
    /// The one after the last that is counted here.
    pub next: u64,
    /// How many passed.
    pub passed: u64,
    /// Those that failed, and why.
    pub failed: BTreeMap<u64, String>,
    /// Things that happened.
    pub steps: u64,
    /// Commands of hosts that were done.
    pub commands: u64,
    /// How often they were repeated.
    pub repeated: u64,
    /// What engines told of.
    pub tally: Tally,
    /// What was reached.
    pub coverage: Coverage,
}

impl Summary {
    /// Of no seed yet.
    #[must_use]
    pub fn new(profile: Profile, first: u64) -> Self {
        Self {
            profile,
            first,
            next: first,
            passed: 0,
            failed: BTreeMap::new(),
            steps: 0,
            commands: 0,
            repeated: 0,
            tally: Tally::default(),
            coverage: Coverage::default(),
        }
    }

    /// Seeds that are counted here.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.next - self.first
    }

    fn add(&mut self, result: &Result<Report, Failed>) {
        match result {
            Ok(report) => {
                self.passed += 1;
                self.steps += report.steps;
                self.commands += report.hosts.done;
                self.repeated += report.hosts.repeated;
                self.tally.add(&report.tally);
                self.coverage.merge(&report.coverage);
            }
            Err(failed) => {
                let what = if self.failed.len() < TOLD_MAX {
                    failed.failure.to_string()
                } else {
                    String::new()
                };
                self.failed.insert(self.next, what);
            }
        }
        self.next += 1;
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            commands,
            repeated,
            tally,
            ..
        } = self;
        write!(
            formatter,
            "{commands} commands, {repeated} of them repeated; {tally}"
        )
    }
}

/// Runs the seeds of a campaign that are not in `summary` yet. After each, in their order, `ended` is
/// told, with the summary that counts it; it may end the campaign.
pub fn go(
    campaign: &Campaign,
    summary: &mut Summary,
    mut ended: impl FnMut(&Summary, u64, &Result<Report, Failed>) -> ControlFlow<()>,
) {
    // Both count from here: the last seed is the last number that there is.
    let start = summary.next;
    let count = campaign.end.saturating_sub(start);
    let (counted, drawn) = (AtomicU64::new(0), AtomicU64::new(0));
    let over = AtomicBool::new(false);
    let ahead = AHEAD_MAX * campaign.jobs as u64;
    std::thread::scope(|scope| {
        let (sender, results) = mpsc::channel();
        for _ in 0..campaign.jobs {
            let sender = sender.clone();
            scope.spawn(|| {
                let sender = sender;
                while !over.load(Ordering::Relaxed) {
                    if drawn.load(Ordering::Relaxed) >= counted.load(Ordering::Relaxed) + ahead {
                        std::thread::sleep(PAUSE);
                        continue;
                    }
                    let number = drawn.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    let seed = start + number;
                    let result = run(campaign.profile, seed, Trace::Off);
                    if sender.send((seed, result)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut waiting = BTreeMap::new();
        'results: for (seed, result) in &results {
            waiting.insert(seed, result);
            while let Some(result) = waiting.remove(&summary.next) {
                let seed = summary.next;
                summary.add(&result);
                counted.store(summary.next - start, Ordering::Relaxed);
                let stops = campaign.stop && result.is_err();
                if ended(summary, seed, &result).is_break() || stops {
                    break 'results;
                }
            }
        }
        over.store(true, Ordering::Relaxed);
        // Whoever is still at work finds nobody who listens.
        drop(results);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(first: u64, end: u64, jobs: usize) -> Summary {
        let campaign = Campaign {
            profile: Profile::Short,
            first,
            end,
            jobs,
            stop: false,
        };
        let mut summary = Summary::new(Profile::Short, first);
        go(&campaign, &mut summary, |_, _, _| ControlFlow::Continue(()));
        summary
    }

    #[test]
    fn it_comes_to_the_same_in_parts_and_on_several_cores() {
        let whole = summary(3, 9, 1);
        assert_eq!(whole.passed, 6, "{:?}", whole.failed);
        assert_eq!(summary(3, 9, 3), whole);
        let campaign = Campaign {
            profile: Profile::Short,
            first: 3,
            end: 9,
            jobs: 2,
            stop: false,
        };
        let mut parts = Summary::new(Profile::Short, 3);
        go(&campaign, &mut parts, |so_far, _, _| {
            if so_far.next < 6 {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        assert_eq!(parts.next, 6);
        let text = serde_json::to_string(&parts).expect("a summary is JSON");
        let mut parts: Summary = serde_json::from_str(&text).expect("and can be read back");
        go(&campaign, &mut parts, |_, _, _| ControlFlow::Continue(()));
        assert_eq!(parts, whole);
    }
}
