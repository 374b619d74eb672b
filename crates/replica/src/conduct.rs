//! How other nodes have behaved lately: whom not to rely on for a while.
//!
//! Without it a slice would go back and forth between nodes of which one is well now and then: each
//! time costs hosts a stall. So every fault makes a node rest, and rest longer each time.
//!
//! Invariants:
//! - a rest ends: nobody is left out for ever;
//! - what is kept is one entry a node that was ever at fault, and only in memory: a replica that has
//!   just started bears no grudge.

use alloc::collections::BTreeMap;

use holdfast_model::NodeId;
use holdfast_model::record::SliceRecord;
use holdfast_stdx::{Duration, Instant};

use crate::timing::SILENT_FOR_READS;

/// The first rest: a few heartbeats would do to see that a node is there; hosts should see some
/// seconds without a change.
const REST: Duration = Duration::from_secs(5);
/// The longest rest.
const REST_MAX: Duration = Duration::from_secs(300);
/// After so long without a fault, a node has none.
const FORGIVEN_AFTER: Duration = Duration::from_secs(600);

/// A disk that was slow so short a while ago may be again in a moment. Longer than a slow disk is
/// quick between two slow requests; not longer than hosts should wait for one that is stuck.
const SLOW_LATELY: Duration = Duration::from_secs(2);

/// What is remembered.
#[derive(Debug, Default)]
pub(crate) struct Conduct {
    nodes: BTreeMap<NodeId, Record>,
    /// When a node's disk, or the one here, was last seen to be slow.
    slow_at: BTreeMap<NodeId, Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    faults: u32,
    last: Instant,
    rests_until: Instant,
    /// How many of its faults were slowness.
    slow_faults: u32,
    /// It was slow, and is not to join before this: how often it was gone is no matter, for as long as it
    /// is out a copy is missing.
    joins_from: Option<Instant>,
    /// It was in sync then: others may not be taken out for the same.
    was_in_sync: bool,
}

/// What a node did wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It was not there.
    Gone,
    /// It was in sync, and its disk took too long.
    SlowInSync,
    /// It was joining, and its disk took too long.
    SlowJoining,
}

impl Conduct {
    /// A node was at fault.
    pub(crate) fn fault(&mut self, now: Instant, node: NodeId, fault: Fault) {
        let record = self.record(now, node);
        if now.since(record.last) > FORGIVEN_AFTER {
            (record.faults, record.slow_faults) = (0, 0);
        }
        record.faults = record.faults.saturating_add(1);
        record.last = now;
        record.rests_until = now + rest(record.faults);
        if fault != Fault::Gone {
            record.slow_faults = record.slow_faults.saturating_add(1);
            record.joins_from = Some(now + rest(record.slow_faults));
        }
        record.was_in_sync |= fault == Fault::SlowInSync;
    }

    fn record(&mut self, now: Instant, node: NodeId) -> &mut Record {
        self.nodes.entry(node).or_insert(Record {
            faults: 0,
            last: now,
            rests_until: now,
            slow_faults: 0,
            joins_from: None,
            was_in_sync: false,
        })
    }

    /// A node is in sync again, or is found to be: its rest begins now.
    pub(crate) fn is_back(&mut self, now: Instant, node: NodeId) {
        let record = self.record(now, node);
        record.rests_until = now + rest(record.faults);
        (record.joins_from, record.was_in_sync) = (None, false);
    }

    /// If the preferred primary is in sync, its rest begins now.
    pub(crate) fn is_back_if_in(&mut self, now: Instant, record: &SliceRecord) {
        if record.in_sync().any(|node| node == record.preferred) {
            self.is_back(now, record.preferred);
        }
    }

    /// How long the oldest append of a node, this one or another, has been under way.
    pub(crate) fn note_append_age(&mut self, now: Instant, node: NodeId, age: Duration) {
        if age >= SILENT_FOR_READS {
            self.slow_at.insert(node, now);
        }
    }

    /// Whether a node's disk is slow, or was a short while ago.
    pub(crate) fn was_slow_lately(&self, now: Instant, node: NodeId) -> bool {
        let slow_at = self.slow_at.get(&node);
        slow_at.is_some_and(|slow_at| now.since(*slow_at) <= SLOW_LATELY)
    }

    /// Whether a node has had its rest.
    pub(crate) fn has_rested(&self, now: Instant, node: NodeId) -> bool {
        self.nodes
            .get(&node)
            .is_none_or(|record| record.rests_until <= now)
    }

    /// Whether a node that wants to join has to wait: it was slow, and has not had its rest.
    pub(crate) fn waits(&self, now: Instant, node: NodeId) -> bool {
        let from = self.nodes.get(&node).and_then(|record| record.joins_from);
        from.is_some_and(|from| now < from)
    }

    /// Whether anybody who was in sync is out because it was slow.
    pub(crate) fn is_anybody_out(&self) -> bool {
        self.nodes.values().any(|record| record.was_in_sync)
    }
}

/// How long a node rests after so many faults.
fn rest(faults: u32) -> Duration {
    let doublings = faults.saturating_sub(1).min(16);
    (REST * (1 << doublings)).min(REST_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(2);

    #[test]
    fn rests_grow_with_faults_and_end() {
        let mut conduct = Conduct::default();
        let mut now = Instant::from_nanos(1);
        assert!(conduct.has_rested(now, NODE));
        for rest in [5, 10, 20, 40, 80, 160, 300, 300] {
            conduct.fault(now, NODE, Fault::SlowInSync);
            assert!(conduct.waits(now, NODE) && conduct.is_anybody_out());
            let end = now + Duration::from_secs(rest);
            let before = now + Duration::from_millis(1000 * rest - 1);
            assert!(conduct.waits(before, NODE), "rest of {rest} s");
            assert!(!conduct.waits(end, NODE), "rest of {rest} s");
            now = end;
        }
        conduct.is_back(now, NODE);
        assert!(!conduct.is_anybody_out());
        assert!(!conduct.has_rested(now, NODE));
        assert!(conduct.has_rested(now + REST_MAX, NODE));
    }

    /// A copy is missing while a node rests: that is not made longer by deaths that had other reasons.
    #[test]
    fn who_was_gone_often_and_slow_once_joins_soon() {
        let mut conduct = Conduct::default();
        let start = Instant::from_nanos(1);
        for _ in 0..6 {
            conduct.fault(start, NODE, Fault::Gone);
        }
        conduct.fault(start, NODE, Fault::SlowInSync);
        assert!(conduct.waits(start, NODE));
        assert!(!conduct.waits(start + REST, NODE));
        // To lead is another matter.
        assert!(!conduct.has_rested(start + REST, NODE));
        // It was slow, and is gone: it waits no longer for that either.
        conduct.fault(start, NODE, Fault::Gone);
        assert!(!conduct.waits(start + REST, NODE));
    }

    #[test]
    fn slowness_is_remembered_for_a_moment() {
        let mut conduct = Conduct::default();
        let start = Instant::from_nanos(1);
        conduct.note_append_age(start, NODE, SILENT_FOR_READS - Duration::from_nanos(1));
        assert!(!conduct.was_slow_lately(start, NODE));
        conduct.note_append_age(start, NODE, SILENT_FOR_READS);
        conduct.note_append_age(start + SLOW_LATELY, NODE, Duration::ZERO);
        assert!(conduct.was_slow_lately(start + SLOW_LATELY, NODE));
        let later = start + SLOW_LATELY + Duration::from_nanos(1);
        assert!(!conduct.was_slow_lately(later, NODE));
    }

    #[test]
    fn old_faults_are_forgiven() {
        let mut conduct = Conduct::default();
        let start = Instant::from_nanos(1);
        conduct.fault(start, NODE, Fault::Gone);
        assert!(!conduct.waits(start, NODE), "it was not slow");
        conduct.fault(start, NODE, Fault::SlowJoining);
        assert!(conduct.waits(start, NODE) && !conduct.is_anybody_out());
        let later = start + FORGIVEN_AFTER + Duration::from_nanos(1);
        conduct.fault(later, NODE, Fault::Gone);
        assert!(!conduct.has_rested(later + REST - Duration::from_nanos(1), NODE));
        assert!(conduct.has_rested(later + REST, NODE));
    }
}
