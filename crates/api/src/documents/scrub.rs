//! Scrubs: rounds in which all of a volume is read, and its replicas are compared.

use std::ops::AddAssign;

use holdfast_model::record;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a scrub has found. Blocks are of 4 KiB, and those of one replica: what is bad in two of them counts
/// twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScrubFindings {
    /// Bytes that were read, of all replicas.
    pub bytes_read: u64,
    /// Blocks that could not be read, or failed their checksum.
    pub bad_blocks: u64,
    /// Blocks that were sound, and not what the other replicas have.
    pub differing_blocks: u64,
    /// Those of them for which nothing told for certain who is right.
    pub doubtful_blocks: u64,
    /// Bad or differing blocks that could not be put right, because no other replica has them.
    pub unmended_blocks: u64,
    /// Blocks that could not be compared: they changed all the time, or the replica could not be asked.
    pub skipped_blocks: u64,
}

impl From<record::ScrubFindings> for ScrubFindings {
    fn from(found: record::ScrubFindings) -> Self {
        Self {
            bytes_read: found.bytes_read,
            bad_blocks: found.bad,
            differing_blocks: found.differing,
            doubtful_blocks: found.doubtful,
            unmended_blocks: found.unmended,
            skipped_blocks: found.skipped,
        }
    }
}

impl AddAssign for ScrubFindings {
    fn add_assign(&mut self, other: Self) {
        for (sum, more) in [
            (&mut self.bytes_read, other.bytes_read),
            (&mut self.bad_blocks, other.bad_blocks),
            (&mut self.differing_blocks, other.differing_blocks),
            (&mut self.doubtful_blocks, other.doubtful_blocks),
            (&mut self.unmended_blocks, other.unmended_blocks),
            (&mut self.skipped_blocks, other.skipped_blocks),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// The scrubs of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Scrub {
    /// The one under way.
    pub running: Option<ScrubRun>,
    /// The last one that ended.
    pub last: Option<ScrubResult>,
}

/// A scrub under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScrubRun {
    /// Which, from 1.
    pub round: u64,
    /// When it began: seconds since 1970 (UTC).
    pub began_seconds: u64,
    /// Slices that are done.
    pub slices_done: u32,
    /// What was found until now.
    pub findings: ScrubFindings,
    /// Bytes of all replicas that are to be read still, about: what is written meanwhile is not known.
    #[serde(default)]
    pub bytes_left: u64,
    /// Bytes in a second that were read since it began.
    #[serde(default)]
    pub bytes_per_second: u64,
    /// Seconds until all is read, at this rate; null if there is no rate to tell it from.
    #[serde(default)]
    pub seconds_left: Option<u64>,
}

/// A scrub that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScrubResult {
    /// Which, from 1.
    pub round: u64,
    /// When it began: seconds since 1970 (UTC).
    pub began_seconds: u64,
    /// When it ended: seconds since 1970 (UTC).
    pub ended_seconds: u64,
    /// What it found.
    pub findings: ScrubFindings,
}
