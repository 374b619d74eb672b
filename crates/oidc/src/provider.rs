//! A provider: sends browsers away, and judges what they bring back.
//!
//! Invariants:
//! - what is known of the provider is asked for again when it is older than [`FRESH`], its keys as well where one is not among
//!   them, but not more often than each [`KEYS_PAUSE`]; who waits for that waits once;
//! - a provider that fails is left alone for [`FAILED_PAUSE`];
//! - no code is redeemed but as [`Redeeming`] lets it be.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use holdfast_model::Origin;
use holdfast_model::record::Secret;
use holdfast_outside::{Answer, Bytes, Full, Method, OutsideUrl, Request, Trust, ask, header};
use jsonwebtoken::{DecodingKey, Header};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::claims::{Person, head, judge};
use crate::documents::{
    Authentication, DISCOVERY, KEYS, Metadata, Redeemed, TOKENS, discovery_url, refusal,
};
use crate::encoding::{basic, form};
use crate::error::{ErrorCode, LoginError, ProviderError, TokenError};
use crate::keys::Keys;
use crate::redeeming::Redeeming;
use crate::settings::{Settings, SettingsError};
use crate::signature;
use crate::ticket::{Ticket, TicketKey};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of an answer at most. ID tokens with hundreds of groups have some tens of thousands.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// How old what is known of the provider may be.
const FRESH: Duration = Duration::from_secs(3600);
/// Between two questions for its keys because of one that is not among them.
const KEYS_PAUSE: Duration = Duration::from_secs(30);
/// How long a provider is left alone that has just failed.
const FAILED_PAUSE: Duration = Duration::from_secs(5);
/// Bytes of a code, and of what comes beside it, at most.
const CODE_BYTES_MAX: usize = 4 << 10;

/// A provider.
#[derive(Debug)]
pub struct Provider {
    settings: Settings,
    key: TicketKey,
    known: Mutex<Known>,
    redeeming: Redeeming,
}

/// Something that the provider has said, and when.
type Said<T> = Option<(Arc<T>, Instant)>;

/// What is known of it.
#[derive(Debug, Default)]
struct Known {
    metadata: Said<Metadata>,
    keys: Said<Keys>,
    failed: Said<ProviderError>,
}

/// A login that begins.
#[derive(Clone, PartialEq, Eq)]
pub struct Beginning {
    /// Where the browser is sent to.
    pub location: String,
    /// What it is to bring back besides, and to show to nobody else.
    pub ticket: String,
}

/// What a browser brings back: its ticket, and what the provider has put into the query.
#[derive(Clone, Copy, Default)]
pub struct Returned<'a> {
    /// The ticket.
    pub ticket: Option<&'a str>,
    /// Which login it is.
    pub state: Option<&'a str>,
    /// What is redeemed for an ID token.
    pub code: Option<&'a str>,
    /// Why there is none.
    pub error: Option<&'a str>,
    /// Who says so (RFC 9207).
    pub issuer: Option<&'a str>,
}

impl Provider {
    /// One of which that is said. The key is that of the whole cluster, if logins are to end at any node.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn new(settings: Settings, key: TicketKey) -> Result<Self, SettingsError> {
        settings.check()?;
        signature::install();
        Ok(Self {
            settings,
            key,
            known: Mutex::default(),
            redeeming: Redeeming::default(),
        })
    }

    /// What is said of it.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Looks whether it answers, and has keys.
    ///
    /// # Errors
    /// [`ProviderError`].
    pub async fn look(&self) -> Result<(), Arc<ProviderError>> {
        let mut known = self.known.lock().await;
        self.metadata_in(&mut known).await?;
        self.keys_in(&mut known, FRESH).await?;
        Ok(())
    }

    /// Begins a login.
    ///
    /// # Errors
    /// [`LoginError`], above all where the provider does not answer.
    pub async fn begin(&self, now: SystemTime) -> Result<Beginning, LoginError> {
        let metadata = self.metadata_in(&mut *self.known.lock().await).await?;
        let ticket = Ticket::new(now).map_err(|_| LoginError::NoRandom)?;
        let scope = self.settings.scopes.join(" ");
        let asked = form(&[
            ("response_type", "code"),
            ("client_id", &self.settings.client_id),
            ("redirect_uri", &self.settings.redirect_url()),
            ("scope", &scope),
            ("state", &ticket.state),
            ("nonce", &ticket.nonce),
            ("code_challenge", &ticket.challenge()),
            ("code_challenge_method", "S256"),
        ]);
        // It may have a query of its own (RFC 6749, section 3.1).
        let joint = if metadata.authorization.contains('?') {
            '&'
        } else {
            '?'
        };
        let sealed = ticket.seal(&self.key, &self.settings);
        Ok(Beginning {
            location: format!("{}{joint}{asked}", metadata.authorization),
            ticket: sealed.map_err(|_| LoginError::NoRandom)?,
        })
    }

    /// Ends a login: who it is that has come back, from there.
    ///
    /// # Errors
    /// [`LoginError`] for whatever is not as it has to be.
    pub async fn end(
        &self,
        back: Returned<'_>,
        from: Origin,
        now: SystemTime,
    ) -> Result<Person, LoginError> {
        let opened = |text| Ticket::open(&self.key, &self.settings, text, now);
        let ticket = back.ticket.and_then(opened).ok_or(LoginError::Unknown)?;
        if back.state != Some(&ticket.state) {
            return Err(LoginError::OtherLogin);
        }
        if back
            .issuer
            .is_some_and(|issuer| issuer != self.settings.issuer)
        {
            return Err(LoginError::OtherIssuer);
        }
        if let Some(error) = back.error {
            return Err(LoginError::Refused(ErrorCode::of(error)));
        }
        let is_code = |code: &&str| (1..=CODE_BYTES_MAX).contains(&code.len());
        let code = back.code.filter(is_code).ok_or(LoginError::NoCode)?;
        let metadata = self.metadata_in(&mut *self.known.lock().await).await?;
        // RFC 9207, section 2.4: a provider that always says so would have.
        if metadata.says_issuer && back.issuer.is_none() {
            return Err(LoginError::OtherIssuer);
        }
        let _place = self.redeeming.take(&ticket.state, from)?;
        let token = self.redeem(&metadata, code, &ticket).await?;
        let header = head(&token)?;
        let keys = self.keys_of(&header).await?;
        let found = keys.of(&header);
        judge(&token, &header, &found, &self.settings, &ticket.nonce)
    }

    /// Redeems a code for an ID token.
    async fn redeem(
        &self,
        metadata: &Metadata,
        code: &str,
        ticket: &Ticket,
    ) -> Result<String, LoginError> {
        let redirect_url = self.settings.redirect_url();
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &redirect_url),
            ("code_verifier", &ticket.verifier),
        ];
        let client_id = self.settings.client_id.as_str();
        let mut request = Request::builder()
            .method(Method::POST)
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        match (&self.settings.client_secret, metadata.authentication) {
            (Some(Secret(secret)), Authentication::Basic) => {
                request = request.header(header::AUTHORIZATION, basic(client_id, secret));
            }
            (Some(Secret(secret)), Authentication::Post) => {
                fields.extend([("client_id", client_id), ("client_secret", secret)]);
            }
            (None, _) => fields.push(("client_id", client_id)),
        }
        let request = request.body(Full::new(Bytes::from(form(&fields))));
        let request = request.expect("what is escaped can stand in a request");
        let answer = self.ask(TOKENS, &metadata.token, request).await;
        let Answer { status, body } = answer.map_err(Arc::new)?;
        match status {
            200 => {
                let read = serde_json::from_slice::<Redeemed>(&body);
                let unreadable = |_| Arc::new(ProviderError::Unreadable { what: TOKENS });
                let token = read.map_err(unreadable)?.id_token;
                Ok(token.ok_or(TokenError::Missing)?)
            }
            400 | 401 => {
                let code = refusal(&body).unwrap_or_default();
                Err(LoginError::NotRedeemed(ErrorCode::of(&code)))
            }
            status => Err(Arc::new(ProviderError::Status {
                what: TOKENS,
                status,
            })
            .into()),
        }
    }

    /// Keys with one that a token with that head may be signed by, if the provider has any.
    async fn keys_of(&self, header: &Header) -> Result<Arc<Keys>, LoginError> {
        let mut known = self.known.lock().await;
        let keys = self.keys_in(&mut known, FRESH).await?;
        let found: Vec<&DecodingKey> = keys.of(header);
        if !found.is_empty() {
            return Ok(keys);
        }
        // It may have been made since.
        Ok(self.keys_in(&mut known, KEYS_PAUSE).await?)
    }

    /// What the provider says of itself; what it said before where it says nothing now.
    async fn metadata_in(&self, known: &mut Known) -> Result<Arc<Metadata>, Arc<ProviderError>> {
        if let Some(metadata) = younger(&known.metadata, FRESH) {
            return Ok(metadata);
        }
        let read = match left_alone(known) {
            Some(error) => Err(error),
            None => self.ask_metadata().await.map_err(Arc::new),
        };
        settle(read, &mut known.metadata, &mut known.failed)
    }

    /// The provider's keys, not older than that; those of before where it says nothing now.
    async fn keys_in(
        &self,
        known: &mut Known,
        age_max: Duration,
    ) -> Result<Arc<Keys>, Arc<ProviderError>> {
        if let Some(keys) = younger(&known.keys, age_max) {
            return Ok(keys);
        }
        let metadata = self.metadata_in(known).await?;
        let read = match left_alone(known) {
            Some(error) => Err(error),
            None => self.ask_keys(&metadata).await.map_err(Arc::new),
        };
        settle(read, &mut known.keys, &mut known.failed)
    }

    async fn ask_metadata(&self) -> Result<Metadata, ProviderError> {
        let body = self
            .fetch(DISCOVERY, &discovery_url(&self.settings)?)
            .await?;
        Metadata::read(&body, &self.settings)
    }

    async fn ask_keys(&self, metadata: &Metadata) -> Result<Keys, ProviderError> {
        Keys::read(&self.fetch(KEYS, &metadata.keys).await?)
    }

    async fn fetch(&self, what: &'static str, url: &OutsideUrl) -> Result<Vec<u8>, ProviderError> {
        let request = Request::builder().header(header::ACCEPT, "application/json");
        let request = request.body(Full::default()).expect("it is ours");
        match self.ask(what, url, request).await? {
            Answer { status: 200, body } => Ok(body),
            Answer { status, .. } => Err(ProviderError::Status { what, status }),
        }
    }

    async fn ask(
        &self,
        what: &'static str,
        url: &OutsideUrl,
        request: Request<Full<Bytes>>,
    ) -> Result<Answer, ProviderError> {
        let authority = self.settings.authority.as_deref();
        let trust = authority.map_or(Trust::System, Trust::Only);
        let answer = ask(url, request, trust, PATIENCE, ANSWER_BYTES_MAX).await;
        answer.map_err(|failure| ProviderError::Unanswered { what, failure })
    }
}

/// Why the provider is not asked just now.
fn left_alone(known: &Known) -> Option<Arc<ProviderError>> {
    younger(&known.failed, FAILED_PAUSE)
}

/// What was said, if that is not as long ago.
fn younger<T>(said: &Said<T>, age_max: Duration) -> Option<Arc<T>> {
    let (what, at) = said.as_ref()?;
    (at.elapsed() < age_max).then(|| Arc::clone(what))
}

/// Keeps what was read now. Where nothing was, that is told once, and what was said before counts on.
fn settle<T>(
    read: Result<T, Arc<ProviderError>>,
    said: &mut Said<T>,
    failed: &mut Said<ProviderError>,
) -> Result<Arc<T>, Arc<ProviderError>> {
    match read {
        Ok(what) => {
            let what = Arc::new(what);
            *said = Some((Arc::clone(&what), Instant::now()));
            Ok(what)
        }
        Err(error) => {
            fail(failed, &error);
            let before = said.as_ref().map(|(what, _)| Arc::clone(what));
            before.ok_or(error)
        }
    }
}

fn fail(failed: &mut Said<ProviderError>, error: &Arc<ProviderError>) {
    let is_new = failed
        .as_ref()
        .is_none_or(|(before, _)| !Arc::ptr_eq(before, error));
    if is_new {
        tracing::warn!("a login by OIDC: {error}");
        *failed = Some((Arc::clone(error), Instant::now()));
    }
}
