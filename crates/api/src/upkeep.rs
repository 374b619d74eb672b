//! What a node has for whoever looks into something: asked of the node in the same process.

use crate::documents::{LocalSupport, LogChange, LogLevels};

/// What a node's process tells of itself, and changes.
pub trait Upkeep: Send + Sync + 'static {
    /// What it writes into its log.
    fn log(&self) -> LogLevels;

    /// Has it write more, or less, for a time.
    fn change_log(&self, change: &LogChange) -> LogLevels;

    /// Its configuration, the last part of its log, and its machine, without secrets. Files are read: it may take a while.
    fn support(&self) -> LocalSupport;
}
