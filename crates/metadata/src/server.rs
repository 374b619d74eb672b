//! The interface over TCP: the side with the store.
//!
//! It refuses connections of other clusters, of other versions and without the access token, and
//! whoever sends what is not the protocol is told so and hung up on.
//!
//! Invariants:
//! - a connection holds bounded memory: one request being read, so many being carried out, answers
//!   that wait within the session's limit, one being written;
//! - a connection that sends nothing, or takes nothing, for too long ends;
//! - the watches of a connection end with it.

mod connection;

use std::convert::Infallible;
use std::sync::Arc;

use holdfast_model::ClusterId;
use holdfast_stdx::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::frame::{self, Refusal, ServerFrame};
use crate::session::Store;

/// Connections at a time: a few for each of the nodes that a cluster may have.
pub const CONNECTIONS_MAX: usize = 256;
/// Requests of one connection that are carried out at a time; more are not read meanwhile. The
/// client keeps within it by itself.
pub const REQUESTS_IN_FLIGHT_MAX: usize = 64;

/// How long the server waits where the process has run out of something, such as open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a refusal may take to be sent.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(1);

/// Whom the server lets in, and for how long it has patience.
#[derive(Clone, Debug)]
pub struct Door {
    /// Whose metadata the store holds.
    pub cluster: ClusterId,
    /// What a client must know; empty for nothing.
    pub access_token: String,
    /// Without a byte from a client for so long, its connection ends. A client sends something
    /// every second.
    pub silence_max: Duration,
}

impl Door {
    /// For members of `cluster`, with the usual patience.
    #[must_use]
    pub fn new(cluster: ClusterId, access_token: &str) -> Self {
        assert!(
            access_token.len() <= frame::ACCESS_TOKEN_LENGTH_MAX,
            "the configuration limits the token"
        );
        Self {
            cluster,
            access_token: access_token.to_owned(),
            silence_max: Duration::from_secs(10),
        }
    }
}

/// Serves `store` to whoever connects, until it is dropped; all connections end with it.
pub async fn serve(listener: TcpListener, store: Arc<dyn Store>, door: Door) -> Infallible {
    let door = Arc::new(door);
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "accept a metadata connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            Some(_) = connections.join_next() => continue,
        };
        if connections.len() >= CONNECTIONS_MAX {
            refuse(&stream, Refusal::TooMany);
            continue;
        }
        connections.spawn(connection::run(
            stream,
            Arc::clone(&store),
            Arc::clone(&door),
        ));
    }
}

/// Says why, if the connection takes it at once, and hangs up.
fn refuse(stream: &TcpStream, refusal: Refusal) {
    // A fresh connection has room for these few bytes; one that has not is not told.
    let _ = stream.try_write(&frame::to_frame(&ServerFrame::Refused(refusal)));
}

/// Says why, and hangs up.
async fn refuse_slowly(stream: &mut (impl AsyncWriteExt + Unpin), refusal: Refusal) {
    let frame = frame::to_frame(&ServerFrame::Refused(refusal));
    let told = async {
        stream.write_all(&frame).await?;
        stream.shutdown().await
    };
    // Whoever does not take it is not told.
    let _ = tokio::time::timeout(REFUSAL_PATIENCE, told).await;
}
