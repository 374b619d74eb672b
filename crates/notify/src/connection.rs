//! A connection to a receiver: one of crate `outside`, where the system's authorities are trusted, and one more.
//!
//! Invariant: whatever becomes of it is told as something that becomes of a message.

use std::io;

use holdfast_outside::{Failure, Trust, UrlError};

pub(crate) use holdfast_outside::{Peer, Wire};

use crate::{ReceiverError, Undelivered};

/// Whom to trust, with one that a receiver's owner has given.
pub(crate) fn trust(authority: Option<&str>) -> Trust<'_> {
    authority.map_or(Trust::System, Trust::Also)
}

impl From<Failure> for Undelivered {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unreachable { at, error } => Self::Unreachable { at, error },
            Failure::TooSlow { at, stage } => Self::TooSlow { at, stage },
            Failure::Tls { at, failure } => Self::Tls { at, failure },
            Failure::Broken { at, error } => Self::Broken { at, error },
            Failure::Stranger { at } => Self::Stranger {
                at,
                protocol: "HTTP",
            },
            Failure::TooLong { at, .. } => Self::Broken {
                at,
                error: io::ErrorKind::InvalidData.into(),
            },
            Failure::Authority(_) => Self::Receiver(ReceiverError::Authority),
        }
    }
}

impl From<UrlError> for ReceiverError {
    fn from(error: UrlError) -> Self {
        match error {
            UrlError::Malformed => Self::Url,
            UrlError::User => Self::UrlUser,
            UrlError::TooLong => Self::UrlTooLong(holdfast_outside::URL_BYTES_MAX),
        }
    }
}
