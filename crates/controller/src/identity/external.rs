//! Logins at a provider of identities: sessions of people who are no users of the cluster's.
//!
//! Invariants:
//! - nobody becomes a user by it, and no user's name, password or session has to do with it;
//! - a browser is told a word for what went wrong; what it was is in the log, which nobody floods by that;
//! - a login counts at nodes whose file names its provider, and nowhere else;
//! - who brings back made-up codes over and over waits; what the provider or its configuration is to blame for keeps nobody
//!   waiting here, for behind a proxy all come from one address: `holdfast-oidc` paces what that costs;
//! - nobody whom the provider knows fills the log of what was done by coming without a role.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{MutexGuard, PoisonError};
use std::time::SystemTime;

use holdfast_api::documents::{LoginMethods, LoginProvider, User};
use holdfast_api::{
    BroughtBack, EntityTag, LoggedIn, LoginFault, LoginRefused, Problem, ProblemKind, SentAway,
};
use holdfast_identity::{Caller, ExternalRecord, ExternalUser, ProofKind, Throttle, Who};
use holdfast_model::Origin;
use holdfast_oidc::{LoginError, Person, Provider, Returned};
use holdfast_stdx::crc32c;

use super::{Accounts, draw, now_ms};

impl Accounts {
    pub(super) fn methods(&self) -> LoginMethods {
        let provider = self.provider.as_ref().map(|it| it.settings());
        LoginMethods {
            password: true,
            oidc: provider.map(|settings| LoginProvider {
                name: settings.name.clone(),
                url: format!("{}/api/v1/login/oidc", settings.external_url),
            }),
        }
    }

    pub(super) async fn begin_external(&self) -> Result<SentAway, LoginRefused> {
        let begun = self.trusted()?.begin(SystemTime::now()).await;
        // The provider itself has been complained of, if it is that.
        let begun = begun.map_err(|error| {
            tracing::debug!("begin a login by OIDC: {error}");
            fault(&error)
        })?;
        Ok(SentAway {
            location: begun.location,
            ticket: begun.ticket,
        })
    }

    pub(super) async fn end_external(
        &self,
        back: BroughtBack,
        from: Origin,
    ) -> Result<LoggedIn, LoginRefused> {
        let provider = self.trusted()?;
        self.admit_login(from)?;
        let returned = Returned {
            ticket: back.ticket.as_deref(),
            state: back.state.as_deref(),
            code: back.code.as_deref(),
            error: back.error.as_deref(),
            issuer: back.issuer.as_deref(),
        };
        let issuer = &provider.settings().issuer;
        let ended = provider.end(returned, from, SystemTime::now()).await;
        let person = match ended {
            Ok(person) => person,
            Err(LoginError::NoRole { subject, name }) => {
                let user = ExternalUser::new(issuer, &subject, &name);
                return Err(self.without_role(user, from).await);
            }
            Err(error) => return Err(self.judge(&error, from).into()),
        };
        let Person {
            subject,
            name,
            role,
        } = person;
        let user = ExternalUser::new(issuer, &subject, &name).ok_or(LoginFault::Untrusted)?;
        let unavailable = |problem: Problem| {
            tracing::warn!(%problem, "begin the session of a login by OIDC");
            LoginRefused::from(LoginFault::Unavailable)
        };
        let drawn = draw(ProofKind::Session).map_err(unavailable)?;
        let now = now_ms();
        self.logins_failed().forgive(user.subject());
        let begun = self
            .change_known(|known| {
                let session = known.external.begin(&drawn, user.clone(), role, now);
                Ok(session.caller())
            })
            .await;
        Ok(LoggedIn {
            caller: begun.map_err(unavailable)?,
            secret: drawn.text,
        })
    }

    /// The provider knows that one, and gives no role: what earlier logins began ends. Of one who comes over and over that is put
    /// down now and then.
    async fn without_role(&self, user: Option<ExternalUser>, from: Origin) -> LoginRefused {
        let told = user.as_ref().filter(|user| self.is_told(user));
        let who = told.map(|user| format!("user {user} ({})", user.subject()));
        if let Some(left_out) = self.may_complain(from) {
            tracing::info!(
                ?who,
                left_out,
                "a login by OIDC: the provider gives this one no role here"
            );
        }
        if let Some(user) = user {
            let ended = self
                .change_known(|known| {
                    known.external.end_of(&user);
                    Ok(())
                })
                .await;
            if let Err(problem) = ended {
                tracing::warn!(%problem, "end the sessions of {user}, who has no role any more");
            }
        }
        LoginRefused {
            fault: LoginFault::NoRole,
            who,
        }
    }

    /// That somebody may try to end a login from there.
    fn admit_login(&self, from: Origin) -> Result<(), LoginFault> {
        let now = self.now();
        let admitted = self.logins_failed().admit_address(&from.to_string(), now);
        admitted.map_err(|wait| {
            tracing::debug!(%from, ?wait, "a login by OIDC: too many have failed from there");
            LoginFault::Busy
        })
    }

    fn login_failed(&self, from: Origin) {
        let now = self.now();
        self.logins_failed()
            .failed_at_address(&from.to_string(), now);
    }

    /// Whether it is put down once more that this one came without a role.
    fn is_told(&self, user: &ExternalUser) -> bool {
        let now = self.now();
        let mut logins = self.logins_failed();
        let is_told = logins.admit_user(user.subject(), now).is_ok();
        if is_told {
            logins.failed_of_user(user.subject(), now);
        }
        is_told
    }

    fn logins_failed(&self) -> MutexGuard<'_, Throttle> {
        self.logins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the log is told of one more from there; with how much was not told.
    fn may_complain(&self, from: Origin) -> Option<u64> {
        let complaints = self.complaints.lock();
        complaints
            .unwrap_or_else(PoisonError::into_inner)
            .may_say(from)
    }

    /// What a browser is told of a login that failed. Whoever comes by with nothing is nothing for the log, and costs nothing.
    fn judge(&self, error: &LoginError, from: Origin) -> LoginFault {
        let fault = fault(error);
        // Somebody has gone back a page; or has what a browser brought back, and not the browser.
        if matches!(error, LoginError::Ended)
            && let Some(left_out) = self.may_complain(from)
        {
            tracing::info!(%from, left_out, "a login by OIDC was brought back a second time");
        }
        if matches!(fault, LoginFault::Unknown | LoginFault::Busy) {
            tracing::debug!(%from, "a login by OIDC: {error}");
            return fault;
        }
        if error.is_guess() {
            self.login_failed(from);
        }
        if let Some(left_out) = self.may_complain(from) {
            tracing::warn!(%from, left_out, "a login by OIDC: {error}");
        }
        fault
    }

    /// Whether it is still so that this one's login counts: who has logged in at a provider, as long as the node's file names that.
    pub(super) fn still_trusts(&self, caller: &Caller) -> bool {
        let Who::External(user, _) = &caller.who else {
            return true;
        };
        let provider = self.provider.as_ref();
        provider.is_some_and(|it| it.settings().issuer == user.issuer())
    }

    fn trusted(&self) -> Result<&Provider, LoginFault> {
        self.provider.as_deref().ok_or(LoginFault::NoProvider)
    }
}

/// What a browser is told.
const fn fault(error: &LoginError) -> LoginFault {
    match error {
        LoginError::Unknown | LoginError::OtherLogin | LoginError::Ended => LoginFault::Unknown,
        LoginError::Provider(_) => LoginFault::Provider,
        LoginError::Refused(_) => LoginFault::Denied,
        LoginError::NoRole { .. } => LoginFault::NoRole,
        LoginError::Busy => LoginFault::Busy,
        LoginError::OtherIssuer
        | LoginError::NoCode
        | LoginError::NotRedeemed(_)
        | LoginError::Token(_)
        | LoginError::NoRandom => LoginFault::Untrusted,
    }
}

/// Those who have sessions: two may be called the same.
pub(super) fn external_users(record: &ExternalRecord, now_ms: u64) -> Vec<User> {
    let mut users: BTreeMap<(&str, &str), User> = BTreeMap::new();
    for session in record.live(now_ms) {
        let (issuer, subject) = (session.user.issuer(), session.user.subject());
        let user = users.entry((issuer, subject)).or_insert_with(|| User {
            name: session.user.to_string(),
            role: session.role,
            disabled: false,
            created_ms: session.began_ms,
            password_changed_ms: 0,
            sessions: 0,
            issuer: Some(issuer.to_owned()),
            subject: Some(subject.to_owned()),
            etag: tag_of_external(record, &session.user.to_string(), now_ms),
        });
        user.sessions += 1;
    }
    users.into_values().collect()
}

/// Names who is shown so, and what each of them may: whoever removes that name removes them all. None if nobody is.
pub(super) fn tag_of_external(
    record: &ExternalRecord,
    shown: &str,
    now_ms: u64,
) -> Option<EntityTag> {
    let called = record
        .live(now_ms)
        .filter(|it| it.user.to_string() == shown);
    let all: BTreeSet<_> = called
        .map(|it| (it.user.issuer(), it.user.subject(), it.role.name()))
        .collect();
    let text = serde_json::to_vec(&all).expect("texts are valid JSON");
    (!all.is_empty()).then(|| EntityTag::of(&format!("x-{:08x}", crc32c(&text))))
}

/// Nothing of such a user is the cluster's to change.
pub(super) fn of_provider(name: &str) -> Problem {
    let detail = format!("{name} is a user of the provider of identities, and not of this cluster");
    Problem::new(ProblemKind::Refused, detail).hint(
        "what that one may is changed there, and counts from the next login on; `holdfast user remove` ends the logins \
         and the tokens that there are",
    )
}
