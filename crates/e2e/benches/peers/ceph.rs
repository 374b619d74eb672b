//! Debian's Ceph on this machine: a monitor and three daemons with a file each, and one image of which there are two copies.
//!
//! It refuses to touch the services of that name: its daemons are started by path, on ports and in a directory of their own. Nor is
//! there a manager, without which everything that hosts notice works: it would only take time of processors.
//!
//! Invariants:
//! - when a [`Ceph`] is dropped, all its daemons have ended; they end with the thread that started them, too;
//! - without Ceph nothing is skipped: the error says what to install.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use holdfast_e2e::process::wait_until;

/// Daemons that keep data.
const OSDS: u64 = 3;
/// Ports for all of it, below those of demos: see `holdfast_e2e::ports`. The first one is the monitor's.
const PORTS: std::ops::RangeInclusive<u16> = 17_910..=17_959;
/// What a file of one has above a volume's size: its share is two thirds of that, and there is a database beside it.
const SPARE_BYTES: u64 = 1 << 30;
/// What one has of memory, which is for all that is read of it.
const OSD_MEMORY_BYTES: u64 = 3 << 30;
/// Any will do: nothing else is in its directory.
const FSID: &str = "5eed0000-0000-4000-8000-000000000009";
const IMAGE: &str = "volume";
const COMMAND_SECONDS: &str = "30";
const PATIENCE: Duration = Duration::from_secs(60);
const HINT: &str =
    "Debian's packages ceph-mon, ceph-osd and ceph-common; `make setup-ceph` installs them";

/// A cluster that runs.
pub(crate) struct Ceph {
    directory: PathBuf,
    daemons: Vec<Child>,
}

/// Bytes on disk that a volume of so many takes.
pub(crate) const fn room(bytes: u64) -> u64 {
    OSDS * osd_bytes(bytes)
}

const fn osd_bytes(bytes: u64) -> u64 {
    bytes + SPARE_BYTES
}

impl Ceph {
    /// Starts one with an image of so many bytes. All of it is in `directory`.
    ///
    /// # Errors
    /// Ceph is not installed, or does not start.
    pub(crate) fn start(directory: &Path, bytes: u64) -> Result<Self> {
        fs::create_dir_all(directory)?;
        let mut ceph = Self {
            directory: directory.to_owned(),
            daemons: Vec::new(),
        };
        fs::write(ceph.configuration(), ceph.settings(bytes))?;
        ceph.start_monitor()?;
        for index in 0..OSDS {
            ceph.start_osd(index)?;
        }
        ceph.wait_until_up()?;
        ceph.run("ceph", &["osd", "pool", "create", "rbd", "32"])?;
        let size = format!("{bytes}B");
        ceph.run("rbd", &["create", "--size", &size, IMAGE])?;
        Ok(ceph)
    }

    /// Its `ceph.conf`.
    pub(crate) fn configuration(&self) -> PathBuf {
        self.directory.join("ceph.conf")
    }

    /// What fio is told to put load on the image.
    pub(crate) fn fio_arguments() -> Vec<String> {
        let image = format!("--rbdname={IMAGE}");
        let arguments = ["--ioengine=rbd", "--clientname=admin", "--pool=rbd", &image];
        arguments.map(str::to_owned).into()
    }

    /// The processes that serve.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.daemons.iter().map(Child::id).collect()
    }

    /// What differs from Ceph's defaults. Nobody has to prove who he is, as nobody has to Holdfast's demo; and the client's cache is
    /// off, which would answer for a write before it is anywhere else. Told that the disk is flash, where the kernel says that it is
    /// not, it was no faster on such a machine.
    fn settings(&self, bytes: u64) -> String {
        let directory = self.directory.display();
        let (monitor, last) = (PORTS.start(), PORTS.end());
        let first = monitor + 1;
        let osd_bytes = osd_bytes(bytes);
        format!(
            "[global]\n\
             fsid = {FSID}\n\
             mon host = v2:127.0.0.1:{monitor}\n\
             public addr = 127.0.0.1\n\
             cluster addr = 127.0.0.1\n\
             ms bind msgr1 = false\n\
             ms bind port min = {first}\n\
             ms bind port max = {last}\n\
             auth cluster required = none\n\
             auth service required = none\n\
             auth client required = none\n\
             run dir = {directory}\n\
             admin socket = {directory}/$name.asok\n\
             pid file = {directory}/$name.pid\n\
             log file = {directory}/$name.log\n\
             mon cluster log file = {directory}/cluster.log\n\
             crash dir = {directory}\n\
             osd pool default size = 2\n\
             osd pool default min size = 1\n\
             osd crush chooseleaf type = 0\n\
             mon data = {directory}/mon\n\
             osd data = {directory}/osd-$id\n\
             osd objectstore = bluestore\n\
             bluestore block size = {osd_bytes}\n\
             bluestore block preallocate file = true\n\
             osd memory target = {OSD_MEMORY_BYTES}\n\
             rbd cache = false\n"
        )
    }

    fn start_monitor(&mut self) -> Result<()> {
        let map = self.path("monmap");
        let address = format!("[v2:127.0.0.1:{}]", PORTS.start());
        let create = ["--create", "--fsid", FSID, "--addv", "a", &address, &map];
        self.run("monmaptool", &create)?;
        fs::create_dir(self.directory.join("mon"))?;
        self.run("ceph-mon", &["--mkfs", "-i", "a", "--monmap", &map])?;
        self.start_daemon("ceph-mon", "a")?;
        self.run("ceph", &["osd", "stat"]).map(|_| ())
    }

    fn start_osd(&mut self, index: u64) -> Result<()> {
        let id = index.to_string();
        let uuid = fs::read_to_string("/proc/sys/kernel/random/uuid")?;
        let uuid = uuid.trim();
        let given = self.run("ceph", &["osd", "new", uuid])?;
        ensure!(given.trim() == id, "daemons are numbered from 0: {given}");
        fs::create_dir(self.directory.join(format!("osd-{id}")))?;
        self.run("ceph-osd", &["--mkfs", "-i", &id, "--osd-uuid", uuid])?;
        self.start_daemon("ceph-osd", &id)
    }

    fn start_daemon(&mut self, program: &str, id: &str) -> Result<()> {
        let log = File::create(self.directory.join(format!("{program}-{id}.out")))?;
        let daemon = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", program, "-f", "-i", id])
            .env("CEPH_CONF", self.configuration())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {program}"))?;
        self.daemons.push(daemon);
        Ok(())
    }

    /// Until the monitor has heard of every daemon.
    fn wait_until_up(&mut self) -> Result<()> {
        let all = format!("{OSDS} up");
        let stat = || self.run("ceph", &["osd", "stat"]);
        wait_until("Ceph's daemons are up", PATIENCE, || {
            Ok(stat()?.contains(&all))
        })?;
        for daemon in &mut self.daemons {
            if let Some(status) = daemon.try_wait()? {
                bail!("a daemon of Ceph has ended with {status}");
            }
        }
        Ok(())
    }

    /// Runs one of its tools, and gives what that prints.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let output = Command::new("timeout")
            .args([COMMAND_SECONDS, program])
            .args(arguments)
            .env("CEPH_CONF", self.configuration())
            .stdin(Stdio::null())
            .output()
            .context("start timeout")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "{program} {arguments:?} ({HINT}) ended with {}: {said}",
            output.status
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }
}

impl Drop for Ceph {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            // They are our children, and have not been waited for: neither can fail.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}
