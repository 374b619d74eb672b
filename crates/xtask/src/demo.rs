//! A demo that this program starts to ask it something.
//!
//! Invariant: it has ended, with all its nodes, when it is dropped.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// How long it may take to serve, and to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// The first port that is tried, how far the next try is away, and where they end: below those that systems give out.
const PORTS: (u16, u16, u16) = (20_000, 400, 31_000);
/// Ports that a demo of three nodes takes above its API's, and above its portals'.
const API_PORTS: [u16; 10] = [0, 1, 2, 3, 100, 101, 102, 103, 200, 201];
const PORTAL_DISTANCE: u16 = 300;
const PORTALS: u16 = 3;

/// A demo, which ends with this.
pub(crate) struct Demo {
    process: Child,
    /// As this process sees it.
    directory: PathBuf,
}

impl Demo {
    /// Starts it by a command that runs the program, for which the directory is called `named`.
    ///
    /// # Errors
    /// There are no free ports, or the command cannot be started.
    pub(crate) fn start(command: &mut Command, directory: PathBuf, named: &Path) -> Result<Self> {
        let api = free_ports().context("find ports that are free")?;
        fs::create_dir_all(&directory)?;
        let log = fs::File::create(directory.with_extension("log"))?;
        let process = command
            .args(["demo", "--fresh", "--device-size", "2GiB"])
            .args(["--cache", "16MiB", "--volume", "demo:256MiB:mirror2"])
            .args(["--api-port", &api.to_string()])
            .args(["--portal-port", &(api + PORTAL_DISTANCE).to_string()])
            .arg("--dir")
            .arg(named)
            .stdout(log.try_clone()?)
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .context("start a demo")?;
        Ok(Self { process, directory })
    }

    /// What `demo.json` says, once its volume is there.
    ///
    /// # Errors
    /// It does not come.
    pub(crate) fn told(&self) -> Result<Value> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let told = fs::read(self.directory.join("demo.json")).ok();
            let told = told.and_then(|told| serde_json::from_slice::<Value>(&told).ok());
            let is_whole = |told: &Value| {
                let volumes = told["volumes"].as_array();
                volumes.is_some_and(|volumes| !volumes.is_empty())
            };
            if let Some(told) = told.filter(is_whole) {
                return Ok(told);
            }
            sleep(Duration::from_millis(100));
        }
        let said = fs::read_to_string(self.directory.with_extension("log"));
        bail!(
            "the demo does not serve: {}",
            said.context("read what it says")?
        )
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // It is asked to end, so that its nodes end with it.
        let asked = Command::new("kill")
            .arg(self.process.id().to_string())
            .status();
        let deadline = Instant::now() + PATIENCE;
        while asked.is_ok() && Instant::now() < deadline {
            if let Ok(Some(_)) = self.process.try_wait() {
                drop(fs::remove_dir_all(&self.directory));
                return;
            }
            sleep(Duration::from_millis(100));
        }
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// A port from which on a demo's are free at the moment.
fn free_ports() -> Option<u16> {
    let (first, step, end) = PORTS;
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let is_free_from = |api: &u16| {
        let portals = (0..PORTALS).map(|portal| PORTAL_DISTANCE + portal);
        let mut wanted = API_PORTS.into_iter().chain(portals);
        wanted.all(|above| is_free(api + above))
    };
    (first..end).step_by(usize::from(step)).find(is_free_from)
}
