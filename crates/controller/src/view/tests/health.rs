//! The cluster is no better than anything that there is to know of it.

use holdfast_api::documents::{
    Astray, AwaitedCause, Detached, Device, DeviceState, DeviceTier, Finding, FindingKind,
    LocalMetadata, LocalSilence, Rejected,
};

use super::*;

/// Two slices, on nodes 1 and 2.
fn whole() -> Inventory {
    inventory(vec![slice_record(0, &BOTH), slice_record(1, &BOTH)])
}

fn well(node: u16) -> LocalReport {
    let slices = [0, 1].map(|index| local_slice(index, 5, node == 1, 1));
    LocalReport {
        room: Room {
            bytes: 1 << 40,
            used_bytes: 0,
        },
        ..local(node, if node < 3 { slices.into() } else { Vec::new() })
    }
}

/// All are well but the third, which is as it is made.
fn third(make: impl FnOnce(&mut LocalReport)) -> Status {
    let mut third = well(3);
    make(&mut third);
    status(&whole(), &Reports::of([well(1), well(2), third]))
}

/// It holds no copy, and the cluster is not well all the same.
#[test]
fn what_is_wrong_with_a_node_makes_the_cluster_worse_and_is_told() {
    let all = third(|_| ());
    assert_eq!((all.health, said(&all)), (Health::Healthy, vec![]));
    let absent = Device {
        number: 1,
        path: "/dev/sdb".to_owned(),
        tier: DeviceTier::Flash,
        state: DeviceState::Missing,
        journal: false,
        journal_room: false,
        is_absent: true,
        bytes: 1 << 30,
        used_bytes: 0,
        bytes_per_second: 0,
        seconds_left: None,
        drain_bytes: None,
        bad_blocks: 0,
        detached: None,
        latency_p99_us: None,
    };
    let missing = third(|report| report.devices.push(absent.clone()));
    let detached = third(|report| {
        report.devices.push(Device {
            state: DeviceState::InUse,
            is_absent: false,
            detached: Some(Detached::Another),
            ..absent.clone()
        });
    });
    let taken_away = "error: node n3: device 1 (/dev/sdb) was taken away while it is in use: something else is at its path";
    let device = "error: node n3: device 1 (/dev/sdb) is missing; nothing of it is lacking";
    let waits = third(|report| {
        report.open = false;
        report.awaited_device = Some("/dev/sdc".to_owned());
    });
    let awaited = "error: node n3: it waits for its device /dev/sdc, which is not there";
    let waits_because = |cause| {
        third(|report| {
            report.open = false;
            report.awaited_device = Some("/dev/sdc".to_owned());
            report.awaited_cause = Some(cause);
        })
    };
    let needs = waits_because(AwaitedCause::Needed);
    let needed = "error: node n3: it waits for its device /dev/sdc, which is not there, and can do nothing without it";
    let failed = waits_because(AwaitedCause::Failed);
    let fails = "error: node n3: it waits for its device /dev/sdc, which has failed, and can do nothing without it";
    let short = waits_because(AwaitedCause::CutShort);
    let is_short = "error: node n3: it waits for its device /dev/sdc, which is shorter than it was, and can do nothing \
        without it";
    let unreached = third(|report| report.metadata = LocalMetadata::Unreached);
    let metadata = "error: node n3: it does not reach the metadata";
    let behind = third(|report| {
        report.metadata = LocalMetadata::Behind;
        report.astray = Some(Astray {
            why: "it is of cluster 7".to_owned(),
            remedies: vec!["see that the addresses are right".to_owned()],
        });
    });
    let disbelieved = "error: node n3: it does not believe the metadata: it is of cluster 7";
    let silent = third(|report| report.metadata = LocalMetadata::Behind);
    let of_before = "error: node n3: it does not believe the metadata, which has gone back, or is another cluster's";
    let full = third(|report| report.metadata_full = true);
    for (status, told) in [
        (missing, device),
        (detached, taken_away),
        (waits, awaited),
        (needs, needed),
        (failed, fails),
        (short, is_short),
        (unreached, metadata),
        (behind, disbelieved),
        (silent, of_before),
        (full, "error: metadata: is full:"),
    ] {
        assert_eq!(status.health, Health::Degraded, "{told}");
        let said = said(&status);
        assert!(said.len() == 1 && said[0].starts_with(told), "{said:?}");
    }
}

#[test]
fn a_node_that_is_not_registered_makes_the_cluster_worse() {
    let rejected = LocalReport {
        name: "n4".to_owned(),
        rejected: Some(Rejected {
            why: "number 1 is node n1's".to_owned(),
            remedies: vec![
                "choose another number".to_owned(),
                "remove n1 (`holdfast node remove n1`)".to_owned(),
            ],
        }),
        ..LocalReport::default()
    };
    let beside = |reports: Reports| reports.beside(Some(rejected.clone()));
    // Where n1 is gone it may be removed.
    let alone = status(&whole(), &beside(Reports::of([well(2), well(3)])));
    assert!(said(&alone).iter().any(|it| it.contains("node remove n1")));
    let reports = beside(Reports::of([well(1), well(2), well(3)]));
    let status = status(&whole(), &reports);
    assert_eq!(status.health, Health::Degraded);
    assert_eq!(
        said(&status),
        ["error: this node, n4: not registered: number 1 is node n1's: choose another number"]
    );
}

/// A machine that takes another one's place while that runs has two of one node.
#[test]
fn who_answers_is_told_before_its_place_is_offered() {
    let remedy = "make an empty file `take-over` in this node's `directory`";
    let rejected = LocalReport {
        node: 1,
        name: "n1".to_owned(),
        rejected: Some(Rejected {
            why: "number 1 is on record with other devices".to_owned(),
            remedies: vec![remedy.to_owned()],
        }),
        ..LocalReport::default()
    };
    let mut inventory = whole();
    let record = inventory.nodes.get_mut(&NodeId(1)).unwrap();
    record.api = "http://first:7461".to_owned();
    let told = |reports: Reports| {
        let explained = explain(&inventory, &reports.beside(Some(rejected.clone())));
        let finding = explained.nodes[0].findings[0].clone();
        (finding.what, finding.remedies[0].what.clone())
    };
    let (what, helps) = told(Reports::of([well(1), well(2), well(3)]));
    assert!(
        what.ends_with("; n1 answers at http://first:7461 now"),
        "{what}"
    );
    let stop = format!("stop the machine that answers as n1 first, then {remedy}");
    assert_eq!(helps, stop);
    let (what, helps) = told(Reports::of([well(2), well(3)]));
    assert!(
        !what.contains("answers") && helps == remedy,
        "{what}: {helps}"
    );
}

/// The cluster lacks nothing because of it.
#[test]
fn a_removed_node_tells_that_it_was_and_that_the_cluster_is_well() {
    let mut inventory = whole();
    for node in 1..=4 {
        let mut intent = IntentRecord::active(NodeId(node));
        if node == 4 {
            intent.standing = Wanted::Removed;
        }
        inventory.intents.insert(NodeId(node), versioned(intent));
    }
    let removed = LocalReport {
        node: 4,
        name: "n4".to_owned(),
        rejected: Some(Rejected {
            why: "the node was removed from the cluster".to_owned(),
            remedies: vec!["stop it".to_owned()],
        }),
        ..LocalReport::default()
    };
    let reports = Reports::of([well(1), well(2), well(3)]).beside(Some(removed));
    let status = status(&inventory, &reports);
    assert_eq!(status.health, Health::Healthy);
    assert_eq!(
        said(&status),
        ["warning: this node, n4: not registered: the node was removed from the cluster: stop it"]
    );
}

/// What counts as good is not served from there.
#[test]
fn a_copy_whose_node_has_not_opened_its_devices_is_not_good() {
    let shut = LocalReport {
        open: false,
        slices: Vec::new(),
        ..well(2)
    };
    let reports = Reports::of([well(1), shut, well(3)]);
    let inventory = whole();
    let document = volume(&inventory, &reports, record(&inventory));
    assert_eq!(document.health, Health::Degraded);
    let found = explain(&inventory, &reports).volumes.remove(0).findings;
    assert_eq!(
        found[0].what,
        "n2 has not opened its devices, or they have failed, and its copy counts as good still"
    );
    assert!(found[0].remedies[0].what.contains("log of n2"), "{found:?}");
}

/// Nothing about it is helped by starting it, or by draining it.
#[test]
fn a_node_that_waits_for_a_device_is_not_up_and_the_device_is_what_helps() {
    let away = |node| {
        let stable = Sequence(3);
        (node, Membership::Absent { stable })
    };
    let both = [(1, Membership::InSync), away(2)];
    let inventory = inventory(vec![slice_record(0, &both), slice_record(1, &both)]);
    let waits = LocalReport {
        open: false,
        awaited_device: Some("/dev/sdc".to_owned()),
        ..local(2, Vec::new())
    };
    let reports = Reports::of([well(1), waits, well(3)]);
    let counts = NodeCounts {
        total: 3,
        up: 2,
        not_ready: 1,
        in_maintenance: 0,
        draining: 0,
    };
    assert_eq!(status(&inventory, &reports).nodes, counts);
    let node = nodes(&inventory, &reports).nodes.remove(1);
    assert_eq!((node.state, node.answers), (NodeState::Down, true));
    assert_eq!(node.awaited_device.as_deref(), Some("/dev/sdc"));
    let explained = explain(&inventory, &reports);
    let findings = [
        &explained.volumes[0].findings[0],
        &explained.nodes[0].findings[0],
    ];
    for finding in findings {
        let what = "waits for its device /dev/sdc, which is not there";
        assert!(finding.what.contains(what), "{finding:?}");
        let waits = &finding.waits_for[0].what;
        assert!(waits.starts_with("/dev/sdc of n2 to be there"), "{waits}");
        let [helps] = &finding.remedies[..] else {
            panic!("one thing helps: {finding:?}");
        };
        assert!(
            helps.what.starts_with("see that /dev/sdc is there"),
            "{helps:?}"
        );
    }
}

/// What a node says that does not believe the metadata.
fn disbelieves(report: LocalReport) -> LocalReport {
    LocalReport {
        metadata: LocalMetadata::Behind,
        metadata_believed: Some(false),
        astray: Some(Astray {
            why: "n1 follows another copy of it".to_owned(),
            remedies: vec!["look at the addresses of n2".to_owned()],
        }),
        ..report
    }
}

const DISBELIEVES: &str = "does not believe the metadata: n1 follows another copy of it";

/// Its devices are open, and it would open them: that is not what keeps it.
#[test]
fn a_node_that_does_not_believe_the_metadata_at_its_start_is_told_as_that() {
    let starting = LocalReport {
        open: false,
        slices: Vec::new(),
        ..disbelieves(well(2))
    };
    let reports = Reports::of([well(1), starting, well(3)]).but_unregistered(NodeId(2));
    let inventory = whole();
    let found = explain(&inventory, &reports);
    let of_volume = &found.volumes[0].findings[0];
    let what = format!("n2 {DISBELIEVES}, and its copy counts as good still");
    assert_eq!(of_volume.what, what);
    for finding in [of_volume, &found.nodes[0].findings[0]] {
        assert!(finding.what.ends_with(DISBELIEVES) || finding.what == what);
        assert_eq!(finding.waits_for[0].what, "n2 to follow the metadata again");
        assert_eq!(finding.remedies[0].what, "look at the addresses of n2");
    }
    let node = nodes(&inventory, &reports).nodes.remove(1);
    assert_eq!(
        (node.state, node.metadata_believed),
        (NodeState::Down, Some(false))
    );
}

/// Nothing can be brought to it, and what it leads it leads by a copy.
#[test]
fn a_node_that_others_disown_is_not_brought_up_to_date() {
    let stable = Sequence(3);
    let away = (2, Membership::Absent { stable });
    let alone = [(1, Membership::InSync), away];
    let inventory = inventory(vec![slice_record(0, &alone), slice_record(1, &alone)]);
    let mut disowned = disbelieves(well(2));
    for slice in &mut disowned.slices {
        (slice.epoch, slice.serving) = (9, true);
    }
    let reports = Reports::of([well(1), disowned, well(3)]);
    let document = volume(&inventory, &reports, record(&inventory));
    assert_eq!(document.slices[0].primary, "n1");
    assert_eq!(
        server(&reports, &slice_record(0, &alone)).unwrap().0,
        NodeId(1)
    );
    let found = explain(&inventory, &reports).volumes.remove(0).findings;
    assert_eq!(found[0].kind, FindingKind::NodeDown);
    assert_eq!(
        found[0].what,
        format!("n2 {DISBELIEVES}; 1 of the 2 copies of mirror2 is in sync without it")
    );
    let elsewhere = "else what n2 held is rebuilt elsewhere, after the repair delay";
    assert_eq!(
        found[0].waits_for[0].what,
        format!("n2 to follow the metadata again; {elsewhere}")
    );
    assert_eq!(found[0].waits_for[0].seconds_left, None);
    assert_eq!(found[0].remedies[0].what, "look at the addresses of n2");
    // It is silent as far as plans are concerned.
    assert_eq!(reports.seen(NodeId(2)), None);
    assert!(reports.seen(NodeId(1)).is_some());
    let node = nodes(&inventory, &reports).nodes.remove(1);
    assert_eq!(
        (node.state, node.metadata_believed),
        (NodeState::Up, Some(false))
    );
    // Asked itself, by whatever metadata.
    let asked = Reports::of([well(1), disbelieves(well(2)), well(3)]).asked_at(Some(NodeId(2)));
    let status = status(&whole(), &asked);
    assert_eq!(status.health, Health::Degraded);
    assert!(!status.protection.protected);
    let lack = "warning: volume demo: 2 of 2 slices have fewer good copies than the policy says (that on n2 is not good); nothing is lost, and hosts are served".to_owned();
    let error = format!("error: node n2: it {DISBELIEVES}");
    assert_eq!(said(&status), [error, lack]);
    assert_eq!((status.nodes.up, status.nodes.not_ready), (2, 1));
}

/// Where as many follow the one as the other, each believes its own.
#[test]
fn a_node_that_follows_another_copy_of_the_metadata_is_told_as_that() {
    let stable = Sequence(3);
    let alone = [(1, Membership::InSync), (2, Membership::Absent { stable })];
    let inventory = inventory(vec![slice_record(0, &alone), slice_record(1, &alone)]);
    let named = |node: u16, strangers| LocalReport {
        name: format!("n{node}"),
        strangers,
        ..well(node)
    };
    let reports = || Reports::of([named(1, vec![2]), named(2, vec![1]), named(3, vec![])]);
    let words = "follows another copy of the metadata than n1, and neither hears the other";
    let asked = reports().asked_at(Some(NodeId(1)));
    let explained = explain(&inventory, &asked);
    let [of_node] = &explained.nodes[..] else {
        panic!("{:?}", explained.nodes);
    };
    assert_eq!(
        (&*of_node.node, &*of_node.findings[0].what),
        ("n2", &*format!("it {words}"))
    );
    let of_volume = &explained.volumes[0].findings[0];
    assert!(
        of_volume.what.starts_with(&format!("n2 {words}; 1 of")),
        "{of_volume:?}"
    );
    let wait = &of_volume.waits_for[0];
    assert_eq!(
        (&*wait.what, wait.seconds_left),
        (
            "n2 and n1 to follow the same metadata; else what n2 held is rebuilt elsewhere, after the repair delay",
            None
        )
    );
    assert_eq!(asked.seen(NodeId(2)), None);
    assert!(!of_volume.remedies.is_empty());
    // The other one, by its own metadata, which says that all is well.
    let other = status(&whole(), &reports().asked_at(Some(NodeId(2))));
    assert_eq!(other.health, Health::Degraded);
    assert!(said(&other)[0].starts_with("error: node n1: it follows another copy"));
    // What n1 has protects nothing by this metadata.
    assert_eq!((other.nodes.up, other.nodes.not_ready), (2, 1));
    assert_eq!((other.volumes.degraded, other.protection.slices), (1, 2));
    let explained = explain(&whole(), &reports().asked_at(Some(NodeId(2))));
    let finding = &explained.volumes[0].findings[0];
    assert_eq!(finding.kind, FindingKind::NodeSilent);
    assert!(finding.what.ends_with("and its copy counts as good still"));
    let same = "n1 and n2 to follow the same metadata";
    assert_eq!(finding.waits_for[0].what, same);
}

/// Who leads cannot be told from metadata that is not believed, nor while a node that may lead does not believe it.
#[test]
fn nobody_is_said_to_lead_in_a_moment_while_the_metadata_is_not_believed() {
    let inventory = whole();
    let unserved = |report: LocalReport| LocalReport {
        slices: Vec::new(),
        ..report
    };
    let finding = |reports: &Reports| {
        let mut findings = explain(&inventory, reports).volumes.remove(0).findings;
        assert_eq!(findings[0].kind, FindingKind::NotServed);
        findings.remove(0)
    };
    let told = |finding: &Finding| {
        let waits = finding.waits_for.iter().map(|it| it.what.clone());
        let helps = finding.remedies.iter().map(|it| it.what.clone());
        (waits.collect::<Vec<_>>(), helps.collect::<Vec<_>>())
    };
    let well = [1, 2, 3].map(|node| unserved(well(node)));
    let (waits, helps) = told(&finding(&Reports::of(well.clone())));
    assert_eq!(
        waits,
        ["n1 to lead, in a moment", "n2 to lead, in a moment"]
    );
    assert!(helps.is_empty());
    let [first, second, third] = well;
    let second = disbelieves(second);
    let reports = Reports::of([first, second, third]);
    let (waits, helps) = told(&finding(&reports));
    assert_eq!(waits, ["n1 to lead", "n2 to follow the metadata again"]);
    assert_eq!(helps, ["look at the addresses of n2"]);
    let (waits, helps) = told(&finding(&reports.asked_at(Some(NodeId(2)))));
    let [wait] = &waits[..] else {
        panic!("{waits:?}");
    };
    assert!(wait.starts_with("n2, which was asked, to follow the metadata again"));
    assert!(helps[0].starts_with("ask n1, which believes"), "{helps:?}");
    assert_eq!(helps[1], "look at the addresses of n2");
}

/// Its devices are open, which is not what keeps it.
#[test]
fn a_node_that_has_yet_to_register_is_told_as_that() {
    let starting = LocalReport {
        metadata: LocalMetadata::Unreached,
        ..well(2)
    };
    let reports = Reports::of([well(1), starting, well(3)]).but_unregistered(NodeId(2));
    let inventory = whole();
    let cluster = status(&inventory, &reports);
    assert_eq!(cluster.health, Health::Degraded);
    let what = "error: node n2: it has not registered since it started";
    assert!(said(&cluster).contains(&what.to_owned()), "{cluster:?}");
    let explained = explain(&inventory, &reports);
    assert_eq!(
        explained.volumes[0].findings[0].what,
        "n2 has not registered since it started, and its copy counts as good still"
    );
    let finding = &explained.nodes[0].findings[0];
    assert_eq!(finding.kind, FindingKind::NotRegisteredYet);
    assert!(finding.remedies[0].what.contains("from n2 to the metadata"));
}

/// Orders of an operator, and room that is low, are told and are no harm.
#[test]
fn what_lacks_nothing_is_no_harm() {
    let mut inventory = whole();
    for node in 1..=3 {
        let mut intent = IntentRecord::active(NodeId(node));
        if node == 2 {
            intent.standing = Wanted::Maintenance;
        }
        inventory.intents.insert(NodeId(node), versioned(intent));
    }
    let aside = status(&inventory, &Reports::of([well(1), well(2), well(3)]));
    assert_eq!(aside.health, Health::Healthy);
    assert_eq!((aside.nodes.up, aside.nodes.in_maintenance), (3, 1));
    let low = third(|report| report.room.used_bytes = report.room.bytes / 10 * 9);
    assert_eq!(low.health, Health::Healthy);
    assert_eq!(said(&low), ["warning: node n3: 89 % of its room are used"]);
}

/// What it says of volumes, and which there are, counts for nothing.
#[test]
fn nothing_is_said_to_be_protected_in_metadata_that_is_not_believed() {
    let status = third(|report| {
        report.metadata = LocalMetadata::Behind;
        report.astray = Some(Astray {
            why: "it has lost documents of volume v1".to_owned(),
            remedies: Vec::new(),
        });
    });
    assert!(!status.protection.protected);
    assert_eq!(status.protection.work.seconds_left, None);
    let waits = status
        .protection
        .waits_for
        .iter()
        .map(|wait| wait.what.as_str());
    assert_eq!(
        waits.collect::<Vec<_>>(),
        ["the right metadata, which nodes do not find"]
    );
    assert!(third(|_| {}).protection.protected);
}

#[test]
fn what_a_state_tells_is_told_once_when_something_enters_it() {
    use holdfast_api::documents::EventKind;
    let kinds = |changes: Vec<Change>| {
        let changes = changes.into_iter();
        let mut told: Vec<_> = changes.map(|it| (it.kind, it.subject, it.detail)).collect();
        told.sort_unstable_by_key(|it| it.0.as_str());
        told
    };
    let inventory = whole();
    let healthy = Snapshot::of(&inventory, &Reports::of([well(1), well(2), well(3)]));
    // Whoever steers has just begun to: it counts from then on.
    let steers = LocalReport {
        silent: vec![LocalSilence {
            node: 2,
            seconds: 1,
            at_least: true,
        }],
        ..well(1)
    };
    let reports = Reports::of([steers, well(3)]);
    let alerts = said(&status(&inventory, &reports));
    let down = "error: node n2: down: it has not answered for 1 s at least".to_owned();
    assert!(alerts.contains(&down), "{alerts:?}");
    let mut lost = Snapshot::of(&inventory, &reports);
    let of = |kind, subject: &str, detail: &str| (kind, subject.to_owned(), detail.to_owned());
    let expected = [
        of(
            EventKind::ClusterHealth,
            "cluster",
            "degraded, after healthy",
        ),
        of(EventKind::NodeLost, "node n2", "down: it does not answer"),
        of(
            EventKind::VolumeHealth,
            "volume demo",
            "degraded, after healthy",
        ),
    ];
    assert_eq!(kinds(lost.follow(&healthy)), expected);
    // It was there, and not to be relied on, before it went down.
    let shut = LocalReport {
        open: false,
        ..well(2)
    };
    let mut unsure = Snapshot::of(&inventory, &Reports::of([well(1), shut, well(3)]));
    let told = kinds(unsure.follow(&healthy));
    assert!(
        told.iter().any(|it| it.0 == EventKind::NodeLost),
        "{told:?}"
    );
    let mut gone = Snapshot::of(&inventory, &Reports::of([well(1), well(3)]));
    let told = kinds(gone.follow(&unsure));
    let down = of(EventKind::NodeLost, "node n2", "down: it does not answer");
    assert!(told.contains(&down), "{told:?}");
    let mut back = Snapshot::of(&inventory, &Reports::of([well(1), well(2), well(3)]));
    assert_eq!(kinds(back.follow(&lost)).len(), 3);
}
