//! Telling receivers what was raised and what is over: each of them everything since it was last told, in one message.
//!
//! Invariants:
//! - a receiver is told of a change once at least, whoever steers: how far it was told is on record;
//! - one that cannot be told keeps nobody else waiting, and is tried again at a pace that slows down;
//! - what a receiver refuses for good is given up, and that is on record;
//! - of what was forgotten before a receiver could be told, it is told how much it was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use holdfast_api::documents::AlarmSeverity;
use holdfast_control::forgotten_changes;
use holdfast_model::record::{AlarmEntry, AlarmsRecord, ReceiverRecord, Undelivered};
use holdfast_notify::{self as notify, ALARMS_MAX, Message, Told, deliver_if};
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
    /// What is told is not on record, and so neither is who was told of it.
    is_from_memory: bool,
}

#[derive(Debug)]
struct Try {
    under_way: JoinHandle<()>,
    record: ReceiverRecord,
    begun: Instant,
    /// How often it had failed when it was begun.
    failures: u32,
    known: Arc<Known>,
}

/// What is known of a receiver, whatever is on record.
#[derive(Debug, Default)]
struct Known {
    /// The last change of which it has been told.
    delivered: AtomicU64,
    /// What came of that, for when it can be put on record.
    ended: Mutex<Outcome>,
    /// How often it could not be told since.
    failures: AtomicU32,
    /// Whether it hears of anything: decided once, when a message is about to be sent, or when that is called off.
    hears: OnceLock<bool>,
}

impl Known {
    /// Takes in what came of telling of everything until a change, after so many failures.
    fn note(&self, until: u64, failures: u32, outcome: &Outcome) {
        let failures = match outcome {
            Outcome::NotMeant => failures,
            Outcome::Told => 0,
            Outcome::Trouble(..) => failures.saturating_add(1),
        };
        self.failures.store(failures, Ordering::Relaxed);
        if !matches!(outcome, Outcome::Trouble(_, false)) {
            self.delivered.fetch_max(until, Ordering::Relaxed);
            let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            ended.clone_from(outcome);
        }
    }

    fn ended(&self) -> Outcome {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.clone()
    }
}

impl Try {
    /// How often the receiver could not be told since it last could. Of another place under the same name nothing is known here.
    fn failures(&self, record: &ReceiverRecord, on_record: u32) -> u32 {
        if self.record != *record {
            return on_record;
        }
        on_record.max(self.known.failures.load(Ordering::Relaxed))
    }
}

impl Drop for Try {
    /// Whoever steers next tells.
    fn drop(&mut self) {
        self.under_way.abort();
    }
}

impl Telling {
    /// One that tells of what is not on record.
    pub(super) fn from_memory() -> Self {
        Self {
            is_from_memory: true,
            ..Self::default()
        }
    }

    /// Calls off what is told to those who have heard of nothing here yet. Answers who has, or may have.
    pub(super) fn call_off(&mut self) -> BTreeSet<String> {
        let hears = |it: &Try| *it.known.hears.get_or_init(|| false);
        self.tries.retain(|_, it| hears(it));
        self.tries.keys().cloned().collect()
    }

    /// Whether all have been told of everything, or that was given up.
    pub(super) fn has_told_all(&self, kept: &Kept) -> bool {
        let has_been_told = |it: &Try| {
            let delivered = it.known.delivered.load(Ordering::Relaxed);
            delivered >= kept.alarms.changes
        };
        let mut names = kept.receivers.receivers.keys();
        names.all(|name| self.tries.get(name).is_some_and(has_been_told))
    }

    pub(super) fn pass(&mut self, controller: &Controller, kept: &Kept) {
        let receivers = &kept.receivers.receivers;
        self.tries.retain(|name, _| receivers.contains_key(name));
        for (name, record) in receivers {
            let told = kept.alarms.told.get(name).copied();
            // Another place under the same name has been told nothing yet.
            let last = self.tries.get(name).filter(|it| it.record == *record);
            let known = last.map(|it| Arc::clone(&it.known)).unwrap_or_default();
            let noted = told.unwrap_or(kept.alarms.changes);
            let told = noted.max(known.delivered.load(Ordering::Relaxed));
            let until = if self.is_from_memory { told } else { noted };
            let on_record = failures(name, &kept.alarms);
            if until >= kept.alarms.changes || !self.is_due(name, record, on_record) {
                continue;
            }
            let failures = last.map_or(on_record, |it| it.failures(record, on_record));
            let delivery = Delivery {
                name: name.clone(),
                record: record.clone(),
                alarms: kept.alarms.clone(),
                told,
                failures,
                known: Arc::clone(&known),
                is_from_memory: self.is_from_memory,
            };
            let new = Try {
                under_way: tokio::spawn(tell(controller.clone(), delivery)),
                record: record.clone(),
                begun: Instant::now(),
                failures,
                known,
            };
            self.tries.insert(name.clone(), new);
        }
    }

    /// Whether a receiver may be told now.
    fn is_due(&self, name: &str, record: &ReceiverRecord, on_record: u32) -> bool {
        let Some(last) = self.tries.get(name) else {
            return true;
        };
        let failures = last.failures(record, on_record);
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

/// What is to be told to one receiver.
struct Delivery {
    name: String,
    record: ReceiverRecord,
    alarms: AlarmsRecord,
    /// Until which change it has been told.
    told: u64,
    /// How often it could not be told since it last could.
    failures: u32,
    known: Arc<Known>,
    /// Nothing of it is on record.
    is_from_memory: bool,
}

async fn tell(controller: Controller, it: Delivery) {
    let (name, until) = (&it.name, it.alarms.changes);
    let outcome = if it.told < until {
        let outcome = attempt(&controller, &it).await;
        it.known.note(until, it.failures, &outcome);
        outcome
    } else {
        // It has only to be put on record, where there was no room for that.
        it.known.ended()
    };
    if it.is_from_memory {
        return;
    }
    if let Err(problem) = controller.note_told(name, until, &outcome).await {
        // Another one who steers tells it once more.
        tracing::debug!(%problem, "put on record that {name} was told");
    }
}

/// Tells it, if anything of it is for that receiver.
async fn attempt(controller: &Controller, it: &Delivery) -> Outcome {
    let name = &it.name;
    let news = news(&it.alarms, it.told, it.record.critical_only);
    let forgotten = forgotten_changes(&it.alarms, it.told);
    let outcome = if news.is_empty() && forgotten == 0 {
        Outcome::NotMeant
    } else if is_closed(&it.record) {
        Outcome::Trouble(CLOSED.to_owned(), false)
    } else {
        send(controller, (&it.record, &it.known), (&news, forgotten)).await
    };
    match &outcome {
        Outcome::Trouble(why, false) => tracing::warn!("tell {name} of alarms: {why}"),
        Outcome::Trouble(why, true) => tracing::warn!("tell {name} of alarms: given up: {why}"),
        Outcome::NotMeant | Outcome::Told => {}
    }
    outcome
}

/// What came of telling a receiver.
#[derive(Clone, Debug, Default)]
enum Outcome {
    /// Nothing of it was for that receiver.
    #[default]
    NotMeant,
    /// It was told.
    Told,
    /// It could not be: why, and whether that is given up.
    Trouble(String, bool),
}

/// Sends all of it, in as many messages as that takes; the first one says what is not on record any more.
async fn send(
    controller: &Controller,
    (record, known): (&ReceiverRecord, &Known),
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
        let may_begin = || *known.hears.get_or_init(|| true);
        let delivered = deliver_if(&receiver, &message, &may_begin).await;
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
                // What was told of from memory is not on record yet, and what takes its number may be something else.
                let until = until.min(alarms.changes);
                let told = alarms.told.entry(name.to_owned()).or_default();
                *told = until.max(*told);
            }
            Ok(())
        })
        .await
    }
}

#[cfg(test)]
impl Telling {
    /// As if a receiver were being told: what it hears of is decided by what is in the cell. Must be called within a tokio runtime.
    pub(super) fn tries(&mut self, name: &str, record: &ReceiverRecord, hears: Option<bool>) {
        let known = Arc::new(Known::default());
        if let Some(hears) = hears {
            known.hears.set(hears).expect("it is new");
        }
        let new = Try {
            under_way: tokio::spawn(std::future::pending()),
            record: record.clone(),
            begun: Instant::now(),
            failures: 0,
            known,
        };
        self.tries.insert(name.to_owned(), new);
    }

    /// As if a receiver had been told of a change.
    pub(super) fn has_told(&self, name: &str, change: u64) {
        let told = &self.tries[name];
        told.known.note(change, 0, &Outcome::Told);
        told.under_way.abort();
    }
}

#[cfg(test)]
mod tests {
    use holdfast_model::record::{Clearing, ReceiverWay};

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

    /// While the metadata takes no change it is on record nowhere that a receiver could not be told.
    #[tokio::test(start_paused = true)]
    async fn what_fails_is_tried_at_a_pace_also_where_nothing_is_put_on_record() {
        let record = |url: &str| ReceiverRecord {
            critical_only: false,
            authority: String::new(),
            way: ReceiverWay::Webhook {
                url: url.to_owned(),
                secret: None,
            },
        };
        let (here, elsewhere) = (record("https://a.example/"), record("https://b.example/"));
        let known = Arc::new(Known::default());
        known.note(5, 0, &Outcome::Trouble("it is away".to_owned(), false));
        let under_way = tokio::spawn(async {});
        let last = Try {
            under_way,
            record: here.clone(),
            begun: Instant::now(),
            failures: 0,
            known: Arc::clone(&known),
        };
        let telling = Telling {
            tries: [("ops".to_owned(), last)].into(),
            is_from_memory: true,
        };
        tokio::time::sleep(PAUSE / 2).await;
        assert!(!telling.is_due("ops", &here, 0));
        assert!(telling.is_due("ops", &elsewhere, 0), "that is another one");
        tokio::time::sleep(PAUSE / 2).await;
        assert!(telling.is_due("ops", &here, 0));
        known.note(5, 1, &Outcome::Told);
        assert!(telling.is_due("ops", &here, 0));
    }

    #[test]
    fn pauses_grow_and_have_a_bound() {
        assert_eq!(pause(0), PAUSE);
        assert_eq!(pause(1), PAUSE);
        assert_eq!(pause(2), PAUSE * 2);
        assert_eq!(pause(u32::MAX), PAUSE_MAX);
    }
}
