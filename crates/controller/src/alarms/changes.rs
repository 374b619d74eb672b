//! What changed of the alarms between two looks, and who was told of them, for those who listen, and those who ask later.
//!
//! Invariant: who the receivers are, and why one could not be told, is for administrators, and told nowhere here: viewers see events.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_api::documents::{AlarmSeverity, EventKind, EventSeverity};
use holdfast_control::{AlarmBook, AlarmKind, Moment, forgotten_changes, rule_of};
use holdfast_model::record::{AlarmEntry, AlarmsRecord, ReceiverWay};
use holdfast_stdx::Count;
use serde::{Deserialize, Serialize};

use super::documents::severity;
use super::telling::news;
use super::{Kept, words};
use crate::Controller;
use crate::view::{Change, timestamp};

/// Alarms that are named where somebody was told of them; the others are counted.
const NAMED_MAX: usize = 5;

/// What is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AlarmsSeen {
    alarms: AlarmsRecord,
    /// The receivers that are told of critical alarms only.
    critical_only: BTreeSet<String>,
    /// All receivers. Earlier versions do not say.
    #[serde(default)]
    ways: BTreeMap<String, Way>,
    /// For how many seconds a subject has to be well before its alarm is over, of those that are raised, by its kind. Earlier versions do not say.
    #[serde(default)]
    holds: BTreeMap<String, u64>,
    /// What is bad, and not raised yet, of which every change is an event: so it is kept as it is. Earlier versions do not say.
    #[serde(default)]
    rising: Vec<Rising>,
}

/// Since when something is bad that has not been for long enough.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Rising {
    kind: String,
    subject: String,
    /// Milliseconds since 1970 (UTC), by the clock of whoever looks.
    since_ms: u64,
}

/// For how many milliseconds something was bad when whoever looked before saw it last.
pub(crate) type Held = (AlarmKind, String, u64);

/// Of which it is kept that they are bad: that a node is lost, or how a volume is, is told whenever it is otherwise.
const KEPT: [AlarmKind; 3] = [
    AlarmKind::NodeLost,
    AlarmKind::VolumeDegraded,
    AlarmKind::VolumeStopped,
];

impl AlarmsSeen {
    /// With what is not raised yet.
    pub(super) fn with(mut self, book: &AlarmBook, now: Moment) -> Self {
        let rising = book.rising(now).filter(|(kind, ..)| KEPT.contains(kind));
        let rising = rising.map(|(kind, subject, held_ms)| Rising {
            kind: kind.text().code.to_owned(),
            subject: subject.to_owned(),
            since_ms: now.wall_ms.saturating_sub(held_ms),
        });
        self.rising = rising.collect();
        self
    }

    /// What was bad until then, and not raised.
    pub(crate) fn held(&self, until_ms: u64) -> impl Iterator<Item = Held> {
        self.rising.iter().filter_map(move |it| {
            let kind = AlarmKind::of(&it.kind)?;
            let held_ms = until_ms.saturating_sub(it.since_ms);
            Some((kind, it.subject.clone(), held_ms))
        })
    }
}

/// How a receiver is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Way {
    Mail,
    Webhook,
}

impl Way {
    const fn of(way: &ReceiverWay) -> Self {
        match way {
            ReceiverWay::Mail { .. } => Self::Mail,
            ReceiverWay::Webhook { .. } => Self::Webhook,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Mail => "by mail",
            Self::Webhook => "by webhook",
        }
    }
}

impl From<&Kept> for AlarmsSeen {
    fn from(kept: &Kept) -> Self {
        let mut alarms = kept.alarms.clone();
        for trouble in alarms.undelivered.values_mut() {
            trouble.why.clear();
        }
        let receivers = kept.receivers.receivers.iter();
        let critical = receivers.clone().filter(|(_, it)| it.critical_only);
        let ways = receivers.map(|(name, it)| (name.clone(), Way::of(&it.way)));
        Self {
            alarms,
            critical_only: critical.map(|(name, _)| name.clone()).collect(),
            ways: ways.collect(),
            holds: holds(kept).collect(),
            rising: Vec::new(),
        }
    }
}

fn holds(kept: &Kept) -> impl Iterator<Item = (String, u64)> {
    let raised = kept.alarms.raised.iter();
    raised.filter_map(|entry| {
        let threshold = rule_of(&kept.rules, AlarmKind::of(&entry.kind)?)?;
        let seconds = threshold.hold_ms() / 1000;
        (seconds > 0).then(|| (entry.kind.clone(), seconds))
    })
}

impl Controller {
    /// The alarms on record, if that can be seen.
    pub(crate) async fn alarms_seen(&self) -> Option<AlarmsSeen> {
        Some((&self.alarms_kept().await.ok()?).into())
    }
}

/// What has changed since `before`.
pub(crate) fn alarm_changes(before: &AlarmsSeen, then: &AlarmsSeen) -> Vec<Change> {
    let mut changes = of_alarms(&before.alarms, &then.alarms, &then.holds);
    of_receivers(&before.alarms, then, &mut changes);
    changes
}

fn of_receivers(before: &AlarmsRecord, then: &AlarmsSeen, changes: &mut Vec<Change>) {
    let now = &then.alarms;
    let (mut untold, mut told_all) = (BTreeMap::new(), BTreeMap::new());
    let on_record = now
        .told
        .iter()
        .filter_map(|(name, until)| Some((name, until, *then.ways.get(name)?)));
    for (name, until, way) in on_record {
        let trouble = now.undelivered.get(name);
        let known = before.undelivered.get(name);
        if let Some(trouble) = trouble
            && known.is_none_or(|known| trouble.is_given_up && !known.is_given_up)
        {
            let ways: &mut Vec<Way> = untold.entry(trouble.is_given_up).or_default();
            ways.push(way);
        }
        // A new receiver is told of nothing that was before it.
        let Some(since) = before.told.get(name) else {
            continue;
        };
        let is_given_up = trouble.is_some_and(|trouble| trouble.is_given_up);
        if since >= until || is_given_up {
            continue;
        }
        if let Some(what) = told(now, (*since, *until), then.critical_only.contains(name)) {
            let ways: &mut Vec<Way> = told_all.entry(what).or_default();
            ways.push(way);
        }
    }
    let subject = || "receivers".to_owned();
    let total = then.ways.len();
    for (is_given_up, ways) in untold {
        let words = if is_given_up {
            "could not be told of alarms, and that is given up"
        } else {
            "cannot be told of alarms, and that is tried again"
        };
        changes.push(Change {
            kind: EventKind::AlarmUntold,
            severity: EventSeverity::Warning,
            subject: subject(),
            detail: format!(
                "{} {words}: `holdfast receiver list` tells administrators who, and why",
                counted(ways, total)
            ),
        });
    }
    changes.extend(told_all.into_iter().map(|(what, ways)| Change {
        kind: EventKind::AlarmTold,
        severity: EventSeverity::Info,
        subject: subject(),
        detail: format!("told {}: {what}", counted(ways, total)),
    }));
}

/// How many receivers of all, and in which way.
fn counted(ways: Vec<Way>, total: usize) -> String {
    let count = ways.len();
    let mut by_way: BTreeMap<Way, usize> = BTreeMap::new();
    for way in ways {
        *by_way.entry(way).or_default() += 1;
    }
    let words: Vec<_> = match by_way.len() {
        1 => by_way.keys().map(|way| way.words().to_owned()).collect(),
        _ => by_way
            .iter()
            .map(|(way, count)| format!("{count} {}", way.words()))
            .collect(),
    };
    format!(
        "{count} of {} ({})",
        Count::of(total, "receiver"),
        words.join(", ")
    )
}

/// What a receiver was told that has been told of these changes, if it was anything.
fn told(alarms: &AlarmsRecord, (since, until): (u64, u64), critical_only: bool) -> Option<String> {
    let mut then = alarms.clone();
    then.changes = until;
    then.raised.retain(|entry| entry.id <= until);
    // What was over later was told as raised.
    let is_over = |entry: &AlarmEntry| entry.cleared.as_ref().is_some_and(|it| it.change <= until);
    let later = then.cleared.iter().filter(|entry| !is_over(entry));
    let later = later.filter(|entry| entry.id <= until).cloned();
    let later = later.map(|entry| AlarmEntry {
        cleared: None,
        ..entry
    });
    then.raised.extend(later.collect::<Vec<_>>());
    then.cleared.retain(is_over);
    let news = news(&then, since, critical_only);
    let forgotten = forgotten_changes(&then, since);
    if news.is_empty() && forgotten == 0 {
        return None;
    }
    let names = news.iter().take(NAMED_MAX);
    let names = names.map(|it| format!("{} {} of {}", it.code, it.change.name(), it.subject));
    let mut names: Vec<String> = names.collect();
    let others = news.len().saturating_sub(NAMED_MAX) as u64 + forgotten;
    if others > 0 {
        names.push(format!("{others} more"));
    }
    Some(names.join(", "))
}

fn of_alarms(
    before: &AlarmsRecord,
    then: &AlarmsRecord,
    holds: &BTreeMap<String, u64>,
) -> Vec<Change> {
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
            let mut words = words(entry);
            let since = timestamp(entry.raised_ms).strftime("%Y-%m-%d %H:%M:%S UTC");
            words.push_str(&format!(" (since {since}"));
            if let Some(seconds) = holds.get(&entry.kind) {
                words.push_str(&format!("; over when it has been well for {seconds} s"));
            }
            words.push(')');
            changes.push(change(EventKind::AlarmRaised, weight, entry, words));
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
    use holdfast_model::record::{
        Acknowledgement, Clearing, ReceiverRecord, ReceiversRecord, Undelivered,
    };

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
        let holds = BTreeMap::from([("node-lost".to_owned(), 10)]);
        assert_eq!(of_alarms(&before, &before, &holds), []);
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
        let changes = of_alarms(&before, &then, &holds);
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
                    "node-lost: it does not answer (since 1970-01-01 00:00:01 UTC; over when it has been well for 10 s)"
                ),
            ]
        );
        assert_eq!(changes[2].severity, EventSeverity::Error);
        assert_eq!(of_alarms(&then, &then, &holds), []);
        let short = of_alarms(&before, &then, &BTreeMap::new());
        assert_eq!(
            short[2].detail,
            "node-lost: it does not answer (since 1970-01-01 00:00:01 UTC)"
        );
    }

    fn seen(changes: u64, told: u64, trouble: Option<bool>) -> AlarmsSeen {
        let undelivered = trouble.map(|is_given_up| Undelivered {
            at_ms: 1,
            why: "smtp.example refuses".to_owned(),
            attempts: 1,
            is_given_up,
        });
        let alarms = AlarmsRecord {
            changes,
            raised: (1..=changes).map(entry).collect(),
            told: BTreeMap::from([("ops".to_owned(), told)]),
            undelivered: undelivered
                .into_iter()
                .map(|it| ("ops".to_owned(), it))
                .collect(),
            ..AlarmsRecord::default()
        };
        let webhook = || ReceiverRecord {
            critical_only: false,
            authority: String::new(),
            way: ReceiverWay::Webhook {
                url: "https://hooks.example/1".to_owned(),
                secret: None,
            },
        };
        let receivers = ["chat", "ops"].map(|name| (name.to_owned(), webhook()));
        let receivers = ReceiversRecord {
            receivers: receivers.into(),
            ..ReceiversRecord::default()
        };
        (&Kept {
            alarms,
            receivers,
            ..Kept::default()
        })
            .into()
    }

    #[test]
    fn who_was_told_and_who_could_not_be_is_told() {
        let words = |before: &AlarmsSeen, then: &AlarmsSeen| {
            let changes = alarm_changes(before, then).into_iter();
            let of_receivers = changes.filter(|it| it.subject == "receivers");
            of_receivers
                .map(|it| (it.kind, it.detail))
                .collect::<Vec<_>>()
        };
        let untold = seen(2, 0, None);
        assert_eq!(words(&seen(0, 0, None), &untold), []);
        let trouble = seen(2, 0, Some(false));
        let told = words(&untold, &trouble);
        assert_eq!((told.len(), told[0].0), (1, EventKind::AlarmUntold));
        assert!(!told[0].1.contains("smtp"), "{told:?}");
        assert!(!serde_json::to_string(&trouble).unwrap().contains("smtp"));
        assert_eq!(words(&trouble, &trouble), []);
        let all = "told 1 of 2 receivers (by webhook): node-lost raised of node n2, node-lost raised of node n1";
        let expected = [(EventKind::AlarmTold, all.to_owned())];
        assert_eq!(words(&trouble, &seen(2, 2, None)), expected);
        // What is given up was told to nobody.
        let given_up = words(&trouble, &seen(2, 2, Some(true)));
        assert_eq!((given_up.len(), given_up[0].0), (1, EventKind::AlarmUntold));
        let many = words(&seen(9, 0, None), &seen(9, 8, None));
        assert!(many[0].1.ends_with("of node n4, 3 more"), "{many:?}");
        // It is told of critical ones only, and these are warnings.
        let mut then = seen(2, 2, None);
        then.critical_only.insert("ops".to_owned());
        for entry in &mut then.alarms.raised {
            entry.kind = "pool-filling".to_owned();
        }
        assert_eq!(words(&untold, &then), []);
    }

    /// Viewers see events, and may not list receivers.
    #[test]
    fn receivers_are_counted_and_not_named() {
        let both = |told: u64, trouble: Option<bool>| {
            let mut seen = seen(2, told, trouble);
            seen.ways.insert("ops".to_owned(), Way::Mail);
            seen.alarms.told.insert("chat".to_owned(), told);
            // It is on record no more.
            seen.alarms.told.insert("gone".to_owned(), told);
            seen
        };
        let told = alarm_changes(&both(0, None), &both(2, None));
        assert_eq!(told.len(), 1, "{told:?}");
        let words = "told 2 of 2 receivers (1 by mail, 1 by webhook): node-lost raised of ";
        assert!(told[0].detail.starts_with(words), "{told:?}");
        let untold = alarm_changes(&both(0, None), &both(0, Some(true)));
        assert_eq!(untold.len(), 1, "{untold:?}");
        let words = "1 of 2 receivers (by mail) could not be told of alarms, and that is given up";
        assert!(untold[0].detail.starts_with(words), "{untold:?}");
        for change in told.iter().chain(&untold) {
            let text = format!("{} {}", change.subject, change.detail);
            assert!(!text.contains("ops") && !text.contains("chat"), "{text}");
        }
    }
}
