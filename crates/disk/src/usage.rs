//! What devices do, and how long they take for it: from when an operation is given to the driver until it has ended.
//!
//! Invariant: an operation costs a look-up and some additions; the clock is read once for all that begin, or end, together.

use std::time::Instant;

use holdfast_history::{Done, Meter};
use holdfast_model::{DiskId, DiskOp};

/// What an operation does, as far as that is told apart.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Read,
    Write,
    Other,
}

/// An operation under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    disk: DiskId,
    deed: Deed,
    bytes: u64,
    begun: Instant,
}

impl Tally {
    pub(crate) fn new(now: Instant, disk: DiskId, operation: &DiskOp) -> Self {
        let bytes = || operation.extent().map_or(0, |(_, length)| length);
        let (deed, bytes) = match operation {
            DiskOp::Read { .. } => (Deed::Read, bytes()),
            DiskOp::Write { .. } => (Deed::Write, bytes()),
            DiskOp::Flush | DiskOp::Discard { .. } => (Deed::Other, 0),
        };
        Self {
            disk,
            deed,
            bytes,
            begun: now,
        }
    }
}

/// What one device has done since it was last asked, failed operations included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceUse {
    /// Which.
    pub disk: DiskId,
    /// Reads.
    pub reads: Done,
    /// Writes.
    pub writes: Done,
    /// Flushes and discards.
    pub others: Done,
}

/// Of all devices, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Usage(Vec<[Meter; 3]>);

impl Usage {
    /// There is one more device.
    pub(crate) fn add(&mut self) {
        self.0.push(Default::default());
    }

    pub(crate) fn end(&mut self, now: Instant, tally: Tally) {
        let took = now.saturating_duration_since(tally.begun).as_micros();
        let took = u64::try_from(took).unwrap_or(u64::MAX);
        self.0[usize::from(tally.disk.0)][tally.deed as usize].record(tally.bytes, took);
    }

    /// Of each that did something.
    pub(crate) fn take(&mut self) -> Vec<DeviceUse> {
        let meters = (0..).zip(&mut self.0);
        let uses = meters.map(|(disk, [reads, writes, others])| DeviceUse {
            disk: DiskId(disk),
            reads: reads.take(),
            writes: writes.take(),
            others: others.take(),
        });
        let is_used = |it: &DeviceUse| {
            let all = [&it.reads, &it.writes, &it.others];
            all.iter().any(|it| it.latencies.count() > 0)
        };
        uses.filter(is_used).collect()
    }
}
