//! What can be done to the etcd of a demo.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::{Demo, KILL_PATIENCE, READY_PATIENCE};
use crate::ports::ETCD_OFFSET;
use crate::process::{runs, signal, wait_until};

/// Where the clients of a copy of the demo's etcd connect, counted from those of etcd itself.
const COPY_OFFSET: u16 = 4;

/// Another etcd, with a copy of what the demo's has. It ends with this.
#[derive(Debug)]
pub struct EtcdCopy {
    process: Child,
    address: String,
}

impl Drop for EtcdCopy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Demo {
    /// The process of the demo's etcd.
    ///
    /// # Errors
    /// It has none.
    pub fn etcd_pid(&self) -> Result<u32> {
        let path = self.path("etcd/etcd.pid");
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        text.trim().parse().context("read etcd's process id")
    }

    /// Where its clients connect, `host:port`.
    #[must_use]
    pub fn etcd_address(&self) -> String {
        format!("127.0.0.1:{}", self.ports.api + ETCD_OFFSET)
    }

    /// From now on its process is one of those that must end with the demo.
    pub(super) fn see_etcd(&mut self) {
        if let Ok(pid) = self.etcd_pid()
            && !self.seen.contains(&pid)
        {
            self.seen.push(pid);
        }
    }

    /// SIGKILL, and the wait until the process is gone.
    ///
    /// # Errors
    /// It does not run.
    pub fn kill_etcd(&mut self) -> Result<()> {
        let pid = self.etcd_pid()?;
        signal(pid, &self.directory(), Signal::KILL)?;
        wait_until("etcd is dead", KILL_PATIENCE, || {
            Ok(!runs(pid, &self.directory()))
        })?;
        Ok(())
    }

    /// SIGSTOP: etcd stands still, as on a disk that does not answer.
    ///
    /// # Errors
    /// It does not run.
    pub fn freeze_etcd(&mut self) -> Result<()> {
        signal(self.etcd_pid()?, &self.directory(), Signal::STOP)
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// It does not run.
    pub fn thaw_etcd(&mut self) -> Result<()> {
        signal(self.etcd_pid()?, &self.directory(), Signal::CONT)
    }

    /// What an administrator's `etcdctl` says to the demo's etcd.
    ///
    /// # Errors
    /// It is not installed, or says that it failed.
    pub fn etcdctl(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new("etcdctl");
        command
            .env("ETCDCTL_API", "3")
            .arg(format!("--endpoints=http://{}", self.etcd_address()))
            .args(arguments);
        let output = command
            .output()
            .context("run etcdctl (`make test` installs it)")?;
        let talk = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "etcdctl {arguments:?}: {talk}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Starts another etcd, with a backup of what the demo's has now.
    ///
    /// # Errors
    /// `etcdctl` or `etcd` is not installed, or says that it failed.
    pub fn copy_etcd(&self) -> Result<EtcdCopy> {
        let path = |name| self.scratch(name).display().to_string();
        let (backup, data) = (path("etcd-backup"), path("etcd-copy"));
        self.etcdctl(&["snapshot", "save", &backup])?;
        self.etcdctl(&["snapshot", "restore", &backup, "--data-dir", &data])?;
        let port = self.ports.api + ETCD_OFFSET + COPY_OFFSET;
        let (clients, peers) = (
            format!("http://127.0.0.1:{port}"),
            format!("http://127.0.0.1:{}", port + 1),
        );
        let log = File::create(self.scratch("etcd-copy.log"))?;
        let process = Command::new("etcd")
            .args(["--data-dir", &data])
            .args(["--listen-client-urls", &clients])
            .args(["--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", &peers])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("start a second etcd")?;
        let address = format!("127.0.0.1:{port}");
        Ok(EtcdCopy { process, address })
    }

    /// From its next start on a node looks for the metadata in the copy; or in the demo's etcd again.
    ///
    /// # Errors
    /// Its configuration does not say where it looks for it.
    pub fn send_to(&self, node: &str, copy: &EtcdCopy, is_there: bool) -> Result<()> {
        let own = self.etcd_address();
        let (from, to) = if is_there {
            (&own, &copy.address)
        } else {
            (&copy.address, &own)
        };
        let config = self.path(node).join("node.toml");
        let text = fs::read_to_string(&config)?;
        ensure!(text.contains(from.as_str()), "{text}");
        Ok(fs::write(&config, text.replace(from, to))?)
    }

    /// Does something to what etcd keeps, which is in the directory that is given, while it is dead.
    ///
    /// # Errors
    /// It does not run before, or not after.
    pub fn change_etcd(&mut self, change: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let (pid, parent) = (self.etcd_pid()?, self.parent_pid()?);
        // Who starts it again stands still meanwhile.
        signal(parent, &self.directory(), Signal::STOP)?;
        let changed = self
            .kill_etcd()
            .and_then(|()| change(&self.path("etcd/data")));
        signal(parent, &self.directory(), Signal::CONT)?;
        changed?;
        self.wait_for_another_etcd(pid).map(drop)
    }

    /// Waits until the demo has started another etcd than `before`.
    ///
    /// # Errors
    /// It does not.
    pub fn wait_for_another_etcd(&mut self, before: u32) -> Result<Duration> {
        let took = wait_until("etcd is started again", READY_PATIENCE, || {
            let pid = self.etcd_pid()?;
            Ok(pid != before && runs(pid, &self.directory()))
        })?;
        self.see_etcd();
        Ok(took)
    }
}
