//! tgt, the user-space iSCSI target that Debian has, as a process of its own: what our initiator is held against in tests, and what
//! Holdfast is measured beside.
//!
//! It refuses to touch the service of that name: each process has a socket, a log and portals of its own.
//!
//! Invariants:
//! - a [`Tgt`] that is dropped has ended; one that was started by [`command`] ends with the thread that started it, too;
//! - without tgt nothing is skipped: the error says what to install.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// The unit that a file is served as. Unit 0 is tgt's controller.
pub const LUN: u16 = 1;
const START_PATIENCE: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(20);
/// The caching mode page (SBC-3 6.5.6) as tgt has it, with WCE off: then tgt has each write on stable storage before it answers.
const CACHE_OFF: &str =
    "mode_page=8:0:18:0x10:0:0xff:0xff:0:0:0xff:0xff:0xff:0xff:0x80:0x14:0:0:0:0:0:0";

/// A tgtd with one target, open to every initiator.
#[derive(Debug)]
pub struct Tgt {
    process: Child,
    socket: PathBuf,
    target: String,
    portals: Vec<SocketAddr>,
    is_alive: bool,
}

/// What runs tgtd here. Whatever becomes of the caller, tgtd ends with the thread that starts it.
#[must_use]
pub fn command() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "tgtd"]);
    command.env("PATH", search_path());
    command
}

impl Tgt {
    /// Starts one by `command`, which ends with the word `tgtd`. Its socket and log are in `directory`.
    ///
    /// # Errors
    /// tgt is not installed, or does not start.
    pub fn start(
        mut command: Command,
        directory: &Path,
        target: &str,
        portals: &[SocketAddr],
    ) -> Result<Self> {
        let first = portals.first().context("a target has a portal")?;
        let socket = directory.join(format!("tgtd-{}", first.port()));
        let log = File::create(socket.with_extension("log"))?;
        let process = command
            .args(["-f", "--iscsi"])
            .arg(format!("portal={first}"))
            .env("TGT_IPC_SOCKET", &socket)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("start tgtd")?;
        let mut tgt = Self {
            process,
            socket,
            target: target.to_owned(),
            portals: portals.to_owned(),
            is_alive: true,
        };
        tgt.wait_for_target()?;
        for portal in &portals[1..] {
            tgt.admin(&format!("--op new --mode portal --param portal={portal}"))?;
        }
        tgt.admin("--op bind --mode target --tid 1 -I ALL")?;
        Ok(tgt)
    }

    fn wait_for_target(&mut self) -> Result<()> {
        let new = format!("--op new --mode target --tid 1 -T {}", self.target);
        let deadline = Instant::now() + START_PATIENCE;
        loop {
            let Err(error) = self.admin(&new) else {
                return Ok(());
            };
            let hint = "tgtd does not start (Debian's package tgt; `make setup-test` installs it)";
            if self.process.try_wait()?.is_some() || Instant::now() > deadline {
                bail!("{hint}: {error:#}: {}", self.log());
            }
            sleep(TICK);
        }
    }

    /// Serves a file as unit [`LUN`].
    ///
    /// # Errors
    /// tgt refuses it.
    pub fn serve(&self, file: &Path) -> Result<()> {
        let file = file.display();
        self.admin(&format!(
            "--op new --mode logicalunit --tid 1 --lun {LUN} -b {file}"
        ))
    }

    /// Has UNMAP taken, which gives the file's space back.
    ///
    /// # Errors
    /// tgt refuses it.
    pub fn provision_thinly(&self) -> Result<()> {
        self.update_unit("thin_provisioning=1")
    }

    /// Has each write on stable storage before it is answered.
    ///
    /// # Errors
    /// tgt refuses it.
    pub fn write_through(&self) -> Result<()> {
        self.update_unit(CACHE_OFF)
    }

    fn update_unit(&self, parameter: &str) -> Result<()> {
        self.admin(&format!(
            "--op update --mode logicalunit --tid 1 --lun {LUN} --params {parameter}"
        ))
    }

    /// Sets what the target offers in a negotiation: a key of RFC 7143 13.
    ///
    /// # Errors
    /// tgt refuses it.
    pub fn offer(&self, key: &str, value: &str) -> Result<()> {
        self.admin(&format!(
            "--op update --mode target --tid 1 --name {key} --value {value}"
        ))
    }

    fn admin(&self, arguments: &str) -> Result<()> {
        let output = Command::new("tgtadm")
            .args(["--lld", "iscsi"])
            .args(arguments.split_whitespace())
            .env("TGT_IPC_SOCKET", &self.socket)
            .env("PATH", search_path())
            .output()
            .context("start tgtadm (Debian's package tgt; `make setup-test` installs it)")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "tgtadm {arguments}: {said}");
        Ok(())
    }

    /// What it has said so far.
    fn log(&self) -> String {
        let log = fs::read(self.socket.with_extension("log"));
        String::from_utf8_lossy(&log.unwrap_or_default()).into_owned()
    }

    /// Its first portal.
    #[must_use]
    pub fn portal(&self) -> SocketAddr {
        self.portals[0]
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Where libiscsi's tools find the unit.
    #[must_use]
    pub fn url(&self) -> String {
        format!("iscsi://{}/{}/{LUN}", self.portal(), self.target)
    }

    /// SIGSTOP, and the wait until every thread of it stands: the kernel stops them one by one, after `kill` has returned.
    ///
    /// # Errors
    /// It has ended.
    pub fn freeze(&self) -> Result<()> {
        let pid = Pid::from_child(&self.process);
        kill_process(pid, Signal::STOP)?;
        let seen = waitpid(Some(pid), WaitOptions::UNTRACED)?;
        let is_stopped = seen.is_some_and(|(_, status)| status.stopped());
        ensure!(is_stopped, "tgtd has ended: {}", self.log());
        Ok(())
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// It has ended.
    pub fn thaw(&self) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.process), Signal::CONT)?)
    }

    /// SIGKILL, and the wait until it is gone; nothing if it is.
    pub fn kill(&mut self) {
        if self.is_alive {
            self.is_alive = false;
            // It is our child, and has not been waited for: neither can fail.
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

impl Drop for Tgt {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Debian keeps daemons where only an administrator's shell looks.
fn search_path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:/usr/sbin:/sbin")
}
