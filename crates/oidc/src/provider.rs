//! A provider: sends browsers away, and judges what they bring back.
//!
//! Invariants:
//! - what is known of the provider is asked for again when it is older than [`FRESH`], its keys as well where one is not among
//!   them, but not more often than each [`KEYS_PAUSE`];
//! - one that is slow keeps nobody waiting for longer than [`STALE_PATIENCE`] who needs nothing that is not known;
//! - no code is redeemed but as [`Redeeming`] lets it be.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use holdfast_model::Origin;
use holdfast_model::record::Secret;
use holdfast_outside::{Answer, Bytes, Full, Method, OutsideUrl, Request, Trust, ask, header};
use jsonwebtoken::{DecodingKey, Header};

use crate::claims::{Person, head, judge};
use crate::documents::{
    Authentication, DISCOVERY, KEYS, Metadata, Redeemed, TOKENS, discovery_url, refusal,
};
use crate::encoding::{basic, form};
use crate::error::{ErrorCode, LoginError, ProviderError, TokenError};
use crate::keys::Keys;
use crate::redeeming::Redeeming;
use crate::said::Said;
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
/// How long a newer answer is waited for where there is an older one.
const STALE_PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of a code, and of what comes beside it, at most.
const CODE_BYTES_MAX: usize = 4 << 10;

/// A provider.
#[derive(Debug)]
pub struct Provider {
    settings: Arc<Settings>,
    key: TicketKey,
    metadata: Arc<Said<Metadata>>,
    keys: Arc<Said<Keys>>,
    redeeming: Redeeming,
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
            settings: Arc::new(settings),
            key,
            metadata: Arc::new(Said::new(DISCOVERY)),
            keys: Arc::new(Said::new(KEYS)),
            redeeming: Redeeming::default(),
        })
    }

    /// What is said of it.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Looks whether it answers, and has keys.
    ///
    /// # Errors
    /// [`ProviderError`].
    pub async fn look(&self) -> Result<(), Arc<ProviderError>> {
        self.metadata().await?;
        self.keys(FRESH, STALE_PATIENCE).await?;
        Ok(())
    }

    /// Begins a login.
    ///
    /// # Errors
    /// [`LoginError`], above all where the provider does not answer.
    pub async fn begin(&self, now: SystemTime) -> Result<Beginning, LoginError> {
        let metadata = self.metadata().await?;
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
        let metadata = self.metadata().await?;
        // RFC 9207, section 2.4: a provider that always says so would have.
        if metadata.says_issuer && back.issuer.is_none() {
            return Err(LoginError::OtherIssuer);
        }
        let mut place = self.redeeming.take(&ticket.state, from)?;
        let ended = self.ask_who(&metadata, code, &ticket).await;
        let has_done_its_part = match &ended {
            Ok(_) | Err(LoginError::NoRole { .. }) => true,
            Err(error) => error.is_guess(),
        };
        if has_done_its_part {
            place.bears_fruit();
        }
        ended
    }

    /// Who it is that the provider gave that code for.
    async fn ask_who(
        &self,
        metadata: &Metadata,
        code: &str,
        ticket: &Ticket,
    ) -> Result<Person, LoginError> {
        let token = self.redeem(metadata, code, ticket).await?;
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
        let answer = ask_for(&self.settings, TOKENS, &metadata.token, request).await;
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
        let keys = self.keys(FRESH, STALE_PATIENCE).await?;
        let found: Vec<&DecodingKey> = keys.of(header);
        if !found.is_empty() {
            return Ok(keys);
        }
        // It may have been made since. Who shows such a one waits for what the provider says of it.
        Ok(self.keys(KEYS_PAUSE, PATIENCE).await?)
    }

    /// What the provider says of itself; what it said before where it says nothing now.
    async fn metadata(&self) -> Result<Arc<Metadata>, Arc<ProviderError>> {
        let ask = || ask_metadata(Arc::clone(&self.settings));
        self.metadata.since(FRESH, STALE_PATIENCE, ask).await
    }

    /// The provider's keys, not older than that; those of before where it says nothing now.
    async fn keys(
        &self,
        age_max: Duration,
        patience: Duration,
    ) -> Result<Arc<Keys>, Arc<ProviderError>> {
        let metadata = self.metadata().await?;
        let ask = || ask_keys(Arc::clone(&self.settings), metadata);
        self.keys.since(age_max, patience, ask).await
    }
}

async fn ask_metadata(settings: Arc<Settings>) -> Result<Metadata, ProviderError> {
    let url = discovery_url(&settings)?;
    Metadata::read(&fetch(&settings, DISCOVERY, &url).await?, &settings)
}

async fn ask_keys(settings: Arc<Settings>, metadata: Arc<Metadata>) -> Result<Keys, ProviderError> {
    Keys::read(&fetch(&settings, KEYS, &metadata.keys).await?)
}

async fn fetch(
    settings: &Settings,
    what: &'static str,
    url: &OutsideUrl,
) -> Result<Vec<u8>, ProviderError> {
    let request = Request::builder().header(header::ACCEPT, "application/json");
    let request = request.body(Full::default()).expect("it is ours");
    match ask_for(settings, what, url, request).await? {
        Answer { status: 200, body } => Ok(body),
        Answer { status, .. } => Err(ProviderError::Status { what, status }),
    }
}

async fn ask_for(
    settings: &Settings,
    what: &'static str,
    url: &OutsideUrl,
    request: Request<Full<Bytes>>,
) -> Result<Answer, ProviderError> {
    let authority = settings.authority.as_deref();
    let trust = authority.map_or(Trust::System, Trust::Only);
    let answer = ask(url, request, trust, PATIENCE, ANSWER_BYTES_MAX).await;
    answer.map_err(|failure| ProviderError::Unanswered { what, failure })
}
