//! Traffic of all volumes: the resources and their methods.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};

use super::answers::{OfAll, OfNode};
use crate::documents::{LocalTraffic, Traffic};
use crate::{Api, Problem};

pub(super) fn routes<A: Api>() -> Router<Arc<A>> {
    Router::new()
        .route("/traffic", get(traffic::<A>))
        .route("/local/traffic", get(local_traffic::<A>))
}

/// What hosts did with each volume in the last five seconds
///
/// All nodes are asked; those that do not answer are named. Volumes with which nothing was done are left out.
#[utoipa::path(get, path = "/api/v1/traffic", responses(
    (status = 200, body = Traffic),
    OfAll,
))]
pub(super) async fn traffic<A: Api>(State(api): State<Arc<A>>) -> Result<Json<Traffic>, Problem> {
    api.traffic().await.map(Json)
}

/// What hosts did with each volume at the portal of the node behind this interface, as nodes ask each other
#[utoipa::path(get, path = "/api/v1/local/traffic", responses(
    (status = 200, body = LocalTraffic),
    OfNode,
))]
pub(super) async fn local_traffic<A: Api>(
    State(api): State<Arc<A>>,
) -> Result<Json<LocalTraffic>, Problem> {
    api.local_traffic().await.map(Json)
}
