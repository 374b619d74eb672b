//! Sessions of users who have logged in: one document of the metadata, so that a session holds at every node.
//!
//! Invariants:
//! - a session ends [`SESSION_LIFETIME`] after its login, with its user, and with its user's password;
//! - there are so many of a user, and in all; another one ends the oldest.

use alloc::string::String;
use alloc::vec::Vec;

use holdfast_model::record::Record;
use holdfast_stdx::Duration;
use serde::{Deserialize, Serialize};

use crate::{AccountsRecord, Caller, Drawn, Proof, Scope, UserName, Who};

/// Where it is.
pub const SESSIONS_KEY: &str = "/holdfast/security/sessions";
/// How long a login holds: a working day.
pub const SESSION_LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// Sessions of a user at a time.
pub const SESSIONS_PER_USER_MAX: usize = 16;
/// Sessions at a time.
pub const SESSIONS_MAX: usize = 512;

/// Sessions, at [`SESSIONS_KEY`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionsRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// From the oldest.
    pub sessions: Vec<SessionRecord>,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionRecord {
    /// What names it.
    pub id: String,
    /// What is kept of the secret.
    pub proof: Proof,
    /// Whose it is.
    pub user: UserName,
    /// When it began: milliseconds since 1970 (UTC).
    pub began_ms: u64,
    /// When it ends: milliseconds since 1970 (UTC).
    pub expires_ms: u64,
}

impl Record for SessionsRecord {
    fn schema(&self) -> u32 {
        self.schema
    }
}

impl Default for SessionsRecord {
    fn default() -> Self {
        Self {
            schema: 1,
            sessions: Vec::new(),
        }
    }
}

impl SessionsRecord {
    /// Begins one, and lets go of those that have ended.
    pub fn begin(&mut self, drawn: &Drawn, user: UserName, now_ms: u64) -> &SessionRecord {
        self.sessions.retain(|session| now_ms < session.expires_ms);
        let of_user = |session: &SessionRecord| session.user == user;
        while self.sessions.iter().filter(|it| of_user(it)).count() >= SESSIONS_PER_USER_MAX {
            let oldest = self.sessions.iter().position(of_user);
            self.sessions.remove(oldest.expect("there are some"));
        }
        if self.sessions.len() >= SESSIONS_MAX {
            self.sessions.remove(0);
        }
        self.sessions.push(SessionRecord {
            id: drawn.id.clone(),
            proof: drawn.proof.clone(),
            user,
            began_ms: now_ms,
            expires_ms: now_ms.saturating_add(SESSION_LIFETIME.as_millis() as u64),
        });
        self.sessions.last().expect("one was added")
    }

    /// Who shows that session; none if nobody should.
    #[must_use]
    pub fn caller_of(
        &self,
        accounts: &AccountsRecord,
        (id, secret): (&str, &str),
        now_ms: u64,
    ) -> Option<Caller> {
        let session = self.sessions.iter().find(|session| session.id == id)?;
        let user = accounts.user(session.user.as_str())?;
        let holds = session.proof.is_of(secret)
            && now_ms < session.expires_ms
            && !user.disabled
            && session.began_ms >= user.password_changed_ms
            && session.began_ms >= user.created_ms;
        holds.then(|| Caller {
            who: Who::User(user.name.clone(), session.id.clone()),
            role: user.role,
            scope: Scope::Everything,
            expires_ms: Some(session.expires_ms),
        })
    }

    /// Ends one; whether there was one.
    pub fn end(&mut self, id: &str) -> bool {
        let before = self.sessions.len();
        self.sessions.retain(|session| session.id != id);
        self.sessions.len() < before
    }

    /// One goes on after its user's password was changed by it. It ends when it would have.
    pub fn renew(&mut self, id: &str, now_ms: u64) {
        if let Some(session) = self.sessions.iter_mut().find(|session| session.id == id) {
            session.began_ms = now_ms;
        }
    }

    /// Ends those of a user, but the one that is named.
    pub fn end_of(&mut self, user: &str, but: Option<&str>) {
        let stays = |session: &SessionRecord| {
            session.user.as_str() != user || Some(session.id.as_str()) == but
        };
        self.sessions.retain(stays);
    }

    /// How many a user has.
    #[must_use]
    pub fn count_of(&self, user: &str, now_ms: u64) -> usize {
        let live =
            |session: &&SessionRecord| session.user.as_str() == user && now_ms < session.expires_ms;
        self.sessions.iter().filter(live).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PasswordHash, ProofKind, Role, UserChange, UserRecord};

    fn accounts() -> AccountsRecord {
        let mut accounts = AccountsRecord::default();
        for (name, role) in [("ada", Role::Administrator), ("bob", Role::Viewer)] {
            let user = UserRecord {
                name: name.parse().unwrap(),
                role,
                password: PasswordHash::of(name, "correct horse battery", [0; 16]).unwrap(),
                disabled: false,
                created_ms: 10,
                password_changed_ms: 10,
            };
            accounts.add_user(user).unwrap();
        }
        accounts
    }

    fn drawn(number: u16) -> Drawn {
        let mut random = [0; 40];
        random[..2].copy_from_slice(&number.to_be_bytes());
        Drawn::new(ProofKind::Session, random)
    }

    fn shown(drawn: &Drawn) -> (&str, &str) {
        Proof::taken_apart(ProofKind::Session, &drawn.text).unwrap()
    }

    #[test]
    fn a_session_ends_with_its_time_its_user_and_the_password() {
        let mut accounts = accounts();
        let mut sessions = SessionsRecord::default();
        let one = drawn(1);
        let ends = sessions.begin(&one, "bob".parse().unwrap(), 20).expires_ms;
        assert_eq!(ends, 20 + 12 * 3_600_000);
        let caller = sessions.caller_of(&accounts, shown(&one), 21).unwrap();
        assert_eq!(caller.role, Role::Viewer);
        assert_eq!(sessions.caller_of(&accounts, shown(&one), ends), None);
        assert_eq!(
            sessions.caller_of(&accounts, (shown(&one).0, shown(&drawn(2)).1), 21),
            Some(caller),
            "the secret of these is the same"
        );
        // The role is the user's present one.
        let change = UserChange {
            role: Some(Role::Operator),
            ..UserChange::default()
        };
        accounts.change_user("bob", change, 22).unwrap();
        let caller = sessions.caller_of(&accounts, shown(&one), 23).unwrap();
        assert_eq!(caller.role, Role::Operator);
        let change = UserChange {
            disabled: Some(true),
            ..UserChange::default()
        };
        accounts.change_user("bob", change, 24).unwrap();
        assert_eq!(sessions.caller_of(&accounts, shown(&one), 25), None);
        let password = Some(PasswordHash::of("bob", "another long one", [1; 16]).unwrap());
        let change = UserChange {
            disabled: Some(false),
            password,
            ..UserChange::default()
        };
        accounts.change_user("bob", change, 26).unwrap();
        assert_eq!(sessions.caller_of(&accounts, shown(&one), 27), None);
        sessions.renew(&one.id, 26);
        let caller = sessions.caller_of(&accounts, shown(&one), 27).unwrap();
        assert_eq!(caller.expires_ms, Some(ends), "renewed, and not longer");
        // Nor is it that of another user of the same name.
        accounts.remove_user("bob").unwrap();
        assert_eq!(sessions.caller_of(&accounts, shown(&one), 28), None);
    }

    #[test]
    fn a_wrong_secret_is_nobodys() {
        let mut sessions = SessionsRecord::default();
        let one = Drawn::new(ProofKind::Session, [3; 40]);
        sessions.begin(&one, "ada".parse().unwrap(), 20);
        assert_eq!(
            sessions.caller_of(&accounts(), (shown(&one).0, shown(&drawn(1)).1), 21),
            None
        );
        assert!(sessions.caller_of(&accounts(), shown(&one), 21).is_some());
        assert!(sessions.end(&one.id));
        assert!(!sessions.end(&one.id));
        assert_eq!(sessions.caller_of(&accounts(), shown(&one), 21), None);
    }

    #[test]
    fn there_are_so_many_and_the_oldest_go() {
        let mut sessions = SessionsRecord::default();
        for number in 0..20 {
            sessions.begin(
                &drawn(number),
                "ada".parse().unwrap(),
                20 + u64::from(number),
            );
        }
        assert_eq!(sessions.count_of("ada", 50), SESSIONS_PER_USER_MAX);
        assert_eq!(sessions.sessions[0].id, drawn(4).id);
        let keep = drawn(10).id;
        sessions.end_of("ada", Some(&keep));
        assert_eq!(sessions.sessions.len(), 1);
        for number in 0..600_u16 {
            let name = alloc::format!("{number:0>64}").parse().unwrap();
            sessions.begin(&drawn(1000 + number), name, 100);
        }
        assert_eq!(sessions.sessions.len(), SESSIONS_MAX);
        let bytes = sessions.encode();
        assert!(
            bytes.len() < holdfast_model::metadata::VALUE_LENGTH_MAX * 3 / 4,
            "{}",
            bytes.len()
        );
        // What has ended makes room.
        sessions.begin(&drawn(9), "ada".parse().unwrap(), u64::MAX / 2);
        assert_eq!(sessions.sessions.len(), 1);
    }
}
