//! The logs of events of all nodes as one.
//!
//! Invariants:
//! - what is in several logs is told once;
//! - a node that does not answer is named, also the one that is asked, if its own log cannot be read, or too many have it read;
//! - nothing goes on behind a piece for which too many have the asked node's log read: that ends soon, and what only that node has would
//!   be passed over for good.

use std::collections::BTreeSet;

use holdfast_api::documents::{EventList, EventQuery, LocalEventState, LocalEvents};
use holdfast_api::{ApiClient, Problem, ProblemKind};
use holdfast_model::NodeId;

use super::log::EventLog;
use crate::asking::{ask_each, silent};
use crate::clock::unix_ms;
use crate::line_log::Found;
use crate::{Controller, problem};

impl Controller {
    /// With the log of events of this process. What is put down is in it whoever listens, if this process steers.
    #[must_use]
    pub fn putting_down(self, log: EventLog) -> Self {
        let event_log = Some(log);
        Self { event_log, ..self }
    }

    fn own_log(&self) -> Result<&EventLog, Problem> {
        self.event_log.as_ref().ok_or_else(problem::no_node)
    }

    pub(crate) async fn events_here(&self, query: &EventQuery) -> Result<LocalEvents, Problem> {
        self.own_log()?.answer(self.number(), query).await
    }

    pub(crate) fn event_state_here(&self) -> Result<LocalEventState, Problem> {
        let node = self.number();
        let state = self.own_log()?.state();
        let state = state.map(|state| LocalEventState { node, ..state });
        Ok(state.unwrap_or_else(|| LocalEventState {
            node,
            ..LocalEventState::default()
        }))
    }

    pub(crate) async fn events_of_all(&self, query: EventQuery) -> Result<EventList, Problem> {
        // What happened is asked most when something is wrong: the metadata may be.
        let (nodes, here) = match self.inventory().await {
            Ok(look) => {
                let here = self.registered_here(&look.seen);
                (look.seen.nodes.into_values().collect(), here)
            }
            Err(problem) => {
                let nodes = self.known_nodes.records();
                if nodes.is_empty() {
                    return Err(problem);
                }
                (nodes, Some(NodeId(self.number())))
            }
        };
        let others = nodes.iter().filter(|node| Some(node.node) != here);
        let asked = query.clone();
        let ask = move |client: ApiClient| {
            let query = asked.clone();
            async move { client.local_events(&query).await }
        };
        let mut told = ask_each(others, self.connector.as_ref(), ask).await;
        let mut is_told_here = true;
        if self.event_log.is_some() {
            is_told_here = with_own(&mut told, &query, self.events_here(&query).await)?;
        }
        let silent = silent(nodes.iter(), |node| {
            let is_here = Some(node) == here && is_told_here;
            is_here || told.iter().any(|answer| answer.node == node.0)
        });
        Ok(merged(&told, &query, silent))
    }
}

/// Adds what this node's own log has to what others have told. Whether it has anything to add.
///
/// # Errors
/// Too many have it read, and nobody else has told anything: that says more than an empty answer. Or older events are asked for, which are
/// read once, while the newest are asked for again and again.
fn with_own(
    told: &mut Vec<LocalEvents>,
    query: &EventQuery,
    own: Result<LocalEvents, Problem>,
) -> Result<bool, Problem> {
    match own {
        Ok(answer) => told.push(answer),
        // That ends by itself: no word in the node's log.
        Err(problem) if problem.kind == ProblemKind::Busy => {
            return if told.is_empty() || query.after.is_some() {
                Err(problem)
            } else {
                Ok(false)
            };
        }
        Err(problem) => {
            tracing::error!("tell what happened without this node: {problem}");
            return Ok(false);
        }
    }
    Ok(true)
}

fn merged(told: &[LocalEvents], query: &EventQuery, silent: Vec<String>) -> EventList {
    let limit = query.limit as usize;
    let mut all = Found::new(query);
    let mut places = BTreeSet::new();
    for answer in told {
        for event in &answer.events {
            places.insert(event.place());
            all.take(event);
        }
    }
    // A log that has told as many as were asked for may have more.
    let has_more = places.len() > limit || told.iter().any(|answer| answer.events.len() >= limit);
    let events = all.told();
    let last = events.last().filter(|_| has_more);
    let looked = told.iter().map(|answer| answer.looked_ms);
    EventList {
        next: last.map(|last| last.place().to_string()),
        events,
        silent,
        // Whoever has looked last has told all until then, and nobody has by a clock that is fast.
        looked_ms: looked.max().unwrap_or_default().min(unix_ms()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::event;
    use super::*;

    fn local(node: u16, times: &[u64]) -> LocalEvents {
        LocalEvents {
            node,
            events: times.iter().copied().map(event).collect(),
            ..LocalEvents::default()
        }
    }

    #[test]
    fn what_is_in_several_logs_is_told_once_and_nothing_is_passed_over() {
        let query = |limit, after: Option<&str>| EventQuery {
            limit,
            after: after.map(|after| after.parse().unwrap()),
            ..EventQuery::default()
        };
        let times = |list: &EventList| list.events.iter().map(|it| it.at_ms).collect::<Vec<_>>();
        let told = vec![local(1, &[9, 7, 5]), local(2, &[8, 7, 6]), local(3, &[])];
        let list = merged(&told, &query(3, None), vec!["n4".to_owned()]);
        assert_eq!((times(&list), list.silent.len()), (vec![9, 8, 7], 1));
        let next = list.next.unwrap();
        // The nodes have told what comes after that.
        let told = vec![local(1, &[5]), local(2, &[6])];
        let list = merged(&told, &query(3, Some(&next)), Vec::new());
        assert_eq!((times(&list), list.next), (vec![6, 5], None));
        // Both have the same, and perhaps more.
        let told = vec![local(1, &[9, 8]), local(2, &[9, 8])];
        let list = merged(&told, &query(2, None), Vec::new());
        assert_eq!(times(&list), [9, 8]);
        assert!(list.next.is_some());
    }

    #[test]
    fn a_log_that_too_many_have_read_takes_nothing_from_what_others_tell() {
        let busy = || Err(Problem::new(ProblemKind::Busy, "not now"));
        let newest = EventQuery::default();
        let mut told = vec![local(2, &[8, 7])];
        assert_eq!(with_own(&mut told, &newest, busy()), Ok(false), "named");
        assert_eq!(told, [local(2, &[8, 7])]);
        let own = Ok(local(1, &[9]));
        assert_eq!(with_own(&mut told, &newest, own), Ok(true));
        assert_eq!(told.len(), 2);
        let refused = with_own(&mut Vec::new(), &newest, busy()).unwrap_err();
        assert_eq!(refused.kind, ProblemKind::Busy, "there is nothing else");
        let unreadable = || Err(Problem::new(ProblemKind::Internal, "not this one"));
        assert_eq!(with_own(&mut Vec::new(), &newest, unreadable()), Ok(false));
    }

    #[test]
    fn a_later_piece_never_passes_over_what_a_busy_log_alone_may_have() {
        let busy = || Err(Problem::new(ProblemKind::Busy, "not now"));
        let later = EventQuery {
            after: Some(event(9).place()),
            ..EventQuery::default()
        };
        let refused = with_own(&mut vec![local(2, &[8, 7])], &later, busy()).unwrap_err();
        assert_eq!((refused.kind, refused.status), (ProblemKind::Busy, 503));
        let own = Ok(local(1, &[8]));
        assert_eq!(with_own(&mut vec![local(2, &[7])], &later, own), Ok(true));
    }

    #[test]
    fn until_when_everything_is_told_is_what_who_looked_last_says() {
        let looked = |looked_ms| LocalEvents {
            looked_ms,
            ..local(1, &[9])
        };
        let query = EventQuery::default();
        let until = |told: &[LocalEvents]| merged(told, &query, Vec::new()).looked_ms;
        assert_eq!(until(&[looked(11), looked(17), looked(0)]), 17);
        assert_eq!(until(&[]), 0);
    }
}
