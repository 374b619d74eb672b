//! What can be done to the etcd of a demo.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::{Demo, KILL_PATIENCE, READY_PATIENCE};
use crate::ports::ETCD_OFFSET;
use crate::process::{runs, signal, wait_until};

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
        let port = self.ports.api + ETCD_OFFSET;
        let mut command = Command::new("etcdctl");
        command
            .env("ETCDCTL_API", "3")
            .arg(format!("--endpoints=http://127.0.0.1:{port}"))
            .args(arguments);
        let output = command
            .output()
            .context("run etcdctl (`make test` installs it)")?;
        let talk = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "etcdctl {arguments:?}: {talk}");
        Ok(String::from_utf8(output.stdout)?)
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
