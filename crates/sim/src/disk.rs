//! A simulated device, exactly as bad as `docs/data-format.md` assumes and no better.
//!
//! Invariants of the medium:
//! - a sector is written whole or not at all;
//! - requests in flight have no order among themselves, and a write longer than a sector may tear;
//! - a write that is not followed by a flush may be lost in a crash, or survive, sector by sector;
//! - a durable write survives once it has completed, and says nothing of others;
//! - a read that overlaps a write in flight sees each sector as it was or as it will be.

use std::collections::BTreeMap;

use holdfast_model::{DiskCompletion, DiskError, DiskId, DiskOp, DiskRequest, DiskToken};
use holdfast_stdx::{Bytes, BytesMut, Duration, Instant, Prng};

/// How fast a device is, and how often it is slow.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// The shortest time for a request.
    pub least: Duration,
    /// The longest, most of the time.
    pub most: Duration,
    /// One request in so many is ten times slower; zero for none.
    pub slow_one_in: u64,
}

impl Default for Latency {
    fn default() -> Self {
        Self {
            least: Duration::from_micros(20),
            most: Duration::from_micros(400),
            slow_one_in: 50,
        }
    }
}

/// A device. Its contents survive [`crash`](Self::crash); what is in flight does not.
#[derive(Clone, Debug)]
pub struct SimDisk {
    id: DiskId,
    bytes: u64,
    sector: u64,
    latency: Latency,
    prng: Prng,
    /// What is on stable storage, by sector; zeros where there is nothing.
    stable: BTreeMap<u64, Bytes>,
    /// What completed writes have left in the device's cache, by sector, oldest first.
    cached: BTreeMap<u64, Vec<Cached>>,
    in_flight: BTreeMap<(Instant, u64), InFlight>,
    /// Writes that have completed: a flush is of those before it.
    completed: u64,
    next: u64,
    /// Sectors that cannot be read until they are written again.
    unreadable: BTreeMap<u64, ()>,
    /// Writes and flushes fail from now on.
    failing: bool,
    /// Completions do not come for now.
    stuck: bool,
    /// Those of reads do not; all else is done.
    reads_hang: bool,
    /// Says that something is on stable storage when it may not be.
    lying: bool,
    /// How much longer requests take at most; half of it at least.
    slowness: Duration,
    /// What sectors held before they were last written, for writes that turn out not to have been
    /// done.
    before: BTreeMap<u64, Bytes>,
    /// Sectors that writes have reached, for the statistics of a run.
    pub sectors_written: u64,
}

/// Of the flushes of a device that lies, one in so many is done: its cache is not without end.
const TRUE_FLUSH_ONE_IN: u64 = 32;

#[derive(Clone, Debug)]
struct Cached {
    order: u64,
    bytes: Bytes,
}

#[derive(Clone, Debug)]
struct InFlight {
    request: DiskRequest,
    /// Writes that had completed when it was asked.
    completed: u64,
}

impl SimDisk {
    /// An empty device of `bytes` bytes with sectors of `sector` bytes.
    #[must_use]
    pub fn new(id: DiskId, bytes: u64, sector: u32, latency: Latency, prng: Prng) -> Self {
        assert!(
            bytes.is_multiple_of(u64::from(sector)),
            "a device is of whole sectors"
        );
        Self {
            id,
            bytes,
            sector: sector.into(),
            latency,
            prng,
            stable: BTreeMap::new(),
            cached: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            completed: 0,
            next: 0,
            unreadable: BTreeMap::new(),
            failing: false,
            stuck: false,
            reads_hang: false,
            lying: false,
            slowness: Duration::ZERO,
            before: BTreeMap::new(),
            sectors_written: 0,
        }
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> DiskId {
        self.id
    }

    /// The same device in the place of another one.
    #[must_use]
    pub fn in_place_of(mut self, id: DiskId) -> Self {
        self.id = id;
        self
    }

    /// Its size.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes a request. Panics if it is not one that a device can be asked for.
    pub fn submit(&mut self, now: Instant, request: DiskRequest) {
        assert!(request.disk == self.id, "the request is for this device");
        self.check(&request.op);
        let span = (self.latency.most - self.latency.least).as_nanos() as u64;
        let mut nanos = self.latency.least.as_nanos() as u64 + self.prng.below(span + 1);
        if self.latency.slow_one_in > 0 && self.prng.chance(1, self.latency.slow_one_in) {
            nanos *= 10;
        }
        if self.slowness > Duration::ZERO {
            let most = self.slowness.as_nanos() as u64;
            nanos += self.prng.between(most / 2, most);
        }
        let at = now + Duration::from_nanos(nanos);
        self.next += 1;
        let in_flight = InFlight {
            request,
            completed: self.completed,
        };
        self.in_flight.insert((at, self.next), in_flight);
    }

    fn check(&self, op: &DiskOp) {
        let Some((offset, length)) = op.extent() else {
            return;
        };
        assert!(length > 0, "a request is of something");
        assert!(
            offset + length <= self.bytes,
            "a request stays on the device"
        );
        assert!(
            offset.is_multiple_of(self.sector) && length.is_multiple_of(self.sector),
            "requests are of whole sectors"
        );
    }

    /// When the next completion comes.
    #[must_use]
    pub fn next_completion(&self) -> Option<Instant> {
        self.next_done().map(|(at, _)| at)
    }

    /// Which of the requests in flight completes next, and when.
    fn next_done(&self) -> Option<(Instant, u64)> {
        let hangs = |request: &InFlight| {
            self.stuck || self.reads_hang && matches!(request.request.op, DiskOp::Read { .. })
        };
        let mut all = self.in_flight.iter();
        all.find(|(_, request)| !hangs(request))
            .map(|(key, _)| *key)
    }

    /// The next completion, if it is due.
    pub fn complete(&mut self, now: Instant) -> Option<DiskCompletion> {
        let next = self.next_done().filter(|(at, _)| *at <= now)?;
        let done = self.in_flight.remove(&next)?;
        let token = done.request.token;
        let result = self.perform(&done);
        Some(DiskCompletion { token, result })
    }

    fn perform(&mut self, done: &InFlight) -> Result<Bytes, DiskError> {
        match &done.request.op {
            DiskOp::Read { offset, length } => self.read(*offset, *length),
            DiskOp::Write {
                offset,
                parts,
                durable,
            } => {
                if self.failing {
                    let parts = parts.clone();
                    self.tear(*offset, &parts);
                    return Err(DiskError::Os(5));
                }
                self.completed += 1;
                for (sector, bytes) in sectors(self.sector, *offset, parts) {
                    self.write_sector(sector, bytes, *durable);
                }
                Ok(Bytes::new())
            }
            DiskOp::Flush => {
                if self.failing {
                    return Err(DiskError::Os(5));
                }
                if !self.lying || self.prng.chance(1, TRUE_FLUSH_ONE_IN) {
                    self.flush(done.completed);
                }
                Ok(Bytes::new())
            }
            DiskOp::Discard { .. } => Ok(Bytes::new()),
        }
    }

    fn write_sector(&mut self, sector: u64, bytes: Bytes, durable: bool) {
        self.sectors_written += 1;
        self.unreadable.remove(&sector);
        if durable && !self.lying {
            self.cached.remove(&sector);
            put(&mut self.stable, &mut self.before, sector, bytes);
        } else {
            let order = self.completed;
            let versions = self.cached.entry(sector).or_default();
            versions.push(Cached { order, bytes });
        }
    }

    fn flush(&mut self, completed: u64) {
        let (stable, before) = (&mut self.stable, &mut self.before);
        self.cached.retain(|sector, versions| {
            let flushed = versions.partition_point(|version| version.order <= completed);
            if let Some(last) = versions.drain(..flushed).next_back() {
                put(stable, before, *sector, last.bytes);
            }
            !versions.is_empty()
        });
    }

    fn read(&mut self, offset: u64, length: u32) -> Result<Bytes, DiskError> {
        let first = offset / self.sector;
        let last = (offset + u64::from(length)) / self.sector;
        if self.unreadable.range(first..last).next().is_some() {
            return Err(DiskError::Os(5));
        }
        // Most of what is read when a store is opened has never been written.
        let mut found: Option<BytesMut> = None;
        let size = self.sector as usize;
        let mut put = |sector: u64, content: &Bytes| {
            let bytes = found.get_or_insert_with(|| BytesMut::zeroed(length as usize));
            let at = (sector - first) as usize * size;
            bytes[at..at + size].copy_from_slice(content);
        };
        for (sector, content) in self.stable.range(first..last) {
            put(*sector, content);
        }
        for (sector, versions) in self.cached.range(first..last) {
            let newest = versions.last().expect("a cached sector has a version");
            put(*sector, &newest.bytes);
        }
        // Sectors of writes in flight may have been reached already.
        for in_flight in self.in_flight.values() {
            let DiskOp::Write { offset, parts, .. } = &in_flight.request.op else {
                continue;
            };
            let begin = offset / self.sector;
            let count: usize = parts.iter().map(Bytes::len).sum();
            if begin >= last || begin + count as u64 / self.sector <= first {
                continue;
            }
            for (sector, content) in sectors(self.sector, *offset, parts) {
                if (first..last).contains(&sector) && self.prng.chance(1, 2) {
                    put(sector, &content);
                }
            }
        }
        Ok(found.map_or_else(|| zeros(length as usize), BytesMut::freeze))
    }

    /// Power is lost: each sector that was not on stable storage is one of what it was, what was in
    /// the cache, or what was being written.
    pub fn crash(&mut self) {
        for (sector, versions) in std::mem::take(&mut self.cached) {
            let choice = self.prng.below(versions.len() as u64 + 1) as usize;
            if choice > 0 {
                let bytes = versions[choice - 1].bytes.clone();
                self.stable.insert(sector, bytes);
            }
        }
        for (_, in_flight) in std::mem::take(&mut self.in_flight) {
            if let DiskOp::Write { offset, parts, .. } = in_flight.request.op {
                self.tear(offset, &parts);
            }
        }
        self.failing = false;
        self.stuck = false;
        self.reads_hang = false;
        self.slowness = Duration::ZERO;
    }

    /// The process ends but power stays: what has completed stays, what is in flight may be done.
    pub fn kill(&mut self) {
        for (_, in_flight) in std::mem::take(&mut self.in_flight) {
            if let DiskOp::Write { offset, parts, .. } = in_flight.request.op
                && self.prng.chance(1, 2)
            {
                self.completed += 1;
                for (sector, bytes) in sectors(self.sector, offset, &parts) {
                    self.write_sector(sector, bytes, false);
                }
            }
        }
        self.failing = false;
        self.stuck = false;
        self.reads_hang = false;
        self.slowness = Duration::ZERO;
    }

    /// Some sectors of a write reach the medium: none, all, all up to a point, or any.
    fn tear(&mut self, offset: u64, parts: &[Bytes]) {
        let all: Vec<(u64, Bytes)> = sectors(self.sector, offset, parts).collect();
        let manner = self.prng.below(4);
        let point = self.prng.below(all.len() as u64 + 1) as usize;
        for (index, (sector, bytes)) in all.into_iter().enumerate() {
            let reached = match manner {
                0 => false,
                1 => true,
                2 => index < point,
                _ => self.prng.chance(1, 2),
            };
            if reached {
                self.unreadable.remove(&sector);
                self.stable.insert(sector, bytes);
            }
        }
    }

    /// Writes and flushes fail from now until the next crash or kill.
    pub fn fail(&mut self) {
        self.failing = true;
    }

    /// Whether writes and flushes fail.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.failing
    }

    /// Writes and flushes do not fail any more.
    pub fn recover(&mut self) {
        self.failing = false;
    }

    /// Whether something is due that would fail on a device that fails.
    #[must_use]
    pub fn is_write_due(&self, now: Instant) -> bool {
        let due = self.in_flight.range(..=(now, u64::MAX));
        let mut requests = due.map(|(_, in_flight)| &in_flight.request.op);
        !self.stuck && requests.any(|op| matches!(op, DiskOp::Write { .. } | DiskOp::Flush))
    }

    /// It says that something is on stable storage when it may not be, from now on and for good.
    pub fn lie(&mut self) {
        self.lying = true;
    }

    /// Nothing completes from now until it comes unstuck, or the next crash or kill.
    pub fn stick(&mut self) {
        self.stuck = true;
    }

    /// Reads do not complete from now, though all else does, until it comes unstuck, or the next crash or kill.
    pub fn hang_reads(&mut self) {
        self.reads_hang = true;
    }

    /// What is in flight completes from now on.
    pub fn unstick(&mut self, now: Instant) {
        self.stuck = false;
        self.reads_hang = false;
        let late = std::mem::take(&mut self.in_flight);
        let late = late.into_iter();
        self.in_flight = late
            .map(|((at, number), request)| ((at.max(now), number), request))
            .collect();
    }

    /// Requests take so much longer from now on, half of it at least.
    pub fn slow_down(&mut self, slowness: Duration) {
        self.slowness = slowness;
    }

    /// Some bits of the sector at `offset` change. Says whether there was anything.
    pub fn rot(&mut self, offset: u64) -> bool {
        let sector = offset / self.sector * self.sector;
        self.rot_within(sector, self.sector as usize)
    }

    /// Bits change among so many bytes from `offset` on, which are in one sector. Says whether they are others
    /// then.
    pub fn rot_within(&mut self, offset: u64, length: usize) -> bool {
        let (sector, start) = (offset / self.sector, (offset % self.sector) as usize);
        let Some(bytes) = self.stable.get(&sector) else {
            return false;
        };
        let mut rotten = BytesMut::from(&bytes[..]);
        for _ in 0..=self.prng.below(3) {
            let at = start + self.prng.below(length as u64) as usize;
            rotten[at] ^= 1 << self.prng.below(8);
        }
        let changed = rotten[..] != bytes[..];
        self.stable.insert(sector, rotten.freeze());
        changed
    }

    /// The last write to the sector at `offset` was never done, although it was said to be. Says
    /// whether there was anything before.
    pub fn lose_write(&mut self, offset: u64) -> bool {
        let sector = offset / self.sector;
        let Some(bytes) = self.before.remove(&sector) else {
            return false;
        };
        self.stable.insert(sector, bytes);
        true
    }

    /// The sector at `offset` was never written.
    pub fn erase_sector(&mut self, offset: u64) {
        self.stable.remove(&(offset / self.sector));
    }

    /// The last writes to all sectors from `start` that were overwritten were never done.
    pub fn go_back(&mut self, start: u64) {
        let later = self.before.split_off(&(start / self.sector));
        self.cached.retain(|sector, _| !later.contains_key(sector));
        self.stable.extend(later);
    }

    /// The last write to the sector at `from` was done to the sector at `to` instead. Says whether
    /// there was anything before.
    pub fn misdirect(&mut self, from: u64, to: u64) -> bool {
        let written = self.stable.get(&(from / self.sector)).cloned();
        let Some(bytes) = written.filter(|_| from != to && self.lose_write(from)) else {
            return false;
        };
        self.stable.insert(to / self.sector, bytes);
        true
    }

    /// One of the sectors from `start` to before `end` that hold anything, if one does.
    pub fn draw_sector(&mut self, start: u64, end: u64) -> Option<u64> {
        let range = start / self.sector..end / self.sector;
        let count = self.stable.range(range.clone()).count();
        if count == 0 {
            return None;
        }
        let place = self.prng.below(count as u64) as usize;
        let (sector, _) = self.stable.range(range).nth(place)?;
        Some(sector * self.sector)
    }

    /// Whether nothing was ever written on it.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.stable.is_empty() && self.cached.is_empty()
    }

    /// Whether it [lies](Self::lie).
    #[must_use]
    pub fn is_lying(&self) -> bool {
        self.lying
    }

    /// The sectors from `start` to before `end` that hold anything.
    #[must_use]
    pub fn sectors_held(&self, start: u64, end: u64) -> Vec<u64> {
        let held = self.stable.range(start / self.sector..end / self.sector);
        held.map(|(sector, _)| sector * self.sector).collect()
    }

    /// The sector at `offset` cannot be read until it is written again.
    pub fn make_unreadable(&mut self, offset: u64) {
        self.unreadable.insert(offset / self.sector, ());
    }

    /// The stable contents of a part, for tests that look or compare.
    #[must_use]
    pub fn peek(&self, offset: u64, length: u32) -> Vec<u8> {
        let mut bytes = vec![0; length as usize];
        let first = offset / self.sector;
        let last = (offset + u64::from(length)) / self.sector;
        for (sector, content) in self.stable.range(first..last) {
            let at = ((sector - first) * self.sector) as usize;
            bytes[at..at + content.len()].copy_from_slice(content);
        }
        bytes
    }

    /// The contents of a part as whoever reads it now is told: what was written counts, though it may not be stable.
    #[must_use]
    pub fn show(&self, offset: u64, length: u32) -> Vec<u8> {
        let mut bytes = self.peek(offset, length);
        let first = offset / self.sector;
        let last = (offset + u64::from(length)) / self.sector;
        for (sector, versions) in self.cached.range(first..last) {
            if let Some(newest) = versions.last() {
                let at = ((sector - first) * self.sector) as usize;
                bytes[at..at + newest.bytes.len()].copy_from_slice(&newest.bytes);
            }
        }
        bytes
    }

    /// Overwrites a part as an outsider would: durable at once.
    pub fn poke(&mut self, offset: u64, bytes: &[u8]) {
        let parts = [Bytes::copy_from_slice(bytes)];
        for (sector, bytes) in sectors(self.sector, offset, &parts).collect::<Vec<_>>() {
            self.cached.remove(&sector);
            self.stable.insert(sector, bytes);
        }
    }

    /// The request in flight under a token, for tests that act at a certain moment.
    #[must_use]
    pub fn in_flight(&self, token: DiskToken) -> Option<&DiskRequest> {
        self.in_flight
            .values()
            .map(|in_flight| &in_flight.request)
            .find(|request| request.token == token)
    }

    /// How many requests are in flight.
    #[must_use]
    pub fn in_flight_count(&self) -> usize {
        self.in_flight.len()
    }
}

/// Bytes of zeros that everybody shares: as many as are read at once, mostly.
const ZEROS_MAX: usize = 4 << 20;
static ZEROS: [u8; ZEROS_MAX] = [0; ZEROS_MAX];

fn zeros(length: usize) -> Bytes {
    match ZEROS.get(..length) {
        Some(zeros) => Bytes::from_static(zeros),
        None => BytesMut::zeroed(length).freeze(),
    }
}

/// A sector is written on stable storage.
fn put(
    stable: &mut BTreeMap<u64, Bytes>,
    before: &mut BTreeMap<u64, Bytes>,
    sector: u64,
    bytes: Bytes,
) {
    if let Some(old) = stable.insert(sector, bytes) {
        before.insert(sector, old);
    }
}

/// The sectors of a write, each with its bytes.
fn sectors(
    sector: u64,
    offset: u64,
    parts: &[Bytes],
) -> impl Iterator<Item = (u64, Bytes)> + use<'_> {
    let size = sector as usize;
    parts
        .iter()
        .flat_map(move |part| {
            assert!(
                part.len().is_multiple_of(size),
                "parts are of whole sectors"
            );
            (0..part.len() / size).map(move |index| part.slice(index * size..(index + 1) * size))
        })
        .zip(offset / sector..)
        .map(|(bytes, number)| (number, bytes))
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
