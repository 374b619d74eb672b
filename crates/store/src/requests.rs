//! What is asked of the devices: in flight, or waiting for its turn.
//!
//! A device serves what it has in the order that it likes, mostly first come, first served. What waits in front of it is therefore in the way of
//! whatever comes next: a round of destage that is handed over as a whole, 16 MiB of it, keeps a group of the journal waiting for as long as
//! the device takes for all of that. So a device is given what nobody waits for little by little.
//!
//! Invariants: at most `max` requests are in flight, but for the journal's groups, of which there is one a partition, and the data that
//! they wait for; these go first, then reads, then the rest, of which no device has more in flight than it needs to be busy; but the rest
//! is never starved: one of it goes for every few reads.

use alloc::collections::{BTreeMap, VecDeque};
use core::ops::Bound;

use holdfast_model::{DiskId, DiskOp, DiskRequest, DiskToken};

/// Reads that may overtake one background request.
const READS_PER_BACKGROUND: u32 = 4;
/// Background requests that a device has in flight at most: enough for one of many channels.
const BACKGROUND_MAX: u32 = 32;
/// Bytes of them, unless it is one alone: a millisecond of a device that moves 1 GB a second.
const BACKGROUND_BYTES_MAX: u64 = 1 << 20;

/// How urgent a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Somebody waits for a write: a group of the journal, or the data of one that is in slots.
    Group,
    /// Somebody waits for a read.
    Read,
    /// Destage.
    Background,
}

#[derive(Debug)]
pub(crate) struct Requests {
    max: usize,
    in_flight: BTreeMap<DiskToken, InFlight>,
    groups: VecDeque<DiskRequest>,
    reads: VecDeque<DiskRequest>,
    background: BTreeMap<DiskId, Background>,
    /// The device that had the last background request.
    served: DiskId,
    /// Reads sent since the last background request.
    overtaken: u32,
}

#[derive(Debug)]
struct InFlight {
    disk: DiskId,
    /// Bytes that it moves, if it is a background request.
    background: Option<u64>,
}

/// Background requests of a device.
#[derive(Debug, Default)]
struct Background {
    waiting: VecDeque<DiskRequest>,
    in_flight: u32,
    bytes: u64,
}

impl Background {
    fn may_send(&self) -> bool {
        self.waiting.front().is_some_and(|request| {
            let bytes = self.bytes + bytes_of(&request.op);
            let has_room = self.in_flight < BACKGROUND_MAX && bytes <= BACKGROUND_BYTES_MAX;
            has_room || self.in_flight == 0
        })
    }
}

impl Requests {
    pub(crate) fn new(max: usize) -> Self {
        assert!(max > 0, "at least one request may be in flight");
        Self {
            max,
            in_flight: BTreeMap::new(),
            groups: VecDeque::new(),
            reads: VecDeque::new(),
            background: BTreeMap::new(),
            served: DiskId(0),
            overtaken: 0,
        }
    }

    /// Whether nothing is in flight to a disk, or waits for its turn.
    pub(crate) fn is_idle(&self, disk: DiskId) -> bool {
        let background = self.background.get(&disk);
        let mut waiting = self.groups.iter().chain(&self.reads);
        background.is_none_or(|it| it.waiting.is_empty())
            && !self.in_flight.values().any(|other| other.disk == disk)
            && !waiting.any(|request| request.disk == disk)
    }

    /// Whether a request to a disk is in flight whose token is this one or a later one.
    pub(crate) fn is_in_flight_from(&self, first: DiskToken, disk: DiskId) -> bool {
        self.in_flight
            .range(first..)
            .any(|(_, other)| other.disk == disk)
    }

    /// Whether half of what may be in flight is, or would be if all were that somebody waits for: what nobody has asked for yet waits then.
    pub(crate) fn is_short_of_turns(&self) -> bool {
        let waiting = self.groups.len() + self.reads.len();
        self.in_flight.len() + waiting >= self.max.div_ceil(2)
    }

    pub(crate) fn push(&mut self, request: DiskRequest, urgency: Urgency) {
        match urgency {
            Urgency::Group => self.groups.push_back(request),
            Urgency::Read => self.reads.push_back(request),
            Urgency::Background => {
                let background = self.background.entry(request.disk).or_default();
                background.waiting.push_back(request);
            }
        }
    }

    /// A request has ended: which disk it was for.
    pub(crate) fn complete(&mut self, token: DiskToken) -> DiskId {
        let ended = self.in_flight.remove(&token);
        let InFlight { disk, background } = ended.expect("only what is in flight can complete");
        if let Some(bytes) = background {
            let state = self.background.get_mut(&disk);
            let state = state.expect("it has a request in flight");
            state.in_flight -= 1;
            state.bytes -= bytes;
        }
        disk
    }

    /// Moves to `out` what may go now.
    pub(crate) fn release(&mut self, out: &mut VecDeque<DiskRequest>) {
        while let Some(request) = self.groups.pop_front() {
            self.send(request, None, out);
        }
        while self.in_flight.len() < self.max {
            let background_turn = self.reads.is_empty() || self.overtaken >= READS_PER_BACKGROUND;
            if background_turn && self.send_background(out) {
                self.overtaken = 0;
            } else if let Some(request) = self.reads.pop_front() {
                self.overtaken += 1;
                self.send(request, None, out);
            } else {
                break;
            }
        }
    }

    /// Sends one background request, each device in turn. Whether there was one.
    fn send_background(&mut self, out: &mut VecDeque<DiskRequest>) -> bool {
        let after = (Bound::Excluded(self.served), Bound::Unbounded);
        let devices = self.background.range(after);
        let mut devices = devices.chain(self.background.range(..=self.served));
        let Some((&disk, _)) = devices.find(|(_, it)| it.may_send()) else {
            return false;
        };
        let state = self.background.get_mut(&disk).expect("found above");
        let request = state.waiting.pop_front().expect("one may be sent");
        let bytes = bytes_of(&request.op);
        state.in_flight += 1;
        state.bytes += bytes;
        self.served = disk;
        self.send(request, Some(bytes), out);
        true
    }

    fn send(
        &mut self,
        request: DiskRequest,
        background: Option<u64>,
        out: &mut VecDeque<DiskRequest>,
    ) {
        let disk = request.disk;
        let sent = InFlight { disk, background };
        let before = self.in_flight.insert(request.token, sent);
        assert!(before.is_none(), "a token is used by one request at a time");
        out.push_back(request);
    }
}

/// Bytes that the device moves for it.
fn bytes_of(op: &DiskOp) -> u64 {
    match op {
        DiskOp::Discard { .. } => 0,
        op => op.extent().map_or(0, |(_, bytes)| bytes),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use holdfast_stdx::Bytes;

    use super::*;

    const DISK: DiskId = DiskId(0);
    const OTHER: DiskId = DiskId(7);
    const BLOCK: usize = 4 << 10;

    fn write(token: u64, disk: DiskId, bytes: usize) -> DiskRequest {
        DiskRequest {
            token: DiskToken(token),
            disk,
            op: DiskOp::Write {
                offset: 0,
                parts: vec![Bytes::from(vec![0; bytes])],
                durable: false,
            },
        }
    }

    fn released(requests: &mut Requests) -> Vec<u64> {
        let mut out = VecDeque::new();
        requests.release(&mut out);
        out.into_iter().map(|request| request.token.0).collect()
    }

    #[test]
    fn a_device_has_little_in_flight_that_nobody_waits_for() {
        let mut requests = Requests::new(256);
        for token in 0..100 {
            requests.push(write(token, DISK, BLOCK), Urgency::Background);
        }
        let first: Vec<u64> = (0..u64::from(BACKGROUND_MAX)).collect();
        assert_eq!(released(&mut requests), first);
        assert_eq!(requests.complete(DiskToken(5)), DISK);
        assert_eq!(released(&mut requests), [u64::from(BACKGROUND_MAX)]);
        requests.push(write(200, DISK, BLOCK), Urgency::Group);
        requests.push(write(201, DISK, BLOCK), Urgency::Read);
        assert_eq!(
            released(&mut requests),
            [200, 201],
            "others go all the same"
        );
        requests.complete(DiskToken(200));
        assert!(
            released(&mut requests).is_empty(),
            "and make no room for it"
        );
    }

    #[test]
    fn large_ones_count_by_their_bytes_and_one_may_always_go() {
        let mut requests = Requests::new(256);
        let quarter = BACKGROUND_BYTES_MAX as usize / 4;
        for token in 0..6 {
            requests.push(write(token, DISK, quarter), Urgency::Background);
        }
        requests.push(write(6, DISK, 8 * quarter), Urgency::Background);
        assert_eq!(released(&mut requests), [0, 1, 2, 3]);
        requests.complete(DiskToken(0));
        requests.complete(DiskToken(1));
        assert_eq!(released(&mut requests), [4, 5]);
        for token in [2, 3, 4] {
            requests.complete(DiskToken(token));
            assert!(released(&mut requests).is_empty());
        }
        requests.complete(DiskToken(5));
        assert_eq!(released(&mut requests), [6]);
    }

    #[test]
    fn devices_do_not_wait_for_each_other_and_take_turns() {
        let mut requests = Requests::new(BACKGROUND_MAX as usize + 2);
        for token in 0..100 {
            requests.push(write(token, DISK, BLOCK), Urgency::Background);
        }
        assert_eq!(released(&mut requests).len(), BACKGROUND_MAX as usize);
        for token in 100..200 {
            requests.push(write(token, OTHER, BLOCK), Urgency::Background);
        }
        assert_eq!(released(&mut requests), [100, 101], "up to the maximum");
        for token in [0, 1, 2] {
            requests.complete(DiskToken(token));
        }
        let first = u64::from(BACKGROUND_MAX);
        assert_eq!(released(&mut requests), [first, 102, first + 1]);
    }

    #[test]
    fn reads_overtake_it_and_do_not_starve_it() {
        let mut requests = Requests::new(1);
        for token in 0..2 {
            requests.push(write(token, DISK, BLOCK), Urgency::Background);
        }
        for token in 10..20 {
            requests.push(write(token, DISK, BLOCK), Urgency::Read);
        }
        let mut order = Vec::new();
        while let [token] = released(&mut requests)[..] {
            order.push(token);
            requests.complete(DiskToken(token));
        }
        assert_eq!(order, [10, 11, 12, 13, 0, 14, 15, 16, 17, 1, 18, 19]);
        assert!(requests.is_idle(DISK));
    }
}
