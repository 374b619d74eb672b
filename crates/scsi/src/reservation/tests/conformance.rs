//! What conformance suites want (libiscsi: ProutRegister, ProutReserve, ProutClear, ProutPreempt,
//! PrinReadKeys, PrinServiceactionRange, PrinReportCapabilities, Reserve6), as two hosts would see
//! it, through whole units; and what is told before what.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::record::{AccessNexus, AccessRecord, ReservationKind as Kind};
use holdfast_model::{ClusterId, VolumeId};
use holdfast_stdx::Bytes;

use super::bench::*;
use crate::reservation::{attentions, kind};
use crate::{
    AdditionalSense, BlockLength, Cdb, Decision, Geometry, Identity, LogicalUnit, Nexus, Outcome,
    Request, Response, Status, Surroundings, UnitAttention,
};

/// A unit that two hosts see, each through a nexus of its own.
struct Target {
    unit: LogicalUnit,
    record: AccessRecord,
    sessions: [(AccessNexus, Nexus); 2],
}

const A: usize = 0;
const B: usize = 1;

const READ: [u8; 10] = [0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0];
const WRITE: [u8; 10] = [0x2A, 0, 0, 0, 0, 0, 0, 0, 1, 0];
const MODE_SENSE: [u8; 6] = [0x1A, 0, 0x3F, 0, 255, 0];
const READY: [u8; 6] = [0; 6];
const OLD_RESERVE: [u8; 6] = [0x16, 0, 0, 0, 0, 0];
const OLD_RELEASE: [u8; 6] = [0x17, 0, 0, 0, 0, 0];

impl Target {
    fn new() -> Self {
        let identity = Identity::of_volume(ClusterId(1), VolumeId(7));
        let geometry = Geometry::new(1 << 20, BlockLength::Emulated512);
        let mut target = Self {
            unit: LogicalUnit::new(identity, geometry),
            record: AccessRecord::open(VolumeId(7)),
            sessions: [a1(), b1()].map(|nexus| (nexus, Nexus::new(1))),
        };
        // The first thing that each hears.
        for who in [A, B] {
            let response = target.send(who, &READY, &[]);
            assert_eq!(response.status, Status::CheckCondition);
        }
        target
    }

    fn send(&mut self, who: usize, cdb: &[u8], data: &[u8]) -> Response {
        let (port, nexus) = &mut self.sessions[who];
        let cdb = Cdb::parse(cdb, self.unit.geometry());
        let wanted = cdb.data_out_length();
        let data = &data[..data.len().min(wanted as usize)];
        let request = Request {
            cdb,
            data_out: vec![Bytes::copy_from_slice(data)],
            data_out_expected: data.len() as u64,
            data_in_expected: 4096,
            luns: &[],
            access: &self.record,
            port,
            surroundings: Surroundings::default(),
        };
        let request = match self.unit.begin(nexus, request) {
            Outcome::Done(response) => return response,
            Outcome::Medium(..) => return Response::good(),
            Outcome::Access(request) => request,
            Outcome::PortGroups(_) => panic!("nobody asks for groups"),
            Outcome::Copy(_) => panic!("nobody asks for copies"),
        };
        match request.decide(&self.record, port, &PORTS) {
            Decision::Answer(response) => response,
            Decision::Change {
                record, response, ..
            } => {
                for (port, nexus) in &mut self.sessions {
                    if let Some(attention) = attentions(&self.record, &record, port) {
                        nexus.raise(attention);
                    }
                }
                self.record = record;
                response
            }
        }
    }

    fn status(&mut self, who: usize, cdb: &[u8]) -> Status {
        let data = vec![0; 512];
        self.send(who, cdb, &data).status
    }

    fn out(&mut self, who: usize, out: &Out) -> Status {
        let Out { cdb, list } = out;
        self.send(who, cdb, list).status
    }

    fn good(&mut self, who: usize, out: &Out) {
        assert_eq!(self.out(who, out), Status::Good, "{out:x?}");
    }

    fn read(&mut self, who: usize, action: u8, allocation_length: u16) -> Vec<u8> {
        let [high, low] = allocation_length.to_be_bytes();
        let cdb = [0x5E, action, 0, 0, 0, 0, 0, high, low, 0];
        let response = self.send(who, &cdb, &[]);
        assert_eq!(response.status, Status::Good);
        response.data_in.concat()
    }

    fn additional(&mut self, who: usize, cdb: &[u8]) -> Option<AdditionalSense> {
        let response = self.send(who, cdb, &[]);
        response.sense.map(|sense| sense.additional)
    }
}

#[test]
fn registering() {
    let mut target = Target::new();
    target.good(A, &out(REGISTER_AND_IGNORE, 0, 4));
    assert_eq!(target.read(A, 0, 16384)[8..], [0, 0, 0, 0, 0, 0, 0, 4]);
    let again = target.out(A, &out(REGISTER, 0, 5));
    assert_eq!(again, Status::ReservationConflict);
    target.good(A, &out(REGISTER, 4, 0));
    assert_eq!(target.read(A, 0, 16384).len(), 8);
}

#[test]
fn each_type_is_reserved_and_released() {
    let mut target = Target::new();
    target.good(A, &out(REGISTER_AND_IGNORE, 0, 4));
    let capabilities = target.read(A, 2, 16384);
    assert_eq!(capabilities[..2], [0, 8]);
    assert!(capabilities[3] >> 4 & 0x07 <= 5, "ALLOW COMMANDS");
    for kind in KINDS {
        target.good(A, &out(RESERVE, 4, 0).of(kind));
        let reservation = target.read(A, 1, 16384);
        let key = if kind::is_held_by_all(kind) { 0 } else { 4 };
        assert_eq!(reservation[15], key);
        assert_eq!(reservation[21], kind::code(kind));
        target.good(A, &out(RELEASE, 4, 0).of(kind));
        assert_eq!(target.read(A, 1, 16384).len(), 8);
    }
    target.good(A, &out(REGISTER, 4, 0));
}

#[test]
fn who_may_read_and_write() {
    use Kind::*;
    for (kind, registered, stranger) in [
        (ExclusiveAccess, [false, false], [false, false]),
        (WriteExclusive, [true, false], [true, false]),
        (ExclusiveAccessRegistrantsOnly, [true, true], [false, false]),
        (WriteExclusiveRegistrantsOnly, [true, true], [true, false]),
        (ExclusiveAccessAllRegistrants, [true, true], [false, false]),
        (WriteExclusiveAllRegistrants, [true, true], [true, false]),
    ] {
        let mut target = Target::new();
        target.good(A, &out(REGISTER_AND_IGNORE, 0, 4));
        target.good(B, &out(REGISTER_AND_IGNORE, 0, 5));
        target.good(A, &out(RESERVE, 4, 0).of(kind));
        let check = |target: &mut Target, who, expected: [bool; 2]| {
            for (cdb, is_good) in [READ, WRITE].iter().zip(expected) {
                let status = target.status(who, cdb);
                let expected = match is_good {
                    true => Status::Good,
                    false => Status::ReservationConflict,
                };
                assert_eq!(status, expected, "{kind:?} {cdb:x?}");
            }
        };
        check(&mut target, A, [true, true]);
        check(&mut target, B, registered);
        target.good(B, &out(REGISTER, 5, 0));
        check(&mut target, B, stranger);
        assert_eq!(target.status(B, &READY), Status::Good);
        target.good(A, &out(RELEASE, 4, 0).of(kind));
        target.good(A, &out(REGISTER, 4, 0));
        check(&mut target, B, [true, true]);
    }
}

#[test]
fn whose_a_reservation_is() {
    for kind in KINDS {
        let mut target = Target::new();
        target.good(A, &out(REGISTER_AND_IGNORE, 0, 4));
        target.good(B, &out(REGISTER_AND_IGNORE, 0, 5));
        target.good(A, &out(RESERVE, 4, 0).of(kind));
        target.good(A, &out(REGISTER, 4, 0));
        let is_shared = kind::is_held_by_all(kind);
        assert_eq!(target.read(A, 1, 16384).len() > 8, is_shared);
        if is_shared {
            target.good(B, &out(RELEASE, 5, 0).of(kind));
        } else {
            // It may have to be told first.
            target.status(B, &READY);
        }
        target.good(B, &out(REGISTER, 5, 0));
    }
}

#[test]
fn clearing_and_preempting_count() {
    let mut target = Target::new();
    target.good(A, &out(REGISTER_AND_IGNORE, 0, 4));
    let generation = target.record.generation;
    target.good(A, &out(RESERVE, 4, 0).of(Kind::ExclusiveAccess));
    target.good(A, &out(CLEAR, 4, 0));
    assert_eq!(target.read(A, 1, 16384).len(), 8);
    let keys = target.read(A, 0, 16384);
    assert_eq!(keys.len(), 8);
    assert_eq!(keys[..4], (generation + 1).to_be_bytes());
    target.good(A, &out(REGISTER_AND_IGNORE, 0, 4));
    target.good(B, &out(REGISTER_AND_IGNORE, 0, 5));
    let generation = target.record.generation;
    target.good(B, &out(PREEMPT, 5, 4).of(Kind::ExclusiveAccess));
    let told = Some(AdditionalSense::REGISTRATIONS_PREEMPTED);
    assert_eq!(target.additional(A, &READY), told);
    assert_eq!(target.status(A, &READY), Status::Good);
    assert_eq!(target.status(B, &READY), Status::Good);
    let keys = target.read(A, 0, 16384);
    assert_eq!(keys[..4], (generation + 1).to_be_bytes());
    assert_eq!(keys[8..], [0, 0, 0, 0, 0, 0, 0, 5]);
    target.good(B, &out(REGISTER, 5, 0));
}

#[test]
fn keys_that_are_cut() {
    let mut target = Target::new();
    target.good(A, &out(REGISTER_AND_IGNORE, 0, 4));
    assert_eq!(target.read(A, 0, 8), [0, 0, 0, 1, 0, 0, 0, 8]);
}

#[test]
fn service_actions() {
    let mut target = Target::new();
    for action in 0..32 {
        let cdb = [0x5E, action, 0, 0, 0, 0, 0, 0x40, 0, 0];
        let is_good = target.status(A, &cdb) == Status::Good;
        assert_eq!(is_good, action < 4);
    }
}

#[test]
fn reserving_as_of_old() {
    let mut target = Target::new();
    assert_eq!(target.status(A, &OLD_RESERVE), Status::Good);
    assert_eq!(target.status(A, &OLD_RESERVE), Status::Good);
    let conflict = Status::ReservationConflict;
    assert_eq!(target.status(B, &OLD_RESERVE), conflict);
    assert_eq!(target.status(B, &OLD_RELEASE), Status::Good);
    assert_eq!(target.status(A, &MODE_SENSE), Status::Good);
    assert_eq!(target.status(B, &MODE_SENSE), conflict);
    assert_eq!(target.status(B, &READY), conflict);
    assert_eq!(target.status(B, &OLD_RESERVE), conflict);
    for cdb in [[0x12, 0, 0, 0, 96, 0], [0x03, 0, 0, 0, 18, 0]] {
        assert_eq!(target.status(B, &cdb), Status::Good);
    }
    assert_eq!(target.status(A, &OLD_RELEASE), Status::Good);
    assert_eq!(target.status(B, &OLD_RESERVE), Status::Good);
    assert_eq!(target.status(B, &OLD_RELEASE), Status::Good);
    // A reset ends it, and so does the end of its nexus.
    for after in [crate::reservation::on_reset, |record: &AccessRecord| {
        crate::reservation::on_nexus_loss(record, &a1())
    }] {
        assert_eq!(target.status(A, &OLD_RESERVE), Status::Good);
        target.record = after(&target.record).unwrap();
        assert_eq!(target.status(B, &OLD_RESERVE), Status::Good);
        assert_eq!(target.status(B, &OLD_RELEASE), Status::Good);
    }
}

/// SAM-5 5.3.3, Status precedence.
#[test]
fn resets_are_told_before_conflicts_and_all_else_after() {
    let mut target = Target::new();
    target.good(A, &out(REGISTER_AND_IGNORE, 0, 4));
    target.good(A, &out(RESERVE, 4, 0).of(Kind::ExclusiveAccess));
    let nexus = &mut target.sessions[B].1;
    nexus.raise(UnitAttention::Reset);
    nexus.raise(UnitAttention::CapacityChanged);
    let reset = AdditionalSense::BUS_DEVICE_RESET_FUNCTION_OCCURRED;
    assert_eq!(target.additional(B, &READ), Some(reset));
    assert_eq!(target.status(B, &READ), Status::ReservationConflict);
    assert_eq!(target.status(B, &WRITE), Status::ReservationConflict);
    // What is forbidden has told nothing: it still waits for what is permitted.
    let grown = AdditionalSense::CAPACITY_DATA_HAS_CHANGED;
    assert_eq!(target.additional(B, &READY), Some(grown));
    assert_eq!(target.status(B, &READY), Status::Good);
    // A conflict counts what was to be moved.
    assert_eq!(target.send(B, &WRITE, &[0; 512]).transfer_length, 512);
    assert_eq!(target.send(B, &READ, &[]).transfer_length, 0);
}

#[test]
fn what_is_malformed_is_no_conflict() {
    let mut target = Target::new();
    target.good(A, &out(REGISTER_AND_IGNORE, 0, 4));
    target.good(A, &out(RESERVE, 4, 0).of(Kind::ExclusiveAccess));
    let mut beyond = READ;
    beyond[2] = 0xFF;
    let why = AdditionalSense::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE;
    assert_eq!(target.additional(B, &beyond), Some(why));
}

/// An initiator that sends where it was to take is answered, and nothing moves.
#[test]
fn keys_that_nobody_takes() {
    let target = Target::new();
    let (port, mut nexus) = target.sessions[A].clone();
    let cdb = Cdb::parse(&[0x5E, 0, 0, 0, 0, 0, 0, 0, 64, 0], target.unit.geometry());
    let request = Request {
        cdb,
        data_out: Vec::new(),
        data_out_expected: 24,
        data_in_expected: 0,
        luns: &[],
        access: &target.record,
        port: &port,
        surroundings: Surroundings::default(),
    };
    let Outcome::Access(request) = target.unit.begin(&mut nexus, request) else {
        panic!("it is for who has the record");
    };
    assert!(request.is_read());
    let Decision::Answer(response) = request.decide(&target.record, &port, &PORTS) else {
        panic!("it changes nothing");
    };
    assert_eq!(response.status, Status::Good);
    assert_eq!(response.transfer_length, 0);
}
