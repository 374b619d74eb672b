//! Performance history: the resources and their methods.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};

use super::answers::{OfNode, OfOne, OfQuery};
use super::{asked, check_time, named, path_of};
use crate::documents::{
    DeviceTier, HISTORY_STEPS_MAX, History, HistoryOf, HistoryQuery, HistorySubject, LocalHistory,
    LocalHistoryQuery,
};
use crate::{Api, Problem, ProblemKind};

/// What a query may say, or not.
type Asked = Result<Query<HistoryQuery>, QueryRejection>;
/// Two names of a path.
type Names = Result<Path<(String, String)>, PathRejection>;

/// What hosts have done with all volumes, and what that cost the nodes, in steps of time
#[utoipa::path(get, path = "/api/v1/history", params(HistoryQuery), responses(
    (status = 200, body = History),
    OfQuery,
))]
pub(super) async fn history<A: Api>(
    State(api): State<Arc<A>>,
    query: Asked,
) -> Result<Json<History>, Problem> {
    answer(&*api, HistoryOf::Cluster, query).await
}

/// What hosts have done with a volume, in steps of time
#[utoipa::path(
    get,
    path = "/api/v1/volumes/{name}/history",
    params(("name" = String, Path, description = "The volume's name"), HistoryQuery),
    responses(
        (status = 200, body = History),
        OfOne,
    ),
)]
pub(super) async fn volume_history<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
    query: Asked,
) -> Result<Json<History>, Problem> {
    answer(&*api, HistoryOf::Volume(named(name)?), query).await
}

/// What one initiator has done with a volume, in steps of time
#[utoipa::path(
    get,
    path = "/api/v1/volumes/{name}/initiators/{initiator}/history",
    params(
        ("name" = String, Path, description = "The volume's name"),
        ("initiator" = String, Path, description = "The initiator's iSCSI name"),
        HistoryQuery,
    ),
    responses(
        (status = 200, body = History),
        OfOne,
    ),
)]
pub(super) async fn initiator_history<A: Api>(
    State(api): State<Arc<A>>,
    names: Names,
    query: Asked,
) -> Result<Json<History>, Problem> {
    let (volume, initiator) = path_of(names)?;
    answer(&*api, HistoryOf::Initiator(volume, initiator), query).await
}

/// What one initiator has done with all volumes, in steps of time
///
/// One that was never seen has done nothing.
#[utoipa::path(
    get,
    path = "/api/v1/initiators/{name}/history",
    params(("name" = String, Path, description = "The initiator's iSCSI name"), HistoryQuery),
    responses(
        (status = 200, body = History),
        OfOne,
    ),
)]
pub(super) async fn host_history<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
    query: Asked,
) -> Result<Json<History>, Problem> {
    answer(&*api, HistoryOf::Host(named(name)?), query).await
}

/// What hosts have done at a node's portal, and how the node was, in steps of time
#[utoipa::path(
    get,
    path = "/api/v1/nodes/{name}/history",
    params(("name" = String, Path, description = "The node's name"), HistoryQuery),
    responses(
        (status = 200, body = History),
        OfOne,
    ),
)]
pub(super) async fn node_history<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
    query: Asked,
) -> Result<Json<History>, Problem> {
    answer(&*api, HistoryOf::Node(named(name)?), query).await
}

/// What a device did, and how full it was, in steps of time
#[utoipa::path(
    get,
    path = "/api/v1/nodes/{name}/devices/{device}/history",
    params(
        ("name" = String, Path, description = "The node's name"),
        ("device" = u16, Path, description = "The device's number"),
        HistoryQuery,
    ),
    responses(
        (status = 200, body = History),
        OfOne,
    ),
)]
pub(super) async fn device_history<A: Api>(
    State(api): State<Arc<A>>,
    path: Result<Path<(String, u16)>, PathRejection>,
    query: Asked,
) -> Result<Json<History>, Problem> {
    let (node, device) = path_of(path)?;
    answer(&*api, HistoryOf::Device(node, device), query).await
}

/// What the devices of one class did, on all nodes, and how full they were, in steps of time
#[utoipa::path(
    get,
    path = "/api/v1/tiers/{tier}/history",
    params(("tier" = DeviceTier, Path, description = "The class"), HistoryQuery),
    responses(
        (status = 200, body = History),
        OfOne,
    ),
)]
pub(super) async fn tier_history<A: Api>(
    State(api): State<Arc<A>>,
    tier: Result<Path<DeviceTier>, PathRejection>,
    query: Asked,
) -> Result<Json<History>, Problem> {
    answer(&*api, HistoryOf::Tier(path_of(tier)?), query).await
}

/// What the node behind this interface has measured, as nodes ask each other
#[utoipa::path(get, path = "/api/v1/local/history", params(LocalHistoryQuery), responses(
    (status = 200, body = LocalHistory),
    OfNode,
))]
pub(super) async fn local_history<A: Api>(
    State(api): State<Arc<A>>,
    query: Result<Query<LocalHistoryQuery>, QueryRejection>,
) -> Result<Json<LocalHistory>, Problem> {
    let query = asked(query)?;
    let subject: HistorySubject = query.of.parse().map_err(|_| {
        let detail = format!("there is no history of `{}`", query.of);
        Problem::new(ProblemKind::Invalid, &detail)
            .hint("of is node, volume:ID, initiator:ID:NAME, host:NAME, device:NUMBER or tier:NAME")
    })?;
    if query.step == 0 || query.from % u64::from(query.step) != 0 {
        return Err(Problem::new(
            ProblemKind::Invalid,
            "from is to be a multiple of step, and step no less than 1",
        )
        .hint("whoever has no reason to ask a single node asks /api/v1/history"));
    }
    let span = query.until.saturating_sub(query.from);
    // One more, because the first of an answer may begin before what was asked for.
    check_steps(span.div_ceil(u64::from(query.step)).saturating_sub(1))?;
    api.local_history(subject, query).await.map(Json)
}

async fn answer<A: Api>(api: &A, of: HistoryOf, query: Asked) -> Result<Json<History>, Problem> {
    let query = asked(query)?;
    check_time("from_ms", query.from_ms)?;
    check_time("until_ms", query.until_ms)?;
    if query
        .step_seconds
        .is_some_and(|step| i32::try_from(step).is_err())
    {
        return Err(Problem::new(
            ProblemKind::Invalid,
            format!("step_seconds is more than {}", i32::MAX),
        )
        .hint("the longest step that is kept is 3600"));
    }
    if query.step_seconds == Some(0) {
        return Err(Problem::new(ProblemKind::Invalid, "step_seconds is 0")
            .hint("it is 1 at least; without it steps are as long as makes sense"));
    }
    if let (Some(from), Some(until)) = (query.from_ms, query.until_ms) {
        if until < from {
            return Err(
                Problem::new(ProblemKind::Invalid, "until_ms is before from_ms")
                    .hint("both are in milliseconds since 1970"),
            );
        }
        if let Some(step) = query.step_seconds {
            check_steps((until - from) / 1000 / u64::from(step))?;
        }
    }
    api.history(of, query).await.map(Json)
}

/// Whether an answer holds so many steps.
fn check_steps(steps: u64) -> Result<(), Problem> {
    if steps <= HISTORY_STEPS_MAX {
        return Ok(());
    }
    let detail = format!("these are {steps} steps, and an answer has {HISTORY_STEPS_MAX} at most");
    Err(Problem::new(ProblemKind::Invalid, &detail)
        .hint("ask for a shorter time, or for longer steps"))
}
