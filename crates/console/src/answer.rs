//! A file as an answer: its form, its headers, or that the browser has it already.

use axum::body::Body;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, REFERRER_POLICY, VARY, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;

use crate::{Asset, HASHED};

/// Nothing but what this node serves, no inline script or style sheet, no frame around it.
const POLICY: &str = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; \
                      frame-ancestors 'none'";

/// A form in which a file is sent.
struct Form {
    bytes: &'static [u8],
    /// As `Content-Encoding` has it.
    encoding: Option<&'static str>,
}

/// The answer to a request with these headers.
pub(crate) fn give(asset: &Asset, asked: &HeaderMap) -> Response {
    let form = form(asset, asked);
    // Forms are different bytes, and so have different tags.
    let tag = match form.encoding {
        Some(encoding) => format!("\"{}-{encoding}\"", asset.tag),
        None => format!("\"{}\"", asset.tag),
    };
    let is_known = has(asked, &IF_NONE_MATCH, |one| {
        one == "*" || one.trim_start_matches("W/") == tag
    });
    let mut response = Response::new(if is_known {
        Body::empty()
    } else {
        Body::from(form.bytes)
    });
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    let mut put = |name: HeaderName, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    put(CACHE_CONTROL, keeping(asset.path));
    put(VARY, "accept-encoding");
    put(CONTENT_TYPE, kind(asset.path));
    put(CONTENT_SECURITY_POLICY, POLICY);
    put(X_FRAME_OPTIONS, "DENY");
    put(REFERRER_POLICY, "no-referrer");
    put(
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    );
    put(
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    );
    if let Some(encoding) = form.encoding
        && !is_known
    {
        put(CONTENT_ENCODING, encoding);
    }
    let tag = HeaderValue::try_from(tag).expect("a tag is letters, digits and hyphens");
    headers.insert(ETAG, tag);
    response
}

/// The smallest form that the browser takes.
fn form(asset: &Asset, asked: &HeaderMap) -> Form {
    let takes = |encoding: &str| has(asked, &ACCEPT_ENCODING, |one| accepts(one, encoding));
    let forms = [(asset.brotli, "br"), (asset.gzip, "gzip")];
    for (bytes, encoding) in forms {
        if let Some(bytes) = bytes
            && takes(encoding)
        {
            return Form {
                bytes,
                encoding: Some(encoding),
            };
        }
    }
    Form {
        bytes: asset.plain,
        encoding: None,
    }
}

/// Whether one part of an `Accept-Encoding` takes this one, as in `br` or `gzip;q=0.5`.
fn accepts(part: &str, encoding: &str) -> bool {
    let mut parts = part.split(';').map(str::trim);
    if parts.next() != Some(encoding) {
        return false;
    }
    let weight = parts.find_map(|parameter| parameter.strip_prefix("q="));
    weight.is_none_or(|weight| weight.parse::<f32>().is_ok_and(|weight| weight > 0.0))
}

/// Whether some part of a header that is a list is as wanted.
fn has(headers: &HeaderMap, name: &HeaderName, wanted: impl Fn(&str) -> bool) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|part| wanted(part.trim()))
}

fn keeping(path: &str) -> &'static str {
    if path.starts_with(HASHED) {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    }
}

fn kind(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("woff2") => "font/woff2",
        Some("json") => "application/json",
        Some("txt" | "yml") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
