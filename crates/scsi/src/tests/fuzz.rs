//! Random commands with random data: nothing an initiator sends does more than be refused.
//!
//! The bench checks on every response that it is well formed, and on every operation that it lies
//! within the unit.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_stdx::Prng;

use super::bench::{Bench, IDENTITY, OTHER};
use super::copy::{List, blocks, bytes, cscd};
use crate::operation_codes::OPERATION_CODES;
use crate::{
    BlockLength, Cdb, Lun, MediumError, Sense, Status, UnitAttention, limits, respond_absent,
};

/// A CDB that is likely to be understood: a known command with few bits set that mean nothing.
fn cdb(prng: &mut Prng) -> [u8; 16] {
    let mut cdb = [0; 16];
    if prng.chance(1, 8) {
        prng.fill(&mut cdb);
        return cdb;
    }
    let row = prng.choose(OPERATION_CODES);
    for (byte, usage) in cdb.iter_mut().zip(row.usage_data()) {
        // Small numbers, so that addresses and lengths are within the unit at times.
        if prng.chance(1, 3) {
            *byte = usage & prng.next_u64() as u8;
        }
    }
    cdb[0] = row.operation_code;
    cdb[1] |= row.service_action.unwrap_or_default() as u8;
    // Of most lengths nothing can come.
    if row.operation_code == 0x5F && prng.chance(3, 4) {
        cdb[5..9].copy_from_slice(&24_u32.to_be_bytes());
    }
    if prng.chance(1, 16) {
        cdb[prng.below(16) as usize] ^= 1 << prng.below(8);
    }
    cdb
}

/// A parameter list of EXTENDED COPY in which a few bytes may be wrong.
fn copy_list(prng: &mut Prng) -> Vec<u8> {
    let mut list = List::new(prng.below(4) as u8);
    for _ in 0..prng.below(4) {
        let ids = (prng.below(2) as u16, prng.below(2) as u16);
        let (from, to) = (prng.below(2048), prng.below(2048));
        let count = prng.below(2048 + 1 - from.max(to));
        let skips = (prng.below(512) as u16, prng.below(512) as u16);
        let segment = match prng.chance(1, 2) {
            true => blocks(ids, count as u16, from, to),
            false => bytes(ids, count as u32 * 500, (from, skips.0), (to, skips.1)),
        };
        list = list.with(&segment);
    }
    let mut list = list.encode();
    for _ in 0..prng.below(4) {
        let at = prng.below(list.len() as u64) as usize;
        list[at] = match prng.below(3) {
            0 => list[at] ^ (1 << prng.below(8)),
            1 => 0xFF,
            _ => prng.next_u64() as u8,
        };
    }
    match prng.below(8) {
        0 => list.truncate(prng.below(list.len() as u64 + 1) as usize),
        1 => list.extend(cscd(prng.choose(&[IDENTITY, OTHER]))),
        _ => {}
    }
    list
}

/// Whatever a list says: it is refused, or what it asks for lies in the units; and it is told how that ended.
#[test]
fn whatever_lists_of_copies_say() {
    let mut prng = Prng::from_seed(0xC0B1);
    let mut ends = vec![0_u32; 256];
    let mut bench = Bench::with(1 << 20, BlockLength::Emulated512)
        .with_other(1 << 20, BlockLength::Emulated512);
    for round in 0..20_000 {
        let list = copy_list(&mut prng);
        if round % 1000 == 0 {
            prng.fill(&mut bench.content);
        }
        bench.failure = prng.chance(1, 20).then_some(MediumError::NoSpace);
        let cdb = super::copy::extended_copy(list.len() as u32);
        let response = bench.send(&cdb, &list);
        let key = response.sense.map_or(0, |sense| sense.key as usize);
        ends[key] += 1;
        bench.operations.clear();
        if let Some(other) = &mut bench.other {
            other.operations.clear();
        }
    }
    for key in [0x0, 0x5, 0xA] {
        assert!(ends[key] > 500, "sense key {key:x}: {}", ends[key]);
    }
}

/// Data-Out of about the right length; at times a plausible UNMAP parameter list.
fn data_out(prng: &mut Prng, wanted: u64) -> Vec<u8> {
    let length = match prng.below(8) {
        0 => 0,
        1 => prng.below(wanted + 1),
        2 => wanted + prng.below(1024),
        _ => wanted,
    };
    let mut data = vec![0; length as usize];
    if prng.chance(1, 2) {
        prng.fill(&mut data);
    }
    if prng.chance(1, 2) && data.len() >= 8 {
        let length = (data.len() - 8) as u16;
        data[2..4].copy_from_slice(&length.to_be_bytes());
        for descriptor in data[8..].chunks_exact_mut(16) {
            descriptor[..6].fill(0);
            descriptor[8..11].fill(0);
        }
    }
    data
}

#[test]
fn whatever_initiators_send() {
    const FAILURES: [MediumError; 7] = [
        MediumError::NotReady,
        MediumError::Lost { offset: 4711 },
        MediumError::Write,
        MediumError::NoSpace,
        MediumError::Busy,
        MediumError::Aborted,
        MediumError::Internal,
    ];
    const ATTENTIONS: [UnitAttention; 6] = [
        UnitAttention::AccessStateChanged,
        UnitAttention::SoftThresholdReached,
        UnitAttention::Reset,
        UnitAttention::CommandsCleared,
        UnitAttention::CapacityChanged,
        UnitAttention::ReportedLunsChanged,
    ];
    let mut prng = Prng::from_seed(0x5C51);
    let mut good = vec![0_u32; 256];
    for block_length in [BlockLength::Emulated512, BlockLength::Native4096] {
        let mut bench = Bench::just_powered_on(1 << 20, block_length);
        for _ in 0..20_000 {
            let cdb = cdb(&mut prng);
            let wanted = Cdb::parse(&cdb, bench.unit.geometry()).data_out_length();
            assert!(wanted <= limits::TRANSFER_BYTES_MAX);
            let data = data_out(&mut prng, wanted);
            if prng.chance(1, 50) {
                bench.nexus.raise(*prng.choose(&ATTENTIONS));
            }
            bench.failure = prng.chance(1, 50).then(|| *prng.choose(&FAILURES));
            let response = bench.send(&cdb, &data);
            if response.status == Status::Good {
                good[usize::from(cdb[0])] += 1;
            }
            bench.operations.clear();
            bench.wanted.clear();
            let (fixed, descriptor) = response.sense.map_or((18, 8), |sense: Sense| {
                (sense.encode_fixed().len(), sense.encode_descriptor().len())
            });
            assert_eq!(fixed, 18);
            assert!(descriptor <= 252);
        }
    }
    for row in OPERATION_CODES {
        let count = good[usize::from(row.operation_code)];
        assert!(count > 0, "{:02x} never worked", row.operation_code);
    }
}

#[test]
fn whatever_is_sent_to_a_unit_that_is_not_there() {
    let mut prng = Prng::from_seed(25);
    for _ in 0..20_000 {
        let cdb = cdb(&mut prng);
        let length = prng.below(17) as usize;
        let response = respond_absent(&cdb[..length], &[Lun::from_number(0)]);
        if response.status == Status::Good {
            assert!(matches!(cdb[0], 0x03 | 0x12 | 0xA0));
        }
    }
}
