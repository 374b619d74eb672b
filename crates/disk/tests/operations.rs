//! Every operation on files, over each driver.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::support::{Harness, for_each_driver, pattern, write};
use holdfast_disk::{DeviceSpec, OpenDevice, Options};
use holdfast_model::{DiskError, DiskOp, DiskToken};
use holdfast_stdx::{Bytes, Prng};

const MIB: u64 = 1 << 20;

#[test]
fn what_is_written_is_read() {
    for_each_driver(async |options| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        let mut harness = Harness::open(&[DeviceSpec::file(&path, MIB)], options);
        let bytes = pattern(1, 12 << 10);
        for durable in [false, true] {
            let op = DiskOp::Write {
                offset: 8 << 10,
                parts: vec![Bytes::from(bytes.clone())],
                durable,
            };
            assert_eq!(harness.run(op).await, Ok(Bytes::new()));
            assert_eq!(harness.run(DiskOp::Flush).await, Ok(Bytes::new()));
            assert_eq!(harness.read(8 << 10, 12 << 10).await, bytes);
        }
        assert!(harness.read(0, 8 << 10).await.iter().all(|byte| *byte == 0));
        drop(harness);
        assert_eq!(fs::read(&path).unwrap()[8 << 10..20 << 10], bytes);
    });
}

#[test]
fn parts_of_any_place_and_length_are_gathered() {
    for_each_driver(async |options| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        let mut harness = Harness::open(&[DeviceSpec::file(&path, 8 * MIB)], options);
        // Unaligned in memory, unaligned in length, empty, whole blocks, and more than fit into
        // one call.
        let whole = Bytes::from(pattern(2, 64 << 10));
        let cases: Vec<Vec<Bytes>> = vec![
            vec![whole.slice(1..4097)],
            vec![whole.slice(0..100), whole.slice(100..8192)],
            vec![whole.slice(0..4096), Bytes::new(), whole.slice(7..4103)],
            (0..16)
                .map(|index| whole.slice(index * 4096..(index + 1) * 4096))
                .collect(),
            (0..1500).map(|_| whole.slice(0..4096)).collect(),
            (0..4096)
                .map(|index| whole.slice(index..index + 1))
                .collect(),
        ];
        for parts in cases {
            let expected = parts.concat();
            let op = DiskOp::Write {
                offset: 4096,
                parts,
                durable: true,
            };
            assert_eq!(harness.run(op).await, Ok(Bytes::new()));
            assert_eq!(harness.read(4096, expected.len() as u32).await, expected);
        }
    });
}

#[test]
fn aligned_parts_are_gathered_in_place() {
    for_each_driver(async |options| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        let mut harness = Harness::open(&[DeviceSpec::file(&path, MIB)], options);
        // What was read lies in aligned memory: written again, it goes to the kernel as it is.
        let bytes = pattern(3, 64 << 10);
        harness.run(write(0, bytes.clone())).await.unwrap();
        let read = harness.read(0, 64 << 10).await;
        let parts = vec![read.slice(32 << 10..), read.slice(..16 << 10)];
        let expected = parts.concat();
        let op = DiskOp::Write {
            offset: 512 << 10,
            parts,
            durable: false,
        };
        harness.run(op).await.unwrap();
        assert_eq!(harness.read(512 << 10, 48 << 10).await, expected);
    });
}

#[test]
fn many_operations_in_flight_each_get_their_own_answer() {
    for_each_driver(async |options| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        let options = Options {
            queue_depth: 16,
            memory_max: 256 << 10,
            ..options
        };
        let mut harness = Harness::open(&[DeviceSpec::file(&path, 16 * MIB)], options);
        let mut prng = Prng::from_seed(4);
        let mut places: Vec<u64> = (0..1024).collect();
        prng.shuffle(&mut places);
        for place in &places {
            harness.submit(write(place * 8192, pattern(*place, 8192)));
        }
        let mut tokens: Vec<DiskToken> = Vec::new();
        for completion in harness.finish().await {
            assert_eq!(completion.result, Ok(Bytes::new()));
            tokens.push(completion.token);
        }
        tokens.sort();
        assert_eq!(tokens, (1..=1024).map(DiskToken).collect::<Vec<_>>());

        prng.shuffle(&mut places);
        let mut expected = std::collections::BTreeMap::new();
        for place in &places {
            let offset = place * 8192;
            let token = harness.submit(DiskOp::Read {
                offset,
                length: 8192,
            });
            expected.insert(token, *place);
        }
        for completion in harness.finish().await {
            let place = expected.remove(&completion.token).expect("one answer each");
            assert_eq!(completion.result.unwrap(), pattern(place, 8192));
        }
        assert!(expected.is_empty());
    });
}

#[test]
fn an_operation_larger_than_the_limit_of_memory_runs_alone() {
    for_each_driver(async |options| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        let options = Options {
            memory_max: 64 << 10,
            ..options
        };
        let mut harness = Harness::open(&[DeviceSpec::file(&path, 8 * MIB)], options);
        let large = pattern(5, 3 << 20);
        harness.run(write(0, large.clone())).await.unwrap();
        for offset in [0, MIB, 2 * MIB] {
            harness.submit(DiskOp::Read {
                offset,
                length: 3 << 20,
            });
        }
        let done = harness.finish().await;
        assert!(done.iter().all(|completion| completion.result.is_ok()));
        assert_eq!(harness.read(0, 3 << 20).await, large);
    });
}

#[test]
fn what_does_not_fit_the_device_is_refused() {
    for_each_driver(async |options| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        let mut harness = Harness::open(&[DeviceSpec::file(&path, MIB)], options);
        let read = |offset, length| DiskOp::Read { offset, length };
        let invalid = Err(DiskError::Os(22));
        for (op, expected) in [
            (read(MIB, 4096), Err(DiskError::Short)),
            (read(MIB - 4096, 8192), Err(DiskError::Short)),
            (read(u64::MAX - 4095, 4096), Err(DiskError::Short)),
            (write(MIB - 4096, vec![1; 8192]), Err(DiskError::Short)),
            (read(0, 0), invalid.clone()),
            (read(1, 4096), invalid.clone()),
            (read(0, 100), invalid.clone()),
            (write(0, Vec::new()), invalid.clone()),
            (write(0, vec![1; 100]), invalid),
            (
                DiskOp::Discard {
                    offset: MIB,
                    length: 4096,
                },
                Err(DiskError::Short),
            ),
        ] {
            assert_eq!(harness.run(op.clone()).await, expected, "{op:?}");
        }
        assert_eq!(fs::metadata(&path).unwrap().len(), MIB);
    });
}

#[test]
fn discarding_gives_the_space_of_a_file_back() {
    for_each_driver(async |options| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        let mut harness = Harness::open(&[DeviceSpec::file(&path, 4 * MIB)], options);
        harness.run(write(0, pattern(6, 4 << 20))).await.unwrap();
        let before = fs::metadata(&path).unwrap().blocks();
        let op = DiskOp::Discard {
            offset: MIB,
            length: 2 * MIB,
        };
        assert_eq!(harness.run(op).await, Ok(Bytes::new()));
        let after = fs::metadata(&path).unwrap().blocks();
        assert_eq!(before - after, 2 * MIB / 512);
        assert_eq!(harness.read(0, 4096).await, pattern(6, 4 << 20)[..4096]);
        assert!(harness.read(MIB, 4096).await.iter().all(|byte| *byte == 0));
    });
}

#[test]
fn several_disks_are_kept_apart() {
    for_each_driver(async |options| {
        let directory = tempfile::tempdir().unwrap();
        let specs = ["a", "b"].map(|name| DeviceSpec::file(directory.path().join(name), MIB));
        let mut harness = Harness::open(&specs, options);
        for disk in 0..2 {
            harness.disks.submit(holdfast_model::DiskRequest {
                token: DiskToken(u64::from(disk)),
                disk: holdfast_model::DiskId(disk),
                op: write(0, vec![b'a' + disk as u8; 4096]),
            });
        }
        harness.finish().await;
        drop(harness);
        assert_eq!(fs::read(directory.path().join("a")).unwrap()[0], b'a');
        assert_eq!(fs::read(directory.path().join("b")).unwrap()[4095], b'b');
    });
}

#[test]
fn disks_come_and_go() {
    for_each_driver(async |options| {
        let directory = tempfile::tempdir().unwrap();
        let [first, second] = ["a", "b"].map(|name| directory.path().join(name));
        let mut harness = Harness::open(&[DeviceSpec::file(first, MIB)], options);
        for expected in 1..4 {
            let spec = DeviceSpec::file(&second, MIB);
            let opened = OpenDevice::open(&spec).unwrap();
            assert_eq!(opened.geometry().size, MIB);
            let disk = harness.disks.add(opened).unwrap();
            assert_eq!(
                disk,
                holdfast_model::DiskId(expected),
                "numbers are given out once"
            );
            harness.disks.submit(holdfast_model::DiskRequest {
                token: DiskToken(7),
                disk,
                op: write(0, vec![expected as u8; 4096]),
            });
            harness.finish().await;
            assert!(OpenDevice::open(&spec).is_err(), "it is in use");
            harness.disks.release(disk);
            assert!(harness.disks.geometry(disk).is_none());
            assert_eq!(fs::read(&second).unwrap()[4095], expected as u8);
        }
        assert_eq!(harness.read(0, 4096).await, vec![0; 4096]);
    });
}

#[test]
fn the_page_cache_serves_where_direct_io_does_not() {
    for_each_driver(async |options| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        let options = Options {
            direct: false,
            ..options
        };
        let mut harness = Harness::open(&[DeviceSpec::file(&path, MIB)], options);
        let geometry = harness.disks.geometry(holdfast_model::DiskId(0)).unwrap();
        assert!(!geometry.direct);
        let bytes = pattern(7, 4096);
        harness.run(write(4096, bytes.clone())).await.unwrap();
        assert_eq!(harness.run(DiskOp::Flush).await, Ok(Bytes::new()));
        assert_eq!(harness.read(4096, 4096).await, bytes);
    });
}

#[test]
fn what_each_device_does_is_counted_once() {
    for_each_driver(async |options| {
        let directory = tempfile::tempdir().unwrap();
        let specs = ["a", "b"].map(|name| DeviceSpec::file(directory.path().join(name), MIB));
        let mut harness = Harness::open(&specs, options);
        assert_eq!(harness.disks.take_uses(), []);
        harness.run(write(0, vec![7; 8192])).await.unwrap();
        harness.run(write(0, vec![7; 4096])).await.unwrap();
        harness.read(0, 512).await;
        harness.run(DiskOp::Flush).await.unwrap();
        // The kernel is not asked for what there is not.
        let refused = DiskOp::Read {
            offset: MIB,
            length: 512,
        };
        assert_eq!(harness.run(refused).await, Err(DiskError::Short));
        let uses = harness.disks.take_uses();
        let [used] = &uses[..] else {
            panic!("{uses:?}");
        };
        assert_eq!(used.disk, holdfast_model::DiskId(0));
        let counts = [&used.reads, &used.writes, &used.others]
            .map(|done| (done.latencies.count(), done.bytes));
        assert_eq!(counts, [(1, 512), (2, 12_288), (1, 0)]);
        assert_eq!(harness.disks.take_uses(), []);
    });
}
