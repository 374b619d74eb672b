//! What changes, as server-sent events, and what has changed, as it is kept.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use tokio_stream::StreamExt as _;

use super::answers::{OfNode, OfQuery};
use super::{asked, check_time};
use crate::documents::{
    EVENTS_MAX, Event, EventKind, EventList, EventQuery, LocalEventState, LocalEvents,
};
use crate::{Api, Problem, ProblemKind};

/// A comment goes out so often where nothing happens, so that both ends see that the other is there.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// What a listener says that it has heard last.
const LAST_EVENT: &str = "last-event-id";
/// Letters of that at most: ours are short.
const LAST_EVENT_LENGTH_MAX: usize = 64;

pub(super) fn routes<A: Api>() -> Router<Arc<A>> {
    Router::new()
        .route("/events", get(events::<A>))
        .route("/events/log", get(event_log::<A>))
        .route("/local/events", get(local_events::<A>))
        .route("/local/events/state", get(local_event_state::<A>))
}

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

/// What happened, also while nobody listened
///
/// The node that steers the cluster puts down what changes, and four others keep copies: what all nodes that answer have of it, each
/// event once. A node keeps as much of it as `GET /retention` says.
#[utoipa::path(get, path = "/api/v1/events/log", params(EventQuery), responses(
    (status = 200, body = EventList),
    OfQuery,
))]
pub(super) async fn event_log<A: Api>(
    State(api): State<Arc<A>>,
    query: Result<Query<EventQuery>, QueryRejection>,
) -> Result<Json<EventList>, Problem> {
    api.event_log(event_query(query)?).await.map(Json)
}

/// What happened, as the node that is asked has it
#[utoipa::path(get, path = "/api/v1/local/events", params(EventQuery), responses(
    (status = 200, body = LocalEvents),
    OfNode,
))]
pub(super) async fn local_events<A: Api>(
    State(api): State<Arc<A>>,
    query: Result<Query<EventQuery>, QueryRejection>,
) -> Result<Json<LocalEvents>, Problem> {
    api.local_events(event_query(query)?).await.map(Json)
}

/// How everything was when something happened last, as the node that is asked has it
///
/// For the node that steers next: it tells what has changed since. Who is told of alarms is in it, too, so it is for nodes and
/// administrators.
#[utoipa::path(get, path = "/api/v1/local/events/state", responses(
    (status = 200, body = LocalEventState),
    OfNode,
))]
pub(super) async fn local_event_state<A: Api>(
    State(api): State<Arc<A>>,
) -> Result<Json<LocalEventState>, Problem> {
    api.local_event_state().await.map(Json)
}

fn event_query(query: Result<Query<EventQuery>, QueryRejection>) -> Result<EventQuery, Problem> {
    let query = asked(query)?;
    check_time("since_ms", Some(query.since_ms))?;
    check_time("until_ms", query.until_ms)?;
    if query.kind == Some(EventKind::Other) {
        return Err(
            Problem::new(ProblemKind::Invalid, "kind is none that this version tells")
                .hint("what is expected is described by /api/v1/openapi.json"),
        );
    }
    if (1..=EVENTS_MAX).contains(&query.limit) {
        return Ok(query);
    }
    let detail = format!("limit is {}, and not 1 to {EVENTS_MAX}", query.limit);
    Err(Problem::new(ProblemKind::Invalid, detail).hint("ask for the rest with `after`"))
}

fn line(event: &Event) -> sse::Event {
    let data = serde_json::to_string(event).expect("documents are valid JSON");
    sse::Event::default()
        .id(&event.id)
        .event(event.kind.as_str())
        .data(data)
}
