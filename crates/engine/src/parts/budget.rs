//! Commands of other nodes under way here, and how much memory they may take together, however many
//! slices and peers there are.
//!
//! Invariants:
//! - what is counted for a command is given back when the command is forgotten, once;
//! - a command that would go beyond a limit is not taken: its node is told to come again.

use alloc::collections::BTreeMap;

use holdfast_model::{BlockRange, CommandId, NodeId};

use crate::event::LinkId;

/// Commands at most.
const FORWARDS_MAX: usize = 16 << 10;
/// Bytes that they carry, or ask for, at most: what one portal may have under way (64 MiB). Beside it
/// there is room for this node's own portal, and as much again for its journal, in 256 MiB.
const FORWARD_BYTES_MAX: u64 = 64 << 20;
/// Bytes that copies may have of them, until they are written: they come again by themselves, and writes of hosts are put off
/// where there is no room.
pub(super) const COPIED_BYTES_MAX: u64 = FORWARD_BYTES_MAX / 2;

/// What a command takes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    bytes: u64,
    /// How much of that is for a copy.
    copied: u64,
}

impl Load {
    /// So many bytes.
    pub(super) const fn of(bytes: u64) -> Self {
        Self { bytes, copied: 0 }
    }

    /// So many bytes of a copy.
    pub(super) const fn of_copy(bytes: u64) -> Self {
        Self {
            bytes,
            copied: bytes,
        }
    }

    const fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            copied: self.copied + other.copied,
        }
    }

    const fn without(self, other: Self) -> Self {
        Self {
            bytes: self.bytes - other.bytes,
            copied: self.copied - other.copied,
        }
    }

    /// As much as either takes.
    fn max(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.max(other.bytes),
            copied: self.copied.max(other.copied),
        }
    }
}

#[derive(Debug)]
struct Forwarded {
    from: (NodeId, LinkId),
    load: Load,
    /// The blocks whose contents are what it carries, if that is whole blocks.
    writes: Option<BlockRange>,
}

/// Commands of other nodes, and who asked last.
#[derive(Debug, Default)]
pub(super) struct Forwards {
    commands: BTreeMap<CommandId, Forwarded>,
    load: Load,
}

impl Forwards {
    /// Takes a command, or another message about one that is known; false if there is no room.
    pub(super) fn take(&mut self, command: CommandId, from: (NodeId, LinkId), load: Load) -> bool {
        let known = self.commands.get(&command).map(|known| known.load);
        let before = known.unwrap_or_default();
        let load = load.max(before);
        let all = self.load.without(before).and(load);
        if known.is_none() && self.commands.len() >= FORWARDS_MAX
            || all.bytes > FORWARD_BYTES_MAX
            || all.copied > COPIED_BYTES_MAX
        {
            return false;
        }
        self.load = all;
        let taken = self.commands.entry(command).or_insert(Forwarded {
            from,
            load,
            writes: None,
        });
        // Over this link it has said nothing yet of what it holds.
        if taken.from != from {
            taken.writes = None;
        }
        (taken.from, taken.load) = (from, load);
        true
    }

    /// What a command carries are the contents of these blocks.
    pub(super) fn note_writes(&mut self, command: CommandId, blocks: BlockRange) {
        if let Some(known) = self.commands.get_mut(&command) {
            known.writes = Some(blocks);
        }
    }

    /// The blocks that a command writes and whose contents are with whoever asked last, if that was over this link.
    pub(super) fn held(&self, command: CommandId, by: (NodeId, LinkId)) -> Option<BlockRange> {
        let known = self.commands.get(&command)?;
        known.writes.filter(|_| known.from == by)
    }

    /// A command has ended: who is to hear of it.
    pub(super) fn end(&mut self, command: CommandId) -> Option<(NodeId, LinkId)> {
        let Forwarded { from, load, .. } = self.commands.remove(&command)?;
        self.load = self.load.without(load);
        Some(from)
    }

    /// Nobody at a node waits any more.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.commands.retain(|_, command| command.from.0 != node);
        let left = self.commands.values().map(|command| command.load);
        self.load = left.fold(Load::default(), Load::and);
    }

    /// Nobody waits any more.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use holdfast_model::Incarnation;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn command(number: u64) -> CommandId {
        CommandId {
            node: 2,
            incarnation: Incarnation(1),
            number,
        }
    }

    fn from(node: u16) -> (NodeId, LinkId) {
        (NodeId(node), LinkId(1))
    }

    #[test]
    fn many_large_writes_are_refused_beyond_the_budget_whatever_their_slices() {
        let mut forwards = Forwards::default();
        let taken =
            (0..1000).filter(|number| forwards.take(command(*number), from(2), Load::of(MIB)));
        assert_eq!(taken.count() as u64, FORWARD_BYTES_MAX / MIB);
        assert_eq!(forwards.end(command(0)), Some(from(2)));
        assert_eq!(forwards.end(command(0)), None);
        assert!(forwards.take(command(1000), from(3), Load::of(MIB)));
        assert!(!forwards.take(command(1001), from(3), Load::of(MIB)));
        forwards.forget(NodeId(2));
        assert_eq!(forwards.load.bytes, MIB);
    }

    /// Whatever copies there are, writes find room.
    #[test]
    fn copies_take_a_part_of_it() {
        let mut forwards = Forwards::default();
        let copy = Load::of_copy(MIB);
        let taken = (0..1000).filter(|number| forwards.take(command(*number), from(2), copy));
        assert_eq!(taken.count() as u64, COPIED_BYTES_MAX / MIB);
        assert!(forwards.take(command(1000), from(2), Load::of(COPIED_BYTES_MAX)));
        assert!(forwards.take(command(0), from(3), copy), "it is known");
        forwards.end(command(0));
        assert!(forwards.take(command(1001), from(2), copy));
    }

    #[test]
    fn a_command_is_counted_once_however_often_it_is_asked_about() {
        let mut forwards = Forwards::default();
        assert!(forwards.take(command(1), from(2), Load::of(MIB)));
        assert!(forwards.take(command(1), from(3), Load::of(MIB)));
        assert!(forwards.take(command(1), from(3), Load::of(0)));
        assert_eq!(forwards.load.bytes, MIB);
        assert_eq!(forwards.end(command(1)), Some(from(3)));
        assert_eq!(forwards.load.bytes, 0);
    }

    /// Whoever asks over another link, or another node, has said nothing there of what it holds.
    #[test]
    fn what_is_held_is_held_over_the_link_over_which_it_came() {
        let mut forwards = Forwards::default();
        let blocks = BlockRange::new(3, 2);
        assert!(forwards.take(command(1), from(2), Load::of(MIB)));
        forwards.note_writes(command(1), blocks);
        assert!(forwards.take(command(1), from(2), Load::of(0)));
        assert_eq!(forwards.held(command(1), from(2)), Some(blocks));
        assert_eq!(forwards.held(command(1), from(3)), None);
        let next = (NodeId(2), LinkId(2));
        assert!(forwards.take(command(1), next, Load::of(0)));
        assert_eq!(forwards.held(command(1), next), None);
        assert_eq!(forwards.held(command(1), from(2)), None);
    }

    #[test]
    fn many_small_commands_are_refused_too() {
        let mut forwards = Forwards::default();
        let numbers = 0..2 * FORWARDS_MAX as u64;
        let taken = numbers.filter(|number| forwards.take(command(*number), from(2), Load::of(0)));
        assert_eq!(taken.count(), FORWARDS_MAX);
    }
}
