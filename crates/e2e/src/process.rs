//! Signals to processes that a test has started, directly or through the demo.
//!
//! Invariants:
//! - a signal is sent only to a process whose command line names the test's own directory: process
//!   ids are used again.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// Between two looks at something that is waited for.
pub const TICK: Duration = Duration::from_millis(20);

/// Whether process `pid` runs, and has `directory` in its command line. A zombie does not run.
#[must_use]
pub fn runs(pid: u32, directory: &Path) -> bool {
    let Ok(arguments) = fs::read(format!("/proc/{pid}/cmdline")) else {
        return false;
    };
    // A zombie has no command line.
    let arguments = String::from_utf8_lossy(&arguments);
    arguments.contains(&*directory.to_string_lossy())
}

/// Sends a signal to process `pid`, which a test has started in `directory`.
///
/// # Errors
/// There is no such process, or it is not one of the test's.
pub fn signal(pid: u32, directory: &Path, signal: Signal) -> Result<()> {
    ensure!(
        runs(pid, directory),
        "process {pid} is none of those that were started in {}",
        directory.display()
    );
    let id = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let id = id.with_context(|| format!("{pid} is no process id"))?;
    kill_process(id, signal).with_context(|| format!("send {signal:?} to {pid}"))
}

/// Resident memory of a process in bytes, and the most that it ever was.
///
/// # Errors
/// There is no such process.
pub fn memory(pid: u32) -> Result<(u64, u64)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("read the status of {pid}"))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.map(|kib| kib << 10)
            .with_context(|| format!("find {name} in the status of {pid}"))
    };
    Ok((field("VmRSS:")?, field("VmHWM:")?))
}

/// Time that a process has had on processors, its own and the kernel's for it, to a clock tick (usually 10 ms).
///
/// # Errors
/// There is no such process.
pub fn processor_time(pid: u32) -> Result<Duration> {
    // proc_pid_stat(5): utime and stime.
    times(&pid.to_string(), 14)
}

/// The same of all that it has started, and that have ended.
///
/// # Errors
/// There is no such process.
pub fn processor_time_of_children(pid: u32) -> Result<Duration> {
    // proc_pid_stat(5): cutime and cstime.
    times(&pid.to_string(), 16)
}

/// The same of each of its threads, and of those that the kernel runs for it, as long as they are there.
///
/// # Errors
/// There is no such process.
pub fn processor_time_of_threads(pid: u32) -> Result<BTreeMap<u32, Duration>> {
    let mut threads = BTreeMap::new();
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    for task in tasks.with_context(|| format!("list the threads of {pid}"))? {
        let name = task?.file_name();
        let thread = name.to_str().and_then(|name| name.parse().ok());
        let thread = thread.with_context(|| format!("{} is no thread", name.display()))?;
        // One that has ended meanwhile had little to do.
        if let Ok(time) = times(&format!("{pid}/task/{thread}"), 14) {
            threads.insert(thread, time);
        }
    }
    Ok(threads)
}

/// The sum of two times of a process or thread, of which the first is that field, counted from 1.
fn times(what: &str, field: usize) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{what}/stat"))
        .with_context(|| format!("read the times of {what}"))?;
    // The second field is a name in parentheses.
    let after_name = stat.rsplit_once(')').map(|(_, after)| after);
    let fields = after_name.into_iter().flat_map(str::split_whitespace);
    let times: Vec<u64> = fields
        .skip(field - 3)
        .take(2)
        .flat_map(str::parse)
        .collect();
    ensure!(
        times.len() == 2,
        "the times of {what} cannot be read: {stat}"
    );
    let ticks = times.iter().sum::<u64>() as f64;
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    Ok(Duration::from_secs_f64(ticks / per_second))
}

/// Bytes that a process has had read from disks.
///
/// # Errors
/// There is no such process, or it is another user's.
pub fn bytes_read(pid: u32) -> Result<u64> {
    let told = fs::read_to_string(format!("/proc/{pid}/io"))
        .with_context(|| format!("read what {pid} has read"))?;
    // proc_pid_io(5)
    let mut lines = told.lines();
    let bytes = lines.find_map(|line| line.strip_prefix("read_bytes: "));
    let bytes = bytes.with_context(|| format!("find what {pid} has read"))?;
    Ok(bytes.parse()?)
}

/// Waits until `condition` holds.
///
/// # Errors
/// It does not within `patience`, or looking at it failed.
pub fn wait_until(
    what: &str,
    patience: Duration,
    condition: impl FnMut() -> Result<bool>,
) -> Result<Duration> {
    wait_with(TICK, what, patience, condition)
}

/// The same, with so long a pause between two looks.
///
/// # Errors
/// As [`wait_until`].
pub fn wait_with(
    pause: Duration,
    what: &str,
    patience: Duration,
    mut condition: impl FnMut() -> Result<bool>,
) -> Result<Duration> {
    let start = Instant::now();
    while !condition().with_context(|| format!("wait until {what}"))? {
        if start.elapsed() > patience {
            bail!("waited {patience:?} in vain until {what}");
        }
        sleep(pause);
    }
    Ok(start.elapsed())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_children_took_is_told_when_they_have_ended() {
        let own = std::process::id();
        let before = processor_time_of_children(own).unwrap();
        let burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let status = Command::new("sh").args(["-c", burn]).status().unwrap();
        assert!(status.success());
        assert!(processor_time_of_children(own).unwrap() > before);
        assert!(processor_time(own).is_ok());
    }

    #[test]
    fn threads_have_times_of_their_own() {
        let burn = std::thread::spawn(|| {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(100) {
                std::hint::spin_loop();
            }
            // proc(5): PID/task/TID.
            let own = fs::read_link("/proc/thread-self").unwrap();
            let own = own.file_name().unwrap().to_str().unwrap().parse().unwrap();
            processor_time_of_threads(std::process::id()).unwrap()[&own]
        });
        assert!(burn.join().unwrap() > Duration::ZERO);
    }

    #[test]
    fn only_our_own_are_signalled() {
        let directory = tempfile::tempdir().unwrap();
        let marker = directory.path().join("x");
        let mut child = Command::new("tail")
            .args(["-f", "/dev/null"])
            .arg(&marker)
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id();
        wait_until("it runs", Duration::from_secs(5), || {
            Ok(runs(pid, directory.path()))
        })
        .unwrap();
        assert!(memory(pid).unwrap().0 > 0);
        let other = tempfile::tempdir().unwrap();
        assert!(signal(pid, other.path(), Signal::KILL).is_err());
        assert!(runs(pid, directory.path()));
        signal(pid, directory.path(), Signal::KILL).unwrap();
        wait_until("it is dead", Duration::from_secs(5), || {
            Ok(!runs(pid, directory.path()))
        })
        .unwrap();
        child.wait().unwrap();
        assert!(signal(pid, directory.path(), Signal::KILL).is_err());
    }
}
