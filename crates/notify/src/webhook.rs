//! A webhook: a program that is sent a message as JSON, by a POST.
//!
//! It refuses to follow redirections, and to read more of an answer than says why it is none of success.
//!
//! Invariants:
//! - one message is one request on a connection of its own;
//! - what is signed is what is sent, byte for byte.

mod document;
mod signature;

use std::cmp::Reverse;
use std::time::{Duration, SystemTime};
use std::{fmt, io};

use holdfast_outside::OutsideUrl as WebhookUrl;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, header};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use crate::connection::{Peer, Wire, trust};
use crate::message::one_line;
use crate::receiver::check_secret;
use crate::{MayBegin, Message, ReceiverError, Secret, Stage, Undelivered};

/// The field with the signature.
pub const SIGNATURE_FIELD: &str = "x-holdfast-signature";
/// What we call ourselves.
const USER_AGENT: &str = concat!("holdfast/", env!("CARGO_PKG_VERSION"));
/// Bytes of an answer's head at most.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Bytes of an answer that are read at most: enough to say what is wrong.
const ANSWER_BYTES_MAX: usize = 4 << 10;
/// How long they may take. What was answered is known by then, and goes before why.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);

/// A program that is sent JSON over HTTP.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Where: `https://` or `http://`.
    pub url: String,
    /// By what it knows that a message is ours.
    pub secret: Option<Secret>,
    /// PEM with certificates of authorities that are trusted beside the system's.
    pub authority: Option<String>,
}

impl fmt::Debug for Webhook {
    /// Without the path, which is a secret with many receivers.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.parse::<WebhookUrl>();
        let url = url.map_or_else(|_| "…".to_owned(), |url| url.to_string());
        let mut debug = formatter.debug_struct("Webhook");
        debug.field("url", &url).field("secret", &self.secret);
        debug.field("authority", &self.authority).finish()
    }
}

impl Webhook {
    pub(crate) fn check(&self) -> Result<(), ReceiverError> {
        self.url
            .parse::<WebhookUrl>()
            .map_err(ReceiverError::from)?;
        if let Some(secret) = &self.secret {
            check_secret(secret.expose())?;
        }
        Ok(())
    }

    pub(crate) async fn send(
        &self,
        message: &Message,
        (patience, may_begin): (Duration, MayBegin<'_>),
    ) -> Result<(), Undelivered> {
        let url: WebhookUrl = self.url.parse().map_err(ReceiverError::from)?;
        let request = self.request(&url, message);
        let peer = Peer::new(
            &url.host,
            url.port,
            trust(self.authority.as_deref()),
            patience,
        );
        let stream = peer.connect().await?;
        let stream: Box<dyn Wire> = if url.is_secure {
            Box::new(peer.secure(stream).await?)
        } else {
            Box::new(stream)
        };
        if !may_begin() {
            return Err(Undelivered::CalledOff);
        }
        let exchanged = peer.wait(Stage::Answer, exchange(stream, request)).await?;
        let (status, text) = exchanged.map_err(|error| judge(&peer, error))?;
        if (200..300).contains(&status) {
            return Ok(());
        }
        let at = url.to_string();
        Err(Undelivered::Status { at, status, text })
    }

    fn request(&self, url: &WebhookUrl, message: &Message) -> Request<Full<Bytes>> {
        let body = document::write(message);
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(url.target.clone())
            .header(header::HOST, &url.authority)
            .header(header::USER_AGENT, USER_AGENT)
            .header(header::ACCEPT, "*/*")
            .header(header::CONNECTION, "close")
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(secret) = &self.secret {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let now = now.map_or(0, |since| since.as_secs());
            let signature = signature::sign(secret, now, &body);
            request = request.header(SIGNATURE_FIELD, signature);
        }
        let request = request.body(Full::new(body.into()));
        request.expect("the URL was checked, and the rest is ours")
    }
}

/// Sends, and returns the status, and of what is no success the begin of what was said.
async fn exchange(
    stream: Box<dyn Wire>,
    request: Request<Full<Bytes>>,
) -> Result<(u16, String), hyper::Error> {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    let asked = request.uri().path_and_query().map(ToString::to_string);
    let asked = asked.unwrap_or_default();
    let exchange = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        if status.is_success() {
            return Ok((status.as_u16(), String::new()));
        }
        Ok((
            status.as_u16(),
            without_asked(&begin(response).await, &asked),
        ))
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

/// Parts of what is asked for that are shorter are words, and no secrets.
const SECRET_PART_MIN: usize = 6;

/// What was answered without the parts of the path and the query that were asked for: those of webhooks are often tokens, and
/// servers repeat them.
fn without_asked(text: &str, asked: &str) -> String {
    let parts = asked.split(['/', '?', '&', '=', ';']);
    let mut parts: Vec<&str> = parts.filter(|part| part.len() >= SECRET_PART_MIN).collect();
    // One that is a part of another leaves nothing of that.
    parts.sort_unstable_by_key(|part| Reverse(part.len()));
    let without = |text: String, part: &str| text.replace(part, "...");
    parts.into_iter().fold(text.to_owned(), without)
}

/// The begin of an answer's body, as a line.
async fn begin(response: Response<Incoming>) -> String {
    let mut read = Vec::new();
    let mut body = response.into_body();
    let all = async {
        while let Some(Ok(frame)) = body.frame().await {
            let Some(data) = frame.data_ref() else {
                continue;
            };
            let rest = ANSWER_BYTES_MAX - read.len();
            read.extend_from_slice(&data[..data.len().min(rest)]);
            if read.len() == ANSWER_BYTES_MAX {
                break;
            }
        }
    };
    let _ = timeout(ANSWER_TIME_MAX, all).await;
    one_line(String::from_utf8_lossy(&read).trim())
}

fn judge(peer: &Peer<'_>, error: hyper::Error) -> Undelivered {
    if error.is_parse() {
        return Undelivered::Stranger {
            at: peer.to_string(),
            protocol: "HTTP",
        };
    }
    peer.broken(io::Error::other(error)).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Receiver;

    #[test]
    fn an_answer_does_not_tell_the_path() {
        let answer = r#"{"error":"Not Found","path":"/services/T0/s3cr3t-token"}"#;
        let told = without_asked(answer, "/services/T0/s3cr3t-token");
        assert_eq!(told, r#"{"error":"Not Found","path":"/.../T0/..."}"#);
    }

    #[test]
    fn an_answer_does_not_tell_the_query() {
        let asked = "/alarms?to=db&token=s3cr3t-token&more=s3cr3t-token-2";
        let told = without_asked(&format!("Cannot POST {asked}"), asked);
        assert_eq!(told, "Cannot POST /...?to=db&token=...&more=...");
    }

    fn webhook() -> Webhook {
        Webhook {
            url: "https://hooks.example/services/T0/token".to_owned(),
            secret: Some(Secret::new("s3cret".to_owned())),
            authority: None,
        }
    }

    #[test]
    fn neither_the_path_nor_the_secret_is_shown() {
        let shown = format!("{:?}", webhook());
        assert!(shown.contains("https://hooks.example\""), "{shown}");
        assert!(!shown.contains("token"), "{shown}");
        assert!(!shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn each_part_of_a_webhook_is_checked() {
        assert_eq!(webhook().check(), Ok(()));
        let url = "ftp://hooks.example".to_owned();
        let other = Webhook { url, ..webhook() };
        assert_eq!(other.check(), Err(ReceiverError::Url));
        let secret = Some(Secret::new(String::new()));
        let other = Webhook {
            secret,
            ..webhook()
        };
        assert_eq!(other.check(), Err(ReceiverError::Secret));
        let authority = Some("none".to_owned());
        let refused = Receiver::Webhook(Webhook {
            authority,
            ..webhook()
        });
        assert_eq!(refused.check(), Err(ReceiverError::Authority));
    }
}
