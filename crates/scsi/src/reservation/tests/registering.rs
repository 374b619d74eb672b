//! REGISTER, REGISTER AND IGNORE EXISTING KEY, REGISTER AND MOVE.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::record::{AccessNexus, Record, ReservationKind as Kind};
use holdfast_model::{NodeId, metadata};

use super::bench::*;
use crate::reservation::transport_id;
use crate::{AdditionalSense, UnitAttention, limits};

/// SPC-4 5.12.7, Register behaviors: registered key, RESERVATION KEY, SERVICE ACTION RESERVATION
/// KEY, whether the existing key is ignored; what is registered then, or a conflict.
#[test]
fn what_registering_does() {
    const CONFLICT: Option<u64> = None;
    for (known, key, action_key, register, ignore) in [
        (0, 0, 0, Some(0), Some(0)),
        (0, 0, 5, Some(5), Some(5)),
        (0, 4, 0, CONFLICT, Some(0)),
        (0, 4, 5, CONFLICT, Some(5)),
        (4, 0, 0, CONFLICT, Some(0)),
        (4, 0, 5, CONFLICT, Some(5)),
        (4, 4, 0, Some(0), Some(0)),
        (4, 4, 5, Some(5), Some(5)),
        (4, 4, 4, Some(4), Some(4)),
        (4, 7, 0, CONFLICT, Some(0)),
        (4, 7, 5, CONFLICT, Some(5)),
    ] {
        for (action, expected) in [(REGISTER, register), (REGISTER_AND_IGNORE, ignore)] {
            let mut world = World::registered(&[(b1(), 9)]);
            if known != 0 {
                world.good(&a1(), &out(REGISTER, 0, known));
            }
            let generation = world.record.generation;
            let command = out(action, key, action_key);
            match expected {
                CONFLICT => world.conflict(&a1(), &command),
                Some(after) => {
                    world.good(&a1(), &command);
                    let mut registrations = vec![(b1(), 9)];
                    if after != 0 {
                        registrations.insert(0, (a1(), after));
                    }
                    assert_eq!(world.registrations(), registrations, "{command:x?}");
                    // Nothing done is nothing counted.
                    let counted = u32::from(known != 0 || action_key != 0);
                    assert_eq!(world.record.generation, generation + counted);
                }
            }
        }
    }
}

#[test]
fn scope_and_type_mean_nothing_where_nothing_is_reserved() {
    for action in [REGISTER, REGISTER_AND_IGNORE, CLEAR, REGISTER_AND_MOVE] {
        let mut world = World::registered(&[(a1(), 4)]);
        world.good(&a1(), &out(RESERVE, 4, 0).of(Kind::ExclusiveAccess));
        let mut command = match action {
            REGISTER_AND_MOVE => move_to(4, 5, &b1()),
            _ => out(action, 4, 5),
        };
        command.cdb[2] = 0xFF;
        world.good(&a1(), &command);
    }
}

#[test]
fn the_last_one_who_registers_says_whether_it_persists() {
    let mut world = World::registered(&[(a1(), 4)]);
    assert!(!world.record.persists);
    world.good(&b1(), &out(REGISTER, 0, 5).with(APTPL));
    assert!(world.record.persists);
    world.good(&a1(), &out(RESERVE, 4, 0).of(Kind::WriteExclusive));
    assert!(world.record.persists, "RESERVE does not look at it");
    world.good(&a1(), &out(REGISTER_AND_IGNORE, 0, 4));
    assert!(!world.record.persists);
    world.good(&a1(), &move_to(4, 6, &a2()).with(APTPL));
    assert!(world.record.persists);
    world.good(&b1(), &out(REGISTER, 5, 0));
    assert!(!world.record.persists);
}

#[test]
fn the_holder_keeps_what_it_holds_under_a_new_key() {
    for kind in KINDS {
        let mut world = World::registered(&[(a1(), 4), (b1(), 5)]);
        world.good(&a1(), &out(RESERVE, 4, 0).of(kind));
        world.good(&a1(), &out(REGISTER, 4, 6));
        world.assert_held(kind, &a1());
        world.good(&a1(), &out(RELEASE, 6, 0).of(kind));
        assert_eq!(world.kind(), None);
    }
}

/// SPC-4 5.12.11, Unregistering.
#[test]
fn what_becomes_of_a_reservation_whose_holder_unregisters() {
    use Kind::*;
    for (kind, stays, is_told) in [
        (WriteExclusive, false, false),
        (ExclusiveAccess, false, false),
        (WriteExclusiveRegistrantsOnly, false, true),
        (ExclusiveAccessRegistrantsOnly, false, true),
        (WriteExclusiveAllRegistrants, true, false),
        (ExclusiveAccessAllRegistrants, true, false),
    ] {
        for action in [REGISTER, REGISTER_AND_IGNORE] {
            let mut world = World::registered(&[(a1(), 4), (b1(), 5), (c1(), 6)]);
            world.good(&a1(), &out(RESERVE, 4, 0).of(kind));
            // One who does not hold it changes nothing.
            world.good(&c1(), &out(action, 6, 0));
            assert_eq!(world.kind(), Some(kind));
            assert_eq!(world.told(&b1()), None);
            world.good(&a1(), &out(action, 4, 0));
            assert_eq!(world.kind().is_some(), stays, "{kind:?}");
            let told = is_told.then_some(UnitAttention::ReservationsReleased);
            assert_eq!(world.told(&b1()), told, "{kind:?}");
            assert_eq!(world.told(&a1()), None);
            // The last of all who hold it takes it along.
            world.good(&b1(), &out(action, 5, 0));
            assert_eq!(world.kind(), None);
        }
    }
}

#[test]
fn all_target_ports_at_once() {
    let mut world = World::new();
    world.good(&a1(), &out(REGISTER, 0, 4).with(ALL_TG_PT));
    assert_eq!(world.registrations(), [(a1(), 4), (a2(), 4)]);
    assert!(
        world
            .record
            .registrations
            .iter()
            .all(|it| it.all_target_ports)
    );
    assert_eq!(world.record.generation, 1);
    // One port by itself.
    world.good(&a2(), &out(REGISTER, 4, 5));
    assert_eq!(world.registrations(), [(a1(), 4), (a2(), 5)]);
    // As if through each port: there the key is another.
    world.conflict(&a1(), &out(REGISTER, 4, 6).with(ALL_TG_PT));
    world.conflict(&a1(), &out(REGISTER, 4, 0).with(ALL_TG_PT));
    // What is there already is no obstacle.
    world.good(&a1(), &out(REGISTER, 4, 5).with(ALL_TG_PT));
    assert_eq!(world.registrations(), [(a1(), 5), (a2(), 5)]);
    world.good(&b1(), &out(REGISTER, 0, 9));
    world.good(&a2(), &out(REGISTER, 5, 0).with(ALL_TG_PT));
    assert_eq!(world.registrations(), [(b1(), 9)]);
    assert_eq!(world.told(&a1()), None, "as if it had done it itself");
    // Who registers one port after the other, the second time for all.
    world.good(&a1(), &out(REGISTER, 0, 4));
    world.good(&a2(), &out(REGISTER, 0, 4).with(ALL_TG_PT));
    assert_eq!(world.registrations(), [(a1(), 4), (a2(), 4), (b1(), 9)]);
    world.good(&a1(), &out(REGISTER, 4, 0));
    world.good(&a1(), &out(REGISTER_AND_IGNORE, 77, 0).with(ALL_TG_PT));
    assert_eq!(world.registrations(), [(b1(), 9)]);
    let before = world.record.clone();
    world.good(&a1(), &out(REGISTER_AND_IGNORE, 0, 0).with(ALL_TG_PT));
    assert_eq!(world.record, before);
}

#[test]
fn others_are_registered_too() {
    let id = transport_id::encode;
    let mut world = World::registered(&[(b1(), 9)]);
    world.good(&a1(), &out(REGISTER, 0, 4).naming(&[id(&b1()), id(&c1())]));
    // Who is registered keeps its key.
    assert_eq!(world.registrations(), [(a1(), 4), (b1(), 9), (c1(), 4)]);
    assert_eq!(world.told(&b1()), None);
    // For one who is registered, for nobody, and with other service actions, it is an error.
    let why = AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST;
    let list = [id(&nexus("d", 1))];
    world.refuse(&a1(), &out(REGISTER, 4, 5).naming(&list), why);
    world.refuse(&a1(), &out(REGISTER, 4, 0).naming(&list), why);
    world.refuse(&a2(), &out(REGISTER, 0, 0).naming(&list), why);
    world.conflict(&a2(), &out(REGISTER, 3, 4).naming(&list));
    for action in [RESERVE, CLEAR, PREEMPT, REGISTER_AND_IGNORE] {
        let command = out(action, 4, 9).of(Kind::WriteExclusive);
        world.refuse(&a1(), &command.with(SPEC_I_PT), why);
    }
    // With all target ports, all of everybody's; and nobody need be named.
    let command = out(REGISTER, 0, 7).with(ALL_TG_PT);
    world.good(&nexus("e", 2), &command.naming(&list));
    let added = [("d", 1), ("d", 2), ("e", 1), ("e", 2)].map(|(name, port)| (nexus(name, port), 7));
    assert_eq!(world.registrations()[3..], added);
    world.good(&nexus("f", 1), &out(REGISTER, 0, 8).naming(&[]));
    assert_eq!(world.registrations()[7..], [(nexus("f", 1), 8)]);
}

#[test]
fn all_known_ports_of_a_node() {
    // FORMAT CODE 00b: a name alone.
    let node = |name: &[u8]| {
        let mut id = vec![0x05, 0, 0, 20];
        id.extend(name);
        id.resize(24, 0);
        id
    };
    let other = AccessNexus {
        isid: holdfast_model::record::Isid([1; 6]),
        ..nexus("b", 2)
    };
    let mut world = World::registered(&[(b1(), 9), (other.clone(), 9)]);
    world.good(
        &a1(),
        &out(REGISTER, 0, 4).naming(&[node(b"B"), node(b"a")]),
    );
    let on_first = AccessNexus {
        port: NodeId(1),
        ..other.clone()
    };
    let mut expected = vec![(a1(), 4), (b1(), 9), (on_first, 4), (other, 9)];
    expected.sort();
    assert_eq!(world.registrations(), expected);
    world.refuse(
        &c1(),
        &out(REGISTER, 0, 4).naming(&[node(b"stranger")]),
        AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST,
    );
}

fn crowd(count: usize, name_length: usize) -> World {
    let mut world = World::new();
    world.record.registrations = (0..count)
        .map(|number| {
            let mut name = alloc::format!("iqn.2026-11.example:{number:06}");
            while name.len() < name_length {
                name.push('x');
            }
            holdfast_model::record::Registration {
                nexus: nexus(&name, 1),
                key: 1,
                all_target_ports: false,
            }
        })
        .collect();
    assert!(world.record.is_sound());
    world
}

#[test]
fn there_is_room_for_so_many() {
    let why = AdditionalSense::INSUFFICIENT_REGISTRATION_RESOURCES;
    let mut world = crowd(limits::REGISTRATIONS_MAX - 1, 0);
    world.refuse(&a1(), &out(REGISTER, 0, 4).with(ALL_TG_PT), why);
    world.good(&a1(), &out(REGISTER, 0, 4));
    world.refuse(&b1(), &out(REGISTER, 0, 4), why);
    world.refuse(&b1(), &out(REGISTER_AND_IGNORE, 0, 4), why);
    // Those who are there are not disturbed.
    world.good(&a1(), &out(REGISTER, 4, 5));
    world.good(&a1(), &out(RESERVE, 5, 0).of(Kind::WriteExclusive));
    world.refuse(&a1(), &move_to(5, 6, &b1()), why);
    world.good(&a1(), &move_to(5, 6, &b1()).with(0x02));
    world.good(&b1(), &out(REGISTER, 6, 0));
    let ids: Vec<_> = ["d", "e"]
        .map(|name| transport_id::encode(&nexus(name, 1)))
        .into();
    world.refuse(&a1(), &out(REGISTER, 0, 4).naming(&ids), why);
}

#[test]
fn a_record_that_can_not_be_stored_is_not_made() {
    let why = AdditionalSense::INSUFFICIENT_REGISTRATION_RESOURCES;
    // As many long names as there is room for.
    let mut world = crowd(780, 223);
    let mut joined = 0;
    loop {
        let nexus = nexus(&alloc::format!("iqn.joins-{joined:0213}"), 1);
        let before = world.record.clone();
        let response = world.run(&nexus, &out(REGISTER, 0, u64::MAX));
        if let Some(sense) = response.sense {
            assert_eq!(sense.additional, why);
            assert_eq!(world.record, before);
            break;
        }
        joined += 1;
    }
    assert!(joined > 0);
    let count = world.record.registrations.len();
    assert!(count < limits::REGISTRATIONS_MAX);
    // Whatever else is done still fits.
    let last = world.record.registrations[count - 1].nexus.clone();
    for kind in KINDS {
        world.good(&last, &out(RESERVE, u64::MAX, 0).of(kind));
        assert!(world.record.encode().len() <= metadata::VALUE_LENGTH_MAX);
        world.good(&last, &out(RELEASE, u64::MAX, 0).of(kind));
    }
    world.good(&last, &out(PREEMPT, u64::MAX, 1));
    world.good(&a1(), &out(REGISTER, 0, 1));
}

/// SPC-4 5.12.8.
#[test]
fn a_reservation_moves() {
    use Kind::*;
    for kind in [
        WriteExclusive,
        ExclusiveAccess,
        WriteExclusiveRegistrantsOnly,
        ExclusiveAccessRegistrantsOnly,
    ] {
        for unregisters in [false, true] {
            for is_known in [false, true] {
                let mut world = World::registered(&[(a1(), 4), (c1(), 6)]);
                if is_known {
                    world.good(&b1(), &out(REGISTER, 0, 5));
                }
                world.good(&a1(), &out(RESERVE, 4, 0).of(kind));
                let generation = world.record.generation;
                let command = move_to(4, 8, &b1());
                world.good(&a1(), &command.with(u8::from(unregisters) << 1));
                let mut expected = vec![(a1(), 4), (b1(), 8), (c1(), 6)];
                if unregisters {
                    expected.remove(0);
                }
                assert_eq!(world.registrations(), expected);
                world.assert_held(kind, &b1());
                assert_eq!(world.record.generation, generation + 1);
                for nexus in [a1(), b1(), c1()] {
                    assert_eq!(world.told(&nexus), None);
                }
            }
        }
    }
}

#[test]
fn what_can_not_be_moved() {
    let invalid = AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST;
    for kind in KINDS {
        let mut world = World::registered(&[(a1(), 4), (b1(), 5)]);
        world.conflict(&a1(), &move_to(4, 8, &c1()));
        world.good(&a1(), &out(RESERVE, 4, 0).of(kind));
        world.conflict(&b1(), &move_to(5, 8, &c1()));
        world.conflict(&c1(), &move_to(4, 8, &b1()));
        world.conflict(&a1(), &move_to(5, 8, &c1()));
        if matches!(
            kind,
            Kind::WriteExclusiveAllRegistrants | Kind::ExclusiveAccessAllRegistrants
        ) {
            world.conflict(&a1(), &move_to(4, 8, &c1()));
            continue;
        }
        world.refuse(&a1(), &move_to(4, 0, &c1()), invalid);
        world.refuse(&a1(), &move_to(4, 8, &a1()), invalid);
        world.refuse(&a1(), &move_to(4, 8, &nexus("c", 3)), invalid);
        world.refuse(&a1(), &move_to(4, 8, &nexus("c", 0)), invalid);
        // The same initiator port, through another target port, is another nexus.
        world.good(&a1(), &move_to(4, 8, &a2()));
        world.assert_held(kind, &a2());
    }
}
