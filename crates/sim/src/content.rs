//! What the hosts write: sectors of which each says which write made it, and for which place.
//!
//! Invariant: no two writes and no two places have the same content, and no content is all zeros;
//! zeros have the value 0.

use holdfast_stdx::{Bytes, BytesMut};

/// Bytes in a sector, the unit that hosts address.
pub const SECTOR_SIZE: usize = 512;

/// What a sector holds: the number of the write that made it, or zero.
pub type Value = u64;

/// The write that others copy: where it is told of no longer says which host's command made it.
pub const TEMPLATE: Value = 1 << 40;

/// The sectors from `first` on as write `value` makes them.
#[must_use]
pub fn filled(value: Value, first: u64, count: u64) -> Bytes {
    assert!(value != 0, "zero is for zeros");
    let mut bytes = BytesMut::with_capacity(count as usize * SECTOR_SIZE);
    for sector in first..first + count {
        bytes.extend_from_slice(&value.to_le_bytes());
        bytes.extend_from_slice(&sector.to_le_bytes());
        let filling = filling(value, sector).to_le_bytes();
        for _ in 2..SECTOR_SIZE / 8 {
            bytes.extend_from_slice(&filling);
        }
    }
    bytes.freeze()
}

/// The value of the sector at `sector`; `None` if it holds what nobody wrote there.
#[must_use]
pub fn value_of(bytes: &[u8], sector: u64) -> Option<Value> {
    let (head, rest) = bytes.split_at(16);
    let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
    let value = word(0);
    let (place, filling) = if value == 0 {
        (0, 0)
    } else {
        (sector, filling(value, sector))
    };
    let filling = filling.to_le_bytes();
    let whole = word(8) == place && rest.chunks_exact(8).all(|chunk| chunk == filling);
    whole.then_some(value)
}

/// The value that the head of the sector at `sector` claims, the rest not looked at; `None` if it
/// is not one for this place.
#[must_use]
pub fn value_claimed(bytes: &[u8], sector: u64) -> Option<Value> {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let value = word(0);
    let place = if value == 0 { 0 } else { sector };
    (word(8) == place).then_some(value)
}

fn filling(value: Value, sector: u64) -> u64 {
    (value ^ sector.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_tells_its_write_and_its_place() {
        let bytes = filled(7, 100, 2);
        assert_eq!(value_of(&bytes[..512], 100), Some(7));
        assert_eq!(value_of(&bytes[512..], 101), Some(7));
        assert_eq!(value_of(&bytes[..512], 101), None);
        assert_eq!(value_of(&[0; 512], 5), Some(0));
        assert_eq!(value_claimed(&bytes[512..], 101), Some(7));
        assert_eq!(value_claimed(&bytes[512..], 102), None);
        assert_eq!(value_claimed(&[0; 512], 5), Some(0));
        let mut torn = bytes[..512].to_vec();
        torn[256..].copy_from_slice(&filled(8, 100, 1)[256..]);
        assert_eq!(value_of(&torn, 100), None);
    }
}
