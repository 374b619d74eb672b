//! Where the handshakes of TLS are computed: beside the thread of sockets and engine, one at a time, and no more of those who
//! connect than a cluster ever has reason for.
//!
//! Signing, checking signatures and agreeing on keys take some hundreds of microseconds for each connection, whoever it is. On the
//! thread of the data path every command would wait for that.
//!
//! Invariants:
//! - at most one is computed at a time of those that this node dials, and one of the others: two do not wait for each other's kind;
//! - who connects is taken in turn, and once a burst is used up no faster than the rate;
//! - who is gone is not waited for.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

use crate::limits::{HANDSHAKES_AT_ONCE_MAX, HANDSHAKES_PER_SECOND};

/// Both kinds.
pub(crate) struct Handshakes {
    /// Of peers that this node dials: as many as it has peers, and not before others have waited.
    pub(crate) dialled: Bench,
    /// Of whoever connects.
    pub(crate) answered: Bench,
}

/// A place where one is computed at a time.
pub(crate) struct Bench {
    place: Arc<Semaphore>,
    pace: Option<Mutex<Pace>>,
}

/// How many may begin: so many at once, and then one after the other.
#[derive(Debug)]
struct Pace {
    /// When all that have begun will have been within the rate.
    paid: Instant,
}

impl Handshakes {
    pub(crate) fn new() -> Self {
        let bench = |pace| Bench {
            place: Arc::new(Semaphore::new(1)),
            pace,
        };
        let pace = Pace {
            paid: Instant::now(),
        };
        Self {
            dialled: bench(None),
            answered: bench(Some(Mutex::new(pace))),
        }
    }
}

impl Bench {
    /// Waits until one more may begin. Who waits is served in the order of coming, and loses its turn by going.
    pub(crate) async fn begin(&self) {
        if let Some(pace) = &self.pace {
            // It stays locked through the wait: those behind it come afterwards.
            let mut pace = pace.lock().await;
            let at = pace.next(Instant::now());
            sleep_until(at).await;
            pace.take(at);
        }
    }

    /// Computes something on a thread for that. What has begun is finished even if nobody waits for it any more.
    pub(crate) async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let place = Arc::clone(&self.place).acquire_owned().await;
        let place = place.expect("it is never closed");
        let done = spawn_blocking(move || {
            let done = work();
            drop(place);
            done
        });
        match done.await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends, and this task with it.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

impl Pace {
    const EACH: Duration = Duration::from_micros(1_000_000 / HANDSHAKES_PER_SECOND as u64);

    /// When the next one may begin.
    fn next(&self, now: Instant) -> Instant {
        now.max(self.paid - Self::EACH * (HANDSHAKES_AT_ONCE_MAX - 1))
    }

    /// It begins.
    fn take(&mut self, at: Instant) {
        self.paid = self.paid.max(at) + Self::EACH;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use tokio::runtime::{Builder, LocalOptions};

    use super::*;

    #[test]
    fn so_many_begin_at_once_and_then_one_after_the_other() {
        let start = Instant::now() + Duration::from_secs(100);
        let mut pace = Pace { paid: start };
        for _ in 0..HANDSHAKES_AT_ONCE_MAX {
            assert_eq!(pace.next(start), start);
            pace.take(start);
        }
        let mut at = start;
        for _ in 0..1000 {
            let next = pace.next(at);
            assert_eq!(next - at, Pace::EACH);
            pace.take(next);
            at = next;
        }
        // A pause makes room for as many again, and no more.
        let later = at + Duration::from_secs(3600);
        for _ in 0..HANDSHAKES_AT_ONCE_MAX {
            assert_eq!(pace.next(later), later);
            pace.take(later);
        }
        assert!(pace.next(later) > later);
    }

    #[test]
    fn one_at_a_time_is_computed_beside_this_thread() {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default())
            .unwrap();
        runtime.block_on(async {
            let handshakes = Handshakes::new();
            let under_way = Arc::new(AtomicUsize::new(0));
            let here = thread::current().id();
            let work = || {
                let under_way = Arc::clone(&under_way);
                handshakes.answered.compute(move || {
                    assert_eq!(under_way.fetch_add(1, Ordering::SeqCst), 0);
                    thread::sleep(Duration::from_millis(20));
                    under_way.fetch_sub(1, Ordering::SeqCst);
                    thread::current().id()
                })
            };
            // One whose owner has gone counts as long as it is under way.
            let gone = tokio::time::timeout(Duration::from_millis(1), work());
            assert!(gone.await.is_err());
            let (one, two) = tokio::join!(work(), work());
            assert!(one != here && two != here);
        });
    }
}
