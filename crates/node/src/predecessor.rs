//! What a process that was killed a moment ago still holds: the kernel closes its files and sockets
//! one after the other, and may have to write to a slow disk in between.
//!
//! Invariant: nobody waits for a process that lives; its user is told at once.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a process that is ending is waited for. A disk that does not answer keeps it for longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long something is waited for that nobody seems to hold: the table of open files of a process
/// that ends is gone before its sockets are.
const PATIENCE_NOBODY: Duration = Duration::from_secs(3);
/// Between two attempts.
const POLL: Duration = Duration::from_millis(20);
/// `PF_EXITING` of the kernel's task flags (`include/linux/sched.h`).
const EXITING: u64 = 4;
/// SIGKILL in a mask of signals.
const KILL: u64 = 1 << 8;

/// Who holds what is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// This process.
    Process(u32),
    /// The system does not say.
    Unknown,
}

impl Holder {
    /// How long it is worth waiting for it; zero if it lives.
    #[must_use]
    pub fn patience(self) -> Duration {
        match self {
            Self::Process(pid) if is_ending(pid) => PATIENCE,
            Self::Process(_) => Duration::ZERO,
            Self::Unknown => PATIENCE_NOBODY,
        }
    }
}

impl From<Option<u32>> for Holder {
    fn from(process: Option<u32>) -> Self {
        process.map_or(Self::Unknown, Self::Process)
    }
}

/// Tries until it succeeds, fails otherwise than by a holder, or the holder is not worth waiting
/// for any longer.
///
/// # Errors
/// What the last attempt failed with.
pub fn attempt<T, E>(
    mut attempt: impl FnMut() -> Result<T, E>,
    holder: impl Fn(&E) -> Option<Holder>,
) -> Result<T, E> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(error)
                if holder(&error).is_some_and(|holder| begun.elapsed() < holder.patience()) =>
            {
                sleep(POLL);
            }
            ended => return ended,
        }
    }
}

/// Whether a process has ended, or is about to: killed, on its way out, or a zombie.
#[must_use]
pub fn is_ending(pid: u32) -> bool {
    let file = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).ok();
    let (Some(stat), Some(status)) = (file("stat"), file("status")) else {
        return true;
    };
    is_exiting(&stat) || is_killed(&status)
}

/// `stat` is `PID (NAME) STATE …`, the flags are its ninth field (proc(5)).
fn is_exiting(stat: &str) -> bool {
    // The name may hold anything, a bracket too.
    let Some((_, fields)) = stat.rsplit_once(')') else {
        return false;
    };
    let mut fields = fields.split_whitespace();
    let state = fields.next();
    let flags = fields.nth(5).and_then(|flags| flags.parse::<u64>().ok());
    matches!(state, Some("Z" | "X")) || flags.is_some_and(|flags| flags & EXITING != 0)
}

/// Whether SIGKILL waits to be delivered.
fn is_killed(status: &str) -> bool {
    status
        .lines()
        .filter_map(|line| {
            let mask = line
                .strip_prefix("SigPnd:")
                .or(line.strip_prefix("ShdPnd:"))?;
            u64::from_str_radix(mask.trim(), 16).ok()
        })
        .any(|mask| mask & KILL != 0)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn who_lives_is_not_waited_for_and_who_ends_is() {
        let mut child = Command::new("sleep")
            .arg("60")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let holder = Holder::Process(child.id());
        let mut attempts = 0;
        let refused: Result<(), Holder> = attempt(
            || {
                attempts += 1;
                Err(holder)
            },
            |holder| Some(*holder),
        );
        assert_eq!((refused, attempts), (Err(holder), 1));
        child.kill().unwrap();
        let mut attempts = 0;
        let granted: Result<(), Holder> = attempt(
            || {
                attempts += 1;
                if attempts < 3 { Err(holder) } else { Ok(()) }
            },
            |holder| Some(*holder),
        );
        assert_eq!((granted, attempts), (Ok(()), 3));
        child.wait().unwrap();
        assert_eq!(holder.patience(), PATIENCE);
        assert_eq!(
            Holder::Process(std::process::id()).patience(),
            Duration::ZERO
        );
    }

    #[test]
    fn other_failures_are_not_repeated() {
        let mut attempts = 0;
        let failed: Result<(), &str> = attempt(
            || {
                attempts += 1;
                Err("no")
            },
            |_| None,
        );
        assert_eq!((failed, attempts), (Err("no"), 1));
    }

    #[test]
    fn the_tables_are_read_as_they_are_documented() {
        assert!(is_exiting("12 (a) b) S) Z 1 12 12 0 -1 4194564 0"));
        assert!(is_exiting("12 (holdfast) R 1 12 12 0 -1 4194564 0"));
        assert!(!is_exiting("12 (holdfast) R 1 12 12 0 -1 4194560 0"));
        assert!(!is_exiting("nonsense"));
        assert!(is_killed("Name:\tx\nSigPnd:\t0000000000000100\n"));
        assert!(is_killed(
            "SigPnd:\t0000000000000000\nShdPnd:\t0000000000000100\n"
        ));
        assert!(!is_killed(
            "SigPnd:\t0000000000004000\nSigBlk:\t0000000000000100\n"
        ));
    }
}
