//! What becomes of reservations without a command: resets, lost nexuses, lost power.

use alloc::vec::Vec;

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

/// The record after all nodes lost power at once; none if that changes nothing.
///
/// PRGENERATION begins anew in any case (SPC-4 6.15.2). Registrations and the reservation outlive
/// it if the last one who registered wanted that (APTPL, SPC-4 5.12.5). If anything ends, the fence
/// rises: what was begun under it is not to land under what comes after.
#[must_use]
pub fn on_power_loss(record: &AccessRecord) -> Option<AccessRecord> {
    let ends = record.reserved.is_some() || !(record.persists || record.registrations.is_empty());
    if !ends && record.generation == 0 {
        return None;
    }
    let mut after = AccessRecord {
        generation: 0,
        reserved: None,
        ..changed(record)
    };
    if ends {
        after.fence = record.fence.next();
    }
    if !record.persists {
        after.registrations = Vec::new();
        after.reservation = None;
    }
    Some(after)
}

/// The record, changed once more, and by no command.
fn changed(record: &AccessRecord) -> AccessRecord {
    AccessRecord {
        last: None,
        changes: record.changes + 1,
        ..record.clone()
    }
}
