//! What the client has asked, what it still has to ask, and which watches it keeps: everything but
//! the connection itself.
//!
//! Tokens on the wire are drawn here, anew for each frame and rising: an answer to a request of an
//! earlier connection, or to a watch that was ended, finds nobody.
//!
//! Invariants:
//! - each watch is known to the server under one wire token at most;
//! - `next` of a watch is the first revision that has not been told to its user.

use std::collections::{BTreeMap, VecDeque};

use holdfast_model::metadata::{
    MetadataAnswer, MetadataError, MetadataRequest, MetadataToken, Revision, Selector, Transaction,
    TransactionOutcome,
};
use tokio::time::Instant;

use super::{REQUEST_PATIENCE, REQUESTS_WAITING_MAX};
use crate::frame::ClientFrame;
use crate::limits;
use crate::server::REQUESTS_IN_FLIGHT_MAX;

/// An answer for the session's user.
pub(super) type Told = (MetadataToken, MetadataAnswer);

#[derive(Debug)]
struct Watch {
    selector: Selector,
    next: Revision,
    wire: Option<MetadataToken>,
}

/// Whom an answer on the wire is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    /// The user, who asked under this token.
    Request(MetadataToken),
    /// The user's watch of this token.
    Watch(MetadataToken),
    /// Nobody but us: the connection lives, and this is the store's revision.
    Ping,
}

#[derive(Debug)]
struct Waiting {
    until: Instant,
    token: MetadataToken,
    request: MetadataRequest,
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
}

impl Ledger {
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

    /// A connection begins.
    pub(super) fn connect(&mut self) {
        assert!(
            self.askers.is_empty(),
            "the last connection's requests were answered"
        );
        assert!(
            self.frames.is_empty(),
            "the last connection's frames are gone"
        );
        self.connected = true;
        let tokens: Vec<_> = self.watches.keys().copied().collect();
        for token in tokens {
            self.begin_watch(token);
        }
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
                Asker::Watch(_) | Asker::Ping => None,
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
        if !self.askers.values().any(|asker| *asker == Asker::Ping) {
            let request = MetadataRequest::Transact(Transaction::default());
            self.send(Asker::Ping, request);
        }
    }

    /// The next frame for the connection.
    pub(super) fn next_frame(&mut self) -> Option<ClientFrame> {
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
        let Waiting { token, request, .. } = self.waiting.pop_front()?;
        self.send(Asker::Request(token), request);
        self.frames.pop_front()
    }

    /// The server answers.
    pub(super) fn answered(&mut self, wire: MetadataToken, answer: MetadataAnswer) -> Option<Told> {
        match *self.askers.get(&wire)? {
            Asker::Request(token) => {
                self.askers.remove(&wire);
                Some((token, answer))
            }
            Asker::Ping => {
                self.askers.remove(&wire);
                if let MetadataAnswer::Transacted(outcome) = answer {
                    self.caught_up(wire, &outcome);
                }
                None
            }
            Asker::Watch(token) => {
                self.watch_answered(token, &answer);
                Some((token, answer))
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
        self.watches.get_mut(&token).expect("it was there").wire = Some(wire);
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
