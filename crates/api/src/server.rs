//! The door: connections in, requests to the router.
//!
//! Invariants:
//! - there are so many connections at most, and each ends when it stands still for too long;
//! - nobody is kept out by others that have connected: `server/places.rs`;
//! - every request carries the [`Peer`] that it came from;
//! - where the interface speaks TLS, nothing is answered without it but that it is wanted;
//! - no answer leaves without what `strict.rs` says to browsers.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::middleware;
use holdfast_tls::{AcceptError, Acceptor};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_io_timeout::TimeoutStream;

mod crowd;
mod places;

pub(crate) use self::places::Vouched;
pub use self::places::{CONNECTIONS_MAX, NODES_MAX};
use self::places::{Place, Places};
use crate::strict::{Strict, strictly};
use crate::{Peer, Problem, ProblemKind};

/// Connections that there are at most, beside those that have a place: they are being ended, which takes no time. One more waits to be
/// accepted.
const ENDING_MAX: usize = 64;
/// Open connections at most.
pub const OPEN_MAX: usize = CONNECTIONS_MAX + NODES_MAX + ENDING_MAX;
/// How long a connection may be idle between requests, or take to send a request's head.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// How long a client may take to receive anything of an answer.
const SEND_MAX: Duration = Duration::from_secs(10);
/// How long a client may take to shake hands.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);
/// How long one that speaks no TLS may take to hear that it is wanted, and to leave.
const TURN_AWAY_TIME_MAX: Duration = Duration::from_secs(1);
/// How much of what it sends is read meanwhile: what is left unread would take the answer with it.
const TURN_AWAY_BYTES_MAX: u64 = 64 << 10;
/// Bytes of requests that a connection buffers at most.
const BUFFER_BYTES_MAX: usize = 16 << 10;
/// How long the server waits where the process has run out of something, such as open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves `router` to whoever connects, without TLS, until it is dropped; all connections end with it.
pub async fn serve(listener: TcpListener, router: Router) -> Infallible {
    serve_over(listener, router, None).await
}

/// Serves `router` over TLS, or without it if there is nothing to accept it with, until it is dropped; all connections end with it.
pub async fn serve_over(
    listener: TcpListener,
    router: Router,
    acceptor: Option<Acceptor>,
) -> Infallible {
    let strict = Strict {
        is_tls: acceptor.is_some(),
    };
    let router = router.layer(middleware::from_fn_with_state(strict, strictly));
    let places = Places::new(strict.is_tls);
    let mut connections = JoinSet::new();
    loop {
        let has_room = connections.len() < OPEN_MAX;
        tokio::select! {
            accepted = listener.accept(), if has_room => match accepted {
                Ok((stream, address)) => {
                    let place = places.enter(address.ip());
                    let number = place.number();
                    let admitted = admit(stream, (address, place), router.clone(), acceptor.clone());
                    places.serve(number, connections.spawn(admitted));
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

async fn admit(
    stream: TcpStream,
    (address, place): (SocketAddr, Place),
    router: Router,
    acceptor: Option<Acceptor>,
) {
    let Some(acceptor) = acceptor else {
        let node = None;
        return converse(stream, (Peer { address, node }, place), router).await;
    };
    match timeout(HANDSHAKE_TIME_MAX, acceptor.accept(stream)).await {
        Ok(Ok((stream, node))) => {
            if let Some(node) = node {
                place.note_node(node).await;
            }
            let node = node.map(|node| node.0);
            converse(stream, (Peer { address, node }, place), router).await;
        }
        Ok(Err(AcceptError::Plain(stream))) => {
            tracing::debug!(%address, "an API connection without TLS");
            // Whoever does not wait for it is not told.
            let _ = timeout(TURN_AWAY_TIME_MAX, turn_away(stream)).await;
        }
        Ok(Err(error)) => tracing::debug!(%address, %error, "accept an API connection by TLS"),
        Err(_) => {}
    }
}

/// Tells in plain words that TLS is wanted.
async fn turn_away(mut stream: TcpStream) -> std::io::Result<()> {
    let problem = Problem::new(
        ProblemKind::Invalid,
        "this port speaks TLS, and nothing else",
    )
    .hint(
        "say https:// instead of http://, and name the cluster's authority: --ca, or HOLDFAST_CA",
    );
    let body = serde_json::to_string(&problem).expect("documents are valid JSON");
    let head = format!(
        "HTTP/1.1 {} Bad Request\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\nx-content-type-options: nosniff\r\nconnection: close\r\n\r\n",
        problem.status,
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await?;
    let mut rest = stream.take(TURN_AWAY_BYTES_MAX);
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await?;
    Ok(())
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Send + 'static,
    (peer, place): (Peer, Place),
    router: Router,
) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        let extensions = request.extensions_mut();
        extensions.insert(peer);
        extensions.insert(place.vouched());
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
