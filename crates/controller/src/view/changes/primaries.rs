//! Which nodes lead slices, and which have.
//!
//! Invariants:
//! - of however many slices of however many volumes that are handed over one change is told, once none of them is any more;
//! - of slices that nobody serves nothing is told here: a volume's health says that.

use std::collections::BTreeMap;

use holdfast_control::Inventory;
use holdfast_model::NodeId;
use holdfast_stdx::Count;
use serde::{Deserialize, Serialize};

use crate::reports::Reports;
use crate::view::name;
use crate::view::served::server;

/// How many slices each node leads, by its name.
type Led = BTreeMap<String, u32>;

/// Who leads what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Primaries {
    /// As it is now, of what is served.
    led: Led,
    /// Whether some slice is served by nobody, or on its way to another node.
    is_moving: bool,
    /// As it was when that last rested; nothing where nobody has seen that, and from a version that does not keep it.
    rested: Option<Led>,
}

impl Primaries {
    pub(super) fn of(inventory: &Inventory, reports: &Reports) -> Self {
        let mut led: BTreeMap<NodeId, u32> = BTreeMap::new();
        let mut is_moving = !inventory.wishes.is_empty();
        let volumes = inventory.volumes.values();
        for slice in volumes.flat_map(|volume| inventory.slices_of(&volume.record)) {
            match server(reports, slice) {
                Some((node, _)) => {
                    let led = led.entry(node).or_default();
                    *led = led.saturating_add(1);
                }
                None => is_moving = true,
            }
        }
        Self {
            led: led
                .into_iter()
                .map(|(node, slices)| (name(inventory, node), slices))
                .collect(),
            is_moving,
            rested: None,
        }
    }

    /// Whether it is as it was at the look before, and rests.
    fn rests(&self, before: &Self) -> bool {
        !self.is_moving && self.led == before.led
    }

    /// What has changed since it last rested, if it rests again. Where volumes are made, grow or go, there are other slices to be led.
    pub(super) fn since(&self, before: &Self) -> Option<String> {
        let was = before.rested.as_ref().filter(|_| self.rests(before))?;
        let count = |led: &Led| led.values().map(|slices| u64::from(*slices)).sum::<u64>();
        let is_other = *was != self.led && count(was) == count(&self.led);
        is_other.then(|| {
            format!(
                "slices are led by {} now, after {}",
                words(&self.led),
                words(was)
            )
        })
    }

    /// Whether it rests otherwise than it did.
    pub(super) fn has_settled(&self, before: &Self) -> bool {
        self.rested != before.rested
    }

    /// Goes on from the look before.
    pub(super) fn follow(&mut self, before: &Self) {
        self.rested = match self.rests(before) {
            true => Some(self.led.clone()),
            false => before.rested.clone(),
        };
    }
}

/// "n1", "n1 (3 slices), n2 (1 slice)".
fn words(led: &Led) -> String {
    if led.len() == 1 {
        return led.keys().cloned().collect();
    }
    let each = led.iter();
    let each = each.map(|(node, slices)| format!("{node} ({})", Count::of(*slices, "slice")));
    each.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn led(all: &[(&str, u32)]) -> Primaries {
        let led = all
            .iter()
            .map(|(node, slices)| ((*node).to_owned(), *slices));
        Primaries {
            led: led.collect(),
            ..Primaries::default()
        }
    }

    #[test]
    fn what_is_handed_over_slice_by_slice_is_told_once_when_it_rests() {
        let mut last = led(&[("n1", 3)]);
        let mut look = |mut now: Primaries| {
            let told = now.since(&last);
            now.follow(&last);
            last = now;
            told
        };
        assert_eq!(
            look(led(&[("n1", 3)])),
            None,
            "nobody knows what was before"
        );
        let unserved = Primaries {
            is_moving: true,
            ..led(&[("n2", 2)])
        };
        assert_eq!(look(unserved.clone()), None);
        assert_eq!(look(unserved), None, "nobody serves the third");
        assert_eq!(look(led(&[("n2", 3)])), None, "it may go on");
        let told = look(led(&[("n2", 3)]));
        assert_eq!(told.as_deref(), Some("slices are led by n2 now, after n1"));
        assert_eq!(look(led(&[("n2", 3)])), None);
        assert_eq!(look(led(&[("n1", 1), ("n2", 2)])), None);
        assert_eq!(look(led(&[("n1", 2), ("n2", 1)])), None);
        let told = look(led(&[("n1", 2), ("n2", 1)]));
        let words = "slices are led by n1 (2 slices), n2 (1 slice) now, after n2";
        assert_eq!(told.as_deref(), Some(words));
        // It was there and back between two looks.
        assert_eq!(look(led(&[("n1", 3)])), None);
        assert_eq!(look(led(&[("n1", 2), ("n2", 1)])), None);
        assert_eq!(look(led(&[("n1", 2), ("n2", 1)])), None);
        // A volume is grown.
        for _ in 0..3 {
            assert_eq!(look(led(&[("n1", 2), ("n2", 2)])), None);
        }
    }
}
