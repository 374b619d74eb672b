//! What nodes write into their logs: the resources and their methods.

use std::sync::Arc;

use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Path, State};
use axum::{Extension, Json};

use super::answers::{OfChange, OfNode, OfOne};
use super::guard::About;
use super::{named, refuse};
use crate::documents::{LOG_CHANGE_SECONDS_MAX, LogArea, LogChange, LogLevels};
use crate::{Api, Problem, ProblemKind};

/// What a node writes into its log
#[utoipa::path(
    get,
    path = "/api/v1/nodes/{name}/log",
    params(("name" = String, Path, description = "The node's name")),
    responses((status = 200, body = LogLevels), OfOne),
)]
pub(super) async fn node_log<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<LogLevels>, Problem> {
    api.node_log(&named(name)?).await.map(Json)
}

/// Have a node write more into its log, or less, for a time
///
/// It falls back to what is configured by itself, and when it starts.
#[utoipa::path(
    patch,
    path = "/api/v1/nodes/{name}/log",
    params(("name" = String, Path, description = "The node's name")),
    request_body = LogChange,
    responses((status = 200, body = LogLevels), OfChange),
)]
pub(super) async fn change_node_log<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
    request: Result<Json<LogChange>, JsonRejection>,
) -> Result<(Option<Extension<About>>, Json<LogLevels>), Problem> {
    let change = checked(request)?;
    let about = About::set(&change);
    let changed = api.change_node_log(&named(name)?, change).await?;
    Ok((about, Json(changed)))
}

/// What the node behind this interface writes into its log
#[utoipa::path(get, path = "/api/v1/local/log", responses(
    (status = 200, body = LogLevels),
    OfNode,
))]
pub(super) async fn local_log<A: Api>(
    State(api): State<Arc<A>>,
) -> Result<Json<LogLevels>, Problem> {
    api.local_log().await.map(Json)
}

/// Have the node behind this interface write more into its log, or less, for a time
#[utoipa::path(
    patch,
    path = "/api/v1/local/log",
    request_body = LogChange,
    responses((status = 200, body = LogLevels), OfChange),
)]
pub(super) async fn change_local_log<A: Api>(
    State(api): State<Arc<A>>,
    request: Result<Json<LogChange>, JsonRejection>,
) -> Result<(Option<Extension<About>>, Json<LogLevels>), Problem> {
    let change = checked(request)?;
    let about = About::set(&change);
    Ok((about, Json(api.change_local_log(change).await?)))
}

/// A change that changes something, and ends.
fn checked(request: Result<Json<LogChange>, JsonRejection>) -> Result<LogChange, Problem> {
    let Json(change) = request.map_err(|rejection| refuse(&rejection))?;
    if change.level.is_none() && change.areas.is_empty() && !change.reset {
        return Err(
            Problem::new(ProblemKind::Invalid, "the change changes nothing")
                .hint("say `level`, `areas` or `reset`"),
        );
    }
    if change.areas.len() > LogArea::ALL.len() {
        return Err(Problem::new(
            ProblemKind::Invalid,
            "areas has more than there are parts of a node",
        )
        .hint("name each once"));
    }
    let seconds = change.seconds.unwrap_or(1);
    if !(1..=LOG_CHANGE_SECONDS_MAX).contains(&seconds) {
        let detail = format!("seconds is {seconds}, and not 1 to {LOG_CHANGE_SECONDS_MAX}");
        return Err(Problem::new(ProblemKind::Invalid, &detail)
            .hint("what is to be for longer is configured: `log.level` in the node's file"));
    }
    Ok(change)
}
