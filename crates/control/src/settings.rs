//! Settings of the cluster: what they may be, and other ones put on record.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use holdfast_model::metadata::Transaction;
use holdfast_model::record::{SETTINGS_KEY, SettingsRecord};

use crate::Inventory;
use crate::writing::{put, still_at};

/// The shortest repair delay: below it every restart of a node would move its slices.
pub const REPAIR_DELAY_MIN_SECONDS: u64 = 5;
/// The longest: a year.
pub const REPAIR_DELAY_MAX_SECONDS: u64 = 365 * 24 * 60 * 60;
/// The least that hosts' commands may become slower by background work: below it nothing can be told
/// from chance.
pub const SLOWDOWN_PERCENT_MIN: u32 = 1;
/// The most: twice as slow, which is what decision 0025 aims at for the slowest commands. Who wants more done whatever hosts
/// notice raises the floor.
pub const SLOWDOWN_PERCENT_MAX: u32 = 100;
/// Bytes a second that background work gets in any case, at least: less would take months.
pub const BACKGROUND_FLOOR_MIN: u64 = 1 << 20;
/// At most: more than any node does.
pub const BACKGROUND_FLOOR_MAX: u64 = 16 << 30;

/// Seconds between two scrubs of a volume at least, if there are any: one can be begun by hand at any time.
pub const SCRUB_INTERVAL_MIN_SECONDS: u64 = 60;
/// At most: a year.
pub const SCRUB_INTERVAL_MAX_SECONDS: u64 = 365 * 24 * 60 * 60;
/// Bytes a second that a node scrubs, at least: less would take months.
pub const SCRUB_RATE_MIN: u64 = 1 << 20;
/// At most: more than any node does.
pub const SCRUB_RATE_MAX: u64 = 16 << 30;

/// Why settings are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The repair delay is out of bounds.
    #[error(
        "the repair delay is {REPAIR_DELAY_MIN_SECONDS} s to {REPAIR_DELAY_MAX_SECONDS} s (a year)"
    )]
    RepairDelay,
    /// How much slower commands may become is out of bounds.
    #[error(
        "background work may make hosts' commands slower by {SLOWDOWN_PERCENT_MIN} % to {SLOWDOWN_PERCENT_MAX} % (twice as \
         slow); what is to be done whatever hosts notice is set by the background floor"
    )]
    Slowdown,
    /// What background work gets in any case is out of bounds.
    #[error(
        "the least that a node does in the background is {BACKGROUND_FLOOR_MIN} B to \
         {BACKGROUND_FLOOR_MAX} B a second (1 MiB to 16 GiB)"
    )]
    BackgroundFloor,
    /// The time between two scrubs is out of bounds.
    #[error(
        "a volume is scrubbed every {SCRUB_INTERVAL_MIN_SECONDS} s to {SCRUB_INTERVAL_MAX_SECONDS} s \
         (a year), or never by itself (0 s)"
    )]
    ScrubInterval,
    /// How fast nodes scrub is out of bounds.
    #[error("a node scrubs {SCRUB_RATE_MIN} B to {SCRUB_RATE_MAX} B a second (1 MiB to 16 GiB)")]
    ScrubRate,
}

/// Plans other settings; nothing if they are so already. What is not changed is not judged: an earlier version may have
/// let it be.
///
/// # Errors
/// [`SettingsError`] if a value that is changed makes no sense.
pub fn change_settings(
    inventory: &Inventory,
    settings: &SettingsRecord,
) -> Result<Option<Transaction>, SettingsError> {
    check(&inventory.settings.record, settings)?;
    if inventory.settings.record == *settings {
        return Ok(None);
    }
    let compare = still_at(SETTINGS_KEY.into(), inventory.settings.revision);
    Ok(Some(Transaction {
        compare: vec![compare],
        success: vec![put(SETTINGS_KEY.into(), settings)],
        failure: Vec::new(),
    }))
}

fn check(now: &SettingsRecord, then: &SettingsRecord) -> Result<(), SettingsError> {
    let delays = REPAIR_DELAY_MIN_SECONDS..=REPAIR_DELAY_MAX_SECONDS;
    let (old, new) = (now.repair_delay_seconds, then.repair_delay_seconds);
    if is_refused(old, new, &delays) {
        return Err(SettingsError::RepairDelay);
    }
    let slowdowns = SLOWDOWN_PERCENT_MIN..=SLOWDOWN_PERCENT_MAX;
    let old = now.background_slowdown_percent;
    if is_refused(old, then.background_slowdown_percent, &slowdowns) {
        return Err(SettingsError::Slowdown);
    }
    let floors = BACKGROUND_FLOOR_MIN..=BACKGROUND_FLOOR_MAX;
    if is_refused(now.background_floor, then.background_floor, &floors) {
        return Err(SettingsError::BackgroundFloor);
    }
    let intervals = SCRUB_INTERVAL_MIN_SECONDS..=SCRUB_INTERVAL_MAX_SECONDS;
    let (old, new) = (now.scrub_interval_seconds, then.scrub_interval_seconds);
    if new != 0 && is_refused(old, new, &intervals) {
        return Err(SettingsError::ScrubInterval);
    }
    let rates = SCRUB_RATE_MIN..=SCRUB_RATE_MAX;
    if is_refused(now.scrub_rate, then.scrub_rate, &rates) {
        return Err(SettingsError::ScrubRate);
    }
    Ok(())
}

/// Whether a value is changed to one that is out of bounds.
fn is_refused<T: Copy + PartialOrd>(old: T, new: T, bounds: &RangeInclusive<T>) -> bool {
    new != old && !bounds.contains(&new)
}

#[cfg(test)]
mod tests;
