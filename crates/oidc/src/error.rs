//! Why nobody was let in.
//!
//! Invariants:
//! - neither a code, a token, a secret nor what a claim says is in it;
//! - what the provider says is a short word, or is left out.

use std::sync::Arc;

use holdfast_outside::{Failure, UrlError};

/// Letters of a provider's error code at most (RFC 6749, section 4.1.2.1, has words such as `access_denied`).
const CODE_LENGTH_MAX: usize = 64;

/// Why a login did not begin or did not end.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LoginError {
    /// It began nowhere, in another browser, or too long ago.
    #[error("the browser brought nothing by which its login is known here, or took too long")]
    Unknown,
    /// What came back is not of this login.
    #[error("what the browser brought back is not of the login that it began")]
    OtherLogin,
    /// What came back is of another provider (RFC 9207).
    #[error("what the browser brought back is not said to be of this provider")]
    OtherIssuer,
    /// It has had its try: a code is redeemed once.
    #[error(
        "the login was ended before, here or by somebody who had what the browser brought back"
    )]
    Ended,
    /// The provider lets nobody in, and says so to the browser.
    #[error("the provider refused: {0}")]
    Refused(ErrorCode),
    /// The browser brought neither a code nor an error.
    #[error("the browser brought no code back")]
    NoCode,
    /// The code was not redeemed.
    #[error("the provider did not redeem the code: {0}")]
    NotRedeemed(ErrorCode),
    /// There is no answer to be had, or none that makes sense.
    #[error(transparent)]
    Provider(#[from] Arc<ProviderError>),
    /// The ID token is not to be believed.
    #[error("the provider's ID token is not believed: {0}")]
    Token(#[from] TokenError),
    /// It is known who it is, and that one has no role.
    #[error("no value of the claim that says roles is mapped to one")]
    NoRole {
        /// Who, as the provider calls that one for good.
        subject: String,
        /// As people do.
        name: String,
    },
    /// Too many log in at the same time.
    #[error("too many log in at the same time")]
    Busy,
    /// The system has no random bytes.
    #[error("the system has no random bytes")]
    NoRandom,
}

/// The provider's word for a code that is no good: made up, used, of another login, or too old (RFC 6749, section 5.2).
const NO_GOOD: &str = "invalid_grant";

impl LoginError {
    /// Whether somebody may have guessed, at the cost of a question to the provider: with a code that is no good, or that is of
    /// another login. It is for whoever counts what fails.
    ///
    /// All else that comes of such a question is for the provider, or for what is configured: the browser has nothing to do with
    /// an ID token, which the provider itself hands out. What is refused before costs no question.
    #[must_use]
    pub fn is_guess(&self) -> bool {
        match self {
            Self::NotRedeemed(code) => code.as_str() == NO_GOOD,
            Self::Token(error) => *error == TokenError::Nonce,
            _ => false,
        }
    }
}

/// Why the provider cannot be worked with.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// There is no answer.
    #[error("{what}: {failure}")]
    Unanswered {
        /// What was asked for.
        what: &'static str,
        /// Why not.
        failure: Failure,
    },
    /// It is no answer of success. Redirections are none: they are not followed.
    #[error("{what}: the provider answers with HTTP status {status}")]
    Status {
        /// What was asked for.
        what: &'static str,
        /// The status.
        status: u16,
    },
    /// What it answers cannot be read.
    #[error("{what}: what the provider answers is not what the standard says")]
    Unreadable {
        /// What was asked for.
        what: &'static str,
    },
    /// It calls itself otherwise (OpenID Connect Discovery 1.0, section 4.3).
    #[error(
        "the provider's discovery document is of another issuer than `oidc.issuer` says; they have to be the same, letter by \
         letter"
    )]
    OtherIssuer,
    /// One of its addresses is none.
    #[error("the provider's discovery document: {what} {error}")]
    Address {
        /// Which.
        what: &'static str,
        /// Why not.
        error: UrlError,
    },
    /// One of its addresses is to be reached without TLS.
    #[error("the provider's discovery document: {0} is not https://")]
    Plain(&'static str),
    /// It does not take a client's secret in a way that is known here.
    #[error(
        "the provider takes a client's secret neither by client_secret_basic nor by client_secret_post"
    )]
    Authentication,
}

/// Why an ID token is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// There is none.
    #[error("there is none in the answer; the scope `openid` asks for it")]
    Missing,
    /// It is no token.
    #[error("it is none")]
    Malformed,
    /// It is signed in a way that is not believed: not at all, or with a secret.
    #[error("it is not signed by RS256 to RS512, PS256 to PS512, ES256, ES384 or EdDSA")]
    Algorithm,
    /// The key is not among the provider's.
    #[error("its key is not among the provider's")]
    UnknownKey,
    /// It is signed by nobody, or by somebody else.
    #[error("its signature is not the provider's")]
    Signature,
    /// It is of another issuer.
    #[error("it is of another issuer")]
    Issuer,
    /// It is for another client.
    #[error("it is for another client")]
    Audience,
    /// Its time is over, or has not come: a clock may be wrong.
    #[error(
        "it has expired, or is not valid yet; is the clock of this node, or of the provider, wrong?"
    )]
    Time,
    /// It is of another login.
    #[error("it is of another login")]
    Nonce,
    /// It does not say who it is about.
    #[error("it does not say whom it is about")]
    Subject,
}

/// A provider's word for what is wrong, if it is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorCode(String);

impl ErrorCode {
    pub(crate) fn of(text: &str) -> Self {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        let is_code = (1..=CODE_LENGTH_MAX).contains(&text.len()) && text.bytes().all(is_word);
        Self(if is_code { text } else { "without a word" }.to_owned())
    }

    /// The word.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guess_is_a_code_that_is_no_good_and_nothing_that_the_provider_is_to_blame_for() {
        let not_redeemed = |word| LoginError::NotRedeemed(ErrorCode::of(word));
        assert!(not_redeemed("invalid_grant").is_guess());
        assert!(LoginError::from(TokenError::Nonce).is_guess());
        let words = [
            "invalid_client",
            "unauthorized_client",
            "temporarily_unavailable",
            "",
        ];
        let blameless = words.map(not_redeemed).into_iter().chain([
            LoginError::Refused(ErrorCode::of("access_denied")),
            LoginError::NoCode,
            LoginError::OtherIssuer,
            LoginError::NoRole {
                subject: "f7c2-ada".to_owned(),
                name: "ada".to_owned(),
            },
            TokenError::Time.into(),
            TokenError::Signature.into(),
            TokenError::Missing.into(),
            Arc::new(ProviderError::Authentication).into(),
        ]);
        for error in blameless {
            assert!(!error.is_guess(), "{error}");
        }
    }

    #[test]
    fn only_words_are_repeated() {
        assert_eq!(ErrorCode::of("access_denied").as_str(), "access_denied");
        for odd in ["", "<b>", "a b", "a\nb", &"x".repeat(65)] {
            assert_eq!(ErrorCode::of(odd).as_str(), "without a word");
        }
    }
}
