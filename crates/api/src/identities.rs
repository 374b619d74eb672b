//! Who knows who may do what, and in front of what that one stands.

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use holdfast_identity::{Caller, UserName};
use holdfast_model::ClusterId;

use crate::documents::{
    AuditEntry, AuditList, AuditQuery, LocalAudit, LoginMethods, PasswordChange, SessionCreate,
    Token, TokenCreate, TokenCreated, User, UserChange, UserCreate,
};
use crate::{Conditional, Keyed, Precondition, Problem};

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

/// A user that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserMade {
    /// As it is.
    pub user: User,
    /// It was made now, and not by the same request before.
    pub is_new: bool,
}

/// A browser that is sent to a provider of identities.
#[derive(Clone)]
pub struct SentAway {
    /// Where to: a URL.
    pub location: String,
    /// What it is to bring back: letters, digits, `-` and `_`.
    pub ticket: String,
}

/// What a browser brings back from a provider of identities, none of it looked at.
#[derive(Clone, Default)]
pub struct BroughtBack {
    /// The ticket that it was sent away with.
    pub ticket: Option<String>,
    /// Which login it is.
    pub state: Option<String>,
    /// What the provider gives a token for.
    pub code: Option<String>,
    /// Why there is none.
    pub error: Option<String>,
    /// Which provider says so.
    pub issuer: Option<String>,
}

/// Why somebody has not been let in by a provider of identities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginFault {
    /// There is none.
    NoProvider,
    /// It began nowhere, elsewhere, or too long ago.
    Unknown,
    /// The provider says no.
    Denied,
    /// Who it is is known, and that one has no role.
    NoRole,
    /// The provider does not answer, or not as it should.
    Provider,
    /// What the provider says is not believed.
    Untrusted,
    /// Too many log in at the same time, or have tried to from there.
    Busy,
    /// The metadata does not answer.
    Unavailable,
}

impl LoginFault {
    /// The word by which the login page knows it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::NoProvider => "no-provider",
            Self::Unknown => "again",
            Self::Denied => "denied",
            Self::NoRole => "no-role",
            Self::Provider => "provider",
            Self::Untrusted => "untrusted",
            Self::Busy => "busy",
            Self::Unavailable => "unavailable",
        }
    }
}

/// A login at a provider of identities that has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginRefused {
    /// Why.
    pub fault: LoginFault,
    /// Who it was, if that is known.
    pub who: Option<String>,
}

impl From<LoginFault> for LoginRefused {
    fn from(fault: LoginFault) -> Self {
        Self { fault, who: None }
    }
}

/// What comes of a login at a provider of identities.
pub type LoginAnswer<'a, T> = Pin<Box<dyn Future<Output = Result<T, LoginRefused>> + Send + 'a>>;

/// Users, tokens and sessions, and what was done by them.
///
/// What cannot be known, because the metadata does not answer and never has, is
/// [`ProblemKind::Unavailable`](crate::ProblemKind::Unavailable): nobody is let in for want of an answer.
pub trait Identities: Send + Sync + 'static {
    /// Whose users they are: what tells its cookies from those of another cluster at the same host.
    fn cluster(&self) -> ClusterId;

    /// That what is changed can be put down; [`ProblemKind::Unavailable`](crate::ProblemKind::Unavailable) if it was not, lately.
    ///
    /// # Errors
    /// It cannot.
    fn may_change(&self) -> Result<(), Problem>;

    /// Who shows that; [`ProblemKind::Unauthenticated`](crate::ProblemKind::Unauthenticated) if nobody should.
    fn who<'a>(&'a self, shown: Shown<'a>) -> Answer<'a, Caller>;

    /// Begins a session; [`ProblemKind::TooManyAttempts`](crate::ProblemKind::TooManyAttempts) where too many have failed.
    fn log_in(&self, request: SessionCreate, from: IpAddr) -> Answer<'_, LoggedIn>;

    /// Whether a login from there that was refused as [`ProblemKind::TooManyAttempts`](crate::ProblemKind::TooManyAttempts) is to be put
    /// down; if so, how many were not since the last that was. In a minute there are some at most, whoever tries how often.
    fn may_note_untried(&self, from: IpAddr) -> Option<u64>;

    /// How one can log in.
    fn login_methods(&self) -> LoginMethods {
        LoginMethods {
            password: true,
            oidc: None,
        }
    }

    /// Sends a browser to the provider of identities.
    fn send_away(&self) -> LoginAnswer<'_, SentAway> {
        Box::pin(async { Err(LoginFault::NoProvider.into()) })
    }

    /// Begins a session of whoever has come back from there; [`LoginFault::Busy`] where too many have failed from that address.
    fn come_back(&self, _: BroughtBack, _: IpAddr) -> LoginAnswer<'_, LoggedIn> {
        Box::pin(async { Err(LoginFault::NoProvider.into()) })
    }

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

    /// Makes a user. With a key its repetition is answered with the user as it is then;
    /// [`ProblemKind::KeyReused`](crate::ProblemKind::KeyReused) if it is another one, by its password too.
    fn create_user(&self, request: Keyed<UserCreate>) -> Answer<'_, UserMade>;

    /// Changes a user, in the same step in which the condition is seen to hold, or not at all, with
    /// [`ProblemKind::PreconditionFailed`](crate::ProblemKind::PreconditionFailed).
    fn change_user<'a>(
        &'a self,
        name: &'a str,
        change: Conditional<UserChange>,
    ) -> Answer<'a, User>;

    /// Removes a user, on the same terms.
    fn remove_user<'a>(&'a self, name: &'a str, precondition: Precondition) -> Answer<'a, ()>;

    /// The tokens, by id.
    fn tokens(&self) -> Answer<'_, Vec<Token>>;

    /// Makes a token. With a key its repetition makes none, and is [`ProblemKind::AlreadyMade`](crate::ProblemKind::AlreadyMade): a
    /// token is told once.
    fn create_token<'a>(
        &'a self,
        request: Keyed<TokenCreate>,
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
