//! Measuring in turn: A B A B …, each time after a moment that does not count.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use holdfast_e2e::process::processor_time;
use holdfast_lab::bench::{self, BenchConfig};
use tokio::runtime::Runtime;

use crate::contestants::{Contestant, KEPT_READ_BYTES_MAX, MEDIA, Way};
use crate::fio;
use crate::report::{Measured, Sample};
use crate::workloads::Workload;

/// Commands under way while a volume is filled, or read through.
const SWEEP_DEPTH: usize = 8;
/// Bytes of a command while it is filled. Half a page goes through the nodes' journals, so that these have been written all around.
const FILL_BYTES: u32 = 128 << 10;
/// What goes to free slots, and not through the journals.
const PAGE_BYTES: u32 = 256 << 10;
/// More times around would be needed if devices were much larger than what they are to hold.
const SWEEPS_MAX: u32 = 16;
/// What does not count before each measurement.
const WARM_UP: Duration = Duration::from_secs(1);
/// Of 100 bytes that are told to come from the media so many are read from there, at least: what is in the journal is in memory, too.
const MEDIA_PERCENT_MIN: u64 = 95;

/// Writes all of it, and reads all of it, so that what may be in memory is: peers have there what was written.
pub(crate) fn fill(runtime: &Runtime, contestant: &Contestant) -> Result<()> {
    go_around(runtime, contestant)?;
    sweep(runtime, contestant, FILL_BYTES, 0)
        .with_context(|| format!("fill {}", contestant.name))?;
    contestant.settle()?;
    if contestant.may_be_in_memory() {
        // In pieces that Holdfast takes for what may be read again.
        sweep(runtime, contestant, KEPT_READ_BYTES_MAX, 100)
            .with_context(|| format!("read all of {}", contestant.name))?;
    }
    Ok(())
}

/// Has every place of its devices written once, as peers' files are when they have been filled. Devices are sparse files, and the first
/// write to a place costs what a disk knows nothing of: the file system finds room, and has that on stable storage as well.
fn go_around(runtime: &Runtime, contestant: &Contestant) -> Result<()> {
    let mut before = 0;
    for _ in 0..SWEEPS_MAX {
        let now = contestant.device_bytes_taken()?;
        if now <= before + before / 100 {
            return Ok(());
        }
        before = now;
        sweep(runtime, contestant, PAGE_BYTES, 0)
            .with_context(|| format!("write the devices of {} all around", contestant.name))?;
    }
    bail!(
        "after {SWEEPS_MAX} times of writing all of {} its devices still take more room",
        contestant.name
    );
}

/// One command at each place.
fn sweep(runtime: &Runtime, contestant: &Contestant, bytes: u32, reads: u64) -> Result<()> {
    match &contestant.way {
        Way::Iscsi(bench) => {
            let config = BenchConfig {
                command_bytes: bytes,
                depth: SWEEP_DEPTH,
                reads_percent: reads,
                ..(**bench).clone()
            };
            runtime.block_on(bench::sweep(config))?;
        }
        Way::Fio(place) => {
            place.run(fio::Load {
                bytes,
                reads,
                sequential: true,
                depth: SWEEP_DEPTH,
                seed: 1,
                duration: None,
            })?;
        }
    }
    Ok(())
}

/// One measurement.
pub(crate) fn measure(
    runtime: &Runtime,
    contestant: &Contestant,
    workload: &Workload,
    duration: Duration,
    seed: u64,
) -> Result<Sample> {
    let run = |duration| {
        let measured = run(runtime, contestant, workload, duration, seed);
        measured.with_context(|| format!("measure {} of {}", workload.name, contestant.name))
    };
    run(WARM_UP)?;
    let (before, read_before) = (contestant.processor_time()?, contestant.bytes_read()?);
    let mut measured = run(duration)?;
    let after = contestant.processor_time()?;
    let times = after.zip(before);
    measured.server_time = times.map(|(after, before)| after.saturating_sub(before));
    if contestant.name == MEDIA {
        let read = contestant.bytes_read()? - read_before;
        let told = measured.commands * u64::from(workload.bytes);
        ensure!(
            read >= told / 100 * MEDIA_PERCENT_MIN,
            "of {told} bytes that {} answered only {read} came from its devices",
            contestant.name
        );
    }
    contestant.settle()?;
    Ok(Sample::new(&measured))
}

fn run(
    runtime: &Runtime,
    contestant: &Contestant,
    workload: &Workload,
    duration: Duration,
    seed: u64,
) -> Result<Measured> {
    match &contestant.way {
        Way::Iscsi(bench) => {
            let config = BenchConfig {
                command_bytes: workload.bytes,
                depth: workload.depth / bench.sessions,
                reads_percent: workload.reads,
                sequential: workload.sequential,
                duration,
                seed,
                ..(**bench).clone()
            };
            let before = processor_time(std::process::id())?;
            let report = runtime.block_on(bench::run(config))?;
            let client_time = processor_time(std::process::id())?.saturating_sub(before);
            Ok(Measured {
                client_time,
                ..Measured::from(&report)
            })
        }
        Way::Fio(place) => place.run(fio::Load {
            bytes: workload.bytes,
            reads: workload.reads,
            sequential: workload.sequential,
            depth: workload.depth,
            seed,
            duration: Some(duration),
        }),
    }
}
