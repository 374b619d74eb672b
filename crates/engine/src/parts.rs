//! The parts of commands under way at this node: those of its own portal, those that other nodes
//! have forwarded to replicas here, and what is read here for copies that either has asked for.
//!
//! Invariants:
//! - a part is at one place at a time; an answer from anywhere else is ignored;
//! - a write that nobody took within its lifetime is given up, and never sent again;
//! - a part that is given up ends when it is committed or refused for good, or when it has been held
//!   for as long as anything is;
//! - whoever forwarded a command hears of its end over the link over which it last asked.

mod budget;
mod copying;
mod drive;
mod forwarded;
mod held;
mod outcome;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use holdfast_iscsi::target::TaskId;
use holdfast_model::{CommandId, Incarnation, NodeId, SliceId, VolumeId};
use holdfast_stdx::{Duration, Instant};

use self::budget::Forwards;
use self::copying::Copyings;
use crate::part::{Owner, Part, Whereabouts};

/// A slice that nobody has tried for so long may have been served meanwhile.
const UNTRIED_MAX: Duration = Duration::from_secs(5);

/// Parts and forwards under way.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    node: u16,
    incarnation: Incarnation,
    next_number: u64,
    parts: BTreeMap<CommandId, Part>,
    /// When each part is next looked at: it is tried again, or has been held for too long.
    appointments: BTreeSet<(Instant, CommandId)>,
    /// Slices whose parts nobody takes: since when, and when one was last tried.
    stopped: BTreeMap<SliceId, (Instant, Instant)>,
    forwards: Forwards,
    copyings: Copyings,
}

impl Parts {
    /// Says in whose name commands are numbered.
    pub(crate) fn name(&mut self, node: NodeId, incarnation: Incarnation) {
        self.node = node.0;
        self.incarnation = incarnation;
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.appointments.first().map(|(when, _)| *when)
    }

    /// Every part that is under way.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Part> {
        self.parts.values()
    }

    /// The writes under way to a volume.
    pub(crate) fn writes_of(&self, volume: VolumeId) -> impl Iterator<Item = CommandId> {
        let parts = self.parts.values();
        parts
            .filter(move |part| part.slice.volume == volume && part.kind.is_write())
            .map(|part| part.command)
    }

    /// What other nodes had asked is not to be done any more, and their links are gone.
    pub(crate) fn stood_still(&mut self) {
        self.forwards.clear();
        self.forget_copies(None);
    }

    /// Parts that were with a node come back, to be sent again.
    pub(crate) fn link_lost(&mut self, now: Instant, node: NodeId) {
        self.forwards.forget(node);
        self.forget_copies(Some(node));
        self.recall(
            now,
            |at| matches!(at, Whereabouts::There { node: at, .. } if at == node),
        );
    }

    /// The replicas here take part in nothing any more: what was with them comes back.
    pub(crate) fn replicas_failed(&mut self, now: Instant) {
        self.forwards.clear();
        self.forget_copies(None);
        self.forget_copies(Some(NodeId(self.node)));
        self.recall(now, |at| at == Whereabouts::Here);
    }

    fn recall(&mut self, now: Instant, is_lost: impl Fn(Whereabouts) -> bool) {
        let parts = self.parts.values();
        let lost: Vec<CommandId> = parts
            .filter(|part| is_lost(part.whereabouts))
            .map(|part| part.command)
            .collect();
        for command in lost {
            if let Some(part) = self.parts.get_mut(&command) {
                part.lose_sight(now);
            }
            self.place(command, Whereabouts::Waiting { retry: now });
        }
    }

    pub(crate) fn new_command(&mut self) -> CommandId {
        self.next_number += 1;
        CommandId {
            node: self.node,
            incarnation: self.incarnation,
            number: self.next_number,
        }
    }

    fn insert(&mut self, part: Part) {
        let command = part.command;
        self.appointments.insert((part.appointment(), command));
        let previous = self.parts.insert(command, part);
        assert!(previous.is_none(), "a command's id is its own");
    }

    fn place(&mut self, command: CommandId, whereabouts: Whereabouts) {
        self.change(command, |part| part.whereabouts = whereabouts);
    }

    /// What is left of an aborted command is held until then at most: somebody waits for its end.
    fn hold_until(&mut self, command: CommandId, until: Instant) {
        self.change(command, |part| part.held_until = part.held_until.min(until));
    }

    fn change(&mut self, command: CommandId, change: impl FnOnce(&mut Part)) {
        let Some(part) = self.parts.get_mut(&command) else {
            return;
        };
        let before = part.appointment();
        change(part);
        let after = part.appointment();
        if before != after {
            self.appointments.remove(&(before, command));
            self.appointments.insert((after, command));
        }
    }

    fn remove(&mut self, command: CommandId) -> Option<Part> {
        let part = self.parts.remove(&command)?;
        self.appointments.remove(&(part.appointment(), command));
        Some(part)
    }

    fn is_own(&self, command: CommandId) -> bool {
        command.node == self.node && command.incarnation == self.incarnation
    }

    fn whereabouts(&self, command: CommandId) -> Option<Whereabouts> {
        self.parts.get(&command).map(|part| part.whereabouts)
    }

    /// Commands of parts for which `keep` holds.
    fn which(&self, keep: impl Fn(&Part) -> bool) -> Vec<CommandId> {
        let parts = self.parts.values().filter(|part| keep(part));
        parts.map(|part| part.command).collect()
    }

    fn of_task(&self, task: TaskId) -> Vec<CommandId> {
        self.which(|part| matches!(part.owner, Owner::Task { task: of, .. } if of == task))
    }

    /// Nobody takes parts of a slice now. Says for how long that has been so.
    fn note_stopped(&mut self, now: Instant, slice: SliceId) -> Duration {
        let (since, tried) = self.stopped.entry(slice).or_insert((now, now));
        if now.since(*tried) > UNTRIED_MAX {
            *since = now;
        }
        *tried = now;
        now.since(*since)
    }

    fn note_served(&mut self, slice: SliceId) {
        self.stopped.remove(&slice);
    }
}

#[cfg(test)]
mod tests {
    use holdfast_model::{BlockRange, VolumeId};
    use holdfast_store::ReadSource;

    use super::*;
    use crate::event::LinkId;
    use crate::part::PartKind;

    const SLICE: SliceId = SliceId {
        volume: VolumeId(1),
        index: 0,
    };
    const START: Instant = Instant::from_nanos(1_000_000_000);
    const HOLD: Duration = Duration::from_secs(30);
    const TASK: Owner = Owner::Task {
        task: TaskId(1),
        place: 0,
    };

    fn parts(owner: Owner, kind: PartKind) -> (Parts, CommandId) {
        let mut parts = Parts::default();
        parts.name(NodeId(1), Incarnation(1));
        let command = parts.new_command();
        parts.insert(Part::new(command, owner, SLICE, kind, START, HOLD));
        (parts, command)
    }

    fn there() -> Whereabouts {
        Whereabouts::There {
            node: NodeId(2),
            link: LinkId(1),
        }
    }

    #[test]
    fn a_write_whose_link_is_lost_is_in_doubt_until_somebody_knows() {
        let (mut parts, command) = parts(TASK, PartKind::Clear(BlockRange::new(0, 1)));
        assert!(parts.parts[&command].is_settled(), "nobody was asked");
        parts.place(command, there());
        assert!(!parts.parts[&command].is_settled());
        parts.link_lost(START, NodeId(3));
        assert_eq!(parts.whereabouts(command), Some(there()));
        parts.link_lost(START, NodeId(2));
        let part = &parts.parts[&command];
        assert!(part.in_doubt && !part.is_settled());
        assert!(part.exposed_until > START + Duration::from_secs(1));
        assert_eq!(parts.next_timeout(), Some(START), "it is tried again");
    }

    #[test]
    fn a_read_is_never_in_doubt() {
        let (mut parts, command) = parts(
            TASK,
            PartKind::Read(BlockRange::new(0, 1), ReadSource::Media),
        );
        parts.place(command, there());
        parts.link_lost(START, NodeId(2));
        assert!(parts.parts[&command].is_settled());
    }

    #[test]
    fn what_somebody_has_is_looked_at_when_it_has_been_held_for_too_long() {
        let (mut parts, command) = parts(TASK, PartKind::Clear(BlockRange::new(0, 1)));
        parts.place(command, Whereabouts::Here);
        assert_eq!(parts.next_timeout(), Some(START + Duration::from_secs(30)));
        parts.replicas_failed(START);
        assert!(parts.parts[&command].in_doubt);
        parts.remove(command);
        assert_eq!(parts.next_timeout(), None);
    }

    #[test]
    fn what_is_left_of_an_aborted_command_is_held_for_less_time_and_never_for_more() {
        let (mut parts, command) = parts(TASK, PartKind::Clear(BlockRange::new(0, 1)));
        parts.place(command, there());
        assert_eq!(parts.next_timeout(), Some(START + HOLD));
        let sooner = START + Duration::from_secs(12);
        parts.hold_until(command, sooner);
        assert_eq!(parts.next_timeout(), Some(sooner));
        parts.hold_until(command, START + HOLD);
        assert_eq!(parts.next_timeout(), Some(sooner));
        parts.remove(command);
        assert_eq!(parts.next_timeout(), None);
    }

    #[test]
    fn a_slice_that_nobody_tried_for_a_while_counts_as_stopped_anew() {
        let (mut parts, _) = parts(Owner::Clearing(1), PartKind::Barrier);
        let second = Duration::from_secs(1);
        for after in 0..=4 {
            let now = START + after * second;
            assert_eq!(parts.note_stopped(now, SLICE), after * second);
        }
        let later = START + 4 * second + UNTRIED_MAX + second;
        assert_eq!(parts.note_stopped(later, SLICE), Duration::ZERO);
        parts.note_served(SLICE);
        assert_eq!(parts.note_stopped(later + second, SLICE), Duration::ZERO);
    }
}
