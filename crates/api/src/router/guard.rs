//! Who stands in front of the interface: finds out who asks, whether that one may, and puts down what was done.
//!
//! Invariants:
//! - nothing behind it is reached by somebody who may not, or of whom it cannot be known;
//! - a change with a browser's session, or with a certificate that a browser shows, comes from the console's own pages, and not
//!   from another site's (cross-site request forgery): the browser says where it comes from, and `SameSite` keeps the session
//!   from other sites besides;
//! - what cannot be put down is not changed, but by nodes: root on their machines needs no log to do as he likes, and what one
//!   node asks of another was put down where somebody asked for it;
//! - an answer that goes on ends when who asked may have it no more;
//! - whatever was shown to prove who somebody is is in no entry of the log;
//! - what somebody who is known changes, or is refused, is put down, however it ended, and so is each login that was tried; what
//!   nobody knows who asked for is not: whoever reaches a port could push everything else out of the log. Of logins that were
//!   not tried, for there had been too many, some are, with how many there were.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Extension;
use axum::extract::{MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use holdfast_identity::{Caller, Permission, Who};
use holdfast_model::ClusterId;
use serde::Serialize;

use super::identity::session_cookie;
use super::lasting::while_allowed;
use super::login::CameBack;
use super::permissions::{Need, needed};
use super::shown::{shown_path, shown_text};
use super::values::values;
use crate::documents::AuditEntry;
use crate::identities::{Door, Identities, Shown};
use crate::problem::Answered;
use crate::server::Vouched;
use crate::trace::TraceContext;
use crate::{Peer, Problem, ProblemKind};

/// The methods that anything here knows.
const METHODS: [Method; 6] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
];
/// Why there is no status: who asked went away, or it took too long.
const UNANSWERED: &str = "unanswered";

/// Lets through whoever may.
pub(super) async fn guard(State(door): State<Door>, request: Request, next: Next) -> Response {
    let Door::Guarded(identities) = door else {
        return next.run(request).await;
    };
    let Some(route) = request.extensions().get::<MatchedPath>() else {
        // There is nothing here, which is no secret.
        return next.run(request).await;
    };
    if !METHODS.contains(request.method()) {
        // Nothing here knows it, whoever asks.
        return super::no_such_method().await.into_response();
    }
    let need = needed(request.method(), route.as_str());
    let (mut head, body) = request.into_parts();
    let peer = head.extensions.get::<Peer>().copied();
    let from = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.address.ip());
    let mut entry = AuditEntry {
        from: from.to_string(),
        method: head.method.to_string(),
        path: shown_path(&head.uri),
        trace_id: TraceContext::present().map(|trace| trace.id()),
        ..AuditEntry::default()
    };
    let changes = !is_read(&head.method);
    let admitted = admit(&*identities, &head, peer, need).await;
    let (Ok(caller) | Err((caller, _))) = &admitted;
    if let Some(vouched) = head.extensions.get() {
        vouch(vouched, &admitted);
    }
    let is_known = caller.is_some();
    if let Some(caller) = caller {
        entry.who = caller.who.to_string();
    }
    let mut noting = Noting {
        identities: Arc::clone(&identities),
        entry: (is_known && changes).then(|| entry.clone()),
    };
    let response = match admitted {
        Ok(caller) => {
            if let Some(caller) = caller {
                head.extensions.insert(caller);
            }
            let shown = match shows(identities.cluster(), &head.headers, peer) {
                Ok(Shows::Proof(shown)) if need != Need::Nothing => Some(shown.into()),
                _ => None,
            };
            let response = next.run(Request::from_parts(head, body)).await;
            while_allowed(response, &identities, shown, need)
        }
        Err((_, problem)) => problem.into_response(),
    };
    noting.entry = None;
    put_down(&*identities, entry, response, (from, is_known, changes))
}

/// Tells the connection of what was shown over it.
fn vouch(vouched: &Vouched, admitted: &Result<Option<Caller>, (Option<Caller>, Problem)>) {
    match admitted {
        Ok(Some(_)) | Err((Some(_), _)) => vouched.note_caller(),
        Err((None, problem)) if problem.kind == ProblemKind::Unauthenticated => {
            vouched.note_nobody();
        }
        // Nobody had to be known, or nobody could be, as long as the metadata is away.
        Ok(None) | Err((None, _)) => {}
    }
}

/// Puts down what is to be of a request that is answered.
fn put_down(
    identities: &dyn Identities,
    entry: AuditEntry,
    mut response: Response,
    (from, is_known, changes): (IpAddr, bool, bool),
) -> Response {
    let login = response.extensions().get::<LoggedInAs>().cloned();
    let is_refused = response.status() == StatusCode::FORBIDDEN;
    if let Some(LoggedInAs(who)) = login {
        let is_noted = match response.status() {
            StatusCode::OK | StatusCode::UNAUTHORIZED => true,
            StatusCode::TOO_MANY_REQUESTS => is_untried_noted(identities, &mut response, from),
            // It was not tried.
            _ => false,
        };
        if is_noted {
            note(identities, AuditEntry { who, ..entry }, &response);
        }
    } else if let Some(CameBack { who, refused }) = response.extensions().get().cloned() {
        let status = refused.map_or(response.status(), |_| StatusCode::FORBIDDEN);
        identities.note(AuditEntry {
            at_ms: now_ms(),
            who,
            status: status.as_u16(),
            code: refused.map(str::to_owned),
            ..entry
        });
    } else if is_known && (changes || is_refused) {
        note(identities, entry, &response);
    }
    response
}

/// Whether a login that was not tried, for there had been too many, is put down; with how many were not, if there are some.
fn is_untried_noted(identities: &dyn Identities, answer: &mut Response, from: IpAddr) -> bool {
    let Some(left_out) = identities.may_note_untried(from) else {
        return false;
    };
    if left_out > 0 {
        let about =
            format!("others that were not tried since the last that is put down: {left_out}");
        answer.extensions_mut().insert(About(about));
    }
    true
}

/// Who asks, if anybody must be known; or why not, and who it was, if that is known.
async fn admit(
    identities: &dyn Identities,
    head: &Parts,
    peer: Option<Peer>,
    need: Need,
) -> Result<Option<Caller>, (Option<Caller>, Problem)> {
    if need == Need::Nothing {
        return Ok(None);
    }
    let caller = who(identities, head, peer).await;
    let caller = caller.map_err(|problem| (None, problem))?;
    match need {
        Need::Permission(permission) if !caller.may(permission) => {
            let problem = forbidden(&caller, permission);
            Err((Some(caller), problem))
        }
        _ if is_read(&head.method) || matches!(caller.who, Who::Node(_)) => Ok(Some(caller)),
        _ => match identities.may_change() {
            Ok(()) => Ok(Some(caller)),
            Err(problem) => Err((Some(caller), problem)),
        },
    }
}

/// What a request proves by who asks.
enum Shows<'a> {
    /// A node, by its certificate: the handshake has proven it.
    Node(u16),
    /// What is on record.
    Proof(Shown<'a>),
}

fn shows(
    cluster: ClusterId,
    headers: &HeaderMap,
    peer: Option<Peer>,
) -> Result<Shows<'_>, Problem> {
    // A program that shows a token means that, whatever certificate it has.
    if let Some(token) = bearer(headers) {
        return Ok(Shows::Proof(Shown::Token(token?)));
    }
    if let Some(node) = peer.and_then(|peer| peer.node) {
        return Ok(Shows::Node(node));
    }
    let session = cookie(headers, &session_cookie(cluster));
    let session = session.map(|session| Shows::Proof(Shown::Session(session)));
    session.ok_or_else(|| Problem::new(ProblemKind::Unauthenticated, "who asks is not known"))
}

async fn who(
    identities: &dyn Identities,
    head: &Parts,
    peer: Option<Peer>,
) -> Result<Caller, Problem> {
    let shows = shows(identities.cluster(), &head.headers, peer)?;
    let may_come = match shows {
        _ if is_read(&head.method) => true,
        Shows::Proof(Shown::Session(_)) => is_of_our_page(&head.headers),
        // A browser that has a node's certificate shows it to every page's requests. What is no browser says nothing of pages.
        Shows::Node(_) => !is_of_a_page(&head.headers) || is_of_our_page(&head.headers),
        // No browser shows one by itself.
        Shows::Proof(Shown::Token(_)) => true,
    };
    if !may_come {
        return Err(Problem::new(
            ProblemKind::Forbidden,
            "a change that a browser sends must come from the console's own pages",
        )
        .hint("programs use a token"));
    }
    match shows {
        Shows::Node(node) => Ok(Caller::node(node)),
        Shows::Proof(shown) => identities.who(shown).await,
    }
}

const fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// The token in `Authorization` (RFC 6750, section 2.1); an error if it is something else.
fn bearer(headers: &HeaderMap) -> Option<Result<&str, Problem>> {
    let value = headers.get(header::AUTHORIZATION)?;
    let token = value.to_str().ok().and_then(|text| {
        let (scheme, token) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    Some(token.ok_or_else(|| {
        Problem::new(
            ProblemKind::Unauthenticated,
            "the header Authorization has no token",
        )
        .hint("`Authorization: Bearer TOKEN`")
    }))
}

/// The cookie of a name (RFC 6265, section 5.4).
pub(super) fn cookie<'a>(headers: &'a HeaderMap, wanted: &str) -> Option<&'a str> {
    let cookies = headers.get_all(header::COOKIE).iter();
    let cookies = cookies.filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';'));
    pairs.find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == wanted).then_some(value)
    })
}

/// Whether a browser says that the request comes from a page at all.
fn is_of_a_page(headers: &HeaderMap) -> bool {
    headers.contains_key("sec-fetch-site") || headers.contains_key(header::ORIGIN)
}

/// Whether a browser says that the request comes from a page of this very server (Fetch Metadata; RFC 6454, section 7).
fn is_of_our_page(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = text("sec-fetch-site") {
        return site == "same-origin";
    }
    let origin = text("origin").and_then(|origin| origin.strip_prefix("https://"));
    origin.is_some() && origin == text("host")
}

fn forbidden(caller: &Caller, Permission { role, area }: Permission) -> Problem {
    let Caller {
        who,
        role: has,
        scope,
        ..
    } = caller;
    let detail = if scope.has(area) {
        format!("{who} is {has}, and this takes {}", role.name())
    } else {
        format!("{who} is for {scope} only, and this is another part")
    };
    Problem::new(ProblemKind::Forbidden, detail)
        .hint("an administrator can change a user's role, or make another token")
}

/// What is put down if nobody waits for the answer: it may have been done, or may still be.
struct Noting {
    identities: Arc<dyn Identities>,
    entry: Option<AuditEntry>,
}

impl Drop for Noting {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            self.identities.note(AuditEntry {
                at_ms: now_ms(),
                code: Some(UNANSWERED.to_owned()),
                ..entry
            });
        }
    }
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}

fn note(identities: &dyn Identities, entry: AuditEntry, response: &Response) {
    let problem = response.extensions().get::<Answered>();
    identities.note(AuditEntry {
        at_ms: now_ms(),
        status: response.status().as_u16(),
        code: problem.map(|Answered(problem)| problem.code.clone().into_owned()),
        about: response.extensions().get().map(|About(what)| what.clone()),
        ..entry
    });
}

/// What was done, and what was set, where the path does not say: for the log of what was done. It goes with the answer.
#[derive(Clone, Debug)]
pub(super) struct About(String);

impl About {
    /// Of something that is done: what was only asked for may be a secret in the wrong place.
    pub(super) fn new(what: &str) -> Extension<Self> {
        Extension(Self(shown_text(what)))
    }

    /// Of a creation of what was there already: it has changed nothing, whatever its status says.
    pub(super) fn nothing_new(what: &str) -> Extension<Self> {
        Self::new(&format!("{what} (was there already: nothing was changed)"))
    }

    /// Of a change that is made: what it has set, but for secrets.
    pub(super) fn set(request: &impl Serialize) -> Option<Extension<Self>> {
        let values = values(request);
        (!values.is_empty()).then_some(Extension(Self(values)))
    }
}

/// Who a login was for, whether it succeeded or not: nobody was known before.
#[derive(Clone, Debug)]
pub(super) struct LoggedInAs(pub(super) String);

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| {
                let name = header::HeaderName::from_static(name);
                (name, HeaderValue::from_str(value).unwrap())
            })
            .collect()
    }

    #[test]
    fn sessions_are_found_among_other_cookies() {
        let found = |value: &str| {
            let headers = headers(&[("cookie", value)]);
            cookie(&headers, "__Host-holdfast").map(str::to_owned)
        };
        assert_eq!(found("__Host-holdfast=x").as_deref(), Some("x"));
        assert_eq!(found("a=b; __Host-holdfast=x; c=d").as_deref(), Some("x"));
        for other in [
            "",
            "__Host-holdfast",
            "x__Host-holdfast=x",
            "holdfast=x",
            ";;",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
    }

    #[test]
    fn whoever_may_not_is_told_what_is_lacking() {
        use holdfast_identity::{Area, Role, Scope};
        let said = |scope, role, area| {
            let caller = Caller {
                role: Role::Operator,
                scope,
                ..Caller::node(1)
            };
            forbidden(&caller, Permission { role, area }).detail
        };
        let part = said(Scope::Volumes, Role::Viewer, Area::Cluster);
        assert!(
            part.ends_with("is for volumes only, and this is another part"),
            "{part}"
        );
        for (scope, area) in [
            (Scope::Volumes, Area::Volumes),
            (Scope::Everything, Area::Cluster),
        ] {
            let role = said(scope, Role::Administrator, area);
            assert!(
                role.ends_with("is operator, and this takes administrator"),
                "{role}"
            );
        }
    }

    #[test]
    fn tokens_are_of_the_scheme_bearer() {
        let of = |value: &str| {
            let headers = headers(&[("authorization", value)]);
            bearer(&headers).map(|it| it.map(str::to_owned).map_err(|it| it.kind))
        };
        assert_eq!(of("Bearer abc"), Some(Ok("abc".to_owned())));
        assert_eq!(of("bearer  abc "), Some(Ok("abc".to_owned())));
        for other in ["abc", "Basic YTpi", "Bearer"] {
            assert_eq!(of(other), Some(Err(ProblemKind::Unauthenticated)));
        }
        assert_eq!(bearer(&HeaderMap::new()).map(|_| ()), None);
    }

    #[test]
    fn other_sites_pages_are_told_from_ours() {
        let ours = |pairs: &[(&'static str, &str)]| is_of_our_page(&headers(pairs));
        assert!(ours(&[("sec-fetch-site", "same-origin")]));
        let origin = ("origin", "https://node-1:7461");
        assert!(ours(&[("host", "node-1:7461"), origin]));
        assert!(!ours(&[]));
        assert!(!ours(&[("host", "node-1:7461")]));
        assert!(!ours(&[("host", "node-1:7460"), origin]));
        assert!(!ours(&[("host", "node-1:7461"), ("origin", "null")]));
        for site in ["cross-site", "same-site", "none"] {
            assert!(!ours(&[
                ("sec-fetch-site", site),
                ("host", "node-1:7461"),
                origin
            ]));
        }
    }
}
