//! How two nodes shake hands: a machine that is given what came, and says what is to be sent.
//!
//! It refuses to know a socket, and how long anything may take: that is for whoever drives it.
//!
//! Invariants:
//! - both show certificates of this authority that name this cluster and a node; whether it is the node that was meant is for
//!   whoever drives it;
//! - AES with keys of 128 bits comes first: it takes a quarter less time than with 256, and no attack on either is in reach;
//! - a handshake is bounded in bytes, and what comes behind it is not lost.

use std::fmt;
use std::sync::Arc;

use holdfast_model::{ClusterId, NodeId};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    Resumption, UnbufferedClientConnection, verify_server_cert_signed_by_trust_anchor,
};
use rustls::crypto::ring::cipher_suite::{
    TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::version::TLS13;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, CommonState, DigitallySignedStruct,
    ServerConfig, SignatureScheme,
};

use crate::NodeIdentity;
use crate::credentials::Credentials;
use crate::issued::Issued;
use crate::records::{Records, Schedule};
use crate::trust::{Clients, Trust, alone};

/// Bytes of a handshake at most, all that comes of it together: two certificates and all around them are 2 KiB.
const HANDSHAKE_BYTES_MAX: usize = 64 << 10;
/// What the connection is for: a port of another use does not answer to it.
const PROTOCOL: &[u8] = b"holdfast/peer";
/// Whom the dialling side asks for. Peers are known by what their certificates say of the node, and not by host names.
const ASKED_FOR: &str = "peer.holdfast.invalid";
/// The first bytes of what speaks TLS: a handshake's, or an alert's, then the version's upper half.
const HANDSHAKE: u8 = 22;
const ALERT: u8 = 21;
const VERSION_MAJOR: u8 = 3;

/// What a node that speaks TLS says to one that does not, before it closes: a fatal alert, `unexpected_message`.
pub const NOT_TLS: [u8; 7] = [ALERT, VERSION_MAJOR, 3, 0, 2, 2, 10];

/// Whether these are the first bytes of TLS.
#[must_use]
pub fn is_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [HANDSHAKE | ALERT, VERSION_MAJOR, ..])
}

/// A node's side of TLS between nodes.
#[derive(Clone)]
pub struct PeerTls {
    pub(crate) client: Arc<ClientConfig>,
    pub(crate) server: Arc<ServerConfig>,
    cluster: ClusterId,
}

/// Why two nodes did not come to trust each other.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// What comes is no TLS.
    #[error("it does not speak TLS")]
    Plain,
    /// Its certificate is of another authority.
    #[error("its certificate is not of the authority that is trusted here")]
    Untrusted,
    /// The time of its certificate is over, or has not come.
    #[error("its certificate has expired or is not valid yet: look at the clocks of both machines")]
    Expired,
    /// It has shown none.
    #[error("it has shown no certificate")]
    NoCertificate,
    /// It is of this authority, and names no node.
    #[error("its certificate is not that of a node")]
    NoNode,
    /// It is a node of another cluster.
    #[error("it is {0}, of another cluster")]
    OtherCluster(NodeIdentity),
    /// It speaks TLS for another purpose.
    #[error("it is not a port for peers: look whether the address is that of `api.listen`")]
    OtherPort,
    /// The other end does not trust this one.
    #[error("it refuses this node's certificate: {0}")]
    Refused(&'static str),
    /// It goes on and on.
    #[error("its handshake has no end")]
    TooLong,
    /// Anything else.
    #[error("TLS with it failed: {0}")]
    Protocol(rustls::Error),
}

impl PeerTls {
    /// With these credentials, as they are when a connection begins.
    #[must_use]
    pub fn new(credentials: &Credentials) -> Self {
        let verifier = PeerVerifier {
            trust: credentials.trust(),
            provider: provider(),
        };
        let mut client = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .expect("the provider has TLS 1.3")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_cert_resolver(credentials.shown());
        client.resumption = Resumption::disabled();
        client.enable_sni = false;
        client.alpn_protocols = vec![PROTOCOL.to_vec()];
        client.enable_secret_extraction = true;
        let verifier = Clients {
            trust: credentials.trust(),
            is_mandatory: true,
        };
        let mut server = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .expect("the provider has TLS 1.3")
            .with_client_cert_verifier(Arc::new(verifier))
            .with_cert_resolver(credentials.shown());
        server.send_tls13_tickets = 0;
        server.alpn_protocols = vec![PROTOCOL.to_vec()];
        server.enable_secret_extraction = true;
        Self {
            client: Arc::new(client),
            server: Arc::new(server),
            cluster: credentials.cluster(),
        }
    }

    /// The side that dials.
    #[must_use]
    pub fn dial(&self) -> Handshake {
        let name = ServerName::try_from(ASKED_FOR).expect("it is a name");
        let client = UnbufferedClientConnection::new(Arc::clone(&self.client), name);
        Handshake::new(
            Side::Dials(client.expect("it is a right configuration")),
            self,
        )
    }

    /// The side that answers.
    #[must_use]
    pub fn answer(&self) -> Handshake {
        let server = UnbufferedServerConnection::new(Arc::clone(&self.server));
        Handshake::new(
            Side::Answers(server.expect("it is a right configuration")),
            self,
        )
    }
}

impl fmt::Debug for PeerTls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PeerTls")
    }
}

enum Side {
    Dials(UnbufferedClientConnection),
    Answers(UnbufferedServerConnection),
}

/// A handshake that is under way.
pub struct Handshake {
    side: Side,
    cluster: ClusterId,
    /// Bytes that have come, all together.
    heard: usize,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    /// What came behind the handshake, and was opened with it.
    early: Vec<u8>,
}

/// What a handshake has come to.
pub struct Secured {
    /// Seals what is sent from now on, and opens what comes.
    pub records: Records,
    /// Who is at the other end.
    pub node: NodeId,
    /// What it has said already.
    pub opened: Vec<u8>,
    /// What has come of it already, and is not opened.
    pub unopened: Vec<u8>,
}

/// What is to happen next.
enum Next {
    Again,
    Read,
    Done,
}

impl Handshake {
    fn new(side: Side, tls: &PeerTls) -> Self {
        Self {
            side,
            cluster: tls.cluster,
            heard: 0,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            early: Vec::new(),
        }
    }

    /// Takes what came, as much as there is, and nothing at first; whether both are done. Then, and if it fails, what
    /// [`take_outgoing`](Self::take_outgoing) gives is to be sent still.
    ///
    /// # Errors
    /// [`HandshakeError`]; the connection is of no more use then.
    pub fn advance(&mut self, came: &[u8]) -> Result<bool, HandshakeError> {
        let has_heard = self.heard > 0;
        self.heard += came.len();
        if self.heard > HANDSHAKE_BYTES_MAX {
            return Err(HandshakeError::TooLong);
        }
        if let [first, ..] = came
            && !has_heard
            && !matches!(*first, HANDSHAKE | ALERT)
        {
            return Err(HandshakeError::Plain);
        }
        self.incoming.extend_from_slice(came);
        loop {
            match self.step() {
                Ok(Next::Again) => {}
                Ok(Next::Read) => return Ok(false),
                Ok(Next::Done) => return Ok(true),
                Err(error) => {
                    // The next step is the alert by which the other end is told of it, if it is to be.
                    let _ = self.step();
                    return Err(error);
                }
            }
        }
    }

    /// What is to be sent.
    pub fn take_outgoing(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outgoing)
    }

    fn step(&mut self) -> Result<Next, HandshakeError> {
        let Self {
            side,
            incoming,
            outgoing,
            early,
            ..
        } = self;
        let (discard, next) = match side {
            Side::Dials(client) => {
                let UnbufferedStatus { discard, state } = client.process_tls_records(incoming);
                let next = state.map_err(judge).and_then(|it| act(it, outgoing, early));
                (discard, next)
            }
            Side::Answers(server) => {
                let UnbufferedStatus { discard, state } = server.process_tls_records(incoming);
                let next = state.map_err(judge).and_then(|it| act(it, outgoing, early));
                (discard, next)
            }
        };
        incoming.drain(..discard);
        match next {
            Ok(Next::Done) if self.state().is_handshaking() => Ok(Next::Read),
            next => next,
        }
    }

    fn state(&self) -> &CommonState {
        match &self.side {
            Side::Dials(client) => client,
            Side::Answers(server) => server,
        }
    }

    /// Who it is, and with what the connection goes on. To be called when both are done.
    ///
    /// # Errors
    /// [`HandshakeError`] if the other end is not a node of this cluster, or was not asked for as one.
    pub fn finish(self) -> Result<Secured, HandshakeError> {
        let state = self.state();
        if state.alpn_protocol() != Some(PROTOCOL) {
            return Err(HandshakeError::OtherPort);
        }
        let shown = state.peer_certificates().and_then(<[_]>::first);
        let shown = shown.ok_or(HandshakeError::NoCertificate)?;
        let issued = Issued::read(shown).ok_or(HandshakeError::NoNode)?;
        let identity = issued.identity.ok_or(HandshakeError::NoNode)?;
        if identity.cluster != self.cluster {
            return Err(HandshakeError::OtherCluster(identity));
        }
        let (secrets, schedule) = match self.side {
            Side::Dials(client) => {
                let done = client.dangerous_into_kernel_connection();
                let (secrets, schedule) = done.map_err(HandshakeError::Protocol)?;
                (secrets, Schedule::Dialled(schedule))
            }
            Side::Answers(server) => {
                let done = server.dangerous_into_kernel_connection();
                let (secrets, schedule) = done.map_err(HandshakeError::Protocol)?;
                (secrets, Schedule::Answered(schedule))
            }
        };
        Ok(Secured {
            records: Records::new(secrets, schedule),
            node: identity.node,
            opened: self.early,
            unopened: self.incoming,
        })
    }
}

/// Does what the connection wants done.
fn act<Data>(
    state: ConnectionState<'_, '_, Data>,
    outgoing: &mut Vec<u8>,
    early: &mut Vec<u8>,
) -> Result<Next, HandshakeError> {
    match state {
        ConnectionState::EncodeTlsData(mut data) => {
            if let Err(EncodeError::InsufficientSize(missing)) = data.encode(&mut []) {
                let start = outgoing.len();
                outgoing.resize(start + missing.required_size, 0);
                data.encode(&mut outgoing[start..])
                    .expect("there is as much room as it wants");
            }
            Ok(Next::Again)
        }
        ConnectionState::TransmitTlsData(data) => {
            // It goes out before anything that is said later.
            data.done();
            Ok(Next::Again)
        }
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                early.extend_from_slice(record.map_err(judge)?.payload);
            }
            Ok(Next::Again)
        }
        ConnectionState::BlockedHandshake => Ok(Next::Read),
        ConnectionState::WriteTraffic(_) => Ok(Next::Done),
        _ => Err(HandshakeError::Protocol(rustls::Error::General(
            "it was closed in the handshake".to_owned(),
        ))),
    }
}

fn judge(error: rustls::Error) -> HandshakeError {
    match error {
        rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => HandshakeError::Untrusted,
        rustls::Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        ) => HandshakeError::Expired,
        rustls::Error::NoCertificatesPresented => HandshakeError::NoCertificate,
        rustls::Error::NoApplicationProtocol
        | rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            HandshakeError::OtherPort
        }
        rustls::Error::AlertReceived(alert) => {
            refusal(alert).map_or(HandshakeError::Protocol(error), HandshakeError::Refused)
        }
        error => HandshakeError::Protocol(error),
    }
}

/// What an alert says of the certificate that was shown, if it is about that.
pub(crate) fn refusal(alert: AlertDescription) -> Option<&'static str> {
    match alert {
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            Some("it is not of the authority that is trusted there")
        }
        AlertDescription::CertificateExpired => {
            Some("it has expired or is not valid yet: look at the clocks of both machines")
        }
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::CertificateRequired => Some("it is not one for a node"),
        _ => None,
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: vec![
            TLS13_AES_128_GCM_SHA256,
            TLS13_AES_256_GCM_SHA384,
            TLS13_CHACHA20_POLY1305_SHA256,
        ],
        ..ring::default_provider()
    })
}

/// Trusts whatever the authority has signed for a server; which node that is, is looked at when the handshake is done.
#[derive(Debug)]
struct PeerVerifier {
    trust: Arc<Trust>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PeerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        alone(intermediates)?;
        let shown = ParsedCertificate::try_from(end_entity)?;
        verify_server_cert_signed_by_trust_anchor(
            &shown,
            &self.trust.roots(),
            intermediates,
            now,
            self.provider.signature_verification_algorithms.all,
        )?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let reason = "nothing older than TLS 1.3 is spoken";
        Err(rustls::Error::General(reason.to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, shown, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
