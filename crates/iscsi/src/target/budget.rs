//! Room for data of commands, in sum over all connections.
//!
//! Invariants:
//! - what is reserved never exceeds the bound, and what is released was reserved;
//! - who finds no room waits in line; room that becomes free goes to the head of the line first, and
//!   nobody overtakes it.

use alloc::collections::{BTreeSet, VecDeque};

use crate::target::ConnectionId;

#[derive(Debug)]
pub(super) struct Budget {
    bytes_max: u64,
    reserved: u64,
    line: VecDeque<ConnectionId>,
    /// The same as a set.
    waiting: BTreeSet<ConnectionId>,
    /// Whose turn it is.
    called: Option<ConnectionId>,
    /// Room became free since the head of the line last found none.
    has_news: bool,
}

impl Budget {
    pub(super) const fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            reserved: 0,
            line: VecDeque::new(),
            waiting: BTreeSet::new(),
            called: None,
            has_news: false,
        }
    }

    /// Takes `bytes`, if there is room and nobody was here before; else `connection` waits.
    pub(super) fn reserve(&mut self, connection: ConnectionId, bytes: u64) -> bool {
        assert!(
            bytes <= self.bytes_max,
            "no command is larger than all the room"
        );
        let has_turn = self.called == Some(connection) || self.line.is_empty();
        if has_turn && self.reserved + bytes <= self.bytes_max {
            self.reserved += bytes;
            return true;
        }
        if self.waiting.insert(connection) {
            if self.called == Some(connection) {
                self.line.push_front(connection);
                self.has_news = false;
            } else {
                self.line.push_back(connection);
            }
        }
        false
    }

    /// Gives `bytes` back.
    pub(super) fn release(&mut self, bytes: u64) {
        assert!(bytes <= self.reserved, "only what was reserved is released");
        self.reserved -= bytes;
        self.has_news |= bytes > 0;
    }

    /// The head of the line, if there may be room for it now. To be called until there is none.
    pub(super) fn next_waiter(&mut self) -> Option<ConnectionId> {
        self.called = None;
        if !self.has_news {
            return None;
        }
        self.called = self.line.pop_front();
        match self.called {
            Some(connection) => {
                self.waiting.remove(&connection);
            }
            None => self.has_news = false,
        }
        self.called
    }

    #[cfg(test)]
    pub(super) const fn reserved(&self) -> u64 {
        self.reserved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ConnectionId = ConnectionId(1);
    const TWO: ConnectionId = ConnectionId(2);
    const THREE: ConnectionId = ConnectionId(3);

    #[test]
    fn waiters_are_called_in_line_when_room_becomes_free() {
        let mut budget = Budget::new(10);
        assert!(budget.reserve(ONE, 8));
        assert!(!budget.reserve(TWO, 4));
        assert!(!budget.reserve(THREE, 1), "nobody overtakes");
        assert!(!budget.reserve(ONE, 1), "not even who has room already");
        assert_eq!(budget.next_waiter(), None, "nothing became free");
        budget.release(8);
        assert_eq!(budget.next_waiter(), Some(TWO));
        assert!(budget.reserve(TWO, 4));
        assert_eq!(budget.next_waiter(), Some(THREE));
        assert!(!budget.reserve(THREE, 7));
        assert_eq!(budget.next_waiter(), None, "the head of the line waits on");
        budget.release(4);
        assert_eq!(budget.next_waiter(), Some(THREE));
        assert!(budget.reserve(THREE, 7));
        assert_eq!(budget.next_waiter(), Some(ONE));
        assert!(budget.reserve(ONE, 1));
        assert_eq!(budget.next_waiter(), None);
        assert_eq!(budget.reserved(), 8);
        budget.release(8);
        assert_eq!(budget.next_waiter(), None);
        assert!(budget.reserve(TWO, 10), "the line is empty");
    }
}
