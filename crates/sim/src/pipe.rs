//! One direction of a connection: what goes in comes out later, in the same order.

use std::collections::VecDeque;

use holdfast_stdx::Instant;

/// What is on its way.
#[derive(Debug)]
pub(crate) struct Pipe<T> {
    items: VecDeque<(Instant, T)>,
}

impl<T> Default for Pipe<T> {
    fn default() -> Self {
        Self {
            items: VecDeque::new(),
        }
    }
}

impl<T> Pipe<T> {
    /// Sends something that arrives at `arrival`, or when what was sent before has arrived.
    /// Returns when that is.
    pub(crate) fn push(&mut self, arrival: Instant, item: T) -> Instant {
        let before = self
            .items
            .back()
            .map_or(Instant::ZERO, |(arrival, _)| *arrival);
        let arrival = arrival.max(before);
        self.items.push_back((arrival, item));
        arrival
    }

    /// What has arrived next.
    pub(crate) fn take(&mut self, now: Instant) -> Option<T> {
        let (arrival, _) = self.items.front()?;
        if *arrival > now {
            return None;
        }
        self.items.pop_front().map(|(_, item)| item)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.items.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept() {
        let mut pipe = Pipe::default();
        let [one, two] = [1, 2].map(Instant::from_nanos);
        assert_eq!(pipe.push(two, 'a'), two);
        assert_eq!(pipe.push(one, 'b'), two);
        assert_eq!(pipe.take(one), None);
        assert_eq!(pipe.take(two), Some('a'));
        assert_eq!(pipe.take(two), Some('b'));
        assert!(pipe.is_empty());
    }
}
