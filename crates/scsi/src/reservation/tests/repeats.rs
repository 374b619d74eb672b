//! Commands that are known again.

use holdfast_model::record::ReservationKind as Kind;

use super::bench::*;
use crate::reservation::is_repeat;

const RO: Kind = Kind::WriteExclusiveRegistrantsOnly;

/// Whether `out`, sent by a nexus now, would be a repetition.
fn repeats(world: &World, nexus: &holdfast_model::record::AccessNexus, out: &Out) -> bool {
    is_repeat(
        &world.record,
        nexus,
        &out.request().expect("it is well formed"),
    )
}

/// Registered: both of a's nexuses, and b's.
fn world() -> World {
    World::registered(&[(a1(), 4), (a2(), 4), (b1(), 5)])
}

#[test]
fn a_registration_is_repeated_on_its_own_nexus_alone() {
    for (known, key, action_key) in [(0, 0, 4), (4, 4, 6), (4, 4, 0)] {
        let mut world = World::registered(&[(b1(), 5)]);
        if known != 0 {
            world.good(&a1(), &out(REGISTER, 0, known));
            world.good(&a2(), &out(REGISTER, 0, known));
        }
        let command = out(REGISTER, key, action_key);
        assert!(!repeats(&world, &a1(), &command), "it was never sent");
        world.good(&a1(), &command);
        world.conflict(&a1(), &command);
        assert!(repeats(&world, &a1(), &command));
        // The host has it done on each of its paths: this one is not done yet.
        assert!(!repeats(&world, &a2(), &command));
        world.good(&a2(), &command);
        // By now it is not the newest change any more.
        assert!(!repeats(&world, &a1(), &command));
        assert!(!repeats(&world, &b1(), &command));
    }
}

#[test]
fn with_all_target_ports_on_each_of_them() {
    let mut world = World::registered(&[(b1(), 5)]);
    let command = out(REGISTER, 0, 4).with(ALL_TG_PT);
    world.good(&a1(), &command);
    world.conflict(&a2(), &command);
    assert!(repeats(&world, &a2(), &command));
    let mut other_session = a2();
    other_session.isid.0[0] = 1;
    assert!(!repeats(&world, &other_session, &command));
    assert!(!repeats(&world, &b1(), &command));
}

#[test]
fn what_does_no_harm_twice_is_done_twice() {
    let mut world = world();
    for command in [out(REGISTER_AND_IGNORE, 0, 4), out(RELEASE, 4, 0).of(RO)] {
        world.good(&a1(), &out(REGISTER_AND_IGNORE, 0, 4));
        world.run(&a1(), &out(RESERVE, 4, 0).of(RO));
        world.good(&a1(), &command);
        assert!(!repeats(&world, &a1(), &command));
        world.good(&a1(), &command);
    }
}

#[test]
fn a_reservation_on_another_path() {
    for kind in KINDS {
        let mut world = world();
        let command = out(RESERVE, 4, 0).of(kind);
        world.good(&a1(), &command);
        assert!(repeats(&world, &a1(), &command));
        // Who is registered has what the command asked for, if the type is for such.
        let expected = crate::reservation::kind::admits_registrants(kind);
        assert_eq!(repeats(&world, &a2(), &command), expected, "{kind:?}");
        assert!(!repeats(&world, &nexus("a", 3), &command), "not registered");
        assert!(!repeats(&world, &b1(), &command));
        assert!(!repeats(&world, &a1(), &out(RESERVE, 5, 0).of(kind)));
        // After whatever else was done, it is not known any more.
        world.good(&b1(), &out(REGISTER, 5, 6));
        assert!(!repeats(&world, &a1(), &command));
    }
}

#[test]
fn what_was_preempted_is_preempted() {
    for action in [PREEMPT, PREEMPT_AND_ABORT] {
        let mut world = world();
        world.good(&b1(), &out(RESERVE, 5, 0).of(RO));
        let command = out(action, 4, 5).of(RO);
        world.good(&a1(), &command);
        world.conflict(&a2(), &command);
        assert!(repeats(&world, &a1(), &command));
        assert!(repeats(&world, &a2(), &command));
        assert!(!repeats(&world, &b1(), &command));
        let other = PREEMPT + PREEMPT_AND_ABORT - action;
        assert!(!repeats(&world, &a1(), &out(other, 4, 5).of(RO)));
        assert!(!repeats(
            &world,
            &a1(),
            &out(action, 4, 5).of(Kind::WriteExclusive)
        ));
        // The other path has no access then.
        let mut world = self::world();
        world.good(&b1(), &out(RESERVE, 5, 0).of(RO));
        let command = out(action, 4, 5).of(Kind::ExclusiveAccess);
        world.good(&a1(), &command);
        assert!(repeats(&world, &a1(), &command));
        assert!(!repeats(&world, &a2(), &command));
    }
}

#[test]
fn what_was_cleared_is_clear() {
    let mut world = world();
    let command = out(CLEAR, 4, 0);
    world.good(&a1(), &command);
    world.conflict(&a2(), &command);
    assert!(repeats(&world, &a1(), &command));
    assert!(repeats(&world, &a2(), &command));
    assert!(!repeats(&world, &b1(), &command));
}

#[test]
fn what_was_moved_is_there() {
    for unregisters in [0, 0x02] {
        let mut world = world();
        world.good(&a1(), &out(RESERVE, 4, 0).of(Kind::ExclusiveAccess));
        let command = move_to(4, 5, &b1()).with(unregisters);
        world.good(&a1(), &command);
        world.conflict(&a1(), &command);
        assert!(repeats(&world, &a1(), &command));
        assert!(repeats(&world, &a2(), &command));
        assert!(!repeats(&world, &b1(), &command));
        assert!(!repeats(&world, &a1(), &move_to(4, 5, &c1())));
    }
}

/// Nodes of several versions have to find the same: these never change.
#[test]
fn digests_are_for_ever() {
    let digest = |out: Out| out.request().unwrap().digest();
    assert_eq!(digest(out(REGISTER, 0, 4)), 0xBEEF_B64D_39D7_320A);
    assert_eq!(digest(out(RESERVE, 4, 0).of(RO)), 0x517F_ED84_697A_71F4);
}
