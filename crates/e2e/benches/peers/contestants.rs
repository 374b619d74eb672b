//! Who is measured: Holdfast's demo, tgt on one file in three ways, a file itself, and Ceph.
//!
//! All of them keep their data on the same file system, in room that they have from the start, or when they were filled.

use std::any::Any;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_e2e::Demo;
use holdfast_e2e::process::{bytes_read, processor_time};
use holdfast_lab::bench::BenchConfig;
use holdfast_lab::{IscsiName, Lun};
use holdfast_model::ByteSize;
use holdfast_tgt::{LUN, Tgt};

use crate::ceph::{self, Ceph};
use crate::fio::Place;
use crate::workloads::Workload;

/// Three nodes, of which two have each write on stable storage before it is answered.
pub(crate) const HOLDFAST: &str = "holdfast";
/// The same volume, through the node that has the other copy.
pub(crate) const OTHER: &str = "holdfast-other";
/// The same volume, through both, half of the commands each: so do hosts with several paths.
pub(crate) const BOTH: &str = "holdfast-both";
/// Another volume of theirs, of which nothing is in memory.
pub(crate) const MEDIA: &str = "holdfast-media";
/// One file; a write is answered when the system has it in memory.
pub(crate) const CACHED: &str = "tgt-cached";
/// One file; a write is on stable storage before it is answered.
pub(crate) const DURABLE: &str = "tgt-durable";
/// The same, with segments and bursts of 1 MiB instead of tgt's 8 and 256 KiB.
pub(crate) const TUNED: &str = "tgt-tuned";
/// A file, read past the system's memory.
pub(crate) const DIRECT: &str = "file-direct";
/// The same file, where each write is on stable storage before it ends.
pub(crate) const DSYNC: &str = "file-dsync";

/// An image of which two of three daemons have each write on stable storage before it ends, without iSCSI in between.
pub(crate) const CEPH: &str = "ceph";

/// All, in the order in which they are measured.
pub(crate) const CONTESTANTS: [&str; 10] = [
    HOLDFAST, OTHER, BOTH, MEDIA, DURABLE, CACHED, TUNED, DIRECT, DSYNC, CEPH,
];
/// Those that are measured only where they are named: Ceph is large, and takes half of the time; other paths to the same
/// volume are no peers.
pub(crate) const ON_DEMAND: [&str; 3] = [OTHER, BOTH, CEPH];

const HOST: &str = "iqn.2026-11.io.holdfast.e2e:bench";
const TARGET: &str = "iqn.2026-11.io.holdfast.e2e:tgt";
/// Holdfast's volumes.
pub(crate) const VOLUME: &str = "demo";
pub(crate) const MEDIA_VOLUME: &str = "media";
/// Copies that it has of them.
const COPIES: u64 = 2;
/// Nodes of the demo.
const NODES: u64 = 3;
/// What a device needs beside pages, at least.
const JOURNALS_ROOM: u64 = 1 << 30;
/// The unit of `st_blocks` (stat(3type)).
const STAT_BLOCK_BYTES: u64 = 512;
/// What Holdfast reads in longer pieces it does not keep in memory.
pub(crate) const KEPT_READ_BYTES_MAX: u32 = 32 << 10;
/// Below the ports that demos take: see `holdfast_e2e::ports`.
const PORT: u16 = 17_900;
const MIB: &str = "1048576";

/// How load is put on one.
pub(crate) enum Way {
    /// By `lab`.
    Iscsi(Box<BenchConfig>),
    /// By fio.
    Fio(Place),
}

/// One that is measured.
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    pub(crate) way: Way,
    processes: Vec<u32>,
    /// Sparse files, parts of which may never have been written.
    devices: Vec<PathBuf>,
    /// What has to be on stable storage before the next one is measured.
    backing: Option<PathBuf>,
    /// Runs as long as it is here.
    _server: Option<Box<dyn Any>>,
}

impl Contestant {
    /// One of [`CONTESTANTS`], of so many bytes.
    pub(crate) fn new(demo: &Demo, name: &'static str, bytes: u64) -> Result<Self> {
        for volume in demo.file().volumes.iter() {
            demo.wait_until_settled(&volume.name)?;
        }
        match name {
            HOLDFAST => Self::holdfast(demo, name, VOLUME, &[demo.primary(VOLUME)?]),
            OTHER => Self::holdfast(demo, name, VOLUME, &[demo.secondary(VOLUME)?]),
            BOTH => {
                let nodes = [demo.primary(VOLUME)?, demo.secondary(VOLUME)?];
                Self::holdfast(demo, name, VOLUME, &nodes)
            }
            MEDIA => Self::holdfast(demo, name, MEDIA_VOLUME, &[demo.primary(MEDIA_VOLUME)?]),
            DIRECT | DSYNC => Self::file(demo, name, bytes),
            CEPH => Self::ceph(demo, bytes),
            _ => Self::tgt(demo, name, bytes),
        }
    }

    /// A volume of the demo, by a session with each of these nodes.
    fn holdfast(demo: &Demo, name: &'static str, volume: &str, through: &[String]) -> Result<Self> {
        let portals = through.iter();
        let portals = portals.map(|node| Ok(demo.file().node(node)?.portal));
        let nodes = demo.file().nodes.iter();
        let mut processes: Vec<u32> = nodes.map(|node| node.pid).collect();
        processes.push(demo.parent_pid()?);
        Ok(Self {
            name,
            way: Way::Iscsi(Box::new(BenchConfig {
                portals: portals.collect::<Result<_>>()?,
                sessions: through.len(),
                ..demo.bench_config(volume, HOST)?
            })),
            processes,
            devices: demo
                .node_names()
                .iter()
                .map(|node| demo.device(node))
                .collect(),
            backing: None,
            _server: None,
        })
    }

    /// A tgt of one of the names above, on a file of the demo's scratch directory that all of them share: they are measured one
    /// after the other.
    fn tgt(demo: &Demo, name: &'static str, bytes: u64) -> Result<Self> {
        let directory = demo.scratch("tgt");
        let backing = directory.join("volume");
        reserve(&backing, bytes)?;
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
        let bench = BenchConfig {
            target: IscsiName::parse(TARGET)?,
            lun: Lun::from_number(LUN),
            portals: vec![portal],
            region_bytes: bytes,
            // tgt leaves ExpDataSN zero.
            counts_data: false,
            ..demo.bench_config(VOLUME, HOST)?
        };
        Ok(Self {
            name,
            way: Way::Iscsi(Box::new(bench)),
            processes: vec![tgt.pid()],
            devices: Vec::new(),
            backing: Some(backing),
            _server: Some(Box::new(tgt)),
        })
    }

    /// A file of the demo's scratch directory, with nobody in between.
    fn file(demo: &Demo, name: &'static str, bytes: u64) -> Result<Self> {
        let backing = demo.scratch("file").join("volume");
        reserve(&backing, bytes)?;
        Ok(Self {
            name,
            way: Way::Fio(Place::file(&backing, bytes, name == DSYNC)),
            processes: Vec::new(),
            devices: Vec::new(),
            backing: Some(backing),
            _server: None,
        })
    }

    /// Ceph in the demo's scratch directory.
    fn ceph(demo: &Demo, bytes: u64) -> Result<Self> {
        let ceph = Ceph::start(&demo.scratch("ceph"), bytes)?;
        Ok(Self {
            name: CEPH,
            way: Way::Fio(Place::ceph(&ceph)),
            processes: ceph.processes(),
            devices: Vec::new(),
            backing: None,
            _server: Some(Box::new(ceph)),
        })
    }

    /// Whether a load says something of it that it says of no other one.
    pub(crate) fn takes_part_in(&self, workload: &Workload) -> bool {
        let reads_only = workload.reads == 100;
        match self.name {
            // Anything else would be in memory after a while; also what is read in order, unless that is small.
            MEDIA => {
                let is_kept = workload.bytes <= KEPT_READ_BYTES_MAX && !workload.sequential;
                reads_only && !is_kept
            }
            DIRECT => reads_only,
            DSYNC => !reads_only,
            // One command at a time takes one path.
            BOTH => workload.depth > 1,
            _ => true,
        }
    }

    /// Whether all of it is read once before it is measured, so that it may be in memory.
    pub(crate) fn may_be_in_memory(&self) -> bool {
        ![MEDIA, DIRECT, DSYNC].contains(&self.name)
    }

    /// The room that its devices take of the file system by now, in bytes; none for those that have theirs from the start.
    pub(crate) fn device_bytes_taken(&self) -> Result<u64> {
        let taken = self.devices.iter().map(|path| {
            let blocks = fs::metadata(path)
                .with_context(|| path.display().to_string())?
                .blocks();
            Ok(blocks * STAT_BLOCK_BYTES)
        });
        taken.sum()
    }

    /// What all its processes have had of processors so far; none if it has no processes.
    pub(crate) fn processor_time(&self) -> Result<Option<Duration>> {
        let times = self.processes.iter().map(|pid| processor_time(*pid));
        let all: Duration = times.sum::<Result<_>>()?;
        Ok((!self.processes.is_empty()).then_some(all))
    }

    /// What all its processes have had read from disks so far.
    pub(crate) fn bytes_read(&self) -> Result<u64> {
        let bytes = self.processes.iter().map(|pid| bytes_read(*pid));
        bytes.sum()
    }

    /// Leaves nothing to be written while others are measured.
    pub(crate) fn settle(&self) -> Result<()> {
        if let Some(backing) = &self.backing {
            File::open(backing)?.sync_all()?;
        }
        Ok(())
    }
}

/// The volumes that the demo is to have.
pub(crate) fn volumes(contestants: &[&str], size: ByteSize) -> Vec<&'static str> {
    let mut volumes = vec![VOLUME];
    if contestants.contains(&MEDIA) {
        volumes.push(MEDIA_VOLUME);
    }
    let leaked = |name| -> &'static str { format!("{name}:{size}:mirror{COPIES}").leak() };
    volumes.into_iter().map(leaked).collect()
}

/// How large each of the demo's devices is to be: as many copies of its volumes as one of the nodes has at least, a quarter more, and room
/// for the journals. A volume of no more than a slice is in one piece, so that two of them with two copies each meet on one of three nodes. They
/// are written all around before anything is measured.
pub(crate) fn device_size(contestants: &[&str], size: ByteSize) -> &'static str {
    let copies = volumes(contestants, size).len() as u64 * COPIES;
    let bytes = copies.div_ceil(NODES) * size.0 * 5 / 4 + JOURNALS_ROOM;
    ByteSize(bytes.next_multiple_of(1 << 20)).to_string().leak()
}

/// Finds out before anything is filled whether the file system has room for all, and a tenth of that for what they write beside.
///
/// # Errors
/// It has not.
pub(crate) fn check_room(directory: &Path, contestants: &[&str], bytes: u64) -> Result<()> {
    let has = |names: &[&str]| names.iter().any(|name| contestants.contains(name));
    let device: ByteSize = device_size(contestants, ByteSize(bytes)).parse()?;
    let shares = [
        (true, NODES * device.0),
        (has(&[CACHED, DURABLE, TUNED]), bytes),
        (has(&[DIRECT, DSYNC]), bytes),
        (has(&[CEPH]), ceph::room(bytes)),
    ];
    let shares = shares.into_iter().filter(|(is_there, _)| *is_there);
    let needed = shares.map(|(_, share)| share).sum::<u64>() * 11 / 10;
    let system = rustix::fs::statvfs(directory)?;
    let free = system.f_bavail * system.f_frsize;
    ensure!(
        free >= needed,
        "{} has {free} bytes free, and {needed} are needed: fewer contestants (--with), or a smaller --size",
        directory.display()
    );
    Ok(())
}

/// A file that has the room for all that is written to it.
fn reserve(path: &Path, bytes: u64) -> Result<()> {
    let directory = path.parent().context("a file is in a directory")?;
    fs::create_dir_all(directory)?;
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)?;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)
        .with_context(|| format!("reserve the room of {}", path.display()))
}
