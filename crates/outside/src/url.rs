//! Where something is asked for.
//!
//! It refuses other schemes than `http` and `https`, and user names and passwords in a URL.
//!
//! Invariant: what is said of a URL to people is its origin alone: paths and queries may be secrets.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;

/// Bytes in a URL at most, as common servers take them.
pub const URL_BYTES_MAX: usize = 2048;

/// A text that is no URL that can be asked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It is none.
    #[error("is no URL that begins with http:// or https://")]
    Malformed,
    /// It has a user in it.
    #[error("has a user or a password in it, which does not belong there")]
    User,
    /// It is too long.
    #[error("has more than {URL_BYTES_MAX} bytes")]
    TooLong,
}

/// A URL, in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutsideUrl {
    /// Whether it is `https`.
    pub is_secure: bool,
    /// A name or an address, without the brackets of IPv6.
    pub host: String,
    /// The port, that of the scheme if none was said.
    pub port: u16,
    /// What stands in the `Host` field.
    pub authority: String,
    /// Path and query.
    pub target: Uri,
}

impl FromStr for OutsideUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if text.len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong);
        }
        // A fragment is never sent, and the parser would drop it without a word.
        let is_odd = |byte: u8| byte == b'#' || !byte.is_ascii_graphic();
        if text.bytes().any(is_odd) {
            return Err(UrlError::Malformed);
        }
        let uri: Uri = text.parse().map_err(|_| UrlError::Malformed)?;
        let scheme = uri.scheme_str().unwrap_or_default();
        let is_secure = scheme.eq_ignore_ascii_case("https");
        if !is_secure && !scheme.eq_ignore_ascii_case("http") {
            return Err(UrlError::Malformed);
        }
        let authority = uri.authority().ok_or(UrlError::Malformed)?;
        if authority.as_str().contains('@') {
            return Err(UrlError::User);
        }
        let host = authority.host().trim_matches(['[', ']']);
        let port = match authority.port() {
            // `host:` and `host:99999` are there, and no number.
            Some(port) => Some(port.as_u16()),
            None if authority.as_str().len() > authority.host().len() => None,
            None => Some(if is_secure { 443 } else { 80 }),
        };
        let port = port.filter(|port| *port > 0).ok_or(UrlError::Malformed)?;
        if host.is_empty() {
            return Err(UrlError::Malformed);
        }
        let (path, query) = (uri.path(), uri.query());
        let target = match query {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        };
        Ok(Self {
            is_secure,
            host: host.to_owned(),
            port,
            authority: authority.as_str().to_owned(),
            target: target.parse().map_err(|_| UrlError::Malformed)?,
        })
    }
}

impl fmt::Display for OutsideUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(formatter, "{scheme}://{}", self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        for (text, host, port, target) in [
            ("http://id.example", "id.example", 80, "/"),
            (
                "https://id.example/a/b?c=d&e",
                "id.example",
                443,
                "/a/b?c=d&e",
            ),
            ("https://[::1]:8443/x", "::1", 8443, "/x"),
            ("HTTP://192.0.2.1:8080?q", "192.0.2.1", 8080, "/?q"),
        ] {
            let url: OutsideUrl = text.parse().unwrap();
            assert_eq!((url.host.as_str(), url.port), (host, port), "{text}");
            assert_eq!(url.target.to_string(), target, "{text}");
        }
        let url: OutsideUrl = "https://id.example:9/secret".parse().unwrap();
        assert_eq!(url.to_string(), "https://id.example:9");
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for text in [
            "",
            "id.example",
            "/path",
            "ftp://id.example/",
            "file:///etc/passwd",
            "https://",
            "https:///path",
            "https://:443/",
            "https://id.example:/",
            "https://id.example:0/",
            "https://id.example:99999/",
            "https://id.example/#fragment",
            "https://id.example/a b",
            "https://id.example/\r\nX: y",
            "https://hööks.example/",
        ] {
            let refused = text.parse::<OutsideUrl>().map(|_| ());
            assert_eq!(refused, Err(UrlError::Malformed), "{text}");
        }
        for text in [
            "https://u:p@id.example/",
            "https://u@id.example/",
            "http://@h/",
        ] {
            let refused = text.parse::<OutsideUrl>().map(|_| ());
            assert_eq!(refused, Err(UrlError::User), "{text}");
        }
        let long = format!("https://id.example/{}", "x".repeat(URL_BYTES_MAX));
        let refused = long.parse::<OutsideUrl>().map(|_| ());
        assert_eq!(refused, Err(UrlError::TooLong));
    }
}
