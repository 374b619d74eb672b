//! Programs that are run to their end.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

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
    fn a_program_that_fails_or_is_not_there_is_an_error() {
        assert!(succeed(&mut Command::new("true")).is_ok());
        let failed = succeed(&mut Command::new("false")).unwrap_err();
        assert!(failed.to_string().contains("ended with"), "{failed}");
        let missing = succeed(&mut Command::new("/no/such/program")).unwrap_err();
        assert!(missing.to_string().starts_with("start "), "{missing}");
    }
}
