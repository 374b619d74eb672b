//! What is kept for how long.

use axum::http::Method;

use super::{ApiClient, ClientError, document};
use crate::documents::{LocalRetention, Retention, RetentionChange};

impl ApiClient {
    /// What nodes keep of what they put down.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn retention(&self) -> Result<Retention, ClientError> {
        self.read("/retention").await
    }

    /// Changes how much that may be.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn change_retention(
        &self,
        change: RetentionChange,
    ) -> Result<Retention, ClientError> {
        self.change(Method::PATCH, "/retention", Some(&change), document)
            .await
    }

    /// What the node at the URL keeps.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn local_retention(&self) -> Result<LocalRetention, ClientError> {
        self.read("/local/retention").await
    }
}
