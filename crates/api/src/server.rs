//! The door: connections in, requests to the router.
//!
//! Invariants:
//! - there are so many connections at most, and each ends when it stands still for too long;
//! - every request carries the [`Peer`] that it came from.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutStream;

use crate::{Peer, Problem, ProblemKind};

/// Connections at a time: people, scripts and the other nodes of a cluster. One more waits to be
/// accepted.
pub const CONNECTIONS_MAX: usize = 128;
/// How long a connection may be idle between requests, or take to send a request's head.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// How long a client may take to receive anything of an answer.
const SEND_MAX: Duration = Duration::from_secs(10);
/// How long a request may take. Making the largest volume takes about 20 s, and 40 s if nodes are slow.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);
/// Bytes of requests that a connection buffers at most.
const BUFFER_BYTES_MAX: usize = 16 << 10;
/// How long the server waits where the process has run out of something, such as open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves `router` to whoever connects, until it is dropped; all connections end with it.
pub async fn serve(listener: TcpListener, router: Router) -> Infallible {
    let router = router.layer(middleware::from_fn(within_time));
    let mut connections = JoinSet::new();
    loop {
        let has_room = connections.len() < CONNECTIONS_MAX;
        tokio::select! {
            accepted = listener.accept(), if has_room => match accepted {
                Ok((stream, address)) => {
                    let peer = Peer { address, node: None };
                    connections.spawn(converse(stream, peer, router.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "accept an API connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn converse(stream: TcpStream, peer: Peer, router: Router) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer);
        router.call(request)
    });
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(SEND_MAX));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    // Whatever ended it, there is nobody to tell.
    let _ = connection.await;
}

async fn within_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(REQUEST_TIME_MAX, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::new(ProblemKind::Unavailable, "the answer took too long")
            .hint(
                "what was asked for may have been done, or may still be: look before you repeat it",
            )
            .into_response(),
    }
}
