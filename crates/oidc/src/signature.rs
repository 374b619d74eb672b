//! Which signatures are believed: what `jsonwebtoken` takes its cryptography from. It is *ring*, as for TLS.
//!
//! Invariants:
//! - a key is used for the algorithms of its own kind only: a public key is never the secret of an HMAC;
//! - nothing is signed here.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature as of_ring;

/// The algorithms whose signatures are believed.
pub(crate) const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

static RING: CryptoProvider = CryptoProvider {
    signer_factory: no_signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Has signatures verified by *ring*, in this process, from now on.
pub(crate) fn install() {
    // It fails where it was installed before, by us: nothing else here knows of it.
    let _ = RING.install_default();
}

fn no_signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    Err(ErrorKind::UnsupportedAlgorithm.into())
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    let is_known = ALGORITHMS.contains(algorithm);
    if !is_known || key.family() != algorithm.family() {
        return Err(ErrorKind::UnsupportedAlgorithm.into());
    }
    Ok(Box::new(ByRing {
        algorithm: *algorithm,
        key: key.clone(),
    }))
}

struct ByRing {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl JwtVerifier for ByRing {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for ByRing {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let verified = match (self.key.kind(), rsa(self.algorithm), other(self.algorithm)) {
            (DecodingKeyKind::RsaModulusExponent { n, e }, Some(algorithm), _) => {
                let key = of_ring::RsaPublicKeyComponents { n, e };
                key.verify(algorithm, message, signature)
            }
            (DecodingKeyKind::SecretOrDer(key), None, Some(algorithm)) => {
                of_ring::UnparsedPublicKey::new(algorithm, key).verify(message, signature)
            }
            _ => return Err(Error::new()),
        };
        verified.map_err(|_| Error::new())
    }
}

/// RSA of 2048 bits at least.
fn rsa(algorithm: Algorithm) -> Option<&'static of_ring::RsaParameters> {
    Some(match algorithm {
        Algorithm::RS256 => &of_ring::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::RS384 => &of_ring::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::RS512 => &of_ring::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::PS256 => &of_ring::RSA_PSS_2048_8192_SHA256,
        Algorithm::PS384 => &of_ring::RSA_PSS_2048_8192_SHA384,
        Algorithm::PS512 => &of_ring::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

fn other(algorithm: Algorithm) -> Option<&'static dyn of_ring::VerificationAlgorithm> {
    Some(match algorithm {
        Algorithm::ES256 => &of_ring::ECDSA_P256_SHA256_FIXED,
        Algorithm::ES384 => &of_ring::ECDSA_P384_SHA384_FIXED,
        Algorithm::EdDSA => &of_ring::ED25519,
        _ => return None,
    })
}
