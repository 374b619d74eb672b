//! Room for data of commands, in sum over all connections.
//!
//! Invariants:
//! - what is reserved never exceeds the bound, and what is released was reserved;
//! - a connection that found no room is called again when some became free, in turn.

use alloc::collections::BTreeSet;

use crate::target::ConnectionId;

#[derive(Debug)]
pub(super) struct Budget {
    bytes_max: u64,
    reserved: u64,
    waiting: BTreeSet<ConnectionId>,
    /// Those that were not called yet since room became free.
    called: BTreeSet<ConnectionId>,
}

impl Budget {
    pub(super) const fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            reserved: 0,
            waiting: BTreeSet::new(),
            called: BTreeSet::new(),
        }
    }

    /// Takes `bytes`, if there is room; else `connection` waits.
    pub(super) fn reserve(&mut self, connection: ConnectionId, bytes: u64) -> bool {
        assert!(
            bytes <= self.bytes_max,
            "no command is larger than all the room"
        );
        if self.reserved + bytes > self.bytes_max {
            self.waiting.insert(connection);
            return false;
        }
        self.reserved += bytes;
        true
    }

    /// Gives `bytes` back.
    pub(super) fn release_total(&mut self, bytes: u64) {
        assert!(bytes <= self.reserved, "only what was reserved is released");
        self.reserved -= bytes;
        if bytes > 0 {
            self.called.append(&mut self.waiting);
        }
    }

    /// One that waits and for whom there may be room now.
    pub(super) fn next_waiter(&mut self) -> Option<ConnectionId> {
        self.called.pop_first()
    }

    #[cfg(test)]
    pub(super) const fn reserved(&self) -> u64 {
        self.reserved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_are_called_once_when_room_becomes_free() {
        let mut budget = Budget::new(10);
        assert!(budget.reserve(ConnectionId(1), 8));
        assert!(!budget.reserve(ConnectionId(2), 4));
        assert!(!budget.reserve(ConnectionId(3), 4));
        assert_eq!(budget.next_waiter(), None);
        budget.release_total(8);
        assert_eq!(budget.next_waiter(), Some(ConnectionId(2)));
        assert!(budget.reserve(ConnectionId(2), 4));
        assert_eq!(budget.next_waiter(), Some(ConnectionId(3)));
        assert_eq!(budget.next_waiter(), None);
        assert_eq!(budget.reserved(), 4);
    }
}
