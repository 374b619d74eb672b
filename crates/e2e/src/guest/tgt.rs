//! tgt on the network of guests: an iSCSI target of Debian's with persistent reservations and one file, for what is
//! done here to be compared with.
//!
//! Invariants:
//! - when a scenario is over, tgt has ended.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use super::machine::PATIENCE;
use crate::network::{Network, Party, address};
use crate::process::wait_until;

/// Its only target.
pub const TARGET: &str = "iqn.2026-11.io.holdfast.e2e:tgt";
/// Its first port; further ones are those after it.
const PORT: u16 = 3260;

/// A tgtd with one volume, at the first machine of a network.
#[derive(Debug)]
struct Tgt {
    process: Child,
    socket: PathBuf,
}

impl Tgt {
    /// Starts one with a new file of `bytes` bytes in `scratch`, and so many portals.
    ///
    /// # Errors
    /// tgt is missing (`make setup-test`), or does not start.
    fn start(network: &Network, scratch: &Path, bytes: u64, portals: u16) -> Result<Self> {
        let file = scratch.join("tgt.volume");
        File::create(&file)?.set_len(bytes)?;
        let socket = scratch.join("tgtd");
        let log = File::create(scratch.join("tgt.log"))?;
        let process = network
            .command(Party::Machine(0), Path::new("tgtd"))
            .args(["-f", "--iscsi"])
            .arg(format!("portal={}", portal(0)))
            .env("TGT_IPC_SOCKET", &socket)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("start tgtd")?;
        let mut tgt = Self { process, socket };
        wait_until("tgtd has a target", PATIENCE, || {
            if let Some(status) = tgt.process.try_wait()? {
                bail!("tgtd ended with {status} (`make setup-test` installs it)");
            }
            let made = tgt.admin(&format!("--op new --mode target --tid 1 -T {TARGET}"));
            Ok(made.is_ok())
        })?;
        let file = file.display();
        tgt.admin(&format!(
            "--op new --mode logicalunit --tid 1 --lun 1 -b {file}"
        ))?;
        for portal in self::portals(portals).skip(1) {
            tgt.admin(&format!("--op new --mode portal --param portal={portal}"))?;
        }
        tgt.admin("--op bind --mode target --tid 1 -I ALL")?;
        Ok(tgt)
    }

    fn admin(&self, arguments: &str) -> Result<()> {
        let output = Command::new("tgtadm")
            .args(["--lld", "iscsi"])
            .args(arguments.split_whitespace())
            .env("TGT_IPC_SOCKET", &self.socket)
            .output()
            .context("start tgtadm")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "tgtadm {arguments}: {said}");
        Ok(())
    }
}

impl Drop for Tgt {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a scenario on a tgtd with so many bytes and portals, on a network and with a directory of its own. If it fails, that
/// is kept.
///
/// # Errors
/// What it says.
pub fn on_tgt(
    bytes: u64,
    portals: u16,
    scenario: impl FnOnce(&Network, &Path) -> Result<()>,
) -> Result<()> {
    let network = Network::new(1)?;
    let mut scratch = TempDir::with_prefix("holdfast-e2e-")?;
    let tgt = Tgt::start(&network, scratch.path(), bytes, portals)?;
    let result = scenario(&network, scratch.path());
    drop(tgt);
    let path = scratch.path().display().to_string();
    scratch.disable_cleanup(result.is_err());
    result.with_context(|| format!("what is left of it is kept: {path}"))
}

/// One of its portals, counted from 0.
#[must_use]
pub fn portal(index: u16) -> SocketAddr {
    SocketAddr::new(address(Party::Machine(0)), PORT + index)
}

/// So many portals of it.
pub fn portals(count: u16) -> impl Iterator<Item = SocketAddr> {
    (0..count).map(portal)
}
