//! Nodes' parts of a support bundle.

use super::{ApiClient, ClientError, path_of};
use crate::documents::LocalSupport;

impl ApiClient {
    /// What a node has for whoever looks into something.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn node_support(&self, name: &str) -> Result<LocalSupport, ClientError> {
        self.read(&format!("{}/support", path_of("nodes", name)))
            .await
    }

    /// The same, of the node at the URL.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn local_support(&self) -> Result<LocalSupport, ClientError> {
        self.read("/local/support").await
    }
}
