//! Vital product data pages that are lists of bytes (SPC-4 7.8).

use super::{Malformed, byte, word};

/// The content of page `code`.
pub(crate) fn content(data: &[u8], code: u8) -> Result<&[u8], Malformed> {
    const CUT: &str = "a vital product data page that is shorter than it says";
    if byte(data, 1, CUT)? != code {
        return Err(Malformed(
            "another vital product data page than was asked for",
        ));
    }
    let length = usize::from(word(data, 2, CUT)?);
    data.get(4..4 + length).ok_or(Malformed(CUT))
}

/// Supported VPD Pages.
pub(crate) fn supported(data: &[u8]) -> Result<Vec<u8>, Malformed> {
    content(data, 0x00).map(<[u8]>::to_vec)
}

/// Unit Serial Number.
pub(crate) fn serial(data: &[u8]) -> Result<Vec<u8>, Malformed> {
    content(data, 0x80).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_as_long_as_it_says() {
        let page = [0, 0x80, 0, 3, b'a', b'b', b'c', b'd'];
        assert_eq!(serial(&page).unwrap(), b"abc");
        assert!(serial(&page[..6]).is_err());
        assert!(supported(&page).is_err(), "it is another page");
        assert!(content(&[], 0).is_err());
    }
}
