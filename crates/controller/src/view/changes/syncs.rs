//! Which replicas are brought up to date, and what came of it.
//!
//! Invariant: what is told of how much was copied is what the records and the nodes count for the volume, and no estimate.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_api::documents::{EventKind, EventSeverity};
use holdfast_control::Inventory;
use holdfast_model::{NodeId, VolumeId};
use serde::{Deserialize, Serialize};

use super::{Change, Snapshot, VolumeState, change};
use crate::reports::Reports;
use crate::view::device_findings::quantity;
use crate::view::{name, work};

/// Why all that there is may differ: who leads was not there when the copy fell behind, or has been started since, or the copy is new.
const GUESSED: &str = ", as long as it is not compared: who leads has not seen all that changed since the copy was up to date";

/// A volume's replicas on a node that are brought up to date.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SyncState {
    /// The volume's name.
    pub(super) volume: String,
    /// The node's name.
    pub(super) node: String,
    /// Bytes that the replicas lacked when that was first seen, at most.
    pub(super) bytes: u64,
    /// Whether that is not known yet of some, of which all counts until it is: a primary that has led only since they fell behind
    /// compares what may differ.
    #[serde(default)]
    pub(super) is_guessed: bool,
    /// When it was: milliseconds since 1970 (UTC).
    pub(super) since_ms: u64,
    /// What had been copied for the volume then.
    pub(super) moved: u64,
}

impl SyncState {
    /// Whether there was something to copy when it was first seen: else nothing is told of it, before there is.
    pub(super) const fn is_told(&self) -> bool {
        self.bytes > 0
    }

    /// Goes on with what is known of it from before. What is known only now was so then, too.
    pub(super) fn follow(&mut self, known: &Self) {
        if known.is_guessed && !self.is_guessed && self.is_told() {
            // What is left now, and what was copied until it was known.
            let copied = self.moved.saturating_sub(known.moved);
            self.bytes = self.bytes.saturating_add(copied).min(known.bytes);
            self.since_ms = known.since_ms;
            self.moved = known.moved;
        } else {
            self.clone_from(known);
        }
    }
}

/// What is seen of it.
pub(super) struct Seen {
    pub(super) syncs: BTreeMap<(VolumeId, NodeId), SyncState>,
    pub(super) lacking: BTreeSet<(VolumeId, NodeId)>,
    pub(super) holders: BTreeSet<(VolumeId, NodeId)>,
}

pub(super) fn of(
    inventory: &Inventory,
    reports: &Reports,
    volumes: &BTreeMap<VolumeId, VolumeState>,
    at_ms: u64,
) -> Seen {
    let mut seen = Seen {
        syncs: BTreeMap::new(),
        lacking: BTreeSet::new(),
        holders: BTreeSet::new(),
    };
    for (id, volume) in &inventory.volumes {
        let moved = volumes.get(id).map_or(0, |volume| volume.moved);
        for slice in inventory.slices_of(&volume.record) {
            seen.holders.extend(slice.in_sync().map(|node| (*id, node)));
            for one in work::missing(inventory, reports, slice) {
                let key = (*id, one.target);
                if !one.moves() {
                    seen.lacking.insert(key);
                    continue;
                }
                let sync = seen.syncs.entry(key).or_insert_with(|| SyncState {
                    volume: volume.record.name.clone(),
                    node: name(inventory, one.target),
                    bytes: 0,
                    is_guessed: false,
                    since_ms: at_ms,
                    moved,
                });
                sync.bytes = sync.bytes.saturating_add(one.bytes);
                sync.is_guessed |= !one.is_known;
            }
        }
    }
    seen
}

impl Snapshot {
    /// Those that have begun. Of a replica that lacks nothing nothing is told: it is in sync in a moment.
    pub(super) fn syncs_begun_since(&self, before: &Self, changes: &mut Vec<Change>) {
        for (key, sync) in self.syncs.iter().filter(|(_, sync)| sync.is_told()) {
            if !before.syncs.get(key).is_some_and(SyncState::is_told) {
                let SyncState { node, bytes, .. } = sync;
                let bytes = quantity(*bytes);
                let guessed = if sync.is_guessed { GUESSED } else { "" };
                let words = format!(
                    "what is to be on {node} is brought up to date: {bytes} may differ there{guessed}"
                );
                let subject = format!("volume {}", sync.volume);
                let (kind, info) = (EventKind::SyncBegan, EventSeverity::Info);
                changes.push(change(kind, info, subject, words));
            }
        }
    }

    pub(super) fn syncs_ended_since(&self, before: &Self, changes: &mut Vec<Change>) {
        for (key, sync) in before.syncs.iter().filter(|(_, sync)| sync.is_told()) {
            if !self.syncs.contains_key(key) {
                let (severity, words) = self.ended(key, sync);
                let subject = format!("volume {}", sync.volume);
                changes.push(change(EventKind::SyncEnded, severity, subject, words));
            }
        }
    }

    /// How a sync has ended that is none any more.
    fn ended(&self, key: &(VolumeId, NodeId), sync: &SyncState) -> (EventSeverity, String) {
        let node = &sync.node;
        let Some(volume) = self.volumes.get(&key.0) else {
            let words = format!(
                "what was to be on {node} is not brought up to date any more: the volume is deleted"
            );
            return (EventSeverity::Info, words);
        };
        let sent = quantity(volume.moved.saturating_sub(sync.moved));
        let time = span(self.at_ms.saturating_sub(sync.since_ms));
        let bytes = quantity(sync.bytes);
        let copied = format!(
            "{bytes} might have differed when that began, and {sent} were sent for the volume since, in {time}{}",
            why(volume.moved.saturating_sub(sync.moved), sync.bytes)
        );
        if self.lacking.contains(key) {
            let words = format!(
                "what is to be on {node} is not brought up to date any more, and is not up to date: nobody can copy it now; {copied}"
            );
            return (EventSeverity::Warning, words);
        }
        let words = if self.holders.contains(key) {
            format!("what is to be on {node} is up to date: {copied}")
        } else {
            format!("nothing of it is to be on {node} any more: {copied}")
        };
        (EventSeverity::Info, words)
    }
}

/// Why another amount was sent than might have differed.
const fn why(sent: u64, differed: u64) -> &'static str {
    if sent < differed {
        ": only what did differ is sent, and no zeros; nor is what a node sent counted that did not live to say so"
    } else if sent > differed {
        ": what hosts wrote meanwhile is sent as well, and so is what other nodes lack of it"
    } else {
        ""
    }
}

/// How long something took, as people say it.
pub(crate) fn span(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0) => "less than 1 s".to_owned(),
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_why_more_or_less_was_sent_than_might_have_differed() {
        assert!(why(5, 6).contains("only what did differ"));
        assert!(why(6, 5).contains("wrote meanwhile"));
        assert_eq!(why(5, 5), "");
    }

    #[test]
    fn times_are_told_as_people_say_them() {
        for (milliseconds, text) in [
            (0, "less than 1 s"),
            (59_999, "59 s"),
            (60_000, "1 min 0 s"),
            (3_725_000, "1 h 2 min"),
        ] {
            assert_eq!(span(milliseconds), text);
        }
    }
}
