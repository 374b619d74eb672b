//! The ids of the commands that were numbered lately: a write that turns up again is not applied
//! again.
//!
//! Invariants:
//! - an id is known for [`COMMAND_MEMORY`] from its numbering, through restarts and promotions;
//! - ids of entries that were given up are forgotten with them.

use alloc::collections::{BTreeMap, VecDeque};

use holdfast_model::{CommandId, Sequence};
use holdfast_stdx::Instant;

use crate::timing::COMMAND_MEMORY;

/// The ids and what became of them.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    sequences: BTreeMap<CommandId, Sequence>,
    order: VecDeque<(Instant, CommandId, Sequence)>,
}

impl Recent {
    /// Remembers that `command` was numbered.
    pub(crate) fn note(&mut self, now: Instant, command: CommandId, sequence: Sequence) {
        if command == CommandId::default() {
            return;
        }
        self.sequences.insert(command, sequence);
        self.order.push_back((now, command, sequence));
        self.forget_old(now);
    }

    /// The sequence that `command` was given.
    pub(crate) fn sequence(&self, command: CommandId) -> Option<Sequence> {
        self.sequences.get(&command).copied()
    }

    /// Forgets the entries above `kept`, which were given up.
    pub(crate) fn give_up_above(&mut self, kept: Sequence) {
        self.sequences.retain(|_, sequence| *sequence <= kept);
        self.order.retain(|(_, _, sequence)| *sequence <= kept);
    }

    fn forget_old(&mut self, now: Instant) {
        while let Some((noted, command, sequence)) = self.order.front().copied()
            && now.since(noted) > COMMAND_MEMORY
        {
            self.order.pop_front();
            if self.sequences.get(&command) == Some(&sequence) {
                self.sequences.remove(&command);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_model::Incarnation;
    use holdfast_stdx::Duration;

    use super::*;

    fn command(number: u64) -> CommandId {
        CommandId {
            node: 1,
            incarnation: Incarnation(1),
            number,
        }
    }

    #[test]
    fn ids_are_kept_for_their_time_and_no_longer() {
        let mut recent = Recent::default();
        let start = Instant::from_nanos(1);
        recent.note(start, command(1), Sequence(1));
        recent.note(start + COMMAND_MEMORY, command(2), Sequence(2));
        assert_eq!(recent.sequence(command(1)), Some(Sequence(1)));
        let later = start + COMMAND_MEMORY + Duration::from_nanos(1);
        recent.note(later, command(3), Sequence(3));
        assert_eq!(recent.sequence(command(1)), None);
        recent.give_up_above(Sequence(2));
        assert_eq!(recent.sequence(command(2)), Some(Sequence(2)));
        assert_eq!(recent.sequence(command(3)), None);
    }
}
