//! Programs that are run to their end.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// How much of what a program prints is in an error.
const SAID_MAX: usize = 8 << 10;
/// After its end the rest of what it has printed is there within this.
const SAID_WITHIN: Duration = Duration::from_secs(1);

/// Runs it, with the output that it was given.
///
/// # Errors
/// It cannot be started, or ends with a failure.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("start {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

/// The same, with what it prints from this line on in the error: where much else is printed before that is read it is easily lost.
///
/// # Errors
/// It cannot be started, or ends with a failure.
pub(crate) fn succeed_or_say(command: &mut Command, from: &'static str) -> Result<()> {
    let child = command.stdout(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("start {command:?}"))?;
    let stdout = BufReader::new(child.stdout.take().expect("it is a pipe"));
    let said = Arc::new(Mutex::new(String::new()));
    let reader = {
        let said = Arc::clone(&said);
        thread::spawn(move || {
            for line in stdout.split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line);
                println!("{line}");
                let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                if !said.is_empty() || line == from {
                    said.push_str(&format!("{line}\n"));
                    keep_end(&mut said);
                }
            }
        })
    };
    let status = child.wait()?;
    // Whoever outlives it may hold its output, and is not waited for.
    let deadline = Instant::now() + SAID_WITHIN;
    while !reader.is_finished() && Instant::now() < deadline {
        sleep(Duration::from_millis(10));
    }
    let said = said.lock().unwrap_or_else(PoisonError::into_inner);
    ensure!(status.success(), "{command:?} ended with {status}\n{said}");
    Ok(())
}

/// Keeps the last lines, of [`SAID_MAX`] bytes at most.
fn keep_end(said: &mut String) {
    while said.len() > SAID_MAX {
        let first = said.find('\n').map_or(said.len(), |end| end + 1);
        said.drain(..first);
    }
}

/// The same command, on processors that nobody else wants (util-linux; `sched(7)`, SCHED_IDLE).
pub(crate) fn idle(command: &Command) -> Command {
    let mut idle = Command::new("chrt");
    idle.args(["--idle", "0"]).arg(command.get_program());
    idle.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => idle.env(name, value),
            None => idle.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        idle.current_dir(folder);
    }
    idle
}

/// What it prints.
///
/// # Errors
/// It cannot be started, ends with a failure, or prints what is no UTF-8.
pub(crate) fn printed(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("start {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} ended with {}",
        output.status
    );
    String::from_utf8(output.stdout).with_context(|| format!("read what {command:?} prints"))
}

/// A process that ends with this.
pub(crate) struct Ending(pub(crate) Child);

impl Ending {
    /// Whether it succeeds.
    ///
    /// # Errors
    /// It takes longer.
    pub(crate) fn within(mut self, time_max: Duration, name: &str) -> Result<bool> {
        let deadline = Instant::now() + time_max;
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status.success());
            }
            ensure!(
                Instant::now() < deadline,
                "{name} takes more than the {} s that it has",
                time_max.as_secs()
            );
            sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_prints_counts_only_if_it_ends_well() {
        assert_eq!(printed(Command::new("echo").arg("a")).unwrap(), "a\n");
        let mut fails = Command::new("sh");
        let failed = printed(fails.args(["-c", "echo a; false"])).unwrap_err();
        assert!(failed.to_string().contains("ended with"), "{failed}");
        let mut says = Command::new("printf");
        assert!(printed(says.arg("\\377")).is_err(), "no UTF-8");
    }

    #[test]
    fn what_a_program_says_of_its_failure_is_in_the_error() {
        let mut fails = Command::new("sh");
        let script = "echo before; echo failures:; seq 3000; echo why; sleep 5 & exit 1";
        let failed = succeed_or_say(fails.args(["-c", script]), "failures:").unwrap_err();
        let failed = failed.to_string();
        assert!(failed.ends_with("\n3000\nwhy\n"), "{failed}");
        // Nothing of before, and no more than so much.
        assert!(
            !failed.contains("\nbefore\n") && !failed.contains("\n7\n"),
            "{failed}"
        );
        let mut works = Command::new("echo");
        assert!(succeed_or_say(works.arg("failures:"), "failures:").is_ok());
    }

    #[test]
    fn a_program_that_fails_or_is_not_there_is_an_error() {
        assert!(succeed(&mut Command::new("true")).is_ok());
        let failed = succeed(&mut Command::new("false")).unwrap_err();
        assert!(failed.to_string().contains("ended with"), "{failed}");
        let missing = succeed(&mut Command::new("/no/such/program")).unwrap_err();
        assert!(missing.to_string().starts_with("start "), "{missing}");
    }
}
