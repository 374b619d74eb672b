//! What changed between two looks that an operator would want to see.
//!
//! Invariants:
//! - rates, bytes and times are not compared: they change all the time;
//! - of many replicas that are brought up to date one change is told for each volume and node.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_api::documents::{
    Alert, DeviceState, EventKind, EventSeverity, Health, NodeStanding, NodeState, Settings,
    Severity, VolumeAccess,
};
use holdfast_control::Inventory;
use holdfast_model::{ByteSize, NodeId, VolumeId};

use super::work::{self, Missing};
use crate::reports::Reports;

/// What is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    health: Health,
    volumes: BTreeMap<VolumeId, VolumeState>,
    nodes: BTreeMap<NodeId, NodeStateOf>,
    devices: BTreeMap<(NodeId, u16), DeviceStateOf>,
    syncs: BTreeSet<(String, String)>,
    settings: Settings,
    alerts: BTreeMap<(Severity, String, String), Alert>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct VolumeState {
    name: String,
    health: Health,
    bytes: u64,
    access: VolumeAccess,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct NodeStateOf {
    name: String,
    is_up: bool,
    standing: NodeStanding,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct DeviceStateOf {
    node: String,
    path: String,
    state: DeviceState,
    is_absent: bool,
}

/// A change, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) kind: EventKind,
    pub(crate) severity: EventSeverity,
    pub(crate) subject: String,
    pub(crate) detail: String,
}

fn change(
    kind: EventKind,
    severity: EventSeverity,
    subject: impl Into<String>,
    detail: impl Into<String>,
) -> Change {
    Change {
        kind,
        severity,
        subject: subject.into(),
        detail: detail.into(),
    }
}

impl Snapshot {
    pub(crate) fn of(inventory: &Inventory, reports: &Reports) -> Self {
        let status = super::status(inventory, reports);
        let mut syncs = BTreeSet::new();
        let mut volumes = BTreeMap::new();
        for (id, volume) in &inventory.volumes {
            let record = &volume.record;
            let slices = inventory.slices_of(record);
            let missing = slices.flat_map(|slice| work::missing(inventory, reports, slice));
            let moves = missing.filter(Missing::moves);
            let target = |one: Missing| super::name(inventory, one.target);
            syncs.extend(moves.map(|one| (record.name.clone(), target(one))));
            let state = VolumeState {
                name: record.name.clone(),
                health: super::volume_health(inventory, reports, record),
                bytes: record.bytes,
                access: crate::access::of(inventory, record),
            };
            volumes.insert(*id, state);
        }
        let listed = super::nodes(inventory, reports).nodes;
        let mut devices = BTreeMap::new();
        for node in &listed {
            let id = NodeId(node.node);
            devices.extend(reports.devices(id).iter().map(|device| {
                let state = DeviceStateOf {
                    node: node.name.clone(),
                    path: device.path.clone(),
                    state: device.state,
                    is_absent: device.is_absent,
                };
                ((id, device.number), state)
            }));
        }
        let nodes = listed.into_iter().map(|node| {
            let state = NodeStateOf {
                is_up: node.state == NodeState::Up,
                standing: node.standing,
                name: node.name,
            };
            (NodeId(node.node), state)
        });
        Self {
            health: status.health,
            nodes: nodes.collect(),
            volumes,
            devices,
            syncs,
            settings: Settings {
                etag: None,
                ..crate::members::settings(inventory)
            },
            alerts: status.alerts.into_iter().map(|it| (key(&it), it)).collect(),
        }
    }

    /// What has changed since `before`.
    pub(crate) fn since(&self, before: &Self) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.health != before.health {
            let words = format!("{}, after {}", self.health.as_str(), before.health.as_str());
            let severity = severity(self.health);
            changes.push(change(EventKind::ClusterHealth, severity, "cluster", words));
        }
        self.nodes_since(before, &mut changes);
        self.devices_since(before, &mut changes);
        self.volumes_since(before, &mut changes);
        let syncs = [
            (
                EventKind::SyncBegan,
                &self.syncs,
                &before.syncs,
                "is brought up to date",
            ),
            (
                EventKind::SyncEnded,
                &before.syncs,
                &self.syncs,
                "is not brought up to date any more",
            ),
        ];
        for (kind, these, those, words) in syncs {
            for (volume, node) in these.difference(those) {
                let words = format!("what is to be on {node} {words}");
                let subject = format!("volume {volume}");
                changes.push(change(kind, EventSeverity::Info, subject, words));
            }
        }
        if self.settings != before.settings {
            let words = "changed: they are in effect";
            changes.push(change(
                EventKind::Settings,
                EventSeverity::Info,
                "settings",
                words,
            ));
        }
        for (kind, these, those) in [
            (EventKind::AlertRaised, &self.alerts, &before.alerts),
            (EventKind::AlertCleared, &before.alerts, &self.alerts),
        ] {
            for (key, alert) in these {
                if those.contains_key(key) {
                    continue;
                }
                let severity = match (kind, alert.severity) {
                    (EventKind::AlertCleared, _) => EventSeverity::Info,
                    (_, Severity::Warning) => EventSeverity::Warning,
                    (_, Severity::Error) => EventSeverity::Error,
                };
                changes.push(change(kind, severity, &*alert.subject, &*alert.detail));
            }
        }
        changes
    }

    fn nodes_since(&self, before: &Self, changes: &mut Vec<Change>) {
        for (id, node) in &self.nodes {
            let subject = format!("node {}", node.name);
            let was = before.nodes.get(id);
            if was.is_none_or(|was| was.standing != node.standing) {
                let words = node.standing.as_str();
                changes.push(change(
                    EventKind::NodeStanding,
                    EventSeverity::Info,
                    &*subject,
                    words,
                ));
            }
            let was_up = was.is_some_and(|was| was.is_up);
            if node.is_up && !was_up && was.is_some() {
                changes.push(change(
                    EventKind::NodeBack,
                    EventSeverity::Info,
                    subject,
                    "up",
                ));
            } else if was_up && !node.is_up {
                let words = "down, or not to be relied on";
                changes.push(change(
                    EventKind::NodeLost,
                    EventSeverity::Warning,
                    subject,
                    words,
                ));
            }
        }
        for (id, node) in &before.nodes {
            if !self.nodes.contains_key(id) {
                let subject = format!("node {}", node.name);
                let words = "no part of the cluster any more";
                changes.push(change(
                    EventKind::NodeStanding,
                    EventSeverity::Info,
                    subject,
                    words,
                ));
            }
        }
    }

    /// Devices of nodes that do not answer are not known: nothing is told of them.
    fn devices_since(&self, before: &Self, changes: &mut Vec<Change>) {
        for (key, device) in &self.devices {
            let is_lost = |device: &DeviceStateOf| {
                let state = matches!(device.state, DeviceState::Missing | DeviceState::Lost);
                state || device.is_absent
            };
            let Some(was) = before.devices.get(key).filter(|was| *was != device) else {
                continue;
            };
            let (kind, severity) = if is_lost(device) && !is_lost(was) {
                (EventKind::DeviceLost, EventSeverity::Warning)
            } else {
                (EventKind::DeviceState, EventSeverity::Info)
            };
            let subject = format!("device {} of node {}", key.1, device.node);
            let words = format!("{}: {}", device.path, device.state.as_str());
            changes.push(change(kind, severity, subject, words));
        }
    }

    fn volumes_since(&self, before: &Self, changes: &mut Vec<Change>) {
        for (id, volume) in &self.volumes {
            let subject = || format!("volume {}", volume.name);
            let info = EventSeverity::Info;
            let Some(was) = before.volumes.get(id) else {
                let words = format!("made, of {}", ByteSize(volume.bytes));
                changes.push(change(EventKind::VolumeCreated, info, subject(), words));
                continue;
            };
            if volume.bytes != was.bytes {
                let words = format!("has {} now", ByteSize(volume.bytes));
                changes.push(change(EventKind::VolumeGrown, info, subject(), words));
            }
            if volume.access != was.access {
                let words = match (volume.access.open, volume.access.initiators.len()) {
                    (true, _) => "is for every initiator".to_owned(),
                    (false, count) => format!("is for {count} initiators, and nobody else"),
                };
                changes.push(change(EventKind::VolumeAccess, info, subject(), words));
            }
            if volume.health != was.health {
                let words = format!("{}, after {}", volume.health.as_str(), was.health.as_str());
                let severity = severity(volume.health);
                changes.push(change(EventKind::VolumeHealth, severity, subject(), words));
            }
        }
        for (id, volume) in &before.volumes {
            if !self.volumes.contains_key(id) {
                let subject = format!("volume {}", volume.name);
                let words = "deleted, with all its data";
                changes.push(change(
                    EventKind::VolumeDeleted,
                    EventSeverity::Info,
                    subject,
                    words,
                ));
            }
        }
    }
}

const fn severity(health: Health) -> EventSeverity {
    match health {
        Health::Healthy => EventSeverity::Info,
        Health::Degraded => EventSeverity::Warning,
        Health::Unavailable => EventSeverity::Error,
    }
}

/// What an alert is about, without its numbers: how much is left changes, and that there is little does not.
fn key(alert: &Alert) -> (Severity, String, String) {
    let letters = alert.detail.chars();
    let words = letters.filter(|letter| !letter.is_ascii_digit()).collect();
    (alert.severity, alert.subject.clone(), words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(alert: &str, health: Health) -> Snapshot {
        let alert = Alert {
            severity: Severity::Warning,
            subject: "node n1".to_owned(),
            detail: alert.to_owned(),
        };
        Snapshot {
            health,
            volumes: BTreeMap::new(),
            nodes: BTreeMap::new(),
            devices: BTreeMap::new(),
            syncs: BTreeSet::new(),
            settings: Settings {
                repair_delay_seconds: 1,
                rebalance: true,
                background_slowdown_percent: 1,
                background_floor: 1,
                scrub_interval_seconds: 1,
                scrub_rate: 1,
                etag: None,
            },
            alerts: BTreeMap::from([(key(&alert), alert)]),
        }
    }

    #[test]
    fn an_alert_whose_numbers_change_is_the_same() {
        let before = with("81 % of its room is used", Health::Degraded);
        let after = with("82 % of its room is used", Health::Degraded);
        assert_eq!(after.since(&before), []);
        let other = with("its room is full", Health::Unavailable);
        let told: Vec<_> = other
            .since(&after)
            .into_iter()
            .map(|it| (it.kind, it.severity))
            .collect();
        let expected = [
            (EventKind::ClusterHealth, EventSeverity::Error),
            (EventKind::AlertRaised, EventSeverity::Warning),
            (EventKind::AlertCleared, EventSeverity::Info),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn devices_of_a_node_that_does_not_answer_are_not_lost() {
        let device = |state, is_absent| DeviceStateOf {
            node: "n1".to_owned(),
            path: "/dev/sdb".to_owned(),
            state,
            is_absent,
        };
        let before = Snapshot {
            devices: BTreeMap::from([((NodeId(1), 3), device(DeviceState::InUse, false))]),
            ..with("", Health::Healthy)
        };
        let silent = with("", Health::Healthy);
        assert_eq!(silent.since(&before), []);
        assert_eq!(before.since(&silent), []);
        let lost = Snapshot {
            devices: BTreeMap::from([((NodeId(1), 3), device(DeviceState::Lost, true))]),
            ..with("", Health::Healthy)
        };
        let told = lost.since(&before);
        assert_eq!(told[0].kind, EventKind::DeviceLost);
        assert_eq!(told[0].subject, "device 3 of node n1");
    }
}
