//! Data that is nothing.

use crate::Bytes;

/// Whether there is nothing but zeros.
#[must_use]
pub fn is_zero(parts: &[Bytes]) -> bool {
    // By whole words where there are: what is not zero mostly shows at once.
    parts.iter().all(|part| {
        let (words, rest) = part.as_chunks::<16>();
        let are_zero = words.iter().all(|word| u128::from_ne_bytes(*word) == 0);
        are_zero && rest.iter().all(|byte| *byte == 0)
    })
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn zeros() {
        let zeros = Bytes::from(vec![0; 40]);
        assert!(is_zero(&[]));
        assert!(is_zero(&[zeros.clone(), zeros.clone()]));
        for place in [0, 17, 39] {
            let mut bytes = vec![0; 40];
            bytes[place] = 1;
            assert!(!is_zero(&[zeros.clone(), Bytes::from(bytes)]), "{place}");
        }
    }
}
