//! Whose turn it is: how many clusters this process runs at the same time.
//!
//! They mostly wait (for leases to end, for nodes that were killed, for what is promised within seconds), so that two of them take
//! little more time than one. With more of them, how long a host stood still would say more of the machine than of the cluster.
//!
//! Invariants:
//! - there are never more than [`AT_A_TIME`];
//! - a test that fails gives its turn back.

use std::sync::{Condvar, Mutex, PoisonError};

/// Clusters at the same time.
const AT_A_TIME: usize = 2;

static TURNS: Turns = Turns::new();

/// The right to run a cluster, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    of: &'static Turns,
}

#[derive(Debug)]
struct Turns {
    taken: Mutex<usize>,
    given_back: Condvar,
}

impl Turns {
    const fn new() -> Self {
        Self {
            taken: Mutex::new(0),
            given_back: Condvar::new(),
        }
    }

    fn wait(&'static self) -> Turn {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = self
            .given_back
            .wait_while(taken, |taken| *taken == AT_A_TIME)
            .unwrap_or_else(PoisonError::into_inner);
        *taken += 1;
        Turn { of: self }
    }
}

impl Turn {
    /// Waits for it.
    pub(crate) fn take() -> Self {
        TURNS.wait()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let taken = self.of.taken.lock();
        *taken.unwrap_or_else(PoisonError::into_inner) -= 1;
        self.of.given_back.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn never_more_than_so_many_have_a_turn_whatever_becomes_of_them() {
        static OWN: Turns = Turns::new();
        static RUNNING: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        let run = |number: usize| {
            let _turn = OWN.wait();
            MOST.fetch_max(RUNNING.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(2));
            RUNNING.fetch_sub(1, Ordering::SeqCst);
            // Out of the way of the harness, which would print a panic's message.
            if number % 3 == 0 {
                std::panic::resume_unwind(Box::new(()));
            }
        };
        let runs: Vec<_> = (0..12)
            .map(|number| thread::spawn(move || run(number)))
            .collect();
        let failed = runs.into_iter().map(|it| it.join()).filter(Result::is_err);
        assert_eq!(failed.count(), 4);
        assert_eq!(MOST.load(Ordering::SeqCst), AT_A_TIME);
        assert_eq!(*OWN.taken.lock().unwrap(), 0);
    }
}
