//! Initiators, and whom volumes are for: the resources and their methods.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Path, State};
use axum::http::StatusCode;

use super::answers::{OfAll, OfChange, OfOrder};
use super::{named, refuse};
use crate::documents::{AccessChange, Initiator, InitiatorList, InitiatorPut, Volume};
use crate::{Api, Problem};

/// Change whom a volume is for
///
/// It is in effect at once: sessions of initiators that may not use it any more end.
#[utoipa::path(
    patch,
    path = "/api/v1/volumes/{name}/access",
    params(("name" = String, Path, description = "The volume's name")),
    request_body = AccessChange,
    responses(
        (status = 200, body = Volume),
        OfChange,
    ),
)]
pub(super) async fn change_access<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
    request: Result<Json<AccessChange>, JsonRejection>,
) -> Result<Json<Volume>, Problem> {
    let Json(request) = request.map_err(|rejection| refuse(&rejection))?;
    api.change_access(&named(name)?, request).await.map(Json)
}

/// The initiators that are on record
#[utoipa::path(get, path = "/api/v1/initiators", responses(
    (status = 200, body = InitiatorList),
    OfAll,
))]
pub(super) async fn initiators<A: Api>(
    State(api): State<Arc<A>>,
) -> Result<Json<InitiatorList>, Problem> {
    api.initiators().await.map(Json)
}

/// Put an initiator on record, or what is on record of it anew
#[utoipa::path(
    put,
    path = "/api/v1/initiators/{name}",
    params(("name" = String, Path, description = "The initiator's iSCSI name")),
    request_body = InitiatorPut,
    responses(
        (status = 200, body = Initiator),
        OfChange,
    ),
)]
pub(super) async fn put_initiator<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
    request: Result<Json<InitiatorPut>, JsonRejection>,
) -> Result<Json<Initiator>, Problem> {
    let Json(request) = request.map_err(|rejection| refuse(&rejection))?;
    api.put_initiator(&named(name)?, request).await.map(Json)
}

/// Forget an initiator that no volume lists
#[utoipa::path(
    delete,
    path = "/api/v1/initiators/{name}",
    params(("name" = String, Path, description = "The initiator's iSCSI name")),
    responses(
        (status = 204, description = "It is not on record any more"),
        OfOrder,
    ),
)]
pub(super) async fn remove_initiator<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, Problem> {
    api.remove_initiator(&named(name)?).await?;
    Ok(StatusCode::NO_CONTENT)
}
