//! The nodes, and their devices.

use std::sync::Arc;

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};

use super::answers::{OfChange, OfOne, OfQuery, OfRemoval, OfTaggedChange};
use super::guard::About;
use super::page::{PageQuery, chosen, page};
use super::tagged::{IfMatch, Set, Tagged};
use super::{conditional, named, refuse};
use crate::documents::{DeviceChange, DeviceList, Node, NodeChange, NodeDetails, NodeList};
use crate::{Api, Precondition, Problem};

pub(super) fn routes<A: Api>() -> Router<Arc<A>> {
    Router::new()
        .route("/nodes", get(nodes::<A>))
        .route(
            "/nodes/{name}",
            get(node::<A>)
                .patch(change_node::<A>)
                .delete(remove_node::<A>),
        )
        .route(
            "/nodes/{name}/devices",
            get(devices::<A>).post(change_devices::<A>),
        )
        .route("/local/devices", post(change_local_devices::<A>))
}

/// The nodes
#[utoipa::path(get, path = "/api/v1/nodes", params(PageQuery), responses(
    (status = 200, body = NodeList),
    OfQuery,
))]
pub(super) async fn nodes<A: Api>(
    State(api): State<Arc<A>>,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Json<NodeList>, Problem> {
    let query = chosen(query)?;
    let all = api.nodes().await?.nodes;
    let place = |node: &Node| format!("{:05}", node.node);
    let (nodes, next) = page(all, &query, |node| &node.name, place);
    Ok(Json(NodeList { nodes, next }))
}

/// A node, and what is on it
#[utoipa::path(
    get,
    path = "/api/v1/nodes/{name}",
    params(("name" = String, Path, description = "The node's name")),
    responses(
        (status = 200, body = NodeDetails, headers(("ETag" = String, description = "Names what may be changed of it, for `If-Match`"))),
        OfOne,
    ),
)]
pub(super) async fn node<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Tagged<NodeDetails>, Problem> {
    api.node(&named(name)?).await.map(Tagged)
}

/// Admit a node, drain it, or put it aside for maintenance
///
/// What would cost the last good copy of something, or stop a volume, is refused with the reason.
#[utoipa::path(
    patch,
    path = "/api/v1/nodes/{name}",
    params(("name" = String, Path, description = "The node's name"), IfMatch),
    request_body = NodeChange,
    responses(
        (status = 200, body = Node, headers(("ETag" = String, description = "Names what may be changed of it, for `If-Match`"))),
        OfTaggedChange,
    ),
)]
pub(super) async fn change_node<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
    precondition: Precondition,
    request: Result<Json<NodeChange>, JsonRejection>,
) -> Result<Set<Node>, Problem> {
    let request = conditional(request, precondition)?;
    let about = About::set(&request.request);
    let changed = api.change_node(&named(name)?, request).await?;
    Ok((about, Tagged(changed)))
}

/// Remove a node on which nothing is
#[utoipa::path(
    delete,
    path = "/api/v1/nodes/{name}",
    params(("name" = String, Path, description = "The node's name"), IfMatch),
    responses(
        (status = 204, description = "The node is no part of the cluster any more"),
        OfRemoval,
    ),
)]
pub(super) async fn remove_node<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
    precondition: Precondition,
) -> Result<StatusCode, Problem> {
    api.remove_node(&named(name)?, precondition).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The devices of a node
#[utoipa::path(
    get,
    path = "/api/v1/nodes/{name}/devices",
    params(("name" = String, Path, description = "The node's name")),
    responses(
        (status = 200, body = DeviceList),
        OfOne,
    ),
)]
pub(super) async fn devices<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<DeviceList>, Problem> {
    api.devices(&named(name)?).await.map(Json)
}

/// Add a device to a node, drain one, or remove one
///
/// What would leave data without room, or the node without its journal, is refused with the reason. A drain
/// has begun when this is answered; `used_bytes` of the device says what is left.
#[utoipa::path(
    post,
    path = "/api/v1/nodes/{name}/devices",
    params(("name" = String, Path, description = "The node's name")),
    request_body = DeviceChange,
    responses(
        (status = 200, body = DeviceList),
        OfChange,
    ),
)]
pub(super) async fn change_devices<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
    request: Result<Json<DeviceChange>, JsonRejection>,
) -> Result<(Extension<About>, Json<DeviceList>), Problem> {
    let Json(request) = request.map_err(|rejection| refuse(&rejection))?;
    let about = About::new(&request.to_string());
    let devices = api.change_devices(&named(name)?, request).await?;
    Ok((about, Json(devices)))
}

/// Add a device to the node behind this interface, drain one, or remove one
#[utoipa::path(
    post,
    path = "/api/v1/local/devices",
    request_body = DeviceChange,
    responses(
        (status = 200, body = DeviceList),
        OfChange,
    ),
)]
pub(super) async fn change_local_devices<A: Api>(
    State(api): State<Arc<A>>,
    request: Result<Json<DeviceChange>, JsonRejection>,
) -> Result<(Extension<About>, Json<DeviceList>), Problem> {
    let Json(request) = request.map_err(|rejection| refuse(&rejection))?;
    let about = About::new(&request.to_string());
    let devices = api.change_local_devices(request).await?;
    Ok((about, Json(devices)))
}
