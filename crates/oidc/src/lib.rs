//! Logins at an OpenID Connect provider: the authorization code flow with PKCE (OpenID Connect Core 1.0, section 3.1; RFC 7636;
//! RFC 9700), and what is believed of the provider's answers.
//!
//! A [`Provider`] sends a browser away with a *ticket*, a sealed text that the browser keeps as a cookie, and judges what it
//! brings back. All that a login needs is in the ticket, so that it may end at another node than where it began, and nothing
//! is kept anywhere for those that never come back.
//!
//! It refuses to know of cookies, of sessions, and of who answers HTTP; and to take a token's word for how it is signed.
//!
//! Invariants:
//! - nobody is let in without an ID token that the provider's own key has signed, for this client, for this very login, and
//!   with a claim that is mapped to a role;
//! - `none`, and what is made with a shared secret, is no signature;
//! - what the provider answers is bounded in length and in time, and no redirection is followed;
//! - neither a code, a token, a secret nor a claim's value is in an error: they are logged.
#![forbid(unsafe_code)]

mod claims;
mod documents;
mod encoding;
mod error;
mod keys;
mod provider;
mod redeeming;
mod said;
mod settings;
mod signature;
mod ticket;

pub use claims::Person;
pub use error::{LoginError, ProviderError, TokenError};
pub use provider::{Beginning, Provider, Returned};
pub use settings::{CALLBACK_PATH, Settings, SettingsError};
pub use ticket::{NoRandom, TICKET_LIFETIME, TicketKey};
