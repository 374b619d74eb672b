//! A host: volumes of a demo through all portals, and load on them from a thread of its own, so that
//! nothing that a test waits for slows the load down.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_lab::verify::{
    Layout, Ledger, LoadConfig, LoadReport, VerifiedLoad, clear_everything, verify_everything,
};
use holdfast_lab::{DiskConfig, IscsiName, MultipathDisk, command};
use tokio::runtime::{Builder, Runtime};

use crate::demo::Demo;
use crate::process::wait_until;

/// The name that our hosts log in with.
pub const INITIATOR: &str = "iqn.2026-11.io.holdfast.e2e:host";
/// Bytes of each window that a load covers, and how many there are: enough to cross every kind of
/// boundary, few enough to be read again in seconds.
const WINDOW_BYTES: u64 = 4 << 20;
const WINDOWS: usize = 8;
/// How long a load may take to have all paths, and to do what is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Room for what is told of the target port groups.
const GROUPS_BYTES: u32 = 4096;
/// ASYMMETRIC ACCESS STATE of a group that is the short way, and of one that cannot be reached (SPC-4 6.37).
const ACTIVE_OPTIMIZED: u8 = 0x0;
const UNAVAILABLE: u8 = 0x3;

/// One volume as a host has it.
#[derive(Debug)]
pub struct Host {
    // Before the runtime, so that it ends while that still runs.
    disk: Arc<MultipathDisk>,
    runtime: Runtime,
}

/// A load under way.
#[derive(Debug)]
pub struct HostLoad<'a> {
    load: VerifiedLoad,
    host: &'a Host,
}

impl Host {
    /// Volume `name` of a demo, through all its portals, all of which must work.
    ///
    /// # Errors
    /// They do not.
    pub fn open(demo: &Demo, name: &str) -> Result<Self> {
        Self::open_with(demo, name, |_| ())
    }

    /// The same, with another configuration than [`DiskConfig::new`].
    ///
    /// # Errors
    /// A portal does not work.
    pub fn open_with(
        demo: &Demo,
        name: &str,
        change: impl FnOnce(&mut DiskConfig),
    ) -> Result<Self> {
        let file = demo.file();
        let volume = file.volume(name)?;
        let portals = file.nodes.iter().map(|node| node.portal).collect();
        let host = Self::open_at(&volume.target, portals, change)?;
        ensure!(
            host.disk.capacity().bytes() == volume.bytes,
            "{name} has the size that demo.json says"
        );
        Ok(host)
    }

    /// The volume that is this target, through these portals, all of which must work.
    ///
    /// # Errors
    /// A portal does not work.
    pub fn open_at(
        target: &str,
        portals: Vec<SocketAddr>,
        change: impl FnOnce(&mut DiskConfig),
    ) -> Result<Self> {
        let name = IscsiName::parse(target)?;
        let mut config = DiskConfig::new(IscsiName::parse(INITIATOR)?, name, portals);
        change(&mut config);
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context("start a runtime")?;
        let disk = runtime
            .block_on(MultipathDisk::open(config))
            .with_context(|| format!("open {target}"))?;
        let host = Self {
            disk: Arc::new(disk),
            runtime,
        };
        host.wait_for_all_paths()?;
        Ok(host)
    }

    /// Waits until every portal has a session.
    ///
    /// # Errors
    /// One has none after a minute.
    pub fn wait_for_all_paths(&self) -> Result<()> {
        let all = self.run(self.disk.wait_for_all_paths(PATIENCE));
        ensure!(all, "not every portal is back: {:?}", self.disk.paths());
        Ok(())
    }

    /// Waits until every portal has told that all nodes can be reached, and that as many as there are copies are the short way: that
    /// a copy is in sync again is told a second later. From then on no host hears of a change unless something happens: libiscsi's
    /// suite takes a unit attention for a fault. The volume has one slice.
    ///
    /// # Errors
    /// One has not after a minute, or cannot be asked.
    pub fn wait_for_all_groups(&self, copies: usize) -> Result<()> {
        let wanted = self.disk.path_count();
        let request = command::report_port_groups(self.disk.config().lun, GROUPS_BYTES);
        for path in 0..wanted {
            wait_until("all nodes can be reached", PATIENCE, || {
                let answer = self.run(self.disk.execute(&request, path))?;
                let states = states_of_groups(&answer.data_in.concat());
                let all = states.len() == wanted && !states.contains(&UNAVAILABLE);
                let short = states.iter().filter(|it| **it == ACTIVE_OPTIMIZED);
                Ok(answer.path == path && all && short.count() == copies)
            })?;
        }
        Ok(())
    }

    /// The volume.
    #[must_use]
    pub const fn disk(&self) -> &Arc<MultipathDisk> {
        &self.disk
    }

    /// Waits for something that the host does.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// A ledger for a volume that nobody has written to.
    #[must_use]
    pub fn ledger(&self, seed: u64) -> Ledger {
        let capacity = self.disk.capacity();
        let layout = Layout::spread(
            capacity.bytes(),
            capacity.block_length,
            WINDOW_BYTES,
            WINDOWS,
            seed,
        );
        Ledger::new(seed, layout)
    }

    /// Fills everything that the ledger covers with zeros, on a volume that has been written to.
    ///
    /// # Errors
    /// Something cannot be written.
    pub fn clear(&self, ledger: &mut Ledger) -> Result<()> {
        self.run(clear_everything(&self.disk, ledger))
            .context("clear everything")
    }

    /// Starts a load.
    #[must_use]
    pub fn load(&self, ledger: Ledger, config: LoadConfig) -> HostLoad<'_> {
        let _entered = self.runtime.enter();
        HostLoad {
            load: VerifiedLoad::start(Arc::clone(&self.disk), ledger, config),
            host: self,
        }
    }

    /// Reads everything that the ledger covers through each path, and holds it against the ledger.
    ///
    /// # Errors
    /// Something is wrong, or cannot be read.
    pub fn verify(&self, ledger: &mut Ledger) -> Result<()> {
        for path in 0..self.disk.path_count() {
            self.run(verify_everything(&self.disk, ledger, path))
                .with_context(|| format!("read everything through path {path}"))?;
        }
        Ok(())
    }
}

impl HostLoad<'_> {
    /// The host that it runs on.
    #[must_use]
    pub const fn host(&self) -> &Host {
        self.host
    }

    /// Waits until `count` more commands have been completed.
    ///
    /// # Errors
    /// They are not after a minute.
    pub fn wait_for(&self, count: u64) -> Result<()> {
        let done = self.host.run(self.load.wait_for(count, PATIENCE));
        ensure!(done, "the load does not go on: {}", self.load.report());
        Ok(())
    }

    /// Lets the load run for a while; it must complete commands in that time.
    ///
    /// # Errors
    /// It completes none.
    pub fn run_for(&self, duration: Duration) -> Result<()> {
        let before = self.load.report().completed();
        std::thread::sleep(duration);
        ensure!(
            self.load.report().completed() > before,
            "nothing was completed in {duration:?}: {}",
            self.load.report()
        );
        Ok(())
    }

    /// What it has done so far.
    #[must_use]
    pub fn report(&self) -> LoadReport {
        self.load.report()
    }

    /// Forgets the stalls so far.
    pub fn restart_stalls(&self) {
        self.load.restart_stalls();
    }

    /// Lets every worker finish, and returns the ledger.
    ///
    /// # Errors
    /// Something was wrong, or failed.
    pub fn stop(self) -> Result<(LoadReport, Ledger)> {
        let (report, ledger) = self.host.run(self.load.stop());
        check(&report)?;
        Ok((report, ledger))
    }

    /// Ends the workers in the middle of their commands, and returns the ledger.
    ///
    /// # Errors
    /// Something was wrong, or failed before.
    pub fn abandon(self) -> Result<(LoadReport, Ledger)> {
        let (report, ledger) = self.host.run(self.load.abandon());
        check(&report)?;
        Ok((report, ledger))
    }
}

/// Holds a load's report against what every scenario demands: nothing wrong, nothing refused.
///
/// # Errors
/// Something was.
pub fn check(report: &LoadReport) -> Result<()> {
    let is_right = report.violated == 0 && report.failed == 0 && !report.ledger_lost;
    ensure!(is_right, "the load met what it must not:\n{report}");
    Ok(())
}

/// The states of the target port groups that REPORT TARGET PORT GROUPS names (SPC-4 6.37): descriptors of 8 bytes, and 4 for each
/// port.
fn states_of_groups(data: &[u8]) -> Vec<u8> {
    let mut states = Vec::new();
    let mut rest = data.get(4..).unwrap_or_default();
    while let [state, _, _, _, _, _, _, ports, ..] = rest {
        states.push(state & 0xF);
        rest = rest.get(8 + 4 * usize::from(*ports)..).unwrap_or_default();
    }
    states
}
