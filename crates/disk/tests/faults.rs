//! Disks that fail, systems that refuse, futures that are dropped.

use std::fs;
use std::os::fd::AsRawFd;
use std::time::Duration;

use crate::support::{Harness, for_each_driver, pattern, write};
use holdfast_disk::{DeviceSpec, Disks, Driver, DriverChoice, Options, StartError};
use holdfast_model::{DiskError, DiskOp};
use holdfast_stdx::Bytes;
use rustix::fs::{MemfdFlags, SealFlags};

const MIB: u64 = 1 << 20;

#[test]
fn a_write_that_the_device_refuses_is_reported() {
    for_each_driver(async |options| {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = rustix::fs::memfd_create("disk", flags).unwrap();
        rustix::fs::ftruncate(&memory, MIB).unwrap();
        let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
        let mut harness = Harness::open(&[DeviceSpec::existing(path)], options);
        harness.run(write(0, vec![1; 4096])).await.unwrap();
        rustix::fs::fcntl_add_seals(&memory, SealFlags::WRITE).unwrap();
        let refused = Err(DiskError::Os(rustix::io::Errno::PERM.raw_os_error()));
        assert_eq!(harness.run(write(0, vec![2; 4096])).await, refused);
        assert_eq!(harness.read(0, 4096).await, vec![1; 4096]);
    });
}

#[test]
fn a_device_that_got_shorter_is_reported() {
    for_each_driver(async |options| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        let mut harness = Harness::open(&[DeviceSpec::file(&path, MIB)], options);
        harness.run(write(0, vec![1; 1 << 20])).await.unwrap();
        for length in [MIB / 2, MIB / 2 + 100] {
            let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len(length).unwrap();
            for offset in [MIB / 2 - 4096, MIB / 2 + 4096] {
                let op = DiskOp::Read {
                    offset,
                    length: 16 << 10,
                };
                assert_eq!(harness.run(op).await, Err(DiskError::Short));
            }
        }
        assert_eq!(harness.read(0, 4096).await, vec![1; 4096]);
    });
}

#[test]
fn disks_may_be_dropped_with_operations_in_flight() {
    for_each_driver(async |options| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        for round in 0..20 {
            let options = Options {
                queue_depth: 32,
                ..options.clone()
            };
            let mut harness = Harness::open(&[DeviceSpec::file(&path, 4 * MIB)], options);
            for index in 0..64 {
                // Not aligned: the copy is the driver's own.
                let parts = vec![Bytes::from(pattern(index, 64 << 10 | 1)).slice(1..)];
                harness.submit(DiskOp::Write {
                    offset: index * (64 << 10),
                    parts,
                    durable: round % 2 == 0,
                });
                harness.submit(DiskOp::Read {
                    offset: index * (64 << 10),
                    length: 64 << 10,
                });
            }
            let mut done = Vec::new();
            harness.disks.poll(&mut done);
            // And what was read outlives everything.
            drop(harness);
            for completion in done {
                completion.result.unwrap();
            }
        }
    });
}

#[test]
fn dropping_a_wait_loses_nothing() {
    for_each_driver(async |options| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        let mut harness = Harness::open(&[DeviceSpec::file(&path, MIB)], options);
        let mut done = Vec::new();
        for index in 0..256 {
            harness.submit(write(index * 4096, pattern(index, 4096)));
            tokio::select! {
                biased;
                () = harness.disks.completions(&mut done) => {}
                () = tokio::task::yield_now() => {}
            }
        }
        done.extend(harness.finish().await);
        assert_eq!(done.len(), 256);
        // With nothing outstanding there is nothing to wait for.
        let idle = harness.disks.completions(&mut done);
        let waited = tokio::time::timeout(Duration::from_millis(10), idle).await;
        assert!(waited.is_err());
    });
}

#[test]
fn a_waiting_loop_sleeps() {
    for_each_driver(async |options| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        let mut harness = Harness::open(&[DeviceSpec::file(&path, MIB)], options);
        // Signals that came while nobody waited do not wake for ever after.
        for _ in 0..16 {
            harness.run(write(0, vec![1; 4096])).await.unwrap();
        }
        let mut done = Vec::new();
        harness.submit(DiskOp::Flush);
        let mut polls = 0;
        let waiting = std::pin::pin!(harness.disks.completions(&mut done));
        let mut waiting = waiting;
        std::future::poll_fn(|context| {
            polls += 1;
            waiting.as_mut().poll(context)
        })
        .await;
        assert!(polls < 10, "{polls} polls for one completion");
    });
}

/// Forbids io_uring to the calling thread and those that it starts, as containers do.
#[allow(unsafe_code, reason = "no library wraps seccomp")]
fn forbid_io_uring() {
    let statement = |code: u32, operand: u32, if_true: u8, if_false: u8| libc::sock_filter {
        code: code as u16,
        jt: if_true,
        jf: if_false,
        k: operand,
    };
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            libc::SYS_io_uring_setup as u32,
            0,
            1,
        ),
        statement(
            libc::BPF_RET | libc::BPF_K,
            libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
            0,
            0,
        ),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: takes no pointers.
    let locked = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(locked, 0);
    // SAFETY: the program and its filter live through the call, which copies them.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) };
    assert_eq!(set, 0);
}

#[test]
fn threads_stand_in_where_io_uring_is_forbidden() {
    let in_jail = || {
        forbid_io_uring();
        let directory = tempfile::tempdir().unwrap();
        let spec = DeviceSpec::file(directory.path().join("disk"), MIB);
        let ring = Options {
            driver: DriverChoice::Ring,
            ..Options::default()
        };
        let refused = Disks::open(std::slice::from_ref(&spec), ring).err();
        let errno = libc::EPERM;
        assert_eq!(refused, Some(StartError::Ring { errno }));

        let mut harness = Harness::open(&[spec], Options::default());
        assert_eq!(harness.disks.driver(), Driver::Threads);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            harness.run(write(0, vec![1; 4096])).await.unwrap();
            assert_eq!(harness.read(0, 4096).await, vec![1; 4096]);
        });
    };
    std::thread::spawn(in_jail).join().unwrap();
}
