//! A log in files: one JSON document a line, and the newest of it in memory. What is in it, and what it is for, is its owner's
//! affair.
//!
//! Invariants:
//! - nobody who has something to put down waits for a disk: lines are handed to a thread;
//! - so many lines are written together at most, and are on stable storage before the next ones are written;
//! - the file has a bound, and one before it stays; what does not fit between the thread and whoever has something to put down is
//!   given back, and not lost in silence;
//! - lines are in the file in the order in which they were put down. One that cannot be written keeps its place before those that
//!   come after it, and is tried again with each of these, and each second;
//! - what lies beside the log says nothing that is not in it: it is written after what was put down before it, and not as long
//!   as the log does not say that it lacks a line;
//! - the bound may be another one from one line to the next: nothing that is written is cut, and what is too much goes when files
//!   begin;
//! - from when on a line could not be written until it is, the log says so ([`LineLog::is_writing`]).

mod asked;
mod kept;

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

pub(crate) use self::asked::{Found, Question};

/// Bytes of a line that are read at most: a request's head has no more, and no event has.
const LINE_BYTES_MAX: usize = 64 << 10;
/// What could not be written is tried again so often, if nothing comes that it is tried with.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Of the files of a log, and of what lies beside it: nobody but the node reads them.
const FILE_MODE: u32 = 0o600;

/// What a line is made of.
pub(crate) trait Line: Clone + Serialize + DeserializeOwned + Send + 'static {
    /// What is told of one that could not be written.
    fn words(&self) -> String;

    /// The line as it is kept after that one, which is the last of the log.
    #[must_use]
    fn after(self, _last: Option<&Self>) -> Self {
        self
    }

    /// When it was put down: milliseconds since 1970 (UTC).
    fn moment_ms(&self) -> u64;
}

/// How much a log holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// What its thread is called.
    pub(crate) name: &'static str,
    /// Bytes at which a new file begins, unless something else is said ([`LineLog::hold`]).
    pub(crate) file_bytes_max: u64,
    /// Lines in memory.
    pub(crate) newest_max: usize,
    /// Lines that may wait to be written, with what lies beside them.
    pub(crate) waiting_max: usize,
    /// Lines that are written together.
    pub(crate) together_max: usize,
}

/// The log.
#[derive(Clone, Debug)]
pub(crate) struct LineLog<T> {
    path: Arc<Path>,
    bounds: Bounds,
    /// The oldest first.
    newest: Arc<Mutex<VecDeque<T>>>,
    to_file: SyncSender<Written<T>>,
    state: Arc<State>,
    /// Whoever has the files looked through holds it.
    turns: Arc<Semaphore>,
}

/// What is written.
#[derive(Clone, Debug)]
pub(crate) enum Written<T> {
    Line(T),
    /// What lies beside the log, anew.
    Beside(Vec<u8>),
}

/// What the thread and those who put lines down know of each other.
#[derive(Debug, Default)]
struct State {
    is_writing: AtomicBool,
    /// Lines that were given back.
    given_back: AtomicU64,
    /// Lines that wait to be written.
    waiting: AtomicUsize,
    /// Those that were left out since that was last told.
    left_out: AtomicU64,
    /// Bytes at which a new file begins.
    file_bytes_max: AtomicU64,
    /// The latest moment of those lines that memory has no room for.
    beyond_ms: AtomicU64,
}

impl<T: Line> LineLog<T> {
    /// Opens the log at `path`, or begins it. A line that is none, such as the last one before a power failure, is passed over.
    /// A file that cannot be opened is tried again with each line, and why not is told. Each line that is there is shown to `each`, in
    /// the order in which they were put down.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn open(
        path: &Path,
        bounds: Bounds,
        mut each: impl FnMut(&T),
    ) -> io::Result<(Self, io::Result<()>)> {
        let (log, to_write) = Self::over(path, bounds);
        for path in [old(path), path.to_owned()] {
            let read = File::open(&path).and_then(|file| {
                read(file, |line| {
                    each(&log.keep(&mut log.newest(), line));
                })
            });
            if let Err(error) = read
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::error!(
                    "read {}: {error}: what is in it is not told",
                    path.display()
                );
            }
        }
        log.hold_what_is_there();
        let mut writer = Writer::of(path.to_owned(), bounds);
        let opened = writer.file().map(drop);
        let state = Arc::clone(&log.state);
        state.is_writing.store(opened.is_ok(), Ordering::Relaxed);
        let builder = thread::Builder::new().name(bounds.name.into());
        builder.spawn(move || writer.run(&to_write, &state))?;
        Ok((log, opened))
    }

    /// One that somebody else writes.
    pub(crate) fn over(path: &Path, bounds: Bounds) -> (Self, Receiver<Written<T>>) {
        let (to_file, to_write) = mpsc::sync_channel(bounds.waiting_max);
        let log = Self {
            path: path.into(),
            bounds,
            newest: Arc::default(),
            to_file,
            state: Arc::default(),
            turns: Arc::new(Semaphore::new(1)),
        };
        log.state.is_writing.store(true, Ordering::Relaxed);
        log.hold(2 * bounds.file_bytes_max);
        (log, to_write)
    }

    /// Whether the last line was written, or the file could be opened since there was none.
    pub(crate) fn is_writing(&self) -> bool {
        self.state.is_writing.load(Ordering::Relaxed)
    }

    /// Lines that wait to be written.
    pub(crate) fn waiting(&self) -> usize {
        self.state.waiting.load(Ordering::Relaxed)
    }

    /// A line was not put down: how many it were is told once the thread has nothing else to do.
    pub(crate) fn leave_out(&self) {
        self.state.left_out.fetch_add(1, Ordering::Relaxed);
    }

    /// How many that were, and are not told yet.
    #[cfg(test)]
    pub(crate) fn left_out(&self) -> u64 {
        self.state.left_out.load(Ordering::Relaxed)
    }

    /// The newest lines, the oldest first.
    pub(crate) fn newest(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a line after the last one: what became of it.
    fn keep(&self, newest: &mut VecDeque<T>, line: T) -> T {
        let line = line.after(newest.back());
        if newest.len() >= self.bounds.newest_max
            && let Some(gone) = newest.pop_front()
        {
            let beyond = &self.state.beyond_ms;
            beyond.fetch_max(gone.moment_ms(), Ordering::Relaxed);
        }
        newest.push_back(line.clone());
        line
    }

    /// Puts a line down. Waits for nothing.
    ///
    /// # Errors
    /// So many wait already: it is in memory, and nowhere else.
    pub(crate) fn note(&self, line: T) -> Result<(), T> {
        // In the file it has the place that it has in memory.
        let mut newest = self.newest();
        let line = self.keep(&mut newest, line);
        let handed_over = self.hand_over(Written::Line(line));
        drop(newest);
        match handed_over {
            Err(Written::Line(line)) => {
                self.state.given_back.fetch_add(1, Ordering::Relaxed);
                Err(line)
            }
            _ => Ok(()),
        }
    }

    /// How many lines were given back since that was last asked, once none waits any more: whoever asks puts down that the log lacks
    /// them.
    pub(crate) fn given_back(&self) -> u64 {
        match self.waiting() {
            0 => self.state.given_back.swap(0, Ordering::Relaxed),
            _ => 0,
        }
    }

    /// Has what lies beside the log written, after the lines that wait. False if so much waits already, or a line was given back,
    /// until it is put down that the log lacks it: it would say what is in no file.
    pub(crate) fn note_beside(&self, content: Vec<u8>) -> bool {
        let given_back = self.state.given_back.load(Ordering::Relaxed);
        given_back == 0 && self.hand_over(Written::Beside(content)).is_ok()
    }

    fn hand_over(&self, written: Written<T>) -> Result<(), Written<T>> {
        // What the thread has taken, and not written, still waits.
        let waiting = self.state.waiting.fetch_add(1, Ordering::Relaxed);
        let sent = if waiting < self.bounds.waiting_max {
            self.to_file.try_send(written)
        } else {
            Err(TrySendError::Full(written))
        };
        sent.map_err(|error| {
            self.state.waiting.fetch_sub(1, Ordering::Relaxed);
            self.state.is_writing.store(false, Ordering::Relaxed);
            let (TrySendError::Full(written) | TrySendError::Disconnected(written)) = error;
            written
        })
    }

    /// What lies beside the log, if anything does.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn beside(&self) -> io::Result<Option<Vec<u8>>> {
        match std::fs::read(beside(&self.path)) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn old(path: &Path) -> PathBuf {
    path.with_extension("log.old")
}

fn beside(path: &Path) -> PathBuf {
    path.with_extension("state")
}

/// The lines of a file.
fn read<T: Line>(file: File, mut each: impl FnMut(T)) -> io::Result<()> {
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut bounded = io::Read::take(&mut reader, LINE_BYTES_MAX as u64);
        if bounded.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if let Ok(line) = serde_json::from_slice(&line) {
            each(line);
        }
    }
}

/// The thread's end.
struct Writer {
    path: PathBuf,
    bounds: Bounds,
    /// None until it can be opened.
    file: Option<File>,
    bytes: u64,
    /// Those of it that are known to be on stable storage.
    durable_bytes: u64,
}

impl Writer {
    fn of(path: PathBuf, bounds: Bounds) -> Self {
        Self {
            path,
            bounds,
            file: None,
            bytes: 0,
            durable_bytes: 0,
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
                self.durable_bytes = self.bytes;
                // What the last line lacks of one, it gets: the next one is a line of its own.
                if self.bytes > 0 {
                    file.write_all(b"\n")?;
                    self.bytes += 1;
                }
                file
            }
        };
        Ok(self.file.insert(file))
    }

    /// Writes what comes, until nobody is left who puts lines down: what cannot be written then is not.
    fn run<T: Line>(mut self, to_write: &Receiver<Written<T>>, state: &State) {
        let mut waiting = VecDeque::new();
        let mut fails = false;
        loop {
            if waiting.is_empty() {
                match to_write.recv() {
                    Ok(next) => waiting.push_back(next),
                    Err(_) => return,
                }
            } else if fails {
                match to_write.recv_timeout(RETRY_PAUSE) {
                    Ok(next) => waiting.push_back(next),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
            waiting.extend(to_write.try_iter());
            self.bounds.file_bytes_max = state.file_bytes_max.load(Ordering::Relaxed);
            let (count, written) = self.write_first(&waiting);
            let is_written = written.is_ok();
            state.is_writing.store(is_written, Ordering::Relaxed);
            match written {
                Ok(()) if fails => tracing::info!("{} is written again", self.path.display()),
                Err(error) if !fails => complain(&self.path, &waiting, &error),
                _ => {}
            }
            fails = !is_written;
            // How everything was is written anew with the next thing that happens; a line is not.
            if is_written || matches!(waiting.front(), Some(Written::Beside(_))) {
                fails = false;
                waiting.drain(..count);
                self.tell_left_out(state, count);
            }
        }
    }

    /// Tells how many lines were left out, once nothing waits.
    fn tell_left_out(&self, state: &State, written: usize) {
        if state.waiting.fetch_sub(written, Ordering::Relaxed) != written {
            return;
        }
        let count = state.left_out.swap(0, Ordering::Relaxed);
        if count > 0 {
            tracing::warn!(
                count,
                "more was to be put down than {} takes: these are not in it",
                self.path.display()
            );
        }
    }

    /// Writes the first of what waits, and of lines so many that may be written together. How much that is, and what came of it.
    fn write_first<T: Line>(&mut self, waiting: &VecDeque<Written<T>>) -> (usize, io::Result<()>) {
        if let Some(Written::Beside(content)) = waiting.front() {
            let path = beside(&self.path);
            return (1, holdfast_durable::replace(&path, content, FILE_MODE));
        }
        let lines = waiting.iter().map_while(|written| match written {
            Written::Line(line) => Some(line),
            Written::Beside(_) => None,
        });
        let lines: Vec<_> = lines.take(self.bounds.together_max).collect();
        let written = self.write(&lines);
        if written.is_err() {
            self.take_back();
        }
        (lines.len(), written)
    }

    /// Takes what is not known to be on the medium out of the file again, as well as that can be done: it is written once more, into
    /// a file that is opened anew.
    fn take_back(&mut self) {
        if let Some(file) = self.file.take()
            && let Err(error) = file.set_len(self.durable_bytes)
        {
            let path = self.path.display();
            tracing::debug!(%error, "shorten {path}: it may have lines twice");
        }
    }

    fn write<T: Line>(&mut self, lines: &[&T]) -> io::Result<()> {
        for line in lines {
            let mut line = serde_json::to_vec(line).expect("a line is valid JSON");
            line.push(b'\n');
            self.file()?;
            if self.bytes > 0 && self.bytes + line.len() as u64 > self.bounds.file_bytes_max {
                self.sync()?;
                holdfast_durable::rename(&self.path, &old(&self.path))?;
                self.file = None;
            }
            self.file()?.write_all(&line)?;
            self.bytes += line.len() as u64;
        }
        self.sync()
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file()?.sync_data()?;
        self.durable_bytes = self.bytes;
        Ok(())
    }
}

/// Tells that what waits cannot be written.
fn complain<T: Line>(path: &Path, waiting: &VecDeque<Written<T>>, error: &io::Error) {
    let path = path.display();
    match waiting.front() {
        Some(Written::Line(line)) => {
            let words = line.words();
            tracing::error!(%error, "write {path}: from {words} on nothing is in it until that can be written");
        }
        _ => tracing::error!(%error, "write what lies beside {path}"),
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(FILE_MODE).open(path)
}

#[cfg(test)]
mod tests;
