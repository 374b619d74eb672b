//! Three machines: what a user does with three configuration files. Each is an address of
//! this one (127.0.0.1 to 127.0.0.3), or has a network namespace of its own.
//!
//! Invariants:
//! - they run alone in a test process, as a demo does;
//! - when [`Machines`] is dropped, everything that it started has ended; if the test fails, its logs are
//!   printed and its directory is kept.

mod metadata;
pub mod tls;

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::demo::ONE_AT_A_TIME;
use crate::network::{self, Network, Party};
use crate::ports::{self, ETCD_OFFSET, Ports};
use crate::process::{TICK, memory, runs, signal, wait_until};
use crate::{binary, cli, world};

/// The cluster's id; any would do.
const CLUSTER: &str = "5eed0000000000000000000000000003";
/// Bytes of each node's device, a sparse file.
const DEVICE_BYTES: u64 = 8 << 30;
/// How long anything may take: a slow machine is not a hang.
const PATIENCE: Duration = Duration::from_secs(90);
/// Lines of each log that a failed test prints.
const LOG_LINES: usize = 40;
/// Bytes that the directory of a machine with a network of its own may have: etcd keeps logs of 64 MB.
pub const DIRECTORY_BYTES: u64 = 1 << 30;
/// What is kept of such a directory when a test has failed.
const KEPT: [&str; 5] = [
    "node.log",
    "node.log.old",
    "etcd/etcd.log",
    "etcd/etcd.log.old",
    "etcd/etcd.pid",
];

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
    /// The ends of their addresses, where they are addresses of this one.
    hosts: [u8; 3],
    /// None: they are addresses of this machine.
    network: Option<Network>,
    ports: Ports,
    /// With TLS everywhere.
    has_tls: bool,
    /// With TLS, and members of etcd that may have none yet.
    is_plain_too: bool,
    scratch: Option<TempDir>,
    running: [Option<Child>; 3],
    failed: bool,
    _turn: MutexGuard<'static, ()>,
}

/// Runs a test on three machines, once each of them has etcd. If it fails, their logs are printed.
///
/// # Panics
/// If they do not start, or `body` fails.
pub fn on_machines(roles: [Role; 3], body: impl FnOnce(&mut Machines) -> Result<()>) {
    let machines = Machines::prepare(roles, None, false);
    use_machines(machines.expect("a place for the machines"), body);
}

/// Runs a test on three nodes, each in a network namespace and with a directory of
/// [`DIRECTORY_BYTES`]; the caller's process is where the hosts are. If it fails, their logs are printed.
///
/// # Panics
/// If this is no world of one's own, they do not start, or `body` fails.
pub fn on_network(body: impl FnOnce(&mut Machines) -> Result<()>) {
    let machines = Network::new(3).and_then(|network| {
        let machines = Machines::prepare([Role::Node; 3], Some(network), false)?;
        for place in 0..3 {
            world::mount_memory(&machines.directory(place), DIRECTORY_BYTES)?;
        }
        Ok(machines)
    });
    use_machines(machines.expect("a network for the machines"), body);
}

/// The same as the body of the test of this name, in a world of its own, where there can be one.
///
/// # Panics
/// If the test fails.
pub fn test_on_network(name: &str, body: impl FnOnce(&mut Machines) -> Result<()>) {
    world::test(name, || on_network(body));
}

fn use_machines(mut machines: Machines, body: impl FnOnce(&mut Machines) -> Result<()>) {
    let result = machines.begin().and_then(|()| body(&mut machines));
    if let Err(error) = result {
        machines.failed = true;
        drop(machines);
        panic!("{error:?}");
    }
}

impl Machines {
    fn prepare(roles: [Role; 3], network: Option<Network>, has_tls: bool) -> Result<Self> {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let machines = Self {
            roles,
            hosts: [1, 2, 3],
            network,
            ports: ports::free(1)?,
            has_tls,
            is_plain_too: false,
            scratch: Some(tempfile::Builder::new().prefix("holdfast-e2e-").tempdir()?),
            running: [None, None, None],
            failed: false,
            _turn: turn,
        };
        for place in 0..3 {
            fs::create_dir(machines.directory(place))?;
        }
        machines.write_files()?;
        machines.give_credentials()?;
        Ok(machines)
    }

    fn begin(&mut self) -> Result<()> {
        for place in 0..3 {
            self.start(place)?;
        }
        for place in 0..3 {
            self.wait_for_etcd(place)?;
        }
        Ok(())
    }

    /// The directory that goes with the machines.
    #[must_use]
    pub fn scratch(&self) -> &Path {
        let scratch = self.scratch.as_ref();
        scratch.expect("it is there until the end").path()
    }

    /// What the machine keeps.
    #[must_use]
    pub fn directory(&self, place: usize) -> PathBuf {
        self.scratch().join(name(place))
    }

    /// The file that is the machine's device.
    #[must_use]
    pub fn device(&self, place: usize) -> PathBuf {
        self.scratch().join(format!("{}.device", name(place)))
    }

    /// The network, where the machines have one of their own.
    ///
    /// # Errors
    /// They have not.
    pub fn network(&self) -> Result<&Network> {
        let network = self.network.as_ref();
        network.context("these machines are addresses of one")
    }

    fn address(&self, place: usize) -> IpAddr {
        if self.network.is_some() {
            return network::address(Party::Machine(place));
        }
        Ipv4Addr::new(127, 0, 0, self.hosts[place]).into()
    }

    /// A machine's configuration.
    #[must_use]
    pub fn config(&self, place: usize) -> PathBuf {
        self.scratch().join(format!("{}.toml", name(place)))
    }

    fn write_files(&self) -> Result<()> {
        for place in 0..3 {
            fs::write(self.config(place), self.file(place))?;
        }
        Ok(())
    }

    /// The machine's configuration, as short as it can be.
    fn file(&self, place: usize) -> String {
        let Ports { portal, api } = self.ports;
        let (name, address, number) = (name(place), self.address(place), place + 1);
        let (client, peer) = (api + ETCD_OFFSET, api + ETCD_OFFSET + 1);
        let directory = self.directory(place);
        let directory = directory.display();
        let members: String = (0..3)
            .map(|one| format!("{} = \"{}\"\n", self::name(one), self.address(one)))
            .collect();
        let plain = if self.is_plain_too {
            "plain = true\n"
        } else {
            ""
        };
        let etcd = format!(
            "[etcd]\n{plain}client_port = {client}\npeer_port = {peer}\n[etcd.members]\n{members}"
        );
        let head =
            format!("cluster = \"{CLUSTER}\"\nname = \"{name}\"\ndirectory = \"{directory}\"\n");
        let security = self.security();
        match self.roles[place] {
            Role::Witness => format!("{head}{etcd}{security}"),
            Role::Node => format!(
                "{head}node = {number}\n{etcd}\
                 [portal]\nlisten = \"{address}:{portal}\"\n\
                 [peers]\nlisten = \"{address}:{peers}\"\n\
                 [api]\nlisten = \"{address}:{api}\"\n\
                 {security}\
                 [[devices]]\npath = \"{device}\"\nfile_bytes = {DEVICE_BYTES}\n",
                peers = api + 100,
                device = self.device(place).display(),
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
        let program = binary::holdfast()?;
        let mut command = match &self.network {
            Some(network) => network.command(Party::Machine(place), &program),
            None => Command::new(program),
        };
        match self.roles[place] {
            Role::Node => command.args(["node", "--config"]),
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

    /// SIGSTOP to the machine's process, or SIGCONT.
    ///
    /// # Errors
    /// It does not run.
    pub fn signal(&self, place: usize, which: Signal) -> Result<()> {
        let child = self.running[place].as_ref().context("it runs")?;
        signal(child.id(), self.scratch(), which)
    }

    /// SIGSTOP to the machine's etcd, or SIGCONT.
    ///
    /// # Errors
    /// It does not run.
    pub fn signal_etcd(&self, place: usize, which: Signal) -> Result<()> {
        signal(self.etcd_pid(place)?, self.scratch(), which)
    }

    /// The most memory that the machine's process ever took, if it runs.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn memory(&self, place: usize) -> Result<Option<u64>> {
        let child = self.running[place].as_ref();
        child.map(|child| Ok(memory(child.id())?.1)).transpose()
    }

    /// Finds processes that have ended by themselves.
    ///
    /// # Errors
    /// One has.
    pub fn check_running(&mut self) -> Result<()> {
        for (place, running) in self.running.iter_mut().enumerate() {
            if let Some(child) = running
                && let Some(status) = child.try_wait()?
            {
                bail!("{} has ended by itself, with {status}", name(place));
            }
        }
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

    /// A machine that is switched off is gone for good, and a new one, with nothing on it, is put in its place, at
    /// another address. From now on the files of all of them say so.
    ///
    /// # Errors
    /// It runs, or has a network of its own.
    pub fn replace(&mut self, place: usize) -> Result<()> {
        ensure!(self.running[place].is_none(), "it runs");
        ensure!(self.network.is_none(), "its address is the network's");
        self.hosts[place] += 3;
        fs::remove_dir_all(self.directory(place))?;
        fs::create_dir(self.directory(place))?;
        fs::remove_file(self.device(place))?;
        self.write_files()
    }

    /// The commands of etcd's that the machine's log tells an operator to give.
    ///
    /// # Errors
    /// It tells none.
    pub fn told_commands(&self, place: usize) -> Result<Vec<String>> {
        let log = self.directory(place).join("node.log");
        let mut commands = Vec::new();
        let what = format!("{} tells what is to be done", name(place));
        wait_until(&what, PATIENCE, || {
            // It may not have begun yet.
            let text = fs::read_to_string(&log).unwrap_or_default();
            let lines = text.lines().map(str::to_owned);
            commands = lines.filter(|line| line.starts_with("etcdctl ")).collect();
            Ok(text.contains(" member add "))
        })?;
        Ok(commands)
    }

    /// Waits until the machine's etcd runs: two of three already serve all nodes, while the third still
    /// asks them how it begins.
    ///
    /// # Errors
    /// It does not.
    pub fn wait_for_etcd(&self, place: usize) -> Result<Duration> {
        let what = format!("{} has etcd", name(place));
        wait_until(&what, PATIENCE, || Ok(self.etcd_runs(place)))
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
        let scheme = self.scheme();
        format!("{scheme}://{}:{}", self.address(place), self.ports.api)
    }

    /// The portals of the nodes.
    #[must_use]
    pub fn portals(&self) -> Vec<SocketAddr> {
        let nodes = (0..3).filter(|place| self.roles[*place] == Role::Node);
        nodes
            .map(|place| SocketAddr::new(self.address(place), self.ports.portal))
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

    /// Takes the logs out of file systems in memory, which go with the test.
    fn keep_logs(&self) {
        if self.network.is_none() {
            return;
        }
        for place in 0..3 {
            for file in KEPT {
                let kept = format!("{}.{}", name(place), file.replace('/', "."));
                // One that never was is not there to be kept.
                let _ = fs::copy(self.directory(place).join(file), self.scratch().join(kept));
            }
        }
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
            self.keep_logs();
            if let Some(scratch) = &mut self.scratch {
                scratch.disable_cleanup(true);
                report(&format!(
                    "what is left of it is kept: {}",
                    scratch.path().display()
                ));
            }
        }
        if self.network.is_some() {
            for place in 0..3 {
                let directory = self.directory(place);
                let _ = world::run("umount", ["--lazy"], Some(directory.as_os_str()));
            }
        }
    }
}

/// What the machine is called.
#[must_use]
pub fn name(place: usize) -> String {
    format!("m{}", place + 1)
}

/// Says something in the output of a failed test.
#[allow(
    clippy::print_stderr,
    reason = "this is what a failed test is read for"
)]
fn report(text: &str) {
    eprintln!("{text}");
}
