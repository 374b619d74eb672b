//! Load that knows what every sector must hold, and says so when one does not.
//!
//! Every sector that is written says in its content which sector of which volume it is, and which
//! write made it ([`content`]). What was acknowledged, or seen once, must stay until a later write
//! ([`ledger`]). Workers write stretches that are theirs alone, and read everybody's.
//!
//! It refuses to judge durations: it reports the longest time in which nothing was completed.
//!
//! Invariants:
//! - a worker has one command under way, so that its writes to a sector have an order;
//! - every byte that a read returned is judged.

pub mod content;
pub mod layout;
pub mod ledger;
mod ledger_file;
mod report;
mod sweep;
mod worker;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use holdfast_stdx::Prng;
use tokio::task::JoinSet;

pub use self::layout::Layout;
pub use self::ledger::{Ledger, Violation, ViolationKind};
use self::report::Tally;
pub use self::report::{DETAILS_MAX, Failure, Kind, KindReport, LoadReport, PathLoad};
pub use self::sweep::{SweepError, clear_everything, verify_everything};
use self::worker::Worker;
use crate::multipath::MultipathDisk;

/// What a load does. The four shares are relative to each other.
#[derive(Clone, Debug)]
pub struct LoadConfig {
    /// Commands under way: workers.
    pub depth: usize,
    /// Share of reads.
    pub reads: u64,
    /// Share of writes.
    pub writes: u64,
    /// Share of UNMAP. A volume that does not unmap to zeros gets WRITE SAME instead.
    pub unmaps: u64,
    /// Share of WRITE SAME.
    pub write_sames: u64,
    /// Bytes of one command at most.
    pub command_bytes_max: u64,
    /// Which path a command is sent through first.
    pub paths: PathChoice,
    /// What decides everything that is random.
    pub seed: u64,
    /// Pause of each worker between two commands, for a load that leaves room.
    pub pause: Duration,
}

/// Which path a command is sent through first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathChoice {
    /// Any: a path that does not answer soon holds every worker up.
    Any,
    /// Each worker's own: a path that does not answer holds its workers up, and no others.
    Own,
}

impl Default for LoadConfig {
    fn default() -> Self {
        Self {
            depth: 32,
            reads: 50,
            writes: 40,
            unmaps: 5,
            write_sames: 5,
            command_bytes_max: 256 << 10,
            paths: PathChoice::Any,
            seed: 1,
            pause: Duration::ZERO,
        }
    }
}

/// A load that runs. Dropping it stops it at once; what was being written has an unknown outcome.
#[derive(Debug)]
pub struct VerifiedLoad {
    shared: Arc<Shared>,
    workers: JoinSet<()>,
}

/// What the workers have in common.
#[derive(Debug)]
struct Shared {
    disk: Arc<MultipathDisk>,
    config: LoadConfig,
    ledger: Mutex<Ledger>,
    tally: Mutex<Tally>,
    stopping: AtomicBool,
}

impl Shared {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger
            .lock()
            .expect("nothing panics with the lock held")
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally
            .lock()
            .expect("nothing panics with the lock held")
    }
}

impl VerifiedLoad {
    /// Starts the workers.
    ///
    /// Panics on a load that does nothing.
    #[must_use]
    pub fn start(disk: Arc<MultipathDisk>, ledger: Ledger, config: LoadConfig) -> Self {
        assert!(config.depth > 0, "a load has workers");
        let sum = config.reads + config.writes + config.unmaps + config.write_sames;
        assert!(sum > 0, "a load does something");
        let tally = Tally::new(disk.path_count(), Instant::now());
        let mut prng = Prng::from_seed(config.seed);
        let shared = Arc::new(Shared {
            disk,
            config,
            ledger: Mutex::new(ledger),
            tally: Mutex::new(tally),
            stopping: AtomicBool::new(false),
        });
        let mut workers = JoinSet::new();
        for index in 0..shared.config.depth {
            let worker = Worker::new(Arc::clone(&shared), index, prng.fork());
            workers.spawn(worker.run());
        }
        Self { shared, workers }
    }

    /// What it has done so far.
    #[must_use]
    pub fn report(&self) -> LoadReport {
        self.shared.tally().report(Instant::now())
    }

    /// Forgets stalls so far: the next report tells of those from here on.
    pub fn restart_stalls(&self) {
        self.shared.tally().restart_stalls(Instant::now());
    }

    /// Waits until `count` more commands have been completed; `false` if `patience` ends first.
    pub async fn wait_for(&self, count: u64, patience: Duration) -> bool {
        /// How often progress is looked at.
        const TICK: Duration = Duration::from_millis(10);
        let deadline = Instant::now() + patience;
        let goal = self.shared.tally().completions() + count;
        while self.shared.tally().completions() < goal {
            if Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep(TICK).await;
        }
        true
    }

    /// Lets every worker finish its command, and returns what was done, and what is known.
    ///
    /// # Panics
    /// If a worker has panicked.
    pub async fn stop(self) -> (LoadReport, Ledger) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.join().await
    }

    /// Ends every worker in the middle of its command, and returns what was done, and what is known:
    /// of what was being written, nothing.
    ///
    /// # Panics
    /// If a worker has panicked.
    pub async fn abandon(mut self) -> (LoadReport, Ledger) {
        self.workers.abort_all();
        self.join().await
    }

    async fn join(mut self) -> (LoadReport, Ledger) {
        while let Some(ended) = self.workers.join_next().await {
            if let Err(error) = ended {
                assert!(error.is_cancelled(), "a worker does not panic");
            }
        }
        let report = self.report();
        let shared = Arc::into_inner(self.shared).expect("the workers have ended");
        let ledger = shared.ledger.into_inner();
        (report, ledger.expect("nothing panics with the lock held"))
    }
}
