//! PREEMPT, PREEMPT AND ABORT.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::record::{AccessNexus, ReservationKind as Kind};

use super::bench::*;
use crate::reservation::kind;
use crate::{AdditionalSense, UnitAttention};

/// Two nexuses with key 4, three others with keys of their own.
fn world() -> World {
    World::registered(&[(a1(), 4), (a2(), 4), (b1(), 5), (c1(), 6)])
}

fn both() -> [u8; 2] {
    [PREEMPT, PREEMPT_AND_ABORT]
}

fn aborted(action: u8, nexuses: &[AccessNexus]) -> Vec<AccessNexus> {
    match action {
        PREEMPT => Vec::new(),
        _ => nexuses.to_vec(),
    }
}

/// SPC-4 5.12.11, Preempting persistent reservations.
#[test]
fn the_holder_is_preempted() {
    for action in both() {
        for held in KINDS {
            for wanted in KINDS {
                if kind::is_held_by_all(held) {
                    continue;
                }
                let mut world = world();
                world.good(&a1(), &out(RESERVE, 4, 0).of(held));
                let generation = world.record.generation;
                world.good(&b1(), &out(action, 5, 4).of(wanted));
                assert_eq!(world.registrations(), [(b1(), 5), (c1(), 6)]);
                world.assert_held(wanted, &b1());
                assert_eq!(world.record.generation, generation + 1);
                assert_eq!(world.aborted, aborted(action, &[a1(), a2()]));
                for nexus in [a1(), a2()] {
                    assert_eq!(
                        world.told(&nexus),
                        Some(UnitAttention::RegistrationsPreempted)
                    );
                }
                assert_eq!(world.told(&b1()), None);
                // Who stays is told if the type is another.
                let told = (held != wanted).then_some(UnitAttention::ReservationsReleased);
                assert_eq!(world.told(&c1()), told, "{held:?} {wanted:?}");
                assert_eq!(world.record.fence, world.before.fence.next());
            }
        }
    }
}

/// Also by one that shares the holder's key, and by the holder itself, which changes the type so.
#[test]
fn who_takes_over_stays() {
    for (preemptor, removed) in [(a1(), a2()), (a2(), a1())] {
        for wanted in KINDS {
            let mut world = world();
            world.good(&a1(), &out(RESERVE, 4, 0).of(Kind::WriteExclusive));
            world.good(&preemptor, &out(PREEMPT_AND_ABORT, 4, 4).of(wanted));
            let expected = [(preemptor.clone(), 4), (b1(), 5), (c1(), 6)];
            assert_eq!(world.registrations(), expected);
            world.assert_held(wanted, &preemptor);
            assert_eq!(world.aborted, core::slice::from_ref(&removed));
            let told =
                (wanted != Kind::WriteExclusive).then_some(UnitAttention::ReservationsReleased);
            assert_eq!(world.told(&b1()), told);
        }
    }
}

/// SPC-4 5.12.11, Removing registrations: nobody holds anything, or another one does.
#[test]
fn registrations_are_removed() {
    for action in both() {
        for held in [None].into_iter().chain(KINDS.map(Some)) {
            for code in [0x00, 0x01, 0x08, 0xFF] {
                let mut world = world();
                if let Some(kind) = held {
                    world.good(&c1(), &out(RESERVE, 6, 0).of(kind));
                }
                let (kind, generation) = (world.kind(), world.record.generation);
                // SCOPE and TYPE are ignored.
                let mut command = out(action, 5, 4);
                command.cdb[2] = code;
                world.good(&b1(), &command);
                assert_eq!(world.registrations(), [(b1(), 5), (c1(), 6)]);
                assert_eq!(world.kind(), kind);
                if let Some(kind) = held {
                    world.assert_held(kind, &c1());
                }
                assert_eq!(world.record.generation, generation + 1);
                assert_eq!(world.aborted, aborted(action, &[a1(), a2()]));
                for nexus in [a1(), a2()] {
                    let told = Some(UnitAttention::RegistrationsPreempted);
                    assert_eq!(world.told(&nexus), told);
                }
                assert_eq!(world.told(&c1()), None);
                assert_eq!(world.told(&b1()), None);
                // It is gone: nobody has the key any more.
                world.conflict(&b1(), &command);
            }
        }
    }
}

#[test]
fn who_removes_registrations_may_remove_its_own() {
    let mut world = world();
    world.good(&c1(), &out(RESERVE, 6, 0).of(Kind::ExclusiveAccess));
    world.good(
        &a1(),
        &out(PREEMPT_AND_ABORT, 4, 4).of(Kind::WriteExclusive),
    );
    assert_eq!(world.registrations(), [(b1(), 5), (c1(), 6)]);
    world.assert_held(Kind::ExclusiveAccess, &c1());
    assert_eq!(world.aborted, [a1(), a2()]);
    assert_eq!(world.told(&a1()), None, "it did it itself");
    assert_eq!(
        world.told(&a2()),
        Some(UnitAttention::RegistrationsPreempted)
    );
    // The last of all who hold something takes it along.
    let kind = Kind::WriteExclusiveAllRegistrants;
    let mut world = World::registered(&[(a1(), 4), (a2(), 4)]);
    world.good(&a1(), &out(RESERVE, 4, 0).of(kind));
    world.good(&a2(), &out(PREEMPT, 4, 4).of(kind));
    assert_eq!(world.registrations(), []);
    assert_eq!(world.kind(), None);
}

/// SPC-4 5.12.11, Preempting: what all hold is preempted with the key zero.
#[test]
fn all_who_hold_it_are_preempted() {
    for action in both() {
        for held in KINDS {
            if !kind::is_held_by_all(held) {
                continue;
            }
            for wanted in KINDS {
                let mut world = world();
                world.good(&a1(), &out(RESERVE, 4, 0).of(held));
                world.good(&b1(), &out(action, 5, 0).of(wanted));
                assert_eq!(world.registrations(), [(b1(), 5)]);
                world.assert_held(wanted, &b1());
                assert_eq!(world.aborted, aborted(action, &[a1(), a2(), c1()]));
                for nexus in [a1(), a2(), c1()] {
                    let told = Some(UnitAttention::RegistrationsPreempted);
                    assert_eq!(world.told(&nexus), told);
                }
                // Alone, it changes the type.
                if kind::is_held_by_all(wanted) {
                    world.good(&b1(), &out(action, 5, 0).of(Kind::ExclusiveAccess));
                    world.assert_held(Kind::ExclusiveAccess, &b1());
                    assert_eq!(world.aborted, []);
                }
            }
        }
    }
}

#[test]
fn the_key_zero_is_nobodys_otherwise() {
    let why = AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST;
    for action in both() {
        for held in [None].into_iter().chain(KINDS.map(Some)) {
            if held.is_some_and(kind::is_held_by_all) {
                continue;
            }
            let mut world = world();
            if let Some(kind) = held {
                world.good(&a1(), &out(RESERVE, 4, 0).of(kind));
            }
            let command = out(action, 5, 0).of(Kind::WriteExclusive);
            world.refuse(&b1(), &command, why);
            world.conflict(&b1(), &out(action, 5, 99).of(Kind::WriteExclusive));
        }
    }
}

#[test]
fn what_is_made_has_to_be_of_a_type() {
    for (held, key) in [
        (Kind::WriteExclusive, 4),
        (Kind::WriteExclusiveAllRegistrants, 0),
    ] {
        for code in [0x00, 0x02, 0x04, 0x09, 0x11, 0xF1] {
            let mut world = world();
            world.good(&a1(), &out(RESERVE, 4, 0).of(held));
            let mut command = out(PREEMPT, 5, key);
            command.cdb[2] = code;
            let why = AdditionalSense::INVALID_FIELD_IN_CDB;
            world.refuse(&b1(), &command, why);
        }
    }
    assert_eq!(vec![1, 3, 5, 6, 7, 8], KINDS.map(kind::code));
}
