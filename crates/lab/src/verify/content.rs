//! What a sector holds: a stamp that says which sector of which volume it is, as which version wrote
//! it, and a filling that follows from the stamp.
//!
//! Invariants:
//! - no two stamps have the same content, and no content is all zeros: from content that is whole
//!   it is certain which write made it.

use holdfast_stdx::crc32c;

/// Bytes in a sector: the smallest unit that a command can write.
pub const SECTOR_SIZE: usize = 512;
/// Marks our sectors.
const MAGIC: [u8; 8] = *b"hf-lab-1";
/// Bytes of the stamp: magic, seed, sector, version, checksum of these, and four bytes of zeros.
const STAMP_BYTES: usize = 40;

/// What a sector's content was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Tells loads on the same volume apart.
    pub seed: u64,
    /// The sector's number on the volume.
    pub sector: u64,
    /// Which write: higher is later.
    pub version: u64,
}

/// What was found in a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// All zeros.
    Zeros,
    /// The whole content of a stamp.
    Whole(Stamp),
    /// A stamp, with something else behind it.
    Torn(Stamp),
    /// Neither.
    Foreign,
}

impl Stamp {
    /// Writes the content of this stamp.
    pub fn fill(&self, sector: &mut [u8]) {
        assert_eq!(sector.len(), SECTOR_SIZE, "content is for a sector");
        let (stamp, filling) = sector.split_at_mut(STAMP_BYTES);
        stamp.copy_from_slice(&self.encode());
        let mut words = Words::of(*self);
        for (place, word) in filling.chunks_exact_mut(8).zip(&mut words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Reads what is in a sector.
    #[must_use]
    pub fn find(sector: &[u8]) -> Found {
        assert_eq!(sector.len(), SECTOR_SIZE, "content is for a sector");
        let Some(stamp) = Self::decode(sector) else {
            let is_zero = sector.iter().all(|byte| *byte == 0);
            return if is_zero {
                Found::Zeros
            } else {
                Found::Foreign
            };
        };
        let (filling, _) = sector[STAMP_BYTES..].as_chunks::<8>();
        let is_whole = filling
            .iter()
            .zip(Words::of(stamp))
            .all(|(found, word)| *found == word.to_le_bytes());
        if is_whole {
            Found::Whole(stamp)
        } else {
            Found::Torn(stamp)
        }
    }

    fn encode(&self) -> [u8; STAMP_BYTES] {
        let mut bytes = [0; STAMP_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.seed.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sector.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.version.to_le_bytes());
        let checksum = crc32c(&bytes[..32]);
        bytes[32..36].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(sector: &[u8]) -> Option<Self> {
        let word = |at: usize| {
            let bytes = sector[at..at + 8].try_into();
            u64::from_le_bytes(bytes.expect("eight bytes were taken"))
        };
        let stamp = Self {
            seed: word(8),
            sector: word(16),
            version: word(24),
        };
        (sector[..STAMP_BYTES] == stamp.encode()).then_some(stamp)
    }
}

/// The filling: a Weyl sequence through a mixer, begun by the stamp. It does not compress, and no
/// two words in a row are the same.
struct Words {
    state: u64,
}

/// 2⁶⁴ ÷ the golden ratio, odd: a step that visits all 64-bit numbers.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl Words {
    fn of(stamp: Stamp) -> Self {
        let mut state = mix(stamp.seed);
        state = mix(state ^ stamp.sector);
        state = mix(state ^ stamp.version);
        Self { state }
    }
}

impl Iterator for Words {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.state = self.state.wrapping_add(STEP);
        Some(mix(self.state))
    }
}

fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    let word = (word ^ (word >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    word ^ (word >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp {
        seed: 7,
        sector: 8,
        version: 9,
    };

    fn content(stamp: Stamp) -> [u8; SECTOR_SIZE] {
        let mut sector = [0; SECTOR_SIZE];
        stamp.fill(&mut sector);
        sector
    }

    #[test]
    fn content_says_what_made_it() {
        assert_eq!(Stamp::find(&content(STAMP)), Found::Whole(STAMP));
        assert_eq!(Stamp::find(&[0; SECTOR_SIZE]), Found::Zeros);
        assert_eq!(Stamp::find(&[7; SECTOR_SIZE]), Found::Foreign);
    }

    #[test]
    fn every_changed_byte_is_seen() {
        for at in 0..SECTOR_SIZE {
            let mut sector = content(STAMP);
            sector[at] ^= 0x10;
            let expected = if at < STAMP_BYTES {
                Found::Foreign
            } else {
                Found::Torn(STAMP)
            };
            assert_eq!(Stamp::find(&sector), expected, "byte {at}");
        }
    }

    #[test]
    fn a_torn_sector_is_seen() {
        let later = Stamp {
            version: 10,
            ..STAMP
        };
        let mut sector = content(STAMP);
        sector[..256].copy_from_slice(&content(later)[..256]);
        assert_eq!(Stamp::find(&sector), Found::Torn(later));
    }
}
