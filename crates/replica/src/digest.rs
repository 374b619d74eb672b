//! What is in a block, in few bytes: strong enough to decide whether it has to travel.
//!
//! BLAKE3 in its keyed mode, cut to 128 bits. The key is made of the two stores' ids, which nobody knows
//! who writes to volumes: to find two blocks of one digest takes 2^64 tries with it, and cannot be tried
//! without. By accident two differ in 2^-128 of all cases.
//!
//! Invariant: blocks that cannot be read, or are zeros, have no hash: nothing else equals them.

use holdfast_model::{BLOCK_SIZE, BlockIndex, StoreId};
use holdfast_wire::{BlockContent, BlockDigest, Content};

/// What makes the digests of two stores comparable with each other, and with none else's.
pub type Key = [u8; 32];

/// The key of what `source` has and `joining` may lack.
#[must_use]
pub fn key(source: StoreId, joining: StoreId) -> Key {
    let mut key = [0; 32];
    key[..16].copy_from_slice(&source.0.to_le_bytes());
    key[16..].copy_from_slice(&joining.0.to_le_bytes());
    key
}

/// The digest of one of the blocks. Panics if the contents are of other ones.
#[must_use]
pub fn of(key: &Key, content: &Content, block: BlockIndex) -> BlockDigest {
    match &content.content {
        BlockContent::Zero => BlockDigest::Zero,
        BlockContent::Bad => BlockDigest::Bad,
        BlockContent::Data { data, .. } => {
            let place = (block.0 - content.range.start()) as usize;
            let data = &data[place * BLOCK_SIZE..(place + 1) * BLOCK_SIZE];
            let hash = blake3::keyed_hash(key, data);
            let short = hash.as_bytes()[..16].try_into();
            BlockDigest::Data(short.expect("a hash has 32 bytes"))
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use holdfast_model::{BlockRange, Change};
    use holdfast_stdx::Bytes;

    use super::*;

    fn data(values: &[u8]) -> Content {
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|value| [*value; BLOCK_SIZE])
            .collect();
        let change = Change::write(BlockIndex(62), Bytes::from(bytes));
        let range = change.range().expect("a write has blocks");
        let Change::Write {
            data, checksums, ..
        } = change
        else {
            unreachable!("it was just made")
        };
        Content {
            range,
            content: BlockContent::Data { data, checksums },
        }
    }

    #[test]
    fn each_block_has_a_digest_of_its_own() {
        let key = key(StoreId(1), StoreId(2));
        let content = data(&[1, 2, 1]);
        let [one, two, three] = [62, 63, 64].map(|block| of(&key, &content, BlockIndex(block)));
        assert_eq!(one, three);
        assert_ne!(one, two);
        let zeros = Content {
            range: BlockRange::new(4, 2),
            content: BlockContent::Zero,
        };
        assert_eq!(of(&key, &zeros, BlockIndex(5)), BlockDigest::Zero);
    }

    /// Both sides may be of different versions: this is what they agree on.
    #[test]
    fn digests_are_what_they_were_in_the_first_version() {
        let of = |key| of(&key, &data(&[7]), BlockIndex(62));
        let BlockDigest::Data(hash) = of(key(StoreId(1), StoreId(2))) else {
            panic!("data has a hash")
        };
        let other = of(key(StoreId(2), StoreId(1)));
        assert_ne!(other, BlockDigest::Data(hash));
        let expected = [
            93, 212, 224, 238, 58, 86, 147, 167, 229, 160, 71, 108, 211, 42, 11, 73,
        ];
        assert_eq!(hash, expected);
    }
}
