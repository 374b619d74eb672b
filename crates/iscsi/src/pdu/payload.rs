//! The data segment of a PDU, or the Data-Out of a task, as it came off the stream: a list of parts
//! that are not copied together.
//!
//! Invariants:
//! - no part is empty;
//! - a part is copied unless it is nearly all of the buffer that it was read into, and short parts
//!   are gathered: what a payload keeps alive is at most 8/7 of what is in it, and [`COPY_BELOW`].

use alloc::vec::Vec;

use holdfast_stdx::{Bytes, BytesMut};

/// Parts shorter than this are copied: each has an entry in a list.
const COPY_BELOW: usize = 2048;

/// Whether `length` bytes may keep a buffer of `buffer` bytes alive: seven of eight are in use.
pub(super) const fn is_worth_its_buffer(length: usize, buffer: usize) -> bool {
    length >= buffer - buffer / 8
}

/// Bytes in order, in parts.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    parts: Vec<Bytes>,
    tail: Vec<u8>,
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

    /// Adds `part` at the end, which has its buffer for itself.
    pub fn push(&mut self, part: Bytes) {
        let (buffer, more) = (part.len(), self.tail.len() / 8);
        self.push_part(part, buffer, more);
    }

    /// Adds `part`, which lies in a buffer of `buffer` bytes; some `more` bytes will follow it.
    pub(super) fn push_part(&mut self, part: Bytes, buffer: usize, more: usize) {
        self.length += part.len();
        if part.len() >= COPY_BELOW && is_worth_its_buffer(part.len(), buffer) {
            self.seal();
            self.parts.push(part);
            return;
        }
        if self.tail.capacity() - self.tail.len() < part.len() {
            self.tail.reserve_exact(part.len() + more);
        }
        self.tail.extend_from_slice(&part);
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
        if self.tail.is_empty() {
            return;
        }
        let tail = core::mem::take(&mut self.tail);
        self.parts
            .push(match is_worth_its_buffer(tail.len(), tail.capacity()) {
                true => Bytes::from(tail),
                false => Bytes::copy_from_slice(&tail),
            });
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
