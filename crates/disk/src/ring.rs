//! The driver of choice: one io_uring for all devices of a reactor.
//!
//! Invariants:
//! - the memory of an operation lives in its slot from before the kernel sees it until its
//!   completion has been taken off the ring, whatever becomes of whoever asked for it;
//! - no more operations are in flight than there are slots, and the completion queue holds them all;
//! - a slot that the kernel may still use when the ring is dropped is leaked, never freed.
#![allow(unsafe_code, reason = "the kernel is given pointers")]

use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_model::DiskError;
use holdfast_stdx::Bytes;
use io_uring::{IoUring, Probe, opcode, squeue, types};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::device::Device;
use crate::threads::{PATIENCE_AT_END, signal};
use crate::work::{self, Finished, Job, Source, Work};

/// How often a read is asked for again that the kernel did not begin.
const READ_ATTEMPTS_MAX: u8 = 8;

/// An io_uring with its slots.
pub(crate) struct Ring {
    ring: IoUring,
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    /// Slots to be given to the kernel once more: reads that came in part.
    again: Vec<usize>,
    wake: Arc<OwnedFd>,
    /// How long to wait at the end for what is in flight.
    patience: Duration,
}

/// An operation in flight.
struct Slot {
    job: Job,
    /// Bytes of a read that have come.
    filled: usize,
    attempts: u8,
    /// Where the parts of a write lie; the kernel reads this when it takes the operation.
    vectors: Vec<Vector>,
}

/// A `struct iovec`.
#[repr(transparent)]
struct Vector(libc::iovec);

// SAFETY: the pointer leads into a `Bytes` of the job in the same slot, which may be read from any
// thread and goes wherever the slot goes.
unsafe impl Send for Vector {}

impl Ring {
    /// Sets up a ring for `depth` operations in flight on the devices, with `wake` signalled at
    /// each completion.
    ///
    /// # Errors
    /// `EPERM` or `ENOSYS` where io_uring is forbidden or missing, `EOPNOTSUPP` where it lacks an
    /// operation, or what else the system says.
    pub(crate) fn start(depth: u32, wake: Arc<OwnedFd>) -> Result<Self, Errno> {
        assert!(depth > 0, "a ring has room");
        let ring = IoUring::new(depth).map_err(errno_of)?;
        let mut probe = Probe::new();
        ring.submitter()
            .register_probe(&mut probe)
            .map_err(errno_of)?;
        let needed = [
            opcode::Read::CODE,
            opcode::Write::CODE,
            opcode::Writev::CODE,
            opcode::Fsync::CODE,
            opcode::Fallocate::CODE,
        ];
        if !needed.iter().all(|code| probe.is_supported(*code)) {
            return Err(Errno::OPNOTSUPP);
        }
        ring.submitter()
            .register_eventfd(wake.as_raw_fd())
            .map_err(errno_of)?;
        let count = depth as usize;
        assert!(count <= ring.params().cq_entries() as usize);
        Ok(Self {
            ring,
            slots: (0..count).map(|_| None).collect(),
            free: (0..count).rev().collect(),
            again: Vec::new(),
            wake,
            patience: PATIENCE_AT_END,
        })
    }

    /// Puts a job on the submission queue; [`submit`](Self::submit) tells the kernel. There must
    /// be a free slot: the caller counts.
    pub(crate) fn push(&mut self, job: Job) {
        let index = self
            .free
            .pop()
            .expect("the caller counts what is in flight");
        let slot = self.slots[index].insert(Slot {
            job,
            filled: 0,
            attempts: 1,
            vectors: Vec::new(),
        });
        let entry = slot.entry().user_data(index as u64);
        self.push_entry(&entry);
    }

    fn push_entry(&mut self, entry: &squeue::Entry) {
        // SAFETY: all memory that the entry names belongs to its slot, which is not touched until
        // the completion is taken off the ring, and leaked if that never happens.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.expect("the submission queue has a place for every slot");
    }

    /// Tells the kernel of everything pushed, in one call.
    pub(crate) fn submit(&mut self) {
        for index in mem::take(&mut self.again) {
            let slot = self.slots[index]
                .as_mut()
                .expect("a repeated slot is in use");
            let entry = slot.entry().user_data(index as u64);
            self.push_entry(&entry);
        }
        while !self.ring.submission().is_empty() {
            match self.ring.submit().map_err(errno_of) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::BUSY | Errno::NOMEM) => {
                    // Short of memory for a moment: the entries stay queued, and the next turn of
                    // the loop, which this asks for, tries again.
                    signal(&self.wake);
                    return;
                }
                Err(errno) => panic!("submit to a ring of our own: {errno}"),
            }
        }
    }

    /// Moves what has ended to `out`.
    pub(crate) fn collect(&mut self, out: &mut Vec<Finished>) {
        for completion in self.ring.completion() {
            let index = completion.user_data() as usize;
            let slot = self.slots[index]
                .as_mut()
                .expect("a completion belongs to a slot in use");
            let Some(result) = slot.advance(completion.result()) else {
                self.again.push(index);
                continue;
            };
            let slot = self.slots[index].take().expect("looked at above");
            self.free.push(index);
            out.push(slot.job.finish(result));
        }
        if !self.again.is_empty() {
            self.submit();
        }
    }

    fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Waits for everything that the kernel has taken; what is still queued never begins. Tells
    /// whether all has ended.
    fn drain(&mut self) -> bool {
        let deadline = Instant::now() + self.patience;
        loop {
            for completion in self.ring.completion() {
                let index = completion.user_data() as usize;
                self.slots[index] = None;
                self.free.push(index);
            }
            let queued = self.ring.submission().len() + self.again.len();
            if self.in_use() <= queued {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let mut events = [PollFd::new(&self.wake, PollFlags::IN)];
            let timeout = Timespec::try_from(left).expect("seconds fit");
            // A failed poll is another look at the queue; the deadline ends it.
            let _ = rustix::event::poll(&mut events, Some(&timeout));
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Completions of reads in part are not asked for again from here on.
        if !self.drain() {
            tracing::error!(
                operations = self.in_use(),
                "leave stuck disk operations to the kernel"
            );
            mem::forget(mem::take(&mut self.slots));
        }
    }
}

impl Slot {
    /// What the kernel is asked to do next for this slot.
    fn entry(&mut self) -> squeue::Entry {
        let file = types::Fd(descriptor(&self.job.device));
        match &mut self.job.work {
            Work::Read {
                offset,
                length,
                buffer,
            } => {
                assert!(self.filled < *length && *length <= buffer.len());
                // SAFETY: `filled` is less than the buffer's length, so that the result lies in
                // the same allocation.
                let place = unsafe { buffer.pointer().add(self.filled) };
                opcode::Read::new(file, place, (*length - self.filled) as u32)
                    .offset(*offset + self.filled as u64)
                    .build()
            }
            Work::Write {
                offset,
                length,
                source,
                durable,
            } => {
                let flags = if *durable { libc::RWF_DSYNC } else { 0 };
                let one = |place: *const u8| {
                    opcode::Write::new(file, place, *length as u32)
                        .offset(*offset)
                        .rw_flags(flags)
                        .build()
                };
                match source {
                    Source::Copy(buffer) => {
                        assert!(*length <= buffer.len());
                        one(buffer.pointer())
                    }
                    Source::Parts(parts) if parts.len() == 1 => one(parts[0].as_ptr()),
                    Source::Parts(parts) => {
                        self.vectors = parts.iter().map(vector).collect();
                        let place = self.vectors.as_ptr().cast::<libc::iovec>();
                        opcode::Writev::new(file, place, self.vectors.len() as u32)
                            .offset(*offset)
                            .rw_flags(flags)
                            .build()
                    }
                }
            }
            Work::Flush => opcode::Fsync::new(file)
                .flags(types::FsyncFlags::DATASYNC)
                .build(),
            Work::Discard { offset, length } => {
                let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                opcode::Fallocate::new(file, *length)
                    .offset(*offset)
                    .mode(mode)
                    .build()
            }
        }
    }

    /// Takes in what the kernel said: the end of the operation, or `None` if it is to be asked
    /// again.
    fn advance(&mut self, result: i32) -> Option<Result<(), DiskError>> {
        let outcome = usize::try_from(result).map_err(|_| DiskError::Os(-result));
        match &self.job.work {
            Work::Read { length, .. } => match outcome {
                Ok(count) => match work::read_on(&self.job.device, self.filled, count, *length) {
                    Ok(filled) if filled < *length => {
                        self.filled = filled;
                        None
                    }
                    Ok(_) => Some(Ok(())),
                    Err(error) => Some(Err(error)),
                },
                Err(DiskError::Os(libc::EINTR | libc::EAGAIN))
                    if self.attempts < READ_ATTEMPTS_MAX =>
                {
                    self.attempts += 1;
                    None
                }
                Err(error) => Some(Err(error)),
            },
            Work::Write { length, .. } => {
                Some(outcome.and_then(|count| work::written_fully(count, *length)))
            }
            Work::Flush => Some(outcome.map(|_| ())),
            Work::Discard { .. } => Some(work::ignore_unsupported(outcome.map(|_| ()))),
        }
    }
}

fn descriptor(device: &Device) -> i32 {
    use std::os::fd::AsFd;
    device.as_fd().as_raw_fd()
}

fn vector(part: &Bytes) -> Vector {
    Vector(libc::iovec {
        // The kernel only reads through it.
        iov_base: part.as_ptr().cast_mut().cast(),
        iov_len: part.len(),
    })
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn errno_of(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use holdfast_model::{DiskId, DiskOp, DiskToken};
    use rustix::event::EventfdFlags;

    use super::*;
    use crate::buffer::Shelf;
    use crate::device::Geometry;
    use crate::usage::Tally;

    /// A ring with a read in flight that ends only when something is written to the pipe.
    fn ring_with_stuck_read() -> Option<(Ring, Arc<Device>, OwnedFd)> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = Arc::new(rustix::event::eventfd(0, flags).unwrap());
        // Where io_uring is forbidden there is nothing to test.
        let mut ring = Ring::start(4, wake).ok()?;
        let (source, target) = rustix::pipe::pipe().unwrap();
        let device = Arc::new(Device {
            descriptor: source,
            geometry: Geometry {
                size: 1 << 20,
                sector: 512,
                block_device: true,
                direct: false,
            },
            identity: None,
            memory_alignment: 1,
        });
        let op = DiskOp::Read {
            offset: 0,
            length: 4096,
        };
        let tally = Tally::new(Instant::now(), DiskId(0), &op);
        ring.push(Job {
            token: DiskToken(1),
            device: Arc::clone(&device),
            work: work::prepare(&device, op, &Shelf::new(0)),
            memory: 4096,
            tally,
        });
        ring.submit();
        Some((ring, device, target))
    }

    #[test]
    fn dropping_waits_for_what_the_kernel_still_uses() {
        let Some((ring, device, target)) = ring_with_stuck_read() else {
            return;
        };
        assert_eq!(Arc::strong_count(&device), 2);
        let writer = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            rustix::io::write(&target, &[1; 4096]).unwrap();
        });
        drop(ring);
        assert_eq!(Arc::strong_count(&device), 1, "the slot has been freed");
        writer.join().unwrap();
    }

    #[test]
    fn dropping_leaks_what_the_kernel_does_not_give_back() {
        let Some((mut ring, device, _target)) = ring_with_stuck_read() else {
            return;
        };
        ring.patience = Duration::from_millis(50);
        drop(ring);
        assert_eq!(Arc::strong_count(&device), 2, "the slot lives on");
    }

    #[test]
    fn a_read_in_parts_is_put_together() {
        let Some((mut ring, _device, target)) = ring_with_stuck_read() else {
            return;
        };
        let mut finished = Vec::new();
        for part in 1..=4_u8 {
            assert!(finished.is_empty());
            rustix::io::write(&target, &[part; 1024]).unwrap();
            let mut events = [PollFd::new(&ring.wake, PollFlags::IN)];
            rustix::event::poll(&mut events, None).unwrap();
            rustix::io::read(&ring.wake, &mut [0; 8]).unwrap();
            ring.collect(&mut finished);
        }
        let bytes = finished.remove(0).completion.result.unwrap();
        let expected: Vec<u8> = (0..4096).map(|index| 1 + (index / 1024) as u8).collect();
        assert_eq!(bytes, expected);
    }
}
