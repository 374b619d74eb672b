//! A stream of events, on its way to one listener.
//!
//! Invariants:
//! - it is bounded: whoever fills it does not wait for the listener, and ends the stream where it has no room.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::mpsc;
use tokio_stream::Stream;

use crate::documents::Event;

/// Events that wait for a listener at most, beside those that it has missed: it is a moment late, not more.
const WAITING_MAX: usize = 4096;

/// Where one listener's events come out.
#[derive(Debug)]
pub struct Listener {
    missed: VecDeque<Arc<Event>>,
    live: mpsc::Receiver<Arc<Event>>,
}

/// Where they go in.
#[derive(Clone, Debug)]
pub struct Teller(mpsc::Sender<Arc<Event>>);

impl Listener {
    /// One who is told first what it has missed.
    #[must_use]
    pub fn new(missed: VecDeque<Arc<Event>>) -> (Teller, Self) {
        let (sender, live) = mpsc::channel(WAITING_MAX);
        (Teller(sender), Self { missed, live })
    }
}

impl Teller {
    /// Tells the listener. False if it has gone, or is so slow that it is told nothing more.
    #[must_use]
    pub fn tell(&self, event: &Arc<Event>) -> bool {
        self.0.try_send(Arc::clone(event)).is_ok()
    }

    /// Whether nobody listens any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.0.is_closed()
    }
}

impl Stream for Listener {
    type Item = Arc<Event>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Arc<Event>>> {
        if let Some(event) = self.missed.pop_front() {
            return Poll::Ready(Some(event));
        }
        Poll::Ready(ready!(self.live.poll_recv(context)))
    }
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt as _;

    use super::*;
    use crate::documents::{EventKind, EventSeverity};

    fn event(id: usize) -> Arc<Event> {
        Arc::new(Event {
            id: id.to_string(),
            at_ms: 0,
            kind: EventKind::Settings,
            severity: EventSeverity::Info,
            subject: String::new(),
            detail: String::new(),
            not_before_ms: None,
        })
    }

    #[tokio::test]
    async fn a_listener_that_does_not_listen_is_cut_off() {
        let (teller, mut listener) = Listener::new(VecDeque::from([event(0)]));
        for id in 1..=WAITING_MAX {
            assert!(teller.tell(&event(id)));
        }
        assert!(!teller.tell(&event(WAITING_MAX + 1)));
        drop(teller);
        for id in 0..=WAITING_MAX {
            assert_eq!(listener.next().await.unwrap().id, id.to_string());
        }
        assert!(listener.next().await.is_none(), "the stream is over");
        let (teller, listener) = Listener::new(VecDeque::new());
        drop(listener);
        assert!(teller.is_over() && !teller.tell(&event(0)));
    }
}
