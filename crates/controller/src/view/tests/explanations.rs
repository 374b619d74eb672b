//! What is said of clusters that are not well, and how long it takes until they are.

use holdfast_api::documents::{
    Astray, Device, DeviceState, DeviceTier, Finding, FindingKind, LocalCondition, LocalLacking,
    LocalMetadata, LocalSilence, LocalSync, Mending, Protection, ReplicaCondition, VolumeFindings,
};
use holdfast_api::{Problem, ProblemKind};
use holdfast_model::record::{DomainRecord, IntentRecord, WishRecord};

use super::*;

const AWAY: Membership = Membership::Absent {
    stable: Sequence(9),
};
const JOINING: Membership = Membership::Joining {
    stable: Sequence(9),
};
const MIB: u64 = 1 << 20;

/// A node that is up, with room, and serves these slices with so many bytes each.
fn serves(node: u16, slices: &[u32]) -> LocalReport {
    let slices = slices.iter();
    roomy(local(
        node,
        slices
            .map(|index| local_slice(*index, 5, true, 100 * MIB))
            .collect(),
    ))
}

fn roomy(report: LocalReport) -> LocalReport {
    LocalReport {
        room: Room {
            bytes: 1 << 40,
            used_bytes: 1 << 30,
        },
        ..report
    }
}

fn idle(node: u16) -> LocalReport {
    roomy(local(node, Vec::new()))
}

fn lacking(mut report: LocalReport, node: u16, bytes: Option<u64>) -> LocalReport {
    for slice in &mut report.slices {
        slice.lacking = vec![LocalLacking { node, bytes }];
    }
    report
}

fn sends(mut report: LocalReport, node: u16, bytes_per_second: u64) -> LocalReport {
    report.syncs.push(LocalSync {
        node,
        bytes_per_second,
    });
    report
}

fn silent(mut report: LocalReport, node: u16, seconds: u64) -> LocalReport {
    report.silent.push(LocalSilence {
        node,
        seconds,
        at_least: false,
    });
    report
}

fn says(node: u16, index: u32, what: ReplicaCondition, nodes: &[u16]) -> LocalReport {
    let condition = LocalCondition {
        what,
        nodes: nodes.to_vec(),
    };
    let slice = LocalSlice {
        condition: Some(condition),
        ..local_slice(index, 5, false, 100)
    };
    roomy(local(node, vec![slice]))
}

fn two_of(membership: Membership) -> Inventory {
    let replicas = [(1, Membership::InSync), (2, membership)];
    inventory(vec![slice_record(0, &replicas), slice_record(1, &replicas)])
}

fn stands(inventory: &mut Inventory, node: u16, standing: Wanted) {
    for one in 1..=3 {
        let record = IntentRecord {
            schema: 1,
            node: NodeId(one),
            standing: if one == node {
                standing
            } else {
                Wanted::Active
            },
            site: None,
        };
        inventory.intents.insert(NodeId(one), versioned(record));
    }
}

fn domains(inventory: &mut Inventory, named: &[(u16, &str)]) {
    for (node, domain) in named {
        let record = DomainRecord {
            schema: 1,
            node: NodeId(*node),
            domain: (*domain).to_owned(),
        };
        inventory.domains.insert(record.node, record);
    }
}

/// The one finding about the one volume.
fn only(inventory: &Inventory, reports: &Reports) -> Finding {
    let mut volumes = explain(inventory, reports).volumes;
    assert_eq!(volumes.len(), 1, "{volumes:?}");
    let VolumeFindings { mut findings, .. } = volumes.remove(0);
    assert_eq!(findings.len(), 1, "{findings:?}");
    findings.remove(0)
}

fn waits(finding: &Finding) -> Vec<(&str, Option<u64>)> {
    let waits = finding.waits_for.iter();
    waits
        .map(|wait| (wait.what.as_str(), wait.seconds_left))
        .collect()
}

fn commands(finding: &Finding) -> Vec<&str> {
    let remedies = finding.remedies.iter();
    remedies
        .filter_map(|remedy| remedy.command.as_deref())
        .collect()
}

fn protection_of(inventory: &Inventory, reports: &Reports) -> Protection {
    let protection = status(inventory, reports).protection;
    assert_eq!(protection, explain(inventory, reports).protection);
    protection
}

#[test]
fn where_all_is_well_there_is_nothing_to_explain() {
    let inventory = two_of(Membership::InSync);
    let reports = Reports::of([serves(1, &[0, 1]), idle(2), idle(3)]);
    let explanation = explain(&inventory, &reports);
    assert_eq!((explanation.volumes, explanation.nodes), (vec![], vec![]));
    let protection = protection_of(&inventory, &reports);
    assert!(protection.protected && protection.waits_for.is_empty());
    assert_eq!(protection.work.seconds_left, Some(0));
}

/// The repair delay runs; the primary knows what the dead node lacks meanwhile.
#[test]
fn a_dead_node_comes_back_or_is_rebuilt_elsewhere() {
    let inventory = two_of(AWAY);
    let first = lacking(serves(1, &[0, 1]), 2, Some(3 * MIB));
    let told = silent(first.clone(), 2, 1000);
    let reports = Reports::of([told, idle(3)]);
    let finding = only(&inventory, &reports);
    assert_eq!(finding.kind, FindingKind::NodeDown);
    assert_eq!(
        finding.what,
        "n2 is down, and with it one of the copies of mirror2"
    );
    assert_eq!((finding.slices, finding.indexes.as_str()), (2, "0-1"));
    assert_eq!(finding.work.map(|work| work.bytes), Some(6 * MIB));
    let wait = "n2 to come back; else what it held is rebuilt elsewhere";
    assert_eq!(waits(&finding), [(wait, Some(2600))]);
    let ways = [
        "holdfast node drain n2",
        "holdfast settings set --repair-delay 5m",
    ];
    assert_eq!(commands(&finding), ways);
    let start = &finding.remedies[0].what;
    assert!(start.starts_with("start n2: "), "{start}");
    let protection = protection_of(&inventory, &reports);
    assert!(!protection.protected);
    assert_eq!(protection.work.seconds_left, None, "it waits");
    assert_eq!(protection.waits_for, finding.waits_for);
    // Nobody who steers has answered.
    let reports = Reports::of([first.clone(), idle(3)]);
    let wait = "n2 to come back; else what it held is rebuilt elsewhere, after the repair delay";
    assert_eq!(waits(&only(&inventory, &reports)), [(wait, None)]);
    // There is no third node: nothing can be rebuilt.
    let reports = Reports::of([silent(first, 2, 9999)]);
    let finding = only(&inventory, &reports);
    let wait = "n2 to come back: no other node is up, without a copy, and has room";
    assert_eq!(waits(&finding), [(wait, None)]);
    assert_eq!(commands(&finding), ["holdfast node add NAME"]);
}

/// A copy that is due fits nowhere: that is said, and no time is promised.
#[test]
fn a_rebuild_that_has_no_room_is_told_as_that() {
    let mut inventory = two_of(AWAY);
    stands(&mut inventory, 2, Wanted::Active);
    let delay = inventory.settings.record.repair_delay_seconds;
    let mut small = silent(idle(3), 2, delay);
    small.room.bytes = 100 * MIB;
    small.room.used_bytes = 0;
    let first = || lacking(serves(1, &[0, 1]), 2, None);
    let roomy = Reports::of([first(), silent(idle(3), 2, delay)]);
    assert!(!commands(&only(&inventory, &roomy)).contains(&"holdfast node add NAME"));
    let finding = only(&inventory, &Reports::of([first(), small]));
    assert!(
        commands(&finding).contains(&"holdfast node add NAME"),
        "{finding:?}"
    );
}

#[test]
fn nothing_is_rebuilt_for_a_node_in_maintenance() {
    let mut inventory = two_of(AWAY);
    stands(&mut inventory, 2, Wanted::Maintenance);
    let reports = Reports::of([silent(serves(1, &[0, 1]), 2, 9999), idle(3)]);
    let finding = only(&inventory, &reports);
    assert_eq!(commands(&finding), ["holdfast node maintenance off n2"]);
    assert_eq!(waits(&finding)[0].1, None);
    let nodes = explain(&inventory, &reports).nodes;
    let kinds: Vec<_> = nodes[0].findings.iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [FindingKind::Maintenance, FindingKind::NodeDown]);
}

/// It may never be started again.
#[test]
fn a_node_that_is_down_may_be_one_whose_machine_is_gone() {
    let inventory = two_of(AWAY);
    let explanation = explain(&inventory, &Reports::of([serves(1, &[0, 1]), idle(3)]));
    let [down] = &explanation.nodes[0].findings[..] else {
        panic!("one finding: {explanation:?}");
    };
    let [start, replace] = &down.remedies[..] else {
        panic!("two remedies: {down:?}");
    };
    // The alarm says the same.
    let action = holdfast_control::AlarmKind::NodeLost.text().action;
    for how in [
        "`systemctl start holdfast-node`",
        "the line that the demo printed when it ended (`command` in `demo.json`)",
    ] {
        assert!(start.what.contains(how), "{}", start.what);
        assert!(action.contains(how), "{action}");
    }
    for chapter in ["A machine that is replaced", "A machine that goes for good"] {
        assert!(replace.what.contains(chapter), "{}", replace.what);
    }
}

/// A machine in its place, or devices in place of its own, would give up what nobody else has.
#[test]
fn the_place_of_a_node_with_the_last_good_copy_is_not_offered() {
    let remedies = |inventory: &Inventory, reports: &Reports| {
        let nodes = explain(inventory, reports).nodes;
        let mut first = nodes.into_iter().filter(|it| it.node == "n1");
        let findings = first.next().expect("n1 is away").findings;
        findings[0].remedies.clone()
    };
    let bring_back = "bring n1 back with its devices, in another machine if its own is broken: n1 has good copies of slices of \
                      volume demo, and no other node that is there has one. ";
    let alone = two_of(AWAY);
    let without = Reports::of([idle(2), idle(3)]);
    let told = remedies(&alone, &without);
    assert_eq!(told.len(), 2);
    assert!(told[0].what.starts_with("start n1: "), "{told:?}");
    assert!(told[1].what.starts_with(bring_back), "{told:?}");
    assert!(!told[1].what.contains("take-over") && told[1].what.contains("LOST"));
    let failed = LocalReport {
        open: false,
        awaited_device: Some("/dev/sdc".to_owned()),
        awaited_cause: Some(holdfast_api::documents::AwaitedCause::Failed),
        ..idle(1)
    };
    let told = remedies(&alone, &Reports::of([failed.clone(), idle(2), idle(3)]));
    assert!(told[1].what.starts_with(bring_back), "{told:?}");
    // Another good copy is there, or is not.
    let both = two_of(Membership::InSync);
    let told = remedies(&both, &Reports::of([serves(2, &[0, 1]), idle(3)]));
    assert!(told[1].what.contains("take-over"), "{told:?}");
    let told = remedies(&both, &Reports::of([failed, serves(2, &[0, 1]), idle(3)]));
    assert!(told[1].what.contains("blank devices, and it is filled"));
    let told = remedies(&both, &Reports::of([idle(3)]));
    assert!(told[1].what.starts_with(bring_back), "{told:?}");
}

/// Both slices are brought to node 2 by node 1; one of them waits for its turn, and counts.
#[test]
fn the_time_left_is_that_of_the_slowest_node() {
    let replicas = [(1, Membership::InSync), (2, JOINING)];
    let queued = [(1, Membership::InSync), (2, AWAY)];
    let inventory = inventory(vec![slice_record(0, &replicas), slice_record(1, &queued)]);
    let mut first = lacking(serves(1, &[0, 1]), 2, Some(30 * MIB));
    first.slices[0].joining = vec![LocalJoining {
        node: 2,
        bytes_done: 30 * MIB,
        bytes_total: 40 * MIB,
        bytes_moved: 0,
        bytes_per_second: 2 * MIB,
    }];
    let reports = Reports::of([sends(first.clone(), 2, 2 * MIB), idle(2), idle(3)]);
    let protection = protection_of(&inventory, &reports);
    assert_eq!(protection.waits_for, []);
    let work = protection.work;
    assert_eq!((work.replicas, work.bytes), (2, 40 * MIB));
    assert_eq!(work.bytes_per_second, 2 * MIB);
    assert_eq!(work.seconds_left, Some(20));
    let finding = only(&inventory, &reports);
    assert_eq!(waits(&finding), [("n2 to have everything", Some(20))]);
    assert!(finding.remedies.is_empty(), "it ends by itself");
    let list = nodes(&inventory, &reports).nodes;
    assert_eq!(list[0].to_send.seconds_left, Some(20));
    assert_eq!(list[1].to_receive.bytes, 40 * MIB);
    assert_eq!(list[2].to_receive.replicas, 0);
    let document = volume(&inventory, &reports, record(&inventory));
    assert_eq!(document.slices[0].joining[0].seconds_left, Some(5));
    assert_eq!(document.slices[1].absent[0].bytes_lacking, Some(30 * MIB));
    assert_eq!(document.resync.work.bytes, 40 * MIB);
    // Nothing has been measured yet: no time is made up.
    let reports = Reports::of([first.clone(), idle(2), idle(3)]);
    assert_eq!(
        protection_of(&inventory, &reports).work.seconds_left,
        None,
        "there is no rate"
    );
    // Nobody knows what the queued one lacks: all of it, at most.
    first.slices[1].lacking[0].bytes = None;
    let reports = Reports::of([sends(first, 2, 2 * MIB), idle(2), idle(3)]);
    let work = protection_of(&inventory, &reports).work;
    assert_eq!((work.bytes, work.seconds_left), (110 * MIB, Some(55)));
}

/// The third node gets the copies of the second, which is dead for good.
#[test]
fn a_rebuild_is_told_as_what_it_is() {
    let mut inventory = two_of(AWAY);
    let wish = |index| WishRecord {
        schema: 1,
        slice: SliceId {
            volume: VOLUME,
            index,
        },
        nodes: vec![NodeId(1), NodeId(3)],
        kept: vec![NodeId(2)],
        preferred: NodeId(1),
    };
    inventory.wishes.insert(wish(0).slice, versioned(wish(0)));
    let first = sends(silent(serves(1, &[0, 1]), 2, 5000), 3, MIB);
    let reports = Reports::of([first, idle(3)]);
    let mut volumes = explain(&inventory, &reports).volumes;
    let findings = volumes.remove(0).findings;
    let what: Vec<_> = findings.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(
        what,
        [
            "n2 is down, and with it one of the copies of mirror2",
            "a copy is being made on n3"
        ]
    );
    assert_eq!(findings[0].indexes, "1");
    assert_eq!(findings[1].indexes, "0");
    // The other one has its turn later, and counts: 200 MiB through one node.
    let protection = protection_of(&inventory, &reports);
    assert_eq!(protection.waits_for, []);
    assert_eq!(protection.work.seconds_left, Some(200));
}

#[test]
fn a_slice_that_nobody_serves_names_who_is_needed_and_what_keeps_them() {
    let inventory = two_of(Membership::InSync);
    let only_third = Reports::of([idle(3)]);
    let finding = only(&inventory, &only_third);
    assert_eq!(finding.kind, FindingKind::NotServed);
    assert_eq!(
        finding.what,
        "not served: of n1 and n2, which were in sync in epoch 5, 1 has to be there; n1 is down; n2 is \
         down"
    );
    let three = [1, 2, 3].map(|node| (node, Membership::InSync));
    let of_three = |needed| {
        let mut slice = slice_record(0, &three);
        slice.copies_min = needed;
        let none = Reports::of([]);
        only(&super::inventory(vec![slice]), &none).what
    };
    let who = "not served: of n1, n2 and n3, which were in sync in epoch 5, ";
    for (needed, have) in [(1, "1 has"), (2, "2 have"), (3, "every one has")] {
        let told = of_three(needed);
        assert!(
            told.starts_with(&format!("{who}{have} to be there;")),
            "{told}"
        );
    }
    let expected = [("n1 to come back", None), ("n2 to come back", None)];
    assert_eq!(waits(&finding), expected);
    let orders = |finding: &Finding| -> Vec<String> {
        let what = finding.remedies.iter().map(|it| &it.what);
        what.map(|what| what.split(':').next().unwrap().to_owned())
            .collect()
    };
    assert_eq!(orders(&finding), ["start n1", "start n2"]);
    // Each of these says why it does not lead.
    let word = |second: LocalReport, word: &str| {
        let alone = [(1, Membership::InSync), (2, Membership::InSync)];
        let inventory = super::inventory(vec![slice_record(0, &alone)]);
        let finding = only(&inventory, &Reports::of([second, idle(3)]));
        assert!(finding.what.contains(word), "{}", finding.what);
        finding
    };
    use ReplicaCondition as What;
    let doubts = word(
        says(2, 0, What::Doubts, &[1]),
        "n2 does not lead for a minute without having heard n1",
    );
    assert_eq!(
        waits(&doubts)[1].0,
        "n1 to answer n2, or a minute from its start"
    );
    word(says(2, 0, What::Damaged, &[]), "has lost something durable");
    word(says(2, 0, What::OtherStore, &[]), "has other devices");
    word(
        says(2, 0, What::Begins, &[1]),
        "n2 is to lead, and cannot without n1",
    );
    word(says(2, 0, What::Proposes, &[]), "waits for the metadata");
    word(says(2, 0, What::Asks, &[1]), "asks n1 how far they are");
    let behind = LocalReport {
        metadata: LocalMetadata::Behind,
        astray: Some(Astray {
            why: "it was made again while this node ran".to_owned(),
            remedies: vec!["start n2 again".to_owned()],
        }),
        ..idle(2)
    };
    let made_again = word(
        behind,
        "n2 does not believe the metadata: it was made again while this node ran",
    );
    assert_eq!(orders(&made_again), ["start n1", "start n2 again"]);
    let shut = LocalReport {
        open: false,
        ..idle(2)
    };
    word(shut, "n2 is up, and has not opened its devices");
}

/// What helps depends on why the node does not believe it: it says so itself. Of one of an earlier version only its log does.
#[test]
fn what_helps_a_node_that_does_not_believe_the_metadata_is_what_it_says() {
    let told = |astray: Option<Astray>| {
        let second = LocalReport {
            metadata: LocalMetadata::Behind,
            astray,
            ..idle(2)
        };
        let inventory = two_of(Membership::InSync);
        let reports = Reports::of([serves(1, &[0, 1]), second, idle(3)]);
        let nodes = explain(&inventory, &reports).nodes;
        let mut second = nodes.into_iter().filter(|it| it.node == "n2");
        let finding = second.next().unwrap().findings.remove(0);
        let helps = finding.remedies.into_iter().map(|it| it.what);
        (finding.what, helps.collect::<Vec<_>>())
    };
    let remedies = ["update n2", "or not"].map(str::to_owned);
    let newer = Astray {
        why: "its record is newer".to_owned(),
        remedies: remedies.to_vec(),
    };
    let what = "it does not believe the metadata: its record is newer".to_owned();
    assert_eq!(told(Some(newer)), (what, remedies.to_vec()));
    let (what, helps) = told(None);
    assert!(what.ends_with("which has gone back, or is another cluster's"));
    assert!(helps.len() == 1 && helps[0].starts_with("the log of n2 says"));
}

/// Nothing helps but the devices: that what was there is lost otherwise is said.
#[test]
fn data_that_may_be_lost_is_called_lost() {
    let alone = [(1, Membership::InSync), (2, AWAY)];
    let inventory = inventory(vec![slice_record(0, &alone)]);
    let first = says(1, 0, ReplicaCondition::OtherStore, &[]);
    let reports = Reports::of([first, idle(2), idle(3)]);
    let finding = only(&inventory, &reports);
    assert_eq!(waits(&finding), [("the devices of n1 as they were", None)]);
    let lost = "what was on these slices is LOST: n2 may hold older copies, without what was written since, and no command";
    assert!(
        finding.remedies[0].what.contains(lost),
        "{:?}",
        finding.remedies
    );
    assert!(finding.remedies[0].what.contains("holdfast volume delete"));
    // Nothing is said to be in sync that nobody has, nor to be led.
    let slice = volume(&inventory, &reports, record(&inventory))
        .slices
        .remove(0);
    assert!(!slice.served && slice.in_sync.is_empty(), "{slice:?}");
    let absent: Vec<&str> = slice.absent.iter().map(|it| it.node.as_str()).collect();
    assert_eq!(absent, ["n2", "n1"]);
    let primaries = nodes(&inventory, &reports).nodes;
    assert!(primaries.iter().all(|node| node.primaries == 0));
}

#[test]
fn writes_that_wait_are_told() {
    let three = [
        (1, Membership::InSync),
        (2, Membership::InSync),
        (3, Membership::InSync),
    ];
    let mut inventory = inventory(vec![slice_record(0, &three)]);
    let volume = inventory.volumes.get_mut(&VOLUME).unwrap();
    volume.record.policy = Policy::Mirror3;
    let mut first = serves(1, &[0]);
    first.slices[0].condition = Some(LocalCondition {
        what: ReplicaCondition::Stuck,
        nodes: vec![2, 3],
    });
    let reports = Reports::of([first]);
    let mut volumes = explain(&inventory, &reports).volumes;
    let findings = volumes.remove(0).findings;
    assert_eq!(findings[0].kind, FindingKind::WritesWait);
    assert_eq!(
        findings[0].what,
        "nothing is written, nor read: without n2 and n3 fewer copies would be left than the 2 that mirror3 writes to at least"
    );
    assert_eq!(status(&inventory, &reports).health, Health::Unavailable);
    let kinds: Vec<_> = findings[1..].iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [FindingKind::NodeSilent, FindingKind::NodeSilent]);
}

#[test]
fn bad_blocks_are_mended_or_have_to_be_written() {
    let inventory = two_of(Membership::InSync);
    let mut second = idle(2);
    let bad = LocalSlice {
        bad_blocks: 3,
        ..local_slice(0, 5, false, 1)
    };
    second.slices.push(bad);
    let reports = Reports::of([serves(1, &[0, 1]), second.clone(), idle(3)]);
    let finding = only(&inventory, &reports);
    assert_eq!(finding.what, "3 blocks are known to be bad on n2");
    assert!(finding.remedies.is_empty());
    let mut first = serves(1, &[0, 1]);
    first.slices[0].bad_blocks = 2;
    let reports = Reports::of([first, second, idle(3)]);
    let finding = only(&inventory, &reports);
    assert_eq!(finding.what, "5 blocks are known to be bad on n1 and n2");
    assert!(waits(&finding)[0].0.contains("no copy is known"));
    assert!(finding.remedies[0].what.contains("MEDIUM ERROR"));
    assert!(!protection_of(&inventory, &reports).waits_for.is_empty());
}

/// A copy that has lost everything knows of no bad block, and mends none.
#[test]
fn bad_blocks_are_not_mended_by_a_copy_that_has_nothing() {
    let inventory = two_of(Membership::InSync);
    let mut first = serves(1, &[0, 1]);
    first.slices[0].bad_blocks = 2;
    let reports = |second| Reports::of([first.clone(), second, idle(3)]);
    let waits_for = |reports: &Reports| {
        let findings = explain(&inventory, reports).volumes.remove(0).findings;
        let bad = |one: &&Finding| one.kind == FindingKind::BadBlocks;
        waits(findings.iter().find(bad).expect("they are told"))[0]
            .0
            .to_owned()
    };
    let good = roomy(local(2, vec![local_slice(0, 5, false, 100)]));
    assert!(!waits_for(&reports(good)).contains("no copy is known"));
    let emptied = says(2, 0, ReplicaCondition::OtherStore, &[]);
    assert!(waits_for(&reports(emptied)).contains("no copy is known"));
}

/// Of the only copy nobody else has them.
#[test]
fn bad_blocks_of_the_only_copy_are_told_as_lost() {
    let inventory = inventory(vec![slice_record(0, &[(1, Membership::InSync)])]);
    let mut first = serves(1, &[0]);
    first.slices[0].bad_blocks = 2;
    let reports = |others: &[LocalReport]| Reports::of([&[first.clone()], others].concat());
    let told = |reports: &Reports| {
        let findings = explain(&inventory, reports).volumes.remove(0).findings;
        let bad = |one: &Finding| one.kind == FindingKind::BadBlocks;
        findings.into_iter().find(bad).expect("they are told")
    };
    let finding = told(&reports(&[idle(2), idle(3)]));
    assert_eq!(
        finding.what,
        "2 blocks are known to be bad on n1, and no other copy that is there has what was in them"
    );
    let [lost] = &finding.remedies[..] else {
        panic!("no node is down: {:?}", finding.remedies);
    };
    assert!(lost.what.contains("LOST"), "{lost:?}");
    let finding = told(&reports(&[idle(2)]));
    assert!(finding.remedies[0].what.starts_with("start nodes"));
}

/// It does not lead in a moment, and something has to be done.
#[test]
fn the_only_copy_that_lacks_what_was_on_a_device_waits_for_it() {
    let inventory = inventory(vec![slice_record(0, &[(2, Membership::InSync)])]);
    let absent = Device {
        state: DeviceState::Missing,
        is_absent: true,
        ..device(0)
    };
    let told = |devices| {
        let second = LocalReport {
            devices,
            ..says(2, 0, ReplicaCondition::Lacks, &[])
        };
        let reports = Reports::of([idle(1), second, idle(3)]);
        let findings = explain(&inventory, &reports).volumes.remove(0).findings;
        let stands = |one: &Finding| one.kind == FindingKind::NotServed;
        findings.into_iter().find(stands).expect("it is told")
    };
    let finding = told(vec![absent]);
    let told_of = waits(&finding);
    assert!(
        told_of[0].0.starts_with("the device that is absent"),
        "{told_of:?}"
    );
    let commands = finding.remedies.iter().map(|one| one.command.as_deref());
    let commands: Vec<_> = commands.collect();
    assert_eq!(
        commands,
        [None, Some("holdfast device remove n2 1 --give-up")]
    );
    assert!(finding.remedies[1].what.contains("LOST"));
    // It was given up.
    let given_up = told(vec![]);
    assert_eq!(waits(&given_up), [("n2 to be started again", None)]);
    let [again] = &given_up.remedies[..] else {
        panic!("one thing helps");
    };
    assert!(again.what.starts_with("start n2 again"), "{again:?}");
}

/// Each of them is mended in a moment, and hardly any look finds one that is bad.
#[test]
fn bad_blocks_of_a_node_are_told_while_they_are_mended() {
    let inventory = two_of(Membership::InSync);
    let second = |bad_blocks, mending| {
        let report = LocalReport {
            mending,
            ..with_device(bad_blocks, device(bad_blocks))
        };
        Reports::of([serves(1, &[0, 1]), report, idle(3)])
    };
    let told = |reports: &Reports| {
        let of_nodes = explain(&inventory, reports).nodes;
        let mut findings = of_nodes.into_iter().flat_map(|node| node.findings);
        let finding = findings.next().expect("there is one");
        assert_eq!(
            (finding.kind, findings.count()),
            (FindingKind::BadBlocks, 0)
        );
        finding
    };
    let mending = Some(Mending {
        blocks: 41_408,
        seconds: 240,
    });
    let mended = "41408 blocks on it were bad, and fetched from other copies in the last 240 s";
    let reports = second(0, mending);
    let finding = told(&reports);
    assert_eq!((finding.what.as_str(), waits(&finding)), (mended, vec![]));
    let cluster = status(&inventory, &reports);
    assert_eq!(cluster.health, Health::Healthy, "nothing is lacking now");
    assert_eq!(said(&cluster), [format!("warning: node n2: {mended}")]);

    let reports = second(3, mending);
    let finding = told(&reports);
    assert_eq!(
        finding.what,
        "3 blocks are known to be bad on it (3 on device 1 (/dev/sdb)); 41408 more were bad, and \
         fetched from other copies in the last 240 s"
    );
    let from_others = "the bad blocks on n2 to be fetched from other copies, if these have them";
    assert_eq!(waits(&finding), [(from_others, None)]);
    let replace = "holdfast device replace n2 1 PATH";
    assert_eq!(finding.remedies[0].command.as_deref(), Some(replace));
    let cluster = status(&inventory, &reports);
    assert_eq!(cluster.health, Health::Degraded);
    assert_eq!(said(&cluster).len(), 2, "and what follows for the volume");

    // What is not in sync is brought with all that it lacks.
    let lacking = two_of(AWAY);
    let findings = explain(&lacking, &second(3, None)).nodes;
    assert_eq!(findings, []);
    assert_eq!(explain(&inventory, &second(0, None)).nodes, []);
}

/// What is waited for is one thing, whatever follows from it.
#[test]
fn what_is_waited_for_is_told_once() {
    let three = [(1, Membership::InSync), (2, AWAY), (3, AWAY)];
    let slices = vec![
        slice_record(0, &three),
        slice_record(1, &[(1, Membership::InSync), (2, AWAY)]),
    ];
    let inventory = inventory(slices);
    // Of slice 0 no other node is without a copy.
    let reports = Reports::of([serves(1, &[0, 1]), idle(3)]);
    let protection = protection_of(&inventory, &reports);
    let waits: Vec<&str> = protection.waits_for.iter().map(|it| &*it.what).collect();
    assert_eq!(waits, ["n2 to come back"]);
    // It is told with the volume what follows.
    let findings = explain(&inventory, &reports).volumes.remove(0).findings;
    let told = findings.iter().flat_map(|it| &it.waits_for);
    assert_eq!(
        told.filter(|it| it.what.starts_with("n2 to come back"))
            .count(),
        2
    );
    // One is silent still.
    let slices = vec![
        slice_record(0, &BOTH),
        slice_record(1, &[(1, Membership::InSync), (2, AWAY)]),
    ];
    let inventory = super::inventory(slices);
    let waits = protection_of(&inventory, &reports).waits_for;
    assert_eq!(waits.len(), 1, "{waits:?}");
}

/// A device of node 2.
fn device(bad_blocks: u64) -> Device {
    Device {
        number: 1,
        path: "/dev/sdb".to_owned(),
        tier: DeviceTier::Flash,
        state: DeviceState::InUse,
        journal: false,
        journal_room: false,
        is_absent: false,
        bytes: 1 << 30,
        used_bytes: MIB,
        bytes_per_second: 0,
        seconds_left: None,
        drain_bytes: None,
        bad_blocks,
        detached: None,
        latency_p99_us: None,
    }
}

fn with_device(bad_blocks: u64, device: Device) -> LocalReport {
    let slices = vec![LocalSlice {
        bad_blocks,
        ..local_slice(0, 5, false, 1)
    }];
    LocalReport {
        devices: vec![device],
        ..roomy(local(2, slices))
    }
}

/// It does not survive that its node is started again.
#[test]
fn what_is_on_a_device_that_was_taken_away_is_not_protected() {
    let inventory = two_of(Membership::InSync);
    let protection = |used_bytes, journal, detached| {
        let second = Device {
            used_bytes,
            journal,
            detached,
            ..device(0)
        };
        let reports = [serves(1, &[0, 1]), with_device(0, second), idle(3)];
        protection_of(&inventory, &Reports::of(reports))
    };
    let gone = Some(holdfast_api::documents::Detached::Nothing);
    assert!(protection(MIB, false, None).protected);
    assert!(protection(0, false, gone).protected, "nothing is on it");
    for lost in [protection(MIB, false, gone), protection(0, true, gone)] {
        assert!(!lost.protected);
        let what = &lost.waits_for[0].what;
        let start = "device 1 (/dev/sdb) of n2, taken away while it is in use, to be replaced";
        assert!(what.starts_with(start), "{what}");
        assert_eq!((lost.waits_for.len(), lost.work.seconds_left), (1, None));
    }
}

/// Others bring what was on it, in a time that is known.
#[test]
fn the_time_until_a_missing_device_is_made_good_is_told() {
    let inventory = two_of(Membership::InSync);
    let reports = |seconds_left| {
        let missing = Device {
            state: DeviceState::Missing,
            is_absent: true,
            used_bytes: 30 * MIB,
            bytes_per_second: MIB,
            seconds_left,
            ..device(0)
        };
        Reports::of([serves(1, &[0, 1]), with_device(3, missing), idle(3)])
    };
    let known = protection_of(&inventory, &reports(Some(30)));
    assert!(!known.protected && known.waits_for.is_empty(), "{known:?}");
    assert_eq!(
        (known.work.bytes, known.work.seconds_left),
        (30 * MIB, Some(30))
    );
    // It is not said to be failing as well.
    let nodes = explain(&inventory, &reports(Some(30))).nodes;
    let findings = nodes.iter().flat_map(|node| &node.findings);
    let bad: Vec<&Finding> = findings
        .filter(|it| it.kind == FindingKind::BadBlocks)
        .collect();
    let what =
        "3 blocks are known to be bad on it (they were on device 1 (/dev/sdb), which is absent)";
    assert_eq!(
        (bad.len(), &*bad[0].what, &bad[0].remedies[..]),
        (1, what, &[][..])
    );
    let unknown = protection_of(&inventory, &reports(None));
    assert_eq!(
        (unknown.waits_for.len(), unknown.work.seconds_left),
        (1, None)
    );
}

/// A node with empty devices lacks everything, whatever the mark of the one before says.
#[test]
fn an_emptied_node_is_copied_in_full() {
    let mut inventory = two_of(AWAY);
    inventory.nodes.get_mut(&NodeId(2)).unwrap().store = StoreId(99);
    let first = lacking(serves(1, &[0, 1]), 2, Some(MIB));
    let reports = Reports::of([sends(first, 2, 10 * MIB), idle(2), idle(3)]);
    let finding = only(&inventory, &reports);
    assert!(finding.what.contains("not those of before"));
    assert_eq!(finding.work.map(|work| work.bytes), Some(200 * MIB));
    assert_eq!(waits(&finding)[0].1, Some(20));
    let absent = &volume(&inventory, &reports, record(&inventory)).slices[0].absent;
    assert_eq!(absent[0].bytes_lacking, Some(100 * MIB));
}

/// Of a volume to which nobody has written nothing is lacking, also on a node that has lost what it held.
#[test]
fn a_node_tells_what_its_copies_lack_and_of_an_empty_volume_nothing() {
    let mut inventory = two_of(AWAY);
    let mut first = lacking(serves(1, &[0, 1]), 2, Some(MIB));
    first.slices[1].used_bytes = 0;
    first.slices[1].lacking[0].bytes = Some(0);
    let reports = Reports::of([first, idle(2), idle(3)]);
    let told = |inventory: &Inventory, node| {
        let slices = node_details(inventory, &reports, NodeId(node)).slices;
        let slices = slices.into_iter();
        slices.map(|it| it.bytes_lacking).collect::<Vec<_>>()
    };
    assert_eq!(told(&inventory, 1), [None, None], "they are in sync");
    assert_eq!(told(&inventory, 2), [Some(MIB), Some(0)]);
    inventory.nodes.get_mut(&NodeId(2)).unwrap().store = StoreId(99);
    assert_eq!(told(&inventory, 2), [Some(100 * MIB), Some(0)]);
}

#[test]
fn nodes_that_wait_are_full_or_are_drained_are_explained() {
    let mut inventory = two_of(Membership::InSync);
    stands(&mut inventory, 2, Wanted::Draining);
    inventory.intents.remove(&NodeId(3));
    let full = LocalReport {
        room: Room {
            bytes: 1 << 30,
            used_bytes: 1 << 30,
        },
        ..serves(1, &[0, 1])
    };
    let reports = Reports::of([full, idle(2), idle(3)]);
    let nodes = explain(&inventory, &reports).nodes;
    let told: Vec<_> = nodes
        .iter()
        .map(|it| (it.node.as_str(), it.findings[0].kind))
        .collect();
    let expected = [
        ("n1", FindingKind::NoRoom),
        ("n2", FindingKind::Draining),
        ("n3", FindingKind::NotAdmitted),
    ];
    assert_eq!(told, expected);
    let delete = &nodes[0].findings[0].remedies[1];
    assert!(delete.what.contains("ALL ITS DATA IS LOST"));
    assert_eq!(
        commands(&nodes[1].findings[0]),
        // There is no node for it before n3 is admitted.
        ["holdfast node add NAME", "holdfast node drain n2 --cancel"]
    );
    assert_eq!(commands(&nodes[2].findings[0]), ["holdfast node add n3"]);
}

/// The metadata does not answer: one node says what it knows.
#[test]
fn a_node_alone_says_what_it_knows() {
    let report = LocalReport {
        name: "n1".to_owned(),
        ..serves(1, &[0, 1])
    };
    let problem = Problem::new(ProblemKind::Unavailable, "nobody answers").hint("start it");
    let explanation = unreached(&report, &problem);
    assert_eq!(explanation.revision, 0);
    assert!(!explanation.protection.protected);
    assert_eq!(explanation.protection.waits_for.len(), 1);
    let finding = &explanation.nodes[0].findings[0];
    assert!(finding.what.contains("serves 2 slices"), "{}", finding.what);
    assert!(
        finding.what.starts_with("nobody answers: "),
        "{}",
        finding.what
    );
    assert_eq!(finding.remedies[0].what, "start it");
    // It does not know yet what it has.
    let starting = LocalReport {
        open: false,
        slices: Vec::new(),
        ..report
    };
    let what = &unreached(&starting, &problem).nodes[0].findings[0].what;
    let expected = "nobody answers: it is not known how the other nodes are; the devices of this node are not open yet, or have \
                    failed: it serves nothing until they are open";
    assert_eq!(what, expected);
}

/// It does not come by itself, and what is missing is said.
#[test]
fn a_copy_without_room_is_told_with_what_is_missing() {
    let replicas = [(1, Membership::InSync), (2, AWAY)];
    let inventory = inventory(vec![slice_record(0, &replicas)]);
    let first = lacking(serves(1, &[0]), 2, Some(3 * MIB));
    let mut second = says(2, 0, ReplicaCondition::NoRoom, &[]);
    second.room.used_bytes = second.room.bytes - MIB;
    let reports = Reports::of([first, second]);
    let finding = only(&inventory, &reports);
    assert_eq!(
        finding.what,
        "the copy on n2 cannot be brought up to date: n2 has no room for it"
    );
    let room = "room on n2: up to 3145728 bytes are to be copied there, and 1048576 are free";
    assert_eq!(waits(&finding), [(room, None)]);
    assert_eq!(commands(&finding)[0], "holdfast device add n2 PATH");
    let protection = protection_of(&inventory, &reports);
    assert_eq!(protection.work.seconds_left, None);
    assert_eq!(protection.waits_for.len(), 1);
}

/// The same slice, drained from n2, where n3 could have it, is full, and is not there.
#[test]
fn a_drain_that_cannot_go_on_says_why() {
    let mut inventory = two_of(Membership::InSync);
    stands(&mut inventory, 2, Wanted::Draining);
    let drain_in = |inventory: &Inventory, reports: &Reports| {
        let nodes = explain(inventory, reports).nodes;
        let node = nodes.into_iter().find(|it| it.node == "n2");
        node.expect("n2 is being drained").findings.remove(0)
    };
    let drain = |reports: &Reports| drain_in(&inventory, reports);
    let moves = ("2 replicas to move away", None);

    let goes_on = drain(&Reports::of([serves(1, &[0, 1]), idle(2), idle(3)]));
    assert_eq!(waits(&goes_on), [moves]);
    assert_eq!(commands(&goes_on), ["holdfast node drain n2 --cancel"]);

    let mut small = idle(3);
    small.room.bytes = 100 * MIB;
    small.room.used_bytes = 0;
    let no_room = drain(&Reports::of([serves(1, &[0, 1]), idle(2), small]));
    let room = "room for 2 slices, as slice 0 of demo: it holds 100 MiB, and no node that may have it \
                has more than 98 MiB to spare";
    assert_eq!(waits(&no_room), [moves, (room, None)]);
    let all = [
        "holdfast device add NODE PATH",
        "holdfast node add NAME",
        "holdfast node drain n2 --cancel",
    ];
    assert_eq!(commands(&no_room), all);

    let too_few = drain(&Reports::of([serves(1, &[0, 1]), idle(2)]));
    let node = "one more node for 2 slices, as slice 0 of demo: each other node that is up and takes \
                replicas has a copy";
    assert_eq!(waits(&too_few), [moves, (node, None)]);
    assert_eq!(commands(&too_few), all[1..]);

    let mut one_domain = inventory.clone();
    domains(&mut one_domain, &[(1, "a"), (3, "a")]);
    let stays = drain_in(
        &one_domain,
        &Reports::of([serves(1, &[0, 1]), idle(2), idle(3)]),
    );
    let node = "a node of another failure domain for 2 slices, as slice 0 of demo: each that has no copy is in the domain of \
                one that has one";
    assert_eq!(waits(&stays), [moves, (node, None)]);
    assert_eq!(commands(&stays), all[1..]);

    let not_served = drain(&Reports::of([idle(2), idle(3)]));
    let served = "2 slices, as slice 0 of demo, to be served again: there is nothing to copy from, and the \
                  copy here may be the last good one";
    assert_eq!(waits(&not_served), [moves, (served, None)]);
    let to_move =
        |inventory: &Inventory, reports: &Reports| nodes(inventory, reports).nodes[1].to_move;
    let reports = Reports::of([serves(1, &[0, 1]), idle(2), idle(3)]);
    assert_eq!(to_move(&inventory, &reports).slices, 2);

    // It is dead, and nobody else has what it had.
    let mut inventory =
        super::inventory(vec![slice_record(0, &[(2, Membership::InSync), (1, AWAY)])]);
    stands(&mut inventory, 2, Wanted::Draining);
    let reports = Reports::of([idle(1), idle(3)]);
    let dead = {
        let nodes = explain(&inventory, &reports).nodes;
        let node = nodes.into_iter().find(|it| it.node == "n2");
        node.expect("n2 is being drained").findings.remove(0)
    };
    let stays = "slice 0 of demo, which cannot move: this node has a good copy, no other node that is there has one, and there is \
                 nothing to copy from until this node is back";
    assert_eq!(waits(&dead)[1], (stays, None));
    assert!(
        dead.remedies[0]
            .what
            .starts_with("bring n2 back with its devices")
    );
    assert_eq!(commands(&dead)[0], "holdfast volume delete NAME");
    // Nobody says that it takes a second.
    let left = to_move(&inventory, &reports);
    assert_eq!((left.slices, left.bytes, left.seconds_left), (1, 0, None));
    let hint = |reports: &Reports| last::hint(&inventory, reports, NodeId(2), "n2");
    let told = hint(&reports).expect("it has the last copy");
    assert!(
        told.contains("bring it back with its devices, then drain it"),
        "{told}"
    );
    assert_eq!(hint(&Reports::of([idle(1), serves(2, &[0])])), None);
}

/// There is one metadata: whoever says that it is full, the cluster is told once.
#[test]
fn metadata_that_is_full_is_told_with_what_helps() {
    let inventory = two_of(Membership::InSync);
    let full = |report: LocalReport| LocalReport {
        metadata_full: true,
        ..report
    };
    let reports = Reports::of([full(serves(1, &[0, 1])), full(idle(2)), idle(3)]);
    let status = status(&inventory, &reports);
    let [alert] = &said(&status)[..] else {
        panic!("one alert: {:?}", status.alerts);
    };
    assert!(alert.starts_with("error: metadata: is full:"), "{alert}");
    assert!(alert.contains("etcdctl alarm disarm"), "{alert}");
    assert!(status.protection.protected, "copies are no worse for it");
    let explained = explain(&inventory, &reports);
    let found: Vec<_> = explained
        .nodes
        .iter()
        .map(|node| (node.node.as_str(), node.findings[0].kind))
        .collect();
    let kind = FindingKind::MetadataFull;
    assert_eq!(found, [("n1", kind), ("n2", kind)]);
}

#[test]
fn copies_that_share_a_site_are_told_with_what_they_wait_for() {
    let mut inventory = two_of(Membership::InSync);
    stands(&mut inventory, 3, Wanted::Active);
    for (node, site) in [(1, "a"), (2, "a"), (3, "b")] {
        let intent = inventory
            .intents
            .get_mut(&NodeId(node))
            .expect("it is there");
        intent.record.site = Some(site.to_owned());
    }
    let well = Reports::of([serves(1, &[0, 1]), idle(2), idle(3)]);
    let alerts = said(&status(&inventory, &well));
    assert_eq!(
        alerts,
        ["warning: volume demo: 2 of 2 slices have copies in one site, and none in another"]
    );
    assert_eq!(status(&inventory, &well).health, Health::Healthy);
    let turn = only(&inventory, &well);
    assert_eq!(turn.kind, FindingKind::SharedSite);
    assert_eq!((turn.slices, turn.indexes.as_str()), (2, "0-1"));
    assert_eq!(waits(&turn).len(), 1);
    assert!(waits(&turn)[0].0.starts_with("its turn:"), "{turn:?}");
    assert!(turn.remedies.is_empty());

    let mut full = idle(3);
    full.room.used_bytes = full.room.bytes / 20 * 19;
    let no_room = only(
        &inventory,
        &Reports::of([serves(1, &[0, 1]), idle(2), full]),
    );
    assert!(waits(&no_room)[0].0.starts_with("room in another site"));
    let add = ["holdfast device add NODE PATH", "holdfast node add NAME"];
    assert_eq!(commands(&no_room), add);

    for index in [0, 1] {
        let wish = WishRecord {
            schema: 1,
            slice: slice_record(index, &[]).slice,
            nodes: vec![NodeId(1), NodeId(3)],
            kept: vec![NodeId(2)],
            preferred: NodeId(1),
        };
        inventory.wishes.insert(wish.slice, versioned(wish));
    }
    let moves = only(&inventory, &well);
    assert_eq!(
        waits(&moves),
        [("the copy in another site to have everything", None)]
    );

    // Where it lacks a copy that comes first.
    let mut degraded = inventory.clone();
    for slice in degraded.slices.values_mut() {
        slice.replicas[1].membership = AWAY;
    }
    let found = explain(&degraded, &well).volumes.remove(0).findings;
    assert!(
        found.iter().all(|it| it.kind != FindingKind::SharedSite),
        "{found:?}"
    );
}

/// As sites are, and also where there is nowhere to go, or where copies are lacking beside.
#[test]
fn copies_that_share_a_failure_domain_are_told_with_what_becomes_of_them() {
    let mut inventory = two_of(Membership::InSync);
    stands(&mut inventory, 3, Wanted::Active);
    domains(&mut inventory, &[(1, "rack-7"), (2, "rack-7")]);
    let well = Reports::of([serves(1, &[0, 1]), idle(2), idle(3)]);
    let told = status(&inventory, &well);
    let shares = "warning: volume demo: 2 of 2 slices have copies in one failure domain, rack-7";
    assert_eq!(said(&told), [shares]);
    assert_eq!(told.health, Health::Healthy);
    let turn = only(&inventory, &well);
    assert_eq!(turn.kind, FindingKind::SharedDomain);
    assert_eq!((turn.slices, turn.indexes.as_str()), (2, "0-1"));
    assert_eq!(
        turn.what,
        "copies are in one failure domain, rack-7: what happens to that happens to all of them"
    );
    assert!(waits(&turn)[0].0.starts_with("its turn:"), "{turn:?}");
    assert!(turn.remedies.is_empty());

    let mut full = idle(3);
    full.room.used_bytes = full.room.bytes / 20 * 19;
    let full = Reports::of([serves(1, &[0, 1]), idle(2), full]);
    let no_room = only(&inventory, &full);
    assert!(
        waits(&no_room)[0]
            .0
            .starts_with("room in another failure domain")
    );
    let add = ["holdfast device add NODE PATH", "holdfast node add NAME"];
    assert_eq!(commands(&no_room), add);

    let mut all = inventory.clone();
    domains(&mut all, &[(3, "rack-7")]);
    let nowhere = only(&all, &well);
    assert_eq!(
        waits(&nowhere),
        [("a node of another failure domain", None)]
    );
    assert_eq!(commands(&nowhere), ["holdfast node add NAME"]);
    assert_eq!(nowhere.remedies.len(), 2, "or the configuration is wrong");

    let three = [(1, Membership::InSync), (2, Membership::InSync), (3, AWAY)];
    let mut lacks = inventory.clone();
    for slice in [slice_record(0, &three), slice_record(1, &three)] {
        lacks.slices.insert(slice.slice, slice);
    }
    for volume in lacks.volumes.values_mut() {
        volume.record.policy = Policy::Mirror3;
    }
    let found = explain(&lacks, &well).volumes.remove(0).findings;
    assert!(
        found.len() == 2 && found.iter().any(|it| it.kind == FindingKind::SharedDomain),
        "{found:?}"
    );

    for index in [0, 1] {
        let wish = WishRecord {
            schema: 1,
            slice: slice_record(index, &[]).slice,
            nodes: vec![NodeId(1), NodeId(3)],
            kept: vec![NodeId(2)],
            preferred: NodeId(1),
        };
        inventory.wishes.insert(wish.slice, versioned(wish));
    }
    let moves = only(&inventory, &well);
    assert_eq!(
        waits(&moves),
        [(
            "the copy in another failure domain to have everything",
            None
        )]
    );
    domains(&mut inventory, &[(3, "rack-8")]);
    let listed = nodes(&inventory, &well).nodes;
    let named: Vec<_> = listed
        .iter()
        .map(|node| node.failure_domain.as_deref())
        .collect();
    assert_eq!(named, [Some("rack-7"), Some("rack-7"), Some("rack-8")]);
}
