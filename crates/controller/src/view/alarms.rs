//! What is seen of everything that there are alarms about.
//!
//! Invariants:
//! - what an operator has ordered is no alarm: a node in maintenance may be down;
//! - of what does not answer nothing is said but that it does not.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_api::documents::{Finding, FindingKind, Health, NodeStanding};
use holdfast_control::{AlarmKind, Inventory, Observation, Observations};
use holdfast_model::record::NodeRecord;
use holdfast_model::{ByteSize, VolumeId};

use super::assessed::{self, Assessed};
use super::explain::explained;
use super::{promised_bytes_of, standing, volume_alert, work};
use crate::reports::Reports;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// How far syncs have come, from look to look.
#[derive(Debug, Default)]
pub(crate) struct Progress(BTreeMap<VolumeId, Lacking>);

#[derive(Clone, Copy, Debug)]
struct Lacking {
    bytes: u64,
    /// When that last became less, by a clock that nobody sets.
    since_ms: u64,
}

impl Progress {
    /// Seconds in which nothing was brought to a volume that lacks that much.
    fn note(&mut self, volume: VolumeId, bytes: u64, now_ms: u64) -> u64 {
        if bytes == 0 {
            self.0.remove(&volume);
            return 0;
        }
        let new = Lacking {
            bytes,
            since_ms: now_ms,
        };
        let known = self.0.entry(volume).or_insert(new);
        if bytes < known.bytes {
            *known = new;
        }
        // What was written meanwhile makes more to bring, and is no progress.
        known.bytes = bytes.max(known.bytes);
        now_ms.saturating_sub(known.since_ms) / 1000
    }
}

/// What is seen of all subjects, `steady_ms` by a clock that nobody sets and `wall_ms` by the other.
pub(crate) fn alarm_observations(
    inventory: &Inventory,
    reports: &Reports,
    progress: &mut Progress,
    (steady_ms, wall_ms): (u64, u64),
) -> Observations {
    let assessed = assessed::all(inventory, reports);
    let explanation = explained(inventory, reports, &assessed);
    let mut all = Observations::default();
    let mut is_full = false;
    for node in inventory.nodes.values() {
        let found = explanation.nodes.iter().find(|it| it.node == node.name);
        let findings = found.map_or(&[][..], |it| &it.findings);
        is_full |= findings
            .iter()
            .any(|it| it.kind == FindingKind::MetadataFull);
        of_node(&mut all, inventory, reports, node, findings, wall_ms);
    }
    let members = &explanation.metadata;
    is(
        &mut all,
        AlarmKind::MetadataMemberLost,
        "metadata",
        members.first(),
    );
    let full = is_full.then_some(super::node_findings::METADATA_FULL);
    state(&mut all, AlarmKind::MetadataFull, "metadata", full);
    overcommitment(&mut all, inventory, reports);
    for volume in &assessed {
        of_volume(&mut all, inventory, reports, volume, progress, steady_ms);
    }
    progress
        .0
        .retain(|volume, _| inventory.volumes.contains_key(volume));
    all
}

fn add(
    all: &mut Observations,
    kind: AlarmKind,
    subject: &str,
    value: Option<u64>,
    detail: impl Into<String>,
) {
    let observation = Observation {
        value,
        detail: detail.into(),
    };
    all.seen.insert((kind, subject.to_owned()), observation);
}

/// It is so, in these words, or it is not.
fn state(all: &mut Observations, kind: AlarmKind, subject: &str, words: Option<&str>) {
    let value = u64::from(words.is_some());
    add(all, kind, subject, Some(value), words.unwrap_or_default());
}

fn is(all: &mut Observations, kind: AlarmKind, subject: &str, finding: Option<&Finding>) {
    state(all, kind, subject, finding.map(|it| &*it.what));
}

fn of_node(
    all: &mut Observations,
    inventory: &Inventory,
    reports: &Reports,
    node: &NodeRecord,
    findings: &[Finding],
    wall_ms: u64,
) {
    let standing = standing(inventory, node.node);
    if matches!(standing, NodeStanding::Removed | NodeStanding::Waiting) {
        return;
    }
    let subject = format!("node {}", node.name);
    let of = |kinds: &[FindingKind]| findings.iter().find(|it| kinds.contains(&it.kind));
    let lost = of(&[
        FindingKind::NodeDown,
        FindingKind::DevicesFailed,
        FindingKind::NotRegisteredYet,
    ]);
    let lost = lost.filter(|_| standing != NodeStanding::Maintenance);
    is(all, AlarmKind::NodeLost, &subject, lost);
    if !reports.takes_part(node.node) {
        all.silent.insert(subject.clone());
    }
    if reports.is_up(node.node) {
        let astray = of(&[FindingKind::MetadataLost]);
        is(all, AlarmKind::MetadataLost, &subject, astray);
    }
    if !reports.takes_part(node.node) {
        return;
    }
    is(
        all,
        AlarmKind::BadBlocks,
        &subject,
        of(&[FindingKind::BadBlocks]),
    );
    let room = reports.room(node.node).filter(|it| it.bytes > 0);
    for kind in [
        AlarmKind::PoolFilling,
        AlarmKind::PoolLow,
        AlarmKind::PoolAlmostFull,
    ] {
        let detail = room.map(|room| {
            let (used, bytes) = (ByteSize(room.used_bytes), ByteSize(room.bytes));
            format!(
                "{} % of its room are used: {used} of {bytes}",
                room.used_percent()
            )
        });
        let value = room.map(|room| room.used_percent());
        add(all, kind, &subject, value, detail.unwrap_or_default());
    }
    of_devices(all, reports, node, &subject);
    vitals(all, reports, node, &subject, wall_ms);
}

fn of_devices(all: &mut Observations, reports: &Reports, node: &NodeRecord, on: &str) {
    for device in reports.devices(node.node) {
        let subject = format!("device {} of {on}", device.number);
        let lost = if device.is_absent {
            Some("the node does without it: it is missing, or has failed")
        } else if device.detached.is_some() {
            Some(
                "it was taken away, or cut short, while the node has it open: do not restart the node",
            )
        } else {
            None
        };
        let words = lost.map(|words| format!("{}: {words}", device.path));
        state(all, AlarmKind::DeviceLost, &subject, words.as_deref());
        let milliseconds = device.latency_p99_us.map_or(0, |it| it / 1000);
        let detail = format!(
            "{}: one in a hundred operations took {milliseconds} ms or longer within the last minute",
            device.path
        );
        add(
            all,
            AlarmKind::DeviceSlow,
            &subject,
            Some(milliseconds),
            detail,
        );
    }
}

fn vitals(all: &mut Observations, reports: &Reports, node: &NodeRecord, on: &str, wall_ms: u64) {
    let Some((vitals, skew_ms)) = reports.vitals(node.node) else {
        return;
    };
    let stall = vitals.longest_stall_ms;
    let detail = format!("hosts waited for {stall} ms at its portal within the last hour");
    add(all, AlarmKind::StallBudget, on, Some(stall), detail);
    let detail = format!("its clock differs by {skew_ms} ms from that of the node that looked");
    add(all, AlarmKind::ClockSkew, on, Some(skew_ms), detail);
    if let Some(expires_ms) = vitals.certificate_expires_ms {
        let days = expires_ms.saturating_sub(wall_ms) / DAY_MS;
        let detail =
            format!("its certificate, or its authority's, is good for another {days} days");
        add(all, AlarmKind::CertificateExpires, on, Some(days), detail);
    }
}

/// What volumes promise, of the room that there is; not known as long as not all nodes say what they have.
fn overcommitment(all: &mut Observations, inventory: &Inventory, reports: &Reports) {
    let (nodes, pool) = super::nodes_up(inventory, reports);
    let promised = promised_bytes_of(inventory);
    let is_known = nodes.up == nodes.total && pool.bytes > 0;
    let percent = (u128::from(promised) * 100).checked_div(u128::from(pool.bytes));
    let percent = percent.filter(|_| is_known).map(|it| it as u64);
    let detail = format!(
        "volumes promise {} with their copies, and there are {}: {} %",
        ByteSize(promised),
        ByteSize(pool.bytes),
        percent.unwrap_or(0)
    );
    add(all, AlarmKind::Overcommitted, "cluster", percent, detail);
}

fn of_volume(
    all: &mut Observations,
    inventory: &Inventory,
    reports: &Reports,
    volume: &Assessed<'_>,
    progress: &mut Progress,
    steady_ms: u64,
) {
    let record = volume.volume;
    let subject = format!("volume {}", record.name);
    let health = volume.health();
    let alert = volume_alert(record, &volume.healths);
    let words = alert.as_ref().map(|it| &*it.detail);
    state(all, AlarmKind::VolumeDegraded, &subject, words);
    let stopped = words.filter(|_| health == Health::Unavailable);
    state(all, AlarmKind::VolumeStopped, &subject, stopped);
    let slices = inventory.slices_of(record);
    let missing: BTreeSet<_> = slices
        .flat_map(|slice| work::missing(inventory, reports, slice))
        .filter(work::Missing::moves)
        .map(|it| (it.slice, it.target, it.bytes))
        .collect();
    let bytes = missing.iter().map(|it| it.2).sum();
    let seconds = progress.note(record.volume, bytes, steady_ms);
    let detail = format!(
        "{} are to be brought, and for {seconds} s nothing was",
        ByteSize(bytes)
    );
    add(all, AlarmKind::SyncStuck, &subject, Some(seconds), detail);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_gets_on_when_less_is_left_than_ever_since() {
        let mut progress = Progress::default();
        let volume = VolumeId(1);
        assert_eq!(progress.note(volume, 100, 1000), 0);
        assert_eq!(progress.note(volume, 100, 61_000), 60);
        assert_eq!(progress.note(volume, 99, 62_000), 0);
        assert_eq!(
            progress.note(volume, 150, 72_000),
            10,
            "hosts write, and nothing is brought"
        );
        assert_eq!(
            progress.note(volume, 149, 73_000),
            0,
            "then less is left than a moment ago"
        );
        assert_eq!(progress.note(volume, 0, 74_000), 0);
        assert_eq!(progress.note(volume, 7, 99_000), 0, "another one");
    }
}
