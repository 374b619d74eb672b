//! Who asks, users, tokens, and the log of what was done: the resources and their methods.

use std::sync::Arc;

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, put};
use axum::{Extension, Json, Router};
use holdfast_identity::{Caller, Proof, ProofKind, Role, SESSION_LIFETIME, Scope, UserName, Who};
use holdfast_model::ClusterId;

use super::answers::{
    OfAll, OfCreation, OfLogin, OfOne, OfOrder, OfQuery, OfRemoval, OfTaggedChange,
};
use super::guard::{About, LoggedInAs};
use super::page::{PageQuery, chosen, page};
use super::tagged::{IfMatch, KeyHeader, Set, Tagged};
use super::{asked, check_time, conditional, named, refuse};
use crate::documents::{
    AUDIT_MAX, AuditList, AuditQuery, Identity, IdentityKind, LocalAudit, PasswordChange,
    SessionCreate, Token, TokenCreate, TokenCreated, TokenList, User, UserChange, UserCreate,
    UserList,
};
use crate::idempotency::OfRequest;
use crate::identities::{Door, Identities, UserMade};
use crate::{Keyed, Peer, Precondition, Problem, ProblemKind};

/// What the cookie of a session begins with. By that browsers keep it to this very host, and to HTTPS (RFC 6265bis, 4.1.3.2).
const SESSION_COOKIE: &str = "__Host-holdfast-";

/// What the cookie of a session is called. Browsers do not tell ports of a host apart (RFC 6265, section 8.5): what is there of
/// another cluster has another name.
pub(super) fn session_cookie(cluster: ClusterId) -> String {
    of_cluster(SESSION_COOKIE, cluster)
}

/// A name with the beginning of the cluster's at its end.
pub(super) fn of_cluster(begins: &str, cluster: ClusterId) -> String {
    let mut name = format!("{begins}{cluster}");
    name.truncate(begins.len() + 8);
    name
}

/// The routes.
pub(super) fn routes<S: Clone + Send + Sync + 'static>(door: Door) -> Router<S> {
    Router::new()
        .route("/session", get(session).post(log_in).delete(log_out))
        .route("/session/password", put(change_password))
        .route("/users", get(users).post(create_user))
        .route(
            "/users/{name}",
            get(user).patch(change_user).delete(remove_user),
        )
        .route("/tokens", get(tokens).post(create_token))
        .route("/tokens/{id}", delete(revoke_token))
        .route("/audit", get(audit))
        .route("/local/audit", get(local_audit))
        .with_state(door.clone())
        .merge(super::login::routes(door))
}

/// Who asks
#[utoipa::path(get, path = "/api/v1/session", responses((status = 200, body = Identity), OfAll))]
pub(super) async fn session(caller: Option<Extension<Caller>>) -> Json<Identity> {
    Json(match caller {
        Some(Extension(caller)) => identity(&caller),
        // Nobody stands in front.
        None => Identity {
            kind: IdentityKind::Anybody,
            name: "anybody".to_owned(),
            role: Role::Administrator,
            scope: Scope::Everything,
            expires_ms: None,
            issuer: None,
        },
    })
}

/// Log in
///
/// The answer sets a cookie, which a browser shows from then on; it holds for twelve hours, at every node. After some failures
/// a further try must wait.
#[utoipa::path(
    post,
    path = "/api/v1/session",
    request_body = SessionCreate,
    responses((status = 200, body = Identity, headers(("Set-Cookie" = String, description = "The session"))), OfLogin),
)]
pub(super) async fn log_in(
    State(door): State<Door>,
    peer: Option<Extension<Peer>>,
    request: Result<Json<SessionCreate>, JsonRejection>,
) -> Result<Response, Response> {
    let Json(request) = request.map_err(|rejection| refuse(&rejection).into_response())?;
    let identities = known(&door).map_err(IntoResponse::into_response)?;
    // What is no name may be a password, typed into the wrong field.
    let name = request.name.parse::<UserName>();
    let who = LoggedInAs(name.map_or_else(|_| "user ?".to_owned(), |name| format!("user {name}")));
    let Extension(peer) = peer.ok_or_else(|| no_address().into_response())?;
    match identities.log_in(request, peer.address.ip()).await {
        Ok(logged_in) => {
            let cookie = cookie(&**identities, &logged_in.secret, SESSION_LIFETIME.as_secs());
            let answer = Json(identity(&logged_in.caller));
            Ok((Extension(who), [(header::SET_COOKIE, cookie)], answer).into_response())
        }
        Err(problem) => Err((Extension(who), problem).into_response()),
    }
}

/// Log out
///
/// Ends the session that the request shows. Without one there is nothing to be ended.
#[utoipa::path(
    delete,
    path = "/api/v1/session",
    responses((status = 204, description = "It holds no more"), OfOrder),
)]
pub(super) async fn log_out(
    State(door): State<Door>,
    caller: Option<Extension<Caller>>,
) -> Result<Response, Problem> {
    let identities = known(&door)?;
    if let Some(Extension(Caller {
        who: Who::User(_, id) | Who::External(_, id),
        ..
    })) = &caller
    {
        identities.log_out(id).await?;
    }
    let gone = [(header::SET_COOKIE, cookie(&**identities, "", 0))];
    Ok((StatusCode::NO_CONTENT, gone).into_response())
}

/// Change one's own password
///
/// All other logins of that user end.
#[utoipa::path(
    put,
    path = "/api/v1/session/password",
    request_body = PasswordChange,
    responses((status = 204, description = "It is the new one"), OfLogin),
)]
pub(super) async fn change_password(
    State(door): State<Door>,
    caller: Option<Extension<Caller>>,
    peer: Option<Extension<Peer>>,
    request: Result<Json<PasswordChange>, JsonRejection>,
) -> Result<StatusCode, Problem> {
    let Json(request) = request.map_err(|rejection| refuse(&rejection))?;
    let identities = known(&door)?;
    let Some(Extension(Caller {
        who: Who::User(user, id),
        ..
    })) = &caller
    else {
        return Err(
            Problem::new(ProblemKind::Refused, "who asks has no password")
                .hint("users have, who log in with one; a token is replaced by another one"),
        );
    };
    let Extension(peer) = peer.ok_or_else(no_address)?;
    identities
        .change_password((user, id), request, peer.address.ip())
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The users
#[utoipa::path(get, path = "/api/v1/users", params(PageQuery), responses(
    (status = 200, body = UserList),
    OfQuery, OfOrder,
))]
pub(super) async fn users(
    State(door): State<Door>,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Json<UserList>, Problem> {
    let query = chosen(query)?;
    let all = known(&door)?.users().await?;
    let (users, next) = page(all, &query, |one| &one.name, |one| one.name.clone());
    Ok(Json(UserList { users, next }))
}

/// A user
#[utoipa::path(
    get,
    path = "/api/v1/users/{name}",
    params(("name" = String, Path, description = "The user's name")),
    responses((status = 200, body = User, headers(("ETag" = String, description = "Names what may be changed of it, for `If-Match`"))), OfOne),
)]
pub(super) async fn user(
    State(door): State<Door>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Tagged<User>, Problem> {
    let name = named(name)?;
    let mut users = known(&door)?.users().await?.into_iter();
    let found = users.find(|user| user.name == name);
    found.map(Tagged).ok_or_else(|| {
        Problem::new(ProblemKind::NoSuchUser, format!("there is no user {name}"))
            .hint("`holdfast user list` tells which there are")
    })
}

/// Make a user
///
/// Who repeats it with its key is answered with the user as it is then; with another password it is another request.
#[utoipa::path(
    post,
    path = "/api/v1/users",
    params(KeyHeader),
    request_body = UserCreate,
    responses((status = 201, body = User), OfCreation),
)]
pub(super) async fn create_user(
    State(door): State<Door>,
    OfRequest(key): OfRequest,
    request: Result<Json<UserCreate>, JsonRejection>,
) -> Result<(StatusCode, Extension<About>, Json<User>), Problem> {
    let Json(request) = request.map_err(|rejection| refuse(&rejection))?;
    let asked = Keyed { request, key };
    let UserMade { user, is_new } = known(&door)?.create_user(asked).await?;
    let User { name, role, .. } = &user;
    let about = if is_new {
        About::new(&format!("user {name}: role={role}"))
    } else {
        About::nothing_new(&format!("user {name}"))
    };
    Ok((StatusCode::CREATED, about, Json(user)))
}

/// Change a user's role or password, or keep somebody from logging in
///
/// It is in effect at once, at every node within two seconds.
#[utoipa::path(
    patch,
    path = "/api/v1/users/{name}",
    params(("name" = String, Path, description = "The user's name"), IfMatch),
    request_body = UserChange,
    responses((status = 200, body = User, headers(("ETag" = String, description = "Names what may be changed of it, for `If-Match`"))), OfTaggedChange),
)]
pub(super) async fn change_user(
    State(door): State<Door>,
    name: Result<Path<String>, PathRejection>,
    precondition: Precondition,
    request: Result<Json<UserChange>, JsonRejection>,
) -> Result<Set<User>, Problem> {
    let request = conditional(request, precondition)?;
    let about = About::set(&request.request);
    let changed = known(&door)?.change_user(&named(name)?, request).await?;
    Ok((about, Tagged(changed)))
}

/// Remove a user
///
/// Sessions and tokens of this user end with it.
#[utoipa::path(
    delete,
    path = "/api/v1/users/{name}",
    params(("name" = String, Path, description = "The user's name"), IfMatch),
    responses((status = 204, description = "There is no such user any more"), OfRemoval),
)]
pub(super) async fn remove_user(
    State(door): State<Door>,
    name: Result<Path<String>, PathRejection>,
    precondition: Precondition,
) -> Result<StatusCode, Problem> {
    let identities = known(&door)?;
    identities.remove_user(&named(name)?, precondition).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The tokens
///
/// Here a prefix is one of the ids.
#[utoipa::path(get, path = "/api/v1/tokens", params(PageQuery), responses(
    (status = 200, body = TokenList),
    OfQuery, OfOrder,
))]
pub(super) async fn tokens(
    State(door): State<Door>,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Json<TokenList>, Problem> {
    let query = chosen(query)?;
    let all = known(&door)?.tokens().await?;
    let (tokens, next) = page(all, &query, |one: &Token| &one.id, |one| one.id.clone());
    Ok(Json(TokenList { tokens, next }))
}

/// Make a token
///
/// The token itself is in this answer, and never told again. Who repeats the request with its key gets no second token: the
/// answer is 409 with the code `already-made`, and names the one that there is. If the answer before is lost, revoke that one, and make
/// another one with another key.
#[utoipa::path(
    post,
    path = "/api/v1/tokens",
    params(KeyHeader),
    request_body = TokenCreate,
    responses((status = 201, body = TokenCreated), OfCreation),
)]
pub(super) async fn create_token(
    State(door): State<Door>,
    caller: Option<Extension<Caller>>,
    OfRequest(key): OfRequest,
    request: Result<Json<TokenCreate>, JsonRejection>,
) -> Result<Response, Problem> {
    let Json(request) = request.map_err(|rejection| refuse(&rejection))?;
    let identities = known(&door)?;
    let Extension(caller) = caller.ok_or_else(no_address)?;
    let made = identities
        .create_token(Keyed { request, key }, &caller)
        .await?;
    // As it is called where it is used.
    let Token {
        name,
        id,
        role,
        scope,
        ..
    } = &made.token;
    let about = About::new(&format!("token {name} ({id}): role={role}, scope={scope}"));
    Ok((StatusCode::CREATED, about, Json(made)).into_response())
}

/// Revoke a token
///
/// It is in effect at once, at every node within two seconds.
#[utoipa::path(
    delete,
    path = "/api/v1/tokens/{id}",
    params(("id" = String, Path, description = "What the listing calls it")),
    responses((status = 204, description = "It holds no more"), OfOrder),
)]
pub(super) async fn revoke_token(
    State(door): State<Door>,
    id: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, Problem> {
    let id = named(id)?;
    // Whoever has found a token may show all of it.
    let id = Proof::taken_apart(ProofKind::Token, &id).map_or(&*id, |(id, _)| id);
    known(&door)?.revoke_token(id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What was done through the interface, and what was refused
///
/// All that nodes keep of it, in pieces: as much as `GET /retention` says. What a node has no room for in memory, beyond its newest
/// thousand, it reads from its files, which may take a moment.
#[utoipa::path(get, path = "/api/v1/audit", params(AuditQuery), responses(
    (status = 200, body = AuditList),
    OfQuery, OfOrder,
))]
pub(super) async fn audit(
    State(door): State<Door>,
    query: Result<Query<AuditQuery>, QueryRejection>,
) -> Result<Json<AuditList>, Problem> {
    known(&door)?.audit(audit_query(query)?).await.map(Json)
}

/// What was done through the interface of the node that is asked
#[utoipa::path(get, path = "/api/v1/local/audit", params(AuditQuery), responses(
    (status = 200, body = LocalAudit),
    OfQuery, OfOrder,
))]
pub(super) async fn local_audit(
    State(door): State<Door>,
    query: Result<Query<AuditQuery>, QueryRejection>,
) -> Result<Json<LocalAudit>, Problem> {
    known(&door)?
        .local_audit(audit_query(query)?)
        .await
        .map(Json)
}

fn audit_query(query: Result<Query<AuditQuery>, QueryRejection>) -> Result<AuditQuery, Problem> {
    let query = asked(query)?;
    check_time("since_ms", Some(query.since_ms))?;
    query.place()?;
    if (1..=AUDIT_MAX).contains(&query.limit) {
        return Ok(query);
    }
    let detail = format!("limit is {}, and not 1 to {AUDIT_MAX}", query.limit);
    Err(Problem::new(ProblemKind::Invalid, detail).hint("`since_ms` leaves out what is older"))
}

/// Who knows who may do what.
pub(super) fn known(door: &Door) -> Result<&Arc<dyn Identities>, Problem> {
    match door {
        Door::Guarded(identities) => Ok(identities),
        Door::Open => Err(Problem::new(
            ProblemKind::Refused,
            "security is off here: there are no users and no tokens, and everybody may everything",
        )
        .hint("`security.off` in the node's configuration says so; docs/security.md tells how it is turned on")),
    }
}

/// A mistake of whoever serves: the guard tells it with each request.
pub(super) fn no_address() -> Problem {
    Problem::new(
        ProblemKind::Internal,
        "it is not known who asks, or from where",
    )
}

fn identity(caller: &Caller) -> Identity {
    let (kind, name) = match &caller.who {
        Who::User(name, _) => (IdentityKind::User, name.to_string()),
        Who::External(user, _) => (IdentityKind::User, user.to_string()),
        Who::Token(_, label) => (IdentityKind::Token, label.to_string()),
        Who::Node(node) => (IdentityKind::Node, node.to_string()),
    };
    let issuer = match &caller.who {
        Who::External(user, _) => Some(user.issuer().to_owned()),
        _ => None,
    };
    Identity {
        kind,
        name,
        role: caller.role,
        scope: caller.scope,
        expires_ms: caller.expires_ms,
        issuer,
    }
}

pub(super) fn cookie(identities: &dyn Identities, secret: &str, seconds: u64) -> HeaderValue {
    let name = session_cookie(identities.cluster());
    let text =
        format!("{name}={secret}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Strict");
    HeaderValue::from_str(&text).expect("what is drawn is hexadecimal")
}
