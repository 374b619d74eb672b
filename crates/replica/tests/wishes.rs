//! Where a slice is to be: it gets there step by step, whoever dies meanwhile, and loses no copy on the
//! way that is not made good.

use holdfast_model::record::Membership;
use holdfast_model::{Epoch, Sequence};
use holdfast_replica::Milestone;
use holdfast_stdx::Duration;
use holdfast_wire::{JoinRequest, OutcomeCode};

use crate::lab::{Lab, SLICE, node, store};

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(30);

/// Two replicas with something in them, and a third node without.
fn two_and_one() -> Lab {
    let mut lab = Lab::new(2, 1);
    lab.add_node(3);
    for page in 0..10 {
        let outcome = lab.outcome_of_write(1, page * 64, 7);
        assert_eq!(outcome, Some(OutcomeCode::Done));
    }
    lab.pass(SECOND);
    lab
}

fn settle_as_wished(lab: &mut Lab) {
    lab.pass_until(LONG, "it is as wished", Lab::is_as_wished);
    lab.pass(2 * SECOND);
    assert!(lab.is_as_wished(), "{:?}", lab.record);
    let everybody = lab.record.replicas.iter();
    assert!(
        everybody
            .clone()
            .all(|it| it.membership == Membership::InSync),
        "{:?}",
        lab.record
    );
    for replica in everybody {
        let leader = lab.contents(lab.record.primary.0);
        assert_eq!(lab.contents(replica.node.0), leader, "{}", replica.node);
    }
}

#[test]
fn a_replica_moves_and_takes_the_lead_with_it() {
    let mut lab = two_and_one();
    lab.wish(Some((&[2, 3], 3)));
    settle_as_wished(&mut lab);
    assert!(lab.leads(3) && !lab.names(1));
    assert_eq!(lab.contents(3).len(), 10);
    assert!(lab.contents(1).is_empty(), "what nobody names is dropped");
    assert_eq!(lab.outcome_of_write(3, 0, 8), Some(OutcomeCode::Done));
}

#[test]
fn a_secondary_moves_while_the_primary_stays() {
    let mut lab = two_and_one();
    let before = lab.record.epoch.0;
    lab.wish(Some((&[1, 3], 1)));
    settle_as_wished(&mut lab);
    assert!(lab.leads(1) && lab.contents(2).is_empty());
    let changes = lab.record.epoch.0 - before;
    assert_eq!(changes, 4, "named, joined, in sync, released");
}

#[test]
fn a_dead_replica_is_rebuilt_elsewhere_and_drops_what_it_had_when_it_is_back() {
    let mut lab = two_and_one();
    lab.kill(2);
    lab.pass(SECOND);
    assert!(
        !lab.is_in_sync(2) && lab.names(2),
        "a short absence is no loss"
    );
    lab.wish(Some((&[1, 3], 1)));
    settle_as_wished(&mut lab);
    lab.start(2);
    lab.pass(SECOND);
    assert!(lab.contents(2).is_empty());
    assert!(lab.is_as_wished());
}

#[test]
fn nobody_goes_before_the_one_who_comes_is_in_sync() {
    let mut lab = two_and_one();
    lab.let_copies(3, Some(3));
    lab.wish(Some((&[2, 3], 2)));
    lab.pass(LONG);
    assert!(lab.is_in_sync(1) && lab.is_in_sync(2));
    assert!(matches!(lab.membership(3), Membership::Joining { .. }));
    lab.let_copies(3, None);
    settle_as_wished(&mut lab);
}

#[test]
fn who_is_kept_goes_when_the_control_plane_has_seen_enough() {
    let mut lab = two_and_one();
    lab.wish_keeping(Some((&[2, 3], 3)), &[1]);
    lab.pass(LONG);
    assert!(lab.is_in_sync(1) && lab.is_in_sync(3));
    assert!(lab.leads(3));
    lab.wish(Some((&[2, 3], 3)));
    settle_as_wished(&mut lab);
}

#[test]
fn who_comes_back_to_go_is_not_brought_up_to_date() {
    let mut lab = two_and_one();
    lab.kill(2);
    lab.pass(SECOND);
    lab.wish_keeping(Some((&[1, 3], 1)), &[2]);
    lab.pass(LONG);
    assert!(lab.is_in_sync(3) && lab.names(2));
    let epoch = lab.record.epoch;
    lab.start(2);
    lab.pass(LONG);
    assert_eq!(lab.record.epoch, epoch, "{:?}", lab.record);
    lab.wish(Some((&[1, 3], 1)));
    settle_as_wished(&mut lab);
    assert!(lab.contents(2).is_empty());
}

/// Whoever goes may hold what is bad elsewhere.
#[test]
fn nobody_goes_while_blocks_are_bad_where_they_are_to_stay() {
    let mut lab = two_and_one();
    lab.nodes
        .get_mut(&node(1))
        .expect("it exists")
        .world
        .bad
        .insert(0);
    lab.wish(Some((&[1, 3], 1)));
    lab.pass(LONG);
    assert!(lab.is_in_sync(2) && lab.is_in_sync(3));
    lab.write(1, 0, 1, 9);
    settle_as_wished(&mut lab);
}

/// Read leases are waited for before the change, not after it.
#[test]
fn writes_do_not_wait_for_a_replica_that_goes() {
    let mut lab = two_and_one();
    lab.pass(SECOND);
    lab.wish(Some((&[1, 3], 1)));
    let end = lab.now + LONG;
    while !lab.is_as_wished() {
        assert!(lab.now < end, "{:?}", lab.record);
        let command = lab.write(1, 0, 1, 9);
        lab.pass(Duration::from_millis(20));
        assert_eq!(lab.outcome(1, command), Some(OutcomeCode::Done));
    }
    let command = lab.write(1, 0, 1, 9);
    lab.pass(Duration::from_millis(20));
    assert_eq!(lab.outcome(1, command), Some(OutcomeCode::Done));
}

/// Whoever dies, and when: the others go on, and what is to be done is done in the end.
#[test]
fn everything_goes_on_whoever_dies_in_the_middle() {
    for dies in 1..=3 {
        for copies in [0, 1, 5, 9] {
            let mut lab = two_and_one();
            lab.let_copies(3, Some(copies));
            lab.wish(Some((&[2, 3], 3)));
            lab.pass(Duration::from_millis(500));
            lab.kill(dies);
            lab.pass(SECOND);
            lab.let_copies(3, None);
            lab.pass(SECOND);
            lab.start(dies);
            settle_as_wished(&mut lab);
            assert_eq!(lab.contents(3).len(), 10, "{dies} dies after {copies}");
            assert!(lab.contents(1).is_empty());
        }
    }
}

/// The metadata does not say how any of the changes ended.
#[test]
fn changes_of_which_nobody_hears_are_found_out() {
    for wish in [[2, 3], [1, 3]] {
        let mut lab = two_and_one();
        lab.wish(Some((&wish, 3)));
        let end = lab.now + 2 * LONG;
        while !lab.is_as_wished() {
            assert!(lab.now < end, "{:?}", lab.record);
            lab.deaf = lab.leader().map(node);
            lab.pass(Duration::from_millis(300));
            let deaf = lab.deaf.take();
            if let Some(deaf) = deaf {
                lab.tell_record(deaf.0);
            }
            lab.pass(Duration::from_millis(50));
        }
        settle_as_wished(&mut lab);
    }
}

#[test]
fn a_wish_that_cannot_be_done_leaves_the_slice_as_it_is() {
    let mut lab = two_and_one();
    lab.kill(3);
    lab.wish(Some((&[2, 3], 2)));
    lab.pass(LONG);
    assert!(!lab.names(3) && lab.is_in_sync(1) && lab.is_in_sync(2));
    assert!(lab.leads(2), "what can be done is");
    lab.start(3);
    settle_as_wished(&mut lab);
}

/// It hears of no other replica, and so nothing but the time reminds it.
#[test]
fn a_lone_primary_names_a_node_once_its_disk_is_quick() {
    let mut lab = Lab::new(2, 1);
    lab.stick_disk(2, true);
    lab.wish(Some((&[1], 1)));
    lab.pass_until(LONG, "it is released", |lab| !lab.names(2));
    lab.pass(SECOND);
    lab.wish(Some((&[1, 2], 1)));
    lab.pass(SECOND);
    assert!(!lab.names(2), "its disk has not done what it is to do");
    lab.stick_disk(2, false);
    settle_as_wished(&mut lab);
}

/// An entry that came before the copy of its blocks hides what is below it, and that is missing. So
/// nobody is in sync with it as long as another one that is may lead without it.
#[test]
fn nobody_is_in_sync_while_an_entry_that_hides_copies_may_be_given_up() {
    let mut lab = two_and_one();
    lab.stick_disk(2, true);
    lab.begin_write(1, 0, 1, 9);
    lab.wish(Some((&[1, 2, 3], 1)));
    lab.pass_until(SECOND, "one of them has to go", |lab| {
        lab.is_in_sync(3) || !lab.is_in_sync(2)
    });
    assert!(!lab.is_in_sync(2), "{:?}", lab.record);
    lab.pass_until(SECOND, "the other one is in sync", |lab| lab.is_in_sync(3));
    lab.stick_disk(2, false);
    lab.pass_until(LONG, "it has had its rest", |lab| lab.is_in_sync(2));
    settle_as_wished(&mut lab);
}

#[test]
fn a_wish_below_the_copies_that_writes_need_releases_nobody() {
    let mut lab = Lab::new(3, 2);
    lab.wish(Some((&[1], 1)));
    lab.pass(LONG);
    assert_eq!(lab.record.in_sync().count(), 3);
    lab.wish(Some((&[1, 2], 1)));
    settle_as_wished(&mut lab);
}

#[test]
fn wishes_that_make_no_sense_are_none() {
    let mut lab = two_and_one();
    let before = lab.record.epoch;
    for wish in [(&[1, 1][..], 1), (&[1, 3], 2), (&[], 1)] {
        lab.wish(Some(wish));
        lab.pass(SECOND);
        assert_eq!(lab.record.epoch, before);
    }
}

#[test]
fn a_wish_that_is_taken_back_is_undone() {
    let mut lab = two_and_one();
    lab.let_copies(3, Some(2));
    lab.wish(Some((&[2, 3], 3)));
    lab.pass(SECOND);
    assert!(lab.names(3));
    lab.wish(Some((&[1, 2], 1)));
    settle_as_wished(&mut lab);
    lab.let_copies(3, None);
    assert!(lab.contents(3).is_empty());
    // And once more, from the beginning.
    lab.wish(Some((&[2, 3], 3)));
    settle_as_wished(&mut lab);
}

#[test]
fn who_is_to_lead_changes_alone() {
    let mut lab = two_and_one();
    let before = lab.record.epoch;
    lab.wish(Some((&[1, 2], 2)));
    settle_as_wished(&mut lab);
    assert!(lab.leads(2));
    assert_eq!(lab.record.epoch, before.next(), "one change was enough");
    lab.kill(2);
    lab.pass(SECOND);
    assert!(lab.leads(1));
    lab.wish(Some((&[1, 2], 1)));
    lab.start(2);
    settle_as_wished(&mut lab);
    assert!(lab.leads(1));
}

#[test]
fn a_node_that_is_spared_leads_nothing_until_it_may_again() {
    let mut lab = Lab::new(3, 1);
    lab.spare(1, true);
    assert!(!lab.leads(1), "it hands over at once");
    let leader = lab.leader().expect("somebody leads");
    assert_eq!(lab.outcome_of_write(leader, 0, 1), Some(OutcomeCode::Done));
    lab.pass(LONG);
    assert!(!lab.leads(1));
    lab.spare(leader, true);
    assert!(lab.leader().is_some_and(|next| next != 1 && next != leader));
    lab.spare(leader, false);
    lab.spare(1, false);
    lab.pass_until(LONG, "node 1 leads again", |lab| lab.leads(1));
}

#[test]
fn a_spared_node_leads_if_nobody_else_can() {
    let mut lab = Lab::new(2, 1);
    lab.spare(1, true);
    assert!(lab.leads(2));
    lab.kill(2);
    lab.pass(3 * SECOND);
    assert!(lab.leads(1));
    assert_eq!(lab.outcome_of_write(1, 0, 1), Some(OutcomeCode::Done));
    lab.start(2);
    lab.pass_until(LONG, "node 2 leads", |lab| lab.leads(2));
}

/// A replica offers itself, is released, drops what it had, and is named again. Then its offer arrives.
#[test]
fn what_was_offered_before_it_was_dropped_does_not_count() {
    let mut lab = two_and_one();
    lab.wish(Some((&[1, 3], 1)));
    settle_as_wished(&mut lab);
    assert!(lab.contents(2).is_empty());
    lab.lost = |message| matches!(message, holdfast_wire::Message::JoinRequest(_));
    lab.wish(Some((&[1, 2, 3], 1)));
    lab.pass(SECOND);
    assert!(matches!(lab.membership(2), Membership::Absent { .. }));
    lab.lost = |_| false;
    let late = JoinRequest {
        slice: SLICE,
        store: store(2),
        stable: Sequence(1_000),
        usable: true,
        sync: Epoch::ZERO,
    };
    lab.deliver_late(2, 1, late.into());
    lab.settle();
    settle_as_wished(&mut lab);
    let joined: Vec<bool> = lab.nodes[&node(1)]
        .world
        .milestones
        .iter()
        .filter_map(|it| match it {
            Milestone::Joining { node: who, full } => (*who == node(2)).then_some(*full),
            _ => None,
        })
        .collect();
    assert_eq!(joined, [false, true], "the late offer is found out");
}
