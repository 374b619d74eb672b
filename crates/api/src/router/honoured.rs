//! Headers on which a change hangs: who sends one counts on it, so that a route that does nothing by it refuses the request.
//!
//! Which route does what by which header is what the OpenAPI document lists, and nothing else: there is no second table.
//!
//! Invariants:
//! - no change is made with an `Idempotency-Key`, `If-Match` or `If-None-Match` that nothing looks at;
//! - what only reads is left alone: whatever it says, nothing is done.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use axum::extract::{MatchedPath, Request};
use axum::http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use utoipa::OpenApi;
use utoipa::openapi::RefOr;
use utoipa::openapi::path::{Operation, ParameterIn};

use super::Document;
use crate::idempotency::KEY;
use crate::{Problem, ProblemKind};

/// What is needed for a header to be looked at: that the document has this one at the route.
const HEADERS: [(HeaderName, HeaderName); 3] = [
    (KEY, KEY),
    (IF_MATCH, IF_MATCH),
    // Where there are tags, "if there is nothing yet" is looked at, too.
    (IF_NONE_MATCH, IF_MATCH),
];

/// Lets through what is not a change, and changes whose conditions are looked at.
pub(super) async fn honoured(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let refused = route.and_then(|route| unheard(request.method(), route, request.headers()));
    match refused {
        Some(header) => refusal(request.method(), &header).into_response(),
        None => next.run(request).await,
    }
}

/// The header of a change that nothing would be done by.
fn unheard(method: &Method, route: &MatchedPath, headers: &HeaderMap) -> Option<HeaderName> {
    if matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let sent = HEADERS.into_iter().find(|(header, needed)| {
        headers.contains_key(header) && !is_listed(method, route.as_str(), needed)
    });
    sent.map(|(header, _)| header)
}

/// Whether the document has a header at a method of a route. Methods that a route does not know have none, and are refused as
/// such.
fn is_listed(method: &Method, path: &str, header: &HeaderName) -> bool {
    static LISTED: LazyLock<Listed> = LazyLock::new(listed);
    let headers = LISTED.get(&(method.clone(), path.to_owned()));
    headers.is_none_or(|headers| headers.contains(header.as_str()))
}

/// The headers of each change, in small letters, by its method and path.
type Listed = HashMap<(Method, String), HashSet<String>>;

fn listed() -> Listed {
    let mut all = Listed::new();
    for (path, item) in Document::openapi().paths.paths {
        for (method, operation) in [
            (Method::POST, item.post),
            (Method::PUT, item.put),
            (Method::PATCH, item.patch),
            (Method::DELETE, item.delete),
        ] {
            if let Some(operation) = operation {
                all.insert((method, path.clone()), headers_of(operation));
            }
        }
    }
    all
}

fn headers_of(operation: Operation) -> HashSet<String> {
    let parameters = operation.parameters.unwrap_or_default().into_iter();
    let headers = parameters.filter_map(|it| match it {
        RefOr::T(it) if it.parameter_in == ParameterIn::Header => Some(it.name),
        // None of ours stands elsewhere.
        _ => None,
    });
    headers.map(|name| name.to_ascii_lowercase()).collect()
}

fn refusal(method: &Method, header: &HeaderName) -> Problem {
    let (name, hint) = if *header == KEY {
        (
            "Idempotency-Key",
            match *method {
                Method::PUT | Method::DELETE => {
                    "leave it out: what is sent twice does no more than once"
                }
                _ => "leave it out, and look whether it was done before you send it again",
            },
        )
    } else {
        let name = if *header == IF_MATCH {
            "If-Match"
        } else {
            "If-None-Match"
        };
        let hint = "leave it out; /api/v1/openapi.json has `If-Match` at what looks at it";
        (name, hint)
    };
    let detail = format!("nothing here looks at {name}: it was not done");
    Problem::new(ProblemKind::Invalid, detail).hint(hint)
}
