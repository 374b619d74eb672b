//! The driver that works everywhere: threads that block in the kernel.
//!
//! Invariants:
//! - what a thread works on belongs to the thread's job until it has ended;
//! - after [`Threads`] is dropped no job begins, and none runs unless its device is stuck.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::io::Errno;

use crate::work::{self, Finished, Job};

/// How long to wait at the end for operations that have begun. A device that takes longer is
/// stuck: its thread is left alone with its memory.
pub(crate) const PATIENCE_AT_END: Duration = Duration::from_secs(5);

/// A fixed number of threads that work off a queue.
#[derive(Debug)]
pub(crate) struct Threads {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    /// A job came, or the end.
    arrived: Condvar,
    /// The last running job ended.
    quiet: Condvar,
    finished: Mutex<Vec<Finished>>,
    /// Is signalled when a job has ended.
    wake: Arc<OwnedFd>,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    running: usize,
    stopping: bool,
}

impl Threads {
    /// Starts `count` threads, at least one, which signal `wake` for every end.
    ///
    /// # Errors
    /// What the system says if it has no thread to give.
    pub(crate) fn start(count: usize, wake: Arc<OwnedFd>) -> Result<Self, Errno> {
        assert!(count > 0, "somebody must do the work");
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            arrived: Condvar::new(),
            quiet: Condvar::new(),
            finished: Mutex::default(),
            wake,
        });
        let mut threads = Self {
            shared,
            handles: Vec::with_capacity(count),
        };
        for index in 0..count {
            let shared = Arc::clone(&threads.shared);
            let handle = thread::Builder::new()
                .name(format!("disk-{index}"))
                .spawn(move || serve(&shared))
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
            threads.handles.push(handle);
        }
        Ok(threads)
    }

    /// Queues a job.
    pub(crate) fn push(&self, job: Job) {
        lock(&self.shared.queue).jobs.push_back(job);
        self.shared.arrived.notify_one();
    }

    /// Moves what has ended to `out`.
    pub(crate) fn collect(&self, out: &mut Vec<Finished>) {
        out.append(&mut lock(&self.shared.finished));
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let mut queue = lock(&self.shared.queue);
        queue.stopping = true;
        queue.jobs.clear();
        self.shared.arrived.notify_all();
        let (queue, timeout) = self
            .shared
            .quiet
            .wait_timeout_while(queue, PATIENCE_AT_END, |queue| queue.running > 0)
            .unwrap_or_else(PoisonError::into_inner);
        drop(queue);
        if timeout.timed_out() {
            tracing::error!("leave stuck disk operations to their threads");
            return;
        }
        for handle in self.handles.drain(..) {
            handle.join().expect("a disk thread does not panic");
        }
    }
}

fn serve(shared: &Shared) {
    while let Some(mut job) = next(shared) {
        let result = work::execute(&job.device, &mut job.work);
        let finished = job.finish(result);
        let mut list = lock(&shared.finished);
        let first = list.is_empty();
        list.push(finished);
        drop(list);
        if first {
            signal(&shared.wake);
        }
        let mut queue = lock(&shared.queue);
        queue.running -= 1;
        if queue.running == 0 {
            shared.quiet.notify_all();
        }
    }
}

/// The next job, or `None` at the end.
fn next(shared: &Shared) -> Option<Job> {
    let queue = lock(&shared.queue);
    let mut queue = shared
        .arrived
        .wait_while(queue, |queue| queue.jobs.is_empty() && !queue.stopping)
        .unwrap_or_else(PoisonError::into_inner);
    let job = queue.jobs.pop_front()?;
    queue.running += 1;
    Some(job)
}

/// Wakes whoever waits on an event descriptor.
pub(crate) fn signal(wake: &OwnedFd) {
    let one = 1_u64.to_ne_bytes();
    match rustix::io::retry_on_intr(|| rustix::io::write(wake, &one)) {
        // A full counter has woken everybody already.
        Ok(_) | Err(Errno::AGAIN) => {}
        Err(errno) => panic!("signal an event descriptor of our own: {errno}"),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
