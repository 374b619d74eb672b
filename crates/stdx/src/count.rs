//! Numbers of things, as people read them.
//!
//! It refuses to know words that have another plural than with an `s`.

use core::fmt;

/// So many things: "1 slice", "2 slices".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count<'a> {
    count: u64,
    one: &'a str,
}

impl<'a> Count<'a> {
    /// So many of what `one` is called.
    pub fn of(count: impl TryInto<u64>, one: &'a str) -> Self {
        // Nobody counts so far.
        let count = count.try_into().unwrap_or(u64::MAX);
        Self { count, one }
    }

    /// The word that fits to it: for one, or for several.
    #[must_use]
    pub const fn choose<'b>(&self, one: &'b str, several: &'b str) -> &'b str {
        if self.count == 1 { one } else { several }
    }
}

impl fmt::Display for Count<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, one } = self;
        write!(formatter, "{count} {one}{}", self.choose("", "s"))
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn one_is_no_plural() {
        for (count, text) in [(0, "0 slices"), (1, "1 slice"), (2, "2 slices")] {
            assert_eq!(Count::of(count, "slice").to_string(), text);
        }
        assert_eq!(Count::of(1_usize, "slice").choose("is", "are"), "is");
        assert_eq!(Count::of(-1, "slice").choose("is", "are"), "are");
    }
}
