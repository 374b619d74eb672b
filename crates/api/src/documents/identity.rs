//! Who may do what, and who has done what. What a password or a token is goes in, or out once, and never again.

use holdfast_identity::{Role, Scope};
use holdfast_model::record::Secret;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::places::{AuditPlace, Place};
use crate::{EntityTag, Problem};

/// What a login asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionCreate {
    /// The user's name.
    pub name: String,
    /// The password.
    #[schema(value_type = String, write_only)]
    pub password: Secret,
}

/// Who asks, as the interface knows that one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Identity {
    /// What kind of somebody it is.
    pub kind: IdentityKind,
    /// The user's name, or what the token is called; for a node its number.
    pub name: String,
    /// What that one may at most.
    #[schema(value_type = RoleName)]
    pub role: Role,
    /// For what part of the interface.
    #[schema(value_type = ScopeName)]
    pub scope: Scope,
    /// Until when that holds: milliseconds since 1970 (UTC); null without an end.
    pub expires_ms: Option<u64>,
    /// Which provider of identities says who it is, if one does: its issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
}

/// How one can log in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoginMethods {
    /// Whether users log in with a password; without security there are none.
    pub password: bool,
    /// The provider of identities at which one can log in, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oidc: Option<LoginProvider>,
}

/// A provider of identities.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoginProvider {
    /// What people call it.
    pub name: String,
    /// Where a browser begins a login: the URL of a page.
    pub url: String,
}

/// How somebody has shown who he is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum IdentityKind {
    /// By a login.
    User,
    /// By a token.
    Token,
    /// By a node's certificate.
    Node,
    /// Not at all: security is off, and everybody may everything.
    Anybody,
}

/// The change of one's own password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PasswordChange {
    /// The present one.
    #[schema(value_type = String, write_only)]
    pub current: Secret,
    /// The new one: at least 12 letters.
    #[schema(value_type = String, write_only)]
    pub new: Secret,
}

/// The users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UserList {
    /// By name.
    pub users: Vec<User>,
    /// Where the rest begins, for `after`; none if there is no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct User {
    /// The name.
    pub name: String,
    /// What that one may.
    #[schema(value_type = RoleName)]
    pub role: Role,
    /// Whether nobody may log in as this user.
    pub disabled: bool,
    /// When the user was made: milliseconds since 1970 (UTC).
    pub created_ms: u64,
    /// When the password was last changed: milliseconds since 1970 (UTC).
    pub password_changed_ms: u64,
    /// Logins that hold.
    pub sessions: u32,
    /// Which provider of identities says who it is, if one does: its issuer. Such a user is listed while logins hold; the role is
    /// that of the newest, and removing the user ends them, and the tokens that were made with them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// What that provider calls the user for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Names what may be changed of the user, the password included, for `If-Match`: another one when that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<EntityTag>,
}

/// The user that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserCreate {
    /// The name: 1 to 64 of `a`-`z`, `0`-`9`, `.`, `_`, `-` and `@`.
    pub name: String,
    /// What that one may.
    #[schema(value_type = RoleName)]
    pub role: Role,
    /// The password: at least 12 letters, at most 256 bytes.
    #[schema(value_type = String, write_only)]
    pub password: Secret,
}

/// What becomes of a user; what is not said stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct UserChange {
    /// What that one may from now on.
    #[schema(value_type = Option<RoleName>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Whether nobody may log in as this user; logins end with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// The new password; logins end with the old one.
    #[schema(value_type = Option<String>, write_only)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
}

/// The tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenList {
    /// By id.
    pub tokens: Vec<Token>,
    /// Where the rest begins, for `after`; none if there is no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A token, with which a program shows who it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// What names it: what the token itself begins with, after `hft_`.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What its holder may.
    #[schema(value_type = RoleName)]
    pub role: Role,
    /// For what part of the interface.
    #[schema(value_type = ScopeName)]
    pub scope: Scope,
    /// Who made it, as in the log of what was done: `user ada`, or `demo` for what runs a demo.
    pub created_by: String,
    /// When: milliseconds since 1970 (UTC).
    pub created_ms: u64,
    /// Until when it holds: milliseconds since 1970 (UTC).
    pub expires_ms: u64,
}

/// The token that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenCreate {
    /// What people will call it: 1 to 64 letters.
    pub name: String,
    /// What its holder may: no more than who makes it.
    #[schema(value_type = RoleName)]
    pub role: Role,
    /// For what part of the interface; unless it is said, for all.
    #[serde(default = "everything")]
    #[schema(value_type = ScopeName)]
    pub scope: Scope,
    /// How long it holds, in seconds: 60 to 157680000 (five years).
    pub lifetime_seconds: u64,
}

fn everything() -> Scope {
    Scope::Everything
}

/// A token that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenCreated {
    /// What is on record.
    pub token: Token,
    /// The token itself, for `Authorization: Bearer`. It is told this once.
    #[schema(value_type = String)]
    pub secret: Secret,
}

/// What somebody may do at most. Each may what those before it may.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "the schema of what is another type here")]
pub(crate) enum RoleName {
    /// Looks at everything but users, tokens, and what others have done.
    Viewer,
    /// Runs the cluster: volumes, hosts, devices, maintenance.
    Operator,
    /// Changes settings, nodes, and who may do what.
    Administrator,
}

/// For what part of the interface a token is.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "the schema of what is another type here")]
pub(crate) enum ScopeName {
    /// All of it.
    Everything,
    /// Volumes and hosts.
    Volumes,
    /// `/metrics`.
    Metrics,
}

/// Entries of the audit log that are told at most.
pub const AUDIT_MAX: u32 = 1000;

/// Which entries of the audit log are asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    /// How many at most, the newest first: 1 to 1000.
    #[param(default = 100, minimum = 1, maximum = 1000)]
    pub limit: u32,
    /// None from before that: milliseconds since 1970 (UTC).
    #[param(default = 0)]
    pub since_ms: u64,
    /// Those after a piece: what its `next` said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl Default for AuditQuery {
    fn default() -> Self {
        Self {
            limit: 100,
            since_ms: 0,
            after: None,
        }
    }
}

impl AuditQuery {
    /// Beyond which place entries are asked for, if that is said.
    ///
    /// # Errors
    /// [`ProblemKind::Invalid`](crate::ProblemKind::Invalid) if it is no cursor of this log.
    pub fn place(&self) -> Result<Option<AuditPlace>, Problem> {
        self.after.as_deref().map(AuditPlace::read).transpose()
    }
}

/// What was done, and tried, through the interface of all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditList {
    /// The newest first.
    pub entries: Vec<AuditEntry>,
    /// Where the rest begins, for `after`; none if there is no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The nodes that did not answer, by name: what was done through them is missing.
    pub silent: Vec<String>,
}

/// The same, through the interface of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalAudit {
    /// The node's number; 0 of a process without a node.
    pub node: u16,
    /// The newest first.
    pub entries: Vec<AuditEntry>,
}

/// Whether there is no such number.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
const fn is_none(number: &u64) -> bool {
    *number == 0
}

/// A request that changed something, or was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// When it was answered: milliseconds since 1970 (UTC).
    pub at_ms: u64,
    /// Through whose interface: the node's name.
    pub node: String,
    /// Which of the node's it is: it tells those of one moment apart, and counts up. 0 of a node of an earlier version.
    #[serde(default, skip_serializing_if = "is_none")]
    pub number: u64,
    /// Who asked, such as `user ada`, `token backup (0123456789abcdef)`, or by its certificate `node 2`, or `demo` for what
    /// runs a demo.
    pub who: String,
    /// From which address.
    pub from: String,
    /// The request's method.
    pub method: String,
    /// Its path, with its query.
    pub path: String,
    /// The HTTP status that it was answered with; 0, with the code `unanswered`, where nobody waited for the answer: it may have been done.
    pub status: u16,
    /// The code of the problem, if it was answered with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What it was about, where the path does not say and it was done: what was made, or was there already so that nothing was changed, such as `volume db`, `user ada` or
    /// `token backup (0123456789abcdef)`, or what became of a device; and which values were set, as in `disabled=true, role=viewer`, of
    /// secrets only that they were. Of a login that was not tried, how many more were not since the last entry of one. No node of an earlier version says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The trace that the request was a part of (W3C Trace Context): 32 hexadecimal digits. The lines that nodes logged meanwhile have it, and
    /// `traceresponse` of the answer. No node of an earlier version says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

#[cfg(test)]
mod tests {
    use utoipa::PartialSchema as _;

    use super::*;

    /// The schema's names are those that are read and written.
    #[test]
    fn names_are_those_of_the_schema() {
        let schema = |schema| serde_json::to_value(schema).unwrap();
        let roles = schema(RoleName::schema())["enum"].clone();
        assert_eq!(roles, serde_json::to_value(Role::ALL).unwrap());
        let scopes = schema(ScopeName::schema())["enum"].clone();
        assert_eq!(scopes, serde_json::to_value(Scope::ALL).unwrap());
    }

    /// Logs outlive versions, and nodes of two versions tell each other theirs.
    #[test]
    fn entries_are_read_by_the_versions_before_and_after_more_was_said_of_them() {
        #[derive(Deserialize)]
        struct Before {
            path: String,
            status: u16,
        }
        let before = r#"{"at_ms":1,"node":"n1","who":"user ada","from":"192.0.2.7","method":"POST","path":"/api/v1/volumes","status":201}"#;
        let read: AuditEntry = serde_json::from_str(before).unwrap();
        assert_eq!(read.path, "/api/v1/volumes");
        assert_eq!((&read.about, &read.trace_id), (&None, &None));
        assert_eq!(serde_json::to_string(&read).unwrap(), before);
        let now = AuditEntry {
            about: Some("volume db".to_owned()),
            trace_id: Some("0af7651916cd43dd8448eb211c80319c".to_owned()),
            ..read
        };
        let text = serde_json::to_string(&now).unwrap();
        assert_eq!(serde_json::from_str::<AuditEntry>(&text).unwrap(), now);
        let read: Before = serde_json::from_str(&text).unwrap();
        assert_eq!((&*read.path, read.status), ("/api/v1/volumes", 201));
    }

    #[test]
    fn secrets_are_not_printed() {
        let request = SessionCreate {
            name: "ada".to_owned(),
            password: Secret("correct horse battery".to_owned()),
        };
        assert!(!format!("{request:?}").contains("correct"));
    }
}
