//! tgt as a reference: an iSCSI target that runs in user space, on a file, for as long as a test.
//!
//! It refuses to be skipped: without tgt the test fails and says what to install.

#![allow(dead_code, reason = "not every test uses all of it")]
#![allow(clippy::unwrap_used, reason = "this is a part of tests")]

use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use holdfast_lab::{DiskConfig, IscsiName, Lun};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tempfile::TempDir;

pub(crate) const TARGET: &str = "iqn.2026-11.example.holdfast:lab";
const INITIATOR: &str = "iqn.2026-11.example.holdfast:host";
/// tgt's unit 0 is its controller.
const LUN: u16 = 1;
const START_PATIENCE: Duration = Duration::from_secs(10);

/// The directory that tests keep one volume's file in.
pub(crate) struct Medium {
    directory: TempDir,
}

impl Medium {
    pub(crate) fn new(bytes: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = File::create(directory.path().join("disk")).unwrap();
        file.set_len(bytes).unwrap();
        Self { directory }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("disk")
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }
}

/// One tgtd with one volume.
pub(crate) struct Tgt {
    process: Child,
    socket: PathBuf,
    file: PathBuf,
    portal: SocketAddr,
    is_alive: bool,
}

impl Tgt {
    /// Starts one that serves `medium` on a free port.
    pub(crate) fn start(medium: &Medium) -> Self {
        Self::start_at(medium, free_address())
    }

    pub(crate) fn start_at(medium: &Medium, portal: SocketAddr) -> Self {
        let socket = medium.directory().join(format!("tgtd-{}", portal.port()));
        let log = File::create(socket.with_extension("log")).unwrap();
        // Whatever becomes of the test, tgtd ends with the thread that started it.
        let process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "tgtd", "-f", "--iscsi"])
            .arg(format!("portal={portal}"))
            .env("TGT_IPC_SOCKET", &socket)
            .env("PATH", search_path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("setpriv is part of every Debian (util-linux)");
        let mut tgt = Self {
            process,
            socket,
            file: medium.path(),
            portal,
            is_alive: true,
        };
        tgt.set_up();
        tgt
    }

    fn set_up(&mut self) {
        let deadline = Instant::now() + START_PATIENCE;
        let target = [
            "--op", "new", "--mode", "target", "--tid", "1", "-T", TARGET,
        ];
        while !self.admin(&target) {
            let ended = self.process.try_wait().unwrap();
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "tgtd does not start (apt-get install tgt; `make test` does it): {}",
                self.log()
            );
            sleep(Duration::from_millis(20));
        }
        let file = self.file.display().to_string();
        let lun = LUN.to_string();
        let unit = ["--mode", "logicalunit", "--tid", "1", "--lun", &lun];
        let new = [&["--op", "new"], &unit[..], &["-b", &file]].concat();
        assert!(self.admin(&new), "{}", self.log());
        let thin = ["--params", "thin_provisioning=1"];
        let update = [&["--op", "update"], &unit[..], &thin].concat();
        assert!(self.admin(&update), "{}", self.log());
        let bind = [
            "--op", "bind", "--mode", "target", "--tid", "1", "-I", "ALL",
        ];
        assert!(self.admin(&bind), "{}", self.log());
    }

    /// Has digests negotiated, which tgt does not do by itself.
    pub(crate) fn enable_digests(&self) {
        for name in ["HeaderDigest", "DataDigest"] {
            let target = ["--op", "update", "--mode", "target", "--tid", "1"];
            let value = ["--name", name, "--value", "CRC32C,None"];
            assert!(
                self.admin(&[&target[..], &value].concat()),
                "{}",
                self.log()
            );
        }
    }

    fn admin(&self, arguments: &[&str]) -> bool {
        let output = Command::new("tgtadm")
            .args(["--lld", "iscsi"])
            .args(arguments)
            .env("TGT_IPC_SOCKET", &self.socket)
            .env("PATH", search_path())
            .output()
            .expect("tgtadm is missing: apt-get install tgt (`make test` does it)");
        output.status.success()
    }

    fn log(&self) -> String {
        let mut text = String::new();
        let log = File::open(self.socket.with_extension("log"));
        log.unwrap().read_to_string(&mut text).unwrap();
        text
    }

    pub(crate) const fn portal(&self) -> SocketAddr {
        self.portal
    }

    pub(crate) fn url(&self) -> String {
        format!("iscsi://{}/{TARGET}/{LUN}", self.portal)
    }

    /// SIGSTOP, and waits until every thread of it stands: the kernel stops them one by one, after
    /// `kill` has returned.
    pub(crate) fn freeze(&self) {
        let pid = Pid::from_child(&self.process);
        kill_process(pid, Signal::STOP).unwrap();
        let seen = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap();
        assert!(seen.is_some_and(|(_, status)| status.stopped()));
    }

    pub(crate) fn thaw(&self) {
        kill_process(Pid::from_child(&self.process), Signal::CONT).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        if self.is_alive {
            self.is_alive = false;
            self.process.kill().unwrap();
            self.process.wait().unwrap();
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
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap())
}

/// An address on this machine that nobody listens on. Its port is below those that the kernel gives
/// to outgoing connections: one of these could take it before it is used.
pub(crate) fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() as u16).wrapping_mul(97);
    loop {
        let turn = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 14_000 + turn % 4_000));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

pub(crate) fn initiator() -> IscsiName {
    IscsiName::parse(INITIATOR).unwrap()
}

pub(crate) fn target() -> IscsiName {
    IscsiName::parse(TARGET).unwrap()
}

pub(crate) fn lun() -> Lun {
    Lun::from_number(LUN)
}

/// The volume that these serve, by a host that loses patience soon.
pub(crate) fn disk_config(tgts: &[&Tgt]) -> DiskConfig {
    let portals = tgts.iter().map(|tgt| tgt.portal()).collect();
    let mut config = DiskConfig::new(initiator(), target(), portals);
    config.lun = lun();
    config.command_timeout = Duration::from_secs(1);
    config.abort_timeout = Duration::from_millis(200);
    config.login_timeout = Duration::from_secs(1);
    // tgt leaves ExpDataSN zero.
    config.counts_data = false;
    config
}
