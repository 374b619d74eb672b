//! Resets of the unit (LOGICAL UNIT RESET), now and then, over any path.
//!
//! Invariant: a host has one reset under way at a time.

use holdfast_iscsi::initiator::{CommandTag, InitiatorOutput};
use holdfast_stdx::{Duration, Instant};

use super::{Act, Acts, Host};
use crate::history::History;

/// What a host calls its resets.
pub(super) const RESET: CommandTag = CommandTag(u64::MAX);

impl Host {
    /// When the unit is next reset.
    pub(super) fn resets_at(&self) -> Option<Instant> {
        self.plan.resets.map(|_| self.next_reset)
    }

    pub(super) fn reset_unit(&mut self, now: Instant, history: &mut History, acts: &mut Acts) {
        let mean = self.plan.resets.map_or(0, |mean| mean.as_nanos() as u64);
        let first = self.next_reset == Instant::ZERO;
        self.next_reset = now + Duration::from_nanos(self.prng.below(2 * mean) + 1);
        let up: Vec<usize> = (0..self.paths.len())
            .filter(|path| self.paths[*path].is_up())
            .collect();
        if up.is_empty() || first || self.resetting.is_some() {
            return;
        }
        let path = *self.prng.choose(&up);
        let mut out = InitiatorOutput::default();
        if self.paths[path].reset_unit(RESET, &mut out) {
            acts.acts.push(Act::ResetSent);
            self.resetting = Some(path);
            let under_way = self.operations.values_mut();
            for current in under_way.filter_map(|operation| operation.current.as_mut()) {
                current.ends_with_reset = current.path == path;
            }
        }
        self.take(now, path, out, history, acts);
    }

    /// A reset was answered: what was sent over the same path before is not answered any more.
    pub(super) fn unit_was_reset(&mut self, now: Instant, response: u8, acts: &mut Acts) {
        self.resetting = None;
        if response != 0 {
            self.counts.resets_refused += 1;
            return;
        }
        self.counts.resets += 1;
        acts.acts.push(Act::ResetDone);
        for operation in self.operations.values_mut() {
            if operation.current.take_if(|it| it.ends_with_reset).is_some() {
                operation.retry = now;
            }
        }
    }
}
