//! Bytes that wait to be sent, in parts that are not copied together.
//!
//! It refuses to bound itself: whoever fills it looks at how much waits.

use std::collections::VecDeque;
use std::io::IoSlice;

use holdfast_stdx::{Buf, Bytes};

#[derive(Debug, Default)]
pub(super) struct SendQueue {
    parts: VecDeque<Bytes>,
    length: usize,
}

impl SendQueue {
    pub(super) fn push(&mut self, part: Bytes) {
        if !part.is_empty() {
            self.length += part.len();
            self.parts.push_back(part);
        }
    }
}

impl Buf for SendQueue {
    fn remaining(&self) -> usize {
        self.length
    }

    fn chunk(&self) -> &[u8] {
        self.parts.front().map_or(&[], |part| part)
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut count = 0;
        for (slice, part) in slices.iter_mut().zip(&self.parts) {
            *slice = IoSlice::new(part);
            count += 1;
        }
        count
    }

    fn advance(&mut self, count: usize) {
        assert!(count <= self.length, "no more is sent than waits");
        self.length -= count;
        let mut left = count;
        while left > 0 {
            let part = self.parts.front_mut().expect("the length counts the parts");
            if part.len() > left {
                part.advance(left);
                return;
            }
            left -= part.len();
            self.parts.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_leave_in_order() {
        let mut queue = SendQueue::default();
        for part in ["abc", "", "de", "fgh"] {
            queue.push(Bytes::from_static(part.as_bytes()));
        }
        assert_eq!(queue.remaining(), 8);
        queue.advance(1);
        assert_eq!(queue.chunk(), b"bc");
        queue.advance(4);
        assert_eq!((queue.chunk(), queue.remaining()), (&b"fgh"[..], 3));
        let mut slices = [IoSlice::new(&[]); 4];
        assert_eq!(queue.chunks_vectored(&mut slices), 1);
        queue.advance(3);
        assert!(!queue.has_remaining());
        assert!(queue.chunk().is_empty());
    }
}
