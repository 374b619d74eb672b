//! Where people are told, and what is refused as such.
//!
//! Invariant: nothing that a receiver is made of can end a line of a protocol, and all of it is bounded.

use holdfast_outside::AUTHORITY_BYTES_MAX;
use rustls::RootCertStore;

use crate::mail::{ADDRESSES_MAX, Mail};
use crate::webhook::Webhook;

/// Bytes in a secret at most.
const SECRET_BYTES_MAX: usize = 512;

/// Where people are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// People who get mail.
    Mail(Mail),
    /// A program that is sent JSON over HTTP.
    Webhook(Webhook),
}

/// What is wrong with a receiver, and what to give instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiverError {
    /// No host.
    #[error("this is no host: give a name or an address, without port")]
    Host,
    /// No port.
    #[error("0 is no port: give 465 for TLS, 587 for STARTTLS, or what the server has")]
    Port,
    /// Nobody gets the mail, or too many do: so many.
    #[error(
        "the mail would be for {0} addresses: give 1 to {ADDRESSES_MAX}; a list of the mail server's has as many as you like"
    )]
    Addresses(usize),
    /// No mail address.
    #[error(
        "{0:?} is no mail address: give one such as ops@example.com, in ASCII, without a name or brackets"
    )]
    Address(String),
    /// A login without TLS.
    #[error("the password would be sent for all to read: choose TLS or STARTTLS, or give no login")]
    LoginInTheOpen,
    /// No URL of a webhook.
    #[error(
        "this is no URL of a webhook: give one such as https://hooks.example/path, in ASCII, without a #fragment"
    )]
    Url,
    /// Who logs in stands in the URL.
    #[error(
        "a URL with a user name or password in it is not taken: the receiver knows us by the signature"
    )]
    UrlUser,
    /// A URL that is too long.
    #[error("the URL is too long: give one of {0} bytes at most")]
    UrlTooLong(usize),
    /// A secret that is none.
    #[error(
        "the secret is empty, too long, or has control characters: give 1 to {SECRET_BYTES_MAX} bytes of text"
    )]
    Secret,
    /// What is to be trusted is no certificate.
    #[error(
        "what is to be trusted is no certificate: give the authority's certificate as PEM (-----BEGIN CERTIFICATE-----), \
         {AUTHORITY_BYTES_MAX} bytes at most"
    )]
    Authority,
}

impl Receiver {
    /// Whether messages can be sent there, as far as that can be told without sending one.
    ///
    /// # Errors
    /// [`ReceiverError`], for people.
    pub fn check(&self) -> Result<(), ReceiverError> {
        let authority = match self {
            Self::Mail(mail) => {
                mail.check()?;
                &mail.authority
            }
            Self::Webhook(webhook) => {
                webhook.check()?;
                &webhook.authority
            }
        };
        authority.as_deref().map(authorities).transpose().map(drop)
    }
}

/// Checks a secret: some bytes of text.
pub(crate) fn check_secret(secret: &str) -> Result<(), ReceiverError> {
    let is_text = !secret.chars().any(char::is_control);
    let fits = (1..=SECRET_BYTES_MAX).contains(&secret.len());
    (is_text && fits).then_some(()).ok_or(ReceiverError::Secret)
}

/// The certificates in a PEM, as what is trusted.
pub(crate) fn authorities(pem: &str) -> Result<RootCertStore, ReceiverError> {
    holdfast_outside::authorities(pem).map_err(|_| ReceiverError::Authority)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_is_not_trusted() {
        let key = rcgen::KeyPair::generate().unwrap();
        let parameters = rcgen::CertificateParams::new(["relay.example".to_owned()]).unwrap();
        let pem = parameters.self_signed(&key).unwrap().pem();
        assert_eq!(authorities(&pem).unwrap().len(), 1);
        assert_eq!(authorities(&format!("{pem}{pem}")).unwrap().len(), 2);
        let damaged = pem.replacen("MII", "AAA", 1);
        let long = format!("{pem}{}", "\n".repeat(AUTHORITY_BYTES_MAX));
        for refused in ["", "nonsense", &key.serialize_pem(), &damaged, &long] {
            assert_eq!(
                authorities(refused).map(|_| ()),
                Err(ReceiverError::Authority)
            );
        }
    }

    #[test]
    fn secrets_are_some_bytes_of_text() {
        let longest = "x".repeat(SECRET_BYTES_MAX);
        for good in ["x", "pass word ü", &longest] {
            assert_eq!(check_secret(good), Ok(()));
        }
        let long = "x".repeat(SECRET_BYTES_MAX + 1);
        for bad in ["", "a\nb", "a\0b", &long] {
            assert_eq!(check_secret(bad), Err(ReceiverError::Secret));
        }
    }
}
