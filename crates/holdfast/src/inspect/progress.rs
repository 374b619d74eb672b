//! How far a long look has come, for whoever waits at a terminal.

use std::cell::Cell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use crate::output::{Output, bytes};

/// How often it is told.
const INTERVAL: Duration = Duration::from_secs(5);

/// Counts bytes, and tells from time to time.
#[derive(Debug)]
pub(crate) struct Progress {
    output: Output,
    is_watched: bool,
    told: Cell<Instant>,
    what: Cell<&'static str>,
    total: Cell<u64>,
    done: Cell<u64>,
}

impl Progress {
    pub(crate) fn new(output: Output) -> Self {
        Self {
            output,
            is_watched: std::io::stderr().is_terminal(),
            told: Cell::new(Instant::now()),
            what: Cell::new(""),
            total: Cell::new(0),
            done: Cell::new(0),
        }
    }

    /// About so many bytes are going to be read.
    pub(crate) fn begin(&self, what: &'static str, total: u64) {
        self.what.set(what);
        self.total.set(total);
        self.done.set(0);
    }

    /// So many of them have been.
    pub(crate) fn add(&self, count: u64) {
        self.done.set(self.done.get() + count);
        if self.is_watched && self.told.get().elapsed() >= INTERVAL {
            self.told.set(Instant::now());
            self.output.talk(&format!(
                "{}: {} of about {}",
                self.what.get(),
                bytes(self.done.get()),
                bytes(self.total.get())
            ));
        }
    }
}
