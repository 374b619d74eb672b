//! Alarms over values that rise, fall, and walk about their thresholds.

use super::{AlarmChange, AlarmState, Direction, HOLD_MAX_MS, Threshold, ThresholdError};

use Direction::{Falling, Rising};

fn threshold() -> Threshold {
    Threshold::new(Rising, 85, 80, 1000).unwrap()
}

#[test]
fn is_raised_when_held_for_its_time_and_not_before() {
    let mut state = AlarmState::default();
    assert_eq!(state.observe(0, 85, threshold()), None);
    assert_eq!(state.observe(999, 90, threshold()), None);
    assert_eq!(
        state.observe(1000, 85, threshold()),
        Some(AlarmChange::Raised)
    );
    assert_eq!(state, AlarmState::Raised { since_ms: 0 });
    assert_eq!(state.observe(2000, 99, threshold()), None);
}

#[test]
fn a_dip_begins_the_time_anew() {
    let mut state = AlarmState::default();
    assert_eq!(state.observe(0, 85, threshold()), None);
    assert_eq!(state.observe(500, 84, threshold()), None);
    assert_eq!(state.observe(1000, 85, threshold()), None);
    assert_eq!(state, AlarmState::Rising { since_ms: 1000 });
}

#[test]
fn is_cleared_below_the_clear_value_for_its_time_only() {
    let mut state = AlarmState::Raised { since_ms: 0 };
    assert_eq!(state.observe(5000, 80, threshold()), None);
    assert_eq!(state, AlarmState::Raised { since_ms: 0 });
    assert_eq!(state.observe(6000, 79, threshold()), None);
    assert!(state.is_raised());
    // Not below any more: the time begins anew.
    assert_eq!(state.observe(6500, 81, threshold()), None);
    assert_eq!(state.observe(7000, 79, threshold()), None);
    assert_eq!(state.observe(7999, 79, threshold()), None);
    assert_eq!(
        state.observe(8000, 0, threshold()),
        Some(AlarmChange::Cleared)
    );
    assert_eq!(state, AlarmState::Clear);
}

#[test]
fn a_value_that_walks_about_a_threshold_does_not_flap() {
    let mut state = AlarmState::default();
    let mut changes = 0;
    // Up over the set value, then a long walk from 80 to 86 and back, of two seconds a step.
    for step in 0..1000_u64 {
        let walk = step % 12;
        let value = 80 + walk.min(12 - walk);
        changes += usize::from(state.observe(step * 2000, value, threshold()).is_some());
    }
    assert_eq!(changes, 1);
    assert!(state.is_raised());
}

#[test]
fn without_a_hold_time_the_first_value_counts() {
    let at_once = Threshold::new(Rising, 1, 1, 0).unwrap();
    let mut state = AlarmState::default();
    assert_eq!(state.observe(7, 1, at_once), Some(AlarmChange::Raised));
    assert_eq!(state.observe(8, 0, at_once), Some(AlarmChange::Cleared));
}

#[test]
fn a_clock_that_goes_back_raises_nothing_early() {
    let mut state = AlarmState::default();
    assert_eq!(state.observe(10_000, 90, threshold()), None);
    assert_eq!(state.observe(0, 90, threshold()), None);
    assert_eq!(state.observe(10_999, 90, threshold()), None);
    assert!(state.observe(11_000, 90, threshold()).is_some());
}

#[test]
fn thresholds_that_cannot_work_are_refused() {
    assert_eq!(
        Threshold::new(Rising, 5, 0, 0),
        Err(ThresholdError::NeverClear(0))
    );
    assert_eq!(
        Threshold::new(Rising, 5, 6, 0),
        Err(ThresholdError::ClearWorseThanSet { set: 5, clear: 6 })
    );
    let hold_ms = HOLD_MAX_MS + 1;
    assert_eq!(
        Threshold::new(Rising, 5, 5, hold_ms),
        Err(ThresholdError::HoldTooLong { hold_ms })
    );
    assert!(Threshold::new(Rising, 5, 5, HOLD_MAX_MS).is_ok());
}

#[test]
fn what_is_bad_when_it_is_low_is_raised_and_cleared_the_other_way_round() {
    let days = Threshold::new(Falling, 30, 31, 0).unwrap();
    let mut state = AlarmState::default();
    assert_eq!(state.observe(0, 31, days), None);
    assert_eq!(state.observe(1, 30, days), Some(AlarmChange::Raised));
    assert_eq!(state.observe(2, 31, days), None);
    assert_eq!(state.observe(3, 32, days), Some(AlarmChange::Cleared));
    assert_eq!(
        Threshold::new(Falling, 30, 29, 0),
        Err(ThresholdError::ClearWorseThanSet { set: 30, clear: 29 })
    );
    let never = Threshold::new(Falling, 30, u64::MAX, 0);
    assert_eq!(never, Err(ThresholdError::NeverClear(u64::MAX)));
}
