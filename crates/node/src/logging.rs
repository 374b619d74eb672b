//! The node's log: a file of bounded size, written by a thread of its own.
//!
//! Invariants:
//! - who logs never waits for the file: if too much is waiting, lines are lost, and counted;
//! - the file and its one predecessor together hold at most twice the size that was set.

use std::fs::{File, OpenOptions, rename};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;

/// Lines that may wait to be written.
const LINES_WAITING_MAX: usize = 1024;
/// How long the end of the process waits for the last lines.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(1);

/// Keeps the log; when dropped, what was logged before is in the file.
#[derive(Debug)]
pub struct Log {
    sender: Sender,
}

/// Begins to log to `path`. Once a process: later calls change nothing.
///
/// # Errors
/// What the operating system says if the file cannot be opened, or there is no thread.
pub fn start(path: &Path, bytes_max: u64, level: Level) -> io::Result<Log> {
    let file = RotatingFile::open(path, bytes_max)?;
    let sender = Sender::start(file)?;
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(level)
        .with_writer(sender.clone())
        .finish();
    if tracing::subscriber::set_global_default(subscriber).is_ok() {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            tracing::error!("stopped by a mistake in this program: {panic}");
            before(panic);
        }));
    }
    Ok(Log { sender })
}

impl Drop for Log {
    fn drop(&mut self) {
        self.sender.flush();
    }
}

#[derive(Debug)]
enum Line {
    Text(Vec<u8>),
    Flush(SyncSender<()>),
}

/// Hands lines to the thread that writes them.
#[derive(Clone, Debug)]
struct Sender {
    lines: SyncSender<Line>,
    lost: Arc<AtomicU64>,
}

impl Sender {
    fn start(file: RotatingFile) -> io::Result<Self> {
        let (lines, waiting) = sync_channel(LINES_WAITING_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        thread::Builder::new()
            .name("log".into())
            .spawn(move || write_lines(file, &waiting, &counted))?;
        Ok(Self { lines, lost })
    }

    fn flush(&self) {
        let (done, wait) = sync_channel(1);
        if self.lines.send(Line::Flush(done)).is_ok() {
            // Too late is too late: the process ends all the same.
            let _ = wait.recv_timeout(FLUSH_TIME_MAX);
        }
    }
}

impl Write for Sender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.lines.try_send(Line::Text(bytes.to_vec())) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(_)) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Sender {
    type Writer = Sender;

    fn make_writer(&'a self) -> Sender {
        self.clone()
    }
}

fn write_lines(mut file: RotatingFile, waiting: &Receiver<Line>, lost: &AtomicU64) {
    for line in waiting {
        match line {
            Line::Text(text) => {
                let count = lost.swap(0, Ordering::Relaxed);
                if count > 0 {
                    file.write(format!("({count} lines were lost here)\n").as_bytes());
                }
                file.write(&text);
            }
            Line::Flush(done) => drop(done.send(())),
        }
    }
}

/// A file that makes way for a new one when it is full.
#[derive(Debug)]
struct RotatingFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
}

impl RotatingFile {
    fn open(path: &Path, bytes_max: u64) -> io::Result<Self> {
        let file = append(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self {
            path: path.to_owned(),
            file,
            bytes,
            bytes_max,
        })
    }

    /// Writes as far as it goes: there is nobody to tell that the log cannot be written.
    fn write(&mut self, text: &[u8]) {
        let length = (text.len() as u64).min(self.bytes_max);
        if self.bytes + length > self.bytes_max {
            drop(self.rotate());
        }
        if self.bytes + length <= self.bytes_max
            && self.file.write_all(&text[..length as usize]).is_ok()
        {
            self.bytes += length;
        }
    }

    fn rotate(&mut self) -> io::Result<()> {
        rename(&self.path, predecessor(&self.path))?;
        self.file = append(&self.path)?;
        self.bytes = 0;
        Ok(())
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// Where the full file goes: `node.log` to `node.log.old`.
fn predecessor(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".old");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_files_are_bounded_and_hold_the_newest() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node.log");
        let mut file = RotatingFile::open(&path, 100).unwrap();
        for number in 0..100 {
            file.write(format!("line {number:02}\n").as_bytes());
        }
        file.write(&[b'x'; 500]);
        let (new, old) = (
            fs::read_to_string(&path).unwrap(),
            fs::read_to_string(predecessor(&path)).unwrap(),
        );
        assert_eq!(new, "x".repeat(100));
        assert!(old.len() <= 100 && old.ends_with("line 99\n"), "{old}");
        // What is there counts after a new start.
        let mut file = RotatingFile::open(&path, 100).unwrap();
        file.write(b"again\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "again\n");
    }

    #[test]
    fn lines_are_in_the_file_after_a_flush_and_lost_ones_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node.log");
        let file = RotatingFile::open(&path, 1 << 20).unwrap();
        let mut sender = Sender::start(file).unwrap();
        sender.write_all(b"first\n").unwrap();
        sender.lost.store(3, Ordering::Relaxed);
        Sender::flush(&sender);
        sender.write_all(b"second\n").unwrap();
        Sender::flush(&sender);
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.starts_with("first\n") || text.starts_with("(3 lines"),
            "{text}"
        );
        assert!(text.contains("(3 lines were lost here)\n"));
        assert!(text.ends_with("second\n"));
    }
}
