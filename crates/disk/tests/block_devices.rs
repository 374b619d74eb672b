//! The drivers on loop devices: only root on a machine that has them can run these.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are tests"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{Harness, for_each_driver, pattern, write};
use holdfast_disk::{DeviceSpec, Disks, OpenErrorReason, Options, StartError};
use holdfast_model::{DiskError, DiskId, DiskOp};
use holdfast_stdx::Bytes;

const MIB: u64 = 1 << 20;

/// A loop device over a file; goes when dropped.
struct Loop {
    path: PathBuf,
    file: PathBuf,
    _directory: tempfile::TempDir,
}

impl Loop {
    /// `None`, said aloud, where the machine lacks what it takes.
    fn new(size: u64, sector: u32) -> Option<Self> {
        let able = rustix::process::geteuid().is_root() && Path::new("/dev/loop-control").exists();
        if !able {
            println!("no root or no loop devices: not tested");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::File::create(&file).unwrap().set_len(size).unwrap();
        let output = Command::new("losetup")
            .args(["--find", "--show", "--direct-io=on", "--sector-size"])
            .arg(sector.to_string())
            .arg(&file)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "losetup: {said}");
        let path = String::from_utf8(output.stdout).unwrap();
        Some(Self {
            path: path.trim().into(),
            file,
            _directory: directory,
        })
    }

    fn spec(&self) -> DeviceSpec {
        DeviceSpec::existing(&self.path)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let status = Command::new("losetup")
            .arg("--detach")
            .arg(&self.path)
            .status();
        assert!(status.is_ok_and(|status| status.success()));
    }
}

#[test]
fn a_block_device_does_what_a_file_does() {
    for sector in [512, 4096] {
        for_each_driver(async |options| {
            let Some(device) = Loop::new(8 * MIB, sector) else {
                return;
            };
            let mut harness = Harness::open(&[device.spec()], options);
            let geometry = harness.disks.geometry(DiskId(0)).unwrap();
            assert_eq!((geometry.size, geometry.sector), (8 * MIB, sector));
            assert!(geometry.block_device && geometry.direct);

            let bytes = pattern(1, 1 << 20);
            let whole = Bytes::from(bytes.clone());
            let op = DiskOp::Write {
                offset: MIB,
                parts: vec![whole.slice(..300), whole.slice(300..)],
                durable: true,
            };
            assert_eq!(harness.run(op).await, Ok(Bytes::new()));
            assert_eq!(harness.run(DiskOp::Flush).await, Ok(Bytes::new()));
            assert_eq!(harness.read(MIB, 1 << 20).await, bytes);
            let end = DiskOp::Read {
                offset: 8 * MIB,
                length: sector,
            };
            assert_eq!(harness.run(end).await, Err(DiskError::Short));

            let allocated = |path: &Path| {
                use std::os::unix::fs::MetadataExt;
                fs::metadata(path).unwrap().blocks() * 512
            };
            assert!(allocated(&device.file) >= MIB);
            let op = DiskOp::Discard {
                offset: MIB,
                length: MIB,
            };
            assert_eq!(harness.run(op).await, Ok(Bytes::new()));
            assert!(allocated(&device.file) < MIB);
        });
    }
}

#[test]
fn a_block_device_is_used_once() {
    let Some(device) = Loop::new(MIB, 512) else {
        return;
    };
    let first = Disks::open(&[device.spec()], Options::default()).unwrap();
    let error = Disks::open(&[device.spec()], Options::default()).err();
    let Some(StartError::Open(error)) = error else {
        panic!("{error:?}");
    };
    assert!(matches!(error.reason, OpenErrorReason::InUse { .. }));
    drop(first);
    // A process that another test is just starting holds a copy of every descriptor until it runs
    // its own program, and with it the claim.
    let deadline = Instant::now() + Duration::from_secs(10);
    while let Err(error) = Disks::open(&[device.spec()], Options::default()) {
        assert!(Instant::now() < deadline, "free again: {error}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_error_of_the_medium_is_reported() {
    for_each_driver(async |options| {
        let Some(device) = Loop::new(4 * MIB, 512) else {
            return;
        };
        let mut harness = Harness::open(&[device.spec()], options);
        harness.run(write(2 * MIB, vec![1; 4096])).await.unwrap();
        // The medium loses its second half, and gives nothing back.
        let file = fs::OpenOptions::new()
            .write(true)
            .open(&device.file)
            .unwrap();
        file.set_len(MIB).unwrap();
        let op = DiskOp::Read {
            offset: 2 * MIB,
            length: 4096,
        };
        assert_eq!(harness.run(op).await, Err(DiskError::Os(5)));
        harness.run(write(0, vec![1; 4096])).await.unwrap();
    });
}
