//! What replicas say of why they lead, or do not; and what others lack.

use holdfast_model::{BLOCK_SIZE, Epoch};
use holdfast_replica::Condition;
use holdfast_stdx::Duration;
use holdfast_wire::Message;

use crate::lab::{Lab, node};

const SECOND: Duration = Duration::from_secs(1);

fn condition(lab: &Lab, number: u16) -> Condition {
    lab.status(number).condition
}

#[test]
fn one_leads_and_the_others_follow() {
    let lab = Lab::new(2, 1);
    assert_eq!(condition(&lab, 1), Condition::Leads);
    assert_eq!(condition(&lab, 2), Condition::Follows(node(1)));
    assert_eq!(lab.status(1).lacking, []);
}

/// What an absent replica lacks is known before it is back, and told as long as it joins.
#[test]
fn the_primary_knows_what_an_absent_replica_lacks() {
    let mut lab = Lab::new(2, 1);
    lab.kill(2);
    lab.pass(SECOND);
    for page in 0..10 {
        lab.write(1, page * 64, 2, 7);
    }
    let lacks = |blocks: u64| vec![(node(2), Some(blocks * BLOCK_SIZE as u64))];
    assert_eq!(lab.status(1).lacking, lacks(20));
    lab.let_copies(2, Some(4));
    lab.start(2);
    lab.pass(SECOND);
    assert_eq!(lab.status(1).lacking, lacks(12));
    assert_eq!(condition(&lab, 2), Condition::Joins(node(1)));
    lab.let_copies(2, None);
    lab.pass_until(40 * SECOND, "node 2 is in sync", |lab| lab.is_in_sync(2));
    assert_eq!(lab.status(1).lacking, []);
}

/// Below the copies that writes need nobody is taken out, and whoever leads says for whom it waits.
#[test]
fn a_primary_without_enough_copies_names_who_is_lost() {
    let mut lab = Lab::new(2, 2);
    lab.kill(2);
    lab.pass(SECOND);
    assert_eq!(condition(&lab, 1), Condition::Stuck(vec![node(2)]));
    lab.start(2);
    lab.pass_until(10 * SECOND, "node 2 is back", |lab| {
        condition(lab, 1) == Condition::Leads
    });
}

/// Two of three are down, and writes need two copies: the last one leads an epoch that cannot begin.
#[test]
fn a_primary_that_cannot_begin_names_who_is_needed() {
    let mut lab = Lab::new(3, 2);
    lab.kill(1);
    lab.kill(3);
    lab.pass(5 * SECOND);
    assert!(!lab.leads(2));
    let Condition::Begins(needed) = condition(&lab, 2) else {
        panic!("it leads an epoch: {:?}", condition(&lab, 2));
    };
    assert_eq!(needed.len(), 1, "the other one was left out: {needed:?}");
}

#[test]
fn who_cannot_lead_says_why() {
    let mut lab = Lab::new(2, 1);
    // The record means the store that the second node had.
    lab.kill(2);
    lab.replace_disks(2);
    lab.let_copies(2, Some(0));
    lab.kill(1);
    lab.start(2);
    assert_eq!(condition(&lab, 2), Condition::OtherStore);
    lab.pass(5 * SECOND);
    assert_eq!(lab.leader(), None);

    let mut lab = Lab::new(2, 1);
    lab.stop_all();
    lab.spoil(2);
    lab.start(2);
    assert_eq!(condition(&lab, 2), Condition::Damaged);

    // Nobody hears what the metadata says to a proposal.
    let mut lab = Lab::new(2, 1);
    lab.metadata_away(2, true);
    lab.kill(1);
    lab.pass(3 * SECOND);
    assert_eq!(condition(&lab, 2), Condition::Proposes);
}

/// After a power loss all wait for each other for a while.
#[test]
fn a_candidate_names_who_has_not_answered() {
    let mut lab = Lab::new(2, 1);
    lab.kill(1);
    lab.kill(2);
    lab.start(1);
    lab.pass(SECOND);
    assert_eq!(condition(&lab, 1), Condition::Asks(vec![node(2)]));
    lab.pass(5 * SECOND);
    assert_eq!(condition(&lab, 1), Condition::Leads);
}

/// Nobody misses a slice yet that nobody has ever led; how long that takes is told, for it may get nowhere.
#[test]
fn who_leads_a_new_slice_first_says_for_how_long_it_is_about_to() {
    let mut lab = Lab::losing(2, 1, |message| matches!(message, Message::QueryReply(_)));
    assert_eq!(lab.record.epoch, Epoch(1), "nobody has proposed anything");
    let begun = lab.status(1).handed.expect("it is about to lead it");
    lab.pass(SECOND / 10);
    assert_eq!(lab.status(1).handed, Some(begun + SECOND / 10));
    assert_eq!(lab.status(2).handed, None);
    lab.lost = |_| false;
    lab.reconnect(1, 2);
    lab.pass_until(SECOND, "node 1 leads", |lab| lab.leads(1));
    assert_eq!(lab.status(1).handed, None, "it leads");
    lab.pass(SECOND);
    lab.kill(1);
    lab.pass_until(SECOND, "node 2 stands", |lab| {
        condition(lab, 2) != Condition::Follows(node(1))
    });
    assert_eq!(
        lab.status(2).handed,
        None,
        "whose primary is lost is missed"
    );

    // Whose primary is lost before it ever led has waited, too.
    let mut lab = Lab::losing(2, 1, |message| matches!(message, Message::QueryReply(_)));
    lab.kill(1);
    let mut stands = false;
    for _ in 0..30 {
        lab.pass(SECOND / 10);
        assert_eq!(lab.status(2).handed, None);
        stands |= condition(&lab, 2) != Condition::Follows(node(1));
    }
    assert!(stands, "{:?}", condition(&lab, 2));
}
