//! The log of what was done through one process's interface.
//!
//! Invariants, beside those of [`LineLog`]:
//! - each entry is on stable storage before the next one is written;
//! - what was refused takes half of the places of those that wait, at most: whoever may do nothing, and asks all the time, takes none
//!   from what is done. How many were left out so is told in the process's own log;
//! - from when on an entry could not be written until one is, the log says so ([`AuditLog::is_writing`]): then nothing is to be
//!   done that would have to be in it. Each further entry is tried.

use std::io;
use std::path::Path;

use holdfast_api::documents::{AUDIT_MAX, AuditEntry, AuditPlace, AuditQuery, KeptLog, piece};

use crate::line_log::{Bounds, Line, LineLog};

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
}

/// The log.
#[derive(Clone, Debug)]
pub struct AuditLog(LineLog<AuditEntry>);

impl AuditLog {
    /// Opens the log at `path`, or begins it. A line that is none, such as the last one before a power failure, is passed over.
    /// One that cannot be opened is tried again with each entry.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn open(path: &Path) -> io::Result<Self> {
        let (log, opened) = LineLog::open(path, BOUNDS)?;
        if let Err(error) = opened {
            tracing::error!(
                "open {}: {error}: nothing is changed through this interface until it can be, but by nodes",
                path.display()
            );
        }
        Ok(Self(log))
    }

    /// Whether the last entry was written, or the file could be opened since there was none.
    pub(crate) fn is_writing(&self) -> bool {
        self.0.is_writing()
    }

    /// Puts an entry down. Waits for nothing.
    pub(crate) fn note(&self, entry: AuditEntry) {
        if entry.status >= NOT_DONE && self.0.waiting() >= WAITING_REFUSED_MAX {
            self.0.leave_out();
            return;
        }
        if let Err(entry) = self.0.note(entry) {
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
        self.0.hold(bytes);
    }

    /// What is kept. It waits for a disk, and so has a thread of its own.
    ///
    /// # Errors
    /// The files cannot be looked at.
    pub(crate) fn kept(&self) -> io::Result<KeptLog> {
        let files = self.0.files()?;
        Ok(KeptLog {
            bytes: files.bytes,
            bytes_max: files.bytes_max,
            oldest_ms: files.first.map(|entry| entry.at_ms),
        })
    }

    /// What is asked for, beyond a place in the order of all nodes' entries: the newest first.
    pub(crate) fn answer(&self, query: &AuditQuery, after: Option<&AuditPlace>) -> Vec<AuditEntry> {
        let newest = self.0.newest();
        let wanted = newest.iter();
        let wanted = wanted.filter(|entry| entry.at_ms >= query.since_ms);
        let wanted = wanted.map(|entry| (AuditPlace::of(entry), entry));
        let (told, _) = piece(wanted, after, query.limit as usize);
        told.into_iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write as _;
    use std::thread;
    use std::time::{Duration, Instant};

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
        let log = AuditLog(log);
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
            log.0.left_out() as usize,
            2 * BOUNDS.waiting_max - WAITING_REFUSED_MAX
        );
        assert_eq!(entries.try_iter().count(), BOUNDS.waiting_max);
    }

    #[test]
    fn it_is_there_after_a_restart_and_a_torn_line_is_passed_over() {
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
        let at = |query: AuditQuery| {
            log.answer(&query, None)
                .iter()
                .map(|it| it.at_ms)
                .collect::<Vec<_>>()
        };
        assert_eq!(at(all.clone()), [5, 3, 2, 1]);
        let two = AuditQuery {
            limit: 2,
            ..all.clone()
        };
        assert_eq!(at(two), [5, 3]);
        let late = AuditQuery {
            since_ms: 3,
            ..all.clone()
        };
        assert_eq!(at(late), [5, 3]);
        drop(log);
        let log = AuditLog::open(&path).unwrap();
        assert_eq!(log.answer(&all, None).len(), 4);
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn entries_are_numbered_on_after_a_restart_and_those_of_earlier_versions_as_they_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(AUDIT_FILE);
        let line = serde_json::to_string(&entry(7)).unwrap() + "\n";
        std::fs::write(&path, line.repeat(3)).unwrap();
        let numbers = |log: &AuditLog| {
            let told = log.answer(&AuditQuery::default(), None).into_iter();
            told.map(|it| it.number).collect::<Vec<_>>()
        };
        let log = AuditLog::open(&path).unwrap();
        log.note(entry(7));
        wait_for(4, &path);
        assert_eq!(numbers(&log), [4, 3, 2, 1]);
        drop(log);
        let log = AuditLog::open(&path).unwrap();
        assert_eq!(numbers(&log), [4, 3, 2, 1]);
        log.note(entry(7));
        assert_eq!(numbers(&log), [5, 4, 3, 2, 1]);
        // In pieces nothing of that moment is told twice, or not at all.
        let mut after = None;
        for number in [5, 4, 3, 2, 1] {
            let one = AuditQuery {
                limit: 1,
                ..AuditQuery::default()
            };
            let told = log.answer(&one, after.as_ref());
            assert_eq!(told[0].number, number);
            after = Some(AuditPlace::of(&told[0]));
        }
    }

    #[test]
    fn what_cannot_be_written_is_said_until_it_can_be() {
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
        assert_eq!(log.answer(&AuditQuery::default(), None).len(), 1);
    }
}
