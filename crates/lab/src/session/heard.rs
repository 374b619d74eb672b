//! When a target was last heard, for hosts that have to know how long it may still do what it was sent.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Shared by a session's handles and its task.
#[derive(Debug)]
pub(super) struct Heard {
    began: Instant,
    /// Nanoseconds after that.
    last: AtomicU64,
    /// The last word was that the connection ends.
    is_end: AtomicBool,
}

/// The last that was heard of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastWord {
    /// When.
    pub at: Instant,
    /// The target itself has ended the connection with it.
    pub is_end: bool,
}

impl Heard {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            last: AtomicU64::new(0),
            is_end: AtomicBool::new(false),
        }
    }

    /// Something came.
    pub(super) fn note(&self) {
        let nanos = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
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
            self.note();
            self.is_end.store(true, Ordering::Release);
        }
    }

    pub(super) fn last_word(&self) -> LastWord {
        let is_end = self.is_end.load(Ordering::Acquire);
        let at = self.began + Duration::from_nanos(self.last.load(Ordering::Relaxed));
        LastWord { at, is_end }
    }
}
