//! How much a node keeps of what it puts down.

use serde::{Deserialize, Serialize};

use super::Record;

/// Where it is said how much nodes keep.
pub const RETENTION_KEY: &str = "/holdfast/retention";
/// MiB that a node keeps of a log, at least: two files of 1 MiB, each of some thousand lines.
pub const RETENTION_MIB_MIN: u32 = 2;
/// At most: some 400,000 changes, or 700,000 events, which a node reads through in about a second, when it starts and when somebody
/// asks for what is old.
pub const RETENTION_MIB_MAX: u32 = 128;

/// How much each node keeps, at [`RETENTION_KEY`]. What is not there has its default. It is a document of its own, which earlier
/// versions pass over: they keep what is the default here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// MiB of the audit log: the file, and the one before it.
    #[serde(default = "default_audit")]
    pub audit_mib: u32,
    /// MiB of the log of events: the file, and the one before it.
    #[serde(default = "default_events")]
    pub events_mib: u32,
}

/// Some 100,000 changes.
const fn default_audit() -> u32 {
    32
}

/// Some 60,000 events, which is a node lost and back with a replica of each of 1,000 volumes fourteen times.
const fn default_events() -> u32 {
    16
}

impl Default for RetentionRecord {
    fn default() -> Self {
        Self {
            schema: Self::SCHEMA,
            audit_mib: default_audit(),
            events_mib: default_events(),
        }
    }
}

impl Record for RetentionRecord {
    fn schema(&self) -> u32 {
        self.schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RecordError;

    #[test]
    fn the_first_schema_is_read_for_ever_and_what_is_not_said_has_its_default() {
        let set = RetentionRecord {
            audit_mib: 64,
            ..RetentionRecord::default()
        };
        let literal = br#"{"schema":1,"audit_mib":64,"events_mib":16}"#;
        assert_eq!(RetentionRecord::decode(literal), Ok(set));
        assert_eq!(&set.encode()[..], &literal[..]);
        let none = RetentionRecord::decode(br#"{"schema":1}"#).unwrap();
        assert_eq!((none.audit_mib, none.events_mib), (32, 16));
        let more = br#"{"schema":1,"stalls_mib":4}"#;
        assert_eq!(RetentionRecord::decode(more), Err(RecordError::Malformed));
    }
}
