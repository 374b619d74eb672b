//! Alarms, when they are raised, and who is told: the resources and their methods.

use std::sync::Arc;

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::{get, patch, post, put};
use axum::{Extension, Json, Router};
use holdfast_identity::Caller;

use super::answers::{OfAll, OfChange, OfOrder, OfQuery, OfRemoval, OfTaggedChange};
use super::guard::About;
use super::page::{PageQuery, chosen, page};
use super::tagged::{IfMatch, Set, Tagged};
use super::{asked, check_number, conditional, named, path_of, refuse};
use crate::documents::{
    ALARM_NOTE_MAX, Alarm, AlarmAcknowledge, AlarmKind, AlarmKindChange, AlarmKindList, AlarmList,
    AlarmQuery, Receiver, ReceiverList, ReceiverPut,
};
use crate::{Api, Conditional, Precondition, Problem, ProblemKind};

/// Who has taken note where nobody has to show who he is.
const NOBODY: &str = "somebody";

pub(super) fn routes<A: Api>() -> Router<Arc<A>> {
    Router::new()
        .route("/alarms", get(alarms::<A>))
        .route("/alarms/{id}/acknowledge", post(acknowledge_alarm::<A>))
        .route("/alarm-kinds", get(alarm_kinds::<A>))
        .route(
            "/alarm-kinds/{kind}",
            patch(change_alarm_kind::<A>).delete(reset_alarm_kind::<A>),
        )
        .route("/receivers", get(receivers::<A>))
        .route(
            "/receivers/{name}",
            put(put_receiver::<A>).delete(remove_receiver::<A>),
        )
        .route("/receivers/{name}/test", post(test_receiver::<A>))
}

/// The alarms
///
/// Those that last, critical ones and the newest first, unless others are asked for. Here a prefix is one of the codes of kinds.
#[utoipa::path(get, path = "/api/v1/alarms", params(AlarmQuery, PageQuery), responses(
    (status = 200, body = AlarmList),
    OfQuery,
))]
pub(super) async fn alarms<A: Api>(
    State(api): State<Arc<A>>,
    query: Result<Query<AlarmQuery>, QueryRejection>,
    part: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Json<AlarmList>, Problem> {
    let (query, part) = (asked(query)?, chosen(part)?);
    let all = api.alarms(query).await?.alarms;
    let (alarms, next) = page(all, &part, |one| &one.kind, Alarm::place);
    Ok(Json(AlarmList { alarms, next }))
}

/// Take note of an alarm
///
/// It lasts as long as what it is about. Whoever looks sees that somebody knows.
#[utoipa::path(
    post,
    path = "/api/v1/alarms/{id}/acknowledge",
    params(("id" = u64, Path, description = "The alarm's id")),
    request_body = AlarmAcknowledge,
    responses((status = 200, body = Alarm), OfChange),
)]
pub(super) async fn acknowledge_alarm<A: Api>(
    State(api): State<Arc<A>>,
    caller: Option<Extension<Caller>>,
    id: Result<Path<u64>, PathRejection>,
    request: Result<Json<AlarmAcknowledge>, JsonRejection>,
) -> Result<(Option<Extension<About>>, Json<Alarm>), Problem> {
    let id = path_of(id)?;
    let Json(request) = request.map_err(|rejection| refuse(&rejection))?;
    if request.note.chars().count() > ALARM_NOTE_MAX || request.note.contains(char::is_control) {
        let detail = format!("a note is one line of {ALARM_NOTE_MAX} letters at most");
        return Err(Problem::new(ProblemKind::Invalid, detail));
    }
    let by = caller.map_or_else(
        || NOBODY.to_owned(),
        |Extension(caller)| caller.who.to_string(),
    );
    let about = About::set(&request);
    Ok((about, Json(api.acknowledge_alarm(id, request, by).await?)))
}

/// The kinds of alarms, and when they are raised
#[utoipa::path(get, path = "/api/v1/alarm-kinds", responses(
    (status = 200, body = AlarmKindList),
    OfAll,
))]
pub(super) async fn alarm_kinds<A: Api>(
    State(api): State<Arc<A>>,
) -> Result<Json<AlarmKindList>, Problem> {
    api.alarm_kinds().await.map(Json)
}

/// Change when alarms of a kind are raised
///
/// It is in force within seconds.
#[utoipa::path(
    patch,
    path = "/api/v1/alarm-kinds/{kind}",
    params(("kind" = String, Path, description = "The kind's code"), IfMatch),
    request_body = AlarmKindChange,
    responses(
        (status = 200, body = AlarmKind, headers(("ETag" = String, description = "Names what may be changed of it, for `If-Match`"))),
        OfTaggedChange,
    ),
)]
pub(super) async fn change_alarm_kind<A: Api>(
    State(api): State<Arc<A>>,
    kind: Result<Path<String>, PathRejection>,
    precondition: Precondition,
    request: Result<Json<AlarmKindChange>, JsonRejection>,
) -> Result<Set<AlarmKind>, Problem> {
    let Json(change) = request.map_err(|rejection| refuse(&rejection))?;
    for (name, value) in [("set", change.set), ("clear", change.clear)] {
        check_number(name, value, "`off` has none of the kind raised")?;
    }
    let about = About::set(&change);
    let change = Conditional {
        request: Some(change),
        precondition,
    };
    let changed = api.change_alarm_kind(&named(kind)?, change).await?;
    Ok((about, Tagged(changed)))
}

/// Have alarms of a kind raised as if nobody had changed that
#[utoipa::path(
    delete,
    path = "/api/v1/alarm-kinds/{kind}",
    params(("kind" = String, Path, description = "The kind's code"), IfMatch),
    responses(
        (status = 200, body = AlarmKind, headers(("ETag" = String, description = "Names what may be changed of it, for `If-Match`"))),
        OfRemoval,
    ),
)]
pub(super) async fn reset_alarm_kind<A: Api>(
    State(api): State<Arc<A>>,
    kind: Result<Path<String>, PathRejection>,
    precondition: Precondition,
) -> Result<Tagged<AlarmKind>, Problem> {
    let change = Conditional {
        request: None,
        precondition,
    };
    let kind = named(kind)?;
    api.change_alarm_kind(&kind, change).await.map(Tagged)
}

/// Those who are told of alarms
///
/// Their secrets are never told.
#[utoipa::path(get, path = "/api/v1/receivers", responses(
    (status = 200, body = ReceiverList),
    OfAll,
))]
pub(super) async fn receivers<A: Api>(
    State(api): State<Arc<A>>,
) -> Result<Json<ReceiverList>, Problem> {
    api.receivers().await.map(Json)
}

/// Have somebody told of alarms, from now on
///
/// With `If-None-Match: *` only if nobody is called so yet.
#[utoipa::path(
    put,
    path = "/api/v1/receivers/{name}",
    params(("name" = String, Path, description = "What it is to be called: 1 to 63 letters, digits and '-'"), IfMatch),
    request_body = ReceiverPut,
    responses(
        (status = 200, body = Receiver, headers(("ETag" = String, description = "Names what may be changed of it, for `If-Match`"))),
        OfTaggedChange,
    ),
)]
pub(super) async fn put_receiver<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
    precondition: Precondition,
    request: Result<Json<ReceiverPut>, JsonRejection>,
) -> Result<Set<Receiver>, Problem> {
    let request = conditional(request, precondition)?;
    let about = About::set(&request.request);
    let put = api.put_receiver(&named(name)?, request).await?;
    Ok((about, Tagged(put)))
}

/// Have somebody told of alarms no more
#[utoipa::path(
    delete,
    path = "/api/v1/receivers/{name}",
    params(("name" = String, Path, description = "What it is called"), IfMatch),
    responses((status = 204, description = "It is told no more"), OfRemoval),
)]
pub(super) async fn remove_receiver<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
    precondition: Precondition,
) -> Result<StatusCode, Problem> {
    api.remove_receiver(&named(name)?, precondition).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Tell a receiver of an alarm that is none, now
///
/// By the node that is asked. What went wrong is the answer.
#[utoipa::path(
    post,
    path = "/api/v1/receivers/{name}/test",
    params(("name" = String, Path, description = "What it is called")),
    responses((status = 204, description = "It was told"), OfOrder),
)]
pub(super) async fn test_receiver<A: Api>(
    State(api): State<Arc<A>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, Problem> {
    api.test_receiver(&named(name)?).await?;
    Ok(StatusCode::NO_CONTENT)
}
