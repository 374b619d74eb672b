//! What ends the demo from outside.

use std::future::poll_fn;
use std::task::Poll;

use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};

use crate::failure::Failure;

/// SIGINT, SIGTERM, and the end of the terminal.
pub(crate) struct Signals {
    streams: [SignalStream; 3],
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::new(format!("listen for signals: {error}")))
        };
        let streams = [
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ];
        Ok(Self { streams })
    }

    /// Waits for the next. May be cancelled.
    pub(crate) async fn next(&mut self) {
        poll_fn(|context| {
            // Each is asked, so that each wakes this.
            let ready = self
                .streams
                .iter_mut()
                .map(|stream| stream.poll_recv(context).is_ready());
            if ready.fold(false, |any, one| any | one) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}
