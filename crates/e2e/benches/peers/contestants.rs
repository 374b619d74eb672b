//! Who is measured: Holdfast's demo, and tgt on one file in three ways.
//!
//! All of them keep their data on the same file system.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_e2e::Demo;
use holdfast_e2e::process::{processor_time, wait_until};
use holdfast_lab::bench::BenchConfig;
use holdfast_lab::{IscsiName, Lun};
use holdfast_tgt::{LUN, Tgt};

/// Three nodes, of which two have each write on stable storage before it is answered.
pub(crate) const HOLDFAST: &str = "holdfast";
/// One file; a write is answered when the system has it in memory.
pub(crate) const CACHED: &str = "tgt-cached";
/// One file; a write is on stable storage before it is answered.
pub(crate) const DURABLE: &str = "tgt-durable";
/// The same, with segments and bursts of 1 MiB instead of tgt's 8 and 256 KiB.
pub(crate) const TUNED: &str = "tgt-tuned";

const HOST: &str = "iqn.2026-11.io.holdfast.e2e:bench";
const TARGET: &str = "iqn.2026-11.io.holdfast.e2e:tgt";
const VOLUME: &str = "demo";
/// Below the ports that demos take: see `holdfast_e2e::ports`.
const PORT: u16 = 17_900;
const MIB: &str = "1048576";
const PATIENCE: Duration = Duration::from_secs(60);

/// One that is measured.
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    portal: SocketAddr,
    target: IscsiName,
    lun: Lun,
    bytes: u64,
    processes: Vec<u32>,
    /// What has to be on stable storage before the next one is measured.
    backing: Option<PathBuf>,
    tgt: Option<Tgt>,
}

impl Contestant {
    /// The demo's volume, at the portal of the node that leads its first slice.
    pub(crate) fn holdfast(demo: &Demo) -> Result<Self> {
        demo.wait_until_whole(VOLUME, PATIENCE)?;
        // A new volume is scrubbed at once: while it is empty, and not while it is filled and measured.
        wait_until("the new volume is scrubbed", PATIENCE, || {
            Ok(demo.volume(VOLUME)?.scrub.last.is_some())
        })?;
        let file = demo.file();
        let volume = file.volume(VOLUME)?;
        let mut processes: Vec<u32> = file.nodes.iter().map(|node| node.pid).collect();
        processes.push(demo.parent_pid()?);
        Ok(Self {
            name: HOLDFAST,
            portal: file.node(&demo.primary(VOLUME)?)?.portal,
            target: IscsiName::parse(&volume.target)?,
            lun: Lun::from_number(volume.lun),
            bytes: volume.bytes,
            processes,
            backing: None,
            tgt: None,
        })
    }

    /// A tgt of one of the names above, on a file of the demo's scratch directory that all of them share: they are measured one
    /// after the other.
    pub(crate) fn tgt(demo: &Demo, name: &'static str, bytes: u64) -> Result<Self> {
        let directory = demo.scratch("tgt");
        std::fs::create_dir_all(&directory)?;
        let backing = directory.join("volume");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&backing)?;
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)
            .context("reserve the room of tgt's file")?;
        let place = [CACHED, DURABLE, TUNED].iter().position(|it| *it == name);
        let place = place.with_context(|| format!("there is no {name}"))?;
        let portal = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT + place as u16));
        let tgt = Tgt::start(holdfast_tgt::command(), &directory, TARGET, &[portal])?;
        tgt.serve(&backing)?;
        if name != CACHED {
            tgt.write_through()?;
        }
        if name == TUNED {
            tgt.offer("MaxRecvDataSegmentLength", MIB)?;
            tgt.offer("MaxXmitDataSegmentLength", MIB)?;
            tgt.offer("FirstBurstLength", MIB)?;
            tgt.offer("MaxBurstLength", MIB)?;
            tgt.offer("InitialR2T", "No")?;
            tgt.offer("ImmediateData", "Yes")?;
        }
        Ok(Self {
            name,
            portal,
            target: IscsiName::parse(TARGET)?,
            lun: Lun::from_number(LUN),
            bytes,
            processes: vec![tgt.pid()],
            backing: Some(backing),
            tgt: Some(tgt),
        })
    }

    /// Everything but what is done there.
    pub(crate) fn bench(&self) -> Result<BenchConfig> {
        Ok(BenchConfig {
            initiator: IscsiName::parse(HOST)?,
            target: self.target.clone(),
            lun: self.lun,
            // tgt leaves ExpDataSN zero.
            counts_data: self.tgt.is_none(),
            portals: vec![self.portal],
            sessions: 1,
            depth: 1,
            command_bytes: 4096,
            block_length: 512,
            reads_percent: 100,
            region_bytes: self.bytes,
            sequential: false,
            warm_up: Duration::ZERO,
            duration: Duration::ZERO,
            seed: 1,
        })
    }

    /// What all its processes have had of processors so far.
    pub(crate) fn processor_time(&self) -> Result<Duration> {
        let times = self.processes.iter().map(|pid| processor_time(*pid));
        times.sum()
    }

    /// Leaves nothing to be written while others are measured.
    pub(crate) fn settle(&self) -> Result<()> {
        if let Some(backing) = &self.backing {
            File::open(backing)?.sync_all()?;
        }
        ensure!(!self.processes.is_empty(), "somebody serves it");
        Ok(())
    }
}
