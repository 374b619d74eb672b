//! What PERSISTENT RESERVE IN answers, byte by byte.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::record::{AccessNexus, ReservationKind as Kind};

use super::bench::*;
use crate::Status;
use crate::reservation::{kind, transport_id};

fn read(world: &mut World, action: u8, allocation_length: u16) -> Vec<u8> {
    let [high, low] = allocation_length.to_be_bytes();
    let cdb = [0x5E, action, 0, 0, 0, 0, 0, high, low, 0];
    let before = world.record.clone();
    let response = world.run_cdb(&c1(), &cdb);
    assert_eq!(response.status, Status::Good);
    assert_eq!(world.record, before, "reading changes nothing");
    let data = response.data_in.concat();
    assert_eq!(response.transfer_length, data.len() as u64);
    data
}

#[test]
fn keys() {
    let mut world = World::new();
    assert_eq!(read(&mut world, 0, 0xFFFF), [0; 8]);
    let mut world =
        World::registered(&[(b1(), 0x0102_0304_0506_0708), (a1(), u64::MAX), (a2(), 9)]);
    let expected = [
        &[0, 0, 0, 3, 0, 0, 0, 24][..],
        &[0xFF; 8],
        &[0, 0, 0, 0, 0, 0, 0, 9],
        &[1, 2, 3, 4, 5, 6, 7, 8],
    ]
    .concat();
    for length in 0..50 {
        // The lengths inside do not change by it (SPC-4, Allocation length).
        let kept = usize::from(length).min(expected.len());
        assert_eq!(read(&mut world, 0, length), expected[..kept]);
    }
}

#[test]
fn reservation() {
    for kind in KINDS {
        let mut world = World::registered(&[(a1(), 0x0102_0304_0506_0708), (b1(), 9)]);
        assert_eq!(read(&mut world, 1, 0xFFFF), [0, 0, 0, 2, 0, 0, 0, 0]);
        world.good(&b1(), &out(RESERVE, 9, 0).of(kind));
        let key = match kind::is_held_by_all(kind) {
            true => 0,
            false => 9,
        };
        let code = kind::code(kind);
        let expected = [
            0, 0, 0, 2, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, key, 0, 0, 0, 0, 0, code, 0, 0,
        ];
        assert_eq!(read(&mut world, 1, 0xFFFF), expected);
        assert_eq!(read(&mut world, 1, 9), expected[..9]);
    }
}

#[test]
fn capabilities() {
    let mut world = World::new();
    let expected = [0, 8, 0x1D, 0xB0, 0xEA, 0x01, 0, 0];
    assert_eq!(read(&mut world, 2, 0xFFFF), expected);
    assert_eq!(read(&mut world, 2, 3), expected[..3]);
    world.good(&a1(), &out(REGISTER, 0, 4).with(APTPL));
    assert_eq!(read(&mut world, 2, 0xFFFF)[3], 0xB1);
}

/// As RFC 7143 and SPC-4 7.6.4.6 have it.
#[test]
fn names_of_initiator_ports() {
    let nexus = AccessNexus {
        isid: holdfast_model::record::Isid([0, 0x02, 0x3D, 0xAB, 0, 1]),
        ..nexus("iqn.a", 1)
    };
    let mut expected = vec![0x45, 0, 0, 24];
    expected.extend(b"iqn.a,i,0x00023dab0001\0\0");
    assert_eq!(transport_id::encode(&nexus), expected);
    for length in 1..=223 {
        let mut named = nexus.clone();
        named.initiator = (0..length).map(|_| 'x').collect();
        let id = transport_id::encode(&named);
        assert_eq!(id.len(), transport_id::encoded_length(&named));
        assert!(id.len() >= 24 && id.len().is_multiple_of(4));
        assert_eq!(usize::from(id[2]) << 8 | usize::from(id[3]), id.len() - 4);
        assert_eq!(id.last(), Some(&0), "a zero byte ends the name");
        let read = transport_id::parse(&id, 24).unwrap();
        let port = transport_id::TransportId::Port {
            initiator: named.initiator,
            isid: named.isid,
        };
        assert_eq!(read, (port, &[][..]));
    }
}

#[test]
fn full_status() {
    for kind in KINDS {
        let mut world = World::new();
        assert_eq!(read(&mut world, 3, 0xFFFF), [0; 8]);
        world.good(&b1(), &out(REGISTER, 0, 7).with(ALL_TG_PT));
        world.good(&a2(), &out(REGISTER, 0, 0x0A0B));
        world.good(&a2(), &out(RESERVE, 0x0A0B, 0).of(kind));
        let is_shared = kind::is_held_by_all(kind);
        let code = kind::code(kind);
        let mut expected = vec![0, 0, 0, 2, 0, 0, 0, 3 * 48];
        for (nexus, key, is_holder, all_ports) in [
            (a2(), [0x0A, 0x0B], true, 0x00),
            (b1(), [0, 7], is_shared, 0x02),
            (nexus("b", 2), [0, 7], is_shared, 0x02),
        ] {
            expected.extend([0, 0, 0, 0, 0, 0, key[0], key[1], 0, 0, 0, 0]);
            expected.extend([
                all_ports | u8::from(is_holder),
                if is_holder { code } else { 0 },
            ]);
            expected.extend([0, 0, 0, 0, 0, nexus.port.0 as u8, 0, 0, 0, 24]);
            expected.extend(transport_id::encode(&nexus));
        }
        assert_eq!(read(&mut world, 3, 0xFFFF), expected);
        for length in [0, 7, 8, 20, 56, 57, 151, 152] {
            let kept = usize::from(length).min(expected.len());
            assert_eq!(read(&mut world, 3, length), expected[..kept]);
        }
    }
}

#[test]
fn a_holder_under_another_key() {
    let mut world = World::registered(&[(a1(), 4)]);
    world.good(&a1(), &out(RESERVE, 4, 0).of(Kind::ExclusiveAccess));
    world.good(&a1(), &out(REGISTER_AND_IGNORE, 0, 6));
    assert_eq!(read(&mut world, 1, 16)[15], 6);
}
