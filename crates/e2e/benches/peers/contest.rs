//! Measuring in turn: A B A B …, each time after a moment that does not count.

use std::time::Duration;

use anyhow::{Context, Result};
use holdfast_e2e::process::processor_time;
use holdfast_lab::bench::{self, BenchConfig, BenchReport};
use tokio::runtime::Runtime;

use crate::contestants::Contestant;
use crate::report::Sample;
use crate::workloads::Workload;

/// Bytes of a command, and commands under way, while a volume is filled.
const FILL_BYTES: u32 = 256 << 10;
const FILL_DEPTH: usize = 8;
/// Bytes of a command while it is read through once: no more than what Holdfast takes for a read that may be repeated.
const SWEEP_BYTES: u32 = 32 << 10;
/// What does not count before each measurement.
const WARM_UP: Duration = Duration::from_secs(1);

/// Writes all of it once, and reads all of it, so that what may be in memory is: peers have there what was written.
pub(crate) fn fill(runtime: &Runtime, contestant: &Contestant) -> Result<()> {
    let config = BenchConfig {
        command_bytes: FILL_BYTES,
        depth: FILL_DEPTH,
        reads_percent: 0,
        ..contestant.bench()?
    };
    let reads = BenchConfig {
        command_bytes: SWEEP_BYTES,
        reads_percent: 100,
        ..config.clone()
    };
    let filled = runtime.block_on(bench::sweep(config));
    filled.with_context(|| format!("fill {}", contestant.name))?;
    contestant.settle()?;
    let read = runtime.block_on(bench::sweep(reads));
    read.with_context(|| format!("read all of {}", contestant.name))
}

/// One measurement.
pub(crate) fn measure(
    runtime: &Runtime,
    contestant: &Contestant,
    workload: &Workload,
    duration: Duration,
    seed: u64,
) -> Result<Sample> {
    let config = BenchConfig {
        command_bytes: workload.bytes,
        depth: workload.depth,
        reads_percent: workload.reads,
        sequential: workload.sequential,
        seed,
        ..contestant.bench()?
    };
    let run = |duration| -> Result<BenchReport> {
        let config = BenchConfig {
            duration,
            ..config.clone()
        };
        let report = runtime.block_on(bench::run(config));
        report.with_context(|| format!("measure {} of {}", workload.name, contestant.name))
    };
    run(WARM_UP)?;
    let before = contestant.processor_time()?;
    let own_before = processor_time(std::process::id())?;
    let report = run(duration)?;
    let server_time = contestant.processor_time()?.saturating_sub(before);
    let client_time = processor_time(std::process::id())?.saturating_sub(own_before);
    contestant.settle()?;
    Ok(Sample::new(&report, server_time, client_time))
}
