//! Evening out what nodes do for hosts: the busiest node and an idle one change places in a slice.
//!
//! Work changes by the hour, and a move costs up to a slice of copying on both sides. So few steps are taken at a
//! time, the best there are; only between nodes that differ by much, and only if it is worth the copying. Then what is
//! said of work has to settle before the next.
//!
//! Invariants:
//! - two nodes hold as much after a step as before, or change roles in that: evening out what they hold
//!   moves nothing back;
//! - each step makes two nodes more equal, by no less than is worth it: so there are not many, as long as hosts do what
//!   they did.

use alloc::vec::Vec;
use core::cmp::Reverse;

use holdfast_model::NodeId;
use holdfast_model::record::SliceRecord;
use holdfast_stdx::Duration;

use super::Balance;
use crate::steer::MOVES_PER_NODE;

/// After so long without a change what is said of work, as a mean over five minutes, is that of the places where
/// slices are: what they did elsewhere counts for 5 % still.
pub(super) const WORK_KNOWN: Duration = Duration::from_secs(15 * 60);
/// Nodes that differ by less than this, in commands of hosts in a second, are left as they are: no host notices.
const GAP_MIN: u64 = 500;
/// A step that takes less from the busy node is not worth the copying.
const WORTH_MIN: u64 = 100;
/// Replicas of a node that are considered: its busiest, or its idlest.
const CANDIDATES_MAX: usize = 64;
/// Steps of one pass. Each keeps a node busy with two moves at most, so that none is begun by half.
const STEPS_MAX: usize = MOVES_PER_NODE / 2;

/// A step, and what the busy node does less after it.
struct Step<'a> {
    moved: u64,
    gives: &'a SliceRecord,
    takes: Option<&'a SliceRecord>,
}

impl Step<'_> {
    /// What is left of the difference, and then the copying: the less the better.
    fn rank(&self, gap: u64) -> (u64, bool) {
        let left = gap.abs_diff(self.moved.saturating_mul(2));
        (left, self.takes.is_some())
    }
}

impl<'b> Balance<'_, 'b> {
    /// Takes the best steps there are, from as busy a node as there is to as idle a one.
    pub(super) fn even_work(&mut self) {
        for _ in 0..STEPS_MAX {
            if !self.ease() {
                return;
            }
        }
    }

    fn ease(&mut self) -> bool {
        let mut pairs = Vec::new();
        for (busy, much) in &self.loads {
            for (idle, little) in &self.loads {
                let gap = much.work.saturating_sub(little.work);
                // Half as much again as the other: that is not by chance.
                if gap >= GAP_MIN && gap >= little.work / 2 {
                    pairs.push((Reverse(gap), *busy, *idle));
                }
            }
        }
        pairs.sort_unstable();
        for (Reverse(gap), busy, idle) in pairs {
            if let Some(step) = self.step(gap, busy, idle) {
                self.replace(step.gives, busy, idle);
                if let Some(takes) = step.takes {
                    self.replace(takes, idle, busy);
                }
                for (node, load) in &mut self.loads {
                    load.work -= if *node == busy { step.moved } else { 0 };
                    load.work += if *node == idle { step.moved } else { 0 };
                }
                return true;
            }
        }
        false
    }

    fn step(&self, gap: u64, busy: NodeId, idle: NodeId) -> Option<Step<'b>> {
        let gives = self.candidates(busy, idle);
        let takes = self.candidates(idle, busy);
        let alone = self.keeps_even(busy, idle).then_some((None, 0));
        let mut best: Option<Step<'b>> = None;
        for (gives, given) in gives.iter().rev().take(CANDIDATES_MAX) {
            let exchanges = takes.iter().take(CANDIDATES_MAX);
            let exchanges = exchanges.map(|(takes, taken)| (Some(*takes), *taken));
            for (takes, taken) in alone.into_iter().chain(exchanges) {
                let moved = given.saturating_sub(taken);
                let step = Step {
                    moved,
                    gives,
                    takes,
                };
                let is_better = best
                    .as_ref()
                    .is_none_or(|best| step.rank(gap) < best.rank(gap));
                // More than two thirds would make the idle node the busier one by nearly as much.
                if (WORTH_MIN..=gap / 3 * 2).contains(&moved) && is_better {
                    best = Some(step);
                }
            }
        }
        best
    }

    /// The slices of which a replica may move between two nodes, with what it does; the idlest first.
    fn candidates(&self, from: NodeId, to: NodeId) -> Vec<(&'b SliceRecord, u64)> {
        let work = |record: &SliceRecord| {
            let work = self.planner.sight.work.get(&(record.slice, from));
            work.copied().unwrap_or(0)
        };
        let movable = self.movable(from, to);
        let mut found: Vec<_> = movable.map(|record| (record, work(record))).collect();
        found.sort_by_key(|(record, work)| (*work, record.slice));
        found
    }

    /// Whether one node may give another one a replica for nothing, and neither becomes heavier than the heavier of
    /// them was.
    fn keeps_even(&self, from: NodeId, to: NodeId) -> bool {
        let (from, to) = (&self.loads[&from], &self.loads[&to]);
        !to.is_tight() && to.weight(to.replicas + 1) <= from.weight(from.replicas)
    }
}
