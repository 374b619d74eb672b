//! Parameter lists: their lengths, what is wrong in them, and whatever else may come.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_stdx::Prng;

use super::bench::*;
use crate::reservation::transport_id;
use crate::{AdditionalSense, BlockLength, Cdb, Direction, Geometry, Sense, limits};

const LENGTH: AdditionalSense = AdditionalSense::PARAMETER_LIST_LENGTH_ERROR;
const INVALID: AdditionalSense = AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST;

fn cdb(action: u8, length: u32) -> Cdb {
    let [a, b, c, d] = length.to_be_bytes();
    let cdb = [0x5F, action, 1, 0, 0, a, b, c, d, 0];
    Cdb::parse(&cdb, Geometry::new(1 << 20, BlockLength::Emulated512))
}

#[test]
fn lengths() {
    for action in 0..8 {
        let may_be_longer = matches!(action, REGISTER | REGISTER_AND_MOVE);
        for length in [0, 1, 23, 24, 25, 28, 52, 8192, 8193, 1 << 16, u32::MAX] {
            let is_good = match may_be_longer {
                true => (24..=8192).contains(&length),
                false => length == 24,
            };
            let cdb = cdb(action, length);
            match is_good {
                true => {
                    assert_eq!(cdb.data_out_length(), u64::from(length));
                    assert_eq!(cdb.direction(), Direction::Out);
                }
                false => {
                    let sense = Sense::illegal_request(LENGTH);
                    assert_eq!(cdb.command(), Err(sense), "{action} {length}");
                    assert_eq!(cdb.data_out_length(), 0);
                }
            }
        }
    }
    assert_eq!(limits::RESERVATION_LIST_BYTES_MAX, 8192);
    // Without TransportIDs nothing is behind the list.
    let mut world = World::new();
    let command = out(REGISTER, 0, 4).followed_by(&[0; 4]);
    world.refuse(&a1(), &command, LENGTH);
    // The initiator sent less than it said.
    let mut short = out(REGISTER, 0, 4);
    short.list.pop();
    world.refuse(&a1(), &short, LENGTH);
}

#[test]
fn service_actions_that_are_not_there() {
    for operation_code in [0x5E, 0x5F] {
        let known = if operation_code == 0x5E { 4 } else { 8 };
        for action in known..32 {
            let mut cdb = [operation_code, action, 1, 0, 0, 0, 0, 0, 24, 0];
            if operation_code == 0x5E {
                cdb[2] = 0;
            }
            let refusal = request(&cdb, &[0; 24]).unwrap_err();
            assert_eq!(refusal, Sense::invalid_cdb_field(1, Some(4)));
        }
    }
}

#[test]
fn reserved_and_obsolete_fields_are_not_looked_at() {
    let mut world = World::new();
    let mut command = out(REGISTER, 0, 4);
    command.list[16..20].fill(0xFF);
    command.list[20] |= 0xF2;
    command.list[21..24].fill(0xFF);
    world.good(&a1(), &command);
    let registration = &world.record.registrations[0];
    assert!(!registration.all_target_ports);
    assert!(!world.record.persists);
}

#[test]
fn names_that_are_none() {
    let good = transport_id::encode(&nexus("iqn.a", 1));
    let mut bad: Vec<(Vec<u8>, u16)> = Vec::new();
    let mut change = |at: u16, change: &dyn Fn(&mut Vec<u8>)| {
        let mut id = good.clone();
        change(&mut id);
        bad.push((id, at));
    };
    // Another protocol; a format that is none; a length that is none, or leads beyond the end.
    change(0, &|id| id[0] = 0x40);
    change(0, &|id| id[0] = 0x85);
    change(2, &|id| id[3] = 21);
    change(2, &|id| id[3] = 16);
    change(2, &|id| id[3] = 28);
    change(2, &|id| id[2] = 0xFF);
    // No zero byte; no separator; no ISID; no name; what names do not have.
    change(4, &|id| id.iter_mut().skip(4).for_each(|byte| *byte |= 1));
    change(4, &|id| id[10] = b'x');
    change(4, &|id| id[15] = b'g');
    change(4, &|id| id[25] = 0);
    change(4, &|id| id[4..9].copy_from_slice(b"iq n."));
    change(4, &|id| id[4] = 0xFF);
    change(4, &|id| id[4] = 0);
    change(4, &|id| id[4..].fill(0));
    change(4, &|id| id[0] = 0x05);
    change(4, &|id| {
        *id = vec![0x45, 0, 0, 244];
        id.resize(248, b'x');
        id[228..246].copy_from_slice(b",i,0x80000000000a\0");
    });
    for (id, at) in bad {
        let command = out(REGISTER, 0, 4).naming(core::slice::from_ref(&id));
        let sense = command.request().expect_err("it is no name");
        assert_eq!(sense, Sense::invalid_parameter(28 + at, None), "{id:x?}");
        // Where a reservation moves to the same is no name.
        let mut command = out(REGISTER_AND_MOVE, 0, 4);
        command.list[23] = id.len() as u8;
        let sense = command.followed_by(&id).request().expect_err("no name");
        assert_eq!(sense, Sense::invalid_parameter(24 + at, None), "{id:x?}");
    }
    // The second one of two.
    let list = [good.clone(), vec![0x45, 0, 0, 20]];
    let sense = out(REGISTER, 0, 4).naming(&list).request().unwrap_err();
    assert_eq!(sense, Sense::invalid_parameter(28 + 28 + 2, None));
}

#[test]
fn names_are_compared_in_lower_case() {
    let mut id = transport_id::encode(&nexus("IQN.A", 1));
    id[9..].iter_mut().for_each(|byte| {
        if byte.is_ascii_hexdigit() {
            byte.make_ascii_uppercase();
        }
    });
    let mut world = World::new();
    world.good(&b1(), &out(REGISTER, 0, 4).naming(&[id]));
    let names: Vec<_> = world
        .registrations()
        .into_iter()
        .map(|it| it.0.initiator)
        .collect();
    assert_eq!(names, ["b", "iqn.a"]);
}

#[test]
fn lengths_within_a_list() {
    let mut world = World::new();
    let id = transport_id::encode(&b1());
    for length in [0, 23, 25, 28, u32::MAX] {
        let bytes = [&length.to_be_bytes()[..], &id].concat();
        let command = out(REGISTER, 0, 4).with(SPEC_I_PT).followed_by(&bytes);
        world.refuse(&a1(), &command, LENGTH);
        let mut command = out(REGISTER_AND_MOVE, 0, 4);
        command.list[20..24].copy_from_slice(&length.to_be_bytes());
        world.refuse(&a1(), &command.followed_by(&id), LENGTH);
    }
    // None at all; two where there is to be one; all ports of a node.
    world.refuse(&a1(), &out(REGISTER, 0, 4).with(SPEC_I_PT), LENGTH);
    world.refuse(&a1(), &out(REGISTER_AND_MOVE, 0, 4), INVALID);
    let mut twice = out(REGISTER_AND_MOVE, 0, 4);
    twice.list[23] = 48;
    world.refuse(&a1(), &twice.followed_by(&[&id[..], &id].concat()), INVALID);
    let mut node = move_to(0, 4, &b1());
    node.list[24] = 0x05;
    node.list[29] = 0;
    world.refuse(&a1(), &node, INVALID);
}

/// A service action, and a list that makes sense with it at times.
fn action_and_list(prng: &mut Prng) -> (u8, Vec<u8>) {
    let nexuses = [a1(), a2(), b1(), c1()];
    let key = prng.below(3);
    let mut action = prng.below(9) as u8;
    let command = match prng.below(8) {
        0 => move_to(key, prng.below(3), prng.choose(&nexuses)),
        1 => {
            let ids: Vec<_> = (0..prng.below(3))
                .map(|_| transport_id::encode(prng.choose(&nexuses)))
                .collect();
            out(REGISTER, key, prng.below(3)).naming(&ids)
        }
        2 => out(action, key, prng.below(3)).with(prng.below(16) as u8),
        _ => out(action, key, prng.below(3)),
    };
    if prng.chance(7, 8) {
        action = command.cdb[1];
    }
    let mut list = command.list;
    match prng.below(12) {
        0 => {
            let at = prng.below(list.len() as u64) as usize;
            list[at] = prng.next_u64() as u8;
        }
        1 => list.truncate(prng.below(list.len() as u64 + 1) as usize),
        2 => list.resize(prng.below(300) as usize, prng.next_u64() as u8),
        _ => {}
    }
    (action, list)
}

#[test]
fn whatever_initiators_send() {
    let mut prng = Prng::from_seed(0x5C4);
    let mut world = World::new();
    let (mut decided, mut changed) = (0, 0);
    for _ in 0..50_000 {
        let (action, list) = action_and_list(&mut prng);
        let mut cdb = [0x5F, action, 0, 0, 0, 0, 0, 0, 0, 0];
        cdb[2] = *prng.choose(&[0, 1, 3, 5, 6, 7, 8, 9, 0x11]);
        cdb[5..9].copy_from_slice(&(list.len() as u32).to_be_bytes());
        if prng.chance(1, 50) {
            prng.fill(&mut cdb[1..]);
        }
        if prng.chance(1, 20) {
            cdb = [*prng.choose(&[0x56, 0x57]), 0, 0, 0, 0, 0, 0, 0, 0, 0];
        }
        if let Ok(request) = request(&cdb, &list) {
            decided += 1;
            let before = world.record.changes;
            let nexus = [a1(), a2(), b1()][prng.below(3) as usize].clone();
            // The bench holds the decision against what holds for each.
            let _ = world.decide(&nexus, &request);
            changed += u64::from(world.record.changes != before);
        }
    }
    assert!(decided > 10_000, "{decided}");
    assert!(changed > 1_000, "{changed}");
}
