//! Long work under way, as the client asks for it.

use axum::http::Method;

use super::{ApiClient, ClientError, nothing, path_of};
use crate::documents::TaskList;

impl ApiClient {
    /// Long work under way.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn tasks(&self) -> Result<TaskList, ClientError> {
        self.read("/tasks").await
    }

    /// Calls one off.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn cancel_task(&self, id: &str) -> Result<(), ClientError> {
        let path = path_of("tasks", id);
        self.change(Method::DELETE, &path, None::<&()>, nothing)
            .await
    }
}
