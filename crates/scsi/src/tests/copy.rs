//! Copies between two units: what a list may say, what is done, and what is told of it.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::record::{Reservation, ReservationKind};

use super::bench::{
    Bench, IDENTITY, OTHER, PORTS, assert_good, assert_illegal, data, pattern, port, sense,
};
use crate::limits::{
    ATOMIC_BYTES_MAX, COPY_CSCDS_MAX, COPY_DESCRIPTORS_BYTES_MAX, COPY_LIST_BYTES_MAX,
    COPY_SEGMENTS_MAX, COPY_STEP_BYTES,
};
use crate::{
    AdditionalSense, BlockLength, FieldPointer, Identity, MediumError, Sense, SenseKey, Status,
    UnitAttention,
};

const MIB: u64 = 1 << 20;

/// Two units of 8 MiB in blocks of 512 bytes, the first of which gets the commands.
fn bench() -> Bench {
    Bench::with(8 * MIB, BlockLength::Emulated512).with_other(8 * MIB, BlockLength::Emulated512)
}

/// A parameter list that is being written.
#[derive(Clone, Debug)]
pub(super) struct List {
    identifier: u8,
    flags: u8,
    cscds: Vec<u8>,
    segments: Vec<u8>,
    inline: u32,
}

pub(super) fn cscd(identity: &Identity) -> [u8; 32] {
    let mut descriptor = [0; 32];
    descriptor[0] = 0xE4;
    // Binary; NAA of a unit.
    descriptor[4..8].copy_from_slice(&[0x01, 0x03, 0, 16]);
    descriptor[8..24].copy_from_slice(&identity.naa());
    descriptor[30] = 0x02;
    descriptor
}

/// From block to block.
pub(super) fn blocks(ids: (u16, u16), count: u16, from: u64, to: u64) -> Vec<u8> {
    let mut descriptor = vec![0x02, 0, 0, 0x18];
    descriptor.extend(ids.0.to_be_bytes());
    descriptor.extend(ids.1.to_be_bytes());
    descriptor.extend([0, 0]);
    descriptor.extend(count.to_be_bytes());
    descriptor.extend(from.to_be_bytes());
    descriptor.extend(to.to_be_bytes());
    descriptor
}

/// From a byte behind a block to one behind another.
pub(super) fn bytes(ids: (u16, u16), count: u32, from: (u64, u16), to: (u64, u16)) -> Vec<u8> {
    let mut descriptor = vec![0x0A, 0, 0, 0x1C];
    descriptor.extend(ids.0.to_be_bytes());
    descriptor.extend(ids.1.to_be_bytes());
    descriptor.extend(count.to_be_bytes());
    descriptor.extend(from.0.to_be_bytes());
    descriptor.extend(to.0.to_be_bytes());
    descriptor.extend(from.1.to_be_bytes());
    descriptor.extend(to.1.to_be_bytes());
    descriptor
}

impl List {
    /// The two units, and no segment yet.
    pub(super) fn new(identifier: u8) -> Self {
        Self {
            identifier,
            flags: 0,
            cscds: [cscd(&IDENTITY), cscd(&OTHER)].concat(),
            segments: Vec::new(),
            inline: 0,
        }
    }

    pub(super) fn with(mut self, segment: &[u8]) -> Self {
        self.segments.extend(segment);
        self
    }

    fn of(mut self, cscds: &[[u8; 32]]) -> Self {
        self.cscds = cscds.concat();
        self
    }

    fn flagged(mut self, flags: u8) -> Self {
        self.flags = flags;
        self
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut list = vec![self.identifier, self.flags];
        list.extend((self.cscds.len() as u16).to_be_bytes());
        list.extend([0; 4]);
        list.extend((self.segments.len() as u32).to_be_bytes());
        list.extend(self.inline.to_be_bytes());
        list.extend(&self.cscds);
        list.extend(&self.segments);
        list
    }
}

pub(super) fn extended_copy(length: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = 0x83;
    cdb[10..14].copy_from_slice(&length.to_be_bytes());
    cdb
}

fn send(bench: &mut Bench, list: &List) -> crate::Response {
    send_bytes(bench, &list.encode())
}

fn send_bytes(bench: &mut Bench, list: &[u8]) -> crate::Response {
    bench.send(&extended_copy(list.len() as u32), list)
}

fn receive(action: u8, identifier: u8, allocation_length: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[..3].copy_from_slice(&[0x84, action, identifier]);
    cdb[10..14].copy_from_slice(&allocation_length.to_be_bytes());
    cdb
}

fn status_of(bench: &mut Bench, identifier: u8) -> Vec<u8> {
    data(&bench.run(&receive(0, identifier, 255)))
}

fn in_list(byte: u16, bit: Option<u8>) -> Option<FieldPointer> {
    Some(FieldPointer {
        in_cdb: false,
        byte,
        bit,
    })
}

/// Nothing of a list is done that is refused so.
fn refused(list: &List) -> Sense {
    refused_bytes(&list.encode())
}

fn refused_bytes(list: &[u8]) -> Sense {
    let mut bench = bench();
    let response = send_bytes(&mut bench, list);
    assert!(bench.steps.is_empty());
    sense(&response)
}

fn assert_refused(list: &List, additional: AdditionalSense, field: Option<FieldPointer>) {
    let sense = refused(list);
    assert_eq!(sense.key, SenseKey::IllegalRequest);
    assert_eq!(sense.additional, additional);
    assert_eq!(sense.field, field);
}

/// The first of a list's segments would do; that one cannot be done.
fn assert_aborted(list: &List, additional: AdditionalSense, field: Option<FieldPointer>) {
    let sense = refused(list);
    assert_eq!(sense.key, SenseKey::CopyAborted);
    assert_eq!(sense.additional, additional);
    assert_eq!(sense.segment, Some(1));
    assert_eq!(sense.field, field);
    assert_eq!(sense.information, None);
}

#[test]
fn lists_of_wrong_lengths() {
    let length_error = AdditionalSense::PARAMETER_LIST_LENGTH_ERROR;
    let list = List::new(1).with(&blocks((0, 1), 8, 0, 0)).encode();
    for length in 1..list.len() {
        let sense = refused_bytes(&list[..length]);
        assert_eq!(sense.additional, length_error, "{length}");
    }
    // Nothing is not an error.
    let mut bench = bench();
    assert_good(&bench.run(&extended_copy(0)));
    let cdb = extended_copy(COPY_LIST_BYTES_MAX + 1);
    assert_illegal(&bench.run(&cdb), length_error);
    // The last segment descriptor is cut.
    let mut cut = List::new(1).with(&blocks((0, 1), 8, 0, 0));
    cut.segments.pop();
    assert_refused(&cut, length_error, None);
    let mut cut = List::new(1);
    cut.cscds.pop();
    let field = in_list(2, None);
    assert_refused(
        &cut,
        AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST,
        field,
    );
    // What is told of it is longer than anything.
    let mut huge = list;
    huge[8..12].fill(0xFF);
    assert_eq!(refused_bytes(&huge).additional, length_error);
    let mut inline = List::new(1);
    inline.inline = 1;
    let exceeded = AdditionalSense::INLINE_DATA_LENGTH_EXCEEDED;
    assert_refused(&inline, exceeded, in_list(12, None));
}

#[test]
fn too_many_descriptors() {
    let segment = blocks((0, 0), 1, 0, 9);
    let many = |cscds: usize, segments: usize| {
        let mut list = List::new(1).of(&vec![cscd(&IDENTITY); cscds]);
        list.segments = segment.repeat(segments);
        list
    };
    assert_good(&send(
        &mut bench(),
        &many(COPY_CSCDS_MAX, COPY_SEGMENTS_MAX),
    ));
    let list = many(COPY_CSCDS_MAX + 1, 1);
    assert_refused(&list, AdditionalSense::TOO_MANY_TARGET_DESCRIPTORS, None);
    let list = many(1, COPY_SEGMENTS_MAX + 1);
    assert_refused(&list, AdditionalSense::TOO_MANY_SEGMENT_DESCRIPTORS, None);
    // One more of each is longer than descriptors may be.
    let list = many(COPY_CSCDS_MAX + 1, COPY_SEGMENTS_MAX + 1);
    let length = list.cscds.len() + list.segments.len();
    assert!(length as u64 > COPY_DESCRIPTORS_BYTES_MAX);
    assert_refused(&list, AdditionalSense::PARAMETER_LIST_LENGTH_ERROR, None);
}

#[test]
fn descriptors_that_are_not_known() {
    for kind in 0..=0xFF_u8 {
        let mut descriptor = cscd(&IDENTITY);
        descriptor[0] = kind;
        let list = List::new(1).of(&[cscd(&OTHER), descriptor]);
        if kind != 0xE4 {
            let unsupported = AdditionalSense::UNSUPPORTED_TARGET_DESCRIPTOR_TYPE_CODE;
            assert_refused(&list, unsupported, in_list(48, None));
        }
        let mut segment = blocks((0, 1), 8, 0, 0);
        segment[0] = kind;
        let list = List::new(1).with(&blocks((0, 1), 8, 0, 0)).with(&segment);
        if kind != 0x02 && kind != 0x0A {
            let unsupported = AdditionalSense::UNSUPPORTED_SEGMENT_DESCRIPTOR_TYPE_CODE;
            assert_refused(&list, unsupported, in_list(80 + 28, None));
        }
    }
}

#[test]
fn fields_that_are_not_known() {
    let invalid = AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST;
    let good = || List::new(1).with(&blocks((0, 1), 8, 0, 0));
    // LIST ID USAGE 01b is reserved; with 11b there is no identifier.
    assert_refused(&good().flagged(0x08), invalid, in_list(1, Some(4)));
    assert_refused(&good().flagged(0x18), invalid, in_list(0, None));
    let mut descriptor = cscd(&IDENTITY);
    descriptor[7] = 21;
    assert_refused(&good().of(&[descriptor]), invalid, in_list(16 + 7, None));
    for (byte, value, bit) in [(1, 0x04, Some(2)), (1, 0x83, Some(7)), (3, 0x17, None)] {
        let mut segment = blocks((0, 1), 8, 0, 0);
        segment[byte] = value;
        let at = 80 + if byte == 1 { 1 } else { 2 };
        assert_refused(&List::new(1).with(&segment), invalid, in_list(at, bit));
    }
    let mut segment = bytes((0, 1), 8, (0, 0), (0, 0));
    segment[3] = 0x18;
    assert_refused(&List::new(1).with(&segment), invalid, in_list(82, None));
    // Longer than a segment may be.
    let segment = bytes((0, 1), (32 << 20) + 1, (0, 0), (0, 0));
    assert_refused(&List::new(1).with(&segment), invalid, in_list(88, None));
    // Another block length than the unit has. Not to tell it is all right, and LU ID TYPE means nothing.
    let mut descriptor = cscd(&OTHER);
    descriptor[30] = 0x10;
    let list = good().of(&[cscd(&IDENTITY), descriptor]);
    assert_refused(&list, invalid, in_list(48 + 29, None));
    (descriptor[30], descriptor[1]) = (0, 0xC0);
    let list = good().of(&[cscd(&IDENTITY), descriptor]);
    assert_good(&send(&mut bench(), &list));
}

#[test]
fn segments_that_cannot_be_done() {
    let good = || List::new(1).with(&blocks((0, 1), 8, 0, 0));
    let at = 80 + 28;
    let unreachable = AdditionalSense::COPY_TARGET_DEVICE_NOT_REACHABLE;
    for (ids, place) in [((2, 1), 4), ((0, 2), 6), ((0xFFFF, 0xF800), 4)] {
        let list = good().with(&blocks(ids, 8, 0, 0));
        assert_aborted(&list, unreachable, in_list(at + place, None));
    }
    // Who is not there, or is named otherwise, matters where a segment means it.
    let stranger = cscd(&Identity::of_volume(
        holdfast_model::ClusterId(0xABC),
        holdfast_model::VolumeId(9),
    ));
    let mut t10 = cscd(&OTHER);
    t10[4..6].copy_from_slice(&[0x02, 0x01]);
    for third in [stranger, t10] {
        let three = || good().of(&[cscd(&IDENTITY), cscd(&OTHER), third]);
        assert_good(&send(&mut bench(), &three()));
        let list = three().with(&blocks((0, 2), 8, 0, 0));
        let (at, additional) = (in_list(16 + 64, None), unreachable);
        assert_aborted(&list, additional, at);
    }
    let mut tape = cscd(&OTHER);
    tape[1] = 0x01;
    let list = good()
        .of(&[cscd(&IDENTITY), cscd(&OTHER), tape])
        .with(&blocks((0, 2), 8, 0, 0));
    let incorrect = AdditionalSense::INCORRECT_COPY_TARGET_DEVICE_TYPE;
    assert_aborted(&list, incorrect, in_list(16 + 64 + 1, Some(4)));
    // Beyond the end of either.
    let end = 8 * MIB / 512;
    for (from, to, place) in [
        (end - 7, 0, 12),
        (0, end - 7, 20),
        (u64::MAX, 0, 12),
        (0, u64::MAX >> 9, 20),
    ] {
        let list = good().with(&blocks((0, 1), 8, from, to));
        assert_aborted(&list, AdditionalSense::NONE, in_list(at + place, None));
        let segment = bytes((0, 1), 8 * 512, (from, 1), (to, 1));
        let list = good().with(&segment);
        assert_aborted(&list, AdditionalSense::NONE, in_list(at + place, None));
    }
    let list = good().with(&blocks((0, 1), 8, end - 8, end - 8));
    assert_good(&send(&mut bench(), &list));
}

#[test]
fn blocks_of_different_lengths() {
    let mut bench = Bench::new().with_other(MIB, BlockLength::Native4096);
    bench.content[..16 * 512].copy_from_slice(&pattern(16, 1));
    let mut large = cscd(&OTHER);
    (large[30], large[31]) = (0x10, 0);
    let list = |segment: &[u8]| List::new(1).of(&[cscd(&IDENTITY), large]).with(segment);
    let mut of_destination = blocks((0, 1), 1, 8, 3);
    of_destination[1] = 0x02;
    for segment in [blocks((0, 1), 8, 8, 3), of_destination] {
        assert_good(&send(&mut bench, &list(&segment)));
        let content = bench.content[8 * 512..16 * 512].to_vec();
        let other = bench.of(holdfast_model::VolumeId(8));
        assert_eq!(other.content[3 * 4096..4 * 4096], content);
        other.content.fill(0);
    }
    let response = send(&mut bench, &list(&blocks((0, 1), 9, 8, 3)));
    let sense = sense(&response);
    assert_eq!(sense.key, SenseKey::CopyAborted);
    assert_eq!(
        sense.additional,
        AdditionalSense::UNEXPECTED_INEXACT_SEGMENT
    );
}

#[test]
fn what_is_copied_is_what_was_there_before() {
    // Places and lengths in blocks, which cross steps: apart, the same, and over each other both ways.
    let step = COPY_STEP_BYTES / 512;
    for (from, to, count) in [
        (0, step + 3, 9),
        (5, 5, 100),
        (0, 1, 2 * step + 17),
        (1, 0, 2 * step + 17),
        (7, 7 + step, 2 * step),
        (7 + step, 7, 2 * step),
        (0, step / 2 + 1, 3 * step / 2),
    ] {
        let mut bench = bench();
        let size = bench.content.len();
        bench.content = pattern(size / 512, 3);
        let mut expected = bench.content.clone();
        let range = |first: u64| first as usize * 512..(first + count) as usize * 512;
        expected.copy_within(range(from), range(to).start);
        let list = List::new(1).with(&blocks((0, 0), count as u16, from, to));
        assert_good(&send(&mut bench, &list));
        assert!(bench.content == expected, "{from} to {to}: {count}");
        for step in &bench.steps {
            assert!(step.length <= COPY_STEP_BYTES);
            let ends = [step.from, step.to].map(|at| (at, at + step.length - 1));
            let overlaps = step.from.abs_diff(step.to) < step.length;
            let crosses = ends.map(|(at, last)| at / ATOMIC_BYTES_MAX != last / ATOMIC_BYTES_MAX);
            assert!(!overlaps || crosses == [false; 2], "{step:?}");
        }
    }
}

#[test]
fn bytes_are_copied_wherever_they_are() {
    for (from, to, count) in [
        ((3, 17), (9, 500), 1),
        ((0, 1000), (2, 3), 5 * MIB as u32 + 7),
        ((2, 3), (0, 1000), 5 * MIB as u32 + 7),
        ((1, 0), (1, 511), 0),
    ] {
        let mut bench = bench();
        let size = bench.content.len();
        bench.content = pattern(size / 512, 9);
        let mut expected = bench.content.clone();
        let offset = |(block, skip): (u64, u16)| block as usize * 512 + usize::from(skip);
        let end = offset(from) + count as usize;
        expected.copy_within(offset(from)..end, offset(to));
        let list = List::new(1).with(&bytes((0, 0), count, from, to));
        assert_good(&send(&mut bench, &list));
        assert!(bench.content == expected, "{from:?} to {to:?}: {count}");
    }
}

#[test]
fn segments_are_done_in_their_order() {
    let mut bench = bench();
    bench.content[..512].copy_from_slice(&pattern(1, 5));
    let list = List::new(1)
        .with(&blocks((0, 1), 1, 0, 100))
        .with(&blocks((1, 1), 1, 100, 200))
        .with(&blocks((1, 0), 1, 200, 300));
    // STR, PRIORITY and CAT change nothing.
    assert_good(&send(&mut bench, &list.flagged(0x27)));
    assert_eq!(bench.content[300 * 512..301 * 512], pattern(1, 5));
}

#[test]
fn what_fails_is_told_with_what_is_not_done() {
    let mut bench = bench();
    bench.content.fill(1);
    let step = (COPY_STEP_BYTES / 512) as u16;
    let list = List::new(7)
        .with(&blocks((0, 1), 8, 0, 0))
        .with(&blocks((0, 1), 2 * step, 0, 0));
    for failure in [
        MediumError::Lost { offset: 0 },
        MediumError::NoSpace,
        MediumError::Aborted,
        MediumError::Internal,
    ] {
        bench.failure = Some(failure);
        let sense = sense(&send(&mut bench, &list));
        assert_eq!(sense.key, SenseKey::CopyAborted);
        assert_eq!(
            sense.additional,
            AdditionalSense::THIRD_PARTY_DEVICE_FAILURE
        );
        assert_eq!((sense.segment, sense.information), (Some(0), Some(8)));
    }
    // What came at the wrong moment is to come again: nothing was done.
    bench.failure = Some(MediumError::Busy);
    assert_eq!(send(&mut bench, &list).status, Status::Busy);
    bench.failure = Some(MediumError::NotReady);
    assert_eq!(sense(&send(&mut bench, &list)).key, SenseKey::NotReady);
}

/// Carries a copy out until so many steps are done; then it fails.
fn fails_after(list: &List, steps: usize) -> (Sense, crate::CopyReport) {
    use crate::{CopyList, CopyOutcome, Reachable};
    let list = CopyList::parse(&list.encode()).unwrap();
    let bench = bench();
    let reachable = |naa: &[u8; 16]| {
        Some(Reachable {
            volume: holdfast_model::VolumeId(u64::from(naa[15])),
            geometry: bench.unit.geometry(),
            access: &bench.access,
        })
    };
    let mut outcome = list.begin(&bench.port, reachable);
    let mut done = 0;
    loop {
        outcome = match outcome {
            CopyOutcome::Done(report, response) => return (response.sense.unwrap(), report),
            CopyOutcome::Step(_, copy) if done == steps => copy.complete(Err(MediumError::Busy)),
            CopyOutcome::Step(_, copy) => copy.complete(Ok(())),
        };
        done += 1;
    }
}

#[test]
fn a_residue_counts_what_was_not_written() {
    let step = COPY_STEP_BYTES / 512;
    let two = |first: &[u8]| List::new(7).with(&blocks((0, 1), 8, 0, 0)).with(first);
    let list = two(&blocks((0, 1), 2 * step as u16, 0, 0));
    // The second segment's first step is done, and its second is not.
    let (sense, report) = fails_after(&list, 2);
    assert_eq!(sense.key, SenseKey::CopyAborted);
    assert_eq!((sense.segment, sense.information), (Some(1), Some(step)));
    assert_eq!(
        (report.segments, report.bytes),
        (1, 8 * 512 + COPY_STEP_BYTES)
    );
    let list = two(&bytes((0, 1), 2 * COPY_STEP_BYTES as u32, (0, 0), (0, 0)));
    assert_eq!(fails_after(&list, 2).0.information, Some(COPY_STEP_BYTES));
    // What was copied is the end: whoever goes on behind what is said to be done must not miss the front.
    let list = two(&blocks((1, 1), 2 * step as u16, 0, 1));
    assert_eq!(fails_after(&list, 2).0.information, Some(2 * step));
}

#[test]
fn reservations_of_both_units_count() {
    let reserve = |bench: &mut Bench, kind| {
        bench.access.reservation = Some(Reservation {
            kind,
            holder: Some(port(2, PORTS[0])),
        });
    };
    let from_other = List::new(1).with(&blocks((1, 0), 8, 0, 0));
    let to_other = List::new(1).with(&blocks((0, 1), 8, 0, 0));
    let write = ReservationKind::WriteExclusive;
    let all = ReservationKind::ExclusiveAccess;
    for (kind, list, is_done) in [
        (write, &from_other, true),
        (write, &to_other, false),
        (all, &from_other, false),
        (all, &to_other, false),
    ] {
        let mut bench = bench();
        reserve(bench.of(holdfast_model::VolumeId(8)), kind);
        let response = send(&mut bench, list);
        if is_done {
            assert_good(&response);
            continue;
        }
        let sense = sense(&response);
        assert_eq!(sense.key, SenseKey::CopyAborted);
        assert_eq!(
            sense.additional,
            AdditionalSense::THIRD_PARTY_DEVICE_FAILURE
        );
        assert!(bench.steps.is_empty());
    }
    // Of the unit that is asked it is as SPC-4 has it for these commands (5.12.1): they conflict whatever is copied.
    for kind in [write, all] {
        let mut bench = bench();
        reserve(&mut bench, kind);
        for list in [&from_other, &to_other] {
            let status = send(&mut bench, list).status;
            assert_eq!(status, Status::ReservationConflict);
        }
        let status = bench.run(&receive(3, 0, 255)).status;
        assert_eq!(status, Status::ReservationConflict);
    }
}

#[test]
fn how_a_copy_ended_is_told_once() {
    let mut bench = bench();
    let unknown = AdditionalSense::INVALID_FIELD_IN_CDB;
    assert_illegal(&bench.run(&receive(0, 7, 255)), unknown);
    let list = List::new(7)
        .with(&blocks((0, 1), 8, 0, 0))
        .with(&blocks((0, 1), 3, 0, 0));
    assert_good(&send(&mut bench, &list));
    assert_illegal(&bench.run(&receive(0, 6, 255)), unknown);
    let details = data(&bench.run(&receive(4, 7, 255)));
    assert_eq!(details, [0; 4], "there are none of what was done");
    let status = status_of(&mut bench, 7);
    assert_eq!(status, [0, 0, 0, 8, 0x01, 0, 2, 0, 0, 0, 0x16, 0]);
    assert_illegal(&bench.run(&receive(0, 7, 255)), unknown);

    // Of what failed the sense data is told, too.
    bench.failure = Some(MediumError::Internal);
    let sense = sense(&send(&mut bench, &list));
    bench.failure = None;
    let status = status_of(&mut bench, 7);
    assert_eq!(status, [0, 0, 0, 8, 0x02, 0, 0, 0, 0, 0, 0, 0]);
    let cut = data(&bench.run(&receive(4, 7, 60)));
    assert_eq!(cut[..4], [0, 0, 0, 56 + 18]);
    let details = data(&bench.run(&receive(4, 7, 255)));
    assert_eq!(details[56..60], [0x02, 0, 0, 18]);
    assert_eq!(details[60..], sense.encode_fixed());
    assert_eq!(data(&bench.run(&receive(4, 7, 255))), [0; 4]);
    assert_illegal(&bench.run(&receive(0, 7, 255)), unknown);
}

#[test]
fn what_is_told_of_copies_is_of_the_last_and_bounded() {
    let mut bench = bench();
    let list = |identifier| List::new(identifier).with(&blocks((0, 1), 8, 0, 0));
    bench.failure = Some(MediumError::Internal);
    send(&mut bench, &list(1));
    bench.failure = None;
    assert_good(&send(&mut bench, &list(1)));
    assert_eq!(status_of(&mut bench, 1)[4], 0x01);
    // Without an identifier nothing is told.
    assert_good(&send(&mut bench, &list(0).flagged(0x18)));
    let unknown = AdditionalSense::INVALID_FIELD_IN_CDB;
    assert_illegal(&bench.run(&receive(0, 0, 255)), unknown);
    for identifier in 0..=255 {
        assert_good(&send(&mut bench, &list(identifier).flagged(0x10)));
    }
    let mut told = (0..=255)
        .filter(|identifier| bench.run(&receive(0, *identifier, 255)).status == Status::Good);
    assert_eq!(told.next(), Some(224));
    assert_eq!(told.count(), 31);
    assert_good(&send(&mut bench, &list(1)));
    bench.nexus.raise(UnitAttention::Reset);
    assert!(sense(&bench.run(&[0; 6])).key == SenseKey::UnitAttention);
    assert_illegal(&bench.run(&receive(0, 1, 255)), unknown);
}

#[test]
fn a_list_identifier_is_of_one_copy_at_a_time() {
    let mut bench = bench();
    let list = List::new(9).with(&blocks((0, 1), 8, 0, 0)).encode();
    let cdb = extended_copy(list.len() as u32);
    let first = bench.begin(&cdb, &list);
    assert!(matches!(first, crate::Outcome::Copy(_)));
    assert_eq!(status_of(&mut bench, 9)[4], 0x00);
    let unknown = AdditionalSense::INVALID_FIELD_IN_CDB;
    assert_illegal(&bench.run(&receive(4, 9, 255)), unknown);
    let busy = AdditionalSense::OPERATION_IN_PROGRESS;
    assert_illegal(&send_bytes(&mut bench, &list), busy);
    let mut other = list;
    other[0] = 10;
    assert_good(&send_bytes(&mut bench, &other));
    // One that was aborted has failed, and nobody knows with which sense data.
    let report = crate::CopyReport {
        identifier: Some(9),
        segments: 0,
        bytes: 5 << 30,
    };
    bench.nexus.end_copy(report, None);
    let details = data(&bench.run(&receive(4, 9, 60)));
    assert_eq!(details[56..60], [0x40, 0, 0, 0]);
    assert_good(&send_bytes(&mut bench, &other));
}

#[test]
fn what_copies_there_may_be_is_told_alike() {
    let mut bench = bench();
    let parameters = data(&bench.run(&receive(3, 0, 255)));
    let expected = [
        0, 0, 0, 43, 1, 0, 0, 0, 0, 8, 0, 8, 0, 0, 2, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 16, 16, 9, 0, 0, 0, 0, 0, 3, 0x02, 0x0A, 0xE4,
    ];
    assert_eq!(parameters, expected);
    let page = data(&bench.run(&[0x12, 0x01, 0x8F, 0, 255, 0]));
    let expected = [
        &[0x00, 0x8F, 0x00, 12 + 4 + 28 + 4 + 4 + 4 + 32 + 4][..],
        // Supported commands.
        &[
            0x00, 0x01, 0, 12, 8, 0x83, 1, 0x00, 0x84, 3, 0x00, 0x03, 0x04, 0, 0, 0,
        ],
        // Parameter data.
        &[0x00, 0x04, 0, 28, 0, 0, 0, 0, 0, 8, 0, 8, 0, 0, 2, 0],
        &[0; 16],
        // Supported descriptors.
        &[0x00, 0x08, 0, 4, 3, 0x02, 0x0A, 0xE4],
        // General copy operations.
        &[0x80, 0x01, 0, 32, 0, 0, 0, 16, 0, 0, 0, 16, 2, 0, 0, 0, 9],
        &[0; 19],
    ];
    assert_eq!(page, expected.concat());
}
