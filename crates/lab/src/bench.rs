//! Load that only counts: how many commands a volume does in a second, and how long each takes.
//!
//! It refuses to look at the data, and to repeat what fails: a volume that is measured works.
//!
//! Invariants:
//! - each session has as many commands under way as it is told, and sends the next when one is
//!   answered;
//! - only what was completed within the measured time counts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_iscsi::initiator::SessionKind;
use holdfast_iscsi::{IscsiName, Isid};
use holdfast_scsi::{Lun, Status};
use holdfast_stdx::{Bytes, Prng};
use thiserror::Error;
use tokio::task::JoinSet;

use crate::command;
use crate::meter::Latencies;
use crate::session::{ConnectError, Session, SessionConfig, SessionError};

/// Different data for writes, so that nothing on the way finds them all alike.
const PATTERNS: usize = 64;
/// Attempts at a command whose answer is a unit attention: a new session has a few to tell.
const ATTENTIONS_MAX: usize = 8;

/// What is measured.
#[derive(Clone, Debug)]
pub struct BenchConfig {
    /// The host's name.
    pub initiator: IscsiName,
    /// The volume's target.
    pub target: IscsiName,
    /// The volume's unit there.
    pub lun: Lun,
    /// Where: sessions take them in turn.
    pub portals: Vec<SocketAddr>,
    /// Sessions, at least one.
    pub sessions: usize,
    /// Commands under way in each, at least one.
    pub depth: usize,
    /// Bytes of a command: a multiple of `block_length`.
    pub command_bytes: u32,
    /// Bytes of a logical block.
    pub block_length: u32,
    /// Share of reads among commands, of 100.
    pub reads_percent: u64,
    /// Bytes of the volume, from its beginning, that are read and written.
    pub region_bytes: u64,
    /// One command after the other by rising addresses, instead of anywhere.
    pub sequential: bool,
    /// Time before what is measured.
    pub warm_up: Duration,
    /// Time that is measured.
    pub duration: Duration,
    /// What decides everything that is random.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct BenchReport {
    /// Time that was measured.
    pub elapsed: Duration,
    /// Bytes that were moved in it.
    pub bytes: u64,
    /// Latencies of the reads in it.
    pub reads: Latencies,
    /// Latencies of the writes in it.
    pub writes: Latencies,
}

impl BenchReport {
    /// Commands in a second.
    #[must_use]
    pub fn commands_per_second(&self) -> f64 {
        (self.reads.count() + self.writes.count()) as f64 / self.elapsed.as_secs_f64()
    }

    /// Megabytes (10⁶) in a second.
    #[must_use]
    pub fn megabytes_per_second(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.elapsed.as_secs_f64()
    }

    /// Latencies of all commands.
    #[must_use]
    pub fn latencies(&self) -> Latencies {
        let mut all = self.reads.clone();
        all.add(&self.writes);
        all
    }
}

/// Why nothing was measured.
#[derive(Debug, Error)]
pub enum BenchError {
    /// No session.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A session broke.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A command was not carried out.
    #[error("a command ended with status {0:#04x}")]
    Status(u8),
}

/// Runs a load.
///
/// Panics on a configuration that is none: without sessions, depth or portals, or of commands that
/// are longer than the region, or not of whole logical blocks.
///
/// # Errors
/// [`BenchError`] of the first command or session that fails.
pub async fn run(config: BenchConfig) -> Result<BenchReport, BenchError> {
    assert!(config.sessions > 0, "there is a session");
    assert!(config.depth > 0, "there is a command under way");
    assert!(config.command_bytes > 0, "commands move something");
    assert!(
        config.command_bytes.is_multiple_of(config.block_length),
        "commands are of whole logical blocks"
    );
    assert!(
        u64::from(config.command_bytes) <= config.region_bytes,
        "a command fits in the region"
    );
    let mut prng = Prng::from_seed(config.seed);
    let mut sessions = Vec::with_capacity(config.sessions);
    for index in 0..config.sessions {
        sessions.push(connect(&config, index).await?);
    }
    let patterns: Arc<[Bytes]> = (0..PATTERNS)
        .map(|_| {
            let mut data = vec![0; config.command_bytes as usize];
            prng.fill(&mut data);
            Bytes::from(data)
        })
        .collect();
    let from = Instant::now() + config.warm_up;
    let config = Arc::new(config);
    let mut streams = JoinSet::new();
    for session in &sessions {
        for _ in 0..config.depth {
            let stream = Stream {
                config: Arc::clone(&config),
                session: session.clone(),
                patterns: Arc::clone(&patterns),
                prng: prng.fork(),
                until: from + config.duration,
                from,
            };
            streams.spawn(stream.run());
        }
    }
    let mut report = BenchReport::default();
    while let Some(part) = streams.join_next().await {
        let part = part.expect("a stream does not panic")?;
        report.bytes += part.bytes;
        report.reads.add(&part.reads);
        report.writes.add(&part.writes);
    }
    report.elapsed = config.duration;
    for session in sessions {
        session.log_out().await;
    }
    Ok(report)
}

async fn connect(config: &BenchConfig, index: usize) -> Result<Session, BenchError> {
    let portal = config.portals[index % config.portals.len()];
    let [first, second] = (index as u16).to_be_bytes();
    let isid = Isid([0x80, 0xBE, 0x4C, 0, first, second]);
    let kind = SessionKind::Normal(config.target.clone());
    let session = SessionConfig::new(portal, config.initiator.clone(), isid, kind);
    let session = Session::connect(session).await?;
    let mut status = Status::Good.code();
    for _ in 0..ATTENTIONS_MAX {
        let ready = session
            .execute(command::test_unit_ready(config.lun))
            .await?;
        status = ready.status;
        if status == Status::Good.code() {
            return Ok(session);
        }
    }
    Err(BenchError::Status(status))
}

/// One command after the other.
struct Stream {
    config: Arc<BenchConfig>,
    session: Session,
    patterns: Arc<[Bytes]>,
    prng: Prng,
    from: Instant,
    until: Instant,
}

impl Stream {
    async fn run(mut self) -> Result<BenchReport, BenchError> {
        let mut report = BenchReport::default();
        let config = Arc::clone(&self.config);
        let count = config.command_bytes / config.block_length;
        let places = config.region_bytes / u64::from(config.command_bytes);
        let mut place = self.prng.below(places);
        loop {
            place = if config.sequential {
                (place + 1) % places
            } else {
                self.prng.below(places)
            };
            let first = place * u64::from(count);
            let is_read = self.prng.chance(config.reads_percent, 100);
            let request = if is_read {
                command::read(config.lun, first, count, config.block_length)
            } else {
                let data = self.prng.choose(&self.patterns).clone();
                command::write(config.lun, first, count, vec![data], false)
            };
            let start = Instant::now();
            let completion = self.session.execute(request).await?;
            let end = Instant::now();
            if completion.status != Status::Good.code() {
                return Err(BenchError::Status(completion.status));
            }
            if end > self.until {
                return Ok(report);
            }
            if end >= self.from {
                let latencies = if is_read {
                    &mut report.reads
                } else {
                    &mut report.writes
                };
                latencies.record(end - start);
                report.bytes += u64::from(config.command_bytes);
            }
        }
    }
}
