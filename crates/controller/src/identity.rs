//! Users, tokens and sessions: read from the metadata, changed there, and known while it does not answer.
//!
//! Invariants:
//! - nobody is let in for want of an answer: before the metadata has answered once, nobody is known;
//! - what was revoked through another node holds here for [`FRESH`] at most while the metadata answers here, and for
//!   [`BELIEVED`] at most while it does not;
//! - what metadata that has gone back says is not believed;
//! - so many passwords are tried at a time, whoever asks; each try costs 19 MiB and some ten milliseconds;
//! - who fails over and over, with a password or with a made-up code of a provider, waits, and keeps nobody else waiting who comes from elsewhere.

mod answer;
mod audit_of_all;
mod complaints;
mod external;
mod keyed;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_api::{Problem, ProblemKind};
use holdfast_identity::{
    ACCOUNTS_KEY, AccountError, AccountsRecord, CREATIONS_KEY, CreationsRecord, Drawn,
    EXTERNAL_KEY, ExternalRecord, PasswordHash, ProofKind, SESSIONS_KEY, SessionsRecord, Throttle,
};
use holdfast_model::Origin;
use holdfast_model::metadata::{
    Compare, MetadataError, Operation, OperationResult, Revision, Selector, Transaction,
    TransactionOutcome,
};
use holdfast_model::record::{Record, RecordError};
use holdfast_oidc::Provider;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::audit::AuditLog;
use crate::trust::Change;
use crate::{ATTEMPT_PAUSE, ATTEMPTS_MAX, Controller, problem};

use self::complaints::Complaints;

/// How old what is known may be.
const FRESH: Duration = Duration::from_secs(1);
/// Between two questions to it.
const READ_PAUSE: Duration = Duration::from_millis(20);
/// How long the metadata may take to say whether it is still so: longer, and what is known is believed.
const READ_TIME_MAX: Duration = Duration::from_secs(1);
/// How long what is known is believed while the metadata does not answer. An election, a restart or a machine that boots takes
/// less, and administrators are to see meanwhile what is left; somebody whose token was revoked because it is in strange hands
/// is not to go on for longer at a node that is cut off. Who is root on its machine gets in without the metadata.
const BELIEVED: Duration = Duration::from_secs(5 * 60);
/// Passwords that are hashed at a time.
const HASHED_MAX: usize = 2;
/// Tries that wait for that.
const HASHES_WAITING_MAX: usize = 16;
/// What the node's log is told in a minute of logins at a provider that failed, and came from one machine.
const COMPLAINTS_OF_ONE_MAX: usize = 4;
/// What the log of what was done is told in a minute of logins from one machine that were not tried.
const UNTRIED_OF_ONE_MAX: usize = 1;

/// Users, tokens and sessions of the cluster, as one process knows them.
#[derive(Debug)]
pub struct Accounts {
    controller: Controller,
    /// What the process is called in the log: the node's name.
    name: String,
    log: AuditLog,
    throttle: Mutex<Throttle>,
    hashing: Arc<Semaphore>,
    waiting: Semaphore,
    begun: Instant,
    /// Where one can log in besides.
    provider: Option<Arc<Provider>>,
    /// Of logins there: who fails there waits for no password.
    logins: Mutex<Throttle>,
    complaints: Mutex<Complaints>,
    /// Of logins that were not tried, in the log of what was done.
    untried: Mutex<Complaints>,
    known: Mutex<Learned>,
    /// Held by whoever asks the metadata: when that was last done.
    asked: tokio::sync::Mutex<Option<Instant>>,
}

/// What the metadata held.
#[derive(Clone, Debug, Default)]
struct Known {
    accounts: AccountsRecord,
    accounts_at: Revision,
    sessions: SessionsRecord,
    sessions_at: Revision,
    external: ExternalRecord,
    external_at: Revision,
    creations: CreationsRecord,
    creations_at: Revision,
}

/// What is known, and when the metadata was asked for it.
#[derive(Debug, Default)]
struct Learned(Option<(Arc<Known>, Instant)>);

impl Learned {
    /// Takes in what was asked for then. Of two answers the one counts that was asked for later, whichever comes first.
    fn learn(&mut self, known: &Arc<Known>, asked: Instant) {
        if self.0.as_ref().is_none_or(|(_, before)| *before <= asked) {
            self.0 = Some((Arc::clone(known), asked));
        }
    }
}

impl Known {
    fn compare(&self) -> Vec<Compare> {
        let at = |key: &str, equals| Compare::ModRevision {
            key: key.to_owned(),
            equals,
        };
        vec![
            at(ACCOUNTS_KEY, self.accounts_at),
            at(SESSIONS_KEY, self.sessions_at),
            at(EXTERNAL_KEY, self.external_at),
            at(CREATIONS_KEY, self.creations_at),
        ]
    }

    fn read(outcome: TransactionOutcome) -> Result<Self, RecordError> {
        let mut known = Self::default();
        for result in outcome.results {
            let OperationResult::Range(found) = result else {
                continue;
            };
            for value in found {
                if value.key == ACCOUNTS_KEY {
                    known.accounts = AccountsRecord::decode(&value.value)?;
                    known.accounts_at = value.mod_revision;
                } else if value.key == SESSIONS_KEY {
                    known.sessions = SessionsRecord::decode(&value.value)?;
                    known.sessions_at = value.mod_revision;
                } else if value.key == CREATIONS_KEY {
                    known.creations = CreationsRecord::decode(&value.value)?;
                    known.creations_at = value.mod_revision;
                } else {
                    known.external = ExternalRecord::decode(&value.value)?;
                    known.external_at = value.mod_revision;
                }
            }
        }
        Ok(known)
    }
}

impl Accounts {
    /// Those of the controller's cluster, for a process of that name.
    #[must_use]
    pub fn new(controller: Controller, name: &str, log: AuditLog) -> Self {
        Self {
            controller,
            name: name.to_owned(),
            log,
            throttle: Mutex::default(),
            hashing: Arc::new(Semaphore::new(HASHED_MAX)),
            waiting: Semaphore::new(HASHES_WAITING_MAX),
            begun: Instant::now(),
            provider: None,
            logins: Mutex::default(),
            complaints: Mutex::new(Complaints::new(COMPLAINTS_OF_ONE_MAX)),
            untried: Mutex::new(Complaints::new(UNTRIED_OF_ONE_MAX)),
            known: Mutex::default(),
            asked: tokio::sync::Mutex::default(),
        }
    }

    /// Lets in besides whom that provider of identities knows, and its settings give a role.
    #[must_use]
    pub fn trusting(self, provider: Option<Arc<Provider>>) -> Self {
        Self { provider, ..self }
    }

    /// What is known, and not older than [`FRESH`], if the metadata answers.
    async fn known(&self) -> Result<Arc<Known>, Problem> {
        let now = Instant::now();
        self.known_since(now.checked_sub(FRESH).unwrap_or(now))
            .await
    }

    /// What is known, as of after this was called: what was just made through another node is in it. Who shows what nobody has
    /// shown costs the metadata no more than a question each [`READ_PAUSE`], however many there are.
    async fn known_now(&self) -> Result<Arc<Known>, Problem> {
        self.known_since(Instant::now()).await
    }

    /// What is known, and was not asked for before that moment.
    async fn known_since(&self, moment: Instant) -> Result<Arc<Known>, Problem> {
        let mut asked = self.asked.lock().await;
        let last = self.last();
        let is_fresh = asked.is_some_and(|asked| asked > moment);
        if let Some((known, answered)) = last.clone().filter(|_| is_fresh) {
            return believed(known, answered);
        }
        if let Some(asked) = *asked {
            tokio::time::sleep_until(asked + READ_PAUSE).await;
        }
        let begun = Instant::now();
        let known = last.clone().map(|(known, _)| known);
        let read = timeout(READ_TIME_MAX, self.read(known)).await;
        *asked = Some(begun);
        match (read, last) {
            (Ok(Ok(known)), _) => {
                self.learn(&known, begun);
                Ok(known)
            }
            (Ok(Err(problem)), Some((known, answered))) => {
                tracing::debug!(%problem, "users and tokens are those that were known");
                believed(known, answered)
            }
            (Err(_), Some((known, answered))) => believed(known, answered),
            (Ok(Err(problem)), None) => Err(problem),
            (Err(_), None) => Err(problem::unread(MetadataError::Unavailable)),
        }
    }

    /// What is known, and when the metadata was last asked for it with an answer.
    fn last(&self) -> Option<(Arc<Known>, Instant)> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.0.clone()
    }

    fn learn(&self, known: &Arc<Known>, asked: Instant) {
        let mut learned = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        learned.learn(known, asked);
    }

    /// What the metadata holds; if that is what is known, without telling it again.
    async fn read(&self, last: Option<Arc<Known>>) -> Result<Arc<Known>, Problem> {
        let range = |key: &str| Operation::Range(Selector::Key(key.to_owned()));
        let all = vec![
            range(ACCOUNTS_KEY),
            range(SESSIONS_KEY),
            range(EXTERNAL_KEY),
            range(CREATIONS_KEY),
        ];
        let (compare, success) = match &last {
            Some(last) => (last.compare(), Vec::new()),
            None => (Vec::new(), all.clone()),
        };
        let asked = Transaction {
            compare,
            success,
            failure: all,
        };
        let outcome = self.controller.desk.transact(asked).await;
        let outcome = outcome.map_err(problem::unread)?;
        if self.controller.has_gone_back(outcome.revision) {
            return Err(problem::gone_back());
        }
        match last {
            Some(last) if outcome.succeeded => Ok(last),
            _ => Ok(Arc::new(Known::read(outcome).map_err(unreadable)?)),
        }
    }

    /// Changes what the metadata holds, again and again until nobody has come in between.
    async fn change<T>(
        &self,
        apply: impl Fn(&mut AccountsRecord, &mut SessionsRecord) -> Result<T, AccountError>,
    ) -> Result<T, Problem> {
        self.change_known(|known| apply(&mut known.accounts, &mut known.sessions).map_err(refused))
            .await
    }

    /// The same, with the sessions of those who are no users, and what came of wishes that bore a key.
    async fn change_known<T>(
        &self,
        apply: impl Fn(&mut Known) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        for attempt in 1..=ATTEMPTS_MAX {
            self.controller.may_change(Change::Other).await?;
            let seen = self.read(self.last().map(|(known, _)| known)).await?;
            let mut next = (*seen).clone();
            let done = apply(&mut next)?;
            let changed = [
                (next.accounts != seen.accounts)
                    .then(|| Operation::put(ACCOUNTS_KEY.to_owned(), next.accounts.encode())),
                (next.sessions != seen.sessions)
                    .then(|| Operation::put(SESSIONS_KEY.to_owned(), next.sessions.encode())),
                (next.external != seen.external)
                    .then(|| Operation::put(EXTERNAL_KEY.to_owned(), next.external.encode())),
                (next.creations != seen.creations)
                    .then(|| Operation::put(CREATIONS_KEY.to_owned(), next.creations.encode())),
            ];
            let success: Vec<_> = changed.into_iter().flatten().collect();
            if success.is_empty() {
                return Ok(done);
            }
            let transaction = Transaction {
                compare: seen.compare(),
                success,
                failure: Vec::new(),
            };
            let outcome = self.controller.desk.transact(transaction).await;
            if outcome.map_err(problem::metadata)?.succeeded {
                let asked = Instant::now();
                let read = self.read(self.last().map(|(known, _)| known)).await;
                // What is known otherwise is a second old at most.
                if let Ok(known) = read {
                    self.learn(&known, asked);
                }
                return Ok(done);
            }
            tokio::time::sleep(ATTEMPT_PAUSE * attempt).await;
        }
        let detail = "others change users, tokens or sessions at the same time";
        Err(Problem::new(ProblemKind::Conflict, detail).hint("try again"))
    }

    /// What is left of what takes a processor for long, on a thread that has nothing else to do.
    async fn hash<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let Ok(_waiting) = self.waiting.try_acquire() else {
            let detail = "too many try passwords at the same time";
            return Err(Problem::new(ProblemKind::Busy, detail).hint("try again in a moment"));
        };
        let place = Arc::clone(&self.hashing).acquire_owned().await;
        let place = place.expect("nobody closes it");
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(place);
            done
        });
        done.await
            .map_err(|error| Problem::new(ProblemKind::Internal, error))
    }

    async fn hash_of(&self, user: &str, password: &str) -> Result<PasswordHash, Problem> {
        let (user, password) = (user.to_owned(), password.to_owned());
        let salt = random()?;
        let hash = self
            .hash(move || PasswordHash::of(&user, &password, salt))
            .await?;
        hash.map_err(|error| refused(error.into()))
    }

    /// Whether a password is a user's; too many tries are refused.
    async fn verify(
        &self,
        user: &str,
        hash: Option<PasswordHash>,
        password: String,
        from: IpAddr,
    ) -> Result<bool, Problem> {
        let from = Origin::from(from).to_string();
        self.admit(user, &from)?;
        let is_one = self
            .hash(move || PasswordHash::is_of(hash.as_ref(), &password))
            .await?;
        // Tries that came at the same time count as well.
        self.admit(user, &from)?;
        let mut throttle = self.throttle.lock().unwrap_or_else(PoisonError::into_inner);
        if is_one {
            throttle.succeeded(user, &from, self.now());
        } else {
            throttle.failed(user, &from, self.now());
        }
        Ok(is_one)
    }

    /// A user has another password: those that were tried before count for nothing.
    fn forgive(&self, user: &str) {
        let mut throttle = self.throttle.lock().unwrap_or_else(PoisonError::into_inner);
        throttle.forgive(user);
    }

    fn admit(&self, user: &str, from: &str) -> Result<(), Problem> {
        let mut throttle = self.throttle.lock().unwrap_or_else(PoisonError::into_inner);
        throttle.admit(user, from, self.now()).map_err(|wait| {
            let seconds = wait.as_secs() as u16 + u16::from(wait.subsec_nanos() > 0);
            let detail = format!("too many passwords were tried in vain; wait {seconds} s");
            Problem {
                retry_after_seconds: Some(seconds),
                ..Problem::new(ProblemKind::TooManyAttempts, detail)
                    .hint("an administrator can give a user another password")
            }
        })
    }

    /// For the throttle.
    fn now(&self) -> holdfast_stdx::Instant {
        holdfast_stdx::Instant::ZERO + self.begun.elapsed()
    }
}

/// What is known, unless it may be other by now.
fn believed(known: Arc<Known>, answered: Instant) -> Result<Arc<Known>, Problem> {
    if answered.elapsed() < BELIEVED {
        return Ok(known);
    }
    let detail = "the metadata has not answered this node for more than five minutes: whose tokens and logins still hold is not known";
    Err(Problem::new(ProblemKind::Unavailable, detail).hint(
        "ask another node (`--api`); on this node's machine, as root, `--credentials` shows the node's certificate, which needs no \
         metadata: `holdfast status --explain --credentials DIRECTORY` tells what is waited for",
    ))
}

/// Milliseconds since 1970 (UTC).
fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}

fn draw(kind: ProofKind) -> Result<Drawn, Problem> {
    Ok(Drawn::new(kind, random()?))
}

/// Bytes that nobody can guess.
fn random<const N: usize>() -> Result<[u8; N], Problem> {
    let mut bytes = [0; N];
    let filled = getrandom::fill(&mut bytes);
    filled.map_err(|error| Problem::new(ProblemKind::Internal, error))?;
    Ok(bytes)
}

fn unreadable(error: RecordError) -> Problem {
    Problem::new(ProblemKind::Internal, error)
        .hint("another version of Holdfast may have written it")
}

fn refused(error: AccountError) -> Problem {
    let (kind, hint) = match error {
        AccountError::UserExists => (
            ProblemKind::UserExists,
            "`holdfast user list` tells which there are",
        ),
        AccountError::NoSuchUser => (
            ProblemKind::NoSuchUser,
            "`holdfast user list` tells which there are",
        ),
        AccountError::NoSuchToken => (
            ProblemKind::NoSuchToken,
            "`holdfast token list` tells which there are",
        ),
        AccountError::LastAdministrator => (
            ProblemKind::Refused,
            "make another administrator first: `holdfast user create NAME --role administrator`",
        ),
        AccountError::Full => (
            ProblemKind::ClusterFull,
            "remove users, or revoke tokens, that are not needed",
        ),
        AccountError::MoreThanMaker => (
            ProblemKind::Forbidden,
            "choose a lesser role, or the same scope",
        ),
        AccountError::Lifetime => (
            ProblemKind::Invalid,
            "a token for a script is well made for 90 days: `--for 90d`",
        ),
        AccountError::LifetimeExternal => (
            ProblemKind::Invalid,
            "choose 90 days at most, `--for 90d`, or have a user of this cluster make it",
        ),
        AccountError::KeyReused => return problem::key_reused(error),
        AccountError::Password(_) => (
            ProblemKind::Invalid,
            "a good password is what a generator of passwords makes",
        ),
    };
    Problem::new(kind, error).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_later_is_not_forgotten_for_what_comes_later() {
        let at = |revision| {
            Arc::new(Known {
                accounts_at: Revision(revision),
                ..Known::default()
            })
        };
        let mut learned = Learned::default();
        let begun = Instant::now();
        let revision = |learned: &Learned| learned.0.as_ref().unwrap().0.accounts_at;
        learned.learn(&at(5), begun);
        // A change has been made and read, while an earlier question waits for its answer.
        learned.learn(&at(7), begun + FRESH);
        learned.learn(&at(6), begun + READ_PAUSE);
        assert_eq!(revision(&learned), Revision(7));
        learned.learn(&at(8), begun + FRESH);
        assert_eq!(revision(&learned), Revision(8));
    }
}
