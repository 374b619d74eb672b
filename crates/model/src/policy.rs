//! What an administrator asks of a volume, and of a device.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// How a volume is protected: how many nodes hold each of its slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// One copy: no node may fail.
    None,
    /// Two copies.
    Mirror2,
    /// Three copies.
    Mirror3,
    /// Four copies.
    Mirror4,
}

impl Policy {
    /// All of them, by rising protection.
    pub const ALL: [Policy; 4] = [
        Policy::None,
        Policy::Mirror2,
        Policy::Mirror3,
        Policy::Mirror4,
    ];

    /// Nodes that hold each slice, 1 to 4.
    #[must_use]
    pub const fn copies(self) -> usize {
        match self {
            Policy::None => 1,
            Policy::Mirror2 => 2,
            Policy::Mirror3 => 3,
            Policy::Mirror4 => 4,
        }
    }

    /// In-sync copies below which writes stop.
    #[must_use]
    pub const fn copies_min(self) -> usize {
        match self {
            Policy::None | Policy::Mirror2 => 1,
            Policy::Mirror3 | Policy::Mirror4 => 2,
        }
    }

    /// The word that configuration files and the command line use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Policy::None => "none",
            Policy::Mirror2 => "mirror2",
            Policy::Mirror3 => "mirror3",
            Policy::Mirror4 => "mirror4",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

/// The word is not one of the policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such policy; the policies are none, mirror2, mirror3 and mirror4")]
pub struct UnknownPolicy;

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(word: &str) -> Result<Self, UnknownPolicy> {
        Policy::ALL
            .into_iter()
            .find(|policy| policy.as_str() == word)
            .ok_or(UnknownPolicy)
    }
}

/// The class of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Tier 0: flash; new writes land here, and the journal lives here.
    Flash,
    /// Tier 1: capacity.
    Capacity,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        for policy in Policy::ALL {
            assert_eq!(policy.as_str().parse(), Ok(policy));
        }
        assert_eq!("raid7".parse::<Policy>(), Err(UnknownPolicy));
    }
}
