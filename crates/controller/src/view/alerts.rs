//! How the cluster is, and what an administrator is told at once: both follow from the findings, of which
//! [`explain`](super::explain) is the one source.
//!
//! Invariants:
//! - the cluster is no better than any finding says;
//! - what makes it worse is told: a volume's findings with the volume, every other one by an alert of its own.

use std::cmp::Reverse;

use holdfast_api::documents::{Alert, Explanation, Finding, FindingKind, Health, Severity};
use holdfast_control::Inventory;

use super::node_findings::{METADATA_FULL, METADATA_ROOM, is_lost};
use crate::reports::Reports;

/// How the cluster, or a volume, is at best as long as something of this kind is so. Of room that is low, and not
/// full, it is less.
pub(super) const fn weight(kind: FindingKind) -> Health {
    match kind {
        FindingKind::NotServed | FindingKind::WritesWait => Health::Unavailable,
        FindingKind::NodeDown
        | FindingKind::NodeSilent
        | FindingKind::Syncing
        | FindingKind::BadBlocks
        | FindingKind::NoPlace
        | FindingKind::DevicesFailed
        | FindingKind::DeviceAbsent
        | FindingKind::DeviceDetached
        | FindingKind::NoRoom
        | FindingKind::MetadataLost
        | FindingKind::NotRegistered
        | FindingKind::NotRegisteredYet
        | FindingKind::MetadataFull
        | FindingKind::MetadataMember => Health::Degraded,
        // What an operator has ordered, or nothing is lacking for.
        FindingKind::SharedDomain
        | FindingKind::SharedSite
        | FindingKind::DeviceDraining
        | FindingKind::NotAdmitted
        | FindingKind::Maintenance
        | FindingKind::Draining
        | FindingKind::Other => Health::Healthy,
    }
}

/// How the cluster is, by all that there is to know.
pub(super) fn health(explanation: &Explanation) -> Health {
    let nodes = explanation.nodes.iter().flat_map(|node| &node.findings);
    let volumes = explanation.volumes.iter();
    let volumes = volumes.flat_map(|volume| &volume.findings);
    let all = explanation.metadata.iter().chain(nodes).chain(volumes);
    let healths = all.map(|finding| finding.health);
    healths.max().unwrap_or_default()
}

/// What an administrator is told at once, and what of that only says in which state a node or a volume is: events of their own tell
/// that it is in it from when on.
#[derive(Debug, Default)]
pub(super) struct Alerts {
    of_states: Vec<bool>,
    alerts: Vec<Alert>,
}

impl Alerts {
    pub(super) fn add(&mut self, alert: impl IntoIterator<Item = Alert>) {
        self.alerts.extend(alert);
        self.of_states.resize(self.alerts.len(), false);
    }

    pub(super) fn add_of_state(&mut self, alert: impl IntoIterator<Item = Alert>) {
        self.alerts.extend(alert);
        self.of_states.resize(self.alerts.len(), true);
    }

    /// All of them: what matters most first, and of what matters as much what hosts notice before the node by which it came.
    pub(super) fn all(mut self) -> Vec<Alert> {
        let is_of_node = |alert: &Alert| alert.subject.starts_with("node ");
        self.alerts
            .sort_by_key(|alert| (Reverse(alert.severity), is_of_node(alert)));
        self.alerts
    }

    /// Those that only say in which state something is, and the others.
    pub(super) fn by_state(self) -> (Vec<Alert>, Vec<Alert>) {
        let all = self.alerts.into_iter().zip(self.of_states);
        let (of_states, others): (Vec<_>, Vec<_>) = all.partition(|(_, of_state)| *of_state);
        let alerts = |told: Vec<(Alert, bool)>| told.into_iter().map(|(alert, _)| alert).collect();
        (alerts(of_states), alerts(others))
    }
}

/// What there is to tell of nodes, and of what keeps the metadata.
pub(super) fn of(inventory: &Inventory, explanation: &Explanation, reports: &Reports) -> Alerts {
    let metadata = explanation.metadata.iter();
    let mut alerts = Alerts::default();
    let of_metadata = metadata.filter_map(|finding| alert("metadata".to_owned(), finding));
    alerts.add(of_metadata);
    let own = reports.rejected().map(|own| own.name.as_str());
    let mut is_full = false;
    for node in &explanation.nodes {
        let named = || inventory.nodes.values().find(|it| it.name == node.node);
        let is_lost = || named().is_some_and(|it| is_lost(inventory, reports, it.node));
        for finding in &node.findings {
            is_full |= finding.kind == FindingKind::MetadataFull;
            let subject = match (finding.kind, own) {
                (FindingKind::NotRegistered, Some(own)) => format!("this node, {own}"),
                _ => format!("node {}", node.node),
            };
            let is_away = matches!(
                finding.kind,
                FindingKind::NodeDown | FindingKind::NotRegisteredYet
            );
            let mut alert = alert(subject, finding);
            if let Some(alert) = alert.as_mut().filter(|_| is_away && is_lost()) {
                alert.severity = Severity::Error;
            }
            match finding.kind {
                FindingKind::NodeDown => alerts.add_of_state(alert),
                _ => alerts.add(alert),
            }
        }
    }
    // Whoever says it, there is one metadata: it is told once.
    alerts.add(is_full.then(|| Alert {
        severity: Severity::Error,
        subject: "metadata".to_owned(),
        detail: format!("{METADATA_FULL}: {METADATA_ROOM}"),
    }));
    alerts
}

/// What is told at once of a finding, if anything is.
fn alert(subject: String, finding: &Finding) -> Option<Alert> {
    let what = finding.what.as_str();
    let remedies = || {
        let remedies = finding.remedies.iter();
        let words: Vec<&str> = remedies.map(|remedy| remedy.what.as_str()).collect();
        words.join("; or ")
    };
    let (severity, detail) = match finding.kind {
        FindingKind::NodeDown => (Severity::Warning, format!("down: {what}")),
        FindingKind::NotAdmitted => {
            let add = finding.remedies.first()?.command.as_deref()?;
            let detail = format!("waits to be admitted: `{add}`");
            (Severity::Warning, detail)
        }
        FindingKind::NotRegistered => {
            let severity = match finding.health {
                Health::Healthy => Severity::Warning,
                _ => Severity::Error,
            };
            let detail = format!("not registered: {what}: {}", remedies());
            (severity, detail)
        }
        FindingKind::MetadataMember | FindingKind::NotRegisteredYet => {
            (Severity::Warning, what.to_owned())
        }
        // Of a node: with a volume, it is told how that is.
        FindingKind::BadBlocks => (Severity::Warning, what.to_owned()),
        FindingKind::NoRoom if finding.health == Health::Healthy => {
            (Severity::Warning, what.to_owned())
        }
        FindingKind::NoRoom
        | FindingKind::DevicesFailed
        | FindingKind::DeviceAbsent
        | FindingKind::DeviceDetached
        | FindingKind::MetadataLost => (Severity::Error, what.to_owned()),
        // Told once for all nodes, with its volume, or ordered by an operator.
        FindingKind::MetadataFull
        | FindingKind::NotServed
        | FindingKind::WritesWait
        | FindingKind::NodeSilent
        | FindingKind::Syncing
        | FindingKind::NoPlace
        | FindingKind::SharedDomain
        | FindingKind::SharedSite
        | FindingKind::DeviceDraining
        | FindingKind::Maintenance
        | FindingKind::Draining
        | FindingKind::Other => return None,
    };
    Some(Alert {
        severity,
        subject,
        detail,
    })
}
