//! How much of a log is kept, how far back that reaches, and what memory has of it.
//!
//! Invariants:
//! - a process that starts drops nothing before it knows what is to be kept;
//! - nothing that was put down at a later moment than memory says is in the files only, however often the clock was set.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::Ordering;

use holdfast_api::documents::KeptLog;

use super::{LINE_BYTES_MAX, Line, LineLog, old, read};

/// Bytes that have room before it is known how much is to be kept, in a file that is as long as one may be.
const BEFORE_IT_IS_KNOWN: u64 = 1 << 20;
/// Lines that are looked at until one is found that can be read: the first of a file may be torn, and few are.
const TORN_MAX: usize = 16;

/// What a log has in its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Files<T> {
    pub(super) bytes: u64,
    pub(super) bytes_max: u64,
    /// The line that was put down first; none where no line can be read.
    pub(super) first: Option<T>,
}

impl<T: Line> LineLog<T> {
    /// From the next line on no more than so many bytes are kept, in two files of half as many. Of files that are longer nothing is cut:
    /// the next line begins a new one, which replaces the one before, and the one that was too long goes when that is full.
    pub(crate) fn hold(&self, bytes: u64) {
        let file = bytes / 2;
        self.state.file_bytes_max.store(file, Ordering::Relaxed);
    }

    /// Until something else is said, a file may get longer than one was that is there: it is not known yet what is to be kept.
    pub(super) fn hold_what_is_there(&self) {
        let lengths = [old(&self.path), self.path.to_path_buf()].map(|path| length(&path));
        // What cannot be looked at cannot be written either.
        let longest = lengths.into_iter().filter_map(Result::ok).max();
        let bound = self.bounds.file_bytes_max;
        let file = match longest.unwrap_or(0) {
            longest if longest > bound => longest + BEFORE_IT_IS_KNOWN,
            _ => bound,
        };
        self.hold(2 * file);
    }

    /// The latest moment of what is in the files and not in memory any more; zero where nothing is.
    pub(crate) fn beyond_ms(&self) -> u64 {
        self.state.beyond_ms.load(Ordering::Relaxed)
    }

    /// Every line of the files as it was kept, in the order in which they were put down. It waits for a disk, and so has a thread of its
    /// own.
    ///
    /// # Errors
    /// The files cannot be read.
    pub(crate) fn each_in_order(&self, mut each: impl FnMut(&T)) -> io::Result<()> {
        // Both are open before one is read. If a new one begins in between, both are the same, and what is before that is past.
        let paths = [self.path.to_path_buf(), old(&self.path)];
        let mut files = Vec::new();
        let mut known = None;
        for path in &paths {
            match File::open(path) {
                Ok(file) => {
                    let number = file.metadata()?.ino();
                    if known.replace(number) != Some(number) {
                        files.push(file);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let mut last: Option<T> = None;
        for file in files.into_iter().rev() {
            read(file, |line: T| {
                let line = line.after(last.as_ref());
                each(&line);
                last = Some(line);
            })?;
        }
        Ok(())
    }

    /// What is kept, as it is told. It waits for a disk, and so has a thread of its own.
    ///
    /// # Errors
    /// The files cannot be looked at.
    pub(crate) fn kept(&self) -> io::Result<KeptLog> {
        let files = self.files()?;
        Ok(KeptLog {
            bytes: files.bytes,
            bytes_max: files.bytes_max,
            oldest_ms: files.first.map(|line| line.moment_ms()),
        })
    }

    /// What is in the files.
    pub(super) fn files(&self) -> io::Result<Files<T>> {
        let paths = [old(&self.path), self.path.to_path_buf()];
        let (mut bytes, mut oldest) = (0, None);
        for path in &paths {
            bytes += length(path)?;
            if oldest.is_none() {
                oldest = first(path)?;
            }
        }
        Ok(Files {
            bytes,
            bytes_max: 2 * self.state.file_bytes_max.load(Ordering::Relaxed),
            first: oldest,
        })
    }
}

fn length(path: &Path) -> io::Result<u64> {
    match path.metadata() {
        Ok(metadata) => Ok(metadata.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

/// The first line of a file that can be read.
fn first<T: Line>(path: &Path) -> io::Result<Option<T>> {
    let mut reader = match File::open(path) {
        Ok(file) => BufReader::new(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    for _ in 0..TORN_MAX {
        let mut line = Vec::new();
        let mut bounded = Read::take(&mut reader, LINE_BYTES_MAX as u64);
        if bounded.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if let Ok(line) = serde_json::from_slice(&line) {
            return Ok(Some(line));
        }
    }
    Ok(None)
}
