//! Who holds the lock on a file, as `/proc/locks` tells it.
//!
//! For messages only: by the time it is read it may be wrong, and in a container it may be empty.

use std::fs;
use std::os::fd::BorrowedFd;

/// The process that holds an exclusive `flock` on the file; `None` if the system does not say.
#[must_use]
pub fn lock_holder(file: BorrowedFd<'_>) -> Option<u32> {
    let status = rustix::fs::fstat(file).ok()?;
    let table = fs::read_to_string("/proc/locks").ok()?;
    let place = format!(
        "{:02x}:{:02x}:{}",
        rustix::fs::major(status.st_dev),
        rustix::fs::minor(status.st_dev),
        status.st_ino
    );
    find(&table, &place)
}

/// The process of the line `N: FLOCK ADVISORY WRITE PROCESS PLACE START END`; waiting lines have
/// an arrow after their number.
fn find(table: &str, place: &str) -> Option<u32> {
    table
        .lines()
        .find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [_, "FLOCK", _, "WRITE", process, found, ..] if *found == place => {
                    process.parse().ok()
                }
                _ => None,
            }
        })
        // A process outside the container has no number in it.
        .filter(|process| *process != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_read_from_the_table() {
        let table = "1: POSIX  ADVISORY  WRITE 11 fe:00:7 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 fe:00:8 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 13 fe:00:7 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 14 fe:00:7 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 15 fe:00:7 0 EOF\n";
        assert_eq!(find(table, "fe:00:7"), Some(15));
        assert_eq!(find(table, "fe:00:9"), None);
        assert_eq!(find("nonsense\n", "fe:00:7"), None);
        let outside = "1: FLOCK  ADVISORY  WRITE 0 fe:00:7 0 EOF\n";
        assert_eq!(find(outside, "fe:00:7"), None);
    }
}
