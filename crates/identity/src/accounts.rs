//! Users and tokens: one document of the metadata, and what may become of it.
//!
//! Invariants:
//! - a user, a token is there once;
//! - a token does no more than who made it could, and ends;
//! - an enabled administrator is left, if there was one.

use alloc::string::String;
use alloc::vec::Vec;

use holdfast_model::record::Record;
use holdfast_stdx::Duration;
use serde::{Deserialize, Serialize};

use crate::{Caller, Drawn, Label, PasswordError, PasswordHash, Proof, Role, Scope, UserName, Who};

/// Where it is.
pub const ACCOUNTS_KEY: &str = "/holdfast/security/accounts";
/// Users at most.
pub const USERS_MAX: usize = 200;
/// Tokens at most.
pub const TOKENS_MAX: usize = 200;
/// How long a token holds at least: what is used at once.
pub const TOKEN_LIFETIME_MIN: Duration = Duration::from_secs(60);
/// How long at most: five years, as long as machines are kept.
pub const TOKEN_LIFETIME_MAX: Duration = Duration::from_secs(5 * 365 * 86_400);

/// Users and tokens, at [`ACCOUNTS_KEY`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountsRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// By name.
    pub users: Vec<UserRecord>,
    /// By id.
    pub tokens: Vec<TokenRecord>,
}

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserRecord {
    /// The name.
    pub name: UserName,
    /// What that one may.
    pub role: Role,
    /// What is kept of the password.
    pub password: PasswordHash,
    /// Whether nobody may log in as this user.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub disabled: bool,
    /// When the user was made: milliseconds since 1970 (UTC).
    pub created_ms: u64,
    /// When the password was last changed: milliseconds since 1970 (UTC).
    pub password_changed_ms: u64,
}

/// A token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRecord {
    /// What names it.
    pub id: String,
    /// What people call it.
    pub label: Label,
    /// What is kept of the secret.
    pub proof: Proof,
    /// What its holder may.
    pub role: Role,
    /// And where.
    pub scope: Scope,
    /// Who made it.
    pub created_by: String,
    /// When: milliseconds since 1970 (UTC).
    pub created_ms: u64,
    /// Until when it holds: milliseconds since 1970 (UTC).
    pub expires_ms: u64,
}

/// What becomes of a user; what is none stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserChange {
    /// What that one may from now on.
    pub role: Option<Role>,
    /// Whether nobody may log in as this user.
    pub disabled: Option<bool>,
    /// What is kept of the new password.
    pub password: Option<PasswordHash>,
}

/// Why something cannot be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// There is a user of that name.
    #[error("there is a user of that name")]
    UserExists,
    /// There is none.
    #[error("there is no user of that name")]
    NoSuchUser,
    /// There is no token of that id.
    #[error("there is no token of that id")]
    NoSuchToken,
    /// Nobody could change who may do what any more, but who has a node's key.
    #[error("this is the last administrator who can log in")]
    LastAdministrator,
    /// There are as many as there can be.
    #[error("there are as many of these as there can be (200)")]
    Full,
    /// Nobody gives what he does not have.
    #[error("a token cannot do more than who makes it")]
    MoreThanMaker,
    /// It is too short, or too long.
    #[error("a token holds for a minute at least, and for five years at most")]
    Lifetime,
    /// The password is none.
    #[error(transparent)]
    Password(#[from] PasswordError),
}

impl Record for AccountsRecord {
    fn schema(&self) -> u32 {
        self.schema
    }
}

impl Default for AccountsRecord {
    fn default() -> Self {
        Self {
            schema: 1,
            users: Vec::new(),
            tokens: Vec::new(),
        }
    }
}

impl AccountsRecord {
    /// A user, by name.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<&UserRecord> {
        self.users.iter().find(|user| user.name.as_str() == name)
    }

    /// A token, by id.
    #[must_use]
    pub fn token(&self, id: &str) -> Option<&TokenRecord> {
        self.tokens.iter().find(|token| token.id == id)
    }

    /// Who shows that token; none if nobody should.
    #[must_use]
    pub fn caller_of(&self, id: &str, secret: &str, now_ms: u64) -> Option<Caller> {
        let token = self.token(id)?;
        let holds = token.proof.is_of(secret) && now_ms < token.expires_ms;
        holds.then(|| Caller {
            who: Who::Token(token.id.clone(), token.label.clone()),
            role: token.role,
            scope: token.scope,
            expires_ms: Some(token.expires_ms),
        })
    }

    /// Adds a user.
    ///
    /// # Errors
    /// [`AccountError::UserExists`], [`AccountError::Full`].
    pub fn add_user(&mut self, user: UserRecord) -> Result<(), AccountError> {
        match self.users.binary_search_by(|it| it.name.cmp(&user.name)) {
            Ok(_) => Err(AccountError::UserExists),
            Err(_) if self.users.len() >= USERS_MAX => Err(AccountError::Full),
            Err(place) => {
                self.users.insert(place, user);
                Ok(())
            }
        }
    }

    /// Changes a user.
    ///
    /// # Errors
    /// [`AccountError::NoSuchUser`], [`AccountError::LastAdministrator`].
    pub fn change_user(
        &mut self,
        name: &str,
        change: UserChange,
        now_ms: u64,
    ) -> Result<(), AccountError> {
        let is_last = self.is_last_administrator(name);
        let users = &mut self.users;
        let user = users.iter_mut().find(|user| user.name.as_str() == name);
        let user = user.ok_or(AccountError::NoSuchUser)?;
        let role = change.role.unwrap_or(user.role);
        let disabled = change.disabled.unwrap_or(user.disabled);
        if is_last && (disabled || role < Role::Administrator) {
            return Err(AccountError::LastAdministrator);
        }
        (user.role, user.disabled) = (role, disabled);
        if let Some(password) = change.password {
            user.password = password;
            user.password_changed_ms = now_ms;
        }
        Ok(())
    }

    /// Removes a user. Tokens that this one made hold on: they are others' programs.
    ///
    /// # Errors
    /// [`AccountError::NoSuchUser`], [`AccountError::LastAdministrator`].
    pub fn remove_user(&mut self, name: &str) -> Result<(), AccountError> {
        let place = self.users.iter().position(|it| it.name.as_str() == name);
        let place = place.ok_or(AccountError::NoSuchUser)?;
        if self.is_last_administrator(name) {
            return Err(AccountError::LastAdministrator);
        }
        self.users.remove(place);
        Ok(())
    }

    /// Adds a token that `maker` wants; those that have expired go.
    ///
    /// # Errors
    /// [`AccountError::MoreThanMaker`], [`AccountError::Lifetime`], [`AccountError::Full`].
    pub fn add_token(
        &mut self,
        drawn: &Drawn,
        wanted: (Label, Role, Scope, Duration),
        maker: &Caller,
        now_ms: u64,
    ) -> Result<&TokenRecord, AccountError> {
        let (label, role, scope, lifetime) = wanted;
        if role > maker.role || (maker.scope != Scope::Everything && scope != maker.scope) {
            return Err(AccountError::MoreThanMaker);
        }
        if !(TOKEN_LIFETIME_MIN..=TOKEN_LIFETIME_MAX).contains(&lifetime) {
            return Err(AccountError::Lifetime);
        }
        self.tokens.retain(|token| now_ms < token.expires_ms);
        if self.tokens.len() >= TOKENS_MAX {
            return Err(AccountError::Full);
        }
        let record = TokenRecord {
            id: drawn.id.clone(),
            label,
            proof: drawn.proof.clone(),
            role,
            scope,
            created_by: alloc::format!("{}", maker.who),
            created_ms: now_ms,
            expires_ms: now_ms.saturating_add(lifetime.as_millis() as u64),
        };
        let place = self.tokens.partition_point(|token| token.id < record.id);
        self.tokens.insert(place, record);
        Ok(&self.tokens[place])
    }

    /// Removes a token.
    ///
    /// # Errors
    /// [`AccountError::NoSuchToken`].
    pub fn revoke_token(&mut self, id: &str) -> Result<(), AccountError> {
        let place = self.tokens.iter().position(|token| token.id == id);
        let place = place.ok_or(AccountError::NoSuchToken)?;
        self.tokens.remove(place);
        Ok(())
    }

    fn is_last_administrator(&self, name: &str) -> bool {
        let administers = |user: &&UserRecord| !user.disabled && user.role == Role::Administrator;
        let mut administrators = self.users.iter().filter(administers);
        let first = administrators.next();
        first.is_some_and(|user| user.name.as_str() == name) && administrators.next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::ProofKind;

    fn user(name: &str, role: Role) -> UserRecord {
        UserRecord {
            name: name.parse().unwrap(),
            role,
            password: PasswordHash::of(name, "correct horse battery", [0; 16]).unwrap(),
            disabled: false,
            created_ms: 1,
            password_changed_ms: 1,
        }
    }

    fn drawn(number: u8) -> Drawn {
        Drawn::new(ProofKind::Token, [number; 40])
    }

    fn wanted(role: Role, scope: Scope) -> (Label, Role, Scope, Duration) {
        (
            "script".parse().unwrap(),
            role,
            scope,
            Duration::from_secs(3600),
        )
    }

    #[test]
    fn an_administrator_is_left() {
        let mut accounts = AccountsRecord::default();
        accounts.add_user(user("ada", Role::Administrator)).unwrap();
        accounts.add_user(user("bob", Role::Operator)).unwrap();
        assert_eq!(
            accounts.add_user(user("bob", Role::Viewer)),
            Err(AccountError::UserExists)
        );
        let role = |role| UserChange {
            role: Some(role),
            ..UserChange::default()
        };
        let disabled = |disabled| UserChange {
            disabled: Some(disabled),
            ..UserChange::default()
        };
        let last = Err(AccountError::LastAdministrator);
        assert_eq!(accounts.change_user("ada", role(Role::Operator), 2), last);
        assert_eq!(accounts.change_user("ada", disabled(true), 2), last);
        assert_eq!(accounts.remove_user("ada"), last);
        accounts
            .change_user("bob", role(Role::Administrator), 2)
            .unwrap();
        accounts.change_user("ada", disabled(true), 2).unwrap();
        // A disabled one counts for none.
        assert_eq!(accounts.remove_user("bob"), last);
        accounts.remove_user("ada").unwrap();
        assert_eq!(accounts.remove_user("ada"), Err(AccountError::NoSuchUser));
    }

    #[test]
    fn a_new_password_tells_when() {
        let mut accounts = AccountsRecord::default();
        accounts.add_user(user("ada", Role::Viewer)).unwrap();
        let before = accounts.users[0].password.clone();
        let change = UserChange {
            password: Some(PasswordHash::of("ada", "another long one", [1; 16]).unwrap()),
            ..UserChange::default()
        };
        accounts.change_user("ada", change, 9).unwrap();
        assert_eq!(accounts.users[0].password_changed_ms, 9);
        assert_ne!(accounts.users[0].password, before);
        assert_eq!(accounts.users[0].role, Role::Viewer);
    }

    #[test]
    fn a_token_is_known_until_it_expires_and_by_its_secret() {
        let mut accounts = AccountsRecord::default();
        let made = drawn(7);
        let maker = Caller::node(1);
        accounts
            .add_token(&made, wanted(Role::Operator, Scope::Volumes), &maker, 1000)
            .unwrap();
        let (id, secret) = Proof::taken_apart(ProofKind::Token, &made.text).unwrap();
        let caller = accounts.caller_of(id, secret, 1001).unwrap();
        assert_eq!(
            (caller.role, caller.scope),
            (Role::Operator, Scope::Volumes)
        );
        assert_eq!(caller.expires_ms, Some(3_601_000));
        assert_eq!(accounts.caller_of(id, secret, 3_601_000), None);
        assert_eq!(
            accounts.caller_of(id, &secret.replace('0', "1"), 1001),
            None
        );
        assert_eq!(accounts.tokens[0].created_by, "node 1");
        accounts.revoke_token(id).unwrap();
        assert_eq!(accounts.caller_of(id, secret, 1001), None);
        assert_eq!(accounts.revoke_token(id), Err(AccountError::NoSuchToken));
    }

    #[test]
    fn nobody_gives_what_he_does_not_have() {
        let mut accounts = AccountsRecord::default();
        let maker = Caller {
            role: Role::Operator,
            ..Caller::node(1)
        };
        let more = accounts.add_token(
            &drawn(1),
            wanted(Role::Administrator, Scope::Volumes),
            &maker,
            0,
        );
        assert_eq!(more, Err(AccountError::MoreThanMaker));
        let maker = Caller {
            scope: Scope::Volumes,
            ..Caller::node(1)
        };
        for scope in [Scope::Everything, Scope::Metrics] {
            let more = accounts.add_token(&drawn(1), wanted(Role::Viewer, scope), &maker, 0);
            assert_eq!(more, Err(AccountError::MoreThanMaker));
        }
        for lifetime in [
            Duration::from_secs(59),
            TOKEN_LIFETIME_MAX + Duration::from_secs(1),
        ] {
            let (label, role, scope, _) = wanted(Role::Viewer, Scope::Volumes);
            let wanted = (label, role, scope, lifetime);
            let odd = accounts.add_token(&drawn(1), wanted, &maker, 0);
            assert_eq!(odd, Err(AccountError::Lifetime));
        }
    }

    #[test]
    fn the_fullest_document_fits_into_the_metadata() {
        let mut accounts = AccountsRecord::default();
        let one = user("x", Role::Administrator);
        for number in 0..USERS_MAX {
            let name = alloc::format!("{number:0>64}");
            let more = UserRecord {
                name: name.parse().unwrap(),
                created_ms: u64::MAX,
                password_changed_ms: u64::MAX,
                disabled: true,
                ..one.clone()
            };
            accounts.add_user(more).unwrap();
        }
        assert_eq!(accounts.add_user(one), Err(AccountError::Full));
        let maker = Caller {
            who: Who::Token("0".repeat(16), "ä".repeat(64).parse().unwrap()),
            ..Caller::node(1)
        };
        for number in 0..TOKENS_MAX {
            let mut random = [0; 40];
            random[0] = number as u8;
            let drawn = Drawn::new(ProofKind::Token, random);
            let wanted = (
                "ä".repeat(64).parse().unwrap(),
                Role::Administrator,
                Scope::Everything,
                TOKEN_LIFETIME_MAX,
            );
            accounts.add_token(&drawn, wanted, &maker, 1 << 60).unwrap();
        }
        let mut random = [1; 40];
        random[1] = 9;
        let one_more = Drawn::new(ProofKind::Token, random);
        let full = accounts.add_token(
            &one_more,
            wanted(Role::Viewer, Scope::Metrics),
            &maker,
            1 << 60,
        );
        assert_eq!(full, Err(AccountError::Full));
        let bytes = accounts.encode();
        assert!(
            bytes.len() < holdfast_model::metadata::VALUE_LENGTH_MAX * 3 / 4,
            "{}",
            bytes.len()
        );
        assert_eq!(AccountsRecord::decode(&bytes).unwrap(), accounts);
        // Those that have expired make room.
        accounts
            .add_token(
                &one_more,
                wanted(Role::Viewer, Scope::Metrics),
                &maker,
                u64::MAX / 2,
            )
            .unwrap();
        assert_eq!(accounts.tokens.len(), 1);
    }

    #[test]
    fn accounts_are_written_as_they_always_were() {
        let literal = r#"{"schema":1,"users":[{"name":"ada","role":"administrator","password":"$argon2id$x","created_ms":1,"password_changed_ms":2}],"tokens":[{"id":"00","label":"l","proof":"ab","role":"viewer","scope":"metrics","created_by":"user ada","created_ms":3,"expires_ms":4}]}"#;
        let read = AccountsRecord::decode(literal.as_bytes()).unwrap();
        assert_eq!(
            core::str::from_utf8(&read.encode()).unwrap().to_string(),
            literal
        );
    }
}
