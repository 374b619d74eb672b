//! Alarms on record: which are raised, what was raised lately, who is told, and what was set otherwise.
//!
//! Invariants:
//! - each raising and each clearing has a number of its own, higher than those of all before;
//! - a kind that this version does not know is kept as it is.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Record, Secret};
use crate::NodeId;

/// Where the alarms are.
pub const ALARMS_KEY: &str = "/holdfast/alarms";
/// Where it is said what was set otherwise for kinds of alarms.
pub const ALARM_RULES_KEY: &str = "/holdfast/alarm-rules";
/// Where it is said who is told of alarms.
pub const RECEIVERS_KEY: &str = "/holdfast/receivers";

/// Where it is said since when nodes are in maintenance.
pub const MAINTENANCE_KEY: &str = "/holdfast/maintenance";

/// The alarms of the cluster, at [`ALARMS_KEY`]. Times are milliseconds since 1970 (UTC), by the clock of whoever steered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlarmsRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// How many changes there have been: alarms raised, and cleared.
    pub changes: u64,
    /// What is raised, by its number.
    pub raised: Vec<AlarmEntry>,
    /// What was cleared last, in the order in which it was.
    pub cleared: Vec<AlarmEntry>,
    /// By the receiver's name: the last change that it was told of.
    #[serde(default)]
    pub told: BTreeMap<String, u64>,
    /// By the receiver's name: why it could not be told last, if it could not.
    #[serde(default)]
    pub undelivered: BTreeMap<String, Undelivered>,
}

impl Default for AlarmsRecord {
    fn default() -> Self {
        Self {
            schema: Self::SCHEMA,
            changes: 0,
            raised: Vec::new(),
            cleared: Vec::new(),
            told: BTreeMap::new(),
            undelivered: BTreeMap::new(),
        }
    }
}

impl Record for AlarmsRecord {
    fn schema(&self) -> u32 {
        self.schema
    }
}

/// An alarm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlarmEntry {
    /// The number of the change that raised it.
    pub id: u64,
    /// The code of its kind.
    pub kind: String,
    /// What it is about: "node n1", "volume demo".
    pub subject: String,
    /// What was seen last while it was bad, a minute ago at most, and how it ended, if it has.
    pub detail: String,
    /// Since when that is so.
    pub raised_ms: u64,
    /// How it ended, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleared: Option<Clearing>,
    /// Who has taken note of it, if anybody has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Acknowledgement>,
}

/// That an alarm is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clearing {
    /// The number of the change.
    pub change: u64,
    /// When that was.
    pub at_ms: u64,
}

/// That somebody has taken note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acknowledgement {
    /// Who.
    pub by: String,
    /// When.
    pub at_ms: u64,
    /// What he had to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// That a receiver could not be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Undelivered {
    /// When it was tried last.
    pub at_ms: u64,
    /// Why not.
    pub why: String,
    /// How often it was tried since it last could be.
    pub attempts: u32,
    /// Whether what there was to tell was given up.
    #[serde(default)]
    pub is_given_up: bool,
}

/// What was set otherwise, at [`ALARM_RULES_KEY`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlarmRulesRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// By the kind's code.
    pub rules: BTreeMap<String, AlarmRule>,
}

impl Default for AlarmRulesRecord {
    fn default() -> Self {
        Self {
            schema: Self::SCHEMA,
            rules: BTreeMap::new(),
        }
    }
}

impl Record for AlarmRulesRecord {
    fn schema(&self) -> u32 {
        self.schema
    }
}

/// When alarms of a kind are raised and cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlarmRule {
    /// Whether they are not raised at all.
    #[serde(default)]
    pub is_off: bool,
    /// The value that sets one.
    pub set: u64,
    /// The value beyond which it is cleared.
    pub clear: u64,
    /// For how many seconds either has to hold.
    pub hold_seconds: u64,
}

/// Who is told, at [`RECEIVERS_KEY`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiversRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// By name.
    pub receivers: BTreeMap<String, ReceiverRecord>,
}

impl Default for ReceiversRecord {
    fn default() -> Self {
        Self {
            schema: Self::SCHEMA,
            receivers: BTreeMap::new(),
        }
    }
}

impl Record for ReceiversRecord {
    fn schema(&self) -> u32 {
        self.schema
    }
}

/// Since when nodes are in maintenance, at [`MAINTENANCE_KEY`]: kept by whoever steers, so that the next one knows. It is no part
/// of what an operator wants of a node, which earlier versions read as well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaintenanceRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// By the node: when that was first seen. Milliseconds since 1970 (UTC), by the clock of whoever steered.
    pub since_ms: BTreeMap<NodeId, u64>,
}

impl Default for MaintenanceRecord {
    fn default() -> Self {
        Self {
            schema: Self::SCHEMA,
            since_ms: BTreeMap::new(),
        }
    }
}

impl Record for MaintenanceRecord {
    fn schema(&self) -> u32 {
        self.schema
    }
}

impl MaintenanceRecord {
    /// The same when these nodes are in maintenance, and no others: those that have come to it are since now.
    #[must_use]
    pub fn with(&self, nodes: impl Iterator<Item = NodeId>, now_ms: u64) -> Self {
        let since = nodes.map(|node| (node, self.since_ms.get(&node).copied().unwrap_or(now_ms)));
        Self {
            schema: Self::SCHEMA,
            since_ms: since.collect(),
        }
    }

    /// For how many seconds a node is; none for one that is not. By a clock that was set back it is not longer than it was.
    #[must_use]
    pub fn seconds_of(&self, node: NodeId, now_ms: u64) -> Option<u64> {
        let since_ms = self.since_ms.get(&node)?;
        Some(now_ms.saturating_sub(*since_ms) / 1000)
    }
}

/// Somebody who is told of alarms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiverRecord {
    /// Whether only of critical ones.
    #[serde(default)]
    pub critical_only: bool,
    /// PEM of an authority that is trusted beside the system's; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub authority: String,
    /// How.
    pub way: ReceiverWay,
}

/// How somebody is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ReceiverWay {
    /// By mail (SMTP, RFC 5321).
    Mail {
        /// The relay's host name or address.
        server: String,
        /// Its port.
        port: u16,
        /// Whether the connection is encrypted.
        security: MailSecurity,
        /// Who logs in, if anybody does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
        /// With which password.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        password: Option<Secret>,
        /// The sender's address.
        from: String,
        /// The receivers' addresses.
        to: Vec<String>,
    },
    /// By an HTTP request.
    Webhook {
        /// Where it goes. Whoever has it may post there: it is sealed as secrets are, where all nodes open that.
        url: String,
        /// What requests are signed with, if they are.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secret: Option<Secret>,
    },
}

/// How a connection to a mail relay is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MailSecurity {
    /// TLS from the first byte (RFC 8314; port 465).
    Tls,
    /// TLS after STARTTLS (RFC 3207; port 587 or 25), and nothing without.
    StartTls,
    /// Not at all.
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maintenance_lasts_from_when_it_was_first_seen_until_it_ends() {
        let none = MaintenanceRecord::default();
        let one = none.with([NodeId(3)].into_iter(), 5000);
        assert_eq!(one.seconds_of(NodeId(3), 5000), Some(0));
        let both = one.with([NodeId(3), NodeId(1)].into_iter(), 9000);
        assert_eq!(both.seconds_of(NodeId(3), 9999), Some(4));
        assert_eq!(both.seconds_of(NodeId(1), 9999), Some(0));
        assert_eq!(both.seconds_of(NodeId(1), 0), Some(0), "a clock was set");
        let literal = br#"{"schema":1,"since_ms":{"1":9000,"3":5000}}"#;
        assert_eq!(&both.encode()[..], &literal[..]);
        assert_eq!(MaintenanceRecord::decode(literal), Ok(both.clone()));
        // Whoever comes to it again begins anew.
        let ended = both.with([NodeId(1)].into_iter(), 10_000);
        assert_eq!(ended.seconds_of(NodeId(3), 10_000), None);
        let again = ended.with([NodeId(3)].into_iter(), 11_000);
        assert_eq!(again.seconds_of(NodeId(3), 11_000), Some(0));
    }
}
