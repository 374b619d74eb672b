//! Logins at a provider of identities: pages that a browser is sent through, and how one can log in at all.
//!
//! It refuses to say more to a browser than a word for why somebody was not let in: what that means is the console's to say, so
//! that nothing of what a provider says is ever in a page.
//!
//! Invariants:
//! - a browser is sent to the provider, or to this server's own front page, and nowhere else;
//! - what it is to bring back is a cookie that scripts cannot read, that other sites' pages cannot have sent along but by
//!   going here, and that ends with the login, and with nothing that is not of it;
//! - none of these answers is kept by anybody, and none is told where it was asked from.

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json};
use holdfast_identity::SESSION_LIFETIME;
use holdfast_model::ClusterId;
use serde::Deserialize;

use super::answers::{OfAll, OfSending};
use super::guard;
use super::identity::{cookie, known, no_address, of_cluster};
use crate::documents::LoginMethods;
use crate::identities::{BroughtBack, Door, LoginFault, LoginRefused};
use crate::{Peer, Problem, ProblemKind};

/// Where all of it is. What stands in a query there is for nobody else.
pub(super) const LOGIN_PATH: &str = "/api/v1/login";
/// What the cookie with the ticket begins with. By that browsers keep it to this very host, and to HTTPS (RFC 6265bis, 4.1.3.2); the
/// cluster's name behind it tells it from another one's on the same host.
const TICKET_COOKIE: &str = "__Host-holdfast-login-";
/// How long it is kept: seconds. The ticket itself ends after ten minutes.
const TICKET_SECONDS: u32 = 600;

/// Who has come back from the provider, for the log of what was done.
#[derive(Clone, Debug)]
pub(super) struct CameBack {
    pub(super) who: String,
    /// Why that one was not let in, if so.
    pub(super) refused: Option<&'static str>,
}

/// What a provider puts into the query; more is passed over.
#[derive(Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct BackQuery {
    /// What the provider gives a token for.
    code: Option<String>,
    /// Which login it is.
    state: Option<String>,
    /// Why there is no code.
    error: Option<String>,
    /// Which provider says so (RFC 9207).
    iss: Option<String>,
}

/// The routes.
pub(super) fn routes<S: Clone + Send + Sync + 'static>(door: Door) -> Router<S> {
    Router::new()
        .route("/login", get(methods))
        .route("/login/oidc", get(begin))
        .route("/login/oidc/callback", get(end))
        .with_state(door)
}

/// How one can log in
#[utoipa::path(get, path = "/api/v1/login", responses((status = 200, body = LoginMethods), OfAll))]
pub(super) async fn methods(State(door): State<Door>) -> Json<LoginMethods> {
    Json(match door {
        Door::Guarded(identities) => identities.login_methods(),
        Door::Open => LoginMethods::default(),
    })
}

/// Begin a login at the provider of identities
///
/// For browsers: it sends them to the provider's own page.
#[utoipa::path(get, path = "/api/v1/login/oidc", responses(
    (status = 303, description = "To the provider's page, or, where that cannot be, to the console's", headers(
        ("Location" = String, description = "Where to"),
        ("Set-Cookie" = String, description = "What is to be brought back"),
    )),
    OfSending,
))]
pub(super) async fn begin(State(door): State<Door>) -> Result<Response, Problem> {
    let identities = known(&door)?;
    match identities.send_away().await {
        Ok(sent) => {
            let ticket = ticket(identities.cluster(), &sent.ticket, TICKET_SECONDS)?;
            Ok(send(&sent.location, [ticket]))
        }
        Err(LoginRefused { fault, .. }) => failed(fault, []),
    }
}

/// End a login at the provider of identities
///
/// For browsers, which the provider sends here. It begins a session as a login with a password does.
#[utoipa::path(get, path = "/api/v1/login/oidc/callback", params(BackQuery), responses(
    (status = 303, description = "To the console, which says so where nobody was let in", headers(
        ("Location" = String, description = "Where to"),
        ("Set-Cookie" = String, description = "The session"),
    )),
    OfSending,
))]
pub(super) async fn end(
    State(door): State<Door>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    query: Result<Query<BackQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let identities = known(&door)?;
    // What cannot be read is nothing of ours.
    let query = query.map_or_else(|_| BackQuery::default(), |Query(query)| query);
    let cluster = identities.cluster();
    let name = of_cluster(TICKET_COOKIE, cluster);
    let back = BroughtBack {
        ticket: guard::cookie(&headers, &name).map(str::to_owned),
        state: query.state,
        code: query.code,
        error: query.error,
        issuer: query.iss,
    };
    let Extension(peer) = peer.ok_or_else(no_address)?;
    match identities.come_back(back, peer.address.ip()).await {
        Ok(logged_in) => {
            let came = CameBack {
                who: logged_in.caller.who.to_string(),
                refused: None,
            };
            let session = cookie(&**identities, &logged_in.secret, SESSION_LIFETIME.as_secs());
            let answer = send("/", [session, ticket(cluster, "", 0)?]);
            Ok((Extension(came), answer).into_response())
        }
        Err(LoginRefused { fault, who }) => {
            let came = who.map(|who| CameBack {
                who,
                refused: Some(fault.word()),
            });
            let mut answer = match fault {
                // Any page can send a browser here with nothing of the login that is under way: that one goes on.
                LoginFault::Unknown | LoginFault::Busy => failed(fault, [])?,
                _ => failed(fault, [ticket(cluster, "", 0)?])?,
            };
            if let Some(came) = came {
                answer.extensions_mut().insert(came);
            }
            Ok(answer)
        }
    }
}

/// To the console's login page, which knows the word.
fn failed<const N: usize>(
    fault: LoginFault,
    cookies: [HeaderValue; N],
) -> Result<Response, Problem> {
    if fault == LoginFault::NoProvider {
        return Err(Problem::new(
            ProblemKind::NoSuchResource,
            "no provider of identities is configured at this node",
        )
        .hint("log in with a user of this cluster; docs/security.md tells how a provider is configured"));
    }
    Ok(send(&format!("/?login={}", fault.word()), cookies))
}

fn send<const N: usize>(location: &str, cookies: [HeaderValue; N]) -> Response {
    let Ok(location) = HeaderValue::from_str(location) else {
        return Problem::new(ProblemKind::Internal, "where to send the browser is no URL")
            .into_response();
    };
    let headers = [
        (header::LOCATION, location),
        (
            header::REFERRER_POLICY,
            HeaderValue::from_static("no-referrer"),
        ),
    ];
    let cookies = AppendHeaders(cookies.map(|cookie| (header::SET_COOKIE, cookie)));
    (StatusCode::SEE_OTHER, headers, cookies).into_response()
}

/// `Lax`: the provider's page sends the browser here, and with `Strict` it would come without.
fn ticket(cluster: ClusterId, text: &str, seconds: u32) -> Result<HeaderValue, Problem> {
    let name = of_cluster(TICKET_COOKIE, cluster);
    let cookie =
        format!("{name}={text}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Lax");
    HeaderValue::from_str(&cookie)
        .map_err(|_| Problem::new(ProblemKind::Internal, "the ticket is no cookie"))
}
