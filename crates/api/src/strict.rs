//! What every answer says to the browser that gets it, whatever it is of: the interface, the metrics, the console, the book.
//!
//! It refuses to know what pages may do: the console says that of its own files.
//!
//! Invariants:
//! - nothing is taken for another kind of file than the one that it is said to be;
//! - what takes a login, or sets a cookie, is kept by no browser and by nothing on the way: of what is under `/api` and
//!   `/metrics`, only the OpenAPI document may be, and is asked for again each time;
//! - what is under `/api` and `/metrics` is no page: it runs nothing, and nothing frames it;
//! - who has come by TLS, without a warning, comes by TLS from then on; what is answered without it never says so.

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;

/// 30 days, and not for names below this one. Browsers apply it to all ports of a host name (RFC 6797, 8.3), so that it is no
/// longer than what is of use: each visit begins it anew.
const TLS_ONLY: &str = "max-age=2592000";
/// What is read by programs has no use of anything that a page could have.
const NO_PAGE: &str = "default-src 'none'; frame-ancestors 'none'";
/// It has a tag, and is the same for everybody.
const DOCUMENT: &str = "/api/v1/openapi.json";

/// How answers go out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strict {
    /// Over TLS.
    pub(crate) is_tls: bool,
}

/// An answer with the headers that it has to have.
pub(crate) async fn strictly(
    State(Strict { is_tls }): State<Strict>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let is_ours = is_within(path, "/api") || is_within(path, "/metrics");
    let keeping = if path == DOCUMENT {
        "no-cache"
    } else {
        "no-store"
    };
    let mut response = next.run(request).await;
    let mut put = |name: HeaderName, value: &'static str| {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    };
    put(X_CONTENT_TYPE_OPTIONS, "nosniff");
    if is_ours {
        put(CACHE_CONTROL, keeping);
        put(CONTENT_SECURITY_POLICY, NO_PAGE);
    }
    if is_tls {
        put(STRICT_TRANSPORT_SECURITY, TLS_ONLY);
    }
    response
}

/// Whether a path is a place, or below it.
fn is_within(path: &str, place: &str) -> bool {
    path.strip_prefix(place)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
