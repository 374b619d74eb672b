//! What is asked of the devices: in flight, or waiting for its turn.
//!
//! Invariants: at most `max` requests are in flight, but for the journal's groups, of which there is one a partition, and the data that
//! they wait for; these go first, then reads, then the rest, but the rest is never starved:
//! one of it goes for every few reads.

use alloc::collections::{BTreeMap, VecDeque};

use holdfast_model::{DiskId, DiskRequest, DiskToken};

/// Reads that may overtake one background request.
const READS_PER_BACKGROUND: u32 = 4;

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
    in_flight: BTreeMap<DiskToken, DiskId>,
    groups: VecDeque<DiskRequest>,
    reads: VecDeque<DiskRequest>,
    background: VecDeque<DiskRequest>,
    /// Reads sent since the last background request.
    overtaken: u32,
}

impl Requests {
    pub(crate) fn new(max: usize) -> Self {
        assert!(max > 0, "at least one request may be in flight");
        Self {
            max,
            in_flight: BTreeMap::new(),
            groups: VecDeque::new(),
            reads: VecDeque::new(),
            background: VecDeque::new(),
            overtaken: 0,
        }
    }

    /// Whether nothing is in flight to a disk, or waits for its turn.
    pub(crate) fn is_idle(&self, disk: DiskId) -> bool {
        let mut waiting = self
            .groups
            .iter()
            .chain(&self.reads)
            .chain(&self.background);
        !self.in_flight.values().any(|other| *other == disk)
            && !waiting.any(|request| request.disk == disk)
    }

    /// Whether a request to a disk is in flight whose token is this one or a later one.
    pub(crate) fn is_in_flight_from(&self, first: DiskToken, disk: DiskId) -> bool {
        self.in_flight
            .range(first..)
            .any(|(_, other)| *other == disk)
    }

    pub(crate) fn push(&mut self, request: DiskRequest, urgency: Urgency) {
        match urgency {
            Urgency::Group => self.groups.push_back(request),
            Urgency::Read => self.reads.push_back(request),
            Urgency::Background => self.background.push_back(request),
        }
    }

    /// A request has ended: which disk it was for.
    pub(crate) fn complete(&mut self, token: DiskToken) -> DiskId {
        self.in_flight
            .remove(&token)
            .expect("only what is in flight can complete")
    }

    /// Moves to `out` what may go now.
    pub(crate) fn release(&mut self, out: &mut VecDeque<DiskRequest>) {
        while let Some(request) = self.groups.pop_front() {
            self.send(request, out);
        }
        while self.in_flight.len() < self.max {
            let background_turn = self.reads.is_empty() || self.overtaken >= READS_PER_BACKGROUND;
            let request = if background_turn && !self.background.is_empty() {
                self.overtaken = 0;
                self.background.pop_front()
            } else {
                self.overtaken += 1;
                self.reads.pop_front()
            };
            let Some(request) = request else {
                break;
            };
            self.send(request, out);
        }
    }

    fn send(&mut self, request: DiskRequest, out: &mut VecDeque<DiskRequest>) {
        let before = self.in_flight.insert(request.token, request.disk);
        assert!(before.is_none(), "a token is used by one request at a time");
        out.push_back(request);
    }
}
