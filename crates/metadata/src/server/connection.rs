//! One connection of the server.
//!
//! Invariants:
//! - nothing reaches the store before the hello has been found good;
//! - a token names one request at a time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use holdfast_model::metadata::{MetadataRequest, MetadataToken};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::{Door, REQUESTS_IN_FLIGHT_MAX, refuse_slowly};
use crate::frame::{self, ClientFrame, FrameError, Refusal, ServerFrame};
use crate::session::{Answers, Requests, Session, Store};

pub(super) async fn run(stream: TcpStream, store: Arc<dyn Store>, door: Arc<Door>) {
    let peer = stream
        .peer_addr()
        .map_or_else(|_| "unknown".to_owned(), |peer| peer.to_string());
    // Without it, small answers would wait for acknowledgements of earlier ones. Where it cannot
    // be had, the connection is slower and right.
    let _ = stream.set_nodelay(true);
    let (mut source, mut target) = stream.into_split();
    let greeted = match timeout(door.silence_max, greet(&mut source, &door)).await {
        Ok(greeted) => greeted,
        Err(_) => Err(Some(Refusal::TooSlow)),
    };
    if let Err(refusal) = greeted {
        if let Some(refusal) = refusal {
            tracing::warn!(peer, %refusal, "refuse a metadata connection");
            refuse_slowly(&mut target, refusal).await;
        }
        return;
    }
    let Session { requests, answers } = store.session();
    let in_flight = InFlight::default();
    let (refused, refusal) = oneshot::channel();
    let reading = async {
        let end = read_requests(source, &requests, &in_flight, &door).await;
        // The writer knows whether it is within a frame: it says the last word.
        let _ = refused.send(end);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = reading => {}
        () = write_answers(target, answers, &in_flight, refusal, &door) => {}
    }
    tracing::debug!(peer, "metadata connection ended");
}

/// Takes the hello. Without a refusal there is nobody to tell.
async fn greet(source: &mut OwnedReadHalf, door: &Door) -> Result<(), Option<Refusal>> {
    let hello = frame::read_frame::<ClientFrame>(source, frame::HELLO_BYTES_MAX).await;
    match hello {
        Ok(ClientFrame::Hello {
            version,
            cluster,
            access_token,
        }) => {
            if version != frame::VERSION {
                Err(Some(Refusal::Version(frame::VERSION)))
            } else if cluster != door.cluster {
                Err(Some(Refusal::Cluster(door.cluster)))
            } else if !same_secret(access_token.as_bytes(), door.access_token.as_bytes()) {
                Err(Some(Refusal::AccessToken))
            } else {
                Ok(())
            }
        }
        Err(FrameError::Io(_) | FrameError::Closed) => Err(None),
        Ok(ClientFrame::Request { .. })
        | Err(FrameError::TooLong(_) | FrameError::Checksum | FrameError::Body(_)) => {
            Err(Some(Refusal::Malformed))
        }
    }
}

/// Compares in a time that depends on the lengths only.
fn same_secret(left: &[u8], right: &[u8]) -> bool {
    let differing = left
        .iter()
        .zip(right)
        .fold(0, |seen, (left, right)| seen | (left ^ right));
    left.len() == right.len() && differing == 0
}

/// Passes requests on until there are no more; tells why, if there is somebody to tell.
async fn read_requests(
    mut source: OwnedReadHalf,
    requests: &Requests,
    in_flight: &InFlight,
    door: &Door,
) -> Option<Refusal> {
    loop {
        in_flight.room().await;
        let read = frame::read_frame::<ClientFrame>(&mut source, frame::REQUEST_BYTES_MAX);
        match timeout(door.silence_max, read).await {
            Err(_) => return Some(Refusal::TooSlow),
            Ok(Ok(ClientFrame::Request { token, request })) => {
                let answered_once = match request {
                    MetadataRequest::Watch { .. } | MetadataRequest::Unwatch => false,
                    MetadataRequest::Transact(_)
                    | MetadataRequest::Grant { .. }
                    | MetadataRequest::KeepAlive(_)
                    | MetadataRequest::Revoke(_) => true,
                };
                if answered_once && !in_flight.begin(token) {
                    return Some(Refusal::Malformed);
                }
                requests.submit(token, request);
            }
            Ok(Err(FrameError::Io(_) | FrameError::Closed)) => return None,
            Ok(
                Ok(ClientFrame::Hello { .. })
                | Err(FrameError::TooLong(_) | FrameError::Checksum | FrameError::Body(_)),
            ) => return Some(Refusal::Malformed),
        }
    }
}

/// Passes answers on until the session ends, the client takes no more, or the reader has ended.
async fn write_answers(
    mut target: OwnedWriteHalf,
    mut answers: Answers,
    in_flight: &InFlight,
    mut refusal: oneshot::Receiver<Option<Refusal>>,
    door: &Door,
) {
    let welcome = ServerFrame::Welcome {
        version: frame::VERSION,
    };
    let mut bytes = frame::to_frame(&welcome);
    loop {
        match timeout(door.silence_max, target.write_all(&bytes)).await {
            Ok(Ok(())) => {}
            // Within a frame there is no way to say why.
            Ok(Err(_)) | Err(_) => return,
        }
        let (token, answer) = tokio::select! {
            answer = answers.recv() => match answer {
                Some(answer) => answer,
                None => return,
            },
            end = &mut refusal => {
                if let Ok(Some(refusal)) = end {
                    tracing::warn!(%refusal, "end a metadata connection");
                    refuse_slowly(&mut target, refusal).await;
                }
                return;
            }
        };
        in_flight.end(token);
        bytes = frame::to_frame(&ServerFrame::Answer { token, answer });
    }
}

/// The requests that are being carried out, and are answered once.
#[derive(Debug, Default)]
struct InFlight {
    tokens: Mutex<BTreeSet<MetadataToken>>,
    ended: Notify,
}

impl InFlight {
    /// Whether the token was free.
    fn begin(&self, token: MetadataToken) -> bool {
        self.tokens
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(token)
    }

    fn end(&self, token: MetadataToken) {
        if self
            .tokens
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&token)
        {
            self.ended.notify_one();
        }
    }

    async fn room(&self) {
        let full = || {
            let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
            tokens.len() >= REQUESTS_IN_FLIGHT_MAX
        };
        while full() {
            self.ended.notified().await;
        }
    }
}
