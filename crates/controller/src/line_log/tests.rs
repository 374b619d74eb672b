use std::time::{Duration, Instant};

use super::*;

const BOUNDS: Bounds = Bounds {
    name: "lines",
    file_bytes_max: 1 << 10,
    newest_max: 20,
    waiting_max: 100,
    together_max: 4,
};

impl Line for u64 {
    fn words(&self) -> String {
        self.to_string()
    }

    fn moment_ms(&self) -> u64 {
        *self
    }
}

fn wait_until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(10));
        thread::sleep(Duration::from_millis(5));
    }
}

fn open(path: &Path) -> LineLog<u64> {
    LineLog::open(path, BOUNDS, |_| {}).unwrap().0
}

fn in_files(log: &LineLog<u64>) -> Vec<u64> {
    let mut lines = Vec::new();
    log.each_in_order(|line| lines.push(*line)).unwrap();
    lines.sort_unstable();
    lines
}

#[test]
fn files_and_memory_have_bounds_and_the_newest_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines.log");
    let log = open(&path);
    for line in 1000..2000 {
        wait_until(|| log.waiting() < BOUNDS.waiting_max);
        log.note(line).unwrap();
    }
    wait_until(|| log.waiting() == 0);
    assert!(log.is_writing());
    let newest: Vec<u64> = (1980..2000).collect();
    assert_eq!(*log.newest(), newest);
    for file in [path.clone(), old(&path)] {
        let bytes = file.metadata().unwrap().len();
        assert!(bytes <= BOUNDS.file_bytes_max, "{bytes}");
    }
    let lines = in_files(&log);
    assert!(lines.len() > BOUNDS.newest_max, "files have more");
    assert_eq!(lines, (2000 - lines.len() as u64..2000).collect::<Vec<_>>());
    drop(log);
    assert_eq!(*open(&path).newest(), newest);
}

#[test]
fn a_torn_line_is_passed_over_and_the_next_is_a_line_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines.log");
    let log = open(&path);
    log.note(1).unwrap();
    wait_until(|| log.waiting() == 0);
    drop(log);
    append_to(&path).unwrap().write_all(b"2 3{").unwrap();
    let log = open(&path);
    log.note(4).unwrap();
    wait_until(|| log.waiting() == 0);
    assert_eq!(*log.newest(), [1, 4]);
    drop(log);
    assert_eq!(*open(&path).newest(), [1, 4]);
}

#[test]
fn what_lies_beside_is_written_after_what_was_put_down_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines.log");
    let log = open(&path);
    assert_eq!(log.beside().unwrap(), None);
    log.note(1).unwrap();
    log.note(2).unwrap();
    assert!(log.note_beside(b"so it is".to_vec()));
    log.note(3).unwrap();
    wait_until(|| log.beside().unwrap().is_some());
    assert!(in_files(&log).starts_with(&[1, 2]));
    wait_until(|| log.waiting() == 0);
    assert_eq!(in_files(&log), [1, 2, 3]);
    assert_eq!(open(&path).beside().unwrap().unwrap(), b"so it is");
}

#[test]
fn what_does_not_fit_is_given_back() {
    let path = Path::new("lines.log");
    let (log, to_write) = LineLog::<u64>::over(path, BOUNDS);
    for line in 0..BOUNDS.waiting_max as u64 {
        log.note(line).unwrap();
    }
    assert_eq!(log.note(1000), Err(1000));
    assert!(!log.is_writing() && !log.note_beside(Vec::new()));
    assert_eq!(log.waiting(), BOUNDS.waiting_max);
    assert_eq!(to_write.try_iter().count(), BOUNDS.waiting_max);
}

#[test]
fn what_cannot_be_written_is_once_it_can_be_and_what_lies_beside_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("away").join("lines.log");
    let log = open(&path);
    // More than are written together.
    let lines: Vec<u64> = (1..=6).collect();
    for line in &lines {
        log.note(*line).unwrap();
    }
    assert!(log.note_beside(b"so it is".to_vec()));
    wait_until(|| !log.is_writing());
    assert_eq!(log.waiting(), lines.len() + 1);
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    // Nothing else happens meanwhile.
    wait_until(|| log.waiting() == 0);
    assert!(log.is_writing());
    assert_eq!(in_files(&log), lines);
    assert_eq!(log.beside().unwrap().unwrap(), b"so it is");
}

/// What is given back may be in what lies beside, and is in no file.
#[test]
fn nothing_is_put_beside_a_log_that_lacks_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("away").join("lines.log");
    let log = open(&path);
    let most = BOUNDS.waiting_max as u64;
    for line in 0..most {
        log.note(line).unwrap();
    }
    assert_eq!(log.note(most), Err(most));
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    wait_until(|| log.waiting() == 0);
    assert!(log.is_writing());
    assert!(!log.note_beside(b"so it is".to_vec()));
    log.note(most + 1).unwrap();
    wait_until(|| log.waiting() == 0);
    assert!(in_files(&log).ends_with(&[most - 1, most + 1]));
    assert_eq!(log.beside().unwrap(), None);
    // Whoever asks puts it down, and it goes on.
    assert_eq!((log.given_back(), log.given_back()), (1, 0));
    assert!(log.note_beside(b"so it is".to_vec()));
    wait_until(|| log.waiting() == 0);
    assert_eq!(log.beside().unwrap().unwrap(), b"so it is");
}

/// A file that is full takes a part of a line.
#[test]
fn what_was_written_in_part_is_whole_and_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines.log");
    let (log, _) = LineLog::<u64>::over(&path, BOUNDS);
    let mut writer = Writer::of(path, BOUNDS);
    writer.write(&[&1]).unwrap();
    writer.file().unwrap().write_all(b"2\n3").unwrap();
    writer.take_back();
    writer.write(&[&2, &3]).unwrap();
    assert_eq!(in_files(&log), [1, 2, 3]);
}

#[test]
fn lines_are_in_the_file_as_they_are_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let bounds = Bounds {
        file_bytes_max: 1 << 20,
        newest_max: 4000,
        waiting_max: 4000,
        ..BOUNDS
    };
    let path = folder.path().join("lines.log");
    let (log, _) = LineLog::<u64>::open(&path, bounds, |_| {}).unwrap();
    thread::scope(|scope| {
        for thread in 0..4 {
            let log = &log;
            scope.spawn(move || {
                for line in 0..1000 {
                    log.note(thread * 1000 + line).unwrap();
                }
            });
        }
    });
    wait_until(|| log.waiting() == 0);
    let mut lines = Vec::new();
    log.each_in_order(|line| lines.push(*line)).unwrap();
    assert_eq!(*log.newest(), lines);
}

#[test]
fn another_bound_holds_from_the_next_line_on_and_cuts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines.log");
    let log = open(&path);
    let put = |lines: std::ops::Range<u64>| {
        for line in lines {
            wait_until(|| log.waiting() < BOUNDS.waiting_max);
            log.note(line).unwrap();
        }
        wait_until(|| log.waiting() == 0);
    };
    let bytes = |path: &Path| path.metadata().map_or(0, |it| it.len());
    assert_eq!(log.files().unwrap().first, None);
    // Five bytes a line: some 819 have room in both.
    log.hold(4 << 10);
    put(1000..1800);
    let files = log.files().unwrap();
    assert_eq!((files.bytes, files.bytes_max), (4000, 4 << 10));
    assert_eq!(files.first, Some(1000));
    let present = bytes(&path);
    assert!(present > 1 << 10, "{present}");
    // Less is to be kept: the next line begins a file, and the one that was too long stays before it.
    log.hold(2 << 10);
    assert_eq!(log.files().unwrap().bytes, 4000);
    put(1800..1801);
    assert_eq!((bytes(&old(&path)), bytes(&path)), (present, 5));
    // It goes when the new one is full.
    put(1801..2100);
    let files = log.files().unwrap();
    assert!(files.bytes <= 2 << 10, "{files:?}");
    assert_eq!(files.first, in_files(&log).first().copied());
}

/// A node that starts hears of what is to be kept from the metadata, which may take a while.
#[test]
fn a_start_drops_nothing_before_it_is_known_what_is_to_be_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines.log");
    let text =
        |lines: std::ops::Range<u64>| lines.map(|line| format!("{line}\n")).collect::<String>();
    // The one that is written is the longest.
    std::fs::write(old(&path), text(1000..1400)).unwrap();
    std::fs::write(&path, text(1400..2500)).unwrap();
    let log = open(&path);
    log.note(2500).unwrap();
    wait_until(|| log.waiting() == 0);
    assert_eq!(in_files(&log), (1000..=2500).collect::<Vec<_>>());
    log.hold(2 << 10);
    log.note(2501).unwrap();
    wait_until(|| log.waiting() == 0);
    assert_eq!(in_files(&log), (1400..=2501).collect::<Vec<_>>());
}
