//! Load by hand, against any iSCSI target:
//!
//! ```text
//! cargo run --release -p holdfast-lab --example load -- verify SECONDS TARGET PORTAL...
//! cargo run --release -p holdfast-lab --example load -- bench SECONDS TARGET PORTAL...
//! ```
//!
//! `verify` overwrites parts of unit 0 of the target and says whether they hold what they must;
//! `bench` overwrites its first GiB and counts. Data that matters has no place on that unit.
#![allow(clippy::print_stdout, reason = "this is what an example is for")]

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use holdfast_lab::bench::{self, BenchConfig};
use holdfast_lab::verify::{
    Layout, Ledger, LoadConfig, VerifiedLoad, clear_everything, verify_everything,
};
use holdfast_lab::{DiskConfig, IscsiName, Lun, MultipathDisk};

const USAGE: &str = "usage: load verify|bench SECONDS TARGET PORTAL...";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, seconds, target, portals @ ..] = arguments.as_slice() else {
        return Err(USAGE.into());
    };
    let duration = Duration::from_secs(seconds.parse()?);
    let initiator = IscsiName::parse("iqn.2026-11.example.holdfast:load")?;
    let target = IscsiName::parse(target)?;
    let portals: Vec<SocketAddr> = portals
        .iter()
        .map(|it| it.parse())
        .collect::<Result<_, _>>()?;
    let disk = DiskConfig::new(initiator, target, portals);
    match mode.as_str() {
        "verify" => verify(disk, duration).await,
        "bench" => measure(disk, duration).await,
        _ => Err(USAGE.into()),
    }
}

async fn verify(config: DiskConfig, duration: Duration) -> Result<(), Box<dyn Error>> {
    let disk = Arc::new(MultipathDisk::open(config).await?);
    let capacity = disk.capacity();
    let layout = Layout::spread(capacity.bytes(), capacity.block_length, 8 << 20, 9, 1);
    let mut ledger = Ledger::new(1, layout);
    clear_everything(&disk, &mut ledger).await?;
    let load = VerifiedLoad::start(Arc::clone(&disk), ledger, LoadConfig::default());
    tokio::time::sleep(duration).await;
    let (report, mut ledger) = load.stop().await;
    print!("{report}");
    let sectors = verify_everything(&disk, &mut ledger, 0).await?;
    println!("{sectors} sectors read again: right");
    Ok(())
}

async fn measure(config: DiskConfig, duration: Duration) -> Result<(), Box<dyn Error>> {
    let disk = MultipathDisk::open(config.clone()).await?;
    let capacity = disk.capacity();
    for reads_percent in [100, 0, 70] {
        let report = bench::run(BenchConfig {
            initiator: config.initiator.clone(),
            target: config.target.clone(),
            lun: Lun::from_number(0),
            counts_data: config.counts_data,
            portals: config.portals.clone(),
            sessions: config.portals.len(),
            depth: 16,
            command_bytes: 4096,
            block_length: capacity.block_length,
            reads_percent,
            region_bytes: capacity.bytes().min(1 << 30),
            sequential: false,
            warm_up: Duration::from_secs(1),
            duration,
            seed: 1,
        })
        .await?;
        println!(
            "{reads_percent} % reads: {:.0} commands/s, {:.1} MB/s, {}",
            report.commands_per_second(),
            report.megabytes_per_second(),
            report.latencies()
        );
    }
    Ok(())
}
