//! The resources and their methods.

mod access;
mod alarms;
mod answers;
mod events;
mod guard;
mod history;
mod honoured;
mod identity;
mod lasting;
mod log;
mod login;
mod metrics;
mod nodes;
mod page;
mod paths;
mod permissions;
mod retention;
pub(crate) mod shown;
mod support;
mod tagged;
mod tasks;
mod traffic;
mod values;
mod volumes;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::extract::Request;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, post};
use axum::{Json, Router};
use tokio::time::timeout;
use utoipa::OpenApi;

use self::answers::{OfAll, OfNode, OfQuery, OfTaggedChange};
use self::guard::About;
use self::tagged::{IfMatch, IfNoneMatch, Set, Tagged, unless_known};
use crate::documents::{
    Explanation, LocalCluster, LocalReport, LocalStalls, STALLS_MAX, Settings, SettingsChange,
    StallList, StallQuery, Status,
};
use crate::problem::with_instance;
use crate::trace;
use crate::{Api, Conditional, Door, EntityTag, Precondition, Problem, ProblemKind};

/// Bytes in a request's body at most: documents that are sent are small.
const BODY_BYTES_MAX: usize = 64 << 10;
/// How long a request may take. Making the largest volume takes about 20 s, and 40 s if nodes are slow.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Holdfast",
        description = "The REST interface of a Holdfast cluster"
    ),
    paths(
        document,
        status,
        explain,
        nodes::nodes,
        nodes::node,
        nodes::change_node,
        nodes::remove_node,
        nodes::devices,
        nodes::change_devices,
        settings,
        change_settings,
        volumes::volumes,
        volumes::create_volume,
        volumes::volume,
        volumes::grow_volume,
        volumes::delete_volume,
        volumes::scrub_volume,
        access::change_access,
        access::initiators,
        access::initiator,
        access::put_initiator,
        access::remove_initiator,
        events::events,
        events::event_log,
        events::local_events,
        events::local_event_state,
        tasks::tasks,
        tasks::task,
        tasks::cancel_task,
        stalls,
        volumes::volume_stalls,
        local,
        local_cluster,
        nodes::change_local_devices,
        local_stalls,
        history::history,
        history::volume_history,
        history::initiator_history,
        history::host_history,
        history::node_history,
        history::device_history,
        history::tier_history,
        history::local_history,
        metrics::metrics,
        identity::session,
        identity::log_in,
        identity::log_out,
        identity::change_password,
        identity::users,
        identity::user,
        identity::create_user,
        identity::change_user,
        identity::remove_user,
        identity::tokens,
        identity::create_token,
        identity::revoke_token,
        identity::audit,
        identity::local_audit,
        log::node_log,
        log::change_node_log,
        log::local_log,
        log::change_local_log,
        support::node_support,
        support::local_support,
        paths::sessions,
        paths::volume_sessions,
        paths::initiator_sessions,
        paths::local_sessions,
        paths::reservations,
        traffic::traffic,
        traffic::local_traffic,
        retention::retention,
        retention::change_retention,
        retention::local_retention,
        alarms::alarms,
        alarms::acknowledge_alarm,
        alarms::alarm_kinds,
        alarms::change_alarm_kind,
        alarms::reset_alarm_kind,
        alarms::receivers,
        alarms::put_receiver,
        alarms::remove_receiver,
        alarms::test_receiver,
        login::methods,
        login::begin,
        login::end
    ),
    components(schemas(Problem))
)]
struct Document;

/// The OpenAPI 3.1 document, as JSON.
#[must_use]
pub fn openapi() -> String {
    Document::openapi()
        .to_pretty_json()
        .expect("the document is valid JSON")
}

/// Everything under `/api/v1`, answered by `api`, for whom `door` lets through.
pub fn router<A: Api>(api: Arc<A>, door: Door) -> Router {
    let v1 = Router::new()
        .route("/openapi.json", get(document))
        .route("/status", get(status::<A>))
        .route("/explain", get(explain::<A>))
        .merge(nodes::routes())
        .route("/settings", get(settings::<A>).patch(change_settings::<A>))
        .route(
            "/volumes",
            get(volumes::volumes::<A>).post(volumes::create_volume::<A>),
        )
        .route(
            "/volumes/{name}",
            get(volumes::volume::<A>)
                .patch(volumes::grow_volume::<A>)
                .delete(volumes::delete_volume::<A>),
        )
        .route("/volumes/{name}/scrub", post(volumes::scrub_volume::<A>))
        .route("/volumes/{name}/access", patch(access::change_access::<A>))
        .route("/volumes/{name}/stalls", get(volumes::volume_stalls::<A>))
        .route("/initiators", get(access::initiators::<A>))
        .route(
            "/initiators/{name}",
            get(access::initiator::<A>)
                .put(access::put_initiator::<A>)
                .delete(access::remove_initiator::<A>),
        )
        .route("/tasks", get(tasks::tasks::<A>))
        .route(
            "/tasks/{id}",
            get(tasks::task::<A>).delete(tasks::cancel_task::<A>),
        )
        .route("/stalls", get(stalls::<A>))
        .merge(events::routes())
        .merge(histories())
        .merge(identity::routes(door.clone()))
        .merge(upkeep())
        .merge(paths::routes())
        .merge(traffic::routes())
        .merge(alarms::routes())
        .merge(retention::routes())
        .route("/local", get(local::<A>))
        .route("/local/cluster", get(local_cluster::<A>))
        .route("/local/stalls", get(local_stalls::<A>));
    let router = Router::new()
        .nest("/api/v1", v1)
        .route("/metrics", get(metrics::metrics::<A>))
        .fallback(nothing_here)
        .method_not_allowed_fallback(no_such_method)
        .layer(middleware::from_fn(no_list))
        .layer(middleware::from_fn(honoured::honoured))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(door, guard::guard))
        // Whoever hears that it took too long finds it in the log as well.
        .layer(middleware::from_fn(within_time))
        .layer(middleware::from_fn(with_instance))
        .with_state(api);
    trace::layer(router)
}

fn histories<A: Api>() -> Router<Arc<A>> {
    Router::new()
        .route("/history", get(history::history::<A>))
        .route("/volumes/{name}/history", get(history::volume_history::<A>))
        .route(
            "/volumes/{name}/initiators/{initiator}/history",
            get(history::initiator_history::<A>),
        )
        .route(
            "/initiators/{name}/history",
            get(history::host_history::<A>),
        )
        .route("/nodes/{name}/history", get(history::node_history::<A>))
        .route(
            "/nodes/{name}/devices/{device}/history",
            get(history::device_history::<A>),
        )
        .route("/tiers/{tier}/history", get(history::tier_history::<A>))
        .route("/local/history", get(history::local_history::<A>))
}

/// What is asked of single nodes when something is looked into.
fn upkeep<A: Api>() -> Router<Arc<A>> {
    Router::new()
        .route(
            "/nodes/{name}/log",
            get(log::node_log::<A>).patch(log::change_node_log::<A>),
        )
        .route(
            "/local/log",
            get(log::local_log::<A>).patch(log::change_local_log::<A>),
        )
        .route("/nodes/{name}/support", get(support::node_support::<A>))
        .route("/local/support", get(support::local_support::<A>))
}

/// This document
///
/// Whoever asks need not show who he is.
#[utoipa::path(get, path = "/api/v1/openapi.json", params(IfNoneMatch), responses(
    (status = 200, description = "An OpenAPI 3.1 document", body = Object, content_type = "application/json", headers(("ETag" = String, description = "Names it, for `If-None-Match`"))),
    (status = 304, description = "It has this tag still"),
    OfQuery,
))]
async fn document(precondition: Precondition) -> Response {
    /// It is the same as long as the process runs.
    static MADE: LazyLock<(EntityTag, String)> = LazyLock::new(|| {
        let document = openapi();
        let sum = holdfast_stdx::crc32c(document.as_bytes());
        (EntityTag::of(&format!("{sum:08x}")), document)
    });
    let (tag, document) = &*MADE;
    let answer = ([("content-type", "application/json")], document.as_str());
    unless_known(&precondition, Some(tag), answer.into_response())
}

/// No document is a list, though one of the values of all its fields, in their order, would be taken for it.
async fn no_list(request: Request, next: Next) -> Response {
    if !request.headers().contains_key(CONTENT_TYPE) {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, BODY_BYTES_MAX).await else {
        let detail = format!(
            "length limit exceeded: the request's body has more than {BODY_BYTES_MAX} bytes, or did not come whole"
        );
        return Problem::new(ProblemKind::TooLong, detail)
            .hint("what is expected is described by /api/v1/openapi.json")
            .into_response();
    };
    if bytes.trim_ascii_start().starts_with(b"[") {
        return Problem::new(
            ProblemKind::Invalid,
            "the request's body is a list, and not an object",
        )
        .hint("what is expected is described by /api/v1/openapi.json")
        .into_response();
    }
    next.run(Request::from_parts(head, bytes.into())).await
}

/// Ends what takes too long, and says so.
async fn within_time(request: Request, next: Next) -> Response {
    match timeout(REQUEST_TIME_MAX, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::new(ProblemKind::Unavailable, "the answer took too long")
            .hint(
                "what was asked for may have been done, or may still be: look before you repeat it",
            )
            .into_response(),
    }
}

async fn nothing_here() -> Problem {
    Problem::new(
        ProblemKind::NoSuchResource,
        "there is nothing at this address",
    )
    .hint("the interface is under /api/v1, and described by /api/v1/openapi.json")
}

async fn no_such_method() -> Problem {
    Problem::new(
        ProblemKind::NoSuchMethod,
        "this resource does not know this method",
    )
    .hint("the interface is described by /api/v1/openapi.json")
}

/// How the cluster is
#[utoipa::path(get, path = "/api/v1/status", responses(
    (status = 200, body = Status),
    OfAll,
))]
async fn status<A: Api>(State(api): State<Arc<A>>) -> Result<Json<Status>, Problem> {
    api.status().await.map(Json)
}

/// Why the cluster is not healthy, what that waits for, and what an operator may do
#[utoipa::path(get, path = "/api/v1/explain", responses(
    (status = 200, body = Explanation),
    OfAll,
))]
async fn explain<A: Api>(State(api): State<Arc<A>>) -> Result<Json<Explanation>, Problem> {
    api.explain().await.map(Json)
}

/// The settings
#[utoipa::path(get, path = "/api/v1/settings", params(IfNoneMatch), responses(
    (status = 200, body = Settings, headers(("ETag" = String, description = "Names what may be changed of it, for `If-Match`"))),
    (status = 304, description = "They have this tag still"),
    OfQuery,
))]
async fn settings<A: Api>(
    State(api): State<Arc<A>>,
    precondition: Precondition,
) -> Result<Response, Problem> {
    let settings = api.settings().await?;
    let tag = settings.etag.clone();
    Ok(unless_known(&precondition, tag.as_ref(), Json(settings)))
}

/// Change settings
///
/// They are in effect at once.
#[utoipa::path(
    patch,
    path = "/api/v1/settings",
    params(IfMatch),
    request_body = SettingsChange,
    responses(
        (status = 200, body = Settings, headers(("ETag" = String, description = "Names what may be changed of it, for `If-Match`"))),
        OfTaggedChange,
    ),
)]
async fn change_settings<A: Api>(
    State(api): State<Arc<A>>,
    precondition: Precondition,
    request: Result<Json<SettingsChange>, JsonRejection>,
) -> Result<Set<Settings>, Problem> {
    let request = conditional(request, precondition)?;
    let about = About::set(&request.request);
    Ok((about, Tagged(api.change_settings(request).await?)))
}

/// What the node behind this interface knows by itself
#[utoipa::path(get, path = "/api/v1/local", responses(
    (status = 200, body = LocalReport),
    OfNode,
))]
async fn local<A: Api>(State(api): State<Arc<A>>) -> Result<Json<LocalReport>, Problem> {
    api.local().await.map(Json)
}

/// What is known of the cluster without the metadata
///
/// The nodes by a list that may be old, each with what it says of itself now.
#[utoipa::path(get, path = "/api/v1/local/cluster", responses(
    (status = 200, body = LocalCluster),
    OfNode,
))]
async fn local_cluster<A: Api>(State(api): State<Arc<A>>) -> Result<Json<LocalCluster>, Problem> {
    api.local_cluster().await.map(Json)
}

/// The stalls of all volumes
///
/// Times of 100 ms and more in which commands waited at a portal and none was done.
#[utoipa::path(get, path = "/api/v1/stalls", params(StallQuery), responses(
    (status = 200, body = StallList),
    OfQuery,
))]
async fn stalls<A: Api>(
    State(api): State<Arc<A>>,
    query: Result<Query<StallQuery>, QueryRejection>,
) -> Result<Json<StallList>, Problem> {
    api.stalls(None, stall_query(query)?).await.map(Json)
}

/// The stalls that the node behind this interface keeps
#[utoipa::path(get, path = "/api/v1/local/stalls", params(StallQuery), responses(
    (status = 200, body = LocalStalls),
    OfNode,
))]
async fn local_stalls<A: Api>(
    State(api): State<Arc<A>>,
    query: Result<Query<StallQuery>, QueryRejection>,
) -> Result<Json<LocalStalls>, Problem> {
    api.local_stalls(stall_query(query)?).await.map(Json)
}

/// Which stalls a query asks for.
fn stall_query(query: Result<Query<StallQuery>, QueryRejection>) -> Result<StallQuery, Problem> {
    let query = asked(query)?;
    check_time("since_ms", Some(query.since_ms))?;
    query.place()?;
    if (1..=STALLS_MAX).contains(&query.limit) {
        return Ok(query);
    }
    let detail = format!("limit is {}, and not 1 to {STALLS_MAX}", query.limit);
    Err(Problem::new(ProblemKind::Invalid, &detail).hint("a node keeps no more than that"))
}

/// Whether a time in milliseconds since 1970 is one that the document lets be.
fn check_time(name: &str, time_ms: Option<u64>) -> Result<(), Problem> {
    check_number(name, time_ms, "it is in milliseconds since 1970")
}

/// Whether a number is one that the document lets be, where they are of 64 bits with a sign; the hint is for one that is not.
fn check_number(name: &str, number: Option<u64>, hint: &str) -> Result<(), Problem> {
    if number.is_none_or(|number| i64::try_from(number).is_ok()) {
        return Ok(());
    }
    let detail = format!("{name} is more than {}", i64::MAX);
    Err(Problem::new(ProblemKind::Invalid, &detail).hint(hint))
}

/// What a query asks.
fn asked<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, Problem> {
    let Query(query) = query.map_err(|rejection| {
        Problem::new(ProblemKind::Invalid, rejection.body_text())
            .hint("what is expected is described by /api/v1/openapi.json")
    })?;
    Ok(query)
}

/// The name in a path.
fn named(name: Result<Path<String>, PathRejection>) -> Result<String, Problem> {
    path_of(name)
}

/// What a path names.
fn path_of<T>(path: Result<Path<T>, PathRejection>) -> Result<T, Problem> {
    let Path(path) = path.map_err(|rejection| {
        let detail = format!("the path is not understood: {}", rejection.body_text());
        Problem::new(ProblemKind::Invalid, &detail)
            .hint("a name has lower-case letters, digits, '-' and '.'")
    })?;
    Ok(path)
}

/// A change that is sent, and on which condition.
fn conditional<T>(
    request: Result<Json<T>, JsonRejection>,
    precondition: Precondition,
) -> Result<Conditional<T>, Problem> {
    let Json(request) = request.map_err(|rejection| refuse(&rejection))?;
    Ok(Conditional {
        request,
        precondition,
    })
}

fn refuse(rejection: &JsonRejection) -> Problem {
    let kind = match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ProblemKind::TooLong,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => ProblemKind::NotJson,
        _ => ProblemKind::Invalid,
    };
    Problem::new(kind, rejection.body_text())
        .hint("what is expected is described by /api/v1/openapi.json")
}
