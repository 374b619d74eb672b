//! The cluster's brain: from what the metadata holds, and what an administrator wants, it makes a
//! plan of transactions.
//!
//! It refuses to carry its plans out, to wait, and to know what time it is: whoever has a session
//! with the metadata runs the transactions one after the other, and makes a new plan from a fresh
//! inventory when one of them finds that the world has changed.
//!
//! Invariants:
//! - a volume is visible only when all of its slices are;
//! - a plan that is cut short anywhere leaves nothing that a later plan does not clean up or reuse;
//! - two plans that are carried out at the same time never mix: each transaction states what the
//!   plan was made from.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod access;
mod alarms;
mod balance;
mod creation;
#[cfg(test)]
mod domain_tests;
mod inventory;
#[cfg(test)]
mod lab_tests;
mod members;
mod placement;
mod plan;
mod recover;
mod repair;
mod scrub;
mod settings;
mod steer;
mod unit;
mod volume;
mod writing;

pub use access::{
    AccessError, AccessOrder, INITIATORS_MAX, SECRET_LENGTH_MAX, SECRET_LENGTH_MIN, change_access,
    put_initiator, remove_initiator, volumes_by_initiator, volumes_of,
};
pub use alarms::{
    AlarmBook, AlarmChange, AlarmKind, AlarmSeverity, AlarmState, AlarmText, AlarmUnit,
    CLEARED_MAX, CRITICAL_PLACES, Direction, HOLD_MAX_MS, Moment, Observation, Observations,
    RAISED_MAX, RECORD_BYTES_MAX, Threshold, ThresholdError, alarm_reference, bound_alarms,
    default_rule, end_alone, forgotten_changes, raise_alone, rule_of, says_well,
};
pub use creation::{CREATION_KEPT_SECONDS, CREATIONS_MAX, KeyReused, Wish};
pub use inventory::{Inventory, InventoryError, Versioned};
pub use members::{Order, Part, Refusal, SITE_LENGTH_MAX, Seen, Sight, admit_all, order};
pub use placement::{Placement, Shared, TooFewNodes, crowded, may_replace};
pub use plan::{
    Plan, PlanError, SLICES_MAX, VOLUMES_MAX, clean_up, clear, create, create_at, delete, grow,
    without_record,
};
pub use recover::{
    Decisions, Doubt, Fate, METADATA_PREFIX, PlannedSlice, RecoverError, Recovery, recover,
};
pub use repair::note_given_up;
pub use scrub::{ScrubProgress, begin_scrub, scrub_progress, scrub_rounds};
pub use settings::{
    BACKGROUND_FLOOR_MAX, BACKGROUND_FLOOR_MIN, REPAIR_DELAY_MAX_SECONDS, REPAIR_DELAY_MIN_SECONDS,
    SCRUB_INTERVAL_MAX_SECONDS, SCRUB_INTERVAL_MIN_SECONDS, SCRUB_RATE_MAX, SCRUB_RATE_MIN,
    SLOWDOWN_PERCENT_MAX, SLOWDOWN_PERCENT_MIN, SettingsError, change_settings,
};
pub use steer::{MOVES_PER_NODE, STEPS_MAX, TARGET_PATIENCE, steer};
pub use unit::{IscsiNodeName, LUN_MAX, LunError, NodeNameError, UnitPlace};
pub use volume::{
    NAME_LENGTH_MAX, NameError, SIZE_MAX, TARGET_PREFIX, VolumeName, VolumeSize, VolumeSizeError,
};
