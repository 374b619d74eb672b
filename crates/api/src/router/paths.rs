//! Sessions of initiators, the paths that they are, and reservations: the resources and their methods.

use std::sync::Arc;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::routing::get;
use axum::{Json, Router};

use super::answers::{OfNode, OfOne, OfQuery};
use super::page::{Chosen, PageQuery, chosen, page};
use super::{asked, named};
use crate::documents::{
    LocalSessionQuery, LocalSessions, PathSession, Reservations, SessionList, TargetSession,
    TargetSessionList,
};
use crate::{Api, Problem};

pub(super) fn routes<A: Api>() -> Router<Arc<A>> {
    Router::new()
        .route("/sessions", get(sessions::<A>))
        .route("/volumes/{name}/sessions", get(volume_sessions::<A>))
        .route("/volumes/{name}/reservations", get(reservations::<A>))
        .route("/initiators/{name}/sessions", get(initiator_sessions::<A>))
        .route("/local/sessions", get(local_sessions::<A>))
}

/// The sessions with all targets
///
/// Each once, however many volumes its target has. All nodes are asked; those that do not answer are named. Here a prefix is one of
/// initiators.
#[utoipa::path(get, path = "/api/v1/sessions", params(PageQuery), responses(
    (status = 200, body = TargetSessionList),
    OfQuery,
))]
pub(super) async fn sessions<A: Api>(
    State(api): State<Arc<A>>,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Json<TargetSessionList>, Problem> {
    let query = chosen(query)?;
    let all = api.sessions().await?;
    let (sessions, next) = page(
        all.sessions,
        &query,
        |it| &it.initiator,
        TargetSession::place,
    );
    Ok(Json(TargetSessionList {
        sessions,
        next,
        ..all
    }))
}

/// The sessions that are paths to a volume
///
/// All nodes are asked; those that do not answer are named. Here a prefix is one of initiators.
#[utoipa::path(
    get,
    path = "/api/v1/volumes/{name}/sessions",
    params(("name" = String, Path, description = "The volume's name"), PageQuery),
    responses(
        (status = 200, body = SessionList),
        OfOne,
    ),
)]
pub(super) async fn volume_sessions<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Json<SessionList>, Problem> {
    let (name, query) = (named(name)?, chosen(query)?);
    let all = api.volume_sessions(&name).await?;
    Ok(Json(piece(all, &query, |it| &it.initiator)))
}

/// The sessions of an initiator, as paths to volumes
///
/// It need not be on record. All nodes are asked; those that do not answer are named. Here a prefix is one of volumes.
#[utoipa::path(
    get,
    path = "/api/v1/initiators/{name}/sessions",
    params(("name" = String, Path, description = "The initiator's iSCSI name"), PageQuery),
    responses(
        (status = 200, body = SessionList),
        OfOne,
    ),
)]
pub(super) async fn initiator_sessions<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Json<SessionList>, Problem> {
    let (name, query) = (named(name)?, chosen(query)?);
    let all = api.initiator_sessions(&name).await?;
    Ok(Json(piece(all, &query, |it| &it.volume)))
}

/// A piece of a listing of sessions.
fn piece(all: SessionList, query: &Chosen, name: impl Fn(&PathSession) -> &str) -> SessionList {
    let (sessions, next) = page(all.sessions, query, name, PathSession::place);
    SessionList {
        sessions,
        next,
        ..all
    }
}

/// The sessions with the node behind this interface
#[utoipa::path(get, path = "/api/v1/local/sessions", params(LocalSessionQuery), responses(
    (status = 200, body = LocalSessions),
    OfNode,
))]
pub(super) async fn local_sessions<A: Api>(
    State(api): State<Arc<A>>,
    query: Result<Query<LocalSessionQuery>, QueryRejection>,
) -> Result<Json<LocalSessions>, Problem> {
    api.local_sessions(asked(query)?).await.map(Json)
}

/// The persistent reservations of a volume
///
/// Who is registered with which key, and who holds what.
#[utoipa::path(
    get,
    path = "/api/v1/volumes/{name}/reservations",
    params(("name" = String, Path, description = "The volume's name")),
    responses(
        (status = 200, body = Reservations),
        OfOne,
    ),
)]
pub(super) async fn reservations<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<Reservations>, Problem> {
    api.reservations(&named(name)?).await.map(Json)
}
