//! Verified load through tgt: it goes on when a path breaks, and it sees what is wrong.
//!
//! Two tgts on one file stand for two nodes. They know nothing of each other, so that what a cluster
//! must never let happen can be made to happen here.

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{Medium, disk_config, initiator, lun, target};
use holdfast_lab::bench::{self, BenchConfig};
use holdfast_lab::multipath::{CommandError, Problem};
use holdfast_lab::verify::ledger::{Contents, Ledger};
use holdfast_lab::verify::{
    Kind, Layout, LoadConfig, LoadReport, PathChoice, SweepError, VerifiedLoad, ViolationKind,
    clear_everything, verify_everything,
};
use holdfast_lab::{MultipathDisk, command};
use holdfast_stdx::Bytes;
use holdfast_tgt::Tgt;

const VOLUME_BYTES: u64 = 256 << 20;
const PATIENCE: Duration = Duration::from_secs(30);

fn layout() -> Layout {
    Layout::spread(VOLUME_BYTES, 512, 2 << 20, 5, 3)
}

fn ledger() -> Ledger {
    Ledger::new(3, layout())
}

/// tgt answers from the page cache, where a read that meets a write of the same sector may get a part
/// of each.
fn in_turns() -> LoadConfig {
    LoadConfig {
        depth: 1,
        ..LoadConfig::default()
    }
}

/// The same: what was written is read at the end.
fn without_reads() -> LoadConfig {
    LoadConfig {
        reads: 0,
        ..LoadConfig::default()
    }
}

fn assert_right(report: &LoadReport) {
    assert_eq!(report.violated, 0, "{report}");
    assert_eq!(report.failed, 0, "{report}");
    assert!(!report.ledger_lost);
}

#[tokio::test]
async fn a_load_is_right_and_reaches_everything() {
    let medium = Medium::new(VOLUME_BYTES);
    let tgt = medium.serve();
    let disk = Arc::new(MultipathDisk::open(disk_config(&[&tgt])).await.unwrap());
    assert_eq!(disk.capacity().bytes(), VOLUME_BYTES);
    assert!(disk.capacity().unmaps_to_zeros);
    let load = VerifiedLoad::start(Arc::clone(&disk), ledger(), in_turns());
    assert!(load.wait_for(3000, PATIENCE).await, "{}", load.report());
    let (report, mut ledger) = load.stop().await;
    assert_right(&report);
    for kind in Kind::ALL {
        assert!(report.kind(kind).latencies.count() > 0, "{kind:?}");
    }
    assert!(ledger.written_sectors() > 1000);
    assert_eq!(ledger.doubtful_sectors(), 0);
    let count = ledger.layout().sector_count();
    let verified = verify_everything(&disk, &mut ledger, 0).await.unwrap();
    assert_eq!(verified, count);
}

#[tokio::test]
async fn a_path_that_breaks_is_replaced_and_comes_back() {
    let medium = Medium::new(VOLUME_BYTES);
    let mut first = medium.serve();
    let second = medium.serve();
    let config = disk_config(&[&first, &second]);
    let disk = Arc::new(MultipathDisk::open(config).await.unwrap());
    assert!(disk.wait_for_all_paths(PATIENCE).await);
    let load = VerifiedLoad::start(Arc::clone(&disk), ledger(), without_reads());
    assert!(load.wait_for(500, PATIENCE).await);
    first.kill();
    assert!(load.wait_for(500, PATIENCE).await);
    assert!(!disk.paths()[0].is_up);
    let portal = first.portal();
    let _first = medium.serve_at(portal);
    assert!(disk.wait_for_all_paths(PATIENCE).await);
    let before = load.report().paths[0].completed;
    assert!(load.wait_for(500, PATIENCE).await);
    let (report, mut ledger) = load.stop().await;
    assert_right(&report);
    assert!(report.paths[0].completed > before, "{report}");
    assert!(report.repeated > 0, "some were under way on the path");
    assert_eq!(disk.paths()[0].logins, 2);
    verify_everything(&disk, &mut ledger, 0).await.unwrap();
}

/// So long that what else a machine has to do is not taken for it.
const FROZEN_TIMEOUT: Duration = Duration::from_secs(3);

#[tokio::test]
async fn a_frozen_path_costs_no_more_than_its_timeout() {
    // All workers may have been stuck there for the timeout and the abort, but not for another one.
    freeze_a_path(PathChoice::Any, FROZEN_TIMEOUT * 19 / 10).await;
}

#[tokio::test]
async fn a_frozen_path_does_not_hold_up_workers_of_others() {
    freeze_a_path(PathChoice::Own, FROZEN_TIMEOUT * 9 / 10).await;
}

/// A node that has fallen silent may do for a while yet what it was sent.
#[tokio::test]
async fn a_write_is_repeated_elsewhere_when_a_silent_path_cannot_do_it_any_more() {
    let medium = Medium::new(VOLUME_BYTES);
    let first = medium.serve();
    let second = medium.serve();
    let mut config = disk_config(&[&first, &second]);
    config.elsewhere_after = Duration::from_secs(4);
    let disk = MultipathDisk::open(config).await.unwrap();
    assert!(disk.wait_for_all_paths(PATIENCE).await);
    let write = command::write(lun(), 0, 1, vec![Bytes::from(vec![7; 512])], false);
    disk.execute(&write, 0).await.unwrap();
    let heard = Instant::now();
    first.freeze().unwrap();
    let read = command::read(lun(), 0, 1, 512);
    let (written, read) = tokio::join!(disk.execute(&write, 0), async {
        let answer = disk.execute(&read, 0).await;
        (answer, heard.elapsed())
    });
    let (read, read_after) = (read.0.unwrap(), read.1);
    assert_eq!((read.path, written.unwrap().path), (1, 1));
    assert!(read_after < Duration::from_secs(4), "{read_after:?}");
    // What was heard before `heard` was heard some microseconds before.
    assert!(heard.elapsed() > Duration::from_millis(3990));
    first.thaw().unwrap();
}

async fn freeze_a_path(paths: PathChoice, stall_max: Duration) {
    let medium = Medium::new(VOLUME_BYTES);
    let first = medium.serve();
    let second = medium.serve();
    let mut config = disk_config(&[&first, &second]);
    config.command_timeout = FROZEN_TIMEOUT;
    let disk = Arc::new(MultipathDisk::open(config).await.unwrap());
    assert!(disk.wait_for_all_paths(PATIENCE).await);
    // Reads only: a cluster that is none must not be asked to do the impossible.
    let config = LoadConfig {
        writes: 0,
        unmaps: 0,
        write_sames: 0,
        paths,
        ..LoadConfig::default()
    };
    let load = VerifiedLoad::start(Arc::clone(&disk), ledger(), config);
    assert!(load.wait_for(100, PATIENCE).await);
    first.freeze().unwrap();
    assert!(load.wait_for(2000, PATIENCE).await);
    tokio::time::sleep(2 * FROZEN_TIMEOUT).await;
    first.thaw().unwrap();
    assert!(disk.wait_for_all_paths(PATIENCE).await);
    let (report, _) = load.stop().await;
    assert_right(&report);
    assert!(report.longest_stall < stall_max, "{report}");
    // What the target had given to its kernel still comes, some of it when that tries again: a fifth of a second later.
    assert!(
        report.paths[0].longest_stall > 2 * FROZEN_TIMEOUT - Duration::from_secs(1),
        "{report}"
    );
    assert!(disk.paths()[0].timeouts > 0);
}

/// As if a node had stood still with the first of two writes in its sockets, and gone on.
#[tokio::test]
async fn a_write_that_lands_after_its_repetition_is_seen() {
    let medium = Medium::new(VOLUME_BYTES);
    let tgt = medium.serve();
    let disk = MultipathDisk::open(disk_config(&[&tgt])).await.unwrap();
    let mut ledger = ledger();
    let first = ledger.layout().windows()[1].first + 40;
    let mut writes = Vec::new();
    for _ in 0..2 {
        let writing = ledger.begin(first..first + 8, Contents::Data).unwrap();
        let data = writing.bytes();
        disk.write(first, data.clone().into(), 0).await.unwrap();
        ledger.acknowledge(&writing).unwrap();
        writes.push((writing.version, data));
    }
    verify_everything(&disk, &mut ledger, 0).await.unwrap();
    let (version, data) = writes.swap_remove(0);
    disk.write(first, data.into(), 0).await.unwrap();
    let seen = verify_everything(&disk, &mut ledger, 0).await;
    let Err(SweepError::Violated { first: found, .. }) = seen else {
        panic!("the stale write was not seen: {seen:?}");
    };
    assert_eq!(found[0].kind, ViolationKind::Stale { version });
    assert_eq!(found[0].sector, first);
}

#[tokio::test]
async fn damage_is_seen() {
    let medium = Medium::new(VOLUME_BYTES);
    let tgt = medium.serve();
    let disk = MultipathDisk::open(disk_config(&[&tgt])).await.unwrap();
    let mut ledger = ledger();
    let window = ledger.layout().windows()[1];
    let sectors = window.first..window.first + 64;
    let writing = ledger.begin(sectors.clone(), Contents::Data).unwrap();
    let data = writing.bytes().into();
    disk.write(sectors.start, data, 0).await.unwrap();
    ledger.acknowledge(&writing).unwrap();
    verify_everything(&disk, &mut ledger, 0).await.unwrap();
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(medium.path())
        .unwrap();
    let place = |sector: u64| SeekFrom::Start((sectors.start + sector) * 512);
    // Sector 2 becomes sector 1, sector 5 loses a byte, sector 9 is lost.
    let mut sector = [0; 512];
    file.seek(place(1)).unwrap();
    file.read_exact(&mut sector).unwrap();
    file.seek(place(2)).unwrap();
    file.write_all(&sector).unwrap();
    file.seek(place(5)).unwrap();
    file.seek_relative(300).unwrap();
    file.write_all(b"x").unwrap();
    file.seek(place(9)).unwrap();
    file.write_all(&[0; 512]).unwrap();
    let Err(SweepError::Violated { count, first }) = verify_everything(&disk, &mut ledger, 0).await
    else {
        panic!("the damage was not seen");
    };
    assert_eq!(count, 3);
    let found: Vec<_> = first.iter().map(|it| it.sector - sectors.start).collect();
    assert_eq!(found, [2, 5, 9]);
    assert!(matches!(first[0].kind, ViolationKind::Misplaced(_)));
    assert!(matches!(first[1].kind, ViolationKind::Torn(_)));
    assert_eq!(first[2].kind, ViolationKind::Zeros);
}

#[tokio::test]
async fn a_load_that_was_killed_goes_on_from_its_file() {
    let medium = Medium::new(VOLUME_BYTES);
    // Something else was there before.
    std::fs::write(medium.path(), vec![7; VOLUME_BYTES as usize]).unwrap();
    let tgt = medium.serve();
    let path = medium.directory().join("ledger");
    let disk = Arc::new(MultipathDisk::open(disk_config(&[&tgt])).await.unwrap());
    let mut ledger = Ledger::create(3, layout(), &path).unwrap();
    assert!(verify_everything(&disk, &mut ledger, 0).await.is_err());
    clear_everything(&disk, &mut ledger).await.unwrap();
    verify_everything(&disk, &mut ledger, 0).await.unwrap();
    for round in 0..3 {
        let load = VerifiedLoad::start(Arc::clone(&disk), ledger, without_reads());
        assert!(load.wait_for(500, PATIENCE).await);
        // In the middle of everything, without a word or with one.
        if round == 0 {
            assert_right(&load.report());
            drop(load);
        } else {
            let (report, abandoned) = load.abandon().await;
            assert_right(&report);
            drop(abandoned);
        }
        // What tgt has under way must be over before the next load begins: it is one node, and
        // this is about the file.
        tokio::time::sleep(Duration::from_millis(200)).await;
        ledger = Ledger::recover(&path).unwrap();
        verify_everything(&disk, &mut ledger, 0).await.unwrap();
        assert!(ledger.written_sectors() > 100 * (round + 1));
    }
}

#[tokio::test]
async fn what_is_refused_and_what_does_not_answer_is_told() {
    let medium = Medium::new(VOLUME_BYTES);
    let mut tgt = medium.serve();
    let mut config = disk_config(&[&tgt]);
    config.patience = Duration::from_millis(500);
    let disk = MultipathDisk::open(config).await.unwrap();
    let beyond = command::read(lun(), VOLUME_BYTES / 512, 1, 512);
    match disk.execute(&beyond, 0).await {
        Err(CommandError::Refused {
            path: 0,
            problem: Problem::Sense(sense),
        }) => assert_eq!((sense.key, sense.additional()), (5, 0x2100)),
        other => panic!("{other:?}"),
    }
    tgt.kill();
    match disk.read(0, 1, 0).await {
        Err(CommandError::GivenUp { .. }) => {}
        other => panic!("{other:?}"),
    }
}

fn bench_config(tgt: &Tgt, region_bytes: u64) -> BenchConfig {
    BenchConfig {
        initiator: initiator(),
        target: target(),
        lun: lun(),
        counts_data: false,
        portals: vec![tgt.portal()],
        sessions: 2,
        depth: 8,
        command_bytes: 4096,
        block_length: 512,
        reads_percent: 70,
        region_bytes,
        sequential: false,
        warm_up: Duration::from_millis(100),
        duration: Duration::from_millis(500),
        seed: 1,
    }
}

#[tokio::test]
async fn a_bench_counts_what_it_does() {
    let medium = Medium::new(VOLUME_BYTES);
    let tgt = medium.serve();
    let config = bench_config(&tgt, VOLUME_BYTES);
    let report = bench::run(config).await.unwrap();
    let count = report.reads.count() + report.writes.count();
    assert_eq!(report.bytes, count * 4096);
    assert!(report.commands_per_second() > 100.0);
    assert!(report.megabytes_per_second() > 0.1);
    let share = report.reads.count() * 100 / count;
    assert!((55..=85).contains(&share), "{share} % were reads");
    assert_eq!(report.latencies().count(), count);
}

#[tokio::test]
async fn a_bench_counts_each_command_where_it_ended() {
    let medium = Medium::new(VOLUME_BYTES);
    let tgt = medium.serve();
    let config = bench_config(&tgt, VOLUME_BYTES);
    let begun = Instant::now();
    let mut parts = bench::run_in_parts(config, 4).await.unwrap();
    // The parts are of one time, and not each of a time of its own.
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert_eq!(parts.len(), 4);
    for part in &parts {
        assert_eq!(part.elapsed, Duration::from_millis(125));
        let count = part.latencies().count();
        assert!(count > 0);
        assert_eq!(part.bytes, count * 4096);
    }

    // One that stands still for the second half has nothing there.
    let config = bench_config(&tgt, VOLUME_BYTES);
    let load = tokio::spawn(bench::run_in_parts(
        BenchConfig {
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(2),
            ..config
        },
        2,
    ));
    tokio::time::sleep(Duration::from_millis(500)).await;
    tgt.freeze().unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    tgt.thaw().unwrap();
    parts = load.await.unwrap().unwrap();
    assert!(parts[0].latencies().count() > 0);
    assert_eq!(parts[1].latencies().count(), 0);
}

#[tokio::test]
async fn a_sweep_reaches_every_place() {
    const BYTES: u64 = 8 << 20;
    let medium = Medium::new(BYTES);
    let tgt = medium.serve();
    let config = BenchConfig {
        sessions: 1,
        command_bytes: 64 << 10,
        reads_percent: 0,
        sequential: true,
        warm_up: Duration::ZERO,
        ..bench_config(&tgt, BYTES)
    };
    bench::sweep(config.clone()).await.unwrap();
    let contents = std::fs::read(medium.path()).unwrap();
    let empty = contents
        .chunks(512)
        .filter(|it| it.iter().all(|byte| *byte == 0));
    assert_eq!(empty.count(), 0);
    let reads = BenchConfig {
        reads_percent: 100,
        ..config.clone()
    };
    bench::sweep(reads).await.unwrap();
    let report = bench::run(config).await.unwrap();
    assert!(report.writes.count() > 0);
    assert_eq!(report.bytes, report.writes.count() * (64 << 10));
}
