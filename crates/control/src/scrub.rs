//! When volumes are scrubbed: rounds begin when the last one is old enough, or an operator says so, and end
//! when every slice's primary has said that its part is done.
//!
//! It refuses to know how a slice is scrubbed: the engine does it, as soon as it sees the round.
//!
//! Invariants:
//! - a volume has one round under way at most;
//! - a round ends with what all slices found in it, those among them that the volume got meanwhile;
//! - a round that is due of a volume in which nothing is has ended when it begins: nobody does, or is told, anything.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::VolumeId;
use holdfast_model::metadata::Transaction;
use holdfast_model::record::{ScrubFindings, ScrubRecord, ScrubResult, VolumeRecord};

use crate::plan::PlanError;
use crate::writing::{as_found, put, still_at};
use crate::{Inventory, STEPS_MAX, Sight, Versioned, VolumeName};

/// How far the round is that a volume has under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubProgress {
    /// Slices whose part is done.
    pub done: u32,
    /// All slices.
    pub slices: u32,
    /// What they found.
    pub findings: ScrubFindings,
}

/// Ends the rounds that are done, and begins those that are due. `now_seconds` counts from 1970 (UTC).
#[must_use]
pub fn scrub_rounds(inventory: &Inventory, sight: &Sight, now_seconds: u64) -> Vec<Transaction> {
    let interval = inventory.settings.record.scrub_interval_seconds;
    let steps = inventory.volumes.values().filter_map(|volume| {
        let found = inventory.scrubs.get(&volume.record.volume);
        match found.map(|found| &found.record) {
            Some(record) if record.is_under_way() => {
                let progress = scrub_progress(inventory, record, &volume.record);
                let result = ScrubResult {
                    round: record.round,
                    began_seconds: record.began_seconds,
                    // Clocks of two nodes that steer one after the other may differ.
                    ended_seconds: now_seconds.max(record.began_seconds),
                    findings: progress.findings,
                };
                let ended = ScrubRecord {
                    last: Some(result),
                    ..record.clone()
                };
                (progress.done == progress.slices).then(|| record_scrub(inventory, volume, &ended))
            }
            last => {
                let age = last.map(|last| now_seconds.saturating_sub(last.began_seconds));
                let is_due = interval != 0 && age.is_none_or(|age| age >= interval);
                is_due.then(|| {
                    let mut begun = next(volume.record.volume, last, now_seconds);
                    if is_empty(inventory, sight, &volume.record) {
                        begun.last = Some(ended_at_once(&begun));
                    }
                    record_scrub(inventory, volume, &begun)
                })
            }
        }
    });
    steps.take(STEPS_MAX).collect()
}

/// Begins a round of a volume now; nothing if one is under way.
///
/// # Errors
/// [`PlanError::NoSuchVolume`].
pub fn begin_scrub(
    inventory: &Inventory,
    name: &VolumeName,
    now_seconds: u64,
) -> Result<Option<Transaction>, PlanError> {
    let volume = inventory
        .volume(name.as_str())
        .ok_or(PlanError::NoSuchVolume)?;
    let id = volume.record.volume;
    let found = inventory.scrubs.get(&id).map(|found| &found.record);
    if found.is_some_and(ScrubRecord::is_under_way) {
        return Ok(None);
    }
    Ok(Some(record_scrub(
        inventory,
        volume,
        &next(id, found, now_seconds),
    )))
}

/// How far a volume's newest round is.
#[must_use]
pub fn scrub_progress(
    inventory: &Inventory,
    record: &ScrubRecord,
    volume: &VolumeRecord,
) -> ScrubProgress {
    let mut progress = ScrubProgress {
        slices: volume.slice_count(),
        ..ScrubProgress::default()
    };
    for slice in inventory.slices_of(volume) {
        let scrubbed = inventory.scrubbed.get(&slice.slice);
        if let Some(scrubbed) = scrubbed.filter(|scrubbed| scrubbed.round >= record.round) {
            progress.done += 1;
            progress.findings.add(&scrubbed.findings);
        }
    }
    progress
}

/// Whether each slice's primary says that nothing is in it. Of a copy that serves nobody it is not believed: its devices may be others.
fn is_empty(inventory: &Inventory, sight: &Sight, volume: &VolumeRecord) -> bool {
    let mut slices = inventory.slices_of(volume);
    slices.all(|slice| sight.empty.contains(&slice.slice))
}

fn ended_at_once(begun: &ScrubRecord) -> ScrubResult {
    ScrubResult {
        round: begun.round,
        began_seconds: begun.began_seconds,
        ended_seconds: begun.began_seconds,
        findings: ScrubFindings::default(),
    }
}

fn next(volume: VolumeId, before: Option<&ScrubRecord>, now_seconds: u64) -> ScrubRecord {
    ScrubRecord {
        schema: 1,
        volume,
        round: before.map_or(0, |before| before.round) + 1,
        began_seconds: now_seconds,
        last: before.and_then(|before| before.last),
    }
}

/// Writes a volume's record if it is as it was, and the volume there.
fn record_scrub(
    inventory: &Inventory,
    volume: &Versioned<VolumeRecord>,
    record: &ScrubRecord,
) -> Transaction {
    let key = ScrubRecord::key(record.volume);
    let before = inventory.scrubs.get(&record.volume);
    Transaction {
        compare: vec![
            as_found(key.clone(), before),
            still_at(VolumeRecord::key(record.volume), volume.revision),
        ],
        success: vec![put(key, record)],
        failure: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
