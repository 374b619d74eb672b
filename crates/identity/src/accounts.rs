//! Users and tokens: one document of the metadata, and what may become of it.
//!
//! Invariants:
//! - a user, a token is there once;
//! - a token does no more than who made it may now, and ends: with its time, and with who made it;
//! - an enabled administrator is left, if there was one.

use alloc::string::String;
use alloc::vec::Vec;

use holdfast_model::metadata::VALUE_LENGTH_MAX;
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
/// Bytes of all tokens on record at most. With as many users as there can be they fit into a value of the metadata, whatever those
/// are called at their provider who make them.
const TOKENS_BYTES_MAX: usize = VALUE_LENGTH_MAX / 16 * 11;
/// How long a token holds at least: what is used at once.
pub const TOKEN_LIFETIME_MIN: Duration = Duration::from_secs(60);
/// How long at most: five years, as long as machines are kept.
pub const TOKEN_LIFETIME_MAX: Duration = Duration::from_secs(5 * 365 * 86_400);

/// How long at most where who makes it has logged in at a provider: 90 days. Who is not there any more, or no longer what he
/// was, is not told here, and makes no new one.
pub const TOKEN_LIFETIME_MAX_EXTERNAL: Duration = Duration::from_secs(90 * 86_400);

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
    #[error("there are as many of these as there can be (200), or as there is room for")]
    Full,
    /// Nobody gives what he does not have.
    #[error("a token cannot do more than who makes it")]
    MoreThanMaker,
    /// It is too short, or too long.
    #[error("a token holds for a minute at least, and for five years at most")]
    Lifetime,
    /// It is too long for who has logged in at a provider.
    #[error("a token of who has logged in at a provider of identities holds for 90 days at most")]
    LifetimeExternal,
    /// The key is another wish's.
    #[error("another request bore this key")]
    KeyReused,
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
        if !token.proof.is_of(secret) {
            return None;
        }
        Some(Caller {
            who: Who::Token(token.id.clone(), token.label.clone()),
            role: self.role_of(token, now_ms)?,
            scope: token.scope,
            expires_ms: Some(token.expires_ms),
        })
    }

    /// What a token's holder may now: no more than who made it may, and who made that one's token, and so on. None if it has
    /// ended, or one of these has, or is disabled.
    #[must_use]
    pub fn role_of(&self, token: &TokenRecord, now_ms: u64) -> Option<Role> {
        let user = |name: &str| {
            let user = self.user(name).filter(|user| !user.disabled)?;
            Some((user.role, user.created_ms))
        };
        Made::role(
            token.made(),
            now_ms,
            |id| self.token(id).map(TokenRecord::made),
            user,
        )
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

    /// Removes a user, and the tokens that this one made.
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
        self.remove_tokens_of(&Maker::User(name));
        Ok(())
    }

    /// Removes what that one made, and what was made by it in turn.
    fn remove_tokens_of(&mut self, maker: &Maker<'_>) {
        let made = |token: &TokenRecord| Maker::of(&token.created_by) == *maker;
        while let Some(place) = self.tokens.iter().position(made) {
            let token = self.tokens.remove(place);
            self.remove_tokens_of(&Maker::Token(&token.id));
        }
    }

    /// Adds a token that `maker` wants; those that have expired go. One that a token makes ends with that one.
    ///
    /// # Errors
    /// [`AccountError::MoreThanMaker`], [`AccountError::Lifetime`], [`AccountError::LifetimeExternal`], [`AccountError::Full`].
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
        if matches!(maker.who, Who::External(..)) && lifetime > TOKEN_LIFETIME_MAX_EXTERNAL {
            return Err(AccountError::LifetimeExternal);
        }
        self.tokens.retain(|token| now_ms < token.expires_ms);
        if self.tokens.len() >= TOKENS_MAX {
            return Err(AccountError::Full);
        }
        let expires_ms = now_ms.saturating_add(lifetime.as_millis() as u64);
        let (created_ms, expires_ms) = match &maker.who {
            // Another node's clock, by which the user was made, may be ahead.
            Who::User(name, _) => {
                let user = self.user(name.as_str()).ok_or(AccountError::NoSuchUser)?;
                (now_ms.max(user.created_ms), expires_ms)
            }
            Who::Token(id, _) => {
                let token = self.token(id).ok_or(AccountError::NoSuchToken)?;
                (now_ms, expires_ms.min(token.expires_ms))
            }
            _ => (now_ms, expires_ms),
        };
        let record = TokenRecord {
            id: drawn.id.clone(),
            label,
            proof: drawn.proof.clone(),
            role,
            scope,
            created_by: alloc::format!("{}", maker.who),
            created_ms,
            expires_ms,
        };
        let place = self.tokens.partition_point(|token| token.id < record.id);
        self.tokens.insert(place, record);
        let alone = Self {
            tokens: self.tokens.clone(),
            ..Self::default()
        };
        if alone.encode().len() > TOKENS_BYTES_MAX {
            self.tokens.remove(place);
            return Err(AccountError::Full);
        }
        Ok(&self.tokens[place])
    }

    /// Removes a token, and those that were made by it.
    ///
    /// # Errors
    /// [`AccountError::NoSuchToken`].
    pub fn revoke_token(&mut self, id: &str) -> Result<(), AccountError> {
        let place = self.tokens.iter().position(|token| token.id == id);
        let place = place.ok_or(AccountError::NoSuchToken)?;
        self.tokens.remove(place);
        self.remove_tokens_of(&Maker::Token(id));
        Ok(())
    }

    fn is_last_administrator(&self, name: &str) -> bool {
        let administers = |user: &&UserRecord| !user.disabled && user.role == Role::Administrator;
        let mut administrators = self.users.iter().filter(administers);
        let first = administrators.next();
        first.is_some_and(|user| user.name.as_str() == name) && administrators.next().is_none()
    }
}

impl TokenRecord {
    fn made(&self) -> Made<'_> {
        Made {
            role: self.role,
            created_by: &self.created_by,
            created_ms: self.created_ms,
            expires_ms: self.expires_ms,
        }
    }
}

/// What decides of a token what its holder may: what a listing tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made<'a> {
    /// What it was made for.
    pub role: Role,
    /// Who made it.
    pub created_by: &'a str,
    /// When: milliseconds since 1970 (UTC).
    pub created_ms: u64,
    /// Until when it holds: milliseconds since 1970 (UTC).
    pub expires_ms: u64,
}

impl<'a> Made<'a> {
    /// What its holder may now; none if nothing. `token` finds tokens by id, `user` what a user may who is not disabled, and since
    /// when there is that one.
    #[must_use]
    pub fn role(
        self,
        now_ms: u64,
        token: impl Fn(&str) -> Option<Self>,
        user: impl Fn(&str) -> Option<(Role, u64)>,
    ) -> Option<Role> {
        let mut made = self;
        let mut role = made.role;
        // A record in which tokens make each other in a circle lets nobody in.
        for _ in 0..TOKENS_MAX {
            role = role.min(made.role);
            if now_ms >= made.expires_ms {
                return None;
            }
            match Maker::of(made.created_by) {
                Maker::User(name) => {
                    let (of_user, created_ms) = user(name)?;
                    // Another one of the same name has not made it.
                    let is_maker = created_ms <= made.created_ms;
                    return is_maker.then_some(role.min(of_user));
                }
                Maker::Token(id) => made = token(id)?,
                Maker::Other => return Some(role),
            }
        }
        None
    }
}

/// Who has made a token, by what is on record of that: [`Who`], as it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Maker<'a> {
    /// A user of this cluster, by name.
    User(&'a str),
    /// A token, by its id.
    Token(&'a str),
    /// A node, whose key is root's on its machine; or somebody of whom nothing is on record here.
    Other,
}

impl<'a> Maker<'a> {
    fn of(created_by: &'a str) -> Self {
        if let Some(name) = created_by.strip_prefix("user ") {
            // Who has logged in elsewhere has no such name.
            return match name.parse::<UserName>() {
                Ok(_) => Self::User(name),
                Err(_) => Self::Other,
            };
        }
        let token = created_by.strip_prefix("token ");
        let token = token.and_then(|token| token.strip_suffix(')')?.rsplit_once('('));
        token.map_or(Self::Other, |(_, id)| Self::Token(id))
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::{ExternalUser, ProofKind};

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

    fn made_by(accounts: &mut AccountsRecord, number: u8, maker: &Caller) -> (String, String) {
        let drawn = drawn(number);
        let wanted = wanted(maker.role, Scope::Everything);
        accounts.add_token(&drawn, wanted, maker, 1000).unwrap();
        let (id, secret) = Proof::taken_apart(ProofKind::Token, &drawn.text).unwrap();
        (id.into(), secret.into())
    }

    #[test]
    fn a_token_does_what_its_maker_may_now() {
        let mut accounts = AccountsRecord::default();
        accounts.add_user(user("ada", Role::Administrator)).unwrap();
        accounts.add_user(user("bob", Role::Administrator)).unwrap();
        let bob = Caller {
            who: Who::User("bob".parse().unwrap(), "s".into()),
            ..Caller::node(0)
        };
        let (id, secret) = made_by(&mut accounts, 1, &bob);
        let program = accounts.caller_of(&id, &secret, 1001).unwrap();
        assert_eq!(program.role, Role::Administrator);
        // It makes one in turn.
        let (next, next_secret) = made_by(&mut accounts, 2, &program);
        let role = |accounts: &AccountsRecord| {
            let caller = accounts.caller_of(&next, &next_secret, 1001);
            caller.map(|caller| caller.role)
        };
        assert_eq!(role(&accounts), Some(Role::Administrator));
        let change = UserChange {
            role: Some(Role::Viewer),
            ..UserChange::default()
        };
        accounts.change_user("bob", change, 5).unwrap();
        assert_eq!(role(&accounts), Some(Role::Viewer));
        let change = |disabled| UserChange {
            disabled: Some(disabled),
            ..UserChange::default()
        };
        accounts.change_user("bob", change(true), 5).unwrap();
        assert_eq!(role(&accounts), None);
        accounts.change_user("bob", change(false), 5).unwrap();
        assert_eq!(role(&accounts), Some(Role::Viewer));
        let (others, others_secret) = made_by(&mut accounts, 3, &Caller::node(1));
        accounts.remove_user("bob").unwrap();
        assert_eq!(role(&accounts), None);
        assert_eq!(accounts.tokens.len(), 1, "{:?}", accounts.tokens);
        assert!(accounts.caller_of(&others, &others_secret, 1001).is_some());
    }

    #[test]
    fn another_user_of_the_same_name_has_not_made_the_token() {
        let mut accounts = AccountsRecord::default();
        accounts.add_user(user("bob", Role::Viewer)).unwrap();
        let bob = Caller {
            who: Who::User("bob".parse().unwrap(), "s".into()),
            role: Role::Viewer,
            ..Caller::node(0)
        };
        let (id, secret) = made_by(&mut accounts, 1, &bob);
        // A version that left tokens where they were removed one, and made the other.
        accounts.users[0].created_ms = 1001;
        assert_eq!(accounts.caller_of(&id, &secret, 1002), None);
        // One that is made while that clock is ahead is known.
        let (id, secret) = made_by(&mut accounts, 2, &bob);
        assert!(accounts.caller_of(&id, &secret, 1002).is_some());
        accounts.users.clear();
        let made = accounts.add_token(
            &drawn(3),
            wanted(Role::Viewer, Scope::Everything),
            &bob,
            1000,
        );
        assert_eq!(made, Err(AccountError::NoSuchUser));
    }

    #[test]
    fn what_a_token_has_made_ends_with_it() {
        let mut accounts = AccountsRecord::default();
        let (id, secret) = made_by(&mut accounts, 1, &Caller::node(1));
        let mut program = accounts.caller_of(&id, &secret, 1001).unwrap();
        // What it is called cannot be taken for what it is.
        program.who = Who::Token(id.clone(), "user (ada)".parse().unwrap());
        let (next, next_secret) = made_by(&mut accounts, 2, &program);
        let drawn = drawn(3);
        let (label, role, scope, _) = wanted(Role::Viewer, Scope::Everything);
        let longer = (label, role, scope, Duration::from_secs(100_000));
        let ends = accounts.add_token(&drawn, longer, &program, 1000).unwrap();
        assert_eq!(ends.expires_ms, 3_601_000);
        assert!(accounts.caller_of(&next, &next_secret, 1001).is_some());
        accounts.revoke_token(&id).unwrap();
        assert_eq!(accounts.tokens, []);
    }

    #[test]
    fn tokens_that_make_each_other_let_nobody_in() {
        let mut accounts = AccountsRecord::default();
        let (id, secret) = made_by(&mut accounts, 1, &Caller::node(1));
        accounts.tokens[0].created_by = alloc::format!("token x ({id})");
        assert_eq!(accounts.caller_of(&id, &secret, 1001), None);
        accounts.tokens[0].created_by = "user oidc:bob (0-1)".into();
        assert!(accounts.caller_of(&id, &secret, 1001).is_some());
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

    /// As many users as there may be, each as long as it may be.
    fn full_of_users() -> AccountsRecord {
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
        accounts
    }

    #[test]
    fn the_fullest_document_fits_into_the_metadata() {
        let mut accounts = full_of_users();
        let one = user("x", Role::Administrator);
        assert_eq!(accounts.add_user(one), Err(AccountError::Full));
        let maker = Caller::node(1);
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
        for token in &mut accounts.tokens {
            let longest = Who::Token("0".repeat(16), "ä".repeat(64).parse().unwrap());
            token.created_by = longest.to_string();
        }
        let bytes = accounts.encode();
        assert!(bytes.len() < VALUE_LENGTH_MAX * 3 / 4, "{}", bytes.len());
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

    /// Subjects and names are what a provider says.
    #[test]
    fn the_fullest_document_fits_also_where_makers_are_called_as_long_as_can_be() {
        let mut accounts = full_of_users();
        // What is written with two bytes each.
        let (subject, name) = ("\"".repeat(255), "\u{20000}".repeat(64));
        let external = ExternalUser::new("https://id.example", &subject, &name).unwrap();
        let maker = Caller {
            who: Who::External(external, "0".repeat(16)),
            ..Caller::node(1)
        };
        let mut made = 0;
        for number in 0..TOKENS_MAX {
            let mut random = [0; 40];
            random[0] = number as u8;
            let drawn = Drawn::new(ProofKind::Token, random);
            let wanted = (
                "\u{20000}".repeat(64).parse().unwrap(),
                Role::Administrator,
                Scope::Everything,
                TOKEN_LIFETIME_MAX_EXTERNAL,
            );
            match accounts.add_token(&drawn, wanted, &maker, 1 << 60) {
                Ok(_) => made += 1,
                Err(error) => assert_eq!(error, AccountError::Full),
            }
        }
        assert!(made > TOKENS_MAX / 2, "{made}");
        assert_eq!(accounts.tokens.len(), made, "what has no room is not kept");
        let bytes = accounts.encode();
        assert!(bytes.len() < VALUE_LENGTH_MAX, "{}", bytes.len());
        assert_eq!(AccountsRecord::decode(&bytes).unwrap(), accounts);
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
