//! A first-in, first-out queue that refuses what does not fit: back-pressure instead of growth.

use alloc::collections::VecDeque;

/// A queue of at most `capacity` items.
#[derive(Clone, Debug)]
pub struct BoundedQueue<T> {
    items: VecDeque<T>,
    capacity: usize,
}

/// The queue had no room; the item comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull<T>(pub T);

impl<T> BoundedQueue<T> {
    /// An empty queue for at most `capacity` items, which must be at least one.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a queue without room is a mistake");
        Self {
            items: VecDeque::new(),
            capacity,
        }
    }

    /// Adds `item` at the end.
    ///
    /// # Errors
    /// [`QueueFull`] with the item if the queue holds its capacity already.
    pub fn push(&mut self, item: T) -> Result<(), QueueFull<T>> {
        if self.items.len() == self.capacity {
            return Err(QueueFull(item));
        }
        self.items.push_back(item);
        Ok(())
    }

    /// Takes the oldest item.
    pub fn pop(&mut self) -> Option<T> {
        self.items.pop_front()
    }

    /// The oldest item.
    #[must_use]
    pub fn front(&self) -> Option<&T> {
        self.items.front()
    }

    /// How many items wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether the next [`push`](Self::push) would be refused.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.items.len() == self.capacity
    }

    /// The waiting items, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_does_not_fit_and_keeps_order() {
        let mut queue = BoundedQueue::new(2);
        assert_eq!(queue.push(1), Ok(()));
        assert_eq!(queue.push(2), Ok(()));
        assert_eq!(queue.push(3), Err(QueueFull(3)));
        assert_eq!(queue.pop(), Some(1));
        assert_eq!(queue.pop(), Some(2));
        assert_eq!(queue.pop(), None);
    }
}
