//! Where an entry stands in a log that each node keeps a part of, so that all of them are told in pieces as one.
//!
//! Every node has the same order for all of it, and tells what is beyond a place by itself: who asks puts the answers
//! together, and needs to remember nothing from one piece to the next.
//!
//! Invariants:
//! - no two entries have one place, though they be of the same millisecond;
//! - what comes in between takes no entry from its place.

use std::cmp::Reverse;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{AuditEntry, LocalStall};
use crate::{Problem, cursor};

/// Where an entry of the audit log stands: the newest first, then by the node's name, then what a node has put down last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AuditPlace(Reverse<u64>, String, Reverse<u64>);

impl AuditPlace {
    /// Of an entry.
    #[must_use]
    pub fn of(entry: &AuditEntry) -> Self {
        let AuditEntry {
            at_ms,
            node,
            number,
            ..
        } = entry;
        Self(Reverse(*at_ms), node.clone(), Reverse(*number))
    }
}

/// Where a stall stands: those that last before all, the newest first, then by portal, volume and initiator. How long one lasts
/// is the last of it: one that goes on stands no later for that.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StallPlace(
    Reverse<bool>,
    Reverse<u64>,
    u16,
    u64,
    Option<String>,
    Reverse<u64>,
);

impl StallPlace {
    /// Of a stall at the portal of the node with that number.
    #[must_use]
    pub fn of(portal: u16, stall: &LocalStall, lasting: bool) -> Self {
        let LocalStall {
            began_ms,
            length_ms,
            volume,
            initiator,
            ..
        } = stall;
        let (began, length) = (Reverse(*began_ms), Reverse(*length_ms));
        Self(
            Reverse(lasting),
            began,
            portal,
            *volume,
            initiator.clone(),
            length,
        )
    }
}

/// A place in such a log.
pub trait Place: Ord + Serialize + DeserializeOwned {
    /// What `next` says if a piece ends there.
    #[must_use]
    fn cursor(&self) -> String {
        cursor::of(&serde_json::to_string(self).expect("a place is valid JSON"))
    }

    /// What `after` means.
    ///
    /// # Errors
    /// [`ProblemKind::Invalid`](crate::ProblemKind::Invalid) if it is no cursor of this log.
    fn read(cursor: &str) -> Result<Self, Problem> {
        let place = cursor::read(cursor)?;
        serde_json::from_str(&place).map_err(|_| cursor::none())
    }
}

impl Place for AuditPlace {}
impl Place for StallPlace {}

/// A piece of what several nodes have told: so many at most of those beyond a place, in their order, and what `next` says if there
/// are more.
#[must_use]
pub fn piece<P: Place, T>(
    told: impl IntoIterator<Item = (P, T)>,
    after: Option<&P>,
    limit: usize,
) -> (Vec<T>, Option<String>) {
    let beyond = told.into_iter();
    let beyond = beyond.filter(|(place, _)| after.is_none_or(|after| place > after));
    let mut beyond: Vec<_> = beyond.collect();
    beyond.sort_by(|(one, _), (other, _)| one.cmp(other));
    let has_more = beyond.len() > limit;
    beyond.truncate(limit);
    let last = beyond.last().filter(|_| has_more);
    let next = last.map(|(place, _)| place.cursor());
    (beyond.into_iter().map(|(_, it)| it).collect(), next)
}

#[cfg(test)]
mod tests {
    use crate::documents::StallCause;

    use super::*;

    /// All of it in pieces of so many.
    fn in_pieces<P: Place + Clone, T: Clone>(told: &[(P, T)], limit: usize) -> Vec<T> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let (part, next) = piece(told.to_vec(), after.as_ref(), limit);
            assert!((1..=limit).contains(&part.len()));
            all.extend(part);
            let Some(next) = next else {
                return all;
            };
            after = Some(P::read(&next).unwrap());
        }
    }

    #[test]
    fn entries_of_one_moment_at_several_nodes_are_told_once_each() {
        let mut entries = Vec::new();
        for (at_ms, node, number) in [
            (7, "n2", 3),
            (7, "n1", 9),
            (7, "n1", 8),
            (7, "n3", 1),
            (8, "n2", 2),
            (6, "n1", 10),
        ] {
            let entry = AuditEntry {
                at_ms,
                node: node.to_owned(),
                number,
                ..AuditEntry::default()
            };
            entries.push((AuditPlace::of(&entry), (at_ms, node, number)));
        }
        let expected = [
            (8, "n2", 2),
            (7, "n1", 9),
            (7, "n1", 8),
            (7, "n2", 3),
            (7, "n3", 1),
            (6, "n1", 10),
        ];
        for limit in 1..=7 {
            assert_eq!(in_pieces(&entries, limit), expected, "{limit}");
        }
    }

    fn stall(began_ms: u64, volume: u64, initiator: Option<&str>) -> LocalStall {
        LocalStall {
            began_ms,
            length_ms: 200,
            volume,
            initiator: initiator.map(str::to_owned),
            cause: StallCause::Media,
            node: None,
            slice: None,
            waiting_max: 1,
            served: true,
        }
    }

    #[test]
    fn stalls_of_one_moment_are_told_once_each_though_one_of_them_goes_on() {
        let both = [(1, true), (1, false), (2, true), (2, false)];
        let told: Vec<_> = both
            .into_iter()
            .flat_map(|(portal, lasting)| {
                [(5, 1, None), (5, 1, Some("iqn.a:b")), (5, 2, None)].map(|(at, volume, who)| {
                    let place = StallPlace::of(portal, &stall(at, volume, who), lasting);
                    (place, (portal, lasting, volume, who))
                })
            })
            .collect();
        let whole = in_pieces(&told, 100);
        assert!(whole.iter().take(6).all(|it| it.1), "{whole:?}");
        for limit in 1..=12 {
            assert_eq!(in_pieces(&told, limit), whole, "{limit}");
        }
        let longer = LocalStall {
            length_ms: 900,
            ..stall(5, 1, None)
        };
        let told = StallPlace::of(1, &stall(5, 1, None), true);
        assert!(
            StallPlace::of(1, &longer, true) < told,
            "it is not told anew"
        );
    }

    #[test]
    fn what_is_no_cursor_of_the_log_is_refused() {
        let stall = StallPlace::of(1, &stall(5, 1, None), true).cursor();
        for cursor in ["", "7", "zz", &cursor::of("7"), &stall] {
            let refused = AuditPlace::read(cursor).unwrap_err();
            assert_eq!(refused.kind, crate::ProblemKind::Invalid, "{cursor}");
        }
    }
}
