//! Who serves a slice, by reports of which each is of another moment.
//!
//! Invariants:
//! - the epochs of who does not believe the metadata count for less than those of any other node;
//! - a slice is told to be unserved by what was so at one moment, and not by two reports between which it was handed over.

use std::collections::BTreeSet;

use holdfast_api::documents::{LocalMetadata, LocalSlice, ReplicaCondition};
use holdfast_control::Inventory;
use holdfast_model::record::SliceRecord;
use holdfast_model::{Epoch, NodeId, SliceId};

use super::holders::has_lost;
use crate::reports::Reports;

/// A hand-over that takes longer is in trouble: who is named next waits for less when it does not hear that it leads.
const HAND_OVER_MS_MAX: u64 = 1000;
/// So long takes what nobody has led before at most, of many that are made at once and on busy disks: nobody has it yet.
const TAKE_UP_MS_MAX: u64 = 3000;
/// The epoch of slices that nobody has led yet: whoever takes one up begins the next.
const MADE: Epoch = Epoch(1);

/// The replica that takes reads and writes. While one primary follows another both may say so for
/// a moment: the newer one is it. The epochs of who does not believe the metadata may be those of a copy of it.
pub(super) fn server<'a>(
    reports: &'a Reports,
    record: &SliceRecord,
) -> Option<(NodeId, &'a LocalSlice)> {
    let replicas = reports.replicas(record.slice);
    replicas
        .filter(|(_, slice)| slice.serving)
        .max_by_key(|(node, slice)| (!reports.disbelieves(*node), slice.epoch))
}

/// Whether hosts are served, as far as the reports tell: a replica says that it serves, or is just taking that over.
pub(super) fn is_served(reports: &Reports, record: &SliceRecord) -> bool {
    server(reports, record).is_some()
        || is_handed_over(reports, record)
        || is_just_made(reports, record)
}

/// Whether a slice is so new that whoever is to lead it first has not told of it yet, or is just taking it up: nobody misses it.
fn is_just_made(reports: &Reports, record: &SliceRecord) -> bool {
    let follows = reports.metadata(record.primary) == Some(LocalMetadata::Followed);
    if record.epoch > MADE.next() || !follows || !reports.takes_part(record.primary) {
        return false;
    }
    match reports.replica(record.primary, record.slice) {
        None => reports.is_from_before(record.primary, record.slice.volume),
        Some(slice) => slice.handed_ms.is_some_and(|it| it < TAKE_UP_MS_MAX),
    }
}

/// Whether as many good copies take part as a slice needs to be served, and not only that of who led it: where nobody serves it,
/// another one takes it over.
pub(super) fn may_be_taken_over(reports: &Reports, record: &SliceRecord) -> bool {
    let good = record
        .in_sync()
        .filter(|node| reports.takes_part(*node) && !has_lost(reports, record, *node));
    let good: Vec<NodeId> = good.collect();
    let is_enough = good.len() >= usize::from(record.copies_min).max(1);
    is_enough && good.iter().any(|node| *node != record.primary)
}

/// Whether a slice is served, and writes to it wait: too few copies take part.
pub(super) fn writes_wait(reports: &Reports, record: &SliceRecord) -> bool {
    server(reports, record).is_some_and(|(_, server)| {
        let condition = server.condition.as_ref();
        condition.is_some_and(|it| it.what == ReplicaCondition::Stuck)
    })
}

/// Slices that are empty, as who serves them says: a copy that serves nobody may have lost its devices.
pub(crate) fn empty(inventory: &Inventory, reports: &Reports) -> BTreeSet<SliceId> {
    let slices = inventory.slices.values();
    let empty = slices.filter(|record| {
        let server = server(reports, record);
        server.is_some_and(|(_, replica)| replica.used_bytes == 0)
    });
    empty.map(|record| record.slice).collect()
}

/// Whether a slice is handed over at this moment, which takes hosts some milliseconds, from a primary that served until then. Each
/// report is of another moment, up to a second ago: who led may say already that it does not any more, where the last report of
/// who leads now is from before that, or from just between. So two reports of which each is true do not make an unserved slice.
fn is_handed_over(reports: &Reports, record: &SliceRecord) -> bool {
    let taking_part = || record.in_sync().filter(|node| reports.takes_part(*node));
    let replicas = || {
        let replicas = taking_part().map(|node| Some((node, reports.replica(node, record.slice)?)));
        replicas.flatten()
    };
    // What neither leads without ado nor follows says so.
    let follows = |slice: &LocalSlice| !slice.serving && slice.condition.is_none();
    let newest = replicas().map(|(_, slice)| slice.epoch);
    let newest = newest.fold(record.epoch.0, u64::max);
    let is_followed = replicas().any(|(_, slice)| slice.epoch == newest && follows(slice));
    replicas().any(|(node, slice)| {
        let is_named = record.primary == node || slice.epoch == newest;
        let is_handed = is_named && slice.handed_ms.is_some_and(|it| it < HAND_OVER_MS_MAX);
        let leads_since = match record.epoch.0 == newest {
            true => record.primary == node,
            false => is_followed,
        };
        is_handed || leads_since && slice.epoch < newest && follows(slice)
    })
}

#[cfg(test)]
mod tests {
    use holdfast_api::documents::{Health, LocalCondition, LocalReport};
    use holdfast_model::metadata::Revision;
    use holdfast_model::record::Membership;
    use holdfast_model::{Policy, Sequence};

    use super::*;
    use crate::view::status;
    use crate::view::tests::{BOTH, inventory, local, local_slice, slice_record};

    fn replica(epoch: u64, serving: bool) -> LocalSlice {
        local_slice(0, epoch, serving, 1)
    }

    fn about_to_lead(epoch: u64, handed_ms: Option<u64>) -> LocalSlice {
        let what = ReplicaCondition::Begins;
        let condition = Some(LocalCondition {
            what,
            nodes: Vec::new(),
        });
        LocalSlice {
            condition,
            handed_ms,
            ..replica(epoch, false)
        }
    }

    /// How the cluster is where the record names a primary of an epoch, and these nodes say that of their replicas.
    fn health(
        record: (u16, u64),
        replicas: &[(u16, Membership)],
        said: &[(u16, LocalSlice)],
    ) -> Health {
        health_as_of(CHANGED, record, replicas, said)
    }

    /// When the volume's record was last changed.
    const CHANGED: Revision = Revision(10);

    /// The same where they say it as of a revision of the metadata.
    fn health_as_of(
        known: Revision,
        (primary, epoch): (u16, u64),
        replicas: &[(u16, Membership)],
        said: &[(u16, LocalSlice)],
    ) -> Health {
        let record = SliceRecord {
            epoch: Epoch(epoch),
            primary: NodeId(primary),
            ..slice_record(0, replicas)
        };
        let up = (1..=3).filter_map(|node| {
            let slices = said.iter().filter(|(of, _)| *of == node);
            let slices: Vec<_> = slices.map(|(_, slice)| slice.clone()).collect();
            (node == 3 || !slices.is_empty()).then(|| LocalReport {
                metadata_revision: known.0,
                ..local(node, slices)
            })
        });
        let mut inventory = inventory(vec![record]);
        for volume in inventory.volumes.values_mut() {
            volume.revision = CHANGED;
            volume.record.policy = match replicas.len() {
                2 => Policy::Mirror2,
                _ => Policy::Mirror3,
            };
        }
        let reports = Reports::of(up).of_volumes(&inventory);
        status(&inventory, &reports).health
    }

    #[test]
    fn a_slice_that_is_handed_over_is_served_whichever_report_is_the_newer_one() {
        let (before, after) = ((2, 5), (1, 6));
        let (gave_up, leads) = (replica(6, false), replica(6, true));
        for (record, one, two, what) in [
            (
                before,
                replica(5, false),
                replica(5, true),
                "nobody knows yet",
            ),
            (
                after,
                leads.clone(),
                replica(5, true),
                "who led has not said that it stopped",
            ),
            (
                after,
                replica(5, false),
                gave_up.clone(),
                "who leads has not said so",
            ),
            (
                before,
                replica(5, false),
                gave_up.clone(),
                "the record is older than both",
            ),
            (
                after,
                about_to_lead(6, Some(2)),
                gave_up.clone(),
                "just between",
            ),
            (after, leads, gave_up.clone(), "it is done"),
        ] {
            let said = [(1, one), (2, two)];
            assert_eq!(health(record, &BOTH, &said), Health::Healthy, "{what}");
        }
        let stuck = about_to_lead(6, Some(HAND_OVER_MS_MAX));
        let said = [(1, stuck), (2, gave_up)];
        assert_eq!(health(after, &BOTH, &said), Health::Unavailable);
    }

    #[test]
    fn a_slice_that_nobody_leads_is_unserved_at_once() {
        let unserved = |record, said: &[_], what| {
            assert_eq!(health(record, &BOTH, said), Health::Unavailable, "{what}");
        };
        unserved((1, 5), &[(2, replica(5, false))], "its primary is lost");
        let stands = [(2, about_to_lead(6, None))];
        unserved(
            (2, 6),
            &stands,
            "another takes over, and does not serve yet",
        );
        let fresh = [(1, replica(6, false)), (2, replica(6, false))];
        unserved((1, 6), &fresh, "both know of it, and nobody leads");
        let passed_over = [(1, about_to_lead(5, Some(2))), (2, about_to_lead(6, None))];
        unserved(
            (2, 6),
            &passed_over,
            "who was handed it stood still, and another takes over",
        );
        let lost = [(2, replica(6, false))];
        unserved((1, 6), &lost, "it was handed to a node that is lost");
        let same = [(1, replica(5, false)), (2, replica(5, false))];
        unserved((1, 5), &same, "it was handed to nobody");
    }

    #[test]
    fn a_slice_that_nobody_has_led_yet_is_missed_by_nobody_unless_that_takes_long() {
        let says = |record, said: &[_], expected, what| {
            assert_eq!(health(record, &BOTH, said), expected, "{what}");
        };
        // The other node has to be there for its volume to be whole.
        let other = (2, replica(1, false));
        let elsewhere = [(1, local_slice(1, 7, false, 1)), other.clone()];
        for (epoch, what) in [(1, "it is made"), (2, "it is taken up")] {
            let as_of = |known| health_as_of(Revision(known), (1, epoch), &BOTH, &elsewhere);
            assert_eq!(as_of(9), Health::Healthy, "{what}");
            assert_eq!(
                as_of(10),
                Health::Unavailable,
                "its node holds nothing of it"
            );
            assert_eq!(as_of(0), Health::Unavailable, "its node does not tell");
            let begins = [(1, about_to_lead(epoch, Some(20))), other.clone()];
            says((1, epoch), &begins, Health::Healthy, what);
            let is_stuck = about_to_lead(epoch, Some(TAKE_UP_MS_MAX));
            let begins = [(1, is_stuck), other.clone()];
            says((1, epoch), &begins, Health::Unavailable, "it is stuck");
            let lost = std::slice::from_ref(&other);
            says((1, epoch), lost, Health::Unavailable, "its node is lost");
        }
        let led = health_as_of(Revision(9), (1, 3), &BOTH, &elsewhere);
        assert_eq!(led, Health::Unavailable, "its primary held it");
        let begins = [(1, about_to_lead(2, None)), other];
        says((1, 2), &begins, Health::Unavailable, "it was led before");

        let record = SliceRecord {
            primary: NodeId(1),
            epoch: MADE,
            ..slice_record(0, &BOTH)
        };
        let mut away = local(1, Vec::new());
        (away.metadata, away.metadata_revision) = (LocalMetadata::Unreached, 9);
        let mut inventory = inventory(vec![record.clone()]);
        let volumes = inventory.volumes.values_mut();
        volumes.for_each(|volume| volume.revision = CHANGED);
        let reports = Reports::of([away, local(2, vec![replica(1, false)])]);
        let reports = reports.of_volumes(&inventory);
        assert!(
            !is_served(&reports, &record),
            "its primary will not hear of it"
        );
    }

    #[test]
    fn what_lacks_a_copy_is_not_told_as_unserved_either_while_it_is_handed_over() {
        let third = (
            3,
            Membership::Absent {
                stable: Sequence(9),
            },
        );
        let said = [(1, replica(5, false)), (2, replica(6, false))];
        let replicas = [BOTH[0], BOTH[1], third];
        assert_eq!(health((1, 6), &replicas, &said), Health::Degraded);
    }

    #[test]
    fn what_a_copy_lacks_that_serves_nobody_is_not_taken_for_empty() {
        let inventory = inventory(vec![slice_record(0, &BOTH)]);
        let is_empty = |one: LocalSlice, two: LocalSlice| {
            let reports = Reports::of([local(1, vec![one]), local(2, vec![two])]);
            !empty(&inventory, &reports).is_empty()
        };
        let holds = |bytes, serving| local_slice(0, 5, serving, bytes);
        assert!(is_empty(holds(0, true), holds(0, false)));
        assert!(!is_empty(holds(4096, true), holds(0, false)));
        // Its devices are others, or those of who serves are not open yet.
        assert!(!is_empty(holds(0, false), holds(0, false)));
    }
}
