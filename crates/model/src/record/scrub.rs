//! What the metadata holds of scrubs: rounds in which all of a volume is read and its replicas are
//! compared.
//!
//! A round is begun by whoever steers the cluster, or by an operator. Each slice's primary does its part,
//! and says so at the slice's key. When all have, the round's result is the volume's.

use alloc::format;
use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::{ByteSize, SliceId, VolumeId};

/// Where volumes' scrubs are.
pub const SCRUBS_PREFIX: &str = "/holdfast/scrubs/";
/// Where it is said of slices that they are done.
pub const SCRUBBED_PREFIX: &str = "/holdfast/scrubbed/";

/// What a scrub has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScrubFindings {
    /// Bytes that replicas hold and that were read, on all nodes.
    pub bytes_read: u64,
    /// Blocks of a replica that could not be read, or failed their checksum.
    pub bad: u64,
    /// Blocks of a replica that were sound, and not what the others have.
    pub differing: u64,
    /// Those for which nothing told for certain who is right.
    pub doubtful: u64,
    /// Bad or differing blocks that could not be put right: no other replica has them.
    pub unmended: u64,
    /// Blocks of a replica that could not be compared: they changed all the time, or the replica could not
    /// be asked.
    pub skipped: u64,
}

impl ScrubFindings {
    /// Adds what was found elsewhere.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.bytes_read, other.bytes_read),
            (&mut self.bad, other.bad),
            (&mut self.differing, other.differing),
            (&mut self.doubtful, other.doubtful),
            (&mut self.unmended, other.unmended),
            (&mut self.skipped, other.skipped),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

impl fmt::Display for ScrubFindings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            bytes_read,
            bad,
            differing,
            doubtful,
            unmended,
            skipped,
        } = self;
        write!(
            formatter,
            "{} read; blocks: {bad} bad, {differing} differing ({doubtful} in doubt), {unmended} not \
             mended, {skipped} not compared",
            ByteSize(*bytes_read)
        )
    }
}

/// A round that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScrubResult {
    /// Which.
    pub round: u64,
    /// When it began, in seconds since 1970 (UTC).
    pub began_seconds: u64,
    /// When it ended, in seconds since 1970 (UTC).
    pub ended_seconds: u64,
    /// What it found.
    pub findings: ScrubFindings,
}

/// A volume's scrubs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScrubRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// Which volume.
    pub volume: VolumeId,
    /// The newest round, from 1.
    pub round: u64,
    /// When it began, in seconds since 1970 (UTC).
    pub began_seconds: u64,
    /// The last round that is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<ScrubResult>,
}

impl ScrubRecord {
    /// The key of a volume's scrubs.
    #[must_use]
    pub fn key(volume: VolumeId) -> String {
        format!("{SCRUBS_PREFIX}{:016x}", volume.0)
    }

    /// Whether the newest round is under way.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        self.last.is_none_or(|last| last.round < self.round)
    }
}

/// That a slice's part of a round is done, said by its primary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScrubbedRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// Which slice.
    pub slice: SliceId,
    /// The round.
    pub round: u64,
    /// What was found.
    pub findings: ScrubFindings,
}

impl ScrubbedRecord {
    /// The key of a slice.
    #[must_use]
    pub fn key(slice: SliceId) -> String {
        format!("{}{:08x}", Self::prefix(slice.volume), slice.index)
    }

    /// Where all slices of a volume are.
    #[must_use]
    pub fn prefix(volume: VolumeId) -> String {
        format!("{SCRUBBED_PREFIX}{:016x}/", volume.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    #[test]
    fn scrubs_are_read_for_ever() {
        let findings = ScrubFindings {
            bytes_read: 8192,
            bad: 2,
            differing: 3,
            doubtful: 1,
            unmended: 5,
            skipped: 4,
        };
        let literal =
            br#"{"bytes_read":8192,"bad":2,"differing":3,"doubtful":1,"unmended":5,"skipped":4}"#;
        let findings_text = core::str::from_utf8(literal).unwrap();
        let scrub = ScrubRecord {
            schema: 1,
            volume: VolumeId(3),
            round: 2,
            began_seconds: 70,
            last: Some(ScrubResult {
                round: 1,
                began_seconds: 50,
                ended_seconds: 60,
                findings,
            }),
        };
        let text = format!(
            r#"{{"schema":1,"volume":3,"round":2,"began_seconds":70,"last":{{"round":1,"began_seconds":50,"ended_seconds":60,"findings":{findings_text}}}}}"#
        );
        assert_eq!(&scrub.encode()[..], text.as_bytes());
        assert_eq!(ScrubRecord::decode(text.as_bytes()), Ok(scrub.clone()));
        assert!(scrub.is_under_way());
        assert!(!ScrubRecord { round: 1, ..scrub }.is_under_way());
        let slice = SliceId {
            volume: VolumeId(3),
            index: 1,
        };
        let scrubbed = ScrubbedRecord {
            schema: 1,
            slice,
            round: 2,
            findings,
        };
        let text = format!(
            r#"{{"schema":1,"slice":{{"volume":3,"index":1}},"round":2,"findings":{findings_text}}}"#
        );
        assert_eq!(&scrubbed.encode()[..], text.as_bytes());
        assert_eq!(ScrubbedRecord::decode(text.as_bytes()), Ok(scrubbed));
    }
}
