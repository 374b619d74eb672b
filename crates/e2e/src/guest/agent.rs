//! Commands to a guest, by the script `crates/e2e/guest/agent.sh` at the other end of a stream.
//!
//! Invariants:
//! - one command at a time: an answer is for the command that was sent last, or it is refused;
//! - nothing is waited for without end, and no answer grows without bound;
//! - after an error the stream may stand anywhere: it is used no more.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// The script that runs in the guest.
pub const SCRIPT: &str = include_str!("../../guest/agent.sh");
/// What the guest says first.
const READY: &str = "ready";
/// The longest head of an answer: three numbers.
const HEAD_BYTES_MAX: usize = 64;
/// The longest output of a command that the script tells of.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// How much longer than a command may take its answer may: an emulated processor is slow.
const GRACE: Duration = Duration::from_secs(30);
/// With this code the script tells of a command that took too long.
pub const TIMED_OUT: i32 = 124;

/// The host's end.
#[derive(Debug)]
pub struct Agent {
    stream: UnixStream,
    /// Bytes that were read and belong to what comes next.
    ahead: Vec<u8>,
    last: u64,
    failed: bool,
}

/// What came of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its exit code.
    pub code: i32,
    /// What it printed on either handle.
    pub output: String,
}

impl Agent {
    /// Waits until the script at the other end of the stream is there.
    ///
    /// # Errors
    /// It is not within `patience`, or something else is there.
    pub fn connect(stream: UnixStream, patience: Duration) -> Result<Self> {
        let mut agent = Self {
            stream,
            ahead: Vec::new(),
            last: 0,
            failed: false,
        };
        let line = agent.line(Instant::now() + patience)?;
        ensure!(line == READY, "it says {line:?} instead of {READY:?}");
        Ok(agent)
    }

    /// Runs a script of bash, which is ended after `patience`, in whole seconds.
    ///
    /// # Errors
    /// There is no answer, or none that can be understood. A script that fails is no error.
    pub fn run(&mut self, script: &str, patience: Duration) -> Result<Answer> {
        ensure!(!self.failed, "an earlier command had no answer");
        let answer = self.ask(script, patience);
        self.failed = answer.is_err();
        answer
    }

    fn ask(&mut self, script: &str, patience: Duration) -> Result<Answer> {
        self.last += 1;
        let (number, seconds, bytes) = (self.last, patience.as_secs().max(1), script.len());
        let deadline = Instant::now() + patience + GRACE;
        self.stream.set_write_timeout(Some(GRACE))?;
        write!(self.stream, "{number} {seconds} {bytes}\n{script}")?;
        let line = self.line(deadline)?;
        let fields: Vec<&str> = line.split(' ').collect();
        let [answered, code, bytes] = fields[..] else {
            bail!("{line:?} is no head of an answer");
        };
        let answered: u64 = answered.parse().context("read an answer's number")?;
        ensure!(answered == number, "{answered} is answered, not {number}");
        let code = code.parse().context("read an answer's code")?;
        let bytes: usize = bytes.parse().context("read an answer's length")?;
        ensure!(bytes <= OUTPUT_BYTES_MAX, "{bytes} bytes are too many");
        while self.ahead.len() < bytes {
            self.fill(deadline)?;
        }
        let output: Vec<u8> = self.ahead.drain(..bytes).collect();
        let output = String::from_utf8_lossy(&output).into_owned();
        Ok(Answer { code, output })
    }

    fn line(&mut self, deadline: Instant) -> Result<String> {
        loop {
            if let Some(end) = self.ahead.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.ahead.drain(..=end).collect();
                return String::from_utf8(line[..end].to_vec()).context("read a line");
            }
            ensure!(self.ahead.len() <= HEAD_BYTES_MAX, "the line has no end");
            self.fill(deadline)?;
        }
    }

    fn fill(&mut self, deadline: Instant) -> Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        ensure!(!left.is_zero(), "the guest does not answer in time");
        self.stream.set_read_timeout(Some(left))?;
        let mut bytes = [0; 4096];
        let count = match self.stream.read(&mut bytes) {
            Ok(count) => count,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                return Ok(());
            }
            Err(error) => return Err(error).context("read from the guest"),
        };
        ensure!(count > 0, "the guest has ended");
        self.ahead.extend_from_slice(&bytes[..count]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::process::{Child, Command};

    use tempfile::TempDir;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// The script at the other end of a socket, here.
    struct Here {
        agent: Agent,
        child: Child,
        _directory: TempDir,
    }

    impl Here {
        fn start() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let script = directory.path().join("agent");
            std::fs::write(&script, SCRIPT).unwrap();
            let (ours, theirs) = UnixStream::pair().unwrap();
            let child = Command::new("bash")
                .arg(&script)
                .arg(directory.path())
                .stdin(OwnedFd::from(theirs.try_clone().unwrap()))
                .stdout(OwnedFd::from(theirs))
                .spawn()
                .unwrap();
            Self {
                agent: Agent::connect(ours, PATIENCE).unwrap(),
                child,
                _directory: directory,
            }
        }
    }

    impl Drop for Here {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    #[test]
    fn commands_are_answered_in_turn() {
        let mut here = Here::start();
        let mut run = |script: &str| here.agent.run(script, PATIENCE).unwrap();
        let answer = run("echo out; echo error >&2; exit 3");
        assert_eq!(answer.code, 3);
        assert_eq!(answer.output, "out\nerror\n");
        // Its bytes are counted, so a script may hold anything, a command of the protocol too.
        assert_eq!(
            run("cat <<'end'\n7 1 4\nexit\nend\n").output,
            "7 1 4\nexit\n"
        );
        assert_eq!(run("").output, "");
        assert_eq!(run("read line; echo \"<$line>\"").output, "<>\n");
    }

    #[test]
    fn a_long_output_ends_with_its_end() {
        let mut here = Here::start();
        let script = "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last";
        let answer = here.agent.run(script, PATIENCE).unwrap();
        assert_eq!(answer.output.len(), OUTPUT_BYTES_MAX);
        assert!(answer.output.ends_with("x\nlast\n"));
        assert_eq!(here.agent.run("echo on", PATIENCE).unwrap().output, "on\n");
    }

    #[test]
    fn what_takes_too_long_is_ended() {
        let mut here = Here::start();
        let begun = Instant::now();
        let answer = here.agent.run("sleep 60", Duration::from_secs(1)).unwrap();
        assert_eq!(answer.code, TIMED_OUT);
        assert!(begun.elapsed() < PATIENCE);
        assert_eq!(here.agent.run("echo on", PATIENCE).unwrap().output, "on\n");
    }

    #[test]
    fn a_background_job_does_not_hold_the_agent() {
        let mut here = Here::start();
        let answer = here.agent.run("sleep 30 & echo $!", PATIENCE).unwrap();
        let pid = answer.output.trim();
        let answer = here.agent.run(&format!("kill {pid}"), PATIENCE).unwrap();
        assert_eq!(answer.code, 0, "{}", answer.output);
    }

    /// An agent before which somebody writes these bytes after `ready`, and goes.
    fn told(bytes: &[u8]) -> Result<Answer> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"ready\n").unwrap();
        let mut agent = Agent::connect(ours, PATIENCE).unwrap();
        theirs.write_all(bytes).unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        let answer = agent.run("true", PATIENCE);
        if answer.is_err() {
            assert!(agent.run("true", PATIENCE).is_err(), "it is used no more");
        }
        answer
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(told(b"1 0 2\nok").unwrap().output, "ok");
        for nonsense in [
            &b"2 0 2\nok"[..],
            b"1 0\nok",
            b"1 zero 2\nok",
            b"1 0 -2\nok",
            b"1 0 1048577\n",
            b"1 0 3\nok",
            b"",
            &[b'1'; 4096],
        ] {
            assert!(told(nonsense).is_err(), "{nonsense:?}");
        }
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"Debian\n").unwrap();
        assert!(Agent::connect(ours, PATIENCE).is_err());
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert!(Agent::connect(ours, Duration::from_millis(50)).is_err());
    }
}
