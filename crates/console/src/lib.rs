//! The web console and the book: their files, compiled in, and how a node serves them.
//!
//! It refuses to know anything of the interface: what is under `/api` and `/metrics`, and whatever is no GET, goes
//! to the router that it is put in front of.
//!
//! Invariants:
//! - no answer to anything under `/api` or `/metrics` is the console's;
//! - a file whose name says what is in it may be kept for ever, and every other one is asked for again each time;
//! - a file of that kind that is not there is not answered with a page, nor is a chapter;
//! - the browser runs, and fetches, nothing that does not come from the node that served the page.
#![forbid(unsafe_code)]

mod answer;
#[cfg(test)]
mod tests;

use axum::Router;
use axum::extract::Request;
use axum::http::Method;
use axum::middleware::{self, Next};
use axum::response::Response;

/// A file of the console.
struct Asset {
    /// Where it is served.
    path: &'static str,
    /// A hash of its contents.
    tag: &'static str,
    plain: &'static [u8],
    brotli: Option<&'static [u8]>,
    gzip: Option<&'static [u8]>,
}

/// What was built, sorted by name; nothing if the console was not.
const BUILT: &[Asset] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));
/// What stands at `/` then.
const NOT_BUILT: &[Asset] = &[Asset {
    path: INDEX,
    tag: "not-built",
    plain: include_bytes!("not-built.html"),
    brotli: None,
    gzip: None,
}];

/// The book: its pages, and the files that they show. What they are made from is in `docs`.
const BOOK: &[Asset] = include!(concat!(env!("OUT_DIR"), "/book.rs"));
/// Where the book is.
const BOOK_PLACE: &str = "/docs";

/// The page that all others are views of.
const INDEX: &str = "/index.html";
/// Where the names say what is in the files.
const HASHED: &str = "/assets/";

/// `router`, with the console at every address that is not the interface's.
pub fn with_console(router: Router) -> Router {
    router.layer(middleware::from_fn(console_first))
}

async fn console_first(request: Request, next: Next) -> Response {
    let assets = if BUILT.is_empty() { NOT_BUILT } else { BUILT };
    let (method, path) = (request.method(), request.uri().path());
    let asset = if is_within(path, BOOK_PLACE) {
        chapter(method, path)
    } else {
        choose(assets, method, path)
    };
    match asset {
        Some(asset) => answer::give(asset, request.headers()),
        None => next.run(request).await,
    }
}

/// Which file answers a request; none if that is not for the console.
fn choose<'a>(assets: &'a [Asset], method: &Method, path: &str) -> Option<&'a Asset> {
    if *method != Method::GET && *method != Method::HEAD {
        return None;
    }
    if is_within(path, "/api") || is_within(path, "/metrics") {
        return None;
    }
    let find = |path: &str| assets.iter().find(|asset| asset.path == path);
    match find(path) {
        None if path.starts_with(HASHED) => None,
        // Every other address is a view's, which the page itself knows.
        None => find(INDEX),
        found => found,
    }
}

/// Which page or file of the book answers a request. Chapters have the names that texts give them, as in
/// `docs/deployment.md`, too.
fn chapter(method: &Method, path: &str) -> Option<&'static Asset> {
    if *method != Method::GET && *method != Method::HEAD {
        return None;
    }
    let rest = path.strip_prefix(BOOK_PLACE)?.trim_start_matches('/');
    let name = match rest.strip_suffix(".md") {
        Some(chapter) => format!("{BOOK_PLACE}/{chapter}.html"),
        None if rest.is_empty() => format!("{BOOK_PLACE}{INDEX}"),
        None => path.to_owned(),
    };
    BOOK.iter().find(|asset| asset.path == name)
}

/// Whether a path is a place, or below it.
fn is_within(path: &str, place: &str) -> bool {
    path.strip_prefix(place)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
