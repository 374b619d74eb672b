//! Copies that come from another replica than the primary.

use holdfast_model::BLOCK_SIZE;
use holdfast_stdx::Duration;
use holdfast_wire::Message;

use crate::lab::{Lab, node};

const SECOND: Duration = Duration::from_secs(1);
const BLOCK: u64 = BLOCK_SIZE as u64;
const LONG: Duration = Duration::from_secs(40);
const PAGES: u32 = 40;

/// Far more than are on their way at a time.
const MANY: u32 = 200;

fn copies_from(lab: &Lab, number: u16) -> u32 {
    lab.copies_from.get(&node(number)).copied().unwrap_or(0)
}

#[test]
fn a_secondary_copies_rather_than_the_primary() {
    let mut lab = Lab::apart(3, PAGES);
    lab.start(3);
    lab.join_fully(3);
    assert_eq!((copies_from(&lab, 1), copies_from(&lab, 2)), (0, PAGES));
    assert_eq!(lab.copied_bytes(), u64::from(PAGES) * BLOCK);
}

#[test]
fn secondaries_share_what_is_to_be_copied() {
    let mut lab = Lab::new(4, 1);
    lab.kill(3);
    lab.pass(SECOND);
    for page in 0..PAGES {
        lab.write(1, page * 64, 1, 7);
    }
    lab.start(3);
    lab.join_fully(3);
    assert_eq!(copies_from(&lab, 1), 0);
    assert_eq!(copies_from(&lab, 2) + copies_from(&lab, 4), PAGES);
    assert!(copies_from(&lab, 2).abs_diff(copies_from(&lab, 4)) < PAGES / 4);
}

#[test]
fn what_a_secondary_cannot_send_comes_from_the_primary() {
    let mut lab = Lab::apart(3, PAGES);
    lab.start(3);
    lab.let_copies(3, Some(0));
    lab.disconnect(node(2), node(3));
    lab.join_fully(3);
    assert_eq!(copies_from(&lab, 1), PAGES);
}

/// What was on its way over the link is sent again, by the primary.
#[test]
fn a_link_from_the_secondary_that_breaks_is_noticed() {
    let mut lab = Lab::apart(3, PAGES);
    lab.let_copies(3, Some(10));
    lab.start(3);
    lab.pass(Duration::from_millis(400));
    assert_eq!(copies_from(&lab, 2), 10);
    lab.disconnect(node(2), node(3));
    lab.settle();
    lab.connect(node(2), node(3));
    lab.join_fully(3);
    assert!(copies_from(&lab, 1) > 0, "{:?}", lab.copies_from);
    let copied = copies_from(&lab, 1) + copies_from(&lab, 2);
    assert_eq!(copied, PAGES, "nothing twice: {:?}", lab.copies_from);
}

#[test]
fn a_secondary_that_dies_is_done_without() {
    let mut lab = Lab::apart(3, PAGES);
    lab.let_copies(3, Some(10));
    lab.start(3);
    lab.pass(Duration::from_millis(400));
    lab.kill(2);
    lab.let_copies(3, None);
    lab.pass_until(LONG, "node 3 is in sync", |lab| lab.is_in_sync(3));
    assert_eq!(lab.contents(1), lab.contents(3));
}

/// The primary may have good ones.
#[test]
fn blocks_that_are_bad_at_the_secondary_come_from_the_primary() {
    let mut lab = Lab::apart(3, PAGES);
    let source = lab.nodes.get_mut(&node(2)).expect("it exists");
    source.world.bad.extend([0, 64, 128]);
    lab.start(3);
    lab.let_copies(3, None);
    lab.pass_until(LONG, "node 3 is in sync", |lab| lab.is_in_sync(3));
    assert_eq!(lab.contents(1), lab.contents(3));
    assert!(lab.nodes[&node(3)].world.bad.is_empty());
    assert_eq!((copies_from(&lab, 1), copies_from(&lab, 2)), (3, PAGES - 3));
}

/// Hosts come first there as well.
#[test]
fn a_secondary_copies_when_it_may() {
    let mut lab = Lab::apart(3, PAGES);
    lab.hold_background(2, true);
    lab.start(3);
    lab.pass(LONG);
    assert!(!lab.is_in_sync(3) && lab.copied_bytes() == 0);
    lab.hold_background(2, false);
    lab.join_fully(3);
    assert_eq!(copies_from(&lab, 2), PAGES);
}

#[test]
fn who_speaks_an_older_version_is_not_asked() {
    for old in 2..=3 {
        let mut lab = Lab::apart(3, PAGES);
        for number in [1, 2, 3] {
            lab.disconnect(node(number), node(number % 3 + 1));
        }
        lab.nodes.get_mut(&node(old)).expect("it exists").version = 3;
        lab.connect_if_apart(1, 2);
        lab.start(3);
        lab.join_fully(3);
        assert_eq!(copies_from(&lab, 1), PAGES, "node {old} is old");
    }
}

/// A copy is as of a point before the joining replica began anew: what was written in between is not in it,
/// and does not come as an entry either.
#[test]
fn a_copy_that_comes_too_late_is_not_taken() {
    let mut lab = Lab::apart(3, PAGES);
    lab.let_copies(3, Some(0));
    lab.start(3);
    lab.pass(Duration::from_millis(400));
    let late = lab.take_held_copies();
    assert!(!late.is_empty(), "copies are on their way");
    let epoch = lab.record.epoch;
    lab.disconnect(node(1), node(3));
    lab.write(1, 0, 1, 99);
    lab.let_copies(3, Some(10));
    lab.connect(node(1), node(3));
    lab.pass(Duration::from_millis(400));
    assert_eq!(lab.contents(3).get(&0), Some(&99), "it is copied anew");
    assert_eq!(
        lab.record.epoch, epoch,
        "it goes on joining in the same epoch"
    );
    for (from, to, copy) in late {
        assert!(matches!(copy, Message::Copy(_)) && from == node(2));
        lab.act(to, |replica, context| {
            replica.handle_message(context, from, &copy);
        });
    }
    lab.settle();
    lab.join_fully(3);
    assert_eq!(lab.contents(3)[&0], 99);
}

/// Only replicas that are in sync have anything to give.
#[test]
fn copies_of_strangers_are_not_taken() {
    let mut lab = Lab::apart(3, PAGES);
    lab.add_node(4);
    lab.let_copies(3, Some(0));
    lab.start(3);
    lab.pass(Duration::from_millis(400));
    let held = lab.take_held_copies();
    for (_, to, copy) in held {
        lab.act(to, |replica, context| {
            replica.handle_message(context, node(4), &copy);
        });
    }
    lab.settle();
    assert!(lab.contents(3).is_empty());
}

/// Two copies are needed. The secondary was asked to copy to the third replica, and then its disk ends nothing any
/// more, or has failed: the primary cannot take it out before the third is in sync.
#[test]
fn a_secondary_that_falls_silent_is_not_waited_for() {
    for fails in [false, true] {
        let mut lab = Lab::new(3, 2);
        lab.kill(3);
        lab.pass(SECOND);
        for page in 0..PAGES {
            lab.write(1, page * 64, 1, 1 + page as u8);
        }
        let hold = |lab: &mut Lab, is_held| {
            for number in [1, 2] {
                lab.hold_background(number, is_held);
            }
        };
        hold(&mut lab, true);
        lab.start(3);
        lab.pass(Duration::from_millis(400));
        if fails {
            lab.act(node(2), |replica, context| replica.handle_failure(context));
            lab.settle();
            // Nothing is asked of it any more, and nothing ends there; the link stays up.
            lab.cut.insert((node(1), node(2)));
            lab.cut.insert((node(2), node(1)));
        }
        lab.stick_disk(2, true);
        lab.write(1, 0, 1, 200);
        lab.pass(SECOND);
        hold(&mut lab, false);
        lab.pass_until(LONG, "node 3 takes the place of node 2", |lab| {
            lab.is_in_sync(3) && !lab.is_in_sync(2)
        });
    }
}

/// The secondary's journal works, so that nobody takes it out.
#[test]
fn a_secondary_whose_reads_hang_is_not_waited_for() {
    let mut lab = Lab::apart(3, MANY);
    lab.hang_reads(2, true);
    lab.start(3);
    lab.pass(SECOND);
    lab.write(1, 64 * 64, 1, 99);
    lab.let_copies(3, None);
    lab.pass_until(8 * SECOND, "node 3 is in sync", |lab| lab.is_in_sync(3));
    assert!(lab.is_in_sync(2), "it does all that it must");
    assert_eq!((copies_from(&lab, 1), copies_from(&lab, 2)), (MANY, 0));
    assert_eq!(lab.contents(1), lab.contents(3));
    lab.hang_reads(2, false);
    lab.pass(SECOND);
    assert_eq!(copies_from(&lab, 2), 0, "what it gave up it does not send");
}

/// Nothing is read for the primary on top of what hangs, and it need not wait to hear of that.
#[test]
fn a_secondary_whose_reads_hang_says_so_at_once() {
    let mut lab = Lab::apart(3, MANY);
    lab.hang_reads(2, true);
    lab.hold_background(1, true);
    lab.start(3);
    lab.pass(20 * SECOND);
    let reads = lab.nodes[&node(2)].world.reads.len();
    assert!(reads <= 32, "{reads} reads hang");
    assert!(lab.asked_to_copy[&node(2)] > 32, "it is asked again");
    lab.hang_reads(2, false);
    lab.pass(15 * SECOND);
    assert!(copies_from(&lab, 2) >= MANY - 40, "{:?}", lab.copies_from);
    lab.hold_background(1, false);
    lab.join_fully(3);
    let copied = copies_from(&lab, 1) + copies_from(&lab, 2);
    assert_eq!(copied, MANY, "nothing twice: {:?}", lab.copies_from);
}

/// It has no link to the third replica: it is asked for the first pages, and then left aside.
#[test]
fn a_secondary_that_sends_nothing_is_left_aside() {
    let mut lab = Lab::apart(3, MANY);
    lab.start(3);
    lab.let_copies(3, Some(0));
    lab.disconnect(node(2), node(3));
    lab.join_fully(3);
    assert_eq!(copies_from(&lab, 1), MANY);
    let asked = lab.asked_to_copy[&node(2)];
    assert!(asked <= 32, "it is asked for {asked} pages");
}
