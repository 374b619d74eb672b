//! Nodes' parts of a support bundle: the resources and their methods.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};

use super::answers::{OfNode, OfOne};
use super::named;
use crate::documents::LocalSupport;
use crate::{Api, Problem};

/// What a node has for whoever looks into something
///
/// Its configuration, the last part of its log, and what its machine is, without secrets.
#[utoipa::path(
    get,
    path = "/api/v1/nodes/{name}/support",
    params(("name" = String, Path, description = "The node's name")),
    responses((status = 200, body = LocalSupport), OfOne),
)]
pub(super) async fn node_support<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<LocalSupport>, Problem> {
    api.node_support(&named(name)?).await.map(Json)
}

/// The same, of the node behind this interface
#[utoipa::path(get, path = "/api/v1/local/support", responses(
    (status = 200, body = LocalSupport),
    OfNode,
))]
pub(super) async fn local_support<A: Api>(
    State(api): State<Arc<A>>,
) -> Result<Json<LocalSupport>, Problem> {
    api.local_support().await.map(Json)
}
