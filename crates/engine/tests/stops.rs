//! A node that is told to stop says so in the metadata, so that nobody takes it for lost.

use holdfast_iscsi::initiator::CommandRequest;
use holdfast_model::record::{NodeRecord, Record, SliceRecord, StopRecord};
use holdfast_model::{BLOCK_SIZE, VolumeId};
use holdfast_stdx::Bytes;

use crate::bench::host::{Host, UNIT, volume_document};
use crate::bench::{Bench, ME, PEER, SLICE, first_record, record_of_peer, store_of};

const VOLUME: VolumeId = SLICE.volume;

/// A node that was told to stop, and whose metadata answers nothing from then on.
fn stopping() -> Bench {
    let mut bench = Bench::new(&[
        volume_document(VOLUME),
        (SliceRecord::key(SLICE), first_record().encode()),
    ]);
    bench.pass(1000);
    assert_eq!(says_stopped(&bench), None);
    bench.metadata = Some(Vec::new());
    bench.stop();
    bench
}

fn says_stopped(bench: &Bench) -> Option<bool> {
    let own: NodeRecord = bench.document(&NodeRecord::key(ME)).unwrap();
    let stop = bench.document::<StopRecord>(&StopRecord::key(ME))?;
    Some(stop.is_of(&own))
}

#[test]
fn it_has_said_so_before_it_ends() {
    let mut bench = stopping();
    bench.pass(1000);
    assert!(!bench.has_stopped, "nobody knows yet");
    bench.release_metadata();
    assert_eq!(says_stopped(&bench), Some(true));
    assert!(bench.has_stopped);
    bench.restart(false);
    bench.pass(1000);
    assert_eq!(says_stopped(&bench), Some(false), "it runs again");
}

#[test]
fn it_says_so_once_more_where_that_has_failed() {
    let mut bench = stopping();
    bench.pass(100);
    bench.refuse_metadata();
    assert!(!bench.has_stopped);
    bench.pass(300);
    assert!(bench.has_stopped);
    assert_eq!(says_stopped(&bench), Some(true));
}

#[test]
fn it_ends_where_the_metadata_says_nothing() {
    let mut bench = stopping();
    bench.pass(1600);
    assert!(bench.has_stopped);
}

/// WRITE(10) of the first block.
fn write() -> CommandRequest {
    let data = Bytes::from(vec![7; BLOCK_SIZE]);
    CommandRequest::new(UNIT, &[0x2A, 0, 0, 0, 0, 0, 0, 0, 8, 0]).writing(vec![data])
}

/// The others may be told the same, and hear of it later.
#[test]
fn it_goes_on_for_a_moment_where_there_are_others() {
    let mut bench = Bench::new(&[
        volume_document(VOLUME),
        (SliceRecord::key(SLICE), first_record().encode()),
        record_of_peer(store_of(PEER), 1),
    ]);
    bench.connect();
    // Until it is no stranger any more.
    bench.pass(1000);
    let mut host = Host::log_in(&mut bench, 1, VOLUME);
    bench.stop();
    bench.pass(400);
    assert_eq!(says_stopped(&bench), Some(true), "it is said at once");
    assert!(!bench.has_stopped, "it leads");
    assert_eq!(host.complete(&mut bench, write()).status, 0);
    bench.pass(200);
    assert!(bench.has_stopped);
}
