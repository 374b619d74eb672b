//! The data segment of a PDU, or the Data-Out of a task, as it came off the stream: a list of parts
//! that are not copied together.
//!
//! Invariants:
//! - no part is empty;
//! - parts shorter than [`COPY_BELOW`] are copied behind one another, so that neither the list nor
//!   what it keeps alive grows out of proportion to the bytes in it.

use alloc::vec::Vec;

use holdfast_stdx::{Bytes, BytesMut};

/// Parts shorter than this are copied: a part keeps the whole chunk alive that it was read with,
/// and has an entry in a list. Drivers read in chunks of 64 KiB, so what is held is at most 32 times
/// what was sent.
const COPY_BELOW: usize = 2048;

/// Bytes in order, in parts.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    parts: Vec<Bytes>,
    tail: BytesMut,
    length: usize,
}

impl Payload {
    /// No bytes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many bytes there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Adds `part` at the end.
    pub fn push(&mut self, part: Bytes) {
        self.length += part.len();
        if part.len() < COPY_BELOW {
            self.tail.extend_from_slice(&part);
        } else {
            self.seal();
            self.parts.push(part);
        }
    }

    /// Adds all of `other` at the end.
    pub fn append(&mut self, other: Self) {
        for part in other.into_parts() {
            self.push(part);
        }
    }

    /// The parts.
    #[must_use]
    pub fn into_parts(mut self) -> Vec<Bytes> {
        self.seal();
        self.parts
    }

    /// All bytes in one piece; copies if there are several parts.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        let mut parts = self.into_parts();
        if parts.len() == 1 {
            return parts.remove(0);
        }
        let mut whole = BytesMut::with_capacity(parts.iter().map(Bytes::len).sum());
        for part in &parts {
            whole.extend_from_slice(part);
        }
        whole.freeze()
    }

    fn seal(&mut self) {
        if !self.tail.is_empty() {
            self.parts.push(core::mem::take(&mut self.tail).freeze());
        }
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        let mut payload = Self::new();
        payload.push(bytes);
        payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_parts_are_gathered_and_large_ones_kept() {
        let mut payload = Payload::new();
        payload.push(Bytes::new());
        for _ in 0..5_000 {
            payload.push(Bytes::from_static(b"x"));
        }
        let large = Bytes::from(alloc::vec![b'y'; COPY_BELOW]);
        payload.push(large.clone());
        payload.push(Bytes::from_static(b"z"));
        assert_eq!(payload.len(), 5_001 + COPY_BELOW);
        let parts = payload.into_parts();
        assert_eq!(parts.len(), 3);
        assert_eq!(
            parts[1].as_ptr(),
            large.as_ptr(),
            "a large part is not copied"
        );
        assert_eq!(parts[2], Bytes::from_static(b"z"));
    }
}
