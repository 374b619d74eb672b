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
/// What does not count before each measurement.
const WARM_UP: Duration = Duration::from_secs(1);

/// Writes all of it once.
pub(crate) fn fill(runtime: &Runtime, contestant: &Contestant) -> Result<()> {
    let config = BenchConfig {
        command_bytes: FILL_BYTES,
        depth: FILL_DEPTH,
        ..contestant.bench()?
    };
    let filled = runtime.block_on(bench::fill(config));
    filled.with_context(|| format!("fill {}", contestant.name))?;
    contestant.settle()
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
