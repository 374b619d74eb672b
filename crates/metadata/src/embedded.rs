//! The embedded store: the machine, made durable in one directory. For one machine and for tests;
//! where a cluster spans machines, what must be agreed on belongs into etcd.
//!
//! It runs on a thread of its own, because commits block. Requests that wait while a commit is
//! under way share the next one.
//!
//! Invariants:
//! - an answer is given only after everything that it may have seen is on stable storage;
//! - a directory belongs to one process at a time, and to one cluster for ever;
//! - a directory either holds a whole store or none: a first start that is cut short leaves none;
//! - after a failed commit nothing is answered any more, and all sessions end: what is on the disk
//!   is unknown until the store is started again.

mod clock;
mod directory;
mod tables;
mod worker;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use holdfast_model::ClusterId;
use holdfast_model::metadata::{MetadataAnswer, MetadataError, MetadataRequest, MetadataToken};
use tokio::sync::{mpsc, watch};

use self::directory::Directory;
use self::worker::{Command, Worker};
use crate::machine::{ClientId, HistoryLimits};
use crate::session::{ANSWERS_WAITING_MAX, Requests, Session, Store, Submit};

/// Requests of all sessions together that may wait for the store's thread; more are answered
/// `Unavailable` at once. A commit takes milliseconds, a group takes hundreds of requests.
pub const REQUESTS_WAITING_MAX: usize = 8 << 10;

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("{} is in use by process {holder}", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process, as it has written itself down; `unknown` if it has not yet.
        holder: String,
    },
    /// The store is another cluster's.
    #[error("the metadata belongs to cluster {found}, not to cluster {expected}")]
    Cluster {
        /// Whose it is.
        found: ClusterId,
        /// Whose it was to be.
        expected: ClusterId,
    },
    /// Another version wrote it.
    #[error("the metadata is of format {0}, which this version does not know")]
    Format(u64),
    /// What it holds is not a store's state.
    #[error("the metadata is damaged")]
    Damaged,
    /// The operating system refused.
    #[error("open {}", path.display())]
    Io {
        /// What was to be opened.
        path: PathBuf,
        /// Why it was not.
        source: io::Error,
    },
    /// The database refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The database failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk is full, broken or gone, or the file is damaged.
    #[error("the metadata's database failed")]
    Database(#[source] redb::Error),
    /// The file is damaged in a way that the database did not expect.
    #[error("the metadata's database is damaged")]
    Panicked,
}

impl<E: Into<redb::Error>> From<E> for StoreError {
    fn from(error: E) -> Self {
        Self::Database(error.into())
    }
}

/// Runs `work`, which uses the database: redb panics where it reads what it cannot have written,
/// and a damaged file is no reason to take the process down.
fn guarded<T>(work: impl FnOnce() -> Result<T, OpenError>) -> Result<T, OpenError> {
    // Whatever the work has touched is dropped with it, or not used again.
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    caught.unwrap_or(Err(OpenError::Store(StoreError::Panicked)))
}

/// A store that is open.
#[derive(Debug)]
pub struct Embedded {
    commands: SyncSender<Command>,
    next_client: AtomicU64,
    failure: watch::Receiver<Option<Arc<StoreError>>>,
    thread: Option<JoinHandle<()>>,
}

impl Embedded {
    /// Opens the store of `cluster` in `directory`, which is made if it does not exist, as is the
    /// store.
    ///
    /// # Errors
    /// [`OpenError`] if the directory is in use, belongs to another cluster, or cannot be read.
    pub fn open(
        directory: &Path,
        cluster: ClusterId,
        limits: HistoryLimits,
    ) -> Result<Self, OpenError> {
        let directory = Directory::lock(directory)?;
        let (failed, failure) = watch::channel(None);
        let (commands, waiting) = sync_channel(REQUESTS_WAITING_MAX);
        let worker = guarded(|| {
            let database = directory.open_database(cluster)?;
            Worker::start(directory, database, cluster, limits, waiting)
        })?;
        let thread = std::thread::Builder::new()
            .name("metadata".to_owned())
            .spawn(move || {
                if let Err(OpenError::Store(error)) = guarded(|| Ok(worker.run()?)) {
                    tracing::error!(%error, "write metadata");
                    failed.send_replace(Some(Arc::new(error)));
                }
            })
            .map_err(|source| OpenError::Io {
                path: PathBuf::from("a thread"),
                source,
            })?;
        Ok(Self {
            commands,
            next_client: AtomicU64::new(1),
            failure,
            thread: Some(thread),
        })
    }

    /// Waits until the store has failed, if it ever does.
    pub async fn failed(&self) -> Arc<StoreError> {
        let mut failure = self.failure.clone();
        loop {
            if let Some(error) = failure.borrow_and_update().clone() {
                return error;
            }
            if failure.changed().await.is_err() {
                // The store was closed: it will not fail any more.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Carries out what waits, ends all sessions, and gives the directory free. Blocks for as long
    /// as a commit takes.
    ///
    /// # Errors
    /// [`StoreError`] if the store had failed.
    pub fn close(mut self) -> Result<(), Arc<StoreError>> {
        self.stop();
        self.failure.borrow().clone().map_or(Ok(()), Err)
    }

    fn stop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // An error means that the thread has ended already.
            let _ = self.commands.send(Command::Stop);
            thread
                .join()
                .expect("the thread catches what its work throws");
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.stop();
    }
}

impl Store for Embedded {
    fn session(&self) -> Session {
        let client = ClientId(self.next_client.fetch_add(1, Ordering::Relaxed));
        let (sender, answers) = mpsc::channel(ANSWERS_WAITING_MAX);
        let refusals = sender.downgrade();
        // Where the command cannot be left, the sender goes, and the session has ended.
        let _ = self.commands.try_send(Command::Open { client, sender });
        let submitter = Submitter {
            client,
            commands: self.commands.clone(),
            refusals,
        };
        Session {
            requests: Requests::new(Arc::new(submitter)),
            answers,
        }
    }
}

/// The asking end of one session.
struct Submitter {
    client: ClientId,
    commands: SyncSender<Command>,
    /// Weak, so that the answers end when the store's thread lets go of them.
    refusals: mpsc::WeakSender<(MetadataToken, MetadataAnswer)>,
}

impl Submit for Submitter {
    fn submit(&self, token: MetadataToken, request: MetadataRequest) {
        let command = Command::Request {
            client: self.client,
            token,
            request,
        };
        let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.commands.try_send(command)
        else {
            return;
        };
        if let Some(refusals) = self.refusals.upgrade() {
            // A reader that has left no room for this either is being cut off anyway.
            let _ = refusals.try_send((token, MetadataAnswer::Failed(MetadataError::Unavailable)));
        }
    }
}

impl Drop for Submitter {
    fn drop(&mut self) {
        // A full queue: the session then ends when its answers find no reader.
        let _ = self.commands.try_send(Command::Close {
            client: self.client,
        });
    }
}
