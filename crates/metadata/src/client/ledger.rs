//! What the client has asked, what it still has to ask, and which watches it keeps: everything but
//! the connection itself.
//!
//! Tokens on the wire are drawn here, anew for each frame and rising: an answer to a request of an
//! earlier connection, or to a watch that was ended, finds nobody.
//!
//! Invariants:
//! - each watch is known to the server under one wire token at most;
//! - `next` of a watch is the first revision that has not been told to its user;
//! - a change is sent to a store that has answered within [`QUIET_MAX`], and to no other: whoever does not
//!   hear what becomes of a change makes none;
//! - `seen` never falls, unless the store has gone back: then every watch is ended, because revisions
//!   that were told will be given again.

use std::collections::{BTreeMap, VecDeque};

use holdfast_model::metadata::{
    MetadataAnswer, MetadataError, MetadataRequest, MetadataToken, Revision, Selector, Transaction,
    TransactionOutcome,
};
use holdfast_stdx::Duration;
use tokio::time::Instant;

use super::way::Origin;
pub(super) use super::way::Told;
use super::{REQUEST_PATIENCE, REQUESTS_WAITING_MAX};
use crate::frame::ClientFrame;
use crate::limits;
use crate::server::REQUESTS_IN_FLIGHT_MAX;

/// How long ago the last answer may have come when a change is sent; else a look goes first. It is less than
/// anybody is waited for before he is taken for lost (500 ms), so that a node which hears nobody does not take
/// those out who would take over from it: what it sends may well arrive.
const QUIET_MAX: Duration = Duration::from_millis(300);

#[derive(Debug)]
struct Watch {
    selector: Selector,
    next: Revision,
    wire: Option<MetadataToken>,
    /// On an earlier connection.
    has_begun: bool,
}

/// Whom an answer on the wire is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    /// The user, who asked under this token.
    Request(MetadataToken),
    /// The user's watch of this token.
    Watch(MetadataToken),
    /// Nobody but us: the connection lives, and this is the store's revision. The one that had been
    /// seen when it was asked.
    Ping(Revision),
}

#[derive(Debug)]
struct Waiting {
    until: Instant,
    token: MetadataToken,
    request: MetadataRequest,
}

impl Waiting {
    fn is_change(&self) -> bool {
        matches!(&self.request, MetadataRequest::Transact(transaction) if !transaction.is_read())
    }
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    wire_last: u64,
    waiting: VecDeque<Waiting>,
    /// Of the present connection.
    askers: BTreeMap<MetadataToken, Asker>,
    watches: BTreeMap<MetadataToken, Watch>,
    /// Frames for the present connection, in their order.
    frames: VecDeque<ClientFrame>,
    connected: bool,
    /// When the store last answered on the present connection.
    heard: Option<Instant>,
    /// Whether answers come in the order of what the store did.
    in_order: bool,
    /// Which store it was, if it has a name.
    store: Option<u64>,
    /// The highest revision that was answered.
    seen: Revision,
}

impl Ledger {
    pub(super) fn new(in_order: bool) -> Self {
        Self {
            in_order,
            ..Self::default()
        }
    }

    /// The user asks. Tells an answer that can be given at once.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        token: MetadataToken,
        request: MetadataRequest,
    ) -> Option<Told> {
        let refusal = |error| Some((token, MetadataAnswer::Failed(error)));
        if let Err(error) = limits::validate(&request) {
            return refusal(error);
        }
        match request {
            MetadataRequest::Watch { selector, from } => {
                if self.watches.contains_key(&token)
                    || self.watches.len() >= limits::WATCHES_PER_CLIENT_MAX
                {
                    return refusal(MetadataError::Invalid);
                }
                self.watches.insert(
                    token,
                    Watch {
                        selector,
                        next: from,
                        wire: None,
                        has_begun: false,
                    },
                );
                if self.connected {
                    self.begin_watch(token);
                }
                None
            }
            MetadataRequest::Unwatch => {
                self.end_watch(token);
                None
            }
            request => {
                if self.waiting.len() >= REQUESTS_WAITING_MAX {
                    return refusal(MetadataError::Unavailable);
                }
                let until = now + REQUEST_PATIENCE;
                self.waiting.push_back(Waiting {
                    until,
                    token,
                    request,
                });
                None
            }
        }
    }

    /// A connection begins, with a store that says so much of itself. Tells which watches end by that, and which go on.
    pub(super) fn connect(&mut self, now: Instant, origin: Option<Origin>) -> Vec<Told> {
        assert!(
            self.askers.is_empty(),
            "the last connection's requests were answered"
        );
        assert!(
            self.frames.is_empty(),
            "the last connection's frames are gone"
        );
        self.connected = true;
        self.heard = Some(now);
        let mut told = origin.map_or_else(Vec::new, |origin| self.found(origin));
        if self.watches.values().any(|watch| watch.has_begun) {
            told.extend(self.refuse_changes());
        }
        let tokens: Vec<_> = self.watches.keys().copied().collect();
        for token in tokens {
            if self.watches[&token].has_begun {
                told.push((token, MetadataAnswer::WatchResumed));
            }
            self.begin_watch(token);
        }
        told
    }

    /// Changes that were asked before anybody knew of this connection are not sent on it: whoever watches has to see first
    /// what answers there.
    fn refuse_changes(&mut self) -> Vec<Told> {
        let waiting = std::mem::take(&mut self.waiting);
        let (changes, rest) = waiting.into_iter().partition(Waiting::is_change);
        self.waiting = rest;
        let changes: VecDeque<Waiting> = changes;
        let refused = changes.into_iter();
        refused.map(|change| unavailable(change.token)).collect()
    }

    /// What the store is, and where.
    fn found(&mut self, origin: Origin) -> Vec<Told> {
        let is_other = self.store.is_some_and(|known| known != origin.store);
        self.store = Some(origin.store);
        if is_other || origin.revision < self.seen {
            return self.gone_back(origin.revision);
        }
        self.seen = origin.revision;
        Vec::new()
    }

    /// The store is at a revision that tells nothing of what it told before.
    fn gone_back(&mut self, revision: Revision) -> Vec<Told> {
        self.seen = revision;
        let tokens: Vec<_> = self.watches.keys().copied().collect();
        let ended = MetadataAnswer::WatchEnded(MetadataError::Unavailable);
        tokens
            .into_iter()
            .map(|token| {
                self.end_watch(token);
                (token, ended.clone())
            })
            .collect()
    }

    /// The connection is over: what was asked on it is unknown for ever.
    pub(super) fn disconnect(&mut self) -> Vec<Told> {
        self.connected = false;
        self.frames.clear();
        for watch in self.watches.values_mut() {
            watch.wire = None;
        }
        std::mem::take(&mut self.askers)
            .into_values()
            .filter_map(|asker| match asker {
                Asker::Request(token) => Some(unavailable(token)),
                Asker::Watch(_) | Asker::Ping(_) => None,
            })
            .collect()
    }

    /// The requests that nobody has taken in time.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Told> {
        let late = self
            .waiting
            .iter()
            .take_while(|waiting| waiting.until <= now)
            .count();
        self.waiting
            .drain(..late)
            .map(|waiting| unavailable(waiting.token))
            .collect()
    }

    /// When [`Ledger::expire`] has something to do.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.waiting.front().map(|waiting| waiting.until)
    }

    /// Asks whether the connection lives, unless that is being asked already.
    pub(super) fn ping(&mut self) {
        assert!(self.connected, "a connection is asked whether it lives");
        let is_asking = |asker: &Asker| matches!(asker, Asker::Ping(_));
        if !self.askers.values().any(is_asking) {
            let request = MetadataRequest::Transact(Transaction::default());
            self.send(Asker::Ping(self.seen), request);
        }
    }

    /// The next frame for the connection.
    pub(super) fn next_frame(&mut self, now: Instant) -> Option<ClientFrame> {
        assert!(self.connected, "frames are for a connection");
        if let Some(frame) = self.frames.pop_front() {
            return Some(frame);
        }
        let in_flight = self
            .askers
            .values()
            .filter(|asker| !matches!(asker, Asker::Watch(_)))
            .count();
        // One place is kept for the ping.
        if in_flight >= REQUESTS_IN_FLIGHT_MAX - 1 {
            return None;
        }
        let is_quiet = self.heard.is_none_or(|heard| heard + QUIET_MAX < now);
        if is_quiet && self.waiting.front().is_some_and(Waiting::is_change) {
            self.ping();
            return self.frames.pop_front();
        }
        let Waiting { token, request, .. } = self.waiting.pop_front()?;
        self.send(Asker::Request(token), request);
        self.frames.pop_front()
    }

    /// The server answers.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        wire: MetadataToken,
        answer: MetadataAnswer,
    ) -> Vec<Told> {
        let Some(asker) = self.askers.get(&wire).copied() else {
            return Vec::new();
        };
        if matches!(answer, MetadataAnswer::Transacted(_)) {
            self.heard = Some(now);
        }
        if let MetadataAnswer::Transacted(TransactionOutcome { revision, .. })
        | MetadataAnswer::Watched { revision, .. } = &answer
        {
            self.seen = self.seen.max(*revision);
        }
        match asker {
            Asker::Request(token) => {
                self.askers.remove(&wire);
                vec![(token, answer)]
            }
            Asker::Ping(asked_at) => {
                self.askers.remove(&wire);
                match answer {
                    MetadataAnswer::Transacted(outcome) if outcome.revision < asked_at => {
                        self.gone_back(outcome.revision)
                    }
                    MetadataAnswer::Transacted(outcome) => {
                        self.caught_up(wire, &outcome);
                        Vec::new()
                    }
                    _ => Vec::new(),
                }
            }
            Asker::Watch(token) => {
                self.watch_answered(token, &answer);
                vec![(token, answer)]
            }
        }
    }

    fn watch_answered(&mut self, token: MetadataToken, answer: &MetadataAnswer) {
        if let MetadataAnswer::Watched { revision, .. } = answer {
            let watch = self
                .watches
                .get_mut(&token)
                .expect("an asker's watch is kept");
            watch.next = watch.next.max(Revision(revision.0 + 1));
        } else if let Some(Watch {
            wire: Some(wire), ..
        }) = self.watches.remove(&token)
        {
            self.askers.remove(&wire);
        }
    }

    /// Answers come in order: what the watches that were begun before the ping have not been told
    /// of up to its revision has not happened.
    fn caught_up(&mut self, ping: MetadataToken, outcome: &TransactionOutcome) {
        if !self.in_order {
            return;
        }
        for watch in self.watches.values_mut() {
            if watch.wire.is_some_and(|wire| wire < ping) {
                watch.next = watch.next.max(Revision(outcome.revision.0 + 1));
            }
        }
    }

    fn begin_watch(&mut self, token: MetadataToken) {
        let watch = &self.watches[&token];
        assert!(
            watch.wire.is_none(),
            "a watch is begun once on a connection"
        );
        let request = MetadataRequest::Watch {
            selector: watch.selector.clone(),
            from: watch.next,
        };
        let wire = self.send(Asker::Watch(token), request);
        let watch = self.watches.get_mut(&token).expect("it was there");
        watch.wire = Some(wire);
        watch.has_begun = true;
    }

    fn end_watch(&mut self, token: MetadataToken) {
        if let Some(Watch {
            wire: Some(wire), ..
        }) = self.watches.remove(&token)
        {
            self.askers.remove(&wire);
            let request = MetadataRequest::Unwatch;
            self.frames.push_back(ClientFrame::Request {
                token: wire,
                request,
            });
        }
    }

    fn send(&mut self, asker: Asker, request: MetadataRequest) -> MetadataToken {
        self.wire_last += 1;
        let token = MetadataToken(self.wire_last);
        self.askers.insert(token, asker);
        self.frames
            .push_back(ClientFrame::Request { token, request });
        token
    }
}

fn unavailable(token: MetadataToken) -> Told {
    (token, MetadataAnswer::Failed(MetadataError::Unavailable))
}

#[cfg(test)]
mod tests;
