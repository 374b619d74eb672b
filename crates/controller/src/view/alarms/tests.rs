//! What is seen of a cluster, and what is held of it.

use holdfast_api::documents::{
    Device, DeviceState, DeviceTier, LocalReport, LocalSilence, Room, Vitals,
};
use holdfast_model::Sequence;
use holdfast_model::record::{IntentRecord, MaintenanceRecord, Membership, NodeStanding as Wanted};

use super::super::tests::{BOTH, inventory, local, local_slice, slice_record, versioned};
use super::*;
use crate::reports::Reports;

const ABSENT: Membership = Membership::Absent {
    stable: Sequence(9),
};
const DAY: u64 = DAY_MS;

fn looked(inventory: &Inventory, reports: &Reports) -> Looked {
    let mut progress = Progress::default();
    let began = in_maintenance(inventory);
    let maintenance = MaintenanceRecord::default().with(began, 3 * DAY);
    let clocks = (1000, 5 * DAY);
    alarm_observations(inventory, reports, &mut progress, &maintenance, clocks)
}

/// The value of a kind and subject; none if it is not among what is seen at all.
fn value(looked: &Looked, kind: AlarmKind, subject: &str) -> Option<Option<u64>> {
    let seen = looked.all.seen.get(&(kind, subject.to_owned()));
    seen.map(|it| it.value)
}

fn with(mut inventory: Inventory, standings: &[(u16, Wanted)]) -> Inventory {
    for node in 1..=3 {
        let mut intent = IntentRecord::active(NodeId(node));
        let standing = standings.iter().find(|it| it.0 == node);
        intent.standing = standing.map_or(intent.standing, |it| it.1);
        inventory.intents.insert(NodeId(node), versioned(intent));
    }
    inventory
}

/// Node 2 is away, and the copy on it.
fn without_n2() -> (Inventory, Reports) {
    away_for(11)
}

/// The same for so many seconds.
fn away_for(seconds: u64) -> (Inventory, Reports) {
    let alone = [(1, Membership::InSync), (2, ABSENT)];
    let inventory = inventory(vec![slice_record(0, &alone), slice_record(1, &alone)]);
    let slices = vec![local_slice(0, 5, true, 1), local_slice(1, 5, true, 1)];
    let silence = LocalSilence {
        node: 2,
        seconds,
        at_least: false,
    };
    let silent = LocalReport {
        silent: vec![silence],
        ..local(1, slices)
    };
    (inventory, Reports::of([silent, local(3, Vec::new())]))
}

#[test]
fn a_node_that_is_away_is_lost_and_its_volumes_lack_a_copy() {
    let (inventory, reports) = without_n2();
    let seen = looked(&with(inventory, &[]), &reports);
    assert_eq!(value(&seen, AlarmKind::NodeLost, "node n2"), Some(Some(1)));
    assert_eq!(value(&seen, AlarmKind::NodeLost, "node n1"), Some(Some(0)));
    let subject = |node: &str| (AlarmKind::NodeLost, node.to_owned());
    let said = &seen.all.seen[&subject("node n2")].detail;
    assert_eq!(said, "it does not answer", "however long: that goes on");
    let degraded = value(&seen, AlarmKind::VolumeDegraded, "volume demo");
    assert_eq!(degraded, Some(Some(1)));
    let stopped = value(&seen, AlarmKind::VolumeStopped, "volume demo");
    assert_eq!(stopped, Some(Some(0)));
    // Of what does not answer nothing else is said, and it is not gone.
    assert_eq!(value(&seen, AlarmKind::PoolFilling, "node n2"), None);
    assert!(seen.all.silent.contains("node n2"));
    assert!(seen.held.is_empty(), "{:?}", seen.held);
}

#[test]
fn what_is_away_for_maintenance_is_held_and_said() {
    let (inventory, reports) = without_n2();
    let inventory = with(inventory, &[(2, Wanted::Maintenance)]);
    let seen = looked(&inventory, &reports);
    for (kind, subject) in [
        (AlarmKind::NodeLost, "node n2"),
        (AlarmKind::VolumeDegraded, "volume demo"),
    ] {
        let held = value(&seen, kind, subject);
        assert_eq!(held, Some(None), "{kind:?}: neither raised nor over");
    }
    let held: Vec<&str> = seen.held.iter().map(String::as_str).collect();
    assert_eq!(
        held,
        ["node-lost of node n2", "volume-degraded of volume demo"]
    );
    // It does not last without an end.
    let lasts = |node| value(&seen, AlarmKind::MaintenanceLasts, node);
    assert_eq!(lasts("node n2"), Some(Some(2 * DAY / 1000)));
    assert_eq!(lasts("node n1"), Some(Some(0)));
    // What is said stays as it is when the alarm is raised: it tells when that began, at whatever time one looks.
    let said = |node: &str| {
        let subject = (AlarmKind::MaintenanceLasts, node.to_owned());
        seen.all.seen[&subject].detail.clone()
    };
    assert_eq!(
        said("node n2"),
        "it has been in maintenance since 1970-01-04 00:00 UTC"
    );
    assert_eq!(said("node n1"), "");
}

#[test]
fn a_node_that_was_stopped_is_lost_when_it_stays_away() {
    let (inventory, reports) = without_n2();
    let stopped = reports.but_stopped([NodeId(2)].into());
    let lost = |inventory: &Inventory, reports: &Reports| {
        let seen = looked(inventory, reports);
        let subject = (AlarmKind::NodeLost, "node n2".to_owned());
        let observed = &seen.all.seen[&subject];
        (observed.value, observed.detail.clone(), seen.held.len())
    };
    let words = || "it was stopped".to_owned();
    assert_eq!(
        lost(&inventory, &stopped),
        (None, words(), 0),
        "nor is it over"
    );
    let (_, reports) = away_for(600);
    let for_long = reports.but_stopped([NodeId(2)].into());
    assert_eq!(lost(&inventory, &for_long), (Some(1), words(), 0));
    let inventory = with(inventory, &[(2, Wanted::Maintenance)]);
    for reports in [&stopped, &for_long] {
        let (value, _, held) = lost(&inventory, reports);
        assert_eq!((value, held), (None, 2), "it is what was meant");
    }
}

#[test]
fn when_maintenance_began_is_told_to_the_minute() {
    for (since_ms, told) in [
        (1_795_939_259_999, "2026-11-29 08:00 UTC"),
        (u64::MAX, "9999-12-30 22:00 UTC"),
    ] {
        let words = in_maintenance_since(since_ms);
        assert_eq!(words, format!("it has been in maintenance since {told}"));
    }
}

#[test]
fn what_lacks_more_than_that_is_not_held() {
    let (mut inventory, reports) = without_n2();
    // Another slice lacks its copy on a node that should be there.
    let other = slice_record(1, &[(1, Membership::InSync), (3, ABSENT)]);
    inventory.slices.insert(other.slice, other);
    let inventory = with(inventory, &[(2, Wanted::Maintenance)]);
    let seen = looked(&inventory, &reports);
    let degraded = value(&seen, AlarmKind::VolumeDegraded, "volume demo");
    assert_eq!(degraded, Some(Some(1)));
    assert!(!seen.held.iter().any(|it| it.contains("volume")));
}

#[test]
fn that_hosts_wait_is_never_held() {
    let inventory = inventory(vec![slice_record(0, &BOTH), slice_record(1, &BOTH)]);
    let inventory = with(inventory, &[(1, Wanted::Maintenance)]);
    let reports = Reports::of([local(3, Vec::new())]);
    let seen = looked(&inventory, &reports);
    let stopped = value(&seen, AlarmKind::VolumeStopped, "volume demo");
    assert_eq!(stopped, Some(Some(1)));
    let degraded = value(&seen, AlarmKind::VolumeDegraded, "volume demo");
    assert_eq!(degraded, Some(Some(1)));
}

fn device(is_absent: bool) -> Device {
    Device {
        number: 2,
        path: "/dev/sdc".to_owned(),
        tier: DeviceTier::Flash,
        state: DeviceState::InUse,
        journal: false,
        journal_room: false,
        is_absent,
        bytes: 1 << 30,
        used_bytes: 0,
        bytes_per_second: 0,
        seconds_left: None,
        drain_bytes: None,
        bad_blocks: 0,
        detached: None,
        latency_p99_us: Some(250_000),
    }
}

#[test]
fn devices_that_are_away_are_lost_also_of_a_node_in_maintenance_that_is_there() {
    let report = |is_absent| LocalReport {
        devices: vec![device(is_absent)],
        ..local(3, Vec::new())
    };
    let all = with(inventory(Vec::new()), &[]);
    let subject = "device 2 of node n3";
    let of = |inventory: &Inventory, is_absent| {
        let reports = Reports::of([local(1, Vec::new()), report(is_absent)]);
        let seen = looked(inventory, &reports);
        let slow = value(&seen, AlarmKind::DeviceSlow, subject);
        assert_eq!(slow, Some(Some(250)));
        (
            value(&seen, AlarmKind::DeviceLost, subject),
            seen.held.len(),
        )
    };
    assert_eq!(of(&all, false), (Some(Some(0)), 0));
    assert_eq!(of(&all, true), (Some(Some(1)), 0));
    let maintained = with(all, &[(3, Wanted::Maintenance)]);
    assert_eq!(of(&maintained, true), (Some(Some(1)), 0));
    assert_eq!(of(&maintained, false), (Some(Some(0)), 0));
}

#[test]
fn what_a_node_says_of_itself_is_seen_in_its_units() {
    let vitals = Vitals {
        clock_ms: 0,
        longest_stall_ms: 1234,
        certificate_expires_ms: Some(5 * DAY + 14 * DAY + 1),
        certificate_of: Some(CertificateOf::Authority),
        etcd_certificate: None,
    };
    let told = LocalReport {
        vitals: Some(vitals),
        room: Room {
            bytes: 1000,
            used_bytes: 860,
        },
        ..local(1, Vec::new())
    };
    let reports = Reports::of([told, local(2, Vec::new())]);
    let seen = looked(&with(inventory(Vec::new()), &[]), &reports);
    for (kind, expected) in [
        (AlarmKind::StallBudget, 1234),
        (AlarmKind::CertificateExpires, 14),
        (AlarmKind::ClockSkew, 0),
        (AlarmKind::PoolFilling, 86),
        (AlarmKind::PoolAlmostFull, 86),
    ] {
        let seen = value(&seen, kind, "node n1");
        assert_eq!(seen, Some(Some(expected)), "{kind:?}");
    }
    let expires = (AlarmKind::CertificateExpires, "node n1".to_owned());
    assert_eq!(
        seen.all.seen[&expires].detail,
        "the certificate of its authority is good for another 14 days"
    );
    // One of an earlier version says nothing of it, and one without room has none that fills.
    assert_eq!(value(&seen, AlarmKind::StallBudget, "node n2"), None);
    assert_eq!(value(&seen, AlarmKind::PoolFilling, "node n2"), Some(None));
    // Not all nodes say what room they have.
    let promised = value(&seen, AlarmKind::Overcommitted, "cluster");
    assert_eq!(promised, Some(None));
}

/// Whoever runs an etcd issues certificates for a year, for a month, or for a day, and renews them when a third is left.
#[test]
fn a_certificate_for_etcd_is_told_of_beside_the_nodes_own_and_by_how_long_it_is_good_in_all() {
    let set = AlarmKind::CertificateExpires.threshold().set();
    let seen = |lifetime_ms: u64, left_ms: u64| {
        let told = LocalReport {
            vitals: Some(Vitals {
                certificate_expires_ms: Some(5 * DAY + 14 * DAY),
                certificate_of: Some(CertificateOf::Node),
                etcd_certificate: Some(ForeignCertificate {
                    expires_ms: 5 * DAY + left_ms,
                    lifetime_ms,
                }),
                ..Vitals::default()
            }),
            ..local(1, Vec::new())
        };
        let reports = Reports::of([told, local(2, Vec::new())]);
        let seen = looked(&with(inventory(Vec::new()), &[]), &reports);
        let own = value(&seen, AlarmKind::CertificateExpires, "node n1");
        assert_eq!(own, Some(Some(14)), "its own is not hidden");
        let key = (
            AlarmKind::CertificateExpires,
            "etcd certificate of node n1".to_owned(),
        );
        let found = &seen.all.seen[&key];
        (found.value.unwrap(), found.detail.clone())
    };
    assert_eq!(seen(365 * DAY, 30 * DAY).0, 30, "as the node's own");
    for days in [1, 32, 90, 365] {
        let lifetime_ms = days * DAY;
        for left_ms in [lifetime_ms, lifetime_ms / 3] {
            let (value, detail) = seen(lifetime_ms, left_ms);
            assert!(value > set, "{days}: {value}, {detail}");
        }
        let (value, detail) = seen(lifetime_ms, lifetime_ms / 13);
        assert!(value <= set, "{days}: {value}, {detail}");
    }
    let words = "the certificate that it shows to etcd (metadata.certificate) is good for another";
    assert_eq!(seen(DAY, DAY / 4), (30, format!("{words} 6 hours")));
    assert_eq!(seen(32 * DAY, 8 * DAY), (30, format!("{words} 8 days")));
    // It has expired, or says that it never was good.
    assert_eq!(seen(DAY, 0).0, 0);
    assert_eq!(seen(0, 0).0, 0);
}

#[test]
fn of_nodes_that_are_none_nothing_is_seen() {
    let (inventory, reports) = without_n2();
    let inventory = with(inventory, &[(2, Wanted::Removed)]);
    let seen = looked(&inventory, &reports);
    assert_eq!(value(&seen, AlarmKind::NodeLost, "node n2"), None);
    assert!(!seen.all.silent.contains("node n2"), "what was is gone");
}

#[test]
fn who_follows_the_metadata_no_more_is_told_as_far_as_it_is_known() {
    let record = |number: u16| NodeRecord {
        node: NodeId(number),
        name: format!("n{number}"),
        ..inventory(Vec::new()).nodes[&NodeId(1)].clone()
    };
    let nodes: Vec<NodeRecord> = (1..=3).map(record).collect();
    let reports = |up: &[u16]| Reports::of(up.iter().map(|it| local(*it, Vec::new())));
    let since_ms = 1_795_939_259_999;
    let told = |up: &[u16]| nobody_follows(&reports(up), &nodes, NodeId(1), since_ms);
    let begin = "n1 has not reached it since 2026-11-29 08:00 UTC";
    assert_eq!(
        told(&[1, 2, 3]),
        format!("no node follows it: {begin}, nor is it followed by n2 and n3")
    );
    assert_eq!(
        told(&[1, 3]),
        format!(
            "no node that answers follows it: {begin}, nor is it followed by n3; no answer from n2"
        )
    );
    assert_eq!(
        told(&[1]),
        format!(
            "{begin}, and none of the others answers it (n2 and n3): it cannot tell from there whether the metadata is lost, or n1 \
             is cut off"
        )
    );
    let alone = nobody_follows(&reports(&[1]), &nodes[..1], NodeId(1), since_ms);
    assert_eq!(alone, begin);
    let many: Vec<NodeRecord> = (1..=12).map(record).collect();
    let told = nobody_follows(&reports(&[1]), &many, NodeId(1), since_ms);
    assert!(told.contains("n8, n9 and 3 more"), "{told}");
}
