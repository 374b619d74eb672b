//! The bytes that a fuzzer makes up, read as choices and values.
//!
//! Invariants:
//! - there is always something to read: behind the end everything is zero, so that an input that is
//!   cut off still says something, and each of its bytes keeps its meaning.

/// What is left of an input.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// All of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether nothing is left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// At most the next `count` bytes.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (head, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        head
    }

    /// All that is left.
    pub fn take_all(&mut self) -> &'a [u8] {
        self.take(usize::MAX)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let taken = self.take(N);
        array[..taken.len()].copy_from_slice(taken);
        array
    }

    /// The next byte.
    pub fn u8(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    /// The next two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    /// The next four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.array())
    }

    /// The next eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.array())
    }

    /// A number below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        assert!((1..=256).contains(&count), "a byte chooses among so many");
        usize::from(self.u8()) % count
    }

    /// One of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_the_end_everything_is_zero() {
        let mut input = Input::new(&[1, 2, 3]);
        assert_eq!(input.u16(), 0x0102);
        assert_eq!(input.u32(), 0x0300_0000);
        assert!(input.is_empty());
        assert_eq!(input.pick(&[7, 8]), 7);
        assert!(input.take(9).is_empty());
    }
}
