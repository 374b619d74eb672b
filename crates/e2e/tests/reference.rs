//! The harness itself, held against tgt: what it says of a target is what is so.

use holdfast_e2e::conformance::{self, Verdict};
use holdfast_e2e::image;

use crate::support::Medium;

const VOLUME_BYTES: u64 = 64 << 20;

#[test]
fn the_conformance_suite_is_run_and_read() {
    let medium = Medium::new(VOLUME_BYTES);
    let tgt = medium.serve();
    let outcome = conformance::run("Read10", &tgt.url()).unwrap();
    assert_eq!(outcome.tests.len(), 6);
    assert_eq!(outcome.count(Verdict::Passed), 6);
    // tgt answers GET LBA STATUS beyond its end, and accepts any DataSN.
    for (suite, failed) in [
        ("GetLBAStatus", "GetLBAStatus.BeyondEol"),
        ("iSCSIdatasn", "iSCSIdatasn.iSCSIDataSnInvalid"),
    ] {
        let outcome = conformance::run(suite, &tgt.url()).unwrap();
        let complaints = outcome.complaints(&[]);
        let is_there = complaints
            .iter()
            .any(|test| test.name == failed && test.verdict == Verdict::Failed);
        assert!(is_there, "{outcome:?}");
    }
    let skipped = conformance::run("CompareAndWrite", &tgt.url()).unwrap();
    assert_eq!(skipped.count(Verdict::Skipped), skipped.tests.len());
}

#[test]
fn a_suite_that_cannot_run_is_an_error() {
    let medium = Medium::new(VOLUME_BYTES);
    let mut tgt = medium.serve();
    assert!(conformance::run("NoSuchSuite", &tgt.url()).is_err());
    let url = tgt.url();
    assert!(conformance::run("Read10", &url.replace(":lab", ":none")).is_err());
    tgt.kill();
    assert!(conformance::run("Read10", &url).is_err());
}

#[test]
fn images_travel_over_iscsi() {
    let medium = Medium::new(VOLUME_BYTES);
    let tgt = medium.serve();
    let files = medium.directory().join("files");
    image::make_files(&files, 100, 1).unwrap();
    let path = medium.directory().join("image");
    image::make_ext4(&path, &files, VOLUME_BYTES).unwrap();
    let path = path.display().to_string();
    assert!(image::compare(&path, &tgt.url()).is_err());
    image::convert(&path, &tgt.url()).unwrap();
    image::compare(&path, &tgt.url()).unwrap();
    image::qemu_io(&tgt.url(), "discard 0 64M").unwrap();
    assert!(image::compare(&path, &tgt.url()).is_err());
}
