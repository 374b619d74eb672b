//! Processes that may be no children of ours: a handle on each, so that a number that was given to
//! another process meanwhile is never signalled.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A process.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    handle: OwnedFd,
}

impl Process {
    /// The process of that number; `None` if there is none.
    ///
    /// # Errors
    /// The operating system gives no handle.
    pub fn open(number: u32) -> io::Result<Option<Self>> {
        let Some(pid) = i32::try_from(number).ok().and_then(Pid::from_raw) else {
            return Ok(None);
        };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => Ok(Some(Self {
                pid: number,
                handle,
            })),
            Err(rustix::io::Errno::SRCH) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends a signal. One that has ended meanwhile takes none.
    pub fn signal(&self, signal: Signal) {
        if let Err(error) = pidfd_send_signal(&self.handle, signal)
            && error != rustix::io::Errno::SRCH
        {
            tracing::warn!(pid = self.pid, %error, "signal a process");
        }
    }

    /// Whether the process has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        // The handle of a process is readable from its end on.
        let mut watched = [PollFd::new(&self.handle, PollFlags::IN)];
        match poll(&mut watched, Some(&Timespec::default())) {
            Ok(ready) => ready > 0,
            Err(error) => {
                tracing::error!(pid = self.pid, %error, "look at a process");
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_process_is_signalled_and_seen_to_end() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::open(child.id()).unwrap().expect("it runs");
        assert!(!process.has_ended());
        process.signal(Signal::TERM);
        let begun = Instant::now();
        while !process.has_ended() {
            assert!(begun.elapsed() < Duration::from_secs(10), "it ends");
            std::thread::sleep(Duration::from_millis(5));
        }
        child.wait().unwrap();
        process.signal(Signal::TERM);
        assert!(Process::open(process.pid()).unwrap().is_none());
        assert!(Process::open(0).unwrap().is_none());
        assert!(Process::open(u32::MAX).unwrap().is_none());
    }
}
