//! The log of events of one process, and how everything was when one was last put down.
//!
//! Invariants, beside those of [`LineLog`]:
//! - an event is in it once, whoever has told it;
//! - how everything was is never newer than what is put down.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_api::documents::{
    Event, EventPlace, EventQuery, KeptLog, LocalEventState, LocalEvents,
};
use holdfast_api::{Problem, ProblemKind};

use crate::line_log::{Bounds, Line, LineLog};

/// The log in a node's directory.
pub const EVENTS_FILE: &str = "events.log";
/// What is kept unless something else is set: two files of 8 MiB, each of some 30,000 events, which is a node lost and back with a replica of each of 1,000 volumes
/// seven times; and in memory what is asked for most, in some 2 MiB.
const BOUNDS: Bounds = Bounds {
    name: "events",
    file_bytes_max: 8 << 20,
    newest_max: 4096,
    // What one look can find.
    waiting_max: 8 << 10,
    together_max: 1024,
};

impl Line for Event {
    fn words(&self) -> String {
        format!("{} of {}", self.kind.as_str(), self.subject)
    }
}

/// The log.
#[derive(Clone, Debug)]
pub struct EventLog {
    lines: LineLog<Event>,
    last: Arc<Mutex<Last>>,
}

/// How everything was when something was last put down.
#[derive(Clone, Debug, Default)]
pub(super) struct Last {
    /// Names what that was; empty where nothing was.
    pub(super) mark: String,
    /// Until when everything was seen to be so: milliseconds since 1970 (UTC).
    pub(super) looked_ms: u64,
    /// [`LocalEventState`], as it is written; empty where there is none.
    text: Vec<u8>,
}

impl EventLog {
    /// Opens the log at `path`, or begins it. A line that is none, such as the last one before a power failure, is passed over.
    /// One that cannot be opened is tried again with each event.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn open(path: &Path) -> io::Result<Self> {
        let (lines, opened) = LineLog::open(path, BOUNDS)?;
        if let Err(error) = opened {
            tracing::error!(
                "open {}: {error}: what happens is not put down until it can be",
                path.display()
            );
        }
        let last = match lines.beside() {
            Ok(text) => text.and_then(last_of).unwrap_or_default(),
            Err(error) => {
                tracing::error!(
                    "read how everything was, beside {}: {error}",
                    path.display()
                );
                Last::default()
            }
        };
        Ok(Self {
            lines,
            last: Arc::new(Mutex::new(last)),
        })
    }

    /// From the next event on no more than so many bytes are kept.
    pub(crate) fn hold(&self, bytes: u64) {
        self.lines.hold(bytes);
    }

    /// What is kept. It waits for a disk, and so has a thread of its own.
    ///
    /// # Errors
    /// The files cannot be looked at.
    pub(crate) fn kept(&self) -> io::Result<KeptLog> {
        let files = self.lines.files()?;
        Ok(KeptLog {
            bytes: files.bytes,
            bytes_max: files.bytes_max,
            oldest_ms: files.first.map(|event| event.at_ms),
        })
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names what was last put down, and until when everything was seen to be as it was then.
    pub(super) fn marked(&self) -> (String, u64) {
        let last = self.last();
        (last.mark.clone(), last.looked_ms)
    }

    /// Puts down what was not yet, the oldest first. Waits for nothing.
    pub(super) fn note(&self, events: Vec<Event>) {
        let known: BTreeSet<EventPlace> = match events.as_slice() {
            [] => return,
            _ => self.lines.newest().iter().map(Event::place).collect(),
        };
        for event in events {
            if known.contains(&event.place()) {
                continue;
            }
            if let Err(event) = self.lines.note(event) {
                tracing::error!(
                    kind = event.kind.as_str(),
                    subject = event.subject,
                    "the log of events takes nothing for now: this is not in it"
                );
            }
        }
    }

    /// Whether an event is among the newest of it.
    pub(super) fn has(&self, event: &Event) -> bool {
        let newest = self.lines.newest();
        newest.iter().rev().any(|known| known.id == event.id)
    }

    /// Everything is as it is said here; what was put down before is what led to that.
    pub(super) fn note_state(&self, state: &LocalEventState) {
        let text = serde_json::to_vec(state).expect("documents are valid JSON");
        if !self.lines.note_beside(text.clone()) {
            tracing::error!(
                "the log of events takes nothing for now: how everything is is not put down"
            );
        }
        *self.last() = Last {
            mark: state.mark.clone(),
            looked_ms: state.looked_ms,
            text,
        };
    }

    /// Everything was seen to be as it was, until then.
    pub(super) fn note_look(&self, looked_ms: u64) {
        let mut last = self.last();
        last.looked_ms = last.looked_ms.max(looked_ms);
    }

    /// How everything was, if something was put down.
    pub(super) fn state(&self) -> Option<LocalEventState> {
        let last = self.last().clone();
        let state: LocalEventState = serde_json::from_slice(&last.text).ok()?;
        Some(LocalEventState {
            looked_ms: last.looked_ms,
            ..state
        })
    }

    /// What is asked for, in the name of a node.
    pub(super) async fn answer(
        &self,
        node: u16,
        query: &EventQuery,
    ) -> Result<LocalEvents, Problem> {
        let (mark, looked_ms) = self.marked();
        let in_memory = self.in_memory(query);
        let events = match in_memory {
            Some(events) => events,
            None => {
                let (log, query) = (self.clone(), query.clone());
                let read = tokio::task::spawn_blocking(move || log.in_files(&query)).await;
                let read = read.map_err(|error| Problem::new(ProblemKind::Internal, error))?;
                read.map_err(|error| {
                    Problem::new(
                        ProblemKind::Internal,
                        format!("the log of events cannot be read: {error}"),
                    )
                })?
            }
        };
        Ok(LocalEvents {
            node,
            events,
            mark,
            looked_ms,
        })
    }

    /// What is asked for, the newest first; nothing if there may be more of it in the files.
    fn in_memory(&self, query: &EventQuery) -> Option<Vec<Event>> {
        let newest = self.lines.newest();
        let is_all = newest.len() < BOUNDS.newest_max;
        let oldest = newest.iter().map(|event| event.at_ms).min();
        let mut found = Found::new(query);
        for event in newest.iter() {
            found.take(event);
        }
        let is_enough = found.events.len() >= query.limit as usize
            || oldest.is_some_and(|oldest| oldest < query.since_ms);
        (is_all || is_enough).then(|| found.newest_first())
    }

    fn in_files(&self, query: &EventQuery) -> io::Result<Vec<Event>> {
        let mut found = Found::new(query);
        self.lines.each_in_files(|event| found.take(&event))?;
        // What waits to be written is in memory only.
        for event in self.lines.newest().iter() {
            found.take(event);
        }
        Ok(found.newest_first())
    }
}

fn last_of(text: Vec<u8>) -> Option<Last> {
    let state: LocalEventState = serde_json::from_slice(&text).ok()?;
    Some(Last {
        mark: state.mark,
        looked_ms: state.looked_ms,
        text,
    })
}

/// The newest of what is asked for, each event once, in whatever order it comes.
#[derive(Debug)]
pub(super) struct Found<'a> {
    query: &'a EventQuery,
    events: BTreeMap<EventPlace, Event>,
}

impl<'a> Found<'a> {
    pub(super) const fn new(query: &'a EventQuery) -> Self {
        Self {
            query,
            events: BTreeMap::new(),
        }
    }

    pub(super) fn take(&mut self, event: &Event) {
        if !self.query.wants(event) {
            return;
        }
        self.events.insert(event.place(), event.clone());
        if self.events.len() > self.query.limit as usize {
            self.events.pop_first();
        }
    }

    pub(super) fn newest_first(self) -> Vec<Event> {
        self.events.into_values().rev().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use holdfast_api::documents::{EventKind, EventSeverity};

    use super::*;

    fn event(at_ms: u64) -> Event {
        Event {
            id: format!("a-1-{at_ms:08x}"),
            at_ms,
            kind: EventKind::NodeLost,
            severity: EventSeverity::Warning,
            subject: "node n2".to_owned(),
            detail: "down".to_owned(),
            not_before_ms: None,
        }
    }

    fn wait_for(log: &EventLog) {
        let begun = Instant::now();
        while log.lines.waiting() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    async fn times(log: &EventLog, query: EventQuery) -> Vec<u64> {
        let answer = log.answer(1, &query).await.unwrap();
        answer.events.iter().map(|event| event.at_ms).collect()
    }

    #[tokio::test]
    async fn what_happened_is_there_after_a_restart_once_and_in_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(EVENTS_FILE);
        let log = EventLog::open(&path).unwrap();
        let count = BOUNDS.newest_max as u64 + 1000;
        log.note((1..=count).map(event).collect());
        // Somebody else has told it, too.
        log.note((count - 5..=count).map(event).collect());
        let state = LocalEventState {
            node: 1,
            mark: event(count).id,
            looked_ms: count,
            state: Some(serde_json::json!({ "nodes": 3 })),
        };
        log.note_state(&state);
        wait_for(&log);
        drop(log);
        let log = EventLog::open(&path).unwrap();
        assert_eq!(log.state(), Some(state.clone()));
        log.note_look(count + 7);
        assert_eq!(log.marked(), (state.mark, count + 7));
        let mut query = EventQuery {
            limit: 700,
            ..EventQuery::default()
        };
        let mut all = Vec::new();
        loop {
            let answer = log.answer(1, &query).await.unwrap();
            let Some(last) = answer.events.last() else {
                break;
            };
            query.after = Some(last.place());
            all.extend(answer.events.iter().map(|event| event.at_ms));
        }
        assert_eq!(all, (1..=count).rev().collect::<Vec<_>>());
        let between = EventQuery {
            since_ms: 3,
            until_ms: Some(6),
            ..EventQuery::default()
        };
        assert_eq!(times(&log, between).await, [5, 4, 3]);
    }

    #[tokio::test]
    async fn what_cannot_be_written_is_told_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("away").join(EVENTS_FILE);
        let log = EventLog::open(&path).unwrap();
        log.note(vec![event(1)]);
        assert_eq!(times(&log, EventQuery::default()).await, [1]);
        assert_eq!(log.state(), None);
    }
}
