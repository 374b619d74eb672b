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
}

fn wait_until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(10));
        thread::sleep(Duration::from_millis(5));
    }
}

fn open(path: &Path) -> LineLog<u64> {
    LineLog::open(path, BOUNDS).unwrap().0
}

fn in_files(log: &LineLog<u64>) -> Vec<u64> {
    let mut lines = Vec::new();
    log.each_in_files(|line| lines.push(line)).unwrap();
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
