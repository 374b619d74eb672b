//! What whoever steers does about alarms, in each of its passes.

use holdfast_control::{AlarmBook, Inventory, Moment};
use holdfast_model::metadata::Compare;
use holdfast_model::record::{AlarmEntry, AlarmsRecord, LEADER_KEY};
use holdfast_stdx::Bytes;
use tokio::time::Instant;

use super::telling::Telling;
use super::{Kept, words};
use crate::Controller;
use crate::alarms::documents::severity;
use crate::reports::Reports;
use crate::steering::unix_ms;
use crate::view::{Progress, alarm_observations};

/// What is remembered from pass to pass. Another who steers begins with what is on record.
#[derive(Debug)]
pub(crate) struct AlarmWatch {
    begun: Instant,
    book: AlarmBook,
    progress: Progress,
    telling: Telling,
}

impl Default for AlarmWatch {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            book: AlarmBook::default(),
            progress: Progress::default(),
            telling: Telling::default(),
        }
    }
}

impl AlarmWatch {
    /// Looks at what there is, raises and clears, and has those told who are to be. What goes wrong is tried again in the next
    /// pass. `own` is what is on record of whoever steers: of another one nothing is changed.
    pub(crate) async fn pass(
        &mut self,
        controller: &Controller,
        own: &Bytes,
        inventory: &Inventory,
        reports: &Reports,
    ) {
        let kept = match controller.alarms_kept().await {
            Ok(kept) => kept,
            Err(problem) => {
                tracing::debug!(%problem, "look at the alarms");
                return;
            }
        };
        let now = Moment {
            steady_ms: self.begun.elapsed().as_millis() as u64,
            wall_ms: unix_ms(),
        };
        let clocks = (now.steady_ms, now.wall_ms);
        let seen = alarm_observations(inventory, reports, &mut self.progress, clocks);
        let mut book = self.book.clone();
        let Some(then) = book.observe(&kept.alarms, &kept.rules, now, &seen) else {
            self.book = book;
            self.telling.pass(controller, &kept);
            return;
        };
        let next = Kept {
            alarms: then,
            ..kept.clone()
        };
        let Some(mut transaction) = kept.until(&next) else {
            return;
        };
        transaction.compare.push(Compare::Value {
            key: LEADER_KEY.into(),
            equals: own.clone(),
        });
        match controller.desk.transact(transaction).await {
            // What it follows from has changed meanwhile: the next pass sees how.
            Ok(outcome) if !outcome.succeeded => {}
            Ok(_) => {
                self.book = book;
                log(&kept.alarms, &next.alarms);
            }
            Err(error) => tracing::debug!(%error, "put alarms on record"),
        }
    }
}

/// What has changed goes into the log, too.
fn log(before: &AlarmsRecord, then: &AlarmsRecord) {
    for entry in then.raised.iter().filter(|it| it.id > before.changes) {
        tracing::warn!(
            alarm = entry.id,
            severity = severity(&entry.kind).as_str(),
            subject = entry.subject,
            "alarm: {}",
            words(entry)
        );
    }
    let is_new = |entry: &&AlarmEntry| {
        let cleared = entry.cleared.as_ref();
        cleared.is_some_and(|it| it.change > before.changes)
    };
    for entry in then.cleared.iter().filter(is_new) {
        tracing::info!(
            alarm = entry.id,
            subject = entry.subject,
            "alarm is over: {}",
            words(entry)
        );
    }
}
