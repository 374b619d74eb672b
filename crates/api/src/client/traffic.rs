//! Traffic, as the client asks for it.

use super::{ApiClient, ClientError};
use crate::documents::{LocalTraffic, Traffic};

impl ApiClient {
    /// What hosts did with each volume in the last few seconds.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn traffic(&self) -> Result<Traffic, ClientError> {
        self.read("/traffic").await
    }

    /// What they did at the portal of the node at the URL.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn local_traffic(&self) -> Result<LocalTraffic, ClientError> {
        self.read("/local/traffic").await
    }
}
