//! Tells people of alarms, by mail and by webhook.
//!
//! [`deliver`] sends one message to one receiver, once. It refuses to decide what is told, to whom and how often, to keep
//! anything, and to try again: [`Undelivered::is_permanent`] says whether that is worth it.
//!
//! Invariants:
//! - a delivery ends within [`DELIVERY_TIME_MAX`], and reads a bounded number of bytes, whatever the receiver does;
//! - a password goes over TLS only;
//! - TLS is with who shows a certificate that is trusted, or not at all;
//! - no text of an alarm or a receiver becomes a header, a command or a second message.
#![forbid(unsafe_code)]

mod connection;
mod mail;
mod message;
mod receiver;
mod secret;
mod undelivered;
mod webhook;

use std::time::Duration;

pub use mail::{ADDRESSES_MAX, Mail, MailSecurity, Reply};
pub use message::{ALARMS_MAX, Change, Message, Severity, Told};
pub use receiver::{Receiver, ReceiverError};
pub use secret::Secret;
pub use undelivered::{SmtpStep, Stage, TlsFailure, Undelivered};
pub use webhook::{SIGNATURE_FIELD, Webhook};

/// How long a delivery may take, from finding the receiver's address to its last answer.
pub const DELIVERY_TIME_MAX: Duration = Duration::from_secs(60);

/// Sends a message to a receiver, once. Within [`DELIVERY_TIME_MAX`] it has arrived, or it is said why not.
///
/// That a message is not said to have arrived does not mean that it has not: the answer may have been lost. Sent again, it
/// has the same id.
///
/// # Errors
/// [`Undelivered`]: what is wrong, whether another try may help, and what to do.
pub async fn deliver(receiver: &Receiver, message: &Message) -> Result<(), Undelivered> {
    deliver_within(receiver, message, DELIVERY_TIME_MAX).await
}

/// The same, where that may be called off: `may_begin` is asked when the receiver is there, right before the message is sent. Where it
/// has not answered, or has answered no, nothing of the message has been sent.
///
/// # Errors
/// [`Undelivered`], which is [`Undelivered::CalledOff`] where it has answered no.
pub async fn deliver_if(
    receiver: &Receiver,
    message: &Message,
    may_begin: MayBegin<'_>,
) -> Result<(), Undelivered> {
    send(receiver, message, (DELIVERY_TIME_MAX, may_begin)).await
}

/// The same with a patience of the caller's own, which is no longer than [`DELIVERY_TIME_MAX`].
///
/// # Errors
/// [`Undelivered`].
pub async fn deliver_within(
    receiver: &Receiver,
    message: &Message,
    patience: Duration,
) -> Result<(), Undelivered> {
    let patience = patience.min(DELIVERY_TIME_MAX);
    send(receiver, message, (patience, &|| true)).await
}

/// Asked whether a message may be sent now.
pub type MayBegin<'a> = &'a (dyn Fn() -> bool + Send + Sync);

async fn send(
    receiver: &Receiver,
    message: &Message,
    how: (Duration, MayBegin<'_>),
) -> Result<(), Undelivered> {
    receiver.check()?;
    match receiver {
        Receiver::Mail(mail) => mail.send(message, how).await,
        Receiver::Webhook(webhook) => webhook.send(message, how).await,
    }
}
