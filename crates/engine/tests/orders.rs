//! A command about reservations lives no longer than a write, and a session no longer than what it has reserved.

use holdfast_iscsi::initiator::{CommandRequest, CommandTag};
use holdfast_model::VolumeId;
use holdfast_model::record::{AccessRecord, Record, SliceRecord};
use holdfast_stdx::Bytes;

use crate::bench::host::{Host, UNIT, volume_document};
use crate::bench::{Bench, SLICE, first_record};

const VOLUME: VolumeId = VolumeId(1);

/// A host that has sent REGISTER, to a node that the metadata does not answer.
fn registering() -> (Bench, Host, CommandTag) {
    let mut bench = Bench::new(&[
        volume_document(VOLUME),
        (SliceRecord::key(SLICE), first_record().encode()),
    ]);
    let mut host = Host::log_in(&mut bench, 1, VOLUME);
    bench.metadata = Some(Vec::new());
    let mut list = vec![0; 24];
    list[15] = 7;
    let register = CommandRequest::new(UNIT, &[0x5F, 0, 0, 0, 0, 0, 0, 0, 24, 0]);
    let tag = host.submit(&mut bench, register.writing(vec![Bytes::from(list)]));
    (bench, host, tag)
}

fn is_registered(bench: &Bench) -> bool {
    let record = bench.document::<AccessRecord>(&AccessRecord::key(VOLUME));
    record.is_some_and(|record| !record.registrations.is_empty())
}

#[test]
fn what_can_be_decided_in_time_is() {
    let (mut bench, mut host, tag) = registering();
    bench.pass(2500);
    host.run(&mut bench);
    assert!(host.done.is_empty());
    bench.release_metadata();
    bench.pass(100);
    host.run(&mut bench);
    assert_eq!(host.done[&tag].status, 0x00);
    assert!(is_registered(&bench));
}

/// Its host may have repeated it elsewhere by then, and done other things.
#[test]
fn what_has_lived_for_too_long_is_not_decided() {
    let (mut bench, mut host, tag) = registering();
    bench.pass(3500);
    bench.release_metadata();
    bench.pass(100);
    host.run(&mut bench);
    let sense = &host.done[&tag];
    assert_eq!((sense.status, sense.sense[2]), (0x02, 0x02), "NOT READY");
    assert!(!is_registered(&bench));
}

/// A host that has the unit reserved by RESERVE(6), at a node that the metadata answers no more.
fn reserving() -> (Bench, Host) {
    let mut bench = Bench::new(&[
        volume_document(VOLUME),
        (SliceRecord::key(SLICE), first_record().encode()),
    ]);
    let mut host = Host::log_in(&mut bench, 1, VOLUME);
    let reserve = CommandRequest::new(UNIT, &[0x16, 0, 0, 0, 0, 0]);
    let tag = host.submit(&mut bench, reserve);
    bench.pass(1000);
    host.run(&mut bench);
    assert_eq!(host.done[&tag].status, 0x00);
    assert!(is_reserved(&bench));
    bench.metadata = Some(Vec::new());
    (bench, host)
}

fn is_reserved(bench: &Bench) -> bool {
    let record = bench.document::<AccessRecord>(&AccessRecord::key(VOLUME));
    record.is_some_and(|record| record.reserved.is_some())
}

/// Whoever hears of it may reserve the unit at any node.
#[test]
fn a_logout_is_answered_when_what_its_session_had_reserved_is_free() {
    let (mut bench, mut host) = reserving();
    host.log_out(&mut bench);
    bench.pass(5000);
    host.run(&mut bench);
    assert!(!host.initiator.has_ended(), "it is not free yet");
    bench.release_metadata();
    bench.pass(100);
    host.run(&mut bench);
    assert!(!is_reserved(&bench));
    assert!(host.initiator.has_ended());
}

/// A new session on the same nexus would lose, by the end of the former one, what it has reserved itself.
#[test]
fn a_nexus_begins_anew_when_what_it_had_reserved_is_free() {
    let (mut bench, _former) = reserving();
    let mut host = Host::connect(&mut bench, 1, VOLUME);
    bench.pass(2000);
    host.run(&mut bench);
    assert!(!host.initiator.is_logged_in());
    bench.release_metadata();
    bench.pass(100);
    host.run(&mut bench);
    assert!(!is_reserved(&bench));
    assert!(host.initiator.is_logged_in());
}

/// Where the metadata is away for long, the host is not kept out, and the unit is free when it is there again.
#[test]
fn what_could_not_be_freed_in_time_is_later() {
    let (mut bench, mut host) = reserving();
    host.log_out(&mut bench);
    bench.pass(11_000);
    host.run(&mut bench);
    assert!(host.initiator.has_ended(), "its time is over");
    assert!(is_reserved(&bench));
    bench.pass(30_000);
    bench.release_metadata();
    bench.pass(1000);
    assert!(!is_reserved(&bench));
}
