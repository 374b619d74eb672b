//! What is asked of a log: so many of those lines that are wanted, from memory, or from the files.
//!
//! Invariants:
//! - the files are looked through for one question at a time, and to the end, also if whoever asked has gone;
//! - each line is found once, in whatever order they come.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::{Line, LineLog};

/// What is asked for.
pub(crate) trait Question: Clone {
    /// Of what.
    type Line: Line;
    /// Where a line stands among those that are told: the least is told first.
    type Place: Ord + Clone + fmt::Debug;

    fn place(line: &Self::Line) -> Self::Place;

    /// Whether a line is asked for, however many others are.
    fn wants(&self, line: &Self::Line) -> bool;

    /// How many lines are told at most.
    fn count_max(&self) -> usize;
}

/// What was found of what is asked for: those that are told first, each once.
#[derive(Clone, Debug)]
pub(crate) struct Found<Q: Question> {
    question: Q,
    lines: BTreeMap<Q::Place, Q::Line>,
}

impl<Q: Question> Found<Q> {
    pub(crate) fn new(question: &Q) -> Self {
        Self {
            question: question.clone(),
            lines: BTreeMap::new(),
        }
    }

    pub(crate) const fn question(&self) -> &Q {
        &self.question
    }

    pub(crate) fn take(&mut self, line: &Q::Line) {
        if !self.question.wants(line) {
            return;
        }
        self.lines.insert(Q::place(line), line.clone());
        if self.lines.len() > self.question.count_max() {
            self.lines.pop_last();
        }
    }

    /// Whether there are as many as are told: only what is told before the last of them changes that.
    pub(crate) fn is_full(&self) -> bool {
        self.lines.len() >= self.question.count_max()
    }

    /// The one that is told last.
    pub(crate) fn last(&self) -> Option<&Q::Line> {
        self.lines.values().next_back()
    }

    /// What is told, in order.
    pub(crate) fn told(self) -> Vec<Q::Line> {
        self.lines.into_values().collect()
    }
}

/// Held by whoever has the files looked through.
#[derive(Debug)]
pub(crate) struct Turn {
    _place: OwnedSemaphorePermit,
}

impl<T: Line> LineLog<T> {
    /// Waits until nobody else has the files looked through.
    pub(crate) async fn turn(&self) -> Turn {
        let place = Arc::clone(&self.turns).acquire_owned().await;
        Turn {
            _place: place.expect("nobody closes it"),
        }
    }

    /// What comes of a look at the files, on a thread that may wait for a disk. The next one waits until it has ended.
    ///
    /// # Errors
    /// What `look` says.
    pub(crate) async fn within<R: Send + 'static>(
        &self,
        turn: Turn,
        look: impl FnOnce() -> io::Result<R> + Send + 'static,
    ) -> io::Result<R> {
        let looked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            look()
        });
        looked.await.map_err(io::Error::other)?
    }

    /// What is asked for, out of the files. It waits for a disk, and so has a thread of its own.
    ///
    /// # Errors
    /// The files cannot be read.
    pub(crate) fn in_files<Q: Question<Line = T>>(&self, question: &Q) -> io::Result<Found<Q>> {
        let mut found = Found::new(question);
        self.each_in_order(|line| found.take(line))?;
        // What waits to be written is in memory only.
        self.newest().iter().for_each(|line| found.take(line));
        Ok(found)
    }
}
