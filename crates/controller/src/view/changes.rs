//! What changed between two looks that an operator would want to see.
//!
//! Invariants:
//! - rates, bytes and times are not compared: they change all the time;
//! - of many replicas that are brought up to date one change is told for each volume and node;
//! - what is not seen has not changed: of a node that does not answer what was last known is kept;
//! - what follows from something else is told after it: nodes, their devices, volumes and syncs, the cluster.

#[cfg(test)]
mod many;
mod pairs;
mod primaries;
mod syncs;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use holdfast_api::documents::{
    Alert, DeviceState, EventKind, EventSeverity, Health, NodeStanding, ProcessEnd, Settings,
    Severity,
};
use holdfast_control::Inventory;
use holdfast_model::{NodeId, VolumeId};
use serde::{Deserialize, Serialize};

use self::primaries::Primaries;
use self::syncs::SyncState;
pub(crate) use self::syncs::span;
use self::volumes::{VolumeState, health_since};
use super::node_findings::{SILENT, STOPPED, is_lost};
use crate::clock::unix_ms;
use crate::reports::{Absence, Reports};

/// What is compared. It is kept for whoever compares next, also by another version: what that does not know it leaves out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    /// When it was taken, in milliseconds since 1970 (UTC), by the clock of whoever looked.
    at_ms: u64,
    health: Health,
    #[serde(with = "pairs")]
    volumes: BTreeMap<VolumeId, VolumeState>,
    #[serde(with = "pairs")]
    nodes: BTreeMap<NodeId, NodeStateOf>,
    #[serde(with = "pairs")]
    devices: BTreeMap<(NodeId, u16), DeviceStateOf>,
    #[serde(with = "pairs")]
    syncs: BTreeMap<(VolumeId, NodeId), SyncState>,
    #[serde(default)]
    primaries: Primaries,
    /// What nobody copies now, though it is to be there.
    #[serde(skip)]
    lacking: BTreeSet<(VolumeId, NodeId)>,
    /// Volumes of which a node has something that is up to date.
    #[serde(skip)]
    holders: BTreeSet<(VolumeId, NodeId)>,
    settings: Settings,
    /// What no state tells that is compared, too.
    #[serde(with = "pairs")]
    alerts: BTreeMap<(Severity, String, String), Alert>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct NodeStateOf {
    name: String,
    is_up: bool,
    standing: NodeStanding,
    /// Whether it is down because it was told to stop.
    #[serde(default)]
    is_stopped: bool,
    /// Whether that it is down matters as much as its alarm, if that lasts; not so from a version that does not keep it.
    #[serde(default)]
    is_lost: bool,
    /// What is known of it where it is down.
    #[serde(default)]
    words: Option<String>,
    /// Which start of it is up, or was last; nothing where that is not known, and from a version that does not keep it.
    #[serde(default)]
    incarnation: Option<u64>,
    /// How its process before that one ended.
    #[serde(default)]
    process_before: Option<ProcessEnd>,
}

impl NodeStateOf {
    /// Whether it has gone down for good where it answered, and was not to be relied on.
    const fn is_down_since(&self, was: &Self) -> bool {
        self.words.is_some() && was.words.is_none()
    }

    /// Whether it was started anew since.
    fn is_another_start(&self, was: &Self) -> bool {
        let starts = self.incarnation.zip(was.incarnation);
        starts.is_some_and(|(start, before)| start != before)
    }

    /// What is told of it where it is back since, if it is. It may have been away for less than a look takes, or while nobody steered.
    fn back_since(&self, was: &Self) -> Option<String> {
        let is_anew = self.is_another_start(was);
        if !self.is_up || was.is_up && !is_anew {
            return None;
        }
        let mut words = "up".to_owned();
        if is_anew {
            words.push_str(": started anew");
            words.push_str(match self.process_before {
                Some(ProcessEnd::Stopped) => ", after it was stopped",
                Some(ProcessEnd::Cut) => {
                    ", after it was killed, crashed or failed, or its machine went down"
                }
                Some(ProcessEnd::Other) | None => "",
            });
        } else if self.incarnation.is_some() && was.incarnation.is_some() {
            words
                .push_str(": it ran all the while, and was not reached, or could not be relied on");
        }
        if was.is_up {
            words.push_str("; it was away between two looks");
        }
        Some(words)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct DeviceStateOf {
    node: String,
    path: String,
    state: DeviceState,
    is_absent: bool,
}

impl DeviceStateOf {
    fn subject(&self, number: u16) -> String {
        format!("device {number} of node {}", self.node)
    }
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
        let (status, alerts) = super::status_and_alerts(inventory, reports);
        let (of_states, alerts) = alerts.by_state();
        let at_ms = unix_ms();
        let volumes = inventory.volumes.iter().map(|(id, volume)| {
            let state = VolumeState::of(inventory, reports, &volume.record, at_ms);
            (*id, state)
        });
        let volumes = volumes.collect();
        let syncs::Seen {
            syncs,
            lacking,
            holders,
        } = syncs::of(inventory, reports, &volumes, at_ms);
        let mut devices = BTreeMap::new();
        for (id, node) in &inventory.nodes {
            devices.extend(reports.devices(*id).iter().map(|device| {
                let state = DeviceStateOf {
                    node: node.name.clone(),
                    path: device.path.clone(),
                    state: device.state,
                    is_absent: device.is_absent,
                };
                ((*id, device.number), state)
            }));
        }
        let nodes = inventory.nodes.iter().map(|(id, node)| {
            let subject = subject_of_node(&node.name);
            let mut of_node = of_states.iter().filter(|alert| alert.subject == subject);
            let state = NodeStateOf {
                is_up: reports.absence(*id).is_none(),
                is_stopped: reports.absence(*id) == Some(Absence::Stopped),
                is_lost: is_lost(inventory, reports, *id),
                standing: super::standing(inventory, *id),
                words: of_node.next().map(|_| match reports.absence(*id) {
                    Some(Absence::Opening) => {
                        "down: it has just started, and opens its devices".to_owned()
                    }
                    Some(Absence::Stopped) => format!("down: {STOPPED}"),
                    // For how long is another thing each second, and not known to whoever has just begun to look.
                    _ => format!("down: {SILENT}"),
                }),
                incarnation: reports.incarnation(*id),
                process_before: reports.process_before(*id),
                name: node.name.clone(),
            };
            (*id, state)
        });
        Self {
            at_ms,
            health: status.health,
            nodes: nodes.collect(),
            volumes,
            devices,
            syncs,
            primaries: Primaries::of(inventory, reports),
            lacking,
            holders,
            settings: Settings {
                etag: None,
                ..crate::members::settings(inventory)
            },
            alerts: alerts.into_iter().map(|it| (key(&it), it)).collect(),
        }
    }

    /// When it was taken, in milliseconds since 1970 (UTC).
    pub(crate) const fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// Is what is compared with next, after `before`: tells what has changed since, and keeps of that what is not seen now, and
    /// what is known of what has begun.
    pub(crate) fn follow(&mut self, before: &Self) -> Vec<Change> {
        for (id, volume) in &mut self.volumes {
            if let Some(before) = before.volumes.get(id) {
                volume.stands_still_since(before, self.at_ms);
            }
        }
        let changes = self.since(before);
        for (key, sync) in &mut self.syncs {
            if let Some(known) = before.syncs.get(key).filter(|it| it.is_told()) {
                sync.follow(known);
            }
        }
        for (id, node) in &mut self.nodes {
            let known = before.nodes.get(id).and_then(|was| was.incarnation);
            node.incarnation = node.incarnation.or(known);
        }
        self.primaries.follow(&before.primaries);
        let nodes = &self.nodes;
        let is_silent = |node: &NodeId| nodes.get(node).is_some_and(|node| !node.is_up);
        let unseen = before.devices.iter().filter(|(key, _)| is_silent(&key.0));
        for (key, device) in unseen {
            self.devices.entry(*key).or_insert_with(|| device.clone());
        }
        changes
    }

    /// Whether what is compared with next is otherwise, though nothing is told of it: whoever looks next has to know.
    pub(crate) fn has_settled(&self, before: &Self) -> bool {
        self.primaries.has_settled(&before.primaries)
    }

    fn since(&self, before: &Self) -> Vec<Change> {
        let mut changes = Vec::new();
        self.nodes_since(before, &mut changes);
        self.devices_since(before, &mut changes);
        self.syncs_ended_since(before, &mut changes);
        volumes::since(&self.volumes, &before.volumes, &mut changes);
        self.syncs_begun_since(before, &mut changes);
        if let Some(words) = self.primaries.since(&before.primaries) {
            let (kind, info) = (EventKind::Primaries, EventSeverity::Info);
            changes.push(change(kind, info, "cluster", words));
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
                // What matters more than it did is not over, and what matters less is no news.
                let other = match alert.severity {
                    Severity::Warning => Severity::Error,
                    Severity::Error => Severity::Warning,
                };
                let is_told = those.contains_key(&(other, key.1.clone(), key.2.clone()))
                    && (kind == EventKind::AlertCleared || other > alert.severity);
                if is_told || those.contains_key(key) {
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
        if let Some((severity, words)) = health_since(self.told_health(), before.told_health()) {
            changes.push(change(EventKind::ClusterHealth, severity, "cluster", words));
        }
        changes
    }

    /// How the cluster is, as is told: what is a stall of volumes is none of it.
    fn told_health(&self) -> Health {
        let volumes = || self.volumes.values();
        let is_all = !volumes().any(|volume| volume.writes_wait);
        let mut unserved = volumes()
            .filter(|it| it.health == Health::Unavailable)
            .peekable();
        let is_any = unserved.peek().is_some();
        match is_all && is_any && unserved.all(|it| it.told_health() == Health::Degraded) {
            true => Health::Degraded,
            false => self.health,
        }
    }

    fn nodes_since(&self, before: &Self, changes: &mut Vec<Change>) {
        for (id, node) in &self.nodes {
            let subject = subject_of_node(&node.name);
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
            if let Some(words) = was.and_then(|was| node.back_since(was)) {
                let (kind, info) = (EventKind::NodeBack, EventSeverity::Info);
                changes.push(change(kind, info, subject, words));
            } else if !node.is_up && (was_up || was.is_some_and(|was| node.is_down_since(was))) {
                let words = node.words.as_deref();
                let words = words.unwrap_or("not to be relied on");
                let (kind, severity) = match (node.is_stopped, node.is_lost) {
                    (true, _) => (EventKind::NodeStopped, EventSeverity::Info),
                    (false, true) => (EventKind::NodeLost, EventSeverity::Error),
                    (false, false) => (EventKind::NodeLost, EventSeverity::Warning),
                };
                changes.push(change(kind, severity, subject, words));
            }
        }
        for (id, node) in &before.nodes {
            if !self.nodes.contains_key(id) {
                let subject = subject_of_node(&node.name);
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
            let was = before.devices.get(key);
            let is_news = match was {
                Some(was) => was != device,
                None => self.tells_on(before, key.0),
            };
            if !is_news {
                continue;
            }
            let (kind, severity) = if is_lost(device) && !was.is_some_and(is_lost) {
                (EventKind::DeviceLost, EventSeverity::Error)
            } else {
                (EventKind::DeviceState, EventSeverity::Info)
            };
            let added = if was.is_none() { "added, " } else { "" };
            let words = format!("{}: {added}{}", device.path, device.state.as_str());
            changes.push(change(kind, severity, device.subject(key.1), words));
        }
        for (key, device) in &before.devices {
            if !self.devices.contains_key(key) && self.tells_on(before, key.0) {
                let (kind, info) = (EventKind::DeviceState, EventSeverity::Info);
                let words = format!("{}: removed", device.path);
                changes.push(change(kind, info, device.subject(key.1), words));
            }
        }
    }

    /// Whether the same start of a node told of its devices before, and does: those of one that was replaced have the same numbers, and
    /// to one that has just begun all of them are new.
    fn tells_on(&self, before: &Self, node: NodeId) -> bool {
        let start = |seen: &Self| seen.nodes.get(&node).and_then(|it| it.incarnation);
        let is_up = self.nodes.get(&node).is_some_and(|node| node.is_up);
        let is_same = start(self).is_some() && start(self) == start(before);
        is_up && is_same && before.has_devices(node) && self.has_devices(node)
    }

    fn has_devices(&self, node: NodeId) -> bool {
        let all = (node, u16::MIN)..=(node, u16::MAX);
        self.devices.range(all).next().is_some()
    }
}

fn subject_of_node(name: &str) -> String {
    format!("node {name}")
}

/// What an alert is about, without its numbers: how much is left changes, and that there is little does not.
fn key(alert: &Alert) -> (Severity, String, String) {
    let words = in_words(&alert.detail);
    (alert.severity, alert.subject.clone(), words)
}

/// A text without its numbers.
pub(crate) fn in_words(text: &str) -> String {
    let letters = text.chars();
    letters.filter(|letter| !letter.is_ascii_digit()).collect()
}

#[cfg(test)]
mod tests {
    use holdfast_api::documents::VolumeAccess;

    use super::*;

    fn with(alert: &str, health: Health) -> Snapshot {
        let alert = Alert {
            severity: Severity::Warning,
            subject: "node n1".to_owned(),
            detail: alert.to_owned(),
        };
        Snapshot {
            at_ms: 1000,
            health,
            volumes: BTreeMap::new(),
            nodes: BTreeMap::new(),
            devices: BTreeMap::new(),
            syncs: BTreeMap::new(),
            primaries: Primaries::default(),
            lacking: BTreeSet::new(),
            holders: BTreeSet::new(),
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
            (EventKind::AlertRaised, EventSeverity::Warning),
            (EventKind::AlertCleared, EventSeverity::Info),
            (EventKind::ClusterHealth, EventSeverity::Error),
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
        assert_eq!(told[0].severity, EventSeverity::Error);
        assert_eq!(told[0].subject, "device 3 of node n1");
    }

    fn node(name: &str, is_up: bool) -> NodeStateOf {
        NodeStateOf {
            name: name.to_owned(),
            is_up,
            is_stopped: false,
            is_lost: !is_up,
            standing: NodeStanding::Active,
            words: None,
            incarnation: None,
            process_before: None,
        }
    }

    #[test]
    fn what_a_device_has_become_while_its_node_was_away_is_told_when_it_is_back() {
        let device = |state| DeviceStateOf {
            node: "n1".to_owned(),
            path: "/dev/sdb".to_owned(),
            state,
            is_absent: false,
        };
        let here = |state| Snapshot {
            nodes: BTreeMap::from([(NodeId(1), node("n1", true))]),
            devices: BTreeMap::from([((NodeId(1), 3), device(state))]),
            ..with("", Health::Healthy)
        };
        let mut away = Snapshot {
            nodes: BTreeMap::from([(NodeId(1), node("n1", false))]),
            ..with("", Health::Healthy)
        };
        let kinds =
            |changes: Vec<Change>| changes.into_iter().map(|it| it.kind).collect::<Vec<_>>();
        let changes = away.follow(&here(DeviceState::InUse));
        assert_eq!(kinds(changes), [EventKind::NodeLost]);
        let mut back = here(DeviceState::Lost);
        let expected = [EventKind::NodeBack, EventKind::DeviceLost];
        assert_eq!(kinds(back.follow(&away)), expected);
    }

    #[test]
    fn devices_that_come_and_go_are_told() {
        let start_of = |start: u64, is_up, numbers: &[u16]| {
            let device = |number| DeviceStateOf {
                node: "n1".to_owned(),
                path: format!("/dev/sd{number}"),
                state: DeviceState::InUse,
                is_absent: false,
            };
            let devices = numbers.iter().map(|it| ((NodeId(1), *it), device(*it)));
            let state = NodeStateOf {
                incarnation: Some(start).filter(|_| is_up),
                ..node("n1", is_up)
            };
            Snapshot {
                nodes: BTreeMap::from([(NodeId(1), state)]),
                devices: devices.collect(),
                ..with("", Health::Healthy)
            }
        };
        let with = |is_up, numbers: &[u16]| start_of(4, is_up, numbers);
        let told = |mut then: Snapshot, before: &Snapshot| {
            let changes = then.follow(before).into_iter();
            let changes = changes.filter(|it| it.kind == EventKind::DeviceState);
            changes
                .map(|it| format!("{}: {}", it.subject, it.detail))
                .collect::<Vec<_>>()
        };
        let expected = [
            "device 2 of node n1: /dev/sd2: added, in-use",
            "device 0 of node n1: /dev/sd0: removed",
        ];
        assert_eq!(told(with(true, &[1, 2]), &with(true, &[0, 1])), expected);
        // It has just begun to tell of them, or does not tell any more.
        assert!(told(with(true, &[0, 1]), &with(true, &[])).is_empty());
        assert!(told(with(true, &[]), &with(true, &[0, 1])).is_empty());
        // It was removed while the node was away.
        let mut away = with(false, &[]);
        let changes = away.follow(&with(true, &[0, 1]));
        assert!(changes.iter().all(|it| it.kind != EventKind::DeviceState));
        assert_eq!(told(with(true, &[1]), &away), [expected[1]]);
        // Another machine has taken its place: the numbers are those of other devices.
        assert!(told(start_of(5, true, &[1, 2]), &away).is_empty());
    }

    fn syncing(moved: u64, is_moving: bool, is_done: bool) -> Snapshot {
        let key = (VolumeId(7), NodeId(2));
        let volume = VolumeState {
            name: "db".to_owned(),
            health: Health::Healthy,
            bytes: 1 << 30,
            access: VolumeAccess {
                open: true,
                initiators: Vec::new(),
            },
            moved,
            taken_over_ms: None,
            writes_wait: false,
        };
        let sync = SyncState {
            volume: "db".to_owned(),
            node: "n2".to_owned(),
            bytes: 100 << 20,
            is_guessed: false,
            since_ms: 1000,
            moved,
        };
        Snapshot {
            volumes: BTreeMap::from([(VolumeId(7), volume)]),
            syncs: is_moving.then_some((key, sync)).into_iter().collect(),
            lacking: (!is_moving && !is_done)
                .then_some(key)
                .into_iter()
                .collect(),
            holders: is_done.then_some(key).into_iter().collect(),
            ..with("", Health::Healthy)
        }
    }

    #[test]
    fn a_sync_that_has_ended_tells_what_was_copied_and_how_long_that_took() {
        let words = |changes: Vec<Change>| {
            let words = changes
                .into_iter()
                .map(|it| (it.kind, it.severity, it.detail));
            words.collect::<Vec<_>>()
        };
        let idle = syncing(5 << 20, false, true);
        let mut begun = syncing(5 << 20, true, false);
        let told = words(begun.follow(&idle));
        let began = "what is to be on n2 is brought up to date: 100 MiB may differ there";
        let info = EventSeverity::Info;
        assert_eq!(told, [(EventKind::SyncBegan, info, began.to_owned())]);
        let mut going = Snapshot {
            at_ms: 60_000,
            ..syncing(50 << 20, true, false)
        };
        assert_eq!(words(going.follow(&begun)), []);
        let at_end = |is_done| Snapshot {
            at_ms: 124_000,
            ..syncing(95 << 20, false, is_done)
        };
        let done = "what is to be on n2 is up to date: 100 MiB might have differed when that began, and 90 MiB were sent for the \
                    volume since, in 2 min 3 s: only what did differ is sent, and no zeros; nor is what a node sent counted that did not live to say so";
        let ended = EventKind::SyncEnded;
        let told = words(at_end(true).follow(&going));
        assert_eq!(told, [(ended, info, done.to_owned())]);
        let stopped = "what is to be on n2 is not brought up to date any more, and is not up to date: nobody can copy it now; 100 \
                       MiB might have differed when that began, and 90 MiB were sent for the volume since, in 2 min 3 s: only what \
                       did differ is sent, and no zeros; nor is what a node sent counted that did not live to say so";
        let told = words(at_end(false).follow(&going));
        assert_eq!(told, [(ended, EventSeverity::Warning, stopped.to_owned())]);
        let deleted = with("", Health::Healthy).follow(&going);
        let deleted = words(deleted);
        let gone = "what was to be on n2 is not brought up to date any more: the volume is deleted";
        assert!(
            deleted.contains(&(ended, info, gone.to_owned())),
            "{deleted:?}"
        );
    }

    #[test]
    fn of_a_sync_that_has_nothing_to_copy_nothing_is_told_before_it_has() {
        let kinds =
            |changes: Vec<Change>| changes.into_iter().map(|it| it.kind).collect::<Vec<_>>();
        let of_bytes = |bytes| {
            let mut seen = syncing(0, true, false);
            seen.syncs.values_mut().for_each(|sync| sync.bytes = bytes);
            seen
        };
        let idle = syncing(0, false, true);
        let mut empty = of_bytes(0);
        assert_eq!(kinds(empty.follow(&idle)), []);
        assert_eq!(kinds(syncing(0, false, true).follow(&empty)), []);
        assert_eq!(kinds(syncing(0, false, false).follow(&empty)), []);
        // Hosts have written meanwhile.
        let mut more = of_bytes(4096);
        assert_eq!(kinds(more.follow(&empty)), [EventKind::SyncBegan]);
        let mut almost = of_bytes(0);
        assert_eq!(kinds(almost.follow(&more)), []);
        let told = syncing(4096, false, true).follow(&almost);
        assert!(told[0].detail.contains(": 1 MiB might have"), "{told:?}");
        assert_eq!(kinds(told), [EventKind::SyncEnded]);
    }

    #[test]
    fn that_nobody_knows_yet_what_differs_is_told_and_what_is_known_later_counts() {
        let guessed = |bytes, is_guessed| {
            let mut seen = syncing(0, true, false);
            for sync in seen.syncs.values_mut() {
                (sync.bytes, sync.is_guessed) = (bytes, is_guessed);
            }
            seen
        };
        let mut begun = guessed(712 << 20, true);
        let told = begun.follow(&syncing(0, false, true));
        let words = "712 MiB may differ there, as long as it is not compared: who leads";
        assert!(told[0].detail.contains(words), "{told:?}");
        // Its slices take their turns: 4 MiB are copied before it is known of the last.
        let mut known = guessed(16 << 20, false);
        for sync in known.syncs.values_mut() {
            sync.moved = 4 << 20;
        }
        assert_eq!(known.follow(&begun), []);
        // What is left later is less, and not what differed.
        let mut later = guessed(5 << 20, false);
        assert_eq!(later.follow(&known), []);
        let told = syncing(8 << 20, false, true).follow(&later);
        assert!(
            told[0].detail.contains("20 MiB might have differed"),
            "{told:?}"
        );
    }

    #[test]
    fn a_node_that_was_started_anew_between_two_looks_is_told_as_back_once() {
        let start = |incarnation| Snapshot {
            nodes: BTreeMap::from([(
                NodeId(1),
                NodeStateOf {
                    incarnation,
                    ..node("n1", incarnation.is_some())
                },
            )]),
            ..with("", Health::Healthy)
        };
        let told = |before: &Snapshot, then: &Snapshot| {
            let changes = then.clone().follow(before).into_iter();
            changes.map(|it| (it.kind, it.detail)).collect::<Vec<_>>()
        };
        let (first, second, mut down) = (start(Some(4)), start(Some(5)), start(None));
        let back = |words: &str| [(EventKind::NodeBack, words.to_owned())];
        let unseen = back("up: started anew; it was away between two looks");
        assert_eq!(told(&first, &second), unseen);
        assert_eq!(told(&second, &second), []);
        // Where it was seen to be away, that is told, and no more.
        let lost = &down.follow(&first)[0];
        let critical = (EventKind::NodeLost, EventSeverity::Error);
        assert_eq!((lost.kind, lost.severity), critical);
        // In maintenance, for example.
        let mut away = start(None);
        away.nodes.values_mut().for_each(|it| it.is_lost = false);
        let severity = away.follow(&first)[0].severity;
        assert_eq!(severity, EventSeverity::Warning);
        assert_eq!(told(&down, &second), back("up: started anew"));
        let ran = "up: it ran all the while, and was not reached, or could not be relied on";
        assert_eq!(told(&down, &first), back(ran));
        for (end, words) in [
            (
                ProcessEnd::Stopped,
                "up: started anew, after it was stopped",
            ),
            (
                ProcessEnd::Cut,
                "up: started anew, after it was killed, crashed or failed, or its machine went down",
            ),
        ] {
            let mut second = second.clone();
            let nodes = second.nodes.values_mut();
            nodes.for_each(|node| node.process_before = Some(end));
            assert_eq!(told(&down, &second), back(words));
        }
        // One that was told to stop is not lost.
        let mut stopped = start(None);
        for node in stopped.nodes.values_mut() {
            (node.is_stopped, node.words) = (true, Some(format!("down: {STOPPED}")));
            node.is_lost = false;
        }
        let words = "down: it was stopped".to_owned();
        assert_eq!(told(&first, &stopped), [(EventKind::NodeStopped, words)]);
        // It has just begun to be looked at.
        assert_eq!(told(&start(None), &second), back("up"));
        // A version that did not keep it has left how everything was.
        let mut before = start(Some(4));
        let nodes = before.nodes.values_mut();
        nodes.for_each(|node| node.incarnation = None);
        assert_eq!(told(&before, &second), []);
    }

    #[test]
    fn what_matters_otherwise_than_it_did_is_not_over() {
        let told = |severity| {
            let alert = Alert {
                severity,
                subject: "node n1".to_owned(),
                detail: "it has not registered since it started".to_owned(),
            };
            Snapshot {
                alerts: BTreeMap::from([(key(&alert), alert)]),
                ..with("", Health::Healthy)
            }
        };
        let changes = |mut then: Snapshot, before: &Snapshot| {
            let changes = then.follow(before).into_iter();
            changes.map(|it| (it.kind, it.severity)).collect::<Vec<_>>()
        };
        let (warning, error) = (told(Severity::Warning), told(Severity::Error));
        let raised = [(EventKind::AlertRaised, EventSeverity::Error)];
        assert_eq!(changes(error.clone(), &warning), raised);
        assert_eq!(changes(warning.clone(), &error), []);
        let cleared = [(EventKind::AlertCleared, EventSeverity::Info)];
        let none = Snapshot {
            alerts: BTreeMap::new(),
            ..warning
        };
        assert_eq!(changes(none, &error), cleared);
    }

    #[test]
    fn what_follows_from_something_else_is_told_after_it() {
        let kinds =
            |changes: Vec<Change>| changes.into_iter().map(|it| it.kind).collect::<Vec<_>>();
        let seen = |is_up, health, mut seen: Snapshot| {
            seen.nodes = BTreeMap::from([(NodeId(2), node("n2", is_up))]);
            seen.volumes.values_mut().for_each(|it| it.health = health);
            Snapshot { health, ..seen }
        };
        let well = seen(true, Health::Healthy, syncing(0, false, true));
        let mut lost = seen(false, Health::Degraded, syncing(0, false, false));
        let (node_lost, node_back) = (EventKind::NodeLost, EventKind::NodeBack);
        let (volume, cluster) = (EventKind::VolumeHealth, EventKind::ClusterHealth);
        assert_eq!(kinds(lost.follow(&well)), [node_lost, volume, cluster]);
        let mut back = seen(true, Health::Degraded, syncing(0, true, false));
        let began = EventKind::SyncBegan;
        assert_eq!(kinds(back.follow(&lost)), [node_back, began]);
        let mut whole = seen(true, Health::Healthy, syncing(0, false, true));
        let ended = EventKind::SyncEnded;
        assert_eq!(kinds(whole.follow(&back)), [ended, volume, cluster]);
        // All of it between two looks.
        let mut both = seen(true, Health::Degraded, syncing(0, true, false));
        assert_eq!(kinds(both.follow(&well)), [volume, began, cluster]);
    }

    #[test]
    fn that_another_node_takes_over_hides_nothing_else() {
        let well = syncing(0, false, true);
        let told = |writes_wait| {
            let mut now = Snapshot {
                health: Health::Unavailable,
                ..well.clone()
            };
            for volume in now.volumes.values_mut() {
                volume.health = Health::Unavailable;
                volume.taken_over_ms = Some(1000);
            }
            let other = VolumeState {
                health: Health::Degraded,
                taken_over_ms: None,
                writes_wait,
                ..now.volumes[&VolumeId(7)].clone()
            };
            now.volumes.insert(VolumeId(8), other);
            let told = now.follow(&well).into_iter();
            let of_cluster = told.filter(|it| it.kind == EventKind::ClusterHealth);
            of_cluster.map(|it| it.severity).collect::<Vec<_>>()
        };
        assert_eq!(told(false), [EventSeverity::Warning]);
        assert_eq!(told(true), [EventSeverity::Error]);
    }

    /// Another node goes on with it, perhaps of another version.
    #[test]
    fn what_is_kept_is_read_as_it_was() {
        let kept = Snapshot {
            nodes: BTreeMap::from([(NodeId(1), node("n1", false))]),
            lacking: BTreeSet::new(),
            holders: BTreeSet::new(),
            ..syncing(1, true, false)
        };
        let mut value = serde_json::to_value(&kept).unwrap();
        assert_eq!(
            serde_json::from_value::<Snapshot>(value.clone()).unwrap(),
            kept
        );
        value["of-tomorrow"] = true.into();
        assert_eq!(
            serde_json::from_value::<Snapshot>(value.clone()).unwrap(),
            kept
        );
        // A version that did not tell it has left it so.
        let text = value.to_string();
        let of_before = text.replace(r#""is_lost":true,"#, "");
        assert_ne!(of_before, text);
        let mut kept = kept;
        kept.nodes.values_mut().for_each(|it| it.is_lost = false);
        assert_eq!(serde_json::from_str::<Snapshot>(&of_before).unwrap(), kept);
    }
}
