//! What a node has for whoever looks into something.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{LocalReport, Versions};

/// A node's part of a support bundle. There are no secrets in it: what they stood for says `(removed)`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct LocalSupport {
    /// The node's number; 0 of a demo's own, which has its audit log only.
    pub node: u16,
    /// Its name.
    pub name: String,
    /// What it runs.
    pub versions: Versions,
    /// When this was put together: milliseconds since 1970.
    pub taken_ms: u64,
    /// Its configuration, as its file has it.
    #[schema(value_type = Object)]
    pub configuration: serde_json::Value,
    /// What the system says, by where it says it: its version, processors, memory, devices, mounts, limits.
    pub facts: BTreeMap<String, String>,
    /// The last part of its log.
    pub log: String,
    /// What is before that in the same file: bytes.
    pub log_bytes_before: u64,
    /// The last part of the log that was full before.
    pub log_before: String,
    /// The last part of its log of events: a JSON document a line.
    pub events: String,
    /// The last part of the log of events that was full before.
    pub events_before: String,
    /// The last part of its log of what was done through its interface: a JSON document a line.
    pub audit: String,
    /// The last part of that log that was full before.
    pub audit_before: String,
    /// What it knows by itself; null of one that does not run.
    pub report: Option<Box<LocalReport>>,
    /// Its metrics, as Prometheus reads them.
    pub metrics: String,
    /// What could not be had, and why.
    pub missing: Vec<String>,
}
