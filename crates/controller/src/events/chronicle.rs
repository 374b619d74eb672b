//! What whoever steers puts into the log of events, in each of its passes.
//!
//! It compares what it sees with what was told last, whoever told that ([`super::taking_up`]). So what changed while nobody steered,
//! first of all that the one who did is lost, is told by the next one, and nothing twice.
//!
//! Invariants:
//! - it looks at nothing that a pass has not seen: it costs no question and no answer of anybody, but when it begins;
//! - nobody waits for a disk, and no pass for what others have put down;
//! - nothing is put down by one that another may have followed: each pass says how long its lease lives at least.

use std::mem::take;
use std::time::Duration;

use holdfast_api::documents::{Event, EventKind, EventPlace, EventSeverity, LocalEventState};
use holdfast_control::Inventory;
use holdfast_stdx::Count;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::log::EventLog;
use super::taking_up::Found;
use crate::Controller;
use crate::alarms::{AlarmsSeen, Held, alarm_changes};
use crate::reports::Reports;
use crate::view::{Change, Snapshot, span};

/// What was last seen longer ago is told with the time between.
const SOON: Duration = Duration::from_secs(5);
/// Where nobody has looked for so long before a term, that is told.
const UNWATCHED: Duration = Duration::from_secs(10);
/// How often it is put down that everything is as it was: so much is not known after all nodes have lost their power at once.
pub(super) const STATE_PAUSE: Duration = Duration::from_secs(600);
/// Letters of what there is to know of an event at most.
const DETAIL_LENGTH_MAX: usize = 2000;

/// How everything was when something was last told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) snapshot: Snapshot,
    /// Nothing where they could not be seen yet.
    pub(super) alarms: Option<AlarmsSeen>,
    /// The alerts in it are those only that no state tells. Earlier versions kept the others among them, too.
    #[serde(default)]
    is_without_states: bool,
    /// Where the last event stands.
    pub(super) at: Option<EventPlace>,
}

impl Found {
    /// What has changed since then that nobody has told: it is what is compared with next.
    fn changes(&self, now: &mut Snapshot) -> Vec<Change> {
        let Some(told) = &self.told else {
            return Vec::new();
        };
        let changes = now.follow(&told.snapshot).into_iter();
        let changes = changes.filter(|it| told.is_comparable(it) && !self.has_told(it));
        changes.collect()
    }

    /// How everything is is known since then, if nobody has told of it before.
    fn begin_with(&mut self, first: Snapshot) {
        if self.told.is_none() {
            self.looked_ms = first.at_ms();
            self.told = Some(Told {
                snapshot: first,
                alarms: None,
                is_without_states: true,
                at: None,
            });
        }
    }

    /// Since when what is seen at a time may have been so, where that is longer ago than a look takes.
    fn not_before_ms(&self, at_ms: u64) -> Option<u64> {
        let is_soon = at_ms.saturating_sub(self.looked_ms) <= SOON.as_millis() as u64;
        (self.told.is_some() && !is_soon).then_some(self.looked_ms)
    }
}

impl Told {
    /// Whether that has changed, and not what is kept: of an alert of an earlier version nobody knows whether it is over, or is told as a
    /// state from now on.
    fn is_comparable(&self, change: &Change) -> bool {
        self.is_without_states || change.kind != EventKind::AlertCleared
    }
}

/// What is known of what was told before.
#[derive(Debug)]
enum Before {
    /// Nobody was asked yet.
    Unknown,
    /// They are asked since everything was so, which is compared with if nobody has told anything.
    Asked(Box<Snapshot>, JoinHandle<Found>),
    /// This was told in the pass before.
    Told(Box<Told>),
}

/// What is remembered from pass to pass.
#[derive(Debug)]
pub(crate) struct Chronicle {
    before: Before,
    /// Names this term: no other one has this name, whichever node's it is.
    term: String,
    /// Events of this term.
    count: u32,
    /// When it was last put down how everything is.
    written: Instant,
    /// How everything was before this term, while nobody put anything down: the oldest first.
    witnessed: Vec<Snapshot>,
    /// What whoever steered before saw be bad, and did not raise yet.
    held: (Vec<Held>, u64),
    /// The metadata has not answered since the last pass.
    saw_nothing: bool,
    /// How everything is is put down by the next pass, whatever changes.
    is_to_be_written: bool,
}

impl Default for Chronicle {
    fn default() -> Self {
        Self {
            before: Before::Unknown,
            term: String::new(),
            count: 0,
            written: Instant::now(),
            witnessed: Vec::new(),
            held: (Vec::new(), 0),
            saw_nothing: false,
            is_to_be_written: false,
        }
    }
}

impl Drop for Chronicle {
    fn drop(&mut self) {
        if let Before::Asked(_, asked) = &self.before {
            asked.abort();
        }
    }
}

impl Chronicle {
    /// That of one who has seen this before it began to steer.
    pub(crate) fn after(witnessed: Vec<Snapshot>) -> Self {
        let mut chronicle = Self::default();
        chronicle.witnessed = witnessed;
        chronicle
    }

    /// Puts down what has changed since the pass before, as long as whoever steers is sure to: until then.
    pub(crate) async fn pass(
        &mut self,
        controller: &Controller,
        inventory: &Inventory,
        reports: &Reports,
        alarms: Option<AlarmsSeen>,
        sure_until: Instant,
    ) {
        let Some(log) = &controller.event_log else {
            return;
        };
        // What has changed is told by the next pass that is sure, or by whoever steers then.
        if Instant::now() >= sure_until {
            return;
        }
        let mut now = Snapshot::of(inventory, reports);
        let at_ms = now.at_ms();
        let before = self.told_before(controller, log, inventory, &now);
        let Some((mut found, begun)) = before.await else {
            return;
        };
        let mut events = Vec::from_iter(self.unwatched(&found, at_ms, !begun.is_empty()));
        events.extend(self.witnessed(&mut found));
        events.extend(begun);
        let lacks = lacks(log.lost()).filter(|change| !found.has_told(change));
        let mut changes = Vec::from_iter(lacks);
        changes.extend(found.changes(&mut now));
        let told = found.told.as_ref();
        self.is_to_be_written |= told.is_some_and(|told| now.has_settled(&told.snapshot));
        if let Some(told) = &found.told
            && let (Some(before), Some(then)) = (&told.alarms, &alarms)
        {
            let changed = alarm_changes(before, then).into_iter();
            changes.extend(changed.filter(|change| !found.has_told(change)));
        }
        let not_before_ms = found.not_before_ms(at_ms);
        events.extend(self.events(at_ms, not_before_ms, changes));
        let (alarms_before, at_before) = match found.told {
            Some(told) => (told.alarms, told.at),
            None => (None, None),
        };
        let told = Told {
            snapshot: now,
            alarms: alarms.or(alarms_before),
            is_without_states: true,
            at: events.last().map(Event::place).or(at_before),
        };
        self.put_down(controller, log, events, &told);
        self.before = Before::Told(Box::new(told));
    }

    /// The metadata, without which nobody sees anything, does not answer.
    pub(crate) const fn sees_nothing(&mut self) {
        self.saw_nothing = true;
    }

    /// That nobody looked for a while before somebody did again, if that is so: whoever steers now, or before that a witness.
    fn unwatched(&mut self, found: &Found, at_ms: u64, has_begun: bool) -> Option<Event> {
        let seen = self.witnessed.iter().map(Snapshot::at_ms);
        let at_ms = seen.chain([at_ms]).find(|at| *at > found.looked_ms)?;
        let saw_nothing = take(&mut self.saw_nothing);
        let (long, why) = match (saw_nothing, has_begun) {
            (true, _) => (SOON, "the metadata did not answer"),
            (false, true) => (
                UNWATCHED,
                "no node was up that could, or none reached the metadata",
            ),
            (false, false) => return None,
        };
        let for_ms = at_ms.saturating_sub(found.looked_ms);
        if found.told.is_none() || for_ms <= long.as_millis() as u64 {
            return None;
        }
        let change = Change {
            kind: EventKind::Gap,
            severity: EventSeverity::Warning,
            subject: "log of events".to_owned(),
            detail: format!(
                "nobody saw what happened for {}: {why}; what is different since is told, and what was so only meanwhile is not",
                span(for_ms)
            ),
        };
        let is_news = !found.has_told(&change);
        is_news.then(|| self.event(at_ms, None, change))
    }

    /// What changed while nobody put anything down, as far as it was seen here: that is what is compared with from then on.
    fn witnessed(&mut self, found: &mut Found) -> Vec<Event> {
        let mut events = Vec::new();
        for mut seen in take(&mut self.witnessed) {
            let at_ms = seen.at_ms();
            // Somebody has told more since.
            if at_ms <= found.looked_ms {
                continue;
            }
            let changes = found.changes(&mut seen);
            let not_before_ms = found.not_before_ms(at_ms);
            events.extend(self.events(at_ms, not_before_ms, changes));
            if let Some(told) = &mut found.told {
                told.snapshot = seen;
                told.is_without_states = true;
                found.looked_ms = at_ms;
            }
        }
        events
    }

    /// What whoever steered before saw be bad, and for how long, until when it looked last: milliseconds since 1970 (UTC). Told once,
    /// and put down with the next pass: whoever steers after this one counts it, too.
    pub(crate) fn held(&mut self) -> (Vec<Held>, u64) {
        self.is_to_be_written |= !self.held.0.is_empty();
        take(&mut self.held)
    }

    /// What to compare with, and what is told first of all. Nothing as long as that is not known: whatever changes meanwhile is told
    /// then.
    async fn told_before(
        &mut self,
        controller: &Controller,
        log: &EventLog,
        inventory: &Inventory,
        now: &Snapshot,
    ) -> Option<(Found, Vec<Event>)> {
        match std::mem::replace(&mut self.before, Before::Unknown) {
            Before::Unknown => {
                self.term = format!("{:x}-{:x}", now.at_ms(), controller.number());
                let asked = controller.told_last(log.clone(), inventory);
                self.before = Before::Asked(Box::new(now.clone()), tokio::spawn(asked));
                None
            }
            Before::Asked(first, asked) if !asked.is_finished() => {
                self.before = Before::Asked(first, asked);
                None
            }
            Before::Asked(first, asked) => match asked.await {
                Ok(mut found) => {
                    self.held = (found.held(), found.looked_ms);
                    let begun = self.event(first.at_ms(), None, begun(controller));
                    found.begin_with(*first);
                    Some((found, vec![begun]))
                }
                Err(error) => {
                    tracing::error!(%error, "look for what was told last: it is asked again");
                    None
                }
            },
            Before::Told(told) => {
                let found = Found {
                    told: Some(*told),
                    looked_ms: log.marked().1,
                    since: Vec::new(),
                };
                Some((found, Vec::new()))
            }
        }
    }

    fn put_down(
        &mut self,
        controller: &Controller,
        log: &EventLog,
        events: Vec<Event>,
        told: &Told,
    ) {
        let looked_ms = told.snapshot.at_ms();
        let is_due = take(&mut self.is_to_be_written) || self.written.elapsed() >= STATE_PAUSE;
        if events.is_empty() && !is_due {
            log.note_look(looked_ms);
            return;
        }
        log.note(events);
        let state = serde_json::to_value(told).expect("what is compared is valid JSON");
        log.note_state(&LocalEventState {
            node: controller.number(),
            mark: told
                .at
                .as_ref()
                .map_or_else(String::new, EventPlace::to_string),
            looked_ms,
            state: Some(state),
        });
        self.written = Instant::now();
    }

    fn events(
        &mut self,
        at_ms: u64,
        not_before_ms: Option<u64>,
        changes: Vec<Change>,
    ) -> impl Iterator<Item = Event> {
        let changes = changes.into_iter();
        changes.map(move |change| self.event(at_ms, not_before_ms, change))
    }

    fn event(&mut self, at_ms: u64, not_before_ms: Option<u64>, change: Change) -> Event {
        self.count += 1;
        let Change {
            kind,
            severity,
            subject,
            mut detail,
        } = change;
        if let Some((end, _)) = detail.char_indices().nth(DETAIL_LENGTH_MAX) {
            detail.truncate(end);
        }
        Event {
            id: format!("{}-{:08x}", self.term, self.count),
            at_ms,
            kind,
            severity,
            subject,
            detail,
            not_before_ms,
        }
    }
}

/// That the log lacks so many events, if it lacks any.
fn lacks(events: u64) -> Option<Change> {
    (events > 0).then(|| Change {
        kind: EventKind::Gap,
        severity: EventSeverity::Warning,
        subject: "log of events".to_owned(),
        detail: format!(
            "{} could not be put down: the file system of the node's directory took nothing for too long",
            Count::of(events, "event")
        ),
    })
}

fn begun(controller: &Controller) -> Change {
    let local = controller.local.as_ref();
    let name = local.map(|local| local.borrow().name.clone());
    Change {
        kind: EventKind::Steering,
        severity: EventSeverity::Info,
        subject: name.map_or_else(|| "cluster".to_owned(), |name| format!("node {name}")),
        detail: "steers the cluster from now on, and puts down what changes".to_owned(),
    }
}

impl Controller {
    /// The number of the node in this process; 0 if there is none.
    pub(crate) fn number(&self) -> u16 {
        let local = self.local.as_ref();
        local.map_or(0, |local| local.borrow().node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::inventory;

    #[test]
    fn what_changes_while_is_asked_what_was_told_last_is_told_where_nothing_was() {
        let with = inventory(Vec::new());
        let mut without = with.clone();
        without.volumes.clear();
        without.names.clear();
        let reports = Reports::default();
        let first = Snapshot::of(&without, &reports);
        let kinds = |found: &Found, now: &Inventory| {
            let changes = found.changes(&mut Snapshot::of(now, &reports)).into_iter();
            changes.map(|it| it.kind).collect::<Vec<_>>()
        };
        let mut found = Found::default();
        assert_eq!(kinds(&found, &with), [], "it may have been there for long");
        found.begin_with(first.clone());
        assert!(kinds(&found, &with).contains(&EventKind::VolumeCreated));
        assert_eq!(found.not_before_ms(first.at_ms() + 1000), None);
        // What somebody has told before is more than that.
        let told = Snapshot::of(&with, &reports);
        let mut found = Found::default();
        found.begin_with(told);
        found.begin_with(first);
        assert!(!kinds(&found, &with).contains(&EventKind::VolumeCreated));
    }
}
