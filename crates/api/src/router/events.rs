//! What changes, as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use tokio_stream::StreamExt as _;

use super::answers::OfQuery;
use crate::documents::Event;
use crate::{Api, Problem};

/// A comment goes out so often where nothing happens, so that both ends see that the other is there.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// What a listener says that it has heard last.
const LAST_EVENT: &str = "last-event-id";
/// Letters of that at most: ours are short.
const LAST_EVENT_LENGTH_MAX: usize = 64;

/// What a listener may say.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "it is read by the document only")]
pub(super) struct LastEvent {
    /// The `id` of the last event that was heard: those after it come first, if the node keeps them; else a `gap`.
    #[param(rename = "Last-Event-ID")]
    last_event_id: Option<String>,
}

/// What changes
///
/// Server-sent events, each with an `Event` as its data, and its kind as its name. The first one is `began`, or what was missed. The
/// stream ends when the listener is too slow, and with the node. A node has a few at a time, and refuses others.
#[utoipa::path(get, path = "/api/v1/events", params(LastEvent), responses(
    (status = 200, body = Event, content_type = "text/event-stream"),
    OfQuery,
))]
pub(super) async fn events<A: Api>(
    State(api): State<Arc<A>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let last = headers.get(LAST_EVENT).and_then(|last| last.to_str().ok());
    // What nobody here has said is of another node, or another start of it: that there is a gap is told.
    let last = last.map(|last| last.get(..LAST_EVENT_LENGTH_MAX).unwrap_or(last));
    let listener = api.events(last).await?;
    let stream = listener.map(|event| Ok::<_, Infallible>(line(&event)));
    let heartbeat = KeepAlive::new().interval(HEARTBEAT);
    Ok(Sse::new(stream).keep_alive(heartbeat).into_response())
}

fn line(event: &Event) -> sse::Event {
    let data = serde_json::to_string(event).expect("documents are valid JSON");
    sse::Event::default()
        .id(&event.id)
        .event(event.kind.as_str())
        .data(data)
}
