#![allow(clippy::unwrap_used, reason = "a test fails so")]

use axum::body::Body;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH,
};
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use axum::routing::get;
use axum::{Router, body};
use tower_service::Service as _;

use super::answer::give;
use super::{Asset, choose, with_console};

const FILES: &[Asset] = &[
    Asset {
        path: "/assets/index-1a2b.js",
        tag: "aa",
        plain: b"plain",
        brotli: Some(b"brotli"),
        gzip: Some(b"gzip"),
    },
    Asset {
        path: "/index.html",
        tag: "bb",
        plain: b"page",
        brotli: None,
        gzip: None,
    },
];

fn chosen(method: &Method, path: &str) -> Option<&'static str> {
    choose(FILES, method, path).map(|asset| asset.path)
}

fn with(headers: &[(axum::http::HeaderName, &'static str)]) -> HeaderMap {
    let pairs = headers.iter().cloned();
    pairs
        .map(|(name, value)| (name, HeaderValue::from_static(value)))
        .collect()
}

async fn text(response: Response<Body>) -> String {
    let bytes = body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn views_are_the_page_and_files_are_themselves() {
    for path in [
        "/",
        "/volumes",
        "/volumes/data.v1/copies",
        "/apiary",
        "/metrics.html",
    ] {
        assert_eq!(chosen(&Method::GET, path), Some("/index.html"), "{path}");
    }
    assert_eq!(
        chosen(&Method::HEAD, "/assets/index-1a2b.js"),
        Some("/assets/index-1a2b.js")
    );
}

#[test]
fn the_interface_is_never_answered_with_a_page() {
    for path in [
        "/api",
        "/api/",
        "/api/v1/status",
        "/api/v2",
        "/metrics",
        "/metrics/x",
    ] {
        assert_eq!(chosen(&Method::GET, path), None, "{path}");
    }
    assert_eq!(chosen(&Method::POST, "/volumes"), None);
}

#[test]
fn a_file_of_an_earlier_version_is_not_a_page() {
    assert_eq!(chosen(&Method::GET, "/assets/index-0000.js"), None);
}

#[test]
fn the_smallest_form_that_is_taken_is_sent() {
    let cases = [
        ("gzip, deflate, br", Some("br")),
        ("gzip, br;q=0", Some("gzip")),
        ("gzip;q=0.5", Some("gzip")),
        ("brotli, deflate", None),
        ("gzip;q=x", None),
    ];
    let mut tags = Vec::new();
    for (accepted, encoding) in cases {
        let response = give(&FILES[0], &with(&[(ACCEPT_ENCODING, accepted)]));
        let said = response.headers().get(CONTENT_ENCODING);
        assert_eq!(
            said.map(|value| value.to_str().unwrap()),
            encoding,
            "{accepted}"
        );
        tags.push(response.headers()[ETAG].clone());
    }
    tags.dedup();
    assert_eq!(tags.len(), 3, "each form has a tag of its own");
}

#[test]
fn what_the_browser_has_is_not_sent_again() {
    let known = give(&FILES[1], &with(&[(IF_NONE_MATCH, "\"x\", W/\"bb\"")]));
    assert_eq!(known.status(), StatusCode::NOT_MODIFIED);
    let other = give(&FILES[1], &with(&[(IF_NONE_MATCH, "\"cc\"")]));
    assert_eq!(other.status(), StatusCode::OK);
}

#[test]
fn only_names_that_say_what_is_in_them_are_kept() {
    let asset = give(&FILES[0], &HeaderMap::new());
    assert!(
        asset.headers()[CACHE_CONTROL]
            .to_str()
            .unwrap()
            .contains("immutable")
    );
    let page = give(&FILES[1], &HeaderMap::new());
    assert_eq!(page.headers()[CACHE_CONTROL], "no-cache");
    assert_eq!(page.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
    let policy = page.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
    assert!(policy.contains("default-src 'self'"));
    assert!(!policy.contains("unsafe"));
}

#[tokio::test]
async fn a_router_keeps_what_is_its_own() {
    let api = Router::new()
        .route("/api/v1/status", get(async || "status"))
        .fallback(async || (StatusCode::NOT_FOUND, "nothing here"));
    let mut router = with_console(api);
    let mut ask = async |path: &str| {
        let request = Request::get(path).body(Body::empty()).unwrap();
        router.call(request).await.unwrap()
    };
    assert_eq!(text(ask("/api/v1/status").await).await, "status");
    assert_eq!(ask("/api/v1/nothing").await.status(), StatusCode::NOT_FOUND);
    assert_eq!(
        ask("/assets/nothing.js").await.status(),
        StatusCode::NOT_FOUND
    );
    // Built or not, there is a page.
    let page = ask("/").await;
    assert_eq!(page.status(), StatusCode::OK);
    assert!(text(page).await.starts_with("<!doctype html>"));
}
