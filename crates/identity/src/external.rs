//! Sessions of those who have logged in at a provider of identities: one document of the metadata, beside that of users'.
//!
//! Invariants:
//! - nobody in it is one of the users: what is shown of a name begins with `oidc:`, which no user's name can;
//! - somebody is who the provider says for good, by issuer and subject: a name is what people read, and no more;
//! - a session ends [`SESSION_LIFETIME`] after its login; what its holder may, and is called, is what the provider said at the last
//!   login of that one, wherever that was;
//! - there are so many of one, and in all; another one ends the oldest.
//!
//! It is a document of its own so that a version that does not know it lets nobody in by it, and reads what it knows.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use holdfast_model::record::Record;
use serde::{Deserialize, Serialize};

use crate::{
    AccountsRecord, Caller, Drawn, Proof, Role, SESSION_LIFETIME, SESSIONS_PER_USER_MAX, Scope, Who,
};

/// Where it is.
pub const EXTERNAL_KEY: &str = "/holdfast/security/external";
/// Sessions at a time.
pub const EXTERNAL_SESSIONS_MAX: usize = 200;
/// What a name begins with where it is shown.
const PREFIX: &str = "oidc:";
/// Letters of a name at most.
const NAME_LENGTH_MAX: usize = 64;
/// Bytes of a subject, of an issuer at most.
const TEXT_LENGTH_MAX: usize = 255;

/// Somebody whom a provider of identities knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalUser {
    issuer: String,
    subject: String,
    name: String,
}

impl ExternalUser {
    /// Somebody, by who says so, what that one is called for good, and by people. Of the name, which may be anything, what does
    /// not belong into a line of text is `_`, and what is too long is cut. None if issuer or subject are empty, longer than 255
    /// bytes, or have other letters than ASCII.
    #[must_use]
    pub fn new(issuer: &str, subject: &str, name: &str) -> Option<Self> {
        let is_plain = |text: &str| {
            let plain = |byte: u8| byte.is_ascii() && !byte.is_ascii_control();
            (1..=TEXT_LENGTH_MAX).contains(&text.len()) && text.bytes().all(plain)
        };
        if !is_plain(issuer) || !is_plain(subject) {
            return None;
        }
        let shown = |letter: char| {
            if letter.is_alphanumeric() || "._-@+".contains(letter) {
                letter
            } else {
                '_'
            }
        };
        let name = name.trim();
        let name = if name.is_empty() { subject } else { name };
        Some(Self {
            issuer: issuer.to_owned(),
            subject: subject.to_owned(),
            name: name.chars().take(NAME_LENGTH_MAX).map(shown).collect(),
        })
    }

    /// Who says so.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// What that one is called there for good.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.subject
    }

    fn is(&self, other: &Self) -> bool {
        (&self.issuer, &self.subject) == (&other.issuer, &other.subject)
    }
}

impl fmt::Display for ExternalUser {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{PREFIX}{}", self.name)
    }
}

/// Sessions, at [`EXTERNAL_KEY`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// From the oldest.
    pub sessions: Vec<ExternalSession>,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalSession {
    /// What names it.
    pub id: String,
    /// What is kept of the secret.
    pub proof: Proof,
    /// Whose it is.
    pub user: ExternalUser,
    /// What that one may.
    pub role: Role,
    /// When it began: milliseconds since 1970 (UTC).
    pub began_ms: u64,
    /// When it ends: milliseconds since 1970 (UTC).
    pub expires_ms: u64,
}

impl Record for ExternalRecord {
    fn schema(&self) -> u32 {
        self.schema
    }
}

impl Default for ExternalRecord {
    fn default() -> Self {
        Self {
            schema: 1,
            sessions: Vec::new(),
        }
    }
}

impl ExternalRecord {
    /// Begins one, and lets go of those that have ended. What the provider says now is so of all sessions of that one.
    pub fn begin(
        &mut self,
        drawn: &Drawn,
        user: ExternalUser,
        role: Role,
        now_ms: u64,
    ) -> &ExternalSession {
        self.sessions.retain(|session| now_ms < session.expires_ms);
        let earlier = self.sessions.iter_mut().filter(|it| it.user.is(&user));
        for session in earlier {
            session.role = role;
            session.user.name.clone_from(&user.name);
        }
        let of_user = |session: &ExternalSession| session.user.is(&user);
        while self.sessions.iter().filter(|it| of_user(it)).count() >= SESSIONS_PER_USER_MAX {
            let oldest = self.sessions.iter().position(of_user);
            self.sessions.remove(oldest.expect("there are some"));
        }
        if self.sessions.len() >= EXTERNAL_SESSIONS_MAX {
            self.sessions.remove(0);
        }
        self.sessions.push(ExternalSession {
            id: drawn.id.clone(),
            proof: drawn.proof.clone(),
            user,
            role,
            began_ms: now_ms,
            expires_ms: now_ms.saturating_add(SESSION_LIFETIME.as_millis() as u64),
        });
        self.sessions.last().expect("one was added")
    }

    /// Who shows that session; none if nobody should.
    #[must_use]
    pub fn caller_of(&self, (id, secret): (&str, &str), now_ms: u64) -> Option<Caller> {
        let session = self.sessions.iter().find(|session| session.id == id)?;
        let holds = session.proof.is_of(secret) && now_ms < session.expires_ms;
        holds.then(|| session.caller())
    }

    /// Ends one; whether there was one.
    pub fn end(&mut self, id: &str) -> bool {
        let before = self.sessions.len();
        self.sessions.retain(|session| session.id != id);
        self.sessions.len() < before
    }

    /// Ends all of somebody who has no role any more; whether there were some.
    pub fn end_of(&mut self, user: &ExternalUser) -> bool {
        let before = self.sessions.len();
        self.sessions.retain(|session| !session.user.is(user));
        self.sessions.len() < before
    }

    /// Everybody who is shown so and has a session.
    #[must_use]
    pub fn shown_so(&self, shown: &str) -> Vec<ExternalUser> {
        let called = self.called(shown);
        called.map(|session| session.user.clone()).collect()
    }

    /// Whether somebody who is shown so has one.
    #[must_use]
    pub fn has(&self, shown: &str) -> bool {
        self.called(shown).next().is_some()
    }

    fn called(&self, shown: &str) -> impl Iterator<Item = &ExternalSession> {
        let name = shown.strip_prefix(PREFIX);
        let sessions = self.sessions.iter();
        sessions.filter(move |session| Some(&*session.user.name) == name)
    }

    /// Those that hold.
    pub fn live(&self, now_ms: u64) -> impl Iterator<Item = &ExternalSession> {
        let sessions = self.sessions.iter();
        sessions.filter(move |session| now_ms < session.expires_ms)
    }
}

impl AccountsRecord {
    /// Removes the tokens that were made by everybody who was shown so, and those that these users made, whatever they were called
    /// then; whether there were some.
    pub fn revoke_tokens_of(&mut self, shown: &str, users: &[ExternalUser]) -> bool {
        let before = self.tokens.len();
        if shown.starts_with(PREFIX) {
            // No name has a space or a bracket.
            let maker = format!("user {shown} (");
            let any = format!("user {PREFIX}");
            let is_of_them = |by: &str| {
                let mut subjects = users.iter().map(|user| format!(" ({})", user.subject));
                by.starts_with(&any) && subjects.any(|subject| by.ends_with(&subject))
            };
            self.tokens.retain(|token| {
                !token.created_by.starts_with(&maker) && !is_of_them(&token.created_by)
            });
        }
        self.tokens.len() < before
    }
}

impl ExternalSession {
    /// Whoever shows it.
    #[must_use]
    pub fn caller(&self) -> Caller {
        Caller {
            who: Who::External(self.user.clone(), self.id.clone()),
            role: self.role,
            scope: Scope::Everything,
            expires_ms: Some(self.expires_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use holdfast_stdx::Duration;

    use super::*;
    use crate::{ProofKind, SessionsRecord, TOKEN_LIFETIME_MAX_EXTERNAL, UserName};

    fn user(subject: &str, name: &str) -> ExternalUser {
        ExternalUser::new("https://id.example", subject, name).unwrap()
    }

    fn drawn(number: u16) -> Drawn {
        let mut random = [0; 40];
        random[..2].copy_from_slice(&number.to_be_bytes());
        random[38..].copy_from_slice(&number.to_be_bytes());
        Drawn::new(ProofKind::Session, random)
    }

    fn shown(drawn: &Drawn) -> (&str, &str) {
        Proof::taken_apart(ProofKind::Session, &drawn.text).unwrap()
    }

    #[test]
    fn a_name_is_what_can_stand_in_a_line_and_never_a_users() {
        let ada = user("7", "ada");
        assert_eq!(ada.to_string(), "oidc:ada");
        assert!(ada.to_string().parse::<UserName>().is_err());
        let odd = user("7", " Zoë <b>\u{202e}\nx ");
        assert_eq!(odd.to_string(), "oidc:Zoë__b___x");
        assert_eq!(user("7", " ").to_string(), "oidc:7");
        let long = user("7", &"x".repeat(100)).to_string();
        assert_eq!(long.len(), PREFIX.len() + NAME_LENGTH_MAX);
        for (issuer, subject) in [("", "7"), ("i", ""), ("i", "a\nb"), ("i", "ä")] {
            assert_eq!(ExternalUser::new(issuer, subject, "x"), None);
        }
        assert_eq!(ExternalUser::new("i", &"x".repeat(256), "x"), None);
    }

    #[test]
    fn a_session_ends_with_its_time_and_by_its_name() {
        let mut record = ExternalRecord::default();
        let (one, other) = (drawn(1), drawn(2));
        record.begin(&one, user("7", "ada"), Role::Operator, 20);
        record.begin(&other, user("8", "bob"), Role::Viewer, 20);
        let ends = 20 + SESSION_LIFETIME.as_millis() as u64;
        let caller = record.caller_of(shown(&one), ends - 1).unwrap();
        assert_eq!(caller.who.to_string(), "user oidc:ada (7)");
        assert_eq!(
            (caller.role, caller.expires_ms),
            (Role::Operator, Some(ends))
        );
        assert_eq!(record.caller_of(shown(&one), ends), None);
        let mixed = (shown(&one).0, shown(&other).1);
        assert_eq!(record.caller_of(mixed, 21), None);
        // It is no session of a user's, whatever that one is called.
        let (sessions, accounts) = (SessionsRecord::default(), AccountsRecord::default());
        assert_eq!(sessions.caller_of(&accounts, shown(&one), 21), None);
        assert_eq!(record.shown_so("ada"), [], "that would be a user's name");
        assert_eq!(record.shown_so("oidc:ada"), [user("7", "ada")]);
        assert!(record.end_of(&user("7", "whatever")));
        assert!(!record.end_of(&user("7", "ada")));
        assert_eq!(record.caller_of(shown(&one), 21), None);
        assert!(record.end(&other.id));
        assert!(!record.end(&other.id));
    }

    #[test]
    fn what_the_provider_says_last_is_so_of_all_sessions() {
        let mut record = ExternalRecord::default();
        let (one, other) = (drawn(1), drawn(2));
        record.begin(&one, user("7", "ada"), Role::Administrator, 20);
        record.begin(&other, user("8", "bob"), Role::Operator, 20);
        record.begin(&drawn(3), user("7", "eve"), Role::Viewer, 30);
        let first = record.caller_of(shown(&one), 31).unwrap();
        assert_eq!(
            (first.role, &*first.who.to_string()),
            (Role::Viewer, "user oidc:eve (7)")
        );
        assert_eq!(
            record.caller_of(shown(&other), 31).unwrap().role,
            Role::Operator
        );
        assert_eq!(record.shown_so("oidc:eve").len(), 2);
    }

    #[test]
    fn tokens_hold_for_three_months_and_go_with_who_made_them() {
        let mut accounts = AccountsRecord::default();
        let maker = |name: &str| Caller {
            who: Who::External(user("7", name), "s".into()),
            ..Caller::node(0)
        };
        let mut make = |number: u8, maker: &Caller, lifetime| {
            let drawn = Drawn::new(ProofKind::Token, [number; 40]);
            let wanted = ("x".parse().unwrap(), Role::Viewer, Scope::Metrics, lifetime);
            accounts.add_token(&drawn, wanted, maker, 10).map(|_| ())
        };
        let longer = TOKEN_LIFETIME_MAX_EXTERNAL + Duration::from_secs(1);
        let refused = make(1, &maker("ada"), longer);
        assert_eq!(refused, Err(crate::AccountError::LifetimeExternal));
        make(1, &maker("ada"), TOKEN_LIFETIME_MAX_EXTERNAL).unwrap();
        make(2, &maker("adam"), TOKEN_LIFETIME_MAX_EXTERNAL).unwrap();
        make(3, &Caller::node(1), longer).unwrap();
        assert!(!accounts.revoke_tokens_of("node 1", &[]));
        assert!(!accounts.revoke_tokens_of("ada", &[]));
        assert!(accounts.revoke_tokens_of("oidc:ada", &[]));
        assert!(!accounts.revoke_tokens_of("oidc:ada", &[user("8", "ada")]));
        assert_eq!(accounts.tokens.len(), 2);
        // Who has another name now made that one all the same.
        assert!(accounts.revoke_tokens_of("oidc:eve", &[user("7", "eve")]));
        assert_eq!(accounts.tokens.len(), 1);
    }

    #[test]
    fn who_is_called_the_same_is_not_the_same() {
        let mut record = ExternalRecord::default();
        for number in 0..20 {
            let subject = format!("{}", number % 2);
            record.begin(&drawn(number), user(&subject, "ada"), Role::Viewer, 20);
        }
        assert_eq!(record.sessions.len(), 20, "ten of each");
        for number in 20..60 {
            record.begin(&drawn(number), user("1", "eve"), Role::Viewer, 20);
        }
        let of = |subject: &str| {
            let sessions = record.sessions.iter();
            sessions.filter(|it| it.user.subject == subject).count()
        };
        assert_eq!((of("0"), of("1")), (10, SESSIONS_PER_USER_MAX));
    }

    #[test]
    fn the_fullest_document_fits_into_the_metadata() {
        let mut record = ExternalRecord::default();
        for number in 0..EXTERNAL_SESSIONS_MAX as u16 + 50 {
            let user = ExternalUser::new(
                &"i".repeat(TEXT_LENGTH_MAX),
                &format!("{number:0>255}"),
                &"\u{20000}".repeat(NAME_LENGTH_MAX),
            );
            let ends = u64::MAX - SESSION_LIFETIME.as_millis() as u64 - 1;
            record.begin(&drawn(number), user.unwrap(), Role::Administrator, ends);
        }
        assert_eq!(record.sessions.len(), EXTERNAL_SESSIONS_MAX);
        let bytes = record.encode();
        let most = holdfast_model::metadata::VALUE_LENGTH_MAX;
        assert!(bytes.len() < most, "{}", bytes.len());
        assert_eq!(ExternalRecord::decode(&bytes).unwrap(), record);
        // What has ended makes room.
        record.begin(&drawn(9), user("7", "ada"), Role::Viewer, u64::MAX);
        assert_eq!(record.sessions.len(), 1);
    }
}
