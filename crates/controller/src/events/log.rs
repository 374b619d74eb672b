//! The log of events of one process, and how everything was when one was last put down.
//!
//! Invariants, beside those of [`LineLog`]:
//! - an event is in it once, whoever has told it;
//! - how everything was is never newer than what is put down;
//! - the files are looked through for one at a time, and others wait for so long at most.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use holdfast_api::documents::{
    Event, EventPlace, EventQuery, KeptLog, LocalEventState, LocalEvents,
};
use holdfast_api::{Problem, ProblemKind};
use tokio::time::timeout;

use super::copying::Walk;
use super::memory::Memory;
use crate::line_log::{Bounds, Line, LineLog};

/// The log in a node's directory.
pub const EVENTS_FILE: &str = "events.log";
/// What is kept unless something else is set: two files of 8 MiB, each of some 30,000 events, which is a node lost and back with a replica of each of 1,000 volumes
/// seven times; and of what came last what may not be in the files yet, for [`Memory`] has the newest.
const BOUNDS: Bounds = Bounds {
    name: "events",
    file_bytes_max: 8 << 20,
    // All that may not be in the files yet.
    newest_max: WAITING_MAX,
    waiting_max: WAITING_MAX,
    together_max: 1024,
};
/// Events that may wait to be written: what one look can find, twice.
const WAITING_MAX: usize = 8 << 10;
/// For how long it is waited until the files may be looked through: whoever asks all nodes waits a second for each, and is to hear why.
const LOOK_WAIT_MAX: Duration = Duration::from_millis(700);

/// For how long a process that is to end waits for the disk with the log.
const REST_MAX: Duration = Duration::from_secs(2);

impl Line for Event {
    fn words(&self) -> String {
        format!("{} of {}", self.kind.as_str(), self.subject)
    }

    fn moment_ms(&self) -> u64 {
        self.at_ms
    }
}

/// The log.
#[derive(Clone, Debug)]
pub struct EventLog {
    lines: LineLog<Event>,
    last: Arc<Mutex<Last>>,
    memory: Arc<Mutex<Memory>>,
    /// How far the copy of another one's log is.
    walk: Arc<Mutex<Option<Walk>>>,
}

/// How everything was when something was last put down.
#[derive(Clone, Debug, Default)]
pub(super) struct Last {
    /// Names what that was; empty where nothing was.
    pub(super) mark: String,
    /// Until when everything was seen to be so: milliseconds since 1970 (UTC).
    pub(super) looked_ms: u64,
    /// The same, as it was last put down.
    written_ms: u64,
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
        let mut memory = Memory::default();
        // What came first is the first to be forgotten.
        let (lines, opened) = LineLog::open(path, BOUNDS, |event| {
            memory.note(event);
        })?;
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
            memory: Arc::new(Mutex::new(memory)),
            walk: Arc::default(),
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
        self.lines.kept()
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far the copy of another one's log is, if one was begun.
    pub(super) fn walk(&self) -> MutexGuard<'_, Option<Walk>> {
        self.walk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names what was last put down, and until when everything was seen to be as it was then.
    pub(super) fn marked(&self) -> (String, u64) {
        let last = self.last();
        (last.mark.clone(), last.looked_ms)
    }

    /// As of when it was last put down how everything is: milliseconds since 1970 (UTC).
    pub(super) fn written_ms(&self) -> u64 {
        self.last().written_ms
    }

    /// Puts down what was not yet, the oldest first. Waits for nothing.
    pub(super) fn note(&self, events: Vec<Event>) {
        let mut memory = self.memory();
        for event in events {
            if !memory.note(&event) {
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

    /// Whether it has an event, if that came not too long ago to be known.
    pub(super) fn has(&self, place: &EventPlace) -> bool {
        self.memory().has(place)
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
            written_ms: state.looked_ms,
            text,
        };
    }

    /// Everything is as another one says. False if that is older than what is known here, or nothing: whoever begins to steer has not
    /// taken up yet what was told last.
    pub(super) fn note_state_of_other(&self, state: &LocalEventState) -> bool {
        let is_newer = state.state.is_some() && state.looked_ms >= self.last().looked_ms;
        if is_newer {
            self.note_state(state);
        }
        is_newer
    }

    /// How many events could not be put down since that was last asked; none as long as some wait.
    pub(super) fn lost(&self) -> u64 {
        self.lines.given_back()
    }

    /// Puts down until when everything was seen to be as it was, if that is longer than what is put down says, and waits until it is
    /// written, two seconds at most: whoever begins after a process that was ended on purpose knows it.
    pub fn rest(&self) {
        let last = self.last().clone();
        if last.looked_ms > last.written_ms
            && let Some(state) = self.state()
        {
            self.note_state(&state);
        }
        let begun = Instant::now();
        while self.lines.waiting() > 0 && begun.elapsed() < REST_MAX {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Everything was seen to be as it was, until then.
    pub(super) fn note_look(&self, looked_ms: u64) {
        let mut last = self.last();
        last.looked_ms = last.looked_ms.max(looked_ms);
    }

    /// The same, as another one has seen it, of whose log this is a copy. It is written now and then: after a loss of power everywhere
    /// at once no more is known.
    pub(super) fn note_look_of_other(&self, looked_ms: u64, write_each: Duration) {
        self.note_look(looked_ms);
        let last = self.last().clone();
        let since = last.looked_ms.saturating_sub(last.written_ms);
        if since >= write_each.as_millis() as u64
            && let Some(state) = self.state()
        {
            self.note_state(&state);
        }
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

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.lines.waiting()
    }

    /// What is asked for, in the name of a node.
    pub(super) async fn answer(
        &self,
        node: u16,
        query: &EventQuery,
    ) -> Result<LocalEvents, Problem> {
        let written_ms = self.written_ms();
        let (mark, looked_ms) = self.marked();
        let in_memory = self.memory().answer(query);
        let events = match in_memory {
            Some(events) => events,
            None => self.looked_for(query).await?,
        };
        Ok(LocalEvents {
            node,
            events,
            mark,
            looked_ms,
            written_ms,
        })
    }

    /// What is asked for, out of the files.
    async fn looked_for(&self, query: &EventQuery) -> Result<Vec<Event>, Problem> {
        let Ok(turn) = timeout(LOOK_WAIT_MAX, self.lines.turn()).await else {
            let detail =
                "others have the log of events looked through, and it is done for one at a time";
            let hint = "repeat it in a moment, or ask for what is newer: the newest events are told at once";
            return Err(Problem::new(ProblemKind::Busy, detail).hint(hint));
        };
        // Whoever had it before may have asked for the same.
        if let Some(events) = self.memory().answer(query) {
            return Ok(events);
        }
        let (log, query) = (self.clone(), query.clone());
        let read = self.lines.within(turn, move || log.in_files(&query));
        read.await.map_err(|error| {
            let detail = format!("the log of events cannot be read: {error}");
            Problem::new(ProblemKind::Internal, detail)
        })
    }

    fn in_files(&self, query: &EventQuery) -> io::Result<Vec<Event>> {
        self.memory().look_for(query);
        let waited = self.lines.waiting();
        let found = self.lines.in_files(query)?;
        // While so much waits that memory may not have all of it, nothing is sure to be whole.
        let is_whole = waited == 0;
        Ok(self.memory().looked(found, is_whole))
    }
}

fn last_of(text: Vec<u8>) -> Option<Last> {
    let state: LocalEventState = serde_json::from_slice(&text).ok()?;
    Some(Last {
        mark: state.mark,
        looked_ms: state.looked_ms,
        written_ms: state.looked_ms,
        text,
    })
}

#[cfg(test)]
mod tests {
    use holdfast_api::documents::EventKind;

    use super::super::memory::NEWEST_MAX;
    use super::super::sample::event;
    use super::*;

    fn wait_for(log: &EventLog) {
        let begun = Instant::now();
        while log.waiting() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(10));
            thread::sleep(Duration::from_millis(5));
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
        let count = NEWEST_MAX as u64 + 1000;
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
    async fn until_when_everything_was_so_is_known_after_an_end_on_purpose() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(EVENTS_FILE);
        let looked_after = |log: EventLog, rests: bool| {
            log.note_look(9000);
            if rests {
                log.rest();
            }
            wait_for(&log);
            drop(log);
            EventLog::open(&path).unwrap().marked().1
        };
        let log = EventLog::open(&path).unwrap();
        log.rest();
        log.note_state(&LocalEventState {
            node: 1,
            mark: event(1).id,
            looked_ms: 1000,
            state: Some(serde_json::json!({ "nodes": 3 })),
        });
        assert_eq!(looked_after(log, false), 1000, "it is killed");
        let log = EventLog::open(&path).unwrap();
        assert_eq!(looked_after(log, true), 9000);
    }

    fn place(at_ms: u64) -> Option<EventPlace> {
        Some(event(at_ms).place())
    }

    /// As a copy does it that is made late.
    #[tokio::test]
    async fn old_events_that_come_late_neither_put_newer_ones_out_nor_hide_any() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(EVENTS_FILE);
        let mut log = EventLog::open(&path).unwrap();
        log.note((5001..=10_000).map(event).collect());
        wait_for(&log);
        log.note((1..=1000).map(event).collect());
        wait_for(&log);
        for _ in 0..2 {
            let in_memory = EventQuery {
                limit: NEWEST_MAX as u32,
                ..EventQuery::default()
            };
            let newest = log.memory().answer(&in_memory).map(|it| it.len());
            assert_eq!(newest, Some(NEWEST_MAX));
            let after = EventQuery {
                limit: 700,
                after: place(6100),
                ..EventQuery::default()
            };
            let expected: Vec<_> = (5400..6100).rev().collect();
            assert_eq!(times(&log, after).await, expected);
            let since = EventQuery {
                limit: 10_000,
                since_ms: 500,
                ..EventQuery::default()
            };
            let expected = (500..=1000).chain(5001..=10_000).rev();
            assert_eq!(times(&log, since).await, expected.collect::<Vec<_>>());
            // It is the same after a restart.
            log = EventLog::open(&path).unwrap();
        }
    }

    fn of_kind(kind: EventKind) -> EventQuery {
        EventQuery {
            kind: Some(kind),
            ..EventQuery::default()
        }
    }

    #[tokio::test]
    async fn who_asks_the_same_again_has_the_files_looked_through_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(EVENTS_FILE);
        let log = EventLog::open(&path).unwrap();
        let back = |at_ms| Event {
            kind: EventKind::NodeBack,
            ..event(at_ms)
        };
        log.note(vec![back(1)]);
        log.note((2..=5000).map(event).collect());
        wait_for(&log);
        assert_eq!(times(&log, of_kind(EventKind::NodeBack)).await, [1]);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(times(&log, of_kind(EventKind::NodeBack)).await, [1]);
        // What is put down meanwhile is told, wherever it belongs.
        log.note(vec![back(0), back(6000)]);
        assert_eq!(
            times(&log, of_kind(EventKind::NodeBack)).await,
            [6000, 1, 0]
        );
    }

    #[tokio::test]
    async fn the_files_are_looked_through_for_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let log = EventLog::open(&folder.path().join(EVENTS_FILE)).unwrap();
        log.note((1..=5000).map(event).collect());
        let turn = log.lines.turn().await;
        let refused = log.answer(1, &of_kind(EventKind::NodeBack)).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind, ProblemKind::Busy);
        assert!(refused.hint.unwrap().contains("repeat it"));
        // What is in memory is told at once.
        assert_eq!(times(&log, of_kind(EventKind::NodeLost)).await.len(), 100);
        drop(turn);
        assert_eq!(
            times(&log, of_kind(EventKind::NodeBack)).await,
            [] as [u64; 0]
        );
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
