//! What was told last, by whoever steered before: its own log knows, or that of another node that answers.
//!
//! Invariants:
//! - how everything was is taken from whoever saw it last; where that node does not tell it, from the next one that does;
//! - what was told since and still holds is not told again. Where that is in doubt it is: twice is better than not at all.

use std::time::Duration;

use holdfast_api::ApiClient;
use holdfast_api::documents::{
    EVENTS_MAX, Event, EventKind, EventQuery, LocalEventState, LocalEvents,
};
use holdfast_control::Inventory;
use holdfast_model::NodeId;
use holdfast_model::record::NodeRecord;
use holdfast_tls::Connector;
use tokio::time::timeout;

use super::chronicle::Told;
use super::log::EventLog;
use crate::Controller;
use crate::alarms::Held;
use crate::asking::{Answer, ask_each, client_of};
use crate::clock::unix_ms;
use crate::reports::REPORT_TIME_MAX;
use crate::view::{Change, in_words};

/// How far back it is looked for what was told after it was last put down how everything was.
const BACK: Duration = Duration::from_secs(600);
/// Nodes that are asked how everything was at most: whoever steered, and those that keep copies of its log.
const ASKED_MAX: usize = 5;

/// What was found to compare with.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) told: Option<Told>,
    /// Until when everything was seen to be so.
    pub(super) looked_ms: u64,
    /// What was told after that was put down, the oldest first.
    pub(super) since: Vec<Event>,
}

impl Found {
    /// What was bad when it was last looked, and for how long.
    pub(super) fn held(&self) -> Vec<Held> {
        let alarms = self.told.iter().filter_map(|told| told.alarms.as_ref());
        alarms.flat_map(|it| it.held(self.looked_ms)).collect()
    }

    /// Whether that was told, and its opposite not since.
    pub(super) fn has_told(&self, change: &Change) -> bool {
        let is_it = |event: &Event| {
            // Why a node is lost is seen in other words later; it is lost once.
            let is_same = match change.kind {
                EventKind::NodeLost | EventKind::NodeStopped | EventKind::NodeBack => true,
                // What is said of an alarm follows what is so, and its kind stands first.
                EventKind::AlarmRaised => kind_of(&event.detail) == kind_of(&change.detail),
                // What matters more than it did is told anew.
                EventKind::AlertRaised => {
                    (event.severity, &event.detail) == (change.severity, &change.detail)
                }
                _ => event.detail == change.detail,
            };
            let is_kind = event.kind == change.kind || is_away(event.kind) && is_away(change.kind);
            is_kind && event.subject == change.subject && is_same
        };
        let last = self.since.iter().rposition(is_it);
        last.is_some_and(|last| {
            let mut later = self.since[last + 1..].iter();
            !later.any(|event| is_undone_by(change, event))
        })
    }
}

/// The kind of an alarm in the words of an event.
fn kind_of(words: &str) -> &str {
    words.split(':').next().unwrap_or_default()
}

/// Whether a node is away then, for whichever reason.
const fn is_away(kind: EventKind) -> bool {
    matches!(kind, EventKind::NodeLost | EventKind::NodeStopped)
}

/// Whether what has changed so may be otherwise again after that event.
fn is_undone_by(change: &Change, event: &Event) -> bool {
    use EventKind::{
        AlarmCleared, AlarmRaised, AlertCleared, AlertRaised, DeviceLost, DeviceState, NodeBack,
        NodeLost, NodeStopped, SyncBegan, SyncEnded, VolumeCreated, VolumeDeleted,
    };
    if event.subject != change.subject {
        return false;
    }
    match (change.kind, event.kind) {
        (NodeLost | NodeStopped, NodeBack)
        | (NodeBack, NodeLost | NodeStopped)
        | (DeviceLost, DeviceState)
        | (DeviceState, DeviceLost)
        | (SyncBegan, SyncEnded)
        | (SyncEnded, SyncBegan)
        | (VolumeCreated, VolumeDeleted)
        | (VolumeDeleted, VolumeCreated)
        | (AlarmRaised, AlarmCleared)
        | (AlarmCleared, AlarmRaised) => true,
        (AlertRaised, AlertCleared) | (AlertCleared, AlertRaised) => {
            in_words(&event.detail) == in_words(&change.detail)
        }
        (AlertRaised, AlertRaised) | (AlertCleared, AlertCleared) => false,
        // What is in one state after the other.
        (changed, told) => changed == told,
    }
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
    /// What was told last, as the newest of the logs has it that answer. Nobody's pass waits for it.
    pub(super) fn told_last(
        &self,
        log: EventLog,
        inventory: &Inventory,
    ) -> impl Future<Output = Found> + Send + use<> {
        let number = self.number();
        let here = self.registered_here(inventory);
        let others = inventory.nodes.values();
        let others = others.filter(|node| Some(node.node) != here).cloned();
        let (others, connector) = (others.collect::<Vec<_>>(), self.connector.clone());
        async move { told_last(&log, number, &others, connector.as_ref()).await }
    }
}

async fn told_last(
    log: &EventLog,
    number: u16,
    others: &[NodeRecord],
    connector: Option<&Connector>,
) -> Found {
    let query = EventQuery {
        limit: EVENTS_MAX,
        since_ms: unix_ms().saturating_sub(BACK.as_millis() as u64),
        ..EventQuery::default()
    };
    let asked = query.clone();
    let ask = move |client: ApiClient| {
        let query = asked.clone();
        async move { client.local_events(&query).await }
    };
    let told = ask_each(others.iter(), connector, ask).await;
    let own = log.state();
    let own_ms = own.as_ref().map_or(0, |state| state.looked_ms);
    let mut newer: Vec<_> = told
        .iter()
        .filter(|answer| answer.looked_ms > own_ms)
        .map(|answer| (answer.looked_ms, NodeId(answer.node)))
        .collect();
    newer.sort_unstable_by(|one, other| other.cmp(one));
    let newest = match newest_of(&newer, others, connector).await {
        None => own,
        state => state,
    };
    let Some(state) = newest else {
        return Found::default();
    };
    let value = state.state.unwrap_or_default();
    // What another version has left, and this one cannot read, is as if nobody had: what changes from now on is told.
    let read = serde_json::from_value::<Told>(value);
    let read = read.inspect_err(|error| tracing::info!("what was told last is not read: {error}"));
    let Ok(read) = read else {
        return Found::default();
    };
    let own = log.answer(number, &query).await;
    let own = own.map_or_else(|_| Vec::new(), |answer| answer.events);
    let all = told.into_iter().flat_map(|answer| answer.events).chain(own);
    let mut since: Vec<_> = all.filter(|event| Some(event.place()) > read.at).collect();
    since.sort_by_cached_key(Event::place);
    Found {
        looked_ms: state.looked_ms.max(read.snapshot.at_ms()),
        since,
        told: Some(read),
    }
}

/// How everything was, from the first of these nodes that tells it.
async fn newest_of(
    newer: &[(u64, NodeId)],
    others: &[NodeRecord],
    connector: Option<&Connector>,
) -> Option<LocalEventState> {
    for (looked_ms, node) in newer.iter().take(ASKED_MAX) {
        let record = others.iter().find(|record| record.node == *node);
        let Some(client) = record.and_then(|record| client_of(record, connector)) else {
            continue;
        };
        match timeout(REPORT_TIME_MAX, client.local_event_state()).await {
            // What it says now is as new as what it said that it has.
            Ok(Ok(state))
                if state.node == node.0
                    && state.state.is_some()
                    && state.looked_ms >= *looked_ms =>
            {
                return Some(state);
            }
            Ok(Ok(_)) => tracing::debug!(%node, "it does not know what was told last"),
            Ok(Err(error)) => tracing::debug!(%node, %error, "ask what was told last"),
            Err(_) => tracing::debug!(%node, "it does not answer what was told last"),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use holdfast_api::documents::EventSeverity;

    use super::super::sample::event;
    use super::*;

    fn found(told: &[(EventKind, &str, &str)]) -> Found {
        let event = |(at_ms, (kind, subject, detail)): (usize, &(EventKind, &str, &str))| Event {
            kind: *kind,
            severity: EventSeverity::Info,
            subject: (*subject).to_owned(),
            detail: (*detail).to_owned(),
            ..event(at_ms as u64)
        };
        Found {
            since: told.iter().enumerate().map(event).collect(),
            ..Found::default()
        }
    }

    fn change((kind, subject, detail): (EventKind, &str, &str)) -> Change {
        Change {
            kind,
            severity: EventSeverity::Info,
            subject: subject.to_owned(),
            detail: detail.to_owned(),
        }
    }

    #[test]
    fn what_was_told_and_holds_is_not_told_again_and_what_came_after_its_opposite_is() {
        let lost = (EventKind::NodeLost, "node n2", "down");
        let back = (EventKind::NodeBack, "node n2", "up");
        let other = (EventKind::NodeBack, "node n3", "up");
        assert!(found(&[back, lost, other]).has_told(&change(lost)));
        assert!(!found(&[lost, back]).has_told(&change(lost)));
        assert!(found(&[lost, back, lost]).has_told(&change(lost)));
        assert!(!found(&[other]).has_told(&change(back)));
        let longer = (
            EventKind::NodeLost,
            "node n2",
            "down: it has been silent for 9 s",
        );
        assert!(found(&[lost]).has_told(&change(longer)));

        let stopped = (EventKind::NodeStopped, "node n2", "down: it was stopped");
        assert!(found(&[stopped]).has_told(&change(lost)), "it is away once");
        assert!(!found(&[stopped, back]).has_told(&change(lost)));
        assert!(found(&[stopped, back]).has_told(&change(back)));

        let raised = |words| (EventKind::AlarmRaised, "node n2", words);
        let (filling, fuller) = ("pool-filling: 71 %", "pool-filling: 72 %");
        assert!(found(&[raised(filling)]).has_told(&change(raised(fuller))));
        assert!(!found(&[raised("pool-low: 71 %")]).has_told(&change(raised(fuller))));

        let degraded = (
            EventKind::VolumeHealth,
            "volume db",
            "degraded, after healthy",
        );
        let healthy = (
            EventKind::VolumeHealth,
            "volume db",
            "healthy, after degraded",
        );
        assert!(!found(&[degraded, healthy]).has_told(&change(degraded)));
        assert!(found(&[healthy, degraded]).has_told(&change(degraded)));

        let full = (
            EventKind::AlertRaised,
            "node n2",
            "81 % of its room is used",
        );
        let hot = (EventKind::AlertRaised, "node n2", "its disk is slow");
        let no_more = (
            EventKind::AlertCleared,
            "node n2",
            "95 % of its room is used",
        );
        assert!(found(&[full, hot]).has_told(&change(full)));
        let more = Change {
            severity: EventSeverity::Error,
            ..change(full)
        };
        assert!(!found(&[full, hot]).has_told(&more));
        assert!(!found(&[full, no_more, hot]).has_told(&change(full)));
        assert!(
            found(&[hot, no_more]).has_told(&change(hot)),
            "that is another one"
        );
    }
}
