//! Contents of blocks: each is made of a number, so that a block that was read tells which it is.

use holdfast_model::BLOCK_SIZE;
use holdfast_stdx::{Bytes, BytesMut};

/// The number of a block's contents; 0 is zeros.
pub(crate) type Tag = u64;

/// The block with these contents.
pub(crate) fn block(tag: Tag) -> [u8; BLOCK_SIZE] {
    let mut bytes = [0; BLOCK_SIZE];
    for chunk in bytes.chunks_exact_mut(8) {
        chunk.copy_from_slice(&tag.to_le_bytes());
    }
    bytes
}

/// Several blocks in a row.
pub(crate) fn blocks(tags: &[Tag]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(tags.len() * BLOCK_SIZE);
    for tag in tags {
        bytes.extend_from_slice(&block(*tag));
    }
    bytes.freeze()
}

/// Which contents a block has; `None` if it is none of ours.
pub(crate) fn tag_of(bytes: &[u8]) -> Option<Tag> {
    let tag = Tag::from_le_bytes(bytes.first_chunk::<8>().copied()?);
    (bytes == block(tag)).then_some(tag)
}
