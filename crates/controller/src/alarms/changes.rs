//! What changed of the alarms between two looks, for those who listen.

use holdfast_api::documents::{AlarmSeverity, EventKind, EventSeverity};
use holdfast_model::record::{AlarmEntry, AlarmsRecord};

use super::documents::severity;
use super::words;
use crate::Controller;
use crate::view::Change;

impl Controller {
    /// The alarms on record, if that can be seen.
    pub(crate) async fn alarms_seen(&self) -> Option<AlarmsRecord> {
        Some(self.alarms_kept().await.ok()?.alarms)
    }
}

/// What has changed since `before`.
pub(crate) fn alarm_changes(before: &AlarmsRecord, then: &AlarmsRecord) -> Vec<Change> {
    let mut changes = Vec::new();
    for entry in &then.cleared {
        if entry
            .cleared
            .as_ref()
            .is_some_and(|it| it.change > before.changes)
        {
            changes.push(change(
                EventKind::AlarmCleared,
                EventSeverity::Info,
                entry,
                words(entry),
            ));
        }
    }
    for entry in &then.raised {
        if entry.id > before.changes {
            let weight = match severity(&entry.kind) {
                AlarmSeverity::Critical => EventSeverity::Error,
                AlarmSeverity::Warning | AlarmSeverity::Other => EventSeverity::Warning,
            };
            changes.push(change(EventKind::AlarmRaised, weight, entry, words(entry)));
            continue;
        }
        let known = before.raised.iter().find(|it| it.id == entry.id);
        if let Some(it) = &entry.acknowledged
            && known.is_some_and(|known| known.acknowledged.as_ref() != Some(it))
        {
            let mut words = format!("{}: known to {}", entry.kind, it.by);
            if !it.note.is_empty() {
                words.push_str(": ");
                words.push_str(&it.note);
            }
            changes.push(change(
                EventKind::AlarmAcknowledged,
                EventSeverity::Info,
                entry,
                words,
            ));
        }
    }
    changes
}

fn change(kind: EventKind, severity: EventSeverity, entry: &AlarmEntry, detail: String) -> Change {
    Change {
        kind,
        severity,
        subject: entry.subject.clone(),
        detail,
    }
}

#[cfg(test)]
mod tests {
    use holdfast_model::record::{Acknowledgement, Clearing};

    use super::*;

    fn entry(id: u64) -> AlarmEntry {
        AlarmEntry {
            id,
            kind: "node-lost".to_owned(),
            subject: format!("node n{id}"),
            detail: "it does not answer".to_owned(),
            raised_ms: 1000,
            cleared: None,
            acknowledged: None,
        }
    }

    #[test]
    fn each_change_is_told_once() {
        let before = AlarmsRecord {
            changes: 2,
            raised: vec![entry(1), entry(2)],
            ..AlarmsRecord::default()
        };
        assert_eq!(alarm_changes(&before, &before), []);
        let acknowledged = Some(Acknowledgement {
            by: "user eve".to_owned(),
            at_ms: 2000,
            note: "ticket 7".to_owned(),
        });
        let cleared = Some(Clearing {
            change: 3,
            at_ms: 2000,
        });
        let then = AlarmsRecord {
            changes: 4,
            raised: vec![
                AlarmEntry {
                    acknowledged,
                    ..entry(2)
                },
                entry(4),
            ],
            cleared: vec![AlarmEntry {
                cleared,
                ..entry(1)
            }],
            ..AlarmsRecord::default()
        };
        let changes = alarm_changes(&before, &then);
        let told = changes
            .iter()
            .map(|it| (it.kind, &*it.subject, &*it.detail));
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                (
                    EventKind::AlarmCleared,
                    "node n1",
                    "node-lost: it does not answer"
                ),
                (
                    EventKind::AlarmAcknowledged,
                    "node n2",
                    "node-lost: known to user eve: ticket 7"
                ),
                (
                    EventKind::AlarmRaised,
                    "node n4",
                    "node-lost: it does not answer"
                ),
            ]
        );
        assert_eq!(changes[2].severity, EventSeverity::Error);
        assert_eq!(alarm_changes(&then, &then), []);
    }
}
