//! Load that only counts: how many commands a volume does in a second, and how long each takes.
//!
//! It refuses to look at the data, and to repeat what fails: a volume that is measured works. A unit attention is no failure: a
//! command that is answered by one is repeated, and took as long as all of that.
//!
//! Invariants:
//! - each session has as many commands under way as it is told, and sends the next when one is
//!   answered;
//! - only what was completed within the measured time counts, and in the part of it in which it was completed.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use holdfast_iscsi::initiator::{CommandRequest, SessionKind};
use holdfast_iscsi::{IscsiName, Isid};
use holdfast_scsi::{Lun, SenseKey, Status};
use holdfast_stdx::{Bytes, Prng};
use thiserror::Error;
use tokio::task::JoinSet;

use crate::command;
use crate::meter::Latencies;
use crate::sense::SenseData;
use crate::session::{ConnectError, Session, SessionConfig, SessionError};

/// Different data for writes, so that nothing on the way finds them all alike.
const PATTERNS: usize = 64;
/// Attempts at a command whose answer is a unit attention: a new session has a few to tell, and nodes that come and go more.
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
    /// Whether data that comes is counted: [`LoginConfig::counts_data`](holdfast_iscsi::initiator::InitiatorConfig::counts_data).
    pub counts_data: bool,
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
    /// By rising addresses, all streams together, instead of anywhere.
    pub sequential: bool,
    /// Time before what is measured.
    pub warm_up: Duration,
    /// Time that is measured.
    pub duration: Duration,
    /// What decides everything that is random.
    pub seed: u64,
}

impl BenchConfig {
    fn check(&self) {
        assert!(self.sessions > 0, "there is a session");
        assert!(self.depth > 0, "there is a command under way");
        assert!(self.command_bytes > 0, "commands move something");
        assert!(
            self.command_bytes.is_multiple_of(self.block_length),
            "commands are of whole logical blocks"
        );
        assert!(
            u64::from(self.command_bytes) <= self.region_bytes,
            "a command fits in the region"
        );
    }

    /// How many commands the region has room for.
    const fn places(&self) -> u64 {
        self.region_bytes / self.command_bytes as u64
    }

    const fn blocks(&self) -> u32 {
        self.command_bytes / self.block_length
    }

    fn read(&self, place: u64) -> CommandRequest {
        let first = place * u64::from(self.blocks());
        command::read(self.lun, first, self.blocks(), self.block_length)
    }

    fn write(&self, place: u64, data: Bytes) -> CommandRequest {
        let first = place * u64::from(self.blocks());
        command::write(self.lun, first, self.blocks(), vec![data], false)
    }
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
    #[error("a command ended with status {status:#04x}, {sense:?}")]
    Status {
        /// Its status.
        status: u8,
        /// What its sense data say, if it has any.
        sense: Option<SenseData>,
    },
}

/// Runs a load.
///
/// Panics on a configuration that is none: without sessions, depth or portals, or of commands that
/// are longer than the region, or not of whole logical blocks.
///
/// # Errors
/// [`BenchError`] of the first command or session that fails.
pub async fn run(config: BenchConfig) -> Result<BenchReport, BenchError> {
    let mut reports = run_in_parts(config, 1).await?;
    Ok(reports.pop().expect("one part is one report"))
}

/// Runs a load without a pause, and tells what came of each of `parts` equal parts of the measured time, in order.
///
/// Panics as [`run`], and if there are no parts.
///
/// # Errors
/// As [`run`].
pub async fn run_in_parts(config: BenchConfig, parts: u32) -> Result<Vec<BenchReport>, BenchError> {
    config.check();
    assert!(parts > 0, "there is a part");
    let mut prng = Prng::from_seed(config.seed);
    let sessions = connect_all(&config).await?;
    let patterns = patterns(&mut prng, config.command_bytes);
    let next = Arc::new(AtomicU64::new(prng.below(config.places())));
    let part = BenchReport {
        elapsed: config.duration / parts,
        ..BenchReport::default()
    };
    let reports = Arc::new(Mutex::new(vec![part; parts as usize]));
    let from = Instant::now() + config.warm_up;
    let config = Arc::new(config);
    let mut streams = JoinSet::new();
    for session in &sessions {
        for _ in 0..config.depth {
            let stream = Stream {
                config: Arc::clone(&config),
                session: session.clone(),
                patterns: Arc::clone(&patterns),
                next: Arc::clone(&next),
                prng: prng.fork(),
                until: from + config.duration,
                from,
                reports: Arc::clone(&reports),
            };
            streams.spawn(stream.run());
        }
    }
    while let Some(stream) = streams.join_next().await {
        stream.expect("a stream does not panic")?;
    }
    for session in sessions {
        session.log_out().await;
    }
    let reports = Arc::into_inner(reports).expect("every stream has ended");
    Ok(reports.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// One command at each place of the region, in order: reads if all are to be reads, else writes. So that nothing that is measured
/// later is read from where nothing is, or for the first time.
///
/// Panics as [`run`].
///
/// # Errors
/// As [`run`].
pub async fn sweep(config: BenchConfig) -> Result<(), BenchError> {
    config.check();
    let mut prng = Prng::from_seed(config.seed);
    let sessions = connect_all(&config).await?;
    let patterns = patterns(&mut prng, config.command_bytes);
    let next = Arc::new(AtomicU64::new(0));
    let config = Arc::new(config);
    let mut streams = JoinSet::new();
    for session in &sessions {
        for _ in 0..config.depth {
            let (config, session) = (Arc::clone(&config), session.clone());
            let (next, patterns) = (Arc::clone(&next), Arc::clone(&patterns));
            streams.spawn(async move {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    if place >= config.places() {
                        return Ok::<(), BenchError>(());
                    }
                    let request = || {
                        if config.reads_percent == 100 {
                            config.read(place)
                        } else {
                            config.write(place, patterns[place as usize % patterns.len()].clone())
                        }
                    };
                    carry_out(&session, request).await?;
                }
            });
        }
    }
    while let Some(part) = streams.join_next().await {
        part.expect("a stream does not panic")?;
    }
    for session in sessions {
        session.log_out().await;
    }
    Ok(())
}

fn patterns(prng: &mut Prng, bytes: u32) -> Arc<[Bytes]> {
    let pattern = |_| {
        let mut data = vec![0; bytes as usize];
        prng.fill(&mut data);
        Bytes::from(data)
    };
    (0..PATTERNS).map(pattern).collect()
}

async fn connect_all(config: &BenchConfig) -> Result<Vec<Session>, BenchError> {
    let mut sessions = Vec::with_capacity(config.sessions);
    for index in 0..config.sessions {
        sessions.push(connect(config, index).await?);
    }
    Ok(sessions)
}

async fn connect(config: &BenchConfig, index: usize) -> Result<Session, BenchError> {
    let portal = config.portals[index % config.portals.len()];
    let [first, second] = (index as u16).to_be_bytes();
    let isid = Isid([0x80, 0xBE, 0x4C, 0, first, second]);
    let kind = SessionKind::Normal(config.target.clone());
    let mut session = SessionConfig::new(portal, config.initiator.clone(), isid, kind);
    session.login.counts_data = config.counts_data;
    let session = Session::connect(session).await?;
    carry_out(&session, || command::test_unit_ready(config.lun)).await?;
    Ok(session)
}

/// Has a command carried out, which one that a unit attention answers is not (SAM-5 5.14).
async fn carry_out(
    session: &Session,
    request: impl Fn() -> CommandRequest,
) -> Result<(), BenchError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let completion = session.execute(request()).await?;
        let status = completion.status;
        if status == Status::Good.code() {
            return Ok(());
        }
        let sense = SenseData::parse(&completion.sense);
        let is_attention = sense.is_some_and(|it| it.key == SenseKey::UnitAttention as u8);
        if !is_attention || attempts == ATTENTIONS_MAX {
            return Err(BenchError::Status { status, sense });
        }
    }
}

/// One command after the other.
struct Stream {
    config: Arc<BenchConfig>,
    session: Session,
    patterns: Arc<[Bytes]>,
    /// The next place of those that go by rising addresses.
    next: Arc<AtomicU64>,
    prng: Prng,
    from: Instant,
    until: Instant,
    /// Of all streams, by part: a histogram of each would be much memory, and all of it is touched in turn.
    reports: Arc<Mutex<Vec<BenchReport>>>,
}

impl Stream {
    async fn run(mut self) -> Result<(), BenchError> {
        let config = Arc::clone(&self.config);
        loop {
            let place = if config.sequential {
                self.next.fetch_add(1, Ordering::Relaxed) % config.places()
            } else {
                self.prng.below(config.places())
            };
            let is_read = self.prng.chance(config.reads_percent, 100);
            let pattern = self.prng.choose(&self.patterns).clone();
            let request = || {
                if is_read {
                    config.read(place)
                } else {
                    config.write(place, pattern.clone())
                }
            };
            let start = Instant::now();
            carry_out(&self.session, request).await?;
            let end = Instant::now();
            if end >= self.until {
                return Ok(());
            }
            if end >= self.from {
                self.record(is_read, end - self.from, end - start);
            }
        }
    }

    /// One command was completed, so long after the beginning.
    fn record(&self, is_read: bool, at: Duration, latency: Duration) {
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        let part = at.as_nanos() / reports[0].elapsed.as_nanos();
        // Where the time cannot be divided evenly, the last part has what is over.
        let last = reports.len() - 1;
        let report = &mut reports[last.min(part as usize)];
        let latencies = if is_read {
            &mut report.reads
        } else {
            &mut report.writes
        };
        latencies.record(latency);
        report.bytes += u64::from(self.config.command_bytes);
    }
}
