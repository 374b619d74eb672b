//! Serial numbers that wrap (RFC 7143 4.2.2.1 uses the serial arithmetic of RFC 1982).
//!
//! Invariants:
//! - of two numbers less than 2³¹ apart, one precedes the other, wherever they wrap; numbers
//!   exactly 2³¹ apart precede neither.

use core::fmt;

/// A CmdSN, StatSN, DataSN or R2TSN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SerialNumber(pub u32);

impl SerialNumber {
    /// The first of a sequence that counts from zero.
    pub const ZERO: Self = Self(0);

    /// The number after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        self.plus(1)
    }

    /// The number `count` after this one.
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }

    /// The number before this one.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.wrapping_sub(1))
    }

    /// How many numbers lie from `earlier` to this one, going up.
    #[must_use]
    pub const fn distance_from(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Whether this number comes before `other`.
    #[must_use]
    pub const fn precedes(self, other: Self) -> bool {
        let distance = other.distance_from(self);
        distance != 0 && distance < 1 << 31
    }

    /// Whether this number lies in `low..=high`; no number does if `high` precedes `low`.
    #[must_use]
    pub const fn is_within(self, low: Self, high: Self) -> bool {
        !high.precedes(low) && self.distance_from(low) <= high.distance_from(low)
    }
}

impl fmt::Display for SerialNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_survives_the_wrap() {
        let last = SerialNumber(u32::MAX);
        assert!(last.precedes(SerialNumber(0)));
        assert!(!SerialNumber(0).precedes(last));
        assert!(!last.precedes(last));
        assert!(!SerialNumber(0).precedes(SerialNumber(1 << 31)));
        assert!(!SerialNumber(1 << 31).precedes(SerialNumber(0)));
        assert_eq!(last.next().previous(), last);
    }

    #[test]
    fn a_window_over_the_wrap() {
        let (low, high) = (SerialNumber(u32::MAX - 1), SerialNumber(1));
        for inside in [u32::MAX - 1, u32::MAX, 0, 1] {
            assert!(SerialNumber(inside).is_within(low, high));
        }
        for outside in [2, u32::MAX - 2, 1 << 31] {
            assert!(!SerialNumber(outside).is_within(low, high));
        }
    }

    #[test]
    fn a_closed_window_holds_nothing() {
        // MaxCmdSN = ExpCmdSN - 1 says that nothing may be sent (RFC 7143 4.2.2.1).
        let expected = SerialNumber(7);
        assert!(!expected.is_within(expected, expected.previous()));
        assert!(!expected.previous().is_within(expected, expected.previous()));
    }
}
