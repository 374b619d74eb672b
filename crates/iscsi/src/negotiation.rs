//! Text negotiation (RFC 7143 6 and 13): keys, values, and what comes out when two sides differ.
//!
//! It refuses to know PDUs and stages of a login; it is given text and gives text.
//!
//! Invariants:
//! - text has at most [`KEYS_MAX`] pairs, each with a key of at most [`KEY_LENGTH_MAX`] bytes and a
//!   value of at most [`VALUE_LENGTH_MAX`];
//! - a result is always within the range that the RFC gives to its key, whatever was offered;
//! - a key is negotiated once in a login, a second time is an error.

mod key;
mod parameters;
mod text;
mod value;

pub use key::Key;
pub use parameters::{Answer, NegotiationError, Parameters, Preferences};
pub use text::{KEY_LENGTH_MAX, KEYS_MAX, Pair, TextError, VALUE_LENGTH_MAX, parse_text, put_pair};
pub use value::{Digest, parse_boolean, parse_number};

#[cfg(test)]
mod tests;
