//! The provider's keys (RFC 7517), and which of them may have signed a token.
//!
//! Invariants:
//! - so many are kept; what is no key, or none for signatures, is passed over;
//! - a key that says for which algorithm it is, is for no other.

use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Header};
use serde::Deserialize;
use serde_json::Value;

use crate::documents::KEYS;
use crate::error::ProviderError;

/// Keys at most. Providers have one or two, and those of the last months.
const KEYS_MAX: usize = 64;

/// The keys.
#[derive(Debug, Default)]
pub(crate) struct Keys(Vec<Key>);

#[derive(Debug)]
struct Key {
    id: Option<String>,
    algorithm: Option<Algorithm>,
    key: DecodingKey,
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<Value>,
}

impl Keys {
    pub(crate) fn read(body: &[u8]) -> Result<Self, ProviderError> {
        let read = serde_json::from_slice(body);
        let set: Set = read.map_err(|_| ProviderError::Unreadable { what: KEYS })?;
        let keys = set.keys.into_iter().filter_map(usable);
        Ok(Self(keys.take(KEYS_MAX).collect()))
    }

    /// Those by which a token with that head may have been signed. Without a key's id in it, that is any of the kind.
    pub(crate) fn of(&self, header: &Header) -> Vec<&DecodingKey> {
        let fits = |key: &&Key| {
            key.key.family() == header.alg.family()
                && key.algorithm.is_none_or(|it| it == header.alg)
                && header
                    .kid
                    .as_ref()
                    .is_none_or(|id| key.id.as_ref() == Some(id))
        };
        self.0.iter().filter(fits).map(|key| &key.key).collect()
    }
}

fn usable(value: Value) -> Option<Key> {
    let jwk: Jwk = serde_json::from_value(value).ok()?;
    let common = &jwk.common;
    let signs = common
        .public_key_use
        .as_ref()
        .is_none_or(|it| *it == PublicKeyUse::Signature);
    // A secret has no place among public keys, and would make HMACs of whoever reads them.
    if !signs || matches!(jwk.algorithm, AlgorithmParameters::OctetKey(_)) {
        return None;
    }
    let algorithm = match common.key_algorithm {
        Some(algorithm) => Some(Algorithm::try_from(algorithm).ok()?),
        None => None,
    };
    let key = DecodingKey::from_jwk(&jwk).ok()?;
    (key.family() != AlgorithmFamily::Hmac).then(|| Key {
        id: common.key_id.clone(),
        algorithm,
        key,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rsa(id: &str) -> Value {
        json!({"kty": "RSA", "kid": id, "use": "sig", "alg": "RS256", "n": "sXch", "e": "AQAB"})
    }

    fn ec(id: &str) -> Value {
        json!({"kty": "EC", "kid": id, "crv": "P-256", "x": "MKBC", "y": "4Etl"})
    }

    fn keys(keys: &[Value]) -> Keys {
        Keys::read(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
    }

    fn header(algorithm: Algorithm, id: Option<&str>) -> Header {
        Header {
            kid: id.map(str::to_owned),
            ..Header::new(algorithm)
        }
    }

    #[test]
    fn a_key_is_found_by_its_id_its_kind_and_its_algorithm() {
        let keys = keys(&[rsa("1"), ec("2"), ec("3")]);
        let count = |algorithm, id| keys.of(&header(algorithm, id)).len();
        assert_eq!(count(Algorithm::RS256, Some("1")), 1);
        assert_eq!(count(Algorithm::PS256, Some("1")), 0, "it is for RS256");
        assert_eq!(count(Algorithm::ES256, Some("1")), 0, "it is of RSA");
        assert_eq!(count(Algorithm::HS256, Some("1")), 0);
        assert_eq!(count(Algorithm::ES256, Some("2")), 1);
        assert_eq!(count(Algorithm::ES256, None), 2);
        assert_eq!(count(Algorithm::ES256, Some("4")), 0);
    }

    #[test]
    fn what_is_no_key_for_signatures_is_passed_over() {
        let mut encrypts = rsa("1");
        encrypts["use"] = json!("enc");
        let secret = json!({"kty": "oct", "kid": "1", "k": "c2VjcmV0"});
        let mut other = rsa("1");
        other["alg"] = json!("RSA-OAEP");
        let odd = [encrypts, secret, other, json!({"kty": "new"}), json!(7)];
        assert_eq!(keys(&odd).0.len(), 0);
        assert_eq!(keys(&vec![ec("1"); 200]).0.len(), KEYS_MAX);
        assert!(Keys::read(b"[]").is_err());
    }
}
