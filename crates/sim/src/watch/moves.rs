//! What becomes of wishes, and what goes wrong meanwhile.

use std::collections::BTreeMap;

use holdfast_metadata::machine::StoreChange;
use holdfast_model::metadata::WatchEvent;
use holdfast_model::record::{Membership, Record, SliceRecord, WISHES_PREFIX, WishRecord};
use holdfast_model::{NodeId, SliceId};

use crate::coverage::Coverage;

/// What goes wrong with a node that has to do with a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Its process ends.
    Ends,
    /// It stands still.
    Freezes,
    /// A way from it, or to it, is cut.
    Cut,
    /// Its devices are slow, or stuck.
    Slow,
    /// It has new, empty devices.
    Emptied,
}

/// What a node is to a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// It is to hold the slice, and does not yet.
    Target,
    /// It leads.
    Primary,
    /// It is to go.
    Source,
    /// It stays.
    Holder,
}

/// The wishes there are.
#[derive(Debug, Default)]
pub(super) struct Moves {
    wishes: BTreeMap<SliceId, WishRecord>,
}

impl Moves {
    /// Follows what the metadata holds.
    pub(super) fn follow<'a>(
        &mut self,
        changes: &[StoreChange],
        record: impl Fn(SliceId) -> Option<&'a SliceRecord>,
        coverage: &mut Coverage,
    ) {
        for change in changes {
            let StoreChange::Committed { events, .. } = change else {
                continue;
            };
            for event in events {
                match event {
                    WatchEvent::Put(pair) if pair.key.starts_with(WISHES_PREFIX) => {
                        let wish = WishRecord::decode(&pair.value);
                        let wish = wish.expect("our own records can be read");
                        let before = self.wishes.insert(wish.slice, wish.clone());
                        if let Some(record) = record(wish.slice) {
                            coverage.reach("wish", wished(record, before.as_ref(), &wish));
                        }
                    }
                    WatchEvent::Delete { key, .. } if key.starts_with(WISHES_PREFIX) => {
                        let of = |slice: &&SliceId| WishRecord::key(**slice) == *key;
                        let Some(slice) = self.wishes.keys().find(of).copied() else {
                            continue;
                        };
                        let wish = self.wishes.remove(&slice);
                        let met = record(slice)
                            .zip(wish)
                            .is_some_and(|(record, wish)| wish.is_met_by(record));
                        coverage.reach("wish", if met { "met" } else { "called off" });
                    }
                    _ => {}
                }
            }
        }
    }

    /// Another store has taken the place of the one before.
    pub(super) fn forget(&mut self) {
        self.wishes.clear();
    }

    /// A record changes while its slice is wanted elsewhere.
    pub(super) fn record(
        &self,
        before: &SliceRecord,
        after: &SliceRecord,
        coverage: &mut Coverage,
    ) {
        let Some(wish) = self.wishes.get(&after.slice) else {
            return;
        };
        let lost = before
            .in_sync()
            .filter(|node| wish.nodes.contains(node))
            .any(|node| !after.in_sync().any(|other| other == node));
        for (point, reached) in [
            ("led by another one", before.primary != after.primary),
            ("one that is to stay is taken out", lost),
        ] {
            if reached {
                coverage.reach("while it moves", point);
            }
        }
    }

    /// Something goes wrong with a node.
    pub(super) fn trouble<'a>(
        &self,
        node: NodeId,
        trouble: Trouble,
        record: impl Fn(SliceId) -> Option<&'a SliceRecord>,
        coverage: &mut Coverage,
    ) {
        for (slice, wish) in &self.wishes {
            let part = record(*slice).and_then(|record| part_of(node, record, wish));
            if let Some(part) = part {
                coverage.reach("while it moves", troubled(part, trouble));
            }
        }
    }
}

/// What a wish wants that is new.
fn wished(record: &SliceRecord, before: Option<&WishRecord>, wish: &WishRecord) -> &'static str {
    let is_in_sync = |node: &NodeId| record.in_sync().any(|other| other == *node);
    let is_away = |node: NodeId| {
        let replica = record.replica(node);
        replica.is_some_and(|replica| replica.membership != Membership::InSync)
    };
    if let Some(before) = before {
        let back = |node: &NodeId| record.replica(*node).is_some() && !before.nodes.contains(node);
        return if before.nodes == wish.nodes {
            match wish.kept.len() < before.kept.len() {
                true => "lets others go",
                false => "changed",
            }
        } else if wish.nodes.iter().any(back) {
            "takes one back"
        } else {
            "goes elsewhere"
        };
    }
    let leaves = |keep: &dyn Fn(NodeId) -> bool| {
        let mut replicas = record.replicas.iter();
        replicas.any(|replica| !wish.nodes.contains(&replica.node) && keep(replica.node))
    };
    if !wish.nodes.iter().all(is_in_sync) && leaves(&is_away) {
        "replaces one that is away"
    } else if leaves(&|_| true) {
        "moves"
    } else {
        "led elsewhere"
    }
}

fn part_of(node: NodeId, record: &SliceRecord, wish: &WishRecord) -> Option<Part> {
    let is_in_sync = record.in_sync().any(|other| other == node);
    if record.primary == node {
        Some(Part::Primary)
    } else if wish.nodes.contains(&node) {
        Some(if is_in_sync {
            Part::Holder
        } else {
            Part::Target
        })
    } else {
        is_in_sync.then_some(Part::Source)
    }
}

const fn troubled(part: Part, trouble: Trouble) -> &'static str {
    match (part, trouble) {
        (Part::Target, Trouble::Ends) => "target ends",
        (Part::Target, Trouble::Freezes) => "target freezes",
        (Part::Target, Trouble::Cut) => "target cut off",
        (Part::Target, Trouble::Slow) => "target slow",
        (Part::Target, Trouble::Emptied) => "target emptied",
        (Part::Primary, Trouble::Ends) => "primary ends",
        (Part::Primary, Trouble::Freezes) => "primary freezes",
        (Part::Primary, Trouble::Cut) => "primary cut off",
        (Part::Primary, Trouble::Slow) => "primary slow",
        (Part::Primary, Trouble::Emptied) => "primary emptied",
        (Part::Source, Trouble::Ends) => "source ends",
        (Part::Source, Trouble::Freezes) => "source freezes",
        (Part::Source, Trouble::Cut) => "source cut off",
        (Part::Source, Trouble::Slow) => "source slow",
        (Part::Source, Trouble::Emptied) => "source emptied",
        (Part::Holder, Trouble::Ends) => "holder ends",
        (Part::Holder, Trouble::Freezes) => "holder freezes",
        (Part::Holder, Trouble::Cut) => "holder cut off",
        (Part::Holder, Trouble::Slow) => "holder slow",
        (Part::Holder, Trouble::Emptied) => "holder emptied",
    }
}
