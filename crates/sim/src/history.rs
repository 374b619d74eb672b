//! What the hosts asked and what they were told, in one order.
//!
//! Invariant: an attempt ends once; one that its host has given up and repeated ends when the next
//! attempt is sent: what it was to do must be done by then, or never.

use std::collections::BTreeMap;
use std::fmt;

use crate::content::Value;

/// A place in the order of everything that hosts saw.
pub type Order = u64;

/// Sectors of a volume, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sectors {
    /// Which volume.
    pub volume: usize,
    /// The first sector.
    pub first: u64,
    /// How many.
    pub count: u64,
}

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To write the value; zero to clear.
    Write(Value),
    /// To read.
    Read,
}

impl fmt::Display for Asked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(0) => formatter.write_str("clear"),
            Self::Write(value) => write!(formatter, "write {value:x} to"),
            Self::Read => formatter.write_str("read"),
        }
    }
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Not at all, so far.
    No,
    /// The host was told that it is done; a read brought these values.
    Done(Order, Vec<Value>),
    /// The host gave it up, and repeated it or let it be.
    GivenUp(Order),
}

/// One command, sent once.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Who sent it.
    pub host: usize,
    /// Over which path.
    pub path: usize,
    /// Where.
    pub sectors: Sectors,
    /// What.
    pub asked: Asked,
    /// When it was sent.
    pub sent: Order,
    /// How it ended.
    pub ended: Ended,
    /// Its host has lost the right to write by then: it was applied before that, or never.
    pub fenced: Option<Order>,
}

/// Names an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttemptId(pub usize);

/// What has happened to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Sent(AttemptId),
    Done(AttemptId),
    GivenUp(AttemptId),
}

/// Everything.
#[derive(Debug, Default)]
pub struct History {
    attempts: Vec<Attempt>,
    order: Order,
    news: Vec<News>,
    /// Hosts that have no right to write, and since when.
    fenced: BTreeMap<usize, Order>,
}

impl History {
    fn next(&mut self) -> Order {
        self.order += 1;
        self.order
    }

    /// A command is sent.
    pub fn send(&mut self, host: usize, path: usize, sectors: Sectors, asked: Asked) -> AttemptId {
        let sent = self.next();
        self.attempts.push(Attempt {
            host,
            path,
            sectors,
            asked,
            sent,
            ended: Ended::No,
            fenced: self.fenced.get(&host).copied(),
        });
        let attempt = AttemptId(self.attempts.len() - 1);
        self.news.push(News::Sent(attempt));
        attempt
    }

    /// Its host is told that it is done.
    pub fn done(&mut self, attempt: AttemptId, values: Vec<Value>) {
        let order = self.next();
        let ended = &mut self.attempts[attempt.0].ended;
        assert!(*ended == Ended::No, "an attempt ends once");
        *ended = Ended::Done(order, values);
        self.news.push(News::Done(attempt));
    }

    /// Its host repeats it elsewhere, right after this.
    pub fn give_up(&mut self, attempt: AttemptId) {
        let order = self.next();
        let ended = &mut self.attempts[attempt.0].ended;
        assert!(*ended == Ended::No, "an attempt ends once");
        *ended = Ended::GivenUp(order);
        self.news.push(News::GivenUp(attempt));
    }

    /// A host has lost the right to write: what it has sent is over, and what it sends must be refused.
    pub fn fence(&mut self, host: usize) {
        let order = self.next();
        self.fenced.insert(host, order);
        let attempts = self.attempts.iter_mut();
        for attempt in attempts.filter(|attempt| attempt.host == host) {
            attempt.fenced.get_or_insert(order);
        }
    }

    /// It may have the right again.
    pub fn unfence(&mut self, host: usize) {
        self.fenced.remove(&host);
    }

    /// What has happened since this was last asked.
    pub(crate) fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// One of the attempts.
    pub(crate) fn attempt(&self, attempt: AttemptId) -> &Attempt {
        &self.attempts[attempt.0]
    }

    /// All attempts, in the order in which they were sent.
    #[must_use]
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// Commands that were done.
    #[must_use]
    pub fn done_count(&self) -> usize {
        let done = |attempt: &&Attempt| matches!(attempt.ended, Ended::Done(..));
        self.attempts.iter().filter(done).count()
    }
}
