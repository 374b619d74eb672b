//! What a portal hears of a command that it has given up.

use holdfast_model::{CommandId, Fence, Incarnation};
use holdfast_replica::{Prospect, Terms};
use holdfast_stdx::Duration;
use holdfast_wire::{Message, OutcomeCode};

use crate::lab::{Lab, node};

const SECOND: Duration = Duration::from_secs(1);
/// After it a replica that is in sync again may be handed the lead.
const REST: Duration = Duration::from_secs(8);

fn settle(lab: &mut Lab, number: u16, command: CommandId) {
    lab.act(node(number), |replica, context| {
        replica.settle(context, command);
    });
}

fn unknown() -> CommandId {
    CommandId {
        node: 98,
        incarnation: Incarnation(1),
        number: 1,
    }
}

/// What is said of a command of which it is not known yet what it changes.
fn prospect(lab: &mut Lab, number: u16, terms: Terms) -> Prospect {
    let mut prospect = None;
    lab.act(node(number), |replica, context| {
        prospect = Some(replica.prospect(context, &terms, 512));
    });
    prospect.expect("it is there")
}

#[test]
fn what_a_command_changes_is_found_out_only_if_it_may_be_numbered() {
    let over = Prospect::Over;
    let mut lab = Lab::new(2, 1);
    let terms = lab.terms(unknown());
    assert_eq!(prospect(&mut lab, 1, terms), Prospect::Open);
    assert_eq!(prospect(&mut lab, 2, terms), over(OutcomeCode::NotPrimary));
    let late = Terms {
        expires: lab.now - SECOND,
        ..terms
    };
    assert_eq!(prospect(&mut lab, 1, late), over(OutcomeCode::Expired));
    lab.stick_disk(2, true);
    let numbered = lab.write(1, 0, 1, 7);
    let known = lab.terms(numbered);
    assert_eq!(prospect(&mut lab, 1, known), Prospect::UnderWay);
    settle(&mut lab, 1, unknown());
    assert_eq!(prospect(&mut lab, 1, terms), over(OutcomeCode::Expired));
    lab.stick_disk(2, false);
    lab.settle();
    assert_eq!(prospect(&mut lab, 1, known), over(OutcomeCode::Done));
    lab.act(node(1), |replica, context| {
        replica.raise_fence(context, Fence(1));
    });
    let fenced = lab.terms(CommandId {
        number: 2,
        ..unknown()
    });
    assert_eq!(prospect(&mut lab, 1, fenced), over(OutcomeCode::Fenced));
    lab.kill(2);
    let repeated = Terms {
        repeated: true,
        ..lab.terms(unknown())
    };
    lab.pass(SECOND);
    lab.stop_all();
    lab.start(1);
    lab.pass(5 * SECOND / 2);
    assert!(lab.leads(1));
    let again = Terms {
        expires: lab.now + SECOND,
        ..repeated
    };
    assert_eq!(prospect(&mut lab, 1, again), over(OutcomeCode::NotReady));
}

/// What a portal sends once more after a death does not wait because the volume is new.
#[test]
fn whoever_was_there_from_the_first_write_on_knows_what_was_numbered() {
    let mut lab = Lab::losing(2, 1, |_| false);
    lab.pass_until(SECOND, "node 1 leads", |lab| lab.leads(1));
    let numbered = lab.write(1, 0, 1, 7);
    lab.kill(1);
    lab.pass_until(SECOND, "node 2 leads", |lab| lab.leads(2));
    let repeated = |terms| Terms {
        repeated: true,
        ..terms
    };
    let known = repeated(lab.terms(numbered));
    assert_eq!(
        prospect(&mut lab, 2, known),
        Prospect::Over(OutcomeCode::Done)
    );
    let other = repeated(lab.terms(unknown()));
    assert_eq!(prospect(&mut lab, 2, other), Prospect::Open);
    lab.kill(2);
    lab.start(2);
    lab.pass_until(SECOND, "node 2 leads again", |lab| lab.leads(2));
    let other = repeated(lab.terms(unknown()));
    assert_eq!(
        prospect(&mut lab, 2, other),
        Prospect::Over(OutcomeCode::NotReady),
        "it may have been sent all ids for a moment only"
    );
}

/// A copy that was sent once more must not have a second life beside the first one.
#[test]
fn what_waits_to_be_numbered_is_under_way() {
    let mut lab = Lab::losing(2, 1, |message| matches!(message, Message::Reserved(_)));
    // It knows what its predecessor may have numbered.
    lab.pass(4 * SECOND);
    let command = lab.write(1, 0, 1, 7);
    assert_eq!(
        lab.outcome(1, command),
        None,
        "nobody says that it has room"
    );
    let again = Terms {
        repeated: true,
        ..lab.terms(command)
    };
    assert_eq!(prospect(&mut lab, 1, again), Prospect::UnderWay);
}

#[test]
fn a_command_that_is_committed_is_done() {
    let mut lab = Lab::new(2, 1);
    let command = lab.write(1, 0, 1, 7);
    assert_eq!(lab.outcome(1, command), Some(OutcomeCode::Done));
    settle(&mut lab, 1, command);
    assert_eq!(lab.outcome(1, command), Some(OutcomeCode::Done));
}

#[test]
fn a_command_that_is_numbered_is_told_of_when_it_is_committed() {
    let mut lab = Lab::new(2, 1);
    lab.stick_disk(2, true);
    let first = lab.write(1, 0, 1, 7);
    let command = lab.write(1, 0, 1, 8);
    settle(&mut lab, 1, command);
    settle(&mut lab, 1, unknown());
    lab.settle();
    assert_eq!(lab.outcome(1, command), None);
    assert_eq!(
        lab.outcome(1, unknown()),
        None,
        "what was before it is not over"
    );
    lab.stick_disk(2, false);
    lab.settle();
    assert_eq!(lab.outcome(1, first), Some(OutcomeCode::Done));
    assert_eq!(lab.outcome(1, command), Some(OutcomeCode::Done));
    assert_eq!(lab.outcome(1, unknown()), Some(OutcomeCode::Expired));
}

#[test]
fn a_command_that_waits_for_room_is_never_numbered() {
    let mut lab = Lab::new(2, 1);
    lab.cut.insert((node(2), node(1)));
    let command = lab.begin_write(1, 64, 1, 7);
    lab.settle();
    settle(&mut lab, 1, command);
    lab.cut.clear();
    lab.settle();
    assert_eq!(lab.outcome(1, command), Some(OutcomeCode::Expired));
    lab.pass(Duration::from_millis(300));
    assert_eq!(lab.outcome(1, command), None, "it is told once");
    assert!(lab.contents(1).is_empty());
}

#[test]
fn a_write_that_waits_for_room_does_not_wait_for_ever() {
    let mut lab = Lab::new(2, 2);
    lab.lost = |message| matches!(message, Message::Reserved(_));
    let command = lab.begin_write(1, 64, 1, 7);
    lab.pass(Duration::from_millis(1100));
    assert_eq!(lab.outcome(1, command), Some(OutcomeCode::Expired));
}

#[test]
fn whoever_has_lost_the_lease_cannot_tell() {
    let mut lab = Lab::new(2, 2);
    lab.cut.insert((node(2), node(1)));
    lab.pass(Duration::from_millis(450));
    settle(&mut lab, 1, unknown());
    assert_eq!(lab.outcome(1, unknown()), Some(OutcomeCode::NotPrimary));
}

#[test]
fn the_next_primary_tells_what_became_of_a_command() {
    let mut lab = Lab::new(2, 1);
    let other = lab.write(1, 0, 1, 1);
    assert_eq!(lab.outcome(1, other), Some(OutcomeCode::Done));
    // It reaches the other node's journal; the answer is lost with the primary.
    lab.cut.insert((node(2), node(1)));
    let command = lab.write(1, 0, 1, 7);
    lab.kill(1);
    lab.cut.clear();
    lab.pass(Duration::from_secs(2));
    assert!(lab.leads(2));
    settle(&mut lab, 2, command);
    settle(&mut lab, 2, unknown());
    assert_eq!(lab.outcome(2, command), Some(OutcomeCode::Done));
    assert_eq!(lab.outcome(2, unknown()), Some(OutcomeCode::Expired));
    assert_eq!(lab.contents(2).get(&0), Some(&7));
}

#[test]
fn a_primary_that_is_deposed_says_that_it_cannot_know() {
    let mut lab = Lab::new(2, 1);
    lab.write(1, 0, 1, 1);
    for way in [(node(1), node(2)), (node(2), node(1))] {
        lab.cut.insert(way);
    }
    let command = lab.write(1, 0, 1, 7);
    // The metadata answers the other one only.
    let state = lab.nodes.get_mut(&node(1)).expect("it exists");
    state.world.metadata_away = true;
    lab.pass(Duration::from_secs(2));
    assert!(lab.leads(2));
    assert_eq!(lab.outcome(1, command), None);
    let record = lab.record.clone();
    lab.act(node(1), |replica, context| {
        replica.handle_record(context, Some(record), true);
    });
    assert_eq!(lab.outcome(1, command), Some(OutcomeCode::Deposed));
}

/// An heir keeps what it is given until it leads. A portal that gives the command up before that hears that this replica cannot
/// tell, and takes the command for one that nobody has: it must not be numbered afterwards.
#[test]
fn a_command_that_came_early_is_never_numbered() {
    let mut lab = Lab::new(2, 1);
    lab.kill(1);
    lab.pass(2 * SECOND);
    lab.start(1);
    lab.pass_until(2 * SECOND, "node 1 is in sync", |lab| lab.is_in_sync(1));
    lab.deaf = Some(node(2));
    lab.pass_until(REST, "it is agreed", |lab| lab.record.primary == node(1));
    let early = lab.begin_write(1, 2, 1, 5);
    lab.settle();
    settle(&mut lab, 1, early);
    assert_eq!(lab.outcome(1, early), Some(OutcomeCode::NotPrimary));
    lab.deaf = None;
    lab.tell_record(2);
    assert!(lab.leads(1), "without time passing");
    lab.settle();
    assert_eq!(lab.contents(1).get(&2), None, "it was given up");
}
