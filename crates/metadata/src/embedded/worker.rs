//! The store's thread: takes what waits, lets the machine do it, commits, answers.
//!
//! Invariants:
//! - answers leave in the order in which the machine gave them, after the commit of their group;
//! - a session whose answers find no room, or no reader, ends.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use holdfast_model::ClusterId;
use holdfast_model::metadata::{MetadataAnswer, MetadataRequest, MetadataToken};
use holdfast_stdx::{Duration, Instant};
use redb::Database;
use tokio::sync::mpsc;

use super::clock::{Clock, STEP_MAX};
use super::directory::Directory;
use super::{OpenError, StoreError, tables};
use crate::machine::{ClientId, HistoryLimits, Machine, Output};

/// Requests that share a commit at most: so that the first of them does not wait for ever.
const GROUP_REQUESTS_MAX: usize = 512;

/// What the thread is asked.
#[derive(Debug)]
pub(super) enum Command {
    /// A session begins.
    Open {
        /// Its name.
        client: ClientId,
        /// Where its answers go.
        sender: mpsc::Sender<(MetadataToken, MetadataAnswer)>,
    },
    /// A session asks.
    Request {
        /// Which.
        client: ClientId,
        /// Under which token.
        token: MetadataToken,
        /// What.
        request: MetadataRequest,
    },
    /// A session ends.
    Close {
        /// Which.
        client: ClientId,
    },
    /// The store is closed.
    Stop,
}

/// The thread's state. The database is closed before the directory is given free.
#[derive(Debug)]
pub(super) struct Worker {
    machine: Machine,
    clock: Clock,
    sessions: BTreeMap<ClientId, mpsc::Sender<(MetadataToken, MetadataAnswer)>>,
    waiting: Receiver<Command>,
    database: Database,
    _directory: Directory,
}

impl Worker {
    /// Reads the store.
    pub(super) fn start(
        directory: Directory,
        database: Database,
        cluster: ClusterId,
        limits: HistoryLimits,
        waiting: Receiver<Command>,
    ) -> Result<Self, OpenError> {
        let snapshot = tables::read(&database, cluster)?;
        let mut clock = Clock::start();
        let mut out = Output::default();
        let machine = Machine::restore(limits, clock.now(), snapshot, &mut out)
            .map_err(|_| OpenError::Damaged)?;
        if !out.changes.is_empty() {
            tables::write(&database, &out.changes)?;
        }
        Ok(Self {
            machine,
            clock,
            sessions: BTreeMap::new(),
            waiting,
            database,
            _directory: directory,
        })
    }

    /// Works until the store is closed.
    pub(super) fn run(mut self) -> Result<(), StoreError> {
        let mut running = true;
        while running {
            let first = match self.wait() {
                Ok(command) => Some(command),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Command::Stop),
            };
            let mut out = Output::default();
            let now = self.clock.now();
            self.machine.handle_timeout(now, &mut out);
            let mut next = first;
            for _ in 0..GROUP_REQUESTS_MAX {
                let Some(command) = next.take().or_else(|| self.waiting.try_recv().ok()) else {
                    break;
                };
                running = self.carry_out(now, command, &mut out);
                if !running {
                    break;
                }
            }
            if !out.changes.is_empty() {
                tables::write(&self.database, &out.changes)?;
            }
            self.answer(out);
        }
        Ok(())
    }

    fn wait(&self) -> Result<Command, RecvTimeoutError> {
        match self.machine.next_timeout() {
            None => self
                .waiting
                .recv()
                .map_err(|_| RecvTimeoutError::Disconnected),
            Some(deadline) => {
                let remaining = deadline.since(self.clock.last());
                self.waiting
                    .recv_timeout(remaining.clamp(WAIT_MIN, STEP_MAX / 2))
            }
        }
    }

    /// Whether the store runs on.
    fn carry_out(&mut self, now: Instant, command: Command, out: &mut Output) -> bool {
        match command {
            Command::Open { client, sender } => {
                self.sessions.insert(client, sender);
            }
            Command::Request {
                client,
                token,
                request,
            } => {
                if self.sessions.contains_key(&client) {
                    self.machine.apply(now, client, token, request, out);
                }
            }
            Command::Close { client } => self.end(client),
            Command::Stop => return false,
        }
        true
    }

    fn answer(&mut self, out: Output) {
        for addressed in out.answers {
            let Some(sender) = self.sessions.get(&addressed.client) else {
                continue;
            };
            if sender
                .try_send((addressed.token, addressed.answer))
                .is_err()
            {
                self.end(addressed.client);
            }
        }
    }

    fn end(&mut self, client: ClientId) {
        self.sessions.remove(&client);
        self.machine.disconnect(client);
    }
}

/// The shortest wait, so that a deadline that rounds to nothing does not spin.
const WAIT_MIN: Duration = Duration::from_millis(1);
