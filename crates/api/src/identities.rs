//! Who knows who may do what, and in front of what that one stands.

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use holdfast_identity::{Caller, UserName};

use crate::Problem;
use crate::documents::{
    AuditEntry, AuditList, AuditQuery, LocalAudit, PasswordChange, SessionCreate, Token,
    TokenCreate, TokenCreated, User, UserChange, UserCreate,
};

/// An answer that comes.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Problem>> + Send + 'a>>;

/// What somebody shows to prove who he is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shown<'a> {
    /// A token, as `Authorization: Bearer` has it.
    Token(&'a str),
    /// A session, as the cookie has it.
    Session(&'a str),
}

/// A session that has begun.
#[derive(Clone)]
pub struct LoggedIn {
    /// Whose.
    pub caller: Caller,
    /// What the browser is to show from now on.
    pub secret: String,
}

/// Users, tokens and sessions, and what was done by them.
///
/// What cannot be known, because the metadata does not answer and never has, is
/// [`ProblemKind::Unavailable`](crate::ProblemKind::Unavailable): nobody is let in for want of an answer.
pub trait Identities: Send + Sync + 'static {
    /// Who shows that; [`ProblemKind::Unauthenticated`](crate::ProblemKind::Unauthenticated) if nobody should.
    fn who<'a>(&'a self, shown: Shown<'a>) -> Answer<'a, Caller>;

    /// Begins a session; [`ProblemKind::TooManyAttempts`](crate::ProblemKind::TooManyAttempts) where too many have failed.
    fn log_in(&self, request: SessionCreate, from: IpAddr) -> Answer<'_, LoggedIn>;

    /// Ends a session.
    fn log_out<'a>(&'a self, session: &'a str) -> Answer<'a, ()>;

    /// Changes one's own password. All other sessions of that user end.
    fn change_password<'a>(
        &'a self,
        of: (&'a UserName, &'a str),
        change: PasswordChange,
        from: IpAddr,
    ) -> Answer<'a, ()>;

    /// The users, by name.
    fn users(&self) -> Answer<'_, Vec<User>>;

    /// Makes a user.
    fn create_user(&self, request: UserCreate) -> Answer<'_, User>;

    /// Changes a user.
    fn change_user<'a>(&'a self, name: &'a str, change: UserChange) -> Answer<'a, User>;

    /// Removes a user.
    fn remove_user<'a>(&'a self, name: &'a str) -> Answer<'a, ()>;

    /// The tokens, by id.
    fn tokens(&self) -> Answer<'_, Vec<Token>>;

    /// Makes a token.
    fn create_token<'a>(
        &'a self,
        request: TokenCreate,
        maker: &'a Caller,
    ) -> Answer<'a, TokenCreated>;

    /// Removes a token.
    fn revoke_token<'a>(&'a self, id: &'a str) -> Answer<'a, ()>;

    /// Puts down what was done. Waits for nothing.
    fn note(&self, entry: AuditEntry);

    /// What was done, through all nodes.
    fn audit(&self, query: AuditQuery) -> Answer<'_, AuditList>;

    /// What was done through this one.
    fn local_audit(&self, query: AuditQuery) -> Answer<'_, LocalAudit>;
}

/// What stands in front of the interface.
#[derive(Clone)]
pub enum Door {
    /// Nothing: security is off, and everybody may everything.
    Open,
    /// Who knows who may do what.
    Guarded(Arc<dyn Identities>),
}

impl fmt::Debug for Door {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Open => "Open",
            Self::Guarded(_) => "Guarded",
        })
    }
}
