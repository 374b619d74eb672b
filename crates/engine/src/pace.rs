//! How fast this node works in the background: brings replicas up to date, scrubs, and puts into pages what is
//! in the journal. Hosts come first. While
//! they want something, background work gets as many bytes a second as leave their commands about as
//! fast as they are without it, and never fewer than a floor, so that it always ends. While they want
//! nothing it is held by nothing here.
//!
//! What hosts' commands take without background work, and how many end, is measured: from time to time it
//! pauses for a moment. The rate then follows what they take with it, and how many end: it doubles at first,
//! is cut by a third whenever they have become too slow or too few, and grows by a tenth otherwise. That
//! fewer end tells of what commands wait for outside this node's sight: for a core, in a queue, at the host.
//! Work begins in bursts: what begins together shares wake-ups, messages and flushes. Destage has as much as
//! all other work together: a round of it is large, and would leave copies of single blocks next to nothing.
//!
//! It refuses to know what the work is, how much of it is under way at a time, and what cannot wait: destage
//! asks nobody once it needs the room.
//!
//! Invariants:
//! - over any second that hosts want something, destage may begin at least the floor's bytes in whole pages, and other work
//!   as many, less those of the pauses;
//! - whoever was told to wait is told when to ask again.

use holdfast_model::PAGE_SIZE;
use holdfast_model::record::SettingsRecord;
use holdfast_stdx::{Duration, Instant};

/// How long commands are looked at before the rate is decided anew, at least.
const INTERVAL: Duration = Duration::from_millis(100);
/// Commands that an interval needs to say anything; it goes on until it has them, for a while.
const SAMPLES_MIN: u64 = 64;
const INTERVAL_MAX: Duration = Duration::from_secs(1);
/// Without a command for so long hosts want nothing.
const IDLE_AFTER: Duration = Duration::from_millis(300);
/// Between two pauses.
const PAUSE_EVERY: Duration = Duration::from_secs(3);
/// A pause: first what is under way ends, then commands are measured.
const DRAIN: Duration = Duration::from_millis(30);
const PAUSE: Duration = Duration::from_millis(130);
/// What was asked for without background work for so long says what commands take without it.
const QUIET_AFTER: Duration = Duration::from_millis(200);
/// As much begins at once as the rate gives in this part of a second.
const BURSTS_PER_SECOND: u64 = 50;
/// Work waits for so long at least before it asks again.
const WAIT_MIN: Duration = Duration::from_millis(1);
/// More than any machine does.
const RATE_MAX: u64 = 1 << 36;
/// A command counts as taking at most so many times what is usual: one that was stuck says nothing of
/// the rate.
const OUTLIER: u64 = 8;

/// What an operator may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// By how much commands may become slower, in percent.
    pub(crate) slowdown_percent: u32,
    /// Bytes a second that background work gets in any case.
    pub(crate) floor: u64,
}

impl Bounds {
    pub(crate) fn of(settings: &SettingsRecord) -> Self {
        Self {
            slowdown_percent: settings.background_slowdown_percent,
            floor: settings.background_floor,
        }
    }
}

/// What hosts' commands are, as far as they can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A read that is done here.
    Read,
    /// A write of a slice that is led here.
    Write,
    /// An entry, whoever leads: until it is durable here.
    Append,
}

const CLASSES: usize = 3;

/// What is to be done in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// To put into pages what is in the journal.
    Destage,
    /// Everything else: to copy, to compare.
    Other,
}

const WORKS: usize = 2;

impl Work {
    /// What an operation costs beside its bytes. A round of destage shares its flushes. To copy a few blocks of a page, which is reads,
    /// writes and messages, takes almost as much of the processors as to copy all of it (decision 0025).
    const fn operation_bytes(self) -> u64 {
        match self {
            Self::Destage => 16 << 10,
            Self::Other => 96 << 10,
        }
    }

    /// What operations cost of the rate: their bytes if each is of a whole page, and more if they are smaller.
    fn cost(self, operations: u64, bytes: u64) -> u64 {
        const PAGE: u64 = PAGE_SIZE as u64;
        let each = self.operation_bytes();
        let bytes = bytes.saturating_add(operations.saturating_mul(each));
        let cost = u128::from(bytes) * u128::from(PAGE) / u128::from(PAGE + each);
        u64::try_from(cost).unwrap_or(u64::MAX)
    }
}

/// Commands of one class in an interval.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: u64,
    nanos: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Work goes on until the next pause.
    Open { until: Instant },
    /// What is under way ends.
    Draining { until: Instant },
    /// Commands are measured without it.
    Quiet { until: Instant },
}

/// What may begin of one kind of work.
#[derive(Clone, Copy, Debug)]
struct Budget {
    /// Below zero after more began than there was.
    bytes: i64,
    filled: Instant,
    /// A burst has begun: it goes on until nothing is left. Else the budget grows until it is one.
    bursts: bool,
}

impl Budget {
    fn new(now: Instant) -> Self {
        Self {
            bytes: 0,
            filled: now,
            bursts: false,
        }
    }

    /// Adds what `rate` has given since the last time, up to two bursts: whoever is told late loses nothing of one.
    fn fill(&mut self, now: Instant, rate: u64) {
        let nanos = now.since(self.filled).as_nanos();
        let earned = u128::from(rate) * nanos / 1_000_000_000;
        if earned == 0 {
            return;
        }
        self.filled = now;
        let earned = i64::try_from(earned).unwrap_or(i64::MAX);
        self.bytes = self.bytes.saturating_add(earned).min(2 * burst(rate));
    }

    /// Whether something may begin.
    fn may(&mut self, now: Instant, rate: u64) -> bool {
        self.fill(now, rate);
        self.bursts = self.bytes > 0 && (self.bursts || self.bytes >= burst(rate));
        self.bursts
    }

    fn spend(&mut self, cost: u64, rate: u64) {
        self.bytes = self.bytes.saturating_sub_unsigned(cost);
        // An hour's debt would be a stop.
        let debt_max = -i64::try_from(rate).unwrap_or(i64::MAX);
        self.bytes = self.bytes.max(debt_max);
    }

    /// Until there is a burst.
    fn lacks(&self, rate: u64) -> Duration {
        let lacking = u64::try_from(burst(rate) - self.bytes).unwrap_or(0);
        let nanos = u128::from(lacking) * 1_000_000_000 / u128::from(rate.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX / 2))
    }
}

/// Bytes that begin together, 1 at least.
fn burst(rate: u64) -> i64 {
    i64::try_from(rate / BURSTS_PER_SECOND).map_or(i64::MAX, |burst| burst.max(1))
}

/// Decides how fast.
#[derive(Debug)]
pub(crate) struct Pace {
    bounds: Bounds,
    /// Bytes a second, of each kind of work.
    rate: u64,
    /// The rate has not been too high yet since hosts began to want something.
    doubles: bool,
    /// By kind of work.
    budgets: [Budget; WORKS],
    phase: Phase,
    /// Of the interval, by class.
    sums: [Sum; CLASSES],
    began: Instant,
    /// What a command of a class takes without background work, once known, in nanoseconds.
    usual: [Option<u64>; CLASSES],
    /// How many commands are under way at a time without background work, once known, in thousandths: those
    /// that end in a second, by what they usually take.
    load: Option<u64>,
    last_command: Option<Instant>,
    last_work: Option<Instant>,
    /// Somebody had to wait in this interval.
    denied: bool,
    /// Somebody waits now, and is told then.
    wake: Option<Instant>,
}

impl Pace {
    pub(crate) fn new(now: Instant, bounds: Bounds) -> Self {
        Self {
            bounds,
            rate: bounds.floor,
            doubles: true,
            budgets: [Budget::new(now); WORKS],
            phase: Phase::Open {
                until: now + PAUSE_EVERY,
            },
            sums: Default::default(),
            began: now,
            usual: [None; CLASSES],
            load: None,
            last_command: None,
            last_work: None,
            denied: false,
            wake: None,
        }
    }

    pub(crate) fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
        self.rate = self.rate.max(bounds.floor);
    }

    /// A host's command has ended, or a part of one, after so long.
    pub(crate) fn command(&mut self, now: Instant, class: Class, took: Duration) {
        if self.is_idle(now) {
            // Whatever was found out before, hosts now want something else.
            self.rate = self.bounds.floor;
            self.doubles = true;
            self.begin_interval(now);
            self.budgets = [Budget::new(now); WORKS];
        }
        self.last_command = Some(now);
        if took == Duration::ZERO {
            // It ended in the turn in which it began: memory had it, and says nothing of the disks.
            return self.look(now);
        }
        let usual = self.usual[class as usize];
        let most = usual.map_or(u64::MAX, |usual| usual.saturating_mul(OUTLIER));
        let sum = &mut self.sums[class as usize];
        sum.count += 1;
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        sum.nanos = sum.nanos.saturating_add(nanos.min(most));
        self.look(now);
    }

    /// Whether work of so many bytes may begin that is not destage. If so it counts; else it is to be asked
    /// again at the [`next_timeout`](Self::next_timeout).
    pub(crate) fn may_begin(&mut self, now: Instant, bytes: u64) -> bool {
        let may = self.may(now, Work::Other);
        if may {
            self.began(now, Work::Other, 1, bytes);
        }
        may
    }

    /// Whether work may begin of which nobody knows yet how much it is. If so it is to be
    /// [told](Self::began).
    pub(crate) fn may(&mut self, now: Instant, work: Work) -> bool {
        self.look(now);
        let has_budget = self.budgets[work as usize].may(now, self.rate);
        let may = self.is_idle(now) || has_budget && matches!(self.phase, Phase::Open { .. });
        if !may {
            self.denied = true;
            // Whoever asks often must not put off those who rely on being told.
            let chance = self.next_chance(now, work);
            self.wake = Some(self.wake.map_or(chance, |wake| wake.min(chance)));
        }
        may
    }

    /// Work of so many bytes, in so many operations, begins.
    pub(crate) fn began(&mut self, now: Instant, work: Work, operations: u64, bytes: u64) {
        self.last_work = Some(now);
        self.budgets[work as usize].spend(work.cost(operations, bytes), self.rate);
    }

    /// When whoever had to wait is to ask again.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.wake
    }

    /// Whether whoever waits is to ask again now. Says so once.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        self.wake.take_if(|wake| *wake <= now).is_some()
    }

    /// Bytes a second that each kind of background work is held to; none while it is held to nothing.
    pub(crate) fn rate(&self, now: Instant) -> Option<u64> {
        (!self.is_idle(now)).then_some(self.rate)
    }

    fn is_idle(&self, now: Instant) -> bool {
        self.last_command
            .is_none_or(|last| now.since(last) > IDLE_AFTER)
    }

    /// When there may be something left again.
    fn next_chance(&self, now: Instant, work: Work) -> Instant {
        let open = match self.phase {
            Phase::Open { .. } => now,
            Phase::Draining { until } => until + (PAUSE - DRAIN),
            Phase::Quiet { until } => until,
        };
        let lacks = self.budgets[work as usize].lacks(self.rate);
        open.max(now + lacks).max(now + WAIT_MIN)
    }

    fn begin_interval(&mut self, now: Instant) {
        self.sums = Default::default();
        self.began = now;
        self.denied = false;
    }

    /// Whether commands are as they are without background work.
    fn is_quiet(&self, now: Instant) -> bool {
        let worked = self.last_work;
        matches!(self.phase, Phase::Quiet { .. })
            || worked.is_none_or(|last| now.since(last) > QUIET_AFTER)
    }

    /// Goes from phase to phase, and decides where an interval is over.
    fn look(&mut self, now: Instant) {
        match self.phase {
            Phase::Open { until } if until <= now => {
                if self.is_idle(now) || self.is_quiet(now) {
                    self.phase = Phase::Open {
                        until: now + PAUSE_EVERY,
                    };
                } else {
                    self.phase = Phase::Draining { until: now + DRAIN };
                }
            }
            Phase::Draining { until } if until <= now => {
                self.phase = Phase::Quiet {
                    until: now + (PAUSE - DRAIN),
                };
                self.begin_interval(now);
            }
            Phase::Quiet { until } if until <= now => {
                self.measure(now);
                self.phase = Phase::Open {
                    until: now + PAUSE_EVERY,
                };
                self.begin_interval(now);
            }
            _ => {}
        }
        let length = now.since(self.began);
        let count: u64 = self.sums.iter().map(|sum| sum.count).sum();
        let enough = count >= SAMPLES_MIN || (count > 0 && length >= INTERVAL_MAX);
        if length < INTERVAL || !enough || !matches!(self.phase, Phase::Open { .. }) {
            return;
        }
        if self.is_quiet(now) {
            self.measure(now);
        } else {
            self.decide(now);
        }
        self.begin_interval(now);
    }

    /// Takes what commands took in the interval, and how many were under way, for usual, by a quarter. Of much
    /// fewer all is taken: hosts want less than before.
    fn measure(&mut self, now: Instant) {
        for (usual, sum) in self.usual.iter_mut().zip(&self.sums) {
            let Some(mean) = sum.nanos.checked_div(sum.count) else {
                continue;
            };
            *usual = Some(match *usual {
                Some(before) => before - before / 4 + mean / 4,
                None => mean.max(1),
            });
        }
        let (_, usually) = self.interval();
        let nanos = now.since(self.began).as_nanos();
        let load = (usually * 1000).checked_div(nanos).unwrap_or(0);
        let load = u64::try_from(load).unwrap_or(u64::MAX);
        self.load = Some(match self.load {
            Some(before) if load > before / 4 * 3 => before - before / 4 + load / 4,
            _ => load,
        });
    }

    /// What the interval's commands took in all, and what they usually take, in nanoseconds.
    fn interval(&self) -> (u128, u128) {
        let (mut took, mut usually) = (0, 0);
        for (usual, sum) in self.usual.iter().zip(&self.sums) {
            if let Some(usual) = usual {
                took += u128::from(sum.nanos);
                usually += u128::from(*usual) * u128::from(sum.count);
            }
        }
        (took, usually)
    }

    fn decide(&mut self, now: Instant) {
        let (took, usually) = self.interval();
        if usually == 0 {
            return;
        }
        let most = usually * u128::from(100 + self.bounds.slowdown_percent) / 100;
        let nanos = now.since(self.began).as_nanos();
        let wanted = u128::from(self.load.unwrap_or(0)) * nanos / 1000;
        if took.max(wanted) > most {
            self.doubles = false;
            self.rate -= self.rate / 3;
        } else if self.denied && self.doubles {
            self.rate = self.rate.saturating_mul(2);
        } else if self.denied {
            self.rate += self.rate / 10;
        }
        self.rate = self.rate.clamp(self.bounds.floor, RATE_MAX);
    }
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;
