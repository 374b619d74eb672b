//! The log of what was done through one process's interface.
//!
//! Invariants, beside those of [`LineLog`]:
//! - each entry is on stable storage before the next one is written;
//! - what was refused takes half of the places of those that wait, at most: whoever may do nothing, and asks all the time, takes none
//!   from what is done. How many were left out so is told in the process's own log;
//! - what memory has no room for is told from the files, which are read once at a time, however many ask;
//! - from when on an entry could not be written until one is, the log says so ([`AuditLog::is_writing`]): then nothing is to be
//!   done that would have to be in it. Each further entry is tried.

use std::io;
use std::path::Path;

use holdfast_api::documents::{AUDIT_MAX, AuditEntry, AuditPlace, AuditQuery, KeptLog};

use crate::line_log::{Bounds, Found, Line, LineLog, Question};

/// What is kept unless something else is set: two files of 16 MiB.
const BOUNDS: Bounds = Bounds {
    name: "audit",
    file_bytes_max: 16 << 20,
    newest_max: AUDIT_MAX as usize,
    waiting_max: 1024,
    together_max: 1,
};
/// Those among the entries that wait that tell of what was refused, or failed.
const WAITING_REFUSED_MAX: usize = BOUNDS.waiting_max / 2;
/// The lowest status of what was not done (RFC 9110, section 15).
const NOT_DONE: u16 = 400;
/// The log in a node's directory.
pub const AUDIT_FILE: &str = "audit.log";

impl Line for AuditEntry {
    fn words(&self) -> String {
        format!("{} of {}", self.method, self.who)
    }

    /// Numbered on. Those of earlier versions, which have no number, get theirs as they are read.
    fn after(self, last: Option<&Self>) -> Self {
        let next = last.map_or(1, |last| last.number + 1);
        Self {
            number: self.number.max(next),
            ..self
        }
    }

    fn moment_ms(&self) -> u64 {
        self.at_ms
    }
}

/// The log.
#[derive(Clone, Debug)]
pub struct AuditLog {
    lines: LineLog<AuditEntry>,
}

impl AuditLog {
    /// Opens the log at `path`, or begins it. A line that is none, such as the last one before a power failure, is passed over.
    /// One that cannot be opened is tried again with each entry.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn open(path: &Path) -> io::Result<Self> {
        let (log, opened) = LineLog::open(path, BOUNDS, |_| {})?;
        if let Err(error) = opened {
            tracing::error!(
                "open {}: {error}: nothing is changed through this interface until it can be, but by nodes",
                path.display()
            );
        }
        Ok(Self::of(log))
    }

    const fn of(lines: LineLog<AuditEntry>) -> Self {
        Self { lines }
    }

    /// Whether the last entry was written, or the file could be opened since there was none.
    pub(crate) fn is_writing(&self) -> bool {
        self.lines.is_writing()
    }

    /// Puts an entry down. Waits for nothing.
    pub(crate) fn note(&self, entry: AuditEntry) {
        if entry.status >= NOT_DONE && self.lines.waiting() >= WAITING_REFUSED_MAX {
            self.lines.leave_out();
            return;
        }
        if let Err(entry) = self.lines.note(entry) {
            tracing::error!(
                who = entry.who,
                method = entry.method,
                path = entry.path,
                status = entry.status,
                "the audit log takes nothing for now: this is not in it"
            );
        }
    }

    /// From the next entry on no more than so many bytes are kept.
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

    /// What is asked for, beyond a place in the order of all nodes' entries: the newest first.
    ///
    /// # Errors
    /// The files cannot be read.
    pub(crate) async fn answer(
        &self,
        query: &AuditQuery,
        after: Option<&AuditPlace>,
    ) -> io::Result<Vec<AuditEntry>> {
        let asked = Asked {
            query: query.clone(),
            after: after.cloned(),
        };
        if let Some(told) = self.in_memory(&asked) {
            return Ok(told);
        }
        let (turn, lines) = (self.lines.turn().await, self.lines.clone());
        let look = move || lines.in_files(&asked);
        Ok(self.lines.within(turn, look).await?.told())
    }

    /// What is asked for, if memory has all of it.
    fn in_memory(&self, asked: &Asked) -> Option<Vec<AuditEntry>> {
        let mut found = Found::new(asked);
        let beyond_ms = {
            let newest = self.lines.newest();
            newest.iter().for_each(|entry| found.take(entry));
            self.lines.beyond_ms()
        };
        let is_all = beyond_ms == 0 || beyond_ms < asked.query.since_ms;
        let is_enough = found.is_full() && found.last().is_some_and(|it| it.at_ms > beyond_ms);
        (is_all || is_enough).then(|| found.told())
    }
}

/// What is asked for, beyond a place in the order of all nodes' entries.
#[derive(Clone, Debug)]
struct Asked {
    query: AuditQuery,
    after: Option<AuditPlace>,
}

impl Question for Asked {
    type Line = AuditEntry;
    type Place = AuditPlace;

    fn place(entry: &AuditEntry) -> AuditPlace {
        AuditPlace::of(entry)
    }

    fn wants(&self, entry: &AuditEntry) -> bool {
        let is_after = |after: &AuditPlace| AuditPlace::of(entry) > *after;
        entry.at_ms >= self.query.since_ms && self.after.as_ref().is_none_or(is_after)
    }

    fn count_max(&self) -> usize {
        self.query.limit as usize
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write as _;
    use std::thread;
    use std::time::{Duration, Instant};

    use holdfast_api::documents::Place as _;

    use super::*;

    fn entry(at_ms: u64) -> AuditEntry {
        AuditEntry {
            at_ms,
            who: "user ada".to_owned(),
            path: "/api/v1/volumes".to_owned(),
            ..AuditEntry::default()
        }
    }

    fn lines(path: &Path) -> usize {
        std::fs::read_to_string(path)
            .map_or(0, |text| text.lines().filter(|it| !it.is_empty()).count())
    }

    fn wait_for(lines_wanted: usize, path: &Path) {
        let begun = Instant::now();
        while lines(path) < lines_wanted {
            assert!(begun.elapsed() < Duration::from_secs(10), "{}", lines(path));
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn what_is_refused_takes_no_place_from_what_is_done() {
        let (log, entries) = LineLog::over(Path::new(AUDIT_FILE), BOUNDS);
        let log = AuditLog::of(log);
        for at in 0..2 * BOUNDS.waiting_max as u64 {
            log.note(AuditEntry {
                status: 403,
                ..entry(at)
            });
        }
        assert!(log.is_writing());
        for at in 0..WAITING_REFUSED_MAX as u64 {
            log.note(entry(at));
        }
        assert!(log.is_writing(), "all of it has a place");
        assert_eq!(
            log.lines.left_out() as usize,
            2 * BOUNDS.waiting_max - WAITING_REFUSED_MAX
        );
        assert_eq!(entries.try_iter().count(), BOUNDS.waiting_max);
    }

    async fn told(log: &AuditLog, query: &AuditQuery) -> Vec<AuditEntry> {
        log.answer(query, query.place().unwrap().as_ref())
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn it_is_there_after_a_restart_and_a_torn_line_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(AUDIT_FILE);
        let log = AuditLog::open(&path).unwrap();
        for at in 1..=3 {
            log.note(entry(at));
        }
        wait_for(3, &path);
        drop(log);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"at_ms\":4,\"no").unwrap();
        let log = AuditLog::open(&path).unwrap();
        log.note(entry(5));
        wait_for(5, &path);
        let all = AuditQuery {
            limit: 10,
            ..AuditQuery::default()
        };
        let at = async |query: AuditQuery| {
            let told = told(&log, &query).await.into_iter();
            told.map(|it| it.at_ms).collect::<Vec<_>>()
        };
        assert_eq!(at(all.clone()).await, [5, 3, 2, 1]);
        let two = AuditQuery {
            limit: 2,
            ..all.clone()
        };
        assert_eq!(at(two).await, [5, 3]);
        let late = AuditQuery {
            since_ms: 3,
            ..all.clone()
        };
        assert_eq!(at(late).await, [5, 3]);
        drop(log);
        let log = AuditLog::open(&path).unwrap();
        assert_eq!(told(&log, &all).await.len(), 4);
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn entries_are_numbered_on_after_a_restart_and_those_of_earlier_versions_as_they_are_read()
     {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(AUDIT_FILE);
        let line = serde_json::to_string(&entry(7)).unwrap() + "\n";
        std::fs::write(&path, line.repeat(3)).unwrap();
        let numbers = async |log: &AuditLog| {
            let told = told(log, &AuditQuery::default()).await.into_iter();
            told.map(|it| it.number).collect::<Vec<_>>()
        };
        let log = AuditLog::open(&path).unwrap();
        log.note(entry(7));
        wait_for(4, &path);
        assert_eq!(numbers(&log).await, [4, 3, 2, 1]);
        drop(log);
        let log = AuditLog::open(&path).unwrap();
        assert_eq!(numbers(&log).await, [4, 3, 2, 1]);
        log.note(entry(7));
        assert_eq!(numbers(&log).await, [5, 4, 3, 2, 1]);
        // In pieces nothing of that moment is told twice, or not at all.
        let mut after = None;
        for number in [5, 4, 3, 2, 1] {
            let one = AuditQuery {
                limit: 1,
                ..AuditQuery::default()
            };
            let told = log.answer(&one, after.as_ref()).await.unwrap();
            assert_eq!(told[0].number, number);
            after = Some(AuditPlace::of(&told[0]));
        }
    }

    #[tokio::test]
    async fn what_cannot_be_written_is_said_until_it_can_be() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("away").join(AUDIT_FILE);
        let log = AuditLog::open(&path).unwrap();
        assert!(!log.is_writing());
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        log.note(entry(1));
        wait_for(1, &path);
        let begun = Instant::now();
        while !log.is_writing() {
            assert!(begun.elapsed() < Duration::from_secs(10));
            thread::sleep(Duration::from_millis(5));
        }
        // The entry of which that was not known is told from memory all the same.
        assert_eq!(told(&log, &AuditQuery::default()).await.len(), 1);
    }

    /// All of it in pieces, and how many entries it has.
    async fn in_pieces(log: &AuditLog, limit: u32) -> Vec<u64> {
        let mut query = AuditQuery {
            limit,
            ..AuditQuery::default()
        };
        let mut numbers = Vec::new();
        loop {
            let piece = told(log, &query).await;
            let Some(last) = piece.last() else {
                return numbers;
            };
            assert!(piece.len() <= limit as usize);
            query.after = Some(AuditPlace::of(last).cursor());
            numbers.extend(piece.iter().map(|it| it.number));
        }
    }

    #[tokio::test]
    async fn what_memory_has_no_room_for_is_told_from_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(AUDIT_FILE);
        let count = 2 * BOUNDS.newest_max as u64 + 300;
        let lines = |numbers: std::ops::RangeInclusive<u64>| {
            let line = |number| {
                let entry = AuditEntry {
                    number,
                    ..entry(number / 3)
                };
                serde_json::to_string(&entry).unwrap() + "\n"
            };
            numbers.map(line).collect::<String>()
        };
        std::fs::write(path.with_extension("log.old"), lines(1..=700)).unwrap();
        std::fs::write(&path, lines(701..=count)).unwrap();
        let log = AuditLog::open(&path).unwrap();
        // One that is put down meanwhile.
        log.note(entry(count / 3 + 1));
        let all: Vec<u64> = (1..=count + 1).rev().collect();
        for limit in [AUDIT_MAX, 700] {
            assert_eq!(in_pieces(&log, limit).await, all, "{limit}");
        }
        let early = AuditQuery {
            since_ms: 100,
            limit: AUDIT_MAX,
            after: Some(
                AuditPlace::of(&AuditEntry {
                    number: 450,
                    ..entry(150)
                })
                .cursor(),
            ),
        };
        let numbers: Vec<u64> = told(&log, &early)
            .await
            .iter()
            .map(|it| it.number)
            .collect();
        assert_eq!(numbers, (300..450).rev().collect::<Vec<_>>());
    }

    /// What was put down by a clock that went fast stands before what came later, and is in no memory any more.
    #[tokio::test]
    async fn a_clock_that_was_set_back_has_nothing_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let log = AuditLog::open(&folder.path().join(AUDIT_FILE)).unwrap();
        log.note(entry(1_000_000));
        for at in 1..=BOUNDS.newest_max as u64 {
            while log.lines.waiting() >= WAITING_REFUSED_MAX {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            log.note(entry(at));
        }
        while log.lines.waiting() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let query = AuditQuery::default();
        assert_eq!(told(&log, &query).await[0].at_ms, 1_000_000);
        let numbers = in_pieces(&log, 300).await;
        let count = BOUNDS.newest_max as u64 + 1;
        let expected = [1].into_iter().chain((2..=count).rev());
        assert_eq!(numbers, expected.collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn files_are_read_once_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(AUDIT_FILE);
        let line = serde_json::to_string(&entry(7)).unwrap() + "\n";
        std::fs::write(&path, line.repeat(BOUNDS.newest_max + 1)).unwrap();
        let log = AuditLog::open(&path).unwrap();
        let turn = log.lines.turn().await;
        let query = AuditQuery::default();
        let waits = tokio::time::timeout(Duration::from_millis(50), told(&log, &query)).await;
        assert!(waits.is_err(), "somebody reads them");
        drop(turn);
        assert_eq!(told(&log, &query).await.len(), 100);
    }
}
