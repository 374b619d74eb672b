//! Keeps the stall ledger of this node: its newest stalls in memory, for the API, and in a file of
//! bounded size, for the next start.
//!
//! It runs beside the data path, which hands over what has ended and never waits: if too much is
//! waiting, stalls are lost, and counted. The file is not flushed to stable storage: a stall that a power
//! loss takes along is no loss of data.
//!
//! Invariants:
//! - memory and file are bounded by [`STALLS_KEPT`] and [`FILE_BYTES_MAX`];
//! - whatever the file holds, the node starts: lines that are not understood are left out;
//! - a file that cannot be written is told of once, and the ledger goes on in memory.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions, rename};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use holdfast_api::documents::{LocalStall, STALLS_MAX, StallCause};
use holdfast_engine::{Stall, StallCause as EngineCause};
use holdfast_stdx::Instant;
use tokio::sync::{mpsc, watch};

use crate::clock;
use crate::metrics::Metrics;

/// The file in a node's directory.
pub const STALLS_FILE: &str = "stalls.jsonl";
/// Stalls that are kept: all that an answer of the API holds.
const STALLS_KEPT: usize = STALLS_MAX as usize;
/// Bytes of the file at most: some ledgers; beyond it the file is made anew of the one in memory.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a line at most: names of initiators have 223.
const LINE_BYTES_MAX: usize = 1024;
/// Stalls that may wait to be kept: of every volume and session at once, and more.
const WAITING_MAX: usize = 8192;

/// The newest stalls, the newest last.
pub type Ledger = VecDeque<LocalStall>;

/// The data path's end.
#[derive(Clone, Debug)]
pub(crate) struct StallSender {
    waiting: mpsc::Sender<LocalStall>,
    metrics: Metrics,
}

impl StallSender {
    /// Hands over a stall that has just ended.
    pub(crate) fn told(&self, stall: &Stall) {
        let stall = local(stall, clock::now(), SystemTime::now());
        // Whoever keeps them is far behind, or has ended: nobody waits for it.
        if self.waiting.try_send(stall).is_err() {
            self.metrics.stalls().lost();
        }
    }
}

/// What has to be kept, and where it shows.
pub(crate) struct Keeper {
    waiting: mpsc::Receiver<LocalStall>,
    ledger: watch::Sender<Ledger>,
    file: StallFile,
    metrics: Metrics,
}

/// Begins with what the file at `path` holds.
pub(crate) fn keep(
    path: PathBuf,
    metrics: Metrics,
) -> (StallSender, Keeper, watch::Receiver<Ledger>) {
    let (sender, waiting) = mpsc::channel(WAITING_MAX);
    let mut file = StallFile::new(path);
    let (ledger, shown) = watch::channel(file.read());
    let keeper = Keeper {
        waiting,
        ledger,
        file,
        metrics: metrics.clone(),
    };
    let sender = StallSender {
        waiting: sender,
        metrics,
    };
    (sender, keeper, shown)
}

impl Keeper {
    /// Keeps what comes, until nothing more can.
    pub(crate) async fn run(mut self) {
        let mut news = Vec::new();
        while self.waiting.recv_many(&mut news, WAITING_MAX).await > 0 {
            for stall in &news {
                self.metrics.stalls().ended(stall);
            }
            self.ledger.send_modify(|ledger| {
                ledger.extend(news.iter().cloned());
                let over = ledger.len().saturating_sub(STALLS_KEPT);
                ledger.drain(..over);
            });
            let ledger = self.ledger.borrow();
            self.file.append(&news, &ledger);
            drop(ledger);
            news.clear();
        }
    }
}

/// An engine's stall as documents tell it. `now` is when the wall's clock shows `wall`.
pub(crate) fn local(stall: &Stall, now: Instant, wall: SystemTime) -> LocalStall {
    let began = wall.checked_sub(now.since(stall.began));
    let began = began.and_then(|began| began.duration_since(SystemTime::UNIX_EPOCH).ok());
    let milliseconds = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    LocalStall {
        began_ms: began.map_or(0, milliseconds),
        length_ms: milliseconds(stall.length),
        volume: stall.volume.0,
        initiator: stall.initiator.as_ref().map(ToString::to_string),
        cause: match stall.cause {
            EngineCause::NodeLost => StallCause::NodeLost,
            EngineCause::Lease => StallCause::Lease,
            EngineCause::Media => StallCause::Media,
            EngineCause::Metadata => StallCause::Metadata,
            EngineCause::Standstill => StallCause::Standstill,
            EngineCause::Unknown => StallCause::Unknown,
        },
        node: stall.node.map(|node| node.0),
        slice: stall.slice.map(|slice| slice.index),
        waiting_max: stall.waiting_max,
        served: stall.served,
    }
}

/// One stall a line, the newest last.
struct StallFile {
    path: PathBuf,
    file: Option<File>,
    bytes: u64,
    /// It was told that the file cannot be written.
    told: bool,
}

impl StallFile {
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            bytes: 0,
            told: false,
        }
    }

    /// What it holds; nothing if it cannot be read.
    fn read(&mut self) -> Ledger {
        self.open().unwrap_or_else(|error| {
            self.tell(&error);
            Ledger::new()
        })
    }

    fn open(&mut self) -> io::Result<Ledger> {
        let mut file = options().read(true).append(true).open(&self.path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(2 * FILE_BYTES_MAX)))?;
        let mut bytes = Vec::new();
        (&file).take(2 * FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        let ledger = parsed(&bytes);
        self.bytes = length;
        if bytes.last().is_some_and(|last| *last != b'\n') {
            // The end was torn: what follows begins a line of its own.
            file.write_all(b"\n")?;
            self.bytes += 1;
        }
        self.file = Some(file);
        Ok(ledger)
    }

    /// Adds stalls that are in the ledger already.
    fn append(&mut self, stalls: &[LocalStall], ledger: &Ledger) {
        let Some(file) = &mut self.file else { return };
        let lines = lines(stalls.iter());
        let done = if self.bytes + lines.len() as u64 > FILE_BYTES_MAX {
            self.make_anew(ledger)
        } else {
            self.bytes += lines.len() as u64;
            file.write_all(&lines)
        };
        if let Err(error) = done {
            self.tell(&error);
            self.file = None;
        }
    }

    /// Puts a file with the ledger and nothing else in its place.
    fn make_anew(&mut self, ledger: &Ledger) -> io::Result<()> {
        let aside = self.path.with_extension("new");
        let lines = lines(ledger.iter());
        let mut file = options().write(true).truncate(true).open(&aside)?;
        file.write_all(&lines)?;
        rename(&aside, &self.path)?;
        self.bytes = lines.len() as u64;
        self.file = Some(options().append(true).open(&self.path)?);
        Ok(())
    }

    fn tell(&mut self, error: &io::Error) {
        if !self.told {
            self.told = true;
            let path = self.path.display();
            tracing::warn!("keep the stall ledger in {path}: {error}; it is kept in memory only");
        }
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    options
}

fn lines<'a>(stalls: impl Iterator<Item = &'a LocalStall>) -> Vec<u8> {
    let mut lines = Vec::new();
    for stall in stalls {
        let line = serde_json::to_vec(stall).expect("a document is valid JSON");
        if line.len() < LINE_BYTES_MAX {
            lines.extend_from_slice(&line);
            lines.push(b'\n');
        }
    }
    lines
}

fn parsed(bytes: &[u8]) -> Ledger {
    let lines = bytes.split(|byte| *byte == b'\n');
    let stalls = lines.filter_map(|line| serde_json::from_slice(line).ok());
    let mut ledger: Ledger = stalls.collect();
    let over = ledger.len().saturating_sub(STALLS_KEPT);
    ledger.drain(..over);
    ledger
}

/// The file of a node whose directory is `directory`.
pub(crate) fn file_in(directory: &Path) -> PathBuf {
    directory.join(STALLS_FILE)
}

#[cfg(test)]
mod tests {
    use holdfast_iscsi::IscsiName;
    use holdfast_model::{NodeId, SliceId, VolumeId};

    use super::*;

    fn stall(number: u64) -> LocalStall {
        let volume = VolumeId(7);
        let stall = Stall {
            volume,
            initiator: Some(IscsiName::parse("iqn.2026-11.example:host").unwrap()),
            began: Instant::from_nanos(5_000_000_000),
            length: Duration::from_millis(number),
            waiting_max: 3,
            cause: EngineCause::NodeLost,
            slice: Some(SliceId { volume, index: 2 }),
            node: Some(NodeId(1)),
            served: true,
        };
        let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        local(&stall, Instant::from_nanos(6_500_000_000), wall)
    }

    fn kept(path: &Path) -> Ledger {
        StallFile::new(path.to_owned()).read()
    }

    #[test]
    fn a_stall_has_the_walls_time() {
        let stall = stall(250);
        assert_eq!(stall.began_ms, 999_998_500);
        assert_eq!((stall.length_ms, stall.volume), (250, 7));
        assert_eq!((stall.node, stall.slice), (Some(1), Some(2)));
    }

    #[test]
    fn the_next_start_finds_what_was_kept_and_no_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = file_in(folder.path());
        assert!(kept(&path).is_empty());
        let mut file = StallFile::new(path.clone());
        let ledger = file.read();
        file.append(&[stall(100), stall(200)], &ledger);
        assert_eq!(kept(&path), [stall(100), stall(200)]);
        // The process dies in the middle of a line, or something else writes nonsense.
        let mut raw = OpenOptions::new().append(true).open(&path).unwrap();
        raw.write_all(b"{\"began_ms\":17,\"leng").unwrap();
        let mut file = StallFile::new(path.clone());
        assert_eq!(file.read().len(), 2);
        file.append(&[stall(300)], &ledger);
        assert_eq!(kept(&path), [stall(100), stall(200), stall(300)]);
        raw.write_all(&[0xff; 5000]).unwrap();
        assert_eq!(kept(&path).len(), 3);
    }

    #[test]
    fn file_and_ledger_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = file_in(folder.path());
        let mut file = StallFile::new(path.clone());
        let mut ledger = file.read();
        for number in 0..3 * STALLS_KEPT as u64 {
            let news = [stall(number), stall(number)];
            ledger.extend(news.clone());
            let over = ledger.len().saturating_sub(STALLS_KEPT);
            ledger.drain(..over);
            file.append(&news, &ledger);
            assert!(path.metadata().unwrap().len() <= FILE_BYTES_MAX);
        }
        assert_eq!(kept(&path), ledger);
        assert_eq!(ledger.len(), STALLS_KEPT);
    }

    #[test]
    fn a_file_that_cannot_be_written_stops_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("no such folder").join("file");
        let mut file = StallFile::new(path);
        let ledger = file.read();
        file.append(&[stall(1)], &ledger);
        assert!(file.told);
    }

    #[tokio::test]
    async fn what_is_told_shows_and_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = file_in(folder.path());
        let (sender, keeper, shown) = keep(path.clone(), Metrics::new("n1"));
        for number in 0..2000 {
            sender.waiting.try_send(stall(number)).unwrap();
        }
        drop(sender);
        keeper.run().await;
        assert_eq!(shown.borrow().len(), STALLS_KEPT);
        assert_eq!(shown.borrow().back(), Some(&stall(1999)));
        assert_eq!(kept(&path), *shown.borrow());
    }
}
