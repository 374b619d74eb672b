//! The log of what was done through one process's interface: a file, one JSON document a line, and the newest of it in memory.
//!
//! Invariants:
//! - nobody who asks for something waits for a disk: entries are handed to a thread;
//! - each entry is on stable storage before the next one is written;
//! - the file has a bound, and one before it stays; what does not fit between the thread and whoever is answered is told in
//!   the process's own log, and not lost in silence;
//! - what was refused takes half of the places of those that wait, at most: whoever may do nothing, and asks all the time, takes none
//!   from what is done. How many were left out so is told in the process's own log;
//! - from when on an entry could not be written until one is, the log says so ([`AuditLog::is_writing`]): then nothing is to be
//!   done that would have to be in it. Each further entry is tried.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use holdfast_api::documents::{AUDIT_MAX, AuditEntry, AuditPlace, AuditQuery, piece};

/// Bytes at which a new file begins.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Bytes of a line that are read at most: a request's head has no more.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Entries that may wait to be written.
const WAITING_MAX: usize = 1024;
/// Those among them that tell of what was refused, or failed.
const WAITING_REFUSED_MAX: usize = WAITING_MAX / 2;
/// The lowest status of what was not done (RFC 9110, section 15).
const NOT_DONE: u16 = 400;
/// The log in a node's directory.
pub const AUDIT_FILE: &str = "audit.log";

/// The newest entries.
#[derive(Debug, Default)]
struct Newest {
    /// The oldest first.
    entries: VecDeque<AuditEntry>,
    /// The number of the last one.
    number: u64,
}

impl Newest {
    /// Takes in an entry that is written already. Those of earlier versions are numbered as they are read.
    fn read(&mut self, entry: AuditEntry) {
        self.number = entry.number.max(self.number + 1);
        self.keep(AuditEntry {
            number: self.number,
            ..entry
        });
    }

    fn keep(&mut self, entry: AuditEntry) {
        if self.entries.len() >= AUDIT_MAX as usize {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }
}

/// The log.
#[derive(Clone, Debug)]
pub struct AuditLog {
    newest: Arc<Mutex<Newest>>,
    to_file: SyncSender<AuditEntry>,
    state: Arc<State>,
}

/// What the thread and those who put entries down know of each other.
#[derive(Debug, Default)]
struct State {
    is_writing: AtomicBool,
    /// Entries that wait to be written.
    waiting: AtomicUsize,
    /// Those that were left out since that was last told.
    left_out: AtomicU64,
}

impl AuditLog {
    /// Opens the log at `path`, or begins it. A line that is none, such as the last one before a power failure, is passed over.
    /// One that cannot be opened is tried again with each entry.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn open(path: &Path) -> io::Result<Self> {
        let newest = Arc::new(Mutex::new(Newest::default()));
        for path in [old(path), path.to_owned()] {
            let mut newest = newest.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = read(&path, &mut newest) {
                tracing::error!(
                    "read {}: {error}: what was done before is not told",
                    path.display()
                );
            }
        }
        let mut writer = Writer::of(path.to_owned());
        let opened = writer.file().map(drop);
        if let Err(error) = &opened {
            tracing::error!(
                "open {}: {error}: nothing is changed through this interface until it can be, but by nodes",
                path.display()
            );
        }
        let state = Arc::new(State::default());
        state.is_writing.store(opened.is_ok(), Ordering::Relaxed);
        let tells = Arc::clone(&state);
        let (to_file, entries) = mpsc::sync_channel(WAITING_MAX);
        let builder = thread::Builder::new().name("audit".into());
        builder.spawn(move || writer.run(&entries, &tells))?;
        Ok(Self {
            newest,
            to_file,
            state,
        })
    }

    /// Whether the last entry was written, or the file could be opened since there was none.
    pub(crate) fn is_writing(&self) -> bool {
        self.state.is_writing.load(Ordering::Relaxed)
    }

    /// Puts an entry down. Waits for nothing.
    pub(crate) fn note(&self, entry: AuditEntry) {
        let waiting = self.state.waiting.load(Ordering::Relaxed);
        if entry.status >= NOT_DONE && waiting >= WAITING_REFUSED_MAX {
            self.state.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let entry = {
            let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
            newest.number += 1;
            let number = newest.number;
            let entry = AuditEntry { number, ..entry };
            newest.keep(entry.clone());
            entry
        };
        self.state.waiting.fetch_add(1, Ordering::Relaxed);
        let sent = self.to_file.try_send(entry);
        if let Err(TrySendError::Full(entry) | TrySendError::Disconnected(entry)) = sent {
            self.state.waiting.fetch_sub(1, Ordering::Relaxed);
            self.state.is_writing.store(false, Ordering::Relaxed);
            tracing::error!(
                who = entry.who,
                method = entry.method,
                path = entry.path,
                status = entry.status,
                "the audit log takes nothing for now: this is not in it"
            );
        }
    }

    /// What is asked for, beyond a place in the order of all nodes' entries: the newest first.
    pub(crate) fn answer(&self, query: &AuditQuery, after: Option<&AuditPlace>) -> Vec<AuditEntry> {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = newest.entries.iter();
        let wanted = wanted.filter(|entry| entry.at_ms >= query.since_ms);
        let wanted = wanted.map(|entry| (AuditPlace::of(entry), entry));
        let (told, _) = piece(wanted, after, query.limit as usize);
        told.into_iter().cloned().collect()
    }
}

fn old(path: &Path) -> PathBuf {
    path.with_extension("log.old")
}

/// The entries of a file, if there is one.
fn read(path: &Path, newest: &mut Newest) -> io::Result<()> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut bounded = io::Read::take(&mut reader, LINE_BYTES_MAX as u64);
        if bounded.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if let Ok(entry) = serde_json::from_slice(&line) {
            newest.read(entry);
        }
    }
}

/// The thread's end.
struct Writer {
    path: PathBuf,
    /// None until it can be opened.
    file: Option<File>,
    bytes: u64,
}

impl Writer {
    fn of(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            bytes: 0,
        }
    }

    fn file(&mut self) -> io::Result<&mut File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let mut file = append_to(&self.path)?;
                // A line is on the medium only where the name of its file is.
                holdfast_durable::sync_parent(&self.path)?;
                self.bytes = file.metadata()?.len();
                // What the last line lacks of one, it gets: the next one is a line of its own.
                if self.bytes > 0 {
                    file.write_all(b"\n")?;
                }
                file
            }
        };
        Ok(self.file.insert(file))
    }

    fn run(mut self, entries: &Receiver<AuditEntry>, state: &State) {
        while let Ok(entry) = entries.recv() {
            let written = self.write(&entry);
            state.is_writing.store(written.is_ok(), Ordering::Relaxed);
            if state.waiting.fetch_sub(1, Ordering::Relaxed) == 1 {
                let count = state.left_out.swap(0, Ordering::Relaxed);
                if count > 0 {
                    tracing::warn!(
                        count,
                        "requests were refused faster than {} takes it: these are not in it",
                        self.path.display()
                    );
                }
            }
            if let Err(error) = written {
                // What was written of it, and where, is seen when it is opened anew.
                self.file = None;
                tracing::error!(%error, "write {}: {} of {} is not in it", self.path.display(), entry.method, entry.who);
            }
        }
    }

    fn write(&mut self, entry: &AuditEntry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry).expect("an entry is valid JSON");
        line.push(b'\n');
        self.file()?;
        if self.bytes + line.len() as u64 > FILE_BYTES_MAX {
            holdfast_durable::rename(&self.path, &old(&self.path))?;
            self.file = None;
        }
        let file = self.file()?;
        file.write_all(&line)?;
        file.sync_data()?;
        self.bytes += line.len() as u64;
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
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
        let (to_file, entries) = mpsc::sync_channel(WAITING_MAX);
        let log = AuditLog {
            newest: Arc::default(),
            to_file,
            state: Arc::new(State::default()),
        };
        log.state.is_writing.store(true, Ordering::Relaxed);
        for at in 0..2 * WAITING_MAX as u64 {
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
        let left_out = log.state.left_out.load(Ordering::Relaxed);
        assert_eq!(left_out as usize, 2 * WAITING_MAX - WAITING_REFUSED_MAX);
        assert_eq!(entries.try_iter().count(), WAITING_MAX);
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
        let mut file = append_to(&path).unwrap();
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
        let mut writer = Writer::of(path.clone());
        for _ in 0..3 {
            writer.write(&entry(7)).unwrap();
        }
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

    #[test]
    fn a_full_file_makes_way_and_what_it_had_is_still_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(AUDIT_FILE);
        let mut writer = Writer::of(path.clone());
        writer.write(&entry(1)).unwrap();
        writer.bytes = FILE_BYTES_MAX;
        writer.write(&entry(2)).unwrap();
        assert_eq!((lines(&old(&path)), lines(&path)), (1, 1));
        let log = AuditLog::open(&path).unwrap();
        let told = log.answer(&AuditQuery::default(), None);
        assert_eq!(told.iter().map(|it| it.at_ms).collect::<Vec<_>>(), [2, 1]);
    }
}
