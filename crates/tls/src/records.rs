//! What two nodes say to each other once they have shaken hands: records that are sealed and opened.
//!
//! rustls makes the keys, and does the cryptography; only the framing of RFC 8446, section 5, is here, so that what is sent is
//! gathered and sealed in one go, and what comes is opened where it lies.
//!
//! It refuses to know a socket, to keep what it is given, and to take anything but data, an end and a change of keys.
//!
//! Invariants:
//! - records are numbered without a gap in each direction, and one that does not fit its number, or was changed, ends the
//!   connection;
//! - keys seal no more records than their cipher allows ([`CipherSuiteCommon`](rustls::CipherSuiteCommon)): others follow before.

use std::fmt;
use std::ops::Range;

use rustls::client::ClientConnectionData;
use rustls::crypto::cipher::{
    InboundOpaqueMessage, MessageDecrypter, MessageEncrypter, OutboundChunks, OutboundPlainMessage,
};
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;
use rustls::{
    AlertDescription, ConnectionTrafficSecrets, ContentType, ExtractedSecrets, ProtocolVersion,
    SupportedCipherSuite, Tls13CipherSuite,
};

use crate::peers::refusal;

/// Bytes of a record's header (RFC 8446, section 5.1).
const HEADER_BYTES: usize = 5;
/// Bytes that a record can hold (the same).
pub const RECORD_BYTES_MAX: usize = 1 << 14;
/// Bytes of a record with its header, at most (section 5.2).
pub const SEALED_BYTES_MAX: usize = HEADER_BYTES + RECORD_BYTES_MAX + 256;
/// `KeyUpdate`, which asks for none in return (section 4.6.3).
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];
/// A warning alert, `close_notify` (section 6.1).
const CLOSE_NOTIFY: [u8; 2] = [1, 0];
/// The level of an alert that ends the connection (section 6.2).
const FATAL: u8 = 2;

/// Records in a row that bring no data, at most, as rustls has it.
const IDLE_RECORDS_MAX: u32 = 32;

/// Whatever makes the next keys.
pub(crate) enum Schedule {
    Dialled(KernelConnection<ClientConnectionData>),
    Answered(KernelConnection<ServerConnectionData>),
}

/// Seals one direction of a connection, and opens the other.
pub struct Records {
    schedule: Schedule,
    suite: &'static Tls13CipherSuite,
    encrypter: Box<dyn MessageEncrypter>,
    /// Records that were sealed with these keys.
    sealed: u64,
    /// How many may be.
    sealed_max: u64,
    decrypter: Box<dyn MessageDecrypter>,
    /// Records that were opened with these keys.
    opened: u64,
    /// The other end wants other keys.
    update_due: bool,
    /// Records without data since the last one with some.
    idle: u32,
}

/// What a record held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// Data, which now lies there in the record.
    Data(Range<usize>),
    /// Something between the two ends.
    Nothing,
    /// Nothing follows.
    End,
}

/// A record that ends the connection.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It is none.
    #[error("what came is no record of TLS")]
    Malformed,
    /// It was changed on its way, or is not the one that was to come.
    #[error("a record of TLS was changed on its way, or is out of order")]
    Forged,
    /// The other end does not trust this one.
    #[error("it refuses this node's certificate: {0}")]
    Refused(&'static str),
    /// The other end gives up.
    #[error("it ended TLS: {}", reason(*.0))]
    Alert(AlertDescription),
    /// The keys cannot be used, or none be made.
    #[error("the keys of the connection fail: {0}")]
    Keys(rustls::Error),
}

impl Schedule {
    fn suite(&self) -> SupportedCipherSuite {
        match self {
            Self::Dialled(connection) => connection.negotiated_cipher_suite(),
            Self::Answered(connection) => connection.negotiated_cipher_suite(),
        }
    }
}

impl Records {
    pub(crate) fn new(secrets: ExtractedSecrets, schedule: Schedule) -> Self {
        let SupportedCipherSuite::Tls13(suite) = schedule.suite() else {
            unreachable!("both ends speak TLS 1.3 and nothing else");
        };
        let ExtractedSecrets {
            tx: (sealed, seals),
            rx: (opened, opens),
        } = secrets;
        Self {
            encrypter: encrypter(suite, seals),
            sealed,
            sealed_max: suite.common.confidentiality_limit,
            decrypter: decrypter(suite, opens),
            opened,
            schedule,
            suite,
            update_due: false,
            idle: 0,
        }
    }

    /// Seals what the parts hold, [`RECORD_BYTES_MAX`] at most, and gives `out` the record; before it, if other keys are due, the
    /// one that says so.
    ///
    /// # Errors
    /// [`RecordError::Keys`].
    pub fn seal(
        &mut self,
        parts: &[&[u8]],
        out: &mut impl Extend<Vec<u8>>,
    ) -> Result<(), RecordError> {
        self.change_keys_if_due(out)?;
        out.extend([self.seal_as(ContentType::ApplicationData, parts)?]);
        Ok(())
    }

    /// Seals that nothing follows, and before it other keys that are due: the other end may have asked for them, and waits.
    ///
    /// # Errors
    /// [`RecordError::Keys`].
    pub fn seal_end(&mut self, out: &mut impl Extend<Vec<u8>>) -> Result<(), RecordError> {
        self.change_keys_if_due(out)?;
        out.extend([self.seal_as(ContentType::Alert, &[&CLOSE_NOTIFY])?]);
        Ok(())
    }

    /// The record by which the other end learns why what it sent was refused (section 6.2), if it does not know already. It is
    /// the last one.
    #[must_use]
    pub fn seal_refusal(&mut self, cause: &RecordError) -> Option<Vec<u8>> {
        let alert = match cause {
            RecordError::Forged => AlertDescription::BadRecordMac,
            RecordError::Malformed => AlertDescription::UnexpectedMessage,
            RecordError::Keys(_) => AlertDescription::InternalError,
            RecordError::Refused(_) | RecordError::Alert(_) => return None,
        };
        let alert = [FATAL, alert.into()];
        self.seal_as(ContentType::Alert, &[&alert]).ok()
    }

    fn change_keys_if_due(&mut self, out: &mut impl Extend<Vec<u8>>) -> Result<(), RecordError> {
        // The record that says so is one as well.
        if !self.update_due && self.sealed + 1 < self.sealed_max {
            return Ok(());
        }
        self.update_due = false;
        out.extend([self.seal_as(ContentType::Handshake, &[&KEY_UPDATE])?]);
        let next = match &mut self.schedule {
            Schedule::Dialled(connection) => connection.update_tx_secret(),
            Schedule::Answered(connection) => connection.update_tx_secret(),
        };
        let (sealed, secrets) = next.map_err(RecordError::Keys)?;
        self.encrypter = encrypter(self.suite, secrets);
        self.sealed = sealed;
        Ok(())
    }

    fn seal_as(&mut self, typ: ContentType, parts: &[&[u8]]) -> Result<Vec<u8>, RecordError> {
        let payload = OutboundChunks::new(parts);
        assert!(
            payload.len() <= RECORD_BYTES_MAX,
            "a record holds that much"
        );
        let message = OutboundPlainMessage {
            typ,
            version: ProtocolVersion::TLSv1_2,
            payload,
        };
        let sealed = self.encrypter.encrypt(message, self.sealed);
        self.sealed += 1;
        Ok(sealed.map_err(RecordError::Keys)?.encode())
    }

    /// Opens a whole record, as [`record_length`] tells, where it lies.
    ///
    /// # Errors
    /// [`RecordError`]; the connection is of no more use then.
    pub fn open(&mut self, record: &mut [u8]) -> Result<Opened, RecordError> {
        let kind = ContentType::from(record[0]);
        if kind != ContentType::ApplicationData {
            // All that is not sealed is refused: an alert that anybody can have put there, too.
            return Err(RecordError::Malformed);
        }
        let sealed =
            InboundOpaqueMessage::new(kind, ProtocolVersion::TLSv1_2, &mut record[HEADER_BYTES..]);
        let opened = self.decrypter.decrypt(sealed, self.opened);
        self.opened += 1;
        let opened = opened.map_err(|_| RecordError::Forged)?;
        match (opened.typ, opened.payload) {
            (ContentType::ApplicationData, data) => {
                if data.is_empty() {
                    self.note_idle()?;
                } else {
                    self.idle = 0;
                }
                Ok(Opened::Data(HEADER_BYTES..HEADER_BYTES + data.len()))
            }
            (ContentType::Alert, [_, alert]) => match AlertDescription::from(*alert) {
                AlertDescription::CloseNotify => Ok(Opened::End),
                alert => {
                    Err(refusal(alert).map_or(RecordError::Alert(alert), RecordError::Refused))
                }
            },
            (ContentType::Handshake, [24, 0, 0, 1, asks @ (0 | 1)]) => {
                self.note_idle()?;
                self.update_due |= *asks == 1;
                self.follow()?;
                Ok(Opened::Nothing)
            }
            _ => Err(RecordError::Malformed),
        }
    }

    /// Each such record costs more than it does the other end: so many in a row are an attack.
    fn note_idle(&mut self) -> Result<(), RecordError> {
        self.idle += 1;
        (self.idle <= IDLE_RECORDS_MAX)
            .then_some(())
            .ok_or(RecordError::Malformed)
    }

    /// Opens with the keys that the other end has taken.
    fn follow(&mut self) -> Result<(), RecordError> {
        let next = match &mut self.schedule {
            Schedule::Dialled(connection) => connection.update_rx_secret(),
            Schedule::Answered(connection) => connection.update_rx_secret(),
        };
        let (opened, secrets) = next.map_err(RecordError::Keys)?;
        self.decrypter = decrypter(self.suite, secrets);
        self.opened = opened;
        Ok(())
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Records")
    }
}

/// How long the first record of these bytes is, with its header; `None` if that is not here yet.
///
/// # Errors
/// [`RecordError::Malformed`] if it is longer than any record.
pub fn record_length(bytes: &[u8]) -> Result<Option<usize>, RecordError> {
    let Some([_, _, _, high, low]) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let length = HEADER_BYTES + usize::from(u16::from_be_bytes([*high, *low]));
    if length > SEALED_BYTES_MAX {
        return Err(RecordError::Malformed);
    }
    Ok(Some(length))
}

/// What an alert says, in words if they help.
fn reason(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::BadRecordMac => {
            "a record of this node was changed on its way, or is out of order".to_owned()
        }
        alert => format!("{alert:?}"),
    }
}

fn encrypter(
    suite: &Tls13CipherSuite,
    secrets: ConnectionTrafficSecrets,
) -> Box<dyn MessageEncrypter> {
    match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv }
        | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
        | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
            suite.aead_alg.encrypter(key, iv)
        }
        _ => unreachable!("there is no other suite"),
    }
}

fn decrypter(
    suite: &Tls13CipherSuite,
    secrets: ConnectionTrafficSecrets,
) -> Box<dyn MessageDecrypter> {
    match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv }
        | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
        | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
            suite.aead_alg.decrypter(key, iv)
        }
        _ => unreachable!("there is no other suite"),
    }
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
