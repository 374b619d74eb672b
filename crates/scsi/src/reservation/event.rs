//! What becomes of reservations without a command: resets, and lost nexuses.
//!
//! A loss of power is no such event: see `docs/decisions/0034-access-is-enforced-before-it-is-answered.md`.

use holdfast_model::record::{AccessNexus, AccessRecord};

/// The record after a logical unit reset, which ends a RESERVE (SPC-2 5.5.1) and leaves persistent
/// reservations alone (SPC-4 5.12.1); none if that changes nothing.
#[must_use]
pub fn on_reset(record: &AccessRecord) -> Option<AccessRecord> {
    record.reserved.as_ref()?;
    Some(AccessRecord {
        reserved: None,
        ..changed(record)
    })
}

/// The record after a nexus was lost: its RESERVE ends with it (SPC-2 5.5.1), its registration
/// outlives it (SPC-4 5.12.1); none if that changes nothing.
#[must_use]
pub fn on_nexus_loss(record: &AccessRecord, nexus: &AccessNexus) -> Option<AccessRecord> {
    match record.reserved.as_ref() == Some(nexus) {
        true => on_reset(record),
        false => None,
    }
}

/// The record, changed once more, and by no command.
fn changed(record: &AccessRecord) -> AccessRecord {
    AccessRecord {
        last: None,
        changes: record.changes + 1,
        ..record.clone()
    }
}
