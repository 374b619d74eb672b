//! What is seen of a cluster, and what is held of it.

use holdfast_api::documents::{
    Device, DeviceState, DeviceTier, ListedMember, LocalJoining, LocalMetadata, LocalReport,
    LocalSilence, LocalSlice, MemberState, Mending, ProcessEnd, Room, Vitals,
};
use holdfast_control::{AlarmBook, AlarmSeverity, HOLD_MAX_MS, Moment};
use holdfast_model::Sequence;
use holdfast_model::record::{
    AlarmRulesRecord, AlarmsRecord, IntentRecord, MaintenanceRecord, Membership,
    NodeStanding as Wanted,
};

use super::super::node_findings::is_lost;
use super::super::status;
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

/// The alarms of a kind that are raised if all stays as it is for as long as that takes: what each is about, and what it says.
fn raised(looked: &Looked, kind: AlarmKind) -> Vec<(String, String)> {
    let (mut book, rules) = (AlarmBook::default(), AlarmRulesRecord::default());
    let mut record = AlarmsRecord::default();
    for steady_ms in [0, HOLD_MAX_MS] {
        let now = Moment {
            steady_ms,
            wall_ms: 5 * DAY,
        };
        record = book
            .observe(&record, &rules, now, &looked.all)
            .unwrap_or(record);
    }
    let raised = record.raised.into_iter();
    let raised = raised.filter(|it| it.kind == kind.text().code);
    raised.map(|it| (it.subject, it.detail)).collect()
}

fn alarm(subject: &str, detail: &str) -> Vec<(String, String)> {
    vec![(subject.to_owned(), detail.to_owned())]
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
    let reports = Reports::of([steering(seconds, slices), local(3, Vec::new())]);
    (inventory, reports)
}

/// What node 1 says, which steers, and has not been able to rely on node 2 for so many seconds.
fn steering(seconds: u64, slices: Vec<LocalSlice>) -> LocalReport {
    let silence = LocalSilence {
        node: 2,
        seconds,
        at_least: false,
    };
    LocalReport {
        silent: vec![silence],
        ..local(1, slices)
    }
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

/// What `status` and the events say of a node that is down matters as much as the alarm that is raised if that lasts.
#[test]
fn a_node_that_is_down_matters_everywhere_as_much_as_its_alarm() {
    use holdfast_api::documents::Severity;
    let told = |inventory: &Inventory, reports: &Reports| {
        let alerts = status(inventory, reports).alerts.into_iter();
        let mut of_node = alerts.filter(|it| it.subject == "node n2");
        let severity = of_node.next().map(|it| it.severity);
        (severity, is_lost(inventory, reports, NodeId(2)))
    };
    let (critical, warning) = (
        (Some(Severity::Error), true),
        (Some(Severity::Warning), false),
    );
    let stopped = |seconds| away_for(seconds).1.but_stopped([NodeId(2)].into());
    let (inventory, away) = without_n2();
    assert_eq!(told(&inventory, &away), critical);
    assert_eq!(told(&inventory, &stopped(11)), warning);
    assert_eq!(told(&inventory, &stopped(STOPPED_SECONDS)), critical);
    // It answers again, and opens its devices.
    let opening = LocalReport {
        number: 1,
        open: false,
        ..local(2, Vec::new())
    };
    let opens = Reports::of([local(1, Vec::new()), opening, local(3, Vec::new())]);
    assert_eq!(told(&inventory, &opens), warning);
    let observed = value(&looked(&inventory, &opens), AlarmKind::NodeLost, "node n2");
    assert_eq!(observed, Some(None), "neither lost nor over");
    // It cannot register, because it does not reach the metadata for example.
    let unregistered = |number| {
        let starts = LocalReport {
            number,
            ..local(2, Vec::new())
        };
        let reports = Reports::of([local(1, Vec::new()), starts, local(3, Vec::new())]);
        reports.but_unregistered(NodeId(2))
    };
    for (number, expected, value_of_it) in [(1, warning, None), (100, critical, Some(1))] {
        let reports = unregistered(number);
        assert_eq!(told(&inventory, &reports), expected);
        let seen = looked(&inventory, &reports);
        assert_eq!(
            value(&seen, AlarmKind::NodeLost, "node n2"),
            Some(value_of_it)
        );
    }
    let kept = with(inventory, &[(2, Wanted::Maintenance)]);
    for reports in [away, stopped(STOPPED_SECONDS), unregistered(100)] {
        assert_eq!(told(&kept, &reports), warning);
    }
    assert_eq!(AlarmKind::NodeLost.text().severity, AlarmSeverity::Critical);
}

#[test]
fn a_node_that_ends_each_time_while_it_starts_is_lost() {
    let inventory = with(without_n2().0, &[]);
    let lost = |open, seconds, process_before| {
        let starts = LocalReport {
            number: 1,
            open,
            process_before,
            ..local(2, Vec::new())
        };
        let mut reports = Reports::of([steering(seconds, Vec::new()), starts]);
        if open {
            reports = reports.but_unregistered(NodeId(2));
        }
        let seen = looked(&inventory, &reports);
        let observed = &seen.all.seen[&(AlarmKind::NodeLost, "node n2".to_owned())];
        assert_eq!(observed.detail == OPENS, !open);
        observed.value
    };
    let (cut, stopped) = (Some(ProcessEnd::Cut), Some(ProcessEnd::Stopped));
    // It ends while it opens its devices, and before it has registered.
    for open in [false, true] {
        assert_eq!(lost(open, STARTING_SECONDS - 1, cut), None, "it was killed");
        assert_eq!(lost(open, 3600, stopped), None, "its machine was off");
        assert_eq!(lost(open, STARTING_SECONDS, cut), Some(1));
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

/// Three nodes that are there, with what two of them hold.
fn three(first: Vec<LocalSlice>, second: Vec<LocalSlice>) -> Reports {
    Reports::of([local(1, first), local(2, second), local(3, Vec::new())])
}

#[test]
fn a_sync_that_brings_nothing_is_stuck() {
    let kind = AlarmKind::SyncStuck;
    let lacking = [(1, Membership::InSync), (2, ABSENT)];
    let slices = vec![slice_record(0, &lacking), slice_record(1, &BOTH)];
    let inventory = with(inventory(slices), &[]);
    let good = |is_primary| local_slice(1, 5, is_primary, 1);
    let left = |bytes: u64| {
        let joining = LocalJoining {
            node: 2,
            bytes_done: (1 << 20) - bytes,
            bytes_total: 1 << 20,
            ..LocalJoining::default()
        };
        let led = LocalSlice {
            joining: vec![joining],
            ..local_slice(0, 5, true, 1 << 20)
        };
        three(vec![led, good(true)], vec![good(false)])
    };
    let mut progress = Progress::default();
    let mut look = |reports: &Reports, seconds: u64| {
        let maintenance = MaintenanceRecord::default();
        let clocks = (seconds * 1000, 5 * DAY);
        alarm_observations(&inventory, reports, &mut progress, &maintenance, clocks)
    };
    let half = left(1 << 19);
    let first = look(&left(1 << 20), 10);
    assert_eq!(value(&first, kind, "volume demo"), Some(None));
    let moved = look(&half, 20);
    assert_eq!(value(&moved, kind, "volume demo"), Some(Some(0)));
    let nearly = look(&half, 919);
    assert_eq!(value(&nearly, kind, "volume demo"), Some(Some(899)));
    assert_eq!(raised(&nearly, kind), []);
    let stuck = look(&half, 920);
    let words = "512KiB are to be brought, and nothing was since 1970-01-05 23:45 UTC";
    assert_eq!(raised(&stuck, kind), alarm("volume demo", words));
    // Of a node that is away it is not known what it lacks: it is neither stuck nor over.
    let held = vec![local_slice(0, 5, true, 1), good(true)];
    let away = Reports::of([local(1, held), local(3, Vec::new())]);
    let unseen = look(&away, 930);
    assert_eq!(value(&unseen, kind, "volume demo"), Some(None));
    let done = look(&left(0), 940);
    assert_eq!(value(&done, kind, "volume demo"), Some(Some(0)));
}

#[test]
fn bad_blocks_are_an_alarm_until_they_are_put_right() {
    let kind = AlarmKind::BadBlocks;
    let bad = LocalSlice {
        bad_blocks: 3,
        ..local_slice(0, 5, false, 1)
    };
    let good = |is_primary| local_slice(0, 5, is_primary, 1);
    let all = with(inventory(vec![slice_record(0, &BOTH)]), &[]);
    let seen = looked(&all, &three(vec![good(true)], vec![bad.clone()]));
    let words = "3 blocks are known to be bad on it";
    assert_eq!(raised(&seen, kind), alarm("node n2", words));
    assert_eq!(value(&seen, kind, "node n1"), Some(Some(0)));
    // What was put right is told, and is no alarm; nor is what a copy lacks that is not in sync.
    let mended = LocalReport {
        mending: Some(Mending {
            blocks: 3,
            seconds: 1,
        }),
        ..local(2, vec![good(false)])
    };
    let mended = Reports::of([local(1, vec![good(true)]), mended, local(3, Vec::new())]);
    let lacking = [(1, Membership::InSync), (2, ABSENT)];
    let behind = with(inventory(vec![slice_record(0, &lacking)]), &[]);
    for (inventory, reports) in [
        (&all, mended),
        (&behind, three(vec![good(true)], vec![bad])),
    ] {
        let seen = looked(inventory, &reports);
        assert_eq!(value(&seen, kind, "node n2"), Some(Some(0)));
        assert_eq!(raised(&seen, kind), []);
    }
}

/// What each node hears of members of etcd, all on this machine: the last is as it is said.
fn hears(node: u16, last: MemberState) -> LocalReport {
    let states = [MemberState::Answers, MemberState::Answers, last];
    let listed = (1..).zip(states).map(|(number, state)| ListedMember {
        member: format!("{number}"),
        name: format!("n{number}"),
        endpoints: vec![format!("http://127.0.0.1:{number}")],
        peers: Vec::new(),
        votes: true,
        state,
    });
    LocalReport {
        metadata_listed: listed.collect(),
        ..local(node, Vec::new())
    }
}

#[test]
fn a_member_of_etcd_is_lost_if_no_node_reaches_it() {
    use MemberState::{Answers, Silent};
    let kind = AlarmKind::MetadataMemberLost;
    let all = with(inventory(Vec::new()), &[]);
    let seen = looked(&all, &Reports::of([1, 2, 3].map(|it| hears(it, Silent))));
    let words = "2 of 3 members of etcd answer: n3 at http://127.0.0.1:3 does not answer; with 1 more lost the metadata is away: \
                 hosts' I/O goes on, but nothing can be changed, and no node that dies is replaced";
    assert_eq!(raised(&seen, kind), alarm("metadata", words));
    let reached = [hears(1, Silent), hears(2, Answers), hears(3, Silent)];
    for reports in [[1, 2, 3].map(|it| hears(it, Answers)), reached] {
        let seen = looked(&all, &Reports::of(reports));
        assert_eq!(value(&seen, kind, "metadata"), Some(Some(0)));
    }
    // One that stands on the machine of a node in maintenance is away with that.
    let maintained = with(all, &[(3, Wanted::Maintenance)]);
    let seen = looked(
        &maintained,
        &Reports::of([1, 2].map(|it| hears(it, Silent))),
    );
    assert_eq!(value(&seen, kind, "metadata"), Some(None));
    let held = "metadata-member-lost of metadata";
    assert!(seen.held.contains(held), "{:?}", seen.held);
}

#[test]
fn a_node_that_does_not_follow_the_metadata_has_lost_it() {
    let kind = AlarmKind::MetadataLost;
    let all = with(inventory(Vec::new()), &[]);
    for (metadata, words) in [
        (LocalMetadata::Unreached, "it does not reach the metadata"),
        (
            LocalMetadata::Behind,
            "it does not believe the metadata, which has gone back, or is another cluster's",
        ),
    ] {
        let astray = LocalReport {
            metadata,
            ..local(3, Vec::new())
        };
        let seen = looked(&all, &Reports::of([local(1, Vec::new()), astray]));
        assert_eq!(raised(&seen, kind), alarm("node n3", words));
        assert_eq!(value(&seen, kind, "node n1"), Some(Some(0)));
        // Of one that does not answer it is not known.
        assert_eq!(value(&seen, kind, "node n2"), None);
    }
}

#[test]
fn metadata_that_any_node_finds_full_is_full() {
    let kind = AlarmKind::MetadataFull;
    let all = with(inventory(Vec::new()), &[]);
    let seen = looked(&all, &three(Vec::new(), Vec::new()));
    assert_eq!(value(&seen, kind, "metadata"), Some(Some(0)));
    let full = LocalReport {
        metadata_full: true,
        ..local(2, Vec::new())
    };
    let seen = looked(&all, &Reports::of([local(1, Vec::new()), full]));
    assert_eq!(raised(&seen, kind), alarm("metadata", METADATA_FULL));
}

/// The volume promises 10 GiB with its copies.
#[test]
fn what_volumes_promise_is_compared_with_the_room_of_all_nodes() {
    let kind = AlarmKind::Overcommitted;
    let all = with(inventory(vec![slice_record(0, &BOTH)]), &[]);
    let room = |mib: u64| {
        Reports::of([1, 2, 3].map(|node| LocalReport {
            room: Room {
                bytes: mib << 20,
                used_bytes: 0,
            },
            ..local(node, Vec::new())
        }))
    };
    let much = looked(&all, &room(2048));
    assert_eq!(value(&much, kind, "cluster"), Some(Some(166)));
    assert_eq!(raised(&much, kind), []);
    let little = looked(&all, &room(1024));
    let words = "volumes promise 10GiB with their copies, and there are 3GiB: 333 %";
    assert_eq!(raised(&little, kind), alarm("cluster", words));
}
