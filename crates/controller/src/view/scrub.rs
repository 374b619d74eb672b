//! The scrubs of a volume: what the metadata keeps of them, and what primaries say of slices under way.

use holdfast_api::documents::{Scrub, ScrubFindings, ScrubResult, ScrubRun};
use holdfast_control::{Inventory, scrub_progress};
use holdfast_model::record::VolumeRecord;

use super::server;
use crate::reports::Reports;

pub(super) fn of(inventory: &Inventory, reports: &Reports, volume: &VolumeRecord) -> Scrub {
    let Some(found) = inventory.scrubs.get(&volume.volume) else {
        return Scrub::default();
    };
    let record = &found.record;
    let last = record.last.map(|last| ScrubResult {
        round: last.round,
        began_seconds: last.began_seconds,
        ended_seconds: last.ended_seconds,
        findings: last.findings.into(),
    });
    let running = record.is_under_way().then(|| {
        let progress = scrub_progress(inventory, record, volume);
        let mut findings = ScrubFindings::from(progress.findings);
        for slice in inventory.slices_of(volume) {
            let is_done = inventory.scrubbed.get(&slice.slice);
            let is_done = is_done.is_some_and(|done| done.round >= record.round);
            let local = server(reports, slice).and_then(|(_, local)| local.scrub);
            if let Some(local) = local.filter(|local| !is_done && local.round == record.round) {
                findings += local.findings;
            }
        }
        ScrubRun {
            round: record.round,
            began_seconds: record.began_seconds,
            slices_done: progress.done,
            findings,
        }
    });
    Scrub { running, last }
}
