//! The scrubs of a volume: what the metadata keeps of them, and what primaries say of slices under way.

use holdfast_api::documents::{Scrub, ScrubFindings, ScrubResult, ScrubRun};
use holdfast_control::{Inventory, scrub_progress};
use holdfast_model::record::VolumeRecord;

use super::{server, slice_used_bytes, work};
use crate::reports::Reports;

/// `now_seconds` is the time since 1970.
pub(super) fn of(
    inventory: &Inventory,
    reports: &Reports,
    volume: &VolumeRecord,
    now_seconds: u64,
) -> Scrub {
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
        let mut bytes_left: u64 = 0;
        for slice in inventory.slices_of(volume) {
            let is_done = inventory.scrubbed.get(&slice.slice);
            let is_done = is_done.is_some_and(|done| done.round >= record.round);
            let local = server(reports, slice).and_then(|(_, local)| local.scrub);
            if is_done {
                continue;
            }
            let mut bytes_read = 0;
            if let Some(local) = local.filter(|local| local.round == record.round) {
                bytes_read = local.findings.bytes_read;
                findings += local.findings;
            }
            let copies = slice.in_sync().count() as u64;
            let used_bytes = slice_used_bytes(reports, slice).unwrap_or(0);
            let bytes = used_bytes.saturating_mul(copies);
            bytes_left = bytes_left.saturating_add(bytes.saturating_sub(bytes_read));
        }
        let seconds = now_seconds.saturating_sub(record.began_seconds);
        let bytes_per_second = findings.bytes_read.checked_div(seconds).unwrap_or(0);
        ScrubRun {
            round: record.round,
            began_seconds: record.began_seconds,
            slices_done: progress.done,
            findings,
            bytes_left,
            bytes_per_second,
            seconds_left: work::seconds(bytes_left, bytes_per_second),
        }
    });
    Scrub { running, last }
}
