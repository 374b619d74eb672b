//! Which devices are taken, and what is said of the others.

use crate::support;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use holdfast_disk::{DeviceSpec, Disks, FileSpec, OpenErrorReason, Options, StartError};
use holdfast_model::DiskId;

const MIB: u64 = 1 << 20;

fn open(spec: DeviceSpec) -> Result<Disks, OpenErrorReason> {
    let path = spec.path.clone();
    Disks::open(&[spec], Options::default()).map_err(|error| match error {
        StartError::Open(error) => {
            assert_eq!(error.path, path);
            error.reason
        }
        other => panic!("{other}"),
    })
}

fn reason(spec: DeviceSpec) -> OpenErrorReason {
    open(spec).err().expect("the device is refused")
}

#[test]
fn files_are_created_with_their_space() {
    use std::os::unix::fs::MetadataExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk");
    let disks = open(DeviceSpec::file(&path, MIB)).unwrap();
    let geometry = disks.geometry(DiskId(0)).unwrap();
    assert_eq!(geometry.size, MIB);
    assert!([512, 1024, 2048, 4096].contains(&geometry.sector));
    assert!(!geometry.block_device);
    assert!(disks.geometry(DiskId(1)).is_none());
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!(metadata.len(), MIB);
    assert!(metadata.blocks() * 512 >= MIB);
    assert_eq!(
        metadata.permissions().mode() & 0o077,
        0,
        "nobody else's business"
    );
}

#[test]
fn files_may_be_sparse() {
    use std::os::unix::fs::MetadataExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk");
    let spec = DeviceSpec {
        file: Some(FileSpec {
            size: 1 << 40,
            preallocate: false,
        }),
        ..DeviceSpec::existing(&path)
    };
    let disks = open(spec).unwrap();
    assert_eq!(disks.geometry(DiskId(0)).unwrap().size, 1 << 40);
    assert!(fs::metadata(&path).unwrap().blocks() * 512 < MIB);
}

#[test]
fn a_file_that_holds_something_keeps_its_size() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk");
    let content = support::pattern(1, 8192);
    fs::write(&path, &content).unwrap();
    for size in [MIB, 4096] {
        let disks = open(DeviceSpec::file(&path, size)).unwrap();
        assert_eq!(disks.geometry(DiskId(0)).unwrap().size, 8192);
        drop(disks);
        assert_eq!(fs::read(&path).unwrap(), content);
    }
    // Made, and cut off before it had its size.
    fs::write(&path, b"").unwrap();
    let disks = open(DeviceSpec::file(&path, MIB)).unwrap();
    assert_eq!(disks.geometry(DiskId(0)).unwrap().size, MIB);
}

#[test]
fn a_file_is_used_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk");
    for options in support::drivers() {
        let spec = DeviceSpec::file(&path, MIB);
        let first = Disks::open(std::slice::from_ref(&spec), options).unwrap();
        let refused = reason(spec.clone());
        assert!(matches!(refused, OpenErrorReason::InUse { .. }));
        if Path::new("/proc/locks").exists() {
            let holder = Some(std::process::id());
            assert_eq!(refused, OpenErrorReason::InUse { holder });
        }
        drop(first);
        drop(open(spec).expect("free again at once"));
    }
    let same = directory.path().join("same");
    symlink(&path, &same).unwrap();
    let specs = [DeviceSpec::existing(&path), DeviceSpec::existing(&same)];
    let error = Disks::open(&specs, Options::default()).err().unwrap();
    assert!(error.to_string().contains("same: is in use"), "{error}");
}

#[test]
fn what_is_no_device_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    assert_eq!(
        reason(DeviceSpec::existing(place("missing"))),
        OpenErrorReason::Missing
    );
    let lost = place("missing/disk");
    assert_eq!(
        reason(DeviceSpec::file(lost, MIB)),
        OpenErrorReason::Missing
    );
    let not_storage = OpenErrorReason::NotStorage;
    assert_eq!(reason(DeviceSpec::existing(directory.path())), not_storage);
    assert_eq!(reason(DeviceSpec::existing("/dev/null")), not_storage);
    assert_eq!(reason(DeviceSpec::existing("/dev/full")), not_storage);
}

#[test]
fn what_is_too_small_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk");
    fs::write(&path, [0; 5000]).unwrap();
    let spec = DeviceSpec {
        size_min: MIB,
        ..DeviceSpec::existing(&path)
    };
    // A part of a sector at the end is of no use.
    let too_small = OpenErrorReason::TooSmall {
        size: 5000 / 512 * 512,
        minimum: MIB,
    };
    let size = match reason(spec) {
        OpenErrorReason::TooSmall { size, minimum } => {
            assert_eq!(minimum, MIB);
            size
        }
        other => panic!("{other:?} instead of {too_small:?}"),
    };
    assert!(size == 4096 || size == 4608);
    fs::write(&path, "").unwrap();
    assert!(matches!(
        reason(DeviceSpec::existing(&path)),
        OpenErrorReason::TooSmall { size: 0, .. }
    ));
}

/// It would keep its size, whatever is asked for next.
#[test]
fn a_file_that_would_be_too_small_is_not_made() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk");
    let spec = DeviceSpec {
        size_min: 4096,
        ..DeviceSpec::file(&path, 1000)
    };
    let too_small = OpenErrorReason::TooSmall {
        size: 1000,
        minimum: 4096,
    };
    assert_eq!(reason(spec), too_small);
    assert!(!path.exists());
}

#[test]
fn a_file_that_has_no_room_is_refused_and_does_not_stay() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk");
    // More than any file system holds.
    let size = 1 << 62;
    assert_eq!(
        reason(DeviceSpec::file(&path, size)),
        OpenErrorReason::NoSpace { size }
    );
    assert!(!path.exists());
}

#[test]
fn permission_is_told_from_absence() {
    if rustix::process::geteuid().is_root() {
        println!("root may do everything: nothing to test");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk");
    fs::write(&path, [0; 4096]).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    assert_eq!(
        reason(DeviceSpec::existing(&path)),
        OpenErrorReason::Permission
    );
}
