//! When a target was last heard, for hosts that have to know how long it may still do what it was sent.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// The target itself has ended the connection.
const ENDED: u64 = u64::MAX;

/// Shared by a session's handles and its task.
#[derive(Debug)]
pub(super) struct Heard {
    began: Instant,
    /// Nanoseconds after that.
    last: AtomicU64,
}

impl Heard {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            last: AtomicU64::new(0),
        }
    }

    /// Something came.
    pub(super) fn note(&self) {
        let nanos = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(ENDED);
        self.last.store(nanos, Ordering::Relaxed);
    }

    /// Nothing comes any more. That it is the target that says so only its end of the stream tells, or its reset: any
    /// other error is this machine's, which has waited for long enough.
    pub(super) fn note_end(&self, transferred: &io::Result<usize>) {
        let is_told = match transferred {
            Ok(_) => true,
            Err(error) => matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
            ),
        };
        if is_told {
            self.last.store(ENDED, Ordering::Relaxed);
        }
    }

    /// When it was last heard, unless it has ended the connection itself.
    pub(super) fn silent_since(&self) -> Option<Instant> {
        match self.last.load(Ordering::Relaxed) {
            ENDED => None,
            nanos => Some(self.began + Duration::from_nanos(nanos)),
        }
    }
}
