//! Telling receivers what was raised and what is over: each of them everything since it was last told, in one message.
//!
//! Invariants:
//! - a receiver is told of a change once at least, whoever steers: how far it was told is on record;
//! - one that cannot be told keeps nobody else waiting, and is tried again at a pace that slows down;
//! - what a receiver refuses for good is given up, and that is on record;
//! - of what was forgotten before a receiver could be told, it is told how much it was.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdfast_api::documents::AlarmSeverity;
use holdfast_control::forgotten_changes;
use holdfast_model::record::{AlarmEntry, AlarmsRecord, ReceiverRecord, Undelivered};
use holdfast_notify::{self as notify, ALARMS_MAX, Message, Told, deliver};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::documents::severity;
use super::receivers::{CLOSED, is_closed, receiver};
use super::{Kept, documents};
use crate::Controller;
use crate::clock::unix_ms;

/// The pause after a first failure; it doubles with each further one.
const PAUSE: Duration = Duration::from_secs(5);
/// And is no longer than this.
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// How often it doubles until then.
const DOUBLINGS_MAX: u32 = 6;

/// Deliveries under way, and when there is to be another try.
#[derive(Debug, Default)]
pub(super) struct Telling {
    tries: BTreeMap<String, Try>,
}

#[derive(Debug)]
struct Try {
    under_way: JoinHandle<()>,
    record: ReceiverRecord,
    begun: Instant,
    /// How often it had failed when it was begun.
    failures: u32,
    /// The last change of which it is known to have been told, whatever is on record.
    delivered: Arc<AtomicU64>,
}

impl Drop for Try {
    /// Whoever steers next tells.
    fn drop(&mut self) {
        self.under_way.abort();
    }
}

impl Telling {
    pub(super) fn pass(&mut self, controller: &Controller, kept: &Kept) {
        let receivers = &kept.receivers.receivers;
        self.tries.retain(|name, _| receivers.contains_key(name));
        for (name, record) in receivers {
            let told = kept.alarms.told.get(name).copied();
            // Another place under the same name has been told nothing yet.
            let last = self.tries.get(name).filter(|it| it.record == *record);
            let delivered = last.map(|it| Arc::clone(&it.delivered)).unwrap_or_default();
            let told = told.unwrap_or(kept.alarms.changes);
            let told = told.max(delivered.load(Ordering::Relaxed));
            if told >= kept.alarms.changes || !self.is_due(name, &kept.alarms) {
                continue;
            }
            let failures = failures(name, &kept.alarms);
            let about = (kept.alarms.clone(), told);
            let receiver = (name.clone(), record.clone());
            let task = tell(controller.clone(), receiver, about, Arc::clone(&delivered));
            let new = Try {
                under_way: tokio::spawn(task),
                record: record.clone(),
                begun: Instant::now(),
                failures,
                delivered,
            };
            self.tries.insert(name.clone(), new);
        }
    }

    /// Whether a receiver may be told now.
    fn is_due(&self, name: &str, alarms: &AlarmsRecord) -> bool {
        let Some(last) = self.tries.get(name) else {
            return true;
        };
        let failures = failures(name, alarms);
        last.under_way.is_finished()
            && (failures <= last.failures || last.begun.elapsed() >= pause(failures))
    }
}

fn failures(name: &str, alarms: &AlarmsRecord) -> u32 {
    alarms.undelivered.get(name).map_or(0, |it| it.attempts)
}

/// How long after the try before a receiver is tried again that could not be told so often.
fn pause(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(DOUBLINGS_MAX);
    (PAUSE * 2_u32.pow(doublings)).min(PAUSE_MAX)
}

/// What there is to tell a receiver that has been told until a change.
pub(super) fn news(alarms: &AlarmsRecord, told: u64, critical_only: bool) -> Vec<Told> {
    let is_meant =
        |entry: &&AlarmEntry| !critical_only || severity(&entry.kind) != AlarmSeverity::Warning;
    let is_new = |entry: &&AlarmEntry| {
        let cleared = entry.cleared.as_ref().map_or(0, |it| it.change);
        entry.id.max(cleared) > told
    };
    let all = alarms.raised.iter().rev().chain(&alarms.cleared);
    let mut news: Vec<&AlarmEntry> = all.filter(is_new).filter(is_meant).collect();
    // The most important first.
    let rank = |entry: &AlarmEntry| match (&entry.cleared, severity(&entry.kind)) {
        (None, AlarmSeverity::Critical) => 0,
        (None, _) => 1,
        (Some(_), _) => 2,
    };
    news.sort_by_key(|entry| rank(entry));
    news.into_iter().map(of_entry).collect()
}

fn of_entry(entry: &AlarmEntry) -> Told {
    let alarm = documents::alarm(entry);
    Told {
        id: alarm.id.to_string(),
        code: alarm.kind,
        severity: match alarm.severity {
            AlarmSeverity::Critical => notify::Severity::Critical,
            AlarmSeverity::Warning | AlarmSeverity::Other => notify::Severity::Warning,
        },
        change: match alarm.cleared_ms {
            Some(_) => notify::Change::Cleared,
            None => notify::Change::Raised,
        },
        subject: alarm.subject,
        title: alarm.title,
        detail: alarm.detail,
        meaning: alarm.meaning,
        action: alarm.action,
        since_ms: alarm.raised_ms,
        cleared_ms: alarm.cleared_ms,
    }
}

async fn tell(
    controller: Controller,
    (name, record): (String, ReceiverRecord),
    (alarms, told): (AlarmsRecord, u64),
    delivered: Arc<AtomicU64>,
) {
    let news = news(&alarms, told, record.critical_only);
    let forgotten = forgotten_changes(&alarms, told);
    let outcome = if news.is_empty() && forgotten == 0 {
        Outcome::NotMeant
    } else if is_closed(&record) {
        Outcome::Trouble(CLOSED.to_owned(), false)
    } else {
        send(&controller, &record, (&news, forgotten)).await
    };
    match &outcome {
        Outcome::Trouble(why, false) => tracing::warn!("tell {name} of alarms: {why}"),
        Outcome::Trouble(why, true) => tracing::warn!("tell {name} of alarms: given up: {why}"),
        Outcome::NotMeant | Outcome::Told => {}
    }
    if !matches!(outcome, Outcome::Trouble(_, false)) {
        delivered.fetch_max(alarms.changes, Ordering::Relaxed);
    }
    let noted = controller.note_told(&name, alarms.changes, &outcome).await;
    if let Err(problem) = noted {
        // Another one who steers tells it once more.
        tracing::debug!(%problem, "put on record that {name} was told");
    }
}

/// What came of telling a receiver.
enum Outcome {
    /// Nothing of it was for that receiver.
    NotMeant,
    /// It was told.
    Told,
    /// It could not be: why, and whether that is given up.
    Trouble(String, bool),
}

/// Sends all of it, in as many messages as that takes; the first one says what is not on record any more.
async fn send(
    controller: &Controller,
    record: &ReceiverRecord,
    (news, forgotten): (&[Told], u64),
) -> Outcome {
    let receiver = receiver(record);
    let first = news.chunks(ALARMS_MAX).next().unwrap_or_default();
    let rest = news.chunks(ALARMS_MAX).skip(1).map(|some| (some, 0));
    for (some, forgotten) in std::iter::once((first, forgotten)).chain(rest) {
        let message = Message {
            forgotten,
            ..controller.message(some.to_vec())
        };
        let delivered = deliver(&receiver, &message).await;
        if let Err(error) = delivered {
            return Outcome::Trouble(format!("{error}: {}", error.help()), error.is_permanent());
        }
    }
    Outcome::Told
}

impl Controller {
    pub(super) fn message(&self, alarms: Vec<Told>) -> Message {
        let cluster = self.cluster.to_string();
        Message {
            cluster_name: cluster.chars().take(8).collect(),
            cluster,
            sent_at_ms: unix_ms(),
            alarms,
            forgotten: 0,
        }
    }

    /// A receiver was told of everything until a change, or could not be.
    async fn note_told(
        &self,
        name: &str,
        until: u64,
        outcome: &Outcome,
    ) -> Result<(), crate::Problem> {
        self.change_alarms(|kept| {
            if !kept.receivers.receivers.contains_key(name) {
                return Ok(());
            }
            let alarms = &mut kept.alarms;
            match outcome {
                // What could not be told before may still not be.
                Outcome::NotMeant => {}
                Outcome::Told => drop(alarms.undelivered.remove(name)),
                Outcome::Trouble(why, is_given_up) => {
                    let attempts = failures(name, alarms).saturating_add(1);
                    let undelivered = Undelivered {
                        at_ms: unix_ms(),
                        why: why.clone(),
                        attempts,
                        is_given_up: *is_given_up,
                    };
                    alarms.undelivered.insert(name.to_owned(), undelivered);
                }
            }
            if !matches!(outcome, Outcome::Trouble(_, false)) {
                let told = alarms.told.entry(name.to_owned()).or_default();
                *told = until.max(*told);
            }
            Ok(())
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use holdfast_model::record::Clearing;

    use super::*;

    fn entry(id: u64, kind: &str, cleared: Option<u64>) -> AlarmEntry {
        AlarmEntry {
            id,
            kind: kind.to_owned(),
            subject: "node n1".to_owned(),
            detail: "it does not answer".to_owned(),
            raised_ms: 7000,
            cleared: cleared.map(|change| Clearing {
                change,
                at_ms: 9000,
            }),
            acknowledged: None,
        }
    }

    #[test]
    fn everything_since_the_last_time_is_told_and_nothing_twice() {
        let alarms = AlarmsRecord {
            changes: 5,
            raised: vec![entry(4, "pool-filling", None), entry(5, "node-lost", None)],
            cleared: vec![
                entry(1, "node-lost", Some(2)),
                entry(2, "node-lost", Some(3)),
            ],
            ..AlarmsRecord::default()
        };
        let ids = |told, critical_only| {
            let news = news(&alarms, told, critical_only);
            news.into_iter()
                .map(|it| (it.id, it.change.name()))
                .collect::<Vec<_>>()
        };
        let is = |all: &[(&str, &'static str)]| {
            all.iter()
                .map(|(id, change)| ((*id).to_owned(), *change))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            ids(2, false),
            is(&[("5", "raised"), ("4", "raised"), ("2", "cleared")])
        );
        assert_eq!(ids(2, true), is(&[("5", "raised"), ("2", "cleared")]));
        assert_eq!(ids(5, false), is(&[]));
    }

    #[test]
    fn pauses_grow_and_have_a_bound() {
        assert_eq!(pause(0), PAUSE);
        assert_eq!(pause(1), PAUSE);
        assert_eq!(pause(2), PAUSE * 2);
        assert_eq!(pause(u32::MAX), PAUSE_MAX);
    }
}
