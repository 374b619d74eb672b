//! What runs have reached, counted: of what there is to reach, and so what none has.
//!
//! Everything is seen from outside: what plans are made of, what engines tell of, say to each other and
//! answer, and what the metadata holds. Nothing in the code that ships counts for this.
//!
//! Invariant: what is counted is among what there is ([`POINTS`]), so that a new kind of anything is
//! added there, and cannot be missed.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// What can be reached: groups of points.
pub const POINTS: &[(&str, &[&str])] = &[
    ("nodes", &["1", "2", "3", "4", "5", "6", "7"]),
    ("volumes", &["1", "2", "3"]),
    ("policy", &["none", "mirror2", "mirror3", "mirror4"]),
    (
        "fault",
        &[
            "kill",
            "power loss",
            "stop",
            "freeze",
            "freeze between",
            "standstill",
            "cut node to node",
            "cut node to metadata",
            "cut metadata to node",
            "cut host to node",
            "cut node to host",
            "reset of a link",
            "slow network",
            "stuck disks",
            "hanging reads",
            "slow disks",
            "failing disks",
            "lost answers",
            "metadata rolled back",
            "metadata rolled back: held back",
            "metadata emptied",
            "metadata damaged",
            "metadata restored",
            "emptied",
            "emptied: held back",
            "rolled back",
            "rolled back: held back",
            "journal rolled back",
            "journal rolled back: held back",
            "swapped devices",
            "devices put back",
            "rot",
            "rot: held back",
            "journal rotten",
            "journal rotten: held back",
            "journal rotten in use",
            "lost header of a segment",
            "lost and misdirected writes",
            "lost and misdirected writes: held back",
            "scrub",
            "altered",
            "altered: held back",
            "lying devices",
            "growth",
            "move",
            "move: held back",
        ],
    ),
    (
        "order",
        &[
            "add",
            "add: refused",
            "drain",
            "drain: refused",
            "cancel drain",
            "cancel drain: refused",
            "maintenance on",
            "maintenance on: refused",
            "maintenance off",
            "maintenance off: refused",
            "remove",
            "remove: refused",
            "site",
            "site: refused",
        ],
    ),
    (
        "order refused",
        &["not so", "last copies", "too few nodes", "holds something"],
    ),
    (
        "settings",
        &[
            "repair delay",
            "rebalance",
            "slowdown",
            "floor",
            "scrub rate",
            "scrub interval",
            "held back",
        ],
    ),
    (
        "scrub",
        &[
            "begun by itself",
            "begun by itself again",
            "begun by an order",
            "ordered while one is under way",
            "ended",
        ],
    ),
    (
        "guest",
        &[
            "ordered",
            "held back",
            "clean-up ordered",
            "made",
            "made again",
            "hung up",
            "cut short by a death",
            "waits for somebody else",
            "others were faster",
            "outcome unknown",
            "nothing to do",
            "refused: another of that name",
            "refused: too few nodes",
            "cleared away",
            "deleted",
            "deleted: a holder is off",
            "deleted: a holder is cut off",
            "deleted: a replica joins",
            "deleted: it moves",
            "deleted: it is scrubbed",
        ],
    ),
    (
        "device order",
        &[
            "add",
            "add with room for the journal",
            "replace",
            "replace an absent one",
            "replace the journal's",
            "drain",
            "drain the journal's",
            "resume",
            "call the journal's move off",
            "remove",
            "remove one with room for the journal",
            "remove an absent one",
            "give up",
        ],
    ),
    (
        "device order refused",
        &[
            "unknown",
            "journal",
            "no room",
            "not empty",
            "absent",
            "lacking",
            "holds something",
            "too small",
            "failed",
            "not open",
            "busy",
        ],
    ),
    (
        "device",
        &[
            "taken out",
            "journal's taken out",
            "put back",
            "dead",
            "dead: held back",
            "fails",
            "fails at an opening",
            "later than its journal",
            "journal's fails",
            "lost",
            "away: missing",
            "away: lost",
            "several away",
            "taken back",
            "lacks something",
            "lacks nothing",
            "given up: held back",
        ],
    ),
    (
        "journal",
        &[
            "has moved",
            "has moved back",
            "process ends: being copied",
            "process ends: announced",
            "process ends: switched",
            "process ends: settled, and not all know",
            "called off at a start",
            "not there at a start",
        ],
    ),
    (
        "steers",
        &["somebody", "another one", "deposed", "written", "too late"],
    ),
    (
        "wish",
        &[
            "moves",
            "replaces one that is away",
            "led elsewhere",
            "lets others go",
            "changed",
            "takes one back",
            "goes elsewhere",
            "met",
            "called off",
        ],
    ),
    (
        "while it moves",
        &[
            "target ends",
            "target freezes",
            "target cut off",
            "target slow",
            "target emptied",
            "primary ends",
            "primary freezes",
            "primary cut off",
            "primary slow",
            "primary emptied",
            "source ends",
            "source freezes",
            "source cut off",
            "source slow",
            "source emptied",
            "holder ends",
            "holder freezes",
            "holder cut off",
            "holder slow",
            "holder emptied",
            "led by another one",
            "one that is to stay is taken out",
        ],
    ),
    ("role", &["leads", "follows", "joins", "stands", "outside"]),
    (
        "role change",
        &[
            "leads > outside",
            "leads > stands",
            "follows > stands",
            "follows > outside",
            "stands > leads",
            "stands > follows",
            "stands > outside",
            "outside > joins",
            "joins > outside",
            "joins > stands",
            "outside > stands",
        ],
    ),
    (
        "configuration",
        &[
            "taken out",
            "several taken out",
            "joins in its place",
            "joins with another store",
            "in sync",
            "takeover",
            "takeover, leaving somebody out",
            "led by another one",
            "led by another one, itself left out",
            "epoch alone",
        ],
    ),
    (
        "notice",
        &[
            "peer up",
            "peer down",
            "stood still",
            "leads",
            "deposed",
            "removed, lost",
            "removed, slow",
            "handed over, preferred",
            "handed over, slow",
            "joining, fast",
            "joining, full",
            "in sync",
            "named for a copy",
            "released",
            "spoiled",
            "repaired",
            "corrected",
            "scrubbed",
            "journal rotten",
            "lost",
            "store behind",
            "not that replica",
            "metadata behind",
            "not known of",
            "stray device",
            "device left",
            "device absent",
            "metadata astray",
            "metadata followed",
            "volume deleted",
            "removed from the cluster",
            "replaced",
            "device failed",
        ],
    ),
    (
        "refusal",
        &["stale epoch", "not that replica", "failed store"],
    ),
    (
        "forward",
        &[
            "done",
            "not primary",
            "expired",
            "not ready",
            "no space",
            "busy",
            "medium error",
            "deposed",
            "fenced",
            "sent back without its data",
        ],
    ),
    (
        "sync",
        &[
            "fast, begun",
            "full, begun",
            "ended",
            "begun again before it ended",
            "gone on where it was",
            "copied by a secondary",
            "not copied by a secondary",
            "secondary lost the link",
            "waits for room",
        ],
    ),
    (
        "opening",
        &[
            "refused",
            "blank devices",
            "journal ends well",
            "journal ends in a bad group",
            "journal has lost a part",
        ],
    ),
    (
        "host",
        &[
            "done",
            "told something else first",
            "later",
            "medium error",
            "no room",
            "repeated over another path",
            "reset done",
            "reset refused",
            "waits for growth",
            "no such target",
            "another volume",
            "reservation conflict",
            "fenced another off",
        ],
    ),
];

/// Counts of points, by group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Coverage {
    counts: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Coverage {
    /// A point was reached.
    pub fn reach(&mut self, group: &str, point: &str) {
        self.add(group, point, 1);
    }

    /// A point was reached so many times.
    pub fn add(&mut self, group: &str, point: &str, count: u64) {
        debug_assert!(is_known(group, point), "{group}: {point} is not listed");
        if count == 0 {
            return;
        }
        if let Some(known) = self.counts.get_mut(group).and_then(|it| it.get_mut(point)) {
            *known += count;
            return;
        }
        let points = self.counts.entry(group.into()).or_default();
        points.insert(point.into(), count);
    }

    /// Adds another run's.
    pub fn merge(&mut self, other: &Self) {
        for (group, points) in &other.counts {
            for (point, count) in points {
                self.add(group, point, *count);
            }
        }
    }

    /// How often a point was reached.
    #[must_use]
    pub fn count(&self, group: &str, point: &str) -> u64 {
        let points = self.counts.get(group);
        points
            .and_then(|points| points.get(point))
            .copied()
            .unwrap_or(0)
    }

    /// What was never reached.
    #[must_use]
    pub fn missed(&self) -> Vec<(&'static str, &'static str)> {
        let all = POINTS
            .iter()
            .flat_map(|(group, points)| points.iter().map(|point| (*group, *point)));
        all.filter(|(group, point)| self.count(group, point) == 0)
            .collect()
    }
}

fn is_known(group: &str, point: &str) -> bool {
    POINTS
        .iter()
        .any(|(name, points)| *name == group && points.contains(&point))
}

impl fmt::Display for Coverage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (group, points) in POINTS {
            writeln!(formatter, "{group}")?;
            for point in *points {
                let count = self.count(group, point);
                writeln!(formatter, "  {count:>12}  {point}")?;
            }
        }
        let missed = self.missed();
        if missed.is_empty() {
            return writeln!(formatter, "everything was reached");
        }
        writeln!(formatter, "never reached:")?;
        for (group, point) in missed {
            writeln!(formatter, "  {group}: {point}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_never_reached_is_listed() {
        let mut coverage = Coverage::default();
        coverage.reach("role", "leads");
        let mut other = Coverage::default();
        other.add("role", "leads", 2);
        other.add("role", "joins", 1);
        coverage.merge(&other);
        assert_eq!(coverage.count("role", "leads"), 3);
        let missed = coverage.missed();
        assert!(missed.contains(&("role", "stands")));
        assert!(!missed.contains(&("role", "joins")));
        let text = coverage.to_string();
        assert!(text.contains("           3  leads\n"), "{text}");
        let last = POINTS
            .last()
            .and_then(|(group, points)| Some((group, points.last()?)));
        let (group, point) = last.expect("something can be reached");
        assert!(text.ends_with(&format!("  {group}: {point}\n")), "{text}");
    }
}
