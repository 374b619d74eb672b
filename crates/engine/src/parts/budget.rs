//! Commands of other nodes under way here, and how much memory they may take together, however many
//! slices and peers there are.
//!
//! Invariants:
//! - what is counted for a command is given back when the command is forgotten, once;
//! - a command that would go beyond a limit is not taken: its node is told to come again.

use alloc::collections::BTreeMap;

use holdfast_model::{CommandId, NodeId};

use crate::event::LinkId;

/// Commands at most.
const FORWARDS_MAX: usize = 16 << 10;
/// Bytes that they carry, or ask for, at most: what one portal may have under way (64 MiB). Beside it
/// there is room for this node's own portal, and as much again for its journal, in 256 MiB.
pub(super) const FORWARD_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug)]
struct Forwarded {
    from: (NodeId, LinkId),
    bytes: u64,
}

/// Commands of other nodes, and who asked last.
#[derive(Debug, Default)]
pub(super) struct Forwards {
    commands: BTreeMap<CommandId, Forwarded>,
    bytes: u64,
}

impl Forwards {
    /// Takes a command, or another message about one that is known; false if there is no room.
    pub(super) fn take(&mut self, command: CommandId, from: (NodeId, LinkId), bytes: u64) -> bool {
        let known = self.commands.get(&command).map(|known| known.bytes);
        let bytes = bytes.max(known.unwrap_or(0));
        let others = self.bytes - known.unwrap_or(0);
        if known.is_none() && self.commands.len() >= FORWARDS_MAX
            || others + bytes > FORWARD_BYTES_MAX
        {
            return false;
        }
        self.bytes = others + bytes;
        self.commands.insert(command, Forwarded { from, bytes });
        true
    }

    /// A command has ended: who is to hear of it.
    pub(super) fn end(&mut self, command: CommandId) -> Option<(NodeId, LinkId)> {
        let Forwarded { from, bytes } = self.commands.remove(&command)?;
        self.bytes -= bytes;
        Some(from)
    }

    /// Nobody at a node waits any more.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.commands.retain(|_, command| command.from.0 != node);
        self.bytes = self.commands.values().map(|command| command.bytes).sum();
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
        let taken = (0..1000).filter(|number| forwards.take(command(*number), from(2), MIB));
        assert_eq!(taken.count() as u64, FORWARD_BYTES_MAX / MIB);
        assert_eq!(forwards.end(command(0)), Some(from(2)));
        assert_eq!(forwards.end(command(0)), None);
        assert!(forwards.take(command(1000), from(3), MIB));
        assert!(!forwards.take(command(1001), from(3), MIB));
        forwards.forget(NodeId(2));
        assert_eq!(forwards.bytes, MIB);
    }

    #[test]
    fn a_command_is_counted_once_however_often_it_is_asked_about() {
        let mut forwards = Forwards::default();
        assert!(forwards.take(command(1), from(2), MIB));
        assert!(forwards.take(command(1), from(3), MIB));
        assert!(forwards.take(command(1), from(3), 0));
        assert_eq!(forwards.bytes, MIB);
        assert_eq!(forwards.end(command(1)), Some(from(3)));
        assert_eq!(forwards.bytes, 0);
    }

    #[test]
    fn many_small_commands_are_refused_too() {
        let mut forwards = Forwards::default();
        let numbers = 0..2 * FORWARDS_MAX as u64;
        let taken = numbers.filter(|number| forwards.take(command(*number), from(2), 0));
        assert_eq!(taken.count(), FORWARDS_MAX);
    }
}
