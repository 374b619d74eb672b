//! Where a webhook is posted to.
//!
//! It refuses other schemes than `http` and `https`, and user names and passwords in a URL.
//!
//! Invariant: what is said of a URL to people is its origin alone: paths of webhooks are often secrets.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;

use crate::ReceiverError;

/// Bytes in a URL at most, as common servers take them.
const URL_BYTES_MAX: usize = 2048;

/// A webhook's URL, in its parts.
pub(crate) struct WebhookUrl {
    pub(crate) is_secure: bool,
    /// A name or an address, without the brackets of IPv6.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// What stands in the `Host` field.
    pub(crate) authority: String,
    /// Path and query.
    pub(crate) target: Uri,
}

impl FromStr for WebhookUrl {
    type Err = ReceiverError;

    fn from_str(text: &str) -> Result<Self, ReceiverError> {
        if text.len() > URL_BYTES_MAX {
            return Err(ReceiverError::UrlTooLong(URL_BYTES_MAX));
        }
        // A fragment is never sent, and the parser would drop it without a word.
        let is_odd = |byte: u8| byte == b'#' || !byte.is_ascii_graphic();
        if text.bytes().any(is_odd) {
            return Err(ReceiverError::Url);
        }
        let uri: Uri = text.parse().map_err(|_| ReceiverError::Url)?;
        let scheme = uri.scheme_str().unwrap_or_default();
        let is_secure = scheme.eq_ignore_ascii_case("https");
        if !is_secure && !scheme.eq_ignore_ascii_case("http") {
            return Err(ReceiverError::Url);
        }
        let authority = uri.authority().ok_or(ReceiverError::Url)?;
        if authority.as_str().contains('@') {
            return Err(ReceiverError::UrlUser);
        }
        let host = authority.host().trim_matches(['[', ']']);
        let port = match authority.port() {
            // `host:` and `host:99999` are there, and no number.
            Some(port) => Some(port.as_u16()),
            None if authority.as_str().len() > authority.host().len() => None,
            None => Some(if is_secure { 443 } else { 80 }),
        };
        let port = port.filter(|port| *port > 0).ok_or(ReceiverError::Url)?;
        if host.is_empty() {
            return Err(ReceiverError::Url);
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
            target: target.parse().map_err(|_| ReceiverError::Url)?,
        })
    }
}

impl fmt::Display for WebhookUrl {
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
            ("http://hooks.example", "hooks.example", 80, "/"),
            (
                "https://hooks.example/a/b?c=d&e",
                "hooks.example",
                443,
                "/a/b?c=d&e",
            ),
            ("https://[::1]:8443/x", "::1", 8443, "/x"),
            ("HTTP://192.0.2.1:8080?q", "192.0.2.1", 8080, "/?q"),
        ] {
            let url: WebhookUrl = text.parse().unwrap();
            assert_eq!((url.host.as_str(), url.port), (host, port), "{text}");
            assert_eq!(url.target.to_string(), target, "{text}");
        }
        let url: WebhookUrl = "https://hooks.example:9/secret".parse().unwrap();
        assert_eq!(url.to_string(), "https://hooks.example:9");
    }

    #[test]
    fn what_is_no_url_of_a_webhook_is_refused() {
        for text in [
            "",
            "hooks.example",
            "/path",
            "ftp://hooks.example/",
            "file:///etc/passwd",
            "https://",
            "https:///path",
            "https://:443/",
            "https://hooks.example:/",
            "https://hooks.example:0/",
            "https://hooks.example:99999/",
            "https://hooks.example/#fragment",
            "https://hooks.example/a b",
            "https://hooks.example/\r\nX: y",
            "https://hööks.example/",
        ] {
            let refused = text.parse::<WebhookUrl>().map(|_| ());
            assert_eq!(refused, Err(ReceiverError::Url), "{text}");
        }
        for text in [
            "https://u:p@hooks.example/",
            "https://u@hooks.example/",
            "http://@h/",
        ] {
            let refused = text.parse::<WebhookUrl>().map(|_| ());
            assert_eq!(refused, Err(ReceiverError::UrlUser), "{text}");
        }
        let long = format!("https://hooks.example/{}", "x".repeat(URL_BYTES_MAX));
        let refused = long.parse::<WebhookUrl>().map(|_| ());
        assert_eq!(refused, Err(ReceiverError::UrlTooLong(URL_BYTES_MAX)));
    }
}
