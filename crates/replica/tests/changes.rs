//! Changes of configuration that are interrupted, or of which nobody knows how they ended.

use holdfast_model::record::Membership;
use holdfast_stdx::Duration;
use holdfast_wire::OutcomeCode;

use crate::lab::{Lab, node};

const SECOND: Duration = Duration::from_secs(1);

/// Two replicas. The second has caught up, and the record says so; the first, which proposed it, has
/// not been told.
fn completed_in_secret() -> Lab {
    let mut lab = Lab::new(2, 1);
    lab.kill(2);
    lab.pass(SECOND);
    lab.write(1, 0, 1, 1);
    lab.let_copies(2, Some(0));
    lab.start(2);
    lab.pass(Duration::from_millis(100));
    assert!(matches!(lab.membership(2), Membership::Joining { .. }));
    lab.deaf = Some(node(1));
    lab.let_copies(2, None);
    lab.settle();
    assert!(lab.is_in_sync(2));
    lab
}

/// The second replica may lead from now on: what is written without it would be lost.
#[test]
fn nothing_commits_without_a_replica_that_may_be_in_sync() {
    let mut lab = completed_in_secret();
    lab.disconnect(node(1), node(2));
    let command = lab.begin_write(1, 64, 1, 2);
    lab.pass(Duration::from_millis(100));
    assert_eq!(lab.outcome(1, command), None);
    lab.kill(1);
    lab.pass(3 * SECOND);
    assert!(lab.leads(2));
    assert_eq!(lab.contents(2).get(&0), Some(&1));
}

/// The second replica leads after a while, and the first reads nothing that may have changed.
#[test]
fn nothing_is_read_while_another_may_lead() {
    let mut lab = completed_in_secret();
    assert!(lab.reads(1));
    for _ in 0..60 {
        lab.pass(Duration::from_millis(50));
        assert!(!(lab.leads(2) && lab.reads(1)));
    }
    assert!(lab.leads(2));
    lab.deaf = None;
    lab.tell_record(1);
    lab.pass_until(20 * SECOND, "node 1 is back", |lab| lab.is_in_sync(1));
}

/// The second replica granted nothing while it joined, and the first reads for the length of a lease: the second
/// waits for that, however long ago its node started.
#[test]
fn who_was_counted_in_secret_waits_for_the_reads_of_its_primary() {
    let mut lab = Lab::new(2, 1);
    lab.kill(2);
    lab.pass(SECOND);
    lab.write(1, 0, 1, 1);
    lab.let_copies(2, Some(0));
    lab.start(2);
    lab.pass(3 * SECOND);
    assert!(matches!(lab.membership(2), Membership::Joining { .. }));
    lab.deaf = Some(node(1));
    lab.let_copies(2, None);
    lab.settle();
    assert!(lab.is_in_sync(2));
    lab.disconnect(node(1), node(2));
    for _ in 0..100 {
        lab.pass(Duration::from_millis(10));
        assert!(!(lab.leads(2) && lab.reads(1)));
    }
    assert!(lab.leads(2));
}

/// An entry that is at the primary only comes to a replica that joins, and the block's copy need not. If the one
/// that lacks the entry still counted, it could give it up, and the block would be at the joining one what it was
/// before that was away.
#[test]
fn who_lacks_an_entry_goes_when_another_is_counted_in_its_place() {
    let mut lab = Lab::new(3, 2);
    assert_eq!(lab.outcome_of_write(1, 0, 1), Some(OutcomeCode::Done));
    lab.pass(SECOND);
    lab.kill(2);
    lab.pass_until(SECOND, "node 2 is out", |lab| !lab.is_in_sync(2));
    let command = lab.write(1, 0, 1, 2);
    lab.pass(SECOND);
    assert_eq!(lab.outcome(1, command), Some(OutcomeCode::Done));
    lab.cut.insert((node(1), node(3)));
    let command = lab.write(1, 0, 1, 3);
    lab.kill(3);
    lab.cut.clear();
    lab.pass(SECOND);
    assert!(lab.is_in_sync(3), "no more copies can be spared");
    assert_eq!(lab.outcome(1, command), None);
    lab.let_copies(2, Some(0));
    lab.start(2);
    lab.pass_until(SECOND, "node 2 joins", |lab| {
        matches!(lab.membership(2), Membership::Joining { .. })
    });
    // Each change gives those who are missed another moment.
    lab.pass(Duration::from_millis(200));
    lab.deaf = Some(node(1));
    lab.let_copies(2, None);
    lab.settle();
    assert!(lab.is_in_sync(2));
    assert_ne!(lab.contents(2).get(&0), Some(&2), "its copy is not taken");
    assert_eq!(lab.count_of(2, command), 1);
    lab.kill(1);
    lab.kill(2);
    lab.deaf = None;
    lab.start(3);
    lab.pass(5 * SECOND);
    lab.start(2);
    lab.pass(5 * SECOND);
    lab.start(1);
    lab.pass_until(20 * SECOND, "all are in sync", |lab| {
        (1..=3).all(|number| lab.is_in_sync(number))
    });
    lab.pass(SECOND);
    assert_eq!(lab.contents(2), lab.contents(3));
    assert_eq!(lab.contents(1), lab.contents(3));
}

/// A replica that has withdrawn from an epoch takes no part in it, whoever it meets after a restart.
#[test]
fn a_replica_that_withdrew_and_restarted_leads_the_next_epoch() {
    let mut lab = Lab::new(3, 2);
    lab.kill(3);
    lab.pass(SECOND);
    assert!(!lab.is_in_sync(3));
    lab.metadata_away(2, true);
    lab.disconnect(node(1), node(2));
    lab.pass(SECOND);
    lab.kill(2);
    lab.start(2);
    lab.pass(3 * SECOND);
    let leader = lab.leader().expect("somebody leads");
    let command = lab.write(leader, 0, 1, 7);
    lab.pass(SECOND);
    assert_eq!(lab.outcome(leader, command), Some(OutcomeCode::Done));
}

/// Whoever a primary before was feeding is not fed by the next one before it offers itself.
#[test]
fn a_sync_that_a_primary_before_had_begun_is_in_nobodys_way() {
    let mut lab = Lab::new(4, 2);
    lab.kill(4);
    lab.pass(SECOND);
    for page in 0..10 {
        lab.write(1, page * 64, 1, 1);
    }
    lab.let_copies(4, Some(2));
    lab.start(4);
    lab.pass(Duration::from_millis(400));
    assert!(matches!(lab.membership(4), Membership::Joining { .. }));
    lab.stop_all();
    for number in 1..=3 {
        lab.start(number);
    }
    lab.pass(SECOND);
    assert!(lab.leads(1));
    lab.kill(3);
    lab.pass(SECOND);
    assert!(!lab.is_in_sync(3));
    assert!(matches!(lab.membership(4), Membership::Absent { .. }));
    lab.let_copies(4, None);
    lab.start(3);
    lab.start(4);
    let whole = |lab: &Lab| lab.is_in_sync(3) && lab.is_in_sync(4);
    lab.pass_until(20 * SECOND, "all are back", whole);
    assert_eq!(lab.contents(1), lab.contents(4));
}

/// A replica that was brought up to date and lost a part of that is not what the record takes it for.
#[test]
fn a_replica_that_has_caught_up_and_lost_some_of_it_does_not_lead() {
    let mut lab = completed_in_secret();
    lab.kill(2);
    lab.kill(1);
    lab.spoil(2);
    lab.deaf = None;
    lab.start(2);
    lab.pass(3 * SECOND);
    assert!(!lab.leads(2));
    lab.start(1);
    lab.pass_until(20 * SECOND, "node 1 leads", |lab| lab.leads(1));
    lab.pass_until(20 * SECOND, "node 2 is back", |lab| lab.is_in_sync(2));
    assert_eq!(lab.contents(1), lab.contents(2));
}

/// The same, in the middle of being brought up to date, and back before anybody missed it.
#[test]
fn what_a_joining_replica_lost_is_copied_again() {
    let mut lab = Lab::new(2, 1);
    lab.kill(2);
    lab.pass(SECOND);
    for page in 0..40 {
        lab.write(1, page * 64, 1, 1);
    }
    lab.let_copies(2, Some(30));
    lab.start(2);
    lab.pass(Duration::from_millis(400));
    lab.kill(2);
    lab.spoil(2);
    lab.start(2);
    lab.let_copies(2, None);
    lab.pass_until(20 * SECOND, "node 2 is back", |lab| lab.is_in_sync(2));
    assert_eq!(lab.contents(1), lab.contents(2));
}

/// A replica offers itself, its node is killed, and it is agreed on to take it back as it was: before it hears
/// of that, its devices are an older copy of themselves. What it offered is not there any more.
#[test]
fn an_offer_counts_no_longer_than_its_process_runs() {
    let mut lab = Lab::new(2, 1);
    let copy = lab.copy_disk(2);
    for page in 0..4 {
        lab.write(1, page * 64, 1, 1);
    }
    lab.pass(SECOND);
    lab.kill(2);
    lab.pass_until(20 * SECOND, "node 2 is out", |lab| !lab.is_in_sync(2));
    lab.write(1, 1000, 1, 2);
    lab.metadata_away(1, true);
    lab.start(2);
    lab.pass(SECOND);
    assert!(matches!(lab.membership(2), Membership::Absent { .. }));
    lab.kill(2);
    lab.roll_back_disk(2, copy);
    lab.spoil(2);
    lab.metadata_away(1, false);
    lab.pass_until(SECOND, "it is agreed on", |lab| {
        matches!(lab.membership(2), Membership::Joining { .. })
    });
    lab.start(2);
    lab.pass_until(20 * SECOND, "node 2 is back", |lab| lab.is_in_sync(2));
    assert_eq!(lab.contents(1), lab.contents(2));
}

/// A copy is not installed where the stream has brought something newer. That counts for nothing as
/// long as the stream's entry may be given up: here it is sent again in the next epoch, and not taken.
#[test]
fn what_only_the_stream_has_brought_is_not_there_for_good() {
    let mut lab = Lab::new(3, 1);
    lab.kill(3);
    lab.pass(SECOND);
    for page in 0..4 {
        lab.write(1, page * 64, 1, 1);
    }
    lab.pass(SECOND);
    lab.let_copies(3, Some(1));
    // What the other secondary answers gets lost: this is not committed until that is taken out.
    lab.cut.insert((node(2), node(1)));
    lab.write(1, 0, 1, 2);
    lab.start(3);
    lab.pass(Duration::from_millis(100));
    assert!(matches!(lab.membership(3), Membership::Joining { .. }));
    assert_eq!(lab.copied_bytes(), 4096);
    lab.stick_disk(3, true);
    lab.pass_until(SECOND, "node 2 is out", |lab| !lab.is_in_sync(2));
    lab.kill(3);
    lab.let_copies(3, None);
    lab.start(3);
    lab.pass_until(20 * SECOND, "node 3 is back", |lab| lab.is_in_sync(3));
    assert_eq!(lab.contents(1), lab.contents(3));
}

/// A primary comes back as it was a while ago, before anybody has missed it. It finds out as soon as it
/// hears of the other. What it has of that time and does not know to be committed it drops; so that is
/// brought back to it, too, and not only what came after.
#[test]
fn a_primary_that_is_an_older_one_is_brought_what_it_did_not_know_to_be_committed() {
    let mut lab = Lab::new(2, 1);
    let leader = lab.leader().expect("somebody leads");
    let other = 3 - leader;
    for page in 0..3 {
        lab.write(leader, page * 64, 1, 1);
    }
    let copy = lab.copy_disk(leader);
    lab.write(leader, 3 * 64, 1, 1);
    lab.kill(leader);
    lab.roll_back_disk(leader, copy);
    lab.start(leader);
    let old = "the old one is in sync again";
    lab.pass_until(20 * SECOND, "the other leads", |lab| lab.leads(other));
    lab.pass_until(20 * SECOND, old, |lab| lab.is_in_sync(leader));
    lab.tell_committed();
    assert_eq!(lab.contents(leader), lab.contents(other));
    assert_eq!(lab.contents(leader).len(), 4);
}

/// A replica that does not know any more what it was part of has blocks, but nobody's: none of them is
/// there once it has been brought up to date.
#[test]
fn a_replica_that_lost_its_state_begins_with_nothing() {
    let mut lab = Lab::new(2, 1);
    lab.write(1, 0, 1, 1);
    lab.write(1, 64, 1, 1);
    lab.pass(SECOND);
    lab.kill(2);
    lab.lose_state(2);
    lab.clear(1, 0, 1);
    lab.pass(SECOND);
    lab.start(2);
    lab.pass_until(20 * SECOND, "node 2 is back", |lab| lab.is_in_sync(2));
    assert_eq!(lab.contents(1), lab.contents(2));
}

/// What was on a device that is absent is brought, before the replica counts again.
#[test]
fn a_replica_that_lacks_a_device_is_brought_what_was_there() {
    for lacking in 1..=2 {
        let mut lab = Lab::new(2, 1);
        for page in 0..4 {
            lab.write(1, page * 64, 1, 1);
        }
        lab.pass(SECOND);
        lab.kill(lacking);
        lab.device_away(lacking, true);
        lab.start(lacking);
        let out = "it does not count any more";
        lab.pass_until(20 * SECOND, out, |lab| !lab.is_in_sync(lacking));
        lab.pass_until(20 * SECOND, "it does", |lab| lab.is_in_sync(lacking));
        assert_eq!(lab.contents(1), lab.contents(2));
        assert_eq!(lab.contents(1).len(), 4);
    }
}

/// The only one in sync lacks something: nobody serves what is old, nothing is overwritten, and when the
/// device is there again, everything is.
#[test]
fn the_only_good_replica_waits_for_its_device() {
    let mut lab = Lab::new(2, 1);
    lab.write(1, 0, 1, 1);
    lab.pass(SECOND);
    let leader = lab.leader().expect("somebody leads");
    let other = 3 - leader;
    lab.kill(other);
    lab.pass(2 * SECOND);
    lab.write(leader, 64, 1, 1);
    let expected = lab.contents(leader);
    lab.kill(leader);
    lab.device_away(leader, true);
    lab.start(leader);
    lab.start(other);
    for _ in 0..3 {
        lab.pass(10 * SECOND);
        assert_eq!(lab.leader(), None);
        lab.kill(leader);
        lab.start(leader);
    }
    lab.kill(leader);
    lab.device_away(leader, false);
    lab.start(leader);
    lab.pass_until(20 * SECOND, "it leads again", |lab| lab.leads(leader));
    lab.pass_until(20 * SECOND, "both are in sync", |lab| lab.is_in_sync(other));
    assert_eq!(lab.contents(leader), expected);
    assert_eq!(lab.contents(other), expected);
}

/// A slice of three copies, of which one is gone for good: no more can be spared. There is something in it.
fn two_of_three() -> Lab {
    let mut lab = Lab::new(3, 2);
    for page in 0..4 {
        assert_eq!(
            lab.outcome_of_write(1, page * 64, 1),
            Some(OutcomeCode::Done)
        );
    }
    lab.pass(SECOND);
    lab.kill(3);
    lab.pass_until(SECOND, "node 3 is out", |lab| !lab.is_in_sync(3));
    lab.write(1, 0, 1, 2);
    lab.pass(SECOND);
    assert!(lab.leads(1) && lab.reads(2));
    lab
}

/// Writes are done again, and both have all.
fn goes_on_with(lab: &mut Lab, number: u16) {
    let is_back = |lab: &Lab| lab.leads(1) && lab.is_in_sync(number) && lab.reads(number);
    lab.pass_until(20 * SECOND, "it counts, and is read", is_back);
    let command = lab.write(1, 64, 1, 3);
    lab.pass(SECOND);
    assert_eq!(lab.outcome(1, command), Some(OutcomeCode::Done));
    assert_eq!(lab.contents(1), lab.contents(number));
    assert_eq!(lab.contents(1).len(), 4);
}

/// A replica that cannot be spared has lost what it had. It is brought that again in its own place.
#[test]
fn who_cannot_be_spared_and_lost_its_copy_joins_in_its_place() {
    for (restarts, lose) in [
        (false, Lab::lose_state as fn(&mut Lab, u16)),
        (false, Lab::replace_disks),
        (false, Lab::spoil),
        (true, Lab::lose_state),
        (true, Lab::replace_disks),
        (true, Lab::spoil),
    ] {
        let mut lab = two_of_three();
        if restarts {
            lab.kill(1);
        }
        lab.kill(2);
        lose(&mut lab, 2);
        if restarts {
            lab.start(1);
        }
        lab.start(2);
        goes_on_with(&mut lab, 2);
    }
}

/// Meanwhile there is one copy: what was numbered before waits for the second, whoever restarts.
#[test]
fn nothing_commits_in_one_copy_while_the_second_is_made_again() {
    for restarts in [false, true] {
        let mut lab = two_of_three();
        lab.kill(2);
        let command = lab.write(1, 64, 1, 9);
        lab.replace_disks(2);
        lab.let_copies(2, Some(0));
        lab.start(2);
        let joins = |lab: &Lab| matches!(lab.membership(2), Membership::Joining { .. });
        lab.pass_until(10 * SECOND, "node 2 joins", joins);
        lab.pass(SECOND);
        assert_eq!(lab.contents(1).get(&64), Some(&1));
        assert_eq!(lab.outcome_of_write(1, 128, 5), Some(OutcomeCode::NotReady));
        if restarts {
            lab.kill(1);
            lab.start(1);
            lab.pass(5 * SECOND);
            assert_eq!(lab.contents(1).get(&64), Some(&1));
        } else {
            assert_eq!(lab.outcome(1, command), None);
        }
        lab.let_copies(2, None);
        lab.pass_until(20 * SECOND, "node 2 is in sync", |lab| lab.is_in_sync(2));
        lab.pass(SECOND);
        assert_eq!(lab.contents(1).get(&64), Some(&9));
        goes_on_with(&mut lab, 2);
    }
}

/// What is on a device that is absent is not gone: the one that has it keeps its place, and counts again when the
/// device is back.
#[test]
fn who_cannot_be_spared_and_lacks_a_device_waits_for_it() {
    let mut lab = two_of_three();
    lab.kill(2);
    lab.device_away(2, true);
    lab.start(2);
    for _ in 0..10 {
        lab.pass(SECOND);
        assert!(lab.is_in_sync(2));
    }
    lab.kill(2);
    lab.device_away(2, false);
    lab.start(2);
    goes_on_with(&mut lab, 2);
}

/// A node comes in the place of one that is gone for good and cannot be spared, though its primary has begun an
/// epoch in which nothing commits without that one.
#[test]
fn a_wished_node_comes_in_the_place_of_one_that_cannot_be_spared() {
    for restarts in [false, true] {
        let mut lab = two_of_three();
        lab.kill(2);
        if restarts {
            lab.kill(1);
            lab.start(1);
        }
        lab.add_node(4);
        lab.pass(5 * SECOND);
        assert_eq!(lab.leads(1), !restarts);
        lab.wish(Some((&[1, 4], 1)));
        lab.pass_until(20 * SECOND, "it is as wished", Lab::is_as_wished);
        goes_on_with(&mut lab, 4);
    }
}

/// A replica whose link dies while it is appending has not been slow: it may be back as soon as it can be reached.
#[test]
fn who_is_cut_off_in_the_middle_of_an_append_is_not_taken_for_slow() {
    for before in (0..100).step_by(10) {
        let mut lab = Lab::new(2, 1);
        lab.stick_disk(2, true);
        lab.write(1, 0, 1, 1);
        // It may be heard once more.
        lab.pass(Duration::from_millis(before));
        for way in [(node(1), node(2)), (node(2), node(1))] {
            lab.cut.insert(way);
        }
        lab.stick_disk(2, false);
        lab.pass_until(SECOND, "node 2 is out", |lab| !lab.is_in_sync(2));
        lab.cut.clear();
        lab.reconnect(1, 2);
        lab.pass_until(SECOND, "node 2 is back", |lab| lab.is_in_sync(2));
        assert_eq!(lab.contents(1), lab.contents(2));
    }
}
