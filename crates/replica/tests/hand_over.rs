//! Slow disks, hand-overs, and slices that come home.

use holdfast_model::record::Membership;
use holdfast_model::{CommandId, Incarnation};
use holdfast_replica::{Milestone, Proposed};
use holdfast_stdx::Duration;
use holdfast_wire::{Message, OutcomeCode};

use crate::lab::{Lab, node};

const SECOND: Duration = Duration::from_secs(1);
/// Longer than any first rest.
const REST: Duration = Duration::from_secs(8);

/// Whether a node has said that it hands over, or takes out, because of a slow disk.
fn said_slow(lab: &Lab, number: u16) -> usize {
    let milestones = &lab.nodes[&node(number)].world.milestones;
    let slow = |it: &&Milestone| {
        matches!(
            it,
            Milestone::HandedOver { slow: true, .. } | Milestone::Removed { slow: true, .. }
        )
    };
    milestones.iter().filter(slow).count()
}

#[test]
fn a_primary_whose_disk_is_stuck_hands_over() {
    let mut lab = Lab::new(2, 1);
    assert_eq!(lab.outcome_of_write(1, 0, 1), Some(OutcomeCode::Done));
    lab.stick_disk(1, true);
    let command = lab.write(1, 0, 1, 2);
    lab.pass_until(SECOND, "node 2 leads", |lab| lab.leads(2));
    assert_eq!(lab.outcome(1, command), Some(OutcomeCode::Deposed));
    assert!(matches!(lab.membership(1), Membership::Absent { .. }));
    // The other one has it: the same command is not done again.
    lab.submit(2, command, 0, 1, 2);
    lab.settle();
    assert_eq!(lab.outcome(2, command), Some(OutcomeCode::Done));
    assert_eq!(lab.contents(2).get(&0), Some(&2));
    assert_eq!(lab.record.epoch.0, 3, "one change was enough");
}

/// What became of the hand-over is not known, and by the time that it can be asked the heir's devices are gone: to
/// propose it again would leave out the one copy that is left.
#[test]
fn a_hand_over_is_not_proposed_again_to_an_heir_that_is_lost() {
    let mut lab = Lab::new(2, 1);
    assert_eq!(lab.outcome_of_write(1, 0, 1), Some(OutcomeCode::Done));
    lab.metadata_away(1, true);
    lab.stick_disk(1, true);
    lab.write(1, 0, 1, 2);
    lab.pass(SECOND);
    let world = &mut lab.nodes.get_mut(&node(1)).expect("it exists").world;
    let proposals = std::mem::take(&mut world.proposals);
    assert_eq!(proposals.len(), 1, "it hands over");
    lab.act(node(1), |replica, context| {
        replica.handle_proposed(context, Proposed::Unknown);
    });
    lab.kill(2);
    lab.replace_disks(2);
    lab.stick_disk(1, false);
    lab.pass(SECOND);
    lab.metadata_away(1, false);
    lab.pass(SECOND);
    assert!(lab.is_in_sync(1), "nobody else has anything");
    assert!(lab.leads(1));
    lab.start(2);
    lab.pass_until(REST, "node 2 is in sync", |lab| lab.is_in_sync(2));
    assert_eq!(lab.contents(1), lab.contents(2));
}

#[test]
fn a_slow_replica_is_left_out_until_it_has_rested() {
    let mut lab = Lab::new(2, 1);
    lab.stick_disk(1, true);
    lab.write(1, 0, 1, 1);
    lab.pass(SECOND);
    assert!(lab.leads(2));
    lab.stick_disk(1, false);
    lab.pass(3 * SECOND);
    assert!(!lab.is_in_sync(1), "it rests");
    lab.pass_until(REST, "node 1 is in sync", |lab| lab.is_in_sync(1));
    assert_eq!(lab.contents(1), lab.contents(2));
}

#[test]
fn nobody_is_left_out_for_slowness_below_the_minimum() {
    let mut lab = Lab::new(2, 2);
    lab.stick_disk(1, true);
    lab.write(1, 0, 1, 1);
    lab.pass(5 * SECOND);
    assert!(lab.leads(1), "handing over would help nobody");
    lab.stick_disk(1, false);
    lab.stick_disk(2, true);
    lab.write(1, 0, 1, 2);
    lab.pass(5 * SECOND);
    assert!(lab.is_in_sync(2));
    assert_eq!(lab.record.epoch.0, 2);
}

#[test]
fn disks_that_are_slow_everywhere_change_nothing() {
    let mut lab = Lab::new(3, 1);
    for number in 1..=3 {
        lab.stick_disk(number, true);
    }
    lab.write(1, 0, 1, 1);
    lab.pass(5 * SECOND);
    assert!(lab.leads(1));
    assert_eq!(lab.record.epoch.0, 2);
    for number in 1..=3 {
        lab.stick_disk(number, false);
    }
    assert_eq!(lab.outcome_of_write(1, 1, 1), Some(OutcomeCode::Done));
}

#[test]
fn one_replica_at_most_is_out_for_slowness() {
    let mut lab = Lab::new(4, 2);
    lab.stick_disk(2, true);
    lab.stick_disk(3, true);
    lab.write(1, 0, 1, 1);
    lab.pass(5 * SECOND);
    let out = (1..=4).filter(|number| !lab.is_in_sync(*number)).count();
    assert_eq!((out, said_slow(&lab, 1)), (1, 1));
}

#[test]
fn a_secondary_that_is_dead_is_taken_out_whoever_is_slow() {
    let mut lab = Lab::new(4, 2);
    lab.stick_disk(2, true);
    lab.write(1, 0, 1, 1);
    lab.pass(SECOND);
    assert!(!lab.is_in_sync(2));
    lab.kill(3);
    lab.pass(SECOND);
    assert!(!lab.is_in_sync(3));
    assert_eq!(lab.outcome_of_write(1, 1, 1), Some(OutcomeCode::Done));
}

#[test]
fn a_slice_goes_back_to_its_preferred_primary() {
    let mut lab = Lab::new(2, 1);
    lab.kill(1);
    lab.pass(2 * SECOND);
    assert!(lab.leads(2));
    assert_eq!(lab.outcome_of_write(2, 3, 9), Some(OutcomeCode::Done));
    lab.start(1);
    lab.pass_until(2 * SECOND, "node 1 is in sync", |lab| lab.is_in_sync(1));
    assert!(lab.leads(2), "it rests");
    let epoch = lab.record.epoch;
    lab.pass_until(REST, "node 1 leads", |lab| lab.leads(1));
    assert_eq!(lab.record.epoch, epoch.next());
    assert!(lab.is_in_sync(2));
    lab.pass(30 * SECOND);
    assert_eq!(lab.record.epoch, epoch.next(), "it stays");
}

/// What is under way when a slice is handed over is done once, whoever is asked.
#[test]
fn a_hand_over_loses_and_repeats_nothing() {
    let mut lab = Lab::new(3, 2);
    lab.kill(1);
    lab.pass(2 * SECOND);
    let old = if lab.leads(2) { 2 } else { 3 };
    lab.start(1);
    lab.pass_until(2 * SECOND, "node 1 is in sync", |lab| lab.is_in_sync(1));
    assert_eq!(lab.outcome_of_write(old, 5, 1), Some(OutcomeCode::Done));
    lab.deaf = Some(node(old));
    lab.pass_until(REST, "it is agreed", |lab| lab.record.primary == node(1));
    // It is numbered and sent, and not committed, when the old primary hears that it is one no more.
    let command = lab.write(old, 5, 1, 7);
    assert_eq!(lab.outcome(old, command), None);
    lab.deaf = None;
    lab.tell_record(old);
    assert_eq!(lab.outcome(old, command), Some(OutcomeCode::Deposed));
    assert!(lab.leads(1));
    lab.submit(1, command, 5, 1, 7);
    lab.settle();
    assert_eq!(lab.outcome(1, command), Some(OutcomeCode::Done));
    assert_eq!(lab.count_of(1, command), 1);
    lab.pass(SECOND);
    assert_eq!(lab.contents(1), lab.contents(old));
}

/// The record names the heir before the old primary knows: both serve the epoch that was until the
/// old one says that it has stopped.
#[test]
fn an_heir_waits_for_the_word_or_for_the_lease() {
    let mut lab = Lab::new(2, 1);
    lab.kill(1);
    lab.pass(2 * SECOND);
    lab.start(1);
    lab.pass_until(2 * SECOND, "node 1 is in sync", |lab| lab.is_in_sync(1));
    // The answer of the metadata does not reach the one that hands over.
    lab.deaf = Some(node(2));
    lab.pass_until(REST, "it is agreed", |lab| lab.record.primary == node(1));
    assert!(!lab.leads(1));
    assert!(lab.leads(2), "it does not know");
    assert!(lab.status(1).handed.is_some(), "it is named, and waits");
    assert_eq!(lab.status(2).handed, None);
    assert_eq!(lab.outcome_of_write(2, 1, 4), Some(OutcomeCode::Done));
    let early = CommandId {
        node: 50,
        incarnation: Incarnation(1),
        number: 1,
    };
    lab.submit(1, early, 2, 1, 5);
    lab.settle();
    assert_eq!(lab.outcome(1, early), None, "it is kept");
    lab.kill(2);
    lab.pass(Duration::from_millis(300));
    assert!(!lab.leads(1), "a lease may still run");
    lab.pass(2 * SECOND);
    assert!(lab.leads(1));
    assert_eq!(lab.status(1).handed, None);
    assert_eq!(lab.outcome(1, early), Some(OutcomeCode::NotPrimary));
    assert_eq!(lab.contents(1).get(&1), Some(&4));
}

#[test]
fn an_heir_does_early_what_came_early() {
    let mut lab = Lab::new(2, 1);
    lab.kill(1);
    lab.pass(2 * SECOND);
    lab.start(1);
    lab.pass_until(2 * SECOND, "node 1 is in sync", |lab| lab.is_in_sync(1));
    lab.deaf = Some(node(2));
    lab.pass_until(REST, "it is agreed", |lab| lab.record.primary == node(1));
    let early = lab.begin_write(1, 2, 1, 5);
    lab.settle();
    lab.deaf = None;
    lab.tell_record(2);
    assert!(lab.leads(1), "without time passing");
    assert_eq!(lab.outcome(1, early), Some(OutcomeCode::Done));
}

#[test]
fn a_preferred_primary_that_comes_and_goes_rests_longer_each_time() {
    let mut lab = Lab::new(2, 1);
    let mut rests = Vec::new();
    for _ in 0..3 {
        lab.kill(1);
        lab.pass(2 * SECOND);
        lab.start(1);
        lab.pass_until(2 * SECOND, "node 1 is in sync", |lab| lab.is_in_sync(1));
        let back = lab.now;
        lab.pass_until(30 * SECOND, "node 1 leads", |lab| lab.leads(1));
        rests.push(lab.now.since(back).as_secs());
    }
    assert_eq!(rests, [5, 10, 20]);
}

/// Three replicas and more with heartbeats in each phase: what a third one may read, and for how long, depends
/// on when it was last told, and when it had last spoken.
fn in_each_phase(nodes: u16) -> impl Iterator<Item = Lab> {
    (0..60).map(move |phase| {
        let mut lab = Lab::new(nodes, 2);
        assert_eq!(lab.outcome_of_write(1, 0, 1), Some(OutcomeCode::Done));
        let next = lab.now + Duration::from_millis(100 + 40 * (phase / 20));
        for number in 2..=nodes {
            let state = lab.nodes.get_mut(&node(number)).expect("it exists");
            state.world.beats.insert(node(1), next);
        }
        lab.pass(Duration::from_millis(300 + 5 * (phase % 20)));
        assert!(lab.reads(3));
        lab.deaf = Some(node(3));
        lab
    })
}

/// One of some nodes comes to lead, and the first write that it takes is committed no sooner than the third node
/// has stopped to read what was before.
fn nothing_is_read_that_was_replaced(lab: &mut Lab, leaders: &[u16]) {
    let end = lab.now + 2 * SECOND;
    let mut command = None;
    loop {
        assert!(lab.now < end, "a write is done: {:?}", lab.record);
        if let Some((leader, command)) = command
            && lab.outcome(leader, command) == Some(OutcomeCode::Done)
        {
            return;
        }
        let leader = leaders.iter().copied().find(|node| lab.leads(*node));
        if let Some(leader) = leader.filter(|_| command.is_none()) {
            command = Some((leader, lab.write(leader, 0, 1, 2)));
        }
        let is_new = |number: &u16| lab.contents(*number).get(&0) == Some(&2);
        let is_done = leaders.iter().any(is_new);
        assert!(!(is_done && lab.reads(3)), "node 3 reads what was before");
        lab.pass(Duration::from_millis(5));
    }
}

/// The heir has the word of the primary before, and waits for no lease. That one had let a third replica read,
/// which is cut off from the heir and taken out.
#[test]
fn an_heir_waits_for_a_reader_that_it_takes_out() {
    for mut lab in in_each_phase(3) {
        lab.disconnect(node(2), node(3));
        lab.wish(Some((&[1, 2, 3], 2)));
        assert_eq!(lab.record.primary, node(2));
        assert!(lab.is_in_sync(3) && lab.reads(3), "it knows of nothing");
        nothing_is_read_that_was_replaced(&mut lab, &[2]);
    }
}

/// The same, where the primary before gave up its lease. The third replica hears neither that nor of the next
/// epoch, but for the question how far it is.
#[test]
fn who_follows_one_that_resigned_waits_for_a_reader_that_it_takes_out() {
    for mut lab in in_each_phase(3) {
        lab.cut.insert((node(1), node(3)));
        lab.lost = |message| matches!(message, Message::Begin(_) | Message::Prepare(_));
        lab.act(node(1), |replica, context| replica.stop(context));
        lab.settle();
        assert_eq!(lab.record.primary, node(2));
        lab.disconnect(node(2), node(3));
        assert!(lab.is_in_sync(3) && lab.reads(3), "it knows of nothing");
        lab.lost = |_| false;
        lab.reconnect(1, 2);
        nothing_is_read_that_was_replaced(&mut lab, &[2]);
    }
}

/// The third replica was taken out by the primary before, a moment ago.
#[test]
fn who_hands_over_waits_for_a_reader_that_it_took_out() {
    for mut lab in in_each_phase(4) {
        for other in [1, 2, 4] {
            lab.disconnect(node(other), node(3));
        }
        lab.pass_until(SECOND / 5, "node 3 is out", |lab| !lab.is_in_sync(3));
        lab.wish(Some((&[1, 2, 3, 4], 2)));
        nothing_is_read_that_was_replaced(&mut lab, &[2]);
    }
}

/// The same, of one that stops.
#[test]
fn who_stops_waits_for_a_reader_that_it_took_out() {
    for mut lab in in_each_phase(4) {
        for other in [1, 2, 4] {
            lab.disconnect(node(other), node(3));
        }
        lab.pass_until(SECOND / 5, "node 3 is out", |lab| !lab.is_in_sync(3));
        lab.act(node(1), |replica, context| replica.stop(context));
        lab.settle();
        nothing_is_read_that_was_replaced(&mut lab, &[2, 4]);
    }
}

/// The same, of one that dies, and is back before anybody has missed it.
#[test]
fn who_restarts_waits_for_a_reader_that_it_took_out() {
    for mut lab in in_each_phase(4) {
        for other in [1, 2, 4] {
            lab.disconnect(node(other), node(3));
        }
        lab.pass_until(SECOND / 5, "node 3 is out", |lab| !lab.is_in_sync(3));
        lab.kill(1);
        lab.start(1);
        lab.disconnect(node(1), node(3));
        nothing_is_read_that_was_replaced(&mut lab, &[1, 2, 4]);
    }
}
