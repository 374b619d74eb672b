//! Whether the loop stays awake for what comes next, or falls asleep.
//!
//! To fall asleep and to be woken costs more than a read from memory, and the most of it whoever wakes: on a virtual processor that
//! is idle, an interrupt that leaves the guest. A host with one command under way sends the next before that is over.
//!
//! Invariants:
//! - it stays awake for [`AWAKE_MAX`] at a time, and only where nothing is under way that takes longer;
//! - each time in vain it takes more short waits, one after the other, until it stays awake again.

use std::time::Duration;

/// How long the loop stays awake for what may come.
pub(crate) const AWAKE_MAX: Duration = Duration::from_micros(50);
/// A wait asleep that took no longer would have been shorter awake: the waking is part of it, on both sides.
const SHORT_MAX: Duration = Duration::from_micros(100);
/// So many short waits, one after the other, are no chance.
const STREAK_MIN: u32 = 8;
/// At most so many are asked for: then being awake in vain costs hosts and others 12 ns a wait.
const STREAK_MAX: u32 = 4096;

/// How long waits have been of late.
#[derive(Debug)]
pub(crate) struct Attention {
    /// Short waits since the last that was not.
    streak: u32,
    /// How many it takes to stay awake.
    needed: u32,
}

impl Attention {
    pub(crate) const fn new() -> Self {
        Self {
            streak: 0,
            needed: STREAK_MIN,
        }
    }

    /// Whether to stay awake in the next wait.
    pub(crate) const fn stays_awake(&self) -> bool {
        self.streak >= self.needed
    }

    /// Devices are at work: what comes next is theirs, and worth a sleep.
    pub(crate) const fn is_for_devices(&mut self) {
        self.streak = 0;
    }

    /// Something has come, after that time.
    pub(crate) fn note(&mut self, waited: Duration) {
        let was_awake = self.stays_awake();
        if waited <= if was_awake { AWAKE_MAX } else { SHORT_MAX } {
            self.streak = self.streak.saturating_add(1);
            if was_awake && self.streak.is_multiple_of(STREAK_MIN) {
                self.needed = (self.needed / 2).max(STREAK_MIN);
            }
        } else {
            self.streak = 0;
            if was_awake {
                self.needed = (self.needed * 2).min(STREAK_MAX);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_micros(20);
    const LONG: Duration = Duration::from_millis(1);

    /// How many short waits it takes.
    fn needed(attention: &mut Attention) -> u32 {
        let mut count = 0;
        while !attention.stays_awake() {
            attention.note(SHORT);
            count += 1;
            assert!(count <= STREAK_MAX, "it stays awake in the end");
        }
        count
    }

    #[test]
    fn it_stays_awake_where_waits_are_short_and_sleeps_where_one_was_not() {
        let mut attention = Attention::new();
        assert!(!attention.stays_awake());
        assert_eq!(needed(&mut attention), STREAK_MIN);
        attention.note(LONG);
        assert!(!attention.stays_awake());
        attention.note(LONG);
        assert_eq!(needed(&mut attention), 2 * STREAK_MIN, "once in vain");
        attention.is_for_devices();
        assert!(!attention.stays_awake());
        assert_eq!(needed(&mut attention), 2 * STREAK_MIN, "not in vain");
    }

    #[test]
    fn in_vain_it_is_more_and_more_seldom_and_forgets_that_where_it_is_of_use() {
        let mut attention = Attention::new();
        for _ in 0..20 {
            needed(&mut attention);
            attention.note(LONG);
        }
        assert_eq!(needed(&mut attention), STREAK_MAX);
        for _ in 0..16 * STREAK_MIN {
            attention.note(SHORT);
            assert!(attention.stays_awake());
        }
        attention.is_for_devices();
        assert_eq!(needed(&mut attention), STREAK_MIN);
    }
}
