//! Records that were made again when the metadata was lost.

use holdfast_model::record::{EpochGap, Membership, SliceRecovery};
use holdfast_model::report::{HeldSlice, HeldStanding};
use holdfast_model::{Epoch, Sequence};
use holdfast_replica::held;
use holdfast_stdx::Duration;
use holdfast_wire::OutcomeCode;

use crate::lab::{Lab, SLICE, node};

const SECOND: Duration = Duration::from_secs(1);
const MADE: Epoch = Epoch(1000);

/// What the devices of a node that is off tell.
fn told(lab: &mut Lab, number: u16) -> HeldSlice {
    let node = lab.nodes.get_mut(&node(number)).expect("a node of the lab");
    let found = node.world.recover();
    held(SLICE, found.state.as_ref(), found.intact, found.committed)
}

/// The record is made again, from what was known up to an epoch.
fn make_again(lab: &mut Lab, known: Epoch, unconfirmed: bool, discards: bool) {
    let gap = EpochGap {
        known,
        made: MADE,
        discards,
    };
    lab.record.recovery = Some(SliceRecovery {
        unconfirmed,
        gaps: vec![gap],
    });
    lab.record.epoch = MADE;
}

/// Two replicas; the second one was alone at last. Everything is off, and the record is that of when both
/// were in sync, with the epoch of it.
fn lost_with_the_second_ahead() -> (Lab, Epoch) {
    let mut lab = Lab::new(2, 1);
    let both = lab.record.clone();
    lab.write(1, 0, 1, 1);
    lab.kill(1);
    lab.pass(2 * SECOND);
    assert!(lab.leads(2));
    lab.write(2, 64, 1, 2);
    // It says that the one before is committed.
    lab.write(2, 65, 1, 2);
    lab.pass(SECOND);
    lab.kill(2);
    let known = both.epoch;
    lab.record = both;
    (lab, known)
}

#[test]
fn a_replica_keeps_the_record_of_its_epoch() {
    let mut lab = Lab::new(3, 2);
    lab.write(1, 0, 1, 1);
    lab.kill(3);
    lab.pass(SECOND);
    lab.kill(1);
    lab.kill(2);
    for number in [1, 2] {
        let told = told(&mut lab, number);
        assert_eq!(told.record.as_ref(), Some(&lab.record), "node {number}");
        assert_eq!(told.epoch, lab.record.epoch);
        assert_eq!((told.standing, told.admitting), (HeldStanding::Whole, None));
    }
    let gone = told(&mut lab, 3);
    let record = gone.record.expect("it was in sync once");
    assert!(record.epoch == gone.epoch && gone.epoch < lab.record.epoch);
}

/// Whoever is counted as in sync may go on alone before the primary hears of it. So it is known, before
/// anybody can count it, whom else to ask.
#[test]
fn who_is_about_to_be_in_sync_is_kept_before_it_is() {
    let mut lab = Lab::new(2, 1);
    lab.kill(2);
    lab.pass(SECOND);
    lab.write(1, 0, 1, 1);
    lab.let_copies(2, Some(0));
    lab.start(2);
    lab.pass(SECOND / 10);
    assert!(matches!(lab.membership(2), Membership::Joining { .. }));
    let joining = lab.record.epoch;
    lab.deaf = Some(node(1));
    lab.let_copies(2, None);
    lab.settle();
    assert!(lab.is_in_sync(2));
    lab.kill(1);
    let first = told(&mut lab, 1);
    assert_eq!(first.admitting, Some(node(2)));
    assert_eq!(first.epoch, joining);
    lab.deaf = None;
    lab.start(1);
    lab.pass(20 * SECOND);
    assert_eq!(lab.record.in_sync().count(), 2);
    lab.kill(1);
    lab.kill(2);
    assert_eq!(told(&mut lab, 1).admitting, None);
    assert_eq!(told(&mut lab, 2).admitting, None);
}

#[test]
fn nobody_serves_before_all_have_said_that_they_know_of_nothing_newer() {
    let mut lab = Lab::new(3, 1);
    lab.write(1, 0, 1, 1);
    lab.pass(SECOND);
    let known = lab.record.epoch;
    lab.stop_all();
    make_again(&mut lab, known, true, false);
    lab.start(1);
    lab.start(2);
    lab.pass(20 * SECOND);
    assert_eq!(lab.record.in_sync().count(), 3, "nobody is left out");
    assert!(!lab.reads(1) && !lab.reads(2));
    let leader = lab.leader();
    if let Some(leader) = leader {
        let command = lab.begin_write(leader, 64, 1, 2);
        lab.pass(5 * SECOND);
        assert_ne!(lab.outcome(leader, command), Some(OutcomeCode::Done));
    }
    lab.start(3);
    lab.pass_until(5 * SECOND, "it is confirmed", |lab| {
        !lab.record.is_unconfirmed()
    });
    let leader = lab.leader().expect("somebody leads");
    assert_eq!(lab.contents(leader).get(&0), Some(&1));
    // From now on it is a slice like any other.
    lab.kill(if leader == 3 { 2 } else { 3 });
    lab.pass(3 * SECOND);
    assert_eq!(lab.record.in_sync().count(), 2);
    assert!(
        lab.record.recovery.is_some(),
        "who comes back is told apart"
    );
}

#[test]
fn who_knows_more_than_the_record_that_was_made_again_follows_nobody() {
    let (mut lab, known) = lost_with_the_second_ahead();
    make_again(&mut lab, known, true, false);
    lab.start(1);
    lab.start(2);
    lab.pass(20 * SECOND);
    assert!(!lab.reads(1) && !lab.reads(2));
    assert_eq!(lab.record.in_sync().count(), 2);
    assert_eq!(lab.contents(2).get(&64), Some(&2), "nothing is dropped");
    // The record is made once more, with what it knows.
    lab.kill(1);
    lab.kill(2);
    let newer = told(&mut lab, 2);
    let epoch = newer.epoch;
    lab.record = newer.record.expect("it kept its record");
    make_again(&mut lab, epoch, false, false);
    lab.start(1);
    lab.start(2);
    lab.pass_until(20 * SECOND, "both are in sync", |lab| lab.is_in_sync(1));
    assert_eq!(lab.contents(1).get(&64), Some(&2));
}

/// Also if the others have gone on without it: what it has may be the last copy of something.
#[test]
fn what_was_not_known_of_is_kept_although_others_go_on() {
    let (mut lab, known) = lost_with_the_second_ahead();
    make_again(&mut lab, known, false, false);
    lab.start(1);
    lab.pass(3 * SECOND);
    assert!(lab.leads(1));
    lab.write(1, 128, 1, 3);
    lab.start(2);
    lab.pass(20 * SECOND);
    assert!(!lab.is_in_sync(2));
    assert_eq!(lab.contents(2).get(&64), Some(&2));
    assert_eq!(lab.contents(2).get(&128), None);
}

/// An operator has said that it is lost, and it turns up: of what it has nothing may be left in between.
#[test]
fn what_was_given_up_begins_with_nothing() {
    let (mut lab, known) = lost_with_the_second_ahead();
    make_again(&mut lab, known, false, true);
    for replica in &mut lab.record.replicas {
        if replica.node == node(2) {
            let stable = Sequence::ZERO;
            replica.membership = Membership::Absent { stable };
        }
    }
    lab.start(1);
    lab.pass(3 * SECOND);
    assert!(lab.leads(1));
    lab.write(1, 128, 1, 3);
    lab.start(2);
    lab.pass_until(20 * SECOND, "it is in sync", |lab| lab.is_in_sync(2));
    assert_eq!(lab.contents(2), lab.contents(1));
    assert_eq!(lab.contents(2).get(&64), None);
}
