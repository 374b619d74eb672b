//! Primaries that are lost, and who leads next.

use holdfast_model::Epoch;
use holdfast_stdx::Duration;
use holdfast_wire::{Message, OutcomeCode};

use crate::lab::{Lab, node};

const SECOND: Duration = Duration::from_secs(1);

/// So many others of a node take over that this one has to wait, or not any more.
fn crowd(lab: &mut Lab, number: u16, crowded: bool) {
    let state = lab.nodes.get_mut(&node(number)).expect("it exists");
    state.world.crowded = crowded;
    if !crowded {
        lab.act(node(number), |replica, context| {
            replica.handle_timeout(context);
        });
        lab.settle();
    }
}

/// All come back together, and the primary is lost at once: who has just started waits for others to
/// start, not for one that was there and is gone.
#[test]
fn a_primary_lost_right_after_the_start_is_missed() {
    let mut lab = Lab::new(3, 1);
    lab.stop_all();
    for number in 1..=3 {
        lab.start(number);
    }
    lab.pass_until(SECOND / 5, "node 1 leads", |lab| lab.leads(1));
    lab.kill(1);
    lab.pass_until(SECOND, "another leads", |lab| lab.leader().is_some());
}

/// The first primary is recorded, and has lost everything before the other hears of it. That one has nothing
/// but the record's word that it is in sync.
#[test]
fn a_slice_whose_first_primary_never_began_is_led_by_another() {
    let mut lab = Lab::losing(2, 1, |message| matches!(message, Message::QueryReply(_)));
    assert_eq!(lab.record.epoch, Epoch(1), "nobody has proposed anything");
    lab.deaf = Some(node(1));
    lab.lost = |_| false;
    lab.reconnect(1, 2);
    lab.settle();
    assert_eq!(lab.record.epoch, Epoch(2), "it does not know yet");
    assert!(lab.is_in_sync(2), "{:?}", lab.record);
    lab.kill(1);
    lab.lose_state(1);
    lab.deaf = None;
    lab.kill(2);
    lab.start(2);
    lab.start(1);
    lab.pass_until(10 * SECOND, "node 2 leads", |lab| lab.leads(2));
    lab.pass_until(10 * SECOND, "both are in sync", |lab| lab.is_in_sync(1));
    assert_eq!(lab.outcome_of_write(2, 0, 7), Some(OutcomeCode::Done));
}

#[test]
fn a_secondary_that_has_to_wait_stands_when_it_may() {
    let mut lab = Lab::new(2, 1);
    crowd(&mut lab, 2, true);
    lab.kill(1);
    lab.pass(3 * SECOND);
    assert_eq!(lab.leader(), None, "it waits");
    assert_eq!(lab.record.epoch, Epoch(2), "nothing has been proposed");
    crowd(&mut lab, 2, false);
    lab.pass_until(SECOND / 2, "node 2 leads", |lab| lab.leads(2));
}

#[test]
fn a_secondary_that_had_to_wait_goes_on_when_its_primary_is_back() {
    let mut lab = Lab::new(2, 2);
    crowd(&mut lab, 2, true);
    lab.disconnect(node(1), node(2));
    lab.pass(3 * SECOND);
    lab.connect(node(1), node(2));
    lab.pass(SECOND);
    crowd(&mut lab, 2, false);
    lab.pass(3 * SECOND);
    assert!(lab.leads(1) && lab.is_in_sync(2));
    assert_eq!(lab.record.epoch, Epoch(2), "nobody has taken over");
}

#[test]
fn a_former_primary_that_has_to_wait_stands_when_it_may() {
    let mut lab = Lab::new(2, 1);
    lab.write(1, 0, 1, 1);
    lab.kill(1);
    lab.kill(2);
    crowd(&mut lab, 1, true);
    lab.start(1);
    lab.pass(3 * SECOND);
    assert_eq!(lab.record.epoch, Epoch(2), "nothing has been proposed");
    crowd(&mut lab, 1, false);
    lab.pass_until(SECOND, "node 1 leads", |lab| lab.leads(1));
    assert_eq!(lab.contents(1).get(&0), Some(&1));
}

/// The primary hears, and is not heard. What it would be granted meanwhile would have to end first.
#[test]
fn who_waits_to_take_over_grants_nothing() {
    let mut lab = Lab::new(2, 2);
    crowd(&mut lab, 2, true);
    lab.cut.insert((node(1), node(2)));
    lab.pass(2 * SECOND);
    crowd(&mut lab, 2, false);
    lab.pass_until(SECOND / 4, "node 2 is to lead", |lab| {
        lab.record.primary == node(2)
    });
}

/// All come back together, one of them late, and the primary is lost: the late one is waited for.
#[test]
fn who_has_yet_to_come_back_is_waited_for_although_the_primary_is_lost() {
    let mut lab = Lab::new(3, 1);
    lab.stop_all();
    lab.start(1);
    lab.start(2);
    lab.pass(SECOND / 2);
    lab.kill(1);
    lab.pass(SECOND / 2);
    assert_eq!(lab.leader(), None, "node 3 may come back");
    lab.start(3);
    lab.pass_until(SECOND / 2, "another leads", |lab| lab.leader().is_some());
    assert!(lab.is_in_sync(2) && lab.is_in_sync(3) && !lab.is_in_sync(1));
}
