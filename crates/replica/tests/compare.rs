//! Changes that depend on what is there: compared and set in one step, at most once, and answered only
//! from what is committed.

use holdfast_model::{BLOCK_SIZE, CommandId, Incarnation};
use holdfast_replica::{Operation, Terms, WriteKind};
use holdfast_stdx::{Bytes, Duration};
use holdfast_wire::OutcomeCode;

use crate::lab::{Lab, node};

const SECOND: Duration = Duration::from_secs(1);
const BLOCK: u64 = BLOCK_SIZE as u64;
const AT_ONCE: OutcomeCode = OutcomeCode::Miscompare { position: 0 };

fn command(number: u64) -> CommandId {
    CommandId {
        node: 97,
        incarnation: Incarnation(1),
        number,
    }
}

fn block_of(value: u8) -> Bytes {
    Bytes::from(vec![value; BLOCK_SIZE])
}

/// Writes `new` into a block if it holds `old`.
fn swap(block: u32, old: u8, new: u8) -> WriteKind {
    WriteKind::CompareAndWrite {
        offset: u64::from(block) * BLOCK,
        expected: block_of(old),
        data: block_of(new),
    }
}

fn or(block: u32, bits: u8) -> WriteKind {
    WriteKind::Or {
        offset: u64::from(block) * BLOCK,
        data: block_of(bits),
    }
}

/// Gives a command to a node; what comes of it waits for [`Lab::settle`].
fn begin(lab: &mut Lab, number: u16, command: CommandId, repeated: bool, kind: WriteKind) {
    let operation = Operation {
        terms: Terms {
            repeated,
            ..lab.terms(command)
        },
        kind,
    };
    lab.act(node(number), |replica, context| {
        replica.submit(context, operation);
    });
}

fn run(lab: &mut Lab, command: CommandId, kind: WriteKind) -> Option<OutcomeCode> {
    begin(lab, 1, command, false, kind);
    lab.settle();
    lab.outcome(1, command)
}

#[test]
fn what_is_as_expected_is_replaced_and_what_is_not_stays() {
    let mut lab = Lab::new(2, 1);
    assert_eq!(
        run(&mut lab, command(1), swap(0, 0, 7)),
        Some(OutcomeCode::Done)
    );
    assert_eq!(run(&mut lab, command(2), swap(0, 0, 8)), Some(AT_ONCE));
    assert_eq!(
        run(&mut lab, command(3), swap(0, 7, 9)),
        Some(OutcomeCode::Done)
    );
    lab.tell_committed();
    for number in [1, 2] {
        assert_eq!(lab.contents(number).get(&0), Some(&9));
    }
}

#[test]
fn of_two_at_once_one_wins() {
    let mut lab = Lab::new(3, 1);
    begin(&mut lab, 1, command(1), false, swap(5, 0, 1));
    begin(&mut lab, 1, command(2), false, swap(5, 0, 2));
    begin(&mut lab, 1, command(3), false, swap(6, 0, 3));
    lab.settle();
    assert_eq!(lab.outcome(1, command(1)), Some(OutcomeCode::Done));
    assert_eq!(lab.outcome(1, command(2)), Some(AT_ONCE));
    assert_eq!(lab.outcome(1, command(3)), Some(OutcomeCode::Done));
    lab.tell_committed();
    assert_eq!(lab.contents(2).get(&5), Some(&1));
}

/// The ids in the log say that it was done; what is there now does not.
#[test]
fn what_was_done_and_is_repeated_is_done() {
    let mut lab = Lab::new(2, 1);
    assert_eq!(
        run(&mut lab, command(1), swap(0, 0, 7)),
        Some(OutcomeCode::Done)
    );
    begin(&mut lab, 1, command(1), true, swap(0, 0, 7));
    lab.settle();
    assert_eq!(lab.outcome(1, command(1)), Some(OutcomeCode::Done));
    assert_eq!(lab.contents(1).get(&0), Some(&7));
}

#[test]
fn a_primary_dies_between_numbering_and_answer() {
    let mut lab = Lab::new(2, 1);
    lab.write(1, 0, 1, 1);
    // It reaches the other node's journal; the answer is lost with the primary.
    lab.cut.insert((node(2), node(1)));
    begin(&mut lab, 1, command(1), false, swap(0, 1, 7));
    begin(&mut lab, 1, command(2), false, swap(0, 1, 8));
    lab.settle();
    assert_eq!(lab.outcome(1, command(1)), None);
    assert_eq!(
        lab.outcome(1, command(2)),
        None,
        "what it found is not committed"
    );
    lab.kill(1);
    lab.cut.clear();
    lab.pass(2 * SECOND);
    assert!(lab.leads(2));
    begin(&mut lab, 2, command(1), true, swap(0, 1, 7));
    begin(&mut lab, 2, command(2), true, swap(0, 1, 8));
    lab.settle();
    assert_eq!(lab.outcome(2, command(1)), Some(OutcomeCode::Done));
    assert_eq!(lab.outcome(2, command(2)), Some(AT_ONCE));
    assert_eq!(lab.contents(2).get(&0), Some(&7));
}

#[test]
fn a_mismatch_is_told_when_what_was_compared_with_is_committed() {
    let mut lab = Lab::new(2, 1);
    lab.write(1, 0, 1, 1);
    lab.stick_disk(2, true);
    let write = lab.write(1, 0, 1, 2);
    begin(&mut lab, 1, command(1), false, swap(0, 1, 3));
    // The newest version counts, committed or not.
    begin(&mut lab, 1, command(2), false, swap(0, 2, 4));
    lab.settle();
    for waiting in [write, command(1), command(2)] {
        assert_eq!(lab.outcome(1, waiting), None);
    }
    // Over another link: it is answered once.
    begin(&mut lab, 1, command(1), false, swap(0, 1, 3));
    lab.stick_disk(2, false);
    lab.settle();
    assert_eq!(lab.outcome(1, write), Some(OutcomeCode::Done));
    assert_eq!(lab.outcome(1, command(1)), Some(AT_ONCE));
    assert_eq!(lab.outcome(1, command(1)), None);
    assert_eq!(lab.outcome(1, command(2)), Some(OutcomeCode::Done));
    lab.tell_committed();
    assert_eq!(lab.contents(2).get(&0), Some(&4));
}

/// Another may lead by now, and have written what was expected.
#[test]
fn whoever_has_lost_the_lease_tells_of_no_mismatch() {
    let mut lab = Lab::new(2, 1);
    lab.write(1, 0, 1, 1);
    lab.cut.insert((node(2), node(1)));
    lab.pass_until(SECOND, "the lease ends", |lab| !lab.reads(1));
    assert!(lab.leads(1));
    begin(&mut lab, 1, command(1), false, swap(0, 9, 3));
    lab.settle();
    assert_eq!(lab.outcome(1, command(1)), Some(OutcomeCode::NotPrimary));
}

#[test]
fn a_mismatch_that_is_given_up_is_told_once_as_not_done() {
    let mut lab = Lab::new(2, 1);
    lab.stick_disk(2, true);
    lab.write(1, 0, 1, 2);
    begin(&mut lab, 1, command(1), false, swap(0, 1, 3));
    lab.settle();
    lab.act(node(1), |replica, context| {
        replica.settle(context, command(1));
    });
    lab.stick_disk(2, false);
    lab.settle();
    assert_eq!(lab.outcome(1, command(1)), Some(OutcomeCode::Expired));
    assert_eq!(lab.outcome(1, command(1)), None);
}

#[test]
fn a_primary_that_is_deposed_leaves_a_mismatch_to_the_next() {
    let mut lab = Lab::new(2, 1);
    lab.write(1, 0, 1, 1);
    for way in [(node(1), node(2)), (node(2), node(1))] {
        lab.cut.insert(way);
    }
    lab.write(1, 0, 1, 7);
    begin(&mut lab, 1, command(1), false, swap(0, 1, 3));
    lab.settle();
    let state = lab.nodes.get_mut(&node(1)).expect("it exists");
    state.world.metadata_away = true;
    lab.pass(2 * SECOND);
    assert!(lab.leads(2));
    assert_eq!(lab.outcome(1, command(1)), None);
    let record = lab.record.clone();
    lab.act(node(1), |replica, context| {
        replica.handle_record(context, Some(record), true);
    });
    assert_eq!(lab.outcome(1, command(1)), Some(OutcomeCode::NotPrimary));
    // The write that it found never was: the next one finds what is.
    begin(&mut lab, 2, command(1), false, swap(0, 1, 3));
    lab.settle();
    assert_eq!(lab.outcome(2, command(1)), Some(OutcomeCode::Done));
}

#[test]
fn bits_that_are_set_at_once_are_all_set() {
    let mut lab = Lab::new(2, 1);
    for bit in 0..8 {
        begin(&mut lab, 1, command(bit), false, or(3, 1 << bit));
    }
    lab.settle();
    for bit in 0..8 {
        assert_eq!(lab.outcome(1, command(bit)), Some(OutcomeCode::Done));
    }
    lab.tell_committed();
    for number in [1, 2] {
        assert_eq!(lab.contents(number).get(&3), Some(&0xFF));
    }
}

#[test]
fn what_cannot_be_read_is_not_compared() {
    let mut lab = Lab::new(1, 1);
    lab.write(1, 0, 1, 1);
    lab.pass(SECOND);
    let state = lab.nodes.get_mut(&node(1)).expect("it exists");
    state.world.bad.insert(0);
    for (number, kind) in [(1, swap(0, 1, 2)), (2, or(0, 2))] {
        let outcome = run(&mut lab, command(number), kind);
        assert_eq!(outcome, Some(OutcomeCode::MediumError));
    }
    // What touches it afterwards is not held up.
    let write = lab.write(1, 0, 1, 3);
    assert_eq!(lab.outcome(1, write), Some(OutcomeCode::Done));
}
