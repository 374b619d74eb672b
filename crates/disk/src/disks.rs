//! All devices of a reactor behind one queue.
//!
//! Invariants:
//! - every request gets exactly one completion, unless the [`Disks`] are dropped before;
//! - requests begin in the order in which they were asked for, and end in any;
//! - no more than [`Options::queue_depth`] operations and [`Options::memory_max`] bytes of buffers
//!   (or a single larger operation) are in flight; what waits costs no more than its request.

use std::collections::VecDeque;
use std::future::pending;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use holdfast_model::{DiskCompletion, DiskId, DiskRequest};
use rustix::event::EventfdFlags;
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::buffer::Shelf;
use crate::device::{Device, DeviceSpec, Geometry};
use crate::error::{OpenError, StartError};
use crate::identity::Identity;
use crate::ring::Ring;
use crate::threads::Threads;
use crate::usage::{DeviceUse, Tally, Usage};
use crate::work::{self, Finished, Job, Work};

/// Operations in flight that keep a fast device busy and a slow one's queue short.
const QUEUE_DEPTH: u32 = 128;
/// Threads that stand in for a ring: enough to group the flushes of a busy journal.
const THREADS: usize = 16;
/// Bytes of buffers in flight: 128 reads of a page.
const MEMORY_MAX: usize = 32 << 20;
/// Bytes of buffers that lie idle.
const IDLE_MEMORY_MAX: usize = 16 << 20;
/// The kernel's limit of a ring's entries is 32768; nothing gains from more than this.
const QUEUE_DEPTH_MAX: u32 = 4096;

/// How to drive disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Which driver.
    pub driver: DriverChoice,
    /// Whether to bypass the page cache where that is possible.
    pub direct: bool,
    /// Operations in flight, from 1 to 4096.
    pub queue_depth: u32,
    /// Threads of the driver that uses threads; at least one.
    pub threads: usize,
    /// Bytes of buffers in flight.
    pub memory_max: usize,
    /// Bytes of buffers kept for reuse.
    pub idle_memory_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            driver: DriverChoice::RingOrThreads,
            direct: true,
            queue_depth: QUEUE_DEPTH,
            threads: THREADS,
            memory_max: MEMORY_MAX,
            idle_memory_max: IDLE_MEMORY_MAX,
        }
    }
}

/// Which driver is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverChoice {
    /// io_uring, and threads where the system refuses it.
    RingOrThreads,
    /// io_uring or an error.
    Ring,
    /// Threads.
    Threads,
}

/// Which driver is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// io_uring.
    Ring,
    /// Threads.
    Threads,
}

/// A device that is open and locked, and not driven yet.
#[derive(Debug)]
pub struct OpenDevice(Device);

impl OpenDevice {
    /// Opens and locks a device. Blocks while a file is created.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn open(spec: &DeviceSpec) -> Result<Self, OpenError> {
        open_device(spec, Options::default().direct).map(Self)
    }

    /// What it looks like.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.0.geometry
    }
}

/// Open devices and the driver under them.
pub struct Disks {
    engine: Engine,
    /// By number; nothing where one was released.
    devices: Vec<Option<Arc<Device>>>,
    shelf: Shelf,
    options: Options,
    /// Requests that have not begun.
    waiting: VecDeque<DiskRequest>,
    /// Requests refused without asking the kernel.
    refused: Vec<DiskCompletion>,
    /// Kept for its memory.
    finished: Vec<Finished>,
    in_flight: usize,
    memory: usize,
    usage: Usage,
    wake: Arc<OwnedFd>,
    /// Made at the first wait, which happens inside a runtime.
    listener: Option<AsyncFd<Arc<OwnedFd>>>,
}

enum Engine {
    /// The helper does what a ring cannot: it is there if a block device may have to discard.
    Ring {
        ring: Box<Ring>,
        helper: Option<Threads>,
    },
    Threads(Threads),
}

impl Disks {
    /// Opens and locks the devices; the first is `DiskId(0)`. Blocks while files are created.
    ///
    /// # Errors
    /// Names the first device that cannot be used and why, or the driver that cannot be started.
    pub fn open(specs: &[DeviceSpec], options: Options) -> Result<Self, StartError> {
        assert!(
            specs.len() <= usize::from(u16::MAX),
            "disk numbers have 16 bits"
        );
        assert!((1..=QUEUE_DEPTH_MAX).contains(&options.queue_depth));
        let mut devices = Vec::with_capacity(specs.len());
        let mut usage = Usage::default();
        for spec in specs {
            usage.add();
            devices.push(Some(Arc::new(open_device(spec, options.direct)?)));
        }
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = Arc::new(rustix::event::eventfd(0, flags).map_err(resources)?);
        let engine = start_engine(&options, &devices, &wake)?;
        Ok(Self {
            engine,
            devices,
            shelf: Shelf::new(options.idle_memory_max),
            options,
            waiting: VecDeque::new(),
            refused: Vec::new(),
            finished: Vec::new(),
            in_flight: 0,
            memory: 0,
            usage,
            wake,
            listener: None,
        })
    }

    /// Takes one more device. Its number has never been another's.
    ///
    /// # Errors
    /// The operating system gives no thread for what a block device needs.
    pub fn add(&mut self, device: OpenDevice) -> Result<DiskId, StartError> {
        let OpenDevice(device) = device;
        let number = u16::try_from(self.devices.len()).map_err(|_| resources(Errno::MFILE))?;
        if let Engine::Ring { helper, .. } = &mut self.engine
            && device.geometry.block_device
            && helper.is_none()
        {
            let threads = Threads::start(1, Arc::clone(&self.wake)).map_err(resources)?;
            *helper = Some(threads);
        }
        self.devices.push(Some(Arc::new(device)));
        self.usage.add();
        Ok(DiskId(number))
    }

    /// Closes a device, and so unlocks it, as soon as nothing is under way on it. Panics if something waits
    /// for it that has not begun.
    pub fn release(&mut self, disk: DiskId) {
        let waits = self.waiting.iter().any(|request| request.disk == disk);
        assert!(!waits, "nothing is asked of a device that is released");
        self.devices[usize::from(disk.0)] = None;
    }

    fn device(&self, disk: DiskId) -> Option<&Arc<Device>> {
        self.devices.get(usize::from(disk.0))?.as_ref()
    }

    /// Which driver is at work.
    #[must_use]
    pub fn driver(&self) -> Driver {
        match self.engine {
            Engine::Ring { .. } => Driver::Ring,
            Engine::Threads(_) => Driver::Threads,
        }
    }

    /// What the device looks like; `None` if there is no such device.
    #[must_use]
    pub fn geometry(&self, disk: DiskId) -> Option<Geometry> {
        Some(self.device(disk)?.geometry)
    }

    /// Which file or block device it is, whatever its path names by now; `None` if there is no such device, or the
    /// system does not tell.
    #[must_use]
    pub fn identity(&self, disk: DiskId) -> Option<Identity> {
        self.device(disk)?.identity
    }

    /// Requests that have not completed.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.waiting.len() + self.in_flight + self.refused.len()
    }

    /// What each device has done since this was last asked; nothing of those that did nothing.
    pub fn take_uses(&mut self) -> Vec<DeviceUse> {
        self.usage.take()
    }

    /// Takes a request. It begins when [`completions`](Self::completions) is next polled, so that
    /// all requests of one turn of the event loop go to the kernel together.
    ///
    /// Panics if there is no such disk. What else is wrong with a request is told in its
    /// completion.
    pub fn submit(&mut self, request: DiskRequest) {
        let device = self.device(request.disk).expect("the disk is open");
        match work::check(device, &request.op) {
            Ok(()) => self.waiting.push_back(request),
            Err(error) => self.refused.push(DiskCompletion {
                token: request.token,
                result: Err(error),
            }),
        }
    }

    /// Waits until at least one request has ended, and adds all that have to `out`. Nothing is
    /// lost if the future is dropped before that. With nothing outstanding it waits for ever.
    ///
    /// Must be called within a tokio runtime that has I/O enabled.
    pub async fn completions(&mut self, out: &mut Vec<DiskCompletion>) {
        loop {
            if self.poll(out) > 0 {
                return;
            }
            if self.outstanding() == 0 {
                pending::<()>().await;
            }
            let listener = self.listener.get_or_insert_with(|| listen(&self.wake));
            let mut ready = listener
                .readable()
                .await
                .expect("the runtime outlives what waits in it");
            // The descriptor is never read: each signal wakes anew, because tokio watches edges.
            ready.clear_ready();
        }
    }

    /// Begins what waits, and adds what has ended to `out`, without waiting. Returns how many.
    pub fn poll(&mut self, out: &mut Vec<DiskCompletion>) -> usize {
        let before = out.len();
        out.append(&mut self.refused);
        self.begin();
        self.collect(out);
        if !self.waiting.is_empty() {
            // Places came free.
            self.begin();
        }
        out.len() - before
    }

    fn begin(&mut self) {
        let mut now = None;
        while let Some(request) = self.waiting.front() {
            let device = self.device(request.disk).expect("the disk is open");
            let memory = work::memory_of(device, &request.op);
            let crowded = self.in_flight == self.options.queue_depth as usize
                || (self.memory > 0 && self.memory + memory > self.options.memory_max);
            if crowded {
                break;
            }
            let device = Arc::clone(device);
            let request = self.waiting.pop_front().expect("looked at above");
            let now = *now.get_or_insert_with(Instant::now);
            let tally = Tally::new(now, request.disk, &request.op);
            let work = work::prepare(&device, request.op, &self.shelf);
            self.in_flight += 1;
            self.memory += memory;
            self.engine.push(Job {
                token: request.token,
                device,
                work,
                memory,
                tally,
            });
        }
        if let Engine::Ring { ring, .. } = &mut self.engine {
            ring.submit();
        }
    }

    fn collect(&mut self, out: &mut Vec<DiskCompletion>) {
        self.engine.collect(&mut self.finished);
        let mut now = None;
        for finished in self.finished.drain(..) {
            self.in_flight -= 1;
            self.memory -= finished.memory;
            let now = *now.get_or_insert_with(Instant::now);
            self.usage.end(now, finished.tally);
            out.push(finished.completion);
        }
        assert!(
            self.in_flight > 0 || self.memory == 0,
            "idle disks bind no memory"
        );
    }
}

impl Engine {
    fn push(&mut self, job: Job) {
        match self {
            Engine::Ring { ring, helper } => {
                let blocks = matches!(job.work, Work::Discard { .. });
                match helper {
                    Some(helper) if blocks && job.device.geometry.block_device => helper.push(job),
                    _ => ring.push(job),
                }
            }
            Engine::Threads(threads) => threads.push(job),
        }
    }

    fn collect(&mut self, out: &mut Vec<Finished>) {
        match self {
            Engine::Ring { ring, helper } => {
                ring.collect(out);
                if let Some(helper) = helper {
                    helper.collect(out);
                }
            }
            Engine::Threads(threads) => threads.collect(out),
        }
    }
}

fn open_device(spec: &DeviceSpec, direct: bool) -> Result<Device, OpenError> {
    let device = Device::open(spec, direct)?;
    if direct && !device.geometry.direct {
        tracing::warn!(
            path = %spec.path.display(),
            "direct I/O is refused here: writes go through the page cache and are flushed"
        );
    }
    Ok(device)
}

fn start_engine(
    options: &Options,
    devices: &[Option<Arc<Device>>],
    wake: &Arc<OwnedFd>,
) -> Result<Engine, StartError> {
    let threads = |count| Threads::start(count, Arc::clone(wake)).map_err(resources);
    if options.driver != DriverChoice::Threads {
        match Ring::start(options.queue_depth, Arc::clone(wake)) {
            Ok(ring) => {
                let mut devices = devices.iter().flatten();
                let discards = devices.any(|device| device.geometry.block_device);
                let helper = discards.then(|| threads(1)).transpose()?;
                return Ok(Engine::Ring {
                    ring: Box::new(ring),
                    helper,
                });
            }
            Err(errno) if options.driver == DriverChoice::Ring => {
                let errno = errno.raw_os_error();
                return Err(StartError::Ring { errno });
            }
            Err(errno) => {
                tracing::warn!(%errno, "io_uring is refused: disks are driven by threads");
            }
        }
    }
    Ok(Engine::Threads(threads(options.threads)?))
}

#[allow(unsafe_code, reason = "tokio asks for a promise about the descriptor")]
fn listen(wake: &Arc<OwnedFd>) -> AsyncFd<Arc<OwnedFd>> {
    // SAFETY: the descriptor is open as long as the Arc that goes with it, and an OwnedFd behind
    // an Arc never changes its number or what that stands for.
    unsafe { AsyncFd::register_with_interest(Arc::clone(wake), Interest::READABLE) }
        .expect("an event descriptor can be watched")
}

fn resources(errno: Errno) -> StartError {
    StartError::Resources {
        errno: errno.raw_os_error(),
    }
}

/// A reactor may be started on another thread than the one that opened its devices.
const _: () = {
    const fn assert_send<T: Send>() {}
    assert_send::<Disks>();
};
