//! What became of volumes.
//!
//! Invariant: that nobody serves a volume is told, unless another node is just taking it over, and as soon as that takes too long.

use std::collections::BTreeMap;

use holdfast_api::documents::{EventKind, EventSeverity, Health, VolumeAccess};
use holdfast_control::Inventory;
use holdfast_model::record::VolumeRecord;
use holdfast_model::{ByteSize, VolumeId};
use holdfast_stdx::Count;
use serde::{Deserialize, Serialize};

use super::{Change, change};
use crate::reports::Reports;
use crate::view::served::{is_served, may_be_taken_over, writes_wait};

/// Taking a slice over takes less, however busy its nodes are: what takes longer is no standstill of a moment. Where looks are a second
/// apart it is a matter of luck whether one of them sees a takeover.
const TAKE_OVER_MS_MAX: u64 = 3000;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct VolumeState {
    pub(super) name: String,
    pub(super) health: Health,
    pub(super) bytes: u64,
    pub(super) access: VolumeAccess,
    /// Bytes that were copied to bring its replicas up to date, ever.
    #[serde(default)]
    pub(super) moved: u64,
    /// Since when nobody serves some of it while there are enough good copies for another node to take over: milliseconds since 1970
    /// (UTC). Nothing where that is not so, or has been for too long.
    #[serde(default)]
    pub(super) taken_over_ms: Option<u64>,
    /// Whether writes to some of it wait for copies that are gone.
    #[serde(skip)]
    pub(super) writes_wait: bool,
}

impl VolumeState {
    pub(super) fn of(
        inventory: &Inventory,
        reports: &Reports,
        record: &VolumeRecord,
        at_ms: u64,
    ) -> Self {
        let slices = inventory.slices_of(record);
        let mut unserved = slices.filter(|slice| !is_served(reports, slice)).peekable();
        let is_any = unserved.peek().is_some();
        let is_taken_over = is_any && unserved.all(|slice| may_be_taken_over(reports, slice));
        Self {
            name: record.name.clone(),
            health: crate::view::volume_health(inventory, reports, record),
            bytes: record.bytes,
            access: crate::access::of(inventory, record),
            moved: crate::view::bytes_moved(inventory, reports, record),
            taken_over_ms: is_taken_over.then_some(at_ms),
            writes_wait: inventory
                .slices_of(record)
                .any(|slice| writes_wait(reports, slice)),
        }
    }

    /// How long it has stood still is counted from when that was first seen.
    pub(super) fn stands_still_since(&mut self, before: &Self, at_ms: u64) {
        if before.health == Health::Unavailable {
            let since = before
                .taken_over_ms
                .filter(|_| self.taken_over_ms.is_some());
            self.taken_over_ms =
                since.filter(|since| at_ms.saturating_sub(*since) < TAKE_OVER_MS_MAX);
        }
    }

    /// How it is, as is told: what lasts no longer than a takeover does is a stall, and is told of hosts' commands.
    pub(super) const fn told_health(&self) -> Health {
        match self.taken_over_ms {
            Some(_) => Health::Degraded,
            None => self.health,
        }
    }
}

/// What is told where a volume, or the cluster, was so before; nothing if that is the same.
pub(super) fn health_since(now: Health, before: Health) -> Option<(EventSeverity, String)> {
    let severity = match now {
        Health::Healthy => EventSeverity::Info,
        Health::Degraded => EventSeverity::Warning,
        Health::Unavailable => EventSeverity::Error,
    };
    let words = || format!("{}, after {}", now.as_str(), before.as_str());
    (now != before).then(|| (severity, words()))
}

pub(super) fn since(
    volumes: &BTreeMap<VolumeId, VolumeState>,
    before: &BTreeMap<VolumeId, VolumeState>,
    changes: &mut Vec<Change>,
) {
    let info = EventSeverity::Info;
    // Another one may have the name by now.
    for (id, volume) in before {
        if !volumes.contains_key(id) {
            let subject = format!("volume {}", volume.name);
            let words = "deleted, with all its data";
            changes.push(change(EventKind::VolumeDeleted, info, subject, words));
        }
    }
    for (id, volume) in volumes {
        let subject = || format!("volume {}", volume.name);
        let Some(was) = before.get(id) else {
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
                (false, count) => {
                    let hosts = Count::of(count, "initiator");
                    format!("is for {hosts}, and nobody else")
                }
            };
            changes.push(change(EventKind::VolumeAccess, info, subject(), words));
        }
        if let Some((severity, words)) = health_since(volume.told_health(), was.told_health()) {
            changes.push(change(EventKind::VolumeHealth, severity, subject(), words));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A volume that nobody serves, seen at a time, and what is told of it where it was so before.
    fn seen(before: &VolumeState, at_ms: u64, is_taken_over: bool) -> (VolumeState, Vec<Change>) {
        let mut now = VolumeState {
            health: Health::Unavailable,
            taken_over_ms: is_taken_over.then_some(at_ms),
            ..before.clone()
        };
        now.stands_still_since(before, at_ms);
        (now.clone(), told(before, &now))
    }

    fn told(before: &VolumeState, now: &VolumeState) -> Vec<Change> {
        let of = |state: &VolumeState| BTreeMap::from([(VolumeId(7), state.clone())]);
        let mut changes = Vec::new();
        since(&of(now), &of(before), &mut changes);
        changes
    }

    fn served(health: Health) -> VolumeState {
        VolumeState {
            name: "db".to_owned(),
            health,
            bytes: 1 << 30,
            access: VolumeAccess {
                open: true,
                initiators: Vec::new(),
            },
            moved: 0,
            taken_over_ms: None,
            writes_wait: false,
        }
    }

    fn words(changes: &[Change]) -> Vec<(EventSeverity, &str)> {
        let words = changes.iter().map(|it| (it.severity, &*it.detail));
        words.collect()
    }

    #[test]
    fn the_moment_in_which_another_node_takes_over_is_told_only_where_it_lasts() {
        let (still, changes) = seen(&served(Health::Healthy), 1000, true);
        assert_eq!(
            words(&changes),
            [(EventSeverity::Warning, "degraded, after healthy")]
        );
        let changes = told(&still, &served(Health::Degraded));
        assert_eq!(words(&changes), []);

        let (still, changes) = seen(&still, 1000 + TAKE_OVER_MS_MAX - 1, true);
        assert_eq!(words(&changes), []);
        let (stuck, changes) = seen(&still, 1000 + TAKE_OVER_MS_MAX, true);
        let lasts = [(EventSeverity::Error, "unavailable, after degraded")];
        assert_eq!(words(&changes), lasts);
        let (stuck, changes) = seen(&stuck, 2000 + TAKE_OVER_MS_MAX, true);
        assert_eq!(words(&changes), []);
        let changes = told(&stuck, &served(Health::Degraded));
        let again = "degraded, after unavailable";
        assert_eq!(words(&changes), [(EventSeverity::Warning, again)]);

        // Its last good copies are lost meanwhile.
        let (still, _) = seen(&served(Health::Healthy), 1000, true);
        let (_, changes) = seen(&still, 2000, false);
        assert_eq!(words(&changes), lasts);
        let (_, changes) = seen(&served(Health::Degraded), 1000, false);
        assert_eq!(words(&changes), lasts);
    }
}
