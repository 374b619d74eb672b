//! Numbers as bytes: seven bits in each, the least first, as LEB128 has them (DWARF 5, 7.6).

use alloc::vec::Vec;

/// Why bytes are no history of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// There are fewer than there have to be: what was written last was not written whole.
    #[error("the history ends in the middle")]
    Short,
    /// They have changed since they were written.
    #[error("a checksum of the history is wrong")]
    Checksum,
    /// They were written by something else, or another version.
    #[error("the history is not of a form that is known here")]
    Malformed,
}

/// Appends.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn byte(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }
}

/// Takes from the front; every read says whether the bytes were there.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn byte(&mut self) -> Result<u8, HistoryError> {
        let (first, rest) = self.rest.split_first().ok_or(HistoryError::Malformed)?;
        self.rest = rest;
        Ok(*first)
    }

    pub(crate) fn number(&mut self) -> Result<u64, HistoryError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if shift == 63 && bits > 1 {
                return Err(HistoryError::Malformed);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(HistoryError::Malformed)
    }

    /// How many things follow, each of a byte at least: no more than there are bytes, nor than there may be.
    pub(crate) fn count(&mut self, most: usize) -> Result<usize, HistoryError> {
        let count = self.number()?;
        let most = most.min(self.rest.len()) as u64;
        if count > most {
            return Err(HistoryError::Malformed);
        }
        Ok(count as usize)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, HistoryError> {
        let length = self.count(usize::MAX)?;
        let (text, rest) = self.rest.split_at(length);
        self.rest = rest;
        core::str::from_utf8(text).map_err(|_| HistoryError::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_written() {
        for shift in 0..64 {
            for number in [1_u64 << shift, (1 << shift) - 1, u64::MAX - (1 << shift)] {
                let mut out = Writer::default();
                out.number(number);
                let mut reader = Reader::new(&out.bytes);
                assert_eq!(reader.number(), Ok(number));
                assert!(reader.is_empty());
            }
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        let endless = [0x80; 11];
        let too_large = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        for bytes in [&endless[..], &too_large, &[0x80], &[]] {
            assert_eq!(Reader::new(bytes).number(), Err(HistoryError::Malformed));
        }
    }

    #[test]
    fn counts_and_texts_are_no_longer_than_what_is_there() {
        assert_eq!(
            Reader::new(&[3, 1, 2]).count(9),
            Err(HistoryError::Malformed)
        );
        assert_eq!(
            Reader::new(&[3, 1, 2, 3]).count(2),
            Err(HistoryError::Malformed)
        );
        assert_eq!(
            Reader::new(&[3, b'a', b'b']).text(),
            Err(HistoryError::Malformed)
        );
        assert_eq!(Reader::new(&[1, 0xff]).text(), Err(HistoryError::Malformed));
        assert_eq!(Reader::new(&[2, b'a', b'b']).text(), Ok("ab"));
    }
}
