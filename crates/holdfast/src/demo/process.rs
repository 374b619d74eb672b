//! Processes of nodes, which may be no children of ours.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use holdfast_node::directory::PID_FILE;
use holdfast_node::predecessor;
pub(crate) use holdfast_node::process::Process;

/// How often it is looked whether a process has ended. (The runtime could tell at once; to hand it
/// a descriptor takes `unsafe`.)
const END_POLL: Duration = Duration::from_millis(20);

/// The process that runs a node in `directory`; `None` if none does.
pub(crate) fn of_node(directory: &Path) -> io::Result<Option<Process>> {
    let file = directory.join(PID_FILE);
    let (Ok(text), Ok(found)) = (fs::read_to_string(&file), fs::metadata(&file)) else {
        return Ok(None);
    };
    let Ok(number) = text.trim().parse() else {
        return Ok(None);
    };
    // First the handle, then the proof: if the proof is of this number, the handle is too.
    let Some(process) = Process::open(number)? else {
        return Ok(None);
    };
    let locks = fs::read_to_string("/proc/locks")?;
    // One that was killed has its lock for a moment longer.
    let runs = has_lock(&locks, number, found.ino()) && !predecessor::is_ending(number);
    Ok(runs.then_some(process))
}

/// Waits until a process has ended. May be cancelled.
pub(crate) async fn ended(process: &Process) {
    while !process.has_ended() {
        tokio::time::sleep(END_POLL).await;
    }
}

/// Whether process `number` has a lock on the whole file of that inode. Asking for the lock instead
/// would be in the way of a node that starts at this moment.
fn has_lock(locks: &str, number: u32, inode: u64) -> bool {
    locks.lines().any(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        // 1: FLOCK ADVISORY WRITE 1234 fd:00:5678 0 EOF
        let [_, "FLOCK", _, "WRITE", holder, file, ..] = words[..] else {
            return false;
        };
        holder.parse() == Ok(number)
            && file
                .rsplit_once(':')
                .is_some_and(|(_, found)| found.parse() == Ok(inode))
    })
}

/// For tests that start a process, or give a lock back and look whether it is gone: until it executes its
/// program, a new process has copies of all files of the old one, and their locks.
#[cfg(test)]
pub(super) static FORKING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[cfg(test)]
mod tests {
    use std::process::Command;

    use holdfast_node::directory::Directory;
    use rustix::process::Signal;

    use super::*;

    #[tokio::test]
    async fn a_process_is_waited_for() {
        let _forks = FORKING.lock().await;
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::open(child.id()).unwrap().expect("it runs");
        let waiting = tokio::time::timeout(Duration::from_millis(50), ended(&process)).await;
        assert!(waiting.is_err(), "it runs still");
        process.signal(Signal::TERM);
        tokio::time::timeout(Duration::from_secs(10), ended(&process))
            .await
            .unwrap();
        child.wait().unwrap();
    }

    #[tokio::test]
    async fn a_node_is_found_by_its_lock() {
        let _nobody_forks = FORKING.lock().await;
        let folder = tempfile::tempdir().unwrap();
        assert!(of_node(folder.path()).unwrap().is_none());
        let directory = Directory::claim(folder.path()).unwrap();
        let found = of_node(folder.path()).unwrap().expect("it is this process");
        assert_eq!(found.pid(), std::process::id());
        drop(directory);
        // A number that was left behind says nothing.
        fs::write(
            folder.path().join(PID_FILE),
            format!("{}\n", std::process::id()),
        )
        .unwrap();
        assert!(of_node(folder.path()).unwrap().is_none());
        fs::write(folder.path().join(PID_FILE), "nonsense").unwrap();
        assert!(of_node(folder.path()).unwrap().is_none());
    }

    #[test]
    fn locks_of_others_and_on_others_do_not_count() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 08:01:42 0 EOF\n\
                     2: FLOCK  ADVISORY  READ  7 08:01:42 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 8 08:01:42 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 7 08:01:43 0 EOF\n\
                     4: -> FLOCK  ADVISORY  WRITE 7 08:01:42 0 EOF\nnonsense\n";
        assert!(!has_lock(locks, 7, 42));
        assert!(has_lock(locks, 8, 42));
        assert!(has_lock(locks, 7, 43));
    }
}
