//! Ends a unit's commands on every node, for LOGICAL UNIT RESET, CLEAR TASK SET and target resets.
//!
//! Every other node is asked to end what its portal has. One that does not answer is waited out:
//! what had arrived there before is numbered, or never will be, when a command's lifetime and the
//! longest age of a forward are over. So is one that has started a moment ago: it does not know what
//! its former process had. Then every slice's primary is asked to say when everything that was
//! numbered until then is committed, for a process that has ended may have left entries that are not.
//! Where one cannot be asked in time, the clearing ends unsettled.
//!
//! Invariants:
//! - a clearing ends, and once;
//! - it asks a bounded number of primaries at a time, and none any more once it is unsettled.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use holdfast_iscsi::target::TaskManagementId;
use holdfast_model::metadata::Revision;
use holdfast_model::record::SliceRecord;
use holdfast_model::{NodeId, SliceId, VolumeId};
use holdfast_stdx::{Duration, Instant};
use holdfast_wire::{EndTasks, TasksEnded};

use crate::access::Cause;
use crate::engine::Engine;
use crate::event::LinkId;
use crate::portal::{EndedFor, Wide};

/// After this nothing is numbered any more that had arrived at any portal before: a lifetime and a
/// forward's age, each by a clock that may differ from ours in rate by 1/32.
const LIFETIMES_OVER: Duration = Duration::from_millis(4200);

/// How long commands take to end, and a clearing lasts, at most: twice what a takeover may need once all are
/// numbered, and less than initiators wait for an abort or a reset (Linux 15 s and more).
pub(crate) const ENDING_MAX: Duration = Duration::from_secs(10);

/// Primaries that are asked at a time, for one clearing.
const BARRIERS_MAX: usize = 256;

/// How far the asking of a volume's primaries is.
#[derive(Clone, Copy, Debug)]
struct Barriers {
    /// Who have not answered.
    under_way: usize,
    /// The first slice that none has been asked about; none is left if there is no number.
    next: Option<u32>,
}

/// A unit's commands are being ended.
#[derive(Debug)]
struct Clearing {
    request: TaskManagementId,
    volume: VolumeId,
    reset: bool,
    begun: Instant,
    /// Nodes that have not said that they are done.
    unheard: BTreeSet<NodeId>,
    /// The slices' primaries are asked once nothing more is numbered.
    barriers: Option<Barriers>,
    /// What somebody has by RESERVE has not ended yet.
    releasing: bool,
    /// It could not be ended.
    kept: bool,
    settled: bool,
}

impl Clearing {
    /// Whether all that it was to end has ended.
    const fn is_settled(&self) -> bool {
        self.settled && !self.kept
    }
}

/// Clearings under way.
#[derive(Debug, Default)]
pub(crate) struct Clearings {
    clearings: BTreeMap<u64, Clearing>,
    next_number: u64,
}

impl Clearings {
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let asking = self.clearings.values().filter(|it| it.barriers.is_none());
        asking.map(|it| it.begun + LIFETIMES_OVER).min()
    }

    /// A primary has said that all is over, or cannot be asked.
    pub(crate) fn barrier_over(&mut self, number: u64, settled: bool) {
        if let Some(clearing) = self.clearings.get_mut(&number)
            && let Some(barriers) = &mut clearing.barriers
        {
            barriers.under_way -= 1;
            clearing.settled &= settled;
        }
    }

    /// What somebody had by RESERVE has ended, or cannot be ended in time.
    pub(crate) fn released(&mut self, number: u64, is_so: bool) {
        if let Some(clearing) = self.clearings.get_mut(&number) {
            clearing.releasing = false;
            clearing.kept = !is_so;
        }
    }

    /// Clearings whose commands are all numbered by now, or never will be, begin to ask the primaries.
    fn note_numbered(&mut self, now: Instant) {
        let asking = self.clearings.values_mut();
        for clearing in asking.filter(|it| it.barriers.is_none()) {
            let heard = clearing.unheard.is_empty() && clearing.settled;
            if heard || now.since(clearing.begun) >= LIFETIMES_OVER {
                clearing.settled = true;
                clearing.barriers = Some(Barriers {
                    under_way: 0,
                    next: Some(0),
                });
            }
        }
    }

    /// The primary to be asked next, if there is one: for which clearing, since when that is under way,
    /// and of which slice.
    fn next_barrier(
        &mut self,
        slices: &BTreeMap<SliceId, (SliceRecord, Revision)>,
    ) -> Option<(u64, Instant, SliceId)> {
        for (number, clearing) in &mut self.clearings {
            let (volume, begun) = (clearing.volume, clearing.begun);
            let Some(barriers) = clearing.barriers.as_mut().filter(|_| clearing.settled) else {
                continue;
            };
            let Some(index) = barriers.next.filter(|_| barriers.under_way < BARRIERS_MAX) else {
                continue;
            };
            let mut rest = slices.range(SliceId { volume, index }..).map(|(id, _)| *id);
            let slice = rest.next().filter(|slice| slice.volume == volume);
            barriers.next = slice.and_then(|slice| slice.index.checked_add(1));
            if let Some(slice) = slice {
                barriers.under_way += 1;
                return Some((*number, begun, slice));
            }
        }
        None
    }

    /// Clearings of which nothing is left to be waited for.
    fn take_over(&mut self) -> Vec<Clearing> {
        if self.clearings.is_empty() {
            return Vec::new();
        }
        let is_over = |clearing: &Clearing| {
            let are_asked = clearing.barriers.is_some_and(|barriers| {
                barriers.under_way == 0 && (barriers.next.is_none() || !clearing.settled)
            });
            are_asked && !clearing.releasing
        };
        let clearings = core::mem::take(&mut self.clearings);
        let (over, rest): (BTreeMap<_, _>, BTreeMap<_, _>) =
            clearings.into_iter().partition(|(_, it)| is_over(it));
        self.clearings = rest;
        over.into_values().collect()
    }
}

impl Engine {
    /// Commands of a unit have been ended here; they are to be on all other nodes too.
    pub(crate) fn begin_clearing(&mut self, wide: &Wide) {
        let now = self.world.now;
        let volumes = self.volumes.of(&wide.target, wide.unit);
        let count = volumes.len();
        self.portal
            .ends_elsewhere(now, &self.volumes, wide.request, count);
        let unheard: BTreeSet<NodeId> = self.neighbours().collect();
        for volume in volumes {
            self.clearings.next_number += 1;
            let number = self.clearings.next_number;
            // Every node was told of it before the RESERVE was answered.
            let releasing = wide.reset && self.volumes.access(volume).reserved.is_some();
            let clearing = Clearing {
                request: wide.request,
                volume,
                reset: wide.reset,
                begun: now,
                unheard: unheard.clone(),
                barriers: None,
                releasing,
                kept: false,
                settled: !self.may_have_left_commands(),
            };
            self.clearings.clearings.insert(number, clearing);
            for node in &unheard {
                self.ask_to_end(*node, number);
            }
            if releasing {
                self.begin_order(volume, Cause::Reset(number));
            }
        }
    }

    /// Whether commands that this node had before it last started may yet be numbered.
    fn may_have_left_commands(&self) -> bool {
        self.world.now.since(self.started) < LIFETIMES_OVER
    }

    fn ask_to_end(&mut self, node: NodeId, number: u64) {
        let clearing = &self.clearings.clearings[&number];
        let (volume, reset) = (clearing.volume, clearing.reset);
        let question = EndTasks {
            number,
            volume,
            reset,
        };
        self.world.peers.send(node, question.into());
    }

    /// A link is up: its node is asked what it was not, or not asked for sure.
    pub(crate) fn ask_to_end_again(&mut self, node: NodeId) {
        let asking = self.clearings.clearings.iter();
        let asking: Vec<u64> = asking
            .filter(|(_, it)| it.barriers.is_none() && it.unheard.contains(&node))
            .map(|(number, _)| *number)
            .collect();
        for number in asking {
            self.ask_to_end(node, number);
        }
    }

    /// Another node wants a unit's commands ended.
    pub(crate) fn handle_end_tasks(&mut self, peer: NodeId, link: LinkId, question: EndTasks) {
        let EndTasks {
            number,
            volume,
            reset,
        } = question;
        let wanted_by = EndedFor {
            node: peer,
            link,
            number,
        };
        match self.volumes.place_of(volume) {
            Some((target, unit)) => {
                let (target, now) = (target.clone(), self.world.now);
                let unit = (&target, unit);
                self.portal
                    .end_unit(now, &self.volumes, unit, reset, wanted_by);
            }
            None => self.tasks_ended(wanted_by, true),
        }
    }

    pub(crate) fn tasks_ended(&mut self, wanted_by: EndedFor, settled: bool) {
        let EndedFor { node, link, number } = wanted_by;
        let settled = settled && !self.may_have_left_commands();
        if self.world.peers.current(node, link).is_some() {
            let answer = TasksEnded { number, settled };
            self.world.peers.send(node, answer.into());
        }
    }

    pub(crate) fn handle_tasks_ended(&mut self, peer: NodeId, answer: TasksEnded) {
        if let Some(clearing) = self.clearings.clearings.get_mut(&answer.number)
            && clearing.unheard.remove(&peer)
        {
            clearing.settled &= answer.settled;
        }
    }

    /// Goes on with clearings whose time has come, and ends those that are over; true if there were
    /// any.
    pub(crate) fn consider_clearings(&mut self) -> bool {
        let now = self.world.now;
        self.clearings.note_numbered(now);
        while let Some((number, begun, slice)) =
            self.clearings.next_barrier(&self.world.cluster.slices)
        {
            self.begin_barrier(number, slice, begun);
        }
        let over = self.clearings.take_over();
        for clearing in &over {
            let settled = clearing.is_settled();
            self.portal
                .ended_elsewhere(now, &self.volumes, clearing.request, settled);
        }
        !over.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_reset() -> Clearings {
        let clearing = Clearing {
            request: TaskManagementId(1),
            volume: VolumeId(1),
            reset: true,
            begun: Instant::ZERO,
            unheard: BTreeSet::new(),
            barriers: None,
            releasing: true,
            kept: false,
            settled: true,
        };
        Clearings {
            clearings: BTreeMap::from([(7, clearing)]),
            next_number: 7,
        }
    }

    /// Whether it ends settled, if it ends.
    fn ends(clearings: &mut Clearings) -> Option<bool> {
        clearings.note_numbered(Instant::ZERO);
        assert_eq!(clearings.next_barrier(&BTreeMap::new()), None);
        let over = clearings.take_over().pop();
        over.map(|clearing| clearing.is_settled())
    }

    #[test]
    fn a_reset_is_over_when_what_was_reserved_is_released() {
        let mut clearings = of_reset();
        assert_eq!(ends(&mut clearings), None);
        clearings.released(7, true);
        assert_eq!(ends(&mut clearings), Some(true));
    }

    /// Whenever that is known: it may be before the commands are numbered.
    #[test]
    fn a_reset_that_could_not_release_is_not_told_complete() {
        let mut early = of_reset();
        early.released(7, false);
        assert_eq!(ends(&mut early), Some(false));
        let mut late = of_reset();
        assert_eq!(ends(&mut late), None);
        late.released(7, false);
        assert_eq!(ends(&mut late), Some(false));
    }
}
