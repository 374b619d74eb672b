//! What the metadata holds of who may use volumes: initiators, with what they prove who they are by, and the volumes
//! that are for some of them only. Documents of their own, which versions without them pass over.
//!
//! Invariants:
//! - a volume without an [`ExportRecord`] is open to everybody, one with such a record to those whom it lists, and to
//!   nobody if it lists none, or cannot be read;
//! - a secret is never printed.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize};

use crate::VolumeId;

/// Where initiators are.
pub const INITIATORS_PREFIX: &str = "/holdfast/initiators/";
/// Where it is said which volumes are not for everybody.
pub const EXPORTS_PREFIX: &str = "/holdfast/exports/";
/// Where logical units of targets that several volumes may share are taken.
pub const UNITS_PREFIX: &str = "/holdfast/units/";

/// Something that only those who need it are told.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl<'de> Deserialize<'de> for Secret {
    /// What is no text is refused without being repeated: it may have been meant as one.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Said {
            Text(String),
            Other(IgnoredAny),
        }
        match Said::deserialize(deserializer)? {
            Said::Text(text) => Ok(Self(text)),
            Said::Other(_) => Err(D::Error::custom("a secret is text, in quotes")),
        }
    }
}

impl fmt::Debug for Secret {
    /// That there is one, and no more.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(..)")
    }
}

/// A name, and the secret that proves it (CHAP, RFC 1994).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChapRecord {
    /// The name.
    pub name: String,
    /// What proves it.
    pub secret: Secret,
}

/// An initiator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InitiatorRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// Its iSCSI name, as it is compared (RFC 7143 4.2.7).
    pub name: String,
    /// What it proves by who it is; without, its name is believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap: Option<ChapRecord>,
    /// What targets prove to it who they are by, if it wants that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual: Option<ChapRecord>,
}

impl InitiatorRecord {
    /// The key of an initiator's record.
    #[must_use]
    pub fn key(name: &str) -> String {
        format!("{INITIATORS_PREFIX}{name}")
    }
}

/// Whom a volume is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// Which volume.
    pub volume: VolumeId,
    /// The initiators that may use it, by name, in order. Who has no record may not, whoever lists it.
    pub initiators: Vec<String>,
}

impl ExportRecord {
    /// The record of a volume that is for nobody.
    #[must_use]
    pub const fn nobody(volume: VolumeId) -> Self {
        Self {
            schema: 1,
            volume,
            initiators: Vec::new(),
        }
    }

    /// The key of the record of whom a volume is for.
    #[must_use]
    pub fn key(volume: VolumeId) -> String {
        format!("{EXPORTS_PREFIX}{:016x}", volume.0)
    }
}

/// A logical unit of a target that an administrator has named, taken by a volume. The unit that a volume has where
/// nobody names one is its own without such a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnitRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// By which volume.
    pub volume: VolumeId,
}

impl UnitRecord {
    /// The key of the record of a target's unit.
    #[must_use]
    pub fn key(target: &str, lun: u16) -> String {
        format!("{UNITS_PREFIX}{target}/{lun:04x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Record, RecordError};

    #[test]
    fn a_secret_of_another_type_is_not_repeated() {
        for said in [
            "1234567890123",
            "true",
            "[\"no secret of ours\"]",
            "null",
            "-1.5e3",
        ] {
            let error = serde_json::from_str::<Secret>(said).expect_err("it is no text");
            assert!(
                format!("{error}").starts_with("a secret is text, in quotes"),
                "{error}"
            );
        }
        let read: Secret = serde_json::from_str("\"twelve bytes\"").expect("it is text");
        assert_eq!(read.0, "twelve bytes");
    }

    #[test]
    fn documents_are_as_they_were_released() {
        let initiator = InitiatorRecord {
            schema: 1,
            name: "iqn.1991-05.com.example:a".into(),
            chap: Some(ChapRecord {
                name: "a".into(),
                secret: Secret("twelve bytes".into()),
            }),
            mutual: None,
        };
        let text = br#"{"schema":1,"name":"iqn.1991-05.com.example:a","chap":{"name":"a","secret":"twelve bytes"}}"#;
        assert_eq!(&initiator.encode()[..], &text[..]);
        assert_eq!(InitiatorRecord::decode(text), Ok(initiator.clone()));
        assert!(!format!("{initiator:?}").contains("twelve"));
        let export = ExportRecord {
            initiators: alloc::vec![initiator.name],
            ..ExportRecord::nobody(VolumeId(26))
        };
        let text = br#"{"schema":1,"volume":26,"initiators":["iqn.1991-05.com.example:a"]}"#;
        assert_eq!(&export.encode()[..], &text[..]);
        assert_eq!(ExportRecord::decode(text), Ok(export));
        let unknown = br#"{"schema":1,"volume":26,"initiators":[],"open":true}"#;
        assert_eq!(ExportRecord::decode(unknown), Err(RecordError::Malformed));
        let keys = [
            InitiatorRecord::key("iqn.a"),
            ExportRecord::key(VolumeId(26)),
            UnitRecord::key("iqn.t", 17),
        ];
        let expected = [
            "/holdfast/initiators/iqn.a",
            "/holdfast/exports/000000000000001a",
            "/holdfast/units/iqn.t/0011",
        ];
        assert_eq!(keys, expected);
    }
}
