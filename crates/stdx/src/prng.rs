//! A seeded pseudo-random generator: xoshiro256++ (Blackman and Vigna, 2019), seeded by SplitMix64.
//!
//! The same seed gives the same numbers for ever, on every platform: traces depend on it.
//! Not for secrets.

/// A deterministic stream of pseudo-random numbers.
#[derive(Clone, Debug)]
pub struct Prng {
    state: [u64; 4],
}

impl Prng {
    /// The stream of `seed`.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut mixer = seed;
        let state = core::array::from_fn(|_| split_mix(&mut mixer));
        Self { state }
    }

    /// An independent stream, drawn from this one: give each consumer its own, so that one more
    /// draw in one of them does not change the others.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::from_seed(self.next_u64())
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let mut state = [a, b, c ^ a, d ^ b];
        state[1] ^= state[2];
        state[0] ^= state[3];
        state[2] ^= b << 17;
        state[3] = state[3].rotate_left(45);
        self.state = state;
        result
    }

    /// A number below `limit`, each equally likely to within 2⁻⁶⁴ × `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        assert!(limit > 0, "an empty range has no numbers");
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "a range begins before it ends");
        match (high - low).checked_add(1) {
            Some(count) => low + self.below(count),
            None => self.next_u64(),
        }
    }

    /// True `numerator` times out of `denominator`.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }

    /// One of `items`, each equally likely.
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// Fills `bytes` with pseudo-random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    /// Shuffles `items` in place (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_that_of_the_published_generator() {
        let mut prng = Prng {
            state: [1, 2, 3, 4],
        };
        assert_eq!(prng.next_u64(), 41_943_041);
        assert_eq!(prng.next_u64(), 58_720_359);
        assert_eq!(prng.next_u64(), 3_588_806_011_781_223);
    }

    #[test]
    fn ranges_hold() {
        let mut prng = Prng::from_seed(7);
        for _ in 0..10_000 {
            assert!(prng.below(3) < 3);
            assert!((5..=9).contains(&prng.between(5, 9)));
        }
        assert!(prng.between(0, u64::MAX) != prng.between(0, u64::MAX));
    }
}
