//! When a condition is worth waking somebody for, and when it is over: an alarm per subject, with a
//! value to set it, a lower one to clear it, and a time that either has to hold.
//!
//! It refuses to measure, to notify, and to know what time it is: whoever has values and a clock
//! brings both.
//!
//! Invariants:
//! - an alarm is raised only when its value was as bad as the set value or worse for the whole hold
//!   time, and cleared only when it was better than the clear value for the whole hold time;
//! - between the two values nothing changes: a value that walks about one of them does not flap;
//! - a subject of which nothing could be seen neither raises nor clears anything.

mod book;
mod kind;
mod reference;
#[cfg(test)]
mod tests;

pub use book::{
    AlarmBook, CLEARED_MAX, CRITICAL_PLACES, Moment, Observation, Observations, RAISED_MAX,
    RECORD_BYTES_MAX, bound_alarms, default_rule, end_alone, forgotten_changes, raise_alone,
    rule_of, says_well,
};
pub use kind::{AlarmKind, AlarmSeverity, AlarmText, AlarmUnit};
pub use reference::alarm_reference;

/// Which values are bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// High ones.
    Rising,
    /// Low ones.
    Falling,
}

/// The value at which an alarm is set, the one beyond which it is cleared, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    direction: Direction,
    set: u64,
    clear: u64,
    hold_ms: u64,
}

/// Why a threshold is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ThresholdError {
    /// No value is better than that, so that the alarm would never be cleared.
    #[error(
        "no value is better than the clear value {0}, so that the alarm would never be cleared"
    )]
    NeverClear(u64),
    /// The alarm would be set and cleared by the same value.
    #[error("the clear value {clear} is worse than the set value {set}: give one that is not")]
    ClearWorseThanSet {
        /// The value that sets the alarm.
        set: u64,
        /// The value beyond which it is cleared.
        clear: u64,
    },
    /// The alarm would be told of long after it mattered.
    #[error("a hold time of {hold_ms} ms is too long: give {HOLD_MAX_MS} ms at most")]
    HoldTooLong {
        /// The time that was asked for, in milliseconds.
        hold_ms: u64,
    },
}

/// The longest time that a value has to hold, in milliseconds: a day. What is so for a day and was
/// not told is not an alarm but an audit.
pub const HOLD_MAX_MS: u64 = 24 * 60 * 60 * 1000;

impl Threshold {
    /// Sets at `set` or worse, clears at better than `clear`, both in the unit of the value; either has
    /// to hold for `hold_ms` milliseconds, at most [`HOLD_MAX_MS`].
    ///
    /// # Errors
    /// [`ThresholdError`] if such an alarm could not be cleared, would flap, or would come too late.
    pub const fn new(
        direction: Direction,
        set: u64,
        clear: u64,
        hold_ms: u64,
    ) -> Result<Self, ThresholdError> {
        let (best, is_worse) = match direction {
            Direction::Rising => (0, clear > set),
            Direction::Falling => (u64::MAX, clear < set),
        };
        if clear == best {
            return Err(ThresholdError::NeverClear(clear));
        }
        if is_worse {
            return Err(ThresholdError::ClearWorseThanSet { set, clear });
        }
        if hold_ms > HOLD_MAX_MS {
            return Err(ThresholdError::HoldTooLong { hold_ms });
        }
        Ok(Self {
            direction,
            set,
            clear,
            hold_ms,
        })
    }

    /// The value that sets the alarm.
    #[must_use]
    pub const fn set(self) -> u64 {
        self.set
    }

    /// The value beyond which it is cleared.
    #[must_use]
    pub const fn clear(self) -> u64 {
        self.clear
    }

    /// For how many milliseconds either has to hold.
    #[must_use]
    pub const fn hold_ms(self) -> u64 {
        self.hold_ms
    }

    const fn sets(self, value: u64) -> bool {
        match self.direction {
            Direction::Rising => value >= self.set,
            Direction::Falling => value <= self.set,
        }
    }

    const fn clears(self, value: u64) -> bool {
        match self.direction {
            Direction::Rising => value < self.clear,
            Direction::Falling => value > self.clear,
        }
    }
}

/// Where the alarm of one subject is. Times are milliseconds of the caller's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AlarmState {
    /// Nothing is wrong.
    #[default]
    Clear,
    /// The value is as bad as the set value, and has not been for long enough.
    Rising {
        /// Since when it is.
        since_ms: u64,
    },
    /// The alarm is raised.
    Raised {
        /// Since when the value was bad.
        since_ms: u64,
    },
    /// The alarm is raised, and the value is better than the clear value, not yet for long enough.
    Falling {
        /// Since when the value was bad.
        since_ms: u64,
        /// Since when it is.
        better_ms: u64,
    },
}

/// What an observation changed, to be told to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlarmChange {
    /// The alarm is raised now.
    Raised,
    /// The alarm is over now.
    Cleared,
}

impl AlarmState {
    /// Whether the alarm is raised.
    #[must_use]
    pub const fn is_raised(self) -> bool {
        matches!(self, Self::Raised { .. } | Self::Falling { .. })
    }

    /// Takes in that the value is `value` at `now_ms`. A clock that went back makes a hold time
    /// longer, never shorter.
    pub const fn observe(
        &mut self,
        now_ms: u64,
        value: u64,
        threshold: Threshold,
    ) -> Option<AlarmChange> {
        let was_raised = self.is_raised();
        *self = match *self {
            Self::Clear | Self::Rising { .. } if !threshold.sets(value) => Self::Clear,
            Self::Clear => rising(now_ms, now_ms, threshold),
            Self::Rising { since_ms } => rising(since_ms, now_ms, threshold),
            Self::Raised { since_ms } | Self::Falling { since_ms, .. }
                if !threshold.clears(value) =>
            {
                Self::Raised { since_ms }
            }
            Self::Raised { since_ms } => falling(since_ms, now_ms, now_ms, threshold),
            Self::Falling {
                since_ms,
                better_ms,
            } => falling(since_ms, better_ms, now_ms, threshold),
        };
        match (was_raised, self.is_raised()) {
            (false, true) => Some(AlarmChange::Raised),
            (true, false) => Some(AlarmChange::Cleared),
            (false, false) | (true, true) => None,
        }
    }

    /// Takes in that nobody knows the value: for how long it has been better counts anew when it is known again. For how long it has
    /// been bad goes on to count, so that what keeps coming and going is raised.
    pub const fn lose_sight(&mut self) {
        if let Self::Falling { since_ms, .. } = *self {
            *self = Self::Raised { since_ms };
        }
    }
}

const fn rising(since_ms: u64, now_ms: u64, threshold: Threshold) -> AlarmState {
    if now_ms.saturating_sub(since_ms) >= threshold.hold_ms {
        AlarmState::Raised { since_ms }
    } else {
        AlarmState::Rising { since_ms }
    }
}

const fn falling(since_ms: u64, better_ms: u64, now_ms: u64, threshold: Threshold) -> AlarmState {
    if now_ms.saturating_sub(better_ms) >= threshold.hold_ms {
        AlarmState::Clear
    } else {
        AlarmState::Falling {
            since_ms,
            better_ms,
        }
    }
}
