//! What whoever steers puts into the log of events, in each of its passes.
//!
//! It compares what it sees with what was told last, whoever told that: its own log knows, or that of another node that answers. So
//! what changed while nobody steered, first of all that the one who did is lost, is told by the next one, and nothing twice.
//!
//! Invariants:
//! - it looks at nothing that a pass has not seen: it costs no question and no answer of anybody, but when it begins;
//! - nobody waits for a disk.

use std::time::Duration;

use holdfast_api::ApiClient;
use holdfast_api::documents::{
    Event, EventKind, EventPlace, EventQuery, EventSeverity, LocalEventState, LocalEvents,
};
use holdfast_control::Inventory;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout};

use super::log::EventLog;
use crate::Controller;
use crate::alarms::{AlarmsSeen, alarm_changes};
use crate::asking::{Answer, ask_each, client_of};
use crate::reports::{REPORT_TIME_MAX, Reports};
use crate::steering::unix_ms;
use crate::view::{Change, Snapshot};

/// What was last seen longer ago is told with the time between.
const SOON: Duration = Duration::from_secs(5);
/// How often it is put down that everything is as it was: so much is not known after all nodes have lost their power at once.
const STATE_PAUSE: Duration = Duration::from_secs(600);
/// How far back it is looked for what was told after it was last put down how everything was.
const BACK: Duration = Duration::from_secs(600);
/// Letters of what there is to know of an event at most.
const DETAIL_LENGTH_MAX: usize = 2000;

/// How everything was when something was last told.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Told {
    snapshot: Snapshot,
    /// Nothing where they could not be seen yet.
    alarms: Option<AlarmsSeen>,
    /// Where the last event stands.
    at: Option<EventPlace>,
}

/// What is remembered from pass to pass.
#[derive(Debug)]
pub(crate) struct Chronicle {
    told: Option<Told>,
    /// Names this term: no other one has this name, whichever node's it is.
    term: String,
    /// Events of this term.
    count: u32,
    /// When it was last put down how everything is.
    written: Instant,
}

impl Default for Chronicle {
    fn default() -> Self {
        Self {
            told: None,
            term: String::new(),
            count: 0,
            written: Instant::now(),
        }
    }
}

/// What was found to compare with.
#[derive(Debug, Default)]
struct Found {
    told: Option<Told>,
    /// Until when everything was seen to be so.
    looked_ms: u64,
    /// What was told after that was put down.
    since: Vec<Event>,
}

impl Chronicle {
    /// Puts down what has changed since the pass before. Tells for how long it was waited for others.
    pub(crate) async fn pass(
        &mut self,
        controller: &Controller,
        inventory: &Inventory,
        reports: &Reports,
        alarms: Option<AlarmsSeen>,
    ) -> Duration {
        let Some(log) = &controller.event_log else {
            return Duration::ZERO;
        };
        let mut now = Snapshot::of(inventory, reports);
        let at_ms = now.at_ms();
        let is_first = self.told.is_none();
        let asked = Instant::now();
        let found = match self.told.take() {
            Some(told) => Found {
                told: Some(told),
                looked_ms: log.marked().1,
                since: Vec::new(),
            },
            None => {
                self.term = format!("{at_ms:x}-{:x}", controller.number());
                controller.told_last(log, inventory).await
            }
        };
        let waited = asked.elapsed();
        let mut changes = Vec::new();
        if is_first {
            changes.push(begun(controller));
        }
        if let Some(told) = &found.told {
            changes.extend(now.follow(&told.snapshot));
            if let (Some(before), Some(then)) = (&told.alarms, &alarms) {
                changes.extend(alarm_changes(before, then));
            }
        }
        let is_known = |change: &Change| found.since.iter().any(|event| is_same(event, change));
        changes.retain(|change| !is_known(change));
        let before = found.looked_ms;
        let is_soon = at_ms.saturating_sub(before) <= SOON.as_millis() as u64;
        let not_before_ms = (found.told.is_some() && !is_soon).then_some(before);
        let events: Vec<_> = changes
            .into_iter()
            .map(|change| self.event(at_ms, not_before_ms, change))
            .collect();
        let (alarms_before, at_before) = match found.told {
            Some(told) => (told.alarms, told.at),
            None => (None, None),
        };
        let told = Told {
            snapshot: now,
            alarms: alarms.or(alarms_before),
            at: events.last().map(Event::place).or(at_before),
        };
        self.put_down(controller, log, events, &told);
        self.told = Some(told);
        waited
    }

    fn put_down(
        &mut self,
        controller: &Controller,
        log: &EventLog,
        events: Vec<Event>,
        told: &Told,
    ) {
        let looked_ms = told.snapshot.at_ms();
        if events.is_empty() && self.written.elapsed() < STATE_PAUSE {
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
            // Who steers from now on is known to the moment.
            not_before_ms: not_before_ms.filter(|_| kind != EventKind::Steering),
        }
    }
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

fn is_same(event: &Event, change: &Change) -> bool {
    (event.kind, &event.subject, &event.detail) == (change.kind, &change.subject, &change.detail)
}

impl Answer for LocalEvents {
    fn node(&self) -> u16 {
        self.node
    }
}

impl Answer for LocalEventState {
    fn node(&self) -> u16 {
        self.node
    }
}

impl Controller {
    /// The number of the node in this process; 0 if there is none.
    pub(super) fn number(&self) -> u16 {
        let local = self.local.as_ref();
        local.map_or(0, |local| local.borrow().node)
    }

    /// What was told last, as the newest of the logs has it that answer.
    async fn told_last(&self, log: &EventLog, inventory: &Inventory) -> Found {
        let query = EventQuery {
            limit: holdfast_api::documents::EVENTS_MAX,
            since_ms: unix_ms().saturating_sub(BACK.as_millis() as u64),
            ..EventQuery::default()
        };
        let asked = query.clone();
        let ask = move |client: ApiClient| {
            let query = asked.clone();
            async move { client.local_events(&query).await }
        };
        let here = self.registered_here(inventory);
        let others = inventory.nodes.values();
        let others = others.filter(|node| Some(node.node) != here);
        let told = ask_each(others.clone(), self.connector.as_ref(), ask).await;
        let mut newest = log.state();
        let other = told.iter().max_by_key(|answer| answer.looked_ms);
        let own_ms = newest.as_ref().map_or(0, |state| state.looked_ms);
        if let Some(other) = other.filter(|other| other.looked_ms > own_ms) {
            let record = others.clone().find(|node| node.node.0 == other.node);
            let client = record.and_then(|record| client_of(record, self.connector.as_ref()));
            if let Some(client) = client {
                let state = timeout(REPORT_TIME_MAX, client.local_event_state()).await;
                match state {
                    Ok(Ok(state)) => newest = Some(state),
                    Ok(Err(error)) => tracing::debug!(%error, "ask what was told last"),
                    Err(_) => tracing::debug!("nobody answers what was told last"),
                }
            }
        }
        let Some(state) = newest else {
            return Found::default();
        };
        let value = state.state.unwrap_or_default();
        // What another version has left, and this one cannot read, is as if nobody had: what changes from now on is told.
        let read = serde_json::from_value::<Told>(value);
        let read =
            read.inspect_err(|error| tracing::info!("what was told last is not read: {error}"));
        let Ok(read) = read else {
            return Found::default();
        };
        let own = log.answer(self.number(), &query).await;
        let own = own.map_or_else(|_| Vec::new(), |answer| answer.events);
        let all = told.into_iter().flat_map(|answer| answer.events).chain(own);
        let since = all.filter(|event| Some(event.place()) > read.at);
        Found {
            looked_ms: state.looked_ms.max(read.snapshot.at_ms()),
            since: since.collect(),
            told: Some(read),
        }
    }
}
