//! Three machines, each an address of this one (127.0.0.1 to 127.0.0.3): what a user does with three
//! configuration files and `--with-etcd`.
//!
//! Invariants:
//! - they run alone in a test process, as a demo does;
//! - when [`Machines`] is dropped, everything that it started has ended; if the test fails, its logs are
//!   printed and its directory is kept.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::demo::ONE_AT_A_TIME;
use crate::ports::{self, ETCD_OFFSET, Ports};
use crate::process::{TICK, runs, signal, wait_until};
use crate::{binary, cli};

/// The cluster's id; any would do.
const CLUSTER: &str = "5eed0000000000000000000000000003";
/// Bytes of each node's device, a sparse file.
const DEVICE_BYTES: u64 = 8 << 30;
/// How long anything may take: a slow machine is not a hang.
const PATIENCE: Duration = Duration::from_secs(90);
/// Lines of each log that a failed test prints.
const LOG_LINES: usize = 40;

/// What a machine is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It stores, and has a member of etcd.
    Node,
    /// It has a member of etcd only.
    Witness,
}

/// Three machines.
#[derive(Debug)]
pub struct Machines {
    roles: [Role; 3],
    ports: Ports,
    scratch: Option<TempDir>,
    running: [Option<Child>; 3],
    failed: bool,
    _turn: MutexGuard<'static, ()>,
}

/// Runs a test on three machines. If it fails, their logs are printed.
///
/// # Panics
/// If they do not start, or `body` fails.
pub fn on_machines(roles: [Role; 3], body: impl FnOnce(&mut Machines) -> Result<()>) {
    let mut machines = Machines::prepare(roles).expect("a place for the machines");
    let result = (0..3)
        .try_for_each(|place| machines.start(place))
        .and_then(|()| body(&mut machines));
    if let Err(error) = result {
        machines.failed = true;
        drop(machines);
        panic!("{error:?}");
    }
}

impl Machines {
    fn prepare(roles: [Role; 3]) -> Result<Self> {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let machines = Self {
            roles,
            ports: ports::free(1)?,
            scratch: Some(tempfile::Builder::new().prefix("holdfast-e2e-").tempdir()?),
            running: [None, None, None],
            failed: false,
            _turn: turn,
        };
        for place in 0..3 {
            fs::create_dir(machines.directory(place))?;
            fs::write(machines.config(place), machines.file(place))?;
        }
        Ok(machines)
    }

    fn scratch(&self) -> &Path {
        let scratch = self.scratch.as_ref();
        scratch.expect("it is there until the end").path()
    }

    /// What the machine keeps.
    #[must_use]
    pub fn directory(&self, place: usize) -> PathBuf {
        self.scratch().join(name(place))
    }

    fn config(&self, place: usize) -> PathBuf {
        self.scratch().join(format!("{}.toml", name(place)))
    }

    /// The machine's configuration, as short as it can be.
    fn file(&self, place: usize) -> String {
        let Ports { portal, api } = self.ports;
        let (name, address, number) = (name(place), address(place), place + 1);
        let (client, peer) = (api + ETCD_OFFSET, api + ETCD_OFFSET + 1);
        let directory = self.directory(place);
        let directory = directory.display();
        let members: String = (0..3)
            .map(|one| format!("{} = \"{}\"\n", self::name(one), self::address(one)))
            .collect();
        let etcd = format!(
            "[etcd]\nclient_port = {client}\npeer_port = {peer}\n[etcd.members]\n{members}"
        );
        let head =
            format!("cluster = \"{CLUSTER}\"\nname = \"{name}\"\ndirectory = \"{directory}\"\n");
        match self.roles[place] {
            Role::Witness => format!("{head}{etcd}"),
            Role::Node => format!(
                "{head}node = {number}\n{etcd}\
                 [portal]\nlisten = \"{address}:{portal}\"\n\
                 [peers]\nlisten = \"{address}:{peers}\"\n\
                 [api]\nlisten = \"{address}:{api}\"\n\
                 [[devices]]\npath = \"{directory}/device\"\nfile_bytes = {DEVICE_BYTES}\n",
                peers = api + 100,
            ),
        }
    }

    /// Starts a machine's only process, which starts etcd.
    ///
    /// # Errors
    /// It runs, or cannot be started.
    pub fn start(&mut self, place: usize) -> Result<()> {
        ensure!(self.running[place].is_none(), "it runs already");
        let config = self.config(place);
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.scratch().join(format!("{}.log", name(place))))?;
        let mut command = Command::new(binary::holdfast()?);
        match self.roles[place] {
            Role::Node => command.args(["node", "--with-etcd", "--config"]),
            Role::Witness => command.args(["witness", "--config"]),
        };
        let child = command
            .arg(config)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .context("start a machine")?;
        self.running[place] = Some(child);
        Ok(())
    }

    /// SIGKILL to the machine's process only: its etcd is an orphan.
    ///
    /// # Errors
    /// It does not run.
    pub fn kill(&mut self, place: usize) -> Result<()> {
        let mut child = self.running[place].take().context("it runs")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// The machine is switched off: its process and its etcd die.
    ///
    /// # Errors
    /// It does not run.
    pub fn switch_off(&mut self, place: usize) -> Result<()> {
        self.kill(place)?;
        self.kill_etcd(place)
    }

    /// SIGKILL to the machine's etcd only.
    ///
    /// # Errors
    /// It does not run.
    pub fn kill_etcd(&mut self, place: usize) -> Result<()> {
        let pid = self.etcd_pid(place)?;
        signal(pid, self.scratch(), Signal::KILL)?;
        wait_until("etcd is dead", PATIENCE, || Ok(!runs(pid, self.scratch())))?;
        Ok(())
    }

    /// The process of the machine's etcd, as it was last written down.
    ///
    /// # Errors
    /// There was none.
    pub fn etcd_pid(&self, place: usize) -> Result<u32> {
        let path = self.directory(place).join("etcd/etcd.pid");
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        text.trim().parse().context("read etcd's process id")
    }

    /// Whether the machine's etcd runs.
    #[must_use]
    pub fn etcd_runs(&self, place: usize) -> bool {
        self.etcd_pid(place)
            .is_ok_and(|pid| runs(pid, self.scratch()))
    }

    /// Stops a machine's process as a service manager does.
    ///
    /// # Errors
    /// It does not end well in time, or leaves its etcd.
    pub fn stop(&mut self, place: usize) -> Result<()> {
        let mut child = self.running[place].take().context("it runs")?;
        signal(child.id(), self.scratch(), Signal::TERM)?;
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if begun.elapsed() > PATIENCE {
                child.kill()?;
            }
            std::thread::sleep(TICK);
        };
        ensure!(status.success(), "a clean stop ended with {status}");
        ensure!(!self.etcd_runs(place), "etcd is left behind");
        Ok(())
    }

    /// URL of a node's API.
    #[must_use]
    pub fn api(&self, place: usize) -> String {
        format!("http://{}:{}", address(place), self.ports.api)
    }

    /// The portals of the nodes.
    #[must_use]
    pub fn portals(&self) -> Vec<SocketAddr> {
        let nodes = (0..3).filter(|place| self.roles[*place] == Role::Node);
        nodes
            .map(|place| SocketAddr::new(address(place), self.ports.portal))
            .collect()
    }

    /// Waits until so many nodes are up, as the node at `place` sees it.
    ///
    /// # Errors
    /// They are not.
    pub fn wait_for_nodes(&self, place: usize, up: usize) -> Result<Duration> {
        let api = self.api(place);
        wait_until(&format!("{up} nodes are up"), PATIENCE, || {
            let Ok(found) = cli::json::<Value>(&api, &["node", "list"]) else {
                return Ok(false);
            };
            let nodes = found["nodes"].as_array().map_or(&[][..], Vec::as_slice);
            Ok(nodes.iter().filter(|node| node["state"] == "up").count() == up)
        })
    }

    /// Waits until every slice of a volume has so many copies in sync, as the node at `place` sees it.
    ///
    /// # Errors
    /// They have not.
    pub fn wait_until_whole(&self, place: usize, volume: &str, copies: usize) -> Result<Duration> {
        let api = self.api(place);
        wait_until(&format!("{volume} is whole"), PATIENCE, || {
            Ok(cli::volume_show(&api, volume).is_ok_and(|it| it.is_whole(copies)))
        })
    }

    fn print_logs(&self) {
        for place in 0..3 {
            let name = name(place);
            let directory = self.directory(place);
            for log in [
                self.scratch().join(format!("{name}.log")),
                directory.join("node.log"),
                directory.join("etcd/etcd.log"),
            ] {
                let text = fs::read_to_string(&log).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                let end = &lines[lines.len().saturating_sub(LOG_LINES)..];
                report(&format!("== {}\n{}", log.display(), end.join("\n")));
            }
        }
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        let failed = self.failed || std::thread::panicking();
        for place in 0..3 {
            if let Some(mut child) = self.running[place].take() {
                let _ = child.kill();
                let _ = child.wait();
            }
            if let Ok(pid) = self.etcd_pid(place) {
                let _ = signal(pid, self.scratch(), Signal::KILL);
            }
        }
        if failed {
            self.print_logs();
            if let Some(scratch) = self.scratch.take() {
                let kept = scratch.keep();
                report(&format!("what is left of it is kept: {}", kept.display()));
            }
        }
    }
}

fn name(place: usize) -> String {
    format!("m{}", place + 1)
}

fn address(place: usize) -> IpAddr {
    let last = u8::try_from(place + 1).expect("there are three");
    Ipv4Addr::new(127, 0, 0, last).into()
}

/// Says something in the output of a failed test.
#[allow(
    clippy::print_stderr,
    reason = "this is what a failed test is read for"
)]
fn report(text: &str) {
    eprintln!("{text}");
}
