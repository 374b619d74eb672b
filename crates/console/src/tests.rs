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
use super::{Asset, BOOK, chapter, choose, with_console};

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

fn book_page(path: &str) -> String {
    let asset = chapter(&Method::GET, path).expect(path);
    String::from_utf8(asset.plain.to_vec()).unwrap()
}

/// What stands between this and the next quote, wherever it does.
fn values<'a>(html: &'a str, attribute: &'a str) -> impl Iterator<Item = &'a str> {
    let parts = html.split(attribute).skip(1);
    parts.map(|rest| rest.split('"').next().unwrap())
}

#[test]
fn every_document_is_a_page_of_the_book() {
    let summary = include_str!("../../../docs/SUMMARY.md");
    let chapters = summary.split("](").skip(1);
    let mut count = 0;
    for path in chapters.map(|rest| rest.split(')').next().unwrap()) {
        // By the name that texts give it, which is a file of the sources.
        let page = book_page(&format!("/docs/{path}"));
        assert!(page.contains("<h1 id="), "{path}");
        count += 1;
    }
    assert!(count > 50, "{count} chapters");
    for contents in ["/docs", "/docs/"] {
        let page = book_page(contents);
        assert!(page.contains("href=\"/docs/decisions/0001-toolchain-and-crates.html\""));
    }
    assert!(chapter(&Method::GET, "/docs/nothing.html").is_none());
    assert!(chapter(&Method::GET, "/docs/../Cargo.toml").is_none());
    assert!(chapter(&Method::POST, "/docs/").is_none());
}

#[test]
fn links_of_the_book_lead_to_pages_and_headings() {
    for asset in BOOK.iter().filter(|asset| asset.path.ends_with(".html")) {
        let page = std::str::from_utf8(asset.plain).unwrap();
        let links = values(page, "href=\"").chain(values(page, "src=\""));
        for link in links.filter(|link| !link.contains("://") && *link != "/") {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let mut parts: Vec<&str> = asset.path.split('/').collect();
            parts.pop();
            if file.starts_with('/') {
                parts.clear();
            }
            for part in file.split('/') {
                match part {
                    ".." => drop(parts.pop()),
                    name => parts.push(name),
                }
            }
            let path = match file {
                "" => asset.path.to_owned(),
                _ => parts.join("/"),
            };
            let found = chapter(&Method::GET, &path);
            let found = found.unwrap_or_else(|| panic!("{}: {link} leads nowhere", asset.path));
            let text = String::from_utf8_lossy(found.plain);
            assert!(
                heading.is_empty() || text.contains(&format!("id=\"{heading}\"")),
                "{}: {link} has no such heading",
                asset.path
            );
        }
    }
}

/// What of a page or a picture browsers do not do under the policy: scripts, handlers, styles within it.
fn forbidden(page: &str) -> Vec<&str> {
    let tags = page.split('<').skip(1);
    let tags = tags.map(|rest| rest.split('>').next().unwrap());
    let mut found = Vec::new();
    for tag in tags {
        let name = tag.split_whitespace().next().unwrap_or_default();
        if ["script", "style"].contains(&name) {
            found.push(name);
        }
        // Every other part stands between two quotes, and is a value.
        for (at, part) in tag.split('"').enumerate() {
            if at % 2 == 1 {
                found.extend(part.starts_with("javascript:").then_some(part));
                continue;
            }
            let names = part.split_whitespace().filter(|it| it.contains('='));
            found.extend(names.filter(|it| it.starts_with("on") || it.starts_with("style")));
        }
    }
    found
}

#[test]
fn what_the_policy_forbids_is_found() {
    for (page, wanted) in [
        (r#"<svg width="1" onload="init(evt)">"#, &["onload="][..]),
        ("<script>x()</script>", &["script"]),
        ("<style type=\"text/css\">\ntext {}</style>", &["style"]),
        (r#"<p style="color: red">one=1</p>"#, &["style="]),
        (r#"<a href="javascript:x()">"#, &["javascript:x()"]),
        (
            r#"<a title="on and on=1" href="once.html">onload=1</a>"#,
            &[],
        ),
    ] {
        assert_eq!(forbidden(page), wanted, "{page}");
    }
}

#[test]
fn the_book_has_nothing_that_the_policy_of_pages_forbids() {
    let mut pictures = 0;
    for asset in BOOK {
        let is_picture = asset.path.ends_with(".svg");
        if !is_picture && !asset.path.ends_with(".html") {
            continue;
        }
        pictures += usize::from(is_picture);
        let page = std::str::from_utf8(asset.plain).unwrap();
        let found = forbidden(page);
        assert!(found.is_empty(), "{}: {found:?}", asset.path);
        // Nothing is left of how documents say that a file stands here.
        assert!(!page.contains("{{#include"), "{}", asset.path);
    }
    assert!(pictures > 0, "performance.md leads to some");
    let samples = book_page("/docs/reference/files.html");
    assert!(samples.contains("ExecStart="), "{samples}");
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
    let chapter = ask("/docs/deployment.md").await;
    assert_eq!(chapter.status(), StatusCode::OK);
    assert!(chapter.headers().contains_key(CONTENT_SECURITY_POLICY));
    assert_eq!(
        ask("/docs/nothing.html").await.status(),
        StatusCode::NOT_FOUND
    );
    // Built or not, there is a page.
    let page = ask("/").await;
    assert_eq!(page.status(), StatusCode::OK);
    assert!(text(page).await.starts_with("<!doctype html>"));
}
