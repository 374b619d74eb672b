//! What whoever steers does about alarms, in each of its passes.
//!
//! Invariants:
//! - what the metadata has no room for is told all the same, and remembered until it is on record: while that lasts, alarms are raised and
//!   over as ever, each under one number, by which it is known who was told of it. Another who steers before there is room knows
//!   nothing of it: `docs/notifications.md` says what receivers see then.

use std::collections::BTreeSet;

use holdfast_control::{AlarmBook, HOLD_MAX_MS, Inventory, Moment};
use holdfast_model::metadata::{Compare, MetadataError};
use holdfast_model::record::{AlarmEntry, AlarmsRecord, LEADER_KEY};
use holdfast_stdx::Bytes;
use tokio::time::Instant;

use super::telling::Telling;
use super::witnesses::Witnesses;
use super::{AlarmsSeen, Held, Kept, words};
use crate::Controller;
use crate::alarms::documents::severity;
use crate::clock::unix_ms;
use crate::reports::Reports;
use crate::view::{Progress, alarm_observations, in_maintenance};

/// What is remembered from pass to pass. Another who steers begins with what is on record, and with what it saw while nobody steered.
#[derive(Debug)]
pub(crate) struct AlarmWatch {
    begun: Instant,
    book: AlarmBook,
    /// What there is, and is not on record because the metadata is full; and how many changes are on record.
    unwritten: Option<(u64, AlarmsRecord)>,
    progress: Progress,
    telling: Telling,
    witnesses: Witnesses,
    /// What is held for maintenance.
    held: BTreeSet<String>,
    /// What was wrong last.
    complaint: String,
}

impl Default for AlarmWatch {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            book: AlarmBook::default(),
            unwritten: None,
            progress: Progress::default(),
            telling: Telling::default(),
            witnesses: Witnesses::default(),
            held: BTreeSet::new(),
            complaint: String::new(),
        }
    }
}

impl AlarmWatch {
    /// Looks at what there is, raises and clears, and has those told who are to be. What goes wrong is tried again in the next
    /// pass. `own` is what is on record of whoever steers: of another one nothing is changed. Answers what there is then, if that can
    /// be seen.
    pub(crate) async fn pass(
        &mut self,
        controller: &Controller,
        own: &Bytes,
        inventory: &Inventory,
        reports: &Reports,
    ) -> Option<AlarmsSeen> {
        let kept = self.kept(controller).await?;
        let now = self.now();
        let clocks = (now.steady_ms, now.wall_ms);
        let nodes = in_maintenance(inventory);
        let maintenance = kept.maintenance.with(nodes, now.wall_ms);
        let progress = &mut self.progress;
        let looked = alarm_observations(inventory, reports, progress, &maintenance, clocks);
        self.note_held(looked.held);
        let mut seen = looked.all;
        let witnesses = &mut self.witnesses;
        witnesses.pass(controller, reports, (&mut seen, now.wall_ms));
        let mut book = self.book.clone();
        let known = Kept {
            alarms: self.known(&kept.alarms),
            ..kept.clone()
        };
        let then = book.observe(&known.alarms, &kept.rules, now, &seen);
        let next = Kept {
            alarms: then.unwrap_or_else(|| known.alarms.clone()),
            maintenance,
            ..kept.clone()
        };
        let Some(mut transaction) = kept.until(&next) else {
            self.book = book;
            self.unwritten = None;
            return Some(self.tell(controller, &kept, now));
        };
        transaction.compare.push(Compare::Value {
            key: LEADER_KEY.into(),
            equals: own.clone(),
        });
        let told = match controller.desk.transact(transaction).await {
            // What it follows from has changed meanwhile: the next pass sees how.
            Ok(outcome) if !outcome.succeeded => &known,
            Ok(_) => {
                self.book = book;
                self.unwritten = None;
                log(&known.alarms, &next.alarms);
                &next
            }
            // That the metadata takes no change is what is to be told.
            Err(MetadataError::Full) => {
                self.complain("the metadata is full: alarms are told, and cannot be put on record");
                self.book = book;
                self.unwritten = Some((kept.alarms.changes, next.alarms.clone()));
                log(&known.alarms, &next.alarms);
                &next
            }
            Err(error) => {
                self.complain(&format!("alarms cannot be put on record: {error}"));
                &known
            }
        };
        Some(self.tell(controller, told, now))
    }

    fn tell(&mut self, controller: &Controller, told: &Kept, now: Moment) -> AlarmsSeen {
        self.telling.pass(controller, told);
        AlarmsSeen::from(told).with(&self.book, now)
    }

    /// Looks at what there is without a right to raise or clear anything. Nothing if it cannot be seen.
    pub(super) async fn look_on(
        &mut self,
        controller: &Controller,
        inventory: &Inventory,
        reports: &Reports,
    ) -> Option<()> {
        let kept = self.kept(controller).await?;
        let now = self.now();
        let clocks = (now.steady_ms, now.wall_ms);
        let (progress, maintenance) = (&mut self.progress, &kept.maintenance);
        let looked = alarm_observations(inventory, reports, progress, maintenance, clocks);
        let book = &mut self.book;
        book.look_on(&kept.alarms, &kept.rules, now, &looked.all);
        Some(())
    }

    /// What whoever steered before has seen counts, as far as it was not seen here, too: it looked last at `until_ms`, milliseconds
    /// since 1970 (UTC).
    pub(crate) fn count_in(&mut self, held: impl IntoIterator<Item = Held>, until_ms: u64) {
        let seen_here = self.begun.elapsed().as_millis() as u64;
        let twice_ms = until_ms.saturating_sub(unix_ms().saturating_sub(seen_here));
        for (kind, subject, held_ms) in held {
            let held_ms = held_ms.saturating_sub(twice_ms);
            self.book.count_in(kind, &subject, held_ms);
        }
    }

    /// What is on record, and what the metadata had no room for. If another one has raised or cleared anything since, that is left to him.
    fn known(&self, kept: &AlarmsRecord) -> AlarmsRecord {
        let unwritten = self.unwritten.as_ref();
        let Some((_, unwritten)) = unwritten.filter(|(changes, _)| *changes == kept.changes) else {
            return kept.clone();
        };
        let mut known = AlarmsRecord {
            told: kept.told.clone(),
            undelivered: kept.undelivered.clone(),
            ..unwritten.clone()
        };
        for entry in &mut known.raised {
            if let Some(on_record) = kept.raised.iter().find(|it| it.id == entry.id) {
                entry.acknowledged.clone_from(&on_record.acknowledged);
            }
        }
        known
    }

    async fn kept(&mut self, controller: &Controller) -> Option<Kept> {
        match controller.alarms_kept().await {
            Ok(kept) => Some(kept),
            Err(problem) => {
                self.complain(&format!("the alarms on record cannot be read: {problem}"));
                None
            }
        }
    }

    fn now(&self) -> Moment {
        Moment {
            // What was bad before counts, too: there is room for that.
            steady_ms: HOLD_MAX_MS + self.begun.elapsed().as_millis() as u64,
            wall_ms: unix_ms(),
        }
    }

    /// Says what is not raised now because of maintenance, and what is not held any more.
    fn note_held(&mut self, held: BTreeSet<String>) {
        for what in held.difference(&self.held) {
            tracing::info!("no alarm while a node is in maintenance: {what}");
        }
        for what in self.held.difference(&held) {
            tracing::info!("not held for maintenance any more: {what}");
        }
        self.held = held;
    }

    /// Says it once, until it is something else.
    fn complain(&mut self, what: &str) {
        if self.complaint != what {
            tracing::warn!("{what}");
            what.clone_into(&mut self.complaint);
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
