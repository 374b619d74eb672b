//! The cluster's id, as a person writes it into a configuration.
//!
//! It refuses what [`ClusterId`] reads in records, which may lack the zeros in front: of a word that happens to
//! consist of hexadecimal digits, that would make an id that others may have as well.

use holdfast_model::ClusterId;
use serde::{Deserialize, Deserializer, de};

/// Hexadecimal digits of an id, which has 128 bits.
const DIGITS: usize = 32;

/// A text that is no cluster's id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not {DIGITS} hexadecimal digits; draw an id for the cluster once, and write it into the files of all \
     machines: openssl rand -hex 16{}", before(*short)
)]
struct InvalidClusterId {
    text: String,
    /// What earlier versions took it for.
    short: Option<ClusterId>,
}

fn before(short: Option<ClusterId>) -> String {
    short.map_or_else(String::new, |id| {
        format!(" (a cluster that was made with this id before has {id})")
    })
}

/// Reads an id as a person writes it.
///
/// # Errors
/// Why it is not 32 hexadecimal digits, for people.
pub fn cluster_id(text: &str) -> Result<ClusterId, String> {
    parse(text).map_err(|error| error.to_string())
}

/// Reads an id as a person writes it.
///
/// # Errors
/// [`InvalidClusterId`] if it is not 32 hexadecimal digits.
fn parse(text: &str) -> Result<ClusterId, InvalidClusterId> {
    let is_hex = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = u128::from_str_radix(text, 16).ok().map(ClusterId);
    match id.filter(|_| is_hex) {
        Some(id) if text.len() == DIGITS => Ok(id),
        short => Err(InvalidClusterId {
            text: text.to_owned(),
            short: short.filter(|_| text.len() < DIGITS),
        }),
    }
}

/// For a key of a configuration.
pub(super) fn read<'de, D: Deserializer<'de>>(source: D) -> Result<ClusterId, D::Error> {
    parse(&String::deserialize(source)?).map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_written_whole() {
        let whole = "0123456789abcdef0123456789ABCDEF";
        let id = ClusterId(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        assert_eq!(parse(whole), Ok(id));
        assert_eq!(parse(&id.to_string()), Ok(id));
        for text in [
            "",
            "xyz",
            &format!("+{}", &whole[1..]),
            &format!("{whole}0"),
            &"g".repeat(32),
        ] {
            let error = parse(text).unwrap_err().to_string();
            let says = format!("{text:?} is not 32 hexadecimal digits");
            assert!(error.starts_with(&says), "{error}");
            assert!(error.ends_with("openssl rand -hex 16"), "{error}");
        }
        // Earlier versions took it, and clusters may have been made with it.
        let error = parse("abc").unwrap_err().to_string();
        assert!(
            error.contains("has 00000000000000000000000000000abc)"),
            "{error}"
        );
    }
}
