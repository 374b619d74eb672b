//! What the log has of replicas that were taken out of in-sync sets: one line for each node of which that is so, with how many slices
//! there are, once it has been looked at for a moment. A node that dies leaves hundreds at a time; each of them is told at DEBUG.
//!
//! Invariants:
//! - each replica is in one line: it is named there, or counted;
//! - what is counted is told within [`MOMENT`] and a look, or when the node ends.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use holdfast_engine::Notice;
use holdfast_model::NodeId;
use holdfast_stdx::Count;

use crate::bad_blocks::Line;

/// For how long what comes after the first one is told with it. The leases of a lost node end within a second of each other.
const MOMENT: Duration = Duration::from_secs(1);

/// What there is to tell of each node, and why it is out: because its disk takes too long, or it does not answer.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    untold: BTreeMap<(NodeId, bool), Untold>,
}

#[derive(Debug)]
struct Untold {
    since: Instant,
    count: usize,
    first: Notice,
}

impl Departures {
    /// Takes a notice that is of that kind, or gives it back.
    pub(crate) fn take(&mut self, now: Instant, notice: Notice) -> Option<Notice> {
        let Notice::Removed { node, slow, .. } = notice else {
            return Some(notice);
        };
        tracing::debug!("{notice}");
        let untold = self.untold.entry((node, slow)).or_insert_with(|| Untold {
            since: now,
            count: 0,
            first: notice,
        });
        untold.count += 1;
        None
    }

    /// What has waited for long enough.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<Line> {
        let mut due = Vec::new();
        self.untold.retain(|_, untold| {
            let is_due = now.saturating_duration_since(untold.since) >= MOMENT;
            due.extend(is_due.then(|| untold.line()));
            !is_due
        });
        due
    }

    /// All that has not been told.
    pub(crate) fn rest(&mut self) -> impl Iterator<Item = Line> {
        let untold = std::mem::take(&mut self.untold);
        untold.into_values().map(|untold| untold.line())
    }
}

impl Untold {
    fn line(&self) -> Line {
        let mut text = self.first.to_string();
        if self.count > 1 {
            let more = Count::of(self.count - 1, "more slice");
            text.push_str(&format!(" (and of {more}: at level debug each has a line)"));
        }
        (self.first.severity(), text)
    }
}

#[cfg(test)]
mod tests {
    use holdfast_engine::Severity;
    use holdfast_model::{SliceId, VolumeId};

    use super::*;

    fn removed(index: u32, node: u16, slow: bool) -> Notice {
        Notice::Removed {
            slice: SliceId {
                volume: VolumeId(7),
                index,
            },
            node: NodeId(node),
            slow,
        }
    }

    #[test]
    fn a_node_that_dies_has_a_line_however_many_slices_it_had() {
        let mut departures = Departures::default();
        let begun = Instant::now();
        for index in 0..300 {
            let at = begun + Duration::from_millis(u64::from(index));
            assert_eq!(departures.take(at, removed(index, 2, false)), None);
            assert!(departures.due(at).is_empty());
        }
        assert_eq!(departures.take(begun, removed(0, 3, true)), None);
        let lines = departures.due(begun + MOMENT);
        let [(severity, of_lost), (_, of_slow)] = &lines[..] else {
            panic!("{lines:?}");
        };
        assert_eq!(*severity, Severity::Warning);
        let first = removed(0, 2, false).to_string();
        assert_eq!(
            *of_lost,
            format!("{first} (and of 299 more slices: at level debug each has a line)")
        );
        assert_eq!(*of_slow, removed(0, 3, true).to_string(), "one is one");
        // The next moment has another line.
        let later = begun + 2 * MOMENT;
        departures.take(later, removed(9, 2, false));
        assert!(departures.due(later).is_empty());
        assert_eq!(departures.rest().count(), 1);
        assert_eq!(departures.rest().count(), 0);
    }

    #[test]
    fn what_is_about_something_else_is_left_to_others() {
        let mut departures = Departures::default();
        let other = Notice::PeerDown(NodeId(2));
        assert_eq!(departures.take(Instant::now(), other.clone()), Some(other));
        assert_eq!(departures.rest().count(), 0);
    }
}
