//! What came of the wish for a volume that bore a key, so that its repetition is answered as the wish was.

use alloc::string::String;
use core::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::VolumeId;

/// Where they are.
pub const CREATIONS_PREFIX: &str = "/holdfast/creations/";

/// What came of a wish. It is put on record together with the volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreationRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// The volume that there is for it.
    pub volume: VolumeId,
    /// Whether it was made for it, and not there already.
    pub made: bool,
    /// What was wished for, word by word: another wish must not bear the same key.
    pub wish: String,
    /// When: seconds since 1970 (UTC).
    pub at_seconds: u64,
}

impl CreationRecord {
    /// Where it is for a key. Whatever the key is made of, no two keys share one.
    #[must_use]
    pub fn key(key: &str) -> String {
        let mut place = String::from(CREATIONS_PREFIX);
        for byte in key.bytes() {
            write!(place, "{byte:02x}").expect("a text takes what it is given");
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::KEY_LENGTH_MAX;
    use crate::record::Record;

    #[test]
    fn a_creation_is_written_as_it_always_was() {
        let literal =
            br#"{"schema":1,"volume":7,"made":true,"wish":"{\"name\":\"data\"}","at_seconds":12}"#;
        let record = CreationRecord::decode(literal).unwrap();
        assert_eq!(&record.encode()[..], &literal[..]);
        assert_eq!(CreationRecord::key("a/Z"), "/holdfast/creations/612f5a");
        let longest = "x".repeat(255);
        assert!(CreationRecord::key(&longest).len() <= KEY_LENGTH_MAX);
    }
}
