//! Where an interface answers, as people write it.
//!
//! It refuses paths, users and other schemes: an interface is a host and a port.

use std::fmt;

use holdfast_model::host_and_port;

/// Where an interface answers: `https://host:port`, or `http://host:port` without TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiUrl {
    pub(super) is_secure: bool,
    pub(super) host: String,
    pub(super) port: u16,
}

/// A text that is no URL of an interface.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the URL of an API, such as https://127.0.0.1:7460")]
pub struct UrlError(String);

impl std::str::FromStr for ApiUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let error = || UrlError(text.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(error)?;
        let is_secure = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(error()),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = host_and_port(authority).ok_or_else(error)?;
        Ok(Self {
            is_secure,
            host: host.to_owned(),
            port,
        })
    }
}

impl fmt::Display for ApiUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(formatter, "{scheme}://{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        for text in [
            "http://127.0.0.1:7460",
            "http://node-1.example:80",
            "http://[::1]:7460",
            "https://[::1]:7460",
        ] {
            assert_eq!(text.parse::<ApiUrl>().unwrap().to_string(), text);
            assert_eq!(format!("{text}/").parse::<ApiUrl>(), text.parse());
        }
        for text in [
            "",
            "127.0.0.1:7460",
            "ftp://127.0.0.1:7460",
            "https://127.0.0.1",
            "http://127.0.0.1",
            "http://:7460",
            "http://[nonsense]:7460",
            "http://127.0.0.1:99999",
            "http://127.0.0.1:7460/path",
            "http://user@host:7460",
        ] {
            assert_eq!(
                text.parse::<ApiUrl>(),
                Err(UrlError(text.to_owned())),
                "{text}"
            );
        }
    }
}
