//! Who has lost the right to write has nothing written any more.

use holdfast_model::{Epoch, Fence};
use holdfast_replica::FenceState;
use holdfast_stdx::Duration;
use holdfast_wire::OutcomeCode;

use crate::lab::{Lab, node};

fn raise(lab: &mut Lab, number: u16, fence: u64) {
    lab.act(node(number), |replica, context| {
        replica.raise_fence(context, Fence(fence));
    });
}

/// The epoch in which a node says that it leads, and goes by its fence.
fn goes_by(lab: &mut Lab, number: u16) -> Option<Epoch> {
    let mut state = FenceState::Follows;
    lab.act(node(number), |replica, context| {
        state = replica.fence_state(context);
    });
    match state {
        FenceState::Clear(epoch) => Some(epoch),
        FenceState::Follows | FenceState::Draining => None,
    }
}

#[test]
fn what_an_older_access_permits_is_not_done() {
    let mut lab = Lab::new(2, 1);
    raise(&mut lab, 1, 2);
    let old = lab.write(1, 0, 1, 7);
    assert_eq!(lab.outcome(1, old), Some(OutcomeCode::Fenced));
    for fence in [2, 3] {
        lab.fence = Fence(fence);
        let command = lab.write(1, 1, 1, 7);
        assert_eq!(lab.outcome(1, command), Some(OutcomeCode::Done));
    }
    raise(&mut lab, 1, 1);
    lab.fence = Fence(1);
    let old = lab.write(1, 0, 1, 7);
    assert_eq!(
        lab.outcome(1, old),
        Some(OutcomeCode::Fenced),
        "it never falls"
    );
    assert_eq!(lab.contents(1).get(&0), None);
}

#[test]
fn a_primary_goes_by_it_when_all_that_it_had_numbered_is_committed() {
    let mut lab = Lab::new(2, 1);
    let epoch = lab.record.epoch;
    assert_eq!(goes_by(&mut lab, 1), Some(epoch));
    lab.stick_disk(2, true);
    let numbered = lab.write(1, 0, 1, 7);
    raise(&mut lab, 1, 1);
    assert_eq!(goes_by(&mut lab, 1), None);
    lab.fence = Fence(1);
    let newer = lab.write(1, 1, 1, 8);
    lab.stick_disk(2, false);
    lab.settle();
    assert_eq!(lab.outcome(1, numbered), Some(OutcomeCode::Done));
    assert_eq!(lab.outcome(1, newer), Some(OutcomeCode::Done));
    assert_eq!(goes_by(&mut lab, 1), Some(epoch));
    assert_eq!(goes_by(&mut lab, 2), None, "it does not lead");
}

/// What it waits for would be done after somebody was told that it is not.
#[test]
fn a_write_that_waits_for_room_is_not_numbered() {
    let mut lab = Lab::new(2, 1);
    lab.cut.insert((node(2), node(1)));
    let command = lab.begin_write(1, 64, 1, 7);
    lab.settle();
    raise(&mut lab, 1, 1);
    assert_eq!(lab.outcome(1, command), Some(OutcomeCode::Fenced));
    lab.cut.clear();
    lab.settle();
    assert!(lab.contents(1).is_empty());
}

/// It is in the journal of the node that leads next, which commits it before it serves anything.
#[test]
fn the_next_primary_goes_by_it_once_it_serves() {
    let mut lab = Lab::new(2, 1);
    lab.write(1, 0, 1, 1);
    lab.cut.insert((node(2), node(1)));
    lab.write(1, 0, 1, 7);
    raise(&mut lab, 2, 1);
    lab.kill(1);
    lab.cut.clear();
    assert_eq!(goes_by(&mut lab, 2), None);
    lab.pass_until(Duration::from_secs(2), "node 2 leads", |lab| lab.leads(2));
    let epoch = lab.record.epoch;
    assert_eq!(goes_by(&mut lab, 2), Some(epoch));
    assert_eq!(lab.contents(2).get(&0), Some(&7));
    let old = lab.write(2, 1, 1, 7);
    assert_eq!(lab.outcome(2, old), Some(OutcomeCode::Fenced));
}
