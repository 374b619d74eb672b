//! RESERVE, RELEASE and CLEAR; RESERVE and RELEASE of SPC-2.

use holdfast_model::record::{AccessNexus, ReservationKind as Kind};

use super::bench::*;
use crate::reservation::kind;
use crate::{AdditionalSense, Status, UnitAttention};

#[test]
fn who_is_not_registered_with_that_key_may_nothing() {
    for action in [RESERVE, RELEASE, CLEAR, PREEMPT, PREEMPT_AND_ABORT] {
        for held in [false, true] {
            let mut world = World::registered(&[(a1(), 4), (b1(), 5)]);
            if held {
                world.good(&b1(), &out(RESERVE, 5, 0).of(Kind::WriteExclusive));
            }
            let command = |key| out(action, key, 5).of(Kind::WriteExclusive);
            // Neither another key, nor another's, nor the right one on another nexus.
            world.conflict(&a1(), &command(9));
            world.conflict(&a1(), &command(0));
            world.conflict(&a1(), &command(5));
            world.conflict(&a2(), &command(4));
            world.conflict(&c1(), &command(0));
        }
    }
}

/// SPC-4 5.12.9 and 5.12.10.
#[test]
fn reserving_twice() {
    for held in KINDS {
        for wanted in KINDS {
            let mut world = World::registered(&[(a1(), 4), (b1(), 5)]);
            let generation = world.record.generation;
            world.good(&a1(), &out(RESERVE, 4, 0xFFFF).of(held));
            world.assert_held(held, &a1());
            assert_eq!(
                world.record.generation, generation,
                "RESERVE is not counted"
            );
            assert_eq!(world.told(&b1()), None);
            let changes = world.record.changes;
            let again = out(RESERVE, 4, 0).of(wanted);
            let others = out(RESERVE, 5, 0).of(wanted);
            if held == wanted {
                world.good(&a1(), &again);
                assert_eq!(world.record.changes, changes);
            } else {
                world.conflict(&a1(), &again);
            }
            // All who are registered hold what is all registrants'.
            if held == wanted && kind::is_held_by_all(held) {
                world.good(&b1(), &others);
                assert_eq!(world.record.changes, changes);
            } else {
                world.conflict(&b1(), &others);
            }
        }
    }
}

/// SPC-4 5.12.11, Releasing.
#[test]
fn releasing() {
    for held in KINDS {
        for wanted in KINDS {
            let mut world = World::registered(&[(a1(), 4), (b1(), 5), (c1(), 6)]);
            // What nobody has.
            let changes = world.record.changes;
            world.good(&a1(), &out(RELEASE, 4, 0).of(wanted));
            assert_eq!(world.record.changes, changes);
            world.good(&a1(), &out(RESERVE, 4, 0).of(held));
            let generation = world.record.generation;
            let others = out(RELEASE, 5, 0).of(wanted);
            if !kind::is_held_by_all(held) {
                // What is another's.
                world.good(&b1(), &others);
                world.assert_held(held, &a1());
            } else if held != wanted {
                let why = AdditionalSense::INVALID_RELEASE_OF_PERSISTENT_RESERVATION;
                world.refuse(&b1(), &others, why);
            }
            let own = out(RELEASE, 4, 0).of(wanted);
            if held != wanted {
                let why = AdditionalSense::INVALID_RELEASE_OF_PERSISTENT_RESERVATION;
                world.refuse(&a1(), &own, why);
                continue;
            }
            world.good(&a1(), &own);
            assert_eq!(world.kind(), None);
            assert_eq!(
                world.record.generation, generation,
                "RELEASE is not counted"
            );
            assert_eq!(world.registrations().len(), 3);
            let told =
                kind::admits_registrants(held).then_some(UnitAttention::ReservationsReleased);
            assert_eq!(world.told(&b1()), told);
            assert_eq!(world.told(&c1()), told);
            assert_eq!(world.told(&a1()), None, "it did it itself");
            assert_eq!(world.told(&a2()), None, "it is not registered");
        }
    }
}

/// SPC-4 5.12.11, Clearing.
#[test]
fn clearing() {
    for held in [None].into_iter().chain(KINDS.map(Some)) {
        let mut world = World::registered(&[(a1(), 4), (b1(), 5), (c1(), 6)]);
        if let Some(kind) = held {
            world.good(&b1(), &out(RESERVE, 5, 0).of(kind));
        }
        let generation = world.record.generation;
        // Anybody who is registered may, whoever holds what.
        world.good(&a1(), &out(CLEAR, 4, 77));
        assert_eq!(world.registrations(), []);
        assert_eq!(world.kind(), None);
        assert_eq!(world.record.generation, generation + 1);
        assert_eq!(world.told(&a1()), None);
        for nexus in [b1(), c1()] {
            assert_eq!(
                world.told(&nexus),
                Some(UnitAttention::ReservationsPreempted)
            );
        }
        assert_eq!(world.told(&a2()), None);
        world.conflict(&b1(), &out(CLEAR, 5, 0));
    }
}

#[test]
fn types_that_are_not_there() {
    let mut world = World::registered(&[(a1(), 4)]);
    for action in [RESERVE, RELEASE] {
        for code in 0..=0xFF {
            let mut command = out(action, 4, 0);
            command.cdb[2] = code;
            let is_known = matches!(code, 1 | 3 | 5 | 6 | 7 | 8);
            if is_known {
                world.good(&a1(), &command);
                world.good(&a1(), &out(REGISTER, 4, 0));
                world.good(&a1(), &out(REGISTER, 0, 4));
            } else {
                world.refuse(&a1(), &command, AdditionalSense::INVALID_FIELD_IN_CDB);
            }
        }
    }
}

#[test]
fn the_generation_wraps() {
    let mut world = World::new();
    world.record.generation = u32::MAX;
    world.good(&a1(), &out(REGISTER, 0, 4));
    assert_eq!(world.record.generation, 0);
}

const RESERVE_6: [u8; 6] = [0x16, 0, 0, 0, 0, 0];
const RELEASE_6: [u8; 6] = [0x17, 0, 0, 0, 0, 0];
const RESERVE_10: [u8; 10] = [0x56, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const RELEASE_10: [u8; 10] = [0x57, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// SPC-2, RESERVE and RELEASE.
#[test]
fn reserving_as_of_old() {
    for (reserve, release) in [
        (&RESERVE_6[..], &RELEASE_6[..]),
        (&RESERVE_10[..], &RELEASE_10[..]),
        (&RESERVE_6[..], &RELEASE_10[..]),
    ] {
        let mut world = World::new();
        let mut status = |nexus: &AccessNexus, cdb: &[u8]| world.run_cdb(nexus, cdb).status;
        assert_eq!(status(&a1(), reserve), Status::Good);
        assert_eq!(status(&a1(), reserve), Status::Good);
        for other in [a2(), b1()] {
            assert_eq!(status(&other, reserve), Status::ReservationConflict);
            assert_eq!(status(&other, release), Status::Good, "of no effect");
            assert_eq!(status(&other, reserve), Status::ReservationConflict);
        }
        assert_eq!(status(&a1(), release), Status::Good);
        assert_eq!(status(&b1(), reserve), Status::Good);
        assert_eq!(world.record.reserved, Some(b1()));
        assert_eq!(world.record.generation, 0);
        assert_eq!(world.record.fence.0, 2, "twice all others lost everything");
    }
}

/// SPC-2 5.5.1: even for the one who has it.
#[test]
fn nothing_persists_beside_an_old_reserve() {
    let mut world = World::new();
    world.run_cdb(&a1(), &RESERVE_6);
    for nexus in [a1(), b1()] {
        for action in 0..4 {
            let cdb = [0x5E, action, 0, 0, 0, 0, 0, 1, 0, 0];
            let response = world.run_cdb(&nexus, &cdb);
            assert_eq!(response.status, Status::ReservationConflict);
            assert!(response.data_in.is_empty());
        }
        for action in [REGISTER, REGISTER_AND_IGNORE, CLEAR] {
            world.conflict(&nexus, &out(action, 0, 4));
        }
    }
    world.run_cdb(&a1(), &RELEASE_6);
    world.good(&b1(), &out(REGISTER, 0, 4));
}

/// SPC-4 5.12.3.
#[test]
fn an_old_reserve_beside_registrations() {
    for cdb in [&RESERVE_6[..], &RELEASE_6, &RESERVE_10, &RELEASE_10] {
        let mut world = World::registered(&[(a1(), 4), (b1(), 5)]);
        let before = world.record.clone();
        for nexus in [a1(), b1(), c1()] {
            let response = world.run_cdb(&nexus, cdb);
            assert_eq!(response.status, Status::ReservationConflict);
        }
        assert_eq!(world.record, before);
        for kind in KINDS {
            world.good(&a1(), &out(RESERVE, 4, 0).of(kind));
            let before = world.record.clone();
            let is_admitted = kind::admits_registrants(kind);
            for (nexus, is_good) in [(a1(), true), (b1(), is_admitted), (c1(), false)] {
                let response = world.run_cdb(&nexus, cdb);
                let expected = match is_good {
                    true => Status::Good,
                    false => Status::ReservationConflict,
                };
                assert_eq!(response.status, expected, "{kind:?} {nexus:?}");
            }
            assert_eq!(world.record, before, "nothing is done");
            world.good(&a1(), &out(RELEASE, 4, 0).of(kind));
        }
    }
}
