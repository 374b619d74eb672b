//! What is seen of everything that there are alarms about.
//!
//! Invariants:
//! - a node that is in maintenance may be away, and what is bad because of that and of nothing else is held: it is neither raised
//!   nor over as long as that lasts. That hosts wait is never held, nor what a node lacks that is there, in maintenance or not;
//! - how long maintenance lasts is seen, so that what is held has an end;
//! - of what does not answer nothing is said but that it does not;
//! - what is said stays true for as long as the alarm does: since when something is so is a time, and never how long that was.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use holdfast_api::documents::{
    CertificateOf, Finding, FindingKind, ForeignCertificate, Health, NodeStanding, ProcessEnd,
};
use holdfast_control::{AlarmKind, Inventory, Observation, Observations};
use holdfast_model::record::{MaintenanceRecord, NodeRecord, VolumeRecord};
use holdfast_model::{ByteSize, NodeId, VolumeId};
use jiff::Timestamp;

use super::assessed::{self, Assessed};
use super::explain::{explained, listed};
use super::node_findings::{METADATA_FULL, SILENT, STOPPED, STOPPED_SECONDS};
use super::work::Missing;
use super::{promised_bytes_of, standing, volume_alert, work};
use crate::reports::{Absence, Reports};

const HOUR_MS: u64 = 60 * 60 * 1000;
const DAY_MS: u64 = 24 * HOUR_MS;
/// A certificate that is good for less in all is told of when a part of that is left: by the limit of 30 days a quarter. Who renews them
/// by himself does so when a third is left.
const FOREIGN_DAYS: u64 = 120;

/// What is said of a node that answers, and is not to be relied on yet.
const OPENS: &str = "it has just started, and opens its devices";
/// The same when they are open.
const REGISTERS: &str = "it has just started, and is about to register";
/// From so many seconds after a node could be relied on its alarm is raised though it opens its devices, if the start before was cut short:
/// it may be started again and again, and end each time.
const STARTING_SECONDS: u64 = 60;

/// How far syncs have come, from look to look.
#[derive(Debug, Default)]
pub(crate) struct Progress(BTreeMap<VolumeId, Lacking>);

#[derive(Clone, Copy, Debug)]
struct Lacking {
    bytes: u64,
    /// When that last became less, by a clock that nobody sets.
    since_ms: u64,
    /// Whether it has become less since whoever steers began to look.
    has_moved: bool,
}

/// Whoever begins to steer does not know what was brought before. Until then it says nothing.
const UNKNOWN_SECONDS: u64 = 900;

impl Progress {
    /// Seconds in which nothing was brought to a volume that lacks that much; nothing of one of which not everything can be seen.
    fn note(&mut self, volume: VolumeId, bytes: Option<u64>, now_ms: u64) -> Option<u64> {
        let bytes = bytes?;
        if bytes == 0 {
            self.0.remove(&volume);
            return Some(0);
        }
        let known = self.0.entry(volume).or_insert(Lacking {
            bytes,
            since_ms: now_ms,
            has_moved: false,
        });
        if bytes < known.bytes {
            known.since_ms = now_ms;
            known.has_moved = true;
        }
        // What hosts wrote meanwhile makes more to bring, and is no progress.
        known.bytes = bytes;
        let seconds = now_ms.saturating_sub(known.since_ms) / 1000;
        (known.has_moved || seconds >= UNKNOWN_SECONDS).then_some(seconds)
    }
}

/// What is seen, and what of it is held.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    pub(crate) all: Observations,
    /// What would be alarms, if no node were in maintenance: "volume-degraded of volume demo".
    pub(crate) held: BTreeSet<String>,
}

impl Looked {
    /// It is so, and nothing comes of it for now.
    fn hold(&mut self, kind: AlarmKind, subject: &str, words: &str) {
        add(&mut self.all, kind, subject, None, words);
        let code = kind.text().code;
        self.held.insert(format!("{code} of {subject}"));
    }

    /// It is so, in these words, or it is not; it is held where that is for maintenance only.
    fn state(&mut self, kind: AlarmKind, subject: &str, words: Option<&str>, is_for_that: bool) {
        match words {
            Some(words) if is_for_that => self.hold(kind, subject, words),
            words => state(&mut self.all, kind, subject, words),
        }
    }
}

/// What is seen of all subjects, at a time by a clock that nobody sets, and by the other one: milliseconds both.
pub(crate) fn alarm_observations(
    inventory: &Inventory,
    reports: &Reports,
    progress: &mut Progress,
    maintenance: &MaintenanceRecord,
    clocks @ (_, wall_ms): (u64, u64),
) -> Looked {
    let assessed = assessed::all(inventory, reports);
    let explanation = explained(inventory, reports, &assessed);
    let mut looked = Looked::default();
    let mut is_full = false;
    for node in inventory.nodes.values() {
        let found = explanation.nodes.iter().find(|it| it.node == node.name);
        let findings = found.map_or(&[][..], |it| &it.findings);
        is_full |= findings
            .iter()
            .any(|it| it.kind == FindingKind::MetadataFull);
        of_node(&mut looked, inventory, reports, node, findings, wall_ms);
        if is_member(inventory, node.node) {
            let seconds = maintenance.seconds_of(node.node, wall_ms).unwrap_or(0);
            let since = maintenance.since_ms.get(&node.node);
            let detail = since.map(|since| in_maintenance_since(*since));
            let subject = format!("node {}", node.name);
            let (all, kind) = (&mut looked.all, AlarmKind::MaintenanceLasts);
            add(
                all,
                kind,
                &subject,
                Some(seconds),
                detail.unwrap_or_default(),
            );
        }
    }
    // What only a node's file names, or not all nodes reach, is told by a finding, and lost is none.
    let counts = super::metadata::counts(reports);
    let lost = counts.is_some_and(|it| it.up < it.total);
    let member = explanation.metadata.first().filter(|_| lost);
    let words = member.map(|finding| &*finding.what);
    let away = away_for_maintenance(inventory, reports);
    let is_for_that = super::metadata::are_lost_with(reports, &away);
    looked.state(
        AlarmKind::MetadataMemberLost,
        "metadata",
        words,
        is_for_that,
    );
    let all = &mut looked.all;
    let full = is_full.then_some(METADATA_FULL);
    state(all, AlarmKind::MetadataFull, "metadata", full);
    // It was read: what was told while nobody did is over.
    state(all, AlarmKind::MetadataLost, "cluster", None);
    overcommitment(all, inventory, reports);
    for volume in &assessed {
        of_volume(&mut looked, inventory, reports, volume, progress, clocks);
    }
    progress
        .0
        .retain(|volume, _| inventory.volumes.contains_key(volume));
    looked
}

/// What is told where no node that answers follows the metadata: `own` is the one that tells, and has not reached it since then, in
/// milliseconds since 1970 (UTC).
pub(crate) fn nobody_follows(
    reports: &Reports,
    nodes: &[NodeRecord],
    own: NodeId,
    since_ms: u64,
) -> String {
    let name = |node: NodeId| {
        let record = nodes.iter().find(|it| it.node == node);
        record.map_or_else(|| format!("node {node}"), |it| it.name.clone())
    };
    let others = nodes.iter().filter(|it| it.node != own);
    let (up, silent): (Vec<_>, Vec<_>) = others.partition(|it| reports.is_up(it.node));
    let (own, since) = (name(own), minute(since_ms));
    let mut words = match (&up[..], &silent[..]) {
        ([], []) => format!("{own} has not reached it since {since}"),
        ([], silent) => format!(
            "{own} has not reached it since {since}, and none of the others answers it ({}): it cannot tell from there whether \
             the metadata is lost, or {own} is cut off",
            counted(silent)
        ),
        (up, []) => format!(
            "no node follows it: {own} has not reached it since {since}, nor is it followed by {}",
            counted(up)
        ),
        (up, silent) => format!(
            "no node that answers follows it: {own} has not reached it since {since}, nor is it followed by {}; no answer from {}",
            counted(up),
            counted(silent)
        ),
    };
    let members = super::metadata::counts(reports).filter(|it| it.up < it.total);
    let findings = super::metadata::findings(reports, name);
    if let Some(finding) = findings.first().filter(|_| members.is_some()) {
        words.push_str("; ");
        words.push_str(&finding.what);
    }
    words
}

/// The names of nodes, of so many at most.
fn counted(nodes: &[&NodeRecord]) -> String {
    const NAMED_MAX: usize = 8;
    let names = nodes.iter().take(NAMED_MAX).map(|it| it.name.clone());
    let mut names: Vec<String> = names.collect();
    let more = nodes.len().saturating_sub(NAMED_MAX);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    listed(&names)
}

/// The nodes that are away, and may be.
fn away_for_maintenance<'a>(inventory: &'a Inventory, reports: &Reports) -> Vec<&'a NodeRecord> {
    let nodes = inventory.nodes.values();
    let nodes = nodes.filter(|it| is_away_for_maintenance(inventory, reports, it.node));
    nodes.collect()
}

/// Whether a node is in maintenance, and away: it says nothing, or has yet to be registered after its start.
fn is_away_for_maintenance(inventory: &Inventory, reports: &Reports, node: NodeId) -> bool {
    standing(inventory, node) == NodeStanding::Maintenance && !reports.takes_part(node)
}

/// Since when a node is in maintenance, in words that stay true for as long as the alarm does: how long would be what it was
/// when that was raised. `since_ms` counts from 1970 (UTC).
fn in_maintenance_since(since_ms: u64) -> String {
    format!("it has been in maintenance since {}", minute(since_ms))
}

/// A time in milliseconds since 1970 (UTC), to the minute.
fn minute(at_ms: u64) -> impl Display {
    timestamp(at_ms).strftime("%Y-%m-%d %H:%M UTC")
}

/// A time in milliseconds since 1970 (UTC).
pub(crate) fn timestamp(at_ms: u64) -> Timestamp {
    let at = i64::try_from(at_ms).ok();
    at.and_then(|at| Timestamp::from_millisecond(at).ok())
        .unwrap_or(Timestamp::MAX)
}

/// The nodes that are in maintenance.
pub(crate) fn in_maintenance(inventory: &Inventory) -> impl Iterator<Item = NodeId> {
    let nodes = inventory.nodes.keys().copied();
    nodes.filter(|node| standing(inventory, *node) == NodeStanding::Maintenance)
}

fn is_member(inventory: &Inventory, node: NodeId) -> bool {
    let standing = standing(inventory, node);
    !matches!(standing, NodeStanding::Removed | NodeStanding::Waiting)
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
    looked: &mut Looked,
    inventory: &Inventory,
    reports: &Reports,
    node: &NodeRecord,
    findings: &[Finding],
    wall_ms: u64,
) {
    if !is_member(inventory, node.node) {
        return;
    }
    let subject = format!("node {}", node.name);
    let all = &mut looked.all;
    of_devices(all, reports, node, &subject);
    of_loss(looked, inventory, reports, node, findings);
    let of = |kind| findings.iter().find(|it| it.kind == kind);
    let all = &mut looked.all;
    if !reports.takes_part(node.node) {
        all.silent.insert(subject.clone());
    }
    if reports.is_up(node.node) {
        let astray = of(FindingKind::MetadataLost);
        is(all, AlarmKind::MetadataLost, &subject, astray);
    }
    if !reports.takes_part(node.node) {
        return;
    }
    // Of those that were put right it is told, too.
    let bad = of(FindingKind::BadBlocks).filter(|it| it.health != Health::Healthy);
    is(all, AlarmKind::BadBlocks, &subject, bad);
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
    vitals(all, reports, node, &subject, wall_ms);
}

/// Whether a node is lost. Since when is told by the alarm itself.
fn of_loss(
    looked: &mut Looked,
    inventory: &Inventory,
    reports: &Reports,
    node: &NodeRecord,
    findings: &[Finding],
) {
    let lost = findings.iter().find(|it| {
        matches!(
            it.kind,
            FindingKind::NodeDown | FindingKind::DevicesFailed | FindingKind::NotRegisteredYet
        )
    });
    // One that says that its devices have failed is not away.
    let is_for_that = standing(inventory, node.node) == NodeStanding::Maintenance
        && lost.is_some_and(|it| it.kind != FindingKind::DevicesFailed);
    let (kind, subject) = (AlarmKind::NodeLost, format!("node {}", node.name));
    let absence = reports.absence(node.node);
    let is_stopped = absence == Some(Absence::Stopped);
    let silence = reports.silence(node.node).map_or(0, |it| it.0);
    let fails_at_starting =
        silence >= STARTING_SECONDS && reports.process_before(node.node) == Some(ProcessEnd::Cut);
    let no_loss = match absence {
        Some(Absence::Stopped) if silence < STOPPED_SECONDS => Some(STOPPED),
        Some(Absence::Opening) if !fails_at_starting => Some(OPENS),
        Some(Absence::Unregistered)
            if reports.has_just_started(node.node) && !fails_at_starting =>
        {
            Some(REGISTERS)
        }
        _ => None,
    };
    if let Some(words) = no_loss.filter(|_| !is_for_that) {
        // Nothing comes of it, nor is it over where it was lost before.
        add(&mut looked.all, kind, &subject, None, words);
        return;
    }
    let words = lost.map(|finding| match finding.kind {
        FindingKind::NodeDown if is_stopped => STOPPED,
        FindingKind::NodeDown if absence == Some(Absence::Opening) => OPENS,
        FindingKind::NodeDown => SILENT,
        _ => &finding.what,
    });
    looked.state(kind, &subject, words, is_for_that);
}

/// What a node says of its devices. While it is away it says nothing.
fn of_devices(all: &mut Observations, reports: &Reports, node: &NodeRecord, on: &str) {
    if !reports.takes_part(node.node) {
        return;
    }
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
        let milliseconds = device.latency_p99_us.map(|it| it / 1000);
        let detail = format!(
            "{}: one in a hundred operations took {} ms or longer within the last minute",
            device.path,
            milliseconds.unwrap_or(0)
        );
        add(all, AlarmKind::DeviceSlow, &subject, milliseconds, detail);
    }
}

fn vitals(all: &mut Observations, reports: &Reports, node: &NodeRecord, on: &str, wall_ms: u64) {
    let Some((vitals, skew_ms)) = reports.vitals(node.node) else {
        return;
    };
    let stall = vitals.longest_stall_ms;
    let detail = format!("hosts waited for {stall} ms at its portal within the last hour");
    add(all, AlarmKind::StallBudget, on, Some(stall), detail);
    let detail = format!("its clock differs by {skew_ms} ms from those of most nodes");
    add(all, AlarmKind::ClockSkew, on, Some(skew_ms), detail);
    if let Some(expires_ms) = vitals.certificate_expires_ms {
        let days = expires_ms.saturating_sub(wall_ms) / DAY_MS;
        let whose = match vitals.certificate_of {
            Some(CertificateOf::Node) => "its certificate",
            Some(CertificateOf::Authority) => "the certificate of its authority",
            // Earlier versions do not say which.
            None | Some(CertificateOf::Other) => "its certificate, or its authority's,",
        };
        let detail = format!("{whose} is good for another {days} days");
        add(all, AlarmKind::CertificateExpires, on, Some(days), detail);
    }
    if let Some(foreign) = &vitals.etcd_certificate {
        let (value, detail) = of_foreign(foreign, wall_ms);
        let subject = format!("etcd certificate of {on}");
        let kind = AlarmKind::CertificateExpires;
        add(all, kind, &subject, Some(value), detail);
    }
}

/// For how many days a certificate counts as good that somebody else issues, and what is told of it. One that is never good for longer than
/// the limit would be told of for ever: one of less than [`FOREIGN_DAYS`] in all counts as if it were of as many.
fn of_foreign(certificate: &ForeignCertificate, wall_ms: u64) -> (u64, String) {
    let left_ms = certificate.expires_ms.saturating_sub(wall_ms);
    let whole_ms = certificate.lifetime_ms.clamp(1, FOREIGN_DAYS * DAY_MS);
    let counted = u128::from(left_ms) * u128::from(FOREIGN_DAYS) / u128::from(whole_ms);
    let left = if left_ms < 2 * DAY_MS {
        format!("{} hours", left_ms / HOUR_MS)
    } else {
        format!("{} days", left_ms / DAY_MS)
    };
    let detail = format!(
        "the certificate that it shows to etcd (metadata.certificate) is good for another {left}"
    );
    (u64::try_from(counted).unwrap_or(u64::MAX), detail)
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
    looked: &mut Looked,
    inventory: &Inventory,
    reports: &Reports,
    volume: &Assessed<'_>,
    progress: &mut Progress,
    (steady_ms, wall_ms): (u64, u64),
) {
    let record = volume.volume;
    let subject = format!("volume {}", record.name);
    let health = volume.health();
    let alert = volume_alert(record, &volume.healths);
    let words = alert.as_ref().map(|it| &*it.detail);
    let is_for_that =
        health == Health::Degraded && lacks_for_maintenance(inventory, reports, record);
    looked.state(AlarmKind::VolumeDegraded, &subject, words, is_for_that);
    let all = &mut looked.all;
    let stopped = words.filter(|_| health == Health::Unavailable);
    state(all, AlarmKind::VolumeStopped, &subject, stopped);
    let slices = inventory.slices_of(record);
    let missing: Vec<Missing> = slices
        .flat_map(|slice| work::missing(inventory, reports, slice))
        .collect();
    let is_seen = missing.iter().all(Missing::moves);
    let bytes = missing
        .iter()
        .map(|it| it.bytes)
        .fold(0, u64::saturating_add);
    let seconds = progress.note(record.volume, is_seen.then_some(bytes), steady_ms);
    let detail = format!(
        "{} are to be brought, and nothing was since {}",
        ByteSize(bytes),
        minute(wall_ms.saturating_sub(seconds.unwrap_or(0).saturating_mul(1000)))
    );
    add(all, AlarmKind::SyncStuck, &subject, seconds, detail);
}

/// Whether all that a volume lacks are copies on nodes that are in maintenance.
fn lacks_for_maintenance(inventory: &Inventory, reports: &Reports, volume: &VolumeRecord) -> bool {
    let slices = inventory.slices_of(volume);
    let mut lacked = slices.flat_map(|slice| {
        let missing = work::missing(inventory, reports, slice).into_iter();
        // One whose node has just gone is not known to be behind yet.
        let silent = slice.in_sync().filter(|node| !reports.takes_part(*node));
        missing
            .map(|it| it.target)
            .chain(silent)
            .collect::<Vec<_>>()
    });
    let may = |node: NodeId| is_away_for_maintenance(inventory, reports, node);
    let first = lacked.next();
    first.is_some_and(may) && lacked.all(may)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod progress_tests {
    use super::*;

    #[test]
    fn a_sync_gets_on_when_less_is_left_than_a_moment_ago() {
        let mut progress = Progress::default();
        let mut note = |bytes, seconds| progress.note(VolumeId(1), bytes, seconds * 1000);
        assert_eq!(note(Some(100), 1), None, "it is not known what was before");
        assert_eq!(note(Some(100), 61), None);
        assert_eq!(note(Some(99), 62), Some(0));
        assert_eq!(
            note(Some(150), 72),
            Some(10),
            "hosts write, and nothing is brought"
        );
        assert_eq!(note(None, 80), None, "a node does not answer");
        assert_eq!(note(Some(150), 82), Some(20), "that was no progress either");
        assert_eq!(note(Some(149), 83), Some(0));
        assert_eq!(note(Some(0), 84), Some(0));
        assert_eq!(note(Some(7), 100), None, "another one");
        assert_eq!(note(Some(7), 100 + UNKNOWN_SECONDS), Some(UNKNOWN_SECONDS));
    }
}
