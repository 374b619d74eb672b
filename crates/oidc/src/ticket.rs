//! The ticket of a login that is under way: what the browser keeps while it is at the provider, sealed.
//!
//! Invariants:
//! - nobody makes or changes one, or looks into it, without the key, which all nodes of a cluster have;
//! - it is for one provider, client and external URL: another configuration does not know it;
//! - it ends [`TICKET_LIFETIME`] after it was made.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::hkdf::{HKDF_SHA256, Salt};

use crate::encoding::{base64url, of_base64url};
use crate::settings::Settings;

/// How long somebody may take to log in at the provider: to look for a telephone, and to choose a new password.
pub const TICKET_LIFETIME: Duration = Duration::from_secs(10 * 60);
/// Bytes of each of what nobody can guess.
const RANDOM_BYTES: usize = 32;
/// Bytes of a ticket before it is sealed: three of these, and when it was made.
const PLAIN_BYTES: usize = 3 * RANDOM_BYTES + 8;
/// Letters of a ticket at most. No ticket of ours is as long.
const TEXT_LENGTH_MAX: usize = 512;
/// How much the clock of the node where a login began may be ahead.
const AHEAD_MAX_MS: u64 = 60_000;

/// What tickets are sealed with.
#[derive(Clone)]
pub struct TicketKey(LessSafeKey);

impl fmt::Debug for TicketKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TicketKey(…)")
    }
}

impl TicketKey {
    /// One that follows from a secret of the cluster's: nodes with the same secret have the same.
    #[must_use]
    pub fn derive(secret: &[u8]) -> Self {
        let extracted = Salt::new(HKDF_SHA256, b"holdfast").extract(secret);
        let expanded = extracted.expand(&[b"holdfast: logins at a provider, 1"], &AES_256_GCM);
        let expanded = expanded.expect("32 bytes are what HKDF with SHA-256 gives at once");
        Self(LessSafeKey::new(UnboundKey::from(expanded)))
    }

    /// One that nobody else has: a login ends where it began, before the process does.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn of_this_process() -> Result<Self, NoRandom> {
        Ok(Self::derive(&random::<RANDOM_BYTES>()?))
    }
}

/// The system has no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system has no random bytes")]
pub struct NoRandom;

/// What a login needs to know when the browser is back.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// Comes back with the browser, so that what another browser began is not ended by this one (RFC 6749, section 10.12).
    pub(crate) state: String,
    /// Comes back in the ID token, so that it is of this login (OpenID Connect Core 1.0, section 15.5.2).
    pub(crate) nonce: String,
    /// What the provider is shown when the code is redeemed, so that nobody else can (RFC 7636).
    pub(crate) verifier: String,
    began_ms: u64,
}

impl Ticket {
    pub(crate) fn new(now: SystemTime) -> Result<Self, NoRandom> {
        Ok(Self {
            state: base64url(&random::<RANDOM_BYTES>()?),
            nonce: base64url(&random::<RANDOM_BYTES>()?),
            verifier: base64url(&random::<RANDOM_BYTES>()?),
            began_ms: since_1970_ms(now),
        })
    }

    /// What the provider is told of the verifier at first (RFC 7636, section 4.2).
    pub(crate) fn challenge(&self) -> String {
        base64url(digest(&SHA256, self.verifier.as_bytes()).as_ref())
    }

    pub(crate) fn seal(&self, key: &TicketKey, settings: &Settings) -> Result<String, NoRandom> {
        let mut bytes = Vec::with_capacity(PLAIN_BYTES + AES_256_GCM.tag_len());
        for text in [&self.state, &self.nonce, &self.verifier] {
            bytes.extend(of_base64url(text).expect("it was made of bytes"));
        }
        bytes.extend(self.began_ms.to_be_bytes());
        assert!(bytes.len() == PLAIN_BYTES, "a ticket has one length");
        let nonce: [u8; NONCE_LEN] = random()?;
        let sealed = key.0.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(context(settings)),
            &mut bytes,
        );
        sealed.expect("it is far shorter than what AES-GCM can seal");
        Ok(base64url(&[&nonce[..], &bytes].concat()))
    }

    /// The ticket that was sealed so; none if it was not, or has ended.
    pub(crate) fn open(
        key: &TicketKey,
        settings: &Settings,
        text: &str,
        now: SystemTime,
    ) -> Option<Self> {
        let sealed = (text.len() <= TEXT_LENGTH_MAX).then(|| of_base64url(text))??;
        let (nonce, rest) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut bytes = rest.to_vec();
        let aad = Aad::from(context(settings));
        let bytes = key.0.open_in_place(nonce, aad, &mut bytes).ok()?;
        let (texts, began_ms) = bytes.split_at_checked(3 * RANDOM_BYTES)?;
        let began_ms = u64::from_be_bytes(began_ms.try_into().ok()?);
        let mut texts = texts.chunks(RANDOM_BYTES).map(base64url);
        let ticket = Self {
            state: texts.next()?,
            nonce: texts.next()?,
            verifier: texts.next()?,
            began_ms,
        };
        let now_ms = since_1970_ms(now);
        let ends_ms = began_ms.saturating_add(TICKET_LIFETIME.as_millis() as u64);
        let holds = now_ms < ends_ms && began_ms <= now_ms.saturating_add(AHEAD_MAX_MS);
        holds.then_some(ticket)
    }
}

fn context(settings: &Settings) -> Vec<u8> {
    let Settings {
        issuer,
        client_id,
        external_url,
        ..
    } = settings;
    // None of them has a zero byte.
    [&**issuer, client_id, external_url].join("\0").into_bytes()
}

fn since_1970_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

fn random<const N: usize>() -> Result<[u8; N], NoRandom> {
    let mut bytes = [0; N];
    let filled = getrandom::fill(&mut bytes);
    filled.map(|()| bytes).map_err(|_| NoRandom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;

    #[test]
    fn a_ticket_is_opened_by_the_same_key_for_the_same_provider_in_time() {
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let key = TicketKey::derive(b"a secret of the cluster's");
        let ticket = Ticket::new(now).unwrap();
        let sealed = ticket.seal(&key, &settings()).unwrap();
        let same = TicketKey::derive(b"a secret of the cluster's");
        let opened = |now| Ticket::open(&same, &settings(), &sealed, now);
        assert!(opened(now) == Some(ticket));
        assert!(opened(now + TICKET_LIFETIME - Duration::from_millis(1)).is_some());
        assert!(opened(now + TICKET_LIFETIME).is_none());
        assert!(opened(now - Duration::from_secs(60)).is_some());
        assert!(opened(now - Duration::from_secs(61)).is_none());
        let other = TicketKey::of_this_process().unwrap();
        assert!(Ticket::open(&other, &settings(), &sealed, now).is_none());
        let client_id = "another".to_owned();
        let other = Settings {
            client_id,
            ..settings()
        };
        assert!(Ticket::open(&key, &other, &sealed, now).is_none());
        for at in 0..sealed.len() {
            let mut text = sealed.clone().into_bytes();
            text[at] = if text[at] == b'A' { b'B' } else { b'A' };
            let text = String::from_utf8(text).unwrap();
            assert!(
                Ticket::open(&key, &settings(), &text, now).is_none(),
                "{at}"
            );
            assert!(Ticket::open(&key, &settings(), &sealed[..at], now).is_none());
        }
        assert!(Ticket::open(&key, &settings(), &"A".repeat(100_000), now).is_none());
    }

    /// RFC 7636, appendix B.
    #[test]
    fn the_challenge_is_that_of_the_standard() {
        let ticket = Ticket {
            verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned(),
            ..Ticket::new(UNIX_EPOCH).unwrap()
        };
        assert_eq!(
            ticket.challenge(),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        );
    }

    #[test]
    fn no_two_are_the_same() {
        let one = Ticket::new(UNIX_EPOCH).unwrap();
        let other = Ticket::new(UNIX_EPOCH).unwrap();
        assert!(one.state != other.state && one.nonce != other.nonce);
        assert!(one.verifier != other.verifier && one.state != one.nonce);
        // RFC 7636, section 4.1: 43 letters at least.
        assert_eq!(one.verifier.len(), 43);
    }
}
