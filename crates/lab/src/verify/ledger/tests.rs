use super::*;

const SECTOR: Range<u64> = 10..11;

fn ledger() -> Ledger {
    Ledger::new(7, Layout::spread(1 << 20, 512, 1 << 20, 1, 7))
}

fn begin(ledger: &mut Ledger, contents: Contents) -> Writing {
    ledger.begin(SECTOR, contents).unwrap()
}

fn write(ledger: &mut Ledger) -> Writing {
    let writing = begin(ledger, Contents::Data);
    ledger.acknowledge(&writing).unwrap();
    writing
}

fn check(ledger: &mut Ledger, watch: &Watch, data: &[u8]) -> Result<(), ViolationKind> {
    let mut found = Ok(());
    ledger
        .check(watch, data, |violation| {
            assert_eq!(violation.sector, 10);
            found = Err(violation.kind);
        })
        .unwrap();
    found
}

fn read(ledger: &mut Ledger, data: &[u8]) -> Result<(), ViolationKind> {
    let watch = ledger.watch(&SECTOR);
    check(ledger, &watch, data)
}

const ZEROS: [u8; SECTOR_SIZE] = [0; SECTOR_SIZE];

#[test]
fn an_acknowledged_write_stays() {
    let mut ledger = ledger();
    assert_eq!(read(&mut ledger, &ZEROS), Ok(()));
    let first = write(&mut ledger);
    assert_eq!(read(&mut ledger, &first.bytes()), Ok(()));
    assert_eq!(read(&mut ledger, &ZEROS), Err(ViolationKind::Zeros));
    let second = write(&mut ledger);
    assert_eq!(
        read(&mut ledger, &first.bytes()),
        Err(ViolationKind::Stale { version: 1 })
    );
    assert_eq!(read(&mut ledger, &second.bytes()), Ok(()));
}

#[test]
fn an_unknown_write_may_be_there_until_a_later_one_is() {
    let mut ledger = ledger();
    let first = write(&mut ledger);
    let unknown = begin(&mut ledger, Contents::Data);
    assert_eq!(read(&mut ledger, &first.bytes()), Ok(()));
    let third = write(&mut ledger);
    assert_eq!(
        read(&mut ledger, &unknown.bytes()),
        Err(ViolationKind::Stale { version: 2 })
    );
    assert_eq!(read(&mut ledger, &third.bytes()), Ok(()));
}

#[test]
fn what_was_seen_must_not_vanish() {
    let mut ledger = ledger();
    let first = write(&mut ledger);
    let unknown = begin(&mut ledger, Contents::Data);
    assert_eq!(read(&mut ledger, &unknown.bytes()), Ok(()));
    assert_eq!(
        read(&mut ledger, &first.bytes()),
        Err(ViolationKind::Stale { version: 1 })
    );
    assert_eq!(ledger.doubtful_sectors(), 0);
}

#[test]
fn a_read_is_judged_by_when_it_began() {
    let mut ledger = ledger();
    let first = write(&mut ledger);
    let watch = ledger.watch(&SECTOR);
    let second = write(&mut ledger);
    let clear = begin(&mut ledger, Contents::Zeros);
    ledger.acknowledge(&clear).unwrap();
    let last = write(&mut ledger);
    for data in [&first.bytes(), &second.bytes(), &last.bytes(), &ZEROS[..]] {
        assert_eq!(check(&mut ledger, &watch, data), Ok(()));
    }
    assert_eq!(read(&mut ledger, &ZEROS), Err(ViolationKind::Zeros));
}

#[test]
fn an_unknown_clearing_that_was_seen_stays() {
    let mut ledger = ledger();
    let first = write(&mut ledger);
    let clear = begin(&mut ledger, Contents::Zeros);
    let unknown = begin(&mut ledger, Contents::Data);
    let second_clear = begin(&mut ledger, Contents::Zeros);
    assert_eq!(read(&mut ledger, &ZEROS), Ok(()));
    assert_eq!(
        read(&mut ledger, &first.bytes()),
        Err(ViolationKind::Stale { version: 1 })
    );
    assert!(clear.version < unknown.version);
    assert_eq!(
        read(&mut ledger, &unknown.bytes()),
        Ok(()),
        "either was seen"
    );
    assert_eq!(read(&mut ledger, &ZEROS), Ok(()), "the later one");
    ledger.acknowledge(&second_clear).unwrap();
    assert_eq!(
        read(&mut ledger, &unknown.bytes()),
        Err(ViolationKind::Stale {
            version: unknown.version
        })
    );
}

#[test]
fn content_that_cannot_be_is_named() {
    let mut ledger = ledger();
    let first = write(&mut ledger);
    let stamp = |sector, version, seed| {
        let stamp = Stamp {
            seed,
            sector,
            version,
        };
        let mut bytes = [0; SECTOR_SIZE];
        stamp.fill(&mut bytes);
        (stamp, bytes)
    };
    let (_, future) = stamp(10, 2, 7);
    assert_eq!(
        read(&mut ledger, &future),
        Err(ViolationKind::Future { version: 2 })
    );
    for (other, bytes) in [stamp(11, 1, 7), stamp(10, 1, 8)] {
        assert_eq!(
            read(&mut ledger, &bytes),
            Err(ViolationKind::Misplaced(other))
        );
    }
    let mut torn = first.bytes();
    torn[511] ^= 1;
    assert!(matches!(
        read(&mut ledger, &torn),
        Err(ViolationKind::Torn(_))
    ));
    assert_eq!(
        read(&mut ledger, &[1; SECTOR_SIZE]),
        Err(ViolationKind::Foreign)
    );
    assert_eq!(read(&mut ledger, &[]), Err(ViolationKind::Short));
}

#[test]
fn too_many_unknown_writes_are_refused() {
    let mut ledger = ledger();
    for _ in 0..ATTEMPTS_MAX {
        assert!(ledger.has_room(&SECTOR));
        begin(&mut ledger, Contents::Data);
    }
    assert!(!ledger.has_room(&SECTOR));
    assert!(ledger.has_room(&(11..12)));
}

#[test]
fn the_file_brings_everything_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger");
    let layout = Layout::spread(1 << 20, 512, 1 << 20, 1, 7);
    let mut ledger = Ledger::create(7, layout.clone(), &path).unwrap();
    assert!(Ledger::create(7, layout, &path).is_err(), "it is there");
    let first = write(&mut ledger);
    let seen = begin(&mut ledger, Contents::Data);
    assert_eq!(read(&mut ledger, &seen.bytes()), Ok(()));
    let unknown = begin(&mut ledger, Contents::Zeros);
    drop(ledger);
    // Killed in the middle of an entry.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend([1; 39]);
    std::fs::write(&path, bytes).unwrap();
    for _ in 0..2 {
        let mut ledger = Ledger::recover(&path).unwrap();
        assert_eq!((ledger.seed(), ledger.doubtful_sectors()), (7, 1));
        assert_eq!(
            read(&mut ledger, &first.bytes()),
            Err(ViolationKind::Stale { version: 1 })
        );
        assert_eq!(read(&mut ledger, &seen.bytes()), Ok(()));
    }
    let mut ledger = Ledger::recover(&path).unwrap();
    assert_eq!(read(&mut ledger, &ZEROS), Ok(()));
    let next = begin(&mut ledger, Contents::Data);
    assert_eq!(next.version, unknown.version + 1);
}

#[test]
fn a_file_that_is_none_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger");
    for bytes in [vec![], vec![0; 100], vec![0; 8192]] {
        std::fs::write(&path, &bytes).unwrap();
        assert!(Ledger::recover(&path).is_err());
    }
}
