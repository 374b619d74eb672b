//! A node that is told to stop says so in the metadata, so that nobody takes it for lost.

use holdfast_model::VolumeId;
use holdfast_model::record::{NodeRecord, Record, SliceRecord, StopRecord};

use crate::bench::host::volume_document;
use crate::bench::{Bench, ME, SLICE, first_record};

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
