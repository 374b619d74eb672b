//! What is going to happen, in the order of virtual time.
//!
//! Invariant: two happenings of the same instant come in the order in which they were scheduled,
//! so that a run has one order and no other.

use std::collections::BTreeMap;

use holdfast_stdx::Instant;

/// Names something that is going to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Appointment(Instant, u64);

/// What is going to happen.
#[derive(Debug)]
pub struct Schedule<T> {
    entries: BTreeMap<Appointment, T>,
    next: u64,
}

impl<T> Default for Schedule<T> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            next: 0,
        }
    }
}

impl<T> Schedule<T> {
    /// Lets `what` happen at `when`.
    pub fn at(&mut self, when: Instant, what: T) -> Appointment {
        let appointment = Appointment(when, self.next);
        self.next += 1;
        self.entries.insert(appointment, what);
        appointment
    }

    /// It is not going to happen, if it has not yet.
    pub fn cancel(&mut self, appointment: Appointment) {
        self.entries.remove(&appointment);
    }

    /// When the next thing happens.
    #[must_use]
    pub fn next_instant(&self) -> Option<Instant> {
        self.entries.keys().next().map(|appointment| appointment.0)
    }

    /// The next thing.
    pub fn pop(&mut self) -> Option<(Instant, T)> {
        let (appointment, what) = self.entries.pop_first()?;
        Some((appointment.0, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_that_of_time_and_then_of_scheduling() {
        let mut schedule = Schedule::default();
        let late = Instant::from_nanos(2);
        let soon = Instant::from_nanos(1);
        schedule.at(late, 'c');
        schedule.at(soon, 'a');
        let dropped = schedule.at(soon, 'x');
        schedule.at(soon, 'b');
        schedule.cancel(dropped);
        assert_eq!(schedule.next_instant(), Some(soon));
        let order: Vec<_> = std::iter::from_fn(|| schedule.pop()).collect();
        assert_eq!(order, [(soon, 'a'), (soon, 'b'), (late, 'c')]);
    }
}
