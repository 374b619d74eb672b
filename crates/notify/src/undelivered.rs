//! Why a message did not arrive, whether it is worth another try, and what to do.
//!
//! Invariants: what others have said is cut, and is one line; no secret is in it, nor a URL's path.

use std::fmt;
use std::io;

pub use holdfast_outside::{Stage, TlsFailure};

use crate::{ReceiverError, Reply};

/// Why a message did not arrive.
#[derive(Debug, thiserror::Error)]
pub enum Undelivered {
    /// It was not to be sent any more when the receiver was there.
    #[error("it was not to be sent any more")]
    CalledOff,
    /// There is no sending to such a receiver.
    #[error(transparent)]
    Receiver(#[from] ReceiverError),
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
    #[error("what answers at {at} does not speak {protocol}")]
    Stranger {
        /// Host and port.
        at: String,
        /// What was expected.
        protocol: &'static str,
    },
    /// The mail server is to be spoken to by STARTTLS, and does not offer it.
    #[error("{at} does not offer STARTTLS, so that nothing was sent")]
    NoStartTls {
        /// Host and port.
        at: String,
    },
    /// The mail server takes no login that we know.
    #[error("{at} takes no login by PLAIN or LOGIN")]
    NoLogin {
        /// Host and port.
        at: String,
    },
    /// The mail server refuses.
    #[error("{at} refused {step}: {reply}")]
    Refused {
        /// Host and port.
        at: String,
        /// What it refused.
        step: SmtpStep,
        /// What it said.
        reply: Reply,
    },
    /// The mail went to some addresses, and was refused for others. Another try would send it to the former again.
    #[error("the mail was taken, but {at} refused {}", each(refused))]
    Partly {
        /// Host and port.
        at: String,
        /// The addresses that it did not go to, and what was said of each.
        refused: Vec<(String, Reply)>,
    },
    /// A webhook's answer is not one of success.
    #[error("{at} answered with HTTP status {status}{}", quoted(text))]
    Status {
        /// The URL without its path.
        at: String,
        /// The status.
        status: u16,
        /// The begin of what it said.
        text: String,
    },
}

/// What a mail server may refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmtpStep {
    /// To speak with us at all.
    Greeting,
    /// To begin with TLS.
    StartTls,
    /// User name and password.
    Login,
    /// The address that the mail is from.
    Sender,
    /// All addresses that it is for.
    Recipient,
    /// The mail itself.
    Content,
}

impl Undelivered {
    /// Whether the same would come of another try: the receiver is wrong, or has refused for good. Whoever retries gives
    /// up then.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Receiver(_) | Self::Partly { .. } => true,
            Self::CalledOff
            | Self::Unreachable { .. }
            | Self::TooSlow { .. }
            | Self::Tls { .. }
            | Self::Broken { .. }
            | Self::Stranger { .. }
            | Self::NoStartTls { .. }
            | Self::NoLogin { .. } => false,
            Self::Refused { reply, .. } => reply.code >= 500,
            // "Request Timeout", "Too Early" and "Too Many Requests" are about now; a redirection will be one again.
            Self::Status { status, .. } => {
                (300..500).contains(status) && !matches!(status, 408 | 425 | 429)
            }
        }
    }

    /// What somebody may do about it.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::CalledOff => "nothing is to be done: there is nothing to tell",
            Self::Receiver(_) => "correct the receiver",
            Self::Unreachable { .. } => {
                "check host and port, and that this node finds the name and reaches it (DNS, routes, firewalls)"
            }
            Self::TooSlow { stage, .. } => help_of_stage(*stage),
            Self::Tls { failure, .. } => help_of_tls(failure),
            Self::Broken { .. } => {
                "look at the log of the receiver, and of what stands between: it closed the connection"
            }
            Self::Stranger { .. } => "check host, port and security: something else listens there",
            Self::NoStartTls { .. } => {
                "set up TLS on the mail server; if it has TLS from the begin (port 465), choose that"
            }
            Self::NoLogin { .. } => {
                "have the mail server offer PLAIN or LOGIN over TLS, or give no login"
            }
            Self::Refused { reply, .. } if reply.code < 500 => {
                "the mail server does not take it now: it is tried again"
            }
            Self::Refused { step, .. } => step.help(),
            Self::Partly { .. } => {
                "correct the addresses that were refused; the others have the mail"
            }
            Self::Status { status, .. } => help_of_status(*status),
        }
    }
}

fn help_of_status(status: u16) -> &'static str {
    match status {
        300..=399 => {
            "redirections are not followed, so that messages go nowhere else: give the URL that it leads to"
        }
        401 | 403 => "check the URL and the secret: the receiver does not let us in",
        404 | 405 | 410 => "check the URL: nothing takes messages there",
        408 | 425 | 429 => "the receiver has too much to do: it is tried again",
        400..=499 => {
            "the receiver does not want what it was sent: it has to take JSON as documented, or something between has to translate"
        }
        _ => "look at the log of the receiver: it failed",
    }
}

impl SmtpStep {
    fn help(self) -> &'static str {
        match self {
            Self::Greeting => "have the mail server take mail from this node's address",
            Self::StartTls => "look at the log of the mail server: its TLS does not work",
            Self::Login => "check the user name and the password",
            Self::Sender => {
                "give a sender address that the mail server takes mail from; it may want TLS or a login before"
            }
            Self::Recipient => {
                "check the addresses; the mail server may pass mail on to others for who has logged in only"
            }
            Self::Content => "look at the log of the mail server: it does not want such mail",
        }
    }
}

fn help_of_stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Connect => {
            "check host, port and firewalls: packets are dropped, or the host is down"
        }
        Stage::Handshake => "check port and security: what listens there may not begin with TLS",
        Stage::Answer => "look at the receiver: it took the connection and does not answer",
    }
}

fn help_of_tls(failure: &TlsFailure) -> &'static str {
    match failure {
        TlsFailure::Untrusted => {
            "if the receiver's authority is your own, give its certificate with the receiver, or install it on each node"
        }
        TlsFailure::Expired => "renew the receiver's certificate, or correct this node's clock",
        TlsFailure::OtherName => "give the host by a name that stands in its certificate",
        TlsFailure::Plain => "check port and security: this port is one without TLS at the begin",
        TlsFailure::Handshake(_) => "check that the receiver speaks TLS 1.2 or 1.3",
    }
}

impl fmt::Display for SmtpStep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Greeting => "to speak with us",
            Self::StartTls => "to begin with TLS",
            Self::Login => "the login",
            Self::Sender => "the sender",
            Self::Recipient => "the recipients",
            Self::Content => "the mail",
        })
    }
}

fn each(refused: &[(String, Reply)]) -> String {
    let each = refused.iter();
    let each = each.map(|(address, reply)| format!("{address} ({reply})"));
    each.collect::<Vec<_>>().join(", ")
}

fn quoted(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(": {text:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_whether_another_try_helps() {
        for (status, is_permanent) in [
            (100, false),
            (302, true),
            (308, true),
            (400, true),
            (404, true),
            (408, false),
            (410, true),
            (425, false),
            (429, false),
            (499, true),
            (500, false),
            (503, false),
        ] {
            let undelivered = Undelivered::Status {
                at: "https://hooks.example".to_owned(),
                status,
                text: String::new(),
            };
            assert_eq!(undelivered.is_permanent(), is_permanent, "{status}");
            assert!(!undelivered.help().is_empty(), "{status}");
        }
    }
}
