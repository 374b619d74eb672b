use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::vec;

use holdfast_model::metadata::{Compare, Revision};
use holdfast_model::record::{EpochGap, Membership, NodeStanding, ReplicaRecord, SliceRecovery};
use holdfast_model::report::{HeldSlice, HeldStanding, Note, NoteDocument, NotedAt};
use holdfast_model::{Incarnation, Policy, SLICE_SIZE, Sequence};

use super::*;

const CLUSTER: ClusterId = ClusterId(5);
const GIB4: u64 = SLICE_SIZE;

fn n(number: u16) -> NodeId {
    NodeId(number)
}

fn slice(volume: u64, index: u32) -> SliceId {
    let volume = VolumeId(volume);
    SliceId { volume, index }
}

fn at(revision: u64) -> NotedAt {
    NotedAt {
        recoveries: 0,
        revision: Revision(revision),
    }
}

fn volume(number: u64, name: &str, bytes: u64, policy: Policy) -> VolumeRecord {
    VolumeRecord {
        schema: 1,
        volume: VolumeId(number),
        name: name.to_string(),
        bytes,
        policy,
        target: alloc::format!("iqn:{name}"),
        lun: 0,
    }
}

fn node_record(number: u16) -> NodeRecord {
    NodeRecord {
        schema: 1,
        node: n(number),
        name: alloc::format!("node{number}"),
        store: StoreId(u128::from(number)),
        uses: 3,
        use_id: 9,
        incarnation: Incarnation(10 + u64::from(number)),
        portal: "p".to_string(),
        peer: "q".to_string(),
        api: "r".to_string(),
    }
}

/// A report of a node that knows a volume, three nodes, and everything up to revision 50.
fn report(number: u16, volumes: &[VolumeRecord]) -> NodeReport {
    let cluster = ClusterRecord {
        schema: 1,
        cluster: CLUSTER,
        next_volume: VolumeId(volumes.len() as u64 + 1),
        recoveries: 0,
        incarnation_floor: Incarnation::ZERO,
    };
    let cluster = NoteDocument::Cluster(cluster, Incarnation(10 + u64::from(number)));
    let mut notes = vec![Note::new(at(50), cluster)];
    let nodes = (1..=3).map(|number| NoteDocument::Node(node_record(number)));
    notes.extend(nodes.map(|document| Note::new(at(20), document)));
    let volumes = volumes.iter().cloned().map(NoteDocument::Volume);
    notes.extend(volumes.map(|document| Note::new(at(30), document)));
    NodeReport {
        node: n(number),
        cluster: CLUSTER,
        store: StoreId(u128::from(number)),
        uses: 3,
        notes,
        notes_unreadable: 0,
        has_hole: false,
        slices: vec![],
        incarnation_max: Incarnation(4),
    }
}

/// A record in which the first node leads; others join, or are away.
fn record(
    slice: SliceId,
    epoch: u64,
    in_sync: &[u16],
    joining: &[u16],
    absent: &[u16],
) -> SliceRecord {
    let stable = Sequence(7);
    let replica = |node: &u16, membership| ReplicaRecord {
        node: n(*node),
        store: StoreId(u128::from(*node)),
        membership,
    };
    let mut replicas: Vec<ReplicaRecord> = Vec::new();
    replicas.extend(in_sync.iter().map(|it| replica(it, Membership::InSync)));
    let joining = joining.iter();
    replicas.extend(joining.map(|it| replica(it, Membership::Joining { stable })));
    let absent = absent.iter();
    replicas.extend(absent.map(|it| replica(it, Membership::Absent { stable })));
    SliceRecord {
        schema: 1,
        slice,
        epoch: Epoch(epoch),
        primary: n(in_sync[0]),
        preferred: n(in_sync[0]),
        replicas,
        copies_min: 1,
        bytes_moved: 0,
        proposer: (n(in_sync[0]), Incarnation(11)),
        nonce: 5,
        recovery: None,
    }
}

fn hold(report: &mut NodeReport, record: SliceRecord) -> &mut HeldSlice {
    report.slices.push(HeldSlice {
        slice: record.slice,
        epoch: record.epoch,
        withdrawn: Epoch(0),
        standing: HeldStanding::Whole,
        intact: true,
        committed: Sequence(9),
        record: Some(record),
        admitting: None,
    });
    report.slices.last_mut().unwrap()
}

fn decisions(without: &[&str], lost: &[&str]) -> Decisions {
    let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
    Decisions {
        without: texts(without),
        lost: texts(lost),
    }
}

fn planned(reports: &[NodeReport], lost: &[&str]) -> Recovery {
    recover(reports, &decisions(&[], lost)).expect("it can be planned")
}

fn in_sync(recovery: &Recovery, place: usize) -> Vec<u16> {
    let record = recovery.slices[place].record.as_ref().unwrap();
    record.in_sync().map(|node| node.0).collect()
}

/// Three nodes, a mirrored volume of one slice on the first two, in sync in epoch 5, and the slice's record.
fn mirrored() -> (Vec<NodeReport>, SliceRecord) {
    let data = volume(1, "data", GIB4, Policy::Mirror2);
    let mut reports: Vec<_> = (1..=3)
        .map(|number| report(number, core::slice::from_ref(&data)))
        .collect();
    let record = record(slice(1, 0), 5, &[1, 2], &[], &[]);
    hold(&mut reports[0], record.clone());
    hold(&mut reports[1], record.clone());
    (reports, record)
}

#[test]
fn what_everybody_has_told_of_is_made_again_as_it_was() {
    let (mut reports, old) = mirrored();
    // It had tried to lead, and never did.
    reports[1].slices[0].withdrawn = Epoch(5);
    let recovery = planned(&reports, &[]);
    assert_eq!(recovery.doubts, [Doubt::NoSettings]);
    assert_eq!(recovery.slices[0].fate, Fate::Certain);
    let made = recovery.slices[0].record.as_ref().unwrap();
    let gap = EpochGap {
        known: Epoch(5),
        made: Epoch(2 * STEP),
        discards: false,
    };
    let gaps = vec![gap];
    let unconfirmed = false;
    assert_eq!(
        made,
        &SliceRecord {
            epoch: Epoch(2 * STEP),
            proposer: (n(0), Incarnation::ZERO),
            nonce: 0,
            recovery: Some(SliceRecovery { unconfirmed, gaps }),
            ..old
        }
    );
    assert_eq!(recovery.nodes.len(), 3);
    assert_eq!(recovery.volumes[&VolumeId(1)].name, "data");
    let cluster = recovery.cluster;
    assert_eq!((cluster.recoveries, cluster.next_volume), (1, VolumeId(2)));
    // Above the revision, from which starts are counted where there is no record.
    assert_eq!(cluster.incarnation_floor, Incarnation(2 * STEP));
}

#[test]
fn the_newest_record_counts() {
    let (mut reports, _) = mirrored();
    reports[0].slices.clear();
    hold(&mut reports[0], record(slice(1, 0), 8, &[1], &[], &[2]));
    let recovery = planned(&reports, &[]);
    assert_eq!(recovery.slices[0].fate, Fate::Certain);
    assert_eq!(in_sync(&recovery, 0), [1]);
    // Who was alone is not heard: who was left out does not lead, although it is there.
    let recovery = planned(&reports[1..], &[]);
    assert_eq!(recovery.slices[0].fate, Fate::Waits(vec![n(1)]));
    let made = recovery.slices[0].record.as_ref().unwrap();
    assert!(made.is_unconfirmed());
    assert_eq!(in_sync(&recovery, 0), [1, 2]);
    assert_eq!(
        recovery.doubts[..2],
        [Doubt::NodeMissing("node1".to_string()), Doubt::NoSettings,]
    );
}

#[test]
fn who_was_away_need_not_be_heard() {
    let (mut reports, _) = mirrored();
    for report in &mut reports {
        report.slices.clear();
    }
    hold(&mut reports[0], record(slice(1, 0), 8, &[1], &[2], &[3]));
    let recovery = planned(&reports[..1], &[]);
    assert_eq!(recovery.slices[0].fate, Fate::Certain);
    let made = recovery.slices[0].record.as_ref().unwrap();
    let stable = Sequence(7);
    for node in [2, 3] {
        let replica = made.replica(n(node)).unwrap();
        assert_eq!(replica.membership, Membership::Absent { stable });
    }
}

/// The primary had asked for it to be counted as in sync, and never learnt what became of that: it may have
/// gone on alone.
#[test]
fn who_was_about_to_be_in_sync_has_to_be_heard() {
    let (mut reports, _) = mirrored();
    reports[0].slices.clear();
    let joins = record(slice(1, 0), 8, &[1], &[2], &[]);
    hold(&mut reports[0], joins.clone()).admitting = Some(n(2));
    let recovery = planned(&reports[..1], &[]);
    assert_eq!(recovery.slices[0].fate, Fate::Waits(vec![n(2)]));
    assert_eq!(in_sync(&recovery, 0), [1, 2]);
    // It says that it knows of nothing newer: it is what the record says.
    reports[1].slices.clear();
    hold(&mut reports[1], joins).standing = HeldStanding::Joining;
    let recovery = planned(&reports, &[]);
    assert_eq!(recovery.slices[0].fate, Fate::Certain);
    assert_eq!(in_sync(&recovery, 0), [1]);
    // What a primary was about to do in an earlier epoch is past.
    reports.truncate(1);
    reports[0].slices[0].record = Some(record(slice(1, 0), 9, &[1], &[2], &[]));
    assert_eq!(planned(&reports, &[]).slices[0].fate, Fate::Certain);
}

#[test]
fn what_a_lost_node_may_have_is_given_up_by_an_operator_only() {
    let (reports, _) = mirrored();
    let heard = [reports[1].clone(), reports[2].clone()];
    let waits = planned(&heard, &[]);
    assert_eq!(waits.slices[0].fate, Fate::Waits(vec![n(1)]));
    for name in ["node1", "n1"] {
        let recovery = planned(&heard, &[name]);
        assert!(recovery.missing.is_empty());
        assert_eq!(recovery.slices[0].fate, Fate::WithoutLost(vec![n(1)]));
        let made = recovery.slices[0].record.as_ref().unwrap();
        assert_eq!((made.primary, made.is_unconfirmed()), (n(2), false));
        assert!(made.recovery.as_ref().unwrap().gaps[0].discards);
        assert_eq!(in_sync(&recovery, 0), [2]);
    }
    // Not one that is heard: what it alone has is here.
    let heard_too = recover(&reports, &decisions(&[], &["n1"]));
    assert_eq!(heard_too, Err(RecoverError::NotLost("node1".to_string())));
    let unknown = recover(&heard, &decisions(&[], &["node7"]));
    assert_eq!(unknown, Err(RecoverError::NoNode("node7".to_string())));
}

#[test]
fn older_data_is_never_led() {
    let (mut reports, _) = mirrored();
    for report in &mut reports {
        report.slices.clear();
    }
    // Node 2 had heard that it was left out, and holds what it had before.
    hold(&mut reports[1], record(slice(1, 0), 8, &[1], &[], &[2])).epoch = Epoch(5);
    let recovery = planned(&reports[1..], &["n1"]);
    assert_eq!(recovery.slices[0].fate, Fate::Waits(vec![n(1)]));
    assert_eq!(in_sync(&recovery, 0), [1]);
    let nodes = vec![n(1)];
    let slice = slice(1, 0);
    assert!(recovery.doubts.contains(&Doubt::OnlyLost { slice, nodes }));
}

#[test]
fn damaged_old_and_foreign_devices_are_not_relied_on() {
    let (mut reports, _) = mirrored();
    // It says itself that it has lost something, and knows of nothing newer.
    reports[1].slices[0].standing = HeldStanding::Damaged;
    let recovery = planned(&reports, &[]);
    assert_eq!(recovery.slices[0].fate, Fate::Certain);
    assert_eq!(in_sync(&recovery, 0), [1]);
    // Both have: there is nobody better.
    reports[0].slices[0].standing = HeldStanding::Damaged;
    let recovery = planned(&reports, &[]);
    assert!(recovery.doubts.contains(&Doubt::AllDamaged(slice(1, 0))));
    // What it knew may be in what is missing.
    let (mut reports, _) = mirrored();
    reports[1].slices[0].intact = false;
    reports[1].has_hole = true;
    let recovery = planned(&reports, &[]);
    assert_eq!(recovery.slices[0].fate, Fate::Waits(vec![n(2)]));
    assert!(recovery.doubts.contains(&Doubt::HasHole(n(2))));
    // An older copy of its devices.
    let (mut reports, _) = mirrored();
    reports[1].uses = 2;
    let recovery = planned(&reports, &[]);
    assert_eq!(recovery.slices[0].fate, Fate::Waits(vec![n(2)]));
    assert!(recovery.doubts.contains(&Doubt::OldDevices(n(2))));
    // Other devices than those that the record names.
    let (mut reports, _) = mirrored();
    reports[1].store = StoreId(77);
    let recovery = planned(&reports, &[]);
    assert_eq!(recovery.slices[0].fate, Fate::Waits(vec![n(2)]));
}

#[test]
fn who_has_nothing_of_a_slice_is_no_copy_of_it() {
    let (mut reports, _) = mirrored();
    reports[1].slices.clear();
    let recovery = planned(&reports, &[]);
    assert_eq!(recovery.slices[0].fate, Fate::Certain);
    assert_eq!(in_sync(&recovery, 0), [1]);
}

/// The slice has moved: those who were in sync once have dropped it, and one that was off then has not.
#[test]
fn who_has_dropped_a_slice_may_have_known_more() {
    let (mut reports, _) = mirrored();
    reports.iter_mut().for_each(|report| report.slices.clear());
    hold(&mut reports[1], record(slice(1, 0), 5, &[1, 2], &[], &[]));
    let recovery = planned(&reports[..2], &[]);
    assert_eq!(recovery.slices[0].fate, Fate::Waits(vec![n(1)]));
    // Not even if who has it now is given up: what is left is older.
    let recovery = planned(&reports[..2], &["n3"]);
    assert_eq!(recovery.slices[0].fate, Fate::Waits(vec![n(1)]));
    // Nobody has anything newer.
    assert_eq!(planned(&reports, &[]).slices[0].fate, Fate::Certain);
}

#[test]
fn a_slice_of_which_nobody_kept_the_newest_record_is_not_made_again() {
    let (mut reports, _) = mirrored();
    reports[0].slices[0].epoch = Epoch(6);
    let recovery = planned(&reports, &[]);
    assert_eq!(recovery.slices[0].fate, Fate::NoRecord);
    assert_eq!(recovery.slices[0].record, None);
    for report in &mut reports[..2] {
        report.slices[0].record = None;
    }
    assert_eq!(planned(&reports, &[]).slices[0].fate, Fate::NoRecord);
}

#[test]
fn what_was_never_written_to_is_new_if_everybody_says_so() {
    let data = volume(1, "data", 3 * GIB4 - 4096, Policy::Mirror2);
    let mut reports: Vec<_> = (1..=3)
        .map(|number| report(number, core::slice::from_ref(&data)))
        .collect();
    let written = record(slice(1, 1), 5, &[1, 2], &[], &[]);
    hold(&mut reports[0], written.clone());
    hold(&mut reports[1], written);
    let recovery = planned(&reports, &[]);
    let fates = recovery.slices.iter().map(|it| it.fate.clone());
    let fates: Vec<Fate> = fates.collect();
    assert_eq!(fates, [Fate::New, Fate::Certain, Fate::New]);
    let new = recovery.slices[0].record.as_ref().unwrap();
    assert_eq!((new.epoch, new.replicas.len()), (Epoch(1), 2));
    assert!(recovery.is_complete(&data));
    // One is not heard, and may have it.
    let recovery = planned(&reports[..2], &[]);
    assert_eq!(recovery.slices[0].fate, Fate::Unknown);
    assert!(!recovery.is_complete(&data));
    // It is given up: whether there was anything is not known.
    let recovery = planned(&reports[..2], &["n3"]);
    assert_eq!(recovery.slices[0].fate, Fate::New);
    assert!(recovery.doubts.contains(&Doubt::Emptied(slice(1, 0))));
}

#[test]
fn a_volume_that_was_deleted_may_come_back_and_can_be_left_out() {
    let data = volume(1, "data", GIB4, Policy::Mirror2);
    let gone = volume(2, "gone", GIB4, Policy::Mirror2);
    let both = [data.clone(), gone];
    let mut reports = vec![report(1, &both[..1]), report(2, &both), report(3, &both)];
    hold(&mut reports[1], record(slice(2, 0), 5, &[2, 3], &[], &[]));
    hold(&mut reports[2], record(slice(2, 0), 5, &[2, 3], &[], &[]));
    let doubt = Doubt::MayBeDeleted {
        name: "gone".to_string(),
        by: n(1),
    };
    let recovery = planned(&reports, &[]);
    assert!(recovery.doubts.contains(&doubt));
    assert_eq!(recovery.volumes.len(), 2);
    for name in ["gone", "v2"] {
        let recovery = recover(&reports, &decisions(&[name], &[])).unwrap();
        assert!(!recovery.doubts.contains(&doubt));
        assert_eq!(recovery.volumes.len(), 1);
        assert_eq!(recovery.slices.len(), 1);
        // Its number is not given out again: nodes hold slices of it.
        assert_eq!(recovery.cluster.next_volume, VolumeId(3));
    }
    let unknown = recover(&reports, &decisions(&["other"], &[]));
    assert_eq!(unknown, Err(RecoverError::NoVolume("other".to_string())));
    // Who is behind does not know of it yet.
    reports[0].notes[0].at = at(29);
    assert!(!planned(&reports, &[]).doubts.contains(&doubt));
    // Two of one name: one has to be left out.
    let again = volume(2, "data", GIB4, Policy::Mirror2);
    let reports = [report(1, &[data, again])];
    let (name, first, second) = ("data".to_string(), VolumeId(1), VolumeId(2));
    assert_eq!(
        recover(&reports, &Decisions::default()),
        Err(RecoverError::SameName {
            name,
            first,
            second
        })
    );
    assert!(recover(&reports, &decisions(&["v1"], &[])).is_ok());
}

#[test]
fn the_latest_note_counts_and_what_is_later_gone_is_gone() {
    let mut small = volume(1, "data", GIB4, Policy::Mirror2);
    let mut reports = vec![report(1, core::slice::from_ref(&small))];
    small.bytes = 2 * GIB4;
    let mut other = report(2, core::slice::from_ref(&small));
    let grown = other.notes.last_mut().unwrap();
    grown.at = at(40);
    let intent = IntentRecord {
        schema: 1,
        node: n(3),
        standing: NodeStanding::Removed,
        site: None,
    };
    other
        .notes
        .push(Note::new(at(41), NoteDocument::Intent(intent)));
    // It knew of settings that are gone since.
    let settings = NoteDocument::Settings(SettingsRecord::default());
    reports[0].notes.push(Note::new(at(10), settings));
    reports.push(other);
    let recovery = planned(&reports, &[]);
    assert_eq!(recovery.volumes[&VolumeId(1)].bytes, 2 * GIB4);
    assert_eq!(recovery.settings, None);
    // The other does not know of the intent, as of a later time: it is gone.
    assert!(recovery.missing.contains(&n(3)));
    reports[0].notes[0].at = at(40);
    let recovery = planned(&reports, &[]);
    assert!(recovery.missing.is_empty(), "who was removed is not missed");
    // After the metadata was made again revisions begin anew.
    let again = NotedAt {
        recoveries: 1,
        revision: Revision(2),
    };
    small.bytes = 3 * GIB4;
    let newest = Note::new(again, NoteDocument::Volume(small));
    reports[1].notes.push(newest);
    let recovery = planned(&reports, &[]);
    assert_eq!(recovery.volumes[&VolumeId(1)].bytes, 3 * GIB4);
    assert_eq!(recovery.cluster.recoveries, 2);
}

#[test]
fn what_was_left_out_once_is_told_apart_for_ever() {
    let (mut reports, mut again) = mirrored();
    for report in &mut reports {
        report.slices.clear();
    }
    let first = EpochGap {
        known: Epoch(5),
        made: Epoch(2 * STEP),
        discards: false,
    };
    again.epoch = Epoch(2 * STEP + 3);
    again.recovery = Some(SliceRecovery {
        unconfirmed: false,
        gaps: vec![first],
    });
    hold(&mut reports[0], again.clone());
    hold(&mut reports[1], again);
    let recovery = planned(&reports, &[]);
    let made = recovery.slices[0].record.as_ref().unwrap();
    let gaps = &made.recovery.as_ref().unwrap().gaps;
    assert_eq!(gaps[0], first);
    assert_eq!(
        (gaps[1].known, gaps[1].made),
        (Epoch(2 * STEP + 3), Epoch(4 * STEP))
    );
}

/// Whom a record waited for knew more than it. Who had begun to lead it, and never served, has the newest
/// record, and not the newest data.
#[test]
fn a_record_that_was_not_confirmed_gives_way_to_who_knew_more() {
    let (mut reports, old) = mirrored();
    reports.iter_mut().for_each(|report| report.slices.clear());
    hold(&mut reports[0], record(slice(1, 0), 6, &[1], &[], &[2]));
    hold(&mut reports[1], old);
    let waits = planned(&reports[1..], &[]);
    let mut waiting = waits.slices[0].record.clone().unwrap();
    assert!(waiting.is_unconfirmed());
    waiting.epoch = Epoch(waiting.epoch.0 + 1);
    waiting.primary = n(2);
    reports[1].slices.clear();
    hold(&mut reports[1], waiting);
    let recovery = planned(&reports, &[]);
    assert_eq!(recovery.slices[0].fate, Fate::Certain);
    assert_eq!(in_sync(&recovery, 0), [1]);
    let made = recovery.slices[0].record.as_ref().unwrap();
    assert_eq!(made.epoch, Epoch(4 * STEP));
    let recovered = made.recovery.as_ref().unwrap();
    // Neither has a history that is not known of; who has one between them does.
    for (begun, is_known) in [
        (6, true),
        (7, false),
        (2 * STEP + 1, true),
        (3 * STEP, false),
    ] {
        assert_eq!(
            recovered.gap_of(Epoch(begun)).is_none(),
            is_known,
            "{begun}"
        );
    }
    // Still not heard: it is waited for as before.
    let recovery = planned(&reports[1..], &[]);
    assert_eq!(recovery.slices[0].fate, Fate::Waits(vec![n(1)]));
    let made = recovery.slices[0].record.as_ref().unwrap();
    assert!(made.recovery.as_ref().unwrap().gap_of(Epoch(6)).is_some());
}

#[test]
fn strays_are_told_of() {
    let (mut reports, _) = mirrored();
    hold(&mut reports[0], record(slice(1, 4), 2, &[1], &[], &[]));
    hold(&mut reports[0], record(slice(9, 0), 2, &[1], &[], &[]));
    hold(&mut reports[0], record(slice(9, 1), 2, &[1], &[], &[]));
    let recovery = planned(&reports, &[]);
    let strays = [Doubt::BeyondEnd(slice(1, 4)), Doubt::NoVolume(VolumeId(9))];
    assert_eq!(recovery.doubts[1..], strays);
    assert_eq!(recovery.cluster.next_volume, VolumeId(10));
}

#[test]
fn reports_that_do_not_fit_together_are_refused() {
    let refused = |reports: &[NodeReport]| recover(reports, &Decisions::default()).unwrap_err();
    assert_eq!(refused(&[]), RecoverError::NoReport);
    let (reports, _) = mirrored();
    let mut other = reports[1].clone();
    other.cluster = ClusterId(6);
    assert_eq!(
        refused(&[reports[0].clone(), other]),
        RecoverError::TwoClusters(CLUSTER, ClusterId(6))
    );
    let twice = [reports[0].clone(), reports[0].clone()];
    assert_eq!(refused(&twice), RecoverError::Twice(n(1)));
    let changes: [fn(&mut NodeReport); 6] = [
        |report| report.slices[0].epoch = Epoch(u64::MAX),
        |report| report.slices[0].slice.volume = VolumeId(u64::MAX),
        |report| report.slices.push(report.slices[0].clone()),
        |report| report.slices[0].record.as_mut().unwrap().primary = n(9),
        |report| report.notes[0].at = at(u64::MAX),
        |report| {
            let huge = volume(3, "huge", u64::MAX, Policy::None);
            report
                .notes
                .push(Note::new(at(1), NoteDocument::Volume(huge)));
        },
    ];
    for change in changes {
        let mut report = reports[0].clone();
        change(&mut report);
        assert!(matches!(refused(&[report]), RecoverError::Absurd { .. }));
    }
}

/// What is written into a store, one transaction after the other.
fn written(transactions: &[Transaction]) -> BTreeMap<String, usize> {
    let mut keys = BTreeMap::new();
    for (step, transaction) in transactions.iter().enumerate() {
        for operation in &transaction.success {
            if let Operation::Put { key, .. } = operation {
                assert_eq!(keys.insert(key.clone(), step), None, "{key} is set twice");
            }
        }
    }
    keys
}

#[test]
fn the_cluster_comes_last_and_nothing_is_replaced_unasked() {
    let (reports, _) = mirrored();
    let recovery = planned(&reports, &[]);
    let transactions = recovery.transactions(false);
    let keys = written(&transactions);
    let names: Vec<&str> = keys.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "/holdfast/access/0000000000000001",
            "/holdfast/cluster",
            "/holdfast/names/data",
            "/holdfast/nodes/00001",
            "/holdfast/nodes/00002",
            "/holdfast/nodes/00003",
            "/holdfast/slices/0000000000000001/00000000",
            "/holdfast/volumes/0000000000000001",
        ]
    );
    let access = recovery.access_of(VolumeId(1));
    let fenced_off = AccessRecord {
        fence: Fence(1 << 32),
        ..AccessRecord::open(VolumeId(1))
    };
    assert_eq!(access, fenced_off, "what was let in before is not written");
    assert_eq!(keys[CLUSTER_KEY], transactions.len() - 1);
    let guard = Compare::ModRevision {
        key: CLUSTER_KEY.to_string(),
        equals: Revision(0),
    };
    assert!(transactions.iter().all(|it| it.compare == [guard.clone()]));
    let replacing = recovery.transactions(true);
    assert_eq!(replacing[1..], transactions);
    let all = Selector::Prefix(METADATA_PREFIX.to_string());
    assert_eq!(replacing[0].success, [Operation::Delete(all)]);
    assert!(replacing[0].compare.is_empty());
}
