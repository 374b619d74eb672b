//! CHAP (RFC 1994) as iSCSI has it (RFC 7143 12.1.3): secrets, algorithms, responses, and the
//! binary values that carry them.
//!
//! It refuses to know logins, and to make anything up: what must be unpredictable is expanded from
//! a seed that its owner drew at random.
//!
//! Invariants:
//! - a secret is never printed, and has the length that [`ChapSecret::new`] demands;
//! - two challenges of one `Challenges` never are the same, and nobody who has seen all of them
//!   can tell the next;
//! - whether a response is right is found out in a time that depends on its length only.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::hint::black_box;

use md5::Md5;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// Shortest secret, in bytes: 96 bits, what RFC 7143 9.2.1 wants where nothing else protects.
pub const SECRET_LENGTH_MIN: usize = 12;
/// Longest secret, in bytes. Hosts in the field stop much earlier (Windows at 16).
pub const SECRET_LENGTH_MAX: usize = 255;
/// Longest name, in bytes (a text value, RFC 7143 6.1).
pub const CHAP_NAME_LENGTH_MAX: usize = 255;
/// Longest challenge or response, in bytes (RFC 7143 12.1.3).
pub const BINARY_LENGTH_MAX: usize = 1024;

/// A secret that two sides share.
#[derive(Clone, PartialEq, Eq)]
pub struct ChapSecret(Vec<u8>);

/// Bytes that are no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a CHAP secret has 12 to 255 bytes")]
pub struct SecretLength;

impl ChapSecret {
    /// The secret that consists of `bytes`.
    ///
    /// # Errors
    /// [`SecretLength`] if they are too few or too many.
    pub fn new(bytes: &[u8]) -> Result<Self, SecretLength> {
        if (SECRET_LENGTH_MIN..=SECRET_LENGTH_MAX).contains(&bytes.len()) {
            Ok(Self(bytes.to_vec()))
        } else {
            Err(SecretLength)
        }
    }
}

impl fmt::Debug for ChapSecret {
    /// That there is one, and no more.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ChapSecret(..)")
    }
}

/// By which name a side is known, and what it proves that with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChapAccount {
    /// CHAP_N, which need not be an iSCSI name.
    pub name: String,
    /// What the response is made with.
    pub secret: ChapSecret,
}

impl ChapAccount {
    /// Whether `name` and `response` are this account's. Both are looked at, whatever the first
    /// one comes to.
    pub(crate) fn proves(&self, sum: &ChapSum<'_>, name: &str, response: &[u8]) -> bool {
        let expected = sum.response(&self.secret);
        let has_name = is_same(self.name.as_bytes(), name.as_bytes());
        let has_secret = is_same(&expected, response);
        has_name & has_secret
    }
}

/// How a response is computed (the registry "iSCSI CHAP algorithms" of IANA). SHA-1 (6) has no
/// host that has neither of these, and no future; SHA3-256 (8) the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChapAlgorithm {
    /// What every host has.
    Md5,
    /// What hosts of today have.
    Sha256,
}

impl ChapAlgorithm {
    /// All of them, the preferred one first.
    pub const PREFERRED: &'static [Self] = &[Self::Sha256, Self::Md5];

    /// Its number in CHAP_A.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::Md5 => 5,
            Self::Sha256 => 7,
        }
    }

    /// Of those that a list of numbers offers, the one that is preferred here.
    #[must_use]
    pub fn choose(offer: &str) -> Option<Self> {
        let offers = |algorithm: &Self| {
            let mut items = offer.split(',');
            items.any(|item| crate::negotiation::parse_number(item) == Some(algorithm.code()))
        };
        Self::PREFERRED.iter().copied().find(offers)
    }

    /// Bytes of a response. A challenge has as many: fewer could be guessed sooner than the
    /// response, and more add nothing (RFC 1994 2.3).
    #[must_use]
    pub const fn length(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha256 => 32,
        }
    }
}

/// What a response is computed over, the secret aside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChapSum<'a> {
    pub(crate) algorithm: ChapAlgorithm,
    pub(crate) identifier: u8,
    pub(crate) challenge: &'a [u8],
}

impl ChapSum<'_> {
    /// The hash of identifier, secret, and challenge, in this order (RFC 1994 4.1).
    pub(crate) fn response(&self, secret: &ChapSecret) -> Vec<u8> {
        match self.algorithm {
            ChapAlgorithm::Md5 => self.hash::<Md5>(secret),
            ChapAlgorithm::Sha256 => self.hash::<Sha256>(secret),
        }
    }

    fn hash<D: sha2::Digest>(&self, secret: &ChapSecret) -> Vec<u8> {
        let hash = D::new()
            .chain_update([self.identifier])
            .chain_update(&secret.0)
            .chain_update(self.challenge);
        hash.finalize().to_vec()
    }
}

/// Whether two byte strings are the same, in a time that does not tell where they differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let pairs = one.iter().zip(other);
    let difference = pairs.fold(0, |seen, (one, other)| black_box(seen | (one ^ other)));
    one.len() == other.len() && difference == 0
}

/// Bytes that nobody can guess, from the operating system's generator, drawn anew at each start.
#[derive(Clone, Copy)]
pub struct ChapSeed(pub [u8; 32]);

impl fmt::Debug for ChapSeed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ChapSeed(..)")
    }
}

/// Where a target's challenges come from: SHA-256 over a seed and a counter.
///
/// The seed is known to nobody else; SHA-256 keyed with it is a pseudorandom function, and a counter is its input, so that the
/// outputs are as unpredictable as the seed, and do not repeat. (Were the seed the same at two
/// starts, challenges would be repeated, and with them what a listener has recorded.)
#[derive(Clone, Debug)]
pub(crate) struct Challenges {
    seed: ChapSeed,
    counter: u64,
}

impl Challenges {
    /// Parts the use of the seed from any other that there may be.
    const LABEL: &'static [u8] = b"holdfast iscsi chap challenge\0";

    pub(crate) const fn new(seed: ChapSeed) -> Self {
        Self { seed, counter: 0 }
    }

    /// A challenge of `length` bytes, and the identifier that goes with it.
    pub(crate) fn next(&mut self, length: usize) -> (u8, Vec<u8>) {
        assert!(length <= 32, "one hash is enough for a challenge");
        let [identifier, ..] = self.block();
        let challenge = self.block();
        (identifier, challenge[..length].to_vec())
    }

    fn block(&mut self) -> [u8; 32] {
        self.counter += 1;
        let hash = Sha256::new()
            .chain_update(Self::LABEL)
            .chain_update(self.seed.0)
            .chain_update(self.counter.to_be_bytes());
        hash.finalize().into()
    }
}

/// A binary value in hexadecimal (RFC 7143 6.1).
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("0x");
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// A binary value, hexadecimal or in base 64 (RFC 7143 6.1), of 1 to [`BINARY_LENGTH_MAX`] bytes.
/// Of an odd number of digits the first one stands for a byte: there are initiators that drop a
/// leading zero.
pub(crate) fn parse_binary(text: &str) -> Option<Vec<u8>> {
    let (prefix, digits) = text.split_at_checked(2)?;
    let bytes = match prefix {
        "0x" | "0X" => parse_hexadecimal(digits.as_bytes())?,
        "0b" | "0B" => parse_base_64(digits.as_bytes())?,
        _ => return None,
    };
    (1..=BINARY_LENGTH_MAX)
        .contains(&bytes.len())
        .then_some(bytes)
}

fn parse_hexadecimal(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: &u8| char::from(*digit).to_digit(16).map(|value| value as u8);
    let mut bytes = Vec::with_capacity(digits.len().div_ceil(2));
    let (odd, pairs) = digits.split_at(digits.len() % 2);
    if let [digit] = odd {
        bytes.push(value(digit)?);
    }
    for pair in pairs.as_chunks::<2>().0 {
        bytes.push(value(&pair[0])? << 4 | value(&pair[1])?);
    }
    Some(bytes)
}

/// RFC 4648 4, padded, and with zeros for the bits that are left over.
fn parse_base_64(digits: &[u8]) -> Option<Vec<u8>> {
    let (groups, rest) = digits.as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    let mut bytes = Vec::with_capacity(groups.len() * 3);
    for (index, group) in groups.iter().enumerate() {
        let padding = group.iter().rev().take_while(|digit| **digit == b'=');
        let padding = padding.count();
        if padding > 2 || padding > 0 && index + 1 != groups.len() {
            return None;
        }
        let mut bits = 0;
        for digit in &group[..4 - padding] {
            bits = bits << 6 | base_64_value(*digit)?;
        }
        bits <<= 6 * padding;
        let [_, three @ ..] = bits.to_be_bytes();
        let (kept, over) = three.split_at(3 - padding);
        if over.iter().any(|byte| *byte != 0) {
            return None;
        }
        bytes.extend_from_slice(kept);
    }
    Some(bytes)
}

const fn base_64_value(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value as u32)
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::{format, vec};

    use super::*;

    fn secret(text: &str) -> ChapSecret {
        ChapSecret::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn secrets_have_their_length_and_are_not_printed() {
        for length in [0, 11, 256] {
            assert_eq!(ChapSecret::new(&vec![b'a'; length]), Err(SecretLength));
        }
        for length in [12, 255] {
            let secret = ChapSecret::new(&vec![b'a'; length]).unwrap();
            let account = ChapAccount {
                name: "host".into(),
                secret,
            };
            assert!(!format!("{account:?}").contains("aaaa"));
        }
        assert!(!format!("{:?}", Challenges::new(ChapSeed([77; 32]))).contains("77"));
    }

    /// Computed with another implementation of the two hashes.
    #[test]
    fn responses_are_the_hash_of_identifier_secret_and_challenge() {
        let challenge: Vec<u8> = (0..16).collect();
        for (algorithm, expected) in [
            (ChapAlgorithm::Md5, "0x514b1858946ecce70de33320e2aa0a4b"),
            (
                ChapAlgorithm::Sha256,
                "0x2842551506746375b6809bbd40dcfdb8b176be86c7e2be7a6d6e1ea573b7b7b4",
            ),
        ] {
            let sum = ChapSum {
                algorithm,
                identifier: 0xA5,
                challenge: &challenge,
            };
            let response = sum.response(&secret("a secret of a host"));
            assert_eq!(response.len(), algorithm.length());
            assert_eq!(hexadecimal(&response), expected);
            let account = ChapAccount {
                name: "host".into(),
                secret: secret("a secret of a host"),
            };
            assert!(account.proves(&sum, "host", &response));
            assert!(!account.proves(&sum, "hosts", &response));
            assert!(!account.proves(&sum, "hosu", &response));
            assert!(!account.proves(&sum, "host", &response[1..]));
            assert!(!account.proves(&sum, "host", &[]));
            let mut wrong = response;
            wrong[3] ^= 1;
            assert!(!account.proves(&sum, "host", &wrong));
        }
    }

    #[test]
    fn the_algorithm_is_the_one_that_is_preferred_here() {
        for (offer, expected) in [
            ("5", Some(ChapAlgorithm::Md5)),
            ("5,7", Some(ChapAlgorithm::Sha256)),
            ("8,7,6,5", Some(ChapAlgorithm::Sha256)),
            ("0x5", Some(ChapAlgorithm::Md5)),
            ("6,8", None),
            ("", None),
            ("5 ,+7", None),
        ] {
            assert_eq!(ChapAlgorithm::choose(offer), expected, "{offer:?}");
        }
    }

    #[test]
    fn challenges_do_not_repeat_and_depend_on_the_seed() {
        let mut seen = BTreeSet::new();
        let mut sources = [1, 2].map(|seed| Challenges::new(ChapSeed([seed; 32])));
        for source in &mut sources {
            for _ in 0..500 {
                let (_, challenge) = source.next(16);
                assert_eq!(challenge.len(), 16);
                assert!(seen.insert(challenge), "no challenge comes twice");
            }
        }
        let identifiers: BTreeSet<u8> = (0..500).map(|_| sources[0].next(32).0).collect();
        assert!(identifiers.len() > 100, "identifiers vary");
    }

    #[test]
    fn binary_values() {
        for (text, bytes) in [
            ("0x00", &[0][..]),
            ("0X0aFf", &[0x0A, 0xFF]),
            ("0xabc", &[0x0A, 0xBC]),
            ("0bAA==", &[0]),
            ("0BAAE=", &[0, 1]),
            ("0bAAEC", &[0, 1, 2]),
            ("0b+/+/", &[0xFB, 0xFF, 0xBF]),
        ] {
            assert_eq!(parse_binary(text).as_deref(), Some(bytes), "{text}");
        }
        for text in [
            "",
            "0",
            "0x",
            "0b",
            "0xg0",
            "0x+1",
            "12",
            "0bAA",
            "0bAAA",
            "0bA===",
            "0b====",
            "0bAB==",
            "0bAA==AA==",
            "0bAA=A",
            "0bA_AA",
            "ü0x00",
            "0xü",
        ] {
            assert_eq!(parse_binary(text), None, "{text}");
        }
        let longest = [7; BINARY_LENGTH_MAX];
        assert_eq!(parse_binary(&hexadecimal(&longest)).unwrap(), longest);
        assert_eq!(
            parse_binary(&hexadecimal(&[7; BINARY_LENGTH_MAX + 1])),
            None
        );
    }
}
