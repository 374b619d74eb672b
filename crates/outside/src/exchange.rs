//! One request, and its answer.
//!
//! Invariant: an answer that is longer than was said is none, however its length was announced.

use std::io;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response, header};
use hyper_util::rt::TokioIo;

use crate::{Failure, OutsideUrl, Peer, Stage, Trust, Wire};

/// What we call ourselves.
pub const USER_AGENT: &str = concat!("holdfast/", env!("CARGO_PKG_VERSION"));
/// Bytes of an answer's head at most.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// What is left to be said of a connection that ended otherwise.
enum Ended {
    By(hyper::Error),
    TooLong,
}

impl From<hyper::Error> for Ended {
    fn from(error: hyper::Error) -> Self {
        Self::By(error)
    }
}

/// Asks at a URL. Host, target and what we are called are
/// put into the request here. A redirection is an answer like others.
///
/// # Errors
/// [`Failure`], at the latest when `patience` is over.
pub async fn ask(
    url: &OutsideUrl,
    mut request: Request<Full<Bytes>>,
    trust: Trust<'_>,
    patience: Duration,
    bytes_max: usize,
) -> Result<Answer, Failure> {
    *request.uri_mut() = url.target.clone();
    let headers = request.headers_mut();
    let host = header::HeaderValue::from_str(&url.authority);
    headers.insert(header::HOST, host.expect("a URL is made of ASCII"));
    headers.insert(
        header::USER_AGENT,
        header::HeaderValue::from_static(USER_AGENT),
    );
    headers.insert(
        header::CONNECTION,
        header::HeaderValue::from_static("close"),
    );
    let peer = Peer::new(&url.host, url.port, trust, patience);
    let stream = peer.connect().await?;
    let stream: Box<dyn Wire> = if url.is_secure {
        Box::new(peer.secure(stream).await?)
    } else {
        Box::new(stream)
    };
    let exchanged = peer.wait(Stage::Answer, exchange(stream, request, bytes_max));
    exchanged.await?.map_err(|ended| match ended {
        Ended::TooLong => Failure::TooLong {
            at: peer.to_string(),
            bytes_max,
        },
        Ended::By(error) if error.is_parse() => Failure::Stranger {
            at: peer.to_string(),
        },
        Ended::By(error) => peer.broken(io::Error::other(error)),
    })
}

async fn exchange(
    stream: Box<dyn Wire>,
    request: Request<Full<Bytes>>,
    bytes_max: usize,
) -> Result<Answer, Ended> {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    let exchange = async {
        let response = sender.send_request(request).await?;
        let status = response.status().as_u16();
        let body = whole(response, bytes_max).await?;
        Ok(Answer { status, body })
    };
    tokio::pin!(exchange);
    tokio::select! {
        biased;
        answer = &mut exchange => answer,
        ended = connection => {
            ended?;
            exchange.await
        }
    }
}

async fn whole(response: Response<Incoming>, bytes_max: usize) -> Result<Vec<u8>, Ended> {
    let mut read = Vec::new();
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            if data.len() > bytes_max - read.len() {
                return Err(Ended::TooLong);
            }
            read.extend_from_slice(&data);
        }
    }
    Ok(read)
}
