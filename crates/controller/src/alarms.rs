//! Alarms: read from the metadata and changed there, raised and cleared by whoever steers, and told to those who are to be told.
//!
//! Invariants:
//! - what was raised by one who steers is neither raised again nor forgotten by the next;
//! - what somebody changes at the same time is not lost: every change states what it was made from;
//! - a secret that is on record goes to the receiver that it is for, and nowhere else.

mod changes;
mod documents;
mod heir;
mod receivers;
mod telling;
mod vigil;
mod watch;
mod witnesses;

use holdfast_api::documents::{
    Alarm, AlarmAcknowledge, AlarmChoice, AlarmKind, AlarmKindChange, AlarmKindList, AlarmList,
    AlarmQuery,
};
use holdfast_api::{Conditional, Problem, ProblemKind};
use holdfast_control::{self as control, AlarmUnit, Threshold, bound_alarms, default_rule};
use holdfast_model::metadata::{
    Compare, Operation, OperationResult, Revision, Selector, Transaction, TransactionOutcome,
    VALUE_LENGTH_MAX,
};
use holdfast_model::record::{
    ALARM_RULES_KEY, ALARMS_KEY, Acknowledgement, AlarmEntry, AlarmRule, AlarmRulesRecord,
    AlarmsRecord, MAINTENANCE_KEY, MaintenanceRecord, RECEIVERS_KEY, ReceiversRecord, Record,
    RecordError,
};

use crate::clock::unix_ms;
use crate::trust::Change;
use crate::{ATTEMPT_PAUSE, ATTEMPTS_MAX, Controller, problem};

pub(crate) use self::changes::{AlarmsSeen, Held, alarm_changes};
pub(crate) use self::heir::Heir;
pub(crate) use self::vigil::{Vigil, Way, WouldTell};
pub(crate) use self::watch::AlarmWatch;

/// What the metadata holds of alarms.
#[derive(Clone, Debug, Default)]
struct Kept {
    alarms: AlarmsRecord,
    rules: AlarmRulesRecord,
    receivers: ReceiversRecord,
    maintenance: MaintenanceRecord,
    /// Of the four.
    at: [Revision; 4],
}

const KEYS: [&str; 4] = [ALARMS_KEY, ALARM_RULES_KEY, RECEIVERS_KEY, MAINTENANCE_KEY];

impl Kept {
    fn read(outcome: TransactionOutcome) -> Result<Self, RecordError> {
        let mut kept = Self::default();
        for result in outcome.results {
            let OperationResult::Range(found) = result else {
                continue;
            };
            for pair in found {
                let place = KEYS.iter().position(|key| *key == pair.key);
                match place {
                    Some(0) => kept.alarms = AlarmsRecord::decode(&pair.value)?,
                    Some(1) => kept.rules = AlarmRulesRecord::decode(&pair.value)?,
                    Some(2) => kept.receivers = ReceiversRecord::decode(&pair.value)?,
                    Some(3) => kept.maintenance = MaintenanceRecord::decode(&pair.value)?,
                    _ => continue,
                }
                if let Some(place) = place {
                    kept.at[place] = pair.mod_revision;
                }
            }
        }
        Ok(kept)
    }

    /// What makes `next` of this; nothing if that is the same.
    fn until(&self, next: &Self) -> Option<Transaction> {
        let changed = [
            (self.alarms != next.alarms).then(|| next.alarms.encode()),
            (self.rules != next.rules).then(|| next.rules.encode()),
            (self.receivers != next.receivers).then(|| next.receivers.encode()),
            (self.maintenance != next.maintenance).then(|| next.maintenance.encode()),
        ];
        let success = KEYS.iter().zip(changed);
        let success =
            success.filter_map(|(key, value)| Some(Operation::put((*key).to_owned(), value?)));
        let success: Vec<_> = success.collect();
        let compare = KEYS
            .iter()
            .zip(self.at)
            .map(|(key, equals)| Compare::ModRevision {
                key: (*key).to_owned(),
                equals,
            });
        (!success.is_empty()).then(|| Transaction {
            compare: compare.collect(),
            success,
            failure: Vec::new(),
        })
    }
}

impl Controller {
    async fn alarms_kept(&self) -> Result<Kept, Problem> {
        let range = |key: &&str| Operation::Range(Selector::Key((*key).to_owned()));
        let look = Transaction {
            success: KEYS.iter().map(range).collect(),
            ..Transaction::default()
        };
        let outcome = self.desk.transact(look).await.map_err(problem::unread)?;
        if self.has_gone_back(outcome.revision) {
            return Err(problem::gone_back());
        }
        Kept::read(outcome).map_err(|error| {
            Problem::new(ProblemKind::Internal, error)
                .hint("another version of Holdfast may have written what there is about alarms")
        })
    }

    /// Changes what the metadata holds of alarms, again and again until nobody has come in between.
    async fn change_alarms<T>(
        &self,
        apply: impl Fn(&mut Kept) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        for attempt in 1..=ATTEMPTS_MAX {
            self.may_change(Change::Other).await?;
            let kept = self.alarms_kept().await?;
            let mut next = kept.clone();
            let done = apply(&mut next)?;
            bound_alarms(&mut next.alarms);
            if next.alarms.encode().len() > VALUE_LENGTH_MAX {
                let detail = "what is on record of alarms has no room for that";
                return Err(
                    Problem::new(ProblemKind::ClusterFull, detail).hint("leave a shorter note")
                );
            }
            let Some(transaction) = kept.until(&next) else {
                return Ok(done);
            };
            let outcome = self.desk.transact(transaction).await;
            if outcome.map_err(problem::metadata)?.succeeded {
                return Ok(done);
            }
            tokio::time::sleep(ATTEMPT_PAUSE * attempt).await;
        }
        let detail = "others change alarms at the same time";
        Err(Problem::new(ProblemKind::Conflict, detail).hint("try again"))
    }

    pub(crate) async fn alarms_asked(&self, query: AlarmQuery) -> Result<AlarmList, Problem> {
        let kept = self.alarms_kept().await?;
        let mut alarms = Vec::new();
        if query.state != AlarmChoice::Cleared {
            alarms.extend(kept.alarms.raised.iter().map(documents::alarm));
        }
        if query.state != AlarmChoice::Raised {
            alarms.extend(kept.alarms.cleared.iter().map(documents::alarm));
        }
        alarms.sort_by_cached_key(Alarm::place);
        Ok(AlarmList { alarms, next: None })
    }

    pub(crate) async fn acknowledge(
        &self,
        id: u64,
        request: &AlarmAcknowledge,
        by: &str,
    ) -> Result<Alarm, Problem> {
        self.change_alarms(|kept| {
            let found = kept.alarms.raised.iter_mut().find(|it| it.id == id);
            let entry = found.ok_or_else(|| no_such_alarm(id))?;
            entry.acknowledged = Some(Acknowledgement {
                by: by.to_owned(),
                at_ms: unix_ms(),
                note: request.note.clone(),
            });
            Ok(documents::alarm(entry))
        })
        .await
    }

    pub(crate) async fn kinds_of_alarms(&self) -> Result<AlarmKindList, Problem> {
        let kept = self.alarms_kept().await?;
        let kinds = control::AlarmKind::ALL.into_iter();
        let kinds = kinds.map(|kind| documents::kind(kind, &kept.rules));
        Ok(AlarmKindList {
            kinds: kinds.collect(),
        })
    }

    pub(crate) async fn change_kind_of_alarm(
        &self,
        code: &str,
        change: Conditional<Option<AlarmKindChange>>,
    ) -> Result<AlarmKind, Problem> {
        let kind = control::AlarmKind::of(code).ok_or_else(|| no_such_kind(code))?;
        let Conditional {
            request,
            precondition,
        } = change;
        self.change_alarms(|kept| {
            // It is changed only while that is so: every change of alarms compares what it was made from.
            precondition.holds(Some(&documents::tag_of_kind(kind, &kept.rules)))?;
            match request {
                None => drop(kept.rules.rules.remove(code)),
                Some(change) => {
                    let rule = changed(&kept.rules, kind, change)?;
                    kept.rules.rules.insert(code.to_owned(), rule);
                }
            }
            Ok(documents::kind(kind, &kept.rules))
        })
        .await
    }
}

/// A rule with a change.
fn changed(
    rules: &AlarmRulesRecord,
    kind: control::AlarmKind,
    change: AlarmKindChange,
) -> Result<AlarmRule, Problem> {
    let has_value = change.set.is_some() || change.clear.is_some();
    if has_value && kind.text().unit == AlarmUnit::State {
        let detail = "it is so or not: there is no value to set";
        return Err(Problem::new(ProblemKind::Invalid, detail)
            .hint("for how long it has to be so can be set (hold_seconds), or put it off"));
    }
    let present = rules.rules.get(kind.text().code).copied();
    let present = present.unwrap_or_else(|| default_rule(kind));
    let rule = AlarmRule {
        is_off: change.off.unwrap_or(present.is_off),
        set: change.set.unwrap_or(present.set),
        clear: change.clear.unwrap_or(present.clear),
        hold_seconds: change.hold_seconds.unwrap_or(present.hold_seconds),
    };
    let hold_ms = rule.hold_seconds.saturating_mul(1000);
    Threshold::new(kind.direction(), rule.set, rule.clear, hold_ms)
        .map_err(|error| Problem::new(ProblemKind::Invalid, error))?;
    Ok(rule)
}

fn no_such_alarm(id: u64) -> Problem {
    let detail = format!("there is no alarm {id} that lasts");
    Problem::new(ProblemKind::NoSuchAlarm, detail)
        .hint("`holdfast alarm list` tells which there are")
}

fn no_such_kind(code: &str) -> Problem {
    let detail = format!("there is no kind of alarm {code}");
    Problem::new(ProblemKind::NoSuchAlarm, detail)
        .hint("`holdfast alarm kinds` tells which there are")
}

/// What is told of at once where something was raised or is over.
fn words(entry: &AlarmEntry) -> String {
    format!("{}: {}", entry.kind, entry.detail)
}
