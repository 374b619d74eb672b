//! Sizes as people write them: `4GiB`, `512MiB`, or a number of bytes.
//!
//! It refuses units that mean one thing to some and another to others (`G`, `GB`): a volume of the
//! wrong size is noticed late.

use core::fmt;
use core::str::FromStr;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

/// The units, from the largest to the smallest.
const UNITS: [(&str, u32); 6] = [
    ("PiB", 50),
    ("TiB", 40),
    ("GiB", 30),
    ("MiB", 20),
    ("KiB", 10),
    ("B", 0),
];

/// The text is not a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// It does not begin with a whole number.
    #[error("a size begins with a whole number, as in 4GiB")]
    Number,
    /// It is a number with a fraction.
    #[error("a size is a whole number of its unit: 1536MiB, not 1.5GiB")]
    Fraction,
    /// What follows the number is no unit.
    #[error("the units of sizes are B, KiB, MiB, GiB, TiB and PiB: 1GiB, not 1G")]
    Unit,
    /// It is beyond 64 bits.
    #[error("the size is too large")]
    TooLarge,
}

impl FromStr for ByteSize {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let end = text
            .find(|letter: char| !letter.is_ascii_digit())
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        if unit.starts_with(['.', ',']) {
            return Err(SizeError::Fraction);
        }
        // As tables show it.
        let unit = unit.strip_prefix(' ').unwrap_or(unit);
        if number.is_empty() {
            return Err(SizeError::Number);
        }
        let number: u64 = number.parse().map_err(|_| SizeError::TooLarge)?;
        let unit = if unit.is_empty() { "B" } else { unit };
        let (_, bits) = UNITS
            .into_iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(unit))
            .ok_or(SizeError::Unit)?;
        number
            .checked_mul(1 << bits)
            .map(Self)
            .ok_or(SizeError::TooLarge)
    }
}

impl fmt::Display for ByteSize {
    /// Exactly, in the largest unit of which it is a whole number; what is written is read back.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |bits: &u32| self.0 != 0 && self.0.trailing_zeros() >= *bits;
        let (name, bits) = UNITS
            .into_iter()
            .find(|(_, bits)| whole(bits))
            .unwrap_or(("B", 0));
        formatter.pad(&alloc::format!("{}{name}", self.0 >> bits))
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for (bytes, text) in [
            (0, "0B"),
            (1, "1B"),
            (4096, "4KiB"),
            (4097, "4097B"),
            (512 << 20, "512MiB"),
            (4 << 30, "4GiB"),
            (64 << 40, "64TiB"),
            (3 << 29, "1536MiB"),
            (u64::MAX, "18446744073709551615B"),
        ] {
            assert_eq!(ByteSize(bytes).to_string(), text);
            assert_eq!(text.parse(), Ok(ByteSize(bytes)));
        }
        assert_eq!("4096".parse(), Ok(ByteSize(4096)));
        assert_eq!("4gib".parse(), Ok(ByteSize(4 << 30)));
        assert_eq!("4 GiB".parse(), Ok(ByteSize(4 << 30)));
    }

    #[test]
    fn what_may_mean_two_things_is_refused() {
        for (text, error) in [
            ("", SizeError::Number),
            ("GiB", SizeError::Number),
            ("-4GiB", SizeError::Number),
            (" 4GiB", SizeError::Number),
            ("4G", SizeError::Unit),
            ("4GB", SizeError::Unit),
            ("1.5GiB", SizeError::Fraction),
            ("4  GiB", SizeError::Unit),
            ("16777216TiB", SizeError::TooLarge),
            ("99999999999999999999", SizeError::TooLarge),
        ] {
            assert_eq!(text.parse::<ByteSize>(), Err(error), "{text:?}");
        }
    }
}
