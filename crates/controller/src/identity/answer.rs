//! What is asked of users, tokens and sessions.

use std::net::IpAddr;
use std::sync::PoisonError;

use holdfast_api::documents::{
    AuditEntry, AuditList, AuditQuery, LocalAudit, LoginMethods, PasswordChange, SessionCreate,
    Token, TokenCreate, TokenCreated, User, UserChange, UserCreate,
};
use holdfast_api::{
    Answer, BroughtBack, Conditional, EntityTag, Identities, Keyed, LoggedIn, LoginAnswer,
    Precondition, Problem, ProblemKind, SentAway, Shown, UserMade,
};
use holdfast_identity::{
    AccountError, Caller, Proof, ProofKind, SESSION_LIFETIME, Scope, SessionsRecord, TokenRecord,
    UserChange as Change, UserName, UserRecord, Who,
};
use holdfast_model::ClusterId;

use super::external::{external_users, of_provider, tag_of_external};
use super::{Accounts, Known, draw, now_ms, refused};

impl Identities for Accounts {
    fn cluster(&self) -> ClusterId {
        self.controller.cluster
    }

    fn may_change(&self) -> Result<(), Problem> {
        if self.log.is_writing() {
            return Ok(());
        }
        let detail = format!(
            "{} cannot write its audit log: nothing is changed through it that could not be put down",
            self.name
        );
        Err(Problem::new(ProblemKind::Unavailable, detail).hint(
            "its own log says why not; ask another node (`--api`), or repeat it once there is room for audit.log: then it is written \
             again. With a node's own certificate (`--credentials`) nothing is refused for that",
        ))
    }

    fn may_note_untried(&self, from: IpAddr) -> Option<u64> {
        let untried = self.untried.lock();
        untried
            .unwrap_or_else(PoisonError::into_inner)
            .may_say(from.into())
    }

    fn who<'a>(&'a self, shown: Shown<'a>) -> Answer<'a, Caller> {
        Box::pin(async move {
            let kind = match shown {
                Shown::Token(_) => ProofKind::Token,
                Shown::Session(_) => ProofKind::Session,
            };
            let (Shown::Token(text) | Shown::Session(text)) = shown;
            let taken = Proof::taken_apart(kind, text);
            let (id, secret) = taken.ok_or_else(|| nobody(kind))?;
            let shows = |known: &Known| {
                let caller = caller_of(known, kind, (id, secret));
                caller.filter(|caller| self.still_trusts(caller))
            };
            if let Some(caller) = shows(&*self.known().await?) {
                return Ok(caller);
            }
            shows(&*self.known_now().await?).ok_or_else(|| nobody(kind))
        })
    }

    fn log_in(&self, request: SessionCreate, from: IpAddr) -> Answer<'_, LoggedIn> {
        Box::pin(async move {
            let SessionCreate { name, password } = request;
            let known = self.known_now().await?;
            let user = known.accounts.user(&name).filter(|user| !user.disabled);
            let hash = user.map(|user| user.password.clone());
            // What cannot be a name is counted as one that nobody has.
            let counted = name
                .parse::<UserName>()
                .map_or_else(|_| "-".to_owned(), |name| name.to_string());
            let is_one = self.verify(&counted, hash, password.0, from).await?;
            let user = user.filter(|_| is_one).ok_or_else(wrong)?;
            let drawn = draw(ProofKind::Session)?;
            let name = user.name.clone();
            let now = now_ms();
            self.change(|accounts, sessions| {
                // It may have gone meanwhile, with its password.
                let is_same = accounts.user(name.as_str()).is_some_and(|it| it == user);
                if !is_same {
                    return Err(AccountError::NoSuchUser);
                }
                // Another node's clock, by which the user was made or changed, may be ahead.
                let began = now.max(user.created_ms).max(user.password_changed_ms);
                sessions.begin(&drawn, name.clone(), began);
                Ok(())
            })
            .await
            .map_err(|problem| match problem.kind {
                ProblemKind::NoSuchUser => wrong(),
                _ => problem,
            })?;
            Ok(LoggedIn {
                caller: Caller {
                    who: Who::User(user.name.clone(), drawn.id.clone()),
                    role: user.role,
                    scope: Scope::Everything,
                    expires_ms: Some(now.saturating_add(SESSION_LIFETIME.as_millis() as u64)),
                },
                secret: drawn.text,
            })
        })
    }

    fn login_methods(&self) -> LoginMethods {
        self.methods()
    }

    fn send_away(&self) -> LoginAnswer<'_, SentAway> {
        Box::pin(self.begin_external())
    }

    fn come_back(&self, back: BroughtBack, from: IpAddr) -> LoginAnswer<'_, LoggedIn> {
        Box::pin(self.end_external(back, from.into()))
    }

    fn log_out<'a>(&'a self, session: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            let end =
                |known: &mut Known| known.sessions.end(session) || known.external.end(session);
            self.change_known(|known| Ok(end(known))).await?;
            Ok(())
        })
    }

    fn change_password<'a>(
        &'a self,
        (name, session): (&'a UserName, &'a str),
        change: PasswordChange,
        from: IpAddr,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let PasswordChange { current, new } = change;
            let known = self.known_now().await?;
            let user = known.accounts.user(name.as_str());
            let hash = user.map(|user| user.password.clone());
            let verified = user.cloned();
            if !self.verify(name.as_str(), hash, current.0, from).await? {
                return Err(Problem::new(
                    ProblemKind::Forbidden,
                    "the present password is another one",
                )
                .hint("an administrator can give a user another password"));
            }
            let hash = self.hash_of(name.as_str(), &new.0).await?;
            let now = now_ms();
            self.change(|accounts, sessions| {
                // Somebody may have given the user another one meanwhile.
                if accounts.user(name.as_str()) != verified.as_ref() {
                    return Err(AccountError::NoSuchUser);
                }
                let change = Change {
                    password: Some(hash.clone()),
                    ..Change::default()
                };
                accounts.change_user(name.as_str(), change, now)?;
                sessions.end_of(name.as_str(), Some(session));
                sessions.renew(session, now);
                Ok(())
            })
            .await
        })
    }

    fn users(&self) -> Answer<'_, Vec<User>> {
        Box::pin(async move {
            let known = self.known_now().await?;
            let users = known.accounts.users.iter();
            let mut users: Vec<_> = users.map(|it| user(it, &known.sessions)).collect();
            users.extend(external_users(&known.external, now_ms()));
            users.sort_by(|one, other| one.name.cmp(&other.name));
            Ok(users)
        })
    }

    fn create_user(&self, request: Keyed<UserCreate>) -> Answer<'_, UserMade> {
        Box::pin(self.make_user(request))
    }

    fn change_user<'a>(
        &'a self,
        name: &'a str,
        change: Conditional<UserChange>,
    ) -> Answer<'a, User> {
        Box::pin(async move {
            let Conditional {
                request: change,
                precondition,
            } = change;
            if self.known_now().await?.external.has(name) {
                return Err(of_provider(name));
            }
            let password = match &change.password {
                Some(password) => Some(self.hash_of(name, &password.0).await?),
                None => None,
            };
            let ends = password.is_some() || change.disabled == Some(true);
            let change = Change {
                role: change.role,
                disabled: change.disabled,
                password,
            };
            let now = now_ms();
            let changed = self
                .change_known(|known| {
                    holds(&precondition, known, name)?;
                    let Known {
                        accounts, sessions, ..
                    } = known;
                    let changed = accounts.change_user(name, change.clone(), now);
                    changed.map_err(refused)?;
                    if ends {
                        sessions.end_of(name, None);
                    }
                    let changed = accounts.user(name).ok_or(AccountError::NoSuchUser);
                    Ok(user(changed.map_err(refused)?, sessions))
                })
                .await?;
            if change.password.is_some() {
                self.forgive(name);
            }
            Ok(changed)
        })
    }

    fn remove_user<'a>(&'a self, name: &'a str, precondition: Precondition) -> Answer<'a, ()> {
        Box::pin(async move {
            self.change_known(|known| {
                let tag_external = tag_of_external(&known.external, name, now_ms());
                let users = known.external.shown_so(name);
                for user in &users {
                    known.external.end_of(user);
                }
                if known.accounts.revoke_tokens_of(name, &users) || !users.is_empty() {
                    return precondition.holds(tag_external.as_ref());
                }
                holds(&precondition, known, name)?;
                known.accounts.remove_user(name).map_err(refused)?;
                known.sessions.end_of(name, None);
                Ok(())
            })
            .await
        })
    }

    fn tokens(&self) -> Answer<'_, Vec<Token>> {
        Box::pin(async move {
            let known = self.known_now().await?;
            let now = now_ms();
            let tokens = known.accounts.tokens.iter();
            let tokens = tokens.filter(|token| now < token.expires_ms);
            Ok(tokens.map(token).collect())
        })
    }

    fn create_token<'a>(
        &'a self,
        request: Keyed<TokenCreate>,
        maker: &'a Caller,
    ) -> Answer<'a, TokenCreated> {
        Box::pin(self.make_token(request, maker))
    }

    fn revoke_token<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        Box::pin(async move { self.change(|accounts, _| accounts.revoke_token(id)).await })
    }

    fn note(&self, entry: AuditEntry) {
        self.log.note(AuditEntry {
            node: self.name.clone(),
            ..entry
        });
    }

    fn audit(&self, query: AuditQuery) -> Answer<'_, AuditList> {
        Box::pin(self.audit_of_all(query))
    }

    fn local_audit(&self, query: AuditQuery) -> Answer<'_, LocalAudit> {
        Box::pin(async move {
            let after = query.place()?;
            let entries = self.log.answer(&query, after.as_ref()).await;
            Ok(LocalAudit {
                node: self.controller.report().map_or(0, |report| report.node),
                entries: entries.map_err(|error| {
                    let detail = format!("the audit log cannot be read: {error}");
                    Problem::new(ProblemKind::Internal, detail)
                })?,
            })
        })
    }
}

fn caller_of(known: &Known, kind: ProofKind, shown: (&str, &str)) -> Option<Caller> {
    let (id, secret) = shown;
    match kind {
        ProofKind::Token => known.accounts.caller_of(id, secret, now_ms()),
        ProofKind::Session => {
            let of_user = known.sessions.caller_of(&known.accounts, shown, now_ms());
            of_user.or_else(|| known.external.caller_of(shown, now_ms()))
        }
    }
}

pub(super) fn user(record: &UserRecord, sessions: &SessionsRecord) -> User {
    let UserRecord {
        name,
        role,
        password: _,
        disabled,
        created_ms,
        password_changed_ms,
    } = record;
    User {
        name: name.to_string(),
        role: *role,
        disabled: *disabled,
        created_ms: *created_ms,
        password_changed_ms: *password_changed_ms,
        sessions: sessions.count_of(name.as_str(), now_ms()) as u32,
        issuer: None,
        subject: None,
        etag: Some(tag(record)),
    }
}

/// Names what may be changed of a user. Of the password it tells when it became that, and nothing of what it is.
fn tag(record: &UserRecord) -> EntityTag {
    let state = if record.disabled { "off" } else { "on" };
    let (role, made, changed) = (
        record.role.name(),
        record.created_ms,
        record.password_changed_ms,
    );
    EntityTag::of(&format!("u-{made:x}-{changed:x}-{role}-{state}"))
}

/// That a precondition holds of a user, if there is one. Every change of accounts compares what it was made from, and is made only
/// while that is so.
fn holds(precondition: &Precondition, known: &Known, name: &str) -> Result<(), Problem> {
    let found = known.accounts.user(name).map(tag);
    found.map_or(Ok(()), |tag| precondition.holds(Some(&tag)))
}

pub(super) fn token(record: &TokenRecord) -> Token {
    Token {
        id: record.id.clone(),
        name: record.label.to_string(),
        role: record.role,
        scope: record.scope,
        created_by: record.created_by.clone(),
        created_ms: record.created_ms,
        expires_ms: record.expires_ms,
    }
}

pub(super) fn invalid(error: impl std::fmt::Display, hint: &str) -> Problem {
    Problem::new(ProblemKind::Invalid, error).hint(hint)
}

/// It is not told whether there is such a user.
fn wrong() -> Problem {
    Problem::new(
        ProblemKind::Unauthenticated,
        "the name or the password is wrong, or the user is disabled",
    )
    .hint("an administrator can give a user another password")
}

fn nobody(kind: ProofKind) -> Problem {
    let problem = |detail: &str| Problem::new(ProblemKind::Unauthenticated, detail);
    match kind {
        // To make another one takes somebody who is known: its kind says where there is one.
        ProofKind::Token => problem("the token is nobody's, or has expired, or was revoked"),
        ProofKind::Session => problem("the login has ended").hint("log in again"),
    }
}
