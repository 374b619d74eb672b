//! What nodes write into their logs.

use axum::http::Method;

use super::{ApiClient, ClientError, document, path_of};
use crate::documents::{LogChange, LogLevels};

impl ApiClient {
    /// What a node writes into its log.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn node_log(&self, name: &str) -> Result<LogLevels, ClientError> {
        self.read(&format!("{}/log", path_of("nodes", name))).await
    }

    /// Has a node write more into its log, or less, for a time.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn change_node_log(
        &self,
        name: &str,
        change: &LogChange,
    ) -> Result<LogLevels, ClientError> {
        let path = format!("{}/log", path_of("nodes", name));
        self.change(Method::PATCH, &path, Some(change), document)
            .await
    }

    /// What the node at the URL writes into its log.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn local_log(&self) -> Result<LogLevels, ClientError> {
        self.read("/local/log").await
    }

    /// Has the node at the URL write more into its log, or less, for a time.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn change_local_log(&self, change: &LogChange) -> Result<LogLevels, ClientError> {
        self.change(Method::PATCH, "/local/log", Some(change), document)
            .await
    }
}
