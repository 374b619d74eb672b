//! Initiators, and whom volumes are for: the resources and their methods.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;

use super::answers::{OfOne, OfQuery, OfRemoval, OfTaggedChange};
use super::guard::About;
use super::page::{PageQuery, chosen, page};
use super::tagged::{IfMatch, Set, Tagged};
use super::{conditional, named};
use crate::documents::{AccessChange, Initiator, InitiatorList, InitiatorPut, Volume};
use crate::{Api, Precondition, Problem};

/// Change whom a volume is for
///
/// It is in effect at once: sessions of initiators that may not use it any more end.
#[utoipa::path(
    patch,
    path = "/api/v1/volumes/{name}/access",
    params(("name" = String, Path, description = "The volume's name"), IfMatch),
    request_body = AccessChange,
    responses(
        (status = 200, body = Volume, headers(("ETag" = String, description = "Names what may be changed of it, for `If-Match`"))),
        OfTaggedChange,
    ),
)]
pub(super) async fn change_access<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
    precondition: Precondition,
    request: Result<Json<AccessChange>, JsonRejection>,
) -> Result<Set<Volume>, Problem> {
    let request = conditional(request, precondition)?;
    let about = About::set(&request.request);
    let changed = api.change_access(&named(name)?, request).await?;
    Ok((about, Tagged(changed)))
}

/// The initiators that are on record
#[utoipa::path(get, path = "/api/v1/initiators", params(PageQuery), responses(
    (status = 200, body = InitiatorList),
    OfQuery,
))]
pub(super) async fn initiators<A: Api>(
    State(api): State<Arc<A>>,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Json<InitiatorList>, Problem> {
    let query = chosen(query)?;
    let all = api.initiators().await?.initiators;
    let (initiators, next) = page(all, &query, |one| &one.name, |one| one.name.clone());
    Ok(Json(InitiatorList { initiators, next }))
}

/// An initiator that is on record
#[utoipa::path(
    get,
    path = "/api/v1/initiators/{name}",
    params(("name" = String, Path, description = "The initiator's iSCSI name")),
    responses(
        (status = 200, body = Initiator, headers(("ETag" = String, description = "Names what may be changed of it, for `If-Match`"))),
        OfOne,
    ),
)]
pub(super) async fn initiator<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Tagged<Initiator>, Problem> {
    api.initiator(&named(name)?).await.map(Tagged)
}

/// Put an initiator on record, or what is on record of it anew
///
/// With `If-None-Match: *` only if it is not on record yet.
#[utoipa::path(
    put,
    path = "/api/v1/initiators/{name}",
    params(("name" = String, Path, description = "The initiator's iSCSI name"), IfMatch),
    request_body = InitiatorPut,
    responses(
        (status = 200, body = Initiator, headers(("ETag" = String, description = "Names what may be changed of it, for `If-Match`"))),
        OfTaggedChange,
    ),
)]
pub(super) async fn put_initiator<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
    precondition: Precondition,
    request: Result<Json<InitiatorPut>, JsonRejection>,
) -> Result<Set<Initiator>, Problem> {
    let request = conditional(request, precondition)?;
    let about = About::set(&request.request);
    let put = api.put_initiator(&named(name)?, request).await?;
    Ok((about, Tagged(put)))
}

/// Forget an initiator that no volume lists
#[utoipa::path(
    delete,
    path = "/api/v1/initiators/{name}",
    params(("name" = String, Path, description = "The initiator's iSCSI name"), IfMatch),
    responses(
        (status = 204, description = "It is not on record any more"),
        OfRemoval,
    ),
)]
pub(super) async fn remove_initiator<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
    precondition: Precondition,
) -> Result<StatusCode, Problem> {
    api.remove_initiator(&named(name)?, precondition).await?;
    Ok(StatusCode::NO_CONTENT)
}
