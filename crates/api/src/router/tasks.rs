//! Long work under way: the resources and their methods.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;

use super::answers::{OfOne, OfOrder, OfQuery};
use super::named;
use super::page::{PageQuery, chosen, page};
use crate::documents::{Task, TaskList};
use crate::{Api, Problem};

/// Long work under way
///
/// Here a prefix is one of the ids, which begin with the kind.
#[utoipa::path(get, path = "/api/v1/tasks", params(PageQuery), responses(
    (status = 200, body = TaskList),
    OfQuery,
))]
pub(super) async fn tasks<A: Api>(
    State(api): State<Arc<A>>,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Json<TaskList>, Problem> {
    let query = chosen(query)?;
    let all = api.tasks().await?;
    let (tasks, next) = page(all, &query, |one| &one.id, |one| one.id.clone());
    Ok(Json(TaskList { tasks, next }))
}

/// A task
///
/// One that has ended is no more.
#[utoipa::path(
    get,
    path = "/api/v1/tasks/{id}",
    params(("id" = String, Path, description = "What the listing calls it")),
    responses((status = 200, body = Task), OfOne),
)]
pub(super) async fn task<A: Api>(
    State(api): State<Arc<A>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Task>, Problem> {
    api.task(&named(id)?).await.map(Json)
}

/// Call a task off
///
/// What has been done of it stays done. What cannot be called off is refused with the reason.
#[utoipa::path(
    delete,
    path = "/api/v1/tasks/{id}",
    params(("id" = String, Path, description = "What the listing calls it")),
    responses((status = 204, description = "It goes on no more"), OfOrder),
)]
pub(super) async fn cancel_task<A: Api>(
    State(api): State<Arc<A>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, Problem> {
    api.cancel_task(&named(id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}
