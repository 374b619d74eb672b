//! Initiators, and whom volumes are for, as the client asks for them.

use axum::http::Method;

use super::{ApiClient, ClientError, document, nothing, path_of, volume_path};
use crate::documents::{AccessChange, Initiator, InitiatorList, InitiatorPut, Volume};

impl ApiClient {
    /// Changes whom a volume is for.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn change_access(
        &self,
        name: &str,
        change: &AccessChange,
    ) -> Result<Volume, ClientError> {
        let path = format!("{}/access", volume_path(name));
        self.change(Method::PATCH, &path, Some(change), document)
            .await
    }

    /// The initiators that are on record.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn initiators(&self) -> Result<InitiatorList, ClientError> {
        self.read("/initiators").await
    }

    /// An initiator that is on record.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn initiator(&self, name: &str) -> Result<Initiator, ClientError> {
        self.read(&path_of("initiators", name)).await
    }

    /// Puts an initiator on record.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn put_initiator(
        &self,
        name: &str,
        request: &InitiatorPut,
    ) -> Result<Initiator, ClientError> {
        let path = path_of("initiators", name);
        self.change(Method::PUT, &path, Some(request), document)
            .await
    }

    /// Forgets an initiator.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn remove_initiator(&self, name: &str) -> Result<(), ClientError> {
        let path = path_of("initiators", name);
        self.change(Method::DELETE, &path, None::<&()>, nothing)
            .await
    }
}
