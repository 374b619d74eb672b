//! Who is who in a cluster: its authority, the certificates of its machines, and TLS with them.
//!
//! A cluster has an *authority*: a key, and a certificate that says so. Each of its machines has *credentials*, a directory
//! with the authority's certificate and key, and a certificate of its own that the authority has signed, with its key:
//! [`Credentials`]. Who only asks needs the authority's certificate, and no more: [`Connector::of_authority`].
//!
//! It refuses to know who a person is, and whatever comes over a connection.
//!
//! Invariants:
//! - TLS 1.3 and nothing older; each connection proves anew who it is, none is resumed;
//! - a node is who holds the key of a certificate of this authority that names this cluster and the node's number;
//! - nothing is overwritten but a node's own certificate, by a later one for the same key; whoever reads it meanwhile has
//!   the one or the other;
//! - a key that others on its machine can read is refused.
#![forbid(unsafe_code)]

mod authority;
mod credentials;
mod encoding;
mod files;
mod handshake;
mod identity;
mod issued;
mod peers;
mod records;
pub mod replacing;
mod trust;

pub use authority::{AUTHORITY_DAYS, Authority, NODE_DAYS, Subject, authorities_in};
pub use credentials::{Change, Credentials, Renewal};
pub use encoding::authority_key;
pub use files::{CredentialsError, read_key, write_key};
pub use handshake::{AcceptError, Acceptor, ConnectError, Connector};
pub use identity::{DEMO, NodeIdentity, WITNESS};
pub use issued::{Issued, fingerprint};
pub use peers::{Handshake, HandshakeError, NOT_TLS, PeerTls, Secured, is_tls};
pub use records::{
    Opened, RECORD_BYTES_MAX, RecordError, Records, SEALED_BYTES_MAX, record_length,
};

/// The authority's certificate, in a directory of credentials.
pub const AUTHORITY_FILE: &str = "authority.pem";
/// Its key.
pub const AUTHORITY_KEY_FILE: &str = "authority.key";
/// The machine's own certificate.
pub const NODE_FILE: &str = "node.pem";
/// Its key.
pub const NODE_KEY_FILE: &str = "node.key";
