//! An event for tests: what differs between two of them is when they were.

use holdfast_api::documents::{Event, EventKind, EventSeverity};

pub(super) fn event(at_ms: u64) -> Event {
    Event {
        id: format!("a-1-{at_ms:08x}"),
        at_ms,
        kind: EventKind::NodeLost,
        severity: EventSeverity::Warning,
        subject: "node n2".to_owned(),
        detail: "down".to_owned(),
        not_before_ms: None,
    }
}
