//! Sessions, paths and reservations, as the client asks for them.

use super::{ApiClient, ClientError, escaped, path_of, volume_path};
use crate::documents::{
    LocalSessionQuery, LocalSessions, Reservations, SessionList, TargetSessionList,
};

impl ApiClient {
    /// The sessions with all targets.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn sessions(&self) -> Result<TargetSessionList, ClientError> {
        self.read("/sessions").await
    }

    /// The first of them, so many at most, from 1 to 1000.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn sessions_within(&self, limit: u32) -> Result<TargetSessionList, ClientError> {
        self.read(&format!("/sessions?limit={limit}")).await
    }

    /// The sessions that are paths to a volume.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn volume_sessions(&self, name: &str) -> Result<SessionList, ClientError> {
        self.read(&format!("{}/sessions", volume_path(name))).await
    }

    /// The sessions of an initiator, as paths to volumes.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn initiator_sessions(&self, name: &str) -> Result<SessionList, ClientError> {
        self.read(&format!("{}/sessions", path_of("initiators", name)))
            .await
    }

    /// The sessions with the node at the URL.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn local_sessions(
        &self,
        query: &LocalSessionQuery,
    ) -> Result<LocalSessions, ClientError> {
        let LocalSessionQuery { target, initiator } = query;
        let said = |name, value: &Option<String>| {
            let value = value.as_ref()?;
            Some(format!("{name}={}", escaped(value)))
        };
        let said = [said("target", target), said("initiator", initiator)];
        let said: Vec<String> = said.into_iter().flatten().collect();
        self.read(&format!("/local/sessions?{}", said.join("&")))
            .await
    }

    /// The persistent reservations of a volume.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn reservations(&self, name: &str) -> Result<Reservations, ClientError> {
        self.read(&format!("{}/reservations", volume_path(name)))
            .await
    }
}
