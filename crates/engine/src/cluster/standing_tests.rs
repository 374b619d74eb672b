//! Two machines that want to be one node, over one store of metadata.

use alloc::string::ToString;
use alloc::vec::Vec;

use holdfast_model::metadata::{MetadataAnswer, MetadataError, Operation, Selector};
use holdfast_model::record::{
    ClusterRecord, IntentRecord, MachineRecord, NodeRecord, NodeStanding, Record, StopRecord,
};

use super::super::processes::{
    FOUR, MINUTE, Metadata, ONE, Process, STEP, changes, cluster_record, holding, made, made_again,
    registered, run,
};
use super::*;

/// The same configuration on a second machine, for as long as one likes.
#[test]
fn whoever_runs_stays_the_node_and_a_copy_is_rejected() {
    let (mut metadata, mut now, mut first) = registered();
    assert!(first.registered);
    let mut copy = Process::start(6, 1, "one", FOUR);
    run(
        &mut now,
        MINUTE,
        &mut metadata,
        &mut [&mut first, &mut copy],
    );
    assert!(!copy.registered && !first.is_displaced());
    let rejection = copy.cluster.rejection().cloned().unwrap();
    assert!(matches!(
        &rejection,
        Rejection::OtherMachine { peer, .. } if peer == ONE.1
    ));
    // It tells of it once, and changes nothing, whether the other runs or not.
    assert_eq!(copy.told, [Notice::Rejected(rejection)]);
    assert!(first.told.is_empty());
    let before = metadata.revision;
    run(&mut now, MINUTE, &mut metadata, &mut [&mut copy]);
    assert!(!copy.registered);
    assert_eq!(metadata.revision, before);
}

/// Blank devices in place of those that are lost.
#[test]
fn a_node_with_blank_devices_is_itself_where_it_was() {
    let (mut metadata, mut now, _) = registered();
    let mut blank = Process::start(6, 1, "one", ONE);
    run(&mut now, STEP * 5, &mut metadata, &mut [&mut blank]);
    assert!(blank.registered && blank.told.is_empty());
}

/// A new machine in the place of one that was taken for dead: that one ends, and is the one that is rejected from
/// then on.
#[test]
fn whoever_was_replaced_does_not_come_back() {
    let (mut metadata, mut now, mut first) = registered();
    let mut blank = Process::take_over(6, "one", FOUR);
    run(&mut now, STEP * 5, &mut metadata, &mut [&mut blank]);
    assert!(blank.registered);
    let both = &mut [&mut first, &mut blank];
    run(&mut now, STEP * 5, &mut metadata, both);
    assert!(first.is_displaced() && !blank.is_displaced());
    let mut first = Process::start(5, 2, "one", ONE);
    let both = &mut [&mut first, &mut blank];
    run(&mut now, MINUTE, &mut metadata, both);
    assert!(!first.registered && !blank.is_displaced());
    let rejection = first.cluster.rejection();
    assert!(matches!(rejection, Some(Rejection::OtherMachine { .. })));
}

/// Others would take the node for stopped that runs.
#[test]
fn whoever_was_replaced_does_not_say_that_the_node_stops() {
    let (mut metadata, mut now, mut first) = registered();
    let mut blank = Process::take_over(6, "one", FOUR);
    run(&mut now, STEP * 5, &mut metadata, &mut [&mut blank]);
    assert!(
        blank.registered && !first.is_displaced(),
        "it has yet to hear of it"
    );
    let mut says = |process: &mut Process| {
        process.cluster.say_stopped(now, NodeId(1));
        process.step(now, &mut metadata);
        assert!(!process.cluster.is_saying_stopped());
        metadata.keys.contains_key(&StopRecord::key(NodeId(1)))
    };
    assert!(!says(&mut first));
    assert!(says(&mut blank));
}

#[test]
fn another_name_changes_nothing_in_the_metadata() {
    let (mut metadata, mut now, mut first) = registered();
    let before = metadata.revision;
    let mut newcomer = Process::start(6, 1, "four", FOUR);
    run(
        &mut now,
        MINUTE,
        &mut metadata,
        &mut [&mut first, &mut newcomer],
    );
    assert_eq!(metadata.revision, before);
    let rejection = newcomer.cluster.rejection().cloned().unwrap();
    assert!(matches!(rejection, Rejection::Number { .. }));
    assert_eq!(newcomer.told, [Notice::Rejected(rejection)]);
    assert!(first.told.is_empty());
}

/// Under another node's number they would have to be erased before they can be used under the right one.
#[test]
fn blank_devices_are_not_formatted_under_a_number_that_is_another_nodes() {
    let (mut metadata, mut now, mut first) = registered();
    let before = metadata.revision;
    for (name, machine, is_free) in [
        ("four", FOUR, false),
        ("one", FOUR, false),
        // The same file, for all that it says of addresses.
        ("one", (FOUR.0, ONE.1), false),
        ("one", ONE, true),
    ] {
        let mut blank = Process::blank(6, name, machine);
        let both = &mut [&mut first, &mut blank];
        run(&mut now, MINUTE, &mut metadata, both);
        assert_eq!(blank.may_format, is_free, "{name} {machine:?}");
        assert_eq!(blank.told.is_empty(), is_free);
        assert!(!blank.registered && metadata.revision == before);
    }
    // Of a cluster that is about to be made nothing is there yet.
    let mut blank = Process::blank(6, "four", FOUR);
    let mut nothing = Metadata::default();
    run(&mut now, STEP * 5, &mut nothing, &mut [&mut blank]);
    assert!(blank.may_format);
}

/// Two of them, with blank devices and one number.
#[test]
fn of_two_that_come_at_the_same_moment_one_formats_its_devices() {
    let (mut metadata, mut now) = (made(), Instant::ZERO);
    let mut first = Process::blank(5, "one", ONE);
    let mut second = Process::blank(6, "one", FOUR);
    let both = &mut [&mut first, &mut second];
    run(&mut now, MINUTE, &mut metadata, both);
    assert!(first.may_format && !second.may_format);
    let why = second.cluster.rejection();
    assert!(matches!(why, Some(Rejection::Taken { .. })), "{why:?}");
    // It starts again before it has registered, and again after that.
    let mut first = Process::blank(7, "one", ONE);
    run(&mut now, STEP * 5, &mut metadata, &mut [&mut first]);
    assert!(first.may_format);
    let mut first = Process::start(7, 1, "one", ONE);
    let both = &mut [&mut first, &mut second];
    run(&mut now, MINUTE, &mut metadata, both);
    assert!(first.registered && !second.may_format);
    let why = second.cluster.rejection();
    let is_other = matches!(why, Some(Rejection::OtherMachine { .. }));
    assert!(is_other, "{why:?}");
}

/// It has done nothing by what was there before.
#[test]
fn a_node_that_waits_goes_on_with_metadata_that_was_made_again() {
    let (mut metadata, mut now) = (made(), Instant::ZERO);
    let mut first = Process::start(5, 1, "four", ONE);
    run(&mut now, STEP * 5, &mut metadata, &mut [&mut first]);
    let mut blank = Process::blank(6, "one", FOUR);
    let mut formatted = Process::start(7, 1, "one", FOUR);
    let all = &mut [&mut blank, &mut formatted];
    run(&mut now, MINUTE, &mut metadata, all);
    assert!(!blank.may_format && !formatted.registered);
    for process in [&mut blank, &mut formatted] {
        run(&mut now, MINUTE, &mut made_again(1), &mut [process]);
    }
    assert!(blank.may_format && formatted.registered);
    // That does not hold for one that has been the node.
    formatted.watch = None;
    formatted.cluster.list(now);
    run(&mut now, MINUTE, &mut made_again(2), &mut [&mut formatted]);
    assert!(formatted.cluster.is_astray());
}

/// It has been told that there is a cluster: whoever makes one again is not this node.
#[test]
fn a_node_that_waits_takes_nothing_in_metadata_that_was_lost() {
    let (mut metadata, mut now, _) = registered();
    let mut blank = Process::blank(6, "one", FOUR);
    run(&mut now, MINUTE, &mut metadata, &mut [&mut blank]);
    let mut nothing = Metadata::default();
    run(&mut now, MINUTE, &mut nothing, &mut [&mut blank]);
    assert!(!blank.may_format && blank.cluster.is_astray());
    assert_eq!(nothing.revision, 0);
    run(&mut now, MINUTE, &mut made_again(1), &mut [&mut blank]);
    assert!(blank.may_format && !blank.cluster.is_astray());
}

/// While metadata answers that is not the right one, nothing is known of another node.
#[test]
fn what_was_said_of_another_node_does_not_outlast_the_metadata() {
    let (mut metadata, mut now, _) = registered();
    let mut blank = Process::blank(6, "one", FOUR);
    run(&mut now, MINUTE, &mut metadata, &mut [&mut blank]);
    assert!(blank.cluster.rejection().is_some());
    let record = ClusterRecord {
        cluster: ClusterId(6),
        ..cluster_record(0)
    };
    let mut other = holding(&record);
    run(&mut now, MINUTE, &mut other, &mut [&mut blank]);
    assert!(blank.cluster.is_astray() && blank.cluster.rejection().is_none());
}

/// As long as the metadata does not answer.
#[test]
fn a_rejection_stands_until_the_number_is_found_free() {
    let (mut metadata, mut now, _) = registered();
    let mut blank = Process::blank(6, "one", FOUR);
    run(&mut now, MINUTE, &mut metadata, &mut [&mut blank]);
    let rejection = blank.cluster.rejection().cloned();
    assert!(rejection.is_some());
    let told = blank.told.len();
    for _ in 0..600 {
        now += STEP;
        blank.cluster.handle_timeout(now);
        let requests: Vec<_> = blank.cluster.take_requests().collect();
        for (token, _) in requests {
            let failed = MetadataAnswer::Failed(MetadataError::Unavailable);
            blank.cluster.handle_answer(now, token, failed);
        }
        assert_eq!(blank.cluster.rejection(), rejection.as_ref());
    }
    run(&mut now, MINUTE, &mut metadata, &mut [&mut blank]);
    assert_eq!(blank.told.len(), told, "it is told once");
    let gone = Operation::Delete(Selector::Key(NodeRecord::key(NodeId(1))));
    let machine = Operation::Delete(Selector::Key(MachineRecord::key(NodeId(1))));
    metadata.transact(changes([gone, machine]));
    run(&mut now, MINUTE, &mut metadata, &mut [&mut blank]);
    assert!(blank.cluster.rejection().is_none() && blank.may_format);
}

#[test]
fn a_node_is_told_that_it_was_removed() {
    let (mut metadata, mut now) = (made(), Instant::ZERO);
    let mut first = Process::start(5, 1, "one", ONE);
    let intent = |node, standing| {
        let intent = IntentRecord {
            standing,
            ..IntentRecord::active(NodeId(node))
        };
        Operation::put(IntentRecord::key(NodeId(node)), intent.encode())
    };
    let of_two = intent(2, NodeStanding::Active);
    metadata.transact(changes([of_two]));
    run(&mut now, MINUTE, &mut metadata, &mut [&mut first]);
    first.cluster.consider_removed(NodeId(1), "one");
    assert_eq!(first.cluster.rejection(), None, "it waits");
    let record = first.cluster.nodes[&NodeId(1)].clone();
    let gone = Operation::Delete(Selector::Key(NodeRecord::key(NodeId(1))));
    metadata.transact(changes([intent(1, NodeStanding::Removed), gone]));
    run(&mut now, MINUTE, &mut metadata, &mut [&mut first]);
    for _ in 0..2 {
        first.cluster.consider_removed(NodeId(1), "one");
    }
    let rejection = first.cluster.rejection().cloned().unwrap();
    assert!(rejection.to_string().contains("`holdfast node add one`"));
    // Metadata of before is brought back.
    first.cluster.nodes.insert(NodeId(1), record);
    first.cluster.consider_removed(NodeId(1), "one");
    assert_eq!(first.cluster.rejection(), None);
    let told: Vec<Notice> = first
        .cluster
        .take_changes()
        .into_iter()
        .filter_map(told)
        .collect();
    assert_eq!(told, [Notice::Rejected(rejection)]);
}

fn told(change: Change) -> Option<Notice> {
    match change {
        Change::Tell(notice) => Some(notice),
        _ => None,
    }
}
