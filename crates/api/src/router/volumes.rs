//! Volumes: the resources and their methods. Whom they are for is told in [`access`](super::access).

use std::sync::Arc;

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::{Extension, Json};

use super::answers::{OfCreation, OfOne, OfOrder, OfQuery, OfRemoval, OfTaggedChange};
use super::guard::About;
use super::page::{PageQuery, chosen, page};
use super::tagged::{IfMatch, KeyHeader, Set, Tagged};
use super::{asked, conditional, named, refuse, stall_query};
use crate::documents::{
    Created, StallList, StallQuery, Volume, VolumeCreate, VolumeDelete, VolumeGrow, VolumeList,
};
use crate::idempotency::OfRequest;
use crate::{Api, Conditional, Keyed, Precondition, Problem};

/// The volumes
#[utoipa::path(get, path = "/api/v1/volumes", params(PageQuery), responses(
    (status = 200, body = VolumeList),
    OfQuery,
))]
pub(super) async fn volumes<A: Api>(
    State(api): State<Arc<A>>,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Json<VolumeList>, Problem> {
    let query = chosen(query)?;
    let all = api.volumes().await?.volumes;
    let (volumes, next) = page(all, &query, |one| &one.name, |one| one.name.clone());
    Ok(Json(VolumeList { volumes, next }))
}

/// Make a volume
///
/// A volume that exists already, with the same size and policy, is nothing new.
#[utoipa::path(post, path = "/api/v1/volumes", params(KeyHeader), request_body = VolumeCreate, responses(
    (status = 201, body = Volume, description = "The volume was made"),
    (status = 200, body = Volume, description = "There was one like it already"),
    OfCreation,
))]
pub(super) async fn create_volume<A: Api>(
    State(api): State<Arc<A>>,
    OfRequest(key): OfRequest,
    request: Result<Json<VolumeCreate>, JsonRejection>,
) -> Result<(StatusCode, Extension<About>, Tagged<Volume>), Problem> {
    let Json(request) = request.map_err(|rejection| refuse(&rejection))?;
    let Created { volume, is_new } = api.create_volume(Keyed { request, key }).await?;
    let status = if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let about = match &volume {
        Volume {
            name,
            bytes,
            policy,
            ..
        } if is_new => About::new(&format!("volume {name}: bytes={bytes}, policy={policy}")),
        Volume { name, .. } => About::nothing_new(&format!("volume {name}")),
    };
    Ok((status, about, Tagged(volume)))
}

/// A volume
#[utoipa::path(
    get,
    path = "/api/v1/volumes/{name}",
    params(("name" = String, Path, description = "The volume's name")),
    responses(
        (status = 200, body = Volume, headers(("ETag" = String, description = "Names what may be changed of it, for `If-Match`"))),
        OfOne,
    ),
)]
pub(super) async fn volume<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Tagged<Volume>, Problem> {
    api.volume(&named(name)?).await.map(Tagged)
}

/// Give a volume more bytes
#[utoipa::path(
    patch,
    path = "/api/v1/volumes/{name}",
    params(("name" = String, Path, description = "The volume's name"), IfMatch),
    request_body = VolumeGrow,
    responses(
        (status = 200, body = Volume, headers(("ETag" = String, description = "Names what may be changed of it, for `If-Match`"))),
        OfTaggedChange,
    ),
)]
pub(super) async fn grow_volume<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
    precondition: Precondition,
    request: Result<Json<VolumeGrow>, JsonRejection>,
) -> Result<Set<Volume>, Problem> {
    let request = conditional(request, precondition)?;
    let about = About::set(&request.request);
    let grown = api.grow_volume(&named(name)?, request).await?;
    Ok((about, Tagged(grown)))
}

/// Delete a volume with all its data
#[utoipa::path(
    delete,
    path = "/api/v1/volumes/{name}",
    params(("name" = String, Path, description = "The volume's name"), VolumeDelete, IfMatch),
    responses(
        (status = 204, description = "The volume is gone"),
        OfRemoval,
    ),
)]
pub(super) async fn delete_volume<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
    how: Result<Query<VolumeDelete>, QueryRejection>,
    precondition: Precondition,
) -> Result<StatusCode, Problem> {
    let request = asked(how)?;
    api.delete_volume(
        &named(name)?,
        Conditional {
            request,
            precondition,
        },
    )
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Begin to read all of a volume and to compare its replicas
///
/// Where that is under way already, nothing new begins.
#[utoipa::path(
    post,
    path = "/api/v1/volumes/{name}/scrub",
    params(("name" = String, Path, description = "The volume's name")),
    responses(
        (status = 202, body = Volume, description = "It is under way"),
        OfOrder,
    ),
)]
pub(super) async fn scrub_volume<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<(StatusCode, Json<Volume>), Problem> {
    let volume = api.scrub_volume(&named(name)?).await?;
    Ok((StatusCode::ACCEPTED, Json(volume)))
}

/// The stalls of a volume
#[utoipa::path(
    get,
    path = "/api/v1/volumes/{name}/stalls",
    params(("name" = String, Path, description = "The volume's name"), StallQuery),
    responses(
        (status = 200, body = StallList),
        OfOne,
    ),
)]
pub(super) async fn volume_stalls<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
    query: Result<Query<StallQuery>, QueryRejection>,
) -> Result<Json<StallList>, Problem> {
    let (name, query) = (named(name)?, stall_query(query)?);
    api.stalls(Some(&name), query).await.map(Json)
}
