//! What a run is meant for. A seed means another run in another profile, so that whoever names a seed
//! names its profile too.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Some seconds of a small cluster's life, as cheap as they come: for millions of seeds.
    #[default]
    Short,
    /// Minutes of a larger one's, with more of everything: for what takes its time to go wrong.
    Long,
    /// As short, with what goes beyond the assumptions: devices that say that something is on stable
    /// storage when it is not, clocks that stand still with their machine. Less can be promised then,
    /// and less is checked.
    Beyond,
}

/// Every profile.
pub const PROFILES: [Profile; 3] = [Profile::Short, Profile::Long, Profile::Beyond];

impl Profile {
    /// Its name, as it is given.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Long => "long",
            Self::Beyond => "beyond",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// There is no profile of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownProfile;

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Self, UnknownProfile> {
        let found = PROFILES.into_iter().find(|profile| profile.name() == name);
        found.ok_or(UnknownProfile)
    }
}
