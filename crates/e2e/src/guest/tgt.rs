//! tgt on the network of guests: an iSCSI target of Debian's with persistent reservations and one file, for what is
//! done here to be compared with.
//!
//! Invariants:
//! - when a scenario is over, tgt has ended.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};
use holdfast_tgt::Tgt;
use tempfile::TempDir;

use crate::network::{Network, Party, address};

/// Its only target.
pub const TARGET: &str = "iqn.2026-11.io.holdfast.e2e:tgt";
/// Its first port; further ones are those after it.
const PORT: u16 = 3260;

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
    let file = scratch.path().join("tgt.volume");
    File::create(&file)?.set_len(bytes)?;
    let command = network.command(Party::Machine(0), Path::new("tgtd"));
    let portals: Vec<_> = self::portals(portals).collect();
    let tgt = Tgt::start(command, scratch.path(), TARGET, &portals)?;
    tgt.serve(&file)?;
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
