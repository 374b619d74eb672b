//! How much a node may keep: memory of what was read, history, log. Machines differ in what they have to spare.

use holdfast_api::documents::LogLevel;
use holdfast_store::BLOCK_CACHE_BYTES;
use serde::{Deserialize, Serialize};

use super::Invalid;

/// The size of the log unless it is configured.
pub(super) const LOG_BYTES_MAX: u64 = 16 << 20;
/// Below this a log holds nothing worth keeping.
pub(super) const LOG_BYTES_MAX_MIN: u64 = 64 << 10;
/// The size of the history unless it is configured: that of a hundred busy volumes fits.
pub(super) const HISTORY_BYTES_MAX: u64 = 512 << 20;
/// Below this a history holds nothing worth keeping.
pub(super) const HISTORY_BYTES_MAX_MIN: u64 = 1 << 20;

/// What is kept of what was read, unless it is configured.
pub const CACHE_BYTES_MAX: u64 = BLOCK_CACHE_BYTES;
/// More than any machine has.
pub(super) const CACHE_BYTES_MAX_MAX: u64 = 64 << 40;

/// The memory that a node keeps of what hosts have read. How much a machine has to spare differs, so it is no setting of the cluster; a
/// change takes effect at the next start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheConfig {
    /// Bytes at most, with what it costs to find them; 0 for none.
    pub bytes_max: u64,
}

impl CacheConfig {
    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn check(self) -> Result<(), Invalid> {
        if self.bytes_max > CACHE_BYTES_MAX_MAX {
            return Err(Invalid::CacheBytes(self.bytes_max));
        }
        Ok(())
    }
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            bytes_max: CACHE_BYTES_MAX,
        }
    }
}

/// A node's log. Its bound is needed before the metadata is reached, and above all while it is not: it guards the
/// file system on which the node's directory is, which differs from machine to machine. So it is no setting of
/// the cluster; a change takes effect at the next start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// Bytes at which the file makes way for a new one; one old file is kept.
    pub bytes_max: u64,
    /// What is written. Other levels than this one hold for a time only, and are ordered while the node runs.
    #[serde(skip_serializing_if = "is_info")]
    pub level: LogLevel,
    /// How lines are written.
    #[serde(skip_serializing_if = "LogFormat::is_text")]
    pub format: LogFormat,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_info(level: &LogLevel) -> bool {
    *level == LogLevel::Info
}

/// How the lines of a log are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For programs: each is a JSON object.
    Json,
}

impl LogFormat {
    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_text(&self) -> bool {
        *self == Self::Text
    }
}

impl LogConfig {
    pub(super) fn check(self) -> Result<(), Invalid> {
        if self.bytes_max < LOG_BYTES_MAX_MIN {
            return Err(Invalid::LogBytes(self.bytes_max));
        }
        Ok(())
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            bytes_max: LOG_BYTES_MAX,
            level: LogLevel::default(),
            format: LogFormat::default(),
        }
    }
}

/// A node's performance history, which is in its directory: how much there is to spare differs, so it is no setting of the
/// cluster; a change takes effect at the next start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryConfig {
    /// Bytes of its files at most: a quarter for each of the four resolutions, of which the oldest goes first.
    pub bytes_max: u64,
}

impl HistoryConfig {
    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn check(self) -> Result<(), Invalid> {
        if self.bytes_max < HISTORY_BYTES_MAX_MIN {
            return Err(Invalid::HistoryBytes(self.bytes_max));
        }
        Ok(())
    }
}

impl Default for HistoryConfig {
    fn default() -> Self {
        Self {
            bytes_max: HISTORY_BYTES_MAX,
        }
    }
}
