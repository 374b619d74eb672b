//! A read of a region that may have bad blocks: at once, or, where that fails, block by block.
//!
//! It refuses to decide what a bad block means: zeros stand for it, which are no structure of ours.

use holdfast_model::{BLOCK_SIZE, DiskError, DiskOp};
use holdfast_stdx::{Bytes, BytesMut};

/// A read under way. One operation of it is in flight at a time.
#[derive(Debug)]
pub struct PatientRead {
    offset: u64,
    length: u32,
    pieces: Option<BytesMut>,
}

impl PatientRead {
    /// A read of `length` bytes, whole blocks, from `offset`; with its first operation.
    #[must_use]
    pub fn start(offset: u64, length: u32) -> (Self, DiskOp) {
        assert!(length > 0, "a read is of something");
        assert!(
            (length as usize).is_multiple_of(BLOCK_SIZE),
            "a patient read is of whole blocks"
        );
        let read = Self {
            offset,
            length,
            pieces: None,
        };
        (read, DiskOp::Read { offset, length })
    }

    /// Takes the end of the operation in flight: the bytes, or the next operation.
    ///
    /// # Errors
    /// The next operation, if the read is not done.
    pub fn take(&mut self, result: Result<Bytes, DiskError>) -> Result<Bytes, DiskOp> {
        match (&mut self.pieces, result) {
            (None, Ok(bytes)) if bytes.len() == self.length as usize => return Ok(bytes),
            (None, _) => self.pieces = Some(BytesMut::new()),
            (Some(pieces), Ok(bytes)) if bytes.len() == BLOCK_SIZE => {
                pieces.extend_from_slice(&bytes);
            }
            (Some(pieces), _) => pieces.resize(pieces.len() + BLOCK_SIZE, 0),
        }
        let pieces = self.pieces.get_or_insert_default();
        if pieces.len() == self.length as usize {
            return Ok(core::mem::take(pieces).freeze());
        }
        Err(DiskOp::Read {
            offset: self.offset + pieces.len() as u64,
            length: BLOCK_SIZE as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_blocks_become_zeros_and_the_rest_is_read() {
        let (mut read, op) = PatientRead::start(8192, 8192);
        assert_eq!(
            op,
            DiskOp::Read {
                offset: 8192,
                length: 8192
            }
        );
        let first = read.take(Err(DiskError::Os(5))).expect_err("goes on");
        assert_eq!(
            first,
            DiskOp::Read {
                offset: 8192,
                length: 4096
            }
        );
        let second = read.take(Err(DiskError::Os(5))).expect_err("goes on");
        assert_eq!(
            second,
            DiskOp::Read {
                offset: 12288,
                length: 4096
            }
        );
        let bytes = read.take(Ok(Bytes::from_static(&[7; 4096]))).expect("done");
        assert_eq!(bytes[..4096], [0; 4096]);
        assert_eq!(bytes[4096..], [7; 4096]);
    }
}
