//! What changes, as the client is told it, and what has changed.

use axum::http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use super::{ANSWER_BYTES_MAX, ApiClient, ApiUrl, ClientError, Failure, READ_TIME_MAX, Tried};
use crate::Problem;
use crate::documents::{Event, EventList, EventQuery, LocalEventState, LocalEvents};

/// Bytes of one event at most.
const EVENT_BYTES_MAX: usize = 64 << 10;
/// For so long nothing may come: several heartbeats.
const SILENCE_MAX: std::time::Duration = std::time::Duration::from_secs(45);

impl ApiClient {
    /// What happened, as the logs of all nodes that answer have it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn event_log(&self, query: &EventQuery) -> Result<EventList, ClientError> {
        self.read(&format!("/events/log?{}", query_of(query))).await
    }

    /// What happened, as the node at the URL has it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn local_events(&self, query: &EventQuery) -> Result<LocalEvents, ClientError> {
        self.read(&format!("/local/events?{}", query_of(query)))
            .await
    }

    /// How everything was when the node at the URL put something down last.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn local_event_state(&self) -> Result<LocalEventState, ClientError> {
        self.read("/local/events/state").await
    }

    /// Tells each event to `each`, from after `last` on, until the stream ends: it may be begun anew then with the last one's id.
    ///
    /// # Errors
    /// [`ClientError`] if nobody tells anything.
    pub async fn follow(
        &self,
        last: Option<&str>,
        mut each: impl FnMut(Event),
    ) -> Result<(), ClientError> {
        let mut tried = Tried::default();
        for url in &self.urls {
            match self.listen(url, last).await {
                Ok(Ok(body)) => {
                    hear(body, &mut each).await;
                    return Ok(());
                }
                Ok(Err(problem)) => tried.said.push((url.clone(), problem)),
                Err(failure) => tried.unreached.push((url.clone(), failure)),
            }
        }
        Err(tried.error())
    }

    async fn listen(
        &self,
        url: &ApiUrl,
        last: Option<&str>,
    ) -> Result<Result<Incoming, Problem>, Failure> {
        let stream = self.connect(url).await?;
        let mut request = Request::get("/api/v1/events")
            .header(header::HOST, format!("{}:{}", url.host, url.port))
            .header(header::ACCEPT, "text/event-stream");
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let request = request.body(Empty::<Bytes>::new());
        let request =
            request.map_err(|_| std::io::Error::from(std::io::ErrorKind::InvalidInput))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let response = timeout(READ_TIME_MAX, sender.send_request(request)).await;
        let response = response.map_err(|_| Failure::TooSlow)??;
        let status = response.status();
        if status == StatusCode::OK {
            return Ok(Ok(response.into_body()));
        }
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect();
        let body = timeout(READ_TIME_MAX, body)
            .await
            .map_err(|_| Failure::TooSlow)?;
        let body = body.map_err(|_| Failure::Stranger(status))?.to_bytes();
        let problem = serde_json::from_slice(&body).map_err(|_| Failure::Stranger(status))?;
        Ok(Err(problem))
    }
}

fn query_of(query: &EventQuery) -> String {
    let EventQuery {
        limit,
        since_ms,
        until_ms,
        severity,
        kind,
        after,
    } = query;
    let severity = severity.as_str();
    let mut text = format!("limit={limit}&since_ms={since_ms}&severity={severity}");
    if let Some(until) = until_ms {
        text.push_str(&format!("&until_ms={until}"));
    }
    if let Some(kind) = kind {
        text.push_str(&format!("&kind={}", kind.as_str()));
    }
    // A cursor has no letters that mean something in an address.
    if let Some(after) = after {
        text.push_str(&format!("&after={after}"));
    }
    text
}

async fn hear(mut body: Incoming, each: &mut impl FnMut(Event)) {
    let mut lines = Lines::default();
    while let Ok(Some(Ok(frame))) = timeout(SILENCE_MAX, body.frame()).await {
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if !lines.take(&data, each) {
            return;
        }
    }
}

/// What has come of a line that is not over.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    /// Each of our events is one line of data; the other lines say the same, or nothing. False if what comes is no event.
    fn take(&mut self, data: &[u8], each: &mut impl FnMut(Event)) -> bool {
        for byte in data {
            if *byte != b'\n' {
                self.0.push(*byte);
                if self.0.len() > EVENT_BYTES_MAX {
                    return false;
                }
                continue;
            }
            let line = std::mem::take(&mut self.0);
            if let Some(event) = line.strip_prefix(b"data:") {
                match serde_json::from_slice(event) {
                    Ok(event) => each(event),
                    Err(_) => return false,
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_however_they_are_cut() {
        let event = r#"{"id":"a-1","at_ms":1,"kind":"of-tomorrow","severity":"info","subject":"s","detail":"d"}"#;
        let stream = format!(":\n\nid: a-1\nevent: x\ndata: {event}\n\n:\n\ndata:{event}\n\n");
        for length in [1, 7, stream.len()] {
            let (mut lines, mut told) = (Lines::default(), Vec::new());
            for piece in stream.as_bytes().chunks(length) {
                assert!(lines.take(piece, &mut |event: Event| told.push(event.id)));
            }
            assert_eq!(told, ["a-1", "a-1"]);
        }
        let nothing = &mut |_: Event| panic!("there is none");
        assert!(!Lines::default().take(b"data: {}\n", nothing));
        assert!(!Lines::default().take(&vec![b'x'; EVENT_BYTES_MAX + 1], nothing));
    }
}
