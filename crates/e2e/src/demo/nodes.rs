//! What can be done to the nodes of a demo.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::{Demo, KILL_PATIENCE, READY_PATIENCE, STOP_PATIENCE};
use crate::process::{memory, runs, signal, wait_until};

impl Demo {
    /// The names of all nodes, in order.
    #[must_use]
    pub fn node_names(&self) -> Vec<String> {
        let nodes = self.file.nodes.iter();
        nodes.map(|node| node.name.clone()).collect()
    }

    /// The process of a node, from a fresh look at `demo.json`.
    ///
    /// # Errors
    /// There is no such node.
    pub fn pid(&mut self, node: &str) -> Result<u32> {
        self.refresh()?;
        Ok(self.file.node(node)?.pid)
    }

    /// Whether the node's process runs.
    ///
    /// # Errors
    /// There is no such node.
    pub fn is_running(&mut self, node: &str) -> Result<bool> {
        let pid = self.pid(node)?;
        Ok(runs(pid, &self.directory()))
    }

    /// SIGKILL, and the wait until the process is gone.
    ///
    /// # Errors
    /// It does not run.
    pub fn kill(&mut self, node: &str) -> Result<()> {
        let pid = self.pid(node)?;
        signal(pid, &self.directory(), Signal::KILL)?;
        // A child of this process has to be waited for, or it stays a zombie.
        if let Some(place) = self.started.iter().position(|child| child.id() == pid) {
            self.started.swap_remove(place).wait()?;
        }
        wait_until(&format!("{node} is dead"), KILL_PATIENCE, || {
            Ok(!runs(pid, &self.directory()))
        })?;
        Ok(())
    }

    /// SIGTERM, as a service manager does, and the wait until the process has ended.
    ///
    /// # Errors
    /// It does not run, or does not end.
    pub fn stop_node(&mut self, node: &str) -> Result<Duration> {
        let pid = self.pid(node)?;
        signal(pid, &self.directory(), Signal::TERM)?;
        wait_until(&format!("{node} has stopped"), STOP_PATIENCE, || {
            if let Some(place) = self.started.iter().position(|child| child.id() == pid)
                && self.started[place].try_wait()?.is_some()
            {
                self.started.swap_remove(place).wait()?;
            }
            Ok(!runs(pid, &self.directory()))
        })
    }

    /// SIGSTOP: the node stands still, its connections stay.
    ///
    /// # Errors
    /// It does not run.
    pub fn freeze(&mut self, node: &str) -> Result<()> {
        let pid = self.pid(node)?;
        signal(pid, &self.directory(), Signal::STOP)
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// It does not run.
    pub fn thaw(&mut self, node: &str) -> Result<()> {
        let pid = self.pid(node)?;
        signal(pid, &self.directory(), Signal::CONT)
    }

    /// Starts a node that has died by the command that `demo.json` names, from another directory
    /// and without any environment, and waits until the demo has noticed.
    ///
    /// # Errors
    /// It does not start, or the demo does not notice.
    pub fn start_node(&mut self, node: &str) -> Result<Duration> {
        let command = self.file.node(node)?.command.clone();
        self.start_node_by(node, Path::new(&command[0]))
    }

    /// The same with another binary.
    ///
    /// # Errors
    /// It does not start, or the demo does not notice.
    pub fn start_node_by(&mut self, node: &str, program: &Path) -> Result<Duration> {
        let old = self.pid(node)?;
        ensure!(!runs(old, &self.directory()), "{node} runs already");
        let command = self.file.node(node)?.command.clone();
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.scratch(format!("{node}.log")))?;
        let start = Instant::now();
        let child = Command::new(program)
            .args(&command[1..])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {node}"))?;
        let pid = child.id();
        self.seen.push(pid);
        self.started.push(child);
        let what = format!("demo.json names the new process of {node}");
        wait_until(&what, READY_PATIENCE, || Ok(self.pid(node)? == pid))?;
        Ok(start.elapsed())
    }

    /// Removes everything that a node keeps, but not how it is started. It must not run.
    ///
    /// # Errors
    /// It runs, or what the operating system says.
    pub fn empty_node(&self, node: &str) -> Result<()> {
        let pid = self.file.node(node)?.pid;
        ensure!(!self.runs(pid), "{node} runs");
        for entry in fs::read_dir(self.path(node))? {
            let entry = entry?;
            let name = entry.file_name();
            // Whoever sets up a machine gives it a configuration and credentials.
            if ["node.toml", "node.log", "tls"]
                .iter()
                .any(|it| name == *it)
            {
                continue;
            }
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Resident memory of a node in bytes, and the most that it ever was.
    ///
    /// # Errors
    /// It does not run.
    pub fn memory(&mut self, node: &str) -> Result<(u64, u64)> {
        memory(self.pid(node)?)
    }
}
