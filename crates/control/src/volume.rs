//! What a volume may be called and how large it may be.
//!
//! Invariants:
//! - a [`VolumeName`] is part of an iSCSI name without any change: RFC 3722 allows lower-case
//!   letters, digits, `-`, `.` and `:` there, and the last separates the name from its prefix;
//! - a [`VolumeSize`] is a whole number of blocks, at least one.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use holdfast_model::{BLOCK_SIZE, ByteSize, SLICE_SIZE};

/// How the iSCSI name of every volume's target begins; the volume's name follows.
pub const TARGET_PREFIX: &str = "iqn.2026-11.io.holdfast:";
/// Letters in a volume's name at most: those of a DNS label, well within the 223 bytes of an iSCSI
/// name.
pub const NAME_LENGTH_MAX: usize = 63;
/// Bytes in a volume at most, 64 TiB.
pub const SIZE_MAX: u64 = 64 << 40;

const BLOCK_BYTES: u64 = BLOCK_SIZE as u64;
const _: () = assert!(
    SIZE_MAX.is_multiple_of(SLICE_SIZE),
    "the largest volume is of whole slices"
);

/// A volume's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeName(String);

/// Why a text is no volume's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It is empty, or longer than [`NAME_LENGTH_MAX`].
    #[error("the name of a volume has 1 to {NAME_LENGTH_MAX} letters")]
    Length,
    /// It has a letter that it may not have.
    #[error(
        "the name of a volume has lower-case letters, digits, '-' and '.', and no '{0}': it \
         becomes part of an iSCSI name"
    )]
    Letter(char),
    /// It begins or ends with `-` or `.`.
    #[error("the name of a volume begins and ends with a letter or a digit")]
    Edge,
}

impl VolumeName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The iSCSI name of the volume's target.
    #[must_use]
    pub fn target(&self) -> String {
        format!("{TARGET_PREFIX}{}", self.0)
    }
}

impl FromStr for VolumeName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if !(1..=NAME_LENGTH_MAX).contains(&text.len()) {
            return Err(NameError::Length);
        }
        let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
        if let Some(letter) = text
            .chars()
            .find(|one| !plain(*one) && !matches!(one, '-' | '.'))
        {
            return Err(NameError::Letter(letter));
        }
        if !text.starts_with(plain) || !text.ends_with(plain) {
            return Err(NameError::Edge);
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for VolumeName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

/// A volume's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeSize(u64);

/// Why a number of bytes is no volume's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeSizeError {
    /// There is nothing of it.
    #[error("a volume has at least one block of {BLOCK_SIZE} bytes")]
    Empty,
    /// It is not a multiple of the block size.
    #[error("the size of a volume is a multiple of {BLOCK_SIZE} bytes; {}", nearest(*below, *above))]
    NotWhole {
        /// The next smaller size.
        below: u64,
        /// The next larger size.
        above: u64,
    },
    /// It is more than [`SIZE_MAX`].
    #[error("a volume has at most {}", ByteSize(SIZE_MAX))]
    TooLarge,
}

fn nearest(below: u64, above: u64) -> String {
    if below == 0 {
        format!("the smallest has {above} bytes (a number without a unit counts bytes)")
    } else {
        format!("the next such sizes are {below} and {above} bytes")
    }
}

impl VolumeSize {
    /// A volume of so many bytes.
    ///
    /// # Errors
    /// [`VolumeSizeError`] if no volume has that size.
    pub const fn new(bytes: u64) -> Result<Self, VolumeSizeError> {
        if bytes == 0 {
            return Err(VolumeSizeError::Empty);
        }
        if bytes > SIZE_MAX {
            return Err(VolumeSizeError::TooLarge);
        }
        if !bytes.is_multiple_of(BLOCK_BYTES) {
            let below = bytes - bytes % BLOCK_BYTES;
            return Err(VolumeSizeError::NotWhole {
                below,
                above: below + BLOCK_BYTES,
            });
        }
        Ok(Self(bytes))
    }

    /// Bytes in the volume.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// Slices that the volume needs.
    #[must_use]
    pub const fn slice_count(self) -> u32 {
        self.0.div_ceil(SLICE_SIZE) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_into_iscsi_names() {
        for name in [
            "a",
            "0",
            "demo",
            "sql-data.01",
            &"x".repeat(NAME_LENGTH_MAX),
        ] {
            let name: VolumeName = name.parse().unwrap();
            assert!(name.target().len() <= 223);
            assert!(name.target().starts_with("iqn.2026-11."));
            assert!(name.target().ends_with(&format!(":{name}")));
        }
        let refused = |text: &str| text.parse::<VolumeName>().unwrap_err();
        assert_eq!(refused(""), NameError::Length);
        assert_eq!(refused(&"x".repeat(NAME_LENGTH_MAX + 1)), NameError::Length);
        for (name, letter) in [
            ("Data", 'D'),
            ("a b", ' '),
            ("a:b", ':'),
            ("a/b", '/'),
            ("ä", 'ä'),
        ] {
            assert_eq!(refused(name), NameError::Letter(letter));
        }
        for name in ["-a", "a-", ".", "a."] {
            assert_eq!(refused(name), NameError::Edge);
        }
    }

    #[test]
    fn sizes_are_whole_blocks() {
        assert_eq!(VolumeSize::new(0), Err(VolumeSizeError::Empty));
        assert_eq!(
            VolumeSize::new(SIZE_MAX + 4096),
            Err(VolumeSizeError::TooLarge)
        );
        let uneven = VolumeSizeError::NotWhole {
            below: 4096,
            above: 8192,
        };
        assert_eq!(VolumeSize::new(5000), Err(uneven));
        let slices = |bytes| VolumeSize::new(bytes).map(VolumeSize::slice_count);
        assert_eq!(slices(4096), Ok(1));
        assert_eq!(slices(SLICE_SIZE), Ok(1));
        assert_eq!(slices(SLICE_SIZE + 4096), Ok(2));
        assert_eq!(slices(SIZE_MAX), Ok(16384));
    }
}
