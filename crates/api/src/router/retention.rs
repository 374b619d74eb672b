//! What is kept for how long: the resources and their methods.

use std::sync::Arc;

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::routing::get;
use axum::{Json, Router};

use super::answers::{OfAll, OfNode, OfTaggedChange};
use super::conditional;
use super::guard::About;
use super::tagged::{IfMatch, Set, Tagged};
use crate::documents::{LocalRetention, Retention, RetentionChange};
use crate::{Api, Precondition, Problem};

pub(super) fn routes<A: Api>() -> Router<Arc<A>> {
    Router::new()
        .route(
            "/retention",
            get(retention::<A>).patch(change_retention::<A>),
        )
        .route("/local/retention", get(local_retention::<A>))
}

/// What nodes keep of the audit log, of events and of the performance history
///
/// All nodes are asked how much they have, and how far back it reaches; those that do not answer are named.
#[utoipa::path(get, path = "/api/v1/retention", responses(
    (status = 200, body = Retention, headers(("ETag" = String, description = "Names what may be changed of it, for `If-Match`"))),
    OfAll,
))]
pub(super) async fn retention<A: Api>(
    State(api): State<Arc<A>>,
) -> Result<Tagged<Retention>, Problem> {
    api.retention().await.map(Tagged)
}

/// Change how much nodes keep of the audit log, and of events
///
/// Nodes follow within some seconds. Where it is less, nothing is cut: with the next entry a file that is too long becomes the one
/// before, and goes when the new one is full.
#[utoipa::path(
    patch,
    path = "/api/v1/retention",
    params(IfMatch),
    request_body = RetentionChange,
    responses(
        (status = 200, body = Retention, headers(("ETag" = String, description = "Names what may be changed of it, for `If-Match`"))),
        OfTaggedChange,
    ),
)]
pub(super) async fn change_retention<A: Api>(
    State(api): State<Arc<A>>,
    precondition: Precondition,
    request: Result<Json<RetentionChange>, JsonRejection>,
) -> Result<Set<Retention>, Problem> {
    let request = conditional(request, precondition)?;
    let about = About::set(&request.request);
    Ok((about, Tagged(api.change_retention(request).await?)))
}

/// What the node behind this interface keeps, as nodes ask each other
#[utoipa::path(get, path = "/api/v1/local/retention", responses(
    (status = 200, body = LocalRetention),
    OfNode,
))]
pub(super) async fn local_retention<A: Api>(
    State(api): State<Arc<A>>,
) -> Result<Json<LocalRetention>, Problem> {
    api.local_retention().await.map(Json)
}
