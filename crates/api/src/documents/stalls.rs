//! The stall ledger: times in which commands waited at a portal and none was done.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::places::{Place, StallPlace};
use crate::Problem;

/// Stalls in an answer, unless it is said how many.
pub const STALLS_DEFAULT: u32 = 100;
/// Stalls in an answer at most: as many as a node keeps.
pub const STALLS_MAX: u32 = 1024;

/// Why nothing was done.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum StallCause {
    /// A node cannot be reached, or says nothing. Leases of it that have to be waited for are part of it.
    NodeLost,
    /// A lease has to be given, or to end, though all nodes concerned are there.
    Lease,
    /// A disk takes long to read or write.
    Media,
    /// A change of configuration waits for the metadata.
    Metadata,
    /// The node's own process stood still.
    Standstill,
    /// Nothing that the portal's node knows of.
    Unknown,
}

impl StallCause {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::NodeLost,
        Self::Lease,
        Self::Media,
        Self::Metadata,
        Self::Standstill,
        Self::Unknown,
    ];

    /// What people read: the command line, and the console, whose words these are.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::NodeLost => "a node did not answer",
            Self::Lease => "a lease",
            Self::Media => "a device",
            Self::Metadata => "the metadata",
            Self::Standstill => "the node stood still",
            Self::Unknown => "not known",
        }
    }

    /// The word that documents and metrics use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NodeLost => "node-lost",
            Self::Lease => "lease",
            Self::Media => "media",
            Self::Metadata => "metadata",
            Self::Standstill => "standstill",
            Self::Unknown => "unknown",
        }
    }
}

/// A time of 100 ms or more in which commands waited at a portal and none was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stall {
    /// When it began: milliseconds since 1970, by the clock of the portal's node.
    pub began_ms: u64,
    /// How long it lasted; how long it has lasted, if it does still.
    pub length_ms: u64,
    /// Whether it lasts.
    pub lasting: bool,
    /// The node whose portal it was.
    pub portal: String,
    /// The volume.
    pub volume: String,
    /// Whose commands waited; null if it was everybody's at that portal.
    pub initiator: Option<String>,
    /// Why.
    pub cause: StallCause,
    /// Which node was the cause, if one was.
    pub node: Option<String>,
    /// The slice for which the oldest command waited, if that is known.
    pub slice: Option<u32>,
    /// Commands that waited, at most.
    pub waiting_max: u32,
    /// Whether it ended because a command was done; else whoever waited gave up, or was refused.
    pub served: bool,
}

/// Stalls of all portals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StallList {
    /// The newest first, those that last before all.
    pub stalls: Vec<Stall>,
    /// Where the rest begins, for `after`; none if there is no more. One that lasted when it was told comes again after it if it is
    /// over meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Nodes that did not answer: what they keep is not among it.
    pub silent: Vec<String>,
}

/// Which stalls are asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StallQuery {
    /// How many at most, 1 to 1024.
    pub limit: u32,
    /// None that ended before: milliseconds since 1970.
    pub since_ms: u64,
    /// Each initiator's as well, not only those in which nobody was served at a portal.
    pub initiators: bool,
    /// Those after a piece: what its `next` said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl Default for StallQuery {
    fn default() -> Self {
        Self {
            limit: STALLS_DEFAULT,
            since_ms: 0,
            initiators: false,
            after: None,
        }
    }
}

impl StallQuery {
    /// Whether a stall is asked for.
    #[must_use]
    pub fn wants(&self, stall: &LocalStall) -> bool {
        let ended_ms = stall.began_ms.saturating_add(stall.length_ms);
        (self.initiators || stall.initiator.is_none()) && ended_ms >= self.since_ms
    }

    /// Beyond which place stalls are asked for, if that is said.
    ///
    /// # Errors
    /// [`ProblemKind::Invalid`](crate::ProblemKind::Invalid) if it is no cursor of the ledger.
    pub fn place(&self) -> Result<Option<StallPlace>, Problem> {
        self.after.as_deref().map(StallPlace::read).transpose()
    }
}

/// A stall, as a node keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalStall {
    /// When it began: milliseconds since 1970.
    pub began_ms: u64,
    /// How long it lasted.
    pub length_ms: u64,
    /// The volume's id.
    pub volume: u64,
    /// Whose commands waited; null if it was everybody's.
    pub initiator: Option<String>,
    /// Why.
    pub cause: StallCause,
    /// The number of the node that was the cause, if one was.
    pub node: Option<u16>,
    /// The slice for which the oldest command waited, if that is known.
    pub slice: Option<u32>,
    /// Commands that waited, at most.
    pub waiting_max: u32,
    /// Whether it ended because a command was done.
    pub served: bool,
}

/// The stalls that one node keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalStalls {
    /// The node's number.
    pub node: u16,
    /// Those that last.
    pub lasting: Vec<LocalStall>,
    /// Those that are over, the newest first.
    pub stalls: Vec<LocalStall>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_leaves_out_what_is_too_old_and_what_is_one_initiators() {
        let stall = LocalStall {
            began_ms: 1000,
            length_ms: 500,
            volume: 1,
            initiator: None,
            cause: StallCause::Media,
            node: Some(2),
            slice: Some(0),
            waiting_max: 3,
            served: true,
        };
        let one = LocalStall {
            initiator: Some("iqn.2026-11.example:host".to_owned()),
            ..stall
        };
        let query = StallQuery {
            since_ms: 1500,
            ..StallQuery::default()
        };
        assert!(query.wants(&stall) && !query.wants(&one));
        let all = StallQuery {
            initiators: true,
            ..query
        };
        assert!(all.wants(&one));
        let later = StallQuery {
            since_ms: 1501,
            ..all
        };
        assert!(!later.wants(&stall) && !later.wants(&one));
    }

    #[test]
    fn causes_are_called_the_same_everywhere() {
        for cause in [
            StallCause::NodeLost,
            StallCause::Lease,
            StallCause::Media,
            StallCause::Metadata,
            StallCause::Standstill,
            StallCause::Unknown,
        ] {
            let text = serde_json::to_string(&cause).unwrap();
            assert_eq!(text, format!("\"{}\"", cause.as_str()));
        }
    }

    #[test]
    fn people_read_the_same_words_of_a_cause_everywhere() {
        let console = include_str!("../../../../console/src/text/words.ts");
        let (_, causes) = console.split_once("const STALL_CAUSES").unwrap();
        let (causes, _) = causes.split_once("\n};").unwrap();
        for cause in StallCause::ALL {
            let words = format!("word: '{}'", cause.words());
            assert!(causes.contains(&words), "{words} in {causes}");
        }
        assert_eq!(causes.matches("word: '").count(), StallCause::ALL.len());
    }
}
