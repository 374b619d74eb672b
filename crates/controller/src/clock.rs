//! The clock on the wall, which somebody may set: for what people read, and for times that several nodes compare.

use std::time::{Duration, SystemTime};

/// The time, in seconds since 1970 (UTC).
pub(crate) fn unix_seconds() -> u64 {
    since_1970().as_secs()
}

/// The time, in milliseconds since 1970 (UTC).
pub(crate) fn unix_ms() -> u64 {
    since_1970().as_millis() as u64
}

/// A clock that is set to before that stands at its beginning.
fn since_1970() -> Duration {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default()
}
