//! A connection to one URL, with TLS where the URL says so.
//!
//! Invariant: what a URL wants over TLS is never sent without it.

use std::time::Duration;

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
