//! tgt as a reference, on a file, for as long as a test.

#![allow(dead_code, reason = "not every test uses all of it")]
#![allow(clippy::unwrap_used, reason = "this is a part of tests")]

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use holdfast_lab::{DiskConfig, IscsiName, Lun};
use holdfast_tgt::Tgt;
use tempfile::TempDir;

pub(crate) const TARGET: &str = "iqn.2026-11.example.holdfast:lab";
const INITIATOR: &str = "iqn.2026-11.example.holdfast:host";

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

    /// Served on a free port.
    pub(crate) fn serve(&self) -> Tgt {
        self.serve_at(free_address())
    }

    pub(crate) fn serve_at(&self, portal: SocketAddr) -> Tgt {
        let directory = self.directory.path();
        let command = holdfast_tgt::command();
        let tgt = Tgt::start(command, directory, TARGET, &[portal]).unwrap();
        tgt.serve(&self.path()).unwrap();
        tgt.provision_thinly().unwrap();
        tgt
    }
}

/// Has digests negotiated, which tgt does not do by itself.
pub(crate) fn enable_digests(tgt: &Tgt) {
    for key in ["HeaderDigest", "DataDigest"] {
        tgt.offer(key, "CRC32C,None").unwrap();
    }
}

/// An address on this machine that nobody listens on. Its port is below those that the kernel gives
/// to outgoing connections: one of these could take it before it is used. Tests of other packages have other ports.
pub(crate) fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() as u16).wrapping_mul(97);
    loop {
        let turn = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 14_000 + turn % 1_500));
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
    Lun::from_number(holdfast_tgt::LUN)
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
