//! A connection to one URL, with TLS where the URL says so.
//!
//! Invariants:
//! - what a URL wants over TLS is never sent without it;
//! - where a token would be told to another machine without TLS, nobody is even connected to.

use std::time::Duration;

use holdfast_model::is_this_machine;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{ApiClient, ApiUrl, Failure};

/// How long connecting to one URL may take, and shaking hands there as long again.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);

/// What bytes go through.
pub(super) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

impl ApiClient {
    /// Connects. Nothing of a request has been sent when that fails.
    pub(super) async fn connect(&self, url: &ApiUrl) -> Result<Box<dyn Wire>, Failure> {
        let host = url.host.trim_matches(['[', ']']);
        let tells = self.authorization.is_some() && !self.tells_token_in_plain;
        if tells && !url.is_secure && !is_this_machine(host) {
            return Err(Failure::TokenInPlain);
        }
        let connected = timeout(CONNECT_TIME_MAX, TcpStream::connect((host, url.port))).await;
        let stream = connected.map_err(|_| Failure::TooSlow)??;
        if !url.is_secure {
            return Ok(Box::new(stream));
        }
        let connector = self.connector.as_ref().ok_or(Failure::NoAuthority)?;
        let shaken = timeout(CONNECT_TIME_MAX, connector.connect(host, stream)).await;
        Ok(Box::new(shaken.map_err(|_| Failure::TooSlow)??))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_token_leaves_the_machine_over_tls_only() {
        for host in [
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "::ffff:127.0.0.1",
            "localhost",
        ] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in [
            "192.0.2.1",
            "0.0.0.0",
            "2001:db8::1",
            "localhost.example",
            "127.example",
        ] {
            assert!(!is_this_machine(host), "{host}");
        }
        let url: ApiUrl = "http://192.0.2.1:7460".parse().unwrap();
        let with = |token| ApiClient::new(vec![url.clone()], token);
        let refused = with(Some("hft_x")).connect(&url).await.err();
        assert!(matches!(refused, Some(Failure::TokenInPlain)));
        // Whoever says so, or has nothing to hide, is let go; nobody answers there.
        for client in [with(Some("hft_x")).telling_token_in_plain(true), with(None)] {
            let unreached = client.connect(&url).await.err();
            assert!(!matches!(unreached, Some(Failure::TokenInPlain)));
        }
    }
}
