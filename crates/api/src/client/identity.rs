//! Users, tokens, and what was done, as the client asks for it.

use axum::http::Method;

use super::{ApiClient, ClientError, after_of, document, nothing, path_of};
use crate::documents::{
    AuditList, AuditQuery, Identity, LocalAudit, TokenCreate, TokenCreated, TokenList, User,
    UserChange, UserCreate, UserList,
};

impl ApiClient {
    /// Who this is, as the interface knows it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn who(&self) -> Result<Identity, ClientError> {
        self.read("/session").await
    }

    /// The users.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn users(&self) -> Result<UserList, ClientError> {
        self.read("/users").await
    }

    /// Makes a user.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn create_user(&self, request: &UserCreate) -> Result<User, ClientError> {
        self.change(Method::POST, "/users", Some(request), document)
            .await
    }

    /// Changes a user.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn change_user(&self, name: &str, change: &UserChange) -> Result<User, ClientError> {
        let path = path_of("users", name);
        self.change(Method::PATCH, &path, Some(change), document)
            .await
    }

    /// Removes a user.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn remove_user(&self, name: &str) -> Result<(), ClientError> {
        let path = path_of("users", name);
        self.change(Method::DELETE, &path, None::<&()>, nothing)
            .await
    }

    /// The tokens.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn tokens(&self) -> Result<TokenList, ClientError> {
        self.read("/tokens").await
    }

    /// Makes a token.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn create_token(&self, request: &TokenCreate) -> Result<TokenCreated, ClientError> {
        self.change(Method::POST, "/tokens", Some(request), document)
            .await
    }

    /// Revokes a token.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn revoke_token(&self, id: &str) -> Result<(), ClientError> {
        let path = path_of("tokens", id);
        self.change(Method::DELETE, &path, None::<&()>, nothing)
            .await
    }

    /// What was done, through all nodes.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn audit(&self, query: AuditQuery) -> Result<AuditList, ClientError> {
        self.read(&format!("/audit?{}", query_of(query))).await
    }

    /// What was done through the node at the URL.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn local_audit(&self, query: AuditQuery) -> Result<LocalAudit, ClientError> {
        self.read(&format!("/local/audit?{}", query_of(query)))
            .await
    }
}

fn query_of(query: AuditQuery) -> String {
    let AuditQuery {
        limit,
        since_ms,
        after,
    } = query;
    let after = after_of(after.as_deref());
    format!("limit={limit}&since_ms={since_ms}{after}")
}
