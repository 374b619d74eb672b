//! Programs that are run to their end.

use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// How many bytes of what a program prints are in an error.
const SAID_MAX: usize = 16 << 10;
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

/// The same, with what it prints last in the error, from this line on where that is among it: where much else is printed before
/// somebody reads it, it is easily lost. One that does not run alone has this name before each of its lines.
///
/// # Errors
/// It cannot be started, or ends with a failure.
pub(crate) fn succeed_or_say(command: &mut Command, name: Option<&str>, from: &str) -> Result<()> {
    let child = command.stdout(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("start {command:?}"))?;
    let mut stdout = child.stdout.take().expect("it is a pipe");
    let last = Arc::new(Mutex::new(Vec::new()));
    let reader = {
        let last = Arc::clone(&last);
        let mut shown = Shown::of(name);
        thread::spawn(move || {
            let mut piece = vec![0; SAID_MAX];
            while let Ok(length @ 1..) = stdout.read(&mut piece) {
                let piece = &piece[..length];
                let mut stdout = io::stdout().lock();
                // Where nobody reads it there is the error.
                drop(shown.show(piece, &mut stdout));
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                last.extend_from_slice(piece);
                let surplus = last.len().saturating_sub(SAID_MAX);
                last.drain(..surplus);
            }
        })
    };
    let status = child.wait()?;
    // Whoever outlives it may hold its output, and is not waited for.
    let deadline = Instant::now() + SAID_WITHIN;
    while !reader.is_finished() && Instant::now() < deadline {
        sleep(Duration::from_millis(10));
    }
    let last = last.lock().unwrap_or_else(PoisonError::into_inner);
    let last = String::from_utf8_lossy(&last);
    ensure!(
        status.success(),
        "{command:?} ended with {status}\n{}",
        since(&last, from)
    );
    Ok(())
}

/// What is shown of what a program prints, while it prints it.
enum Shown {
    /// Whole pieces, and not lines: what waits is shown, too.
    Alone,
    /// Whole lines, each behind the name, since those of others stand between them.
    BesideOthers {
        name: String,
        /// What has been printed since the last end of a line.
        begun: Vec<u8>,
    },
}

impl Shown {
    fn of(name: Option<&str>) -> Self {
        name.map_or(Self::Alone, |name| Self::BesideOthers {
            name: format!("{name}: "),
            begun: Vec::new(),
        })
    }

    fn show(&mut self, piece: &[u8], to: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Alone => to.write_all(piece)?,
            Self::BesideOthers { name, begun } => {
                for part in piece.split_inclusive(|byte| *byte == b'\n') {
                    begun.extend_from_slice(part);
                    // A line without an end is shown in pieces, as it has no bound.
                    if part.ends_with(b"\n") || begun.len() >= SAID_MAX {
                        to.write_all(name.as_bytes())?;
                        to.write_all(begun)?;
                        begun.clear();
                    }
                }
            }
        }
        to.flush()
    }
}

/// From that line on, where it begins what is said in full; it stands again before the names alone.
fn since<'a>(last: &'a str, from: &str) -> &'a str {
    let line = format!("\n{from}\n");
    let mut found = last.match_indices(&line);
    match (found.next(), found.next()) {
        (Some((first, _)), Some(_)) => &last[first + 1..],
        _ => last,
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
        let failed = |script: &str| {
            let mut fails = Command::new("sh");
            let failed = succeed_or_say(fails.args(["-c", script]), None, "failures:").unwrap_err();
            let failed = failed.to_string();
            failed.split_once('\n').unwrap().1.to_owned()
        };
        let said = failed("echo before; echo failures:; echo why; echo failures:; echo a; exit 1");
        assert_eq!(said, "failures:\nwhy\nfailures:\na\n");
        // The last of it, where it says more, in one line or in many; and whoever outlives it is not waited for.
        let said = failed("echo failures:; seq 9000; echo failures:; echo a; sleep 5 & exit 1");
        assert!(said.ends_with("\n9000\nfailures:\na\n") && said.len() == SAID_MAX);
        let said = failed("echo failures:; printf '%099999d' 1; echo; echo why; exit 1");
        assert!(said.ends_with("1\nwhy\n") && said.len() == SAID_MAX);
        let mut works = Command::new("echo");
        assert!(succeed_or_say(works.arg("failures:"), None, "failures:").is_ok());
    }

    #[test]
    fn lines_of_one_that_does_not_run_alone_have_its_name() {
        let shown = |name: Option<&str>, pieces: &[&str]| {
            let (mut shown, mut all) = (Shown::of(name), Vec::new());
            for piece in pieces {
                shown.show(piece.as_bytes(), &mut all).unwrap();
            }
            String::from_utf8(all).unwrap()
        };
        let pieces = ["test a ... ", "ok\n\ntest b", " ... ok\ntest c ..."];
        assert_eq!(shown(None, &pieces), pieces.concat());
        assert_eq!(
            shown(Some("crates/node"), &pieces),
            "crates/node: test a ... ok\ncrates/node: \ncrates/node: test b ... ok\n"
        );
        let long = "a".repeat(SAID_MAX);
        assert_eq!(shown(Some("one"), &[&long]), format!("one: {long}"));
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
