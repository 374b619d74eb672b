//! A cluster on this machine: `holdfast demo` and what can be done to it.
//!
//! Invariants:
//! - one demo runs at a time in a test process;
//! - when a [`Demo`] is dropped, everything that it started has ended; if the test fails, its logs
//!   are printed and its directory is kept.

mod etcd;
mod load;
mod nodes;

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::cli::Keys;
use crate::demo_file::{DemoFile, VolumeShow};
use crate::process::{TICK, runs, signal, wait_until};
use crate::{binary, cli, ports};

/// The directory of the demo in that of the test.
const DIRECTORY: &str = "demo";
/// Memory of a node: 256 MiB, its cache of the page table, which has 16 MiB, and what it keeps of what was read: 16 MiB here.
pub const NODE_MEMORY_MAX: u64 = (256 + 16 + 16) << 20;
/// How soon everything serves, as the contract says.
pub const READY_WITHIN: Duration = Duration::from_secs(10);
/// How old what the API and `demo.json` tell may be, and a little more.
pub const TOLD_WITHIN: Duration = Duration::from_secs(3);
/// How long the harness waits for that: a slow machine is not a hang.
const READY_PATIENCE: Duration = Duration::from_secs(60);
/// How long a clean stop may take.
const STOP_PATIENCE: Duration = Duration::from_secs(30);
/// How long a process may take to be gone after SIGKILL.
const KILL_PATIENCE: Duration = Duration::from_secs(10);
/// Lines of each log that a failed test prints.
const LOG_LINES: usize = 40;

/// Poisoned by a failed test, which is no reason to fail the next.
pub(crate) static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What `holdfast demo` is told.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// `--nodes`.
    pub nodes: u16,
    /// `--nodes-per-machine`.
    pub nodes_per_machine: u16,
    /// `--device-size`.
    pub device_size: &'static str,
    /// `--cache`, unless the binary is one that has none.
    pub cache: Option<&'static str>,
    /// `--volume`, each `NAME:SIZE:POLICY`.
    pub volumes: Vec<&'static str>,
    /// Whether `--metadata etcd`.
    pub etcd: bool,
    /// Whether its APIs speak TLS, with those who show who they are; earlier binaries know none, and need not be told.
    pub secure: bool,
    /// Another binary than the one under test.
    pub program: Option<PathBuf>,
}

impl Default for DemoOptions {
    fn default() -> Self {
        Self {
            nodes: 3,
            nodes_per_machine: 1,
            device_size: "16GiB",
            cache: Some("16MiB"),
            volumes: vec!["demo:4GiB:mirror2"],
            etcd: false,
            secure: true,
            program: None,
        }
    }
}

/// A running demo.
#[derive(Debug)]
pub struct Demo {
    options: DemoOptions,
    ports: ports::Ports,
    /// Ours; the demo's directory is in it.
    scratch: Option<TempDir>,
    parent: Option<Child>,
    /// Nodes that were started by their command, until they have ended.
    started: Vec<Child>,
    /// Processes that were seen, for the end.
    seen: Vec<u32>,
    file: DemoFile,
    failed: bool,
    _turn: MutexGuard<'static, ()>,
}

/// Runs a test on a demo of its own. If it fails, the demo's logs are printed.
///
/// # Panics
/// If the demo does not start, or `body` fails.
pub fn scenario(options: DemoOptions, body: impl FnOnce(&mut Demo) -> Result<()>) {
    scenario_on(options, |_| Ok(()), body);
}

/// The same, where `before` makes the demo's directory what it is before the first start.
///
/// # Panics
/// If `before` or `body` fails, or the demo does not start.
pub fn scenario_on(
    options: DemoOptions,
    before: impl FnOnce(&Path) -> Result<()>,
    body: impl FnOnce(&mut Demo) -> Result<()>,
) {
    let mut demo = Demo::prepare(options).expect("a place for the demo");
    let result = before(&demo.directory())
        .and_then(|()| demo.start_again())
        .and_then(|_| body(&mut demo));
    if let Err(error) = result {
        demo.failed = true;
        drop(demo);
        panic!("{error:?}");
    }
}

impl Demo {
    /// A place for a demo, that has not been started.
    fn prepare(options: DemoOptions) -> Result<Self> {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Self {
            ports: ports::free(options.nodes)?,
            options,
            scratch: Some(tempfile::Builder::new().prefix("holdfast-e2e-").tempdir()?),
            parent: None,
            started: Vec::new(),
            seen: Vec::new(),
            file: DemoFile {
                api: String::new(),
                token: None,
                ca: None,
                nodes: Vec::new(),
                volumes: Vec::new(),
            },
            failed: false,
            _turn: turn,
        })
    }

    /// Starts the demo on its directory, after it was stopped or killed, and waits until it serves.
    /// Returns how long that took.
    ///
    /// # Errors
    /// It runs already, does not start, or does not serve in time.
    pub fn start_again(&mut self) -> Result<Duration> {
        let start = Instant::now();
        self.begin_again()?;
        self.wait_until_ready()?;
        Ok(start.elapsed())
    }

    /// Starts the demo on its directory, and does not wait for it.
    ///
    /// # Errors
    /// It runs already, or does not start.
    pub fn begin_again(&mut self) -> Result<()> {
        ensure!(self.parent.is_none(), "the demo runs already");
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.scratch("demo.log"))?;
        // In its own process group, so that no signal is for both; ended with the test's thread,
        // whatever becomes of that.
        let program = self.options.program.clone();
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "TERM"])
            .arg(program.map_or_else(binary::holdfast, Ok)?)
            .args(self.arguments())
            .env_remove("HOLDFAST_API")
            .env_remove("HOLDFAST_TOKEN")
            .env_remove("HOLDFAST_CA")
            .env_remove("HOLDFAST_CREDENTIALS")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0);
        self.parent = Some(command.spawn().context("start the demo")?);
        Ok(())
    }

    /// Has the next start be one of another binary; without one, of the one under test.
    pub fn set_program(&mut self, program: Option<PathBuf>) {
        self.options.program = program;
    }

    /// What the demo is told.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let directory = self.directory().display().to_string();
        let mut arguments = vec!["demo".to_owned(), "--dir".to_owned(), directory];
        if !self.options.secure && self.options.program.is_none() {
            arguments.push("--insecure".to_owned());
        }
        let mut option = |name: &str, value: String| {
            arguments.extend([format!("--{name}"), value]);
        };
        option("nodes", self.options.nodes.to_string());
        // Earlier binaries know no machines.
        if self.options.nodes_per_machine > 1 {
            let count = self.options.nodes_per_machine;
            option("nodes-per-machine", count.to_string());
        }
        option("portal-port", self.ports.portal.to_string());
        option("api-port", self.ports.api.to_string());
        option("device-size", self.options.device_size.to_owned());
        if let Some(cache) = self.options.cache {
            option("cache", cache.to_owned());
        }
        if self.options.etcd {
            option("metadata", "etcd".to_owned());
        }
        for volume in &self.options.volumes {
            option("volume", (*volume).to_owned());
        }
        arguments
    }

    /// Waits until the demo serves everything, and has said so.
    ///
    /// # Errors
    /// It ends, or does not serve in time.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        let path = self.path("demo.json");
        let parent = self.parent.as_mut().context("the demo was started")?;
        wait_until("every volume serves", READY_PATIENCE, || {
            if let Some(status) = parent.try_wait()? {
                bail!("the demo ended with {status}");
            }
            Ok(path.exists())
        })?;
        self.refresh()
    }

    /// Reads `demo.json` again.
    ///
    /// # Errors
    /// It is not as the contract says.
    pub fn refresh(&mut self) -> Result<()> {
        self.file = DemoFile::read(&self.path("demo.json"))?;
        let keys = self.file.ca.clone().zip(self.file.token.clone());
        cli::show(keys.map(|(ca, token)| Keys::Token { ca, token }));
        ensure!(
            self.file.nodes.len() == usize::from(self.options.nodes),
            "every node is named"
        );
        for node in &self.file.nodes {
            if !self.seen.contains(&node.pid) {
                self.seen.push(node.pid);
            }
        }
        self.see_etcd();
        Ok(())
    }

    /// What `demo.json` said when it was last read.
    #[must_use]
    pub const fn file(&self) -> &DemoFile {
        &self.file
    }

    /// The demo's directory.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.scratch(DIRECTORY)
    }

    /// A path that the demo knows nothing of.
    #[must_use]
    pub fn scratch(&self, name: impl AsRef<Path>) -> PathBuf {
        let scratch = self.scratch.as_ref();
        scratch
            .expect("it is there until the end")
            .path()
            .join(name)
    }

    /// A path in the demo's directory.
    #[must_use]
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory().join(name)
    }

    /// A node's device, a sparse file.
    #[must_use]
    pub fn device(&self, node: &str) -> PathBuf {
        self.path(node).join("device")
    }

    /// `holdfast volume show NAME`, asked of the parent.
    ///
    /// # Errors
    /// It fails, or its answer is not as the contract says.
    pub fn volume(&self, name: &str) -> Result<VolumeShow> {
        cli::volume_show(&self.file.api, name)
    }

    /// The node that leads the first slice of a volume.
    ///
    /// # Errors
    /// Nobody leads it, or the command line fails.
    pub fn primary(&self, name: &str) -> Result<String> {
        let volume = self.volume(name)?;
        let primary = volume.primaries().first().map(|name| (*name).to_owned());
        primary.with_context(|| format!("the first slice of {name} has a primary"))
    }

    /// A node that has a copy of the first slice of a volume, in sync, and does not lead it.
    ///
    /// # Errors
    /// There is none, or the command line fails.
    pub fn secondary(&self, name: &str) -> Result<String> {
        let (volume, primary) = (self.volume(name)?, self.primary(name)?);
        let mut in_sync = volume.slices.iter().take(1).flat_map(|it| &it.in_sync);
        let secondary = in_sync.find(|node| **node != primary);
        let secondary = secondary.with_context(|| format!("{name} has another copy"))?;
        Ok(secondary.clone())
    }

    /// Where the cluster's API answers.
    #[must_use]
    pub fn api(&self) -> &str {
        &self.file.api
    }

    /// Copies that the policy of volume `name` asks for.
    ///
    /// # Errors
    /// There is no such volume, or its policy is unknown.
    pub fn copies(&self, name: &str) -> Result<usize> {
        match self.file.volume(name)?.policy.as_str() {
            "none" => Ok(1),
            policy => {
                let digits = policy.strip_prefix("mirror");
                digits
                    .and_then(|digits| digits.parse().ok())
                    .with_context(|| format!("understand the policy {policy}"))
            }
        }
    }

    /// Whether every slice of a volume is led, and has all its copies in sync.
    ///
    /// # Errors
    /// The command line fails.
    pub fn is_whole(&self, name: &str) -> Result<bool> {
        Ok(self.volume(name)?.is_whole(self.copies(name)?))
    }

    /// Waits until every slice of volume `name` has all its copies in sync.
    ///
    /// # Errors
    /// That does not happen within `patience`.
    pub fn wait_until_whole(&self, name: &str, patience: Duration) -> Result<Duration> {
        let what = format!("{name} has all its copies in sync");
        wait_until(&what, patience, || self.is_whole(name))
            .with_context(|| format!("at the end: {:?}", self.volume(name)))
    }

    /// Stops everything cleanly, as a service manager does.
    ///
    /// # Errors
    /// The demo does not stop, ends with an error, or leaves something behind.
    pub fn stop(&mut self) -> Result<()> {
        self.stop_by(Signal::TERM)
    }

    /// Stops everything cleanly, as Ctrl-C does.
    ///
    /// # Errors
    /// As [`stop`](Self::stop).
    pub fn interrupt(&mut self) -> Result<()> {
        self.stop_by(Signal::INT)
    }

    fn stop_by(&mut self, how: Signal) -> Result<()> {
        let mut parent = self.parent.take().context("the demo runs")?;
        signal(parent.id(), &self.directory(), how)?;
        let status = wait_for(&mut parent, STOP_PATIENCE);
        if status.is_err() {
            self.parent = Some(parent);
        }
        let status = status?;
        ensure!(status.success(), "a clean stop ended with {status}");
        self.reap_started()?;
        let left: Vec<u32> = self.running().collect();
        ensure!(left.is_empty(), "processes {left:?} were left behind");
        let file = self.path("demo.json");
        ensure!(!file.exists(), "a clean stop removes demo.json");
        Ok(())
    }

    /// Ctrl-C, and when `node` does not end, Ctrl-C once more. What the demo said; `None` if this
    /// process was not fast enough, and the node has ended cleanly.
    ///
    /// # Errors
    /// The demo does not stop, does not end as it should, or leaves something behind.
    pub fn interrupt_twice(&mut self, node: &str) -> Result<Option<String>> {
        let pid = self.pid(node)?;
        let mut parent = self.parent.take().context("the demo runs")?;
        signal(parent.id(), &self.directory(), Signal::INT)?;
        let mut impatient = Some(Instant::now() + Duration::from_secs(1));
        // Who is told to stop is told to go on, too: this one stands still again at once.
        let begun = Instant::now();
        while signal(pid, &self.directory(), Signal::STOP).is_ok() {
            ensure!(begun.elapsed() < STOP_PATIENCE, "{node} is not killed");
            if impatient.take_if(|when| Instant::now() >= *when).is_some() {
                signal(parent.id(), &self.directory(), Signal::INT)?;
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        let status = wait_for(&mut parent, STOP_PATIENCE)?;
        let left: Vec<u32> = self.running().collect();
        ensure!(left.is_empty(), "processes {left:?} were left behind");
        if status.success() && impatient.is_some() {
            return Ok(None);
        }
        ensure!(
            status.code() == Some(1),
            "a stop in a hurry ended with {status}"
        );
        let said = fs::read_to_string(self.scratch("demo.log"));
        said.context("read what the demo said").map(Some)
    }

    /// Kills the parent only.
    ///
    /// # Errors
    /// It does not run.
    pub fn kill_parent(&mut self) -> Result<()> {
        let mut parent = self.parent.take().context("the demo runs")?;
        parent.kill().context("kill the demo")?;
        parent.wait().context("wait for the demo")?;
        Ok(())
    }

    /// Kills the parent and every node, as near to the same time as it can be done.
    ///
    /// # Errors
    /// Something does not die.
    pub fn kill_everything(&mut self) -> Result<()> {
        self.refresh()?;
        let pids: Vec<u32> = self.running().collect();
        if let Some(parent) = &mut self.parent {
            parent.kill().context("kill the demo")?;
        }
        for pid in &pids {
            // One that has died meanwhile is as dead.
            let _ = signal(*pid, &self.directory(), Signal::KILL);
        }
        if let Some(mut parent) = self.parent.take() {
            parent.wait().context("wait for the demo")?;
        }
        self.reap_started()?;
        wait_until("everything is dead", KILL_PATIENCE, || {
            Ok(self.running().next().is_none())
        })?;
        // Else the next start could be taken for ready by what this one has left.
        fs::remove_file(self.path("demo.json")).context("remove demo.json")?;
        Ok(())
    }

    /// The parent's process.
    ///
    /// # Errors
    /// It does not run.
    pub fn parent_pid(&self) -> Result<u32> {
        let parent = self.parent.as_ref().context("the demo runs")?;
        Ok(parent.id())
    }

    /// Whether a process of this demo runs.
    #[must_use]
    pub fn runs(&self, pid: u32) -> bool {
        runs(pid, &self.directory())
    }

    /// Nodes that run, of those that were ever seen.
    fn running(&self) -> impl Iterator<Item = u32> {
        let seen = self.seen.iter().copied();
        seen.filter(|pid| runs(*pid, &self.directory()))
    }

    /// Waits for the nodes that were started by their command, which have been told to end.
    fn reap_started(&mut self) -> Result<()> {
        for mut child in self.started.drain(..) {
            wait_for(&mut child, STOP_PATIENCE)?;
        }
        Ok(())
    }

    /// The ends of all logs.
    fn print_logs(&self) {
        let mut logs = vec![self.scratch("demo.log"), self.path("etcd/etcd.log")];
        for node in &self.file.nodes {
            logs.push(self.path(&node.name).join("node.log"));
            logs.push(self.path(&node.name).join("node.stderr"));
            logs.push(self.scratch(format!("{}.log", node.name)));
        }
        for log in logs {
            let Ok(text) = fs::read_to_string(&log) else {
                continue;
            };
            let lines: Vec<&str> = text.lines().collect();
            let end = &lines[lines.len().saturating_sub(LOG_LINES)..];
            report(&format!("== {}\n{}", log.display(), end.join("\n")));
        }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        cli::show(None);
        let failed = self.failed || std::thread::panicking();
        if let Some(parent) = &mut self.parent {
            let directory = self.scratch.as_ref().map(|it| it.path().join(DIRECTORY));
            let directory = directory.unwrap_or_default();
            // SIGTERM first: the demo stops its nodes. One that has ended cannot be signalled.
            if !failed && signal(parent.id(), &directory, Signal::TERM).is_ok() {
                let _ = wait_for(parent, STOP_PATIENCE);
            }
            let _ = parent.kill();
            let _ = parent.wait();
        }
        for pid in self.running().collect::<Vec<_>>() {
            let _ = signal(pid, &self.directory(), Signal::KILL);
        }
        for child in &mut self.started {
            let _ = child.kill();
            let _ = child.wait();
        }
        if failed {
            self.print_logs();
            if let Some(scratch) = self.scratch.take() {
                report(&format!(
                    "what is left of it is kept: {}",
                    scratch.keep().display()
                ));
            }
        }
    }
}

/// Waits for a child's end.
fn wait_for(child: &mut Child, patience: Duration) -> Result<ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("wait for a process")? {
            return Ok(status);
        }
        ensure!(
            start.elapsed() < patience,
            "process {} has not ended within {patience:?}",
            child.id()
        );
        std::thread::sleep(TICK);
    }
}

/// Says something in the output of a failed test.
#[allow(
    clippy::print_stderr,
    reason = "this is what a failed test is read for"
)]
fn report(text: &str) {
    eprintln!("{text}");
}
