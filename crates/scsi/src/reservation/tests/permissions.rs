//! Who may read and write under which reservation, and what a change takes away.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::VolumeId;
use holdfast_model::record::{
    AccessNexus, AccessRecord, Registration, Reservation, ReservationKind as Kind,
};

use super::bench::*;
use crate::reservation::{Need, kind, permits, takes_away};
use crate::{BlockLength, Cdb, Geometry};

/// SPC-4 5.12.1: holder; registered; not registered. Each may read, and write.
#[test]
fn reading_and_writing() {
    const ALL: (bool, bool) = (true, true);
    const READ: (bool, bool) = (true, false);
    const NONE: (bool, bool) = (false, false);
    use Kind::*;
    for (kind, registered, stranger) in [
        (WriteExclusive, READ, READ),
        (ExclusiveAccess, NONE, NONE),
        (WriteExclusiveRegistrantsOnly, ALL, READ),
        (ExclusiveAccessRegistrantsOnly, ALL, NONE),
        (WriteExclusiveAllRegistrants, ALL, READ),
        (ExclusiveAccessAllRegistrants, ALL, NONE),
    ] {
        let mut world = World::registered(&[(a1(), 4), (b1(), 5)]);
        let may = |world: &World, nexus: &AccessNexus| {
            assert!(permits(&world.record, nexus, Need::Nothing));
            assert!(permits(&world.record, nexus, Need::Unreserved));
            let may = |need| permits(&world.record, nexus, need);
            (may(Need::Read), may(Need::Write))
        };
        for nexus in [a1(), a2(), b1(), c1()] {
            assert_eq!(may(&world, &nexus), ALL, "registrations forbid nothing");
        }
        world.good(&a1(), &out(RESERVE, 4, 0).of(kind));
        assert_eq!(may(&world, &a1()), ALL);
        assert_eq!(may(&world, &b1()), registered, "{kind:?}");
        assert_eq!(may(&world, &a2()), stranger, "{kind:?}: another nexus");
        assert_eq!(may(&world, &c1()), stranger, "{kind:?}");
    }
}

#[test]
fn an_old_reserve_forbids_all_but_a_few() {
    let mut record = AccessRecord::open(VolumeId(1));
    record.reserved = Some(a1());
    for need in [Need::Unreserved, Need::Read, Need::Write] {
        assert!(permits(&record, &a1(), need));
        assert!(!permits(&record, &a2(), need));
    }
    assert!(permits(&record, &a2(), Need::Nothing));
}

/// Each command that is known, by SPC-4 5.12.1, SBC-3 and SPC-2 5.5.1.
#[test]
fn what_commands_need() {
    let geometry = Geometry::new(1 << 20, BlockLength::Emulated512);
    let need = |cdb: &[u8]| {
        let mut bytes = [0; 16];
        bytes[..cdb.len()].copy_from_slice(cdb);
        let cdb = Cdb::parse(&bytes, geometry);
        assert!(cdb.command().is_ok(), "{bytes:x?}");
        Need::of(&cdb)
    };
    for cdb in [
        &[0x03][..],
        &[0x12],
        &[0xA0],
        &[0x25],
        &[0x9E, 0x10],
        &[0x16],
        &[0x17],
        &[0x56],
        &[0x57],
        &[0x5E, 0x00],
        &[0x5E, 0x03],
        &[0x5F, 0x00, 0, 0, 0, 0, 0, 0, 24],
        &[0x5F, 0x01, 1, 0, 0, 0, 0, 0, 24],
    ] {
        assert_eq!(need(cdb), Need::Nothing, "{cdb:x?}");
    }
    for cdb in [&[0x00][..], &[0x1B, 0, 0, 0, 1]] {
        assert_eq!(need(cdb), Need::Unreserved, "{cdb:x?}");
    }
    for cdb in [
        &[0x08][..],
        &[0x28],
        &[0xA8],
        &[0x88],
        &[0x2F],
        &[0xAF],
        &[0x8F],
        &[0x1A, 0, 0x3F],
        &[0x5A, 0, 0x3F],
        &[0x9E, 0x12],
        &[0xA3, 0x0C],
    ] {
        assert_eq!(need(cdb), Need::Read, "{cdb:x?}");
    }
    for cdb in [
        &[0x0A][..],
        &[0x2A],
        &[0xAA],
        &[0x8A],
        &[0x2E],
        &[0xAE],
        &[0x8E],
        &[0x35],
        &[0x91],
        &[0x41, 0, 0, 0, 0, 0, 0, 0, 1],
        &[0x93, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        &[0x42],
    ] {
        assert_eq!(need(cdb), Need::Write, "{cdb:x?}");
    }
    // What is refused anyway is refused for what is wrong with it.
    let unknown = Cdb::parse(&[0xFF; 16], geometry);
    assert_eq!(Need::of(&unknown), Need::Nothing);
}

/// All sound records of three nexuses, one of which is only there to be unknown.
fn small_records() -> Vec<AccessRecord> {
    let nexuses = [a1(), b1()];
    let mut records = Vec::new();
    for mask in 0..4 {
        let registered = |index: &usize| mask & (1 << index) != 0;
        let mut record = AccessRecord::open(VolumeId(1));
        record.registrations = (0..2)
            .filter(registered)
            .map(|index| Registration {
                nexus: nexuses[index].clone(),
                key: 1 + index as u64,
                all_target_ports: false,
            })
            .collect();
        let holders: Vec<_> = [0, 1]
            .iter()
            .filter(|index| registered(index))
            .map(|index| Some(nexuses[*index].clone()))
            .collect();
        records.push(record.clone());
        for kind in KINDS {
            let holders = match kind::is_held_by_all(kind) {
                true => vec![None; usize::from(mask != 0)],
                false => holders.clone(),
            };
            for holder in holders {
                record.reservation = Some(Reservation { kind, holder });
                records.push(record.clone());
            }
        }
    }
    for nexus in nexuses {
        let mut record = AccessRecord::open(VolumeId(1));
        record.reserved = Some(nexus);
        records.push(record);
    }
    records
}

/// Written anew, without looking at how it is done: may this one write, may it read?
fn rights(record: &AccessRecord, nexus: &AccessNexus) -> [bool; 2] {
    if let Some(holder) = &record.reserved {
        return [holder == nexus; 2];
    }
    let Some(reservation) = &record.reservation else {
        return [true; 2];
    };
    let is_registered = record.registrations.iter().any(|it| it.nexus == *nexus);
    let is_holder = reservation.holder.as_ref() == Some(nexus);
    match reservation.kind {
        Kind::WriteExclusive => [is_holder, true],
        Kind::ExclusiveAccess => [is_holder; 2],
        Kind::WriteExclusiveRegistrantsOnly | Kind::WriteExclusiveAllRegistrants => {
            [is_registered, true]
        }
        Kind::ExclusiveAccessRegistrantsOnly | Kind::ExclusiveAccessAllRegistrants => {
            [is_registered; 2]
        }
    }
}

#[test]
fn every_change_between_small_records() {
    let records = small_records();
    assert_eq!(records.len(), 1 + 7 + 7 + 11 + 2);
    let mut took_away = 0;
    for old in &records {
        assert!(old.is_sound());
        for new in &records {
            let expected = [a1(), b1(), c1()].iter().any(|nexus| {
                let (before, after) = (rights(old, nexus), rights(new, nexus));
                (0..2).any(|right| before[right] && !after[right])
            });
            assert_eq!(takes_away(old, new), expected, "{old:?}\n{new:?}");
            took_away += usize::from(expected);
        }
        for nexus in [a1(), b1(), c1()] {
            let may = [Need::Write, Need::Read].map(|need| permits(old, &nexus, need));
            assert_eq!(may, rights(old, &nexus));
        }
        assert!(!takes_away(old, old));
    }
    assert!(took_away > 100);
}
