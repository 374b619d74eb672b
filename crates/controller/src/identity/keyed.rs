//! Users and tokens that are made, and the repetitions of requests for them that bear a key.
//!
//! Invariants:
//! - what came of a key is put on record in the step in which what it made is: of two requests at the same time one makes it;
//! - neither a password nor a token is kept for a repetition: whether a password is the same is asked of its hash, and a token
//!   is not told twice.

use holdfast_api::documents::{Token, TokenCreate, TokenCreated, UserCreate};
use holdfast_api::{IdempotencyKey, Keyed, Problem, ProblemKind, UserMade};
use holdfast_identity::{Caller, CreationOf, Label, PasswordHash, ProofKind, UserName, UserRecord};
use holdfast_model::record::Secret;
use holdfast_stdx::Duration;

use super::answer::{invalid, token, user};
use super::{Accounts, Known, draw, now_ms, refused};
use crate::problem;

/// A request that bears a key.
struct Wish {
    key: String,
    /// What is wished for: the same words whenever that is the same.
    words: String,
}

/// What came of a request: what it has made, or what was made for its key before.
enum Outcome<T> {
    New(T),
    Before(CreationOf),
}

impl Wish {
    fn new(key: &IdempotencyKey, words: String) -> Self {
        let key = key.as_str().to_owned();
        Self { key, words }
    }

    /// What came of it before.
    fn answered(&self, known: &Known, now_ms: u64) -> Result<Option<CreationOf>, Problem> {
        let found = known.creations.answered(&self.key, &self.words, now_ms);
        Ok(found.map_err(refused)?.cloned())
    }

    fn keep(&self, known: &mut Known, made: &str, at_ms: u64, now_ms: u64) {
        let creation = CreationOf {
            key: self.key.clone(),
            wish: self.words.clone(),
            made: made.to_owned(),
            at_ms,
        };
        known.creations.keep(creation, now_ms);
    }
}

impl Accounts {
    /// Makes something, unless that was done for its key. `make` tells what it is called, and when it was made, besides.
    async fn make<T>(
        &self,
        wish: Option<&Wish>,
        now_ms: u64,
        make: impl Fn(&mut Known) -> Result<(T, String, u64), Problem>,
    ) -> Result<Outcome<T>, Problem> {
        self.change_known(|known| {
            let before = wish.map(|wish| wish.answered(known, now_ms)).transpose()?;
            if let Some(before) = before.flatten() {
                return Ok(Outcome::Before(before));
            }
            let (made, name, at_ms) = make(known)?;
            if let Some(wish) = wish {
                wish.keep(known, &name, at_ms, now_ms);
            }
            Ok(Outcome::New(made))
        })
        .await
    }

    pub(super) async fn make_user(&self, wanted: Keyed<UserCreate>) -> Result<UserMade, Problem> {
        let Keyed { request, key } = wanted;
        let UserCreate {
            name,
            role,
            password,
        } = request;
        let name: UserName = name
            .parse()
            .map_err(|error| invalid(error, "a good name is, for example, ada or backup-team"))?;
        let wish = key.map(|key| Wish::new(&key, format!("user {name} {role}")));
        if let Some(wish) = &wish
            && let Some(before) = wish.answered(&*self.known_now().await?, now_ms())?
        {
            // A hash costs more than all else: a repetition has one compared at most, and makes none.
            return self.made_before(&before, password).await;
        }
        let hash = self.hash_of(name.as_str(), &password.0).await?;
        let now = now_ms();
        let record = UserRecord {
            name,
            role,
            password: hash,
            disabled: false,
            created_ms: now,
            password_changed_ms: now,
        };
        let make = |known: &mut Known| {
            known.accounts.add_user(record.clone()).map_err(refused)?;
            let made = user(&record, &known.sessions);
            Ok((made, record.name.to_string(), record.created_ms))
        };
        match self.make(wish.as_ref(), now, make).await? {
            Outcome::New(user) => Ok(UserMade { user, is_new: true }),
            Outcome::Before(before) => self.made_before(&before, password).await,
        }
    }

    /// The user that was made for a key, as it is now.
    async fn made_before(
        &self,
        before: &CreationOf,
        password: Secret,
    ) -> Result<UserMade, Problem> {
        let known = self.known_now().await?;
        let made = known.accounts.user(&before.made);
        let Some(record) = made.filter(|user| user.created_ms == before.at_ms) else {
            let detail = format!(
                "user {} was made for this key, and removed since",
                before.made
            );
            return Err(Problem::new(ProblemKind::NoSuchUser, detail)
                .hint("to make the user once more choose another key"));
        };
        // Somebody may have changed it since: then nobody knows any more.
        if record.password_changed_ms == record.created_ms {
            let hash = record.password.clone();
            let is_same = move || PasswordHash::is_of(Some(&hash), &password.0);
            if !self.hash(is_same).await? {
                return Err(problem::key_reused(
                    "another request bore this key: it had another password",
                ));
            }
        }
        Ok(UserMade {
            user: user(record, &known.sessions),
            is_new: false,
        })
    }

    pub(super) async fn make_token(
        &self,
        wanted: Keyed<TokenCreate>,
        maker: &Caller,
    ) -> Result<TokenCreated, Problem> {
        let Keyed { request, key } = wanted;
        let wanted = serde_json::to_string(&request).expect("documents are valid JSON");
        let wish = key.map(|key| Wish::new(&key, format!("token {wanted}")));
        let label: Label = request
            .name
            .parse()
            .map_err(|error| invalid(error, "say what it is for, such as Prometheus"))?;
        let lifetime = Duration::from_secs(request.lifetime_seconds);
        let drawn = draw(ProofKind::Token)?;
        let now = now_ms();
        let make = |known: &mut Known| {
            let wanted = (label.clone(), request.role, request.scope, lifetime);
            let made = known.accounts.add_token(&drawn, wanted, maker, now);
            let made: Token = made.map(token).map_err(refused)?;
            let (id, at_ms) = (made.id.clone(), made.created_ms);
            Ok((made, id, at_ms))
        };
        match self.make(wish.as_ref(), now, make).await? {
            Outcome::New(token) => Ok(TokenCreated {
                token,
                secret: Secret(drawn.text),
            }),
            Outcome::Before(before) => Err(self.told_before(&before).await),
        }
    }

    /// The token that was made for a key is told to nobody any more.
    async fn told_before(&self, before: &CreationOf) -> Problem {
        let id = &before.made;
        let known = match self.known_now().await {
            Ok(known) => known,
            Err(problem) => return problem,
        };
        let token = known.accounts.token(id);
        if token.is_none_or(|token| token.expires_ms <= now_ms()) {
            let detail = format!("token {id} was made for this key, and holds no more");
            return Problem::new(ProblemKind::NoSuchToken, detail)
                .hint("to make one once more choose another key");
        }
        let detail = format!(
            "token {id} was made for this key: what it is was in the answer, and is told only once"
        );
        Problem::new(ProblemKind::AlreadyMade, detail).hint(format!(
            "if that answer is lost, revoke the token (`holdfast token revoke {id}`), and make another one with another key"
        ))
    }
}
