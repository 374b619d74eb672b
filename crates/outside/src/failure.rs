//! Why there is no answer.
//!
//! Invariant: nothing of a URL but its origin is in it: paths and queries may be secrets.

use std::fmt;
use std::io;

use crate::AuthorityError;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// No connection.
    #[error("cannot connect to {at}: {error}")]
    Unreachable {
        /// Host and port.
        at: String,
        /// Why not.
        error: io::Error,
    },
    /// It took too long.
    #[error("{at} was too slow: {stage} took too long")]
    TooSlow {
        /// Host and port.
        at: String,
        /// What was waited for.
        stage: Stage,
    },
    /// No TLS, or none with whom is trusted.
    #[error("no TLS with {at}: {failure}")]
    Tls {
        /// Host and port.
        at: String,
        /// Why not.
        failure: TlsFailure,
    },
    /// The connection broke.
    #[error("the connection to {at} broke: {error}")]
    Broken {
        /// Host and port.
        at: String,
        /// How.
        error: io::Error,
    },
    /// What answers is not what was expected.
    #[error("what answers at {at} does not speak HTTP")]
    Stranger {
        /// Host and port.
        at: String,
    },
    /// The answer is longer than any that makes sense.
    #[error("{at} answered with more than {bytes_max} bytes")]
    TooLong {
        /// Host and port.
        at: String,
        /// How many there may be.
        bytes_max: usize,
    },
    /// Whom to trust cannot be read.
    #[error("the authority that is to be trusted {0}")]
    Authority(#[from] AuthorityError),
}

/// What was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Finding the address, and connecting.
    Connect,
    /// The TLS handshake.
    Handshake,
    /// An answer.
    Answer,
}

impl fmt::Display for Stage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Connect => "connecting",
            Self::Handshake => "the TLS handshake",
            Self::Answer => "its answer",
        })
    }
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsFailure {
    /// Nobody who is trusted has signed the certificate.
    #[error("its certificate is not of an authority that is trusted here")]
    Untrusted,
    /// Its time is over, or has not come.
    #[error("its certificate has expired or is not valid yet")]
    Expired,
    /// It is for other names.
    #[error("its certificate is for another name")]
    OtherName,
    /// What answers does not speak TLS.
    #[error("what answers does not speak it")]
    Plain,
    /// The handshake failed.
    #[error("{0}")]
    Handshake(io::Error),
}
