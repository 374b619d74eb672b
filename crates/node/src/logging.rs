//! The node's log: a file of bounded size, written by a thread of its own.
//!
//! Invariants:
//! - who logs never waits for the file: if too much is waiting, lines are lost, and counted;
//! - the file and its one predecessor together hold at most twice the size that was set;
//! - a line is text for people, or a JSON object for programs, as the configuration has it for all.

mod levels;

use std::fs::{File, OpenOptions, rename};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use holdfast_api::documents::{LogChange, LogLevels};
use serde_json::json;
use tracing::{Level, Subscriber};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{Layer, Registry, fmt, reload};

use self::levels::Levels;
use crate::config::{LogConfig, LogFormat};

/// Lines that may wait to be written.
const LINES_WAITING_MAX: usize = 1024;
/// How long the end of the process waits for the last lines.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(1);

/// Keeps the log; when dropped, what was logged before is in the file.
#[derive(Debug)]
pub struct Log {
    sender: Sender,
    levels: Arc<Levels>,
}

/// Where it is asked what is written, and changed.
#[derive(Clone, Debug)]
pub struct LogDesk {
    sender: Sender,
    levels: Arc<Levels>,
}

/// Begins to log to `path`. Once a process: later calls change nothing.
///
/// # Errors
/// What the operating system says if the file cannot be opened, or there is no thread.
pub fn start(path: &Path, config: LogConfig) -> io::Result<Log> {
    let file = RotatingFile::open(path, config.bytes_max)?;
    let (sender, waiting) = Sender::new();
    let (subscriber, levels) = subscriber(config, sender.clone());
    sender.write_behind(file, waiting, &levels, config.format)?;
    if tracing::subscriber::set_global_default(subscriber).is_ok() {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            tracing::error!("stopped by a mistake in this program: {panic}");
            before(panic);
        }));
    }
    Ok(Log { sender, levels })
}

/// What makes lines of what happens, and the levels that it goes by.
fn subscriber(
    config: LogConfig,
    sender: Sender,
) -> (impl Subscriber + Send + Sync + 'static, Arc<Levels>) {
    let (filter, handle) = reload::Layer::new(levels::configured(config.level));
    let lines = fmt::layer().with_ansi(false).with_writer(sender);
    let lines: Box<dyn Layer<_> + Send + Sync> = match config.format {
        LogFormat::Text => lines.boxed(),
        // The fields of the request that a line is of come once, under `span`.
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .boxed(),
    };
    let install = move |targets| {
        // It fails only where the subscriber is gone, and nothing is written any more.
        let _ = handle.reload(targets);
    };
    let levels = Levels::new(config.level, Box::new(install));
    let subscriber = Registry::default().with(filter).with(lines);
    (subscriber, Arc::new(levels))
}

impl Log {
    /// Where it is asked what is written, and changed.
    #[must_use]
    pub fn desk(&self) -> LogDesk {
        LogDesk {
            sender: self.sender.clone(),
            levels: Arc::clone(&self.levels),
        }
    }
}

impl LogDesk {
    /// What is written now.
    #[must_use]
    pub fn levels(&self) -> LogLevels {
        self.levels.told(Instant::now())
    }

    /// Writes more, or less, for a time.
    #[must_use]
    pub fn change(&self, change: &LogChange) -> LogLevels {
        let now = Instant::now();
        if self.levels.change(change, now).is_some() {
            // Where that is lost because too many lines wait, one of them wakes the thread as well.
            let _ = self.sender.lines.try_send(Line::LevelsChanged);
        }
        let levels = self.levels.told(now);
        tracing::info!(
            level = levels.level.as_str(),
            areas = areas(&levels),
            seconds_left = levels.seconds_left,
            "the log's levels were changed"
        );
        levels
    }
}

fn areas(levels: &LogLevels) -> String {
    let areas = levels.areas.iter();
    let areas = areas.map(|it| format!("{}={}", it.area.as_str(), it.level.as_str()));
    areas.collect::<Vec<_>>().join(" ")
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
    LevelsChanged,
}

/// Hands lines to the thread that writes them.
#[derive(Clone, Debug)]
struct Sender {
    lines: SyncSender<Line>,
    lost: Arc<AtomicU64>,
}

impl Sender {
    fn new() -> (Self, Receiver<Line>) {
        let (lines, waiting) = sync_channel(LINES_WAITING_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        (Self { lines, lost }, waiting)
    }

    /// Has a thread write what comes.
    fn write_behind(
        &self,
        file: RotatingFile,
        waiting: Receiver<Line>,
        levels: &Arc<Levels>,
        format: LogFormat,
    ) -> io::Result<()> {
        let (lost, levels) = (Arc::clone(&self.lost), Arc::clone(levels));
        thread::Builder::new()
            .name("log".into())
            .spawn(move || write_lines(file, &waiting, &lost, &levels, format))
            .map(drop)
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

/// Writes lines as they come. Beside that it is what has other levels end: nothing else has so little to do.
fn write_lines(
    mut file: RotatingFile,
    waiting: &Receiver<Line>,
    lost: &AtomicU64,
    levels: &Levels,
    format: LogFormat,
) {
    loop {
        let line = match levels.fall_back(Instant::now()) {
            None => waiting.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(due) => waiting.recv_timeout(due.saturating_duration_since(Instant::now())),
        };
        match line {
            Ok(Line::Text(text)) => {
                let count = lost.swap(0, Ordering::Relaxed);
                if count > 0 {
                    file.write(gap(format, count).as_bytes());
                }
                file.write(&text);
            }
            Ok(Line::Flush(done)) => drop(done.send(())),
            Ok(Line::LevelsChanged) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// The line in the place of so many that were lost.
fn gap(format: LogFormat, count: u64) -> String {
    let message = format!("{count} lines were lost here");
    if format == LogFormat::Text {
        return format!("({message})\n");
    }
    let mut timestamp = String::new();
    // There is room for it in a text.
    let _ = SystemTime.format_time(&mut Writer::new(&mut timestamp));
    let line = json!({
        "timestamp": timestamp,
        "level": Level::WARN.as_str(),
        "message": message,
        "lost": count,
        "target": module_path!(),
    });
    format!("{line}\n")
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
pub(crate) fn predecessor(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".old");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use holdfast_api::documents::LogLevel;

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

    /// A log in a directory that a test may write to, without being that of the whole process.
    fn log(config: LogConfig, path: &Path) -> (impl Subscriber + Send + Sync + 'static, Log) {
        let (sender, waiting) = Sender::new();
        let (subscriber, levels) = subscriber(config, sender.clone());
        let file = RotatingFile::open(path, config.bytes_max).unwrap();
        sender
            .write_behind(file, waiting, &levels, config.format)
            .unwrap();
        (subscriber, Log { sender, levels })
    }

    #[test]
    fn lines_are_in_the_file_after_a_flush_and_lost_ones_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node.log");
        let (_, log) = log(LogConfig::default(), &path);
        let mut sender = log.sender.clone();
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

    #[test]
    fn levels_change_while_it_runs_and_fall_back_without_a_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node.log");
        let (subscriber, log) = log(LogConfig::default(), &path);
        let desk = log.desk();
        let more = LogChange {
            level: Some(LogLevel::Debug),
            seconds: Some(1),
            ..LogChange::default()
        };
        tracing::subscriber::with_default(subscriber, || {
            tracing::debug!("before");
            assert_eq!(desk.change(&more).seconds_left, Some(1));
            tracing::debug!("meanwhile");
            let deadline = Instant::now() + Duration::from_secs(20);
            while desk.levels().seconds_left.is_some() {
                assert!(Instant::now() < deadline, "it does not fall back");
                thread::sleep(Duration::from_millis(20));
            }
            tracing::debug!("afterwards");
            tracing::info!("at the end");
        });
        drop(log);
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.contains("meanwhile") && text.contains("at the end"),
            "{text}"
        );
        assert!(
            !text.contains("before") && !text.contains("afterwards"),
            "{text}"
        );
    }

    #[test]
    fn what_was_lost_is_told_to_programs_as_they_are_told_the_rest() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node.log");
        let config = LogConfig {
            format: LogFormat::Json,
            ..LogConfig::default()
        };
        let (subscriber, log) = log(config, &path);
        log.sender.lost.store(3, Ordering::Relaxed);
        tracing::subscriber::with_default(subscriber, || tracing::warn!("a line"));
        drop(log);
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().map(serde_json::from_str);
        let lines: Vec<serde_json::Map<String, serde_json::Value>> =
            lines.collect::<Result<_, _>>().unwrap();
        let [gap, line] = &lines[..] else {
            panic!("{text}");
        };
        assert_eq!(gap["message"], "3 lines were lost here");
        assert_eq!(gap["lost"], 3);
        for field in ["level", "target"] {
            assert!(gap[field].is_string() && line[field].is_string(), "{text}");
        }
        let times = [gap, line].map(|it| it["timestamp"].as_str().unwrap().len());
        assert_eq!(times[0], times[1], "{text}");
    }

    #[test]
    fn lines_for_programs_are_json() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node.log");
        let config = LogConfig {
            format: LogFormat::Json,
            ..LogConfig::default()
        };
        let (subscriber, log) = log(config, &path);
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::error_span!("request", trace_id = "0af7");
            let _within = span.enter();
            tracing::warn!(device = 3, "a \"quoted\"\nline");
        });
        drop(log);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["message"], "a \"quoted\"\nline");
        assert_eq!(line["device"], 3);
        assert_eq!(line["span"]["trace_id"], "0af7");
        let time = line["timestamp"].as_str().unwrap();
        assert!(time.ends_with('Z') && time.as_bytes()[10] == b'T', "{time}");
        assert!(
            line["target"]
                .as_str()
                .unwrap()
                .starts_with("holdfast_node")
        );
    }
}
