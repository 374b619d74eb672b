//! Asks services outside of the cluster by HTTP, over TLS by authorities that are said.
//!
//! It refuses to follow redirections, to keep connections, and to know what is asked for, or why.
//!
//! Invariants:
//! - one request is one connection, and ends with its deadline, whatever the other side does;
//! - there is no way to TLS without the other side's certificate being checked;
//! - no more of an answer is kept than whoever asks has said.
#![forbid(unsafe_code)]

mod connection;
mod exchange;
mod failure;
mod url;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

pub use connection::{Peer, Trust, Wire};
pub use exchange::{Answer, USER_AGENT, ask};
pub use failure::{Failure, Stage, TlsFailure};
pub use http_body_util::Full;
pub use hyper::body::Bytes;
pub use hyper::{Method, Request, header};
pub use url::{OutsideUrl, URL_BYTES_MAX, UrlError};

/// Bytes of PEM with authorities at most.
pub const AUTHORITY_BYTES_MAX: usize = 64 << 10;

/// A text that is no certificate of an authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not PEM with certificates of authorities, 64 KiB at most")]
pub struct AuthorityError;

/// The authorities in PEM: one at least.
///
/// # Errors
/// [`AuthorityError`] if there is none, something that is none, or too much.
pub fn authorities(pem: &str) -> Result<RootCertStore, AuthorityError> {
    if pem.len() > AUTHORITY_BYTES_MAX {
        return Err(AuthorityError);
    }
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|_| AuthorityError)?;
        roots.add(certificate).map_err(|_| AuthorityError)?;
    }
    (!roots.is_empty()).then_some(roots).ok_or(AuthorityError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_is_not_trusted() {
        let key = rcgen::KeyPair::generate().unwrap();
        let parameters = rcgen::CertificateParams::new(["id.example".to_owned()]).unwrap();
        let pem = parameters.self_signed(&key).unwrap().pem();
        assert_eq!(authorities(&pem).unwrap().len(), 1);
        assert_eq!(authorities(&format!("{pem}{pem}")).unwrap().len(), 2);
        let cut = &pem[..pem.len() / 2];
        let key = key.serialize_pem();
        let long = pem.repeat(AUTHORITY_BYTES_MAX / pem.len() + 1);
        for other in ["", "none", cut, &key, &long] {
            assert_eq!(authorities(other).map(|_| ()), Err(AuthorityError));
        }
    }
}
