//! The authority's key as bytes that are the same however its file has it: other keys of the cluster are derived from them.
//!
//! A key on P-256 can be written in several ways (SEC 1, PKCS #8, with and without the public key), and tools rewrite it. What is
//! derived from is the form in which this program writes it: PKCS #8 with both keys.
//!
//! Invariant: for a file that this program has written, these are the bytes in it.

use std::path::Path;

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};
use zeroize::Zeroizing;

use crate::files::{self, CredentialsError};
use crate::issued::certificate;
use crate::{AUTHORITY_FILE, AUTHORITY_KEY_FILE};

/// Bytes of a private key on P-256.
const SCALAR_BYTES: usize = 32;
/// Those of a public one, uncompressed.
const POINT_BYTES: usize = 65;
/// What stands before the private key: PKCS #8, version 1, of an `ECPrivateKey` on P-256.
const BEFORE_SCALAR: [u8; 36] = [
    0x30, 0x81, 0x87, 0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02,
    0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x04, 0x6d, 0x30, 0x6b, 0x02,
    0x01, 0x01, 0x04, 0x20,
];
/// And between that and the public one.
const BEFORE_POINT: [u8; 5] = [0xa1, 0x44, 0x03, 0x42, 0x00];

/// Tags of DER.
const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;

/// The private key of the authority in a directory, in the one form: other keys of the cluster are derived from it.
///
/// # Errors
/// [`CredentialsError`] if it is not there, not usable, or others can read it.
pub fn authority_key(directory: &Path) -> Result<Zeroizing<Vec<u8>>, CredentialsError> {
    let path = directory.join(AUTHORITY_KEY_FILE);
    let text = files::read_key(&path)?;
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes());
    let key = key.map_err(|_| CredentialsError::Unreadable {
        path: path.clone(),
        what: "key",
    })?;
    let own = certificate(&directory.join(AUTHORITY_FILE))?;
    let point = X509Certificate::from_der(&own);
    let point = point.map(|(_, it)| it.public_key().subject_public_key.data.to_vec());
    let form = scalar(key.secret_der()).zip(point.ok());
    let form = form.and_then(|(scalar, point)| one_form(scalar, &point));
    form.ok_or(CredentialsError::Unreadable {
        path,
        what: "key on P-256",
    })
}

fn one_form(scalar: &[u8], point: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    if scalar.len() != SCALAR_BYTES || point.len() != POINT_BYTES {
        return None;
    }
    let parts = [&BEFORE_SCALAR[..], scalar, &BEFORE_POINT, point];
    let length = parts.iter().map(|it| it.len()).sum();
    // So large from the start that no copy of it is left where it grew.
    let mut form = Zeroizing::new(Vec::with_capacity(length));
    for part in parts {
        form.extend_from_slice(part);
    }
    Some(form)
}

/// The private key in SEC 1's `ECPrivateKey`, by itself or in PKCS #8.
fn scalar(der: &[u8]) -> Option<&[u8]> {
    let (body, _) = value(der, SEQUENCE)?;
    let (version, rest) = value(body, INTEGER)?;
    if version == [1]
        && let Some((scalar, _)) = value(rest, OCTETS)
    {
        return Some(scalar);
    }
    let (_, rest) = value(rest, SEQUENCE)?;
    let (within, _) = value(rest, OCTETS)?;
    let (body, _) = value(within, SEQUENCE)?;
    let (_, rest) = value(body, INTEGER)?;
    Some(value(rest, OCTETS)?.0)
}

/// The value that comes first, if it has this tag, and what stands behind it.
fn value(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let [first, length, rest @ ..] = der else {
        return None;
    };
    if *first != tag {
        return None;
    }
    // Lengths of up to 255 bytes: a key on P-256 has fewer.
    let (length, rest) = match (*length, rest) {
        (short, rest) if short < 0x80 => (short, rest),
        (0x81, [long, rest @ ..]) => (*long, rest),
        _ => return None,
    };
    rest.split_at_checked(usize::from(length))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::SystemTime;

    use holdfast_model::ClusterId;

    use super::*;
    use crate::Authority;

    #[test]
    fn a_key_is_the_same_however_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("ca");
        Authority::found(&directory, ClusterId(7), SystemTime::now()).unwrap();
        let path = directory.join(AUTHORITY_KEY_FILE);
        let text = fs::read_to_string(&path).unwrap();
        let written = PrivateKeyDer::from_pem_slice(text.as_bytes()).unwrap();
        let written = written.secret_der().to_vec();
        let read = || authority_key(&directory).unwrap();
        assert_eq!(*read(), written, "as it always was");
        let scalar = scalar(&written).unwrap();
        // As other tools write it: without the public key, and by itself.
        let bare = [&[0x30, 0x25, 0x02, 0x01, 0x01, 0x04, 0x20], scalar].concat();
        let curve = &BEFORE_SCALAR[17..27];
        let sec1 = [&[0x30, 0x31, 0x02, 0x01, 0x01, 0x04, 0x20], scalar].concat();
        let sec1 = [&sec1[..], &[0xa0, 0x0a], curve].concat();
        let pkcs8 = [&[0x30, 0x41], &BEFORE_SCALAR[3..27], &[0x04, 0x27], &bare].concat();
        for (label, der) in [
            ("EC PRIVATE KEY", &bare),
            ("EC PRIVATE KEY", &sec1),
            ("PRIVATE KEY", &pkcs8),
        ] {
            let block = encode(label, der);
            fs::write(&path, block).unwrap();
            assert_eq!(*read(), written, "{label} of {} bytes", der.len());
        }
        for wrong in [&[][..], &[0x30], &[0x30, 0x84, 1, 2], &written[..40]] {
            fs::write(&path, encode("PRIVATE KEY", wrong)).unwrap();
            assert!(authority_key(&directory).is_err(), "{wrong:?}");
        }
    }

    fn encode(label: &str, der: &[u8]) -> String {
        pem::encode_config(&pem::Pem::new(label, der), crate::authority::PEM_LINES)
    }
}
