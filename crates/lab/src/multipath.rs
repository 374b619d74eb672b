//! One volume reached through several portals, as a host's multipath driver reaches it.
//!
//! A command goes to one path. If the path breaks or does not answer in time, the host gives the
//! command up there and repeats it on another; if the target says "not now", the host tries again,
//! until its patience ends. Paths that are down are tried again in the background.
//!
//! It refuses to order commands: what is under way at the same time has no order. And it does not
//! know which paths are better: its caller names one to begin with.
//!
//! Invariants:
//! - a command is under way on one path at a time, as far as the host can know: before it is
//!   repeated elsewhere it was answered, aborted, or its session was closed;
//! - a command that failed for lack of an answer may have been done, or may be done yet;
//! - one that leaves something behind, and was not answered, is repeated elsewhere only when the node cannot do it any more
//!   ([`DiskConfig::elsewhere_after`], [`DiskConfig::after_end`]).

mod capacity;
mod path;
mod verdict;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use holdfast_iscsi::initiator::{CommandRequest, Completion, EndReason, SessionKind};
use holdfast_iscsi::{IscsiName, Isid};
use holdfast_scsi::{Lun, leaves_traces};
use holdfast_stdx::Bytes;
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

pub use self::capacity::Capacity;
pub use self::path::PathReport;
use self::path::{Path, maintain};
use self::verdict::{Verdict, judge};
use crate::command;
use crate::sense::SenseData;
use crate::session::{LastWord, Session, SessionConfig, SessionError};

/// ISID of the "random" type (RFC 7143 11.12.5): a number for the host, one for its port.
const ISID_RANDOM: u8 = 0x80;

/// How a volume is reached.
#[derive(Clone, Debug)]
pub struct DiskConfig {
    /// The host's name.
    pub initiator: IscsiName,
    /// Tells hosts of the same name apart, 24 bits.
    pub host: u32,
    /// The volume's target.
    pub target: IscsiName,
    /// The volume's unit there.
    pub lun: Lun,
    /// Where: each is a path.
    pub portals: Vec<SocketAddr>,
    /// How long a path may take to answer a command before the command is given up there.
    pub command_timeout: Duration,
    /// How long an abort may take before the session is closed instead. Zero: none is tried.
    pub abort_timeout: Duration,
    /// How long connecting, and then the login, may take.
    pub login_timeout: Duration,
    /// How long after a path was last heard what it did not answer is repeated elsewhere, if it leaves something behind. A node
    /// that has fallen silent may do what it was sent for so long; see `docs/hosts.md`.
    pub elsewhere_after: Duration,
    /// The same where the node has ended the connection.
    pub after_end: Duration,
    /// Pause between two attempts to bring a path up.
    pub reconnect_after: Duration,
    /// How long a command is repeated before it fails.
    pub patience: Duration,
    /// Pause before a command is repeated that the target did not take.
    pub repeat_after: Duration,
    /// Commands under way on a path.
    pub commands_max: usize,
    /// See [`InitiatorConfig::counts_data`](holdfast_iscsi::initiator::InitiatorConfig::counts_data).
    pub counts_data: bool,
}

impl DiskConfig {
    /// The volume `target`, unit 0, through `portals`, with the times of a patient host.
    ///
    /// Panics without portals.
    #[must_use]
    pub fn new(initiator: IscsiName, target: IscsiName, portals: Vec<SocketAddr>) -> Self {
        assert!(!portals.is_empty(), "a volume is reached through portals");
        Self {
            initiator,
            host: 0,
            target,
            lun: Lun::from_number(0),
            portals,
            command_timeout: Duration::from_secs(5),
            abort_timeout: Duration::from_millis(500),
            login_timeout: Duration::from_secs(5),
            elsewhere_after: Duration::from_millis(4500),
            after_end: Duration::from_millis(1100),
            reconnect_after: Duration::from_millis(100),
            patience: Duration::from_secs(60),
            repeat_after: Duration::from_millis(20),
            commands_max: 256,
            counts_data: true,
        }
    }

    /// The session of path `index`.
    fn session(&self, index: usize) -> SessionConfig {
        let [_, high, middle, low] = self.host.to_be_bytes();
        let [first, second] = u16::try_from(index)
            .expect("a volume has few paths")
            .to_be_bytes();
        let isid = Isid([ISID_RANDOM, high, middle, low, first, second]);
        let kind = SessionKind::Normal(self.target.clone());
        let portal = self.portals[index];
        let mut config = SessionConfig::new(portal, self.initiator.clone(), isid, kind);
        config.connect_timeout = self.login_timeout;
        config.login.login_timeout = self.login_timeout;
        config.login.commands_max = self.commands_max;
        config.login.counts_data = self.counts_data;
        config
    }
}

/// Why a path did not carry a command out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// No path was up.
    #[error("no path is up")]
    NoPath,
    /// The path's session broke, or did not take the command.
    #[error("{0}")]
    Session(SessionError),
    /// The command was not answered in time.
    #[error("the command was not answered in time")]
    Timeout,
    /// The target answered with this status.
    #[error("status {0:#04x}")]
    Status(u8),
    /// The target answered with CHECK CONDITION.
    #[error("{0}")]
    Sense(SenseData),
}

/// Why a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CommandError {
    /// The target refused it, and would again.
    #[error("refused through path {path}: {problem}")]
    Refused {
        /// By way of which path.
        path: usize,
        /// How.
        problem: Problem,
    },
    /// The host's patience ended. The command may have been done or not.
    #[error("given up after {attempts} attempts, the last one: {problem}")]
    GivenUp {
        /// How often it was sent.
        attempts: u32,
        /// What became of the last attempt.
        problem: Problem,
    },
}

/// Why a volume cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// It does not answer.
    #[error("cannot ask the volume for {what}: {error}")]
    Command {
        /// What was asked for.
        what: &'static str,
        /// What became of it.
        error: CommandError,
    },
    /// Its answer makes no sense.
    #[error("the volume's answer for {0} makes no sense")]
    Malformed(&'static str),
}

/// How a command was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The path that did.
    pub path: usize,
    /// How often it was sent.
    pub attempts: u32,
    /// What it returned.
    pub data_in: Vec<Bytes>,
}

/// The volume. Dropping it closes all its sessions.
#[derive(Debug)]
pub struct MultipathDisk {
    config: Arc<DiskConfig>,
    paths: Vec<Arc<Path>>,
    /// Counts changes of any path.
    changes: watch::Receiver<u64>,
    capacity: Capacity,
    /// Keeps the paths up; ends with the disk.
    _maintenance: JoinSet<()>,
}

impl MultipathDisk {
    /// Brings the paths up and asks the volume what it is. One path is enough.
    ///
    /// # Errors
    /// [`OpenError`] if no path answers within the host's patience, or the answer makes no sense.
    pub async fn open(config: DiskConfig) -> Result<Self, OpenError> {
        let config = Arc::new(config);
        let (changed, changes) = watch::channel(0);
        let changed = Arc::new(changed);
        let paths: Vec<Arc<Path>> = config
            .portals
            .iter()
            .map(|portal| Arc::new(Path::new(*portal, Arc::clone(&changed))))
            .collect();
        let mut maintenance = JoinSet::new();
        for (index, path) in paths.iter().enumerate() {
            let session = config.session(index);
            maintenance.spawn(maintain(Arc::clone(path), session, config.reconnect_after));
        }
        let mut disk = Self {
            config,
            paths,
            changes,
            capacity: Capacity::default(),
            _maintenance: maintenance,
        };
        disk.capacity = Capacity::ask(&disk).await?;
        Ok(disk)
    }

    /// How large it is, and what it can do.
    #[must_use]
    pub const fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// How it is reached.
    #[must_use]
    pub fn config(&self) -> &DiskConfig {
        &self.config
    }

    /// How many paths it has.
    #[must_use]
    pub const fn path_count(&self) -> usize {
        self.paths.len()
    }

    /// What became of each path so far.
    #[must_use]
    pub fn paths(&self) -> Vec<PathReport> {
        self.paths.iter().map(|path| path.report()).collect()
    }

    /// Waits until every path is up; `false` if `patience` ends first.
    pub async fn wait_for_all_paths(&self, patience: Duration) -> bool {
        let mut changes = self.changes.clone();
        let all_up = changes.wait_for(|_| self.paths.iter().all(|path| path.session().is_some()));
        matches!(tokio::time::timeout(patience, all_up).await, Ok(Ok(_)))
    }

    /// Reads `count` logical blocks from `first`, beginning with path `preferred`.
    ///
    /// # Errors
    /// [`CommandError`].
    pub async fn read(
        &self,
        first: u64,
        count: u32,
        preferred: usize,
    ) -> Result<Answer, CommandError> {
        let read = command::read(self.config.lun, first, count, self.capacity.block_length);
        self.execute(&read, preferred).await
    }

    /// Writes whole logical blocks from `first`, beginning with path `preferred`.
    ///
    /// # Errors
    /// [`CommandError`].
    pub async fn write(
        &self,
        first: u64,
        data: Bytes,
        preferred: usize,
    ) -> Result<Answer, CommandError> {
        let length = u32::try_from(data.len()).expect("a command has less than 4 GiB of data");
        let count = length / self.capacity.block_length;
        let write = command::write(self.config.lun, first, count, vec![data], false);
        self.execute(&write, preferred).await
    }

    /// Carries a command out through path `preferred` if that is up and does it, else through
    /// another.
    ///
    /// # Errors
    /// [`CommandError`].
    pub async fn execute(
        &self,
        command: &CommandRequest,
        preferred: usize,
    ) -> Result<Answer, CommandError> {
        let deadline = Instant::now() + self.config.patience;
        let mut wanted = preferred % self.paths.len();
        let mut attempts = 0;
        let mut last_problem = Problem::NoPath;
        loop {
            let Some((index, session)) = self.usable_path(wanted, deadline).await else {
                let problem = last_problem;
                return Err(CommandError::GivenUp { attempts, problem });
            };
            attempts += 1;
            let path = &self.paths[index];
            let verdict = match self.attempt(path, &session, command).await {
                Ok(completion) => judge(completion),
                // The session is gone, so the next attempt looks for another path by itself.
                Err(problem) => Verdict::RepeatElsewhere(problem),
            };
            last_problem = match verdict {
                Verdict::Done(data_in) => {
                    path.note_completed();
                    return Ok(Answer {
                        path: index,
                        attempts,
                        data_in,
                    });
                }
                Verdict::Refused(problem) => {
                    return Err(CommandError::Refused {
                        path: index,
                        problem,
                    });
                }
                Verdict::Repeat(problem) => problem,
                Verdict::RepeatElsewhere(problem) => {
                    wanted = (index + 1) % self.paths.len();
                    problem
                }
                Verdict::RepeatLater(problem) => {
                    wanted = (index + 1) % self.paths.len();
                    tokio::time::sleep(self.config.repeat_after).await;
                    problem
                }
            };
            path.note_repeated();
            if Instant::now() >= deadline {
                let problem = last_problem;
                return Err(CommandError::GivenUp { attempts, problem });
            }
        }
    }

    /// The first path that is up, from `wanted` on; waits for one until `deadline`.
    async fn usable_path(&self, wanted: usize, deadline: Instant) -> Option<(usize, Session)> {
        let mut changes = self.changes.clone();
        loop {
            changes.mark_unchanged();
            let count = self.paths.len();
            let found = (0..count).find_map(|offset| {
                let index = (wanted + offset) % count;
                self.paths[index].session().map(|session| (index, session))
            });
            if found.is_some() {
                return found;
            }
            let change = tokio::time::timeout_at(deadline, changes.changed());
            if !matches!(change.await, Ok(Ok(()))) {
                return None;
            }
        }
    }

    /// Sends a command on one path. If it is not answered, it is given up there: aborted, or, where
    /// that is not answered either, ended with its session.
    async fn attempt(
        &self,
        path: &Path,
        session: &Session,
        command: &CommandRequest,
    ) -> Result<Completion, Problem> {
        let deadline = Instant::now() + self.config.command_timeout;
        let submitted = tokio::time::timeout_at(deadline, session.submit(command.clone())).await;
        let Ok(pending) = submitted else {
            // It never left the host.
            return Err(Problem::Timeout);
        };
        let mut pending = pending.map_err(Problem::Session)?;
        if let Ok(answer) = tokio::time::timeout_at(deadline, pending.finish()).await {
            if matches!(answer, Err(SessionError::Ended(_))) {
                self.outlive(session, command).await;
            }
            return answer.map_err(Problem::Session);
        }
        path.note_timeout();
        let was_aborted = !self.config.abort_timeout.is_zero() && {
            let abort = session.abort(pending.tag());
            let aborted = tokio::time::timeout(self.config.abort_timeout, abort).await;
            matches!(aborted, Ok(Ok(0)))
        };
        if !was_aborted {
            session.close();
            session.ended().await;
            self.outlive(session, command).await;
        }
        Err(Problem::Timeout)
    }

    /// Waits until a command that was not answered cannot be done any more, if that matters.
    async fn outlive(&self, session: &Session, command: &CommandRequest) {
        // A logout was answered when all was over.
        let is_over = session.end_reason() == Some(EndReason::LoggedOut);
        if !is_over && leaves_traces(&command.cdb) {
            let LastWord { at, is_end } = session.last_word();
            let span = match is_end {
                true => self.config.after_end,
                false => self.config.elsewhere_after,
            };
            tokio::time::sleep_until(at + span).await;
        }
    }
}
