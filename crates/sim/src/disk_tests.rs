use super::*;

fn disk(seed: u64) -> SimDisk {
    let prng = Prng::from_seed(seed);
    SimDisk::new(DiskId(0), 1 << 20, 512, Latency::default(), prng)
}

fn ask(disk: &mut SimDisk, now: &mut Instant, op: DiskOp) -> Result<Bytes, DiskError> {
    let request = DiskRequest {
        token: DiskToken(1),
        disk: DiskId(0),
        op,
    };
    disk.submit(*now, request);
    *now = disk.next_completion().expect("it is in flight");
    disk.complete(*now).expect("it is due").result
}

fn write(content: u8, durable: bool) -> DiskOp {
    DiskOp::Write {
        offset: 4096,
        parts: vec![Bytes::from(vec![content; 4096])],
        durable,
    }
}

#[test]
fn unsynced_writes_may_be_lost_sector_by_sector_and_synced_ones_never() {
    let (mut kept, mut lost) = (0, 0);
    for seed in 0..20 {
        let mut disk = disk(seed);
        let mut now = Instant::ZERO;
        ask(&mut disk, &mut now, write(1, false)).expect("written");
        ask(&mut disk, &mut now, DiskOp::Flush).expect("flushed");
        ask(&mut disk, &mut now, write(2, false)).expect("written");
        disk.crash();
        for sector in disk.peek(4096, 4096).chunks(512) {
            assert!(
                sector.iter().all(|byte| *byte == sector[0]),
                "whole sectors"
            );
            match sector[0] {
                1 => lost += 1,
                2 => kept += 1,
                other => panic!("{other} was never written"),
            }
        }
        ask(&mut disk, &mut now, write(3, true)).expect("written");
        disk.crash();
        assert_eq!(disk.peek(4096, 4096), [3; 4096]);
    }
    assert!(kept > 20, "{kept} of 160");
    assert!(lost > 20, "{lost} of 160");
}

#[test]
fn what_is_in_flight_tears() {
    let mut torn = 0;
    for seed in 0..20 {
        let mut disk = disk(seed);
        let mut now = Instant::ZERO;
        ask(&mut disk, &mut now, write(1, true)).expect("written");
        let request = DiskRequest {
            token: DiskToken(2),
            disk: DiskId(0),
            op: write(2, true),
        };
        disk.submit(now, request);
        disk.crash();
        let content = disk.peek(4096, 4096);
        torn += u32::from(content.contains(&1) && content.contains(&2));
    }
    assert!(torn > 3, "{torn} of 20");
}

#[test]
fn lost_and_misdirected_writes_say_nothing() {
    let mut disk = disk(1);
    let mut now = Instant::ZERO;
    ask(&mut disk, &mut now, write(1, true)).expect("written");
    assert!(!disk.lose_write(4096), "there was nothing before");
    ask(&mut disk, &mut now, write(2, true)).expect("written");
    assert!(disk.lose_write(4096));
    assert_eq!(disk.peek(4096, 1024), [[1; 512], [2; 512]].concat());
    assert!(disk.misdirect(4096 + 512, 4096 + 1024));
    assert_eq!(disk.peek(4096 + 512, 1024), [[1; 512], [2; 512]].concat());
    let sector = disk.draw_sector(0, 1 << 20).expect("there are some");
    assert!((4096..8192).contains(&sector));
    assert_eq!(disk.draw_sector(8192, 1 << 20), None);
}

#[test]
fn what_is_stuck_or_slow_is_done_in_the_end() {
    let mut disk = disk(1);
    let now = Instant::ZERO;
    disk.slow_down(Duration::from_secs(2));
    for token in 0..20 {
        let request = DiskRequest {
            token: DiskToken(token),
            disk: DiskId(0),
            op: DiskOp::Flush,
        };
        disk.submit(now, request);
    }
    disk.stick();
    assert_eq!(disk.next_completion(), None);
    let later = now + Duration::from_millis(1500);
    disk.unstick(later);
    assert_eq!(disk.next_completion(), Some(later));
    let done = std::iter::from_fn(|| disk.complete(later)).count();
    assert!((1..20).contains(&done), "{done} of 20");
    let end = now + Duration::from_secs(3);
    assert_eq!(std::iter::from_fn(|| disk.complete(end)).count(), 20 - done);
}

#[test]
fn failing_and_unreadable_devices_say_so() {
    let mut disk = disk(1);
    let mut now = Instant::ZERO;
    ask(&mut disk, &mut now, write(1, true)).expect("written");
    disk.make_unreadable(4096 + 512);
    let read = DiskOp::Read {
        offset: 4096,
        length: 4096,
    };
    assert!(ask(&mut disk, &mut now, read.clone()).is_err());
    ask(&mut disk, &mut now, write(2, true)).expect("written");
    assert!(ask(&mut disk, &mut now, read).is_ok());
    disk.fail();
    assert!(ask(&mut disk, &mut now, write(3, false)).is_err());
    assert!(ask(&mut disk, &mut now, DiskOp::Flush).is_err());
}

#[test]
fn what_a_liar_has_flushed_may_be_lost_and_what_it_reads_is_not() {
    let mut lost = 0;
    for seed in 0..20 {
        let mut disk = disk(seed);
        let mut now = Instant::ZERO;
        ask(&mut disk, &mut now, write(1, true)).expect("written");
        disk.lie();
        for content in 2..5 {
            ask(&mut disk, &mut now, write(content, content % 2 == 0)).expect("written");
            ask(&mut disk, &mut now, DiskOp::Flush).expect("flushed");
        }
        let read = DiskOp::Read {
            offset: 4096,
            length: 4096,
        };
        let bytes = ask(&mut disk, &mut now, read).expect("read");
        assert!(bytes.iter().all(|byte| *byte == 4), "seed {seed}");
        disk.crash();
        let held = disk.peek(4096, 4096);
        assert!(held.iter().all(|byte| (1..5).contains(byte)), "seed {seed}");
        lost += usize::from(held.iter().any(|byte| *byte < 4));
    }
    assert!(lost > 10, "{lost}");
}
