//! When a condition is worth waking somebody for, and when it is over: an alarm per subject, with a
//! value to set it, a lower one to clear it, and a time that either has to hold.
//!
//! It refuses to measure, to notify, and to know what time it is: whoever has values and a clock
//! brings both.
//!
//! Invariants:
//! - an alarm is raised only when its value was at the set value or above for the whole hold time,
//!   and cleared only when it was below the clear value for the whole hold time;
//! - between the two values nothing changes: a value that walks about one of them does not flap;
//! - a subject of which nothing was observed neither raises nor clears anything.

mod kind;
#[cfg(test)]
mod tests;

pub use kind::{AlarmKind, AlarmSeverity, AlarmText};

/// The value at which an alarm is set, the one below which it is cleared, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    set: u64,
    clear: u64,
    hold_ms: u64,
}

/// Why a threshold is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ThresholdError {
    /// Nothing is below zero, so that the alarm would never be cleared.
    #[error("the clear value is 0, below which no value is: give one from 1 on")]
    NeverClear,
    /// The alarm would be set and cleared by the same value.
    #[error("the clear value {clear} is above the set value {set}: give one that is not")]
    ClearAboveSet {
        /// The value that sets the alarm.
        set: u64,
        /// The value below which it is cleared.
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
    /// Sets at `set` or above, clears below `clear`, both in the unit of the value; either has to
    /// hold for `hold_ms` milliseconds, at most [`HOLD_MAX_MS`].
    ///
    /// # Errors
    /// [`ThresholdError`] if such an alarm could not be cleared, would flap, or would come too late.
    pub const fn new(set: u64, clear: u64, hold_ms: u64) -> Result<Self, ThresholdError> {
        if clear == 0 {
            return Err(ThresholdError::NeverClear);
        }
        if clear > set {
            return Err(ThresholdError::ClearAboveSet { set, clear });
        }
        if hold_ms > HOLD_MAX_MS {
            return Err(ThresholdError::HoldTooLong { hold_ms });
        }
        Ok(Self {
            set,
            clear,
            hold_ms,
        })
    }
}

/// Where the alarm of one subject is. Times are milliseconds of the caller's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AlarmState {
    /// Nothing is wrong.
    #[default]
    Clear,
    /// The value is at the set value or above, and has not been for long enough.
    Rising {
        /// Since when it is.
        since_ms: u64,
    },
    /// The alarm is raised.
    Raised {
        /// Since when the value was too high.
        since_ms: u64,
    },
    /// The alarm is raised, and the value is below the clear value, not yet for long enough.
    Falling {
        /// Since when the value was too high.
        since_ms: u64,
        /// Since when it is below the clear value.
        below_ms: u64,
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
            Self::Clear | Self::Rising { .. } if value < threshold.set => Self::Clear,
            Self::Clear => rising(now_ms, now_ms, threshold),
            Self::Rising { since_ms } => rising(since_ms, now_ms, threshold),
            Self::Raised { since_ms } | Self::Falling { since_ms, .. }
                if value >= threshold.clear =>
            {
                Self::Raised { since_ms }
            }
            Self::Raised { since_ms } => falling(since_ms, now_ms, now_ms, threshold),
            Self::Falling { since_ms, below_ms } => falling(since_ms, below_ms, now_ms, threshold),
        };
        match (was_raised, self.is_raised()) {
            (false, true) => Some(AlarmChange::Raised),
            (true, false) => Some(AlarmChange::Cleared),
            (false, false) | (true, true) => None,
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

const fn falling(since_ms: u64, below_ms: u64, now_ms: u64, threshold: Threshold) -> AlarmState {
    if now_ms.saturating_sub(below_ms) >= threshold.hold_ms {
        AlarmState::Clear
    } else {
        AlarmState::Falling { since_ms, below_ms }
    }
}
